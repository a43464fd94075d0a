"""The forms by which clients tell the responses of Leyden from those of another program are those of its documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from leyden.api_client.response_forms import FORMS, Form, wrong_response
from leyden.world.config import packaged_contract

_TYPES = {str: {"string"}, int: {"integer"}, float: {"number", "integer"}, bool: {"boolean"}, dict: {"object"},
          list: {"array"}, None: {"null"}}  # fmt: skip


def resolved(schema: Any, document: Mapping[str, Any]) -> Any:
    while isinstance(schema, dict) and "$ref" in schema:
        value: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            value = value[part.replace("~1", "/").replace("~0", "~")]
        schema = value
    return schema


def types(schema: Any, document: Mapping[str, Any]) -> set[str]:
    schema = resolved(schema, document)
    if "type" in schema:
        return {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {"null" if one is None else "string" if isinstance(one, str) else "other" for one in values}
    if "allOf" in schema:
        return types(schema["allOf"][0], document)
    return {name for one in schema.get("anyOf", schema.get("oneOf", ())) for name in types(one, document)}


def accepted(form: Form) -> set[str]:
    if isinstance(form, tuple):
        return {name for one in form for name in accepted(one)}
    if isinstance(form, dict | list):
        return _TYPES[type(form)]
    return _TYPES.get(form, {"string"})  # type: ignore[arg-type]


def faults(form: Form, schema: Any, document: Mapping[str, Any], place: str) -> Iterator[str]:
    """Where the form refuses what the document allows. A resource of the service is that of the service's document."""
    if schema.get("$ref", "").endswith("/ServiceResource"):
        return
    schema = resolved(schema, document)
    found = types(schema, document)
    if not found or not found <= accepted(form):
        yield f"{place}: {found}"
    if isinstance(form, list):
        yield from faults(form[0], schema["items"], document, f"{place}[]")
    if isinstance(form, dict):
        for name, inner in form.items():
            if name not in schema.get("required", ()):
                yield f"{place}.{name} may be absent"
            yield from faults(inner, schema.get("properties", {}).get(name, {}), document, f"{place}.{name}")


def declared() -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Each operation whose success is an object or a list in JSON, with its schema and its document."""
    for name in ("charges", "sandbox", "server"):
        document = packaged_contract(name).document
        for path, item in document["paths"].items():
            for method in {"get", "post", "put", "patch", "delete"} & set(item):
                for status, response in item[method]["responses"].items():
                    content = resolved(response, document).get("content", {})
                    schema = resolved(content.get("application/json", {}).get("schema"), document)
                    if status.startswith("2") and schema and "type" in schema:
                        yield f"{method.upper()} {re.sub('{[^}]*}', '{}', path)}", schema, document


def test_each_operation_has_a_form_that_its_document_promises() -> None:
    found = dict.fromkeys(FORMS, 0)
    for operation, schema, document in declared():
        assert [*faults(FORMS[operation], schema, document, operation)] == []
        found[operation] += 1
    assert [operation for operation, count in found.items() if not count] == ["GET /openapi.json"]


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        ("/sandbox/v1/clock", None, "its body is no object"),
        ("/sandbox/v1/clock?x=1", {}, "it has no field now"),
        ("/sandbox/v1/clock", {"now": "noon", "rate": 1}, "now has another form"),
        ("/sandbox/v1/clock", {"now": "2030-01-01T09:00:00.000Z", "rate": True}, "rate is no whole number"),
        ("/sandbox/v1/clock", {"now": "2030-01-01T09:00:00.000Z", "rate": 0.5, "more": 1}, None),
        ("/sandbox/v1/journal", {}, "its body is no list"),
        ("/sandbox/v1/journal", [], None),
        ("/sandbox/v1/journal", [1], "its body is no object"),
        ("/v0/charges", {"data": [], "next": 1}, "next is no text"),
        ("/v0/charges", {"data": [{"id": "a"}], "next": None}, "it has no field data.status"),
        ("/sandbox/v1/sandboxes/a/export", [], "its body is no object"),
        ("/elsewhere", None, None),
    ],
)
def test_what_is_wrong_with_a_response_is_one_sentence(target: str, value: Any, expected: str | None) -> None:
    assert wrong_response("GET", target, value) == expected
