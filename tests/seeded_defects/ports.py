"""Defective ports: clocks with wrong timers, nodes with wrong invoices or settlements."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from leyden.server.charges.charges import TIMER
from tests.seeded_defects.defect import Plant
from tests.seeded_defects.patches import Wrapper, attribute, changed, port


def timer_moved(by_ms: int) -> Plant:
    """Move the expiry timers of Charges by a number of ms."""

    class Moved(Wrapper):
        def call_at(self, when_ms: int, priority: int, timer: str, key: str) -> None:
            self.inner.call_at(when_ms + (by_ms if timer == TIMER else 0), priority, timer, key)

    return port("clock", Moved)


def timer_lost(kind: str) -> Plant:
    """Ignore the timers of this kind."""

    class Lost(Wrapper):
        def call_at(self, when_ms: int, priority: int, timer: str, key: str) -> None:
            if timer != kind:
                self.inner.call_at(when_ms, priority, timer, key)

    return port("clock", Lost)


def without_effect(owner: type, name: str) -> Plant:
    """Replace a method by one without an effect."""
    return attribute(owner, name, lambda original: lambda self, *arguments: None)


class LongPayableNode(Wrapper):
    """A node whose invoices can be paid for another hour and are never cancelled."""

    def issue(self, order: Any) -> Any:
        return self.inner.issue(changed(order, payable_until_ms=order.payable_until_ms + 3_600_000))

    def cancel(self, payment_hash: str, because: str = "") -> None:
        """No effect."""


class ShortPayableNode(Wrapper):
    """A node whose invoices can be paid until one second before their expiry."""

    def issue(self, order: Any) -> Any:
        return self.inner.issue(changed(order, payable_until_ms=order.payable_until_ms - 1_000))


class RepeatingNode(Wrapper):
    """A node that reports each settlement twice."""

    def on_settled(self, listener: Callable[[Any], None]) -> None:
        self.inner.on_settled(listener)
        self.inner.on_settled(listener)


class RoundingNode(Wrapper):
    """A node that rounds the time of a settlement down to the second."""

    def on_settled(self, listener: Callable[[Any], None]) -> None:
        self.inner.on_settled(
            lambda settlement: listener(changed(settlement, settled_at=settlement.settled_at // 1_000 * 1_000))
        )


class InvoicedAmountNode(Wrapper):
    """A node that reports the amount of the invoice instead of the amount paid."""

    def __init__(self, inner: Any, late: SimpleNamespace) -> None:
        super().__init__(inner, late)
        self._invoiced: dict[str, int] = {}

    def issue(self, order: Any) -> Any:
        invoice = self.inner.issue(order)
        self._invoiced[invoice.payment_hash] = order.amount_msat
        return invoice

    def on_settled(self, listener: Callable[[Any], None]) -> None:
        self.inner.on_settled(
            lambda settlement: listener(changed(settlement, amount_msat=self._invoiced[settlement.payment_hash]))
        )


class BackwardsClock:
    """A clock that is 30 s slow in every odd minute, so it goes back."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def now(self) -> int:
        """The time of this clock."""
        now: int = self._inner.now()
        return now - 30_000 if now // 60_000 % 2 else now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def every_id_twice(new_id: Callable[[], str]) -> Callable[[], str]:
    """A source that issues each id twice."""
    last: list[str] = []

    def repeated() -> str:
        if last:
            return last.pop()
        last.append(new_id())
        return last[0]

    return repeated
