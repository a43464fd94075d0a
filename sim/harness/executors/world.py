"""Executors for the sandbox: payments, time, receivers, faults, secrets, API keys and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.model.callbacks import Receiver
from leyden.harness.model.faults import DEFAULT_WAIT_S, FEWEST, HOLDING, is_possible
from leyden.harness.model.records import Charge, Fault, Payment, StaticCharge
from leyden.harness.model.rules import iso
from leyden.harness.session.session import Session
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.target import PROJECT, RESTARTS, InProcess


def _check_payment(payment: Payment, body: Any, where: str) -> None:
    charge = payment.charge
    if payment.id is None and isinstance(body, dict):
        payment.id = body.get("id")
    if payment.status == "succeeded" and charge.preimage is None:
        checks.proof(body.get("preimage"), charge.payment_hash, where)
        charge.preimage = body["preimage"]
    expected = {
        "id": payment.id,
        "status": payment.status,
        "amount": str(payment.amount_msat),
        "paymentHash": charge.payment_hash,
        "createdAt": iso(payment.created_at),
        "resolvedAt": None if payment.resolved_at is None else iso(payment.resolved_at),
        "preimage": charge.preimage if payment.status == "succeeded" else None,
    }
    observed = {name: body.get(name) for name in expected} if isinstance(body, dict) else body
    checks.same(expected, observed, "lifecycle", "scripted-payments", where)


def pay(session: Session, step: Step) -> None:
    """{"do": "pay", "as": "p1", "charge": "c1", "outcome"?, "amount"?: msat, "delay"?: ms}."""
    charge = session.charge(step["charge"])
    outcome, amount, delay_ms = step.get("outcome", "settle"), step.get("amount"), step.get("delay", 0)
    payment = session.model.pay(step["as"], charge, outcome, amount, delay_ms)
    # The model says what the node answers: the wallet sends what it would not send by itself.
    fields: dict[str, Any] = {"request": charge.request, "outcome": outcome, "delay": delay_ms / 1_000, "late": True}
    if amount is not None:
        fields["amount"] = str(amount)
    body = session.control_ok("POST", "/payments", fields)
    _check_payment(payment, body, f"payment {step['as']} of {charge.label}")


def settle(session: Session, step: Step) -> None:
    """{"do": "settle", "payment": "p1"}: settle a held payment."""
    _resolve(session, step, "settle", session.model.ledger.settle_held)


def cancel(session: Session, step: Step) -> None:
    """{"do": "cancel", "payment": "p1"}: cancel a held payment at the receiver's node."""
    _resolve(session, step, "cancel", session.model.ledger.cancel_held)


def _resolve(session: Session, step: Step, how: str, resolve: Callable[[Payment], bool]) -> None:
    payment = session.payment(step["payment"])
    resolved = resolve(payment)
    response = session.control("POST", f"/payments/{payment.id}/{how}")
    where = f"{how} {payment.label}"
    if resolved:
        checks.status(response, 200, "lifecycle", "charge-error", where)
        _check_payment(payment, response.json, where)
    else:
        checks.problem(response, 409, "conflict", "scripted-payments", where)


def fail(session: Session, step: Step) -> None:
    """{"do": "fail", "charge": "c1"}: the invoice fails at the node."""
    charge = session.charge(step["charge"])
    if charge.project != PROJECT:
        raise StepImpossible("the Charge belongs to the second project")
    failed = session.model.ledger.fail(charge)
    response = session.control("POST", f"/charges/{charge.id}/fail", {})
    where = f"fail {charge.label}"
    if failed:
        checks.status(response, 200, "lifecycle", "Charge: pending, invoice_failed -> error", where)
        checks.same(charge.resource(), response.json, "lifecycle", "charge-error", where)
    else:
        checks.problem(response, 409, "conflict", "charge-terminal", where)


def advance(session: Session, step: Step) -> None:
    """{"do": "advance", "by": ms} or {"do": "advance", "to": ["expiry" | "retry", "c1"], "offset": ms}; with "how":
    "python" by a method of the sandbox, if it is in this process."""
    when = session.model.now + step.get("by", 0)
    if "to" in step:
        kind, label = step["to"]
        when = scheduled_time(session.resource(label), kind) + step.get("offset", 0)
    when = max(when, session.model.now)
    if step.get("how") == "python" and isinstance(session.target, InProcess):
        session.target.sandbox.advance_to(iso(when))
        response = session.control_ok("GET", "/clock")
    else:
        response = session.control_ok("POST", "/clock/advance", {"to": iso(when)})
    checks.same(iso(when), response["now"], "lifecycle", "clock-range", "clock")
    session.model.advance_to(when)


def scheduled_time(resource: Charge | StaticCharge, kind: str) -> int:
    """A scheduled time in ms: the expiry of a resource, or the next attempt of a delivery."""
    delivery = resource.delivery if isinstance(resource, Charge) else None
    at = resource.expires_at if kind == "expiry" else None if delivery is None else delivery.due_at
    if at is None:
        raise StepImpossible(f"no {kind} is scheduled")
    return at


def receiver(session: Session, step: Step) -> None:
    """{"do": "receiver", "host": "r1.inbox", "answers"?: [...], "always"?: ...}."""
    host = step["host"]
    receivers = session.model.outbox.receivers
    earlier = receivers.get(host)
    receivers[host] = Receiver(list(step.get("answers", [])), step.get("always", 200))
    if earlier is not None:
        receivers[host].received = earlier.received
    script = {"answers": receivers[host].answers, "always": receivers[host].always}
    session.control_ok("PUT", f"/inboxes/{host}/script", script)


def fault(session: Session, step: Step) -> None:
    """{"do": "fault", "kind": "drop", "charge"?, "event"?, "attempt"?, "count"?, "operation"?, "delay"?: ms, "value"?,
    "names"?: [header, ...]}."""
    kind = step["kind"]
    count = step.get("count", FEWEST.get(kind, 1))
    fields: dict[str, Any] = {"kind": kind, "count": count}
    if kind == "rate_limit":
        wait_s = -(-step["delay"] // 1_000) if "delay" in step else DEFAULT_WAIT_S
        session.model.limits.append((step.get("operation"), count, wait_s))
        fields |= {"operation": step.get("operation"), "delay": step["delay"] / 1_000 if "delay" in step else None}
    else:
        if "charge" in step:
            fields["chargeId"] = session.resource(step["charge"]).id
        fields.update({name: step[name] for name in ("event", "attempt") if name in step})
        if "delay" in step:
            fields["delay"] = step["delay"] / 1_000
        if "value" in step:
            fields["value"] = step["value"]
        if "names" in step:
            fields["headers"] = step["names"]
        if kind in HOLDING:
            fields["attempt"] = 1  # a later attempt held cannot be distinguished from a longer backoff
        if "charge" in step and not is_possible(
            session.resource(step["charge"]), step.get("event"), fields.get("attempt")
        ):
            response = session.control("POST", "/faults", fields)
            checks.problem(response, 409, "not_possible", "faults", f"{kind} of a callback that is never sent")
            return
        if count < FEWEST.get(kind, 1):
            response = session.control("POST", "/faults", fields)
            checks.problem(response, 409, "not_possible", "faults", f"{kind} of one message")
            return
        if kind == "old_secret" and not any(map(session.model.earlier_secret, session.model.secrets)):
            response = session.control("POST", "/faults", fields)
            checks.problem(response, 409, "not_possible", "faults", "old_secret before a rotation")
            return
        names = tuple(step["names"]) if "names" in step else None
        found = Fault(kind, count, step.get("event"), step.get("charge"), fields.get("attempt"),
                      given_ms=step.get("delay"), value=step.get("value"), names=names)  # fmt: skip
        session.model.outbox.faults.injected.append(found)
    row = session.control_ok("POST", "/faults", {name: value for name, value in fields.items() if value is not None})
    if kind != "rate_limit":
        found.id = row["id"]


def clear_faults(session: Session, step: Step) -> None:
    """{"do": "clear_faults", "count"?: n}: clear all faults of callbacks, or the n-th one that was injected. What they
    have begun goes on."""
    outbox = session.model.outbox
    number = step.get("count")
    if number is not None and number > len(outbox.faults.injected):
        raise StepImpossible("there is no such fault")
    chosen = outbox.faults.injected[slice(number and number - 1, number)]
    if number is None and session.model.limits:
        raise StepImpossible("faults that limit requests are not counted here")
    held = sum(by in chosen or number is None for by in outbox.faults.held.values())
    copies = sum(by in chosen or number is None for by in outbox.copies)
    found = session.control_ok("DELETE", f"/faults/{chosen[0].id}" if number else "/faults")
    outbox.faults.injected = [one for one in outbox.faults.injected if one not in chosen]
    expected = {"cleared": len(chosen), "held": held, "copies": copies}
    checks.same(expected, found, "callback_contract", "faults", "faults that are cleared")


def rotate(session: Session, step: Step) -> None:
    """{"do": "rotate"}: rotate the webhook secret."""
    found = session.control_ok("POST", "/webhook-secret/rotate")
    checks.new_secret(found["current"], [secret for secret, _ in session.model.secrets[PROJECT]])
    session.model.rotate(PROJECT, found["current"])
    observed = [one["secret"] for one in found["secrets"]]
    expected = session.model.signing_secrets(PROJECT)
    checks.same(expected, observed, "callback_contract", "callback-signature", "secrets that sign")


def spare_key(session: Session, step: Step) -> None:
    """{"do": "spare_key"}: create a second API key, use it and rotate it; the old one is then invalid, and cannot be
    replaced or issued again."""
    rule, where = "api-keys", "the second API key"
    key = session.control_ok("POST", "/api-keys", {})["key"]
    session.spare_keys[key] = True
    checks.success(session.request("getWallet", "/v0/wallet", key=key), rule, where)
    other = session.control_ok("POST", "/api-keys/rotate", {"replaces": key})["key"]
    session.spare_keys |= {key: False, other: True}
    checks.problem(session.request("getWallet", "/v0/wallet", key=key), 401, "unauthorized", rule, f"{where}, rotated")
    for path, body in (
        ("/rotate", {"replaces": key}),
        ("/rotate", {"replaces": f"{other}0"}),
        ("/rotate", {"replaces": other, "key": key}),
        ("", {"key": key}),
        ("", {"key": other}),
    ):
        response = session.control("POST", f"/api-keys{path}", body)
        checks.problem(response, 409, "not_possible", rule, f"POST /api-keys{path} with {sorted(body)}")
    if isinstance(session.target, InProcess):
        session.target.replaced_key = key
    _check_spare_keys(session)
    session.reached["policy", "keys", "rotated"] = None


def _check_spare_keys(session: Session) -> None:
    for key, is_valid in session.spare_keys.items():
        response, where = session.request("getWallet", "/v0/wallet", key=key), "the second API key"
        if is_valid:
            checks.success(response, "api-keys", f"{where}, new")
        else:
            checks.problem(response, 401, "unauthorized", "api-keys", f"{where}, rotated")


def replay(session: Session, step: Step) -> None:
    """{"do": "replay", "charge": "c1", "offset"?: ms, "how"?: "delay"}: send the delivery about a Charge again, now or
    at an instant that is so far from now; one below 0 has passed, which is refused. With "delay" the time is given as
    seconds."""
    charge = session.charge(step["charge"])
    if charge.delivery is None:
        raise StepImpossible("there is no delivery about the Charge")
    if step.get("offset", 0) < 0:
        at = {"at": iso(session.model.now + step["offset"])}
        response = session.control("POST", f"/deliveries/{charge.delivery.id}/replay", at)
        checks.problem(
            response, 409, "not_possible", "replay", f"replay in the past of the delivery about {charge.label}"
        )
        return
    offset = step.get("offset")
    when = None if offset is None else session.model.now + offset
    later = {"delay": (offset or 0) / 1_000} if step.get("how") == "delay" else {"at": iso(when or 0)}
    replayed = session.model.outbox.replay(charge.delivery, when)
    response = session.control("POST", f"/deliveries/{charge.delivery.id}/replay", None if when is None else later)
    where = f"replay of the delivery about {charge.label}"
    if replayed:
        checks.status(response, 200, "callback_contract", "replay", where)
    else:
        checks.problem(response, 409, "conflict", "replay", where)
    session.reached["policy", "replay", "sent again" if replayed else "in flight"] = None


def compact(session: Session, step: Step) -> None:
    """{"do": "compact"}: begin a compaction of the journal that continues after the next commits."""
    if not session.disk or not isinstance(session.target, InProcess):
        raise StepImpossible("the target has no journal here")
    session.target.sandbox.world.store.compact(gradually=True)


def restart(session: Session, step: Step) -> None:
    """{"do": "restart", "how"?: one of `RESTARTS`}: stop the service and start it on its data."""
    if not session.disk or not session.target.restarts:
        raise StepImpossible("the target cannot be restarted")
    session.model.outbox.restart()
    session.model.ledger.restart()
    unnoticed = session.target.restart(step.get("how", RESTARTS[0]))
    checks.same([], [*unnoticed], "lifecycle", "control-plane", "damaged journals that are opened")
    session.requests_seen.clear()  # the ids of requests are counted from each start
    session.reached["policy", "restart", "resumed"] = None
    session.model.changed.update(dict.fromkeys(session.model.ledger.resources))
    _check_spare_keys(session)


def reset(session: Session, step: Step) -> None:
    """{"do": "reset"}: delete everything but the API keys and the webhook secret, and start again."""
    if any(len(secrets) > 1 for secrets in session.model.secrets.values()):
        raise StepImpossible("an earlier secret ends at an instant of the former run")
    found = session.control_ok("POST", "/reset", {})
    checks.same(iso(session.start_ms), found["now"], "lifecycle", "clock-range", "reset")
    if isinstance(session.target, InProcess):
        session.target.add_second_project()
    session.start_again()
    _check_spare_keys(session)
