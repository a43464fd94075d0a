"""Leyden: a sandbox for a Lightning charge API, with its network, payers, receivers and clock."""

from __future__ import annotations

# A command imports this first: what is imported here could be interrupted before the command handles an interrupt.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leyden.harness.pytest_conformance import conformance
    from leyden.lab.charts.sweeps import plot_sweep
    from leyden.lab.parquet.reader import read
    from leyden.lab.sweeps.comparisons import compare, estimates
    from leyden.lab.sweeps.sweep import grid, sweep
    from leyden.sandbox import Sandbox
    from leyden.world.time.clock import VirtualClock

__all__ = ["Sandbox", "VirtualClock", "compare", "conformance", "estimates", "grid", "plot_sweep", "read", "sweep"]

_MODULES = {
    "Sandbox": "leyden.sandbox",
    "VirtualClock": "leyden.world.time.clock",
    "compare": "leyden.lab.sweeps.comparisons",
    "conformance": "leyden.harness.pytest_conformance",
    "estimates": "leyden.lab.sweeps.comparisons",
    "grid": "leyden.lab.sweeps.sweep",
    "plot_sweep": "leyden.lab.charts.sweeps",
    "read": "leyden.lab.parquet.reader",
    "sweep": "leyden.lab.sweeps.sweep",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: pytest loads this package with its plugin in every suite."""
    if name not in _MODULES:
        raise AttributeError(f"module 'leyden' has no attribute {name!r}: it has {', '.join(__all__)}")
    from importlib import import_module

    if name == "conformance":
        import_module("leyden.extras").require("leyden.conformance", "pytest", "qa")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names, also those that were not imported yet, and the modules."""
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations", "_MODULES"})
