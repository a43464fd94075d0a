"""The parser of the command line: an error is one line with the nearest name, and each help ends with examples."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

_EXAMPLES = "Examples:\n"
_NAME_WIDTH = 17
_ANY_BYTES = frozenset({"FILE", "DIR", "COMMAND"})  # metavars of paths, and of other programs
_NEVER_EMPTY = frozenset({"FILE", "DIR", "URL", "KEY", "TOKEN"})  # as the value of a variable that is not set
_SIGNED = re.compile(r"-[0-9.]+(?:ms|s|m|h|d|w)")


class Command(NamedTuple):
    """A command: its name, what it does in one sentence without a capital and a full stop, the function that adds its
    options, and the examples of its help."""

    name: str
    summary: str
    describe: Callable[[argparse.ArgumentParser], None]
    examples: tuple[str, ...]


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    With a default for `passed_on`, it takes what stands after `--`: the arguments of another program.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, **given)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As that of argparse, but an argument that is not known is an error."""
        given = list(sys.argv[1:] if args is None else args)
        passed_on: list[str] = []
        if self.get_default("passed_on") is not None and "--" in given:
            end = given.index("--")
            given, passed_on = given[:end], given[end + 1 :]
        self._refuse_unknown_options(given)
        self._refuse_options_before_command(given)
        options, unknown = super().parse_known_args(given, namespace)
        if passed_on:
            options.passed_on = passed_on
        if unknown:
            self.error(self._unknown(unknown[0]))
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """End the process with status 2 and one line, of at most about 1,000 characters as that of a `LeydenError`."""
        from leyden.server.errors import LeydenError  # only an error needs it

        print(f"{self.prog}: {LeydenError(message)}", file=sys.stderr)
        raise SystemExit(2)

    def add_command(self, commands: Any, command: Command) -> None:
        """Add a command with its options to the subparsers `commands`."""
        parser = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[:1].upper()}{command.summary[1:]}.",
            epilog=_EXAMPLES + "".join(f"  {example}\n" for example in command.examples),
        )
        parser.set_defaults(parser=parser)
        command.describe(parser)

    def _refuse_unknown_options(self, given: Sequence[str]) -> None:
        """An unknown option is reported before a missing argument: mostly it is that argument, misspelt."""
        if self._subparsers is not None or any(action.nargs == argparse.REMAINDER for action in self._actions):
            return
        for word in given:
            if word == "--":
                return
            known = word.partition("=")[0] in self._option_string_actions
            if word.startswith("--") and " " not in word and not known:
                self.error(self._unknown(word))
            if _SIGNED.fullmatch(word):
                self.error(f"unexpected argument {_shown(word)}: a span of time has no sign; see {self.prog} --help")

    def _refuse_options_before_command(self, given: Sequence[str]) -> None:
        """An option before the command would be unknown, and its value taken for the command."""
        if self._subparsers is None or len(given) < 2 or not given[0].startswith("-"):
            return
        name = given[0].partition("=")[0]
        [commands] = (one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction))
        command = next((word for word in given[1:] if word in (commands or ())), None)
        if name not in self._option_string_actions and command is not None:
            self.error(
                f"the option {_shown(name)} stands before the command {command}: write it after the command; "
                f"see {self.prog} {command} --help"
            )

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {_shown(word)}; see {self.prog} --help"
        name = word.partition("=")[0]
        return f"unknown option {_shown(name)}{self._nearest(name, self._option_string_actions)}"

    def _nearest(self, word: str, known: Iterable[str]) -> str:
        from leyden.server.spelling import closest  # only an error needs it

        near = closest(word, known)
        return f"; see {self.prog} --help" if near is None else f"; did you mean {near}?"

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """As that of argparse, but a text that cannot be sent or written is refused here, with the name of its option.
        The paths of files, and the command lines of other programs, may have any bytes."""
        if not arg_string and action.option_strings and action.metavar in _NEVER_EMPTY:
            raise argparse.ArgumentError(action, "the value is empty: give one, or leave the option out")
        if not arg_string.isascii() and action.metavar not in _ANY_BYTES and action.nargs != argparse.PARSER:
            self._check_utf8(action, arg_string)
        return super()._get_value(action, arg_string)

    @staticmethod
    def _check_utf8(action: argparse.Action, text: str) -> None:
        from leyden.arguments import is_utf8  # only such a text needs them
        from leyden.devserver.argument_types import text_or_file

        if action.type is not text_or_file and not is_utf8(text):
            raise argparse.ArgumentError(
                action, f"{_shown(text)} has bytes that are not UTF-8: write the text in UTF-8"
            )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command {_shown(value)}{self._nearest(value, known)}")
        near = self._nearest(str(value), known)
        raise argparse.ArgumentError(action, f"{_shown(value)} is none of {', '.join(known)}{near}")


class RootParser(CommandParser):
    """The parser of `leyden`: its help lists the commands in groups."""

    groups: Mapping[str, Sequence[Command]] = {}

    def format_help(self) -> str:
        """The usage, the commands with their summaries, and the epilog."""
        import shutil
        import textwrap

        width = max(shutil.get_terminal_size().columns - 2, 40)
        lines = ["usage: leyden [--version] [--help] command ...", "", self.description or ""]
        for title, commands in self.groups.items():
            lines += ["", f"{title}:"]
            for command in commands:
                lines += textwrap.wrap(
                    command.summary,
                    width,
                    initial_indent=f"  {command.name:<{_NAME_WIDTH}}",
                    subsequent_indent=" " * (_NAME_WIDTH + 2),
                )
        return "\n".join([*lines, "", self.epilog or ""]).rstrip() + "\n"


def add_commands(parser: argparse.ArgumentParser, commands: Sequence[Command]) -> None:
    """Give a command commands of its own; without one of them it prints its help and returns 2."""
    assert isinstance(parser, CommandParser)
    parser.set_defaults(run=lambda _: _print_help(parser))
    found = parser.add_subparsers(metavar="command", title="commands")
    for command in commands:
        parser.add_command(found, command)


def _print_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 2


def _shown(word: object) -> str:
    from leyden.server.printable import printable

    return printable(str(word))[:80]


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps every text except the examples, and lists commands without a line above them."""

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        return text.partition("\n")[2] if isinstance(action, argparse._SubParsersAction) else text

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text.rstrip() if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)
