"""Checks of the state behind the responses: deliveries, received callbacks, balances, lists and the clock."""

from __future__ import annotations

from typing import Any

import orjson

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.records import Attempt, Charge, Delivery, StaticCharge
from leyden.harness.model.rules import iso
from leyden.harness.session.session import Session

_DELIVERY = "callback-delivery"
_PAGE = 1_000


def check_everything(session: Session) -> None:
    """Check every resource, delivery, list and balance of all projects, and the clock. Raises `ContractViolation`."""
    for resource in session.model.ledger.resources:
        session.check_resource(resource)
    if session.target.controlled:
        for host in session.model.outbox.receivers:
            check_received_requests(session, host)
        _check_deliveries(session)
        _check_clock(session)
    for project in session.projects:
        _check_lists(session, project)
        check_wallet(session, project)


def _check_lists(session: Session, project: str) -> None:
    """The lists of a project have its resources, newest first, and no others [lists]."""
    ledger = session.model.ledger
    kinds: tuple[tuple[str, str, list[Charge] | list[StaticCharge]], ...] = (
        ("listCharges", "/v0/charges", [one for one in ledger.charges.values() if one.project == project]),
        (
            "listStaticCharges",
            "/v0/static-charges",
            [one for one in ledger.static_charges.values() if one.project == project],
        ),
    )
    for operation, path, resources in kinds:
        expected = [one.resource() for one in resources[::-1]]
        data: list[Any] = []
        after: str | None = ""
        # Stop after the expected number of resources: the list of a defective service may have no end.
        while after is not None and len(data) <= len(expected):
            response = session.request(operation, f"{path}?limit={_PAGE}{after and f'&after={after}'}", key=project)
            page = checks.success(response, "lists", f"list {operation} of {project}")
            if not isinstance(page, list):
                raise ContractViolation("lifecycle", "lists", f"{operation} of {project}", "a list", page)
            data += page
            after = response.json.get("next") if page else None
        if data != expected:
            observed = [one.get("id") if isinstance(one, dict) else one for one in data]
            ids = [one["id"] for one in expected]
            if observed != ids:
                raise ContractViolation("isolation", "lists", f"{operation} of {project}", ids, observed)
            for one, other in zip(expected, data, strict=True):
                checks.same(one, other, "echo", "lists", f"{operation} of {project}")


def _check_deliveries(session: Session) -> None:
    """There is each expected delivery and no other, and each receiver has counted the expected requests."""
    outbox = session.model.outbox
    rows = session.control_ok("GET", "/deliveries")
    expected = sorted((one.charge.id or "", one.event) for one in outbox.deliveries)
    observed = sorted((row["chargeId"], row["event"]) for row in rows)
    if expected != observed:
        extra = [one for one in observed if one not in expected] or [one for one in expected if one not in observed]
        where = f"callbacks: {extra}"
        raise ContractViolation("callback_contract", _DELIVERY, where, expected, observed)
    for row in rows:
        session.delivery_cache.setdefault(row["chargeId"], []).append(row)
    for charge in session.model.ledger.charges.values():
        if charge.delivery is not None:
            check_deliveries(session, charge)
    inboxes = {one["name"]: one["received"] for one in session.control_ok("GET", "/inboxes")}
    for name, receiver in outbox.receivers.items():
        where = f"number of callbacks to {name}"
        checks.same(len(receiver.received), inboxes.get(name, 0), "callback_contract", _DELIVERY, where)


def _check_clock(session: Session) -> None:
    observed = session.control_ok("GET", "/clock")["now"]
    checks.same(iso(session.model.now), observed, "lifecycle", "clock-range", "clock")


def check_wallet(session: Session, project: str) -> None:
    """The balance of a project is the sum of its settled payments [wallet]."""
    data = checks.success(session.request("getWallet", "/v0/wallet", key=project), "wallet", "wallet")
    expected = {"unit": "msats", "balance": str(session.model.ledger.balances.get(project, 0))}
    checks.same(expected, data, "lifecycle", "wallet", f"wallet of {project}")


def check_deliveries(session: Session, charge: Charge) -> None:
    """The delivery about a Charge, if there is one, has the expected members and attempts."""
    if not session.target.controlled:
        return
    rows = session.delivery_rows(charge)
    delivery = charge.delivery
    where = f"callbacks of {charge.label}"
    if len(rows) != (delivery is not None):
        events = [row["event"] for row in rows]
        raise ContractViolation(
            "callback_contract", _DELIVERY, where, "none" if delivery is None else f"one {delivery.event}", events
        )
    if delivery is None:
        return
    row = rows[0]
    if delivery.id is None:
        delivery.id, delivery.text = row["id"], row["body"]
        checks.same(delivery.body, parsed(row["body"]), "callback_contract", "callback-body", where)
    expected = {
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
    checks.same(expected, {name: row.get(name) for name in expected}, "callback_contract", _DELIVERY, where)
    _check_attempts(delivery, row["attempts"], where)


def _check_attempts(delivery: Delivery, observed: list[dict[str, Any]], where: str) -> None:
    for number in range(max(len(observed), len(delivery.attempts))):
        if number >= len(observed) or number >= len(delivery.attempts):
            none = "no attempt"
            expected: Any = none if number >= len(delivery.attempts) else _attempt(delivery.attempts[number])
            found = none if number >= len(observed) else observed[number]
            raise ContractViolation("callback_contract", _DELIVERY, f"{where}, attempt {number + 1}", expected, found)
        attempt = _attempt(delivery.attempts[number])
        found = {name: observed[number].get(name) for name in attempt}
        checks.same(attempt, found, "callback_contract", _DELIVERY, f"{where}, attempt {number + 1}")


def _attempt(one: Attempt) -> dict[str, Any]:
    """The attempt as the control plane must show it."""
    ended = one.ended_at is not None and one.error != "lost"
    latency = {"latencyMs": one.latency_ms if ended else 0}
    if one.error == "blocked":
        latency = {}  # the real time that the check of the address took
    return {
        "number": one.number,
        "dueAt": iso(one.due_at),
        "at": iso(one.at),
        "answeredAt": None if one.ended_at is None else iso(one.ended_at),
        "status": one.status,
        "error": one.error,
        "fault": one.fault,
        **latency,
    }


def check_received_requests(session: Session, host: str) -> None:
    """The callbacks that a receiver got since the last check."""
    if not session.target.controlled:
        return
    expected = session.model.outbox.receivers[host].received
    before = session.checked_requests.get(host, 0)
    received = session.control_ok("GET", f"/inboxes/{host}?after={before}&limit=1000")["posts"]
    where = f"callbacks to {host}"
    if len(received) != len(expected) - before:
        expected_texts = [f"{iso(one.at)} {one.delivery.event} attempt {one.number}" for one in expected[before:]]
        observed_texts = [f"{one['at']} {one['event']} attempt {one['attempt']}" for one in received]
        raise ContractViolation("callback_contract", _DELIVERY, where, expected_texts, observed_texts)
    for request, one in zip(received, expected[before:], strict=True):
        checks.received_request(request, one, f"{where}, {one.delivery.event} of {one.delivery.charge.label}")
    session.checked_requests[host] = len(expected)


def parsed(text: Any) -> Any:
    """The JSON value of a text; the text itself if it is not JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
