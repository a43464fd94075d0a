"""The command-line options of `leyden fuzz`, `leyden conformance` and `leyden replay`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module

from leyden.arguments import option_span_ms
from leyden.devserver.argument_types import api_key, directory, seed
from leyden.harness.constants import (
    API_KEY,
    DEFAULT_ENGINES,
    DEFAULT_SECONDS,
    ENGINES,
    EXPORT_FORMATS,
    NO_KEY,
    PACKAGED_SPEC,
    REPORT_FORMATS,
)


def _describe_fuzz(fuzz: argparse.ArgumentParser) -> None:
    _add_target(fuzz)
    fuzz.add_argument(
        "--seconds", type=seconds_of_option, help=f"how long to run, in real time (default: {DEFAULT_SECONDS:g})"
    )
    fuzz.add_argument(
        "--examples",
        type=_count,
        help="the number of runs of each engine (cases, for schemathesis), instead of a time",
    )
    fuzz.add_argument("--seed", type=seed, default=0, help="the random seed (default: 0)")
    fuzz.add_argument(
        "--engines", type=_engines, default=DEFAULT_ENGINES, metavar="NAMES",
        help=f"engines, separated by commas: {', '.join(ENGINES)} (default: {','.join(DEFAULT_ENGINES)})",
    )  # fmt: skip
    fuzz.add_argument(
        "--workers", type=_count,
        help="the number of processes, each with its own seeds (default: one for each core; 1 with URL or --examples)",
    )  # fmt: skip
    fuzz.add_argument(
        "--cluster", metavar="ADDRESS", help="the scheduler of a Dask cluster that runs the engines (extra `cluster`)"
    )
    fuzz.add_argument("--keep-going", action="store_true", help="continue after the first violation")
    fuzz.set_defaults(run=_run("fuzz"))


def _describe_conformance(conformance: argparse.ArgumentParser) -> None:
    _add_target(conformance)
    conformance.add_argument(
        "--deep", action="store_true",
        help="also ask every obligation that is derived from the documents; this takes several minutes",
    )  # fmt: skip
    conformance.set_defaults(
        run=_run("fuzz"), engines=("conformance",), seed=0, seconds=None, examples=None, workers=None, cluster=None,
        keep_going=True,
    )  # fmt: skip


def _describe_replay(again: argparse.ArgumentParser) -> None:
    again.add_argument("case", metavar="FILE", help="a case, as written by `leyden fuzz --cases`, or a saved sandbox")
    again.add_argument(
        "--export", choices=(*EXPORT_FORMATS, "spec"),
        help="print the case in this format and do not run it; spec: its specification as JSON; what runs an"
        " adapter needs --adapter",
    )  # fmt: skip
    _add_service(again, "where the case was found; a sandbox in this process for one that happens there, too")
    again.add_argument(
        "--spec", metavar="FILE",
        help="use this specification in place of that of the case, for example a corrected one;"
        f" {PACKAGED_SPEC}: that of this Leyden",
    )  # fmt: skip
    again.set_defaults(run=_run("replay_case"))


def _describe_adapter(command: argparse.ArgumentParser) -> None:
    action = command.add_mutually_exclusive_group(required=True)
    action.add_argument("--new", metavar="FILE", help="write a template of an adapter to this new file")
    action.add_argument(
        "--check", metavar="FILE",
        help="try each method of an adapter on the service at URL, where this creates and pays Charges, and show the"
        " types of the answers",
    )  # fmt: skip
    action.add_argument(
        "--call",
        metavar="FILE",
        help="call one method of an adapter with these texts and print its answer, for scripts",
    )
    command.add_argument("words", nargs="*", metavar="URL | METHOD ...", help="the URL to check, or the method to call")
    command.add_argument(
        "--api-key", type=api_key, default=API_KEY, metavar="KEY",
        help="a project's API key (default: %(default)s)",
    )  # fmt: skip
    command.set_defaults(run=lambda options: int(import_module("leyden.harness.adapter_command").adapter(options)))


def _add_service(command: argparse.ArgumentParser, default: str = "a sandbox in this process") -> None:
    command.add_argument(
        "target", nargs="?", metavar="URL", help=f"the base URL of a served Leyden (default: {default})"
    )
    command.add_argument(
        "--api-key", type=api_key, default=API_KEY, metavar="KEY",
        help="a project's API key (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--second-api-key", type=api_key, default=NO_KEY, metavar="KEY",
        help="another project's API key, for the isolation checks",
    )  # fmt: skip
    command.add_argument(
        "--adapter", type=_adapter_name, metavar="FILE",
        help="URL is another implementation; this object controls it with the methods pay, advance and inbox, as far as"
        " it has them: FILE.py, FILE.py:NAME or MODULE:NAME; `none` if it has none of them",
    )  # fmt: skip


def _add_target(command: argparse.ArgumentParser) -> None:
    # Imported here: the start of a server does not wait for the reference model.
    from leyden.harness.model.rules import OVERLAYS

    _add_service(command)
    command.add_argument(
        "--overlay", action="append", choices=OVERLAYS, help="an overlay that the target is served with; repeatable"
    )
    command.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="FILE",
        help="write the report to FILE, in the format of its ending: .txt, .html (a page), .json, .xml (JUnit), .har"
        " (the requests of each violation), .github (annotations of GitHub Actions); .md: replace the summary between"
        " the markers of a page; repeatable",
    )
    command.add_argument(
        "--format",
        type=_format,
        metavar="FORMAT",
        help=f"the format of the files of --report, whatever their ending: {', '.join(REPORT_FORMATS)}; without"
        " --report the report is printed in this format",
    )
    command.add_argument(
        "--require-full-coverage",
        action="store_true",
        help="exit with 1 also when a declared coverage item was not reached (default: 0, if there is no violation)",
    )
    command.add_argument(
        "--cases", type=directory, metavar="DIR",
        help="write each violation to DIR as a case, a pytest file, a script and a notebook",
    )  # fmt: skip


def _run(name: str) -> Callable[[argparse.Namespace], int]:
    """A function of `leyden.harness.command`, which is imported when the command runs."""
    return lambda options: int(getattr(import_module("leyden.harness.command"), name)(options))


def seconds_of_option(text: str) -> float:
    """A real time above 0, in seconds: a span such as `60s`, or a number of seconds."""
    try:
        span_ms = option_span_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < span_ms < 10**12:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is out of bounds: give a time above 0, such as 60s")
    return span_ms / 1_000


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: give a whole number from 1")
    return int(text)


def _adapter_name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name is empty: give FILE.py, FILE.py:NAME, MODULE:NAME or none")
    return text


def _format(text: str) -> str:
    if text not in REPORT_FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a format: give one of {', '.join(REPORT_FORMATS)}")
    return text


def _engines(text: str) -> Sequence[str]:
    names = tuple(text.split(","))
    if not names or not set(names) <= set(ENGINES):
        raise argparse.ArgumentTypeError(
            f"{text!r} names an unknown engine: give some of {', '.join(ENGINES)}, separated by commas"
        )
    return names


# The function that adds the options of each command.
DESCRIBE: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "fuzz": _describe_fuzz,
    "conformance": _describe_conformance,
    "replay": _describe_replay,
    "adapter": _describe_adapter,
}
