"""Mutation testing leaves out mutations without an effect, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="mutation testing needs the extra `mutation`")

from tests.mutation.mutants import mutants_of

SOURCE = """
from typing import cast

TEA = 5

def brew(given, raw):
    cups = cast("dict[str, int]", given)
    leaves = cast("Leaf", given)
    size = int.from_bytes(raw, "big")
    little = int.from_bytes(raw, "little")
    packed = size.to_bytes(8, "big")
    name = "tea".encode("ascii")
    kind = "ascii"
    if size > 5:
        raise ValueError("the pot is too small")
"""


@pytest.fixture
def changes(tmp_path: Path) -> list[tuple[str, str]]:
    (tmp_path / "tea.py").write_text(SOURCE)
    return [(mutant.was.strip(), mutant.now.strip()) for mutant in mutants_of(tmp_path, "tea.py")]


def test_texts_and_type_names_are_left_out(changes: list[tuple[str, str]]) -> None:
    assert not [now for was, now in changes if "pot" in was and "ValueError" not in was]
    assert not [was for was, _ in changes if was in ('"dict[str, int]"', '"Leaf"', "5 ", "TEA = 5")]
    assert ('cast("Leaf", given)', "cast(None, given)") not in changes
    assert ('cast("Leaf", given)', 'cast("Leaf", None)') in changes
    assert ('cast("Leaf", given)', "cast(given)") in changes
    assert ('raise ValueError("the pot is too small")', "x") not in changes
    assert ('ValueError("the pot is too small")', "ValueError(None)") in changes


def test_a_removed_default_argument_is_left_out(changes: list[tuple[str, str]]) -> None:
    assert ('int.from_bytes(raw, "big")', "int.from_bytes(raw, )") not in changes
    assert ('size.to_bytes(8, "big")', "size.to_bytes(8, )") not in changes
    assert ('int.from_bytes(raw, "little")', "int.from_bytes(raw, )") in changes
    assert ('int.from_bytes(raw, "big")', 'int.from_bytes("big")') in changes
    assert ('int.from_bytes(raw, "big")', "int.from_bytes(raw, None)") in changes
    assert ('"big"', '"BIG"') in changes


def test_a_codec_in_upper_case_is_left_out(changes: list[tuple[str, str]]) -> None:
    assert changes.count(('"ascii"', '"ASCII"')) == 1, "only where it is no name of a codec"
    assert changes.count(('"ascii"', '"XXasciiXX"')) == 2
    assert ('"tea"', '"TEA"') in changes


def test_every_other_mutation_is_there(changes: list[tuple[str, str]]) -> None:
    assert {("> 5", ">= 5"), ("5", "6"), ("8", "9")} <= set(changes)
