"""A cache of the parsed packaged documents beside the bytecode: parsing YAML takes a third of the start-up time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import orjson

_READER = Path(__file__).with_name("yaml_loader.py")


def packaged_document(file: Path, data: bytes) -> Any:
    """The document in `data`, read from `file`; from the cache if neither it nor the YAML loader has changed.

    Nothing is cached where Python writes no bytecode (`PYTHONDONTWRITEBYTECODE`, a read-only folder).
    Raises `ContractError` as `read_yaml` does.
    """
    cache_file = Path(cache_from_source(str(file))).with_suffix(".json")
    # The hash of the document and of the loader.
    name = hashlib.sha256(data + _READER.read_bytes()).hexdigest()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = orjson.loads(cache_file.read_bytes())
        if kept["of"] == name:
            return kept["document"]
    from leyden.server.contract.document.yaml_loader import read_yaml

    document = read_yaml(data, file.name)
    if not sys.dont_write_bytecode:
        # Errors are ignored: the cache is only for speed.
        with contextlib.suppress(OSError, TypeError):
            cache_file.parent.mkdir(exist_ok=True)
            draft = cache_file.with_suffix(f".{os.getpid()}")
            draft.write_bytes(orjson.dumps({"of": name, "document": document}))
            draft.replace(cache_file)
    return document
