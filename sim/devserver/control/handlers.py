"""The handlers of the control plane's operations, for one world."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leyden.world.world import World


def control_handlers(world: World) -> list[object]:
    """The objects whose methods handle the operations of the sandbox document."""
    # Imported here, because only a request to the control plane needs them.
    from leyden.devserver.control.callbacks.deliveries import CallbackControl
    from leyden.devserver.control.callbacks.inboxes import InboxControl
    from leyden.devserver.control.charges import ChargeControl
    from leyden.devserver.control.copies import CopyControl
    from leyden.devserver.control.network import NetworkControl
    from leyden.devserver.control.operations import ControlPlane
    from leyden.devserver.control.payers import PayerControl
    from leyden.devserver.control.requests import RequestLogControl
    from leyden.devserver.control.schedule import ScheduleControl
    from leyden.devserver.control.search import SearchControl
    from leyden.devserver.control.service_faults import ServiceFaultControl

    return [
        ControlPlane(world),
        CallbackControl(world),
        InboxControl(world),
        NetworkControl(world),
        ServiceFaultControl(world),
        PayerControl(world),
        RequestLogControl(world),
        ChargeControl(world),
        ScheduleControl(world),
        SearchControl(world),
        CopyControl(world),
    ]
