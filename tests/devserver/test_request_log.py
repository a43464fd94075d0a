"""The request log of a sandbox: what clients sent and what they got, without a trace in the sandbox itself."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.devserver import secret_texts
from leyden.devserver.request_log import stream
from leyden.devserver.request_log.masking import Mask
from leyden.devserver.request_log.resources import RequestRows
from leyden.errors import ResponseLost
from leyden.sandbox.http.http_access import _respond_closed
from leyden.server.ports import ADDED_HEADERS
from leyden.server.system.http_server import listening
from leyden.server.system.http_server.connection import ConnectedH11Protocol
from leyden.world.config import packaged_contract
from leyden.world.request_log import KEPT_BYTES, MOST_CONSOLE_READS, MOST_ROWS, LogBudget, RequestLog
from tests.support.deep import sampled
from tests.support.encodings import encodings
from tests.support.examples import examples
from tests.support.hosted import Hosted, in_server
from tests.support.lists import listed
from tests.support.served import Client, started_server

Json = dict[str, Any]
CHARGES, LOG = "/v0/charges", "/sandbox/v1/requests"
TEA = {"amount": "21000", "description": "tea", "expiresIn": 600}


def rows(sandbox: Sandbox, **filters: Any) -> list[Json]:
    """Every row that matches, the newest first; without those of this look at the log."""
    query = urlencode(filters)
    found = listed(lambda method, target: sandbox.http.request(method, target).json(), f"{LOG}?{query}")
    return [row for row in found if row["operation"] not in ("listRequests", "getRequest")]


def details(sandbox: Sandbox, row: Mapping[str, Any]) -> Json:
    found: Json = sandbox.http.get(f"{LOG}/{row['id']}").json()
    assert {name: found[name] for name in row} == row
    return found


def create(sandbox: Sandbox, **headers: str) -> httpx2.Response:
    return sandbox.http.post(CHARGES, json=TEA, headers=headers)


# What a row shows


def test_the_request_id_of_a_problem_finds_its_request(sandbox: Sandbox) -> None:
    asked = [
        sandbox.http.post(CHARGES, json={}),
        sandbox.http.post(CHARGES, json={"amount": {}, "description": 1, "expiresIn": "x"}),
        sandbox.http.get(f"{CHARGES}/none"),
        sandbox.http.delete(CHARGES),
        sandbox.http.get("/nowhere"),
        sandbox.http.post(CHARGES, json=TEA, headers={"apikey": "wrong"}),
    ]
    ids = [answer.json()["request_id"] for answer in asked]
    assert len(set(ids)) == len(asked)
    assert [(row["requestId"], row["status"]) for row in rows(sandbox)[::-1]] == [
        (one, answer.status_code) for one, answer in zip(ids, asked, strict=True)
    ]
    for document in ("sandbox", "server"):
        said = packaged_contract(document).schemas["Problem"].schema["properties"]["request_id"]["description"]
        assert "journal" not in said


def test_the_request_id_of_a_problem_that_the_client_did_not_get_is_shown(sandbox: Sandbox) -> None:
    sandbox.ask("POST", "/sandbox/v1/service-faults", {"kind": "truncated_body", "operation": "createCharge"})
    with contextlib.suppress(httpx2.HTTPError, ResponseLost):
        sandbox.http.post(CHARGES, json={})
    [row] = [row for row in rows(sandbox) if row["operation"] == "createCharge"]
    assert row["serviceFault"]["applied"]
    assert row["requestId"] is not None


def test_the_refusals_of_a_closed_sandbox_have_ids_of_their_own() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    for _ in range(2):
        asyncio.run(_respond_closed(send))
    assert len({json.loads(message["body"])["request_id"] for message in sent[1::2]} - {""}) == 2


def test_a_request_is_shown_with_its_response(sandbox: Sandbox) -> None:
    sandbox.advance("90s")
    answer = create(sandbox)
    [row] = rows(sandbox)
    assert row == {
        "id": 1,
        "at": "2030-01-01T09:01:30.000Z",
        "receivedAt": row["receivedAt"],
        "method": "POST",
        "path": CHARGES,
        "operation": "createCharge",
        "source": "service",
        "status": 200,
        "requestId": None,
        "durationMicroseconds": row["durationMicroseconds"],
        "chargeId": answer.json()["data"]["id"],
        "serviceFault": None,
        "client": None,
    }
    assert row["durationMicroseconds"] > 0
    found = details(sandbox, row)
    sent = dict(found["request"]["headers"])
    assert sent["content-type"] == "application/json"
    assert found["request"]["body"] == answer.request.content.decode()
    assert found["request"]["size"] == len(answer.request.content)
    assert found["response"] == {
        "headers": [[name, value] for name, value in answer.headers.items()],
        "body": answer.text,
        "size": len(answer.content),
        "truncated": False,
        "complete": True,
    }


def test_rows_come_newest_first_and_in_pages(sandbox: Sandbox) -> None:
    for number in range(7):
        sandbox.http.get(CHARGES, params={"limit": number + 1})
    found = rows(sandbox, limit=3)
    assert [row["path"] for row in found] == [f"{CHARGES}?limit={number}" for number in range(7, 0, -1)]
    assert [row["id"] for row in found] == [7, 6, 5, 4, 3, 2, 1]


def test_filters_apply_together(sandbox: Sandbox) -> None:
    tea = create(sandbox).json()["data"]
    sandbox.http.post(CHARGES, json={**TEA, "description": "Coffee"}, headers={"Leyden-Client": "shop"})
    sandbox.http.get(f"{CHARGES}/{tea['id']}")
    sandbox.http.get("/v0/chargse")
    sandbox.http.post("/sandbox/v1/payments", json={"request": tea["invoice"]["request"]})
    tips = sandbox.http.post(
        "/v0/static-charges",
        json={"minAmount": "1000", "maxAmount": "9000", "description": "Tips", "identifier": "ana@localhost"},
    ).json()["data"]
    link = sandbox.http.get(f"/lnurlp/{tips['id']}").json()
    invoice = sandbox.http.get(link["callback"].partition("localhost")[2], params={"amount": 2_000}).json()
    paid = sandbox.http.get(invoice["verify"].partition("localhost")[2])
    assert paid.json()["status"] == "OK"
    sandbox.http.get("/.well-known/lnurlp/ana")

    def ids(**filters: Any) -> list[int]:
        return [row["id"] for row in rows(sandbox, **filters) if row["id"] <= 10]

    assert ids() == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert ids(operation="createCharge") == [2, 1]
    assert ids(method="GET") == [10, 9, 8, 7, 4, 3]
    assert ids(status="404") == ids(status="4xx") == [4]
    assert ids(status="none") == []
    assert ids(text="coFFee") == [2]
    assert ids(text="chargse") == [4]
    assert ids(chargeId=tea["id"]) == [5, 3, 1]
    assert ids(chargeId=tips["id"]) == [10, 9, 8, 7, 6]
    [paid_later] = {row["chargeId"] for row in rows(sandbox, chargeId=tips["id"])} - {tips["id"]}
    assert ids(chargeId=paid_later) == [9, 8]
    assert ids(source="lnurl") == [10, 9, 8, 7]
    assert ids(source="control") == [5]
    assert ids(source="service", status="2xx", method="POST") == [6, 2, 1]
    assert ids(client="shop") == [2]
    refused = sandbox.http.get(LOG, params={"operation": "createCharges"})
    assert refused.status_code == 409
    assert "did you mean createCharge?" in refused.json()["detail"]


def test_pages_and_documents_are_not_in_the_log(sandbox: Sandbox) -> None:
    for path in ("/", "/docs", "/openapi.json", "/sandbox/v1/docs", "/sandbox/v1/openapi.json", "/favicon.ico"):
        sandbox.http.get(path)
    sandbox.charges.create(amount="1000", description="by Python")  # the sandbox itself, and no client
    assert rows(sandbox) == []


def test_an_unknown_number_gets_404(sandbox: Sandbox) -> None:
    for number in ("1", "0", "999999999999999", "abc", "-1"):
        assert sandbox.http.get(f"{LOG}/{number}").status_code == 404


# Secrets


def test_keys_secrets_and_tokens_are_masked(sandbox: Sandbox) -> None:
    key = sandbox.http.post("/sandbox/v1/api-keys", json={}).json()["key"]
    secret = sandbox.http.get("/sandbox/v1/webhook-secret").json()["current"]
    sandbox.http.get(
        f"{CHARGES}?apikey={key}&limit=1",
        headers={"apikey": key, "Authorization": f"Bearer {'t' * 20}", "Cookie": "session=abcdefghijkl", "X-Note": key},
    )
    shown = [sandbox.http.get(f"{LOG}/{number}").text for number in (1, 2, 3)]
    for text in [*shown, sandbox.http.get(LOG).text]:
        assert key not in text
        assert secret not in text
        assert "tttt" not in text
        assert "abcdefghijkl" not in text
    assert f"(ke..., {len(key)} characters)" in shown[0]
    assert "Bearer (tt..., 20 characters)" in shown[2]


def test_a_key_is_masked_where_the_documents_say_so() -> None:
    key = "alpha-key-1234"
    body = {"amount": "250000", "description": "tea"}
    with started_server("--rate", "0", "--api-key", key) as (client, _):
        client.key = key
        in_headers = [("GET", "/v0/wallet", {"apikey": "x" + key}), ("GET", "/v0/wallet", {"apikey": f'"{key}"'}),
                      ("GET", "/v0/wallet", {"apikey": "", "authorization": f"Bearer {key}"}),
                      ("GET", f"/v0/wallet?apikey={key}", {"apikey": ""})]  # fmt: skip
        for method, path, headers in in_headers:
            status, problem = client(method, path, **headers)
            assert (status, key in str(problem)) == (401, False)
        assert key in client("POST", "/v0/charges", {**body, "amount": key})[1]["detail"]
        assert client("GET", f"/v0/charges/{key}")[0] == 404
        assert client("POST", "/v0/charges", {**body, key: 1})[0] == 200
        entries = client.ok("GET", "/sandbox/v1/journal")
        assert sum(key in str(entry) for entry in entries) == 2
        assert key not in str(client.ok("GET", LOG))
        assert all(key not in str(client.ok("GET", f"{LOG}/{number}")) for number in range(1, 8))


def test_the_keys_of_other_projects_and_sandboxes_are_masked_too() -> None:
    one, two, third = "alpha-key-1234", "beta-key-5678", "gamma-key-9012"
    body = {"amount": "250000", "description": "tea"}
    with started_server("--rate", "0", "--api-key", one, "--api-key", two) as (client, _):
        client.key = one
        box = client.ok("POST", "/sandbox/v1/sandboxes", {})
        Client(client.url, box["apiKey"]).ok("POST", "/sandbox/v1/api-keys", {"key": third})
        for key in (two, third):
            client("GET", f"/v0/charges/{key}?key={key}", **{"user-agent": key, "referer": f"http://a.example/{key}"})
            client("POST", "/v0/charges", {**body, "description": key, key: 1}, **{"idempotency-key": key})
        text = str(client.ok("GET", LOG)) + "".join(str(client.ok("GET", f"{LOG}/{number}")) for number in range(1, 7))
    assert text.count("(be..., 13 characters)") > 5
    assert text.count("(ga..., 14 characters)") > 5
    assert two not in text
    assert third not in text


def test_the_admin_token_is_masked_wherever_it_is() -> None:
    token = "admin-token-17"
    with started_server("--rate", "0", "--admin-token", token) as (client, _):
        client("GET", f"/x?{token}")
        client("GET", f"/v0/charges/{token}")
        client("GET", "/v0/wallet", **{"x-admin-token": token, "user-agent": f"shop {token}"})
        client("POST", CHARGES, {**TEA, "description": f"the {token}"})
        rows = listed(client.ok, LOG)
        assert len(rows) == 4
        for row in rows:
            assert token not in str(row)
            assert token not in str(client.ok("GET", f"{LOG}/{row['id']}"))


def test_the_key_of_a_fork_is_masked_in_the_log_of_its_original(sandbox: Sandbox, served: str) -> None:
    headers = {"apikey": sandbox.api_key}
    fork = httpx2.post(f"{served}/sandbox/v1/fork", json={}, headers=headers).json()
    assert fork["apiKey"].startswith("leyden_")
    logged = httpx2.get(f"{served}{LOG}/1", headers=headers).json()
    assert logged["operation"] == "forkSandbox"
    assert fork["apiKey"] not in logged["response"]["body"]


def test_a_key_of_another_project_is_shown_by_no_refusal_and_by_no_log() -> None:
    with started_server("--rate", "0", "--api-key", "alpha-key-1", "--api-key", "bravo-key-2") as (client, _):
        bravo = Client(client.url, "bravo-key-2")
        orders = (
            ("api-keys", {"key": "alpha-key-1"}),
            ("api-keys/rotate", {"replaces": "bravo-key-2", "key": "alpha-key-1"}),
            ("api-keys/rotate", {"replaces": "alpha-key-1"}),
        )
        for path, body in orders:
            status, problem = bravo("POST", f"/sandbox/v1/{path}", body)
            assert status == 409
            assert "alpha-key-1" not in str(problem)
        for number, _ in enumerate(orders, start=1):
            logged = bravo.ok("GET", f"/sandbox/v1/requests/{number}")
            assert "(al..., 11 characters)" in logged["request"]["body"]
            assert "alpha-key-1" not in str(logged)


def test_a_secret_that_is_percent_encoded_in_a_query_is_masked() -> None:
    secret = "whsec_" + "+/" * 16
    with Sandbox(seed=1, webhook_secret=secret) as sandbox:
        for written in (quote(secret), quote(secret, safe=""), "".join(f"%{ord(one):02x}" for one in secret)):
            sandbox.http.get(f"{CHARGES}?limit=1&note={written}")
            logged = sandbox.http.get(f"{LOG}?limit=1").json()["data"][0]
            assert logged["path"] == f"{CHARGES}?limit=1&note={quote('(wh..., 38 characters)')}"


@pytest.mark.parametrize("others", [0, 100])
def test_a_key_and_a_secret_are_masked_in_each_common_encoding(others: int) -> None:
    key, raw = "key-of-shop-77", b"a secret of 24 bytes!!+/"
    secret = "whsec_" + base64.b64encode(raw).decode()
    mask = Mask([*(f"{number}-key" * 4 for number in range(others)), key, "leyden"], [secret], "apikey", {"leyden"})
    for form in (*encodings(key), *encodings(secret), *encodings(raw)):
        assert form not in mask.body(json.dumps({"description": f"a {form} b"})), form
        assert form not in mask.body(f"a {form} b"), form
        assert form not in mask.header("x-note", f"a {form} b"), form
        assert form not in mask.target(f"/v0/charges?limit=1&note={quote(form)}"), form
        if form.isascii() and re.fullmatch(r"[\w.%+=-]+", form):
            assert form not in mask.target(f"/v0/charges/{form}"), form
    for harmless in ("/v0/charges/ef4d6f36-9a45-4b9b-8b3c-0123456789ab", "/v0/charges?limit=5", "/sandbox/v1/leyden"):
        assert mask.target(harmless) == harmless


# In the middle of every second one there is a `+`: of random bytes it would be rare.
WEBHOOK_SECRETS = st.tuples(
    st.binary(min_size=12, max_size=12), st.sampled_from([b"", b"\x00\x0f\x80"]), st.binary(min_size=12, max_size=40)
).map(lambda parts: f"whsec_{base64.b64encode(b''.join(parts)).decode()}")
KEYS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=8, max_size=40).filter(
    lambda key: key == key.strip() and not key.startswith("whsec_")
)
PLACES = ("query", "form", "path", "header", "referer", "json")


def spellings(place: str, character: str) -> list[str]:
    """How a client may write a character of a text at this place."""
    if place == "header":
        return [character]
    code = ord(character)
    if place == "json":
        return [json.dumps(character)[1:-1], f"\\u{code:04x}", *(["\\/"] if character == "/" else [])]
    found = [f"%{code:02X}", f"%{code:02x}"]
    if character == " " and place != "path":
        return [*found, "+"]
    if character.isalnum() or character in "-._~/+=:@!$'()*,;":
        found += [character] * 3
    return found


@pytest.mark.parametrize("place", PLACES)
@examples(100, bounded=40)
@given(secret=WEBHOOK_SECRETS | KEYS, is_known=st.booleans(), data=st.data())
def test_no_part_of_a_secret_is_shown_however_a_client_spells_it(
    place: str, secret: str, is_known: bool, data: st.DataObject
) -> None:
    is_webhook = secret.startswith("whsec_")
    keys, secrets = [] if is_webhook else [secret], [secret] if is_webhook and is_known else []
    mask = Mask(keys, secrets, "apikey", {"leyden"})
    sent = "".join(data.draw(st.sampled_from(spellings(place, one))) for one in secret)
    shown = {
        "query": lambda: mask.target(f"/v0/charges?limit=1&x={sent}&y=2"),
        "form": lambda: mask.body(f"limit=1&x={sent}&y=2"),
        "path": lambda: mask.target(f"/v0/charges/{sent}"),
        "header": lambda: mask.header("x-note", sent),
        "referer": lambda: mask.header("referer", f"http://shop.example/?x={sent}"),
        "json": lambda: mask.body(f'{{"description": "{sent}"}}'),
    }[place]()
    parts = [secret[at : at + 6].replace("+", " ") for at in range(len(secret) - 5)]
    for text in (shown, unquote(shown), json.loads(f'"{shown}"') if '"' not in shown and place == "json" else ""):
        assert not [part for part in parts if part in text.replace("+", " ")], (sent, shown)


@pytest.mark.parametrize(
    "secret", ["leyden_0123456789abcdef0123456789abcdef", "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"]
)
def test_no_part_of_an_issued_secret_is_shown_where_a_text_was_cut(secret: str) -> None:
    """That of another sandbox, of which only the prefix is known."""
    mask = Mask([], [], "apikey")
    for form in (secret, secret.upper(), base64.b64encode(secret.encode()).decode(), secret.encode().hex()):
        for length in range(len(form) // 3 + 4, len(form) + 1):
            text = '{"p":"' + form[:length]
            assert form[:length] not in mask.body(text), text
            assert form[:length] not in mask.text(f"not json {form[:length]}..."), text


@pytest.mark.parametrize("encode", [base64.b64encode, base64.b32encode, base64.b16encode])
@pytest.mark.parametrize(
    "secret", ["leyden_0123456789abcdef0123456789abcdef", "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"]
)
def test_an_issued_secret_is_masked_wherever_it_is_in_an_encoded_text(
    secret: str, encode: Callable[[bytes], bytes]
) -> None:
    """That of another sandbox, of which only the prefix is known."""
    mask = Mask([], [], "apikey")
    for before in ("", "u", "us", "use", "user", "user:"):
        for after in ("", "\n", "ab", "abc", "abcd"):
            encoded = encode(f"{before}{secret}{after}".encode()).decode()
            for form in (encoded, encoded.lower() if encode is base64.b16encode else encoded, encoded.rstrip("=")):
                shown = mask.body(f'{{"description": "{form}", "amount": "1000"}}')
                parts = [form[at : at + 8] for at in range(12, len(form) - 20)]
                assert not [part for part in parts if part in shown], (before, after, shown)


def test_a_field_that_is_named_like_a_secret_is_masked_where_ignored_fields_are_shown() -> None:
    one, two, token = "alpha-key-1234", "beta-key-5678", "admin-token-17"
    options = ("--rate", "0", "--api-key", one, "--api-key", two, "--admin-token", token)
    with started_server(*options) as (client, printed):
        client.key = one
        box = client.ok("POST", "/sandbox/v1/sandboxes", {}, authorization=f"Bearer {token}")
        named = [one, two, token, box["apiKey"], f"x {two} y", quote(two, safe="").replace("b", "%62")]
        client.ok("POST", CHARGES, {**TEA, **dict.fromkeys(named, 1), "tip": 1})
        shown = str(client.ok("GET", "/sandbox/v1")["ignoredFields"])
    for text in (shown, printed()):
        assert '"tip" is ignored' in text
        assert "(be..., 13 characters)" in text
        assert not [secret for secret in named if secret in text], text


def test_a_text_is_searched_for_the_few_secrets_that_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[Any] = []
    places = secret_texts._Haystack._places

    def count(hay: secret_texts._Haystack, form: Any) -> Iterator[int]:
        sought.append(form)
        return places(hay, form)

    monkeypatch.setattr(secret_texts._Haystack, "_places", count)
    text = "/v0/charges?x=" + "some words of a client " * 40
    costs = []
    for keys in (1, 200):
        sought.clear()
        assert Mask([f"leyden_{number:032x}" for number in range(keys)], [], "apikey").target(text) == text
        costs.append(len(sought))
    assert costs[0] == costs[1]


def test_a_plus_of_a_webhook_secret_that_a_query_has_as_it_is_ends_no_secret() -> None:
    secret = "whsec_l6enSLs1U74Ek+NphImEPAMmO/qM6oX7VQjBTPqHdTk="
    for given_to in ([secret], []):
        shown = Mask([], given_to, "apikey").target(f"/v0/charges?x={secret}&note=a+b")
        assert shown == f"/v0/charges?x={quote('(wh..., 50 characters)')}&note=a+b"


def test_a_secret_is_masked_in_json_by_the_name_of_its_member() -> None:
    mask = Mask([], [], "apikey", {"leyden"})
    assert mask.body('{"key":"a-long-secret') == '{"key":"(a-..., 13 characters)'  # a body that was cut
    assert mask.body(r'{"webhook_secret" : "a\"b", "key": "leyden"}').endswith(' characters)", "key": "leyden"}')
    assert mask.body('{"internalId": "key", "note": "value"}') == '{"internalId": "key", "note": "value"}'


def test_a_short_key_is_masked_where_it_is_a_whole_text(sandbox: Sandbox) -> None:
    sandbox.http.post("/sandbox/v1/api-keys", json={"key": "tea"})
    create(sandbox, apikey="tea")
    body = details(sandbox, rows(sandbox)[1])["response"]["body"]
    assert '"key":"(3 characters)"' in body
    assert '"leyden"' in body  # the default key is no secret


# Faults: what the client really got


@pytest.fixture
def served(sandbox: Sandbox) -> str:
    return sandbox.serve()


def ask(url: str, method: str = "POST", body: bytes = b"") -> tuple[int, bytes]:
    """Send one request to a server; the status and the body."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)
    try:
        connection.request(method, CHARGES, body or None, {"apikey": "leyden", "content-type": "application/json"})
        with connection.getresponse() as answer:
            return answer.status, answer.read()
    finally:
        connection.close()


def row_of(sandbox: Sandbox) -> Json:
    """The row of the only request to a server, which may end after its client has read the response."""
    deadline = time.monotonic() + 10
    while not (found := rows(sandbox)) and time.monotonic() < deadline:
        time.sleep(0.01)
    [row] = found
    return row


BODY_TEXT = b'{"amount":"21000","description":"tea"}'


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_reset_connection_has_no_status(sandbox: Sandbox, served: str, after_commit: bool) -> None:
    fault = sandbox.service_faults.add("connection_reset", after_commit=after_commit)
    with pytest.raises(ConnectionError):
        ask(served, body=BODY_TEXT)
    row = row_of(sandbox)
    assert rows(sandbox, status="none") == [row]
    assert (row["status"], row["operation"]) == (None, "createCharge")
    assert row["serviceFault"] == {"id": fault["id"], "kind": "connection_reset", "applied": True}
    found = details(sandbox, row)
    assert found["request"]["body"] == BODY_TEXT.decode()
    assert found["response"] is None
    assert len(sandbox.charges) == after_commit


def test_a_truncated_body_is_incomplete(sandbox: Sandbox, served: str) -> None:
    sandbox.service_faults.add("truncated_body")
    with pytest.raises(http.client.IncompleteRead) as half:
        ask(served, body=BODY_TEXT)
    row = row_of(sandbox)
    response = details(sandbox, row)["response"]
    assert response["body"].encode() == half.value.partial
    assert (row["status"], response["complete"], response["truncated"]) == (200, False, False)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ({"kind": "error", "status": 502, "body": "html"}, 502, "<html>"),
        ({"kind": "error", "status": 429}, 429, "too_many_requests"),
        ({"kind": "error", "status": 500, "after_commit": True}, 500, "internal_error"),
        ({"kind": "unknown_fields"}, 200, "x_unknown"),
        ({"kind": "wrong_content_type"}, 200, '"success":true'),
        ({"kind": "slow_body", "delay": 0.05}, 200, '"success":true'),
    ],
)
def test_a_changed_response_is_shown_as_it_was_sent(
    sandbox: Sandbox, served: str, fault: Json, status: int, words: str
) -> None:
    kind = fault.pop("kind")
    sandbox.service_faults.add(kind, **fault)
    text = ask(served, body=BODY_TEXT)[1].decode()
    row = row_of(sandbox)
    found = details(sandbox, row)
    assert (row["status"], row["serviceFault"]["kind"]) == (status, kind)
    assert words in text
    assert (found["response"]["body"], found["response"]["complete"]) == (text, True)
    assert found["request"]["body"] == BODY_TEXT.decode()


LOST = [
    {"kind": "connection_reset", "after_commit": True},
    {"kind": "error", "after_commit": True},
    {"kind": "error", "after_commit": True, "body": "empty"},
    {"kind": "truncated_body"},
    {"kind": "slow_first_byte", "delay": 20},
    {"kind": "slow_body", "delay": 20},
    {"kind": "unknown_fields"},
    {"kind": "wrong_content_type"},
]


@pytest.mark.parametrize("path", sampled([CHARGES, "/v0/static-charges"], 4))
@pytest.mark.parametrize("fault", LOST, ids=lambda fault: "-".join(map(str, fault.values())))
@pytest.mark.parametrize("network", [True, False])
def test_a_create_whose_response_was_lost_is_found_by_its_charge(
    sandbox: Sandbox, served: str, fault: Json, path: str, network: bool
) -> None:
    sandbox.service_faults.add(**fault)
    tips = {"minAmount": "1000", "maxAmount": "9000", "description": "tips"}
    body = BODY_TEXT if path == CHARGES else json.dumps(tips).encode()
    headers = {"apikey": "leyden", "content-type": "application/json"}
    client = httpx2.Client(base_url=served) if network else sandbox.http
    with contextlib.suppress(httpx2.TransportError):
        client.post(path, content=body, headers=headers, timeout=0.4)
    if network:
        client.close()
    row = row_of(sandbox)
    [only] = sandbox.charges if path == CHARGES else sandbox.static_charges
    assert row["chargeId"] == only.id
    assert rows(sandbox, chargeId=only.id) == [row]


def test_a_create_that_was_refused_before_the_service_has_no_charge(sandbox: Sandbox, served: str) -> None:
    sandbox.service_faults.add("error")
    ask(served, body=BODY_TEXT)
    assert row_of(sandbox)["chargeId"] is None


def test_a_create_whose_client_left_is_found_by_its_charge(sandbox: Sandbox, served: str) -> None:
    where = urlsplit(served)
    head = b"POST /v0/charges HTTP/1.1\r\nhost: localhost\r\napikey: leyden\r\ncontent-type: application/json\r\n"
    with sandbox.world.lock, socket.create_connection((where.hostname or "", where.port or 0)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(head + b"content-length: %d\r\n\r\n" % len(BODY_TEXT) + BODY_TEXT)
        time.sleep(0.2)
    row = row_of(sandbox)
    assert row["chargeId"] == next(iter(sandbox.charges)).id


@pytest.mark.parametrize(
    "line",
    [
        "GET /v0/charges HTTP/1.1\r\nconnection: close",
        "GET /v0/charges HTTP/1.0",
        "HEAD /v0/charges HTTP/1.1\r\nconnection: close",
        "GET /v0/unknown HTTP/1.1\r\nconnection: close",
        "GET /lnurlp/unknown HTTP/1.1\r\nconnection: close",
        "OPTIONS /v0/charges HTTP/1.1\r\nconnection: close",
    ],
)
@pytest.mark.parametrize("fault", [None, "past_date", "truncated_body", "slow_body"])
def test_the_headers_of_a_response_are_those_on_the_connection(
    sandbox: Sandbox, served: str, line: str, fault: str | None
) -> None:
    if fault is not None and not (fault != "past_date" and line.startswith("HEAD")):
        sandbox.service_faults.add(fault, delay=0.01 if fault == "slow_body" else None)
    where = urlsplit(served)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=10) as client:
        client.sendall(f"{line}\r\nhost: localhost\r\napikey: leyden\r\n\r\n".encode())
        got = b""
        while part := client.recv(65_536):
            got += part
    head = got.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    response = details(sandbox, row_of(sandbox))["response"]
    assert sorted(map(tuple, response["headers"])) == sorted(tuple(one.split(": ", 1)) for one in head)


@pytest.mark.parametrize("protocol", ["httptools", "h11"])
def test_the_server_notes_the_headers_that_it_adds(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        start = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b"text"})
        noted.append(start.get(ADDED_HEADERS))

    if protocol == "h11":
        monkeypatch.setattr(listening, "_protocol", lambda: ConnectedH11Protocol)
    listener = listening.open_listener("127.0.0.1", 0)
    server = listening.ServerThread(app, listener)
    try:
        with socket.create_connection(listener.getsockname(), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            got = b""
            while part := client.recv(65_536):
                got += part
    finally:
        server.close()
    head = got.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")[1:]
    assert sorted(b": ".join(one) for one in noted[0]) == sorted(head)
    assert len(head) == 2


def test_a_stale_read_is_named(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("stale_read")
    charge = create(sandbox).json()["data"]
    sandbox.http.get(f"{CHARGES}/{charge['id']}")
    sandbox.wallet("ana").pay(charge["invoice"]["request"])
    sandbox.advance("1s")
    assert sandbox.http.get(f"{CHARGES}/{charge['id']}").json()["data"]["status"] == "pending"
    assert rows(sandbox)[0]["serviceFault"]["kind"] == "stale_read"


def test_a_client_that_left_before_the_response_got_no_status(sandbox: Sandbox, served: str) -> None:
    sandbox.service_faults.add("slow_first_byte", delay=20)
    where = urlsplit(served)
    with socket.create_connection((where.hostname or "", where.port or 0)) as client:
        client.sendall(b"GET /v0/charges HTTP/1.1\r\nhost: localhost\r\napikey: leyden\r\n\r\n")
        time.sleep(0.2)
    assert row_of(sandbox)["status"] is None


def leave(served: str, request: bytes, count: int, *, reset: bool) -> bytes:
    """Send a request on a connection with small buffers, read at least `count` bytes and leave; what was read."""
    where = urlsplit(served)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((where.hostname or "", where.port or 0))
        client.sendall(request)
        read = b""
        while len(read) < count:
            read += client.recv(count - len(read))
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return read


@pytest.mark.parametrize("reset", [False, True])
def test_a_body_that_a_client_does_not_wait_for_is_incomplete(sandbox: Sandbox, served: str, reset: bool) -> None:
    sandbox.service_faults.add("slow_body", delay=2)
    head = b"POST /v0/charges HTTP/1.1\r\nhost: localhost\r\napikey: leyden\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(BODY_TEXT) + BODY_TEXT
    read = leave(served, request, 600, reset=reset).partition(b"\r\n\r\n")[2]
    response = details(sandbox, row_of(sandbox))["response"]
    assert response["complete"] is False
    assert len(read) <= response["size"] < 900
    assert response["body"].encode()[: len(read)] == read
    assert len(response["body"]) == response["size"]


@pytest.mark.parametrize("reset", [False, True])
def test_a_long_body_that_a_client_does_not_read_is_incomplete(sandbox: Sandbox, served: str, reset: bool) -> None:
    for _ in range(700):
        sandbox.charges.create(amount="250000", description="y" * 600)
    whole = len(sandbox.http.get(f"{CHARGES}?limit=1000", headers={"Leyden-Client": "whole"}).content)
    assert whole > 1_000_000
    before = len(rows(sandbox))
    request = b"GET /v0/charges?limit=1000 HTTP/1.1\r\nhost: localhost\r\napikey: leyden\r\n\r\n"
    leave(served, request * 8, 2_000, reset=reset)
    deadline = time.monotonic() + 20
    last: Json | None = {"complete": True}
    while last is not None and last["complete"] and time.monotonic() < deadline:
        time.sleep(0.01)
        found = rows(sandbox)
        responses = [details(sandbox, row)["response"] for row in found[: len(found) - before]]
        assert all(one is None or one["complete"] == (one["size"] == whole) for one in responses)
        last = responses[0] if responses else last
    assert last is None or not last["complete"]


# Bodies


def test_long_bodies_are_truncated(sandbox: Sandbox, served: str) -> None:
    for number in range(30):
        sandbox.charges.create(amount="1000", description=f"{number} " + "x" * 600)
    whole = ask(served, "GET")[1]
    too_long = b'{"description":"' + b"y" * 200_000 + b'"}'
    assert ask(served, body=too_long)[0] == 413
    while len(found := rows(sandbox)) < 2:
        time.sleep(0.01)
    refused, read = found
    response = details(sandbox, read)["response"]
    assert response["body"].encode() == whole[:KEPT_BYTES]
    assert (response["size"], response["truncated"], response["complete"]) == (len(whole), True, True)
    request = details(sandbox, refused)["request"]
    assert (request["size"], request["truncated"]) == (len(too_long), True)
    assert too_long.startswith(request["body"].encode())
    assert len(request["body"]) > 1_000


def test_bytes_that_are_no_utf_8_are_shown_escaped(sandbox: Sandbox) -> None:
    sandbox.http.post(CHARGES, content=b'{"description":"caf\xe9"}', headers={"content-type": "application/json"})
    [row] = rows(sandbox)
    assert details(sandbox, row)["request"]["body"] == '{"description":"caf\\xe9"}'


# The console


def test_reads_of_the_console_are_listed_only_on_request_and_displace_nothing(sandbox: Sandbox) -> None:
    create(sandbox)
    create(sandbox, **{"Leyden-Client": "console"})
    for _ in range(MOST_ROWS + 50):
        sandbox.http.get("/sandbox/v1/clock", headers={"Leyden-Client": "console"})
    assert [row["id"] for row in rows(sandbox)] == [2, 1]
    own = rows(sandbox, client="console")
    assert (own[0]["operation"], own[-1]["id"], len(own)) == ("getClock", 2, 101)
    assert details(sandbox, own[0])["client"] == "console"


# The sandbox itself


def test_a_reset_keeps_the_log_and_a_restore_too(sandbox: Sandbox) -> None:
    create(sandbox)
    snapshot = sandbox.snapshot()
    sandbox.http.post("/sandbox/v1/reset", json={})
    sandbox.restore(snapshot)
    assert [row["operation"] for row in rows(sandbox)] == ["reset", "createCharge"]
    assert rows(Sandbox.from_snapshot(snapshot)) == []


def test_each_sandbox_of_a_server_has_its_own_log() -> None:
    async def scenario(server: Hosted) -> None:
        boxes = [await server.create(seed=number) for number in range(3)]
        for number, box in enumerate(boxes):
            for _ in range(number + 1):
                await server.ok("POST", f"{box['url']}{CHARGES}", TEA, key=box["apiKey"])
        for number, box in enumerate(boxes):
            found = (await server.ok("GET", LOG, key=box["apiKey"]))["data"]
            assert [row["path"] for row in found] == [CHARGES] * (number + 1)  # below the URL of the sandbox
            details = await server.ok("GET", f"{box['url']}{LOG}/1", key=box["apiKey"])
            assert box["apiKey"] not in str(details)
        box = boxes[2]
        base = f"/sandbox/v1/sandboxes/{box['id']}"
        snapshot = await server.ok("POST", f"{base}/snapshots", {})
        await server.ok("POST", f"{base}/restore", {"snapshot": snapshot["id"]})
        found = (await server.ok("GET", LOG, key=box["apiKey"]))["data"]
        assert [row["operation"] for row in found] == ["getRequest", "listRequests", *["createCharge"] * 3]
        world = server.world(box)
        assert (await server.ask("DELETE", base)).status in (200, 204)
        assert len(world.request_log) == 0

    in_server(scenario)


# Bounds


def logged(log: RequestLog, body: bytes = b"", *, console: bool = False, started_ns: int = 0) -> int:
    """Add a row; its number."""
    number = next(log.numbers)
    fields = (
        number, 0, started_ns, started_ns + 1, "GET", f"/{number}", b"", b"", [(b"host", b"localhost")], body,
        len(body), 200, [], b"", 0, True, None, b"console" if console else None,
    )  # fmt: skip
    log.add(fields, is_console_read=console)
    return number


def test_a_log_keeps_the_latest_thousand() -> None:
    log = RequestLog()
    for _ in range(5 * MOST_ROWS):
        logged(log)
    assert len(log) == MOST_ROWS
    assert [row.doc_id for row in log.since(0)] == list(range(4 * MOST_ROWS + 1, 5 * MOST_ROWS + 1))
    assert log.row(4 * MOST_ROWS) is None
    found = log.row(4 * MOST_ROWS + 1)
    assert found is not None
    assert found.path == f"/{4 * MOST_ROWS + 1}"


def test_the_logs_of_a_server_share_a_budget_and_the_oldest_rows_of_all_go_first() -> None:
    budget, body = LogBudget(limit_bytes=1_000_000), b"x" * 4_000
    logs = [RequestLog() for _ in range(5)]
    added = [(0, logged(logs[0], body))]  # before it is served
    for log in logs:
        log.share(budget)
    for step in range(1, 3_000):
        where = step * step % 5
        added.append((where, logged(logs[where], body, console=step % 50 == 0, started_ns=step)))
        assert budget.memory_bytes <= 1_000_000
    kept = {(where, row.doc_id) for where, log in enumerate(logs) for row in log.newest_first(console_reads=True)}
    assert kept == {*added[-len(kept) :]}
    assert len(kept) * 4_000 < budget.memory_bytes <= 1_000_000
    assert budget.memory_bytes > 880_000
    logs[0].close()
    logs[1].close()
    assert len(logs[1]) == 0
    logged(logs[1], body)
    assert len(logs[1]) == 1
    for log in logs:
        log.close()
    assert budget.memory_bytes == 0


def test_the_reads_of_the_console_have_a_bound_of_their_own() -> None:
    log = RequestLog()
    for _ in range(MOST_ROWS):
        logged(log)
        logged(log, console=True)
    assert [row.client for row in log.newest_first()] == [None] * MOST_ROWS
    both = [row.client for row in log.newest_first(console_reads=True)]
    assert both[: 2 * MOST_CONSOLE_READS] == [b"console", None] * MOST_CONSOLE_READS
    assert len(both) == MOST_ROWS + MOST_CONSOLE_READS


def test_requests_in_progress_do_not_wait_for_a_reader() -> None:
    async def scenario(server: Hosted) -> None:
        for _ in range(MOST_ROWS):
            logged(server.first.request_log, b"z" * KEPT_BYTES)
        reading = asyncio.ensure_future(server.ask("GET", f"{LOG}?text=nothing+has+this", key="leyden"))
        await asyncio.sleep(0)
        answers = 0
        while not reading.done():
            assert (await server.ask("GET", "/healthz")).status == 200
            await asyncio.sleep(0)
            answers += 1
        assert (await reading).body["data"] == []
        assert answers > 5

    in_server(scenario)


def test_two_long_pages_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoded row takes much more memory than what a page shows of it."""
    making: dict[Any, int] = {}
    most = 0
    summary = RequestRows.summary

    def counted(shown: RequestRows, row: Any, mask: Mask) -> Any:
        nonlocal most
        making[asyncio.current_task()] = making.get(asyncio.current_task(), 0) + 1
        most = max(most, sum(1 for task in making if not task.done()))
        return summary(shown, row, mask)

    async def scenario(server: Hosted) -> None:
        for _ in range(300):
            await server.ask("GET", CHARGES, key="leyden")
        monkeypatch.setattr(RequestRows, "summary", counted)
        pages = await asyncio.gather(*(server.ask("GET", f"{LOG}?limit=1000", key="leyden") for _ in range(12)))
        assert {page.status for page in pages} == {200}
        assert all(len(page.body["data"]) >= 300 for page in pages)

    in_server(scenario)
    assert len(making) == 12
    assert most <= 3  # a complete page is sent before its task ends


def test_two_clients_get_their_past_events_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    decoding = most = 0
    request_events = stream.request_events

    async def counted(shown: RequestRows, found: Sequence[Any]) -> bytes:
        nonlocal decoding, most
        if len(found) < 300:  # those that come while the streams are open
            return await request_events(shown, found)
        decoding += 1
        most = max(most, decoding)
        try:
            return await request_events(shown, found)
        finally:
            decoding -= 1

    async def scenario(server: Hosted) -> None:
        for _ in range(300):
            await server.ask("GET", CHARGES, key="leyden")
        monkeypatch.setattr(stream, "request_events", counted)
        listen = partial(server.ask, "GET", "/sandbox/v1/events", key="leyden", headers={"last-event-id": "0"})
        streams = await asyncio.gather(*(listen() for _ in range(12)))
        assert [one.body.count(b"event: request") >= 300 for one in streams] == [True] * 12

    in_server(scenario)
    assert most == 2
