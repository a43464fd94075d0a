"""The location of a refusal exists in the document: none leads through a `$ref`."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.server.contract.json_pointer import as_written, split_pointer
from leyden.server.errors import ContractError
from tests.server.contract.test_widened_spec import DOCUMENT, edited, opened

NAME = "charges.openapi.yaml"
RESPONSES = ("components", "responses")
LINK = ("components", "links", "GetStaticChargeDetails", "parameters")
HEADER = {"description": "A header.", "schema": {"type": "string"}}
NEW = DOCUMENT["components"]["schemas"]["ChargeRequest"]

EDITS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a name twice in a schema": (
        edited("components", "schemas", "ChargeInvoice", "required", put=["uri", "uri"]),
        "/components/schemas/ChargeInvoice/required",
        "list each one once; charges.openapi.yaml#/components/schemas/Charge/properties/invoice refers to it",
    ),
    "a header of a response": (
        edited(*RESPONSES, "Unauthorized", "headers", "X-Shop", put=HEADER),
        "/components/responses/Unauthorized/headers/X-Shop",
        "or leave it out; #/paths/~1v0~1charges/post/responses/401 refers to it",
    ),
    "the response of another status": (
        edited("paths", "/v0/wallet", "get", "responses", "406", put={"$ref": "#/components/responses/Unauthorized"}),
        "/components/responses/Unauthorized/headers/WWW-Authenticate",
        "or leave it out; #/paths/~1v0~1wallet/get/responses/406 refers to it",
    ),
    "a response without media types": (
        edited(*RESPONSES, "NotFound", "content", put={}),
        "/components/responses/NotFound/content",
        "/get/responses/404 refers to it",
    ),
    "a parameter of a link": (
        edited(*LINK, "id", put="$response.body#/data/i"),
        "/components/links/GetStaticChargeDetails/parameters/id",
        "responses/200/links/getStaticChargeDetails refers to it",
    ),
    "a schema in the body of a request": (
        edited("paths", "/v0/charges", "post", "requestBody", "content", "application/json", "schema",
               put={**NEW, "required": ["amount", "amount"]}),
        "/paths/~1v0~1charges/post/requestBody/content/application~1json/schema/required",
        "list each one once",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_the_place_of_a_refusal_is_written_there(name: str) -> None:
    document, pointer, end = EDITS[name]
    with pytest.raises(ContractError) as refusal:
        opened(document).close()
    text = str(refusal.value)
    assert text.removeprefix(NAME).startswith(f"#{pointer}: ")
    assert text.endswith(end)
    node: Any = document
    for token in split_pointer(pointer):
        node = node[token]


def test_a_reference_beside_other_keywords_is_the_first_part_of_what_is_written_out() -> None:
    document = {"a": {"$ref": "#/b", "maxLength": 3}, "b": {"pattern": "x", "properties": {"c": {"$ref": "#/a"}}}}
    assert as_written("x.yaml#/a/maxLength: no", document) == "x.yaml#/a/maxLength: no"
    assert as_written("x.yaml#/a/pattern: no", document) == "x.yaml#/b/pattern: no; x.yaml#/a refers to it"
    assert as_written("x.yaml#/a/allOf/0/pattern: no", document) == "x.yaml#/b/pattern: no; x.yaml#/a refers to it"
    found = as_written("#/a/properties/c/properties/d (d): no", document)
    assert found == "#/b/properties/d (d): no; #/a refers to it"


@pytest.mark.parametrize("text", ["no place", "paths./x.get: no", "x.yaml#: no", "x.yaml#/z/9/-/~: no", "#/loop/a: no"])
def test_another_text_is_as_it_was(text: str) -> None:
    assert as_written(text, {"z": [1], "loop": {"$ref": "#/loop"}}).startswith(text)
