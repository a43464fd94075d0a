"""Callbacks: what we promised to tell, kept until the receiver has heard it or the schedule is spent.

    enqueue --- due ---> attempt --- answered ---> delivered
                 ^                      |--------> exhausted, stopped (410) or blocked
                 '---- pause, jitter ---'

A delivery is stored in the same commit as the transition it tells of, and an attempt before it is sent: whatever
happens in between, the message is sent at least once, always under the same `webhook-id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leyden.server.callbacks.attempts import Attempt, begun, ended, made
from leyden.server.callbacks.deliveries import (
    GONE,
    LOST,
    PENDING,
    STOPPED,
    attempt_headers,
    callback_body,
    initial_delay_ms,
    is_in_flight,
    next_status,
)
from leyden.server.callbacks.in_flight import InFlight
from leyden.server.callbacks.signing import sign, signers
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

TIMER = "callback"


class Outbox:
    """The outbox of one world.

    `rules` are the contract's callbacks by name; a stored delivery finds its rule there again after a restart.
    `secrets(project)` gives every secret that the project ever had, as `Projects.secrets` does. `jitter` is a stream of
    its own: the schedule of one delivery never depends on what else the world draws. `version` is Leyden's, for the
    user agent.

    Everything is decided from the stored rows, and from what is in hand at the moment
    (`leyden.server.callbacks.in_flight`).

    `defer_until` may be set to ask somebody else whether a delivery that is due should wait after all: it is given the
    row and the number of the attempt, and names a later instant, or None.
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
        secrets: Callable[[str], Sequence[Mapping[str, Any]]],
        version: str,
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
        self._worker_slots = max(rule.delivery.in_flight for rule in rules.values())
        self._rows = store.table("deliveries", key="id", indexes=("resource_id", "endpoint_id"))
        self._in_flight = InFlight()
        self._sending = False
        self.defer_until: Callable[[Mapping[str, Any], int], int | None] = lambda row, number: None
        clock.on(TIMER, self.on_due)

    # What the services ask

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
        """Store one delivery, in the caller's commit, and set its first timer.

        `at` is the instant at which the resource entered the state that `event` tells of, `sequence` the message's
        place among the resource's deliveries (each larger than the one before). `endpoint_id` is what a 410 closes
        together with the URL: the resource that the URL was given for, which is the Static Charge for a payment of one.

        Raises `InternalError` when the body breaks the spec's own schema: that is our defect.
        """
        body = callback_body(rule, event, sequence, data, at)
        closed = (endpoint_id or resource_id, url) in self._in_flight.disabled
        row: dict[str, Any] = {
            "id": self._new_id(),
            "resource_id": resource_id,
            "project": project,
            "url": url,
            "rule": rule.name,
            "event": event,
            "status": STOPPED if closed else PENDING,
            "sequence": sequence,
            "created_at": at,
            "due_at": None if closed else at + initial_delay_ms(rule.delivery, self._jitter),
            "agent": self._user_agent,
            "body": body,
            "attempts": "",
        }
        if endpoint_id not in (None, resource_id):
            row["endpoint_id"] = endpoint_id
        self._rows.put(row)
        if closed:
            self._journal.note("callback_finished", row["id"], resource=resource_id, status=STOPPED, attempts=0)
        elif self._is_next(row):
            self._set_timer(row)

    def deliveries(self, resource_id: str | None = None) -> list[dict[str, Any]]:
        """The delivery rows, oldest first: all, or those of one resource; a Static Charge's are about the Charges that
        its payers asked for."""
        return list(self._rows) if resource_id is None else self._rows_of(resource_id)

    def delivery(self, delivery_id: str) -> dict[str, Any] | None:
        """One delivery row, or None."""
        return self._rows.row(delivery_id)

    def signature(self, row: Mapping[str, Any], attempt: Attempt) -> str:
        """What an attempt of the delivery was signed with: it follows from the secrets that there were by then."""
        secrets = self._secrets(row["project"])[: attempt.secrets]
        return sign(signers(secrets, attempt.at), row["id"], attempt.stamp_s, row["body"])

    def replay(self, delivery_id: str) -> dict[str, Any]:
        """Let the message be sent once more, now, under its id; if that fails its schedule begins anew.

        A waiting delivery is due at once; one with an unanswered attempt stays as it is. What a receiver said with 410
        does not hold here: somebody asked. Raises `LookupError` for an unknown id.
        """
        row: dict[str, Any] = self._rows.existing(delivery_id)
        if is_in_flight(row):
            return row
        row = {**row, "status": PENDING, "due_at": self._clock.now(), "replayed_from": made(row)}
        with self._store.commit():
            self._rows.put(row)
            self._journal.note("callback_replayed", delivery_id, resource=row["resource_id"])
            if self._is_next(row):
                self._set_timer(row)
        return row

    def reschedule(self, delivery_id: str, when_ms: int) -> None:
        """Let a waiting delivery be due at `when_ms`, earlier or later than it was; any other stays as it is.

        Raises `LookupError` for an unknown id.
        """
        row: dict[str, Any] = self._rows.existing(delivery_id)
        if row["status"] != PENDING or is_in_flight(row):
            return
        row = {**row, "due_at": when_ms}
        with self._store.commit():
            self._rows.put(row)
            if self._is_next(row):
                self._set_timer(row)

    @property
    def in_flight_count(self) -> int:
        """Attempts that were sent and not yet answered."""
        return len(self._in_flight.attempts)

    # What the world reports

    def on_due(self, delivery_id: str) -> None:
        """The delivery is due: send it, or let it wait in due order while too many attempts are unanswered."""
        self._in_flight.queue.append(delivery_id)
        self._send_due()

    def on_response(self, post: CallbackRequest, answer: CallbackResponse) -> None:
        """An attempt came to its end. A second answer to it, or one that comes after a restart, changes nothing."""
        stored = self._rows.row(post.delivery_id)
        # None, or an attempt that is not there: the commit that began it was refused; its timer stands and sends again.
        if stored is None or not is_in_flight(stored) or made(stored) != post.attempt:
            self._in_flight.discard(post.delivery_id, post.attempt)
            return
        self._in_flight.complete(post.delivery_id)
        now = self._clock.now()
        row = {**stored, "attempts": ended(stored, now, answer)}
        delivery = self._rules[row["rule"]].delivery
        row["status"], row["due_at"] = next_status(
            row, answer, delivery, now, self._transport.receiver_time_s, self._jitter
        )
        if row["status"] == PENDING and self._is_disabled(row):
            row["status"], row["due_at"] = STOPPED, None  # a 410 to another message came while this one was under way
        if answer.status == GONE:
            row["refused"] = True
        with self._store.commit():
            self._rows.put(row)
            self._journal.note(
                "callback_answered",
                row["id"],
                resource=row["resource_id"],
                attempt=post.attempt,
                status=answer.status,
                error=answer.error,
            )
            if row["status"] == PENDING:
                self._set_timer(row)
            else:
                self._finish(row)
            if answer.status == GONE:
                self._disable(row)
        self._send_due()

    def resume(self) -> None:
        """Take up the work of a store that was just opened.

        An attempt whose answer nobody heard is closed as `lost`, takes nothing off the schedule, and the message is
        due again at once. Raises `StoreError` when a waiting delivery's callback is no longer in the spec.
        """
        now = self._clock.now()
        waiting = []
        with self._store.commit():
            for stored in self._rows:
                row: dict[str, Any] = stored
                if row.get("refused"):
                    self._in_flight.disabled.add(_endpoint(row))
                if row["status"] != PENDING:
                    continue
                if row["rule"] not in self._rules:
                    raise StoreError(
                        f"delivery {row['id']} waits to be sent by the callback {row['rule']!r}, which is not in the "
                        "spec: serve the spec that the data was made with, or start with fresh data"
                    )
                if is_in_flight(row):
                    lost = CallbackResponse(error=LOST, note="the service stopped before the answer came")
                    row = {**row, "due_at": now, "attempts": ended(row, now, lost)}
                    self._rows.put(row)
                waiting.append(row)
            for row in waiting:
                if self._is_disabled(row):  # the attempt that was lost was under way when the endpoint was closed
                    stopped = {**row, "status": STOPPED, "due_at": None}
                    self._rows.put(stopped)
                    self._finish(stopped)
        for row in sorted(waiting, key=lambda row: row["due_at"]):
            if self._is_next(row):
                self._set_timer(row)

    # What a commit taken back takes back

    def begin(self) -> None:
        """A commit begins: from here on, note what `rollback` would have to undo."""
        self._in_flight.begin()

    def rollback(self) -> None:
        """The commit was refused, and the clock's timers are as they were: what was taken in hand is due again."""
        for delivery_id in self._in_flight.rollback(self._attempt_in_flight):
            # A timer too many does no harm: what is due is decided from the row.
            self._clock.call_at(self._clock.now(), CALLBACK, TIMER, delivery_id)

    # What a fork carries over

    def snapshot(self) -> dict[str, Any]:
        """All that is not in the store's rows or the clock's timers, as plain data that later changes do not touch."""
        return self._in_flight.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Stand where the world stood that `snapshot` was taken of; its store and clock are copied by their owners."""
        self._in_flight.restore(state)

    # The outbox itself

    def _attempt_in_flight(self, delivery_id: str) -> int | None:
        row = self._rows.row(delivery_id)
        return made(row) if row is not None and is_in_flight(row) else None

    def _rows_of(self, resource_id: str) -> list[dict[str, Any]]:
        return self._rows.find("resource_id", resource_id) + self._rows.find("endpoint_id", resource_id)

    def _next_delivery(self, resource_id: str) -> dict[str, Any] | None:
        """The resource's oldest unfinished delivery: the only one that may be sent."""
        return next((row for row in self._rows.find("resource_id", resource_id) if row["status"] == PENDING), None)

    def _is_next(self, row: Mapping[str, Any]) -> bool:
        first = self._next_delivery(row["resource_id"])
        return first is not None and bool(first["id"] == row["id"])

    def _set_timer(self, row: Mapping[str, Any]) -> None:
        self._clock.call_at(row["due_at"], CALLBACK, TIMER, row["id"])

    def _send_due(self) -> None:
        # An answer may come while we send; the loop that is already running then goes on.
        if self._sending:
            return
        hands = self._in_flight
        self._sending = True
        try:
            while hands.queue and len(hands.attempts) < self._worker_slots:
                row = self._rows.row(hands.queue[0])
                # A timer may outlive what it was set for: a commit that was refused, an answer that came meanwhile.
                if row is None or row["status"] != PENDING or is_in_flight(row):
                    hands.acquire()
                elif len(hands.attempts) >= self._rules[row["rule"]].delivery.in_flight:
                    return
                else:
                    hands.acquire()
                    if self._is_next(row):
                        if row["due_at"] > self._clock.now():
                            self._set_timer(row)
                        else:
                            self._start_attempt(row)
        finally:
            self._sending = False

    def _start_attempt(self, row: dict[str, Any]) -> None:
        with self._store.commit():
            later = self.defer_until(row, made(row) + 1)
            if later is None:
                self._send(row)
            else:
                self.reschedule(row["id"], later)

    def _send(self, row: dict[str, Any]) -> None:
        delivery = self._rules[row["rule"]].delivery
        now, number = self._clock.now(), made(row) + 1
        stamp_s = self._transport.receiver_time_s(row["url"])
        secrets = self._secrets(row["project"])
        signature = sign(signers(secrets, now), row["id"], stamp_s, row["body"])
        self._rows.put({**row, "due_at": None, "attempts": begun(row, now, stamp_s, len(secrets))})
        self._journal.note("callback_sent", row["id"], resource=row["resource_id"], event=row["event"], attempt=number)
        self._in_flight.attempts[row["id"]] = number
        post = CallbackRequest(
            delivery_id=row["id"],
            attempt=number,
            url=row["url"],
            headers=attempt_headers(row, number, now, stamp_s, signature),
            body=row["body"].encode(),
            connect_timeout_ms=delivery.connect_timeout_ms,
            timeout_ms=delivery.timeout_ms,
        )
        self._transport.post(post, self.on_response)

    def _is_disabled(self, row: Mapping[str, Any]) -> bool:
        return _endpoint(row) in self._in_flight.disabled and "replayed_from" not in row

    def _disable(self, row: dict[str, Any]) -> None:
        """The receiver wants to hear no more: stop everything else that waits to be sent there."""
        endpoint = _endpoint(row)
        self._in_flight.disable(endpoint)
        stopped = [
            {**other, "status": STOPPED, "due_at": None}
            for other in self._rows_of(endpoint[0])
            if _endpoint(other) == endpoint
            and other["status"] == PENDING
            and not is_in_flight(other)
            and self._is_disabled(other)
        ]
        for other in stopped:
            self._clock.cancel(TIMER, other["id"])
            self._rows.put(other)
        for other in stopped:
            self._finish(other)

    def _finish(self, row: Mapping[str, Any]) -> None:
        resource = row["resource_id"]
        self._journal.note("callback_finished", row["id"], resource=resource, status=row["status"], attempts=made(row))
        following = self._next_delivery(resource)
        if following is not None:
            self._set_timer(following)


def _endpoint(row: Mapping[str, Any]) -> tuple[str, str]:
    """What a 410 closes: a resource's URL. For a Static Charge's payment the resource is the Static Charge."""
    return row.get("endpoint_id", row["resource_id"]), row["url"]
