"""JSON Schemas of the rows of a world's tables, derived from the row types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from leyden.callbacks.callback_rows import HeldRow, HitRow, LateReplyRow, PostRow, ReceiverRow, WaitingRow
from leyden.callbacks.faults.kinds import FaultRow
from leyden.lightning.engine.interceptor_row import InterceptorRow, RemovedInterceptorRow
from leyden.lightning.payer.automatic_payments import DocumentCountRow, NewInvoiceRow
from leyden.lightning.payer.payer_rules import PayerRow
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.lightning.receiver.node import FundsRow
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.rows import ChargeRow, StaticChargeRow, WalletRow
from leyden.server.http.idempotency import IdempotencyRow
from leyden.server.http.projects import KeyRow, ProjectRow
from leyden.service_faults.kinds import ServiceFaultRow
from leyden.service_faults.service_faults import AnswerRow
from leyden.world.persistence.field_schemas import FIELDS, FIELDS_TOGETHER, integer_schema, or_null
from leyden.world.removal.end_order import TABLE as ENDED
from leyden.world.removal.end_order import EndedRow
from leyden.world.removal.removed_rows import DIRECTORIES, DirectoryRow, LastIdRow
from leyden.world.removal.removed_rows import TABLE as LAST_IDS
from leyden.world.traffic.rows import ReturnRow, TrafficRow, ValuesRow

# Former versions wrote more fields in these rows. A field that is not named here is neither read nor written again.
_WITH_FORMER_FIELDS = frozenset({"ConfigRow", "StateRow", "TimerRow", "NetworkRow", "SessionRow", "ShardRow"})
_PLAIN: Mapping[Any, Mapping[str, Any]] = {
    bool: {"type": "boolean"}, float: {"type": "number"}, str: {"type": "string"}, NoneType: {"type": "null"}, Any: {},
}  # fmt: skip


@cache
def row_schemas() -> Mapping[str, dict[str, Any]]:
    """The schema of a row, by table. They are for JSON Schema Draft 4, in which 1.0 is no integer."""
    return {
        "charges": schema_of(ChargeRow),
        "static_charges": schema_of(StaticChargeRow),
        "wallets": schema_of(WalletRow),
        "deliveries": schema_of(DeliveryRow),
        "idempotency": schema_of(IdempotencyRow),
        "projects": schema_of(ProjectRow),
        "keys": schema_of(KeyRow),
        "invoices": schema_of(InvoiceRow),
        "node": schema_of(FundsRow),
        "interceptors": schema_of(InterceptorRow),
        "removed_interceptors": schema_of(RemovedInterceptorRow),
        "payments": schema_of(PaymentRow),
        "payers": schema_of(PayerRow),
        "payer_invoices": schema_of(NewInvoiceRow),
        "document_payers": schema_of(DocumentCountRow),
        "receivers": schema_of(ReceiverRow),
        "late_answers": schema_of(LateReplyRow),
        "received": schema_of(PostRow),
        "faults": schema_of(FaultRow),
        "held_back": schema_of(HeldRow),
        "fault_posts": schema_of(WaitingRow),
        "fault_hits": schema_of(HitRow),
        "service_faults": schema_of(ServiceFaultRow),
        "service_fault_answers": schema_of(AnswerRow),
        "traffic": schema_of(TrafficRow),
        "traffic_values": schema_of(ValuesRow),
        "traffic_returns": schema_of(ReturnRow),
        ENDED: schema_of(EndedRow),
        LAST_IDS: schema_of(LastIdRow),
        DIRECTORIES: schema_of(DirectoryRow),
    }


def schema_of(hint: Any, name: str = "") -> dict[str, Any]:
    """The schema of the JSON values of a type: a `TypedDict`, or what its field `name` may be.

    Raises `TypeError` for a type that has none.
    """
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        together = FIELDS_TOGETHER.get(hint.__name__, ())
        return {
            "type": "object",
            "properties": {name: _field(hint.__name__, name, field) for name, field in fields.items()},
            # A module whose annotations are texts has `NotRequired` in the text.
            "required": sorted(name for name in hint.__required_keys__ if get_origin(fields[name]) is not NotRequired),
            "additionalProperties": hint.__name__ in _WITH_FORMER_FIELDS,
            "dependencies": {name: [other for other in together if other != name] for name in together},
        }
    if hint is int:
        return integer_schema(name)
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return schema_of(arguments[0], name)
    if origin in (UnionType, Union):
        others = [each for each in arguments if each is not NoneType]
        if len(others) == 1:
            return or_null(schema_of(others[0], name))
        return {"anyOf": [schema_of(each, name) for each in arguments]}
    if origin is tuple:
        items = [schema_of(each) for each in arguments]
        return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    raise TypeError(f"{hint} has no schema: add it to `schema_of`")


def _field(row: str, name: str, hint: Any) -> dict[str, Any]:
    more = FIELDS.get((row, name))
    if more is None or more.get("type") == "array":
        return {**schema_of(hint, name), **(more or {})}
    return more
