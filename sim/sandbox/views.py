"""Views of a world: tables, figures and the card that shows a sandbox. A view changes and records nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from leyden.extras import require
from leyden.server.timestamps import to_iso
from leyden.world.world import World

if TYPE_CHECKING:
    from pandas import DataFrame

_EVENTS_SHOWN = 3


def table(world: World, name: str, what: str) -> DataFrame:
    """A table by its name. `what` needs pandas, says the error when it is missing."""
    require(what, "pandas", "lab")
    # Not at the top: pandas takes longer to import than most sandboxes run.
    from leyden.lab.tables import frame

    with world.exclusive():
        return frame(world, name)


def diff(here: World, there: World) -> DataFrame:
    """The differences between two worlds. Needs pandas."""
    require("sb.diff()", "pandas", "lab")
    from leyden.lab.diff import diff

    with here.exclusive(), there.exclusive():
        return diff(here, there)


def card(world: World) -> tuple[str, list[tuple[str, str]]]:
    """A sandbox in a few lines: a title, and rows for the clock, the charges by status and the next events."""
    with world.exclusive():
        counted = Counter(row["status"] for row in world.service.charges.charges)
        charges = ", ".join(f"{count} {status}" for status, count in sorted(counted.items())) or "no charges yet"
        events = [f"{to_iso(timer.due_ms)} {timer.kind}" for timer in world.clock.upcoming(_EVENTS_SHOWN)]
        title = f"Sandbox(seed={world.config.seed})" + ("" if world.label == "main" else f" {world.label!r}")
        now = to_iso(world.clock.now())
    rows = [("next" if not place else "", event) for place, event in enumerate(events or ["nothing"])]
    return title, [("now", now), ("charges", charges), *rows]
