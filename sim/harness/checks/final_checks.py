"""The last look: everything there is, compared with everything there should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.observe import look_at_messages, look_at_posts, look_at_wallet
from leyden.harness.checks.violations import Broken
from leyden.harness.model.records import Charge, Static
from leyden.harness.model.rules import iso

if TYPE_CHECKING:
    from leyden.harness.runs.run import Run

_PAGE = 1_000


def look_at_everything(run: Run) -> None:
    """Every resource, message, list and balance of both projects, and the clock. Raises `Broken`."""
    for thing in run.model.book.things:
        run.look(thing)
    if run.target.controlled:
        for host in run.model.outbox.receivers:
            look_at_posts(run, host)
        _look_at_messages(run)
        _look_at_clock(run)
    for project in run.projects:
        _look_at_lists(run, project)
        look_at_wallet(run, project)


def _look_at_lists(run: Run, project: str) -> None:
    """What belongs to the project, newest first, and nothing else [lists]."""
    book = run.model.book
    kinds: tuple[tuple[str, str, list[Charge] | list[Static]], ...] = (
        ("listCharges", "/v0/charges", [one for one in book.charges.values() if one.project == project]),
        ("listStaticCharges", "/v0/static-charges", [one for one in book.statics.values() if one.project == project]),
    )
    for operation, path, things in kinds:
        promised = [one.resource() for one in things[::-1]]
        data: list[Any] = []
        after: str | None = ""
        # No page more than what is promised fills: a list without an end is found, too.
        while after is not None and len(data) <= len(promised):
            answer = run.ask(operation, f"{path}?limit={_PAGE}{after and f'&after={after}'}", key=project)
            page = checks.success(answer, "DECISIONS lists", f"list {operation} of {project}")
            if not isinstance(page, list):
                raise Broken("lifecycle", "DECISIONS lists", f"{operation} of {project}", "a list", page)
            data += page
            after = answer.json.get("next") if page else None
        if data != promised:
            seen = [one.get("id") if isinstance(one, dict) else one for one in data]
            ids = [one["id"] for one in promised]
            if seen != ids:
                raise Broken("isolation", "DECISIONS lists", f"{operation} of {project}", ids, seen)
            for one, other in zip(promised, data, strict=True):
                checks.same(one, other, "echo", "DECISIONS lists", f"{operation} of {project}")


def _look_at_messages(run: Run) -> None:
    """No message that nobody promised, none missing, and each as it should be."""
    outbox = run.model.outbox
    rows = run.controlled("GET", "/deliveries")
    promised = sorted((one.charge.id or "", one.event) for one in outbox.deliveries)
    seen = sorted((row["chargeId"], row["event"]) for row in rows)
    if promised != seen:
        extra = [one for one in seen if one not in promised] or [one for one in promised if one not in seen]
        where = f"callbacks: {extra}"
        raise Broken("callback_contract", "DECISIONS callback-delivery", where, promised, seen)
    for row in rows:
        run.rows.setdefault(row["chargeId"], []).append(row)
    for charge in run.model.book.charges.values():
        if charge.delivery is not None:
            look_at_messages(run, charge)
    inboxes = {one["name"]: one["received"] for one in run.controlled("GET", "/inboxes")}
    for name, receiver in outbox.receivers.items():
        if inboxes.get(name, 0) != len(receiver.received):
            promised_count = len(receiver.received)
            raise Broken(
                "callback_contract",
                "DECISIONS callback-delivery",
                f"posts to {name}",
                promised_count,
                inboxes.get(name),
            )


def _look_at_clock(run: Run) -> None:
    seen = run.controlled("GET", "/clock")["now"]
    if seen != iso(run.model.now):
        raise Broken("lifecycle", "DECISIONS clock-range", "clock", iso(run.model.now), seen)
