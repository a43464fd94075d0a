"""The JSON Schema of a saved sandbox, except of its action log: the parts that it has, and their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema_rs import Draft202012Validator

from leyden.errors import ForkError
from leyden.json_files import DocumentKind

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_SEED = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
# An instant of the years 1970 to 9999, in ms.
INSTANT = {"type": "integer", "minimum": 0, "maximum": 253_402_300_799_999}


def _object(members: Mapping[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": [name for name in members if name not in optional]}


def _list(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _tuple(*items: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_CONFIG = {
    "seed": _SEED,
    "given_seed": _or_null(_SEED),
    "start_ms": INSTANT,
    "api_key": _TEXT,
    "project": _TEXT,
    "keep": _or_null(_COUNT),
    "mock_unbound": _FLAG,
    "control": _FLAG,
    "network": {"type": ["string", "object"]},
    "overlays": _list(_TEXT),
    "spec": {"type": ["object", "null"]},
}
_TABLE = {"exists": _FLAG, "next_id": _or_null(_COUNT), "rows": _list(_tuple(_COUNT, {"type": "object"}))}
_ENTRY = _tuple(_COUNT, INSTANT, _TEXT, _TEXT, {"type": "object"})

SNAPSHOT_SCHEMA = _object(
    {
        "leyden": _or_null(_TEXT),
        "label": _TEXT,
        "config": _object(_CONFIG),
        "tables": {"type": "object", "additionalProperties": _object(_TABLE)},
        "journal": _object(
            {"length": _COUNT, "hash": {"type": "string", "pattern": "^[0-9a-f]*$"}, "entries": _list(_ENTRY)}
        ),
        "network": {"type": ["object", "null"]},
        "clock": _object(
            {"now": INSTANT, "sequence": _COUNT, "timers": _list(_tuple(INSTANT, _COUNT, _COUNT, _TEXT, _TEXT))}
        ),
        "reseeds": _list(_SEED),
        "streams": {"type": "object", "additionalProperties": _COUNT},
        "outbox": {"type": "object"},
        "requests": _COUNT,
    },
    optional=("leyden", "network"),
)

SAVED_SANDBOX = DocumentKind(
    "saved sandbox",
    ForkError,
    "give what `snapshot()` returned, or a file that `save()` wrote",
    Draft202012Validator(SNAPSHOT_SCHEMA),
    1_000_000_000,
)
