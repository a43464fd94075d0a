"""Obligations of the numbers that the control plane keeps: each transition of a Charge, a delivery, a payment and a
fault, alone and among others, and what removes or copies rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.control.whole.number_checks import NUMBER_WAYS
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "sandbox.openapi.yaml#/components/schemas/Sandbox"
_RESET = send("POST", "/sandbox/v1/reset", {})
_SNAPSHOT = send("POST", "/sandbox/v1/snapshots", {}, **{"as": "snap"})
_RESTORE = send("POST", "/sandbox/v1/restore", {"snapshot": "{snap.0.id}"})
_INVOICE = "/lnurlp/{s.0.data.id}/invoice?amount=2000"
_REPLAY = send("POST", "/sandbox/v1/deliveries/replay", {})


def _fail(label: str, number: int = 0) -> Step:
    return send("POST", f"/sandbox/v1/charges/{{{label}.{number}.data.id}}/fail", {})


def _script(name: str, **script: Any) -> Step:
    return send("PUT", f"/sandbox/v1/inboxes/{name}/script", script)


def _held(end: str, outcome: str = "hold") -> tuple[Step, ...]:
    held = send("POST", "/sandbox/v1/payments", {"request": "{c.0.data.invoice.request}", "outcome": outcome},
                **{"as": "held"})  # fmt: skip
    return (charge(2, "c"), held, send("POST", f"/sandbox/v1/payments/{{held.0.id}}/{end}"), pay("c", 1))


def _delivered(**script: Any) -> tuple[Step, ...]:
    hook = "http://down.localhost/hook"
    return (_script("down", **script), charge(2, "c", callbackUrl=hook), _fail("c"), pay("c", 2), advance("2h"),
            _REPLAY, advance("30h"), _REPLAY, advance("30h"))  # fmt: skip


def _fault(**fields: Any) -> Step:
    given = {"kind": "error", "operation": "getWallet", **fields}
    return send("POST", "/sandbox/v1/service-faults", given, **{"as": "fault"})


def _wallet(status: int, count: int = 1) -> Step:
    return send("GET", "/v0/wallet", status=status, count=count)


_SEQUENCES: Mapping[str, tuple[Step, ...]] = {
    "completed": (charge(1, "c"), charge(2, "d"), pay("c", 1), pay("d", 1), pay("d", 2)),
    "failed": (charge(3, "c"), _fail("c", 2), _fail("c", 0), _fail("c", 1)),
    "expired": (charge(2, "c", expiresIn=60), charge(1, "d", expiresIn=90), advance("59999ms"), advance("1ms"),
                advance("1m"), charge(1, "e", expiresIn=1), advance("1s")),
    "each state": (charge(4, "c", expiresIn=60), pay("c", 1), _fail("c", 1), advance("1m"), charge(2, "d"), pay("d", 1),
                   _fail("d", 1)),
    "refused payments": (charge(2, "c"), pay("c", 1, outcome="fail"), pay("c", 1, outcome="underpay"),
                         pay("c", 1, outcome="overpay_double"), pay("c", 2), pay("c", 2)),
    "settled": _held("settle"),
    "cancelled": _held("cancel"),
    "held until the node gives up": (charge(2, "c"), pay("c", 1, outcome="hold"), advance("11h"), pay("c", 2)),
    "payment with a delay": (charge(1, "c"), pay("c", 1, delay=60), advance("59s"), advance("1s")),
    "Static Charge": (static(1, "s"), send("GET", _INVOICE, count=3, **{"as": "i"}),
                      send("POST", "/sandbox/v1/payments", {"request": "{i.0.pr}"}),
                      send("POST", "/sandbox/v1/payments", {"request": "{i.2.pr}"}), advance("2h")),
    "full Static Charge": (static(1, "s", allowedSlots=1), send("GET", _INVOICE, count=3, **{"as": "i"}),
                           send("POST", "/sandbox/v1/payments", {"request": "{i.1.pr}"}),
                           send("PATCH", "/v0/static-charges/{s.0.data.id}", {"allowedSlots": 5}), advance("2h")),
    "expired Static Charge": (static(2, "s", expiresIn=60), send("GET", _INVOICE, count=2, **{"as": "i"}),
                              advance("1m"), advance("2h")),
    "delivered": _delivered(always=200),
    "delivered at last": _delivered(answers=[500, 500, 200]),
    "exhausted": _delivered(always=500),
    "stopped": _delivered(answers=[410]),
    "stopped, then sent": _delivered(answers=[500, 410], always=200),
    "timed out": _delivered(always="timeout"),
    "blocked": (charge(2, "c", callbackUrl="http://shop.example/hook"), _fail("c"), _REPLAY, pay("c", 2), advance("3h"),
                _REPLAY),
    "without a receiver": (charge(2, "c", callbackUrl=None), _fail("c"), pay("c", 2)),
    "delivery that is replayed later": (charge(1, "c"), pay("c", 1),
                                        send("POST", "/sandbox/v1/deliveries/replay", {"delay": "1h"}),
                                        advance("59m"), advance("1m")),
    "slow answer": (_script("down", always={"status": 200, "delay": 5}),
                    charge(1, "c", callbackUrl="http://down.localhost/"), _fail("c"), advance("4999ms"),
                    advance("1ms")),
    "service faults": (_fault(), _fault(count=3), _wallet(503), _wallet(503), _wallet(503), _wallet(503), _wallet(200),
                       _fault(nth=2), _wallet(200), _wallet(503), _fault(), _fault(count=None), _wallet(503),
                       send("DELETE", "/sandbox/v1/service-faults/{fault.4.id}"), _wallet(200), _fault(count=2),
                       _wallet(503), send("DELETE", "/sandbox/v1/service-faults"), _wallet(200)),
    "reset": (charge(3, "c"), pay("c", 1), _fail("c", 1), _fault(), _RESET, charge(1, "d"), pay("d", 1), _RESET),
    "restored": (charge(2, "c"), pay("c", 1), _SNAPSHOT, _fail("c", 1), charge(3, "d"), pay("d", 2), _RESTORE,
                 charge(1, "e"), pay("e", 1), _RESTORE, advance("30h")),
    "refused requests": (charge(1, "c"), send("POST", "/v0/charges", {"amount": "1"}, status=400),
                         pay("c", 1), send("POST", "/sandbox/v1/charges/{c.0.data.id}/fail", {}, status=409)),
    "repeated requests": (send("POST", "/v0/charges", {"amount": "1000", "description": "x"}, count=2,
                               headers=[["Idempotency-Key", "k"]]),),
}  # fmt: skip
_KEEPS = ("completed", "each state", "delivered", "exhausted", "expired", "full Static Charge")


def number_obligations() -> Iterator[Obligation]:
    """Each sequence with a kill and with another way to keep its state in turn, and some with a bound on what is
    kept."""
    others = [how for how in NUMBER_WAYS if how not in ("", "kill")]
    for number, (case, steps) in enumerate(_SEQUENCES.items()):
        for how in ("", "kill", others[number % len(others)]):
            yield _obligation(case, steps, how)
        if case in _KEEPS:
            for keep in ("1", "2"):
                yield _obligation(case, steps, "", "--keep", keep)


def _obligation(case: str, steps: Any, how: str, *options: str) -> Obligation:
    step: Any = {"do": "control_numbers", "options": [*PAUSED, *options], "steps": [*steps]}
    if how:
        step["how"] = how
    name = ", ".join(part for part in (case, how, " ".join(options)) if part)
    return Obligation("getSandbox", "numbers", name, _SOURCE, (step,), setup="numbers-changed")
