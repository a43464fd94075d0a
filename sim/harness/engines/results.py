"""The configuration of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leyden.harness.constants import DEFAULT_ENGINES
from leyden.harness.targets.target import InProcess, Target


@dataclass(slots=True)
class CampaignConfig:
    """The configuration of a campaign.

    `examples` is the number of runs of each engine (cases, for Schemathesis), `seconds` the real time for all engines;
    at least one of the two limits the campaign. With `overlays` None each run chooses its own. `make` creates the
    target. `part` says which of how many parts of the obligations it asks.
    `stop_early` ends the campaign at the first violation; without it one violation of each key is kept.
    """

    engines: Sequence[str] = DEFAULT_ENGINES
    seed: int = 0
    seconds: float | None = None
    examples: int | None = None
    overlays: tuple[str, ...] | None = None
    stop_early: bool = False
    part: tuple[int, int] = (0, 1)
    make: Callable[[], Target] = InProcess
