"""Checks of the state behind the responses: deliveries, received callbacks, balances, lists and the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode

import orjson

from leyden.harness.checks import messages
from leyden.harness.checks import responses as checks
from leyden.harness.checks.clauses import same_resource
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.records import Attempt, Charge, Delivery, ReceivedRequest, StaticCharge
from leyden.harness.model.rules import iso
from leyden.harness.session.session import Session

_PAGE = 1_000
_READ_ONE_BY_ONE = 300
_LINKS, _FILTERS = 3, 6  # of a run, whose lists are read at its end
_ENOUGH, _RARE = 40, 1e-10  # retries for a statement about their jitter, and how often it is wrong
# Members of an attempt that are not compared: texts for people; headers and what a fault sent are by themselves.
_NOT_COMPARED = frozenset({"note", "sent", "headers"})


def check_everything(session: Session) -> None:
    """Check every resource, delivery, list and balance of all projects, and the clock. Raises `ContractViolation`."""
    every = session.model.ledger.resources
    # The lists show every resource, too: of many, only some are read by themselves.
    for resource in every if len(every) <= _READ_ONE_BY_ONE else every[:: len(every) // 50]:
        session.check_resource(resource)
    if session.target.controlled:
        for host in session.model.outbox.receivers:
            check_received_requests(session, host)
        _check_deliveries(session)
        _check_delivery_filters(session)
        now = session.control_ok("GET", "/clock")["now"]
        checks.same(iso(session.model.now), now, "lifecycle", "clock-range", "clock")
    check_jitter(session.retry_offsets)
    for project in session.projects:
        for operation, path, resources in (
            ("listCharges", "/v0/charges", session.charges_of(project)),
            ("listStaticCharges", "/v0/static-charges", session.statics_of(project)),
        ):
            check_list(session, operation, path, resources, {"limit": _PAGE}, project=project, check="isolation")
            _check_filters(session, operation, path, resources, project)
        for static in [one for one in session.statics_of(project) if one.children][:_LINKS]:
            path = f"/v0/static-charges/{static.id}/charges"
            check_list(session, "listStaticChargeCharges", path, static.children, {"limit": _PAGE}, project=project,
                       check="isolation")  # fmt: skip
        check_wallet(session, project)


def _check_filters(
    session: Session, operation: str, path: str, resources: Sequence[Charge | StaticCharge], project: str
) -> None:
    """A filter selects by the present values, not by earlier ones: each value that a row has or had is a filter."""
    values: dict[tuple[str, str], None] = {}
    for one in resources:
        values |= dict.fromkeys(("status", status) for _, _, status in one.history)
        if isinstance(one, StaticCharge):
            values |= dict.fromkeys(("internalId", text) for text in one.former_internal_ids)
        if one.internal_id is not None and len(values) < _FILTERS:
            values["internalId", one.internal_id] = None
    for name, text in values if len(resources) > 1 or len(values) > 1 else ():
        member = "status" if name == "status" else "internal_id"
        some = [one for one in resources if getattr(one, member) == text]
        check_list(session, operation, path, some, {"limit": _PAGE, name: text}, project=project, check="lifecycle")


def check_list(
    session: Session,
    operation: str,
    path: str,
    resources: Sequence[Charge | StaticCharge],
    query: Mapping[str, Any],
    *,
    project: str,
    check: str,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Read all pages: the list has these resources (oldest first) in the reverse order, and no others [lists].

    Other resources violate `check`. `between` is called after the first page.
    """
    expected = [one.resource() for one in reversed(resources)]
    limit = query.get("limit", 100)
    after: dict[str, Any] = {}
    where = f"list {operation} of {project}, {dict(query)}"
    for first in range(0, max(1, len(expected)), limit):
        response = session.request(operation, f"{path}?{urlencode({**query, **after})}", key=project)
        data, page = checks.success(response, "lists", where), expected[first : first + limit]
        if data != page:
            observed = (
                [one.get("id") if isinstance(one, dict) else one for one in data] if isinstance(data, list) else data
            )
            checks.same([one["id"] for one in page], observed, check, "lists", where)
            for one, other in zip(page, data, strict=True):
                same_resource(one, other, "echo", where)
        last, following = first + limit >= len(expected), response.json["next"]
        if (following is None) != last or not isinstance(following, str | None):
            raise ContractViolation("lifecycle", "lists", f"{where}: next", None if last else "a cursor", following)
        after = {"after": following}
        if first == 0:
            between()


def _check_deliveries(session: Session) -> None:
    """There is each expected delivery and no other, and each receiver has counted the expected requests."""
    outbox = session.model.outbox
    rows = session.control_list("/deliveries?bodies=true&limit=1000")
    expected = sorted((one.charge.id or "", one.event) for one in outbox.deliveries)
    observed = sorted((row["chargeId"], row["event"]) for row in rows)
    if expected != observed:
        extra = [one for one in observed if one not in expected] or [one for one in expected if one not in observed]
        where = f"callbacks: {extra}"
        raise ContractViolation("callback_contract", "callback-delivery", where, expected, observed)
    for row in rows:
        session.delivery_cache.setdefault(row["chargeId"], []).append(row)
    for charge in session.model.ledger.charges.values():
        if charge.delivery is not None:
            check_deliveries(session, charge)
    inboxes = {one["name"]: one["received"] for one in session.control_list("/inboxes?limit=1000")}
    for name, receiver in outbox.receivers.items():
        where = f"number of callbacks to {name}"
        checks.same(len(receiver.received), inboxes.get(name, 0), "callback_contract", "callback-delivery", where)


def _check_delivery_filters(session: Session) -> None:
    """The list of deliveries by each value that a filter may have: events, states, and the ids of Static Charges."""
    every = session.model.outbox.deliveries
    expected_ids: dict[tuple[str, str], set[str]] = {}
    for one in every:
        for name, value in (("event", one.event), ("status", one.status)):
            expected_ids.setdefault((name, value), set()).add(one.charge.id or "")
    for static in session.model.ledger.static_charges.values():
        notified = {one.charge.id or "" for one in every if one.charge in static.children}
        if notified and static.id is not None and len(expected_ids) < _LINKS + _FILTERS:
            expected_ids["chargeId", static.id] = notified
    for (name, value), expected in expected_ids.items():
        rows = session.control_list(f"/deliveries?{urlencode({name: value})}&limit=1000")
        where = f"deliveries with {name}={value}"
        checks.same(
            sorted(expected), sorted(row["chargeId"] for row in rows), "callback_contract", "control-plane", where
        )


def check_jitter(offsets: Sequence[float]) -> None:
    """The delays before retries are random, not all equal, and come near both bounds [callback-delivery].

    The required distance depends on their number: a correct service violates it once in 10^10 runs.
    """
    if len(offsets) < _ENOUGH:
        return
    rule, where = "callback-delivery", f"the jitter of {len(offsets)} retries"
    near = 2 * _RARE ** (1 / len(offsets)) - 1
    if min(offsets) > -near or max(offsets) < near or len({round(one, 6) for one in offsets}) < len(offsets) // 2:
        expected = f"different delays, from at most {-near:+.2f} to at least {near:+.2f} of the bound"
        observed = f"from {min(offsets):+.2f} to {max(offsets):+.2f}"
        raise ContractViolation("callback_contract", rule, where, expected, observed)


def check_wallet(session: Session, project: str) -> None:
    """The balance of a project is the sum of its settled payments [wallet]."""
    data = checks.success(session.request("getWallet", "/v0/wallet", key=project), "wallet", "wallet")
    expected = {"unit": "msats", "balance": str(session.model.ledger.balances[project])}
    checks.same(expected, data, "lifecycle", "wallet", f"wallet of {project}")


def check_deliveries(session: Session, charge: Charge) -> None:
    """The delivery about a Charge, if there is one, has the expected members and attempts."""
    if not session.target.controlled:
        return
    rows = session.delivery_rows(charge)
    delivery = charge.delivery
    where = f"callbacks of {charge.label}"
    events = [] if delivery is None else [delivery.event]
    checks.same(events, [row["event"] for row in rows], "callback_contract", "callback-delivery", where)
    if delivery is None:
        return
    row = rows[0]
    if delivery.id is None:
        delivery.id, delivery.text = row["id"], row["body"]
        if session.delivery_ids.setdefault(row["id"], charge) is not charge:
            raise ContractViolation(
                "callback_contract", "callback-signature", where, "a webhook-id of its own", row["id"]
            )
        checks.same(delivery.body, parsed(row["body"]), "callback_contract", "callback-body", where)
    waits_for_place = delivery.due_at is not None and delivery.due_at <= session.model.now
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
        "note": delivery.is_stopped_by_another or waits_for_place,
        "body": delivery.text,
    }
    observed = {name: value for name, value in row.items() if name != "attempts"} | {"note": bool(row["note"])}
    checks.same(expected, observed, "callback_contract", "callback-delivery", where)
    _check_attempts(session, delivery, row["attempts"], where)


def _check_attempts(session: Session, delivery: Delivery, observed: list[dict[str, Any]], where: str) -> None:
    for number, (one, row) in enumerate(zip_longest(delivery.attempts, observed), 1):
        place = f"{where}, attempt {number}"
        expected = None if one is None else _attempt(one)
        left_out = _NOT_COMPARED if one is None or one.error != "blocked" else {*_NOT_COMPARED, "latencyMs"}
        found = row and {name: value for name, value in row.items() if name not in left_out}
        checks.same(expected, found, "callback_contract", "callback-delivery", place)
        # What would have gone to a network is signed with the real time.
        if one is not None and not (one.error == "blocked" and session.target.network):
            messages.attempted(row, delivery, one, place)


def _attempt(one: Attempt) -> dict[str, Any]:
    """The attempt as the control plane must show it."""
    ended = one.ended_at is not None and one.error != "lost"
    latency = {"latencyMs": one.latency_ms if ended else None}
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
        "answer": one.answer,
        "answerHeaders": [[*pair] for pair in one.answer_headers],
        "answerHeadersLeftOut": one.headers_left_out,
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
        raise ContractViolation("callback_contract", "callback-delivery", where, expected_texts, observed_texts)
    due = expected[before:]
    if ("policy", "restart", "resumed") in session.reached:
        # Messages about different Charges are independent: after a restart those of one instant have any order.
        received = _in_order_of(due, received)
    for request, one in zip(received, due, strict=True):
        messages.received_request(request, one, f"{where}, {one.delivery.event} of {one.delivery.charge.label}")
    session.checked_requests[host] = len(expected)


def _in_order_of(due: Sequence[ReceivedRequest], received: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The requests that a receiver got in the order of those that are due: each at its instant by its id, and by its
    body where a fault has changed the id; what fits nowhere is at the places that are left, in its own order."""
    left = list(received)
    places: list[dict[str, Any] | None] = [None] * len(due)
    fits = (
        lambda one, wanted: one["headers"].get("webhook-id", "") == wanted.delivery.id,
        lambda one, wanted: one["body"] == wanted.delivery.text,
        lambda one, wanted: True,
    )
    for fit in fits:
        for place, wanted in enumerate(due):
            if places[place] is None:
                found = next((one for one in left if one["at"] == iso(wanted.at) and fit(one, wanted)), None)
                if found is not None:
                    places[place] = found
                    left.remove(found)
    return [left.pop(0) if one is None else one for one in places]


def parsed(text: Any) -> Any:
    """The JSON value of a text; the text itself if it is not JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
