"""Injected faults [faults]: which attempt each applies to, and how long it holds a delivery."""

from __future__ import annotations

from collections.abc import Callable

from leyden.harness.model.records import Charge, Delivery, Fault, StaticCharge

DEFAULT_WAIT_S = 30  # in the Retry-After of a `rate_limit` without a delay
HOLDING = ("delay", "reorder", "burst")  # the delivery is held before it is sent
HOLDING_TOGETHER = ("reorder", "burst")  # each of these kinds holds at most MOST_HELD deliveries at a time
MOST_HELD = 200
FEWEST = {"burst": 2}  # the smallest count of the kinds that need more than one message
COPYING = ("duplicate", "duplicate_new_id", "simultaneous", "redeliver")
CONTENT_FAULTS = (
    "truncated_body",
    "wrong_content_type",
    "unknown_field",
    "unknown_status",
    "bad_signature",
    "changed_body",
    "missing_headers",
    "stale_timestamp",
    "future_timestamp",
    "old_secret",
    "two_signatures",
    "unknown_version",
)
SENDING = ("drop", *COPYING, *CONTENT_FAULTS)
EVENTS = ("charge.completed", "charge.expired", "charge.error")  # that a Charge of createCharge sends
EVENTS_OF_PAYMENT = ("charge.completed",)  # that a payment of a Static Charge sends
FAULTS = (*HOLDING, *SENDING)


def is_possible(target: Charge | StaticCharge, event: str | None, attempt: int | None = None) -> bool:
    """Whether a fault for this resource, event and attempt can apply: a fault that never could is refused [faults]."""
    if isinstance(target, Charge) and not target.callback_url:
        return False
    is_plain = isinstance(target, Charge) and target.parent is None
    if event is not None and event not in (EVENTS if is_plain else EVENTS_OF_PAYMENT):
        return False
    charges = [target] if isinstance(target, Charge) else target.children
    if any(one.status == "pending" for one in charges) or target.status in ("active", "disabled"):
        return True
    # Nothing new is sent about it: only further attempts of what was sent, replays included.
    sent = [one.delivery for one in charges if one.delivery is not None and event in (None, one.delivery.event)]
    return any(attempt is None or attempt > len(one.attempts) for one in sent)


class Faults:
    """The injected faults, oldest first, and the deliveries that they hold, and those of them that are `released`.

    `earlier_secret` is the webhook secret of a project before its last rotation, with which `old_secret` signs; None
    before the first one.
    """

    def __init__(self, earlier_secret: Callable[[str], str | None]) -> None:
        self.earlier_secret = earlier_secret
        self.injected: list[Fault] = []
        self.held: dict[Delivery, Fault] = {}
        self.released: set[Delivery] = set()

    def next_match(self, kinds: tuple[str, ...], delivery: Delivery, number: int, now_ms: int) -> Fault | None:
        """The oldest fault of these kinds that applies to the attempt now; it is counted as applied."""
        for fault in self.injected:
            if fault.kind == "old_secret" and self.earlier_secret(delivery.charge.project) is None:
                continue
            if fault.kind in HOLDING_TOGETHER and self._held_by(fault.kind) >= MOST_HELD:
                continue
            if fault.kind == "burst" and fault.left == 1 and not self._gathered(fault, now_ms):
                continue  # it would hold this one alone
            if fault.kind in kinds and fault.matches(delivery, number):
                fault.left -= 1
                return fault
        return None

    def _held_by(self, kind: str) -> int:
        return sum(by.kind == kind and one.status == "pending" for one, by in self.held.items())

    def hold(self, delivery: Delivery, fault: Fault, now_ms: int) -> tuple[int, list[Delivery]]:
        """Hold a delivery. Returns the time until which it is held, and the other deliveries that are released: a burst
        sends what it gathers at one time, `delay` after the first, and now if its count is used up."""
        until, released = now_ms + fault.delay_ms, []
        if fault.kind == "burst":
            gathered = self._gathered(fault, now_ms)
            if gathered:
                assert fault.until is not None
                until = fault.until
            fault.until = until
            if not fault.left:
                until, released = now_ms, gathered
        self.held[delivery] = fault
        return until, released

    def _gathered(self, fault: Fault, now_ms: int) -> list[Delivery]:
        """What a burst holds and has not released yet. A delivery that is due later was replayed at another time."""
        if fault.until is None or fault.until < now_ms:
            return []
        return [one for one, by in self.held.items() if by is fault and one.due_at == fault.until]

    def overtaken(self) -> list[tuple[Delivery, int]]:
        """The deliveries held by `reorder`, each with the number of its attempts. They are released at the end of the
        attempt at another delivery that starts now, unless they are before."""
        held = (one for one, by in self.held.items() if by.kind == "reorder" and one not in self.released)
        return [(one, len(one.attempts)) for one in held]

    def still_held(self, overtaken: list[tuple[Delivery, int]]) -> list[Delivery]:
        """Those of these deliveries that have had no attempt since then: they are released now."""
        held = [one for one, number in overtaken if one in self.held and len(one.attempts) == number]
        held = [one for one in held if one not in self.released]
        self.released.update(held)
        return held
