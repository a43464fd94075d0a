"""The command line: help that ends with examples, and errors of one line that name the nearest option."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from leyden.__main__ import main
from leyden.commands.catalogue import COMMANDS, GROUPS, build_parser
from leyden.commands.receivers import EXAMPLE_SECRET
from tests.support.deep import sampled
from tests.support.served import ROOT


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """The examples at the end of a help."""
    _, found, after = parser.format_help().partition("\nExamples:\n")
    assert found, f"{parser.prog} --help has no examples"
    return [line.strip() for line in after.strip().splitlines()]


ALL = list(parsers(build_parser()))
by_name = {"ids": lambda parser: parser.prog}


@pytest.mark.parametrize("parser", sampled(ALL, 4), **by_name)
def test_every_help_ends_with_two_examples_that_are_valid(parser: argparse.ArgumentParser) -> None:
    lines = examples(parser)
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(parser.prog)
        words = shlex.split(line.partition(" > ")[0])[1:]
        assert build_parser().parse_args(words).run


@pytest.mark.parametrize(
    "page", sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *ROOT.glob("[a-z]*/**/README.md")])
)
def test_the_commands_of_the_documentation_are_valid(page: str) -> None:
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    for line in "".join(blocks).replace("\\\n", " ").replace("whsec_...", EXAMPLE_SECRET).splitlines():
        words = shlex.split(line.partition(" > ")[0], comments=True)
        if words[:1] == ["leyden"]:
            assert build_parser().parse_args(words[1:]).run


@pytest.mark.parametrize("parser", ALL, **by_name)
def test_an_empty_value_is_not_the_default(parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]) -> None:
    """As `--url "$UNSET"` has it in a script."""
    for action in parser._actions:
        if action.option_strings and action.metavar in ("FILE", "DIR", "URL", "KEY", "TOKEN"):
            with pytest.raises(SystemExit) as end:
                parser.parse_args([action.option_strings[-1], ""])
            assert end.value.code == 2
            assert "the value is empty: give one, or leave the option out" in capsys.readouterr().err


def test_the_help_lists_every_command_once() -> None:
    text = build_parser().format_help()
    for group, commands in GROUPS.items():
        assert f"\n{group}:\n" in text
        for command in commands:
            assert text.count(f"\n  {command.name} ") == 1


def test_a_help_describes_the_commands_without_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert printed == build_parser().format_help()
    assert "Exit status: 0 for success; 1 for a failure, such as a request" in printed


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("serve --sed 7", "leyden serve: unknown option --sed; did you mean --seed?"),
        ("serve --sed=7", "leyden serve: unknown option --sed; did you mean --seed?"),
        ("serve --rat 0", "leyden serve: unknown option --rat; did you mean --rate?"),
        (
            "advance -1h",
            "leyden advance: unexpected argument -1h: a span of time has no sign; see leyden advance --help",
        ),
        ("serve --weather", "leyden serve: unknown option --weather; see leyden serve --help"),
        ("serve -x", "leyden serve: unknown option -x; see leyden serve --help"),
        ("serve now", "leyden serve: unexpected argument now; see leyden serve --help"),
        ("serv", "leyden: unknown command serv; did you mean serve?"),
        ("weather", "leyden: unknown command weather; see leyden --help"),
        ("--verson", "leyden: unknown option --verson; did you mean --version?"),
        (
            "--url http://127.0.0.1:1 charges list",
            "leyden: the option --url stands before the command charges: write it after the command; see leyden charges"
            " --help",
        ),
        (
            "charges --url=http://127.0.0.1:1 list",
            "leyden charges: the option --url stands before the command list: write it after the command; see leyden"
            " charges list --help",
        ),
        (
            "completion fsh",
            "leyden completion: argument SHELL: fsh is none of bash, zsh, fish; did you mean fish?",
        ),
        ("serve --port x", "leyden serve: argument --port: 'x' is not a port: give a number from 0 to 65535"),
        ("serve --\x1b[2J", r"leyden serve: unknown option --\x1b[2J; see leyden serve --help"),
    ],
)
def test_a_wrong_argument_is_one_line(capsys: pytest.CaptureFixture[str], words: str, line: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split(" "))
    assert end.value.code == 2
    assert capsys.readouterr().err == f"{line}\n"


def test_an_unknown_option_is_reported_before_a_missing_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["receiver-check", "--ovrlay", "strict"])
    assert capsys.readouterr().err == "leyden receiver-check: unknown option --ovrlay; did you mean --overlay?\n"


def test_the_options_of_the_program_that_client_check_runs_are_its_own() -> None:
    options = build_parser("client-check").parse_args(["client-check", "python", "client.py", "--sed", "7"])
    assert options.command_line == ["python", "client.py", "--sed", "7"]


def test_only_the_chosen_command_is_described() -> None:
    [commands] = [action.choices for action in build_parser("version")._actions if action.choices]
    assert list(commands) == ["version"]
    assert set(COMMANDS) > {"version"}
