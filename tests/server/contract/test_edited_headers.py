"""Edits of the limits, the header parameters and the security scheme change what the service reads of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from leyden import Sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
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
