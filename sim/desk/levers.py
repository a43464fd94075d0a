"""The levers: everything that the sandbox document lets an integrator pull, for one world."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leyden.world import World


def levers(world: World) -> list[object]:
    """The objects whose methods answer the document's operations."""
    # Here and not above: they are wanted only when somebody pulls one.
    from leyden.desk.control import ControlPlane
    from leyden.desk.control_callbacks import CallbackControl
    from leyden.desk.control_inboxes import InboxControl
    from leyden.desk.control_network import NetworkControl

    return [ControlPlane(world), CallbackControl(world), InboxControl(world), NetworkControl(world)]
