"""The control plane's operation that searches everything in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.devserver.control.pages import READ_AT_ONCE, has_text
from leyden.devserver.request_log.resources import RequestRows
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.contract.bind import handles
from leyden.server.http.request import Request
from leyden.server.timestamps import to_iso
from leyden.world.world import World

_MOST_READ = 200_000  # rows of each kind

_Show = Callable[[Any], dict[str, Any]]  # of a row of its table


class SearchControl:
    """The handler for one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    @handles(needs=("query.text", "query.perKind"), recorded=False)
    async def search(self, call: Request) -> dict[str, Any]:
        """The resources that contain the text, the newest of each kind first. Other requests are answered while this
        one reads."""
        world, service = self._world, self._world.service
        text, limit = call.query["text"].lower(), call.query["perKind"]
        slices = world.slices()
        tables: dict[str, tuple[Any, _Show]] = {
            "charge": (service.charges.charges, self._charge),
            "static_charge": (service.static_charges.static_charges, self._charge),
            "payment": (world.payments.rows, self._payment),
            "delivery": (service.outbox.rows, _delivery),
        }
        found: list[dict[str, Any]] = []
        complete = True
        for kind, (table, show) in tables.items():
            of_kind: list[dict[str, Any]] = []
            after, read = None, 0
            while len(of_kind) <= limit and read < _MOST_READ:
                with world.lock:
                    rows = table.page(None, after, READ_AT_ONCE)
                    lnurl = service.static_charges.lnurl
                    of_kind += [{"kind": kind, **show(row)} for row in rows if has_text(row, kind, text, lnurl)]
                if len(rows) < READ_AT_ONCE:
                    break
                after, read = rows[-1].doc_id, read + len(rows)
                if slices.is_over():
                    await slices.pause()
                    if world.service is not service:
                        return await self.search(call)  # a reset: these rows are of the former run
            else:
                complete = False
            found += of_kind[:limit]
            complete = complete and len(of_kind) <= limit
        requests = RequestRows(world)
        of_kind = []
        for logged in world.request_log.newest_first():
            if requests.matches(logged, {"text": text}) and requests.operation(logged) != "search":
                of_kind.append({"kind": "request", **_request(requests.summary(logged, requests.mask()))})
                if len(of_kind) > limit:
                    complete = False
                    break
            if slices.is_over():
                await slices.pause()
        return {"data": found + of_kind[:limit], "complete": complete}

    def _charge(self, row: ChargeRow | StaticChargeRow) -> dict[str, Any]:
        return _result(row["id"], row["description"], row["created_at"], row["status"], row["id"])

    def _payment(self, row: PaymentRow) -> dict[str, Any]:
        charge = self._world.service.charges.charges.first("payment_hash", row["payment_hash"])
        title = "amount unknown" if row["amount_msat"] is None else f"{row['amount_msat']} msat"
        return _result(row["id"], title, row["created_at"], row["status"], None if charge is None else charge["id"])


def _delivery(row: DeliveryRow) -> dict[str, Any]:
    return _result(row["id"], f"{row['event']} to {row['url']}", row["created_at"], row["status"], row["resource_id"])


def _request(row: Mapping[str, Any]) -> dict[str, Any]:
    status = "no response" if row["status"] is None else str(row["status"])
    return {
        "id": str(row["id"]),
        "title": f"{row['method']} {row['path']}",
        "at": row["at"],
        "status": status,
        "chargeId": row["chargeId"],
    }


def _result(row_id: str, title: str, at_ms: int, status: str, charge_id: str | None) -> dict[str, Any]:
    return {"id": row_id, "title": title, "at": to_iso(at_ms), "status": status, "chargeId": charge_id}
