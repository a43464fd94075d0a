"""Values drawn from what a run has: texts, ids, times and keys of its rows, and near misses of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.generators.run_config import RunConfig
from leyden.harness.model.model import Model
from leyden.harness.model.records import Charge, StaticCharge

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSETS = (0, 0, 330, -300, 1_439, -720)  # minutes
_STATES = {"statics": ("active", "disabled", "expired"), "charges": ("pending", "completed", "expired", "error")}


def near_miss(choices: Choices, text: str) -> str:
    """The text, or mostly one that is easy to take for it."""
    return pick(
        choices,
        (text, text.upper(), text.lower(), text.swapcase(), f" {text}", f"{text} ", f"{text}x", text[:-1],
         normalize("NFD", text), normalize("NFKC", text), text.replace(" ", "+"), text.replace("/", "%2F"), ""),
    )  # fmt: skip


def rows_of(model: Model, of: str) -> Sequence[Charge | StaticCharge]:
    """The rows of a list: charges, statics or children."""
    if of == "statics":
        return [*model.ledger.static_charges.values()]
    charges = model.ledger.charges.values()
    return [one for one in charges if of == "charges" or one.parent is not None]


def internal_id(choices: Choices, model: Model) -> str | None:
    """The internalId of a row or a near miss of it; None if no row has one."""
    texts = [one.internal_id for one in model.ledger.resources if one.internal_id]
    if not texts:
        return None
    text = pick(choices, texts)
    return text if choices.below(2) else near_miss(choices, text)[:255]


def time_text(choices: Choices, at_ms: int) -> str:
    """A time as RFC 3339 writes it, in UTC or with an offset."""
    minutes = pick(choices, _OFFSETS)
    text = (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(timezone(timedelta(minutes=minutes)))
    whole = at_ms % 1_000 == 0 and one_in(choices, 2)
    written = text.isoformat(timespec="seconds" if whole else "milliseconds")
    return written.replace("+00:00", "Z") if choices.below(2) else written


def filters(choices: Choices, model: Model, of: str) -> Mapping[str, Any]:
    """One or two filters that some rows match, or the rows beside them, and sometimes a limit."""
    rows = rows_of(model, of)
    found: dict[str, Any] = {}
    if choices.below(2):
        found["limit"] = pick(choices, (1, 2, 3, max(1, len(rows) - 1), max(1, len(rows)), len(rows) + 1, 1_000))
    for _ in range(choices.below(3)):
        match choices.below(4):
            case 0:
                states = [one.status for one in rows] or [*_STATES["statics" if of == "statics" else "charges"]]
                found["status"] = pick(choices, states)
            case 1:
                found["internalId"] = internal_id(choices, model) or "nobody"
            case _ if rows:
                at = pick(choices, rows).created_at + pick(choices, (-1_000, -1, 0, 0, 1, 1_000))
                found[pick(choices, ("createdAfter", "createdBefore"))] = time_text(choices, at)
    return found


def query_of(values: Mapping[str, Any]) -> str:
    """The values as a query."""
    return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in values.items())


def idempotency_key(choices: Choices, config: RunConfig) -> str | None:
    """An Idempotency-Key of an earlier request, or a near miss of it."""
    keys = [one["idempotency_key"] for one in config.idempotent_steps if one["idempotency_key"].isascii()]
    return near_miss(choices, pick(choices, keys)).strip() if keys else None


def changed_body(choices: Choices, body: Mapping[str, Any]) -> dict[str, Any]:
    """A body that is equal to another one, or nearly so."""
    match choices.below(5):
        case 0:
            return dict(reversed([*body.items()]))
        case 1:
            return {**body, "internalId": None}
        case 2:
            return {**body, "colour": "blue"}
        case 3:
            return {**body, "description": near_miss(choices, str(body.get("description", "")))}
        case _:
            return dict(body)


def texts_from_rows(choices: Choices, model: Model, body: dict[str, Any]) -> dict[str, Any]:
    """The body, sometimes with texts of rows that exist, so that filters match several rows."""
    if one_in(choices, 3):
        text = internal_id(choices, model)
        if text is not None:
            body["internalId"] = text
    if one_in(choices, 6) and model.ledger.resources:
        body["description"] = near_miss(choices, pick(choices, model.ledger.resources).description)[:639]
    return body
