"""The control plane's operations for faults of the service itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.devserver.control.pages import Page, page
from leyden.server.contract.bind import handles
from leyden.server.errors import NotFound, SemanticConflict
from leyden.server.http.request import Request
from leyden.server.timestamps import parse_iso
from leyden.service_faults.kinds import ServiceFaultSpec, service_fault_resource
from leyden.world.world import World

# The document's names of the spec's fields, where they differ.
_FIELDS = {"retryAfter": "retry_after", "afterCommit": "after_commit"}


def _in_wire_names(text: str) -> str:
    """An error in the names of the document."""
    for wire, name in _FIELDS.items():
        text = text.replace(name, wire)
    return text


class ServiceFaultControl:
    """Handlers for one world's service faults."""

    def __init__(self, world: World) -> None:
        self._world = world

    @handles(needs=("query.limit",), recorded=False)
    def list_service_faults(self, call: Request) -> Page:
        """One page of the faults that were added and not cleared, the oldest first."""
        return page(call, "service_fault", self._world.service_faults.page, service_fault_resource)

    @handles(raises=(SemanticConflict,), needs=("body.kind",))
    def add_service_fault(self, call: Request) -> dict[str, Any]:
        """Add a fault."""
        wanted: Mapping[str, Any] = call.body
        try:
            named = {_FIELDS.get(name, name): value for name, value in wanted.items()}
            if "until" in named:
                named["until"] = parse_iso(named["until"])
            row = self._world.service_faults.add(ServiceFaultSpec(**named))
        except ValueError as error:
            raise SemanticConflict(_in_wire_names(str(error))) from None
        return service_fault_resource(row)

    @handles()
    def clear_service_faults(self, call: Request) -> dict[str, Any]:
        """Remove all faults."""
        return {"cleared": self._world.service_faults.clear()}

    @handles(raises=(NotFound,), needs=("path.id",))
    def clear_service_fault(self, call: Request) -> dict[str, Any]:
        """Remove one fault."""
        faults, fault_id = self._world.service_faults, call.path["id"]
        if faults.row(fault_id) is None:
            raise NotFound("this sandbox has no service fault with this id: list the service faults")
        return {"cleared": faults.clear(fault_id)}
