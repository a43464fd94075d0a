"""The callbacks of another implementation, read from the inbox of its adapter and compared with the model.

A Charge has one callback after its final state and none before: with the headers of Standard Webhooks, signed by the
secrets of that time, about the expected state, not late and not twice. Secrets that were rotated before the run began
are not known, so until 24 hours have passed their signatures may follow those of the known ones [callback-signature].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.clauses import header_clause
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.records import Charge
from leyden.harness.model.rules import MAX_SIGNING, RETENTION_MS, instant, iso
from leyden.harness.session.observe import parsed
from leyden.harness.session.session import Session
from leyden.server.system.clock import system_time_ms

Inbox = Callable[[str], Sequence[tuple[Mapping[str, str], str]]]
IsAbout = Callable[[int, int], bool]

_TRIES = 50
_LATE_MS = 5_000  # from the final state to the first attempt
_STAMP_TOLERANCE_S = 300  # as Standard Webhooks' verifiers have it
_SIGNATURE = re.compile(r"v1,[A-Za-z0-9+/]{43}=")


def check_inbox(run: Session, charge: Charge, inbox: Inbox, is_about: IsAbout, *, signed: bool = True) -> None:
    """The receiver got the expected callback about the Charge, and no other. `is_about` tells whether a stated time is
    about an expected one; without `signed` the signature is not compared. Raises `ContractViolation`."""
    if not charge.callback_url:  # "" is returned as it was sent, and means none
        return
    where = f"callbacks of {charge.label}"
    received = _received(inbox, charge)
    if charge.delivery is None:
        checks.same([], [body for _, body in received], "callback_contract", "callback-delivery", where)
        return
    for _ in range(_TRIES):
        if received:
            break
        run.request("getWallet", "/v0/wallet")  # the callback may take a moment
        received = _received(inbox, charge)
    expected = charge.delivery.event
    if len(received) != 1:
        observed = [headers.get("leyden-event", body) for headers, body in received]
        raise ContractViolation("callback_contract", "callback-delivery", where, f"one {expected}", observed)
    headers, body = received[0]
    checks.same(charge.delivery.body, parsed(body), "callback_contract", "callback-body", f"{where}: body")
    _check_headers(run, charge, headers, body, where, is_about)
    if signed:
        _check_signature(run, charge, headers, body, where)


def _received(inbox: Inbox, charge: Charge) -> list[tuple[dict[str, str], str]]:
    """The callbacks that name the Charge, oldest first."""
    url = charge.callback_url or ""
    found = [({name.lower(): value for name, value in headers.items()}, body) for headers, body in inbox(url)]
    return [(headers, body) for headers, body in found if f'"{charge.id}"' in body]


def _check_headers(
    run: Session, charge: Charge, headers: Mapping[str, str], body: str, where: str, is_about: IsAbout
) -> None:
    delivery = charge.delivery
    assert delivery is not None
    rule, check = "callback-signature", "callback_contract"
    wanted = {"content-type": "application/json", "leyden-event": delivery.event, "leyden-attempt": "1"}
    found: dict[str, Any] = {name: headers.get(name) for name in wanted}
    found["content-type"] = (found["content-type"] or "").partition(";")[0]
    checks.same(wanted, found, check, header_clause(wanted, found), f"{where}: headers")
    message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    owner = run.ids.setdefault(f"webhook-id {message_id}", delivery)
    if not message_id or owner is not delivery:
        raise ContractViolation(check, rule, f"{where}: webhook-id", "an id of its own", message_id or "none")
    times_s = (system_time_ms() // 1_000, run.model.now // 1_000, delivery.created_at // 1_000)
    if not stamp.isdigit() or min(abs(int(stamp) - at) for at in times_s) > _STAMP_TOLERANCE_S:
        raise ContractViolation(check, rule, f"{where}: webhook-timestamp", "the time of the attempt, in s", stamp)
    try:
        sent_at = instant(headers.get("leyden-time", ""))
    except ValueError:
        sent_at = -1
    if not is_about(sent_at, delivery.created_at):
        raise ContractViolation(
            check,
            "callback-delivery",
            f"{where}: leyden-time",
            f"about {iso(delivery.created_at)}",
            headers.get("leyden-time"),
        )


def _check_signature(run: Session, charge: Charge, headers: Mapping[str, str], body: str, where: str) -> None:
    delivery = charge.delivery
    assert delivery is not None
    message_id, stamp = headers["webhook-id"], headers["webhook-timestamp"]
    secrets = delivery.attempts[0].secrets if delivery.attempts else []
    if secrets:
        expected = checks.signature(secrets, message_id, int(stamp), body)
        observed = headers.get("webhook-signature")
        if not (
            delivery.created_at < run.started_at + RETENTION_MS + _LATE_MS and _may_have_more(expected, observed or "")
        ):
            checks.same(expected, observed, "callback_contract", "callback-signature", f"{where}: webhook-signature")


def _may_have_more(expected: str, observed: str) -> bool:
    """Whether the expected signatures come first, and what follows may be those of older secrets."""
    marks = expected.split(" ")
    first, more = observed.split(" ")[: len(marks)], observed.split(" ")[len(marks) :]
    return first == marks and len(marks + more) <= MAX_SIGNING and all(_SIGNATURE.fullmatch(one) for one in more)
