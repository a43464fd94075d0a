"""Obligations of callbacks to addresses that are not allowed: they are blocked at once and never tried again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}/x-delivery"
_DAY_MS = 86_400_000
# Nothing outside of the built-in receivers may be reached: addresses of this machine, of private and of public
# networks, and names, some of which look like those of receivers.
_URLS = (
    "http://127.0.0.1:9/", "http://127.0.0.1/hook", "https://127.0.0.1:9/hook", "http://127.1.2.3:9/", "http://[::1]:9/",
    "http://10.0.0.1/", "http://192.168.1.1:8080/hook", "http://169.254.169.254/latest", "http://0.0.0.0:9/",
    "http://[::ffff:127.0.0.1]:9/", "http://[fe80::1]/", "http://192.0.2.1/", "http://[2001:db8::1]/",
    "http://localhost:9/", "https://localhost/hook", "http://shop.example/hook", "http://shop.localhost.example/",
    "http://notlocalhost/",
)  # fmt: skip
_CAUSES = ("pay", "fail", "expire")
_ENDS = ("", "close", "kill", "compact", "torn", "snapshot")


def blocked_obligations() -> Iterator[Obligation]:
    """Each address with each cause and a restart in turn, replays of the delivery at once and later, a fault of the
    sender beside it, and a Static Charge whose URL changes between such an address and a receiver."""
    for number, (url, cause) in enumerate(product(_URLS, _CAUSES)):
        how = _ENDS[number % len(_ENDS)]
        yield _obligation("blocked", f"{url} {cause}{f', {how}' if how else ''}", _charge(url, cause, how))
    for kind in ("drop", "duplicate", "delay", "bad_signature", "redeliver"):
        for url in _URLS[:2]:
            fault: Step = {"do": "fault", "kind": kind, "count": 2}
            yield _obligation("blocked-fault", f"{url} {kind}", [fault, *_charge(url, "pay", "")])
    for number, url in enumerate(_URLS):
        how = _ENDS[number % len(_ENDS)]
        yield _obligation("blocked-static", f"{url}{f', {how}' if how else ''}", _static(url, how))


def _charge(url: str, cause: str, how: str) -> list[Step]:
    again: list[Step] = [{"do": "restart", "how": how}] if how else []
    body: Any = {"amount": "1000", "description": "x", "callbackUrl": url, "expiresIn": 60}
    steps: list[Step] = [{"do": "create_charge", "as": "c", "body": body}]
    if cause == "pay":
        steps.append({"do": "pay", "as": "p", "charge": "c"})
    elif cause == "fail":
        steps.append({"do": "fail", "charge": "c"})
    else:
        steps.append({"do": "advance", "to": ["expiry", "c"], "offset": 0})
    steps += [*again, {"do": "advance", "by": 5_000}, {"do": "advance", "by": 400_000}, {"do": "replay", "charge": "c"}]
    steps += [*again, {"do": "advance", "by": _DAY_MS}, {"do": "replay", "charge": "c"}]
    steps += [{"do": "replay", "charge": "c", "offset": 60_000, "how": "delay"}, *again]
    steps += [{"do": "advance", "by": 59_999}, {"do": "advance", "by": 1}, {"do": "replay", "charge": "c"}]
    steps += [{"do": "advance", "by": 7 * _DAY_MS}, *again, {"do": "advance", "by": 1}]
    return steps


def _static(url: str, how: str) -> list[Step]:
    again: list[Step] = [{"do": "restart", "how": how}] if how else []
    hook = "http://r1.inbox.localhost/hook"
    body: Any = {"minAmount": "1000", "maxAmount": "2000", "description": "x", "callbackUrl": url}
    steps: list[Step] = [{"do": "create_static", "as": "s", "body": body}]
    steps += [{"do": "invoice", "static": "s", "as": f"c{n}", "amount": "1000"} for n in range(4)]
    steps += [{"do": "pay", "as": "p0", "charge": "c0"}, *again, {"do": "pay", "as": "p1", "charge": "c1"}]
    steps += [{"do": "patch", "static": "s", "body": {"callbackUrl": hook}}, {"do": "replay", "charge": "c0"}]
    steps += [{"do": "invoice", "static": "s", "as": "c4", "amount": "1000"}, {"do": "pay", "as": "p4", "charge": "c4"}]
    steps += [
        *again,
        {"do": "pay", "as": "p2", "charge": "c2"},
        {"do": "patch", "static": "s", "body": {"callbackUrl": url}},
    ]
    steps += [{"do": "invoice", "static": "s", "as": "c5", "amount": "1000"}, {"do": "pay", "as": "p5", "charge": "c5"}]
    steps += [{"do": "replay", "charge": "c5"}, {"do": "fail", "charge": "c3"}, {"do": "advance", "by": 7 * _DAY_MS}]
    return [*steps, *again, {"do": "replay", "charge": "c1"}, {"do": "replay", "charge": "c4"}]


def _obligation(kind: str, case: str, steps: list[Step]) -> Obligation:
    return Obligation("chargeUpdated", kind, case, _SOURCE, tuple(steps), setup="blocked-changed")
