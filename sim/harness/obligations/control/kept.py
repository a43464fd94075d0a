"""Obligations of kept state: the changes of every operation of the control plane survive a restart of each kind, a
restore, a fork and an import, and the sandbox then continues as if there had been none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leyden.harness.control.documents import ControlOperation, control_document, control_operations, resolved
from leyden.harness.control.state_checks import COPIES
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

_HOOK = "http://shop.inbox.localhost/hook"
_DOWN = "http://down.localhost/"
_KEYED = {"amount": "3000", "description": "keyed", "expiresIn": 3_600, "callbackUrl": _HOOK}
NETWORK = ("--network", "line:4")
# Without an effect on the sandbox that is asked, with the reasons.
_NO_STATE: Mapping[str, str] = {
    "waitForDeliveries": "it waits",
    "diffSandbox": "it compares",
    "checkReceiver": "it sends messages of its own",
    "forkSandbox": "the new sandbox is compared in each of the others",
}


def base_steps() -> tuple[Step, ...]:
    """Some of everything: Charges in each state, payments in flight and held, callbacks that are retried."""
    return (
        send("PUT", "/sandbox/v1/inboxes/down/script", {"always": 500}),
        static(1, "s0", internalId="till", identifier="ana@localhost"), static(1, "s1", allowedSlots=2),
        charge(3, "c", internalId="a"), charge(1, "d", callbackUrl=_DOWN), charge(1, "e", expiresIn=30),
        send("GET", "/lnurlp/{s1.0.data.id}/invoice?amount=2000", count=2, **{"as": "i"}),
        pay("c", 1), pay("d", 1),
        send("POST", "/sandbox/v1/payments", {"request": "{c.1.data.invoice.request}", "outcome": "hold"},
             **{"as": "held"}),
        send("POST", "/sandbox/v1/payments", {"request": "{i.0.pr}"}),
        send("POST", "/sandbox/v1/payments", {"request": "{i.1.pr}", "delay": 7_200}),
        send("POST", "/v0/charges", _KEYED, headers=[["Idempotency-Key", "k1"]], **{"as": "keyed"}),
        advance("1500ms"),
    )  # fmt: skip


def after_steps() -> tuple[Step, ...]:
    """Steps after which differences in the kept state are visible: new rows with the next ids, callbacks, payers,
    faults, keys, the time."""
    return (
        send("POST", "/v0/charges", _KEYED, headers=[["Idempotency-Key", "k1"]], **{"as": "again"}),
        charge(2, "f", internalId="a", description="tea"), pay("f", 2),
        send("GET", "/lnurlp/{s0.0.data.id}/invoice?amount=2000", **{"as": "j"}),
        send("POST", "/sandbox/v1/payments", {"request": "{j.0.pr}"}),
        charge(1, "g", callbackUrl=_DOWN), pay("g", 1),
        advance("45s"),
        send("PUT", "/sandbox/v1/inboxes/late/script", {"answers": [500]}),
        charge(2, "h", callbackUrl="http://late.localhost/x"), pay("h", 2),
        advance("2h"),
        send("POST", "/sandbox/v1/webhook-secret/rotate"),
        charge(1, "k"), pay("k", 1),
        advance("30h"),
    )  # fmt: skip


def _kinds(schema: str, member: str) -> list[str]:
    found = resolved(control_document(), {"$ref": f"#/components/schemas/{schema}"})["properties"][member]["enum"]
    return [str(kind) for kind in found]


_FAULT_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "burst": {"count": 3}, "wrong_content_type": {"value": "text/x"}, "unknown_field": {"value": "extra"},
    "missing_headers": {"headers": ["webhook-id"]}, "unknown_status": {"value": "strange"},
    "rate_limit": {"operation": "getWallet", "delay": 7}, "delay": {"delay": 600},
}  # fmt: skip
_SERVICE_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "error": {"status": 429, "retryAfter": 9, "afterCommit": True},
    "wrong_content_type": {"value": "text/x"},
    "past_date": {"delay": 60},
    "key_in_use": {"operation": "createCharge"},
}


def _faults() -> tuple[Step, ...]:
    rotate = send("POST", "/sandbox/v1/webhook-secret/rotate")
    kinds = _kinds("FaultCreate", "kind")
    bodies = [{"kind": kind, "attempt": 1, "count": 2, **_FAULT_FIELDS.get(kind, {})} for kind in kinds]
    for body in bodies:
        if body["kind"] == "rate_limit":
            body.pop("attempt")
    later: list[Any] = [
        {"kind": "drop", "event": "charge.error", "attempt": 900, "count": None, "chargeId": "{c.2.data.id}"}
    ]
    added = [send("POST", "/sandbox/v1/faults", body, **{"as": "fault"}) for body in [*later, *bodies]]
    return (rotate, *added, charge(9, "hit"), pay("hit", 9))


def _service_faults() -> tuple[Step, ...]:
    kinds = [kind for kind in _kinds("ServiceFaultCreate", "kind") if kind not in {"connection_reset", "slow_body"}]
    bodies: list[Any] = [
        {"operation": "createStaticCharge", "kind": kind, "nth": 5, "count": 3, "probability": 0.5,
         "until": "2031-01-01T00:00:00.000Z", "marked": False, **_SERVICE_FIELDS.get(kind, {})}
        for kind in kinds if kind not in {"stale_read"}
    ]  # fmt: skip
    bodies += [
        {"kind": "error", "operation": "getWallet", "method": "GET", "path": "/v0/*", "body": "html", "nth": 900}
    ]
    return tuple(send("POST", "/sandbox/v1/service-faults", body, **{"as": "service"}) for body in bodies)


_PAYERS: tuple[Step, ...] = tuple(
    send("POST", "/sandbox/v1/payers", body, **{"as": "payer"})
    for body in (
        {"internalId": "a", "share": 0.5, "delay": 20, "payer": "half", "description": "t*"},
        {"staticChargeId": "{s0.0.data.id}", "count": 1, "outcome": "hold"},
        {"amount": "2000", "beforeExpiry": "10m", "count": 3, "outcome": "fail", "failure": "TIMEOUT"},
        {"afterExpiry": 5, "outcome": "twice"},
    )
)
_SCRIPT = {
    "rules": [{"say": {"status": 503, "headers": {"Retry-After": "90"}, "delay": 2}, "event": "charge.completed",
               "count": 2}, {"say": "timeout", "chargeId": "{c.2.data.id}", "attempt": 1, "count": None}],
    "answers": [500, "reset", {"status": 202, "body": "later", "commits": True}],
    "always": {"status": 204, "delay": 0.25},
}  # fmt: skip
# What is done with each operation that changes something: steps after `base_steps`, with every member of its body.
EXERCISES: Mapping[str, Any] = {
    "reset": lambda: (send("POST", "/sandbox/v1/reset", {"seed": 7, "start": "2031-05-01T00:00:00.500Z"}),
                      static(1, "s0"), charge(3, "c")),
    "createSnapshot": lambda: (send("POST", "/sandbox/v1/snapshots", {"name": "one"}, count=2),),
    "deleteSnapshot": lambda: (send("POST", "/sandbox/v1/snapshots", {"name": "one"}, count=2, **{"as": "snap"}),
                               send("DELETE", "/sandbox/v1/snapshots/{snap.0.id}")),
    "restoreSandbox": lambda: (send("POST", "/sandbox/v1/snapshots", {}, **{"as": "snap"}), advance("10m"),
                               charge(2, "x"),
                               send("POST", "/sandbox/v1/restore", {"snapshot": "{snap.0.id}"})),
    "setClock": lambda: (send("PATCH", "/sandbox/v1/clock", {"rate": 60}), {"do": "passes", "by": 1_500}),
    "advanceClock": lambda: (advance("25s"), send("POST", "/sandbox/v1/clock/advance", {"until": "next_event"}),
                             send("POST", "/sandbox/v1/clock/advance", {"to": "2030-01-01T00:01:00.250Z"})),
    "createPayment": lambda: tuple(
        send("POST", "/sandbox/v1/payments", {"request": "{c.2.data.invoice.request}", "outcome": outcome,
                                               "payer": outcome, "delay": number})
        for number, outcome in enumerate(_kinds("PaymentOrder", "outcome"))),
    "settlePayment": lambda: (send("POST", "/sandbox/v1/payments/{held.0.id}/settle"),),
    "cancelPayment": lambda: (send("POST", "/sandbox/v1/payments/{held.0.id}/cancel"),),
    "addPayer": lambda: (*_PAYERS, charge(4, "taken", internalId="a", description="tea"), advance("21s")),
    "clearPayers": lambda: (*_PAYERS, charge(1, "taken", internalId="a"), send("DELETE", "/sandbox/v1/payers")),
    "clearPayer": lambda: (*_PAYERS, send("DELETE", "/sandbox/v1/payers/{payer.1.id}")),
    "failCharge": lambda: (send("POST", "/sandbox/v1/charges/{c.2.data.id}/fail", {"reason": "lost"}),),
    "drainNode": lambda: (send("POST", "/sandbox/v1/network/nodes/shop/drain", {"inbound": 0.5, "outbound": 0.25}),),
    "rebalanceNode": lambda: (
        send("POST", "/sandbox/v1/network/nodes/shop/channels", {"peer": "n1", "capacity": "900000000"}),
        send("POST", "/sandbox/v1/network/nodes/n1/channels", {"peer": "shop", "capacity": "900000000"}),
        send("POST", "/sandbox/v1/network/nodes/shop/rebalance", {"amount": "50000"})),
    "openChannel": lambda: (send("POST", "/sandbox/v1/network/nodes/shop/channels",
                                 {"peer": "n1", "capacity": "900000000", "local": "100000000"}),),
    "closeChannel": lambda: (send("DELETE", "/sandbox/v1/network/channels/0"),),
    "addInterceptor": lambda: (
        send("POST", "/sandbox/v1/network/interceptors", {"kind": "fail", "code": 4103, "times": 2, "hop": 1}),
        send("POST", "/sandbox/v1/network/interceptors", {"kind": "delay", "delay": 3, "node": "n2", "after": 2,
                                                           "lasting": "10m", "times": 9}, **{"as": "inter"}),
        charge(1, "routed"), pay("routed", 1, payer="Ben"), advance("3s")),
    "removeInterceptor": lambda: (*EXERCISES["addInterceptor"](),
                                  send("DELETE", "/sandbox/v1/network/interceptors/{inter.0.id}")),
    "replayDeliveries": lambda: (send("POST", "/sandbox/v1/deliveries/replay", {"delay": "1h"}),),
    "replayDelivery": lambda: (send("GET", "/sandbox/v1/deliveries", **{"as": "list"}),
                               send("POST", "/sandbox/v1/deliveries/{list.0.data.0.id}/replay",
                                    {"at": "2030-01-01T00:30:00.125Z"})),
    "createApiKey": lambda: (send("POST", "/sandbox/v1/api-keys", {"key": "further key"}),),
    "rotateApiKey": lambda: (send("POST", "/sandbox/v1/api-keys", {"key": "further"}),
                             send("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "further", "key": "newest"})),
    "rotateWebhookSecret": lambda: (send("POST", "/sandbox/v1/webhook-secret/rotate"), advance("1h"),
                                    send("POST", "/sandbox/v1/webhook-secret/rotate")),
    "scriptInbox": lambda: (send("PUT", "/sandbox/v1/inboxes/shop.inbox/script", _SCRIPT), charge(1, "scripted"),
                            pay("scripted", 1)),
    "addFault": _faults,
    "clearFaults": lambda: (*_faults(), send("DELETE", "/sandbox/v1/faults")),
    "clearFault": lambda: (*_faults(), send("DELETE", "/sandbox/v1/faults/{fault.0.id}")),
    "addServiceFault": lambda: (*_service_faults(), static(4, "matching")),
    "clearServiceFaults": lambda: (*_service_faults(), send("DELETE", "/sandbox/v1/service-faults")),
    "clearServiceFault": lambda: (*_service_faults(), send("DELETE", "/sandbox/v1/service-faults/{service.0.id}")),
}  # fmt: skip
_RATES = (0.001, 0.5, 1, 60, 12.25, 100_000)
# Options of `leyden serve` that a sandbox begins with.
_OPTIONS: Mapping[str, Sequence[str]] = {
    "autopay": ("--autopay", "delay=2s"),
    "keep": ("--keep", "5"),
    "webhook-secret": ("--webhook-secret", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"),
    "overlay": ("--overlay", "strict"),
}


def kept_obligations() -> Iterator[Obligation]:
    """Each operation that changes something, each rate, and some options of the server, with each way to keep state."""
    for number, one in enumerate(control_operations()):
        if one.method != "GET" and one.name not in _NO_STATE:
            yield from _of(one, number)
    clock = next(one for one in control_operations() if one.name == "setClock")
    for rate in _RATES:
        steps = (send("PATCH", clock.path, {"rate": rate}), {"do": "passes", "by": 2_500})
        back = send("PATCH", clock.path, {"rate": 0})
        for how, delay in (("close", 90_000), ("kill", 0), ("restore", 0), ("fork", 0)):
            yield _kept(
                f"setClock rate {rate:g}", how, clock.source, (*base_steps(), *steps), (*after_steps(), back), delay
            )
        for how, delay in (("close", 90_000), ("restore", 0)):
            yield _kept(
                f"setClock rate {rate:g}, then 0",
                how,
                clock.source,
                (*base_steps(), *steps, back),
                after_steps(),
                delay,
            )
    for number, (name, options) in enumerate(_OPTIONS.items()):
        for how in _ways(number):
            yield _kept(f"option {name}", how, "leyden serve --help", base_steps(), after_steps(), options=options)


def reseeded_obligations() -> Iterator[Obligation]:
    """Copies of a sandbox that was forked with other seeds, once and more often."""
    steps = (static(1, "s0"), charge(1, "c"), pay("c", 1))
    then = (
        charge(2, "f"), pay("f", 2), send("GET", "/lnurlp/{s0.0.data.id}/invoice?amount=2000", **{"as": "j"}),
        send("PUT", "/sandbox/v1/inboxes/late/script", {"answers": [500]}),
        charge(1, "h", callbackUrl="http://late.localhost/x"), pay("h", 1),
        send("POST", "/sandbox/v1/webhook-secret/rotate"), advance("2h"),
    )  # fmt: skip
    for seeds, options in (([8], ()), ([8, 9], ()), ([9, 8], NETWORK)):
        for how in COPIES:
            step: Any = {"do": "control_kept", "how": how, "options": [*PAUSED, *options], "steps": [*steps],
                         "then": [*then], "reseeds": seeds}  # fmt: skip
            case = f"{len(seeds)} times, {how}{', network' if options else ''}"
            yield Obligation("forkSandbox reseed", "reseeded", case, "sandbox.openapi.yaml#/components/schemas/Fork",
                             (step,), setup="reseeded-changed")  # fmt: skip


def _ways(number: int) -> tuple[str, ...]:
    """A kill, another end in turn, and each way to copy."""
    ends = [way for way in ENDS if way != "kill"]
    return ("kill", ends[number % len(ends)], *COPIES)


def _of(one: ControlOperation, number: int) -> Iterator[Obligation]:
    if one.name not in EXERCISES:
        yield Obligation(one.name, "kept", "", one.source, ())
        return
    options = NETWORK if "/network/" in one.path else ()
    steps, then = (*base_steps(), *EXERCISES[one.name]()), after_steps()
    for how in _ways(number):
        yield _kept(one.name, how, one.source, steps, then, options=options)


def _kept(
    place: str, how: str, source: str, steps: Sequence[Any], then: Sequence[Any], delay: int = 0,
    options: Sequence[str] = (),
) -> Obligation:  # fmt: skip
    step: Any = {"do": "control_kept", "how": how, "options": [*PAUSED, *options], "steps": [*steps], "then": [*then],
                 "delay": delay}  # fmt: skip
    case = how if not delay else f"{how}, {delay} ms later"
    return Obligation(place, "kept", case, source, (step,), setup="control-kept-changed")
