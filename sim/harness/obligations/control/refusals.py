"""Obligations of refused requests to the control plane: each mistake and each pair of mistakes of every operation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from leyden.harness.control.documents import control_operations
from leyden.harness.control.refusal_checks import mistakes_of
from leyden.harness.obligations.obligation import Obligation

SETUP = "control-empty"
_ONE_PLACE = (frozenset({"method", "options"}), frozenset({"json", "field"}))


def control_refusal_obligations() -> Iterator[Obligation]:
    """Every mistake and every pair of mistakes, of each GET as a HEAD, too (DECISIONS order-of-checks)."""
    for one in control_operations():
        names = mistakes_of(one)
        for is_head in (False, True) if one.method == "GET" else (False,):
            for mistakes in (*((name,) for name in names), *combinations(names, 2)):
                if any({*mistakes} == places for places in _ONE_PLACE):
                    continue
                if is_head and {"method", "options"} & {*mistakes}:
                    continue  # another method is not HEAD
                step: Any = {"do": "control_refused", "operation": one.name, "mistakes": [*mistakes]}
                if is_head:
                    step["method"] = "HEAD"
                place = f"{'HEAD ' if is_head else ''}{one.name} refused"
                yield Obligation(place, " and ".join(mistakes), "", one.source, (step,), setup=SETUP)
