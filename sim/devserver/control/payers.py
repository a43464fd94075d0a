"""The control plane's operations for payers that pay by themselves."""

from __future__ import annotations

from typing import Any

from leyden.devserver.control.pages import Page, page
from leyden.lightning.payer.payer_rules import in_wire_names, payer_resource, payer_spec
from leyden.server.contract.bind import handles
from leyden.server.errors import FieldError, NotFound, SemanticConflict
from leyden.server.http.request import Request
from leyden.world.world import World


class PayerControl:
    """Handlers for one world's payers."""

    def __init__(self, world: World) -> None:
        self._world = world

    @handles(needs=("query.limit",), recorded=False)
    def list_payers(self, call: Request) -> Page:
        """One page of the payers: those of the document, then those that were added and not cleared, oldest first."""
        return page(call, "payer", self._world.payers.page, lambda listed: payer_resource(listed.row))

    @handles(raises=(SemanticConflict,))
    def add_payer(self, call: Request) -> dict[str, Any]:
        """Add a payer."""
        static_id = call.body.get("staticChargeId")
        if static_id is not None and self._world.service.static_charges.static_charges.row(static_id) is None:
            detail = "this sandbox has no Static Charge with this id: give the id in the response of its creation"
            raise SemanticConflict(detail, field_errors=[FieldError("/staticChargeId", detail)])
        try:
            row = self._world.payers.add(payer_spec(call.body))
        except ValueError as error:
            raise SemanticConflict(in_wire_names(str(error))) from None
        return payer_resource(row)

    @handles()
    def clear_payers(self, call: Request) -> dict[str, Any]:
        """Remove all payers but those of the document."""
        return {"cleared": self._world.payers.clear()}

    @handles(raises=(NotFound, SemanticConflict), needs=("path.id",))
    def clear_payer(self, call: Request) -> dict[str, Any]:
        """Remove one payer."""
        payers, payer_id = self._world.payers, call.path["id"]
        row = payers.row(payer_id)
        if row is None:
            raise NotFound("this sandbox has no payer with this id: list the payers")
        if row.get("from_document"):
            raise SemanticConflict(
                "this payer is given by the document (x-payers): serve a sandbox without the overlay that has it"
            )
        return {"cleared": payers.clear(payer_id)}
