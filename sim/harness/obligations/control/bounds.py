"""Obligations of `leyden serve --keep`: rows that end in another order than that in which they were created."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS


def _steps() -> tuple[Step, ...]:
    fail = "/sandbox/v1/charges/{late.n.data.id}/fail"
    invoice = "/lnurlp/{s0.0.data.id}/invoice?amount=2000"
    return (
        static(1, "s0"), static(3, "short", expiresIn=700), charge(3, "open", internalId="a"),
        charge(6, "late", internalId="a"), advance("1s"), charge(5, "timed", expiresIn=600), charge(6, "paid"),
        send("GET", invoice, count=4, **{"as": "child"}), pay("paid", 4), advance("1s"),
        send("POST", fail, {}, count=3), send("POST", "/sandbox/v1/payments", {"request": "{child.n.pr}"}, count=2),
        pay("open", 1, outcome="hold"), pay("paid", 2), advance("11m"), pay("late", 5), pay("timed", 2),
        charge(4, "last", internalId="b"), advance("200s"), pay("last", 2),
        send("POST", "/sandbox/v1/charges/{last.3.data.id}/fail", {}), advance("1ms"),
    )  # fmt: skip


def keep_obligations() -> Iterator[Obligation]:
    """Bounds of one row, of a few, and of more than there are, with each way to end the server."""
    for keep, how in product((1, 3, 7, 1_000), ("", *ENDS)):
        step: Any = {"do": "control_keep", "count": keep, "options": [*PAUSED], "disk": bool(how), "steps": [*_steps()]}
        if how:
            step["how"] = how
        yield Obligation("--keep", "bound", f"{keep}{f', {how}' if how else ''}", "leyden serve --help", (step,),
                         setup="control-keep-changed")  # fmt: skip
