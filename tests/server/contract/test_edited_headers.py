"""Edits of the limits, the header parameters and the security scheme change what the service reads of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from leyden import Sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.errors import ContractError
from leyden.world.components import CONTROL_BODY_BYTES
from leyden.world.loopback import LoopbackResponse, send_request

Document = dict[str, Any]
TEA = orjson.dumps({"amount": "1000", "description": "tea"})
JSON = (b"content-type", b"application/json")


def edited(edit: Callable[[Document], object]) -> Sandbox:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    edit(document)
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def create(sandbox: Sandbox, *headers: tuple[bytes, bytes], body: bytes = TEA) -> LoopbackResponse:
    key = (sandbox.world.service.pipeline.api_key_header, b"leyden")
    return send_request(sandbox.app, "POST", "/v0/charges", (key, JSON, *headers), body)


@pytest.mark.parametrize("limit", [len(TEA), 100, CONTROL_BODY_BYTES - 1, CONTROL_BODY_BYTES + 1, 200_000])
def test_the_largest_body_is_that_of_the_document_to_the_byte(limit: int) -> None:
    with edited(lambda document: document["x-limits"].update(bodyBytes=limit)) as sandbox:
        assert create(sandbox, body=TEA.ljust(limit)).status == 200
        refused = create(sandbox, body=TEA.ljust(limit + 1))
        assert refused.status == 413
        assert f"larger than {limit} bytes" in orjson.loads(refused.body)["detail"]
        # The control plane has the limit of its own document.
        for size, status in ((CONTROL_BODY_BYTES, 200), (CONTROL_BODY_BYTES + 1, 413)):
            body = b'{"by":"1s"}'.ljust(size)
            headers = ((b"apikey", b"leyden"), JSON)
            assert send_request(sandbox.app, "POST", "/sandbox/v1/clock/advance", headers, body).status == status


def parameter(document: Document, name: str) -> Document:
    found: Document = document["components"]["parameters"][name]
    return found


@pytest.mark.parametrize("name", ["idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-Key"])
def test_a_header_parameter_has_its_effect_in_any_case(name: str) -> None:
    with edited(lambda document: parameter(document, "IdempotencyKey").update(name=name)) as sandbox:
        first, again = (create(sandbox, (b"idempotency-key", b"k")) for _ in range(2))
        assert (b"idempotent-replayed", b"true") in again.headers
        assert again.body == first.body
        assert len(sandbox.charges) == 1
        other = create(sandbox, (b"idempotency-key", b"k"), body=TEA.replace(b"tea", b"mint"))
        assert orjson.loads(other.body)["code"] == "idempotency_key_reused"
        assert b"leyden-ignored" not in dict(first.headers)


def test_a_link_names_a_header_parameter_in_any_case() -> None:
    def edit(document: Document) -> None:
        parameter(document, "IdempotencyKey")["name"] = "IDEMPOTENCY-key"
        responses = document["paths"]["/v0/charges"]["post"]["responses"]
        responses["200"]["links"]["createCharge"] = {
            "operationId": "createCharge",
            "parameters": {"header.idempotency-Key": "$request.header.Idempotency-KEY"},
        }

    with edited(edit) as sandbox:
        assert create(sandbox).status == 200


def test_a_conflict_of_an_idempotency_key_in_another_case_has_to_be_declared() -> None:
    def edit(document: Document) -> None:
        parameter(document, "IdempotencyKey")["name"] = "idempotency-key"
        del document["paths"]["/v0/charges"]["post"]["responses"]["409"]

    with pytest.raises(ContractError, match=r"paths\./v0/charges\.post\.responses: .* 409"):
        edited(edit)


CREATE = "/paths/~1v0~1charges/post"


@pytest.mark.parametrize(
    ("edit", "refusal"),
    [
        (
            lambda document: parameter(document, "IdempotencyKey").update(name="X-Idempotency-Key"),
            "#/components/parameters/IdempotencyKey: no code reads this header",
        ),
        (
            lambda document: parameter(document, "IdempotencyKey").update(name="Idempotency Key"),
            "#/components/parameters/IdempotencyKey/name: 'Idempotency Key' is not the name of a header",
        ),
        (
            lambda document: document["paths"]["/v0/charges"]["get"]["parameters"].append(
                {"$ref": "#/components/parameters/IdempotencyKey"}
            ),
            "#/paths/~1v0~1charges/get/parameters/6: only a request with a body is compared",
        ),
        (
            lambda document: document["paths"]["/v0/static-charges/{id}"]["patch"]["parameters"].append(
                {"$ref": "#/components/parameters/IdempotencyKey"}
            ),
            "#/paths/~1v0~1static-charges~1{id}/patch/parameters/1: a response is not kept by the path parameter 'id'",
        ),
        (
            lambda document: document["components"]["securitySchemes"]["apikey"].update(name="Shop Key"),
            "#/components/securitySchemes/apikey/name: 'Shop Key' is not the name of a header",
        ),
        (
            lambda document: document["components"]["securitySchemes"]["apikey"].update(name="Content-Type"),
            "#/components/securitySchemes/apikey/name: 'Content-Type' has another meaning",
        ),
        (
            lambda document: document["paths"]["/v0/charges"]["get"].update(security=[{"apikey": ["admin"]}]),
            "#/paths/~1v0~1charges/get/security: a key has no scopes; write {apikey: []}",
        ),
    ],
)
def test_what_no_code_reads_of_a_request_is_refused_with_its_place(
    edit: Callable[[Document], object], refusal: str
) -> None:
    with pytest.raises(ContractError) as refused:
        edited(edit)
    assert str(refused.value).startswith(f"charges.openapi.yaml{refusal}")
    assert "\n" not in str(refused.value)
