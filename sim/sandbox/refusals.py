"""Refusals of the service as errors of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.errors import ApiError
from leyden.world.world import World

_BY_A_BOUND = "; --keep has removed some that ended"  # what the service says of removed rows, whatever removed them


def refusal(world: World, status: int, problem: Mapping[str, Any]) -> ApiError:
    """The error of a refusal. One about an id that may be of a removed row says how many there are, and where."""
    detail = problem.get("detail")
    if isinstance(detail, str) and detail.endswith(_BY_A_BOUND):
        with world.exclusive():
            removed = world.removed.unknown("charges", "staticCharges")
        problem = {**problem, "detail": detail.removesuffix(_BY_A_BOUND) + removed}
    return ApiError(status, problem)
