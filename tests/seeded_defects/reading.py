"""Bent reading: a service that is too kind or too strict with the fields of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.seeded_defects.defect import Plant
from tests.seeded_defects.wire import bodies

AMOUNTS = ("amount", "minAmount", "maxAmount")
BROKEN = 0.5  # stands for a value that the service refuses whatever the field


def field(name: str, read: Callable[[Any], Any]) -> Plant:
    """Read a field of a request so before it is judged, if it is there."""

    def edit(body: dict[str, Any]) -> None:
        if name in body:
            body[name] = read(body[name])

    return bodies(edit)
