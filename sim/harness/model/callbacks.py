"""Callbacks as promised: one message for each thing told, tried on schedule until the receiver has heard it.

The pauses are drawn by the service within bounds [callback-delivery]; what it drew is asked of `luck` and must lie
within them. Everything else is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from leyden.harness.model.faults import COPYING, HOLDING, SENDING, Fault, Faults
from leyden.harness.model.records import Attempt, Charge, Delivery, Received
from leyden.harness.model.rules import ATTEMPT_MS, IN_FLIGHT, JITTER, PAUSES_MS, RETRY_AFTER_TIMES, Reading, iso
from leyden.harness.model.time import CALLBACK, Timeline

# What a word from a receiver means: the error that the sender sees, and whether the receiver saw the post.
WORDS = {
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

Luck = Callable[[Delivery, int, int, int], int]


@dataclass(slots=True)
class Receiver:
    """How a receiver was told to answer: the next posts so, and then always so."""

    answers: list[Any] = field(default_factory=list)
    always: Any = 200
    received: list[Received] = field(default_factory=list)


class Outbox:
    """Every message, and what each receiver must have got."""

    def __init__(
        self,
        time: Timeline,
        reading: Reading,
        luck: Luck,
        changed: Callable[[Charge], None],
        signing: Callable[[str], list[str]],
    ) -> None:
        self._time = time
        self._reading = reading
        self._luck = luck
        self._changed = changed
        self._signing = signing
        self.pauses_ms = PAUSES_MS[:1] if reading.no_retries else PAUSES_MS
        self.deliveries: list[Delivery] = []
        self.receivers: dict[str, Receiver] = {}
        self.faults = Faults()
        self.heard_at: dict[str, None] = {}
        self.reached: list[tuple[str, ...]] = []
        self.blocked: Callable[[str], bool] = lambda url: False
        self._flying = 0
        self._sending = False
        self._waiting: deque[tuple[Delivery, int]] = deque()
        self._closed: set[tuple[object, str]] = set()

    def tell(self, charge: Charge, event: str) -> None:
        """Something became of the Charge: one message, due at once, unless its endpoint said 410 before."""
        now = self._time.now
        url = charge.callback_url
        if not url:
            return
        body = charge.update()
        if self._reading.callback_envelope:
            body = {"type": event, "timestamp": iso(now), "sequence": 1, "data": body}
        endpoint: object = charge.parent or charge
        delivery = charge.delivery = Delivery(charge, endpoint, url, event, body, now, now)
        self.deliveries.append(delivery)
        if (endpoint, url) in self._closed:
            self._end(delivery, "stopped")
        else:
            self._arm(delivery)

    def replay(self, delivery: Delivery) -> bool:
        """Send it once more, now; False while an attempt is under way [replay]."""
        if delivery.awaited:
            return False
        delivery.status, delivery.due_at = "pending", self._time.now
        delivery.replayed_from = len(delivery.attempts)
        self._changed(delivery.charge)
        self._arm(delivery)
        return True

    def restart(self) -> None:
        """The service stops and starts: an attempt whose answer nobody heard is lost, and due again at once."""
        now = self._time.now
        self._flying = 0
        self._waiting.clear()
        for delivery in self.deliveries:
            if delivery.status != "pending":
                continue
            if delivery.awaited:
                lost = delivery.attempts[-1]
                lost.ended_at, lost.error, delivery.due_at = now, "lost", now
                self.reached.append(("delivery", delivery.event, "lost"))
                if self._shut(delivery):
                    self._end(delivery, "stopped")
                    continue
            self._changed(delivery.charge)
            self._arm(delivery)

    # One attempt

    def _arm(self, delivery: Delivery) -> None:
        if (delivery, delivery.round) in self._waiting:
            return  # it is due already, and keeps its place among those that wait for others to be answered
        delivery.round += 1
        round_ = delivery.round
        assert delivery.due_at is not None
        self._time.at(delivery.due_at, CALLBACK, lambda: self._due(delivery, round_))

    def _due(self, delivery: Delivery, round_: int) -> None:
        if delivery.round == round_ and delivery.status == "pending" and not delivery.awaited:
            self._waiting.append((delivery, round_))
            self._send_waiting()

    def _send_waiting(self) -> None:
        if self._sending:
            return  # an answer came at once: whoever is sending goes on with the next
        self._sending = True
        while self._waiting and self._flying < IN_FLIGHT:
            delivery, round_ = self._waiting.popleft()
            if delivery.round == round_ and delivery.status == "pending" and not delivery.awaited:
                self._begin(delivery)
        self._sending = False

    def _begin(self, delivery: Delivery) -> None:
        now, number = self._time.now, len(delivery.attempts) + 1
        self._changed(delivery.charge)
        held = self.faults.held.pop(delivery, None)
        if held is None and (holding := self.faults.strike(HOLDING, delivery, number)) is not None:
            self.reached.append(("fault", holding.kind))
            until, freed = self.faults.hold(delivery, holding, now)
            self._free(freed)
            delivery.due_at = until
            self._arm(delivery)
            return
        assert delivery.due_at is not None
        attempt = Attempt(number, delivery.due_at, now, self._signing(delivery.charge.project))
        delivery.due_at = None
        delivery.attempts.append(attempt)
        self._flying += 1
        fault = self.faults.strike(SENDING, delivery, number)
        if fault is not None:
            self.reached.append(("fault", fault.kind))
        struck = fault or held
        attempt.fault = None if struck is None else struck.kind
        if fault is not None and fault.kind == "drop":
            self._later(delivery, attempt, ATTEMPT_MS, None, "timeout", None)
        elif self.blocked(delivery.url):
            self._answered(delivery, attempt, None, "blocked", None)
        else:
            self._post(delivery, attempt, fault)

    def _post(self, delivery: Delivery, attempt: Attempt, fault: Fault | None) -> None:
        kind = None if fault is None else fault.kind
        status, error, latency_ms, wait = self._reply(delivery, attempt.number, kind)
        if latency_ms:
            self._later(delivery, attempt, latency_ms, status, error, wait)
        else:
            self._answered(delivery, attempt, status, error, wait)
        if fault is not None and fault.kind in COPYING:
            number, renamed = attempt.number, fault.kind == "duplicate_new_id"

            def again() -> None:
                self._changed(delivery.charge)
                self._reply(delivery, number, None, renamed=renamed, copy=True)

            if fault.kind == "simultaneous":
                again()
            else:
                self._time.at(self._time.now + fault.delay_ms, CALLBACK, again)
        self._free(self.faults.overtaken())

    def _free(self, held: list[Delivery]) -> None:
        for delivery in held:
            if delivery.status == "pending":
                delivery.due_at = self._time.now
                self._changed(delivery.charge)
                self._arm(delivery)

    def _reply(
        self, delivery: Delivery, number: int, fault: str | None, *, renamed: bool = False, copy: bool = False
    ) -> tuple[int | None, str | None, int, str | None]:
        """What the receiver answers to a post: status or error, after how long, with which Retry-After."""
        host = host_of(delivery.url)
        receiver = self.receivers.setdefault(host, Receiver())
        said = receiver.answers.pop(0) if receiver.answers else receiver.always
        status, error, latency_ms, wait, heard = understood(said)
        if heard:
            receiver.received.append(Received(self._time.now, delivery, number, fault, renamed, copy))
            self.heard_at[host] = None
        return status, error, latency_ms, wait

    def _later(
        self,
        delivery: Delivery,
        attempt: Attempt,
        latency_ms: int,
        status: int | None,
        error: str | None,
        wait: str | None,
    ) -> None:
        attempt.latency_ms = latency_ms

        def answer() -> None:
            if attempt.ended_at is None:
                self._answered(delivery, attempt, status, error, wait)

        self._time.at(self._time.now + latency_ms, CALLBACK, answer)

    def _answered(
        self, delivery: Delivery, attempt: Attempt, status: int | None, error: str | None, wait: str | None
    ) -> None:
        self._flying -= 1
        now = self._time.now
        attempt.ended_at, attempt.status, attempt.error = now, status, error
        self._changed(delivery.charge)
        self.reached.append(("receiver", str(status or error)))
        made = sum(one.error != "lost" for one in delivery.attempts[delivery.replayed_from or 0 :])
        if error == "blocked":
            self._end(delivery, "blocked")
        elif status is not None and 200 <= status <= 299:
            self._end(delivery, "delivered")
        elif status == 410:
            self._end(delivery, "stopped")
            self._close(delivery)
        elif made >= len(self.pauses_ms):
            self._end(delivery, "exhausted")
        elif self._shut(delivery):
            self._end(delivery, "stopped")
        else:
            pause = self.pauses_ms[made]
            low, high = round(pause * (1 - JITTER)), round(pause * (1 + JITTER))
            asked_ms = waited_ms(wait, now) if wait is not None and status in {429, 503} else None
            if asked_ms is not None:
                self.reached.append(("receiver", f"retry-after {'honoured' if asked_ms > pause else 'kept'}"))
                low = high = min(max(asked_ms, pause), RETRY_AFTER_TIMES * pause)
            delivery.due_at = self._luck(delivery, len(delivery.attempts) + 1, now + low, now + high)
            self._arm(delivery)
        self._send_waiting()

    def _end(self, delivery: Delivery, status: str) -> None:
        delivery.status, delivery.due_at = status, None
        self.reached.append(("delivery", delivery.event, status))
        self._changed(delivery.charge)

    def _shut(self, delivery: Delivery) -> bool:
        return (delivery.endpoint, delivery.url) in self._closed and delivery.replayed_from is None

    def _close(self, delivery: Delivery) -> None:
        """410: nothing more to this URL for this resource, which is the Static Charge for its payments."""
        self._closed.add((delivery.endpoint, delivery.url))
        for other in self.deliveries:
            if other.status == "pending" and not other.awaited and self._shut(other):
                self._end(other, "stopped")


def host_of(url: str) -> str:
    """The receiver that a callback URL belongs to: its host, without `.localhost`."""
    return (urlsplit(url).hostname or "").rstrip(".").removesuffix(".localhost")


def waited_ms(text: str, now_ms: int) -> int | None:
    """How long a Retry-After asks to be left alone: seconds or a date (RFC 9110, 10.2.3). None when it says nothing."""
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return 1_000 * int(text)
    try:
        until_s = round(parsedate_to_datetime(text).timestamp())
    except ValueError:
        return None
    return 1_000 * max(0, until_s - now_ms // 1_000)


def understood(said: Any) -> tuple[int | None, str | None, int, str | None, bool]:
    """What a receiver's saying means for the sender: status, error, latency in ms, Retry-After as sent, heard."""
    wait = None
    latency_ms = 0
    if isinstance(said, Mapping):
        latency_ms = round(1_000 * said.get("delay", 0))
        text = said.get("headers", {}).get("Retry-After")
        wait = text if text is not None and waited_ms(text, 0) is not None else None
        said = said.get("status", 200)
    meaning, heard = WORDS.get(said, (said, True))
    status, error = (meaning, None) if isinstance(meaning, int) else (None, meaning)
    if error == "timeout" or latency_ms >= ATTEMPT_MS:
        return None, "timeout", ATTEMPT_MS, None, heard
    return status, error, latency_ms, wait, heard
