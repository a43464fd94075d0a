"""The scene of a run: which rules take part, from when on, under which reading; and how rules choose among things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from leyden.harness.generators.choices import Dice, chance, pick
from leyden.harness.model.model import Model
from leyden.harness.model.records import Charge, Static

Step = dict[str, Any]


@dataclass(slots=True)
class Scene:
    """What one run is like: which rules take part, from when on, under which overlays, on disk or not (swarm testing:
    what is left out leaves room for what is not). `once` are the requests that had an Idempotency-Key."""

    rules: tuple[str, ...]
    start_ms: int
    overlays: tuple[str, ...] = ()
    disk: bool = False
    count: dict[str, int] = field(default_factory=dict)
    once: list[Step] = field(default_factory=list)

    def label(self, kind: str) -> str:
        """The next label of a kind: c1, c2, ..."""
        self.count[kind] = self.count.get(kind, 0) + 1
        return f"{kind}{self.count[kind]}"


Rule = Callable[[Dice, Model, Scene], Step | None]


def some_charge(dice: Dice, model: Model) -> Charge | None:
    """One of the Charges, rather one that waits."""
    charges = list(model.book.charges.values())
    if not charges:
        return None
    waiting = [one for one in charges if one.status == "pending"]
    return pick(dice, waiting if waiting and dice.below(3) else charges)


def some_static(dice: Dice, model: Model) -> Static | None:
    """One of the Static Charges."""
    statics = list(model.book.statics.values())
    return pick(dice, statics) if statics else None


def by_anybody(dice: Dice, step: Step) -> Step:
    """The step, now and then with another project's key."""
    return {**step, "by": "rival"} if chance(dice, 8) else step
