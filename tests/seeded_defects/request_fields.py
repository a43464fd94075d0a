"""Changes of request fields, for a service that accepts too much or too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.seeded_defects.defect import Plant
from tests.seeded_defects.middleware import bodies

AMOUNTS = ("amount", "minAmount", "maxAmount")
INVALID = 0.5  # the service refuses this value in every field


def field(name: str, read: Callable[[Any], Any]) -> Plant:
    """Change a field of a request before it is validated, if the field is present."""

    def edit(body: dict[str, Any]) -> None:
        if name in body:
            body[name] = read(body[name])

    return bodies(edit)
