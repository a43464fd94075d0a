"""Holds the texts that an edited document's requests allow to those that code reads: amounts, whole numbers, instants
and the cursors of lists.

A type that no code reads is found by `served.check_reads`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leyden.server.contract.bind import Handler
from leyden.server.contract.json_pointer import contract_error, descendant, quoted
from leyden.server.contract.json_schema.schemas import LateValidator, parts
from leyden.server.contract.types import Contract, Operation
from leyden.server.contract.value_checks.pattern_inclusion import UnreadPattern, is_included, text_beyond
from leyden.server.contract.value_checks.schema_inclusion import Case, TooManyCases, cases, types_of, values_of
from leyden.server.contract.value_checks.sent_amounts import READ_AMOUNT

Schema = Mapping[str, Any]


class _Form(NamedTuple):
    """The texts that code reads: those of a pattern, or of a format."""

    noun: str
    pattern: str = ""
    format: str = ""

    def schema(self) -> dict[str, Any]:
        form = {"pattern": self.pattern, "format": self.format}
        return {"type": "string", **{key: value for key, value in form.items() if value}}


_AMOUNT = _Form("an amount", READ_AMOUNT)
_WHOLE = _Form("a whole number", "^[0-9]{0,18}$")
_SECONDS = _Form("a whole number from 1", "^0{0,8}[1-9][0-9]{0,8}$")
_INSTANT = _Form("an instant", format="date-time")
_FORMS: Mapping[str, _Form] = {
    **dict.fromkeys(("body.amount", "body.minAmount", "body.maxAmount"), _AMOUNT),
    **dict.fromkeys(("body.allowedSlots", "body.expiresIn"), _WHOLE),
    **dict.fromkeys(("query.createdAfter", "query.createdBefore"), _INSTANT),
}
_CHARGES, _STATIC_CHARGES = (_Form("a cursor of this list", f"^000[0{kind}][0-9a-f]{{12}}$") for kind in (1, 2))
_OF_OPERATIONS: Mapping[str, Mapping[str, _Form]] = {
    "createCharge": {"body.expiresIn": _SECONDS},
    "createStaticCharge": {"body.expiresIn": _Form("a whole number", "^[0-9]{0,11}$")},
    "listCharges": {"query.after": _CHARGES},
    "listStaticCharges": {"query.after": _STATIC_CHARGES},
    "listStaticChargeCharges": {"query.after": _CHARGES},
}


def check_texts(contract: Contract, handlers: Mapping[str, Handler]) -> None:
    """Raises `ContractError` for a parameter or a request field whose schema allows a text that no code reads, or may
    do so."""
    for name, operation in contract.operations.items():
        handler = handlers[name]
        reads = getattr(handler, "reads", {})
        forms = {**_FORMS, **_OF_OPERATIONS.get(name, {})}
        for one in operation.parameters:
            key = f"{one.location}.{one.key}"
            if key in forms and key in reads:
                _check(operation, f"parameters ({one.name})", one.name, one.rule.schema, forms[key], ())
        body = operation.body
        for field in () if body is None else body.properties:
            key = f"body.{field}"
            if body is not None and key in forms and key in reads:
                for schema in _declared(body.rule.schema, field):
                    _check(operation, f"requestBody ({field})", field, schema, forms[key], body.absent.get(field, ()))


def _declared(schema: Schema, name: str) -> list[Schema]:
    """What a written-out schema says about a property: as one schema, or as several that may not hold at once."""
    always = [
        one["properties"][name] for one in parts(schema, branches=("allOf",)) if name in one.get("properties", {})
    ]
    if always:
        return [{"allOf": always}]
    return [one["properties"][name] for one in parts(schema) if name in one.get("properties", {})]


def _check(operation: Operation, place: str, name: str, schema: Schema, form: _Form, absent: tuple[Any, ...]) -> None:
    if form.pattern and "" in absent:
        form = form._replace(pattern=f"^(?:|{form.pattern[1:-1]})$")
    try:
        found = [case for case in cases([schema]) if _is_beyond(case, form, absent)]
    except TooManyCases:
        return
    if not found:
        return
    shown = _example(found[0], form, absent)
    allowed = "a text of another form" if shown is None else quoted(shown)
    form_of = f"pattern {form.pattern!r}" if form.pattern else f"format {form.format}"
    raise contract_error(
        descendant("#/paths", (operation.path, operation.method, place)),
        f"{operation.handler_name} reads {name} as {form.noun}, and the document may allow {allowed}; write the"
        f" {form_of}, or one that allows less",
    )


def _is_beyond(case: Case, form: _Form, absent: tuple[Any, ...]) -> bool:
    """Whether a case has a text, or may have one, that is not of the form."""
    if values_of(case) is not None:
        return _example(case, form, absent) is not None
    if "string" not in types_of(case):
        return False
    if form.format:
        return all(one.get("format") != form.format for one in case)
    return not any("pattern" in one and is_included(one["pattern"], form.pattern) for one in case)


def _example(case: Case, form: _Form, absent: tuple[Any, ...]) -> Any:
    """A text of a case that is not of the form; None if none is known."""
    values = values_of(case)
    if values is not None:
        is_read, is_allowed = LateValidator(form.schema()).is_valid, LateValidator({"allOf": case}).is_valid
        texts = (one for one in values if type(one) is str and one not in absent and is_allowed(one))
        return next((one for one in texts if not is_read(one)), None)
    is_allowed = LateValidator({"allOf": [{"type": "string"}, *case]}).is_valid
    beyond = [_beyond(one["pattern"], form.pattern) for one in case if "pattern" in one and form.pattern]
    return next((one for one in (*beyond, "x") if one is not None and is_allowed(one)), None)


def _beyond(pattern: str, read: str) -> str | None:
    """A text of a pattern that `read` does not match; None if there is none, or if that is not decided."""
    try:
        return text_beyond(pattern, read)
    except UnreadPattern:
        return None
