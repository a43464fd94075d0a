"""Boolean schemas of request fields: `true` is the schema {}, and a field of the schema `false` is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leyden import Sandbox
from tests.server.contract.test_widened_spec import TEA, TIPS, Node, edited, opened

OBJECT: Node = {"type": "object", "properties": {"colour": True, "extra": False}, "additionalProperties": False}


def sent(sandbox: Sandbox, path: str, body: Node) -> tuple[int, Any]:
    headers = {"apikey": sandbox.world.config.api_key, "content-type": "application/json"}
    answer = sandbox.request("POST", path, json.dumps(body).encode(), headers)
    return answer.status, json.loads(answer.body)


def with_fields(**fields: Any) -> Node:
    document = edited("info", "title", put="A shop")
    for name in ("ChargeRequest", "Charge", "StaticChargeRequest", "StaticChargeChanges", "StaticCharge"):
        document["components"]["schemas"][name]["properties"].update(fields)
    return document


@pytest.mark.parametrize("schema", [True, {}])
@pytest.mark.parametrize(("path", "body"), [("/v0/charges", TEA), ("/v0/static-charges", TIPS)])
def test_a_field_of_any_value_is_echoed_and_may_be_misspelt(schema: Any, path: str, body: Node) -> None:
    with opened(with_fields(extra=schema)) as sandbox:
        assert sent(sandbox, path, body | {"extra": [1, None]})[1]["data"]["extra"] == [1, None]
        answer = sandbox.request(
            "POST",
            path,
            json.dumps(body | {"extraa": 1}).encode(),
            {"apikey": "leyden", "content-type": "application/json"},
        )
        assert answer.status == 200
        assert b'did-you-mean="extra"' in dict(answer.headers)[b"leyden-ignored"]
        for page in ("openapi.json", "merged.json", "docs"):
            assert sandbox.request("GET", f"/sandbox/v1/{page}").status == 200


def test_a_field_of_no_value_is_refused_and_not_proposed() -> None:
    document = with_fields(extra=False)
    document["components"]["schemas"]["ChargeRequest"]["additionalProperties"] = False
    with opened(document) as sandbox:
        assert sent(sandbox, "/v0/charges", TEA | {"extra": 1})[0] == 400
        status, problem = sent(sandbox, "/v0/charges", TEA | {"extraa": 1})
        assert (status, "did you mean" in problem["detail"]) == (400, False)


def test_the_fields_of_an_object_may_have_boolean_schemas() -> None:
    with opened(with_fields(more={"anyOf": [OBJECT, {"type": "null"}]})) as sandbox:
        assert sent(sandbox, "/v0/charges", TEA | {"more": {"colour": 3}})[0] == 200
        status, problem = sent(sandbox, "/v0/charges", TEA | {"more": {"color": 3}})
        assert (status, problem["errors"]) == (
            400, [{"pointer": "/more/color", "detail": "color is not a field of this object: did you mean colour?"}]
        )  # fmt: skip
