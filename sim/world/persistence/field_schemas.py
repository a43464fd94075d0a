"""JSON Schemas of single fields of rows, where the values that a sandbox writes are fewer than those of the type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leyden.arguments import ALL_MSAT, MAX_COUNT
from leyden.callbacks import replies
from leyden.callbacks.faults import kinds as fault_kinds
from leyden.callbacks.faults.holds import EFFECT, RELEASE
from leyden.distributions import MAX_SPREAD, SHAPES
from leyden.lightning.engine.htlc import FAILED, HELD, SETTLED, WAITING
from leyden.lightning.engine.interceptor_row import KINDS as INTERCEPTOR_KINDS
from leyden.lightning.payer.payer_rules import RULE_OUTCOMES
from leyden.lightning.payer.payment_scripts import FAILURES, MAX_PARTS, OUTCOMES
from leyden.server.callbacks.deliveries import BLOCKED, DELIVERED, EXHAUSTED, PENDING, STOPPED
from leyden.server.timestamps import MAX_INSTANT_MS
from leyden.service_faults import kinds as service_faults
from leyden.world.time.clock import LAST_MS
from leyden.world.time.process_clock import FIRST_MS, MAX_RATE
from leyden.world.traffic.arrivals import DAY_MS, WEEK_MS
from leyden.world.traffic.rows import BEHAVIOURS

Schema = dict[str, Any]

INTEGER: Schema = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
# An instant of the years 1970 to 9999, in ms.
INSTANT: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_INSTANT_MS}
_INSTANTS = frozenset(
    {"at", "until", "from_ms", "until_ms", "payable_until_ms", "now", "start_ms", "given_start_ms"}
)  # and what ends with `_at`
_SIGNED = frozenset({"hop", "code", "seed", "given_seed"})
_FROM_ONE = frozenset({"attempt", "count", "nth", "limit", "times", "last_id"})

# A number that a world counts on from, so it has room above: what it reaches is saved, and read again.
COUNTER: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT // 2}
_COUNTED = frozenset(
    {
        "acted", "arrived", "attempt_count", "charges_before", "event_count", "held", "hits", "holding", "idle",
        "last_id", "matches", "number", "objections", "parts_in_flight", "received", "refused", "replayed_from",
        "restored", "returned", "sequence", "shard_count", "together", "unsent", "visit",
    }
)  # fmt: skip

_NUMBER = {"type": "number", "minimum": -(2**63), "maximum": 2**63}
_NUMBERS = {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": 24}
_RATES = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1, "maxItems": 168}
_WEIGHT = {"type": "number", "minimum": 0}
_SHAPE = {"type": "number", "minimum": SHAPES[0], "maximum": SHAPES[1]}
_GAP_MS = {"type": "number", "minimum": 1e-9, "maximum": MAX_INSTANT_MS}


def integer_schema(name: str) -> Schema:
    """The schema of a whole number in a field of this name: an instant, an amount, a duration or a count."""
    if name in _INSTANTS or name.endswith("_at"):
        return INSTANT
    if name.endswith("_msat"):
        return {"type": "integer", "minimum": 0, "maximum": ALL_MSAT}
    if name.endswith("_ms"):
        return {"type": "integer", "minimum": 0, "maximum": MAX_INSTANT_MS}
    if not name or name in _SIGNED:
        return dict(INTEGER)
    most = COUNTER["maximum"] if name in _COUNTED else MAX_COUNT
    return {"type": "integer", "minimum": 1 if name in _FROM_ONE else 0, "maximum": most}


def _form(names: Sequence[str], *items: Mapping[str, Any]) -> Schema:
    return {
        "type": "array", "items": [{"enum": list(names)}, *items], "minItems": 1 + len(items),
        "maxItems": 1 + len(items),
    }  # fmt: skip


def _choices(value: Mapping[str, Any]) -> list[Schema]:
    pair = {"type": "array", "items": [value, _WEIGHT], "minItems": 2, "maxItems": 2}
    return [_form(("const",), value), _form(("choice",), {"type": "array", "items": pair, "minItems": 1})]


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _one_of(*values: object) -> Schema:
    return {"enum": list(values)}


def or_null(schema: Schema) -> Schema:
    """The schema, or null. An error of a member then has its own place, which `anyOf` would hide."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _from(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


_DRAWN: Sequence[Schema] = (
    _form(("exp",), _NUMBER),
    _form(("uniform", "normal"), _NUMBER, _NUMBER),
    _form(("lognorm",), _NUMBER, {"type": "number", "minimum": 0, "maximum": MAX_SPREAD}),
    _form(("pareto",), {**_NUMBER, "minimum": 0.001}, _SHAPE, or_null(_NUMBER)),
    _form(("weibull",), {**_NUMBER, "minimum": 0.001}, _SHAPE),
    *_choices(_NUMBER),
)
_TABLE = _form(("table",), _text("^[1-9][0-9]{0,15}/[A-Za-z_]+(/[0-9]+)?$"))
_WRITTEN = [*_DRAWN, _form(("clip",), {"anyOf": list(_DRAWN)}, _NUMBER, _NUMBER)]  # as texts
_NUMERIC: Schema = {"anyOf": [*_WRITTEN, _TABLE]}
_FACTOR = _form(("cycle",), {"enum": [DAY_MS, WEEK_MS]}, {**_RATES, "items": _from(0, WEEK_MS)}, _RATES)
_TERM = {
    "anyOf": [
        {"type": "array", "items": _FACTOR, "minItems": 1, "maxItems": 20},
        {"type": "array", "items": [_TABLE], "minItems": 1, "maxItems": 1},
    ]
}
_POINT = {"type": "array", "items": [_from(1, MAX_COUNT), _from(1, MAX_INSTANT_MS)], "minItems": 2, "maxItems": 2}
# One of 65 bytes, too: a former version took it.
_SECRET = _text("^whsec_(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")
_UUID = _text("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
_HASH = _text("^[0-9a-f]{64}$")
_API_KEY = _text("^[!-~]([ -~]{0,198}[!-~])?$")
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_PART_STATES = (HELD, SETTLED, FAILED)
_ATTEMPT_STATES = ("in_flight", WAITING, *_PART_STATES)

_MSAT = {"type": "integer", "minimum": 0, "maximum": ALL_MSAT}
# The height of a block, or a number of blocks: with ten minutes for each, the last one comes before the year 9999.
_BLOCKS = _from(0, 100_000_000)
_HOP = {
    "type": "array", "items": [_from(0, MAX_COUNT), {"type": "string"}, {"type": "string"}, _MSAT, _BLOCKS],
    "minItems": 5, "maxItems": 5,
}  # fmt: skip
_HOP_TIMES = {"type": "array", "items": [INSTANT, or_null(INSTANT)], "minItems": 2, "maxItems": 2}

# By the name of the row type: optional fields of which a row has all or none.
FIELDS_TOGETHER: Mapping[str, Sequence[str]] = {"AttemptRow": ("fee_msat", "route", "hops", "times", "hop")}

# By the name of the row type and the field.
FIELDS: Mapping[tuple[str, str], Schema] = {
    ("ConfigRow", "seed"): _from(0, MAX_COUNT),
    ("ConfigRow", "given_seed"): _from(0, MAX_COUNT),
    ("ConfigRow", "run"): {**COUNTER, "minimum": 1},
    ("ConfigRow", "start_ms"): _from(FIRST_MS, LAST_MS),
    ("ConfigRow", "given_start_ms"): _from(FIRST_MS, LAST_MS),
    ("StateRow", "now"): _from(0, LAST_MS),
    ("StateRow", "rate"): {"type": "number", "minimum": 0, "maximum": MAX_RATE},
    ("StateRow", "streams"): {"type": "object", "additionalProperties": COUNTER},
    ("TimerRow", "charges"): COUNTER,
    ("TimerRow", "sequence"): COUNTER,
    ("StateRow", "time_base"): or_null({"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}),
    ("TrafficSettings", "arrivals"): {
        "anyOf": [
            _form(("poisson", "every"), _GAP_MS),
            _form(("burst",), {"type": "integer", "minimum": 1}, _GAP_MS),
            _form(("daily",), _NUMBERS, _NUMBERS),
            _form(("mixed",), {"type": "array", "items": _TERM}, {"type": "array", "items": _POINT}),
        ]
    },
    ("TrafficSettings", "amount"): or_null(_NUMERIC),
    ("TrafficSettings", "returning"): _SHARE,
    ("TrafficSettings", "return_after"): or_null(_NUMERIC),
    ("TrafficSettings", "think_time"): _NUMERIC,
    ("TrafficSettings", "expiresIn"): _NUMERIC,
    ("TrafficSettings", "patience"): or_null(_NUMERIC),
    ("TrafficSettings", "behaviour"): {"anyOf": _choices({"enum": list(BEHAVIOURS)})},
    ("TrafficSettings", "payer"): {
        "anyOf": [*_choices({"type": "string"}), _form(("people",), {"type": "integer", "minimum": 1}), _TABLE]
    },
    ("ValuesRow", "values"): {"type": "array", "items": {"anyOf": [_NUMBER, _text("^.")]}, "minItems": 1},
    ("ValuesRow", "places"): or_null({"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1}),
    ("ReturnRow", "visit"): {**COUNTER, "minimum": 2},
    ("TrafficRow", "id"): _text("^[1-9][0-9]{0,15}$"),
    ("TrafficRow", "due"): {"type": "number", "minimum": 0, "maximum": MAX_INSTANT_MS},
    ("TrafficRow", "limit"): or_null(_from(0, MAX_COUNT)),
    ("ChargeRow", "id"): _UUID,
    ("ChargeRow", "static_charge_id"): or_null(_UUID),
    ("ChargeRow", "payment_hash"): _HASH,
    ("ChargeRow", "preimage"): _HASH,
    ("StaticChargeRow", "id"): _UUID,
    ("DeliveryRow", "id"): _UUID,
    ("DeliveryRow", "status"): _one_of(PENDING, DELIVERED, EXHAUSTED, STOPPED, BLOCKED),
    ("ReplayOrder", "ended"): _one_of(DELIVERED, EXHAUSTED, STOPPED, BLOCKED),
    ("DeliveryRow", "sequence"): {**COUNTER, "minimum": 1},
    ("DeliveryRow", "attempts"): _text(r"^(?:\[[^\n]*\]\n)*$"),
    ("FundsRow", "id"): _one_of("funds"),
    ("ProjectRow", "webhook_secrets"): {"type": "array", "minItems": 1},
    ("KeyRow", "id"): _API_KEY,
    ("SecretRow", "secret"): _SECRET,
    ("IdempotencyRow", "status"): _from(200, 599),
    ("IdempotencyRow", "fingerprint"): _HASH,
    ("InvoiceRow", "state"): _one_of("OPEN", "ACCEPTED", "SETTLED", "CANCELED"),
    ("InvoiceRow", "holds_at"): {"type": "array", "items": INSTANT},
    ("InvoiceRow", "payment_hash"): _HASH,
    ("InvoiceRow", "payment_secret"): _HASH,
    ("InvoiceRow", "preimage"): _HASH,
    ("PartRow", "cltv_expiry"): _BLOCKS,
    ("PartRow", "state"): _one_of(*_PART_STATES),
    ("PaymentRow", "id"): _UUID,
    ("PaymentRow", "status"): _one_of("in_flight", HELD, "succeeded", FAILED),
    ("PaymentRow", "payment_hash"): or_null(_HASH),
    ("PaymentRow", "preimage"): or_null(_HASH),
    ("ScriptRow", "cltv_expiry"): _BLOCKS,
    ("ScriptRow", "blocks"): _BLOCKS,
    ("ScriptRow", "outcome"): _one_of(*OUTCOMES),
    ("ScriptRow", "failure"): _one_of(*FAILURES),
    ("ScriptRow", "payment_secret"): _HASH,
    ("ScriptRow", "parts"): _from(1, MAX_PARTS),
    ("ScriptRow", "sent_parts"): _from(0, MAX_PARTS),
    ("AttemptRow", "status"): _one_of(*_ATTEMPT_STATES),
    ("AttemptRow", "hops"): {"type": "array", "minItems": 1, "items": _HOP},
    ("AttemptRow", "times"): or_null({"type": "array", "items": _HOP_TIMES}),
    ("NetworkRow", "background"): {
        "type": "array", "items": [or_null(INSTANT)] * 2 + [_MSAT, *[_from(0, MAX_COUNT)] * 2, *[_MSAT] * 4],
        "minItems": 9, "maxItems": 9,
    },
    ("ShardRow", "amounts"): {"type": "array", "items": _MSAT},
    ("ShardRow", "times"): {"type": "array", "items": _HOP_TIMES},
    ("PayerRow", "outcome"): _one_of(*RULE_OUTCOMES),
    ("PayerRow", "failure"): _one_of(*FAILURES),
    ("PayerRow", "share"): _SHARE,
    ("FaultRow", "kind"): _one_of(*fault_kinds.KINDS),
    ("HeldRow", "kind"): _one_of(*fault_kinds.HOLDING_KINDS),
    ("HeldRow", "waits"): _one_of(RELEASE, EFFECT, None),
    ("ServiceFaultRow", "kind"): _one_of(*service_faults.KINDS),
    ("ServiceFaultRow", "status"): _one_of(*service_faults.STATUSES, None),
    ("ServiceFaultRow", "body"): _one_of(*service_faults.BODIES, None),
    ("ServiceFaultRow", "probability"): _SHARE,
    ("InterceptorRow", "kind"): _one_of(*INTERCEPTOR_KINDS),
    ("RemovedInterceptorRow", "kind"): _one_of(*INTERCEPTOR_KINDS),
    ("RequestRow", "copied_by"): or_null(
        {"type": "array", "items": [{"type": "string"}, _from(0, MAX_COUNT)], "minItems": 2, "maxItems": 2}
    ),
    ("RequestRow", "body"): _text(r"^[\u0000-\u00ff]*$"),
    ("PostRow", "id"): _text("^[^#]+#[1-9][0-9]{0,15}$"),
    ("ReceiverRow", "secret"): or_null(_SECRET),
    ("BehaviourRow", "failure"): _SHARE,
    ("BehaviourRow", "latency"): or_null({"anyOf": _WRITTEN}),
    ("DownRow", "from_ms"): _from(0, MAX_INSTANT_MS),
    ("DownRow", "until_ms"): _from(0, MAX_INSTANT_MS),
    ("ReplyRow", "status"): _from(200, 599),
    ("ReplyRow", "word"): _one_of(*replies.WORDS, None),
    ("ReplyRow", "error"): _one_of(*replies.WORDS, None),
    ("ReplyRow", "size"): or_null(_from(0, replies.LONGEST_BODY)),
}  # fmt: skip
