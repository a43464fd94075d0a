"""A cache of the packaged documents beside the bytecode: a start neither parses nor checks what has not changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

# What was parsed in this process, as JSON by its hash, where nothing is cached in files.
_PARSED: dict[str, bytes] = {}
_READER = Path(__file__).with_name("yaml_loader.py")
_CHECKERS = Path(__file__).parent.parent


class PackagedDocument:
    """The document in `data`, read from `file`; from the cache if neither it nor the YAML loader has changed.

    No file is written where Python writes no bytecode (`PYTHONDONTWRITEBYTECODE`, a read-only folder): there a document
    is parsed once in a process.
    Raises `ContractError` as `read_yaml` does.
    """

    def __init__(self, file: Path, data: bytes) -> None:
        self._cache_file = Path(cache_from_source(str(file))).with_suffix(".json")
        # The hash of the document and of the loader.
        self._name = hashlib.sha256(data + _READER.read_bytes()).hexdigest()
        self._checked_by: Any = ""
        self.content: Any
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            kept = orjson.loads(self._cache_file.read_bytes())
            if kept["of"] == self._name:
                self.content = kept["document"]
                self._checked_by = kept["checkedBy"]
                return
        if self._name in _PARSED:
            self.content = orjson.loads(_PARSED[self._name])
            return
        from leyden.server.contract.document.yaml_loader import read_yaml

        self.content = read_yaml(data, file.name)
        self._write()

    def was_checked(self, checker: str) -> bool:
        """Whether the document has passed the checks of `checker`, a hash of `checker_hash`."""
        return bool(self._checked_by == checker)

    def keep_checked(self, checker: str) -> None:
        """Note in the cache that the document, which must be unchanged, has passed the checks of `checker`."""
        self._checked_by = checker
        self._write()

    def _write(self) -> None:
        if sys.dont_write_bytecode:
            with contextlib.suppress(TypeError):
                _PARSED.setdefault(self._name, orjson.dumps(self.content))
            return
        # Errors are ignored: the cache is only for speed.
        with contextlib.suppress(OSError, TypeError):
            self._cache_file.parent.mkdir(exist_ok=True)
            draft = self._cache_file.with_suffix(f".{os.getpid()}")
            draft.write_bytes(orjson.dumps({"of": self._name, "checkedBy": self._checked_by, "document": self.content}))
            draft.replace(self._cache_file)


def checker_hash(extensions: bytes) -> str:
    """A hash of everything that decides whether a document is valid: the code of the contract, the schema of the
    `x-` keys, and the version of the JSON Schema library, by its files' size and time as Python does for bytecode."""
    hashed = hashlib.sha256(extensions)
    library = Path(jsonschema_rs.__file__)
    for file in (*sorted(_CHECKERS.rglob("*.py")), library):
        found = file.stat()
        hashed.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return hashed.hexdigest()
