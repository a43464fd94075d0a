"""Executors of steps with other steps in them: use a resource in every way, and kill the service within a step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.executors import lnurl, world
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.model.rules import instant
from leyden.harness.session.observe import check_list
from leyden.harness.session.session import Session
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.target import PROJECT, InProcess, Response

_LISTS = {Charge: ("listCharges", "/v0/charges"), StaticCharge: ("listStaticCharges", "/v0/static-charges")}
_WEEK = "7d"
_MOST = 12  # kills within a step

Send = Callable[[str, str], Response]


def follow(session: Session, step: Step) -> None:
    """{"do": "follow", "what": "c1"}: use a resource in every way in which a value of it can be seen: its list, its
    LNURL, its Lightning address, an invoice, a payment with its callback, the proof. Without effect if the request
    before it was refused."""
    ledger, label = session.model.ledger, step["what"]
    resource = ledger.charges.get(label) or ledger.static_charges.get(label)
    refused = session.exchanges and session.exchanges[-1].response.status != 200
    if resource is None or resource.id is None or resource.project != PROJECT or refused:
        return
    if session.target.network and not _is_built_in(resource.callback_url):
        return
    if resource.internal_id is not None:
        _find(session, resource, resource.internal_id)
    name = f"{label}-{len(ledger.payments)}"
    with suppress(StepImpossible):
        if isinstance(resource, Charge):
            world.pay(session, {"do": "pay", "as": f"{name}-paid", "charge": label})
            return
        lnurl.pay_request(session, {"do": "pay_request", "static": label})
        if resource.identifier:
            lnurl.pay_request(session, {"do": "pay_request", "static": label, "address": True})
        for amount in dict.fromkeys((resource.min_msat, resource.max_msat)):
            child = f"{name}-{amount}"
            lnurl.invoice(session, {"do": "invoice", "static": label, "as": child, "amount": str(amount)})
            if child in ledger.charges and amount == resource.min_msat:
                world.pay(session, {"do": "pay", "as": f"{child}-paid", "charge": child})
                lnurl.verify(session, {"do": "verify", "charge": child})


def _is_built_in(url: str | None) -> bool:
    return not url or (urlsplit(url).hostname or "").rstrip(".").endswith(".localhost")


def _find(session: Session, resource: Charge | StaticCharge, text: str) -> None:
    operation, path = _LISTS[type(resource)]
    rows = session.charges_of(PROJECT) if isinstance(resource, Charge) else session.statics_of(PROJECT)
    some = [one for one in rows if one.internal_id == text]
    check_list(session, operation, path, some, {"limit": 1_000, "internalId": text}, project=PROJECT, check="lifecycle")


def crash(session: Session, step: Step) -> None:
    """{"do": "crash", "steps": [step]}: do a step, and look at the state that a kill after each of its commits would
    leave. It is the state before the step or the state after it, and nothing between them; for an advance this holds
    for each Charge with its callback. A repeated request with an Idempotency-Key leads to the state after the step.
    Stored callbacks are then sent, and due events run."""
    target = session.target
    if not session.disk or not isinstance(target, InProcess):
        raise StepImpossible("the target cannot be killed within a step")

    def read(method: str, path: str) -> Response:
        return session.send(method, path, [("apikey", target.keys[PROJECT])], b"")

    before, size, known = _state(read), target.journal_size, len(session.requests)
    session.do_within(step["steps"][0])
    after = _state(read)
    keyed = [one for one in session.requests[known:] if any(name == "Idempotency-Key" for name, _ in one.headers)]
    compare = _between if step["steps"][0]["do"] == "advance" else _same
    for number, image in enumerate(islice(target.images(size), _MOST)):
        where = f"killed after {number} commits of the step"
        found = _state(_sender(image))
        if found != before:
            compare(before, after, found, where)
        for request in keyed:  # whoever got no answer sends the request again
            image.send(*request)
            _same(before, after, _state(_sender(image)), f"{where}, then repeated")
        image.sandbox.advance(_WEEK)
        _check_ends(image, where)


def _sender(target: InProcess) -> Send:
    return lambda method, path: target.send(method, path, [("apikey", target.keys[PROJECT])], b"")


def _state(send: Send) -> dict[str, Any]:
    """The state that a client sees: the resources, the balance, and the callbacks without their attempts."""
    found: dict[str, Any] = {}
    for path in ("/v0/charges", "/v0/static-charges", "/sandbox/v1/deliveries"):
        query = {"limit": 1_000, **({"bodies": "true"} if path.endswith("deliveries") else {})}
        rows = (send("GET", f"{path}?{urlencode(query)}").json or {}).get("data", [])
        if path.endswith("deliveries"):
            rows = [[row["chargeId"], row["event"], row["url"], row["createdAt"], row["body"]] for row in rows]
        found[path] = rows
    found["balance"] = send("GET", "/v0/wallet").json["data"]
    return found


def _same(before: dict[str, Any], after: dict[str, Any], found: dict[str, Any], where: str) -> None:
    for name, wanted in after.items():
        if found[name] != wanted:
            expected, observed = (orjson.dumps(one).decode() for one in (wanted, found[name]))
            raise ContractViolation("lifecycle", "control-plane", f"{where}: {name}", expected, observed)


def _between(before: dict[str, Any], after: dict[str, Any], found: dict[str, Any], where: str) -> None:
    """Each Charge is as before or as after, and with a new state it has its callback."""
    notified = {row[0] for row in found["/sandbox/v1/deliveries"]}
    tells = {row[0] for row in after["/sandbox/v1/deliveries"]}
    for row in found["/v0/charges"]:
        if row in before["/v0/charges"]:
            continue
        if row not in after["/v0/charges"] or (row["id"] in tells and row["id"] not in notified):
            expected = "a state of before or after the step, with its callback"
            raise ContractViolation("lifecycle", "control-plane", f"{where}: {row['id']}", expected, row)


def _check_ends(image: InProcess, where: str) -> None:
    """Each callback that was stored has reached its receiver, and no Charge has outlived its expiry."""
    now = image.sandbox.world.clock.now()
    for row in _sender(image)("GET", "/v0/charges?status=pending&limit=1000").json["data"]:
        if instant(row["expiresAt"]) <= now:
            raise ContractViolation("lifecycle", "charge-expiry-instant", f"{where}: {row['id']}", "expired", row)
    rows = _sender(image)("GET", "/sandbox/v1/deliveries?limit=1000").json["data"]
    pending = [[row["event"], row["status"]] for row in rows if row["status"] == "pending"]
    if pending:
        expected = "every callback is sent"
        raise ContractViolation("callback_contract", "callback-delivery", where, expected, pending)
