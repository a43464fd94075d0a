"""Compiles lifecycle tables: one or more rows for every pair of state and trigger.

A table is accepted only if it is total and every row can apply. So the state machine needs no default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leyden.server.contract.json_pointer import contract_error, quoted, suggestion
from leyden.server.contract.types import LifecycleRow, LifecycleTable

CREATION = "(creation)"
# The triggers and the effects that code names
CREATED, PAYMENT_SETTLED, EXPIRY_REACHED = "created", "payment_settled", "expiry_reached"
INVOICE_REQUESTED, INVOICE_FAILED, SLOTS_FILLED = "invoice_requested", "invoice_failed", "slots_filled"
ISSUE_INVOICE, CANCEL_INVOICE, CANCEL_OUTSTANDING = "issue_invoice", "cancel_invoice", "cancel_outstanding"

_TRANSITION = ("from", "trigger", "when", "to", "effects", "basis", "decision")
_REFUSAL = ("from", "trigger", "when", "refuse", "because", "basis", "decision")
_KEYS = tuple(dict.fromkeys(_TRANSITION + _REFUSAL))


def check_row_shapes(rows: Any, location: str) -> None:
    """Each row is a transition or a refusal, whole and nothing else. Raises `ContractError` naming the row.

    Only what `extensions.schema.json` would refuse with a less helpful error is checked here.
    """
    for index, row in enumerate(rows if type(rows) is list else ()):
        at = f"{location}/{index}"
        if type(row) is not dict:
            continue
        for key in row:
            if key not in _KEYS:
                raise contract_error(at, f"unknown key {key!r}" + suggestion(str(key), _KEYS))
        effects = row.get("effects", [])
        if type(effects) is not list or not all(type(name) is str for name in effects):
            raise contract_error(at, f"effects must be a list of names, not {quoted(effects)}")
        if ("to" in row) == ("refuse" in row):
            both = "both `to` and `refuse`" if "to" in row else "neither `to` nor `refuse`"
            raise contract_error(at, f"has {both}; a row is a transition or a refusal")
        if "refuse" in row and row.get("from") == CREATION:
            raise contract_error(at, f"{CREATION} cannot refuse: a request that is refused creates nothing; write `to`")
        if "refuse" in row and "because" not in row:
            raise contract_error(at, f"the refusal {row['refuse']!r} has no `because`; say why in a sentence")
        for key in row:
            if key not in (_TRANSITION if "to" in row else _REFUSAL):
                kind = "transition" if "to" in row else "refusal"
                raise contract_error(at, f"{key!r} does not belong on a {kind}; leave it out")
        for key in ("from", "trigger", "basis"):
            if key not in row:
                raise contract_error(at, f"{key} is missing; every row has one")
        if row["basis"] not in ("specification", "decision"):
            raise contract_error(at, f"basis must be specification or decision, not {row['basis']!r}")
        if row["basis"] == "decision" and "decision" not in row:
            raise contract_error(
                at, "basis: decision needs a decision: the entry in DECISIONS.md that gives the reason"
            )


def compile_lifecycle(
    resource: str, states: Sequence[str], rows: Sequence[Mapping[str, Any]], location: str
) -> LifecycleTable:
    """The table of `resource`, whose `status` enum is `states`. `location` is that of the rows, for errors.

    Raises `ContractError` when a row names a state that is not in the enum, a state cannot be reached, a (state,
    trigger) pair is missing or has no unguarded last row, or a row can never apply.
    """
    for index, row in enumerate(rows):
        at = f"{location}/{index}"
        for key in ("from", "to"):
            if key in row and row[key] not in states and (key, row[key]) != ("from", CREATION):
                known = [*states, CREATION] if key == "from" else states
                raise contract_error(at, f"{key}: {row[key]!r} is not in the status enum" + suggestion(row[key], known))
        if (row["from"] == CREATION) != (row["trigger"] == CREATED):
            raise contract_error(
                at, f"the trigger {CREATED!r} belongs to {CREATION!r}, and no other trigger does; change one of them"
            )
    _check_creation(rows, location)
    triggers = tuple(dict.fromkeys(row["trigger"] for row in rows))
    _check_total(states, triggers, rows, location)
    _check_reachable(states, rows, location)
    return LifecycleTable(resource, tuple(states), triggers, tuple(_row(row) for row in rows), location)


def check_functions(table: LifecycleTable, guards: Collection[str], effects: Collection[str]) -> None:
    """Every guard and effect of the table has a function. Raises `ContractError` naming the row and the name."""
    for index, row in enumerate(table.rows):
        location = f"{table.location}/{index}"
        if row.when is not None and row.when not in guards:
            raise contract_error(
                f"{location}/when", f"the guard {row.when!r} has no function" + suggestion(row.when, guards)
            )
        for number, effect in enumerate(row.effects):
            if effect not in effects:
                raise contract_error(
                    f"{location}/effects/{number}",
                    f"the effect {effect!r} has no function" + suggestion(effect, effects),
                )


def check_triggers(table: LifecycleTable, applied: Collection[str]) -> None:
    """The triggers of the table are those that code applies. Raises `ContractError` naming the row or the table."""
    for index, row in enumerate(table.rows):
        if row.trigger not in applied:
            raise contract_error(
                f"{table.location}/{index}/trigger",
                f"no code applies the trigger {row.trigger!r}" + suggestion(row.trigger, applied),
            )
    for trigger in applied:
        if trigger not in table.triggers:
            raise contract_error(
                table.location, f"no row has the trigger {trigger!r}, which happens; add a row for each state"
            )


def _check_creation(rows: Sequence[Mapping[str, Any]], location: str) -> None:
    if not any(row["from"] == CREATION and "to" in row for row in rows):
        raise contract_error(location, f"no creation row; add {{from: {CREATION}, trigger: {CREATED}, to: ...}}")


def _check_total(
    states: Sequence[str], triggers: Sequence[str], rows: Sequence[Mapping[str, Any]], location: str
) -> None:
    rows_by_pair: dict[tuple[str, str], list[int]] = {}
    for index, row in enumerate(rows):
        earlier = rows_by_pair.setdefault((row["from"], row["trigger"]), [])
        for other in earlier:
            guard = rows[other].get("when")
            if guard is None or guard == row.get("when"):
                why = "which always applies" if guard is None else f"which has the same guard {guard!r}"
                raise contract_error(
                    f"{location}/{index}", f"can never apply: row {other} stands before it, {why}; remove one of them"
                )
        earlier.append(index)
    for state in states:
        for trigger in triggers:
            if trigger != CREATED and (state, trigger) not in rows_by_pair:
                raise contract_error(
                    location, f"nothing says what {trigger!r} does in {state!r}; add a transition or a refusal"
                )
    for (state, trigger), indexes in rows_by_pair.items():
        if "when" in rows[indexes[-1]]:
            raise contract_error(
                f"{location}/{indexes[-1]}",
                f"is the last row for {trigger!r} in {state!r} and has a guard; add a row without `when` after it",
            )


def _check_reachable(states: Sequence[str], rows: Sequence[Mapping[str, Any]], location: str) -> None:
    reached = {CREATION}
    grown = True
    while grown:
        entered = {row["to"] for row in rows if "to" in row and row["from"] in reached}
        grown = not entered <= reached
        reached |= entered
    for state in states:
        if state not in reached:
            raise contract_error(
                location, f"no row leads to {state!r}; add one, or take {state!r} out of the status enum"
            )


def _row(row: Mapping[str, Any]) -> LifecycleRow:
    return LifecycleRow(
        source=row["from"],
        trigger=row["trigger"],
        when=row.get("when"),
        to=row.get("to"),
        effects=tuple(row.get("effects", ())),
        refuse=row.get("refuse"),
        because=row.get("because"),
        basis=row["basis"],
        decision=row.get("decision"),
    )
