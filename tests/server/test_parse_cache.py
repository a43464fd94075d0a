"""The parse cache lies beside a packaged document and is never used when it is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
import pytest

from leyden.server.contract.document import parse_cache as kept
from leyden.server.errors import ContractError

WORDS = b"a: 1\nb: [on, 2030-01-01, 0x10, null]\n"
MEANING = {"a": 1, "b": ["on", "2030-01-01", 16, None]}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "small.openapi.yaml"


def cache_files(file: Path) -> Path:
    [place] = file.parent.glob("__pycache__/*")
    return place


def test_the_second_load_needs_no_yaml_parser(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.packaged_document(file, WORDS) == MEANING
    monkeypatch.setitem(sys.modules, "leyden.server.contract.document.yaml_loader", None)  # importing it would now fail
    assert kept.packaged_document(file, WORDS) == MEANING
    assert list(kept.packaged_document(file, WORDS)) == ["a", "b"]


def test_an_edited_document_is_parsed_again(file: Path) -> None:
    kept.packaged_document(file, WORDS)
    assert kept.packaged_document(file, b"a: 2") == {"a": 2}
    assert kept.packaged_document(file, WORDS) == MEANING


def test_a_changed_parser_parses_again(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept.packaged_document(file, WORDS)
    place = cache_files(file)
    place.write_bytes(orjson.dumps({**orjson.loads(place.read_bytes()), "document": "from another reader"}))
    other = tmp_path / "other.py"
    other.write_text("# reads differently")
    monkeypatch.setattr(kept, "_READER", other)
    assert kept.packaged_document(file, WORDS) == MEANING


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"[]", b'{"of": 1}', b"\xff\x00"])
def test_a_damaged_cache_is_ignored_and_replaced(file: Path, damage: bytes) -> None:
    kept.packaged_document(file, WORDS)
    place = cache_files(file)
    sound = place.read_bytes()
    place.write_bytes(damage)
    assert kept.packaged_document(file, WORDS) == MEANING
    assert place.read_bytes() == sound


def test_nothing_is_cached_where_no_bytecode_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert kept.packaged_document(file, WORDS) == MEANING
    assert list(file.parent.iterdir()) == []


def test_a_read_only_folder_is_no_error(file: Path) -> None:
    (file.parent / "__pycache__").write_text("a file where the folder should be")
    assert kept.packaged_document(file, WORDS) == MEANING


def test_a_refused_document_is_not_cached(file: Path) -> None:
    with pytest.raises(ContractError, match="stands twice"):
        kept.packaged_document(file, b"a: 1\na: 2")
    assert list(file.parent.iterdir()) == []
