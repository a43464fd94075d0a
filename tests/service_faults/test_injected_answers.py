"""The answers of the faults `error` and `key_in_use`, for every operation, status and body, against the document."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from leyden import Sandbox
from leyden.service_faults.kinds import BODIES, STATUSES

Json = dict[str, Any]
METHODS = ("get", "post", "patch", "put", "delete")
IDS = {"{id}": "5b3c1a52-6b7e-4f5a-9d2e-000000000000", "{user}": "ana", "{paymentHash}": "0" * 64}


@cache
def document() -> Json:
    """The document of the charge service, as it is served."""
    with Sandbox(seed=1) as sandbox:
        found: Json = sandbox.http.get("/openapi.json").json()
    return found


def resolved(node: Json) -> Json:
    while "$ref" in node:
        at: Any = document()
        for step in node["$ref"].removeprefix("#/").split("/"):
            at = at[step.replace("~1", "/").replace("~0", "~")]
        node = at
    return node


def check(schema: Json, value: object) -> None:
    """Raises when the value does not match a schema of the document."""
    Draft202012Validator({**schema, "components": document()["components"]}).validate(value)


def operations() -> list[tuple[str, str, Json]]:
    """The method, the path and the responses of each operation of the charge service."""
    return [
        (method.upper(), path, item[method]["responses"])
        for path, item in document()["paths"].items()
        if not path.startswith("/sandbox/")
        for method in METHODS
        if method in item
    ]


def required_headers(status: int) -> dict[str, Json]:
    """The headers that the document requires of a response with this status to any operation, by their schemas."""
    found = {}
    for _, _, responses in operations():
        for name, reference in resolved(responses.get(str(status), {})).get("headers", {}).items():
            if resolved(reference).get("required"):
                found[name.lower()] = resolved(reference)["schema"]
    return found


def injected(sandbox: Sandbox, method: str, path: str) -> httpx2.Response:
    for name, value in IDS.items():
        path = path.replace(name, value)
    return sandbox.http.request(method, path, json={} if method in ("POST", "PATCH") else None)


def test_the_document_requires_headers_of_some_of_the_statuses() -> None:
    assert {status: set(required_headers(status)) for status in STATUSES if required_headers(status)} == {
        401: {"www-authenticate"}, 429: {"retry-after"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "responses"), operations(), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_injected_answer_is_what_the_document_says(method: str, path: str, responses: Json) -> None:
    any_origin = "Access-Control-Allow-Origin" in resolved(responses["200"]).get("headers", {})
    with Sandbox(seed=7) as sandbox:
        challenge = sandbox.http.get("/v0/wallet", headers={"apikey": "wrong"}).headers["www-authenticate"]
        for status, body, after_commit in product(STATUSES, BODIES, (False, True)):
            sandbox.service_faults.add("error", status=status, body=body, after_commit=after_commit)
            response = injected(sandbox, method, path)
            assert response.status_code == status
            for name, schema in required_headers(status).items():
                assert name in response.headers, (status, body, after_commit)
                check(schema, response.headers[name])
            assert response.headers.get("www-authenticate") == (challenge if status == 401 else None)
            if body == "problem":
                check({"$ref": "#/components/schemas/Problem"}, response.json())
                assert response.json()["status"] == status
                declared = resolved(responses.get(str(status), {})).get("content", {})
                assert not declared or list(declared) == [response.headers["content-type"]]
                assert response.headers.get("access-control-allow-origin") == ("*" if any_origin else None)


@pytest.mark.parametrize("path", ["/v0/charges", "/v0/static-charges"])
def test_the_answer_of_a_key_in_use_is_what_the_document_says(path: str) -> None:
    body = {"description": "tea", **({"amount": "1000"} if path == "/v0/charges" else {})}
    body |= {} if path == "/v0/charges" else {"minAmount": "1000", "maxAmount": "2000"}
    with Sandbox(seed=7) as sandbox:
        sandbox.service_faults.add("key_in_use")
        first, again = (sandbox.http.post(path, json=body, headers={"Idempotency-Key": "a"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 409)
    check({"$ref": "#/components/schemas/Problem"}, again.json())
    assert set(required_headers(409)) <= set(again.headers)
