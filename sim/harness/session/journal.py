"""The event journal of a run: its entries are those that the model expects, in the right order and at the right times.

Compared are requests, the events of resources, payments and deliveries, each kind in its own order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from leyden.harness.checks import responses as checks
from leyden.harness.checks.headers import named_in
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.http import match_path
from leyden.harness.model.records import Delivery, Payment
from leyden.harness.model.requests import OPERATIONS
from leyden.harness.model.rules import iso
from leyden.harness.session.session import Session

# Entries that are not compared, with the reasons. An entry of a kind that is neither here nor compared is a violation.
IGNORED_KINDS: Mapping[str, str] = {
    "refused": "a trigger that changes nothing: the responses show it",
    "invoice_issued": "the invoice is decoded and compared",
    "invoice_settled": "the node's view of a payment that is compared",
    "invoice_accepted": "the node's view of a payment that is compared",
    "invoice_canceled": "the node's view: a payment of the invoice shows it",
    "payment_given_up": "the payer waits no longer for a held payment; the end of the payment is compared",
    "htlc_refused": "the node's view of a payment that is compared",
    "htlc_waiting": "the node's view of a payment that is compared",
    "htlc_failed_back": "the node's view of a payment that is compared",
    "callback_received": "the receivers' inboxes are compared",
    "copy_started": "the copies of a fault are in the inboxes",
    "copy_answered": "the copies of a fault are in the inboxes",
    "copy_failed": "the copies of a fault are in the inboxes",
    "copy_not_sent": "the copies of a fault are in the inboxes",
    "fault_added": "the request that adds it is compared",
    "faults_cleared": "the request that clears them is compared",
    "fault_hit": "the attempts and the inboxes show the faults",
    "fault_held": "the attempts and the inboxes show the faults",
    "fault_without_effect": "the attempts and the inboxes show the faults",
    "webhook_secret_rotated": "the request is compared",
    "ignored_fields": "the header Leyden-Ignored is compared",
}
_LIFECYCLE = frozenset({
    "created", "payment_settled", "expiry_reached", "invoice_failed", "slots_filled", "slots_reopened",
    "invoice_requested",
})  # fmt: skip
_ATTEMPTS = frozenset({"callback_started", "callback_answered", "callback_failed", "callback_not_sent"})
_DELIVERIES = _ATTEMPTS | {"callback_finished", "callback_replayed"}
_PAYMENTS = frozenset({"payment_scheduled", "payment_started", "payment_held", "payment_succeeded", "payment_failed"})
_CHECK, _RULE = "lifecycle", "control-plane"


def check_journal(session: Session) -> None:
    """Read the whole journal and compare it. A journal that has lost its first entries is not compared."""
    entries = _read(session)
    if not entries or entries[0]["sequence"] != 1:
        return
    numbers = [one["sequence"] for one in entries]
    checks.same([*range(1, len(entries) + 1)], numbers, _CHECK, _RULE, "journal: sequence")
    for before, one in pairwise(entries):
        if one["at"] < before["at"]:
            raise ContractViolation(_CHECK, "clock-range", "journal: at", f"not before {before['at']}", one)
    by_subject: dict[tuple[str, str], list[Any]] = {}
    requests: list[list[Any]] = []
    for one in entries:
        kind, facts = one["kind"], one["facts"]
        if kind == "request":
            if session.target.shared or facts["status"] != 401:
                requests.append([one["subject"], facts["status"], facts.get("ignored", []), facts.get("refused", "")])
        elif kind in _LIFECYCLE:
            by_subject.setdefault(("lifecycle", one["subject"]), []).append([one["at"], kind, facts["status"]])
        elif kind in _DELIVERIES:
            by_subject.setdefault(("delivery", one["subject"]), []).append(one)
        elif kind in _PAYMENTS:
            by_subject.setdefault(("payment", one["subject"]), []).append(one)
        elif kind not in IGNORED_KINDS:
            raise ContractViolation(_CHECK, _RULE, "journal", "a kind of entry that is known", one)
    expected = _recorded(session)
    for one, wanted in zip(requests, expected, strict=False):
        one[-1] = None if wanted[-1] is None else one[-1]  # the answer does not have the code
    checks.same(expected, requests, _CHECK, _RULE, "journal: requests")
    _check_resources(session, by_subject)
    _check_payments(session, by_subject)
    for delivery in session.model.outbox.deliveries:
        if delivery.id is not None:
            _check_delivery(delivery, by_subject.pop(("delivery", delivery.id), []))
    if by_subject:
        raise ContractViolation(_CHECK, _RULE, "journal", "subjects that are known", sorted(by_subject)[0])


def _read(session: Session) -> list[Any]:
    entries: list[Any] = []
    while True:
        after = entries[-1]["sequence"] if entries else 0
        page = session.control_ok("GET", f"/journal?limit=1000&after={after}")
        entries += page
        if len(page) < 1_000:
            return entries


_WAIT = ("POST", "/sandbox/v1/deliveries/wait")


def _recorded(session: Session) -> list[list[Any]]:
    """The requests that the journal has: all but reads and waits of the control plane, OPTIONS, and those of no
    operation; each with the names that its response says were ignored [request-bodies], and with the code of a
    refusal."""
    found = []
    for (method, target, _, _), status, ignored, refused in session.sent:
        path = unquote(target.partition("?")[0])
        if path.startswith("/sandbox/"):
            is_recorded = method not in {"GET", "HEAD"} and (method, path) != _WAIT
        else:
            is_recorded = any(match_path(one, path) is not None for one in OPERATIONS.values()) and method != "OPTIONS"
        if is_recorded and status != 413 and (session.target.shared or status != 401):
            found.append([f"{method} {path}"[:200], status, named_in(ignored), refused])
    return found


def _check_resources(session: Session, by_subject: dict[tuple[str, str], list[Any]]) -> None:
    for one in session.model.ledger.resources:
        if one.id is None:
            continue
        expected = [[iso(at), trigger, status] for at, trigger, status in one.history]
        observed = by_subject.pop(("lifecycle", one.id), [])
        checks.same(expected, observed, _CHECK, "charge-terminal", f"journal: {one.label}")


def _check_payments(session: Session, by_subject: dict[tuple[str, str], list[Any]]) -> None:
    for payment in session.model.ledger.payments.values():
        if payment.id is not None:
            observed = by_subject.pop(("payment", payment.id), [])
            kinds = [[one["at"], one["kind"]] for one in observed]
            where = f"journal: {payment.label}"
            checks.same(_events(payment), kinds, _CHECK, "scripted-payments", where)
            facts = {"payment_hash": payment.charge.payment_hash, "amount_msat": payment.amount_msat}
            found = {name: observed[0]["facts"].get(name) for name in facts}
            checks.same(facts, found, _CHECK, "scripted-payments", where)


def _events(payment: Payment) -> list[list[str]]:
    events = [[iso(payment.created_at), "payment_scheduled"]] if payment.is_delayed else []
    if payment.started_at is not None:
        events.append([iso(payment.started_at), "payment_started"])
    if payment.held_at is not None:
        events.append([iso(payment.held_at), "payment_held"])
    if payment.resolved_at is not None:
        events.append([iso(payment.resolved_at), f"payment_{payment.status}"])
    return events


def _check_delivery(delivery: Delivery, entries: Sequence[Any]) -> None:
    """Each attempt starts and ends once, at its time; the last entry of a delivery that is over says how it ended."""
    where = f"journal: delivery of {delivery.charge.label}"
    others = [one for one in entries if one["facts"].get("resource") != delivery.charge.id]
    checks.same([], others, _CHECK, _RULE, f"{where}: entries about another resource")
    expected = []
    for one in delivery.attempts:
        expected.append([iso(one.at), "started", one.number, None, None])
        if one.ended_at is not None:
            expected.append([iso(one.ended_at), "ended", one.number, one.status, one.error])
    observed = [
        [one["at"], "started" if one["kind"] == "callback_started" else "ended", facts["attempt"],
         facts.get("status"), facts.get("error")]
        for one in entries if one["kind"] in _ATTEMPTS for facts in (one["facts"],)
    ]  # fmt: skip
    checks.same(expected, observed, "callback_contract", "callback-delivery", where)
    finished = [one["facts"] for one in entries if one["kind"] == "callback_finished"]
    if delivery.status != "pending":
        wanted = {"resource": delivery.charge.id, "status": delivery.status, "attempts": len(delivery.attempts)}
        checks.same(wanted, finished[-1] if finished else None, "callback_contract", "callback-delivery", where)
    if len(finished) > 1 + sum(one["kind"] == "callback_replayed" for one in entries):
        raise ContractViolation("callback_contract", "callback-delivery", where, "one end", finished)
