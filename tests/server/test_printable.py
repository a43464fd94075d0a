"""Texts of a document reach a terminal and a log escaped: no name of a spec or an overlay moves the cursor or adds a
line."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.__main__ import main
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.docs.tables import all_tables
from leyden.server.errors import ContractError
from leyden.server.printable import cut, printable, printable_lines, quoted

HOSTILE = "red\x1b[31m\nFAKE LINE\r\x9b2J\u202e"
DOCUMENT = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all objects and texts of a document."""
    if isinstance(value, dict):
        yield path
        for name, child in value.items():
            yield from places(child, (*path, name))
    elif isinstance(value, list):
        for place, child in enumerate(value):
            yield from places(child, (*path, place))
    elif isinstance(value, str):
        yield path


PLACES = [path for path in places(DOCUMENT) if path]


def with_hostile(path: tuple[Any, ...]) -> Any:
    """The document with the hostile text as the value at a path, or as another name in the object there."""
    document = copy.deepcopy(DOCUMENT)
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    if isinstance(parent[path[-1]], dict):
        parent[path[-1]][HOSTILE] = {}
    else:
        parent[path[-1]] = HOSTILE
    return document


@given(st.sampled_from(PLACES))
def test_a_hostile_text_anywhere_in_a_spec_is_escaped(path: tuple[Any, ...]) -> None:
    try:
        printed = all_tables([load_contract(with_hostile(path), known_as="charges.openapi.yaml")])
    except ContractError as error:
        printed = str(error)
    assert all(line.isprintable() and not line.startswith("FAKE") for line in printed.split("\n"))


@pytest.mark.parametrize(
    "update", [r'{"x-delivery": {"red\u001b[31m": 1}}', r'{"schemas": {"a\nFAKE LINE\u001b[2J": {"type": 5}}}']
)
@pytest.mark.parametrize("target", ["$.components", "$.paths['/v0/charges'].post"])
def test_the_error_of_a_command_is_one_printable_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], update: str, target: str
) -> None:
    overlay = tmp_path / "hostile.overlay.yaml"
    overlay.write_text(
        f'overlay: 1.0.0\ninfo: {{title: "x", version: "1"}}\nactions:\n  - target: {target}\n    update: {update}\n'
    )
    assert main(["table", "--overlay", str(overlay)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("leyden table: ")
    assert printed.err.removesuffix("\n").isprintable()


@given(st.text())
def test_an_escaped_text_is_printable_and_escaping_it_again_changes_nothing(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    assert printable_lines(text).count("\n") == text.count("\n")
    assert all(line.isprintable() for line in printable_lines(text).split("\n"))


@given(st.text(max_size=200), st.integers(10, 100))
def test_what_is_cut_in_an_error_says_so(text: str, most: int) -> None:
    for shown in (cut(text, most), quoted(text, most)):
        whole = text if shown == cut(text, most) else printable(repr(text))
        assert shown == whole or (shown.endswith("...") and len(cut(text, most)) <= most)
    assert (cut(text, most) == text) == (len(text) <= most)
    assert quoted("a" * 200, 60) == "'" + "a" * 56 + "..."
