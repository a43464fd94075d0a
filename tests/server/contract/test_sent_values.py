"""A document whose responses or callbacks are narrower than what is sent is refused at start with the place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.json_pointer import split_pointer
from leyden.server.contract.json_schema.schemas import Schemas
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.served import check_served
from leyden.server.contract.value_checks.schema_inclusion import Inclusion
from leyden.server.contract.value_checks.sent_values import check_sent
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world.config import packaged_contract, world_config
from leyden.world.world import World

Document = dict[str, Any]
Edit = Callable[[Document], object]
DOCUMENT = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
SCHEMAS = "#/components/schemas/"
OTHERS = "Leyden may send other values than this allows"


def without_examples(document: Document) -> Document:
    """The document without examples, as somebody has it who edits a schema."""
    document = copy.deepcopy(document)

    def strip(node: Any) -> None:
        for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            if isinstance(value, dict) and "x-basis" not in node:
                value.pop("examples", None)
            strip(value)

    strip(document["paths"])
    for part in ("parameters", "headers", "responses"):
        for node in document["components"][part].values():
            node.pop("example", None)
            for media in node.get("content", {}).values():
                media.pop("examples", None)
    document["components"]["examples"] = {}
    return document


BARE = without_examples(DOCUMENT)


@pytest.fixture(scope="module")
def handlers() -> Mapping[str, Any]:
    return World(world_config(seed=0, start_ms=0), Store.memory()).service.handlers


def field(path: str, **changes: Any) -> Edit:
    """An edit of the schema of a property, such as `Charge.description`; None takes a keyword out."""
    name, *names = path.split(".")

    def edit(document: Document) -> None:
        node = document["components"]["schemas"][name]
        for one in names:
            node = node["properties"][one]
        node.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del node[key]

    return edit


def schema_of(part: str, name: str, **schema: Any) -> Edit:
    return lambda document: document["components"][part][name].update(schema=schema)


def limit(document: Document) -> None:
    document["components"]["parameters"]["Limit"]["schema"]["maximum"] = 5_000


def together(*edits: Edit) -> Edit:
    return lambda document: [edit(document) for edit in edits]


def requests(name: str, **changes: Any) -> Edit:
    return together(*(field(f"{one}.{name}", **changes) for one in ("StaticChargeRequest", "StaticChargeChanges")))


LONG = together(requests("successMessage", maxLength=500), field("StaticCharge.successMessage", maxLength=500))
MESSAGE = "PayInvoice.successAction.message"
NARROWER: dict[str, tuple[Edit, str]] = {
    "attempts from 6 on": (
        schema_of("parameters", "LeydenAttempt", type="string", pattern="^[1-5]$"),
        "leyden-attempt: '9' is sent",
    ),
    "replayed attempts": (
        schema_of("parameters", "LeydenAttempt", type="integer", minimum=1, maximum=10),
        "leyden-attempt: '11' is sent",
    ),
    "two signatures": (
        schema_of("parameters", "WebhookSignature", type="string", maxLength=47), "webhook-signature: 'v1,",
    ),
    "milliseconds of an attempt": (
        schema_of("parameters", "LeydenTime", type="string", pattern="[.]000Z$"), "leyden-time: '2027-12-31T23:59:59.",
    ),
    "ids of messages": (
        schema_of("parameters", "WebhookId", type="string", pattern="^(?!00)"), "webhook-id: '00000000-",
    ),
    "many ignored fields": (
        schema_of("headers", "LeydenIgnored", type="string", maxLength=40), "/headers/Leyden-Ignored/schema: does not",
    ),
    "a longer wait": (
        schema_of("headers", "RetryAfter", type="integer", maximum=60), "does not allow what is sent, such as '120'",
    ),
    "a shorter message of success": (
        field(MESSAGE, maxLength=50),
        f"PayInvoice/properties/successAction/properties/message/maxLength: {OTHERS} (maxLength 50); write 144",
    ),
    "a message of success that the request allows": (LONG, f"message/maxLength: {OTHERS} (maxLength 144); write 500"),
    "a pattern of the message": (field(MESSAGE, pattern="^[ -~]*$"), f"message/pattern: {OTHERS}"),
    "metadata": (
        field("PayRequest.metadata", maxLength=500),
        f"{SCHEMAS}PayRequest/properties/metadata/maxLength: {OTHERS} (maxLength 500); leave it out",
    ),
    "a link for one payment": (field("PayInvoice.disposable", const=False), "PayInvoice/properties/disposable/const: "),
    "an address": (field("StaticCharge.identifier", maxLength=100), "StaticCharge/properties/identifier/maxLength: "),
    "lines of a description": (field("Charge.description", pattern="^[^\n]*$"), "description/pattern: "),
    "an internal id": (field("Charge.internalId", pattern="^[a-zA-Z0-9 -]*$"), "Charge/properties/internalId/pattern"),
    "a description that is not empty": (field("StaticCharge.description", minLength=1), "description/minLength: "),
    "slots": (field("StaticCharge.slots", maximum=3), "StaticCharge/properties/slots/maximum: "),
    "a balance": (field("Wallet.balance", maxLength=10), "Wallet/properties/balance/maxLength: "),
    "a page": (field("ChargeListAnswer.data", maxItems=999), f"data/maxItems: {OTHERS} (maxItems 999); write 1000"),
    "a page that a request allows": (limit, f"ChargeListAnswer/properties/data/maxItems: {OTHERS} (maxItems 1000)"),
    "a random id": (field("Id", pattern="^(?!00)", format=None), f"{SCHEMAS}Id/pattern: {OTHERS} (pattern '^(?!00)')"),
    "milliseconds": (field("StaticCharge.createdAt", pattern="[.]000Z$"), "createdAt/pattern: "),
    "an internal id of a callback": (
        field("ChargeUpdate.internalId", maxLength=50),
        f"{SCHEMAS}ChargeUpdate/properties/internalId/maxLength: {OTHERS} (maxLength 50); write 255, or leave it out",
    ),
    "a description of a callback": (field("ChargeUpdate.description", minLength=1), "description/minLength: "),
    "a description of a payment": (field("StaticChargeUpdate.description", minLength=1), "description/minLength: "),
    "the time of a payment": (field("ChargeUpdate.confirmedAt", pattern="[.]000Z$"), "confirmedAt/pattern: "),
    "slots of a callback": (field("StaticChargeUpdate.slots", maximum=3), "StaticChargeUpdate/properties/slots/max"),
    "slots without an end": (field("StaticChargeUpdate.allowedSlots", type="integer"), "allowedSlots/type: "),
    "a callback with a time of payment": (
        field("ChargeUpdate", required=[*DOCUMENT["components"]["schemas"]["ChargeUpdate"]["required"], "confirmedAt"]),
        f"ChargeUpdate/required: {OTHERS} (required 'confirmedAt'); leave 'confirmedAt' out",
    ),
    "errors": (field("Problem.errors", maxItems=5), f"{SCHEMAS}Problem/properties/errors/maxItems: {OTHERS}"),
    "places of errors": (field("Fault.pointer", maxLength=40), f"{SCHEMAS}Fault/properties/pointer/maxLength: "),
    "texts of errors": (field("Problem.detail", maxLength=2_000), "Problem/properties/detail/maxLength: "),
    "a reason": (field("LnurlError.reason", pattern="^[ -~]+$"), "LnurlError/properties/reason/pattern: "),
    "an excluded invoice": (
        field("ChargeInvoice", **{"not": {"required": ["uri"]}}), f"{SCHEMAS}ChargeInvoice/not: ",
    ),
    "a condition": (
        field("Charge", **{"if": {"required": ["id"]}, "then": {"properties": {"internalId": {"minLength": 1}}}}),
        "Charge/then/properties/internalId/minLength: ",
    ),
    "a property that is left out": (
        lambda document: document["components"]["schemas"]["PayInvoice"]["properties"].pop("successAction"),
        f"PayInvoice/additionalProperties: {OTHERS} (additionalProperties False); declare the property 'successAction'",
    ),
    "the largest amount of a link": (field("PayRequest.maxSendable", maximum=10**8), "maxSendable/maximum: "),
    "an amount that is excluded": (field("Amount", **{"not": {"const": "12345"}}), f"{SCHEMAS}Amount/not: {OTHERS}"),
    "a format of amounts": (field("Amount", format="regex"), f"{SCHEMAS}Amount/format: {OTHERS}"),
    "the end of an amount": (
        field("Charge.amount", **{"not": {"pattern": "7$"}}), f"{SCHEMAS}Charge/properties/amount/not: {OTHERS}",
    ),
    "amounts of a list": (
        field("Charge.amount", enum=["1000"]), f"{SCHEMAS}Charge/properties/amount/enum: {OTHERS}",
    ),
    "a bound beside a reference": (
        field("StaticCharge.minAmount", maxLength=6), f"{SCHEMAS}StaticCharge/properties/minAmount/maxLength: {OTHERS}",
    ),
    "a pattern beside a reference": (
        field("StaticCharge.minAmount", pattern="0$"),
        f"{SCHEMAS}StaticCharge/properties/minAmount/pattern: {OTHERS} (pattern '0$'); write '^(?:[1-9][0-9]{{3,7}}",
    ),
    "values beside a reference": (
        together(
            field("RequestedAmount", pattern=None, enum=["1000", "2000"]), field("Amount", pattern="^[0-9]+$"),
            field("StaticCharge.maxAmount", enum=["1000"]),
        ),
        f"{SCHEMAS}StaticCharge/properties/maxAmount/enum: {OTHERS} (enum ['1000']); allow '2000', or leave it out",
    ),
    "an amount of a callback": (
        field("ChargeUpdate.amount", **{"not": {"const": "12345"}}), f"{SCHEMAS}ChargeUpdate/properties/amount/not: ",
    ),
    "an amount of a payment": (
        field("StaticChargeUpdate.amount", pattern="[0-68-9]$"), f"{SCHEMAS}StaticChargeUpdate/properties/amount/patt",
    ),
    "an amount that a payer may choose": (
        together(field("RequestedAmount", pattern="^[1-9]000$"), field("Amount", pattern="^[1-9]000$")),
        f"{SCHEMAS}Amount/pattern: {OTHERS} (pattern '^[1-9]000$'); write '^(?:",
    ),
    "the least amount of a link": (
        field("PayRequest.minSendable", **{"not": {"const": 12_345}}), f"{SCHEMAS}PayRequest/properties/minSendable/no",
    ),
    "a gap of amounts": (
        field("PayRequest.maxSendable", anyOf=[{"maximum": 20_000}, {"minimum": 30_000}]),
        f"{SCHEMAS}PayRequest/properties/maxSendable/anyOf/0/maximum: {OTHERS}",
    ),
    "one of two branches that are not apart": (
        field("Charge.description", oneOf=[{"const": "tea"}, {}]),
        f"{SCHEMAS}Charge/properties/description/oneOf: {OTHERS} (oneOf [{{'const': 'tea'}}, {{}}]); write anyOf in its"
        " place",
    ),
    "amounts that are multiples": (
        field("PayRequest.maxSendable", multipleOf=1_000), f"{SCHEMAS}PayRequest/properties/maxSendable/multipleOf: ",
    ),
    "one larger amount": (
        field("RequestedAmount", pattern="^(?:[1-9][0-9]{3,7}|600000000)$"), f"{SCHEMAS}Amount/pattern: {OTHERS}",
    ),
    "a condition on an amount": (
        field("Charge", **{
            "if": {"properties": {"amount": {"pattern": "^[2-4][0-9]{8}$"}}},
            "then": {"properties": {"internalId": {"type": "string"}}},
        }),
        f"{SCHEMAS}Charge/then/properties/internalId/type: {OTHERS}",
    ),
    "a pattern without an end": (
        field("ChargeRequest.internalId", pattern="^(order-[0-9]+)?$", maxLength=None),
        f"{SCHEMAS}Charge/properties/internalId/maxLength: {OTHERS} (maxLength 255)",
    ),
    "a message with a pattern": (
        field("StaticChargeRequest.successMessage", pattern="^Thanks.*$", maxLength=None),
        f"{SCHEMAS}StaticCharge/properties/successMessage/maxLength: {OTHERS}",
    ),
    "an address without an end": (
        field("StaticChargeRequest.identifier", pattern="^(?:|[a-z]+@[a-z]+)$"),
        f"{SCHEMAS}StaticCharge/properties/identifier/maxLength: {OTHERS}",
    ),
    "an added field": (
        together(
            lambda document: document["components"]["schemas"]["ChargeRequest"]["properties"].update(
                table={"type": "string", "maxLength": 50}
            ),
            lambda document: document["components"]["schemas"]["Charge"]["properties"].update(
                table={"type": ["string", "null"], "maxLength": 9}
            ),
        ),
        f"{SCHEMAS}Charge/properties/table/maxLength: {OTHERS} (maxLength 9); write 50, or leave it out",
    ),
}  # fmt: skip


def checked(edit: Edit, handlers: Mapping[str, Any]) -> None:
    document = copy.deepcopy(BARE)
    edit(document)
    contract = load_contract(document, known_as="charges.openapi.yaml")
    check_served(contract, handlers)
    check_sent(contract, packaged_contract("charges"), handlers)


@pytest.mark.parametrize("name", NARROWER)
def test_a_schema_that_excludes_what_may_be_sent_is_refused(name: str, handlers: Mapping[str, Any]) -> None:
    edit, text = NARROWER[name]
    with pytest.raises(ContractError) as refusal:
        checked(edit, handlers)
    assert text in str(refusal.value)
    assert "#/" in str(refusal.value).split(": ")[0]
    assert "\n" not in str(refusal.value)


def schema_node(document: Document, location: str) -> Any:
    node: Any = document
    for key in split_pointer(location[1:]):
        node = node[int(key) if isinstance(node, list) else key]
    return node


WHOLE_SATOSHIS = "^(?:[1-9][0-9]{0,4}000|[1-4][0-9]{5}000|500000000)$"


@pytest.mark.parametrize(
    "edit",
    [
        together(field("RequestedAmount", pattern=WHOLE_SATOSHIS), field("Amount", pattern=WHOLE_SATOSHIS)),
        field("ChargeUpdate.internalId", maxLength=50),
        together(
            field("ChargeRequest", properties={**BARE["components"]["schemas"]["ChargeRequest"]["properties"],
                                               "shop": {"type": "string", "pattern": "^(?:it's|\\\\d|\\.)$"}}),
            field("Charge", properties={**BARE["components"]["schemas"]["Charge"]["properties"],
                                        "shop": {"type": ["string", "null"], "pattern": "^it's$"}}),
        ),
    ],
)  # fmt: skip
def test_the_keyword_of_a_mend_can_be_copied(edit: Edit, handlers: Mapping[str, Any]) -> None:
    with pytest.raises(ContractError) as refusal:
        checked(edit, handlers)
    location, _, rest = str(refusal.value).partition(": ")
    text = rest.rpartition("; write ")[2].removesuffix(", or leave it out")
    value = read_yaml(text.encode(), "mend.yaml")

    def mended(document: Document) -> None:
        edit(document)
        holder, _, keyword = location.rpartition("/")
        schema_node(document, holder)[keyword] = value

    checked(mended, handlers)


def test_a_keyword_that_is_too_long_to_copy_is_to_be_left_out() -> None:
    known = {"type": "string", "pattern": f"^(?:{'|'.join(str(number) for number in range(1_000, 1_100))})$"}
    found = Inclusion(Schemas({}, "#", is_checked=True)).narrower({"type": "string", "pattern": "^1"}, (known,), "#")
    assert found is None
    found = Inclusion(Schemas({}, "#", is_checked=True)).narrower({"type": "string", "pattern": "^10+$"}, (known,), "#")
    assert found is not None
    assert found.mend == "leave it out"


def test_such_a_document_does_not_start() -> None:
    document = copy.deepcopy(BARE)
    field("Fault.pointer", maxLength=40)(document)
    with pytest.raises(ContractError, match=r"^#/components/schemas/Fault/properties/pointer/maxLength: Leyden may"):
        Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def renamed(node: Any) -> Any:
    """The document with another name of the state `completed`."""
    if isinstance(node, list):
        return [renamed(one) for one in node]
    if isinstance(node, dict):
        return {"paid" if key == "completed" else key: renamed(value) for key, value in node.items()}
    return "paid" if node == "completed" else node


def properties_of(name: str, **properties: Any) -> Edit:
    return lambda document: document["components"]["schemas"][name]["properties"].update(properties)


def amounts(pattern: str) -> Edit:
    return together(
        field("RequestedAmount", pattern=pattern), field("Amount", pattern=pattern),
        field("PayRequest.minSendable", maximum=9_999), field("PayRequest.maxSendable", maximum=9_999),
    )  # fmt: skip


def shorter(name: str, **changes: Any) -> Edit:
    """The same bound in the requests and in everything that has their values."""
    own = ("ChargeRequest", "Charge", "ChargeUpdate", "StaticChargeUpdate")
    places = (*own, "StaticChargeRequest", "StaticChargeChanges", "StaticCharge")
    return together(*(field(f"{one}.{name}", **changes) for one in places))


SERVED: dict[str, Edit] = {
    "the packaged document": lambda _: None,
    "shorter texts in requests and responses": shorter("internalId", maxLength=20),
    "a pattern in requests and responses": shorter("internalId", pattern="^[a-z]*$"),
    "longer texts in requests and responses": together(
        shorter("description", maxLength=2_000), LONG, field(MESSAGE, maxLength=500)
    ),
    "an internal id that is a UUID": together(
        field("ChargeRequest.internalId", maxLength=None, format="uuid"),
        requests("internalId", maxLength=None, format="uuid"),
    ),
    "another pattern of an address": field(
        "StaticChargeRequest.identifier", pattern="^(?:|[a-z0-9+]{1,64}@[a-z0-9.]{1,200})$"
    ),
    "one of two branches that are apart": together(
        field("Charge.internalId", type=None, maxLength=None, oneOf=[{"type": "string"}, {"type": "null"}]),
        field("Charge.unit", oneOf=[{"const": "msats"}, {"const": "sats"}]),
        lambda document: document["components"]["schemas"]["ChargeInvoice"].update(
            oneOf=[{}, {"required": ["nothing"]}]
        ),
    ),
    "lower amounts": amounts("^[1-9][0-9]{3}$"),
    "amounts that are integers": together(
        field("RequestedAmount", pattern=None, type="integer", minimum=5_000, exclusiveMaximum=1_000_001),
        field("Amount", pattern="^(?:[5-9][0-9]{3}|[1-9][0-9]{4,5}|1000000)$"),
        field("PayRequest.minSendable", minimum=5_000, maximum=1_000_000),
    ),
    "amounts of a list": together(
        field("RequestedAmount", pattern=None, enum=["1000", "2000"]),
        field("Amount", pattern="^(?:1[0-9]{3}|2000)$"), field("StaticCharge.minAmount", enum=["2000", "1000"]),
    ),
    "a message with a pattern of a length": field(
        "StaticChargeRequest.successMessage", pattern="^Thanks.{0,138}$", maxLength=None
    ),
    "looser amounts": together(
        field("RequestedAmount", pattern="^[1-9][0-9]{3}$"), field("Amount", pattern="^[1-9][0-9]*$")
    ),
    "looser schemas": together(
        field("Problem.code", pattern=None), field("PaymentRequest", pattern=None),
        field("Charge.internalId", maxLength=None),
    ),
    "lengths that a pattern has": together(
        field("Id", minLength=36, maxLength=36), field("Timestamp", maxLength=24), field("Problem.code", minLength=1)
    ),
    "no description": field("Charge", description=None),
    "an address in a callback": field("ChargeUpdate.callbackUrl", type="string"),
    "larger pages": together(
        limit, field("ChargeListAnswer.data", maxItems=5_000), field("StaticChargeListAnswer.data", maxItems=5_000)
    ),
    "smaller pages": together(
        schema_of("parameters", "Limit", type="integer", minimum=1, default=20, allOf=[{"exclusiveMaximum": 51}]),
        field("ChargeListAnswer.data", maxItems=50), field("StaticChargeListAnswer.data", maxItems=50),
    ),
    "pages of some lengths": together(
        schema_of("parameters", "Limit", type="integer", enum=[10, 20, 50], default=20),
        field("ChargeListAnswer.data", maxItems=50), field("StaticChargeListAnswer.data", maxItems=50),
    ),
    "an added field": together(
        properties_of("ChargeRequest", table={"type": ["string", "null"], "maxLength": 20}),
        properties_of("Charge", table={"type": ["string", "null"], "maxLength": 20}),
    ),
    "an added field of one operation": together(
        properties_of("StaticChargeRequest", table={"type": ["string", "null"]}),
        properties_of("StaticCharge", table={"type": ["string", "null"]}),
    ),
    "an added field with a default": together(
        properties_of("StaticChargeRequest", size={"type": "integer", "minimum": 1, "maximum": 9, "default": 3}),
        properties_of("StaticCharge", size={"type": "integer", "minimum": 1, "maximum": 9}),
        lambda document: document["components"]["schemas"]["StaticCharge"]["required"].append("size"),
    ),
    "a field that is never sent": properties_of("Charge", rating={"type": "integer", "maximum": 5}),
    "a renamed state": lambda document: document.update(renamed(copy.deepcopy(document))),
    "only payments are reported": together(
        lambda document: document["paths"]["/v0/charges"]["post"]["callbacks"]["chargeUpdated"][
            "{$request.body#/callbackUrl}"]["x-delivery"].update(events={"completed": "charge.completed"}),
        field("ChargeUpdate.status", enum=["completed"]),
        field("ChargeUpdate", **{"if": None, "then": None, "dependentSchemas": None, "required": [
            *DOCUMENT["components"]["schemas"]["ChargeUpdate"]["required"], "confirmedAt"]}),
    ),
    "a schema of what a creation returns": lambda document: document["paths"]["/v0/charges"]["post"]["responses"][
        "200"]["content"]["application/json"].update(schema={
            "allOf": [{"$ref": "#/components/schemas/ChargeAnswer"}],
            "properties": {"data": {"properties": {
                "status": {"const": "pending"}, "confirmedAt": {"type": "null"}, "staticChargeId": {"type": "null"},
            }}},
        }),
    "headers as numbers": together(
        schema_of("headers", "RetryAfter", type="integer", minimum=1),
        schema_of("headers", "IdempotentReplayed", type="string", enum=["true"]),
        schema_of("parameters", "LeydenAttempt", type="integer", minimum=1),
        schema_of("parameters", "WebhookId", type="string", format="uuid"),
    ),
    "joined schemas": lambda document: document["components"]["schemas"].update(
        Note={"type": ["string", "null"]},
        Charge={
            **{key: value for key, value in document["components"]["schemas"]["Charge"].items()
               if key != "additionalProperties"},
            "unevaluatedProperties": False, "allOf": [{"properties": {"note": {"$ref": "#/components/schemas/Note"}}}],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_a_schema_that_allows_what_is_sent_is_served(name: str, handlers: Mapping[str, Any]) -> None:
    checked(SERVED[name], handlers)


CASES: list[tuple[Any, Any, bool]] = [
    ({"type": ["string", "null"]}, {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}, True),
    ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]}, {"type": ["string", "null"]}, False),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"], "maxLength": 2}, True),
    ({"type": "number"}, {"type": "integer"}, True),
    ({"type": "integer"}, {"type": "number"}, False),
    ({"exclusiveMaximum": 4}, {"type": "integer", "maximum": 3}, True),
    ({"exclusiveMaximum": 4}, {"type": "integer", "maximum": 4}, False),
    ({"maximum": 4}, {"type": "number", "exclusiveMaximum": 4}, True),
    ({"multipleOf": 5}, {"type": "integer", "multipleOf": 10}, True),
    ({"multipleOf": 10}, {"type": "integer", "multipleOf": 5}, False),
    ({"multipleOf": 1}, {"type": "integer"}, True),
    ({"enum": ["a", "b", "c"]}, {"enum": ["a", "b"]}, True),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, False),
    ({"const": True}, {"type": "boolean"}, False),
    ({"enum": [True, False, None]}, {"type": ["boolean", "null"]}, True),
    ({"required": ["a"]}, {"type": "object", "required": ["a", "b"]}, True),
    ({"required": ["a"]}, {"type": "object", "properties": {"a": True}}, False),
    ({"maxProperties": 1}, {"type": "object", "properties": {"a": {}}, "additionalProperties": False}, True),
    ({"maxProperties": 1}, {"type": "object", "properties": {"a": {}}}, False),
    ({"minProperties": 1}, {"type": "object", "required": ["a"]}, True),
    ({"additionalProperties": False},
     {"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
    ({"additionalProperties": {"type": "string"}},
     {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, True),
    ({"items": {"type": "string"}}, {"type": "array", "items": {"const": "a"}}, True),
    ({"items": False}, {"type": "array", "maxItems": 0}, True),
    ({"items": {"maxLength": 1}}, {"type": "array"}, False),
    ({"uniqueItems": True}, {"type": "array", "maxItems": 1}, True),
    ({"uniqueItems": True}, {"type": "array"}, False),
    ({"contains": {"const": 1}}, {"type": "array"}, False),
    ({"format": "uuid", "maxLength": 36}, {"type": "string", "format": "uuid"}, True),
    ({"maxLength": 35}, {"type": "string", "format": "uuid"}, False),
    ({"minLength": 4, "maxLength": 4}, {"type": "string", "pattern": "^[0-9a-f]{3}-$"}, True),
    ({"minLength": 1}, {"type": "string", "pattern": "^[a-z]+$"}, True),
    ({"minLength": 1}, {"type": "string", "pattern": "^[a-z]*$"}, False),
    ({"not": {"const": 1}}, {"type": "integer"}, False),
    ({"dependentRequired": {"a": ["b"]}}, {"type": "object", "required": ["b"]}, True),
    ({"dependentRequired": {"a": ["b"]}}, {"type": "object"}, False),
    ({"pattern": "^a", "minimum": 3}, {"type": "boolean"}, True),
    ({"additionalProperties": False, "patternProperties": {"^a": {}}},
     {"type": "object", "properties": {"ab": {}}, "additionalProperties": False}, True),
    ({"minLength": 1}, {"type": "string", "pattern": r"^\p{L}+$"}, True),
    ({"minLength": 1}, {"type": "string", "pattern": r"^\p{L}*$"}, False),
    ({"type": "integer"}, {"allOf": [{"anyOf": [{"const": n} for n in range(60)]}] * 3}, True),
    ({"maximum": 4}, {"allOf": [{"enum": ["a", 1, 9]}, {"type": "integer", "maximum": 4}]}, True),
    (False, {"type": "string"}, False),
    (False, {"enum": []}, True),
    (True, {}, True),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "known", "is_included"), CASES)
def test_the_keywords_of_a_schema_are_compared(schema: Any, known: Any, is_included: bool) -> None:
    found = Inclusion(Schemas({}, "#", is_checked=True)).narrower(schema, (known,), "#")
    assert (found is None) == is_included


LEAVES = st.sampled_from([
    {"type": "string", "maxLength": 2}, {"type": "string", "minLength": 1, "maxLength": 3}, {"enum": ["a", 1]},
    {"type": "integer", "minimum": 1}, {"type": "integer", "exclusiveMinimum": 1, "maximum": 4}, {"type": "null"},
    {"type": ["string", "null"]}, {"const": "aa"}, {"type": "number", "multipleOf": 2}, {"type": "boolean"}, {},
])  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.lists(below, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts}),
        st.lists(below, min_size=1, max_size=2).map(lambda parts: {"allOf": parts}),
        st.builds(lambda one, closed: {"type": "object", "properties": {"a": one}, "additionalProperties": not closed},
                  below, st.booleans()),
        st.builds(lambda one, more: {"type": "object", "properties": {"a": one}, "required": ["a"], **more}, below,
                  st.sampled_from([{}, {"maxProperties": 1}])),
        below.map(lambda one: {"type": "array", "items": one, "maxItems": 1}),
    ),
    max_leaves=4,
)  # fmt: skip
SCALARS: list[Any] = ["", "a", "aa", "aaa", "aaaa", 0, 1, 2, 3, 4, 5, 1.5, None, True, False]
VALUES = [*SCALARS, [], *([one] for one in SCALARS), {}, *({"a": one} for one in SCALARS), {"a": "a", "b": 1}, {"b": 1}]


@given(schema=TREES | st.lists(TREES, min_size=1, max_size=3).map(lambda parts: {"oneOf": parts}), known=TREES)
def test_no_value_of_the_known_schemas_is_excluded(schema: Any, known: Any) -> None:
    schemas = Schemas({}, "#", is_checked=True)
    if Inclusion(schemas).narrower(schema, (known,), "#") is None:
        for value in VALUES:
            if schemas.validator(known, "#").is_valid(value):
                assert schemas.validator(schema, "#").is_valid(value), value


@given(schema=TREES)
def test_a_schema_allows_its_own_values(schema: Any) -> None:
    known = copy.deepcopy(schema)
    known["description"] = "written in another way"
    assert Inclusion(Schemas({}, "#", is_checked=True)).narrower(schema, (known,), "#") is None
