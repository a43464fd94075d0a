"""Obligations of the stream of events: where it begins, and what comes while it is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "sandbox.openapi.yaml#/paths/~1sandbox~1v1~1events/get"
_PAST = (charge(3, "past"),)
_MEANWHILE: Mapping[str, tuple[Step, ...]] = {
    "reads": (send("GET", "/v0/wallet", **{"as": "wallet"}), send("GET", "/v0/charges", **{"as": "charges"})),
    "changes": (charge(1, "c"), pay("c", 1), advance("1h")),
    "refusals": (send("GET", "/v0/charges/none", status=404), send("DELETE", "/v0/charges", status=405),
                 send("POST", "/v0/charges", {"amount": "x"}, status=400)),
    "the control plane": (send("POST", "/sandbox/v1/snapshots", {}, **{"as": "snap"}),
                          send("POST", "/sandbox/v1/webhook-secret/rotate")),
}  # fmt: skip


def stream_obligations() -> Iterator[Obligation]:
    """A stream without the past, from the beginning, and after each of some requests, with what happens meanwhile."""
    for (case, then), after in product(_MEANWHILE.items(), (None, 0, 1, 3, 100)):
        step: Any = {"do": "control_stream", "options": [*PAUSED], "steps": [*_PAST], "then": [*then]}
        if after is not None:
            step["count"] = after
        name = f"{case}, {'none of the past' if after is None else f'after {after}'}"
        yield Obligation("getEvents", "stream", name, _SOURCE, (step,), setup="streams-changed")
