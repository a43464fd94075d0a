"""Attempts that injected faults hold back: the table `held_back`, for the kinds `delay`, `reorder` and `burst`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from leyden.callbacks.callback_rows import HeldRow, attempt_id
from leyden.callbacks.faults.hits import APPLIED, HELD, UNMET, FaultHits
from leyden.callbacks.faults.index import FaultIndex
from leyden.callbacks.faults.kinds import (
    HOLDING_KINDS,
    FaultRow,
    effective,
    is_last,
    is_spent,
    with_held,
    with_idle,
    with_unsent,
)
from leyden.server.callbacks.deliveries import PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow, endpoint_of
from leyden.server.callbacks.outbox import Outbox
from leyden.server.ports import CallbackRequest, Clock, EventJournal
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

RELEASE, EFFECT = "release", "effect"  # what an attempt that `reorder` holds waits for
MOST_HELD = 200  # attempts that each of these holds at a time
_BOUNDED_KINDS = ("reorder", "burst")


class Holds:
    """The attempts that the faults of one sandbox hold back.

    A `delay` has its effect at once. A `reorder` has it when an attempt starts that was due after the one that it
    holds, a `burst` when it holds a second one; an attempt that is sent before that was held without effect, and the
    journal says so. So was one whose delivery has ended before it, because another callback got a 410. What a `burst`
    holds until one instant is a gathering; the next attempt after that begins another one. Each of these two kinds
    holds at most `MOST_HELD` attempts at a time, because each attempt that starts looks at all that `reorder` holds.
    `outbox` has the deliveries.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: EventJournal,
        faults: TypedTable[FaultRow],
        hits: FaultHits,
        outbox: Callable[[], Outbox],
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._faults = faults
        self._hits = hits
        self._outbox = outbox
        self._held = cast(TypedTable[HeldRow], store.table("held_back", key="id", indexes=("fault", "kind", "waits")))

    def __len__(self) -> int:
        return len(self._held)

    def row(self, delivery_id: str) -> HeldRow | None:
        """The row of an attempt that is held, or None."""
        return self._held.row(delivery_id)

    def count(self, fault_id: str | None) -> int:
        """How many attempts this fault holds, or all faults do."""
        return self._held.count_with({} if fault_id is None else {"fault": fault_id})

    def first(self, faults: FaultIndex, delivery: DeliveryRow, number: int, due_ms: int) -> FaultRow | None:
        """The first of the faults that can hold attempt `number` of a delivery, which is due at `due_ms`; None if none
        can."""
        full = [kind for kind in _BOUNDED_KINDS if self._held.count_with({"kind": kind}) >= MOST_HELD]
        kinds = tuple(kind for kind in HOLDING_KINDS if kind not in full)
        over, found = [], None
        for fault in faults.of_attempt(kinds, delivery, number):
            if self.holds(fault, due_ms):
                found = fault
                break
            if fault.get("until", -1) < self._clock.now():
                over.append(fault)  # a burst that will not hold the last one of its count
        for fault in over:
            faults.remove(fault)
        return found

    def holds(self, fault: FaultRow, due_ms: int) -> bool:
        """Whether the fault, which is not spent, can hold an attempt that is due at `due_ms` if its kind does not hold
        too many. A `burst` does not hold the last one of its count alone: that would change nothing."""
        return fault["kind"] != "burst" or not is_last(fault) or bool(self._gathered(fault, due_ms))

    def until(self, fault: FaultRow, due_ms: int) -> int:
        """The instant until which the fault holds an attempt that is due at `due_ms`, if nothing releases it before."""
        gathered = fault["kind"] == "burst" and self._gathered(fault, due_ms)
        return fault["until"] if gathered else due_ms + (fault["delay_ms"] or 0)

    def end(self, held: HeldRow) -> None:
        """The attempt is sent: its time has come, or it was replayed in the meantime, which is the same."""
        sent, place = attempt_id(held["id"], held["attempt"]), self._held.id_of(held["id"]) or 0
        for row in self._waiting():
            # It was due after this one.
            if (self._held.id_of(row["id"]) or 0) > place and not self._is_met(row):
                self._held.put({**row, "not_overtaken_by": sent})
        self._held.delete(held["id"])
        is_met = held["kind"] == "delay" or self._is_met(held)
        fault = self._faults.row(held["fault"])
        if fault is not None:
            fault = with_held(fault, -1)
            self._faults.put(fault if is_met else with_idle(fault, 0, holding=-1))
        if is_met:
            return
        self._hits.add(held["id"], held["attempt"], UNMET, held["kind"])
        self._note(UNMET, held)

    def not_sent(self, kind: str, fault_id: str, post: CallbackRequest) -> None:
        """The message of an attempt was never sent, so it was held without an effect."""
        held: HeldRow = {
            "id": post.delivery_id, "attempt": post.attempt, "fault": fault_id, "kind": kind, "waits": None,
        }  # fmt: skip
        fault = self._faults.row(fault_id)
        if fault is not None:
            self._faults.put(with_unsent(fault, 1))
        self._hits.add(held["id"], held["attempt"], UNMET, kind)
        self._note(UNMET, held)

    def begin(self, fault: FaultRow, delivery_id: str, number: int) -> int:
        """Hold an attempt that is due. Returns the instant until which it is held."""
        now = self._clock.now()
        until, others = self.until(fault, now), []
        if fault["kind"] == "burst":
            others = self._gathered(fault, now)
            fault = {**fault, "until": until}
        fault = with_held({**fault, "hits": fault["hits"] + 1}, 1)
        kind = fault["kind"]
        waits = RELEASE if kind == "reorder" else None
        held: HeldRow = {"id": delivery_id, "attempt": number, "fault": fault["id"], "kind": kind, "waits": waits}
        self._held.put(held)
        if fault["kind"] == "delay":
            self._faults.put(fault)
            self._apply(held)
            return until
        self._faults.put(with_idle(fault, 1, holding=1))
        self._hits.add(delivery_id, number, HELD, fault["kind"])
        self._note(HELD, held)
        if others:
            for row in (*others, held):
                if not self._is_met(row):
                    self._apply(row, was_idle=True)
        if fault["kind"] == "burst" and is_spent(fault):
            self.release(others)
            return now
        return until

    def overtake(self, post: CallbackRequest) -> None:
        """Note the start of an attempt. Its end releases the attempts at other deliveries that `reorder` holds back,
        and it has overtaken those of them that were due before it."""
        started = attempt_id(post.delivery_id, post.attempt)
        for row in self._waiting():
            if row["id"] == post.delivery_id:
                continue
            if row.get("not_overtaken_by") != started and not self._is_met(row):
                self._apply(row, was_idle=True)
                if row["waits"] == EFFECT:
                    self._held.put({**row, "waits": None})
            if row["waits"] == RELEASE:
                self._held.put({**row, "overtaken_by": [*row.get("overtaken_by", ()), started]})

    def end_of_attempt(self, post: CallbackRequest) -> None:
        """Release the attempts that were held when this one started."""
        ended = attempt_id(post.delivery_id, post.attempt)
        released = [row for row in self._held.find("waits", RELEASE) if ended in row.get("overtaken_by", ())]
        for row in released:
            self._held.put({**row, "overtaken_by": [], "waits": None if self._is_met(row) else EFFECT})
        self.release(released)

    def drop_stopped(self, delivery_id: str) -> None:
        """Drop what is held of the deliveries that a 410 to this one has ended."""
        row = self._outbox().delivery(delivery_id)
        self._drop_ended(() if row is None else [one["id"] for one in self._outbox().deliveries(endpoint_of(row)[0])])

    def check(self) -> None:
        """Drop what is held of deliveries that have ended, in rows of an earlier version or when a store was opened."""
        for row in list(self._held):
            if row["kind"] == "reorder" and "waits" not in row:  # of an earlier version
                self._held.put({**row, "waits": RELEASE})
        self._drop_ended([row["id"] for row in self._held])

    def release(self, held: Sequence[HeldRow]) -> None:
        """Make the deliveries of these attempts due, of which none was removed."""
        for row in held:
            if self._status(row["id"]) is not None:
                self._outbox().reschedule(row["id"], self._clock.now())

    def _waiting(self) -> list[HeldRow]:
        """What `reorder` holds and has not released, or has released without an effect, in the order in which it was
        held."""
        found = [*self._held.find("waits", RELEASE), *self._held.find("waits", EFFECT)]
        return sorted(found, key=lambda row: self._held.id_of(row["id"]) or 0)

    def _is_met(self, held: HeldRow) -> bool:
        return self._hits.has_effect(held["id"], held["attempt"])

    def _gathered(self, fault: FaultRow, at_ms: int) -> list[HeldRow]:
        """What a `burst` holds for the gathering that an attempt due at `at_ms` joins. What is due already, and waits
        for the end of other attempts, belongs to one that is over; so does what a replay has given another instant."""
        until = fault.get("until", -1)
        held = self._held.find("fault", fault["id"]) if until >= at_ms else []
        deliveries = [(row, self._outbox().delivery(row["id"])) for row in held]
        return [row for row, delivery in deliveries if delivery is not None and delivery["due_at"] == until]

    def _drop_ended(self, delivery_ids: Iterable[str]) -> None:
        """Drop what is held of those of these deliveries that have ended, in the order in which it was held."""
        found = [row for row in map(self._held.row, delivery_ids) if row is not None]
        ended = [row for row in found if self._status(row["id"]) != PENDING]
        for row in sorted(ended, key=lambda row: self._held.id_of(row["id"]) or 0):
            self._drop(row)

    def _drop(self, held: HeldRow) -> None:
        """The delivery has ended and its attempt was never sent, so it was held without an effect."""
        self._held.delete(held["id"])
        fault = self._faults.row(held["fault"])
        if fault is not None:
            fault = with_held(fault, -1)
            is_met = self._is_met(held)
            self._faults.put(with_unsent(fault, 1) if is_met else with_idle(fault, 0, holding=-1))
        if self._status(held["id"]) is not None:
            self._hits.add(held["id"], held["attempt"], UNMET, held["kind"])
        self._note(UNMET, held)

    def _status(self, delivery_id: str) -> str | None:
        """The status of a delivery, None if it was removed."""
        row = self._outbox().delivery(delivery_id)
        return None if row is None else row["status"]

    def _apply(self, held: HeldRow, *, was_idle: bool = False) -> None:
        """The fault has an effect on an attempt. A fault that was cleared meanwhile has no count."""
        fault = self._faults.row(held["fault"])
        facts: dict[str, Any] = {}
        self._hits.add(held["id"], held["attempt"], APPLIED, held["kind"], None, held["fault"])
        if fault is not None:
            if was_idle:
                fault = with_idle(fault, -1, holding=-1)
                self._faults.put(fault)
            facts["hit"] = effective(fault)
        self._note("fault_hit", held, **facts)

    def _note(self, kind: str, held: HeldRow, **facts: Any) -> None:
        named = {"fault": held["kind"], "delivery": held["id"], "attempt": held["attempt"]}
        self._journal.note(kind, held["fault"], **named, **facts)
