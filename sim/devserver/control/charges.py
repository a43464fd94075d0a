"""The control plane's operations that show Charges and Static Charges with everything around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from leyden.devserver.control.pages import Page, created_between, searched_page
from leyden.devserver.control.slices import in_slices
from leyden.lightning.bolt11.codec import decode
from leyden.server.charges.rows import StaticChargeRow
from leyden.server.charges.wire_model import charge_resource
from leyden.server.contract.bind import handles
from leyden.server.errors import FieldError, InvalidRequest, NotFound
from leyden.server.http.corrections import shown
from leyden.server.http.request import Request
from leyden.server.spelling import closest
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import to_iso
from leyden.stepwise import Stepwise
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lab.drawings.charge_events import ChargeEvents


class ChargeControl:
    """Handlers for one world's Charges and Static Charges."""

    def __init__(self, world: World) -> None:
        self._world = world

    @handles(raises=(InvalidRequest,), needs=("key", "query.limit"), recorded=False)
    async def list_sandbox_charges(self, call: Request) -> Page:
        """One page of the Charges that match the filters, the newest first."""
        self._check_status(call, "Charge")
        names = {"status": "status", "internalId": "internal_id", "staticChargeId": "static_charge_id"}
        while True:
            found = await self._page(call, "charge", self._world.service.charges.charges, names, charge_resource)
            if found is not None:
                return found

    @handles(raises=(NotFound,), needs=("key", "path.id"), recorded=False)
    async def inspect_charge(self, call: Request) -> dict[str, Any]:
        """One Charge with its decoded invoice, what happened to it and what is scheduled."""
        world = self._world
        steps_of = await world.run_apart(_steps_function)
        events = None
        while events is None:
            with world.exclusive():
                charge = world.service.charges.find(call.project, call.path["id"])
            events = await in_slices(world, steps_of(world, charge["id"]), world.exclusive)
        return {
            "charge": charge_resource(charge),
            "invoice": _invoice(charge["request"]),
            "timeline": [_event(event) for event in events.events],
            "omitted": events.omitted,
            "scheduled": [_event(event) for event in events.scheduled],
            "moreScheduled": events.more_scheduled,
            "now": to_iso(events.now),
        }

    @handles(raises=(InvalidRequest,), needs=("key", "query.limit"), recorded=False)
    async def list_sandbox_static_charges(self, call: Request) -> Page:
        """One page of the Static Charges that match the filters, the newest first."""
        self._check_status(call, "StaticCharge")
        names = {"status": "status", "internalId": "internal_id"}
        while True:
            table = self._world.service.static_charges.static_charges
            found = await self._page(call, "static_charge", table, names, self._static_charge)
            if found is not None:
                return found

    @handles(raises=(NotFound,), needs=("key", "path.id"), recorded=False)
    def inspect_static_charge(self, call: Request) -> dict[str, Any]:
        """One Static Charge, with the URL at which it is paid."""
        static_charges = self._world.service.static_charges
        row = static_charges.find(call)
        return {"staticCharge": self._static_charge(row), "payUrl": static_charges.pay_url(row["id"])}

    async def _page(
        self,
        call: Request,
        kind: str,
        table: TypedTable[Any],
        names: Mapping[str, str],
        show: Callable[[Any], dict[str, Any]],
    ) -> Page | None:
        """A page of a table; None after a reset in between."""
        world, bounds, filters = self._world, created_between(call), self._filters(call, names)
        service = world.service

        def read(after: int | None, limit: int) -> list[Any]:
            with world.lock:
                return table.page(filters, after, limit, **bounds)

        return await searched_page(
            call,
            read,
            show,
            kind=kind,
            slices=world.slices(),
            is_former=lambda: world.service is not service,
            lnurl=service.static_charges.lnurl,
        )

    def _static_charge(self, row: StaticChargeRow) -> dict[str, Any]:
        return self._world.service.static_charges.show(row)

    def _filters(self, call: Request, names: Mapping[str, str]) -> dict[str, Any]:
        given = {field: call.query[name] for name, field in names.items() if call.query.get(name) is not None}
        return {"project": call.project, **given}

    def _check_status(self, call: Request, resource: str) -> None:
        """Raise `InvalidRequest` for a state that no resource of this kind can have in the specification in use."""
        lifecycle, status = self._world.config.contract.lifecycles.get(resource), call.query.get("status")
        if lifecycle is not None and status is not None and status not in lifecycle.states:
            near = closest(status, lifecycle.states)
            mend = "" if near is None else f": did you mean {shown(near)}?"
            detail = (
                f"expected {', '.join(lifecycle.states[:-1])} or {lifecycle.states[-1]}; received {shown(status)}{mend}"
            )
            raise InvalidRequest(f"query.status: {detail}", field_errors=[FieldError("query.status", detail)])


def _steps_function() -> Callable[[World, str], Stepwise[ChargeEvents]]:
    # Imported here, because only one operation needs it, and it takes long.
    from leyden.lab.drawings.charge_events import charge_event_steps

    return charge_event_steps


def _invoice(text: str) -> dict[str, Any]:
    invoice = decode(text)
    return {
        "currency": invoice.currency,
        "amount": None if invoice.amount_msat is None else str(invoice.amount_msat),
        "description": invoice.description,
        "descriptionHash": None if invoice.description_hash is None else invoice.description_hash.hex(),
        "paymentHash": invoice.payment_hash.hex(),
        "payee": invoice.payee.hex(),
        "createdAt": to_iso(invoice.timestamp_s * 1_000),
        "expiresAt": to_iso(invoice.expires_at_s * 1_000),
        "minFinalCltv": invoice.min_final_cltv,
        "features": sorted(invoice.features),
    }


def _event(event: Any) -> dict[str, Any]:
    return {
        "at": to_iso(event.at),
        "from": event.source,
        "to": event.target,
        "text": event.text,
        "detail": event.detail,
        "response": event.response,
    }
