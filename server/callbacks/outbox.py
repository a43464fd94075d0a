"""The outbox: every callback is stored, then sent until the receiver accepts it or the retry schedule ends.

    enqueue --- due ---> attempt --- response ---> delivered
                 ^                      |--------> exhausted, stopped (410) or blocked
                 '---- delay, jitter ---'

A delivery is stored in the same commit as the state change that it reports, and an attempt before it is sent. Whatever
fails in between, the callback is sent at least once, always with the same `webhook-id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, cast

from leyden.server.callbacks.attempts import Attempt, AttemptLog, delivery_summary
from leyden.server.callbacks.deliveries import (
    BLOCKED,
    GONE,
    LOST_IN_RESTART,
    PENDING,
    attempt_headers,
    attempt_request,
    callback_body,
    delay_asked_for,
    initial_delay_ms,
    is_in_flight,
    next_status,
    replayed,
    result_kind,
    stopped_by_another,
)
from leyden.server.callbacks.delivery_row import DeliveryRow, endpoint_of
from leyden.server.callbacks.in_flight import InFlight
from leyden.server.callbacks.signing import SecretRow, sign, valid_secrets
from leyden.server.contract.types import CallbackRule
from leyden.server.errors import StoreError
from leyden.server.ports import (
    CALLBACK,
    CallbackRequest,
    CallbackResponse,
    CallbackTransport,
    Clock,
    EventJournal,
    RandomSource,
)
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

TIMER = "callback"
_SENT_AT_ONCE = 10  # of a queue, in one event: about ten milliseconds of work
_INDEXES = ("resource_id", "endpoint_id", "status", "event")


class Outbox:
    """The outbox of one service.

    `rules` are the spec's callbacks by name; a stored delivery finds its rule by name after a restart. `secrets` gives
    all secrets of a project, as `Projects.secrets` does. `jitter` is a random stream of its own, so that retry
    schedules do not depend on other random draws. `version` is Leyden's, for the user agent.

    All decisions follow from the stored rows and from the state in `leyden.server.callbacks.in_flight`.
    `defer_until` is a hook for injected faults: it gets the row of a due delivery and the number of the attempt, and
    returns a later instant or None.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        transport: CallbackTransport,
        new_id: Callable[[], str],
        jitter: RandomSource,
        journal: EventJournal,
        *,
        rules: Mapping[str, CallbackRule],
        secrets: Callable[[str], Sequence[SecretRow]],
        version: str,
        defer_until: Callable[[DeliveryRow, int], int | None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._transport = transport
        self._new_id = new_id
        self._jitter = jitter
        self._journal = journal
        self._rules = rules
        self._secrets = secrets
        self._user_agent = f"leyden/{version}"
        self._worker_slots = max((rule.delivery.in_flight for rule in rules.values()), default=1)
        self._rows = cast(TypedTable[DeliveryRow], store.table("deliveries", "id", _INDEXES, (("status", "event"),)))
        self._rows.declare_summary(delivery_summary)
        self._in_flight = InFlight()
        self._sending = False
        self._defer_until = defer_until
        clock.on(TIMER, self.on_due)

    # Requests from the services and the control API

    def enqueue(
        self,
        *,
        resource_id: str,
        project: str,
        url: str,
        rule: CallbackRule,
        event: str,
        sequence: int,
        data: dict[str, Any],
        at: int,
        endpoint_id: str | None = None,
    ) -> None:
        """Store one delivery in the caller's commit, and set its first timer. A body that the spec's schema refuses is
        never sent: its attempt is `blocked`, with a note that says so.

        `at` is the instant of the state change that `event` reports, `sequence` the place among the resource's
        callbacks, larger each time. `endpoint_id` is the resource whose request gave the URL, if it is another one: the
        Static Charge for one of its payments. A 410 disables the URL for that resource.
        """
        body, mismatch = callback_body(rule, event, sequence, data, at)
        disabled = (endpoint_id or resource_id, url) in self._in_flight.disabled
        row: DeliveryRow = {
            "id": self._new_id(),
            "resource_id": resource_id,
            "project": project,
            "url": url,
            "rule": rule.name,
            "event": event,
            "status": PENDING,
            "sequence": sequence,
            "created_at": at,
            "due_at": None if disabled else at + initial_delay_ms(rule.delivery, self._jitter),
            "agent": self._user_agent,
            "body": body,
            "attempts": "",
        }
        if mismatch:
            row["mismatch"] = mismatch
        if endpoint_id is not None and endpoint_id != resource_id:
            row["endpoint_id"] = endpoint_id
        row = stopped_by_another(row, at) if disabled else row
        self._rows.put(row)
        if disabled:
            self._journal.note("callback_finished", row["id"], resource=resource_id, status=row["status"], attempts=0)
        elif self._is_next(row):
            self._set_timer(row)

    def deliveries(self, resource_id: str | None = None) -> list[DeliveryRow]:
        """The delivery rows, oldest first: all, or those of one resource (a Static Charge's: of its payments)."""
        return list(self._rows) if resource_id is None else self._rows_of(resource_id)

    @property
    def rows(self) -> TypedTable[DeliveryRow]:
        """The table of the deliveries, to be read."""
        return self._rows

    def delivery(self, delivery_id: str) -> DeliveryRow | None:
        """One delivery row, or None."""
        return self._rows.row(delivery_id)

    def signature(self, row: DeliveryRow, attempt: Attempt) -> str:
        """The signature of an attempt, computed from the secrets that the project had then."""
        secrets = self._secrets(row["project"])[: attempt.secret_count]
        return sign(valid_secrets(secrets, attempt.at), row["id"], attempt.timestamp_s, row["body"])

    def replay(self, delivery_id: str, when_ms: int | None = None) -> DeliveryRow:
        """Send the callback again, now or at `when_ms`, under the same id; if that fails, its retries start again.

        A pending delivery becomes due then; one in flight stays as it is. A replay ignores an earlier 410. Raises
        `LookupError` for an unknown id.
        """
        row, now = self._rows.existing(delivery_id), self._clock.now()
        if is_in_flight(row):
            return row
        row = replayed(row, now, now if when_ms is None else when_ms)
        with self._store.commit():
            self._rows.put(row)
            self._journal.note("callback_replayed", delivery_id, resource=row["resource_id"], due_at=row["due_at"])
            if self._is_next(row):
                self._set_timer(row)
        return row

    def has_rule(self, row: DeliveryRow) -> bool:
        """Whether the callback is in the spec. The data may have been made with another one."""
        return row["rule"] in self._rules

    def reschedule(self, delivery_id: str, when_ms: int) -> None:
        """Make a pending delivery due at `when_ms`, earlier or later than before. No effect while it is in flight or
        after its end. Raises `LookupError` for an unknown id."""
        row = self._rows.existing(delivery_id)
        if row["status"] != PENDING or is_in_flight(row):
            return
        row = {**row, "due_at": when_ms}
        with self._store.commit():
            self._rows.put(row)
            if self._is_next(row):
                self._set_timer(row)

    @property
    def in_flight(self) -> InFlight:
        """The state that is in neither the store nor the clock: the deliveries whose attempt has no response yet, and
        the endpoints that answered 410. It is read, and restored from a snapshot."""
        return self._in_flight

    # Events from the clock and the transport

    def on_due(self, delivery_id: str) -> None:
        """The delivery is due: send it, or queue it while all worker slots are in use."""
        self._in_flight.enqueue(delivery_id)
        self._send_due()

    def on_response(self, request: CallbackRequest, response: CallbackResponse) -> None:
        """An attempt has ended. A second response to the same attempt, or one after a restart, has no effect."""
        stored = self._rows.row(request.delivery_id)
        # No row, or another attempt: the commit that recorded this attempt was rolled back; its timer sends again.
        if stored is None or not is_in_flight(stored) or AttemptLog(stored).attempt_count != request.attempt:
            self._in_flight.discard(request.delivery_id, request.attempt)
            return
        self._in_flight.complete(request.delivery_id)
        now = self._clock.now()
        asked_ms = delay_asked_for(response, self._transport.receiver_time_s(stored["url"]))
        row: DeliveryRow = {**stored, "attempts": AttemptLog(stored).record_result(now, response, asked_ms)}
        rule = self._rules[row["rule"]].delivery
        row["status"], row["due_at"] = next_status(row, response, rule, now, asked_ms, self._jitter)
        if row["status"] == PENDING and self._is_disabled(row):
            row = stopped_by_another(row, now)  # the 410 came while this one was in flight
        if response.status == GONE:
            row["refused"] = True
        with self._store.commit():
            self._rows.put(row)
            self._journal.note(
                result_kind(response),
                row["id"],
                resource=row["resource_id"],
                attempt=request.attempt,
                status=response.status,
                error=response.error,
            )
            if row["status"] == PENDING:
                self._set_timer(row)
            else:
                self._finish(row)
            if response.status == GONE:
                self._disable(row)
        self._send_due()

    def resume(self, answerable: Set[tuple[str, int]] = frozenset()) -> None:
        """Set the timers of all pending deliveries, for a store that was just opened.

        An attempt that was in flight stays so if it is one of `answerable` (delivery id and number): its transport
        still reports how it ends. Any other ends as `lost`: it does not count against the schedule, and the delivery is
        due at once. Raises `StoreError` when the callback of a pending delivery is no longer in the spec.
        """
        now = self._clock.now()
        pending: list[DeliveryRow] = []
        with self._store.commit():
            for row in self._rows:
                if row.get("refused"):
                    self._in_flight.disabled.add(endpoint_of(row))
                if row["status"] != PENDING:
                    continue
                if row["rule"] not in self._rules:
                    raise StoreError(
                        f"delivery {row['id']} is pending for the callback {row['rule']!r}, which is not in the spec: "
                        "serve the spec with which the data was made, or start with fresh data"
                    )
                if is_in_flight(row):
                    log = AttemptLog(row)
                    if (row["id"], log.attempt_count) in answerable:
                        self._in_flight.start(row["id"], log.attempt_count)
                        continue
                    row = {**row, "due_at": now, "attempts": log.record_result(now, LOST_IN_RESTART)}
                    self._rows.put(row)
                pending.append(row)
            for row in pending:
                if self._is_disabled(row):  # the lost attempt was in flight when the endpoint was disabled
                    stopped = stopped_by_another(row, now)
                    self._rows.put(stopped)
                    self._finish(stopped)
        for row in sorted(pending, key=lambda row: row["due_at"] or 0):
            if self._is_next(row):
                self._set_timer(row)

    # Commit and rollback

    def begin(self) -> None:
        """A commit begins: from now on changes are recorded for `rollback`."""
        self._in_flight.begin()

    def commit(self) -> None:
        """The commit is written."""
        self._in_flight.commit()

    def rollback(self, error: BaseException | None = None) -> None:
        """The commit was rolled back, like the rows and the timers."""
        self._in_flight.rollback()

    # Sending

    def _rows_of(self, resource_id: str) -> list[DeliveryRow]:
        return self._rows.find("resource_id", resource_id) + self._rows.find("endpoint_id", resource_id)

    def _next_delivery(self, resource_id: str) -> DeliveryRow | None:
        """The resource's oldest pending delivery: the only one that may be sent."""
        return next((row for row in self._rows.find("resource_id", resource_id) if row["status"] == PENDING), None)

    def _is_next(self, row: DeliveryRow) -> bool:
        first = self._next_delivery(row["resource_id"])
        return first is not None and first["id"] == row["id"]

    def _set_timer(self, row: DeliveryRow) -> None:
        # 0 is never used: the callers pass pending deliveries that are not in flight.
        self._clock.call_at(row["due_at"] or 0, CALLBACK, TIMER, row["id"])

    def _send_due(self) -> None:
        # A response may arrive while this loop sends; the loop that is already running then continues.
        if self._sending:
            return
        in_flight, left = self._in_flight, _SENT_AT_ONCE
        self._sending = True
        try:
            while in_flight.queue and len(in_flight.attempts) < self._worker_slots:
                if left == 0:  # another event of this instant goes on: receivers that answer at once take no slot
                    self._clock.call_at(self._clock.now(), CALLBACK, TIMER, in_flight.queue[0])
                    return
                left -= 1
                row = self._rows.row(in_flight.queue[0])
                # A timer may be obsolete: its commit was rolled back, or a response arrived meanwhile.
                if row is None or row["status"] != PENDING or is_in_flight(row):
                    in_flight.acquire()
                elif len(in_flight.attempts) >= self._rules[row["rule"]].delivery.in_flight:
                    return
                else:
                    in_flight.acquire()
                    if self._is_next(row):
                        if (row["due_at"] or 0) > self._clock.now():
                            self._set_timer(row)
                        else:
                            self._start_attempt(row)
        finally:
            self._sending = False

    def _start_attempt(self, row: DeliveryRow) -> None:
        with self._store.commit():
            number = AttemptLog(row).attempt_count + 1
            later = None if self._defer_until is None else self._defer_until(row, number)
            if later is None:
                self._send(row, number)
            else:
                self.reschedule(row["id"], later)

    def _send(self, row: DeliveryRow, number: int) -> None:
        rule = self._rules[row["rule"]].delivery
        now, due_at = self._clock.now(), row["due_at"] or 0
        timestamp_s = self._transport.receiver_time_s(row["url"])
        secrets = self._secrets(row["project"])
        signature = sign(valid_secrets(secrets, now), row["id"], timestamp_s, row["body"])
        attempts = AttemptLog(row).record_start(now, due_at, timestamp_s, len(secrets))
        self._rows.put({**row, "due_at": None, "attempts": attempts})
        self._journal.note(
            "callback_started", row["id"], resource=row["resource_id"], event=row["event"], attempt=number
        )
        self._in_flight.start(row["id"], number)
        request = attempt_request(row, rule, number, attempt_headers(row, number, now, timestamp_s, signature))
        if "mismatch" in row:
            self.on_response(request, CallbackResponse(error=BLOCKED, note=row["mismatch"]))
        else:
            self._transport.post(request, self.on_response)

    def _is_disabled(self, row: DeliveryRow) -> bool:
        return endpoint_of(row) in self._in_flight.disabled and "replayed_from" not in row

    def _disable(self, row: DeliveryRow) -> None:
        """Disable the row's endpoint, and stop all its deliveries that are pending and not in flight. When it is
        disabled already there are none."""
        endpoint = endpoint_of(row)
        if not self._in_flight.disable(endpoint):
            return
        stopped = [
            stopped_by_another(other, self._clock.now())
            for other in self._rows_of(endpoint[0])
            if endpoint_of(other) == endpoint
            and (other["status"] == PENDING and not is_in_flight(other))
            and self._is_disabled(other)
        ]
        for other in stopped:
            self._clock.cancel(TIMER, other["id"])
            self._rows.put(other)
        for other in stopped:
            self._finish(other)

    def _finish(self, row: DeliveryRow) -> None:
        """The delivery has ended: journal it, and set the timer of the resource's next one."""
        resource, attempts = row["resource_id"], AttemptLog(row).attempt_count
        self._journal.note("callback_finished", row["id"], resource=resource, status=row["status"], attempts=attempts)
        following = self._next_delivery(resource)
        if following is not None:
            self._set_timer(following)
