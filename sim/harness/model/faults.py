"""Faults as they are asked for [faults]: which attempt each strikes, and how long a message waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from leyden.harness.model.records import Delivery

# How long a fault waits if it is not told.
FAULT_DELAYS_MS = {
    "delay": 3_600_000,
    "reorder": 3_600_000,
    "burst": 60_000,
    "duplicate": 1_000,
    "duplicate_new_id": 1_000,
    "redeliver": 86_400_000,
}
HOLDING = ("delay", "reorder", "burst")  # the message waits before it is sent
COPYING = ("duplicate", "duplicate_new_id", "simultaneous", "redeliver")
TAMPERING = (
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
SENDING = ("drop", *COPYING, *TAMPERING)
FAULTS = (*HOLDING, *SENDING)


@dataclass(slots=True, eq=False)
class Fault:
    """Something that is to go wrong, `left` times. `until` is the instant at which a burst goes, once it has begun."""

    kind: str
    left: int
    event: str | None = None
    charge: str | None = None
    attempt: int | None = None
    until: int | None = None

    @property
    def delay_ms(self) -> int:
        """How long it waits, where time plays a part in it."""
        return FAULT_DELAYS_MS.get(self.kind, 0)

    def fits(self, delivery: Delivery, number: int) -> bool:
        """Whether it is meant for this attempt, and has not yet struck as often as it was to."""
        return (
            self.left > 0
            and self.event in (None, delivery.event)
            and self.attempt in (None, number)
            and self.charge in (None, delivery.charge.label, getattr(delivery.endpoint, "label", None))
        )


class Faults:
    """What was asked for, the oldest first, and the messages that wait because of it."""

    def __init__(self) -> None:
        self.asked: list[Fault] = []
        self.held: dict[Delivery, Fault] = {}

    def strike(self, kinds: tuple[str, ...], delivery: Delivery, number: int) -> Fault | None:
        """The oldest of these kinds that fits the attempt: it strikes."""
        for fault in self.asked:
            if fault.kind in kinds and fault.fits(delivery, number):
                fault.left -= 1
                return fault
        return None

    def hold(self, delivery: Delivery, fault: Fault, now_ms: int) -> tuple[int, list[Delivery]]:
        """A message waits: until when, and who else need wait no longer. A burst goes at one instant, and at once when
        it is as large as it was to be."""
        until, freed = now_ms + fault.delay_ms, []
        if fault.kind == "burst":
            until = fault.until = max(now_ms, until if fault.until is None else fault.until)
            if not fault.left:
                until, freed = now_ms, [one for one, by in self.held.items() if by is fault]
        self.held[delivery] = fault
        return until, freed

    def overtaken(self) -> list[Delivery]:
        """Another message was sent: who was only held back for that."""
        return [one for one, by in self.held.items() if by.kind == "reorder"]
