"""Leyden's world: the sandbox, its clock, and everything around the charge service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.clock import VirtualClock
    from sim.lab.sweep import grid, sweep
    from sim.sandbox import Sandbox

__all__ = ["Sandbox", "VirtualClock", "grid", "sweep"]

_HOMES = {"Sandbox": "sim.sandbox", "VirtualClock": "sim.clock", "grid": "sim.lab.sweep", "sweep": "sim.lab.sweep"}


def __getattr__(name: str) -> Any:
    """What is named above, fetched when it is first asked for: pytest loads this package with the plugin, in suites
    that may never use it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sim' has no attribute {name!r}: it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
