"""The table of tests/README.md: its rows name measurements, and one command writes the figures into them."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from leyden.server.docs.tables import replace_between_markers
from tests.benchmarks.measuring import BenchmarkError, Row
from tests.benchmarks.table import quantities, ratios_of, table, wanted

MARKER = "benchmarks"
COLUMNS = ("what", "beside, in the same run", "ratio, or size", "wanted")
# What is compared with, and what does the work on our side: a figure holds for these versions.
PACKAGES = (
    "aiohttp", "httpx2", "starlette", "uvicorn", "uvloop", "httptools", "orjson", "coincurve", "tinydb", "simpy",
    "networkx", "numpy", "scipy",
)  # fmt: skip

_NUMBER = r"\d+(?:,\d{3})*"


def refreshed(text: str, rows: Sequence[Row]) -> str:
    """The README with the figures of `rows` in the rows that stand there, and the versions that were measured.

    The README chooses its rows and their order. Raises `BenchmarkError` for a row that was not measured.
    """
    found = {(row.what, row.beside_what): row for row in rows}
    lines = []
    for what, beside, *_ in readme_rows(text):
        row = found.get((what, beside))
        if row is None:
            raise BenchmarkError(f"no part measures {what!r} beside {beside!r}: correct the row or remove it")
        lines.append(cells(row))
    return replace_between_markers(text, MARKER, f"{table(COLUMNS, lines)}\n\n{versions()}")


def cells(row: Row) -> tuple[str, str, str, str]:
    """A row as the README shows it: its ratio; the measured values without a ratio, or with an absolute goal."""
    figure = ratios_of(row)
    if not row.ratios:
        figure = quantities(row)
    elif row.goal is not None and row.goal.absolute:
        figure = f"{figure} ({quantities(row)})"
    return row.what, row.beside_what, figure, wanted(row)


def readme_rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the table in the README."""
    inside = text.partition(f"<!-- leyden:table {MARKER} -->")[2].partition("<!-- leyden:end -->")[0]
    lines = [line for line in inside.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def without_sizes(name: str) -> str:
    """A name of a measurement without its numbers, which a short run has smaller."""
    return re.sub(rf"{_NUMBER}(?:, {_NUMBER})*", "N", name)


def versions() -> str:
    """The sentence that names what was measured."""
    return (
        f"Measured with Python {platform.python_version()} on {os.cpu_count()} cores ({platform.machine()}): "
        f"{', '.join(_versions())}."
    )


def _versions() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            raise BenchmarkError(f"{name} is not installed: pip install -e '.[dev]'") from None
