"""Bent ports: clocks that ring at the wrong time, nodes that issue or report wrongly."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from leyden.server.charges.charges import TIMER
from tests.seeded_defects.defect import Plant
from tests.seeded_defects.seams import Through, attribute, changed, port


def timer_moved(by_ms: int) -> Plant:
    """Let the alarm that ends a Charge ring so much later than it was asked to, or earlier."""

    class Moved(Through):
        def call_at(self, when_ms: int, priority: int, timer: str, key: str) -> None:
            self.inner.call_at(when_ms + (by_ms if timer == TIMER else 0), priority, timer, key)

    return port("clock", Moved)


def timer_lost(kind: str) -> Plant:
    """Forget the alarms of this kind."""

    class Lost(Through):
        def call_at(self, when_ms: int, priority: int, timer: str, key: str) -> None:
            if timer != kind:
                self.inner.call_at(when_ms, priority, timer, key)

    return port("clock", Lost)


def deaf(owner: type, name: str) -> Plant:
    """Let something that is reported to the service go unheard."""
    return attribute(owner, name, lambda original: lambda self, *told: None)


class Patient(Through):
    """A node whose invoices can be paid for an hour more, and are never cancelled."""

    def issue(self, order: Any) -> Any:
        return self.inner.issue(changed(order, payable_until_ms=order.payable_until_ms + 3_600_000))

    def cancel(self, payment_hash: str) -> None:
        """Nothing."""


class Hasty(Through):
    """A node whose invoices can no longer be paid in their last second."""

    def issue(self, order: Any) -> Any:
        return self.inner.issue(changed(order, payable_until_ms=order.payable_until_ms - 1_000))


class Repeating(Through):
    """A node that tells of every settlement twice."""

    def on_settled(self, listener: Callable[[Any], None]) -> None:
        self.inner.on_settled(listener)
        self.inner.on_settled(listener)


class Rounding(Through):
    """A node that tells the second of a settlement only."""

    def on_settled(self, listener: Callable[[Any], None]) -> None:
        self.inner.on_settled(lambda told: listener(changed(told, settled_at=told.settled_at // 1_000 * 1_000)))


class Crediting(Through):
    """A node that reports the amount that was asked for, whatever came."""

    def __init__(self, inner: Any, late: SimpleNamespace) -> None:
        super().__init__(inner, late)
        self._asked: dict[str, int] = {}

    def issue(self, order: Any) -> Any:
        invoice = self.inner.issue(order)
        self._asked[invoice.payment_hash] = order.amount_msat
        return invoice

    def on_settled(self, listener: Callable[[Any], None]) -> None:
        self.inner.on_settled(lambda told: listener(changed(told, amount_msat=self._asked[told.payment_hash])))


class Backwards:
    """A clock that goes back half a minute whenever an odd minute begins."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def now(self) -> int:
        """The instant, as this clock has it."""
        now: int = self._inner.now()
        return now - 30_000 if now // 60_000 % 2 else now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def every_id_twice(new_id: Callable[[], str]) -> Callable[[], str]:
    """Ids of which each is given out two times."""
    last: list[str] = []

    def repeated() -> str:
        if last:
            return last.pop()
        last.append(new_id())
        return last[0]

    return repeated
