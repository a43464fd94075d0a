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


_FAIL = "/sandbox/v1/charges/{o.n.data.id}/fail"


def _late(kind: str) -> tuple[Step, ...]:
    """Three rows of a kind, of which the oldest ends last: then the newest is removed before it has ended."""
    hook = "http://slow.localhost/"
    if kind == "Static Charges":
        hit = (charge(1, "c"), send("POST", _FAIL.replace("{o.", "{c."), {}, count=1))
        return (*hit, static(1, "o", expiresIn=900), static(2, "p", expiresIn=300), advance("6m"), advance("10m"))
    if kind == "Charges":
        newest = "/sandbox/v1/charges/{o.2.data.id}/fail"
        return (charge(3, "o"), send("POST", newest, {}), send("POST", _FAIL, {}, count=2))
    if kind == "payments":
        return (
            charge(3, "o"), pay("o", 1, outcome="hold"), charge(2, "p"), pay("p", 2), advance("1s"),
            send("POST", "/sandbox/v1/payments/{p-o.0.id}/settle"), advance("1s"),
        )  # fmt: skip
    return (
        send("PUT", "/sandbox/v1/inboxes/slow/script", {"answers": [500]}),
        charge(1, "o", callbackUrl=hook), charge(2, "p"), send("POST", _FAIL, {}, count=1),
        send("POST", _FAIL.replace("{o.", "{p."), {}, count=2), advance("1h"),
    )  # fmt: skip


def removed_obligations() -> Iterator[Obligation]:
    """Each kind of row of which the newest is removed before an older one has ended, with each way to end the
    server: the numbers of removed rows."""
    for kind, how in product(("Charges", "Static Charges", "payments", "callbacks"), ("", *ENDS)):
        step: Any = {"do": "control_keep", "count": 1, "options": [*PAUSED], "disk": bool(how), "steps": [*_late(kind)]}
        if how:
            step["how"] = how
        case = f"{kind}{f', {how}' if how else ''}"
        place = f"--keep of {kind}"
        yield Obligation(place, "removed", case, "leyden serve --help", (step,), setup="removed-changed")


def keep_obligations() -> Iterator[Obligation]:
    """Bounds of one row, of a few, and of more than there are, with each way to end the server."""
    for keep, how in product((1, 3, 7, 1_000), ("", *ENDS)):
        step: Any = {"do": "control_keep", "count": keep, "options": [*PAUSED], "disk": bool(how), "steps": [*_steps()]}
        if how:
            step["how"] = how
        yield Obligation("--keep", "bound", f"{keep}{f', {how}' if how else ''}", "leyden serve --help", (step,),
                         setup="control-keep-changed")  # fmt: skip
