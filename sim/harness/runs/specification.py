"""The specification of a case: a JSON Patch (RFC 6902) from the packaged document to the one that the target served."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import orjson

from leyden.server.contract.json_pointer import child, split_pointer
from leyden.server.contract.load import load_contract
from leyden.server.contract.types import Contract
from leyden.world.config import packaged_contract

Patch = Sequence[Mapping[str, Any]]

PATCH_SCHEMA: dict[str, Any] = {
    "type": "array",
    "maxItems": 10_000,
    "items": {
        "type": "object",
        "properties": {
            "op": {"enum": ["add", "replace", "remove"]},
            "path": {"type": "string", "pattern": "^(/|$)"},
            "value": {},
        },
        "required": ["op", "path"],
        "additionalProperties": False,
    },
}


def document_hash(document: Any) -> str:
    """The SHA-256 of a document as JSON with sorted names."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def spec_hash(overlays: Sequence[str]) -> str:
    """The hash of the packaged specification with these overlays."""
    return document_hash(packaged_contract("charges", tuple(overlays)).document)


def patch_to(document: Any, overlays: Sequence[str]) -> list[dict[str, Any]]:
    """The JSON Patch from the packaged specification with these overlays to `document`; empty if they are equal."""
    return list(_differences(packaged_contract("charges", tuple(overlays)).document, document, ""))


def contract_of(overlays: Sequence[str], patch: Patch) -> Contract:
    """The compiled specification: the packaged one with these overlays, and then with the patch.

    Raises `ContractError` for a document that is no valid specification, `LookupError`, `TypeError` or `ValueError` for
    a patch that does not fit the packaged specification.
    """
    if not patch:
        return packaged_contract("charges", tuple(overlays))
    return _patched_contract(tuple(overlays), orjson.dumps(list(patch)))


@lru_cache(maxsize=4)
def _patched_contract(overlays: tuple[str, ...], patch: bytes) -> Contract:
    document = patched(packaged_contract("charges", overlays).document, orjson.loads(patch))
    return load_contract(document, known_as="charges.openapi.yaml")


def patched(base: Any, patch: Patch) -> Any:
    """A copy of `base` with the operations `add`, `replace` and `remove` of a JSON Patch applied.

    Raises `LookupError`, `TypeError` or `ValueError` for a path that does not exist.
    """
    root = {"": deepcopy(base)}
    for operation in patch:
        *parents, last = ["", *split_pointer(operation["path"])]
        place: Any = root
        for name in parents:
            place = place[_key(place, name)]
        if operation["op"] == "remove":
            del place[_key(place, last)]
        elif operation["op"] == "add" and isinstance(place, list):
            place.insert(len(place) if last == "-" else int(last), operation["value"])
        else:
            place[_key(place, last)] = operation["value"]
    return root[""]


def _differences(base: Any, document: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(base, Mapping) and isinstance(document, Mapping):
        for name in base:
            if name not in document:
                yield {"op": "remove", "path": child(path, name)}
        for name, value in document.items():
            place = child(path, name)
            if name in base:
                yield from _differences(base[name], value, place)
            else:
                yield {"op": "add", "path": place, "value": value}
    elif isinstance(base, list) and isinstance(document, list) and len(base) == len(document):
        for index, (one, other) in enumerate(zip(base, document, strict=True)):
            yield from _differences(one, other, child(path, index))
    elif type(base) is not type(document) or base != document:
        yield {"op": "replace", "path": path, "value": document}


def _key(place: Any, name: str) -> Any:
    return int(name) if isinstance(place, list) else name
