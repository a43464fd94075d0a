"""Expected callbacks: one delivery for each final state, with retries until the receiver accepts it.

The service chooses the delay before a retry at random within bounds [callback-delivery]. A `DueTimeObserver` returns
that time and checks the bounds. Everything else is computed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from leyden.harness.model.faults import CONTENT_FAULTS, COPYING, HOLDING, SENDING, Faults
from leyden.harness.model.records import Attempt, Charge, Delivery, Fault, ReceivedRequest
from leyden.harness.model.rules import (
    ATTEMPT_TIMEOUT_MS,
    BACKOFF_MS,
    JITTER,
    KEPT_BYTES,
    KEPT_HEADER_BYTES,
    MAX_IN_FLIGHT,
    RETRY_AFTER_FACTOR,
    Interpretation,
    iso,
)
from leyden.harness.model.timeline import CALLBACK, Timeline

# The replies that are words: the error or the status for the sender, and whether the receiver gets the request.
FAILURE_REPLIES = {
    "timeout": ("timeout", True),
    "reset": ("reset", True),
    "refused": ("refused", False),
    "unresolved": ("unresolved", False),
    "tls": ("tls", False),
    "protocol": ("protocol", True),
    "empty": ("reset", True),
    "endless": ("timeout", True),
    "huge": (200, True),
    "commit_then_500": (500, True),
}


class Reply(NamedTuple):
    """The result of a request for its sender: a status or an error, the latency, the headers and the body."""

    status: int | None
    error: str | None
    latency_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


# The errors of attempts without a connection on which the request could be sent
_NOT_SENT = frozenset({"refused", "unresolved", "tls"})
# (delivery, attempt number, earliest and latest time in ms) -> the time of the attempt in ms
DueTimeObserver = Callable[[Delivery, int, int, int], int]


@dataclass(slots=True)
class Receiver:
    """The script of a receiver, `answers` for the next requests and then `always`, and the requests that it got."""

    answers: list[Any] = field(default_factory=list)
    always: Any = 200
    received: list[ReceivedRequest] = field(default_factory=list)


class Outbox:
    """All deliveries, and the requests that each receiver must have got."""

    def __init__(
        self,
        timeline: Timeline,
        interpretation: Interpretation,
        observe_due_time: DueTimeObserver,
        changed: Callable[[Charge], None],
        signing_secrets: Callable[[str], list[str]],
        earlier_secret: Callable[[str], str | None],
    ) -> None:
        self._timeline = timeline
        self._interpretation = interpretation
        self._observe_due_time = observe_due_time
        self._changed = changed
        self._signing_secrets = signing_secrets
        self.backoff_ms = BACKOFF_MS[:1] if interpretation.no_retries else BACKOFF_MS
        self.deliveries: list[Delivery] = []
        self.receivers: dict[str, Receiver] = {}
        self.faults = Faults(earlier_secret)
        self.copies: list[Fault] = []  # of the copies that are still to be sent
        self.receivers_reached: dict[str, None] = {}
        self.reached: list[tuple[str, ...]] = []
        self._in_flight = 0
        self._sending = False
        self._waiting: deque[tuple[Delivery, int]] = deque()
        self._closed: set[tuple[object, str]] = set()

    def notify(self, charge: Charge, event: str) -> None:
        """Create the delivery about a final state. It is due now; it is stopped if its endpoint has answered 410."""
        now = self._timeline.now
        url = charge.callback_url
        if not url:
            return
        body = charge.update()
        if self._interpretation.callback_envelope:
            body = {"type": event, "timestamp": iso(now), "sequence": 1, "data": body}
        endpoint: object = charge.parent or charge
        delivery = charge.delivery = Delivery(charge, endpoint, url, event, body, now, now)
        self.deliveries.append(delivery)
        if (endpoint, url) in self._closed:
            self._end(delivery, "stopped")
        else:
            self._schedule(delivery)

    def replay(self, delivery: Delivery, when: int | None = None) -> bool:
        """Send a delivery again, now or later [replay]. Returns False while an attempt is in flight."""
        if delivery.is_in_flight:
            return False
        delivery.status, delivery.due_at = "pending", self._timeline.now if when is None else when
        delivery.replayed_from = len(delivery.attempts)
        self._changed(delivery.charge)
        self._schedule(delivery)
        return True

    def restart(self) -> None:
        """The service restarts: an attempt in flight goes on, because all receivers are simulated, and a delivery that
        waits is scheduled again."""
        self._waiting.clear()
        for delivery in self.deliveries:
            if delivery.status == "pending" and not delivery.is_in_flight:
                self._changed(delivery.charge)
                self._schedule(delivery)

    # Attempts

    def _schedule(self, delivery: Delivery) -> None:
        if (delivery, delivery.schedule_version) in self._waiting:
            return  # it is due already and keeps its place in the queue
        delivery.schedule_version += 1
        version = delivery.schedule_version
        assert delivery.due_at is not None
        self._timeline.schedule(delivery.due_at, CALLBACK, lambda: self._due(delivery, version))

    def _due(self, delivery: Delivery, version: int) -> None:
        if delivery.schedule_version == version and delivery.status == "pending" and not delivery.is_in_flight:
            self._waiting.append((delivery, version))
            self._send_waiting()

    def _send_waiting(self) -> None:
        if self._sending:
            return  # a reply without latency: the loop below goes on with the next one
        self._sending = True
        while self._waiting and self._in_flight < MAX_IN_FLIGHT:
            delivery, version = self._waiting.popleft()
            if delivery.schedule_version == version and delivery.status == "pending" and not delivery.is_in_flight:
                if (delivery.due_at or 0) > self._timeline.now:  # it was put off while it waited
                    self._schedule(delivery)
                else:
                    self._start_attempt(delivery)
        self._sending = False

    def _start_attempt(self, delivery: Delivery) -> None:
        now, number = self._timeline.now, len(delivery.attempts) + 1
        self._changed(delivery.charge)
        held = self.faults.held.pop(delivery, None)
        if held is None and (holding := self.faults.next_match(HOLDING, delivery, number, now)) is not None:
            self.reached.append(("fault", holding.kind))
            until, released = self.faults.hold(delivery, holding, now)
            self._release(released)
            delivery.due_at = until
            self._schedule(delivery)
            return
        assert delivery.due_at is not None
        attempt = Attempt(number, delivery.due_at, now, self._signing_secrets(delivery.charge.project))
        delivery.due_at = None
        delivery.attempts.append(attempt)
        self._in_flight += 1
        fault = self.faults.next_match(SENDING, delivery, number, now)
        # Only the built-in receivers are below `.localhost`; no target may send anything elsewhere.
        is_blocked = not (urlsplit(delivery.url).hostname or "").rstrip(".").endswith(".localhost")
        if is_blocked and fault is not None and fault.kind != "drop":
            fault.left += 1  # nothing is sent, so it does not apply
            fault = None
        injected = fault or held
        attempt.fault = None if injected is None else injected.kind
        attempt.earlier_secret = self.faults.earlier_secret(delivery.charge.project)
        is_dropped = fault is not None and fault.kind == "drop"
        attempt.changed_by = fault if fault is not None and fault.kind in ("drop", *CONTENT_FAULTS) else None
        attempt.overtaken = [] if is_dropped else self.faults.overtaken()
        if is_dropped:
            self.reached.append(("fault", "drop"))
            self._await(delivery, attempt, Reply(None, "timeout", ATTEMPT_TIMEOUT_MS))
        elif is_blocked:
            self._complete(delivery, attempt, Reply(None, "blocked"))
        else:
            self._send(delivery, attempt, fault, held)

    def _send(self, delivery: Delivery, attempt: Attempt, fault: Fault | None, held: Fault | None) -> None:
        reply = self._reply(delivery, attempt.number, attempt.changed_by)
        is_unsent = reply.error in _NOT_SENT
        if fault is not None and not is_unsent:
            self.reached.append(("fault", fault.kind))
        started, unsent = {"message"}, set[str]()

        def end_unsent(what: str) -> None:
            """The message, or its copy, was never sent. A fault of which nothing was sent does not apply."""
            unsent.add(what)
            if fault is not None and unsent == started:
                fault.left += 1
                attempt.fault, attempt.changed_by = None if held is None else held.kind, None
                if fault in self.copies:
                    self.copies.remove(fault)

        self._await(delivery, attempt, reply, lambda: end_unsent("message") if is_unsent else None)
        if fault is not None and fault.kind in COPYING:

            def send_copy() -> None:
                if fault in self.copies:
                    self.copies.remove(fault)
                if "message" in unsent:
                    return  # the message was never sent, and neither is a copy of it
                started.add("copy")
                self._changed(delivery.charge)
                answer = self._reply(delivery, attempt.number, fault, is_copy=True)
                if answer.error in _NOT_SENT:
                    ends_at = self._timeline.now + answer.latency_ms
                    self._timeline.schedule(ends_at, CALLBACK, lambda: end_unsent("copy"))

            if fault.kind == "simultaneous":
                send_copy()
            else:
                self.copies.append(fault)
                self._timeline.schedule(self._timeline.now + fault.delay_ms, CALLBACK, send_copy)

    def _release(self, held: list[Delivery]) -> None:
        for delivery in held:
            if delivery.status == "pending":
                delivery.due_at = self._timeline.now
                self._changed(delivery.charge)
                self._schedule(delivery)

    def _reply(self, delivery: Delivery, number: int, fault: Fault | None, *, is_copy: bool = False) -> Reply:
        """The receiver's reply to a request, or to a copy of it."""
        host = host_of(delivery.url)
        receiver = self.receivers.setdefault(host, Receiver())
        reply = receiver.answers.pop(0) if receiver.answers else receiver.always
        seen, is_received = interpret_reply(reply)
        if is_received:
            secrets = self._signing_secrets(delivery.charge.project)
            receiver.received.append(ReceivedRequest(self._timeline.now, delivery, number, fault, is_copy, secrets))
            self.receivers_reached[host] = None
        return seen

    def _await(
        self, delivery: Delivery, attempt: Attempt, reply: Reply, before_end: Callable[[], None] = lambda: None
    ) -> None:
        attempt.latency_ms = reply.latency_ms

        def complete() -> None:
            if attempt.ended_at is None:
                before_end()
                self._complete(delivery, attempt, reply)

        if reply.latency_ms:
            self._timeline.schedule(self._timeline.now + reply.latency_ms, CALLBACK, complete)
        else:
            complete()

    def _complete(self, delivery: Delivery, attempt: Attempt, reply: Reply) -> None:
        status, error = reply.status, reply.error
        self._in_flight -= 1
        now = self._timeline.now
        attempt.ended_at, attempt.status, attempt.error = now, status, error
        attempt.answer = reply.body.encode()[:KEPT_BYTES].decode(errors="replace")
        attempt.answer_headers = kept_headers(reply.headers)
        attempt.headers_left_out = len(reply.headers) - len(attempt.answer_headers)
        retry_after = dict(reply.headers).get("retry-after")
        self._changed(delivery.charge)
        self.reached.append(("receiver", str(status or error)))
        attempts = sum(one.error != "lost" for one in delivery.attempts[delivery.replayed_from or 0 :])
        if error == "blocked":
            self._end(delivery, "blocked")
        elif status is not None and 200 <= status <= 299:
            self._end(delivery, "delivered")
        elif status == 410:
            self._end(delivery, "stopped")
            self._close(delivery)
        elif attempts >= len(self.backoff_ms):
            self._end(delivery, "exhausted")
        elif self._is_closed(delivery):
            self._end(delivery, "stopped")
        else:
            delay_ms = self.backoff_ms[attempts]
            low, high = round(delay_ms * (1 - JITTER)), round(delay_ms * (1 + JITTER))
            after_ms = retry_after_ms(retry_after, now) if retry_after is not None and status in {429, 503} else None
            if after_ms is not None:
                self.reached.append(("receiver", f"retry-after {'longer' if after_ms > delay_ms else 'shorter'}"))
                after_ms = min(after_ms, RETRY_AFTER_FACTOR * delay_ms)
                low, high = max(low, after_ms), max(high, after_ms)
            delivery.due_at = self._observe_due_time(delivery, len(delivery.attempts) + 1, now + low, now + high)
            self._schedule(delivery)
        self._send_waiting()
        self._release(self.faults.still_held(attempt.overtaken))

    def _end(self, delivery: Delivery, status: str) -> None:
        delivery.status, delivery.due_at = status, None
        self.reached.append(("delivery", delivery.event, status))
        self._changed(delivery.charge)

    def _is_closed(self, delivery: Delivery) -> bool:
        return (delivery.endpoint, delivery.url) in self._closed and delivery.replayed_from is None

    def _close(self, delivery: Delivery) -> None:
        """After 410 this URL gets no more callbacks about this resource: the Charge, or the Static Charge of it."""
        self._closed.add((delivery.endpoint, delivery.url))
        for other in self.deliveries:
            if other.status == "pending" and not other.is_in_flight and self._is_closed(other):
                self._end(other, "stopped")


def host_of(url: str) -> str:
    """The name of the receiver of a callback URL: its host without `.localhost`."""
    return (urlsplit(url).hostname or "").rstrip(".").removesuffix(".localhost")


def retry_after_ms(text: str, now_ms: int) -> int | None:
    """The delay of a Retry-After in seconds or as a date (RFC 9110, 10.2.3); None if it is neither."""
    if text.isascii() and text.isdigit():
        return 1_000 * int(text)
    try:
        until_s = round(parsedate_to_datetime(text).timestamp())
    except ValueError:
        return None
    return 1_000 * max(0, until_s - now_ms // 1_000)


def interpret_reply(reply: Any) -> tuple[Reply, bool]:
    """A scripted reply as the sender sees it, and whether the receiver gets the request."""
    latency_ms, body = 0, ""
    headers: tuple[tuple[str, str], ...] = ()
    if isinstance(reply, Mapping):
        latency_ms = round(1_000 * reply.get("delay", 0))
        headers = tuple((name.lower(), value) for name, value in reply.get("headers", {}).items())
        body, reply = reply.get("body", ""), reply.get("status", 200)
    result: Any
    result, is_received = FAILURE_REPLIES[reply] if isinstance(reply, str) else (reply, True)
    status, error = (result, None) if isinstance(result, int) else (None, result)
    if reply == "huge":
        body = "x" * KEPT_BYTES  # and more, which nobody sees
    if error == "timeout" or latency_ms >= ATTEMPT_TIMEOUT_MS:
        return Reply(None, "timeout", ATTEMPT_TIMEOUT_MS), is_received
    return Reply(status, error, latency_ms, headers, body), is_received


def kept_headers(headers: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers of a reply that an attempt shows: those before the first one that exceeds the limit."""
    room, kept = KEPT_HEADER_BYTES, []
    for name, value in headers:
        room -= len(name.encode()) + len(value.encode())
        if room < 0:
            break
        kept.append((name, value))
    return tuple(kept)
