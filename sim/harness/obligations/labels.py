"""Labels of the steps of obligations that share a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from leyden.harness.steps import Step

_LABELS = ("as", "what", "static", "charge", "payment")


def labelled(steps: Sequence[Step], number: int) -> list[Step]:
    """The steps with labels of their own: for `new` that of the latest step which creates it, and `new-x` likewise."""
    found: list[Step] = []
    latest = ""
    for index, step in enumerate(steps):
        if step.get("as") == "new":
            latest = f"n{number}-{index}"
        names: Any = {
            name: latest if step.get(name) == "new" else f"n{number}-{label[4:]}"
            for name in _LABELS
            if (label := str(step.get(name, ""))) == "new" or label.startswith("new-")
        }
        found.append(cast("Step", {**step, **names}))
    return found
