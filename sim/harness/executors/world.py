"""Acts on the world: payments, time, receivers, faults, secrets and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import Broken
from leyden.harness.model.callbacks import Receiver
from leyden.harness.model.faults import HOLDING, Fault
from leyden.harness.model.records import Charge, Payment
from leyden.harness.model.rules import iso
from leyden.harness.runs.adapters import PROJECT
from leyden.harness.runs.run import Run, Step


def _see_payment(payment: Payment, body: Any, where: str) -> None:
    charge = payment.charge
    if payment.id is None and isinstance(body, dict):
        payment.id = body.get("id")
    if payment.status == "succeeded" and charge.preimage is None:
        checks.proof(body.get("preimage"), charge.payment_hash, where)
        charge.preimage = body["preimage"]
    promised = {
        "id": payment.id,
        "status": payment.status,
        "amount": str(payment.amount_msat),
        "paymentHash": charge.payment_hash,
        "createdAt": iso(payment.created_at),
        "resolvedAt": None if payment.resolved_at is None else iso(payment.resolved_at),
        "preimage": charge.preimage if payment.status == "succeeded" else None,
    }
    seen = {name: body.get(name) for name in promised} if isinstance(body, dict) else body
    checks.same(promised, seen, "lifecycle", "DECISIONS scripted-payments", where)


def pay(run: Run, step: Step) -> bool:
    """{"do": "pay", "as": "p1", "charge": "c1", "outcome"?, "amount"?: msat, "delay"?: ms}."""
    charge = run.model.book.charges.get(step["charge"])
    if charge is None:
        return False
    outcome, amount, delay_ms = step.get("outcome", "settle"), step.get("amount"), step.get("delay", 0)
    promise = run.model.pay(step["as"], charge, outcome, amount, delay_ms)
    order: dict[str, Any] = {"request": charge.request, "outcome": outcome, "delay": delay_ms / 1_000}
    if amount is not None:
        order["amount"] = str(amount)
    body = run.controlled("POST", "/payments", order)
    assert isinstance(promise.made, Payment)
    _see_payment(promise.made, body, f"payment {step['as']} of {charge.label}")
    return True


def settle(run: Run, step: Step) -> bool:
    """{"do": "settle", "payment": "p1"}: the receiver takes a held payment."""
    return _resolve(run, step, "settle", run.model.book.settle_held)


def cancel(run: Run, step: Step) -> bool:
    """{"do": "cancel", "payment": "p1"}: the receiver's node fails a held payment."""
    return _resolve(run, step, "cancel", run.model.book.cancel_held)


def _resolve(run: Run, step: Step, how: str, resolve: Callable[[Payment], bool]) -> bool:
    payment = run.model.book.payments.get(step["payment"])
    if payment is None:
        return False
    resolved = resolve(payment)
    answer = run.control("POST", f"/payments/{payment.id}/{how}")
    where = f"{how} {payment.label}"
    if resolved:
        if answer.status != 200:
            raise Broken("lifecycle", "DECISIONS charge-error", where, 200, answer.body.decode())
        _see_payment(payment, answer.json, where)
    else:
        checks.problem(answer, 409, "conflict", "DECISIONS scripted-payments", where)
    return True


def fail(run: Run, step: Step) -> bool:
    """{"do": "fail", "charge": "c1"}: the node loses the invoice."""
    charge = run.model.book.charges.get(step["charge"])
    if charge is None or charge.project != PROJECT:
        return False
    failed = run.model.book.fail(charge)
    answer = run.control("POST", f"/charges/{charge.id}/fail", {})
    where = f"fail {charge.label}"
    if failed:
        if answer.status != 200:
            raise Broken("lifecycle", "Charge: pending, invoice_failed -> error", where, 200, answer.body.decode())
        checks.same(charge.resource(), answer.json, "lifecycle", "DECISIONS charge-error", where)
    else:
        checks.problem(answer, 409, "conflict", "DECISIONS charge-terminal", where)
    return True


def advance(run: Run, step: Step) -> bool:
    """{"do": "advance", "by": ms} or {"do": "advance", "to": ["expiry" | "retry", "c1"], "offset": ms}."""
    when = run.model.now + step.get("by", 0)
    if "to" in step:
        kind, label = step["to"]
        at = pending_instant(run, kind, label)
        if at is None:
            return False
        when = at + step.get("offset", 0)
    when = max(when, run.model.now)
    answer = run.controlled("POST", "/clock/advance", {"to": iso(when)})
    if answer["now"] != iso(when):
        raise Broken("lifecycle", "DECISIONS clock-range", "clock", iso(when), answer["now"])
    run.model.advance_to(when)
    return True


def pending_instant(run: Run, kind: str, label: str) -> int | None:
    """An instant that is ahead: when a Charge or a Static Charge expires, or a message is tried again."""
    book = run.model.book
    thing = book.charges.get(label) or book.statics.get(label)
    if thing is None:
        return None
    if kind == "expiry":
        return thing.expires_at
    return thing.delivery.due_at if isinstance(thing, Charge) and thing.delivery is not None else None


def receiver(run: Run, step: Step) -> bool:
    """{"do": "receiver", "host": "r1.inbox", "answers"?: [...], "always"?: ...}."""
    host = step["host"]
    receivers = run.model.outbox.receivers
    earlier = receivers.get(host)
    receivers[host] = Receiver(list(step.get("answers", [])), step.get("always", 200))
    if earlier is not None:
        receivers[host].received = earlier.received
    _script(run, host)
    return True


def _script(run: Run, host: str) -> None:
    told = run.model.outbox.receivers[host]
    run.controlled("PUT", f"/inboxes/{host}/script", {"answers": told.answers, "always": told.always})


def fault(run: Run, step: Step) -> bool:
    """{"do": "fault", "kind": "drop", "charge"?, "event"?, "attempt"?, "count"?, "operation"?}."""
    kind, count = step["kind"], step.get("count", 1)
    order: dict[str, Any] = {"kind": kind, "count": count}
    if kind == "rate_limit":
        run.model.limits.append((step.get("operation"), count))
        order["operation"] = step.get("operation")
    else:
        if "charge" in step:
            book = run.model.book
            charge = book.charges.get(step["charge"]) or book.statics.get(step["charge"])
            if charge is None:
                return False
            order["chargeId"] = charge.id
        order.update({name: step[name] for name in ("event", "attempt") if name in step})
        if kind in HOLDING:
            order["attempt"] = 1  # of a later one it could not be told from the pause before it
        found = Fault(kind, count, step.get("event"), step.get("charge"), order.get("attempt"))
        run.model.outbox.faults.asked.append(found)
    run.controlled("POST", "/faults", {name: value for name, value in order.items() if value is not None})
    return True


def rotate(run: Run, step: Step) -> bool:
    """{"do": "rotate"}: another webhook secret."""
    found = run.controlled("POST", "/webhook-secret/rotate")
    known = [secret for secret, _ in run.model.secrets[PROJECT]]
    if found["current"] in known or not checks.secret_is_sound(found["current"]):
        raise Broken("callback_contract", "DECISIONS callback-signature", "rotation", "a new secret", found["current"])
    run.model.rotate(PROJECT, found["current"])
    seen = [one["secret"] for one in found["secrets"]]
    checks.same(
        run.model.signing(PROJECT), seen, "callback_contract", "DECISIONS callback-signature", "secrets that sign"
    )
    return True


def spare_key(run: Run, step: Step) -> bool:
    """{"do": "spare_key"}: one more API key, used, then replaced: from that moment the old one opens nothing."""
    clause, where = "DECISIONS api-keys", "a spare key"
    key = run.controlled("POST", "/api-keys", {})["key"]
    checks.success(run.ask("getWallet", "/v0/wallet", key=key), clause, where)
    other = run.controlled("POST", "/api-keys/rotate", {"replaces": key})["key"]
    checks.problem(run.ask("getWallet", "/v0/wallet", key=key), 401, "unauthorized", clause, f"{where}, replaced")
    checks.success(run.ask("getWallet", "/v0/wallet", key=other), clause, f"{where}'s successor")
    run.seen["policy", "keys", "replaced"] = None
    return True


def replay(run: Run, step: Step) -> bool:
    """{"do": "replay", "charge": "c1"}: its message is sent once more."""
    charge = run.model.book.charges.get(step["charge"])
    if charge is None or charge.delivery is None:
        return False
    replayed = run.model.outbox.replay(charge.delivery)
    answer = run.control("POST", f"/deliveries/{charge.delivery.id}/replay")
    where = f"replay of the message about {charge.label}"
    if not replayed:
        checks.problem(answer, 409, "conflict", "DECISIONS replay", where)
    elif answer.status != 200:
        raise Broken("callback_contract", "DECISIONS replay", where, 200, answer.body.decode())
    run.seen["policy", "replay", "sent again" if replayed else "under way"] = None
    return True


def restart(run: Run, step: Step) -> bool:
    """{"do": "restart"}: the service stops, and goes on from what it wrote down."""
    if not run.disk or not run.target.restarts:
        return False
    run.model.outbox.restart()
    run.model.book.restart()
    receivers = run.model.outbox.receivers
    scripts = {host: {"answers": told.answers, "always": told.always} for host, told in receivers.items()}
    run.target.restart(scripts)
    run.seen["policy", "restart", "went on"] = None
    run.model.touched.update(dict.fromkeys(run.model.book.things))
    return True
