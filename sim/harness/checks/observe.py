"""Looking at callbacks: every message about a Charge with its attempts, and every post as its receiver got it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import Broken
from leyden.harness.model.records import Attempt, Charge, Delivery
from leyden.harness.model.rules import iso

if TYPE_CHECKING:
    from leyden.harness.runs.run import Run

_CLAUSE = "DECISIONS callback-delivery"


def message_of(run: Run, delivery: Delivery) -> dict[str, Any]:
    """The message that the service has for a promised one."""
    rows = messages(run, delivery.charge)
    found: list[dict[str, Any]] = [row for row in rows if row["event"] == delivery.event]
    if not found:
        where, events = f"callbacks of {delivery.charge.label}", [row["event"] for row in rows]
        raise Broken("callback_contract", _CLAUSE, where, f"one {delivery.event}", events)
    return found[0]


def messages(run: Run, charge: Charge) -> list[Any]:
    """The messages about a Charge, read once a step."""
    assert charge.id is not None
    rows = run.rows.get(charge.id)
    if rows is None:
        rows = run.rows[charge.id] = run.controlled("GET", f"/deliveries?chargeId={charge.id}")
    return rows


def look_at_wallet(run: Run, project: str) -> None:
    """The balance is what arrived, to the millisatoshi."""
    data = checks.success(run.ask("getWallet", "/v0/wallet", key=project), "DECISIONS wallet", "wallet")
    promised = {"unit": "msats", "balance": str(run.model.book.balances.get(project, 0))}
    checks.same(promised, data, "lifecycle", "DECISIONS wallet", f"wallet of {project}")


def look_at_messages(run: Run, charge: Charge) -> None:
    """The messages about one Charge, with every attempt."""
    if not run.target.controlled:
        return
    rows = messages(run, charge)
    delivery = charge.delivery
    where = f"callbacks of {charge.label}"
    if len(rows) != (delivery is not None):
        events = [row["event"] for row in rows]
        raise Broken(
            "callback_contract", _CLAUSE, where, "none" if delivery is None else f"one {delivery.event}", events
        )
    if delivery is None:
        return
    row = rows[0]
    if delivery.id is None:
        delivery.id, delivery.text = row["id"], row["body"]
        checks.same(delivery.body, parsed(row["body"]), "callback_contract", "DECISIONS callback-body", where)
    promised = {
        "id": delivery.id,
        "chargeId": charge.id,
        "event": delivery.event,
        "url": delivery.url,
        "status": delivery.status,
        "sequence": 1,
        "createdAt": iso(delivery.created_at),
        "dueAt": None if delivery.due_at is None else iso(delivery.due_at),
        "replayedFrom": delivery.replayed_from,
        "body": delivery.text,
    }
    checks.same(promised, {name: row.get(name) for name in promised}, "callback_contract", _CLAUSE, where)
    _look_at_attempts(delivery, row["attempts"], where)


def _look_at_attempts(delivery: Delivery, seen: list[dict[str, Any]], where: str) -> None:
    for number in range(max(len(seen), len(delivery.attempts))):
        if number >= len(seen) or number >= len(delivery.attempts):
            none = "no such attempt"
            promised = none if number >= len(delivery.attempts) else _attempt(delivery.attempts[number])
            got = none if number >= len(seen) else seen[number]
            raise Broken("callback_contract", _CLAUSE, f"{where}, attempt {number + 1}", promised, got)
        wanted = _attempt(delivery.attempts[number])
        found = {name: seen[number].get(name) for name in wanted}
        checks.same(wanted, found, "callback_contract", _CLAUSE, f"{where}, attempt {number + 1}")


def _attempt(one: Attempt) -> dict[str, Any]:
    """An attempt as the control plane must show it."""
    ended = one.ended_at is not None and one.error != "lost"
    return {
        "number": one.number,
        "dueAt": iso(one.due_at),
        "at": iso(one.at),
        "answeredAt": None if one.ended_at is None else iso(one.ended_at),
        "status": one.status,
        "error": one.error,
        "latencyMs": one.latency_ms if ended else 0,
        "fault": one.fault,
    }


def look_at_posts(run: Run, host: str) -> None:
    """What a receiver got since we last looked."""
    if not run.target.controlled:
        return
    wanted = run.model.outbox.receivers[host].received
    before = run.posts.get(host, 0)
    got = run.controlled("GET", f"/inboxes/{host}?after={before}&limit=1000")["posts"]
    where = f"posts to {host}"
    if len(got) != len(wanted) - before:
        told = [f"{iso(one.at)} {one.delivery.event} attempt {one.number}" for one in wanted[before:]]
        came = [f"{one['at']} {one['event']} attempt {one['attempt']}" for one in got]
        raise Broken("callback_contract", _CLAUSE, where, told, came)
    for one, promised in zip(got, wanted[before:], strict=True):
        checks.post(one, promised, f"{where}, {promised.delivery.event} of {promised.delivery.charge.label}")
    run.posts[host] = len(wanted)


def parsed(text: Any) -> Any:
    """A body as JSON; itself when it is none."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
