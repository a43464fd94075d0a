"""The levers: everything that the sandbox document lets an integrator pull, for one world."""

from __future__ import annotations

from sim.desk.control import ControlPlane
from sim.desk.control_callbacks import CallbackControl
from sim.desk.control_inboxes import InboxControl
from sim.world import World


def levers(world: World) -> list[object]:
    """The objects whose methods answer the document's operations."""
    return [ControlPlane(world), CallbackControl(world), InboxControl(world)]
