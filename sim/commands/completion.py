"""`leyden completion SHELL`: the script with which a shell completes the commands, their options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from leyden.files.standard_streams import print_document

SHELLS = ("bash", "zsh", "fish")
_FILE, _DIRECTORY = "FILE", "DIR"  # the metavars of options for paths


def describe(parser: argparse.ArgumentParser, whole: Callable[[], argparse.ArgumentParser]) -> None:
    """Add the options. `whole` returns the parser of all commands."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=lambda options: _completion(options.shell, whole()))


def _completion(shell: str, parser: argparse.ArgumentParser) -> int:
    import shtab

    for action in _actions(parser):
        if action.metavar == _FILE:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == _DIRECTORY:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print_document(f"{shtab.complete(parser, shell)}\n")
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of a parser and of those below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
