"""Which rows of a lifecycle can apply, by what the node and the clock report: an invoice is paid once, until its expiry
and not after it was cancelled, and an expiry is reached once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from leyden.server.contract.lifecycle_rows import (
    CANCEL_INVOICE,
    CANCEL_OUTSTANDING,
    CREATED,
    CREATION,
    EXPIRY_REACHED,
    INVOICE_FAILED,
    INVOICE_REQUESTED,
    ISSUE_INVOICE,
    PAYMENT_SETTLED,
    SLOTS_FILLED,
)
from leyden.server.contract.types import Contract, LifecycleTable

# An instant compared with the expiry, and at which of them each guard of a Charge holds
_BEFORE, _AT, _AFTER = range(3)
_HOLDS = {"before_expiry": {_BEFORE}, "at_or_before_expiry": {_BEFORE, _AT}}
# What is known of each guard of a Static Charge when a trigger is applied
_SLOTS = {(SLOTS_FILLED, "slot_free"): False, (SLOTS_FILLED, "slot_unreserved"): False,
          ("slots_reopened", "slot_free"): True}  # fmt: skip
# Why a row of a trigger can never apply
_WHY = {
    PAYMENT_SETTLED: "in this state each invoice is paid, cancelled or expired",
    INVOICE_FAILED: "in this state the invoice is paid or cancelled",
    EXPIRY_REACHED: "the expiry, which is reached once, leads to this state",
    INVOICE_REQUESTED: "the expiry leads to this state, and no invoice is issued after it",
}


class _Situation(NamedTuple):
    """A resource in a state: whether an invoice of it may be paid, and whether its expiry was reached."""

    state: str
    is_payable: bool = False
    is_expired: bool = False


def never_applied(contract: Contract) -> list[str]:
    """A text about each transition of `Charge` and `StaticCharge` that cannot apply."""
    texts = []
    for name, find in (("Charge", charge_rows), ("StaticCharge", static_charge_rows)):
        table = contract.lifecycles.get(name)
        if table is None or not table.states:
            continue
        applied = find(table)
        reached = {CREATION, *(table.rows[index].to for index in applied)}
        for index, row in enumerate(table.rows):
            if row.to is None or index in applied:
                continue
            why = _WHY.get(row.trigger, "a row before it applies")
            if row.source not in reached:
                why = f"nothing leads to {row.source}"
            texts.append(f"{table.location}/{index} can never apply: {why}")
    return texts


def charge_rows(table: LifecycleTable) -> frozenset[int]:
    """The indexes of the rows of `Charge` that can apply; some of them may not. Refusals are among them."""
    # The node accepts a payment at the instant of the expiry where the initial state does.
    at_expiry = _deciding(table, table.initial, PAYMENT_SETTLED, _holding(_AT))
    accepts_late = any(table.rows[index].to is not None for index in at_expiry)

    def step(now: _Situation, trigger: str) -> Iterator[tuple[int, _Situation]]:
        instants = {_AT, _AFTER} if now.is_expired or trigger == EXPIRY_REACHED else {_BEFORE, _AT}
        if trigger == PAYMENT_SETTLED:
            instants = (set() if now.is_expired else {_BEFORE}) | ({_AT} if accepts_late else set())
        if trigger == EXPIRY_REACHED and now.is_expired:
            return
        if trigger in {PAYMENT_SETTLED, INVOICE_FAILED} and not now.is_payable:
            return
        for index in {one for instant in instants for one in _deciding(table, now.state, trigger, _holding(instant))}:
            row = table.rows[index]
            is_closed = trigger in {PAYMENT_SETTLED, INVOICE_FAILED} or CANCEL_INVOICE in row.effects
            is_payable = trigger == CREATED or (now.is_payable and not is_closed)
            yield index, _Situation(row.to or now.state, is_payable, now.is_expired or trigger == EXPIRY_REACHED)

    return _reached(table, step)


def static_charge_rows(table: LifecycleTable) -> frozenset[int]:
    """The indexes of the rows of `StaticCharge` that can apply, as `charge_rows`."""

    def step(now: _Situation, trigger: str) -> Iterator[tuple[int, _Situation]]:
        # No invoice is issued after the expiry, and none can be paid longer than its Static Charge.
        if now.is_expired and trigger in {INVOICE_REQUESTED, PAYMENT_SETTLED, EXPIRY_REACHED}:
            return
        if trigger == PAYMENT_SETTLED and not now.is_payable:
            return
        for index in _deciding_for_slots(table, now.state, trigger):
            row = table.rows[index]
            is_payable = (now.is_payable and CANCEL_OUTSTANDING not in row.effects) or ISSUE_INVOICE in row.effects
            yield index, _Situation(row.to or now.state, is_payable, now.is_expired or trigger == EXPIRY_REACHED)

    return _reached(table, step)


def _holding(instant: int) -> Callable[[str], bool]:
    return lambda guard: instant in _HOLDS.get(guard, {instant})


def _deciding_for_slots(table: LifecycleTable, state: str, trigger: str) -> set[int]:
    def holding(value: bool) -> Callable[[str], bool]:
        return lambda guard: _SLOTS.get((trigger, guard), value)

    return {index for value in (True, False) for index in _deciding(table, state, trigger, holding(value))}


def _deciding(table: LifecycleTable, state: str, trigger: str, holds: Callable[[str], bool]) -> Iterator[int]:
    """The index of the row that decides when the guards hold as `holds` says."""
    for index, row in enumerate(table.rows):
        if (row.source, row.trigger) == (state, trigger) and (row.when is None or holds(row.when)):
            yield index
            return


def _reached(
    table: LifecycleTable, step: Callable[[_Situation, str], Iterator[tuple[int, _Situation]]]
) -> frozenset[int]:
    """The indexes of the rows that apply in the situations that follow from each other, from the creation on."""
    applied: set[int] = set()
    known: set[_Situation] = set()
    rest = [_Situation(CREATION)]
    while rest:
        now = rest.pop()
        if now in known:
            continue
        known.add(now)
        for trigger in table.triggers:
            for index, then in step(now, trigger):
                applied.add(index)
                rest.append(then)
    return frozenset(applied)
