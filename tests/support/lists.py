"""Lists of the control plane, read to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def listed(ask: Callable[[str, str], Any], target: str) -> list[Any]:
    """Every row of a list, page after page; deliveries with their bodies. `ask` is as `Sandbox.ask`."""
    path, _, query = target.partition("?")
    parts = [query] if query else []
    if path.endswith("/deliveries"):
        parts.append("bodies=true")
    rows: list[Any] = []
    after: list[str] = []
    while True:
        page = ask("GET", f"{path}?{'&'.join([*parts, *after])}")
        rows += page["data"]
        if page["next"] is None:
            return rows
        after = [f"after={page['next']}"]
