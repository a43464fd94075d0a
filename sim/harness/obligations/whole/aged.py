"""Obligations of what stays while rows are removed because of `leyden serve --keep`: the effects of each operation of
the control plane, and each kind of thing that can be pending, with and without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leyden.harness.obligations.control.kept import EXERCISES, NETWORK, after_steps, base_steps
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.machine.pending import pending_table
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.targets.hosted import ENDS

_SOURCE = "leyden serve --help"
# Rows of each kind that end at once: more than are kept.
_ENDING = (
    static(1, "age"),
    send("GET", "/lnurlp/{age.0.data.id}/invoice?amount=2000", count=3, **{"as": "aging"}),
    send("POST", "/sandbox/v1/payments", {"request": "{aging.n.pr}"}, count=3),
    charge(5, "old"), pay("old", 3),
    send("POST", "/sandbox/v1/charges/{old.3.data.id}/fail", {}),
    send("POST", "/sandbox/v1/charges/{old.4.data.id}/fail", {}),
)  # fmt: skip


def aged_obligations() -> Iterator[Obligation]:
    """Each operation that changes something and each kind that can be pending, with one of the bounds in turn, without
    a restart and with one of its kinds in turn."""
    number = 0
    for name, exercise in EXERCISES.items():
        options = NETWORK if "network" in str(exercise()) else ()
        number += 1
        yield from _pair(name, (*base_steps(), *exercise()), after_steps(), options, number)
    for kind, pending in pending_table().items():
        number += 1
        yield from _pair(kind, pending.steps, (*pending.probe, *pending.then, advance("30h")), pending.options, number)


def _pair(place: str, steps: Any, then: Any, options: Any, number: int) -> Iterator[Obligation]:
    keep = (1, 2, 5)[number % 3]
    # These faults answer the next requests for Static Charges.
    ending = _ENDING[3:] if place == "addServiceFault" else _ENDING
    for how in ("", ENDS[number % len(ENDS)]):
        step: Any = {"do": "control_aged", "count": keep, "options": [*PAUSED, *options], "disk": bool(how),
                     "steps": [*steps], "meanwhile": [*ending], "then": [*then]}  # fmt: skip
        if how:
            step["how"] = how
        case = f"{place}, {keep}{f', {how}' if how else ''}"
        yield Obligation(place, "aged", case, _SOURCE, (step,), setup="aged-changed")
