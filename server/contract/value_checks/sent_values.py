"""Holds the schemas of what is sent, responses and callbacks, to the values that may be sent.

What is sent is known from the packaged document, at the same place of the same operation. Some fields have the value of
a request field: of these the edited document's own request says what may be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from leyden.server.contract.bind import Handler
from leyden.server.contract.json_pointer import child, contract_error, descendant, quoted
from leyden.server.contract.json_schema.schemas import Schemas, always_there, parts, properties
from leyden.server.contract.lifecycle_rows import PAYMENT_SETTLED
from leyden.server.contract.served import WITH_FIELDS, problem_kinds
from leyden.server.contract.types import CallbackRule, Contract, LifecycleRow, Operation
from leyden.server.contract.value_checks.schema_inclusion import Inclusion, Narrower, Schema
from leyden.server.contract.value_checks.sent_amounts import Bounds, amount_bounds, amount_texts
from leyden.server.errors import Problem

_CHARGE, _STATIC, _CHANGE = "createCharge", "createStaticCharge", "updateStaticCharge"
_ALL = (_CHARGE, _STATIC, _CHANGE)
_NULL: Schema = {"type": "null"}
_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
# The operations that return a Charge or a Static Charge, and those whose requests set its fields
_CHARGES_OF: Mapping[str, tuple[str, ...]] = {
    _CHARGE: (_CHARGE,), "getChargeDetails": _ALL, "listCharges": _ALL, "listStaticChargeCharges": _ALL[1:],
}  # fmt: skip
_STATIC_CHARGES_OF: Mapping[str, tuple[str, ...]] = {
    _STATIC: (_STATIC,), _CHANGE: _ALL[1:], "getStaticChargeDetails": _ALL[1:], "listStaticCharges": _ALL[1:],
}  # fmt: skip
_OF_WALLETS = ("getPayRequest", "getLightningAddress", "requestInvoice")
# The fields of a resource with the value of the request field of the same name, and what any such value is
_TEXTS: Mapping[str, Schema] = {
    "description": _TEXT, "internalId": _TEXT_OR_NULL, "callbackUrl": _TEXT_OR_NULL,
}  # fmt: skip
_STATIC_FIELDS: Mapping[str, Schema] = {
    **_TEXTS,
    "successMessage": _TEXT_OR_NULL,
    "identifier": _TEXT_OR_NULL,
    "allowedSlots": {"anyOf": [{"type": "integer", "minimum": 1}, _NULL]},
}
_UNDECIDED: Schema = {"enum": []}  # no value of it is known: the trial decides
_SHOWN: Mapping[str, Schema] = {"successMessage": {"type": "string", "minLength": 1}}
_PAYMENT = "payment_settled"  # the trigger that sets `confirmedAt`
_CONDITIONS = frozenset({"if", "then", "else", "dependentSchemas"})
_AMOUNTS = ("amount", "minAmount", "maxAmount")


def check_sent(contract: Contract, packaged: Contract, handlers: Mapping[str, Handler]) -> None:
    """Raises `ContractError` for a schema of a response or of a callback that may exclude a value that is sent.

    What the packaged document does not have is not checked: other operations, and those that answer their example.
    """
    if contract.document == packaged.document:
        return
    check = _Check(contract, packaged)
    for name, operation in contract.operations.items():
        known = packaged.operations.get(name)
        if known is None or getattr(handlers[name], "mock", False):
            continue
        for status in operation.responses:
            if status < 400:
                check.success(operation, known, status)
            else:
                check.error(operation, known, status, handlers[name])
        for rule, packaged_rule in zip(operation.callbacks, known.callbacks, strict=False):
            check.callback(operation, rule, packaged_rule)


class _Check:
    def __init__(self, contract: Contract, packaged: Contract) -> None:
        self._contract = contract
        self._packaged = packaged
        self._schemas = Schemas(contract.document, "#", is_checked=True)
        self._inclusion = Inclusion(self._schemas)
        # What is known, by its arguments: one object, so that `Inclusion` compares it once.
        self._known_fields: dict[tuple[Any, ...], Schema] = {}
        self._known_amounts: dict[tuple[Any, ...], Schema] = {}

    def success(self, operation: Operation, known: Operation, status: int) -> None:
        """Hold the body of a success to what the operation sends."""
        rule, sent = operation.responses[status].rule, known.success.rule
        if rule is None or sent is None:
            return
        name, schema = operation.operation_id, sent.schema
        if name in _CHARGES_OF or name in _STATIC_CHARGES_OF:
            schema = _with_data(schema, lambda data: self._resource(operation, data), self._most_rows(operation))
        elif name in _OF_WALLETS:
            schema = self._of_wallet(schema)
        self._compare(*self._response_schema(operation, status), schema)

    def error(self, operation: Operation, known: Operation, status: int, handler: Handler) -> None:
        """Hold the body of an error to what errors are; `check_served` has tried each kind of error."""
        rule, sent = operation.responses[status].rule, known.responses[500].rule
        if rule is None or sent is None:
            return
        kinds = [kind for kind in problem_kinds(operation, handler) if kind.status == status]
        schema = _with(sent.schema, {**_kinds_of(kinds), "status": {"const": status}})
        if status not in WITH_FIELDS:
            schema = _with(schema, {"errors": {"const": []}})
        self._compare(*self._response_schema(operation, status), schema)

    def callback(self, operation: Operation, rule: CallbackRule, known: CallbackRule) -> None:
        """Hold the body of a callback to what is sent."""
        sources = (_CHARGE,) if operation.operation_id == _CHARGE else _ALL[1:]
        events = rule.delivery.events
        fields = self._fields(known.rule.schema, sources, _TEXTS)
        fields["callbackUrl"] = {"allOf": [fields["callbackUrl"], {"type": "string", "minLength": 1}]}
        fields["amount"] = self._amounts(sources)
        if sources != (_CHARGE,):
            fields["allowedSlots"] = self._field("allowedSlots", sources, known.rule.schema, _STATIC_FIELDS)
        schema = _with(known.rule.schema, fields)
        schema = self._by_confirmation(
            {key: value for key, value in schema.items() if key not in _CONDITIONS}, frozenset(events)
        )
        if rule.delivery.form == "envelope":
            schema = _closed({
                "type": {"enum": list(events.values())},
                "timestamp": self._packaged.schemas["Timestamp"].schema,
                "sequence": {"type": "integer", "minimum": 1},
                "data": schema,
            })  # fmt: skip
        at = f"#{rule.location.partition('#')[2]}/post"
        holder = self._contract.document["paths"][operation.path][operation.method]["callbacks"][rule.name]
        (item,) = self._schemas.resolve(holder).values()
        self._compare(*self._body_schema(item["post"]["requestBody"], f"{at}/requestBody"), schema)

    def _by_confirmation(self, schema: Schema, states: frozenset[str]) -> Schema:
        """What is known of a callback about a Charge in one of these states: `confirmedAt` is in it once it is paid."""
        table = self._contract.lifecycle("Charge")
        rows = [row for row in table.rows if row.to is not None]
        paid = _reached({row.to for row in rows if row.trigger == PAYMENT_SETTLED}, rows)
        unpaid = _reached({table.initial}, [row for row in rows if row.trigger != PAYMENT_SETTLED])
        confirmed = {"properties": {"status": {"enum": sorted(paid & states)}}, "required": ["confirmedAt"]}
        others = {"properties": {"status": {"enum": sorted(unpaid & states)}, "confirmedAt": False}}
        branches = [confirmed] * bool(paid & states) + [others] * bool(unpaid & states)
        required = [name for name in schema["required"] if name != "confirmedAt"]
        return _with({**schema, "required": required, "oneOf": branches}, {"status": {}})

    def _response_schema(self, operation: Operation, status: int) -> tuple[Any, str]:
        holder = self._contract.document["paths"][operation.path][operation.method]["responses"][str(status)]
        at = descendant("#/paths", (operation.path, operation.method, "responses", str(status)))
        return self._body_schema(holder, at)

    def _body_schema(self, holder: Mapping[str, Any], location: str) -> tuple[Any, str]:
        at = self._schemas.place(holder, location)
        media_type, media = next(iter(self._schemas.resolve(holder)["content"].items()))
        return media["schema"], f"{child(f'{at}/content', media_type)}/schema"

    def _compare(self, schema: Any, location: str, sent: Schema) -> None:
        found = self._inclusion.narrower(schema, (sent,), location)
        if found is not None:
            raise contract_error(found.location, _problem(found))

    def _resource(self, operation: Operation, schema: Schema) -> Schema:
        """What is known of a Charge or a Static Charge in a response."""
        name = operation.operation_id
        is_charge = name in _CHARGES_OF
        sources = (_CHARGES_OF if is_charge else _STATIC_CHARGES_OF)[name]
        fields = self._fields(schema, sources, _TEXTS if is_charge else _STATIC_FIELDS)
        if is_charge:
            fields["amount"] = self._amounts(sources)
        else:
            fields |= {one: self._amounts(sources, (one,)) for one in _AMOUNTS[1:]}
        table = self._contract.lifecycles.get("Charge" if is_charge else "StaticCharge")
        if table is not None:
            fields["status"] = {"enum": list(table.states)}
            if name in (_CHARGE, _STATIC):
                fields["status"] = {"const": table.initial}
        if name == _CHARGE:
            fields |= {"confirmedAt": _NULL, "staticChargeId": _NULL}
        if name == _STATIC:
            fields["slots"] = {"const": 0}
        added, is_always = self._added(operation, schema, sources)
        required = [*schema["required"], *(added if is_always else ())]
        declared = {**schema["properties"], **added}
        return {**_with({**schema, "properties": declared}, fields), "required": required}

    def _added(self, operation: Operation, schema: Schema, sources: Sequence[str]) -> tuple[dict[str, Schema], bool]:
        """The fields that the document adds to the request and to the response, and whether each resource has them."""
        creators = [self._contract.operations[one] for one in sources if one in self._contract.operations]
        is_charge = operation.operation_id in _CHARGES_OF
        echoing = [one for one in creators if (one.operation_id == _CHARGE) == is_charge]
        added: dict[str, Schema] = {}
        for name in dict.fromkeys(name for one in echoing for name in one.echoed):
            if name not in schema["properties"]:
                known = [self._request(one, name) for one in echoing if name in one.echoed]
                added[name] = {"anyOf": [_UNDECIDED if one is None else one for one in known]}
        # A payment of a Static Charge is a Charge without them.
        return added, not is_charge or all(one.operation_id == _CHARGE for one in creators)

    def _fields(self, schema: Schema, sources: Sequence[str], kinds: Mapping[str, Schema]) -> dict[str, Schema]:
        return {name: self._field(name, sources, schema, kinds) for name in kinds}

    def _field(self, name: str, sources: Sequence[str], schema: Schema, kinds: Mapping[str, Schema]) -> Schema:
        """What is known of a field that has the value of request fields of the same name."""
        packaged = schema["properties"][name]
        key = (name, sources, id(packaged), id(kinds))
        if key not in self._known_fields:
            self._known_fields[key] = self._find_field(name, sources, packaged, kinds)
        return self._known_fields[key]

    def _find_field(self, name: str, sources: Sequence[str], packaged: Schema, kinds: Mapping[str, Schema]) -> Schema:
        known: list[Schema] = []
        for source in sources:
            operation = self._contract.operations.get(source)
            if operation is None or operation.body is None:
                continue
            is_declared = name in operation.body.properties
            if not is_declared and source == _CHANGE:
                continue
            request = self._request(operation, name, with_absent=True) if is_declared else _NULL
            facts = [kinds[name], *([] if request is None else [request])]
            if request is None or not self._is_widened(source, name, request):
                facts.append(packaged)
            known.append({"allOf": facts})
        return {"anyOf": known} if known else packaged

    def _is_widened(self, source: str, name: str, request: Schema) -> bool:
        """Whether a request field allows more than that of the packaged document, or may do so."""
        packaged = self._packaged.operations[source].body
        if packaged is None or name not in packaged.properties:
            return False
        (field, *_) = properties(packaged.rule.schema)[name]
        return self._inclusion.narrower(field, (request, _STATIC_FIELDS[name]), "") is not None

    def _request(self, operation: Operation, name: str, *, with_absent: bool = False) -> Schema | None:
        """A request field as a schema, and null where it may be left out. None if a branch of the body declares it, or
        a value stands for another one (`x-absent`), unless `with_absent`."""
        body = operation.body
        if body is None or (name in body.absent and not with_absent):
            return None
        whole = [part for part in parts(body.rule.schema, branches=("allOf",)) if name in part.get("properties", {})]
        if not whole:
            return None
        schema: Schema = {"allOf": [part["properties"][name] for part in whole]}
        is_given = operation.operation_id == _CHANGE or always_there(body.rule.schema, name)
        if name in body.defaults:
            return {"anyOf": [schema, {"const": body.defaults[name]}]}
        return schema if is_given else {"anyOf": [schema, _NULL]}

    def _amounts(self, sources: Sequence[str], names: Sequence[str] = _AMOUNTS) -> Schema:
        """The texts of the amounts that requests allow, and of those that payers may choose between the bounds of a
        Static Charge."""
        key = (sources, names)
        if key not in self._known_amounts:
            known = [amount_texts(one) for one in self._amount_fields(sources, names)]
            if sources != (_CHARGE,) and names == _AMOUNTS:
                bounds = self._amount_bounds(names[1:])
                known += [] if bounds is None else [bounds.to_schema(as_text=True)]
            self._known_amounts[key] = {"anyOf": known}
        return self._known_amounts[key]

    def _amount_bounds(self, names: Sequence[str]) -> Bounds | None:
        """The bounds of the amounts that requests allow for Static Charges."""
        return amount_bounds(self._amount_fields(_ALL[1:], names))

    def _amount_fields(self, sources: Sequence[str], names: Sequence[str]) -> list[Schema]:
        operations = [self._contract.operations[one] for one in sources if one in self._contract.operations]
        fields = [self._request(one, name) for one in operations if one.body is not None for name in names]
        return [one for one in fields if one is not None]

    def _most_rows(self, operation: Operation) -> int | None:
        """The largest page that a request may ask for; None without a limit."""
        limit = next((one for one in operation.parameters if one.key == "limit"), None)
        if limit is None:
            return None
        most: list[int] = []
        for part in parts(limit.rule.schema, branches=("allOf",)):
            named = part.get("enum", [part["const"]] if "const" in part else ())
            most += [max((one for one in named if type(one) is int), default=0)] if named else []
            most += [int(part["maximum"])] if "maximum" in part else []
            most += [ceil(part["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in part else []
        return min(most, default=None)

    def _of_wallet(self, schema: Schema) -> Schema:
        """What is known of the answers to a payer's wallet."""
        sources = _ALL[1:]
        bounds = {
            field: _UNDECIDED if (found := self._amount_bounds((name,))) is None else found.to_schema(as_text=False)
            for field, name in (("minSendable", "minAmount"), ("maxSendable", "maxAmount"))
        }
        branches: list[Schema] = []
        for branch in schema.get("oneOf", [schema]):
            action = branch.get("properties", {}).get("successAction")
            fields = {**bounds}
            if action is not None:
                static = {"properties": {"successMessage": action["properties"]["message"]}}
                message = self._field("successMessage", sources, static, _SHOWN)
                fields["successAction"] = _with(action, {"message": message})
            branches.append(_with(branch, fields))
        return {"oneOf": branches}


def _with(schema: Schema, fields: Mapping[str, Schema]) -> Schema:
    """An object's schema with other schemas for those of its properties that `fields` names."""
    declared = schema.get("properties", {})
    return {**schema, "properties": {**declared, **{one: fields[one] for one in fields if one in declared}}}


def _with_data(schema: Schema, change: Callable[[Schema], Schema], most_rows: int | None) -> Schema:
    """The schema of an envelope whose resource, or list of resources, is changed."""
    data = schema["properties"]["data"]
    if "items" in data:
        data = {key: value for key, value in data.items() if key != "maxItems"} | {"items": change(data["items"])}
        if most_rows is not None:
            data["maxItems"] = most_rows
    else:
        data = change(data)
    return _with(schema, {"data": data})


def _reached(states: Iterable[str | None], rows: Iterable[LifecycleRow]) -> set[str]:
    """These states, and those to which the rows lead from them."""
    found: set[str | None] = {*states}
    while more := {row.to for row in rows if row.source in found} - found:
        found |= more
    return {state for state in found if state is not None}


def _closed(fields: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": False, "required": list(fields), "properties": fields}


def _kinds_of(kinds: Iterable[type[Problem]]) -> dict[str, Schema]:
    documents = [kind("a text").to_document("req-1") for kind in kinds]
    return {name: {"enum": [one[name] for one in documents]} for name in ("type", "title", "code")}


def _problem(found: Narrower) -> str:
    shown = f" ({found.keyword} {quoted(found.value)})" if found.keyword else ""
    return f"Leyden may send other values than this allows{shown}; {found.mend}"
