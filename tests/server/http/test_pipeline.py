"""The request pipeline: every malformed request gets a declared problem that names the field, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from leyden import Sandbox
from leyden.devserver.control.handlers import control_handlers
from leyden.server.contract.types import Contract
from leyden.server.store.store import Store
from leyden.world.config import packaged_contract, world_config
from leyden.world.loopback import LoopbackResponse, run_to_completion, send_request
from leyden.world.world import World

GOOD = {"amount": "1000", "description": "tea"}
JSON = (b"content-type", b"application/json")
KEY = (b"apikey", b"leyden")


def send(
    sandbox: Sandbox,
    method: str = "POST",
    target: str = "/v0/charges",
    *headers: tuple[bytes, bytes],
    body: bytes = b"",
) -> LoopbackResponse:
    return send_request(sandbox.app, method, target, headers, body)


def create(sandbox: Sandbox, body: bytes, *more: tuple[bytes, bytes]) -> LoopbackResponse:
    return send(sandbox, "POST", "/v0/charges", KEY, JSON, *more, body=body)


def refused(sandbox: Sandbox, answer: LoopbackResponse, status: int) -> dict[str, Any]:
    """The response is a problem document that the spec declares, and no charge was stored."""
    assert answer.status == status, answer.body
    headers = dict(answer.headers)
    assert headers[b"content-type"] == b"application/problem+json"
    problem: dict[str, Any] = json.loads(answer.body)
    assert sandbox.world.config.contract.schemas["Problem"].validator.is_valid(problem)
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["message"] == problem["detail"]
    assert len(sandbox.charges) == 0
    return problem


def test_a_good_request_passes(sandbox: Sandbox) -> None:
    answer = create(sandbox, orjson.dumps(GOOD))
    assert answer.status == 200
    assert json.loads(answer.body)["data"]["amount"] == "1000"


# Keys


@pytest.mark.parametrize("headers", [(), ((b"apikey", b""),), ((b"apikey", b"nobody's"),), ((b"apikey", b"\xff\xfe"),)])
def test_a_missing_and_an_unknown_key_are_unauthorized(sandbox: Sandbox, headers: tuple) -> None:
    answer = send(sandbox, "POST", "/v0/charges", *headers, JSON, body=orjson.dumps(GOOD))
    problem = refused(sandbox, answer, 401)
    assert b"www-authenticate" in dict(answer.headers)
    assert problem["detail"].startswith("send your project's key in the header apikey; ")


def test_a_key_that_is_sent_twice_is_unauthorized(sandbox: Sandbox) -> None:
    refused(sandbox, send(sandbox, "POST", "/v0/charges", KEY, KEY, JSON, body=orjson.dumps(GOOD)), 401)


# Routes and methods


def test_an_unknown_path(sandbox: Sandbox) -> None:
    paths = ("/v0/charge", "/v1/charges", "/v0/charges/", "/v0/charges/a/b", "/%00", "/v0//charges", "/v0/charges%0A")
    for target in paths:
        refused(sandbox, send(sandbox, "GET", target, KEY), 404)


def test_a_refused_head_has_no_body(sandbox: Sandbox) -> None:
    for target, body, status in (("/v0/charge", b"", 404), ("/v0/charges", b" " * 65_537, 413)):
        answer = send(sandbox, "HEAD", target, KEY, body=body)
        assert (answer.status, answer.body) == (status, b"")  # RFC 9110, 9.3.2


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "PATCH", "FOO"])
def test_a_wrong_method_gets_the_allowed_ones(sandbox: Sandbox, method: str) -> None:
    answer = send(sandbox, method, "/v0/charges", KEY, JSON, body=orjson.dumps(GOOD))
    refused(sandbox, answer, 405)
    assert dict(answer.headers)[b"allow"] == b"GET, HEAD, OPTIONS, POST"


def test_head_is_get_without_a_body(sandbox: Sandbox) -> None:
    get, head = (send(sandbox, method, "/v0/charges", KEY) for method in ("GET", "HEAD"))
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")
    assert send(sandbox, "HEAD", "/v0/charges").status == 401


def test_options_lists_the_methods_of_a_path(sandbox: Sandbox) -> None:
    answer = send(sandbox, "OPTIONS", "/v0/charges")
    assert (answer.status, dict(answer.headers)[b"allow"]) == (204, b"GET, HEAD, OPTIONS, POST")


@pytest.mark.parametrize("bad", ["x", "00000000-0000-4000-8000-000000000000", "%F0%9F%8D%B5", "1" * 300, "a b"])
def test_a_malformed_and_an_unknown_id_get_the_same_response(sandbox: Sandbox, bad: str) -> None:
    problem = refused(sandbox, send(sandbox, "GET", f"/v0/charges/{bad.replace(' ', '%20')}", KEY), 404)
    assert problem["code"] == "not_found"


def test_the_order_of_the_checks(sandbox: Sandbox) -> None:
    """Each request fails at one check and all later ones; the response names the first."""
    everything = b"{" + b" " * 70_000
    assert send(sandbox, "DELETE", "/nowhere", body=everything).status == 413
    assert send(sandbox, "DELETE", "/nowhere", body=b"{").status == 404
    assert send(sandbox, "DELETE", "/v0/charges", body=b"{").status == 405
    xml = ((b"content-type", b"text/xml"), (b"accept", b"text/html"))
    assert send(sandbox, "POST", "/v0/charges?zz=1", *xml, body=b"{").status == 401
    assert send(sandbox, "POST", "/v0/charges?zz=1", KEY, *xml, body=b"{").status == 415
    assert send(sandbox, "POST", "/v0/charges?zz=1", KEY, JSON, xml[1], body=b"{").status == 406
    answer = send(sandbox, "POST", "/v0/charges?zz=1", KEY, JSON, body=b"{")
    assert "not JSON" in json.loads(answer.body)["detail"]
    answer = send(sandbox, "POST", "/v0/charges?zz=1", KEY, JSON, body=b"{}")
    assert json.loads(answer.body)["errors"][0]["pointer"] == "query.zz"


def test_the_order_of_the_checks_of_an_id_and_of_a_key(sandbox: Sandbox) -> None:
    unknown, wrong = "/v0/static-charges/00000000-0000-4000-8000-000000000000", b'{"allowedSlots": "x"}'
    assert send(sandbox, "PATCH", "/v0/static-charges/x", KEY, JSON, body=b"{").status == 400
    assert send(sandbox, "PATCH", "/v0/static-charges/x?zz=1", KEY, JSON, body=wrong).status == 404
    assert send(sandbox, "PATCH", f"{unknown}?zz=1", KEY, JSON, body=b"{}").status == 400
    assert send(sandbox, "PATCH", unknown, KEY, JSON, body=wrong).status == 400
    assert send(sandbox, "PATCH", unknown, KEY, JSON, body=b'{"allowedSlots": 1.0}').status == 409
    assert send(sandbox, "PATCH", unknown, KEY, JSON, body=b'{"allowedSlots": 1}').status == 404
    key = (b"idempotency-key", b"once")
    assert create(sandbox, orjson.dumps({**GOOD, "expiresIn": 600}), key).status == 200
    point, other = (create(sandbox, orjson.dumps({**GOOD, "expiresIn": value}), key) for value in (600.0, 601))
    assert ["write 600" in json.loads(answer.body)["detail"] for answer in (point, other)] == [True, False]
    assert [answer.status for answer in (point, other)] == [409, 409]


# Media types


@pytest.mark.parametrize(
    "media",
    [None, b"", b"text/plain", b"application/x-www-form-urlencoded", b"application/json; charset=latin-1", b";"],
)
def test_a_body_of_another_media_type(sandbox: Sandbox, media: bytes | None) -> None:
    headers = () if media is None else ((b"content-type", media),)
    refused(sandbox, send(sandbox, "POST", "/v0/charges", KEY, *headers, body=orjson.dumps(GOOD)), 415)


@pytest.mark.parametrize(
    "media",
    [
        b"application/json",
        b"Application/JSON",
        b'application/json; charset="UTF-8"',
        b"application/json; charset=utf-8; profile=x",
        b'application/json; profile="a;charset=latin-1"; charset=utf-8',
        b"application/json;charset=UTF-8;",
        b"application/json ;charset=utf-8",
    ],
)
def test_the_media_type_in_other_spellings(sandbox: Sandbox, media: bytes) -> None:
    answer = send(sandbox, "POST", "/v0/charges", KEY, (b"content-type", media), body=orjson.dumps(GOOD))
    assert answer.status == 200


@pytest.mark.parametrize(
    "accept", [b"text/html", b"application/xml, text/*;q=0.5", b"*/*;q=0", b"application/json;q=0, */*"]
)
def test_an_accept_header_that_excludes_json(sandbox: Sandbox, accept: bytes) -> None:
    refused(sandbox, create(sandbox, orjson.dumps(GOOD), (b"accept", accept)), 406)


@pytest.mark.parametrize(
    "accept", [b"", b"*/*", b"application/*", b"application/json", b"text/html, */*;q=0.1", b"application/json;q=0.001"]
)
def test_an_accept_header_that_allows_json(sandbox: Sandbox, accept: bytes) -> None:
    assert create(sandbox, orjson.dumps(GOOD), (b"accept", accept)).status == 200


# JSON


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"nonsense",
        b"{'amount': 1}",
        b'{"amount": "1000", "description": "tea",}',
        b'{"amount": NaN, "description": "tea"}',
        b'{"amount": "1000", "description": "tea", "x": Infinity}',
        b'{"amount": "1000", "amount": "2000", "description": "tea"}',
        b'{"amount": "1000", "description": "tea", "x": {"a": 1, "a": 2}}',
        b'{"amount": "1000", "description": "\xff"}',
        b'\xef\xbb\xbf{"amount": "1000", "description": "tea"}',
        '{"amount": "1000", "description": "tea"}'.encode("utf-16"),
        b'{"amount": "1000", "description": "\\ud83c"}',
        b'{"amount": "1000", "description": "tea", "x": ["\\udf75\\ud83c"]}',
        b'{"amount": "1000", "description": "tea", "\\ud800": 1}',
        b'{"amount": "1000", "description": "a\x00b"}',
        b'{"amount": "1000", "description": "tea", "x": ' + b"9" * 5_000 + b"}",
        b'{"amount": "1000", "description": "tea"} {}',
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"amount": "1000", "description": "tea", "x": ' + b"[" * 40 + b"]" * 40 + b"}",
        b"[]",
        b"null",
        b'"text"',
        b"1e999",
    ],
)
def test_a_body_that_is_no_json_object(sandbox: Sandbox, body: bytes) -> None:
    refused(sandbox, create(sandbox, body), 400)


def test_a_body_nested_a_hundred_thousand_deep_is_too_large_before_it_is_too_deep(sandbox: Sandbox) -> None:
    refused(sandbox, create(sandbox, b"[" * 100_000), 413)


def test_a_body_of_two_megabytes(sandbox: Sandbox) -> None:
    refused(sandbox, create(sandbox, b" " * 2_097_152), 413)


def test_a_body_in_process_has_its_length_unless_the_client_sends_one(sandbox: Sandbox) -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, respond: Any) -> None:
        scopes.append(scope)
        await sandbox.app(scope, receive, respond)

    body = orjson.dumps(GOOD)
    for headers in ((), ((b"content-length", b"7"),)):
        assert send_request(app, "POST", "/v0/charges", (KEY, JSON, *headers), body).status == 200
    assert send_request(app, "GET", "/v0/charges", (KEY,)).status == 200
    lengths = [[value for name, value in scope["headers"] if name == b"content-length"] for scope in scopes]
    assert lengths == [[b"%d" % len(body)], [b"7"], []]
    limit = sandbox.world.config.contract.body_limit
    assert create(sandbox, body, (b"content-length", b"%d" % limit)).status == 200
    assert create(sandbox, body, (b"content-length", b"%d" % (limit + 1))).status == 413


def test_an_endless_body_gets_a_response(sandbox: Sandbox) -> None:
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 65_536
        return {"type": "http.request", "body": b" " * 65_536, "more_body": True}

    sent: list[dict[str, Any]] = []

    async def keep(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v0/charges", "headers": [KEY, JSON], "query_string": b""}
    run_to_completion(sandbox.app(scope, receive, keep))
    assert sent[0]["status"] == 413
    assert read < 16 * 1024 * 1024


def test_the_body_limit_to_the_byte(sandbox: Sandbox) -> None:
    limit = sandbox.world.config.contract.body_limit
    body = orjson.dumps(GOOD)
    assert create(sandbox, body + b" " * (limit - len(body))).status == 200
    assert create(sandbox, body + b" " * (limit + 1 - len(body))).status == 413


def test_unknown_fields_and_whole_characters_pass(sandbox: Sandbox) -> None:
    body = b'{"amount": "1000", "description": "\\ud83c\\udf75 tea", "x": 1.5, "y": {"z": [18446744073709551616000]}}'
    answer = create(sandbox, body, (b"idempotency-key", b"k"))
    assert answer.status == 200
    assert json.loads(answer.body)["data"]["description"] == "\U0001f375 tea"


# Fields


@pytest.mark.parametrize(
    "amount",
    [
        "0",
        "01",
        "1e3",
        "-1",
        " 1000",
        "1000 ",
        "1000\n",
        "١٠٠٠",
        "999",
        "500000001",
        "9223372036854775808",
        "1_000",
        "+1000",
    ],
)
def test_an_invalid_amount(sandbox: Sandbox, amount: Any) -> None:
    problem = refused(sandbox, create(sandbox, json.dumps({**GOOD, "amount": amount}).encode()), 400)
    assert [error["pointer"] for error in problem["errors"]] == ["/amount"]


@pytest.mark.parametrize("amount", ["1000", "1001", "499999999", "500000000"])
def test_amounts_up_to_the_bounds(sandbox: Sandbox, amount: str) -> None:
    assert sandbox.charges.create(**{**GOOD, "amount": amount}).data["amount"] == amount


@pytest.mark.parametrize("value", [-1, 2_592_001, 1.5, "600", True, [], 2**70])
def test_an_invalid_expiry(sandbox: Sandbox, value: Any) -> None:
    problem = refused(sandbox, create(sandbox, json.dumps({**GOOD, "expiresIn": value}).encode()), 400)
    assert [error["pointer"] for error in problem["errors"]] == ["/expiresIn"]


@pytest.mark.parametrize("value", [0.0, 1.0, 600.0])
def test_an_integer_with_a_decimal_point_is_refused_although_the_schema_accepts_it(
    sandbox: Sandbox, value: Any
) -> None:
    problem = refused(sandbox, create(sandbox, json.dumps({**GOOD, "expiresIn": value}).encode()), 409)
    assert problem["code"] == "not_possible"
    assert problem["errors"] == [
        {"pointer": "/expiresIn", "detail": f"write {value:.0f} without a decimal point or an exponent"}
    ]


@pytest.mark.parametrize(
    "url",
    [
        *(
            "shop",
            "//shop/x",
            "ftp://shop.example/x",
            "http://",
            "http:///x",
            "http://a b/",
            "http://u:p@shop.example/x",
        ),
        *(
            "http://shop.example/#part",
            "http://shop.example/\n",
            "javascript:alert(1)",
            "http://[::1",
            "http://x:99999/",
        ),
        *("http://shop.example/" + "x" * 2_030, 7, True, {}, "http://shop.example/%zz", "http://é.example/"),
    ],
)
def test_an_invalid_callback_url(sandbox: Sandbox, url: Any) -> None:
    problem = refused(sandbox, create(sandbox, json.dumps({**GOOD, "callbackUrl": url}).encode()), 400)
    assert [error["pointer"] for error in problem["errors"]] == ["/callbackUrl"]


@pytest.mark.parametrize(
    "url",
    [
        *("http://shop.example", "https://shop.example:8443/a/b?c=d&e=%20", "http://127.0.0.1:9/x", "http://[::1]:9/x"),
        *("http://my_service:3000/hook", "HTTP://SHOP.EXAMPLE/x", "http://2130706433/x", "http://0x7f.1/x"),
    ],
)
def test_valid_callback_urls(sandbox: Sandbox, url: str) -> None:
    assert sandbox.charges.create(**GOOD, callbackUrl=url).data["callbackUrl"] == url


@pytest.mark.parametrize("name", ["amount", "description"])
def test_a_required_field_left_out(sandbox: Sandbox, name: str) -> None:
    body = {key: value for key, value in GOOD.items() if key != name}
    problem = refused(sandbox, create(sandbox, orjson.dumps(body)), 400)
    assert [error["pointer"] for error in problem["errors"]] == [f"/{name}"]


def test_all_wrong_fields_are_named_in_one_response(sandbox: Sandbox) -> None:
    body = {"amount": "1", "description": 5, "expiresIn": True, "internalId": "x" * 256}
    problem = refused(sandbox, create(sandbox, orjson.dumps(body)), 400)
    assert {error["pointer"] for error in problem["errors"]} == {"/amount", "/description", "/expiresIn", "/internalId"}


@pytest.mark.parametrize(("length", "status"), [(638, 200), (639, 200), (640, 400)])
def test_the_description_is_counted_in_characters(sandbox: Sandbox, length: int, status: int) -> None:
    assert create(sandbox, orjson.dumps({**GOOD, "description": "é" * length})).status == status


def test_what_is_not_given_is_null_and_what_is_empty_stays_empty(sandbox: Sandbox) -> None:
    data = sandbox.charges.create(**GOOD).data
    assert (data["internalId"], data["callbackUrl"]) == (None, None)
    data = sandbox.charges.create(**GOOD, internalId="", callbackUrl="", expiresIn=0).data
    assert (data["internalId"], data["callbackUrl"]) == ("", "")
    assert data["expiresAt"] == "2030-01-01T09:10:00.000Z"


# Queries


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("limit=0", "query.limit"),
        ("limit=1001", "query.limit"),
        ("limit=ten", "query.limit"),
        ("limit=", "query.limit"),
        ("limit=1.0", "query.limit"),
        ("limit=" + "9" * 40, "query.limit"),
        ("limit=%D9%A1", "query.limit"),
        ("limit=5&limit=5", "query.limit"),
        ("status=paid", "query.status"),
        ("status=", "query.status"),
        ("after=nonsense", "query.after"),
        ("after=djE6LTE", "query.after"),
        ("after=%00", "query.after"),
        ("createdAfter=yesterday", "query.createdAfter"),
        ("createdAfter=2030-01-01", "query.createdAfter"),
        ("createdBefore=2030-13-01T00:00:00Z", "query.createdBefore"),
        ("unknown=1", "query.unknown"),
        ("internalId=%FF", "query"),
        ("&".join(f"a{number}=1" for number in range(200)), "query"),
    ],
)
def test_an_invalid_query(sandbox: Sandbox, query: str, place: str) -> None:
    problem = refused(sandbox, send(sandbox, "GET", f"/v0/charges?{query}", KEY), 400)
    assert problem["errors"][0]["pointer"] == place


@pytest.mark.parametrize(
    ("method", "path", "body", "place", "mend"),
    [
        (
            "PUT",
            "/sandbox/v1/inboxes/inbox/script",
            {"answers": [200, "tiemout"]},
            "/answers/1",
            "a word such as timeout",
        ),
        (
            "PUT",
            "/sandbox/v1/inboxes/inbox/script",
            {"rules": [{"say": 99}]},
            "/rules/0/say",
            "a status from 200 to 599",
        ),
        ("POST", "/sandbox/v1/clock/advance", {"to": "tomorrow"}, "/to", "such as 2030-01-01T12:00:00Z"),
        ("POST", "/sandbox/v1/clock/advance", {"to": "2030-02-03T12:00Z"}, "/to", 'write "2030-02-03T12:00:00Z"'),
        ("POST", "/sandbox/v1/clock/advance", {"to": "2030-02-03T12:00"}, "/to", 'write "2030-02-03T12:00:00Z"'),
        ("POST", "/sandbox/v1/clock/advance", {"to": "20300203T1200+01"}, "/to", 'write "2030-02-03T11:00:00Z"'),
    ],
)
def test_each_violation_is_named_once_with_its_correction(
    sandbox: Sandbox, method: str, path: str, body: Any, place: str, mend: str
) -> None:
    answer = sandbox.http.request(method, path, json=body)
    assert answer.status_code == 400
    ((pointer, detail),) = (tuple(error.values()) for error in answer.json()["errors"])
    assert pointer == place
    assert mend in detail


# The spec itself


def test_every_status_of_the_pipeline_is_declared(sandbox: Sandbox) -> None:
    contract: Contract = sandbox.world.config.contract
    for operation in contract.operations.values():
        expected = {200, 406, 413, 500}
        if operation.errors_as == "problem":
            expected |= {400, 401}
            if operation.body is not None:
                expected |= {415}
            if any(parameter.location == "path" for parameter in operation.parameters):
                expected |= {404}
        assert expected <= set(operation.responses), operation.operation_id


def test_the_control_api_is_built_at_its_first_request() -> None:
    compilations = []

    def compiled() -> Contract:
        compilations.append("compiled")
        return packaged_contract("sandbox")

    plan = world_config(seed=1, start_ms=0)
    assert plan.control is not None
    with Store.memory() as store:
        world = World(replace(plan, control=compiled), store, control_handlers=control_handlers)
        send_request(world.app, "GET", "/v0/wallet", ((b"apikey", b"leyden"),))
        assert not compilations
        for _ in range(2):
            assert send_request(world.app, "GET", "/sandbox/v1", ((b"apikey", b"leyden"),)).status == 200
        assert send_request(world.app, "GET", "/sandbox/v1/nothing").status == 404
        assert compilations == ["compiled"]


@pytest.mark.parametrize("limit", [20, 1_000, packaged_contract("sandbox").body_limit, 2_000_000])
def test_the_control_plane_has_the_body_limit_of_its_document(limit: int) -> None:
    config = replace(
        world_config(seed=1, start_ms=0), control=lambda: packaged_contract("sandbox")._replace(body_limit=limit)
    )
    headers = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
    for size, status in ((limit + 1, 413), (limit, 200)):
        with Store.memory() as store:
            world = World(config, store, control_handlers=control_handlers)
            body = b'{"by": "1s"}'.ljust(size)
            answer = send_request(world.app, "POST", "/sandbox/v1/clock/advance", headers, body)
            assert answer.status == status
            assert (b"larger than %d bytes" % limit in answer.body) == (status == 413)
