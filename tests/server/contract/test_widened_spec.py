"""A document that allows or promises more than the packaged one is served as it says, or refused with its place."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from leyden import Sandbox
from leyden.server.charges.wire_model import (
    CHARGE_NAMES,
    CHARGE_UPDATE_NAMES,
    STATIC_CHARGE_NAMES,
    STATIC_CHARGE_UPDATE_NAMES,
)
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.json_schema.schemas import value_types
from leyden.server.contract.load import default_spec, known_overlays, load_contract
from leyden.server.contract.served import unread
from leyden.server.errors import ContractError
from tests.support.deep import sampled

Node = dict[str, Any]
TEA = {"amount": "1000", "description": "tea"}
TIPS = {"minAmount": "1000", "maxAmount": "9000", "description": "tips"}
WIDE = {"type": "string"}


def without_examples(node: Any) -> Any:
    """The document without its examples, as somebody has it who edits a schema."""
    if isinstance(node, list):
        return [without_examples(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_examples(value)
        for key, value in node.items()
        if key not in {"example", "examples"} or "x-limits" in node or "schemas" in node
    }


DOCUMENT = without_examples(read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml"))


def edited(*path: str | int, put: Any = None, take: bool = False) -> Node:
    """The document with one node put in a place, or taken out."""
    document: Any = copy.deepcopy(DOCUMENT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if take:
        del holder[path[-1]]
    else:
        holder[path[-1]] = put
    return document  # type: ignore[no-any-return]


def opened(document: Node) -> Sandbox:
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def refusal(document: Node) -> str:
    with pytest.raises(ContractError) as refused:
        opened(document).close()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def key(sandbox: Sandbox, more: dict[str, str]) -> dict[str, str]:
    return {"apikey": sandbox.world.config.api_key, "Content-Type": "application/json"} | more


def parameter(name: str, **schema: Any) -> Node:
    return edited("components", "parameters", name, "schema", put=schema)


def request_field(schema: str, name: str, **value: Any) -> Node:
    return edited("components", "schemas", schema, "properties", name, put=value)


OPERATIONS = {
    name: ("paths", path, method)
    for name, path, method in (
        ("createCharge", "/v0/charges", "post"),
        ("listCharges", "/v0/charges", "get"),
        ("getChargeDetails", "/v0/charges/{id}", "get"),
        ("getWallet", "/v0/wallet", "get"),
        ("getPayRequest", "/lnurlp/{id}", "get"),
    )
}
WALLET_200 = (*OPERATIONS["getWallet"], "responses", "200")


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> Callable[[Node], Sandbox]:
    """Opens a document that no start would serve."""
    monkeypatch.setattr("leyden.sandbox.opening.try_contract", lambda *_: None)
    return opened


CURSORS = {"type": "string", "pattern": "^(?:zz|0001-0{11}|1{40}|000[12][0-9]{11}[0-9g])$"}  # wider than cursors are


@pytest.mark.parametrize("after", ["zz", "0001-00000000000", "1" * 40, "000100000000000g"])
def test_a_text_that_is_no_cursor_is_refused_by_the_list(after, untried):
    with untried(parameter("After", **CURSORS)) as sandbox:
        answer = sandbox.request("GET", f"/v0/charges?after={after}")
        assert (answer.status, orjson.loads(answer.body)["errors"]) == (
            400, [{"pointer": "query.after", "detail": "not a cursor of this list; send next of its last page"}],
        )  # fmt: skip


def test_a_cursor_of_another_list_is_refused_whatever_the_pattern(untried):
    with untried(parameter("After", **CURSORS)) as sandbox:
        assert sandbox.request("GET", "/v0/charges?after=0002000000000001").status == 400
        assert sandbox.request("GET", "/v0/charges?after=0001000000000001").status == 200


@pytest.mark.parametrize("limit", [1, 1_001, 10**17])
def test_a_limit_without_a_maximum_is_served(limit):
    document = parameter("Limit", type="integer", minimum=1, default=20)
    for name in ("ChargeListAnswer", "StaticChargeListAnswer"):
        del document["components"]["schemas"][name]["properties"]["data"]["maxItems"]
    with opened(document) as sandbox:
        sandbox.charges.create(**TEA)
        assert len(sandbox.ask("GET", f"/v0/charges?limit={limit}")["data"]) == 1


@pytest.mark.parametrize(
    ("schema", "most", "name"),
    [
        ("ChargeRequest", 34_359_738_367, "create_charge"),
        ("StaticChargeRequest", 220_898_620_799, "create_static_charge"),
    ],
)
def test_the_greatest_expiry_is_served_and_a_greater_one_names_it(schema, most, name):
    body = TEA if schema == "ChargeRequest" else TIPS
    place = ("components", "schemas", schema, "properties", "expiresIn", "anyOf", 0)
    with opened(edited(*place, "maximum", put=most)) as sandbox:
        sandbox.advance_to("2999-12-31T23:59:00Z")
        path = "/v0/charges" if schema == "ChargeRequest" else "/v0/static-charges"
        assert sandbox.ask("POST", path, {**body, "expiresIn": most})["success"]
    for document in (edited(*place, "maximum", put=most + 1), edited(*place, "maximum", take=True)):
        text = refusal(document)
        assert f" to {most}; received the number " in text, text
        assert "its code does not expect it" not in text
    texts = edited(*place[:-1], put=[{"type": ["integer", "null"], "minimum": 0, "maximum": 600}, {"type": "string"}])
    texts["components"]["schemas"][schema]["properties"]["expiresIn"]["anyOf"][1]["pattern"] = "^(?:|[1-9][0-9]{0,11})$"
    assert f"{name} reads expiresIn as a whole number" in refusal(texts)


def test_a_limit_without_a_minimum_is_refused():
    text = refusal(parameter("Limit", type="integer", maximum=100, default=20))
    assert text.startswith("paths./v0/charges.get: a request with ?limit=-1 is valid, but cannot be served")
    assert "query.limit: must be at least 1" in text


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("ChargeId", "/v0/charges/{}"),
        ("StaticChargeId", "/v0/static-charges/{}"),
        ("LinkId", "/lnurlp/{}"),
        ("AddressUser", "/.well-known/lnurlp/{}"),
        ("InternalId", "/v0/charges?internalId={}"),
        ("ChargeStatus", "/v0/charges?status={}"),
    ],
)
def test_a_text_without_its_pattern_gets_a_declared_answer(name, target):
    with opened(parameter(name, **WIDE)) as sandbox:
        for text in ("x", "%00", "%F0%9F%98%80", "-1", "9" * 400, "2030-01-01", "%20"):
            answer = sandbox.request("GET", target.format(text))
            assert answer.status in {200, 400, 404}, text


@pytest.mark.parametrize(
    ("name", "kind", "operation"),
    sampled(
        [
            ("Limit", "boolean", "listCharges"),
            ("Limit", "string", "listCharges"),
            *((name, kind, "listCharges") for name in ("After", "ChargeStatus", "InternalId", "CreatedAfter")
              for kind in ("integer", "boolean")),
            ("ChargeId", "integer", "getChargeDetails"),
            ("IdempotencyKey", "integer", "createCharge"),
        ],
        1,
    ),
)  # fmt: skip
def test_a_parameter_of_a_type_that_no_code_reads_is_refused(name, kind, operation):
    declared = DOCUMENT["components"]["parameters"][name]
    default = {"boolean": {"default": True}, "string": {"default": "20"}}.get(kind, {}) if name == "Limit" else {}
    text = refusal(parameter(name, type=kind, **default))
    _, path, method = OPERATIONS[operation]
    assert text.startswith(f"#/paths/{path.replace('/', '~1')}/{method}/parameters ({declared['name']}): ")
    assert text.endswith(f", and the document allows {kind} too; change its type")


@pytest.mark.parametrize(
    ("schema", "name", "value", "allowed"),
    [
        ("ChargeRequest", "amount", {"type": "number", "minimum": 1000, "maximum": 500_000_000}, "number"),
        ("ChargeRequest", "amount", {}, "array or boolean or null or number or object"),
        ("ChargeRequest", "description", {"type": ["string", "null"], "maxLength": 639}, "null"),
        ("ChargeRequest", "internalId", {"type": "integer"}, "integer"),
        ("ChargeRequest", "callbackUrl", {"enum": ["http://shop.localhost/x", 7]}, "integer"),
        ("ChargeRequest", "expiresIn", {"anyOf": [{"type": "integer"}, {"const": 1.5}], "default": 600}, "number"),
        ("StaticChargeRequest", "allowedSlots", {"type": "boolean", "default": True}, "boolean"),
        ("StaticChargeRequest", "identifier", {"type": "object"}, "object"),
        ("StaticChargeChanges", "successMessage", {"type": "array"}, "array"),
    ],
)
def test_a_field_of_a_type_that_no_code_reads_is_refused(schema, name, value, allowed):
    text = refusal(request_field(schema, name, **value))
    assert f"/requestBody ({name}): " in text
    assert text.startswith("#/paths/")
    assert text.endswith(f", and the document allows {allowed} too; change its type")


def test_an_amount_that_is_an_integer_is_served():
    with opened(request_field("ChargeRequest", "amount", type="integer", minimum=1000, maximum=500_000_000)) as sandbox:
        assert sandbox.ask("POST", "/v0/charges", {**TEA, "amount": 2000})["data"]["amount"] == "2000"
        assert sandbox.request("POST", "/v0/charges", TEA).status == 400


@pytest.mark.parametrize(
    ("schema", "name"),
    [("ChargeRequest", "amount"), ("ChargeRequest", "expiresIn"), ("StaticChargeRequest", "allowedSlots"),
     ("StaticChargeRequest", "minAmount")],
)  # fmt: skip
def test_a_text_that_is_no_number_gets_400_where_the_document_allows_it(schema, name, untried):
    more = {"default": "600"} if name == "expiresIn" else {}
    document = request_field(schema, name, type="string", pattern="^(?:[k-m]{3}|600)$", **more)
    target, body = ("/v0/charges", TEA) if schema == "ChargeRequest" else ("/v0/static-charges", TIPS)
    with untried(document) as sandbox:
        answer = sandbox.request("POST", target, {**body, name: "klm"})
        assert answer.status == 400
        assert [error["pointer"] for error in orjson.loads(answer.body)["errors"]] == [f"/{name}"]


@pytest.mark.parametrize("name", ["internalId", "allowedSlots", "successMessage", "identifier"])
def test_a_field_that_the_document_leaves_out_is_ignored(name):
    with opened(edited("components", "schemas", "StaticChargeRequest", "properties", name, take=True)) as sandbox:
        answer = sandbox.request("POST", "/v0/static-charges", {**TIPS, name: "a@b"})
        assert answer.status == 200
        assert dict(answer.headers)[b"leyden-ignored"].startswith(f'"{name}"'.encode())
        assert orjson.loads(answer.body)["data"][name] is None


def test_a_change_of_a_field_that_the_document_leaves_out_is_ignored():
    with opened(
        edited("components", "schemas", "StaticChargeChanges", "properties", "allowedSlots", take=True)
    ) as sandbox:
        tips = sandbox.static_charges.create(**TIPS)
        target = f"/v0/static-charges/{tips.id}"
        assert sandbox.ask("PATCH", target, {"allowedSlots": "x"})["data"]["allowedSlots"] is None


def test_a_body_that_may_be_no_object_is_refused():
    text = refusal(edited("components", "schemas", "ChargeRequest", "type", put=["object", "array"]))
    assert text == "#/paths/~1v0~1charges/post/requestBody: the body is one JSON object, not array; write type: object"


def test_a_path_parameter_that_no_code_reads_is_refused():
    document = copy.deepcopy(DOCUMENT)
    item = document["paths"].pop("/v0/wallet")
    item["get"]["responses"]["404"] = {"$ref": "#/components/responses/NotFound"}
    item["parameters"] = [{"name": "shop", "in": "path", "required": True, "schema": WIDE}]
    document["paths"]["/{shop}/wallet"] = item
    assert refusal(document) == (
        "#/paths/~1{shop}~1wallet/get/parameters (shop): get_wallet reads no shop; write a text in its place, or leave "
        "it out"
    )


def test_what_no_code_reads_is_validated_and_named():
    document = request_field("ChargeRequest", "shopId", **WIDE)
    document["components"]["schemas"]["ChargeRequest"]["required"].append("shopId")
    added = {"name": "dryRun", "in": "query", "schema": {"type": "boolean"}}
    document["paths"]["/v0/wallet"]["get"]["parameters"] = [added]
    with opened(document) as sandbox:
        assert sandbox.request("POST", "/v0/charges", TEA).status == 400
        assert sandbox.request("POST", "/v0/charges", {**TEA, "shopId": "a"}).status == 200
        assert sandbox.request("GET", "/v0/wallet?dryRun=x").status == 400
        assert sandbox.request("GET", "/v0/wallet?dryRun=true").status == 200
        texts = unread(sandbox.world.config.contract, sandbox.world.service.handlers)
        assert [text.partition(": requests are")[0] for text in texts] == [
            "paths./v0/charges.post: no code reads body.shopId",
            "paths./v0/wallet.get: no code reads query.dryRun",
        ]


def test_a_field_of_a_callback_that_is_not_sent_is_named():
    document = edited("components", "schemas", "ChargeUpdate", "properties", "table", put=WIDE)
    schemas = document["components"]["schemas"]
    schemas["StaticChargeUpdate"]["allOf"] = [{"properties": {"shop": WIDE, "closed": False}}]
    for name in ("ChargeRequest", "Charge"):
        schemas[name]["properties"]["table"] = {"type": ["string", "null"]}
    places = [
        f"charges.openapi.yaml#/paths/~1v0~1{path}/post/callbacks/{callback}/{{$request.body#~1callbackUrl}}/post"
        for path, callback in (("charges", "chargeUpdated"), ("static-charges", "chargePaid"))
    ]
    for overlays, data in (([], ""), (["callback-envelope"], "data.")):
        contract = load_contract(document, overlays=overlays, known_as="charges.openapi.yaml")
        with Sandbox(spec=contract) as sandbox:
            assert unread(contract, sandbox.world.service.handlers) == [
                f"{place}: no code sends {data}{name} in the body: a receiver gets none"
                for place, name in zip(places, ("table", "shop"), strict=True)
            ]


def test_the_fields_of_the_callbacks_are_those_that_are_sent():
    with Sandbox() as sandbox:
        sandbox.wallet("ana").pay(sandbox.charges.create(**TEA, callbackUrl="http://shop.localhost/x"))
        link = sandbox.static_charges.create(**TIPS, callbackUrl="http://shop.localhost/y")
        sandbox.wallet("ana").scan(link, amount="2000")
        sandbox.advance("1s")
        first, second = sandbox.receiver("shop").inbox
    assert (set(first.json), set(second.json)) == (CHARGE_UPDATE_NAMES, STATIC_CHARGE_UPDATE_NAMES)


@pytest.mark.parametrize(
    ("schema", "name", "target", "body"),
    [
        ("ChargeRequest", "createdAt", "/v0/charges", TEA),
        ("ChargeRequest", "confirmedAt", "/v0/charges", TEA),
        ("StaticChargeRequest", "createdAt", "/v0/static-charges", TIPS),
        ("StaticChargeChanges", "expiresAt", None, {}),
    ],
)
def test_a_request_sets_no_field_that_the_service_computes(schema, name, target, body):
    with opened(request_field(schema, name, **WIDE)) as sandbox:
        method = "POST" if target else "PATCH"
        target = target or f"/v0/static-charges/{sandbox.static_charges.create(**TIPS).id}"
        answer = sandbox.ask(method, target, {**body, name: "2020-01-01T00:00:00.000Z"})
        assert answer["data"][name] != "2020-01-01T00:00:00.000Z"
        [text] = unread(sandbox.world.config.contract, sandbox.world.service.handlers)
        assert f"no code reads body.{name}: " in text


def test_the_computed_fields_are_those_of_the_resources():
    with Sandbox() as sandbox:
        charge, tips = sandbox.charges.create(**TEA), sandbox.static_charges.create(**TIPS)
        assert set(sandbox.ask("GET", f"/v0/charges/{charge.id}")["data"]) == CHARGE_NAMES
        assert set(sandbox.ask("GET", f"/v0/static-charges/{tips.id}")["data"]) == STATIC_CHARGE_NAMES


def test_a_default_of_a_change_is_refused():
    text = refusal(request_field("StaticChargeChanges", "description", type="string", maxLength=639, default="x"))
    assert text == (
        "#/paths/~1v0~1static-charges~1{id}/patch/requestBody (description): a field that is left out keeps its value; "
        "leave the default out"
    )


def test_a_body_that_may_be_left_out_is_refused_where_its_fields_are_needed():
    text = refusal(edited(*OPERATIONS["createCharge"], "requestBody", "required", put=False))
    assert text.startswith("paths./v0/charges.post (body.amount): create_charge reads it")


@pytest.mark.parametrize(
    ("schema", "keyword", "place"),
    [("ChargeRequest", "readOnly", "requestBody"), ("Charge", "writeOnly", "responses/200")],
)
def test_a_field_for_the_other_direction_is_refused(schema, keyword, place):
    text = refusal(edited("components", "schemas", schema, "properties", "description", keyword, put=True))
    assert text.startswith(f"#/paths/~1v0~1charges/post/{place}: has a field with {keyword}")


@pytest.mark.parametrize("url", ["/v9", "v9/", "./v9"])
def test_a_base_path_is_refused(url):
    assert refusal(edited("servers", put=[{"url": url}])).startswith(
        "#/servers/0/url: the paths are served at the root"
    )


@pytest.mark.parametrize("url", ["/", "./", ".", "https://api.example/v9"])
def test_the_root_and_another_server_are_no_base_path(url):
    with opened(edited("servers", put=[{"url": url}])) as sandbox:
        assert sandbox.ask("GET", "/v0/wallet")["success"]


@pytest.mark.parametrize("name", ["X Shop", "X-é", "a\r\nb", ""])
def test_a_header_parameter_that_no_request_has_is_refused(name):
    added = {"name": name, "in": "header", "schema": WIDE}
    text = refusal(edited(*OPERATIONS["getWallet"], "parameters", put=[added]))
    assert text.endswith(" is not the name of a header; write letters, digits and hyphens")
    assert "#/paths/~1v0~1wallet/get/parameters/0/name: " in text


@pytest.mark.parametrize("name", ["a b&=é", "x[]", ""])
def test_a_query_parameter_of_any_name_is_served(name):
    added = {"name": name, "in": "query", "required": True, "schema": {"type": "integer"}}
    with opened(edited(*OPERATIONS["getWallet"], "parameters", put=[added])) as sandbox:
        assert sandbox.request("GET", "/v0/wallet").status == 400
        assert sandbox.request("GET", f"/v0/wallet?{quote(name)}=x").status == 400
        assert sandbox.request("GET", f"/v0/wallet?{quote(name)}=1").status == 200


@pytest.mark.parametrize(
    "url", ["ftp://shop.example/x", "mailto:a@b.example", "http://[::1", "klm", "http://a:99999/", "\0"]
)
def test_a_callback_to_a_text_that_is_no_url_is_not_delivered(url):
    document = request_field("ChargeRequest", "callbackUrl", type=["string", "null"], maxLength=2048)
    with opened(document) as sandbox:
        charge = sandbox.charges.create(**TEA, callbackUrl=url)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("3d")
        assert charge.status == "completed"


@pytest.mark.parametrize("overlays", [[], *([name] for name in known_overlays())])
def test_nothing_in_the_packaged_document_is_unread(overlays):
    with Sandbox(overlays=overlays) as sandbox:
        assert unread(sandbox.world.config.contract, sandbox.world.service.handlers) == []


def test_the_name_of_the_key_of_a_retry_has_no_case():
    with opened(edited("components", "parameters", "IdempotencyKey", "name", put="idempotency-key")) as sandbox:
        answers = [
            sandbox.request("POST", "/v0/charges", TEA, key(sandbox, {"Idempotency-Key": "k"})) for _ in range(2)
        ]
        assert answers[0].body == answers[1].body
        assert (b"idempotent-replayed", b"true") in answers[1].headers


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "getPayRequest"])
def test_an_operation_that_needs_a_key_cannot_be_open(name):
    text = refusal(edited(*OPERATIONS[name], "security", put=[]))
    _, path, method = OPERATIONS[name]
    assert text.startswith(f"paths.{path}.{method}.security: ")
    assert text.endswith("answers for the project of the API key; name the scheme of the key")


def test_a_media_type_of_json_is_sent_and_accepted():
    media = "application/vnd.Wallet+json"
    content = {media: DOCUMENT["paths"]["/v0/wallet"]["get"]["responses"]["200"]["content"]["application/json"]}
    with opened(edited(*WALLET_200, "content", put=content)) as sandbox:
        for accept in (media, media.lower(), "application/*", "*/*"):
            answer = sandbox.request("GET", "/v0/wallet", headers=key(sandbox, {"Accept": accept}))
            assert (answer.status, dict(answer.headers)[b"content-type"]) == (200, media.encode())
        assert sandbox.request("GET", "/v0/wallet", headers=key(sandbox, {"Accept": "application/json"})).status == 406


def test_a_request_of_another_media_type_of_json_is_read():
    media = "application/vnd.Charge+json"
    body = DOCUMENT["paths"]["/v0/charges"]["post"]["requestBody"]["content"]["application/json"]
    document = edited(
        *OPERATIONS["createCharge"], "requestBody", "content", put={"application/json": body, media: body}
    )
    with opened(document) as sandbox:
        for sent in (media, media.lower()):
            assert (
                sandbox.request("POST", "/v0/charges", orjson.dumps(TEA), key(sandbox, {"Content-Type": sent})).status
                == 200
            )


def test_a_success_may_be_201():
    document = copy.deepcopy(DOCUMENT)
    for item in document["paths"].values():
        for operation in item.values():
            if "x-errors-as" not in operation:
                operation["responses"]["201"] = operation["responses"].pop("200")
    with opened(document) as sandbox:
        charge = sandbox.charges.create(**TEA)
        assert sandbox.request("GET", f"/v0/charges/{charge.id}").status == 201


X = {"schema": {"type": "string"}}


@pytest.mark.parametrize(
    ("status", "name", "header", "problem"),
    [
        ("200", "X-Shop", X, ": no code sends it; give its schema a const, or leave it out"),
        ("200", "X-Shop", {**X, "required": True}, ": no code sends it; give its schema a const, or leave it out"),
        ("401", "X-Shop", {"schema": {"const": "a"}}, ": only a successful response has headers of its own"),
        ("200", "Content-Type", {"schema": {"const": "text/x"}}, ": a document cannot declare this header"),
        ("200", "Content-Length", {"schema": {"const": "0"}}, ": a document cannot declare this header"),
        ("200", "X Shop", {"schema": {"const": "0"}}, ": a document cannot declare this header"),
        ("200", "X-Shop", {"schema": {"const": "a\r\nSet-Cookie: x"}}, "/schema/const: must be printable ASCII"),
        ("200", "Leyden-Ignored", {**X, "required": True}, ": is not in every response; take out required"),
        ("200", "Leyden-Ignored", {"schema": {"type": "boolean"}}, "/schema: does not allow what is sent, such as"),
        ("429", "Retry-After", {"schema": {"const": "60"}}, "/schema: does not allow what is sent, such as '30'"),
        ("200", "Idempotent-Replayed", X, ": no code sends it"),
    ],
)
def test_a_header_that_is_not_sent_as_it_says_is_refused(status, name, header, problem):
    document = copy.deepcopy(DOCUMENT)
    responses = document["paths"]["/v0/wallet"]["get"]["responses"]
    reference = responses[status].get("$ref", "").rpartition("/")[2]
    responses[status] = copy.deepcopy(document["components"]["responses"].get(reference, responses[status]))
    responses[status].setdefault("headers", {})[name] = header
    text = refusal(document)
    assert f"#/paths/~1v0~1wallet/get/responses/{status}/headers/" in text
    assert problem in text


def test_a_header_with_one_value_is_sent():
    header = {"required": True, "schema": {"const": "shop 7"}}
    with opened(edited(*WALLET_200, "headers", "X-Shop", put=header)) as sandbox:
        assert (b"x-shop", b"shop 7") in sandbox.request("GET", "/v0/wallet").headers


def test_a_header_of_a_success_is_not_sent_with_an_error_of_a_wallet():
    document = copy.deepcopy(DOCUMENT)
    headers = document["paths"]["/lnurlp/{id}"]["get"]["responses"]["200"]["headers"]
    headers["X-Shop"] = {"schema": {"type": "string", "const": "7"}}
    with opened(document) as sandbox:
        for accept, status, shop in (("*/*", 200, b"7"), ("application/xml", 406, None)):
            answer = sandbox.request("GET", "/lnurlp/x", None, {"accept": accept})
            sent = dict(answer.headers)
            assert (answer.status, sent.get(b"x-shop"), sent[b"access-control-allow-origin"]) == (status, shop, b"*")


@pytest.mark.parametrize("status", ["202", "204", "302"])
def test_another_success_is_refused(status):
    text = refusal(edited(*OPERATIONS["getWallet"], "responses", status, put={"description": "x"}))
    assert text == f"#/paths/~1v0~1wallet/get/responses/{status}: no code answers it; a success is 200: leave it out"


def test_a_success_without_content_is_refused():
    text = refusal(edited(*WALLET_200, "content", take=True))
    assert text == (
        "#/paths/~1v0~1wallet/get/responses/200: has no content, but the answer has a body; declare its content"
    )


def test_events_are_not_answered():
    content = {"text/event-stream": {"schema": WIDE}}
    text = refusal(edited(*WALLET_200, "content", put=content))
    assert text.startswith("#/paths/~1v0~1wallet/get/responses/200/content: get_wallet answers JSON")


def lnurl_wallet(*, drops_errors: bool, allows_error: bool) -> Node:
    document = edited(*OPERATIONS["getWallet"], "x-errors-as", put="lnurl")
    responses = document["paths"]["/v0/wallet"]["get"]["responses"]
    for status in [one for one in responses if drops_errors and one in {"400", "401", "429"}]:
        del responses[status]
    if allows_error:
        media = responses["200"]["content"]["application/json"]
        media["schema"] = {"oneOf": [media["schema"], {"$ref": "#/components/schemas/LnurlError"}]}
    return document


def test_errors_of_a_wallet_need_a_response_that_allows_them():
    place = "#/paths/~1v0~1wallet/get/responses"
    text = refusal(lnurl_wallet(drops_errors=False, allows_error=True))
    assert text == f"{place}/400: with x-errors-as: lnurl this error is answered with 200; leave it out"
    text = refusal(lnurl_wallet(drops_errors=True, allows_error=False))
    assert text.startswith(f"{place}/200/content: with x-errors-as: lnurl its schema must allow {{status: ERROR")
    with opened(lnurl_wallet(drops_errors=True, allows_error=True)) as sandbox:
        answer = sandbox.request("GET", "/v0/wallet", headers={"apikey": "other"})
        assert (answer.status, orjson.loads(answer.body)["status"]) == (200, "ERROR")


def rename(schema: str, old: str, new: str) -> Callable[[Node], None]:
    def change(document: Node) -> None:
        node = document["components"]["schemas"][schema]
        node["properties"][new] = node["properties"].pop(old)
        node["required"] = [new if name == old else name for name in node["required"]]

    return change


def require(schema: str, name: str) -> Callable[[Node], None]:
    def change(document: Node) -> None:
        node = document["components"]["schemas"][schema]
        node.setdefault("required", []).append(name)
        node.setdefault("properties", {})[name] = WIDE

    return change


def put(*path: str, value: Any) -> Callable[[Node], None]:
    def change(document: Node) -> None:
        holder: Any = document["components"]["schemas"]
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value

    return change


ANSWERED = (
    "Charge", "ChargeInvoice", "StaticCharge", "StaticChargeInvoice", "Wallet", "ChargeAnswer", "StaticChargeAnswer",
    "ChargeListAnswer", "StaticChargeListAnswer", "WalletAnswer", "Problem", "Fault", "PayRequest", "PayInvoice",
    "PaymentProof", "LnurlError",
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(require(name, "shopName"), id=f"{name}.shopName") for name in ANSWERED),
        pytest.param(rename("Charge", "createdAt", "created"), id="Charge.createdAt"),
        pytest.param(rename("PaymentProof", "settled", "paid"), id="PaymentProof.settled"),
        pytest.param(rename("Problem", "detail", "message2"), id="Problem.detail"),
        pytest.param(put("Charge", "properties", "confirmedAt", value={"type": "null"}), id="confirmedAt"),
        pytest.param(put("Amount", "pattern", value="^[0-9]{4,5}$"), id="Amount"),
        pytest.param(put("Wallet", "properties", "balance", "maxLength", value=8), id="balance"),
        pytest.param(put("LnurlError", "properties", "reason", "maxLength", value=100), id="reason"),
        pytest.param(put("Problem", "properties", "detail", "maxLength", value=300), id="detail"),
        pytest.param(put("Problem", "properties", "errors", "maxItems", value=1), id="errors"),
        pytest.param(put("Unit", "const", value="sats"), id="Unit"),
        pytest.param(put("PaymentProof", "properties", "preimage", value={"type": "null"}), id="preimage"),
        pytest.param(put("Problem", "properties", "code", value={"enum": ["not_found"]}), id="code"),
    ],
)
def test_an_answer_that_its_schema_excludes_is_refused_at_start(change):
    document = copy.deepcopy(DOCUMENT)
    change(document)
    found = refusal(document).replace("{", "").replace("}", "")
    assert re.match(r"(?:paths\.|#/paths/|#/components/)\S*: ", found)
    assert "#/paths/" in found or found.startswith("paths.")


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": "number"}, {"integer", "number"}),
        ({"enum": [1, 2.0, "a", None]}, {"integer", "string", "null"}),
        ({"const": 1.5}, {"number"}),
        ({"anyOf": [{"type": "string"}, {"const": True}]}, {"string", "boolean"}),
        ({"allOf": [{"type": ["string", "null"]}, {"type": ["null", "array"]}]}, {"null"}),
        ({"type": "string", "oneOf": [{}, False]}, {"string"}),
        (False, set()),
    ],
)
def test_the_types_that_a_schema_allows(schema, types):
    assert value_types(schema) == types
    assert value_types({"allOf": [{"properties": {"x": schema}}], "anyOf": [{"type": "object"}, True]}, "x") == types


def response_header(name: str, **schema: Any) -> Node:
    document = edited(*OPERATIONS["getWallet"], "responses", "200", put=None)
    response = copy.deepcopy(DOCUMENT["paths"]["/v0/wallet"]["get"]["responses"]["200"])
    response["headers"] = {**response.get("headers", {}), name: {"schema": schema}}
    document["paths"]["/v0/wallet"]["get"]["responses"]["200"] = response
    return document


@pytest.mark.parametrize("schema", [{"const": "1", "pattern": "^2$"}, {"type": "integer", "const": "1"}])
def test_a_header_whose_schema_excludes_its_own_const_is_refused(schema):
    assert "/headers/X-Shop/schema: excludes its own const" in refusal(response_header("X-Shop", **schema))


def test_a_header_that_allows_one_origin_is_refused():
    text = refusal(response_header("Access-Control-Allow-Origin", const="https://shop.example"))
    assert text.endswith("/schema/const: each origin is allowed; write '*', or leave the header out")


@pytest.mark.parametrize("schema", [{"const": "true"}, {"type": "boolean", "const": True}])
def test_a_first_response_does_not_say_that_it_is_repeated(schema):
    with opened(edited("components", "headers", "IdempotentReplayed", "schema", put=schema)) as sandbox:
        sent = [sandbox.http.post("/v0/charges", json=TEA, headers={"Idempotency-Key": "one"}) for _ in range(2)]
        assert [one.headers.get("idempotent-replayed") for one in sent] == [None, "true"]


@pytest.mark.parametrize(
    "schema", [{"type": "string", "format": "date"}, {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"}]
)
def test_a_date_without_a_time_is_refused(schema):
    assert "?createdAfter=2030-01-01 is valid, but cannot be served" in refusal(parameter("CreatedAfter", **schema))


def test_a_parameter_under_another_name_is_missed_by_its_name():
    text = refusal(edited("components", "parameters", "Limit", "name", put="pageSize"))
    assert "(query.limit): list_charges reads it, but it is not declared; declare the query parameter limit" in text


@pytest.mark.parametrize(
    "name",
    [
        "Cookie",
        "X-Forwarded-For",
        "Origin",
        "Accept-Encoding",
        "Sec-Fetch-Site",
        "If-None-Match",
        "Access-Control-Request-Method",
        "Content-MD5",
        "Cache-Control",
        "Proxy-Connection",
        "X-Request-Id",
        # A page in a browser cannot send these (Fetch, "forbidden request-header").
        "Set-Cookie",
        "Cookie2",
        "DNT",
        "Via",
        "X-HTTP-Method-Override",
        # Leyden sends these itself.
        "webhook-id",
        "Webhook-Signature",
        "leyden-event",
        "Leyden-Client",
        "X-Leyden-Mock",
        "Idempotent-Replayed",
        "WWW-Authenticate",
        "Retry-After",
        "Idempotency-Key",
    ],
)
def test_a_header_with_another_meaning_is_no_key(name):
    scheme = edited("components", "securitySchemes", "apikey", "name", put=name)
    assert f"{name!r} has another meaning to HTTP, to browsers or to Leyden; choose another header" in refusal(scheme)


def test_a_status_that_the_document_does_not_count_is_not_acknowledged():
    document = copy.deepcopy(DOCUMENT)
    for item in document["paths"].values():
        for callback in item.get("post", {}).get("callbacks", {}).values():
            responses = next(iter(callback.values()))["post"]["responses"]
            responses["202"] = responses.pop("2XX")
    with opened(document) as sandbox:
        sandbox.receiver("shop").always(200)
        sandbox.wallet("ana").pay(sandbox.charges.create(**TEA, callbackUrl="http://shop.localhost/x"))
        sandbox.run("1h")
        inbox = sandbox.receiver("shop").inbox
        assert len(inbox) > 2
        assert [got.verdict for got in inbox] == [[] for _ in inbox]
