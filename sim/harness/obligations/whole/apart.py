"""Obligations of copies while something else happens: each operation of the control plane, and each kind of thing that
can be pending, after a snapshot, beside a copy and in a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leyden.harness.control.whole.apart_checks import APART_WAYS
from leyden.harness.obligations.control.kept import EXERCISES, NETWORK, after_steps, base_steps
from leyden.harness.obligations.control.setups import PAUSED, advance, send
from leyden.harness.obligations.machine.pending import pending_table
from leyden.harness.obligations.obligation import Obligation

_SOURCE = "the harness's list of what a sandbox keeps"
# What is done besides: a request with a key, which another sandbox has not used, a callback, and a time in which the
# effects of the other steps show.
_KEY = [["Idempotency-Key", "apart"]]
_ELSEWHERE = {"amount": "5000", "description": "elsewhere", "expiresIn": 86_400}
_LATER = (
    send("POST", "/v0/charges", _ELSEWHERE, headers=_KEY, **{"as": "elsewhere"}),
    send("POST", "/sandbox/v1/charges/{elsewhere.-1.data.id}/fail", {}),
    send("POST", "/sandbox/v1/clock/advance", {"until": "next_event"}), advance("45m"),
)  # fmt: skip
_FIRST = send("POST", "/v0/charges", {"amount": "6000", "description": "here"}, headers=_KEY, **{"as": "here"})


def apart_obligations() -> Iterator[Obligation]:
    """Each operation that changes something, beside a sandbox with some of everything; each kind that can be pending,
    beside a sandbox in which it is pending, too."""
    for name, exercise in EXERCISES.items():
        options = NETWORK if "network" in str(exercise()) else ()
        for how in APART_WAYS:
            yield _obligation(name, how, base_steps(), (*exercise(), *_LATER), (_FIRST, *after_steps()), options)
    for kind, pending in pending_table().items():
        meanwhile = (*pending.probe, *pending.then, *_LATER)
        for how in APART_WAYS:
            then = (_FIRST, *pending.probe, *pending.then, advance("30h"))
            yield _obligation(kind, how, pending.steps, meanwhile, then, pending.options)


def _obligation(place: str, how: str, steps: Any, meanwhile: Any, then: Any, options: Any) -> Obligation:
    step: Any = {"do": "control_apart", "how": how, "options": [*PAUSED, *options], "steps": [*steps],
                 "meanwhile": [*meanwhile], "then": [*then]}  # fmt: skip
    return Obligation(place, "apart", f"{place}, {how}", _SOURCE, (step,), setup="apart-changed")
