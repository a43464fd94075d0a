"""The contract as tables: routes, lifecycles and callbacks.

The text is aligned for a terminal and is a Markdown table as well, so that the README, the documentation and
`leyden table` all hold the same lines. The columns of a lifecycle are the specification's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leyden.server.contract.types import CallbackRule, Contract, LifecycleRow, LifecycleTable
from leyden.server.errors import LeydenError
from leyden.server.printable import printable
from leyden.server.timestamps import span_in_words

ROUTE_COLUMNS = ("Method", "Path", "Operation", "Key", "Basis")
TRANSITION_COLUMNS = ("State", "Trigger", "Condition", "Next state", "Also happens", "Basis")
REFUSAL_COLUMNS = ("State", "Trigger", "Condition", "Refused", "Because", "Basis")
CALLBACK_COLUMNS = ("Callback", "On", "Events", "Attempts", "Success", "Timeout")


class MarkerError(LeydenError, ValueError):
    """The table markers of a text are missing, repeated or not closed."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class TableRow:
    """One printed row: its cells in the order of the columns, and the decision that it depends on, if any."""

    cells: tuple[str, ...]
    decision: str | None = None


def basis_in_words(basis: str, decision: str | None) -> str:
    """`specification`, or `decision: <name of the decision>`."""
    return f"decision: {decision}" if decision and basis == "decision" else basis


def schedule_in_words(delays_ms: Sequence[int], jitter: float) -> str:
    """When a callback is attempted: `10 attempts: at once, then after 5 s, 5 min, ... (each wait varies by 20 %)`."""
    if not delays_ms:
        return "never"
    first, *later = delays_ms
    start = "at once" if first == 0 else f"after {span_in_words(first)}"
    if not later:
        return f"1 attempt: {start}"
    waits = ", ".join(span_in_words(delay_ms) for delay_ms in later)
    varied = f" (each wait varies by {jitter * 100:g} %)" if jitter else ""
    return f"{len(delays_ms)} attempts: {start}, then after {waits}{varied}"


def transition_lines(table: LifecycleTable) -> list[TableRow]:
    """The transitions, under `TRANSITION_COLUMNS`."""
    conditions = _conditions(table)
    return [
        TableRow(
            (
                row.source,
                row.trigger,
                conditions[index],
                row.to,
                ", ".join(row.effects),
                basis_in_words(row.basis, row.decision),
            ),
            row.decision,
        )
        for index, row in enumerate(table.rows)
        if row.to is not None
    ]


def refusal_lines(table: LifecycleTable) -> list[TableRow]:
    """The refusals, under `REFUSAL_COLUMNS`; triggers that a state refuses alike share a row."""
    conditions = _conditions(table)
    merged: dict[tuple[str, str, str, str, str], tuple[LifecycleRow, list[str]]] = {}
    for index, row in enumerate(table.rows):
        if row.to is None:
            basis = basis_in_words(row.basis, row.decision)
            key = (row.source, conditions[index], row.refuse or "", row.because or "", basis)
            merged.setdefault(key, (row, []))[1].append(row.trigger)
    return [
        TableRow((source, ", ".join(triggers), condition, code, because, basis), row.decision)
        for (source, condition, code, because, basis), (row, triggers) in merged.items()
    ]


def success_in_words(contract: Contract, callback: CallbackRule) -> str:
    """The receiver's answers that count as delivered: the statuses that the callback's `responses` declare."""
    statuses = [str(status) for status in callback_item(contract, callback).get("post", {}).get("responses", {})]
    good = [status for status in statuses if status.startswith("2")]
    return ", ".join(f"any {s[0]}xx" if s.upper().endswith("XX") else s for s in good) or "any 2xx"


def callback_item(contract: Contract, callback: CallbackRule) -> Mapping[str, Any]:
    """The callback's path item in the document; empty when the document does not hold it."""
    for item in contract.document["paths"].values():
        for operation in item.values():
            if isinstance(operation, Mapping) and operation.get("operationId") == callback.operation_id:
                expressions: Mapping[str, Any] = operation.get("callbacks", {}).get(callback.name, {})
                return next((found for found in expressions.values() if isinstance(found, Mapping)), {})
    return {}


def lifecycle_sentence(table: LifecycleTable) -> str:
    """The initial and the final states: `starts pending; completed and expired are final`."""
    final = table.terminal
    if not final:
        return f"starts {table.initial}; no state is final"
    names = final[0] if len(final) == 1 else f"{', '.join(final[:-1])} and {final[-1]}"
    return f"starts {table.initial}; {names} {'is' if len(final) == 1 else 'are'} final"


def routes_table(contract: Contract) -> str:
    """Every operation: method, path, operationId, whether a key is needed, and the basis of the rule."""
    rows = (
        (o.method.upper(), o.path, o.operation_id, "yes" if o.secured else "no", basis_in_words(o.basis, o.decision))
        for o in contract.operations.values()
    )
    return markdown(ROUTE_COLUMNS, rows)


def lifecycle_tables(contract: Contract) -> str:
    """Two tables for each resource with a lifecycle: transitions and refusals. Empty when there is none."""
    parts: list[str] = []
    for table in contract.lifecycles.values():
        parts.append(f"**{_cell(table.resource)}** {_cell(lifecycle_sentence(table))}.")
        parts.append(markdown(TRANSITION_COLUMNS, (line.cells for line in transition_lines(table))))
        refusals = refusal_lines(table)
        if refusals:
            parts.append(f"{_cell(table.resource)} refuses:")
            parts.append(markdown(REFUSAL_COLUMNS, (line.cells for line in refusals)))
    return "\n\n".join(parts)


def callbacks_table(contract: Contract) -> str:
    """Every callback: its operation, events, attempts, success and timeout. Empty when there is none."""
    rows = []
    for operation in contract.operations.values():
        for callback in operation.callbacks:
            rule = callback.delivery
            rows.append(
                (
                    callback.name,
                    operation.operation_id,
                    ", ".join(rule.events.values()),
                    schedule_in_words(rule.delays_ms, rule.jitter),
                    success_in_words(contract, callback),
                    f"{span_in_words(rule.timeout_ms)} ({span_in_words(rule.connect_timeout_ms)} to connect)",
                )
            )
    return markdown(CALLBACK_COLUMNS, rows) if rows else ""


def all_tables(contracts: Sequence[Contract]) -> str:
    """The three tables of each contract under headings, as `leyden table` prints them; ends without a newline."""
    parts: list[str] = []
    for contract in contracts:
        parts.append(f"# {_cell(contract.title)} {_cell(contract.version)}")
        sections = (
            ("Routes", routes_table(contract)),
            ("Lifecycles", lifecycle_tables(contract)),
            ("Callbacks", callbacks_table(contract)),
        )
        parts.extend(f"## {heading}\n\n{text}" for heading, text in sections if text)
    return "\n\n".join(parts)


def replace_between_markers(text: str, name: str, table: str) -> str:
    """Put `table` between `<!-- leyden:table NAME -->` and the `<!-- leyden:end -->` after it; the rest is unchanged.

    Doing it twice changes nothing more. Raises `MarkerError` when the opening marker is not there exactly once, or
    when the next marker is not an end.
    """
    opening, closing = f"<!-- leyden:table {name} -->", "<!-- leyden:end -->"
    count = text.count(opening)
    if count != 1:
        raise MarkerError(f"the marker {opening} stands {count} times: write it once, with {closing} after it")
    before, _, rest = text.partition(opening)
    inside, found, after = rest.partition(closing)
    if not found or "<!-- leyden:table " in inside:
        raise MarkerError(f"the marker {opening} is never closed: write {closing} on a line after it")
    return f"{before}{opening}\n{table}\n{closing}{after}"


def _conditions(table: LifecycleTable) -> list[str]:
    """Each row's condition: its guard, `otherwise` after guarded rows of the same pair, or nothing."""
    guarded: set[tuple[str, str]] = set()
    conditions = []
    for row in table.rows:
        pair = (row.source, row.trigger)
        conditions.append(row.when or ("otherwise" if pair in guarded else ""))
        if row.when is not None:
            guarded.add(pair)
    return conditions


def _cell(text: str) -> str:
    """A text without characters that could end its cell, its row or the markers around its table."""
    return printable(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(columns), *cells]) for at in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

    return "\n".join([line(columns), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, cells)])
