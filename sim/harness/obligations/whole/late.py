"""Obligations of answers of receivers that come when a reset or a restore has ended the run of their callbacks, or that
never come because the server has ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from leyden.harness.control.whole.late_checks import LATE_WAYS
from leyden.harness.obligations.control.setups import PAUSED, charge, pay, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.targets.hosted import ENDS

_SOURCE = "sandbox.openapi.yaml#/paths/~1sandbox~1v1~1reset/post"
_URL = "http://shop.example/hook"
_SENT = (charge(2, "c", callbackUrl=_URL), pay("c", 2))
# What was done again has the same ids; without it the callbacks of the former run have none.
_AGAIN = {
    "the same callbacks": _SENT,
    "no callback": (),
    "another one": (charge(1, "d", callbackUrl=_URL), pay("d", 1)),
}
_STATUSES = (200, 410, 500, None)
_MOST_LOST = 3  # attempts at one delivery


def late_obligations() -> Iterator[Obligation]:
    """Each answer to the callbacks of a former run, with the same ones, another one or none in the new run."""
    for how, (name, again), status in product(LATE_WAYS, _AGAIN.items(), _STATUSES):
        step: Any = {"do": "control_late", "how": how, "options": [*PAUSED], "steps": [*_SENT], "again": [*again],
                     "status": status, "then": [send("GET", "/v0/wallet", **{"as": "wallet"})]}  # fmt: skip
        yield Obligation(f"late answer, {how}", "late", f"{how}, {name}, {status or 'no connection'}", _SOURCE, (step,),
                         setup="late-changed")  # fmt: skip


def lost_obligations() -> Iterator[Obligation]:
    """Attempts that end with the server in each way, once and repeatedly, and each answer to the attempt after them."""
    source = "sandbox.openapi.yaml#/components/schemas/AttemptError"
    for (number, how), status in product(enumerate(ENDS), _STATUSES):
        count = 1 + (number + _STATUSES.index(status)) % _MOST_LOST
        step: Any = {"do": "control_lost", "how": how, "count": count, "options": [*PAUSED], "disk": True,
                     "steps": [*_SENT], "status": status}  # fmt: skip
        case = f"{how}, {count} times, then {status or 'no connection'}"
        yield Obligation("chargeUpdated", "lost", case, source, (step,), setup="late-changed")
