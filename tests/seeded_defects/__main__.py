"""The gallery's own table: every defect with the promise that it breaks and the time in which its probe shows it.

With `--engines` the other one: which engine of the harness finds which defect, in what time, with how small a case.

python -m tests.seeded_defects [NAME-OR-KIND]... [--stories]
python -m tests.seeded_defects [NAME-OR-KIND]... --engines tour,walk,machine,all [--seeds 1,2,3] [--workers 2] [--json
FILE]
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
from tests.seeded_defects.engines import CHOICE, LIMIT_S, document, hunts, summary, table

COLUMNS = ("defect", "kind", "breaks", "probe s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Probe and print; 0 when every defect asked for is absent from the clean service and shows when planted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.seeded_defects", description="Show the catalogue of defects."
    )
    parser.add_argument("wanted", nargs="*", help="names of defects, or kinds: " + ", ".join(KINDS))
    parser.add_argument("--stories", action="store_true", help="say below the table what is wrong in each")
    parser.add_argument("--engines", type=_engines, help="set these on each defect: some of " + ", ".join(CHOICE))
    parser.add_argument("--seeds", type=_seeds, default=[1, 2, 3, 4, 5], help="numbers with commas (default: 1 to 5)")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="processor seconds for each search (default: 15)")
    parser.add_argument("--workers", type=int, default=1, help="in how many processes (default: this one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every search with its case there")
    options = parser.parse_args(arguments)
    unknown = set(options.wanted) - set(KINDS) - {defect.name for defect in DEFECTS}
    if unknown:
        parser.error(f"no defect and no kind: {', '.join(sorted(unknown))}; leave them out to see all")
    chosen = [one for one in DEFECTS if not options.wanted or {one.name, one.kind} & set(options.wanted)]
    if options.engines:
        return _set_engines(chosen, options)
    Sandbox().close()  # the first one in a process also compiles the spec
    timed = [(defect, *_probed(defect)) for defect in chosen]
    print(_table([COLUMNS, *((one.name, one.kind, one.breaks, f"{spent:.3f}") for one, _, spent in timed)]))
    if options.stories:
        print()
        for defect in chosen:
            print(f"{defect.name}: {defect.story}")
    amiss = [f"{defect.name}: {why}" for defect, why, _ in timed if why]
    spent = sorted(seconds for _, _, seconds in timed)
    print(f"\n{len(chosen)} defects, median {spent[len(spent) // 2]:.3f} s, slowest {spent[-1]:.3f} s")
    for line in amiss:
        print(line, file=sys.stderr)
    return int(bool(amiss))


def _engines(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(CHOICE):
        raise argparse.ArgumentTypeError(f"{text!r} are no engines: give some of {', '.join(CHOICE)}, with commas")
    return names


def _seeds(text: str) -> list[int]:
    if not all(one.isascii() and one.isdigit() for one in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} are no seeds: give whole numbers with commas")
    return [int(one) for one in text.split(",")]


def _set_engines(chosen: Sequence[Defect], options: argparse.Namespace) -> int:
    """Set the engines on the defects; 0 when each engine found each of them on every seed."""
    jobs = [(one.name, engine, seed) for one in chosen for engine in options.engines for seed in options.seeds]
    found = []
    for one in hunts(jobs, options.workers, options.limit):
        found.append(one)
        if sys.stderr.isatty():
            print(f"\r\x1b[K{len(found)} of {len(jobs)}: {one.defect} by {one.engine}", end="", file=sys.stderr)
    print(_table(table(found)))
    print("\n" + "\n".join(summary(found)))
    if options.json is not None:
        options.json.write_text(document(found))
    return int(not all(one.found for one in found))


def _probed(defect: Defect) -> tuple[str, float]:
    """What is wrong with the defect itself, if anything is, and the seconds its probe takes when it is planted."""
    if defect.probe(Sandbox):
        return "the probe sees it in the clean service", 0.0
    begun = perf_counter()
    with planted(defect):
        seen = defect.probe(Sandbox)
    return "" if seen else "the probe does not see it although it is planted", perf_counter() - begun


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


if __name__ == "__main__":
    sys.exit(main())
