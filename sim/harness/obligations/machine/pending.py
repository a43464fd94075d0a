"""Obligations of what is pending: each kind of thing that will happen, with restarts before, at and after its
instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.harness.control.documents import control_document, resolved
from leyden.harness.control.pending_checks import STOPPED
from leyden.harness.control.state_checks import COPIES, PROCESS
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

SOURCE = "the harness's list of what can be pending"
_DAY_MS = 86_400_000
_DOWN = "http://down.localhost/"
_NETWORK = ("--network", "line:4")
_RETRIES = 9  # of a delivery, besides the first attempt
_SETTLE = send("POST", "/sandbox/v1/payments/{held.0.id}/settle")


class Pending(NamedTuple):
    """Something that will happen: the steps that make it so. It is due at the next event, or `offset_ms` after them.
    `probe` shows it after each restart, `then` shows its end."""

    steps: tuple[Step, ...]
    offset_ms: int | None = None
    probe: tuple[Step, ...] = ()
    then: tuple[Step, ...] = ()
    options: tuple[str, ...] = ()


def _script(name: str, **script: Any) -> Step:
    return send("PUT", f"/sandbox/v1/inboxes/{name}/script", script)


def _failed(label: str, **body: Any) -> tuple[Step, ...]:
    """A Charge with its callback."""
    fail = send("POST", f"/sandbox/v1/charges/{{{label}.-1.data.id}}/fail", {})
    return (charge(1, label, **body), fail)


def _next(count: int = 1) -> tuple[Step, ...]:
    return tuple(send("POST", "/sandbox/v1/clock/advance", {"until": "next_event"}) for _ in range(count))


def _held(**body: Any) -> tuple[Step, ...]:
    request = {"request": "{c.0.data.invoice.request}", "outcome": "hold", **body}
    return (charge(1, "c"), send("POST", "/sandbox/v1/payments", request, **{"as": "held"}))


def _link(slots: int | None = None, **body: Any) -> tuple[Step, ...]:
    invoice = send("GET", "/lnurlp/{s.0.data.id}/invoice?amount=2000", count=3, **{"as": "i"})
    more = {} if slots is None else {"allowedSlots": slots}
    return (static(1, "s", **more, **body), invoice)


def _kinds(schema: str, member: str) -> list[str]:
    found = resolved(control_document(), {"$ref": f"#/components/schemas/{schema}"})["properties"][member]["enum"]
    return [str(kind) for kind in found]


_KEYED = send("POST", "/v0/charges", {"amount": "3000", "description": "caf\u00e9", "internalId": "\u0661"},
              headers=[["Idempotency-Key", "k1"]], **{"as": "keyed"})  # fmt: skip
_REFUSED = send("POST", "/v0/charges", {"amount": "1"}, headers=[["Idempotency-Key", "k2"]], status=400)
_PAID = send("POST", "/sandbox/v1/payments", {"request": "{i.0.pr}"})
_RETRIED = (_script("down", always=500), *_failed("c", callbackUrl=_DOWN))
_GONE = (_script("down", answers=[500], always=410), *_failed("c", callbackUrl=_DOWN))
_NOTIFIED = _failed("signed", callbackUrl="http://signed.localhost/")
_FAULT_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "burst": {"count": 2}, "wrong_content_type": {"value": "text/x"}, "unknown_field": {"value": "extra"},
    "missing_headers": {"headers": ["webhook-id"]}, "unknown_status": {"value": "strange"}, "delay": {"delay": 600},
}  # fmt: skip

# Until a message that was delayed, or a copy, is sent.
_FAULT_SPANS_MS: Mapping[str, int] = {
    "delay": 600_000, "duplicate": 1_000, "duplicate_new_id": 1_000, "redeliver": _DAY_MS, "burst": 60_000,
    "reorder": 3_600_000,
}  # fmt: skip


def pending_table() -> dict[str, Pending]:
    """Every kind of thing that can be pending."""
    found = {
        "expiry of a Charge": Pending((charge(1, "c", expiresIn=60),)),
        "expiry of a Charge with a refused payment": Pending(
            (charge(1, "c", expiresIn=60), pay("c", 1, outcome="underpay"), pay("c", 1, delay=120)), then=_next(2)),
        "expiry of a Static Charge": Pending(_link(expiresIn=60), then=_next(4)),
        "expiry of invoices of a Static Charge": Pending(_link(), then=_next(4)),
        "expiry of invoices of a full Static Charge": Pending((*_link(1), _PAID), then=_next(4)),
        "expiry of invoices of a disabled Static Charge": Pending(
            (*_link(), send("PATCH", "/v0/static-charges/{s.0.data.id}", {"allowedSlots": 1}), _PAID), then=_next(4)),
        "expiry of a full Static Charge": Pending((*_link(1, expiresIn=1_000), _PAID), 1_000_000, then=_next(3)),
        "held payment": Pending(_held(), 37_200_000, then=(advance("11h"),)),
        "held payment until an expiry": Pending((charge(1, "c", expiresIn=60), *_held()[1:]), 60_000,
                                                then=(advance("11h"),)),
        "held payment that is settled": Pending(_held(), 60_000, then=(_SETTLE,)),
        "held payment of a Static Charge": Pending(
            (*_link(1), send("POST", "/sandbox/v1/payments", {"request": "{i.0.pr}", "outcome": "hold"},
                             **{"as": "held"}), send("POST", "/sandbox/v1/payments", {"request": "{i.1.pr}"})),
            37_200_000, then=(*_next(2), advance("11h"))),
        "Retry-After": Pending((_script("down", always={"status": 503, "headers": {"Retry-After": "7200"}}),
                                *_failed("c", callbackUrl=_DOWN)), then=_next(2)),
        "end of an endpoint": Pending((*_GONE, *_failed("d", callbackUrl=_DOWN)), then=(*_NOTIFIED, *_next())),
        "end of an endpoint of a Static Charge": Pending(
            (_script("gone", answers=[410]), *_link(callbackUrl="http://gone.localhost/"), _PAID), 60_000,
            then=(send("POST", "/sandbox/v1/payments", {"request": "{i.1.pr}"}), *_next())),
        "replay at an instant": Pending((*_NOTIFIED, send("POST", "/sandbox/v1/deliveries/replay", {"delay": "1h"}))),
        "slow answer": Pending((_script("down", always={"status": 202, "delay": 2}), *_failed("c", callbackUrl=_DOWN)),
                               2_000, then=_next()),
        "time-out of an attempt": Pending((_script("down", always="timeout"), *_failed("c", callbackUrl=_DOWN)),
                                          15_000, then=_next(2)),
        "messages in flight": Pending(
            (_script("down", always="timeout"),
             *(step for number in range(10) for step in _failed(f"c{number}", callbackUrl=_DOWN))), 15_000),
        "record of an Idempotency-Key": Pending((_KEYED,), _DAY_MS, probe=(_KEYED, _REFUSED)),
        "end of an earlier secret": Pending((send("POST", "/sandbox/v1/webhook-secret/rotate"),), _DAY_MS,
                                            probe=_NOTIFIED),
        "ends of two earlier secrets": Pending(
            (send("POST", "/sandbox/v1/webhook-secret/rotate"), advance("1h"),
             send("POST", "/sandbox/v1/webhook-secret/rotate")), _DAY_MS - 3_600_000, probe=_NOTIFIED),
        "service fault until an instant": Pending(
            (send("POST", "/sandbox/v1/service-faults", {"operation": "getWallet", "kind": "error", "status": 429,
                                                         "until": "2030-01-01T01:00:00.000Z"}),), 3_600_000),
        "payer with a delay": Pending((send("POST", "/sandbox/v1/payers", {"delay": 60}), charge(2, "c"))),
        "payer before an expiry": Pending((send("POST", "/sandbox/v1/payers", {"beforeExpiry": "10m"}),
                                           charge(2, "c", expiresIn=3_600))),
        "payer after an expiry": Pending((send("POST", "/sandbox/v1/payers", {"afterExpiry": 5}),
                                          charge(2, "c", expiresIn=60)), then=_next(3)),
        "payer that holds": Pending((send("POST", "/sandbox/v1/payers", {"outcome": "hold", "delay": 5}),
                                     charge(1, "c")), then=(advance("11h"),)),
        "automatic payment": Pending((charge(2, "c"),), options=("--autopay", "delay=60s")),
        "payment over a network": Pending(
            (send("POST", "/sandbox/v1/network/interceptors", {"kind": "delay", "delay": 3, "node": "n2"}),
             charge(1, "c"), pay("c", 1, payer="Ben")), then=_next(3), options=_NETWORK),
        "end of an interceptor": Pending(
            (send("POST", "/sandbox/v1/network/interceptors",
                  {"kind": "fail", "code": 4103, "lasting": "10m", "times": 9}),), 600_000,
            probe=(charge(1, "c"), pay("c", 1, payer="Ben")), options=_NETWORK),
    }  # fmt: skip
    for number in range(_RETRIES):
        found[f"retry {number + 1} of a delivery"] = Pending((*_RETRIED, *_next(number)), then=_next())
    for outcome in _kinds("PaymentOrder", "outcome"):
        found[f"payment with the outcome {outcome}"] = Pending(
            (charge(1, "c"), pay("c", 1, outcome=outcome, delay=60)), then=_next()
        )
    for kind in _kinds("FaultCreate", "kind"):
        if kind != "rate_limit":  # nothing is pending
            fault: Any = {"kind": kind, "attempt": 1, "count": 2, **_FAULT_FIELDS.get(kind, {})}
            rotate = send("POST", "/sandbox/v1/webhook-secret/rotate")
            found[f"callback with the fault {kind}"] = Pending(
                (rotate, send("POST", "/sandbox/v1/faults", fault), *_failed("c"), *_failed("d")),
                _FAULT_SPANS_MS.get(kind, 5_000),
                then=_failed("e"),
            )
    return found


END = (*_NOTIFIED, advance("30h"))


def pending_obligations() -> Iterator[Obligation]:
    """Each kind with two ways to restart, stopped while its instant passes, with each way to copy, and with a bound on
    what is kept; some in another process."""
    for number, (kind, pending) in enumerate(pending_table().items()):
        for how in ("kill", ("close", "compact", "torn")[number % 3], STOPPED):
            yield _obligation(kind, pending, how)
        for how in COPIES:
            yield _obligation(kind, pending, how)
        for keep in ("1", "2"):
            yield _obligation(kind, pending, ("kill", "compact")[number % 2], "--keep", keep)
        if "Idempotency-Key" in kind:
            yield _obligation(kind, pending, PROCESS)
    assert set(ENDS) == {"kill", "close", "compact", "torn"}


def _obligation(kind: str, pending: Pending, how: str, *more: str) -> Obligation:
    options = [*PAUSED, *pending.options, *more]
    step: Any = {"do": "control_pending", "how": how, "options": options, "steps": [*pending.steps],
                 "probe": [*pending.probe], "then": [*pending.then, *END]}  # fmt: skip
    if pending.offset_ms is not None:
        step["offset"] = pending.offset_ms
    case = " ".join((f"{kind}, {how}", *more))
    return Obligation(kind, "pending", case, SOURCE, (step,), setup="pending-changed")
