"""What can be asked of the harness on the command line. Nothing heavy is loaded before it is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

KEY = "leyden"
NOBODY = "nobody"  # in the place of a key that was not given: it opens nothing
ENGINES = ("tour", "walk", "machine", "schemathesis")
OVERLAYS = (
    "strict",
    "lenient",
    "payable-at-expiry",
    "no-retries",
    "callback-envelope",
    "reserve-on-issue",
    "count-on-settle",
)
FORMS = ("pytest", "curl", "notebook")
USUAL_SECONDS = 10.0


def _describe_fuzz(fuzz: argparse.ArgumentParser) -> None:
    _add_target(fuzz)
    fuzz.add_argument("--seconds", type=_positive, help=f"how long, in real time (default: {USUAL_SECONDS:g})")
    fuzz.add_argument(
        "--examples",
        type=_count,
        help="how many worlds each engine plays in (cases, for schemathesis), instead of a time",
    )
    fuzz.add_argument("--seed", type=_whole, default=0, help="where all chance comes from (default: 0)")
    fuzz.add_argument(
        "--engines", type=_engines, default=("tour", "walk", "machine"), metavar="NAMES",
        help=f"some of {', '.join(ENGINES)}, with commas (default: tour,walk,machine)",
    )  # fmt: skip
    fuzz.add_argument("--workers", type=_count, default=1, help="how many processes, each with seeds of its own")
    fuzz.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler whose workers are used (extra `cluster`)")
    fuzz.add_argument("--keep-going", action="store_true", help="do not stop at the first broken promise")
    fuzz.add_argument("--cover", action="store_true", help="exit with 1, too, when a declared cell was never reached")
    fuzz.set_defaults(run=_fuzz)


def _describe_tour(tour: argparse.ArgumentParser) -> None:
    _add_target(tour)
    tour.set_defaults(run=_tour)


def _describe_replay(again: argparse.ArgumentParser) -> None:
    again.add_argument("case", metavar="CASE", help="a case file, as `leyden fuzz --cases` writes them")
    again.add_argument("--export", choices=FORMS, help="print the case in this form instead")
    again.set_defaults(run=_replay)


def _add_target(command: argparse.ArgumentParser) -> None:
    command.add_argument("target", nargs="?", metavar="URL", help="a served Leyden (default: in this process)")
    command.add_argument("--api-key", default=KEY, metavar="KEY", help="a project's key at the target")
    command.add_argument("--rival-key", default=NOBODY, metavar="KEY", help="another project's key, if there is one")
    command.add_argument(
        "--levers", metavar="MODULE:NAME",
        help="the target is any service: an object with pay, advance and inbox as far as there are such, or `none`",
    )  # fmt: skip
    command.add_argument(
        "--overlay", action="append", choices=OVERLAYS, help="the reading that the target has; repeatable"
    )
    command.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="FILE",
        help="write the coverage: .txt, .html, .json, or .md: its summary, between the marks of a page",
    )
    command.add_argument("--cases", metavar="DIR", help="write each finding there: case, pytest, curl and notebook")


def _fuzz(options: argparse.Namespace) -> int:
    from leyden.harness.command import fuzz

    return fuzz(options)


def _tour(options: argparse.Namespace) -> int:
    from leyden.harness.command import tour

    return tour(options)


def _replay(options: argparse.Namespace) -> int:
    from leyden.harness.command import replay_case

    return replay_case(options)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give a number of seconds above 0")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is no count: give a whole number from 1")
    return int(text)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed: give a whole number of at most 9 digits")
    return int(text)


def _engines(text: str) -> Sequence[str]:
    names = tuple(text.split(","))
    if not names or not set(names) <= set(ENGINES):
        raise argparse.ArgumentTypeError(f"{text!r} are no engines: give some of {', '.join(ENGINES)}, with commas")
    return names


# Each command: what it is for, and what it understands.
COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "fuzz": (
        "try everything, compare with what is promised, and report what was reached and what was broken",
        _describe_fuzz,
    ),
    "tour": ("walk past every row, refusal, outcome and bound once: a smoke test", _describe_tour),
    "replay": ("play a case again, in process, and see whether it still happens", _describe_replay),
}
