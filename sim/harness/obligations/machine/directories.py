"""Obligations of a directory at a start: API keys that were replaced before it, and a line of the journal that a kill
has cut at each of several places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.constants import API_KEY
from leyden.harness.control.whole.directory_checks import CUTS
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

_KEYS = "DECISIONS.md: api-keys"
_CREATE, _ROTATE = "/sandbox/v1/api-keys", "/sandbox/v1/api-keys/rotate"
_NEW = "n\u00e9w \U0001f600"


def directory_obligations() -> Iterator[Obligation]:
    """Each order of new keys, replacements and starts, with each way to end; each cut with each kind of last line."""
    for how in ENDS:
        for case, steps in _orders(how).items():
            step: Any = {"do": "control_keys", "options": [*PAUSED], "steps": steps}
            yield Obligation("rotateApiKey", "keys-at-a-start", f"{case}, {how}", _KEYS, (step,), setup="keys-changed")
    for number, (last, before) in enumerate(_LAST.items()):
        for kind in CUTS if not number else CUTS[number::5]:
            cut: Any = {"do": "control_cut", "kind": kind, "options": [*PAUSED], "steps": [*_FEW, *before],
                        "then": [*_THEN]}  # fmt: skip
            source = "the harness's list of restarts"
            yield Obligation("restart", "cut-line", f"{last}, {kind}", source, (cut,), setup="cut-changed")


def _orders(how: str) -> Mapping[str, list[Step]]:
    again: Any = {"do": "restart", "how": how}

    def rotate(key: str, new: str) -> Step:
        return send("POST", _ROTATE, {"replaces": key, "key": new})

    def create(key: str) -> Step:
        return send("POST", _CREATE, {"key": key})

    def given(key: str) -> Any:
        return {**again, "as": key}

    first = rotate(API_KEY, "second")
    return {
        "the first key, replaced": [first, again, again],
        "the first key, replaced twice": [first, again, rotate("second", "third"), again],
        "replaced twice, then started": [first, rotate("second", "third"), again, rotate("third", "fourth"), again],
        "a further key": [create("second"), again, create("third"), again],
        "a further key, replaced": [create("second"), rotate("second", "third"), again, again],
        "the first key, beside a further one": [create("second"), rotate(API_KEY, "third"), again, again],
        "started with the new key": [first, given("second"), again],
        "started with a further key": [create("second"), given("second"), again],
        "started with a replaced further key": [create("second"), rotate("second", "third"), given("second"), again],
        "started with each": [first, rotate("second", "third"), given("third"), given("second"), again],
    }  # fmt: skip


_FEW = (static(1, "s"), charge(2, "c"), pay("c", 1), charge(1, "d", expiresIn=600))
# What the last line is about.
_LAST: Mapping[str, tuple[Step, ...]] = {
    "a Charge": (charge(1, "e", description=_NEW, internalId="\u20ac"),),
    "a payment": (pay("d", 1),),
    "the clock": (advance("1m"),),
    "an idempotency key": (send("POST", "/v0/charges", {"amount": "1000", "description": _NEW},
                                headers=[["Idempotency-Key", "k"]]),),
}  # fmt: skip
_THEN = (
    charge(1, "later"), pay("later", 1), send("PATCH", "/v0/static-charges/{s.0.data.id}", {"internalId": _NEW}),
    send("GET", "/lnurlp/{s.0.data.id}/invoice?amount=2000", **{"as": "i"}),
    send("POST", "/sandbox/v1/webhook-secret/rotate"), advance("1h"), charge(1, "last"), pay("last", 1),
)  # fmt: skip
