"""Every option that a text of the sources names is an option of the command that the text is about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from leyden.commands.catalogue import build_parser
from tests.commands.test_parser import parsers
from tests.support.served import ROOT

OPTIONS = {parser.prog: {*parser._option_string_actions} for parser in parsers(build_parser())}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")
COMMAND = re.compile(r"\bleyden (?P<words>[a-z][a-z-]*(?: [a-z][a-z-]*)?)(?P<rest>[^`;:,()\n]*)")

# What a text in these places is about that names no command, the first place that fits: all of these commands.
HARNESS = ("leyden fuzz", "leyden conformance", "leyden replay")
ABOUT = {
    "sim/harness/adapter_command.py": ("leyden adapter",),
    "sim/harness/runs/cases.py": ("leyden replay",),
    "sim/harness/engines/campaign.py": ("leyden fuzz",),
    "sim/harness/targets/hosted.py": ("leyden serve",),
    "sim/harness/targets": HARNESS,
    "sim/harness/runs": HARNESS,
    "sim/devserver/receiver_check": ("leyden receiver-check",),
    "sim/devserver/client_check": ("leyden client-check",),
    "sim/devserver/listen.py": ("leyden listen",),
    "sim/devserver": ("leyden serve",),
    "server": ("leyden serve",),
}
# Options of other programs.
FOREIGN = {"--leyden-url", "--leyden-admin-token", "--log-level", "--globoff", "--data-binary", "--head", "--refresh"}


def texts() -> Iterator[tuple[str, str]]:
    """The texts of the product that are no docstrings, with their files; `{}` stands for a value."""
    for path in sorted(file for folder in ("sim", "server") for file in (ROOT / folder).rglob("*.py")):
        source = path.read_text()
        if not OPTION.search(source):
            continue
        tree = ast.parse(source)
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in parts | documented:
                continue
            if isinstance(node, ast.JoinedStr):
                words = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                yield str(path.relative_to(ROOT)), "".join(words)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(path.relative_to(ROOT)), node.value


def named(path: str, text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each option in a text, with the commands that it must be an option of; without any, of one at least."""
    rest = text
    for found in COMMAND.finditer(text):
        words = found["words"].split()
        name = next((name for name in (" ".join(("leyden", *words)), f"leyden {words[0]}") if name in OPTIONS), None)
        if name is not None:
            rest = rest.replace(found[0], "")
            yield from (((name,), option) for option in OPTION.findall(found["rest"].partition(" -- ")[0]))
    about = next((commands for place, commands in ABOUT.items() if path.startswith(place)), ())
    yield from ((about, option) for option in OPTION.findall(rest) if option not in FOREIGN)


def test_every_option_that_a_text_names_exists_on_its_command() -> None:
    known = set().union(*OPTIONS.values())
    found = [(path, text, *one) for path, text in texts() for one in named(path, text)]
    assert len(found) > 200, "the texts are read"
    wrong = [
        (path, option, commands, text)
        for path, text, commands, option in found
        if option not in known or not all(option in OPTIONS[command] for command in commands)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sim/harness/targets/served.py", "this run needs strict: give them with --overlay"),
        ("sim/errors.py", "see `leyden replay CASE --overlay strict`"),
        ("sim/errors.py", "give --no-such-option"),
    ],
)
def test_an_option_that_does_not_exist_is_found(path: str, text: str) -> None:
    [(commands, option)] = named(path, text)
    assert not all(option in OPTIONS[command] for command in commands or OPTIONS)
