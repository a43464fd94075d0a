"""Checks that code follows the rows of an edited document's lifecycles."""

from __future__ import annotations

from collections.abc import Iterator

from leyden.server.contract.json_pointer import contract_error
from leyden.server.contract.lifecycle_rows import (
    CANCEL_INVOICE,
    CANCEL_OUTSTANDING,
    CREATION,
    EXPIRY_REACHED,
    INVOICE_REQUESTED,
    ISSUE_INVOICE,
    PAYMENT_SETTLED,
    SLOTS_FILLED,
)
from leyden.server.contract.types import Contract, LifecycleRow, LifecycleTable
from leyden.server.errors import ContractError


def check_lifecycles(contract: Contract) -> None:
    """Raise `ContractError` for a row of `Charge` or `StaticCharge` that code does not follow."""
    for problem in _charge_problems(contract.lifecycles.get("Charge")):
        raise problem
    for problem in _static_charge_problems(contract.lifecycles.get("StaticCharge")):
        raise problem


def _charge_problems(table: LifecycleTable | None) -> Iterator[ContractError]:
    for index, row in _transitions(table):
        at = f"{table.location if table else ''}/{index}"
        if row.source == CREATION and row.effects.count(ISSUE_INVOICE) != 1:
            yield contract_error(at, f"each Charge has one invoice; write {ISSUE_INVOICE} once among the effects")
        if row.source != CREATION and ISSUE_INVOICE in row.effects:
            yield contract_error(
                f"{at}/effects", f"a Charge has the invoice of its creation; leave {ISSUE_INVOICE} out"
            )
        if row.source == CREATION and CANCEL_INVOICE in row.effects:
            yield contract_error(f"{at}/effects", f"a new Charge can be paid; leave {CANCEL_INVOICE} out")


def _static_charge_problems(table: LifecycleTable | None) -> Iterator[ContractError]:
    if table is None:
        return
    refusing = {state for state in table.states if _first(table, state, PAYMENT_SETTLED).to is None}
    for index, row in _transitions(table):
        at = f"{table.location}/{index}"
        if row.trigger == INVOICE_REQUESTED and row.effects.count(ISSUE_INVOICE) != 1:
            yield contract_error(
                at, f"the request that is not refused gets an invoice; write effects: [{ISSUE_INVOICE}]"
            )
        if row.trigger != INVOICE_REQUESTED and ISSUE_INVOICE in row.effects:
            yield contract_error(
                f"{at}/effects", f"an invoice is issued on {INVOICE_REQUESTED} alone; leave {ISSUE_INVOICE} out"
            )
        if row.trigger == INVOICE_REQUESTED and row.to in refusing:
            yield contract_error(at, f"{row.to} refuses the payment of this invoice; refuse {INVOICE_REQUESTED} here")
        # No invoice can be paid longer than its Static Charge.
        is_open = row.source not in {CREATION, *refusing} and row.trigger != EXPIRY_REACHED
        if is_open and row.to in refusing and CANCEL_OUTSTANDING not in row.effects:
            yield contract_error(
                at,
                f"{row.to} refuses payments, and invoices that are issued can be paid; write {CANCEL_OUTSTANDING} among"
                f" the effects, or accept {PAYMENT_SETTLED} in {row.to}",
            )
    for state in table.states:
        last, filled = _rows(table, state, PAYMENT_SETTLED)[-1], _first(table, state, SLOTS_FILLED)
        if state in refusing or last[1].to is not None:
            continue
        is_closed = filled.to is not None and (CANCEL_OUTSTANDING in filled.effects or filled.to != state)
        if filled.when is not None or not is_closed:
            yield contract_error(
                f"{table.location}/{last[0]}",
                f"the node accepts a payment that {state} refuses, unless {SLOTS_FILLED} cancels the invoices; write"
                f" {CANCEL_OUTSTANDING} among the effects of {SLOTS_FILLED} in {state}",
            )


def _transitions(table: LifecycleTable | None) -> Iterator[tuple[int, LifecycleRow]]:
    return ((index, row) for index, row in enumerate(table.rows if table else ()) if row.to is not None)


def _rows(table: LifecycleTable, state: str, trigger: str) -> list[tuple[int, LifecycleRow]]:
    return [(index, row) for index, row in enumerate(table.rows) if (row.source, row.trigger) == (state, trigger)]


def _first(table: LifecycleTable, state: str, trigger: str) -> LifecycleRow:
    return _rows(table, state, trigger)[0][1]
