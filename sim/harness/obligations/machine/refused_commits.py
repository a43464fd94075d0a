"""Obligations of a disk that is full: each operation that changes something is refused, and repeated when there is
room."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leyden.harness.control.documents import control_operations
from leyden.harness.control.whole.refused_commits import FULL, LEFT, SYNC
from leyden.harness.obligations.control.kept import EXERCISES, NETWORK, base_steps
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

_SOURCE = "charges.openapi.yaml: the response 507"
_KEY = [["Idempotency-Key", "full"]]
_CHARGE = {"amount": "3000", "description": "full", "callbackUrl": "http://full.localhost/"}
_STATIC = {"minAmount": "1000", "maxAmount": "5000", "description": "full"}
# Snapshots are kept in memory. A restore is refused without a start after it, which ends the snapshot.
_WITHOUT = frozenset({"createSnapshot", "deleteSnapshot"})
_WRITES = tuple(how for how in FULL if how != SYNC)
_FEW = (static(1, "s0", internalId="till"), charge(1, "c"))
# The requests of the charge service.
_REQUESTS: Mapping[str, Step] = {
    "createCharge": send("POST", "/v0/charges", _CHARGE, **{"as": "full"}),
    "createCharge with a key": send("POST", "/v0/charges", _CHARGE, headers=_KEY, **{"as": "full"}),
    "createStaticCharge": send("POST", "/v0/static-charges", _STATIC, **{"as": "full"}),
    "createStaticCharge with a key": send("POST", "/v0/static-charges", _STATIC, headers=_KEY, **{"as": "full"}),
    "updateStaticCharge": send("PATCH", "/v0/static-charges/{s0.0.data.id}", {"internalId": "full"}),
    "updateStaticCharge of slots": send("PATCH", "/v0/static-charges/{s0.0.data.id}", {"allowedSlots": 3}),
    "requestInvoice": send("GET", "/lnurlp/{s0.0.data.id}/invoice?amount=2000", **{"as": "full"}),
}  # fmt: skip
# Ids, preimages, jitter and stored responses show in these.
_THEN = (
    send("POST", "/v0/charges", _CHARGE, headers=_KEY, **{"as": "again"}), charge(1, "next"), pay("next", 1),
    send("PUT", "/sandbox/v1/inboxes/late/script", {"answers": [500]}),
    charge(1, "late", callbackUrl="http://late.localhost/x"),
    send("POST", "/sandbox/v1/charges/{late.0.data.id}/fail", {}), advance("2h"),
)  # fmt: skip


def refused_commit_obligations() -> Iterator[Obligation]:
    """Each request of the charge service with each way to refuse its commit, each other one with one of them in turn,
    without a start and with one of its kinds in turn."""
    number = 0
    for place, request in _REQUESTS.items():
        number += 1
        for how in FULL:
            options = ("--durability", "always") if how == SYNC else ()
            yield from _pair(place, _FEW, request, options, number, how, setup="refused-changed")
    yield from _left()
    for name, exercise in EXERCISES.items():
        steps = exercise()
        if name not in _WITHOUT:
            number += 1
            at = _last_of(name, steps)
            before = (*base_steps(), *steps[:at])
            options = NETWORK if "network" in str(steps) else ()
            yield from _pair(name, before, steps[at], options, number, _WRITES[number % len(_WRITES)])


def _left() -> Iterator[Obligation]:
    """What a refused request would have begun: an expiry, a payment, a callback, a payer's payment. It is not repeated,
    and the clock moves past the instants of all of these."""
    payment, failed = "/sandbox/v1/payments", "/sandbox/v1/charges/{c.0.data.id}/fail"
    request = "{c.0.data.invoice.request}"
    requests: dict[str, Step] = {
        "createCharge": send("POST", "/v0/charges", {**_CHARGE, "expiresIn": 60}, **{"as": "full"}),
        "createStaticCharge": send("POST", "/v0/static-charges", {**_STATIC, "expiresIn": 60}, **{"as": "full"}),
        "requestInvoice": _REQUESTS["requestInvoice"],
        "createCharge with a key": send("POST", "/v0/charges", {**_CHARGE, "expiresIn": 60}, headers=_KEY,
                                        **{"as": "full"}),
        "updateStaticCharge": _REQUESTS["updateStaticCharge of slots"],
        "createPayment": send("POST", payment, {"request": request}, **{"as": "full"}),
        "createPayment, later": send("POST", payment, {"request": request, "delay": 60}, **{"as": "full"}),
        "createPayment, held": send("POST", payment, {"request": request, "outcome": "hold"}, **{"as": "full"}),
        "failCharge": send("POST", failed, {}),
        "replayDeliveries": send("POST", "/sandbox/v1/deliveries/replay", {"delay": "1m"}),
    }  # fmt: skip
    before = (*_FEW, charge(1, "sent"), send("POST", "/sandbox/v1/charges/{sent.0.data.id}/fail", {}))
    then = (advance("59999ms"), advance("1ms"), advance("1ms"), charge(1, "next"), pay("next", 1), advance("11h"),
            advance("30h"), charge(1, "last"), pay("last", 1))  # fmt: skip
    for number, (place, request_) in enumerate(requests.items()):
        for how in _WRITES:
            for end in ("", ENDS[number % len(ENDS)]):
                step: Any = {"do": "control_full_disk", "how": how, "options": [*PAUSED], "steps": [*before],
                             "refused": [{**request_, "count": 1}], "then": [*then], "check": LEFT}  # fmt: skip
                if end:
                    step["end"] = end
                case = f"{place}, {how}{f', {end}' if end else ''}"
                yield Obligation(place, "full-disk-left", case, _SOURCE, (step,), setup="refused-changed")


def _last_of(name: str, steps: Sequence[Any]) -> int:
    """The place of the last request of an operation of the control plane."""
    one = next(one for one in control_operations() if one.name == name)
    pattern = re.compile(re.sub(r"\\?\{\w+\\?\}", "[^/]+", one.path))
    return max(
        place
        for place, step in enumerate(steps)
        if step["do"] == "send" and step["method"] == one.method and pattern.fullmatch(step["target"])
    )


def _pair(
    place: str, steps: Sequence[Any], refused: Any, options: Sequence[str], number: int, how: str,
    setup: str = "full-disk-changed",
) -> Iterator[Obligation]:  # fmt: skip
    # After a refused sync the next commit writes everything again; until then nothing is confirmed.
    then = (charge(1, "sure"), *_THEN) if how == SYNC else _THEN
    for end in ("", *(() if "restore" in refused["target"] else (ENDS[number % len(ENDS)],))):
        step: Any = {"do": "control_full_disk", "how": how, "options": [*PAUSED, *options], "steps": [*steps],
                     "refused": [{**refused, "count": 1}], "then": [*then]}  # fmt: skip
        if end:
            step["end"] = end
        case = f"{place}, {how}{f', {end}' if end else ''}"
        yield Obligation(place, "full-disk", case, _SOURCE, (step,), setup=setup)
