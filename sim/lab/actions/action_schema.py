"""The JSON Schema of an action log: the kinds of actions, and the facts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

from jsonschema_rs import Draft202012Validator

from leyden.arguments import ALL_MSAT, MAX_COUNT, MAX_SPAN_MS
from leyden.callbacks.faults.kinds import FaultSpec
from leyden.callbacks.mutations import SIGNATURE, STAMP
from leyden.callbacks.replies import REPLY_SCHEMA, WORDS
from leyden.errors import ForkError
from leyden.files.json_files import DocumentKind
from leyden.lightning.payer.payer_rules import PayerSpec
from leyden.server.contract.schema_errors import with_short_alternatives
from leyden.server.timestamps import MAX_INSTANT_MS
from leyden.service_faults.kinds import ServiceFaultSpec
from leyden.world.persistence.field_schemas import INSTANT, integer_schema
from leyden.world.time.instant_texts import FORMATS, INSTANT_TEXT, START_TEXT

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}
_SEED = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MAX_COUNT}
_ANY_COUNT = {**_COUNT, "minimum": 0}
_COUNT_OR_NULL = {**_COUNT, "type": ["integer", "null"]}
_MSAT_OR_NULL = {"type": ["integer", "null"], "minimum": 0, "maximum": ALL_MSAT}
_STATUS = {"type": "integer", "minimum": 0, "maximum": 999}  # 0: the response was lost
# Any JSON value, with numbers of at most 64 bits.
_VALUE = {"$ref": "#/$defs/value"}
_NUMBER = {"minimum": -(2**63), "maximum": 2**63 - 1}
_OBJECT = {"type": "object", "additionalProperties": _VALUE}
_LIST = {"type": "array", "items": _VALUE}
_TEXTS = {"type": "array", "items": _TEXT}
_PAIRS = {"type": ["array", "null"], "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}}
_SPAN_MS = {"type": "integer", "minimum": 0, "maximum": MAX_SPAN_MS}

# The calls of a sandbox and of its network that an action `call` may be. The name of a node is a literal.
NODE_METHODS = ("drain", "rebalance", "open_channel", "offline")
NETWORK_METHODS = ("intercept", "remove", "close_channel")


def _spec_fields(spec: type, **more: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are the fields of a rule: each as its type says, or as in `more`."""
    fields = {name: _argument(name, hint) for name, hint in get_type_hints(spec).items() if name != "kind"}
    return {"type": "object", "properties": fields | more, "additionalProperties": _VALUE}


def _argument(name: str, hint: Any) -> dict[str, Any]:
    return {"anyOf": [_PLAIN.get(each) or integer_schema(name) for each in get_args(hint) or (hint,)]}


_PLAIN: Mapping[Any, Mapping[str, Any]] = {
    str: _TEXT, bool: _FLAG, float: {"type": "number", **_NUMBER}, type(None): {"type": "null"}, Sequence[str]: _TEXTS,
}  # fmt: skip
_PAYMENT = {
    "payer": _TEXT, "request": _TEXT, "amount": _MSAT_OR_NULL, "outcome": _TEXT, "delay_ms": _SPAN_MS, "id?": _TEXT,
}  # fmt: skip
_NO_ARGUMENTS = {"type": "array", "maxItems": 0}
_ONE_TEXT = {"type": "array", "items": _TEXT, "maxItems": 1}
# The words for a reply are read in capitals, too.
_REPLY = {"anyOf": [*REPLY_SCHEMA["anyOf"], {"type": "string", "pattern": f"^(?i:{'|'.join(WORDS)})$"}]}
_RECEIVER_ARGUMENTS = {
    "answers": {"type": "array", "items": {"type": "array", "items": _REPLY}, "minItems": 1, "maxItems": 1},
    "always": {"type": "array", "items": _REPLY, "minItems": 1, "maxItems": 1},
    "when": {"type": "array", "items": _REPLY, "minItems": 1, "maxItems": 1},
    "behaves": _NO_ARGUMENTS,
    "reset_script": _NO_ARGUMENTS,
    "use_secret": {"type": "array", "items": _TEXT_OR_NULL, "minItems": 1, "maxItems": 1},
}
# The facts of an action by its kind; a name that ends with `?` may be left out.
_FACTS: Mapping[str, Mapping[str, Any]] = {
    "request": {
        "method": _TEXT, "target": _TEXT, "headers": _PAIRS, "body": _TEXT, "status": _STATUS, "id?": _TEXT,
        "refused?": _FLAG,
    },
    "pay": {**_PAYMENT, "charge": _TEXT_OR_NULL, "late?": _FLAG},
    "scan": {**_PAYMENT, "static": _TEXT_OR_NULL, "comment?": _TEXT},
    "receiver": {
        "name": _TEXT, "method": {"enum": list(_RECEIVER_ARGUMENTS)}, "args": _LIST,
        "named": {**_OBJECT, "properties": {"attempt": _COUNT_OR_NULL, "count": _COUNT_OR_NULL, "fails_with": _REPLY}},
    },
    "reseed": {"seed": _SEED},
    "advance": {"by_ms": {**_SPAN_MS, "maximum": MAX_INSTANT_MS}},
    "advance_to": {"to_ms": INSTANT},
    "idle": {},
    "next_event": {},
    "events": {"count": _ANY_COUNT},
    "step": {},
    "call": {
        "call": {"type": "string", "maxLength": 1000}, "args": _LIST,
        "named": {**_OBJECT, "properties": {"count": _COUNT_OR_NULL, "times": _COUNT_OR_NULL}}, "id?": _TEXT,
    },
    "fault": {"method": {"enum": ["add", "clear"]}, "args": _ONE_TEXT, "named": _spec_fields(FaultSpec)},
    "service_fault": {
        "method": {"enum": ["add", "clear"]}, "args": _ONE_TEXT,
        "named": _spec_fields(ServiceFaultSpec, until=INSTANT_TEXT),
    },
    "payer": {"method": {"enum": ["add", "clear"]}, "args": _ONE_TEXT, "named": _spec_fields(PayerSpec)},
    "network": {"open": _FLAG},
    "response": {
        "delivery": _TEXT, "attempt": _COUNT,
        "copy": {"type": ["array", "null"], "prefixItems": [_TEXT, _ANY_COUNT], "minItems": 2, "maxItems": 2},
        "status": {**_STATUS, "type": ["integer", "null"]},
        "headers": {"type": "object", "additionalProperties": _TEXT}, "body": _TEXT, "error": _TEXT_OR_NULL,
        "note": _TEXT, "latency_ms": _SPAN_MS, "time_s": {"type": "integer", **_NUMBER},
        "signed_s?": {"type": ["integer", "null"], **_NUMBER},
        "signed?": {"type": "object", "properties": {STAMP: _TEXT, SIGNATURE: _TEXT}, "additionalProperties": False},
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


# The arguments of a method of a receiver, by its name.
_RECEIVER_METHODS = [
    {
        "if": {"prefixItems": [{"const": "receiver"}, {"properties": {"method": {"const": method}}}]},
        "then": {"prefixItems": [True, {"properties": {"args": schema}}]},
    }
    for method, schema in _RECEIVER_ARGUMENTS.items()
]

ACTION_LOG_SCHEMA: dict[str, Any] = {
    "$defs": {"value": {**_NUMBER, "items": _VALUE, "additionalProperties": _VALUE}},
    "type": "object",
    "required": ["arguments", "actions", "gap"],
    "properties": {
        "gap": _TEXT,
        "arguments": {
            "type": "object",
            "properties": {
                "seed": _SEED, "start": START_TEXT, "spec": _TEXT, "overlays": _TEXTS, "network": _TEXT,
                "api_key": _TEXT, "webhook_secret": _TEXT,
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
                "allOf": [*[_action(kind, facts) for kind, facts in _FACTS.items()], *_RECEIVER_METHODS],
            },
        },
    },
}  # fmt: skip

SAVED_ACTION_LOG = DocumentKind(
    "action log of a saved sandbox",
    ForkError,
    "give what `snapshot()` returned, or a file that `save()` wrote",
    Draft202012Validator(with_short_alternatives(ACTION_LOG_SCHEMA), formats=FORMATS, validate_formats=True),
    1_000_000_000,
)
