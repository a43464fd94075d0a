"""The JSON Schema of a case file: which members a case and each of its steps have, and of which types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema_rs import Draft202012Validator

from leyden.arguments import MAX_COUNT
from leyden.callbacks.replies import REPLY_SCHEMA
from leyden.harness.checks.violations import CHECKS
from leyden.harness.control.host import NO_RESPONSE
from leyden.harness.control.list_checks import CHECKS as LIST_CHECKS
from leyden.harness.control.list_checks import PLACES
from leyden.harness.control.pending_checks import PENDING_WAYS
from leyden.harness.control.refusal_checks import MISTAKES
from leyden.harness.control.request_checks import AMOUNTS, FORMS
from leyden.harness.control.search_checks import COUNTS, KINDS
from leyden.harness.control.state_checks import WAYS
from leyden.harness.control.store_checks import COMPACTIONS, ENDINGS, POLICIES
from leyden.harness.control.whole.apart_checks import APART_WAYS
from leyden.harness.control.whole.copy_checks import COPY_CHECKS
from leyden.harness.control.whole.directory_checks import CUTS
from leyden.harness.control.whole.late_checks import LATE_WAYS
from leyden.harness.control.whole.number_checks import NUMBER_WAYS
from leyden.harness.control.whole.refused_commits import FULL, LEFT
from leyden.harness.control.whole.repeated_checks import REPEATED
from leyden.harness.generators.odd_requests import ODD_REQUESTS
from leyden.harness.model.faults import FAULTS
from leyden.harness.model.requests import OPERATIONS
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.runs.specification import PATCH_SCHEMA
from leyden.harness.targets.disk import CALLS, FAILURES
from leyden.harness.targets.hosted import ENDS
from leyden.harness.targets.target import RESTARTS, TARGET_KINDS
from leyden.lightning.payer.payment_scripts import OUTCOMES
from leyden.server.contract.schema_errors import with_short_alternatives
from leyden.world.time.instant_texts import FORMATS, START_TEXT

EVENTS = ("charge.completed", "charge.expired", "charge.error")
MAX_STEPS = 100_000
_MAX_MS = 10**15

_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}
_FLAG = {"type": "boolean"}
_MS = {"type": "integer", "minimum": -_MAX_MS, "maximum": _MAX_MS}
_OPERATION = {"enum": list(OPERATIONS)}
# Of either project: "own" and "second".
_BY: dict[str, Any] = {"by?": {"enum": ["own", "second"]}}
_KEY: dict[str, Any] = {"type": "string", "pattern": "^[ -~]*$"}
_CREATE = {"as": _TEXT, "body": _OBJECT, "idempotency_key?": _KEY, **_BY}

_TARGET = {"type": "string", "pattern": "^/[!-~]*$"}
_HEADERS = {
    "type": "array",
    "items": {
        "type": "array",
        "prefixItems": [
            {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"},
            {"type": "string", "pattern": "^[\\u0020-\\u007e\\u00a0-\\u00ff\\t]*$"},
        ],
        "minItems": 2,
        "maxItems": 2,
    },
}

_STEPS_WITHIN = {"type": "array", "items": {"$ref": "#/$defs/step"}}
_DRAW = {
    "type": "array",
    "items": {"type": "array", "prefixItems": [_TEXT, {"enum": list(PLACES)}, _TEXT], "minItems": 3, "maxItems": 3},
    "minItems": 1,
    "maxItems": 10,
}
_NAME = {"type": "string", "pattern": "^[A-Za-z]{1,80}$"}

# The members of a step by its `do`; a name that ends with `?` may be left out.
_STEPS: Mapping[str, Mapping[str, Any]] = {
    "create_charge": _CREATE,
    "create_static": _CREATE,
    "patch": {"static": _TEXT, "body": _OBJECT, **_BY},
    "get": {"what": _TEXT, **_BY},
    "list": {
        "of": {"enum": ["charges", "statics", "children"]},
        "static?": _TEXT,
        "query?": {
            "type": "object", "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 1_000}},
            "additionalProperties": {"type": ["string", "integer"]},
        },
        "between?": {
            "type": "object",
            "required": ["do"],
            "properties": {"do": {"enum": ["create_charge", "create_static", "restart"]}},
            "allOf": [{"$ref": "#/$defs/step"}],
        },
        **_BY,
    },
    "wallet": _BY,
    "pay_request": {"static": _TEXT, "address?": _FLAG},
    "invoice": {
        "static": _TEXT, "as": _TEXT, "amount?": {"type": ["string", "integer", "null"]}, "comment?": _TEXT,
        "twice?": _FLAG, "extra?": _FLAG,
    },
    "verify": {"charge": _TEXT, "static?": _TEXT},
    "pay": {
        "as": _TEXT, "charge": _TEXT, "outcome?": {"enum": list(OUTCOMES)}, "delay?": _MS,
        "amount?": {"type": ["integer", "null"], "minimum": -(10**18), "maximum": 10**18},
    },
    "settle": {"payment": _TEXT},
    "cancel": {"payment": _TEXT},
    "fail": {"charge": _TEXT},
    "advance": {
        "by?": _MS,
        "to?": {"type": "array", "prefixItems": [{"enum": ["expiry", "retry"]}, _TEXT], "minItems": 2, "maxItems": 2},
        "offset?": _MS,
        "how?": {"enum": ["python"]},
    },
    "receiver": {
        "host": {"type": "string", "pattern": "^[a-z0-9.-]{1,100}$"},
        "answers?": {"type": "array", "items": REPLY_SCHEMA},
        "always?": REPLY_SCHEMA,
    },
    "fault": {
        "kind": {"enum": [*FAULTS, "rate_limit"]}, "charge?": _TEXT, "event?": {"enum": list(EVENTS)},
        "operation?": _OPERATION, "delay?": _MS,
        "attempt?": {"type": "integer", "minimum": 1, "maximum": 1000},
        "count?": {"type": "integer", "minimum": 1, "maximum": 10**6},
        "value?": _TEXT, "names?": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 20},
    },
    "clear_faults": {"count?": {"type": "integer", "minimum": 1, "maximum": 10**6}},
    "rotate": {},
    "spare_key": {},
    "replay": {"charge": _TEXT, "offset?": _MS, "how?": {"enum": ["delay"]}},
    "reset": {},
    "compact": {},
    "restart": {"as?": _TEXT, "how?": {"enum": [*RESTARTS]},
                "delay?": {"type": "integer", "minimum": 0, "maximum": _MAX_MS},
                "options?": {"type": "array", "items": _TEXT, "maxItems": 10}},
    "crash": {"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1, "maxItems": 1}},
    "follow": {"what": _TEXT},
    "odd": {"operation": _OPERATION, "kind": _TEXT},  # one of the operation: `_odd`
    "request": {
        "method?": {"type": "string", "pattern": "^[A-Za-z]{1,20}$"}, "target": _TARGET, "headers?": _HEADERS,
        "body?": {}, "raw?": {"type": "string", "pattern": "^[\\u0000-\\u00ff]*$"}, "as?": _TEXT,
    },
    "fill": {
        "of": {"enum": ["charges", "statics", "children", "changes"]}, "as": _TEXT, "static?": _TEXT,
        "count": {"type": "integer", "minimum": 0, "maximum": 100_000}, "body?": _OBJECT,
        "idempotency_key?": _KEY, **_BY,
    },
    "pages": {"target": _TARGET, "headers?": _HEADERS, "steps?": _STEPS_WITHIN},
    "host": {"options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "disk?": _FLAG, "steps?": _STEPS_WITHIN},
    "send": {
        "method": {"type": "string", "pattern": "^[A-Z]{1,20}$"}, "target": _TARGET, "headers?": _HEADERS, "body?": {},
        "as?": _TEXT, "count?": {"type": "integer", "minimum": 0, "maximum": 100_000},
        "status?": {"anyOf": [{"const": NO_RESPONSE}, {"type": "integer", "minimum": 100, "maximum": 599}]},
    },
    "control_list": {
        "operation": _NAME, "check": {"enum": list(LIST_CHECKS)}, "target?": _TARGET, "draw?": _DRAW,
        "raw?": {"type": "string", "pattern": "^[!-~]*$"}, "kind?": _TEXT, "steps?": _STEPS_WITHIN,
        "count?": {"type": "integer", "minimum": 1, "maximum": 1_000},
        "query?": {"type": "object", "additionalProperties": _TEXT},
    },
    "control_search": {
        "kind": {"enum": list(KINDS)}, "draw": _DRAW, "count": {"type": "integer", "minimum": 1, "maximum": 100},
    },
    "control_replay": {
        "body?": _OBJECT, "draw?": _DRAW, "count?": {"type": "integer", "minimum": 1, "maximum": 200},
        "delay?": {"type": "integer", "minimum": 0, "maximum": _MAX_MS}, "how?": {"enum": ["at", "delay"]},
        "every?": {"type": "integer", "minimum": 1, "maximum": 1_000},
    },
    "control_unsent": {
        "check": {"enum": ["unknown", "in flight"]}, "count": {"type": "integer", "minimum": 1, "maximum": 100},
        "every": {"type": "integer", "minimum": 1, "maximum": 101}, "how?": {"enum": ["at", "delay"]},
    },
    "control_field": {"operation": _NAME, "kind": _TEXT, "body": _OBJECT, "target?": _TARGET},
    "control_copies": {
        "check": {"enum": list(COPY_CHECKS)}, "how?": {"enum": ["snapshot"]},
        "count?": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
    },
    "control_repeated": {
        "steps": _STEPS_WITHIN, "refused": {**_STEPS_WITHIN, "minItems": 1, "maxItems": 1},
        "check": {"enum": list(REPEATED)}, "how?": {"enum": ["fork", "import"]},
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
    },
    "control_numbers": {
        "steps": _STEPS_WITHIN, "how?": {"enum": list(NUMBER_WAYS)},
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
    },
    "control_keys": {"steps": _STEPS_WITHIN, "options?": {"type": "array", "items": _TEXT, "maxItems": 100}},
    "control_cut": {
        "kind": {"enum": list(CUTS)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "steps": _STEPS_WITHIN, "then": _STEPS_WITHIN,
    },
    "control_kept": {
        "how": {"enum": list(WAYS)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "steps": _STEPS_WITHIN, "then?": _STEPS_WITHIN, "delay?": {"type": "integer", "minimum": 0, "maximum": _MAX_MS},
        "reseeds?": {"type": "array", "maxItems": 10,
                     "items": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}},
    },
    "control_apart": {
        "how": {"enum": list(APART_WAYS)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "steps": _STEPS_WITHIN, "meanwhile": _STEPS_WITHIN, "then": _STEPS_WITHIN,
    },
    "control_pending": {
        "how": {"enum": list(PENDING_WAYS)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "steps": _STEPS_WITHIN, "probe?": _STEPS_WITHIN, "then": _STEPS_WITHIN,
        "offset?": {"type": "integer", "minimum": 1_000, "maximum": _MAX_MS},
    },
    "control_full_disk": {
        "how": {"enum": list(FULL)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "steps": _STEPS_WITHIN, "refused": {**_STEPS_WITHIN, "minItems": 1, "maxItems": 1}, "end?": {"enum": [*ENDS]},
        "check?": {"enum": [LEFT]},
        "then": _STEPS_WITHIN,
    },
    "control_late": {
        "how": {"enum": list(LATE_WAYS)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "steps": _STEPS_WITHIN, "again": _STEPS_WITHIN, "then": _STEPS_WITHIN,
        "status": {"type": ["integer", "null"], "minimum": 200, "maximum": 599},
    },
    "control_stream": {
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "steps": _STEPS_WITHIN,
        "count?": {"type": "integer", "minimum": 0, "maximum": 1_000_000}, "then": _STEPS_WITHIN,
    },
    "control_lost": {
        "how": {"enum": list(ENDS)}, "options?": {"type": "array", "items": _TEXT, "maxItems": 100},
        "disk": _FLAG, "count": {"type": "integer", "minimum": 1, "maximum": 10}, "steps": _STEPS_WITHIN,
        "status": {"type": ["integer", "null"], "minimum": 200, "maximum": 599},
    },
    "control_refused": {
        "operation": _NAME, "mistakes": {"type": "array", "items": {"enum": list(MISTAKES)}, "minItems": 1},
        "method?": {"enum": ["HEAD"]},
    },
    "control_wait": {"status": _TEXT, "event?": _TEXT, "is_of_charge?": _FLAG},
    "control_links": {"options": {"type": "array", "items": _TEXT, "maxItems": 100}},
    "control_inbox": {
        "rules": {
            "type": "array", "maxItems": 10,
            "items": {
                "type": "object", "additionalProperties": False, "required": ["say", "count"],
                "properties": {
                    "say": {"type": "integer", "minimum": 200, "maximum": 599},
                    "event": _TEXT,
                    "attempt": {"type": "integer", "minimum": 1, "maximum": 1000},
                    "charge": {"type": "integer", "minimum": 0, "maximum": 2},
                    "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000},
                },
            },
        },
    },
    "control_secrets": {
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "disk?": _FLAG, "steps": _STEPS_WITHIN,
    },
    "control_payments": {"options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "steps": _STEPS_WITHIN},
    "control_payment_request": {
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "kind": {"enum": [*FORMS]}, "form": _TEXT,
        "amount?": {"enum": [*AMOUNTS]},
    },
    "control_keep": {
        "count": {"type": "integer", "minimum": 1, "maximum": 10**6}, "how?": {"enum": [*ENDS]}, "disk?": _FLAG,
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "steps": _STEPS_WITHIN,
    },
    "control_aged": {
        "count": {"type": "integer", "minimum": 1, "maximum": 10**6}, "how?": {"enum": [*ENDS]}, "disk?": _FLAG,
        "options?": {"type": "array", "items": _TEXT, "maxItems": 100}, "steps": _STEPS_WITHIN,
        "meanwhile": _STEPS_WITHIN, "then": _STEPS_WITHIN,
    },
    "control_clock": {"steps": _STEPS_WITHIN},
    "store": {
        "policy": {"enum": list(POLICIES)}, "compaction": {"enum": list(COMPACTIONS)}, "how": {"enum": list(ENDINGS)},
        "count": {"type": "integer", "minimum": 1, "maximum": 10_000},
        "fault?": {
            "type": "array", "minItems": 3, "maxItems": 3,
            "prefixItems": [{"enum": list(CALLS)}, {"type": "integer", "minimum": 1, "maximum": 100},
                            {"enum": list(FAILURES)}],
        },
    },
    "passes": {"by": {"type": "integer", "minimum": 0, "maximum": _MAX_MS}},
    "control_counts": {"check": {"enum": list(COUNTS)}},
}  # fmt: skip


# The members that a check of a list needs.
_NEEDED_BY_CHECKS = {
    "filter": ("draw",), "pair": ("draw",), "portions": ("query",), "refused": ("raw", "kind"),
    "changed": ("steps",), "between": ("steps",),
}  # fmt: skip


def _needed(check: str, names: Sequence[str]) -> dict[str, Any]:
    members = {"do": {"const": "control_list"}, "check": {"const": check}}
    return {"if": {"properties": members, "required": ["check"]}, "then": {"required": list(names)}}


def _odd(operation: str) -> dict[str, Any]:
    """The kinds of the odd requests of an operation."""
    members = {"do": {"const": "odd"}, "operation": {"const": operation}}
    kinds = sorted(kind for name, kind in ODD_REQUESTS if name == operation)
    return {
        "if": {"properties": members, "required": ["operation"]},
        "then": {"properties": {"kind": {"enum": kinds}}},
    }


def _step(name: str, members: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "if": {"properties": {"do": {"const": name}}},
        "then": {
            "properties": {key.rstrip("?"): schema for key, schema in members.items()},
            "propertyNames": {"enum": ["do", "obligation", *(key.rstrip("?") for key in members)]},
            "required": [key for key in members if not key.endswith("?")],
        },
    }


_EXPECTATION = {
    "type": ["object", "null"],
    "properties": {"check": {"enum": list(CHECKS)}},
    "required": ["check", "ruleId", "where", "expected", "observed"],
    "additionalProperties": _TEXT,
}

CASE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "leyden": _TEXT,
        "name": _TEXT,
        "specHash": _TEXT,
        "specPatch": PATCH_SCHEMA,
        "overlays": {"type": "array", "items": {"enum": list(OVERLAYS)}, "maxItems": 100},
        "seed": {"type": "integer", "minimum": 0, "maximum": MAX_COUNT},
        "start": START_TEXT,
        "disk": _FLAG,
        "foundOn": {"enum": ["", *TARGET_KINDS]},
        "target": {"type": "string", "pattern": "^(https?://[!-~]+)?$"},
        "adapter": {"type": "string", "maxLength": 1000},
        "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}, "maxItems": MAX_STEPS},
        "expectation": _EXPECTATION,
        "journalHash": {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"},
    },
    "required": ["name", "specHash", "overlays", "seed", "start", "disk", "steps", "expectation", "journalHash"],
    "$defs": {
        "step": {
            "type": "object",
            "properties": {"do": {"enum": list(_STEPS)}, "obligation": _TEXT},
            "required": ["do"],
            "allOf": [
                *(_step(name, members) for name, members in _STEPS.items()),
                *(_needed(check, names) for check, names in _NEEDED_BY_CHECKS.items()),
                *map(_odd, OPERATIONS),
            ],
        }
    },
}

CASE_VALIDATOR = Draft202012Validator(with_short_alternatives(CASE_SCHEMA), formats=FORMATS, validate_formats=True)
STEP_VALIDATOR = Draft202012Validator({"$ref": "#/$defs/step", "$defs": CASE_SCHEMA["$defs"]})
