"""The served documents obey what client generators, linters and mock servers ask of a document.

Each rule is one that a real tool enforces; `python -m tests.project.generators` runs the tools themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.contract.document.keywords import OBJECTS, fields
from leyden.server.contract.load import default_spec, load_contract
from leyden.world.loopback import send_request

Json = dict[str, Any]
DOCUMENTS = {
    "openapi": ("/openapi.json", ()),
    "openapi, strict": ("/openapi.json", ("strict",)),
    "openapi, envelope": ("/openapi.json", ("callback-envelope",)),
    "sandbox": ("/sandbox/v1/openapi.json", ()),
    "merged": ("/sandbox/v1/merged.json", ()),
    "server": ("", ()),
}
# Keywords whose value `false` is a usual way to close an object: every tool reads it.
CLOSING = {"additionalProperties", "unevaluatedProperties"}


@cache
def document(name: str) -> Json:
    path, overlays = DOCUMENTS[name]
    if name == "server":  # no sandbox serves it, but a server of several
        return dict(load_contract(default_spec("server")).document)
    with Sandbox(seed=5, overlays=list(overlays)) as sandbox:
        answer = send_request(sandbox.app, "GET", path)
    assert answer.status == 200
    value: Json = json.loads(answer.body)
    return value


def parts(value: Any, form: str = "document", where: str = "#") -> Iterator[tuple[str, str, Any]]:
    """Each object of the document with its kind and its place, by the table of keywords."""
    form = form.rstrip("?!")
    if form.startswith("{"):
        for name, item in value.items():
            yield from parts(item, form[1:-1], f"{where}/{name}")
    elif form.startswith("["):
        for number, item in enumerate(value):
            yield from parts(item, form[1:-1], f"{where}/{number}")
    elif form == "callback":
        yield from parts(value, "{callbackItem}", where)
    elif form in OBJECTS:
        yield form, where, value
        for name, inner in fields(form).items():
            if isinstance(value, dict) and name in value:
                yield from parts(value[name], inner, f"{where}/{name}")


def of(name: str, kind: str) -> list[tuple[str, Any]]:
    return [(where, value) for found, where, value in parts(document(name)) if found == kind]


def operations(name: str) -> list[tuple[str, Json]]:
    return of(name, "operation")


pytestmark = pytest.mark.parametrize("name", DOCUMENTS)


def test_no_schema_is_a_boolean(name: str) -> None:
    """openapi-python-client reads a property `false` as an error."""
    boolean = [where for where, schema in of(name, "schema") if isinstance(schema, bool)]
    assert [where for where in boolean if where.rpartition("/")[2] not in CLOSING] == []


def test_every_array_names_its_items(name: str) -> None:
    """Spectral: array-items; openapi-python-client refuses the document."""
    schemas = [(where, schema) for where, schema in of(name, "schema") if isinstance(schema, dict)]
    arrays = [(where, schema) for where, schema in schemas if "array" in schema.get("type", ())]
    assert arrays
    assert [where for where, schema in arrays if "items" not in schema] == []


def test_every_required_property_is_defined_beside_it(name: str) -> None:
    """Redocly: no-required-schema-properties-undefined. A branch of `anyOf` or `oneOf` adds to the schema around it."""
    missing = []
    schemas = dict(of(name, "schema"))
    for where, schema in schemas.items():
        if isinstance(schema, dict) and "required" in schema:
            defined = set(schema.get("properties", ()))
            parts_of = where.split("/")
            if parts_of[-2] in ("anyOf", "oneOf", "allOf"):
                defined |= set(schemas["/".join(parts_of[:-2])].get("properties", ()))
            missing += [f"{where}: {field}" for field in schema["required"] if field not in defined]
    assert missing == []


def test_branches_of_one_of_require_the_property_that_tells_them_apart(name: str) -> None:
    """Redocly: no-illogical-composition-keywords."""
    loose = [
        where
        for where, schema in of(name, "schema")
        if isinstance(schema, dict)
        and "/oneOf/" in where[-8:]
        and set(schema.get("properties", ())) - set(schema.get("required", ()))
        and "$ref" not in schema
    ]
    assert loose == []


def test_the_document_says_what_it_is_and_whom_to_ask(name: str) -> None:
    """Spectral: info-contact, info-description, oas3-api-servers."""
    info = document(name)["info"]
    assert {"title", "version", "description", "contact"} <= set(info)
    assert [server["url"] for server in document(name)["servers"]]


def test_every_operation_can_become_a_method_of_a_client(name: str) -> None:
    """Redocly: operation-operationId, operation-summary, operation-4xx-response; Spectral: operation-tag-defined."""
    found = operations(name)
    ids = [operation["operationId"] for _, operation in found]
    assert len(set(ids)) == len(ids) >= 5
    assert all(identifier.isidentifier() for identifier in ids)
    tags = {tag["name"] for tag in document(name)["tags"]}
    for where, operation in found:
        assert operation["summary"], where
        assert operation["description"], where
        assert operation["tags"], where
        assert set(operation["tags"]) <= tags, where
        assert any(status.startswith("2") for status in operation["responses"]), where
        assert any(status.startswith("4") for status in operation["responses"]), where


def test_every_tag_is_described_and_used(name: str) -> None:
    """Redocly: tag-description."""
    used = {tag for _, operation in operations(name) for tag in operation["tags"]}
    assert {tag["name"] for tag in document(name)["tags"]} == used
    assert all(tag["description"] for tag in document(name)["tags"])


def test_every_body_has_an_example(name: str) -> None:
    """Prism answers with it; without one it answers with random texts."""
    bodies = [(where, media) for where, media in of(name, "mediaType") if "/content/" in where]
    assert bodies
    assert [where for where, media in bodies if not (media.get("examples") or "example" in media)] == []


def test_every_component_is_used(name: str) -> None:
    """Spectral: oas3-unused-component; Redocly: no-unused-components."""
    text = json.dumps(document(name))
    unused = [
        f"{kind}/{component}"
        for kind, components in document(name)["components"].items()
        for component in components
        if kind != "securitySchemes" and f'"#/components/{kind}/{component}"' not in text
    ]
    assert unused == []


def test_every_security_requirement_names_a_scheme(name: str) -> None:
    """Redocly: security-defined."""
    schemes = set(document(name)["components"]["securitySchemes"])
    assert schemes
    for where, operation in operations(name):
        assert "security" in operation or "security" in document(name), where
        assert {scheme for one in operation.get("security", ()) for scheme in one} <= schemes, where
