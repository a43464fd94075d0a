"""Leyden's world: the sandbox, its clock, and everything around the charge service."""

from sim.clock import VirtualClock
from sim.sandbox import Sandbox

__all__ = ["Sandbox", "VirtualClock"]
