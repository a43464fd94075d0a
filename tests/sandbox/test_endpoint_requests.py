"""A request that is sent to its endpoint has the response, and leaves the journal, of one through the application."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.app import endpoint_at
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.world.loopback import LoopbackResponse, call_endpoint, send_request

PATH = "/v0/charges"
ORDER = {"amount": "5000", "description": "Tea", "expiresIn": 60}
KEY, JSON = (b"apikey", b"leyden"), (b"content-type", b"application/json")

fields = st.sampled_from(["amount", "description", "expiresIn", "internalId", "callbackUrl", "callback_url", "extra"])
values = st.one_of(
    st.none(),
    st.integers(-1, 700_000),
    st.text(max_size=5),
    st.sampled_from(["1000", "0", "999999999999", "http://shop.localhost/paid", "ftp://x", "x" * 640]),
)
bodies = st.one_of(
    st.dictionaries(fields, values, max_size=7).map(lambda more: orjson.dumps({**ORDER, **more})),
    st.binary(max_size=20),
)
headers = st.lists(
    st.sampled_from(
        [KEY, JSON, (b"apikey", b"another"), (b"content-type", b"text/plain"), (b"accept", b"text/html"),
         (b"idempotency-key", b"one"), (b"x-idempotency-key", b"one")]
    ),
    unique_by=lambda header: header[0],
)  # fmt: skip


def endpoint_of(sandbox: Sandbox, path: str) -> Any:
    return endpoint_at(sandbox.world.service_faults.app, path)


def shown(response: LoopbackResponse) -> tuple[int, Any, bytes]:
    return response.status, response.headers, response.body


@given(st.lists(st.tuples(st.sampled_from(["POST", "GET", "PUT", "OPTIONS", "HEAD"]), headers, bodies), max_size=4))
def test_an_endpoint_responds_as_the_application_does(requests: list[Any]) -> None:
    with Sandbox(seed=3) as direct, Sandbox(seed=3) as routed:
        endpoint = endpoint_of(direct, PATH)
        for method, given_headers, body in [("POST", [KEY, JSON], orjson.dumps(ORDER)), *requests]:
            one = call_endpoint(endpoint, method, PATH, dict(given_headers), body)
            other = send_request(routed.world.service_faults.app, method, PATH, tuple(given_headers), body)
            assert shown(one) == shown(other)
        assert direct.journal_hash == routed.journal_hash
        assert [*direct.world.service.charges.charges] == [*routed.world.service.charges.charges]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (PATH, True),
        ("/v0/wallet", True),
        ("/v0/charges/x", False),
        ("/lnurlp/x", False),
        ("/openapi.json", False),
        ("/docs", False),
        ("/", False),
        ("/nothing", False),
        ("/sandbox/v1", False),
        ("/sandbox/v1/payments", False),
    ],
)
def test_only_a_path_without_parameters_has_an_endpoint_of_its_own(sandbox: Sandbox, path: str, found: bool) -> None:
    assert (endpoint_of(sandbox, path) is not None) == found
    sandbox.ask("GET", "/sandbox/v1")  # the routes of the control plane are made now
    assert (endpoint_of(sandbox, path) is not None) == found


@pytest.mark.parametrize("limit", [20, 65_536])
def test_the_body_of_a_customer_has_the_limit_of_any_other(limit: int) -> None:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    document["x-limits"]["bodyBytes"] = limit
    with Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml")) as sandbox:
        sandbox.traffic("every(1s)", count=2, amount=5_000)
        sandbox.run()
        refused = [entry.facts["status"] for entry in sandbox.world.journal.entries(kind="customer_refused")]
        assert refused == ([413, 413] if limit == 20 else [])
        assert len(sandbox.charges) == 2 - len(refused)
