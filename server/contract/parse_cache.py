"""Keeps what a packaged document says beside it, as Python keeps its bytecode, so that the next start need not read
YAML: that takes a third of the time from nothing to a first answer."""

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
    """What the YAML in `data`, read from `file`, says: kept from last time if neither it nor our reader has changed.

    Where Python would write no bytecode (`PYTHONDONTWRITEBYTECODE`, a folder that is read-only), nothing is kept.
    Raises `ContractError` as `read_yaml` does.
    """
    place = Path(cache_from_source(str(file))).with_suffix(".json")
    # Of what was read and of what read it.
    name = hashlib.sha256(data + _READER.read_bytes()).hexdigest()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = orjson.loads(place.read_bytes())
        if kept["of"] == name:
            return kept["document"]
    from leyden.server.contract.yaml_loader import read_yaml

    document = read_yaml(data, file.name)
    if not sys.dont_write_bytecode:
        # Whatever stands in the way: it is only for speed.
        with contextlib.suppress(OSError, TypeError):
            place.parent.mkdir(exist_ok=True)
            draft = place.with_suffix(f".{os.getpid()}")
            draft.write_bytes(orjson.dumps({"of": name, "document": document}))
            draft.replace(place)
    return document
