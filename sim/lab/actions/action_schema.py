"""The JSON Schema of an action log: the kinds of actions, and the facts of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema_rs import Draft202012Validator

from leyden.errors import ForkError
from leyden.json_files import DocumentKind

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}
_INTEGER = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_INTEGER_OR_NULL = {"type": ["integer", "null"], "minimum": -(2**63), "maximum": 2**63 - 1}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
_OBJECT = {"type": "object"}
_LIST = {"type": "array"}
_TEXTS = {"type": "array", "items": _TEXT}
_PAIRS = {"type": ["array", "null"], "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}}
_SPAN_MS = {"type": "integer", "minimum": -(10**15), "maximum": 10**15}
_INSTANT_MS = {"type": "integer", "minimum": 0, "maximum": 253_402_300_799_999}

# The calls of a sandbox and of its network that an action `call` may be. The name of a node is a literal.
NODE_METHODS = ("drain", "rebalance", "open_channel", "offline")
NETWORK_METHODS = ("intercept", "remove", "close_channel")

_PAYMENT = {
    "payer": _TEXT, "request": _TEXT, "amount": _INTEGER_OR_NULL, "outcome": _TEXT, "delay_ms": _SPAN_MS, "id?": _TEXT,
}  # fmt: skip
# The facts of an action by its kind; a name that ends with `?` may be left out.
_FACTS: Mapping[str, Mapping[str, Any]] = {
    "request": {
        "method": _TEXT, "target": _TEXT, "headers": _PAIRS, "body": _TEXT, "status": _INTEGER, "id?": _TEXT,
    },
    "pay": {**_PAYMENT, "charge": _TEXT_OR_NULL},
    "scan": {**_PAYMENT, "static": _TEXT_OR_NULL, "comment?": _TEXT},
    "receiver": {
        "name": _TEXT, "method": {"enum": ["answers", "always", "when", "reset_script", "use_secret"]},
        "args": _LIST, "named": _OBJECT,
    },
    "reseed": {"seed": _INTEGER},
    "advance": {"by_ms": _SPAN_MS},
    "advance_to": {"to_ms": _INSTANT_MS},
    "idle": {},
    "next_event": {},
    "events": {"count": {**_COUNT, "minimum": 0}},
    "step": {},
    "call": {"call": {"type": "string", "maxLength": 1000}, "args": _LIST, "named": _OBJECT, "id?": _TEXT},
    "fault": {"method": {"enum": ["add", "clear"]}, "args": _LIST, "named": _OBJECT},
    "service_fault": {"method": {"enum": ["add", "clear"]}, "args": _LIST, "named": _OBJECT},
    "payer": {"method": {"enum": ["add", "clear"]}, "args": _LIST, "named": _OBJECT},
    "network": {"open": _FLAG},
    "response": {
        "delivery": _TEXT, "attempt": _COUNT, "copy": {"type": ["array", "null"]}, "status": _INTEGER_OR_NULL,
        "headers": {"type": "object", "additionalProperties": _TEXT}, "body": _TEXT, "error": _TEXT_OR_NULL,
        "note": _TEXT, "latency_ms": _INTEGER, "time_s": _INTEGER,
    },
    "stop": {"traffic": _TEXT},
}  # fmt: skip


def _action(kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "if": {"prefixItems": [{"const": kind}]},
        "then": {
            "prefixItems": [
                True,
                {
                    "properties": {name.rstrip("?"): schema for name, schema in facts.items()},
                    "propertyNames": {"enum": [name.rstrip("?") for name in facts]},
                    "required": [name for name in facts if not name.endswith("?")],
                },
            ]
        },
    }


ACTION_LOG_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["arguments", "actions", "gap"],
    "properties": {
        "gap": _TEXT,
        "arguments": {
            "type": "object",
            "properties": {
                "seed": _INTEGER, "start": _TEXT, "spec": _TEXT, "overlays": _TEXTS, "network": _TEXT, "api_key": _TEXT,
                "webhook_secret": _TEXT,
            },
            "additionalProperties": False,
        },
        "actions": {
            "type": "array",
            "items": {
                "type": "array",
                "prefixItems": [{"enum": list(_FACTS)}, _OBJECT, _FLAG],
                "minItems": 3,
                "maxItems": 3,
                "allOf": [_action(kind, facts) for kind, facts in _FACTS.items()],
            },
        },
    },
}  # fmt: skip

SAVED_ACTION_LOG = DocumentKind(
    "action log of a saved sandbox",
    ForkError,
    "give what `snapshot()` returned, or a file that `save()` wrote",
    Draft202012Validator(ACTION_LOG_SCHEMA),
    1_000_000_000,
)
