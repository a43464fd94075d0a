"""Leyden's world: the sandbox, its clock, and everything around the charge service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leyden.lab.sweeps.sweep import grid, sweep
    from leyden.sandbox import Sandbox
    from leyden.world.clock import VirtualClock

__all__ = ["Sandbox", "VirtualClock", "grid", "sweep"]

_HOMES = {
    "Sandbox": "leyden.sandbox",
    "VirtualClock": "leyden.world.clock",
    "grid": "leyden.lab.sweeps.sweep",
    "sweep": "leyden.lab.sweeps.sweep",
}


def __getattr__(name: str) -> Any:
    """What is named above, fetched when it is first asked for: pytest loads this package with the plugin, in suites
    that may never use it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'leyden' has no attribute {name!r}: it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
