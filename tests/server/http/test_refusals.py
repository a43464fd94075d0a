"""Refusals: each typical slip of an integrator gets a declared problem whose text shows it and tells the mend."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import reduce
from ipaddress import IPv6Address
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.contract.types import Operation
from leyden.server.http.corrections import correction
from leyden.server.spelling import closest, closest_names
from leyden.world.config import packaged_contract
from tests.support.deep import deep_or

JSON = "application/json"
GOOD: dict[str, Any] = {"amount": "250000", "description": "tea"}
TIPS: dict[str, Any] = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips"}
UNKNOWN = "00000000-0000-4000-8000-000000000000"
Headers = dict[str, str]


def problem(
    sandbox: Sandbox, method: str, target: str, body: Any = None, headers: Headers | None = None
) -> tuple[int, dict[str, Any]]:
    """Send the request as it is, without any default header but the key, and check the form of the refusal."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = {"apikey": sandbox.api_key, "content-type": JSON} if headers is None else headers
    answer = sandbox.request(method, target, raw, sent)
    document = json.loads(answer.body)
    contract = sandbox.world.config.contract
    assert contract.schemas["Problem"].validator.is_valid(document), document
    assert document["message"] == document["detail"]
    assert document["detail"].isascii()
    assert document["detail"].isprintable()
    assert len(document["detail"]) < 400
    assert (document["status"] == 401) == ("www-authenticate" in {name.decode() for name, _ in answer.headers})
    return answer.status, document


def charge(**fields: Any) -> dict[str, Any]:
    return {**GOOD, **fields}


# Bodies: field, value, and parts of the text: what was received, and the mend

FIELDS = [
    ("amount", "250", '"250"', 'millisatoshis; if you mean 250 satoshis, write "250000"'),
    ("amount", 250, "the number 250", 'if you mean 250 satoshis, write "250000"'),
    ("amount", 250000, "the number 250000", 'write it as a text, "250000"'),
    ("amount", 250000.0, "the number 250000.0", 'write it as a text, "250000"'),
    ("amount", "2500.5", '"2500.5"', "without a decimal point"),
    ("amount", 2500.5, "the number 2500.5", "without a decimal point"),
    ("amount", "250000.0", '"250000.0"', 'write "250000"'),
    ("amount", "250,000", '"250,000"', 'write "250000"'),
    ("amount", "250 000", '"250 000"', 'write "250000"'),
    ("amount", " 250000", '" 250000"', 'write "250000"'),
    ("amount", "250000 msat", '"250000 msat"', 'write "250000"'),
    ("amount", "250 sats", '"250 sats"', 'write "250000"'),
    ("amount", "-250000", '"-250000"', "an amount has no sign"),
    ("amount", "0250000", '"0250000"', 'write "250000"'),
    ("amount", "600000000", '"600000000"', 'to "500000000"'),
    ("amount", "1e6", '"1e6"', 'write it without an exponent, "1000000"'),
    ("amount", "2.5E+5", '"2.5E+5"', 'write it without an exponent, "250000"'),
    ("amount", "1e-3", '"1e-3"', "write all digits, without an exponent"),
    ("amount", "1.5e99", '"1.5e99"', "write all digits, without an exponent"),
    ("amount", 1e6, "the number 1000000.0", 'write it as a text, "1000000"'),
    ("amount", "\uff12\uff15\uff10\uff10\uff10\uff10", "uff12", 'write "250000"'),
    ("amount", "\u0662\u0665\u0660\u0660\u0660\u0660", "u0662", 'write "250000"'),
    ("expiresIn", "6e2", '"6e2"', "write it without an exponent, the number 600"),
    ("amount", None, "null", "a string of digits"),
    ("amount", ["1000"], "an array", "a string of digits"),
    ("callbackUrl", "shop.example/paid", '"shop.example/paid"', 'write "https://shop.example/paid"'),
    ("callbackUrl", "localhost:3000/paid", '"localhost:3000/paid"', 'write "http://localhost:3000/paid"'),
    ("callbackUrl", "http//shop.localhost", '"http//shop', 'write "http://shop.localhost"'),
    ("callbackUrl", "https//shop.example/h", '"https//shop', 'write "https://shop.example/h"'),
    ("callbackUrl", "http:/shop.localhost/h", '"http:/shop', 'write "http://shop.localhost/h"'),
    ("callbackUrl", "https:shop.example", '"https:shop', 'write "https://shop.example"'),
    ("callbackUrl", "http:shop.localhost:3000/h", '"http:shop', 'write "http://shop.localhost:3000/h"'),
    ("callbackUrl", "HTTP;//shop.localhost", '"HTTP;//shop', 'write "http://shop.localhost"'),
    ("callbackUrl", "http:///shop.localhost/h", '"http:///shop', 'write "http://shop.localhost/h"'),
    ("callbackUrl", "http:// shop.localhost/h", '"http:// shop', 'write "http://shop.localhost/h"'),
    ("callbackUrl", "http:\\\\shop.localhost\\h", "shop.localhost", 'write "http://shop.localhost/h"'),
    ("callbackUrl", "//shop.example/h", '"//shop', 'write "https://shop.example/h"'),
    ("callbackUrl", "://localhost:3000/h", '"://localhost', 'write "http://localhost:3000/h"'),
    ("callbackUrl", "http://https://shop.example", '"http://https', 'write "https://shop.example"'),
    ("callbackUrl", "http:", '"http:"', "the host is missing"),
    *(
        ("callbackUrl", text, f'"{text}"', f'the host is missing: write for example "{meant}"')
        for text, meant in (
            ("http:3000/x", "http://localhost:3000/x"),
            ("http:/3000/x", "http://localhost:3000/x"),
            ("http::3000/x", "http://localhost:3000/x"),
            ("http://:3000/x", "http://localhost:3000/x"),
            ("https:8443?paid=1", "https://localhost:8443?paid=1"),
            (":3000/x", "http://localhost:3000/x"),
            ("3000/x", "http://localhost:3000/x"),
            ("//3000", "http://localhost:3000"),
        )
    ),
    ("callbackUrl", "http:/shop.test/x", '"http:/shop.test/x"', 'write "http://shop.test/x"'),
    ("callbackUrl", "http.//shop.localhost", '"http.//shop', 'write "http://shop.localhost"'),
    ("callbackUrl", "http:99999/x", '"http:99999/x"', "the host is missing"),
    ("callbackUrl", "http:0/x", '"http:0/x"', "the host is missing"),
    ("callbackUrl", "/paid", '"/paid"', "the host is missing"),
    ("callbackUrl", " http://a.localhost/", '" http', "leave out the leading space"),
    ("callbackUrl", "http://a.localhost/ ", '/ "', "leave out the trailing space"),
    ("callbackUrl", " http//a.localhost ", '" http', "leave out the leading and the trailing space"),
    ("callbackUrl", "\thttp://a.localhost/", "a.localhost", "leave out the leading white space"),
    ("callbackUrl", "ftp://shop.example", '"ftp://shop.example"', 'the scheme is "ftp", and only http and https'),
    ("callbackUrl", "https://me:secret@shop.example/", '"https://***@shop.example/"', "leave out the user name"),
    ("callbackUrl", "https://shop.example:0/", '"https://shop.example:0/"', "the port must be from 1 to 65535"),
    ("callbackUrl", "https://shop.example:99999/", "99999", "the port must be from 1 to 65535"),
    ("callbackUrl", "https://shop.example/#paid", "#paid", "leave out the fragment"),
    ("callbackUrl", "https://shop.example/a b", "a b", "percent-encode spaces"),
    ("callbackUrl", "https://", '"https://"', "the host is missing"),
    ("callbackUrl", "http://b\u00fccher.example/h", "cher.example", '(IDNA), "xn--bcher-kva.example"'),
    ("callbackUrl", "http://b%C3%BCcher.example/h", "b%C3%BCcher", '(IDNA), "xn--bcher-kva.example"'),
    ("callbackUrl", "http://stra\u00dfe.example/h", "e.example", "(IDNA), whose parts begin with xn--"),
    ("callbackUrl", "http://b%C3%BCcher.example/\u00e4", "b%C3%BCcher", '"xn--bcher-kva.example"'),
    ("callbackUrl", "http://shop%2Eexample/h", "shop%2Eexample", 'write "shop.example"'),
    ("callbackUrl", "http://my shop.example/h", "my shop", 'the host "my shop.example" is not a name'),
    ("callbackUrl", "http://shop..example/h", "shop..example", "single dots"),
    ("callbackUrl", "http://-shop.example/h", "-shop", "is not a name"),
    ("callbackUrl", "http://[::1/x", "[::1/x", "the bracket of the IPv6 address is not closed: add ]"),
    ("callbackUrl", "http://[::g]/x", "[::g]", '"::g" is not an IPv6 address'),
    ("callbackUrl", "http://[fe80::1%25eth0]/x", "fe80::1%25eth0", "leave out the zone"),
    ("callbackUrl", "http://[::1]x/", "[::1]x", "only a port may follow the bracket"),
    ("callbackUrl", "http://[::1]:0/", "[::1]:0", "the port must be from 1 to 65535"),
    ("callbackUrl", "http://::1/x", "::1", 'in brackets, "[::1]"'),
    (
        "callbackUrl",
        "http://::1:3000/p",
        "::1:3000",
        'in brackets, "[::1]:3000" if 3000 is the port, or "[::1:3000]" if there is no port',
    ),
    ("callbackUrl", "http://::1:30000/p", "::1:30000", 'in brackets, "[::1]:30000"'),
    ("callbackUrl", "http://1:2:3:4:5:6:7:8:80/", ":8:80", 'in brackets, "[1:2:3:4:5:6:7:8]:80"'),
    *(
        ("callbackUrl", text, f'"{text}"', f'the scheme is "{text.partition(":")[0]}", and only http and https')
        for text in ("javascript:1", "javascript:alert(1)", "mailto:a@b.example", "data:text/plain,x", "file:/tmp/x")
    ),
    ("callbackUrl", "data:3000/p", '"data:3000/p"', 'write "https://data:3000/p"'),
    ("callbackUrl", "http://shop.example:/x", "shop.example:", "or left out with its colon"),
    ("callbackUrl", "http://:80/x", ":80", "the host is missing"),
    ("callbackUrl", "http://shop.example/\u00e4", "shop.example", "percent-encode spaces and all characters outside"),
    ("callbackUrl", "http://shop.example/{id}", "{id}", 'percent-encode "{"'),
    ("callbackUrl", "http://shop.example/a%", "a%", "write %25 for a percent sign"),
    ("callbackUrl", "https://shop.example/" + "x" * 2_048, "a text of 2069 characters", "make it shorter"),
    ("description", "x" * 640, "a text of 640 characters", "at most 639"),
    ("description", 7, "the number 7", 'write it as a text, "7"'),
    ("internalId", "x" * 256, "a text of 256 characters", "at most 255"),
    ("internalId", 1041, "the number 1041", 'write it as a text, "1041"'),
    ("expiresIn", "600", '"600"', "write the number 600"),
    ("expiresIn", "10m", '"10m"', "write the number 600"),
    ("expiresIn", 3600000, "the number 3600000", "if these are milliseconds, write the number 3600"),
    ("expiresIn", 2592001, "the number 2592001", "from 1 to 2592000"),
    ("expiresIn", 1893456000, "the number 1893456000", "a duration, not a point in time"),
    ("expiresIn", -1, "the number -1", "from 1 to 2592000"),
    ("expiresIn", 600.5, "the number 600.5", "whole seconds"),
]


@pytest.mark.parametrize("overlays", [(), ("strict",), ("lenient",)])
def test_a_password_in_a_url_is_in_no_text(overlays: tuple[str, ...]) -> None:
    sandbox = Sandbox(seed=7, overlays=overlays)
    static = sandbox.static_charges.create(**TIPS)
    for url in (
        "http://me:hunter2@shop.example/",
        "ftp://me:hunter2@shop.example",
        "http://me:hunter2@shop.example/a b",
    ):
        for method, path, body in (
            ("POST", "/v0/charges", GOOD), ("POST", "/v0/static-charges", TIPS),
            ("PATCH", f"/v0/static-charges/{static.id}", {}),
        ):  # fmt: skip
            status, document = problem(sandbox, method, path, {**body, "callbackUrl": url})
            assert status == 400
            assert "hunter2" not in json.dumps(document)


@pytest.mark.parametrize(("field", "value", "received", "mend"), FIELDS)
def test_a_wrong_field_of_a_charge(sandbox: Sandbox, field: str, value: Any, received: str, mend: str) -> None:
    status, document = problem(sandbox, "POST", "/v0/charges", charge(**{field: value}))
    ((pointer, detail),) = (tuple(error.values()) for error in document["errors"])
    assert (status, pointer) == (400, f"/{field}")
    assert f"; received {received}" in detail or received in detail.partition("; received ")[2]
    assert mend in detail
    assert document["detail"] == f"/{field}: {detail}"
    assert "secret" not in detail


_HOSTS = ["shop.example", "b\u00fccher.example", "b%C3%BC", "[::1]", "[::1", "::1", "[::g]", "a b", "a..b", "%41", "x_"]
_PIECES = st.tuples(
    st.sampled_from(["http://", "HTTPS://", "https:/", "ftp://", ""]),
    st.sampled_from(["", "me:pw@"]),
    st.one_of(st.sampled_from(_HOSTS), st.text(max_size=6)),
    st.sampled_from(["", ":", ":0", ":80", ":99999", ":x", "x"]),
    st.one_of(st.sampled_from(["", "/", "/a b", "/%zz", "/{id}", "/a?b=c|d", "/\u00e4", "?x#y"]), st.text(max_size=6)),
)


@given(_PIECES.map("".join))
def test_every_url_that_is_refused_has_a_correction(url: str) -> None:
    schema = packaged_contract("charges").document["components"]["schemas"]["CallbackUrl"]
    fits = re.compile(schema["pattern"]).fullmatch
    if fits(url) is None:
        hint = correction(url, schema, lambda text: fits(text) is not None)
        assert hint
        host = re.search(r'\(IDNA\), "([^"]*)"|brackets, "([^"]*)"|no percent-encoding: write "([^"]*)"', hint)
        if host is not None:
            assert fits(f"http://{next(filter(None, host.groups()))}/"), hint


@given(st.ip_addresses(v=6), st.integers(1, 65_535), st.booleans())
def test_an_ipv6_address_without_brackets_gets_every_meaning(address: IPv6Address, port: int, has_port: bool) -> None:
    schema = packaged_contract("charges").document["components"]["schemas"]["CallbackUrl"]
    fits = re.compile(schema["pattern"]).fullmatch
    authority = f"{address}:{port}" if has_port else str(address)
    hint = correction(f"http://{authority}/p", schema, lambda text: fits(text) is not None)
    forms = re.findall(r'"(\[[^"]*)"', hint)
    assert (f"[{address}]:{port}" if has_port else f"[{address}]") in forms, hint
    assert all(fits(f"http://{form}/p") for form in forms)
    assert (" if there is no port" in hint) == (len(forms) == 2)


# Everything else: method, path, headers, body -> status, parts of the text

KEY: Headers = {"apikey": "leyden"}
TYPED: Headers = {"apikey": "leyden", "content-type": JSON}
ADVANCE = "/sandbox/v1/clock/advance"
SCRIPT = "/sandbox/v1/inboxes/shop/script"
SLIPS: list[tuple[str, str, Headers, Any, int, list[str]]] = [
    # Bodies
    (
        "POST",
        "/v0/static-charges",
        TYPED,
        {"minAmount": "1000", "maxAmount": "2000", "description": "x", "identifier": "a+b@x.y"},
        400,
        ["1 to 64 of a-z, 0-9, '.', '_' and '-' before the @", 'received "a+b@x.y"'],
    ),
    ("POST", "/v0/charges", TYPED, b"", 400, ["the body is empty: send a JSON object"]),
    ("POST", "/v0/charges", TYPED, b"\xef\xbb\xbf{}", 400, ["begins with a byte order mark", "without these bytes"]),
    ("POST", "/v0/charges", TYPED, "{}".encode("utf-16"), 400, ["mark of UTF-16 or UTF-32: encode it as UTF-8"]),
    ("POST", "/v0/charges", TYPED, "{}".encode("utf-16-le"), 400, ["null byte at its start", "encode it as UTF-8"]),
    ("POST", "/v0/charges", TYPED, "{}".encode("utf-32-be"), 400, ["null byte at its start", "encode it as UTF-8"]),
    ("POST", "/v0/charges", TYPED, b'{"amount": 1e400, "description": "x"}', 400, ["a number that is out of range"]),
    ("POST", "/v0/charges", TYPED, [GOOD], 400, ["received an array", "send one object"]),
    ("POST", "/v0/charges", TYPED, json.dumps(GOOD), 400, ["send the object itself, not its text"]),
    ("POST", "/v0/charges", TYPED, b"{'amount': '1000'}", 400, ["\"{'amount'", "in double quotes"]),
    ("POST", "/v0/charges", TYPED, b'{amount: "1000"}', 400, ["write names in double quotes"]),
    ("POST", "/v0/charges", TYPED, b'{"amount": "1000",}', 400, ["leave out the comma before the bracket"]),
    ("POST", "/v0/charges", TYPED, b'{"amount": None}', 400, ["write true, false or null"]),
    ("POST", "/v0/charges", TYPED, b'{"amount": "1000"', 400, ["the body ends too early"]),
    ("POST", "/v0/charges", TYPED, b"amount=1000&description=tea", 400, ["a JSON object and not a form"]),
    ("POST", "/v0/charges", TYPED, b'{"amount":"1000","amount":"2000"}', 400, ['"amount" twice', "once"]),
    ("POST", "/v0/charges", TYPED, {**GOOD, "expiresIn": 600.0}, 409, ["write 600 without a decimal point"]),
    (
        "POST",
        "/v0/charges",
        TYPED,
        {"Amount": "1000", "description": "x"},
        400,
        ["received Amount: did you mean amount?"],
    ),
    ("POST", "/v0/charges", TYPED, {"amount": "1000", "desc": "x"}, 400, ["received desc: did you mean description?"]),
    ("POST", "/v0/charges", TYPED, {"amount": "1000"}, 400, ["description is missing; send a text"]),
    ("POST", ADVANCE, TYPED, {"by": "1s", "bye": 1}, 400, ["/bye: bye is not a field of this object: leave it out"]),
    (
        "POST",
        ADVANCE,
        TYPED,
        {"by": 1, "until": "idle", "x": 1},
        400,
        ["expected exactly one of by, to and until (and"],
    ),
    ("POST", "/v0/static-charges", TYPED, {**TIPS, "allowedSlots": "3"}, 400, ['received "3": write the number 3']),
    ("POST", "/v0/static-charges", TYPED, {**TIPS, "identifier": "Band@a.b"}, 400, ['write "band@a.b"']),
    ("POST", "/v0/static-charges", TYPED, {**TIPS, "minAmount": "9001"}, 409, ["minAmount (9001) is above maxAmount"]),
    # Keys
    ("POST", "/v0/charges", {"content-type": JSON}, GOOD, 401, ["the header apikey is missing"]),
    ("GET", "/v0/charges", {"apikey": ""}, None, 401, ["the header apikey is empty"]),
    ("GET", "/v0/charges", {"apikey": "sk_live_1234567890"}, None, 401, ["(sk..., 18 characters) is unknown"]),
    (
        "GET",
        "/v0/charges",
        {"authorization": "Bearer leyden"},
        None,
        401,
        ["Authorization", "leave out the word Bearer"],
    ),
    ("GET", "/v0/charges", {"authorization": "leyden"}, None, 401, ["send the key as apikey: YOUR_KEY"]),
    (
        "GET",
        "/v0/charges",
        {"x-api-key": "leyden"},
        None,
        401,
        ["received the header x-api-key: its name must be apikey"],
    ),
    ("GET", "/v0/charges", {"api_key": "leyden"}, None, 401, ["received the header api_key"]),
    ("GET", "/v0/charges", {"apikey": f"whsec_{'A' * 32}"}, None, 401, ["is a webhook secret", "send the API key"]),
    ("GET", "/v0/charges", {"apikey": "Bearer leyden"}, None, 401, ["leave out the word Bearer before the key"]),
    ("GET", "/v0/charges", {"apikey": '"leyden"'}, None, 401, ["leave out the quotation marks"]),
    ("GET", "/v0/charges", {"apikey": "leyden, leyden"}, None, 401, ["the header apikey is sent twice"]),
    ("GET", "/v0/charges?apikey=leyden", {}, None, 401, ["received a key in the query"]),
    # Media types
    ("POST", "/v0/charges", KEY, GOOD, 415, ["Content-Type: application/json; received no Content-Type"]),
    ("POST", "/v0/charges", {**KEY, "content-type": "text/plain"}, GOOD, 415, ['received "text/plain"']),
    ("GET", "/v0/wallet", {**KEY, "accept": "text/html"}, None, 406, ["accept that", 'received "text/html"']),
    # Methods and paths
    ("PUT", "/v0/charges", TYPED, GOOD, 405, ["no method PUT: use GET, HEAD, OPTIONS, POST"]),
    ("GET", "/v0/charges/", KEY, None, 404, ['"/v0/charges/": did you mean /v0/charges?']),
    ("GET", "/charges", KEY, None, 404, ["did you mean /v0/charges?"]),
    ("GET", "/v1/charges", KEY, None, 404, ["did you mean /v0/charges?"]),
    ("GET", "/sandbox/v0/deliveries", KEY, None, 404, ["did you mean /sandbox/v1/deliveries?"]),
    ("POST", "/sandbox/v1/faults", TYPED, {"kind": "connection_reset"}, 400, ["/sandbox/v1/service-faults"]),
    ("POST", "/sandbox/v1/service-faults", TYPED, {"kind": "drop"}, 400, ["/sandbox/v1/faults"]),
    ("GET", "/v0/charge/17", KEY, None, 404, ["did you mean /v0/charges/17?"]),
    ("GET", "/api/v0/charges", KEY, None, 404, ["did you mean /v0/charges?"]),
    ("GET", "/v0/staticCharges", KEY, None, 404, ["did you mean /v0/static-charges?"]),
    ("GET", "/v0/balances", KEY, None, 404, ['"/v0/balances": the paths are listed at /docs']),
    ("GET", "/sandbox/v1/clok", KEY, None, 404, ["did you mean /sandbox/v1/clock?"]),
    ("GET", "/sandbox/v1/zebra", KEY, None, 404, ['"/sandbox/v1/zebra": the paths are listed at /sandbox/v1/docs']),
    ("GET", "/sandboxed", KEY, None, 404, ['"/sandboxed": the paths are listed at /docs']),
    ("POST", "/sandbox/v1/sandboxes", TYPED, {}, 404, ["send it to the URL that Sandbox.serve() returns"]),
    ("GET", "/sandbox/v1/sandboxes/box-1/export", KEY, None, 404, ["send it to the URL that Sandbox.serve() returns"]),
    ("GET", "/sandbox/v1/server/openapi.json", KEY, None, 404, ["send it to the URL that Sandbox.serve() returns"]),
    ("GET", "/readyz", KEY, None, 404, ["send it to the URL that Sandbox.serve() returns"]),
    ("POST", "/sandbox/v1/pay", TYPED, {"request": "x"}, 404, ["did you mean /sandbox/v1/payments?"]),
    ("GET", "/sandbox/clock", KEY, None, 404, ["did you mean /sandbox/v1/clock?"]),
    ("GET", "/%1b%5b31m%0a", KEY, None, 404, [r'"/\u001b[31m\n"']),
    ("GET", "/v0/charges/17", KEY, None, 404, ["no resource with this id: check the key, and the id"]),
    # Names of other interfaces, and objects among alternatives
    ("POST", "/sandbox/v1/payments", TYPED, {"invoice": "x"}, 400, ["/invoice: ", "object: did you mean request?"]),
    ("POST", "/sandbox/v1/clock/advance", TYPED, {"seconds": 5}, 400, ["/seconds: ", "did you mean by?"]),
    ("POST", "/sandbox/v1/payers", TYPED, {"after": "2s"}, 400, ["/after: ", "did you mean delay?"]),
    ("PUT", SCRIPT, TYPED, {"answers": [{"statuss": 200}]}, 400, ["/answers/0/statuss: ", "did you mean status?"]),
    ("PUT", SCRIPT, TYPED, {"answers": [{"delay": "+14.9s"}]}, 400, ["/answers/0/delay: ", "write the number 14.9"]),
    ("PUT", SCRIPT, TYPED, {"always": {"status": 700}}, 400, ["/always/status: expected a status", "the number 700"]),
    ("PUT", SCRIPT, TYPED, {"rules": [{"say": {"bdy": ""}}]}, 400, ["/rules/0/say/bdy: ", "did you mean body?"]),
    ("PUT", SCRIPT, TYPED, {"answers": ["timeot"]}, 400, ["/answers/0: expected a status", 'received "timeot"']),
    # Queries
    (
        "GET",
        "/v0/charges?limit=abc",
        KEY,
        None,
        400,
        ['query.limit: expected a whole number from 1 to 1000; received "abc"'],
    ),
    ("GET", "/v0/charges?after=page2", KEY, None, 400, ["the next of an earlier page", 'received "page2"']),
    ("GET", "/v0/charges?status=complete", KEY, None, 400, ['received "complete": did you mean "completed"?']),
    ("GET", "/v0/charges?staus=completed", KEY, None, 400, ["staus is not a parameter", "did you mean status?"]),
    ("GET", "/v0/charges?createdAfter=2030-01-01", KEY, None, 400, ['write "2030-01-01T00:00:00Z"']),
    ("GET", "/v0/charges?createdAfter=2030-01-01T09:00:00+02:00", KEY, None, 400, ["with %2B for the plus sign"]),
    # The control plane
    ("POST", "/sandbox/v1/payments", TYPED, {"request": "x", "outcom": "hold"}, 400, ["did you mean outcome?"]),
    ("POST", "/sandbox/v1/payments", TYPED, {"request": "x", "outcome": "setle"}, 400, ['did you mean "settle"?']),
]


@pytest.mark.parametrize(("method", "target", "headers", "body", "status", "parts"), SLIPS)
def test_a_typical_slip(
    sandbox: Sandbox, method: str, target: str, headers: Headers, body: Any, status: int, parts: list[str]
) -> None:
    observed, document = problem(sandbox, method, target, body, headers)
    assert observed == status
    assert [part for part in parts if part not in document["detail"]] == [], document["detail"]


WRONG = ["", " ", 5, 250, 2.0, "5", " 5", "250", "10m", "Yes", "true", "https", "shop.example", "2040-01-01", "LNURL",
         "'x'", "COMPLETED", "complete", "charge.paid", " lnbc1 ", "localhost:3000", "2040-01-01 10:00"]  # fmt: skip
MEANT = re.compile(r'(?:write(?: it as a text,)?|did you mean) (?:the number ([0-9.]+)|("(?:[^"\\]|\\.)*"))')
ONLY_SERVED = {("setClock", "rate")}  # the clock of a sandbox in Python has no rate


def example_body(document: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """The first example of an operation's body."""

    def resolved(value: Any) -> Any:
        while "$ref" in value:
            steps = value["$ref"].removeprefix("#/").split("/")
            value = reduce(lambda node, step: node[step], steps, document)
        return value

    body = resolved(document["paths"][operation.path][operation.method]["requestBody"])
    examples = body["content"][JSON].get("examples", {}).values()
    return next((resolved(one)["value"] for one in examples), {})


@pytest.mark.parametrize("document", ["charges", "sandbox"])
def test_a_value_that_an_error_proposes_is_accepted(document: str) -> None:
    """Every field and every query parameter gets every slip, and then what the error says was meant."""
    contract = packaged_contract(document)
    proposed, refused = 0, []

    def answer(sandbox: Sandbox, operation: Operation, name: str, value: Any) -> tuple[int, Any]:
        path = operation.path.replace("{id}", UNKNOWN).replace("{name}", "shop")
        headers, body = {"apikey": sandbox.api_key}, b""
        if operation.body is None:
            path += f"?{urlencode({name: value})}"
        else:
            headers["content-type"] = JSON
            link = {"request": "tips@shop.example"} if name == "comment" else {}  # an invoice takes no comment
            body = json.dumps({**example_body(contract.document, operation), **link, name: value}).encode()
        answered = sandbox.request(operation.method.upper(), path, body, headers)
        return answered.status, json.loads(answered.body) if answered.status >= 400 or operation.body else {}

    for operation in contract.operations.values():
        sandbox = Sandbox(seed=7)  # the operation before may have moved the clock
        queried = [one.name for one in operation.parameters if one.location == "query"]
        names = queried if operation.body is None else operation.body.properties
        for name, wrong in product(
            names if operation.errors_as == "problem" else (), WRONG[:: deep_or(bounded=2, full=1)]
        ):
            status, refusal = answer(sandbox, operation, name, wrong)
            pointer = f"query.{name}" if operation.body is None else f"/{name}"
            for error in refusal["errors"] if status == 400 else ():
                meant = MEANT.search(error["detail"].partition("; received ")[2])
                if error["pointer"] != pointer or meant is None or (operation.operation_id, name) in ONLY_SERVED:
                    continue
                proposed += 1
                status, again = answer(sandbox, operation, name, json.loads(meant[1] or meant[2]))
                if (
                    any(one["pointer"] == pointer for one in again["errors"])
                    if status >= 400
                    else (name == "request" and again["status"] == "failed")
                ):
                    refused.append((operation.operation_id, name, wrong, error["detail"], again))
    assert refused == []
    assert proposed > 50


@pytest.mark.parametrize(
    ("event", "mend"),
    [
        ("charge.paid", "choose one of charge.completed, charge.error, charge.expired"),
        ("charge.settled", "choose one of charge.completed, charge.error, charge.expired"),
        ("charge", "choose one of charge.completed, charge.error, charge.expired"),
        ("charge.complete", "did you mean charge.completed?"),
        ("charge_expired", "did you mean charge.expired?"),
        ("completed", "did you mean charge.completed?"),
    ],
)
def test_an_event_is_proposed_only_if_its_own_part_is_similar(sandbox: Sandbox, event: str, mend: str) -> None:
    texts = [
        problem(sandbox, "POST", "/sandbox/v1/deliveries/wait", {"event": event})[1]["detail"],
        problem(sandbox, "GET", f"/sandbox/v1/deliveries?event={event}")[1]["detail"],
    ]
    assert texts == [f"no callback has the event '{event}': {mend}"] * 2


def test_the_words_that_all_known_names_begin_with_are_not_compared() -> None:
    known = ["charge.completed", "charge.expired", "charge.error"]
    assert closest("charge.paid", known) is None
    assert closest("charge.", known) is None
    assert closest("charge.errro", known) == "charge.error"
    assert closest("expire", known) == "charge.expired"
    assert closest("callback_url", ["callbackUrl"]) == "callbackUrl"
    assert closest("internal_di", ["internal_id"]) == "internal_id"


def test_of_many_names_those_with_the_most_common_letters_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def ratio(matcher: SequenceMatcher[str]) -> float:
        compared.append(1)
        return exact(matcher)

    exact = SequenceMatcher.ratio
    monkeypatch.setattr(SequenceMatcher, "ratio", ratio)
    alike = ["a" * 55 + str(number) for number in range(1_000)]
    assert closest("a" * 60, alike) in alike
    assert len(compared) < 200
    names = [*(f"node{number}" for number in range(1_000)), "operation", "opera"]
    assert closest("oparetion", names) == "operation"
    assert closest("oper", names) == "opera"
    assert closest_names("operatoin", names, 2) == ["operation", "opera"]
    assert closest_names("a" * 61, alike, 2) == []
    compared.clear()
    assert closest("a" * 60, ["a" * 250 + str(number) for number in range(40)]) is not None  # it begins with the word
    assert closest_names("a" * 60, ["a" * 250 + str(number) for number in range(1_000)], 3) == []
    assert not compared
    assert closest("nod77", names) in {name for name in names if name.startswith("node77")} | {"node7"}


def test_an_id_of_the_other_resource_gets_its_path(sandbox: Sandbox) -> None:
    charge_id, static_id = sandbox.charges.create(**GOOD).id, sandbox.static_charges.create(**TIPS).id
    detail = problem(sandbox, "GET", f"/v0/charges/{static_id}")[1]["detail"]
    assert detail == f"{static_id} is the id of a Static Charge: its path is /v0/static-charges/{static_id}"
    for method, body in (("GET", None), ("PATCH", {})):
        detail = problem(sandbox, method, f"/v0/static-charges/{charge_id}", body)[1]["detail"]
        assert detail == f"{charge_id} is the id of a Charge: its path is /v0/charges/{charge_id}"


def test_an_unknown_a_malformed_and_a_foreign_id_get_the_same_text(sandbox: Sandbox) -> None:
    projects = sandbox.world.service.projects
    with sandbox.world.exclusive():
        projects.add("other", "key_of_another_project")
    foreign = {"apikey": "key_of_another_project", "content-type": JSON}
    ids = [UNKNOWN, "17", sandbox.charges.create(**GOOD).id, sandbox.static_charges.create(**TIPS).id]
    texts = {
        problem(sandbox, "GET", f"/v0/{kind}/{one}", None, foreign)[1]["detail"]
        for kind in ("charges", "static-charges")
        for one in ids
    }
    assert len(texts) == 1, texts


def test_a_replaced_key_is_called_replaced(sandbox: Sandbox) -> None:
    old = sandbox.api_key
    sandbox.ask("POST", "/sandbox/v1/api-keys/rotate", {"replaces": old})
    status, document = problem(sandbox, "GET", "/v0/charges", None, {"apikey": old})
    assert status == 401
    assert "was replaced: send the new one" in document["detail"]


@pytest.mark.parametrize("secret", ["hush", "hush-hush", "key_0123456789abcdef0123456789abcdef"])
def test_a_refusal_never_has_a_whole_key(sandbox: Sandbox, secret: str) -> None:
    texts = [
        problem(sandbox, "GET", f"/v0/charges?key={secret}", None, headers)[1]["detail"]
        for headers in (
            {},
            {"apikey": secret},
            {"apikey": f"Bearer {secret}"},
            {"apikey": f'"{secret}"'},
            {"authorization": f"Bearer {secret}"},
            {"authorization": secret},
            {"x-api-key": secret},
        )
    ]
    assert [text for text in texts if secret in text] == []


def test_a_reused_idempotency_key_says_what_to_do(sandbox: Sandbox) -> None:
    headers = {**TYPED, "idempotency-key": "order-1"}
    sandbox.request("POST", "/v0/charges", json.dumps(GOOD).encode(), headers)
    status, document = problem(sandbox, "POST", "/v0/charges", charge(amount="2000"), headers)
    assert (status, document["code"]) == (409, "idempotency_key_reused")
    assert "use a new key for a new request" in document["detail"]


def test_a_wallet_learns_what_it_sent(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(**TIPS)
    answer = json.loads(sandbox.request("GET", f"/lnurlp/{static.id}/invoice?amount=1,000", None).body)
    assert answer["status"] == "ERROR"
    assert answer["reason"].endswith('write digits only, without a leading zero; received "1,000"')


def test_the_same_request_gets_the_same_text(sandbox: Sandbox) -> None:
    body = charge(amount="250", callbackUrl="shop.example", expiresIn="10m", internalId=7)
    first, again = (problem(sandbox, "POST", "/v0/charges", body)[1] for _ in range(2))
    assert {**first, "request_id": ""} == {**again, "request_id": ""}
    assert first["detail"].endswith("(and 3 more)")
