"""`run.json`: what a run wrote to its directory, with the rows and the checksum of each file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from jsonschema_rs import Draft202012Validator

from leyden.files.json_files import InputError, check_regular_file, shown
from leyden.files.written_files import create_private
from leyden.lab.parquet.layout import FORMAT, JOURNAL, MANIFEST, PORTIONED, part_name
from leyden.lab.table_rows import TABLES
from leyden.server.contract.schema_errors import first_error
from leyden.server.printable import quoted

_DIGEST_BYTES = 16
_NUMBER = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_STATES = {"type": "array", "items": _TEXT, "uniqueItems": True}
_CHECKSUM = {"type": "string", "pattern": f"^[0-9a-f]{{{2 * _DIGEST_BYTES}}}$"}
_MANIFEST = Draft202012Validator(
    {
        "required": ["seed", "start", "now", "world", "parts", "charges", "removed", "journal", "states"],
        "properties": {
            **dict.fromkeys(("seed", "charges", "removed", "journal"), _NUMBER),
            **dict.fromkeys(("start", "now", "world"), _TEXT),
            "parts": {**_NUMBER, "maximum": 1_000_000},
            "states": {
                "propertyNames": {"enum": list(TABLES)},
                "additionalProperties": {"type": "object", "additionalProperties": _STATES},
            },
            # Former versions wrote neither of the two.
            "files": {
                "additionalProperties": {
                    "type": "object",
                    "required": ["rows", "checksum"],
                    "properties": {"rows": _NUMBER, "checksum": _CHECKSUM},
                }
            },
            "checksum": _CHECKSUM,
        },
        "dependentRequired": {"files": ["checksum"], "checksum": ["files"]},
    }
)
_UNCHECKED = f"delete files and checksum from {MANIFEST} to read all files without checks"


def checksum_of(path: Path) -> str:
    """The checksum of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)).hexdigest()


def write_manifest(directory: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Write `run.json`, with its own checksum. Returns what it has."""
    found = {**found, "checksum": _own_checksum(found)}
    path = directory / MANIFEST
    unfinished = path.with_suffix(".tmp")
    create_private(unfinished)
    unfinished.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    unfinished.replace(path)
    return found


def read_manifest(directory: Path) -> dict[str, Any]:
    """The content of `run.json` of a directory. Raises `InputError` if it is missing, was not written by a run, or was
    changed since."""
    path = directory / MANIFEST
    check_regular_file(path)
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{directory} has no {MANIFEST}: give the directory of a run with spill=") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): give the directory of a run with spill=") from None
    numbers = ("parts", "charges", "removed", "journal")
    if not isinstance(found, dict) or not all(isinstance(found.get(name), int) for name in numbers):
        raise InputError(f"{path} is not of a run with spill=: give the directory of one")
    if found.get("format") != FORMAT or not isinstance(found.get("states"), dict):
        raise InputError(f"{path} has the format {quoted(found.get('format'))}: this version of Leyden reads {FORMAT}")
    fault = first_error(_MANIFEST, found)
    if fault is not None:
        place = "/".join(str(part) for part in fault.instance_path)
        raise InputError(f"{path} is not of a run with spill= (at {quoted(place)}): give the directory of one")
    if "checksum" in found:
        _check_own(path, found)
    return found


def check_file(manifest: dict[str, Any], directory: Path, name: str, rows: int) -> None:
    """Raise `InputError` for a file, by its name below the directory, that is not the one that the run wrote. It has
    this many rows."""
    files = manifest.get("files")
    if files is None:  # of a former version
        return
    path, written = directory / name, files[name]
    if rows != written["rows"]:
        why = f"it has {rows} rows, and the run wrote {written['rows']}"
    elif checksum_of(path) != written["checksum"]:
        why = "its checksum is another one"
    else:
        return
    raise InputError(
        f"{shown(path)} is not the file that the run wrote: {why}; restore it from a copy, or {_UNCHECKED}"
    )


def portion_names(parts: int) -> Iterator[str]:
    """The files of this many portions, by their names below the directory."""
    for table in (*PORTIONED, JOURNAL):
        yield from (f"{table}/{part_name(number)}" for number in range(1, parts + 1))


def _check_own(path: Path, found: dict[str, Any]) -> None:
    if found["checksum"] != _own_checksum(found):
        why = "its checksum is that of another content"
    elif missing := next((name for name in portion_names(found["parts"]) if name not in found["files"]), None):
        why = f"files has no {missing}"
    else:
        return
    raise InputError(f"{shown(path)} is not as the run wrote it: {why}; restore it from a copy, or {_UNCHECKED}")


def _own_checksum(found: dict[str, Any]) -> str:
    content = orjson.dumps({**found, "checksum": ""}, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
