"""The table: rows of figures as Markdown that reads well in a terminal too."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.measuring import COST, RATE, Row

_COLUMNS = ("what", "Leyden", "beside it", "ratio", "goal")
_SPANS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SIZES = ((1 << 20, "MB"), (1 << 10, "kB"), (1, "B"))


def markdown(rows: Sequence[Row]) -> str:
    """All rows, in one table, with the measured values."""
    return table(_COLUMNS, [_cells(row) for row in rows])


def table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    widths = [max(len(line[at]) for line in [columns, *lines]) for at in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(columns), rule, *map(line, lines)])


def _cells(row: Row) -> tuple[str, ...]:
    beside = ""
    if row.beside_what:
        beside = f"{row.beside_what}: {_series(row.beside, row.unit)}"
    goal = "" if row.goal is None else f"{wanted(row)}: {'met' if row.met else 'missed'}"
    return row.what, quantities(row), beside, ratios_of(row), goal


def quantities(row: Row) -> str:
    """The measured values of all cases."""
    return _series(row.measured, row.unit)


def ratios_of(row: Row) -> str:
    """The ratios of all cases."""
    ratios = " / ".join("-" if ratio is None else _ratio(ratio) for ratio in row.ratios)
    return ratios + (" less" if row.times_less else "")


def wanted(row: Row) -> str:
    """The goal, or nothing."""
    if row.goal is None:
        return ""
    return f"{row.goal.word} {_quantity(row.goal.bound, row.unit) if row.goal.absolute else _ratio(row.goal.bound)}"


def _series(values: Sequence[float | None], unit: str) -> str:
    return " / ".join("-" if value is None else _quantity(value, unit) for value in values)


def _quantity(value: float, unit: str) -> str:
    if unit == RATE:
        return f"{value:,.0f}/s"
    steps: Sequence[tuple[float, str]] = _SPANS if unit == COST else _SIZES
    size, name = next((step for step in steps if value >= step[0]), steps[-1])
    return f"{_short(value / size)} {name}"


def _ratio(value: float) -> str:
    return f"{_short(value)}x"


def _short(value: float) -> str:
    """Three figures, and never an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
