"""Lists the seeded defects, each with the rule that it violates and the time in which its probe detects it.

With `--engines`: which engine of the harness finds which defect, in what time, with how many steps.

python -m tests.seeded_defects [NAME-OR-KIND]... [--descriptions]
python -m tests.seeded_defects [NAME-OR-KIND]... --engines random-walk,all [--seeds 1,2,3] [--workers 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from leyden import Sandbox
from tests.seeded_defects.catalogue import DEFECTS
from tests.seeded_defects.defect import KINDS, Defect, planted
from tests.seeded_defects.engines import CHOICE, LIMIT_S, document, searches, summary, table

COLUMNS = ("defect", "kind", "violates", "probe s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Probe the defects and print them. Returns 0 if each is detected when planted, and only then."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded_defects", description="List the seeded defects.")
    parser.add_argument("names", nargs="*", help="names of defects, or kinds: " + ", ".join(KINDS))
    parser.add_argument("--descriptions", action="store_true", help="print the description of each below the table")
    parser.add_argument(
        "--engines", type=_engines, help="search for each defect with these engines: " + ", ".join(CHOICE)
    )
    parser.add_argument(
        "--seeds", type=_seeds, default=[1, 2, 3, 4, 5], help="numbers, separated by commas (default: 1 to 5)"
    )
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="processor seconds for each search (default: 15)")
    parser.add_argument("--workers", type=int, default=1, help="the number of processes (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result with its case to FILE")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(KINDS) - {defect.name for defect in DEFECTS}
    if unknown:
        parser.error(f"unknown names or kinds: {', '.join(sorted(unknown))}; leave them out to list all")
    chosen = [one for one in DEFECTS if not options.names or {one.name, one.kind} & set(options.names)]
    if options.engines:
        return _search_all(chosen, options)
    Sandbox().close()  # the first sandbox in a process compiles the specification
    timed = [(defect, *_probed(defect)) for defect in chosen]
    print(_table([COLUMNS, *((one.name, one.kind, one.violates, f"{spent:.3f}") for one, _, spent in timed)]))
    if options.descriptions:
        print()
        for defect in chosen:
            print(f"{defect.name}: {defect.description}")
    errors = [f"{defect.name}: {why}" for defect, why, _ in timed if why]
    spent = sorted(seconds for _, _, seconds in timed)
    print(f"\n{len(chosen)} defects, median {spent[len(spent) // 2]:.3f} s, slowest {spent[-1]:.3f} s")
    for line in errors:
        print(line, file=sys.stderr)
    return int(bool(errors))


def _engines(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(CHOICE):
        raise argparse.ArgumentTypeError(
            f"{text!r} names an unknown engine: give some of {', '.join(CHOICE)}, separated by commas"
        )
    return names


def _seeds(text: str) -> list[int]:
    if not all(one.isascii() and one.isdigit() for one in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} are not seeds: give whole numbers, separated by commas")
    return [int(one) for one in text.split(",")]


def _search_all(chosen: Sequence[Defect], options: argparse.Namespace) -> int:
    """Search for the defects. Returns 0 if each engine found each of them on every seed."""
    jobs = [(one.name, engine, seed) for one in chosen for engine in options.engines for seed in options.seeds]
    found = []
    for one in searches(jobs, options.workers, options.limit):
        found.append(one)
        if sys.stderr.isatty():
            print(f"\r\x1b[K{len(found)} of {len(jobs)}: {one.defect} by {one.engine}", end="", file=sys.stderr)
    print(_table(table(found)))
    print("\n" + "\n".join(summary(found)))
    if options.json is not None:
        options.json.write_text(document(found))
    return int(not all(one.found for one in found))


def _probed(defect: Defect) -> tuple[str, float]:
    """An error of the defect or its probe, or "", and the seconds that the probe takes when it is planted."""
    if defect.probe(Sandbox):
        return "the probe detects it although it is not planted", 0.0
    started = perf_counter()
    with planted(defect):
        detected = defect.probe(Sandbox)
    return "" if detected else "the probe does not detect it although it is planted", perf_counter() - started


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


if __name__ == "__main__":
    sys.exit(main())
