"""The attempts to which injected faults applied, and the copies that faults sent: the table `fault_hits`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from leyden.callbacks.callback_rows import HitEventRow, HitRow, SentRow, attempt_id
from leyden.callbacks.faults.kinds import HOLDING_KINDS, FaultRow
from leyden.callbacks.replies import never_left
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.ports import CallbackRequest, Clock
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

# The events of an attempt: a fault has an effect on it, holds it back until then, or has held it without an effect. The
# other events are those of copies.
APPLIED, HELD, UNMET = "fault_hit", "fault_held", "fault_without_effect"

# The note of an attempt that was dropped.
DROPPED = "dropped by the fault drop: it was never sent"


class FaultHits:
    """The rows of one sandbox. They are kept over a restart, unlike the event journal, which has the same events."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._rows = cast(TypedTable[HitRow], store.table("fault_hits"))
        self._now = clock.now

    def row(self, delivery_id: str, number: int) -> HitRow | None:
        """The fault that applied to an attempt, or None."""
        return self._rows.row(attempt_id(delivery_id, number))

    def is_dropped(self, delivery_id: str, number: int) -> bool:
        """Whether a fault has dropped this attempt, so that it was never sent."""
        row = self.row(delivery_id, number)
        return row is not None and row["kind"] == "drop"

    def applied(self, delivery_id: str, number: int, fault: FaultRow, sent: list[SentRow] | None) -> None:
        """A fault applies to an attempt, and `sent` is sent instead, as in `HitRow`. One that delays an attempt may
        come before another one."""
        self.add(delivery_id, number, APPLIED, fault["kind"], sent, fault["id"], fault["hits"])

    def signed(self, post: CallbackRequest) -> None:
        """This message was sent. That of a recorded attempt gets its timestamp and its signature with the response."""
        row = self.row(post.delivery_id, post.attempt) if len(self._rows) else None
        if row is not None and row["sent"]:
            first, *more = row["sent"]
            if first["headers"] != post.headers:
                self._rows.put({**row, "sent": [{**first, "headers": dict(post.headers)}, *more]})

    def applying(self, delivery_id: str, number: int) -> list[tuple[str, str]]:
        """The faults that applied to an attempt, the last one first, by their kinds and ids. Those of rows of an
        earlier version have no id, and are left out."""
        row = self.row(delivery_id, number)
        events = row.get("events", []) if row is not None else []
        return [(one["fault"], one["by"]) for one in reversed(events) if one["event"] == APPLIED and "by" in one]

    def add(
        self,
        delivery_id: str,
        number: int,
        event: str,
        kind: str,
        sent: list[SentRow] | None = None,
        fault_id: str | None = None,
        hit: int | None = None,
    ) -> None:
        """An event of an attempt, by a fault of this kind, and the number of this hit of it."""
        row = self.row(delivery_id, number)
        events = [*(row.get("events", ()) if row is not None else ()), self._event(event, kind)]
        if fault_id is not None:
            events[-1]["by"] = fault_id
        if hit is not None:
            events[-1]["hit"] = hit
        self._rows.put({"id": attempt_id(delivery_id, number), "kind": kind, "sent": sent, "events": events})

    def numbers(self, delivery_id: str, number: int, fault_id: str) -> list[int] | None:
        """The numbers of the hits with which a fault applied to an attempt; None if rows of an earlier version do not
        say so."""
        row = self.row(delivery_id, number)
        events = () if row is None else row.get("events", ())
        applied = [one for one in events if one["event"] == APPLIED and one.get("by") == fault_id]
        hits = [one["hit"] for one in applied if "hit" in one]
        return hits if applied and len(hits) == len(applied) else None

    def withdraw(self, delivery_id: str, number: int, kind: str) -> None:
        """The fault of this kind that applied to an attempt had no effect. One that delayed the attempt before had one.
        What is known of a copy that was started is kept."""
        row = self._rows.existing(attempt_id(delivery_id, number))
        events = [one for one in row.get("events", ()) if (one["event"], one["fault"]) != (APPLIED, kind)]
        if not any(map(_is_of_copy, events)):
            events = [one for one in events if (one["event"], one["fault"]) != (UNMET, kind)]
        met = [one["fault"] for one in events if _is_met(one)]
        if events:
            self._rows.put({**row, "kind": met[-1] if met else row["kind"], "sent": None, "events": events})
        else:
            self._rows.delete(row["id"])

    def shown(self, delivery_id: str, number: int) -> HitRow | None:
        """The row of a fault that applied to an attempt or held it, or None."""
        row = self.row(delivery_id, number)
        events = row.get("events") if row is not None else None
        is_met = events is None or any(map(_is_met, events))
        return row if is_met else None

    def has_effect(self, delivery_id: str, number: int) -> bool:
        """Whether the fault that holds an attempt has an effect on it."""
        row = self.row(delivery_id, number)
        # A row of an earlier version has an event of this kind from the start.
        return row is not None and any(event["event"] == APPLIED for event in row.get("events", ()))

    def unmet(self, delivery_id: str, number: int) -> str | None:
        """The kind of the fault that held the attempt without an effect, or None. Another one may have had an effect on
        it after that."""
        row = self.row(delivery_id, number)
        events = row.get("events", ()) if row is not None else ()
        met = {one["fault"] for one in events if one["event"] == APPLIED}
        unmet = (one["fault"] for one in events if one["event"] == UNMET and one["fault"] in HOLDING_KINDS)
        return next((kind for kind in unmet if kind not in met), None)

    def is_unmet(self, delivery_id: str, number: int, kind: str) -> bool:
        """Whether a fault of this kind is known to have had no effect on an attempt."""
        row = self.row(delivery_id, number)
        events = row.get("events", ()) if row is not None else ()
        return any((one["event"], one["fault"]) == (UNMET, kind) for one in events)

    def is_copied(self, delivery_id: str, number: int, kind: str) -> bool:
        """Whether a copy of an attempt has been started by a fault of this kind, and is not known to have had no
        effect."""
        row = self.row(delivery_id, number)
        events = row.get("events", ()) if row is not None else ()
        return any(map(_is_of_copy, events)) and not self.is_unmet(delivery_id, number, kind)

    def copied(self, delivery_id: str, number: int, event: str, fault_id: str, answer: str = "") -> str | None:
        """An event of the copy that a fault sent of an attempt. The kind of the fault; None, and no effect, when the
        row was removed meanwhile."""
        row = self.row(delivery_id, number)
        if row is None:
            return None
        # A row of an earlier version has no ids of faults.
        kinds = [kind for kind, applied_id in self.applying(delivery_id, number) if applied_id == fault_id]
        kind = kinds[0] if kinds else row["kind"]
        self._rows.put({**row, "events": [*row.get("events", ()), self._event(event, kind, answer)]})
        return kind

    def events(self, delivery_id: str, attempts: list[int]) -> Iterator[tuple[int, HitEventRow]]:
        """The events of a delivery, each with the number of its attempt. `attempts` are the instants of its attempts:
        a row of an earlier version has none, and of it only the fault is known. The next attempt may be held back."""
        for number in range(1, len(attempts) + 2):
            row = self.row(delivery_id, number)
            if row is None:
                continue
            if "events" in row:
                yield from ((number, event) for event in row["events"])
            elif number <= len(attempts):
                at = attempts[number - 1]
                yield number, {"at": at, "event": APPLIED, "fault": row["kind"], "answer": ""}

    def _event(self, event: str, kind: str, answer: str = "") -> HitEventRow:
        return {"at": self._now(), "event": event, "fault": kind, "answer": answer}


def _is_of_copy(event: HitEventRow) -> bool:
    return event["event"] not in (APPLIED, HELD, UNMET)


def _is_met(event: HitEventRow) -> bool:
    """Whether a fault had an effect on the attempt: it was applied or held, even if nothing else came of it."""
    return event["event"] in (APPLIED, HELD) or (event["event"] == UNMET and event["fault"] in HOLDING_KINDS)


def original_never_left(delivery: DeliveryRow | None, number: int) -> bool:
    """Whether attempt `number` of a delivery, of which a copy was made, has ended without being sent. `delivery` is
    None when its row was removed."""
    attempt = None if delivery is None else AttemptLog(delivery).attempts()[number - 1]
    return attempt is not None and attempt.ended_at is not None and never_left(attempt)
