"""The cache of a packaged document lies beside it and is never used when it is out of date."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from leyden.server.contract import load
from leyden.server.contract.document import parse_cache as kept
from leyden.server.contract.document import validate_document as validating
from leyden.server.errors import ContractError

WORDS = b"a: 1\nb: [on, 2030-01-01, 0x10, null]\n"
MEANING = {"a": 1, "b": ["on", "2030-01-01", 16, None]}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "small.openapi.yaml"


def packaged_document(file: Path, data: bytes) -> Any:
    return kept.PackagedDocument(file, data).content


def cache_files(file: Path) -> Path:
    [place] = file.parent.glob("__pycache__/*")
    return place


def test_the_second_load_needs_no_yaml_parser(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packaged_document(file, WORDS) == MEANING
    monkeypatch.setitem(sys.modules, "leyden.server.contract.document.yaml_loader", None)  # importing it would now fail
    assert packaged_document(file, WORDS) == MEANING
    assert list(packaged_document(file, WORDS)) == ["a", "b"]


def test_a_process_that_writes_no_bytecode_parses_a_document_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(kept, "_PARSED", {})
    first = packaged_document(file, WORDS)
    monkeypatch.setitem(sys.modules, "leyden.server.contract.document.yaml_loader", None)  # importing it would now fail
    first["a"] = 2  # as an overlay changes it
    assert packaged_document(file, WORDS) == MEANING
    assert list(file.parent.glob("__pycache__")) == []


def test_an_edited_document_is_parsed_again(file: Path) -> None:
    packaged_document(file, WORDS)
    assert packaged_document(file, b"a: 2") == {"a": 2}
    assert packaged_document(file, WORDS) == MEANING


def test_a_changed_parser_parses_again(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged_document(file, WORDS)
    place = cache_files(file)
    place.write_bytes(orjson.dumps({**orjson.loads(place.read_bytes()), "document": "from another reader"}))
    other = tmp_path / "other.py"
    other.write_text("# reads differently")
    monkeypatch.setattr(kept, "_READER", other)
    assert packaged_document(file, WORDS) == MEANING


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"[]", b'{"of": 1}', b"\xff\x00"])
def test_a_damaged_cache_is_ignored_and_replaced(file: Path, damage: bytes) -> None:
    packaged_document(file, WORDS)
    place = cache_files(file)
    sound = place.read_bytes()
    place.write_bytes(damage)
    assert packaged_document(file, WORDS) == MEANING
    assert place.read_bytes() == sound


def test_nothing_is_cached_where_no_bytecode_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert packaged_document(file, WORDS) == MEANING
    assert list(file.parent.iterdir()) == []


def test_a_read_only_folder_is_no_error(file: Path) -> None:
    (file.parent / "__pycache__").write_text("a file where the folder should be")
    assert packaged_document(file, WORDS) == MEANING


def test_a_refused_document_is_not_cached(file: Path) -> None:
    with pytest.raises(ContractError, match="stands twice"):
        packaged_document(file, b"a: 1\na: 2")
    assert list(file.parent.iterdir()) == []


# Checks that a cached document has passed


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder of the packaged documents, in their place, after its first use."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "specs"
    shutil.copytree(Path(load._FOLDER), folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(load, "_FOLDER", folder)
    load.load_contract()
    return folder


def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The documents that are validated from now on."""
    names: list[str] = []
    validate = validating.validate_document

    def observed(document: Any, root: str, extensions: Any) -> Any:
        names.append(root)
        return validate(document, root, extensions)

    monkeypatch.setattr(validating, "validate_document", observed)
    return names


def test_an_unchanged_document_is_not_checked_again(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = checked(monkeypatch)
    contract = load.load_contract()
    assert names == []
    rule = contract.schemas["Problem"]
    assert not rule.validator.is_valid({})
    assert [error.message for error in rule.validator.iter_errors({})]


def test_a_checked_and_an_unchecked_document_give_the_same_contract(specs: Path) -> None:
    cached = load.load_contract()
    fresh = load.load_contract(cached.document, known_as="charges.openapi.yaml")
    assert cached.lifecycles == fresh.lifecycles
    assert list(cached.operations) == list(fresh.operations)
    for name, operation in fresh.operations.items():
        assert str(cached.operations[name]._replace(body=None, parameters=(), responses={}, callbacks=())) == str(
            operation._replace(body=None, parameters=(), responses={}, callbacks=())
        )
        assert list(cached.operations[name].responses) == list(operation.responses)
    for name, rule in fresh.schemas.items():
        assert (cached.schemas[name].schema, cached.schemas[name].integers) == (rule.schema, rule.integers)


def test_an_edited_document_is_checked(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = specs / "charges.openapi.yaml"
    file.write_text(file.read_text().replace("x-lifecycle:", "x-livecycle:", 1))
    with pytest.raises(ContractError, match="x-livecycle"):
        load.load_contract()
    with pytest.raises(ContractError, match="x-livecycle"):  # what was refused is never kept as checked
        load.load_contract()


def test_a_document_with_an_overlay_is_checked(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = checked(monkeypatch)
    load.load_contract(overlays=["strict"])
    load.load_contract(overlays=["strict"])
    assert names == ["charges.openapi.yaml#"] * 2


def test_changed_checks_are_made_again(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = checked(monkeypatch)
    schema = specs / "extensions.schema.json"
    schema.write_text(schema.read_text() + "\n")
    load.load_contract()
    assert names == ["charges.openapi.yaml#"]
    library = specs / "library.py"
    library.write_text("# another version")
    monkeypatch.setattr(kept.jsonschema_rs, "__file__", str(library))
    load.load_contract()
    assert names == ["charges.openapi.yaml#"] * 2
    checkers = specs / "checkers"
    checkers.mkdir()
    monkeypatch.setattr(kept, "_CHECKERS", checkers)
    load.load_contract()
    assert names == ["charges.openapi.yaml#"] * 3
    load.load_contract()
    assert names == ["charges.openapi.yaml#"] * 3
