"""The runner: measures the parts asked for and prints one table.

python -m tests.benchmarks [--only PART]... [--short] [--repeats N] [--json FILE] [--into FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from leyden.server.docs.tables import MarkerError
from tests.benchmarks import (
    callbacks,
    crowds,
    events,
    figures,
    invoices,
    lifecycles,
    network,
    over_http,
    reopening,
    sandboxes,
    starting,
    stores,
    traffic,
)  # fmt: skip
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import BenchmarkError, Row, Scale
from tests.benchmarks.readme_table import refreshed
from tests.benchmarks.table import markdown

Part = Callable[[Bench], Iterable[Row]]

PARTS: dict[str, Part] = {
    module.PART: module.rows
    for module in (
        over_http,
        stores,
        invoices,
        lifecycles,
        traffic,
        starting,
        callbacks,
        crowds,
        reopening,
        network,
        sandboxes,
        events,
        figures,
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 0 when every part asked for was measured."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.into is not None and (options.only or options.short):
        parser.error("--into writes the figures of one complete run: leave out --only and --short")
    parts = options.only or list(PARTS)
    scale = Scale(options.short, options.repeats or (1 if options.short else 5))
    rows: list[Row] = []
    failed = False
    with Bench(scale) as bench:
        for part in parts:
            print(f"measuring {part} ...", file=sys.stderr, flush=True)
            try:
                rows.extend(PARTS[part](bench))
            except BenchmarkError as error:
                print(f"{part}: {error}", file=sys.stderr)
                failed = True
    print(markdown(rows))
    if options.json is not None:
        try:
            Path(options.json).write_text(json.dumps(_report(scale, rows), indent=1) + "\n")
        except OSError as error:
            print(f"{options.json} could not be written: {error.strerror}", file=sys.stderr)
            failed = True
    if options.into is not None and not failed:
        file = Path(options.into)
        try:
            file.write_text(refreshed(file.read_text(), rows))
        except (BenchmarkError, MarkerError) as error:
            print(f"{options.into}: {error}", file=sys.stderr)
            failed = True
        except OSError as error:
            print(f"{options.into} could not be written: {error.strerror}", file=sys.stderr)
            failed = True
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="What Leyden costs, beside its ceilings, in one table."
    )
    parser.add_argument("--only", action="append", choices=list(PARTS), help="measure this part; repeatable")
    parser.add_argument("--short", action="store_true", help="show that it works, in seconds; the figures mean nothing")
    parser.add_argument("--repeats", type=_count, metavar="N", help="rounds to take the medians of (default: 5)")
    parser.add_argument("--into", metavar="FILE", help="write the figures into the table in tests/README.md as well")
    parser.add_argument("--json", metavar="FILE", help="write the rows there as well, unrounded")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 100):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds: give 1 to 100")
    return int(text)


def _report(scale: Scale, rows: Sequence[Row]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "short": scale.short,
        "repeats": scale.repeats,
        "rows": [row.plain() for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
