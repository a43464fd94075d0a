"""A spec is compiled once, or refused with the location and the correction."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from tests.support.edited_values import DELETE, edited
from tests.support.examples import examples
from tests.support.small_spec import SMALL, small

ORDERS = "/paths/~1v0~1orders/post"
ORDER = "/paths/~1v0~1orders~1{id}"
PAY = "/paths/~1pay~1{id}/get"
CALLBACK = ORDERS + "/callbacks/orderUpdated/{$request.body#~1hookUrl}"
NEW_ORDER = "/components/schemas/NewOrder/properties"
ROWS = "/components/schemas/Order/properties/status/x-lifecycle"
JSON_BODY = "/content/application~1json"


@pytest.fixture(scope="module")
def contract() -> Contract:
    return load_contract(small())


# What a compiled document contains


def test_an_operation_knows_its_route_its_key_and_its_basis(contract):
    order, pay = contract.operations["getOrder"], contract.operations["payOrder"]
    assert (order.method, order.path, order.handler_name) == ("get", "/v0/orders/{id}", "get_order")
    assert (order.secured, order.basis, order.decision, order.errors_as) == (True, "decision", "paths", "problem")
    assert (pay.secured, pay.basis, pay.decision, pay.errors_as) == (False, "specification", None, "lnurl")
    assert contract.api_key_header == "apikey"


def test_operations_keep_the_order_of_the_document(contract):
    assert list(contract.operations) == ["createOrder", "getOrder", "payOrder"]


def test_limits_title_and_version_are_read_from_the_document(contract):
    assert (contract.body_limit, contract.depth_limit) == (2048, 8)
    assert (contract.title, contract.version) == ("A shop", "1.2.0")


def test_a_parameter_of_the_path_applies_to_its_operations(contract):
    (parameter,) = contract.operations["getOrder"].parameters
    assert (parameter.name, parameter.location, parameter.required, parameter.kind) == ("id", "path", True, "string")
    assert parameter.rule.validator.is_valid("1c6e6bfb-6a3c-4b8e-9d43-0a1d4e6ec7a1")
    assert not parameter.rule.validator.is_valid("order-1")


def test_a_query_parameter_has_a_type_and_a_default(contract):
    limit = contract.operations["payOrder"].parameters[1]
    assert (limit.name, limit.location, limit.required, limit.kind, limit.default) == (
        "limit",
        "query",
        False,
        "integer",
        100,
    )


def test_an_operations_parameter_replaces_the_paths(contract):
    document = edited(
        small(),
        ORDER + "/get/parameters",
        [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
    )
    (parameter,) = load_contract(document).operations["getOrder"].parameters
    assert parameter.kind == "integer"


def test_a_body_knows_its_names_its_defaults_and_what_counts_as_absent(contract):
    body = contract.operations["createOrder"].body
    assert body.media_types == ("application/json",)
    assert body.required
    assert body.properties == ("amount", "note", "hookUrl", "days", "weight")
    assert body.defaults == {"note": None, "days": 7}
    assert body.absent == {"days": (0, None, "")}


def test_an_integer_is_required_only_where_the_schema_allows_no_fraction(contract):
    assert contract.operations["createOrder"].body.rule.integers == (("days",),)


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ({"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}, (("a", "b"),)),
        ({"properties": {"a": {"anyOf": [{"type": "integer"}, {"const": ""}]}}}, (("a",),)),
        ({"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "number"}]}}}, ()),
        ({"properties": {"a": {"oneOf": [{"enum": [1, 2]}, {"type": "null"}]}}}, (("a",),)),
        ({"properties": {"a": {"enum": [1, 2.5]}}}, ()),
        ({"properties": {"a": {"allOf": [{"type": "integer"}, {}]}}}, (("a",),)),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}]}, (("a",),)),
        ({"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]}, (("a",),)),
        ({"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}]}, ()),
        ({"properties": {"a": {}, "b": True, "c": {"type": "string"}}}, ()),
    ],
)
def test_integers_are_found_through_every_combination(schema, paths):
    document = edited(small(), "/components/schemas/Any", schema)
    assert load_contract(document).schemas["Any"].integers == paths


def test_the_echoed_names_are_those_that_request_and_response_share(contract):
    assert contract.operations["createOrder"].echoed == ("amount", "note")


def test_a_field_added_to_request_and_response_is_echoed_without_new_code():
    document = edited(small(), NEW_ORDER + "/table", {"type": "string"})
    document = edited(document, "/components/schemas/Order/properties/table", {"type": "string"})
    assert load_contract(document).operations["createOrder"].echoed == ("amount", "note", "table")


def test_a_list_response_echoes_the_fields_of_its_items():
    document = edited(
        small(),
        "/components/schemas/OrderAnswer/properties/data",
        {"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
    )
    document = edited(document, ORDER + "/get/responses/200" + JSON_BODY + "/examples", DELETE)
    document = edited(document, ORDERS + "/responses/200/links", DELETE)
    assert load_contract(document).operations["createOrder"].echoed == ("amount", "note")


def test_a_reply_knows_its_body_its_headers_and_the_constant_ones(contract):
    reply = contract.operations["createOrder"].responses[200]
    assert reply.media_type == "application/json"
    assert reply.headers == ("access-control-allow-origin", "replayed")
    assert reply.constants == (("access-control-allow-origin", "*"),)
    refused = contract.operations["createOrder"].responses[404]
    assert refused.media_type == "application/problem+json"
    assert not refused.rule.validator.is_valid({"status": "404"})


def test_examples_are_found_behind_references(contract):
    (example,) = contract.operations["getOrder"].responses[200].examples
    assert example["data"]["status"] == "new"


def test_a_callback_has_the_pointer_to_its_url_and_its_schedule(contract):
    (callback,) = contract.operations["createOrder"].callbacks
    assert (callback.name, callback.operation_id, callback.url_path) == ("orderUpdated", "createOrder", ("hookUrl",))
    assert [(header.name, header.required) for header in callback.headers] == [("webhook-id", True)]
    assert callback.delivery.received == frozenset({200})
    delivery = callback.delivery
    assert delivery.events == {"paid": "order.paid"}
    assert delivery.delays_ms == (0, 5_000, 300_000)
    assert (delivery.connect_timeout_ms, delivery.timeout_ms, delivery.rotation_ms) == (3_000, 15_000, 86_400_000)
    assert (delivery.form, delivery.jitter, delivery.retry_after_times, delivery.in_flight) == ("flat", 0.2, 2, 8)


def test_a_lifecycle_is_a_table_of_transitions_and_refusals(contract):
    table = contract.lifecycles["Order"]
    assert table.states == ("new", "paid", "gone")
    assert table.triggers == ("created", "paid", "time_up")
    assert (table.initial, table.terminal) == ("new", ("paid", "gone"))
    paid, late = table.rows[1:3]
    assert (paid.source, paid.trigger, paid.when, paid.to, paid.effects) == (
        "new",
        "paid",
        "in_time",
        "paid",
        ("notify",),
    )
    assert (late.when, late.to, late.refuse, late.because) == (None, None, "too_late", "The time is over.")


def test_a_reference_with_a_description_beside_it_keeps_both(contract):
    amount = contract.operations["createOrder"].body.rule.schema["properties"]["amount"]
    assert amount["pattern"] == "^[1-9][0-9]{0,5}$"
    assert amount["x-expect"] == "whole coins as a text"


def test_a_reference_with_a_bound_beside_it_enforces_both():
    document = edited(small(), NEW_ORDER + "/amount", {"$ref": "#/components/schemas/Amount", "maxLength": 2})
    rule = load_contract(document).schemas["NewOrder"]
    assert rule.validator.is_valid({"amount": "50"})
    assert not rule.validator.is_valid({"amount": "500"})
    assert not rule.validator.is_valid({"amount": "5x"})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("uuid", "1c6e6bfb-6a3c-4b8e-9d43-0a1d4e6ec7a1", "1c6e6bfb"),
        ("date-time", "2030-01-01T09:00:00.000Z", "2030-01-01"),
        ("uri", "https://shop.example/hook", "not a uri"),
    ],
)
def test_formats_are_checked_and_not_only_described(kind, good, bad):
    document = edited(small(), "/components/schemas/Text", {"type": "string", "format": kind})
    validator = load_contract(document).schemas["Text"].validator
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)


def test_a_digits_pattern_refuses_a_line_break_at_the_end(contract):
    assert not contract.schemas["Amount"].validator.is_valid("50\n")


def test_a_property_may_be_declared_absent():
    document = edited(small(), NEW_ORDER + "/gift", False)
    contract = load_contract(document)
    assert not contract.schemas["NewOrder"].validator.is_valid({"amount": "5", "gift": 1})
    assert "gift" not in contract.operations["createOrder"].body.properties


def test_the_document_is_served_unchanged():
    document = small()
    contract = load_contract(document)
    assert contract.document == small()
    assert json.loads(json.dumps(contract.document)) == document


def test_a_spec_is_read_from_a_file_and_the_file_is_named_in_errors(tmp_path: Path):
    file = tmp_path / "shop.openapi.yaml"
    file.write_text(SMALL)
    assert load_contract(file).document == load_contract(str(file)).document == small()
    file.write_text(SMALL.replace("maxLength: 20", "maxLenght: 20"))
    with pytest.raises(ContractError, match=rf"^{re.escape(str(file))}#/components/parameters/Retry/schema: unknown"):
        load_contract(file)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ContractError, match=r"absent\.yaml: cannot read this spec"):
        load_contract(tmp_path / "absent.yaml")


# What is refused

REFUSALS = read_yaml((Path(__file__).parent / "spec_refusals.yaml").read_text(), "spec_refusals.yaml")


def _written_out(text: str) -> str:
    for name, place in REFUSALS["places"].items():
        text = re.sub(rf"\b{name}\b", lambda _, place=place: place, text)
    return text


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(refusal, id=refusal["case"])
        for part in ("document", "lifecycle", "delivery")
        for refusal in REFUSALS[part]
    ],
)
def test_a_spec_that_cannot_be_served_is_refused_with_the_location_and_the_correction(refusal):
    document = edited(small(), _written_out(refusal["at"]), refusal.get("put", DELETE))
    with pytest.raises(ContractError) as error:
        load_contract(document)
    assert _written_out(refusal["message"]) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("overlays", "place", "missing"),
    [
        ([], "/components/schemas/ChargeUpdate/properties/status", "refunded"),
        ([], "/components/parameters/LeydenEvent/schema", "charge.refunded"),
        (["callback-envelope"], "/components/schemas/ChargeUpdate/properties/status", "refunded"),
        (["callback-envelope"], "/components/schemas/ChargeUpdateEnvelope/properties/type", "charge.refunded"),
    ],
)
def test_a_new_state_that_a_callback_cannot_report_is_named_with_the_place(overlays, place, missing):
    """The state `refunded` and its event are added wherever they belong, except at one place."""
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    charge = document["components"]["schemas"]["Charge"]["properties"]["status"]
    charge["enum"].append("refunded")
    rows = charge["x-lifecycle"]
    [refusal] = [row for row in rows if (row["from"], row["trigger"]) == ("expired", "invoice_failed")]
    del refusal["refuse"], refusal["because"]
    refusal.update(to="refunded", effects=["notify"])
    rows += [{**row, "from": "refunded"} for row in rows if row["from"] == "error"]
    callback = "/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}"
    edited(document, f"{callback}/x-delivery/events/refunded", "charge.refunded")
    for pointer, value in {
        "/components/schemas/ChargeUpdate/properties/status": "refunded",
        "/components/parameters/LeydenEvent/schema": "charge.refunded",
    }.items():
        if pointer != place:
            edited(document, f"{pointer}/enum/-", value)
    with pytest.raises(ContractError) as error:
        load_contract(document, overlays=overlays, known_as="charges.openapi.yaml")
    assert str(error.value).startswith(f"charges.openapi.yaml#{callback}/x-delivery/events: {missing!r} is ")
    assert f"charges.openapi.yaml#{place} does not allow it; add {missing!r} there" in str(error.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{$request.body#/hookUri}", "the request body declares no property 'hookUri'; did you mean 'hookUrl'?"),
        ("{$request.query.hookUrl}", "the expression must be"),
        ("https://shop.example/hook", "the expression must be"),
    ],
)
def test_a_callback_url_must_come_from_the_request_body(expression, message):
    document = small()
    callbacks = document["paths"]["/v0/orders"]["post"]["callbacks"]["orderUpdated"]
    callbacks[expression] = callbacks.pop("{$request.body#/hookUrl}")
    with pytest.raises(ContractError) as refusal:
        load_contract(document)
    assert message in str(refusal.value)


@pytest.mark.parametrize("document", [None, [], "openapi", 3])
def test_a_text_that_is_no_document_is_refused(document, tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_text(json.dumps(document))
    with pytest.raises(ContractError) as refusal:
        load_contract(file)
    assert str(refusal.value) == f"{file} is not an OpenAPI document: its root must be a mapping"


WORDS = st.sampled_from(["", "x", "5s", "#/components/schemas/Order", "#/components/schemas/Amount"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 700) | st.floats(-2, 2) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "$ref", "schema", "a"]), inner, max_size=2)
    ),
    max_leaves=3,
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [place] if place else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*place, key))
    return found


PLACES = _places(small())


@examples(300, bounded=60)
@given(place=st.sampled_from(PLACES), value=ANYTHING | st.just(DELETE))
def test_any_error_in_a_spec_is_reported_in_one_line(place, value):
    document = small()
    holder: Any = document
    for key in place[:-1]:
        holder = holder[key]
    if value is DELETE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    message = ""
    try:
        load_contract(document)
    except ContractError as refusal:
        message = str(refusal)
    assert "\n" not in message
    assert len(message) < 1_000


# The real documents


@pytest.mark.parametrize("name", ["charges", "sandbox"])
def test_the_packaged_documents_are_served_as_they_are(name):
    contract = load_contract(default_spec(name))
    assert contract.operations
    assert contract.overlays == ()
    assert all(operation.success.rule is not None for operation in contract.operations.values())


def test_the_service_is_the_default_document():
    assert "createCharge" in load_contract().operations


def test_an_unknown_packaged_document_is_refused():
    with pytest.raises(ContractError, match="no packaged spec 'charge'; did you mean 'charges'"):
        default_spec("charge")


def test_a_tighter_bound_applies_at_once(contract):
    order = {"amount": "5", "note": "123456"}
    assert contract.schemas["NewOrder"].validator.is_valid(order)
    tighter = load_contract(edited(small(), NEW_ORDER + "/note/maxLength", 5))
    assert not tighter.schemas["NewOrder"].validator.is_valid(order)


def test_a_changed_schedule_applies_at_once():
    contract = load_contract(edited(small(), CALLBACK + "/x-delivery/attempts", [0, "1s"]))
    assert contract.operations["createOrder"].callbacks[0].delivery.delays_ms == (0, 1_000)


def test_a_new_constant_header_applies_at_once():
    headers = {"X-Shop": {"schema": {"const": "tea"}}}
    contract = load_contract(edited(small(), PAY + "/responses/200/headers", headers))
    assert contract.operations["payOrder"].responses[200].constants == (("x-shop", "tea"),)


def test_a_new_transition_between_known_triggers_applies_at_once():
    row = {"from": "gone", "trigger": "time_up", "to": "new", "basis": "specification"}
    table = load_contract(edited(small(), ROWS + "/7", row)).lifecycles["Order"]
    assert (table.rows[7].to, table.terminal) == ("new", ("paid",))
