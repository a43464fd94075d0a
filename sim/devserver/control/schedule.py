"""The control plane's operation that lists what is due."""

from __future__ import annotations

from heapq import nsmallest
from typing import Any

from leyden.devserver.control.pages import KINDS, Page
from leyden.server.charges.lists import cursor, position
from leyden.server.contract.bind import handles
from leyden.server.http.request import Request
from leyden.server.timestamps import to_iso
from leyden.world.time.timers import Entry
from leyden.world.world import World

_MOST_ENDS = 1_000  # of pages, of which the last event is known after it was cancelled


class ScheduleControl:
    """Handlers for one world's scheduled events."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ends: dict[int, tuple[int, int, int]] = {}  # the last events of recent pages, by their numbers

    @handles(needs=("query.limit",), recorded=False)
    def list_due_events(self, call: Request) -> Page:
        """One page of the scheduled events, in the order in which they will run.

        The cursor is the sequence number of the last one. If that has run meanwhile, so has everything before it, and
        the page begins with the next event. If it was cancelled, its place is known as that of a recent page's end.
        """
        number, limit = position(call.query.get("after")), call.query["limit"]
        entries = self._world.clock.timers()
        last = None if number is None else self._ends.get(number) or self._place_of(number)
        if last is not None:
            at_ms, priority, sequence = last
            following = (at_ms, priority, sequence + 1)
            entries = [entry for entry in entries if entry >= following]
        found = nsmallest(limit + 1, entries)
        if len(found) <= limit:
            return {"data": [self._due_event(entry) for entry in found], "next": None}
        end = found[limit - 1][:3]
        self._ends.pop(end[2], None)
        self._ends[end[2]] = end
        if len(self._ends) > _MOST_ENDS:
            del self._ends[next(iter(self._ends))]
        return {"data": [self._due_event(entry) for entry in found[:limit]], "next": cursor(KINDS["event"], end[2])}

    def _place_of(self, number: int) -> tuple[int, int, int] | None:
        return next((entry[:3] for entry in self._world.clock.timers() if entry[2] == number), None)

    def _due_event(self, entry: Entry) -> dict[str, Any]:
        at_ms, _, _, kind, key = entry
        return {"at": to_iso(at_ms), "kind": kind, "id": key, "chargeId": self._charge_id(key)}

    def _charge_id(self, key: str) -> str | None:
        """The Charge or the Static Charge that the event is about: the key is its id, that of a callback, of one of its
        attempts or of the copy of one, or that of a payment, or the payment hash of its invoice."""
        world, service = self._world, self._world.service
        if service.charges.charges.row(key) is not None or service.static_charges.static_charges.row(key) is not None:
            return key
        delivery = service.outbox.delivery(key.partition("#")[0])
        if delivery is not None:
            return delivery["resource_id"]
        payment = world.payments.rows.row(key)
        payment_hash = key if payment is None else payment["payment_hash"]
        charge = service.charges.charges.first("payment_hash", payment_hash)
        return None if charge is None else charge["id"]
