"""Every option or argument that is a path: a place that no file can have is refused in one line, with exit status 2."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import pytest

from leyden.commands.catalogue import build_parser
from leyden.server.version import VERSION
from tests.commands.test_parser import parsers
from tests.commands.test_urls_and_files import CASE, refused
from tests.support.paths import KINDS, as_a_user, odd_path
from tests.support.served import Client

# Options that may have a path besides something else, and the text that gives one.
ALSO = {
    "leyden serve --overlay": "{}", "leyden table --overlay": "{}", "leyden receiver-check --overlay": "{}",
    "leyden serve --network": "{}", "leyden api --data": "@{}",
}  # fmt: skip
# Options whose help speaks of files, and which are no paths.
NONE = {
    "leyden serve --durability", "leyden api path", "leyden listen url", "leyden conformance --format",
    "leyden fuzz --format",
}  # fmt: skip
FILES = re.compile(r"\b(?:files?|director(?:y|ies)|folders?|paths?)\b|FILE", re.IGNORECASE)
# What a command needs besides.
NEEDS = {
    "leyden serve": ["--port", "0"],
    "leyden receiver-check": ["http://127.0.0.1:1/hook"],
    "leyden fuzz": ["--examples", "1", "--engines", "conformance"],
    "leyden api": ["POST", "/v0/charges"],
}  # fmt: skip
NEEDS_OF_OPTION = {
    "leyden conformance --adapter": ["http://127.0.0.1:1"],
    "leyden fuzz --adapter": ["http://127.0.0.1:1"],
    "leyden replay --adapter": ["{case}", "http://127.0.0.1:1"],
    "leyden replay --spec": ["{case}"],
}
AT_THE_END = {"leyden client-check": ["--", "true"], "leyden adapter": ["http://127.0.0.1:1"]}


class PathOption(NamedTuple):
    """An option or argument that takes a path, as its text `text`."""

    name: str
    prog: str
    action: argparse.Action
    text: str

    def words(self, path: str, case: str) -> list[str]:
        """A command line with this path. `case` is the file of a case, for what needs one."""
        needs = [*NEEDS.get(self.prog, []), *(word.format(case=case) for word in NEEDS_OF_OPTION.get(self.name, []))]
        given = [*self.action.option_strings[-1:], self.text.format(path)]
        return [*self.prog.split()[1:], *needs, *given, *AT_THE_END.get(self.prog, [])]


def all_options() -> Iterator[tuple[str, str, argparse.Action]]:
    for parser in parsers(build_parser()):
        for action in parser._actions:
            if action.nargs != 0 and not isinstance(action, argparse._SubParsersAction):
                yield f"{parser.prog} {[action.dest, *action.option_strings][-1]}", parser.prog, action


OPTIONS = [
    PathOption(name, prog, action, ALSO.get(name, "{}"))
    for name, prog, action in all_options()
    if action.metavar in ("FILE", "DIR") or name in ALSO
]


@pytest.fixture
def case() -> Iterator[str]:
    """The file of a case that every user may read."""
    with NamedTemporaryFile("w", suffix=".case.json") as file:
        file.write(CASE % (VERSION, '"http://127.0.0.1:1"'))
        file.flush()
        Path(file.name).chmod(0o644)
        yield file.name


def test_every_option_that_speaks_of_files_is_a_path_or_known_to_be_none() -> None:
    known = {option.name for option in OPTIONS} | NONE
    assert [name for name, _, each in all_options() if name not in known and FILES.search(each.help or "")] == []
    assert known <= {name for name, _, _ in all_options()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name[7:])
def test_a_place_that_no_file_can_have_is_refused_in_one_line(
    option: PathOption,
    kind: str,
    server: Client,
    case: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LEYDEN_URL", server.url)
    is_program = option.action.dest in ("adapter", "new", "check", "call")
    path = odd_path(kind, tmp_path, ".py" if is_program else ".json")
    with as_a_user() if kind == "no permission" else nullcontext():
        text = refused(option.words(path, case), capsys)
    assert str(tmp_path) in text
