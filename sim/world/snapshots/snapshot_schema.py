"""The JSON Schema of a saved sandbox, except of its action log: the parts that it has, and their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from jsonschema_rs import Draft4Validator

from leyden.arguments import MAX_COUNT
from leyden.errors import ForkError
from leyden.files.json_files import DocumentKind
from leyden.lightning.payer.network_rows import NetworkRow
from leyden.server.callbacks.in_flight import FORMER_KEYS
from leyden.server.contract.schema_errors import with_short_alternatives
from leyden.world.persistence.field_schemas import COUNTER, INSTANT, or_null
from leyden.world.persistence.row_schemas import row_schemas, schema_of
from leyden.world.persistence.world_state import ConfigRow, StateRow

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
_SEED = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


def _object(members: Mapping[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in members if name not in optional]
    # Draft 4 permits no empty list of required names.
    return {"type": "object", "properties": members} | ({"required": required} if required else {})


def _list(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _tuple(*items: Any) -> dict[str, Any]:
    return {"type": "array", "items": list(items), "minItems": len(items), "maxItems": len(items)}


def _table(row: Mapping[str, Any]) -> dict[str, Any]:
    return _object({"exists": _FLAG, "next_id": or_null(COUNTER), "rows": _list(_tuple(COUNTER, row))})


# What a directory has, too.
_CONFIG_ROW, _STATE_ROW = schema_of(ConfigRow)["properties"], schema_of(StateRow)["properties"]
_CONFIG = {
    "seed": _CONFIG_ROW["seed"],
    "given_seed": or_null(_CONFIG_ROW["given_seed"]),
    "start_ms": _CONFIG_ROW["start_ms"],
    "run": _CONFIG_ROW["run"],
    "api_key": {"type": "string", "pattern": "^[!-~]([ -~]{0,198}[!-~])?$"},
    "project": _TEXT,
    "keep": or_null(_COUNT),
    "mock_unbound": _FLAG,
    "control": _FLAG,
    "network": {"type": ["string", "object"]},
    "overlays": _list(_TEXT),
    "spec": {"type": ["object", "null"]},
}
_IN_FLIGHT = {
    "queue": _list(_TEXT),
    "attempts": {"type": "object", "additionalProperties": COUNTER},
    "disabled": _list(_tuple(_TEXT, _TEXT)),
}
_FORMER_IN_FLIGHT = {former: _IN_FLIGHT[name] for former, name in FORMER_KEYS.items()}
_ENTRY = _tuple(COUNTER, INSTANT, _TEXT, _TEXT, {"type": "object"})

# In Draft 4 of JSON Schema 1.0 is no integer.
SNAPSHOT_SCHEMA = _object(
    {
        "leyden": or_null(_TEXT),
        "label": _TEXT,
        "config": _object(_CONFIG, optional=("run",)),
        "tables": {
            "type": "object",
            "properties": {name: _table(row) for name, row in row_schemas().items()},
            "additionalProperties": _table({"type": "object"}),
        },
        "journal": _object(
            {
                "length": COUNTER,
                "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "since": INSTANT,
                "entries": _list(_ENTRY),
            },
            optional=("since",),
        ),
        "network": or_null(schema_of(NetworkRow)),
        "clock": _object(
            {
                "now": _STATE_ROW["now"],
                "sequence": COUNTER,
                "timers": _list(_tuple(INSTANT, _COUNT, _COUNT, _TEXT, _TEXT)),
            }
        ),
        "reseeds": _list(_SEED),
        "streams": _STATE_ROW["streams"],
        "outbox": {"anyOf": [_object(_IN_FLIGHT), _object(_FORMER_IN_FLIGHT)]},
        "requests": COUNTER,
    },
    optional=("leyden", "network"),
)

MAX_MEMBERS = 200_000
_HOLDERS = (dict, list, tuple)
SAVED_SANDBOX = DocumentKind(
    "saved sandbox",
    ForkError,
    "give what `snapshot()` returned, or a file that `save()` wrote",
    Draft4Validator(with_short_alternatives(SNAPSHOT_SCHEMA)),
    1_000_000_000,
)


def check_saved_sandbox(snapshot: Mapping[str, Any], where: str) -> None:
    """Raise `ForkError` for a snapshot that the schema does not permit, or with a value that cannot be shown or saved
    again: an integer of more than 64 bits, a text that is not UTF-8. An object has at most `MAX_MEMBERS`: to validate
    more, and to name what is wrong with them, would let nobody else work for seconds."""
    if (members := _most_members(snapshot)) > MAX_MEMBERS:
        raise SAVED_SANDBOX.refusal(where, f"an object has {members} members, and at most {MAX_MEMBERS} are read")
    SAVED_SANDBOX.check(snapshot, where)
    for name in SNAPSHOT_SCHEMA["properties"]:  # the action log has its own checks
        found = _not_writable(snapshot.get(name), f"/{name}")
        if found is not None:
            raise SAVED_SANDBOX.refusal(where, f"{found[0][:100]}: {found[1]}")


def _most_members(snapshot: Any) -> int:
    """The largest number of members of an object in a snapshot."""
    most, waiting = 0, [snapshot]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            most = max(most, len(value))
            waiting.extend(one for one in value.values() if isinstance(one, _HOLDERS))
        else:
            waiting.extend(one for one in value if isinstance(one, _HOLDERS))
    return most


def _not_writable(value: Any, place: str) -> tuple[str, str] | None:
    """The place of the first value that cannot be written as JSON, and why it cannot."""
    try:
        orjson.dumps(value)
        return None
    except TypeError as error:
        why = str(error)
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    parts = (_not_writable(member, f"{place}/{key}") for key, member in members)
    return next((found for found in parts if found is not None), (place, why))
