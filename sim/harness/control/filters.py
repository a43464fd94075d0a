"""The meaning of the filters of the lists, read from the words of the document, and values for them, drawn from
rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from leyden.harness.control.documents import ControlList
from leyden.harness.model.dates import instant_of
from leyden.lightning.bolt11.codec import decode

Row = Mapping[str, Any]


class Rows(Protocol):
    """The data that a filter may need in addition to the row."""

    def rows(self, operation: str) -> Sequence[Row]:
        """Every row of another list."""

    def details(self, operation: str, row: Row) -> Row:
        """The answer of the operation that reads one row of a list."""

    def lower_texts(self, operation: str, row: Row) -> tuple[str, ...]:
        """The texts of a row of a list in which a search looks, in lower case."""

    def children(self, static_id: str) -> frozenset[str]:
        """The ids of the Charges of a Static Charge."""


Meaning = Callable[[Rows, Row, str], bool]
CHARGES, STATICS = "listSandboxCharges", "listSandboxStaticCharges"
# What a text is searched in, by the words of the document: members of a row, those of objects in it with a dot.
_SEARCHED: Mapping[str, tuple[str, ...]] = {
    CHARGES: ("id", "description", "internalId", "callbackUrl", "invoice.request"),
    STATICS: ("invoice.request", "id", "description", "internalId", "callbackUrl", "successMessage"),
    "listNetworkNodes": ("name", "publicKey"),
    "listPayments": ("id", "paymentHash", "request"),
    "listDeliveries": ("id", "chargeId", "url", "event"),
}


def meaning_of(of: ControlList, name: str) -> Meaning | None:
    """The meaning of a parameter. None for words that are not known here."""
    text, members = of.filters[name]["description"], of.row["properties"]
    bound = re.search(r"whose `(\w+)` is (this time or later|before this time)", text)
    if bound is not None:
        member, later = bound[1], bound[2] != "before this time"
        return lambda _, row, value: (instant_of(row[member]) >= instant_of(value)) is later  # type: ignore[operator]
    if not text.startswith("Only"):
        return None
    if "with this text in" in text:
        return lambda rows, row, value: has_text(rows, of.name, row, value)
    if "`4xx`" in text:
        return lambda _, row, value: value in _statuses(row[name])
    if "this Charge's invoice" in text:
        return _pays
    if "of this Static Charge" in text and name not in members:
        return lambda rows, row, value: row["id"] in rows.children(value)
    if "Static Charge" in text and name in members:
        return lambda rows, row, value: row[name] == value or row[name] in rows.children(value)
    if name in members:
        return lambda _, row, value: row[name] == value
    return None


@lru_cache(maxsize=4_096)
def payment_hash(request: str) -> str:
    """The payment hash of an invoice."""
    return decode(request).payment_hash.hex()


def _statuses(status: int | None) -> tuple[str, ...]:
    return ("none",) if status is None else (str(status), f"{status // 100}xx")


def _pays(rows: Rows, row: Row, value: str) -> bool:
    """Whether a payment is one of a Charge's invoice; one that was refused before it was sent has no hash."""
    charge = next((each for each in rows.rows(CHARGES) if each["id"] == value), None)
    if charge is None:
        return False
    if row["paymentHash"] is None:
        return bool(row["request"] == charge["invoice"]["request"])
    return bool(row["paymentHash"] == payment_hash(charge["invoice"]["request"]))


def has_text(rows: Rows, name: str, row: Row, value: str) -> bool:
    """Whether one of the texts of a row has this text, in upper or lower case."""
    sought = value.lower()
    if any(sought in text for text in rows.lower_texts(name, row)):
        return True
    charge_id = row["id"] if name == CHARGES else row.get("chargeId") if name == "listDeliveries" else None
    return any(sought in one["id"] and charge_id in rows.children(one["id"]) for one in rows.rows(STATICS))


def searched_texts(rows: Rows, name: str, row: Row) -> Iterator[str]:
    """The texts of a row in which a search looks."""
    if name == "listRequests":
        details = rows.details(name, row)
        yield from (row["path"], *(details[part]["body"] for part in ("request", "response") if details[part]))
        return
    for path in _SEARCHED[name]:
        value: Any = row
        for member in path.split("."):
            value = value.get(member) if isinstance(value, Mapping) else None
        if isinstance(value, str) and value:
            yield value
    if name == CHARGES:
        yield payment_hash(row["invoice"]["request"])


# Values

_SHIFTED = re.compile(r"[0-9a-zA-Z]")


def drawn(of: ControlList, name: str, row: Row, rows: Rows) -> list[str]:
    """The values of a parameter that belong to a row; empty without a row."""
    schema, text = of.filters[name]["schema"], of.filters[name]["description"]
    bound = re.search(r"whose `(\w+)`", text)
    if bound is not None:
        return [row[bound[1]]]
    if "with this text in" in text:
        texts = list(searched_texts(rows, of.name, row))
        return [part for text in texts for part in ((text,) if len(text) < 60 else (text[:40], text[-12:])) if part]
    if "`4xx`" in text:
        return [*_statuses(row[name])]
    if schema.get("format") == "uuid":
        own = row.get("chargeId") or (row["id"] if of.name in {CHARGES, STATICS} else None)
        if own is None and "paymentHash" in row:
            charges = rows.rows(CHARGES)
            own = next((each["id"] for each in charges if _pays(rows, row, each["id"])), None)
        parents = [each["id"] for each in rows.rows(STATICS) if own in rows.children(each["id"])]
        return [value for value in (own, *parents) if value]
    value = row.get(name)
    return [value] if isinstance(value, str) else []


def near_values(value: str) -> Iterator[tuple[str, str]]:
    """The value and near misses of it, each with its kind."""
    yield "same", value
    yield "other-case", value.swapcase()
    yield "upper-case", value.upper()
    yield "lower-case", value.lower()
    yield "first-half", value[: len(value) // 2]
    yield "second-half", value[len(value) // 2 :]
    yield "middle", value[len(value) // 3 : 2 * len(value) // 3]
    yield "without-last", value[:-1]
    yield "longer", f"{value}x"
    yield "blank-before", f" {value}"
    yield "blank-after", f"{value} "
    found = _SHIFTED.search(value, len(value) // 2)
    if found is not None:
        other = "1" if found[0] == "0" else "0"
        yield "one-off", f"{value[: found.start()]}{other}{value[found.end() :]}"
    yield "any-character", f"{value[:1]}_{value[2:]}"
    yield "any-text", f"{value[:-1]}%"
    yield "star", f"{value[:-1]}*"
    yield "empty", ""


def near_instants(value: str) -> Iterator[tuple[str, str]]:
    """The instant, the milliseconds beside it, and other ways to write it."""
    at = datetime.fromisoformat(value.replace("Z", "+00:00")).astimezone(UTC)
    for offset in (-1_000, -1, 0, 1, 1_000):
        when = at + timedelta(milliseconds=offset)
        yield f"{offset:+d}-ms", f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1_000:03d}Z"
    east = at + timedelta(hours=5, minutes=30)
    yield "offset", f"{east:%Y-%m-%dT%H:%M:%S}.{east.microsecond // 1_000:03d}+05:30"
    yield "fraction", f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1_000:03d}0001Z"
    yield "second", f"{at:%Y-%m-%dT%H:%M:%S}Z"
    yield "no-zone", f"{at:%Y-%m-%dT%H:%M:%S}"


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """The kinds of values for a parameter with this schema."""
    if schema.get("type") == "boolean":
        return ["true", "false"]
    if schema.get("format") == "date-time":
        return [kind for kind, _ in near_instants("2030-01-01T00:00:00.000Z")]
    return [kind for kind, _ in near_values("00aa")]


def value_of(kind: str, value: str, schema: Mapping[str, Any]) -> str:
    """The value of a kind for this drawn one."""
    pairs: Iterable[tuple[str, str]] = (
        near_instants(value) if schema.get("format") == "date-time" else near_values(value)
    )
    return dict(pairs).get(kind, value)
