"""Ignored fields: a request with a name that its operation does not know is accepted, and the name is reported."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import httpx2
import pytest

from leyden import Sandbox
from leyden.world.config import packaged_contract
from leyden.world.loopback import LoopbackResponse
from tests.support.served import served_leyden

GOOD = {"amount": "1000", "description": "tea"}
TIPS = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips"}
# A list of strings with parameters (RFC 9651), as far as this header uses it.
_STRING = r'%?"(?:[^"\\]|\\.)*"'
LIST = re.compile(rf"(?:{_STRING}|more)(?:;[a-z-]+=(?:{_STRING}|\d+))*(?:, |$)")


def header(answer: LoopbackResponse) -> str | None:
    value = dict(answer.headers).get(b"leyden-ignored")
    if value is None:
        return None
    assert value == b"".join(part.group().encode("ascii") for part in LIST.finditer(value.decode("ascii")))
    return value.decode("ascii")


def create(sandbox: Sandbox, **more: Any) -> LoopbackResponse:
    return sandbox.request("POST", "/v0/charges", {**GOOD, **more})


@pytest.mark.parametrize(("name", "meant"), [
    ("callback_url", "callbackUrl"), ("callbackURL", "callbackUrl"), ("callback", "callbackUrl"),
    ("expires_in", "expiresIn"), ("expires", "expiresIn"), ("internal-id", "internalId"), ("amount_msat", None),
    ("currency", None), ("webhook", "callbackUrl"), ("unit", None),
])  # fmt: skip
def test_the_response_names_an_ignored_field_and_the_one_that_was_meant(
    sandbox: Sandbox, name: str, meant: str | None
) -> None:
    answer = create(sandbox, **{name: "msats"})
    assert answer.status == 200
    assert header(answer) == f'"{name}"' + (f';did-you-mean="{meant}"' if meant else "")


def test_a_request_without_unknown_fields_has_no_such_header(sandbox: Sandbox) -> None:
    assert header(create(sandbox, internalId="a", callbackUrl="http://shop.localhost/x", expiresIn=60)) is None


def test_a_refused_request_names_its_ignored_fields_too(sandbox: Sandbox) -> None:
    expected = '"callback_url";did-you-mean="callbackUrl"'
    wrong_amount = create(sandbox, amount="1", callback_url="x")
    assert (wrong_amount.status, header(wrong_amount)) == (400, expected)
    nothing_required = sandbox.request("POST", "/v0/charges", {"amout": "1000", "description": "tea"})
    assert (nothing_required.status, header(nothing_required)) == (400, '"amout";did-you-mean="amount"')
    crossed = sandbox.request("POST", "/v0/static-charges", {**TIPS, "minAmount": "9999", "callback_url": "x"})
    assert (crossed.status, header(crossed)) == (409, expected)
    unknown = "/v0/static-charges/8f14e45f-ceea-467f-a8b5-91f3d5a1c0de"
    missing = sandbox.request("PATCH", unknown, {"callback_url": "x"})
    assert (missing.status, header(missing)) == (404, expected)
    entries = [entry.facts for entry in sandbox.world.journal.entries(kind="request")]
    assert [(facts["status"], "ignored" in facts) for facts in entries] == [
        (400, True),
        (400, True),
        (409, True),
        (404, True),
    ]


def test_a_field_that_is_refused_is_not_called_ignored() -> None:
    with Sandbox(overlays=["strict"]) as strict:
        answer = create(strict, callback_url="x")
        assert (answer.status, header(answer)) == (400, None)
        control = strict.request("POST", "/sandbox/v1/faults", {"kind": "drop", "evnt": "charge.expired"})
        assert (control.status, header(control)) == (400, None)


def test_an_amount_in_another_unit_is_read_as_millisatoshis_and_the_response_says_so(sandbox: Sandbox) -> None:
    answer = create(sandbox, unit="sats")
    assert header(answer) == '"unit";always="msats"'
    assert next(iter(sandbox.charges)).data["amount"] == "1000"


@pytest.mark.parametrize(("name", "item"), [
    ('a"b\\c', '"a\\"b\\\\c"'), ("f\u00fc%\"", '%"f%c3%bc%25%22"'), ("\r\nSet-Cookie: x", '%"%0d%0aSet-Cookie: x"'),
    ("x" * 300, f'"{"x" * 37}..."'), ("", '""'),
])  # fmt: skip
def test_names_are_escaped_and_cut(sandbox: Sandbox, name: str, item: str) -> None:
    assert header(create(sandbox, **{name: 1})) == item


def test_at_most_eight_names_are_listed(sandbox: Sandbox) -> None:
    listed = header(create(sandbox, **{f"x{number}": 1 for number in range(500)}))
    assert listed == ", ".join(f'"x{number}"' for number in range(8)) + ", more;count=492"


def test_of_many_names_those_with_a_hint_are_listed_and_the_others_counted(sandbox: Sandbox) -> None:
    many = {f"x{number}": 1 for number in range(20)}
    answer = create(sandbox, **many, callback_url="http://shop.localhost/", y=1, unit="sats")
    shown = [f'"x{number}"' for number in range(6)]
    assert header(answer) == ", ".join(
        [*shown, '"callback_url";did-you-mean="callbackUrl"', '"unit";always="msats"', "more;count=15"]
    )
    texts = sandbox.ask("GET", "/sandbox/v1")["ignoredFields"]
    assert texts[-1] == "POST /v0/charges: 15 more fields are ignored in the same request"
    assert 'POST /v0/charges: "callback_url" is ignored; did you mean "callbackUrl"?' in texts
    create(sandbox, **{f"x{number}": 1 for number in range(9)})
    assert sandbox.ask("GET", "/sandbox/v1")["ignoredFields"][-1].endswith(
        ": 1 more field is ignored in the same request"
    )


def test_a_change_and_a_static_charge_name_them_too(sandbox: Sandbox) -> None:
    assert header(sandbox.request("POST", "/v0/static-charges", {**TIPS, "max_shares": 3})) == '"max_shares"'
    static = sandbox.static_charges.create(**TIPS)
    answer = sandbox.request("PATCH", f"/v0/static-charges/{static.id}", {"success_message": "Thanks", "status": "x"})
    assert header(answer) == '"success_message";did-you-mean="successMessage", "status"'


def test_the_lightning_operations_name_ignored_parameters(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(**TIPS)
    for path in (f"/lnurlp/{static.id}?tag=x&tag=y", f"/lnurlp/{static.id}/invoice?amount=1000&tag=x"):
        answer = sandbox.request("GET", path, None)
        assert b'"status":"ERROR"' not in answer.body
        assert header(answer) == '"tag"'
    refused = sandbox.request("GET", f"/lnurlp/{static.id}/invoice?Amount=1000", None)
    assert b'"status":"ERROR"' in refused.body
    assert header(refused) == '"Amount";did-you-mean="amount"'
    assert header(sandbox.request("GET", f"/lnurlp/{static.id}?%ff", None)) is None


def test_a_repeated_request_is_answered_with_the_same_header(sandbox: Sandbox) -> None:
    key = {"apikey": sandbox.api_key, "content-type": "application/json", "idempotency-key": "one"}
    body = b'{"amount":"1000","description":"tea","callback_url":"http://shop.localhost"}'
    first, again = (sandbox.request("POST", "/v0/charges", body, key) for _ in range(2))
    assert header(first) == header(again) == '"callback_url";did-you-mean="callbackUrl"'


def test_the_event_journal_names_them_in_the_entry_of_the_request(sandbox: Sandbox) -> None:
    create(sandbox, callback_url="http://shop.localhost", unit="sats")
    create(sandbox)
    ignored, clean = sandbox.world.journal.entries(kind="request")
    assert ignored.facts["ignored"] == [
        {"name": "callback_url", "didYouMean": "callbackUrl"},
        {"name": "unit", "always": "msats"},
    ]
    assert "ignored" not in clean.facts


def test_the_control_plane_lists_each_of_them_once(sandbox: Sandbox) -> None:
    for _ in range(2):
        create(sandbox, callback_url="http://shop.localhost")
    expected = ['POST /v0/charges: "callback_url" is ignored; did you mean "callbackUrl"?']
    assert sandbox.ask("GET", "/sandbox/v1")["ignoredFields"] == expected
    assert sandbox.ask("POST", "/sandbox/v1/reset", {})["ignoredFields"] == []


def test_a_restore_empties_their_list_and_the_document_says_so() -> None:
    with served_leyden("--rate", "0") as client:
        snapshot = client.ok("POST", "/sandbox/v1/snapshots", {})["id"]
        client("POST", "/v0/charges", {"amount": "1000", "description": "tea", "callback_url": "http://a.localhost"})
        assert client.ok("GET", "/sandbox/v1")["ignoredFields"]
        assert client.ok("POST", "/sandbox/v1/restore", {"snapshot": snapshot})["ignoredFields"] == []
    description = packaged_contract("sandbox").schemas["Sandbox"].schema["properties"]["ignoredFields"]["description"]
    assert "the last reset or restore" in " ".join(description.split())


def test_the_strict_overlay_refuses_and_declares_the_header_for_headers_only() -> None:
    with Sandbox(overlays=["strict"]) as sandbox:
        assert create(sandbox, callback_url="http://shop.localhost").status == 400
        paths = sandbox.world.config.contract.document["paths"]
        declared = {
            (path, method)
            for path, item in paths.items()
            for method, operation in item.items()
            if method != "parameters" and "Leyden-Ignored" in operation["responses"]["200"].get("headers", {})
        }
        assert {method for path, method in declared if path.startswith("/v0")} == {"post", "patch"}


def test_every_operation_that_sends_the_header_declares_it(sandbox: Sandbox) -> None:
    for operation in sandbox.world.config.contract.operations.values():
        assert "leyden-ignored" in operation.responses[200].headers, operation.operation_id


def test_a_server_logs_each_of_them_once(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    url = f"{sandbox.serve()}/v0/charges"
    with caplog.at_level(logging.WARNING, "leyden"):
        for field in ("callback_url", "callback_url", "unit", "\u001b[31m"):
            httpx2.post(url, headers={"apikey": sandbox.api_key}, json={**GOOD, field: "sats"}).raise_for_status()
    assert [record.getMessage() for record in caplog.records] == [
        'POST /v0/charges: "callback_url" is ignored; did you mean "callbackUrl"?',
        'POST /v0/charges: "unit" is ignored; it is always "msats"',
        'POST /v0/charges: %"%1b[31m" is ignored',
    ]


def test_another_hint_for_the_same_name_is_another_text(sandbox: Sandbox) -> None:
    for unit in ("msats", "sats", "msats", "btc"):
        create(sandbox, unit=unit)
    start = 'POST /v0/charges: "unit" is ignored'
    assert sandbox.ask("GET", "/sandbox/v1")["ignoredFields"] == [start, f'{start}; it is always "msats"']


def test_the_pointer_of_a_refused_field_is_escaped() -> None:
    with Sandbox(overlays=["strict"]) as sandbox:
        errors = json.loads(create(sandbox, **{"a/b~": 1}).body)["errors"]
    assert [one["pointer"] for one in errors] == ["/a~1b~0"]  # RFC 6901, 3


# Headers


def with_headers(sandbox: Sandbox, method: str, target: str, fields: dict[str, Any], *names: str) -> LoopbackResponse:
    sent = [("apikey", sandbox.api_key), ("content-type", "application/json"), *((name, "k1") for name in names)]
    return sandbox.request(method, target, json.dumps(fields).encode(), sent)


@pytest.mark.parametrize(
    "name",
    ["X-Idempotency-Key", "Idempotency_Key", "Idempotent-Key", "Idempotencykey", "Idempotency-Keys", "Idempotency",
     "X-Idempotent-Key", "Idempotency-Token", "Idempotancy-Key", "Idemptency-Key", "Indempotency-Key"],
)  # fmt: skip
def test_the_response_names_a_header_that_is_a_slip_of_the_idempotency_key(sandbox: Sandbox, name: str) -> None:
    for target, fields in (("/v0/charges", GOOD), ("/v0/static-charges", TIPS)):
        first, second = (with_headers(sandbox, "POST", target, fields, name) for _ in range(2))
        assert header(first) == header(second) == f'"{name}";did-you-mean="Idempotency-Key"'
        assert json.loads(first.body)["data"]["id"] != json.loads(second.body)["data"]["id"]
    text = f'POST /v0/charges: "{name}" is ignored; did you mean "Idempotency-Key"?'
    assert text in sandbox.ask("GET", "/sandbox/v1")["ignoredFields"]


def test_beside_the_right_header_a_slip_of_it_is_named_without_a_hint(sandbox: Sandbox) -> None:
    answer = with_headers(sandbox, "POST", "/v0/charges", GOOD, "Idempotency-Key", "X-Idempotency-Key")
    assert header(answer) == '"X-Idempotency-Key"'
    assert header(with_headers(sandbox, "POST", "/v0/charges", GOOD, "Idempotency-Key")) is None


def test_where_the_key_has_no_effect_a_slip_of_it_is_named_without_a_hint(sandbox: Sandbox) -> None:
    made = sandbox.static_charges.create(**TIPS)
    target = f"/v0/static-charges/{made.id}"
    assert header(with_headers(sandbox, "PATCH", target, {"description": "T"}, "X-Idempotency-Key")) == (
        '"X-Idempotency-Key"'
    )
    read = sandbox.request("GET", target, headers=[("apikey", sandbox.api_key), ("X-Idempotency-Key", "k1")])
    assert header(read) is None


def test_the_invoice_of_a_link_creates_a_charge_and_names_the_key_that_it_ignores(sandbox: Sandbox) -> None:
    link = f"/lnurlp/{sandbox.static_charges.create(**TIPS).id}"
    for name in ("Idempotency-Key", "X-Idempotency-Key"):
        for target in (f"{link}/invoice?amount=5000", f"{link}/invoice?amount=1"):  # the second one is refused
            assert header(sandbox.request("GET", target, headers=[(name, "k1")])) == f'"{name}"'
        assert header(sandbox.request("GET", link, headers=[(name, "k1")])) is None


def test_every_change_in_the_control_plane_names_the_key_that_it_ignores(sandbox: Sandbox) -> None:
    operations = [one for one in packaged_contract("sandbox").operations.values() if one.method in ("put", "delete")]
    assert len(operations) > 5
    for name in ("Idempotency-Key", "X-Idempotency-Key"):
        for one in operations:
            target = re.sub(r"\{\w+\}", "1", one.path)
            headers = [("apikey", sandbox.api_key), ("content-type", "application/json"), (name, "k1")]
            answer = sandbox.request(one.method.upper(), target, {} if one.body else None, headers=headers)
            assert header(answer) == f'"{name}"', (one.operation_id, answer)
            read = sandbox.request("GET", "/sandbox/v1", headers=headers)
            assert header(read) is None


@pytest.mark.parametrize(
    "name", ["X-Api-Key", "Authorization", "X-Request-Id", "X-Identity-Key", "Public-Key", "X-Client", "Key", "i" * 99]
)
def test_other_headers_are_not_named(sandbox: Sandbox, name: str) -> None:
    assert header(with_headers(sandbox, "POST", "/v0/charges", GOOD, name)) is None


def test_the_overlay_strict_names_a_slip_of_the_idempotency_key_too() -> None:
    with Sandbox(overlays=["strict"]) as sandbox:
        answer = with_headers(sandbox, "POST", "/v0/charges", GOOD, "X-Idempotency-Key")
        assert (answer.status, header(answer)) == (200, '"X-Idempotency-Key";did-you-mean="Idempotency-Key"')
        [create] = [sandbox.ask("GET", "/openapi.json")["paths"]["/v0/charges"]["post"]]
        assert "Leyden-Ignored" in create["responses"]["200"]["headers"]
