"""The declarations in the document of the control plane: operations, lists with their parameters, and the order of
rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from leyden.world.config import packaged_contract

_METHODS = ("get", "post", "put", "patch", "delete")
LIMIT, AFTER = "limit", "after"
_PARAMETER = re.compile(r"\{\w+\}")
_ORDERS = {"newest first": "newest", "oldest first": "oldest", "order of creation": "oldest", "in order": "time"}


class ControlOperation(NamedTuple):
    """An operation. `parameters` are those of the query by name; no schema has references left."""

    name: str
    method: str
    path: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    success: Mapping[str, Any]
    statuses: tuple[int, ...]
    examples: tuple[Any, ...]
    has_body: bool = False
    example_path: str = ""  # with the examples of its parameters
    fields: Mapping[str, Mapping[str, Any]] = {}  # of the body

    @property
    def source(self) -> str:
        """The place of the operation in the document."""
        return f"sandbox.openapi.yaml#/paths/{self.path.replace('/', '~1')}/{self.method.lower()}"

    @property
    def has_path_parameters(self) -> bool:
        """Whether the path has parameters."""
        return "{" in self.path


class ControlList(NamedTuple):
    """A list. `member` has the rows of a response; empty where the response is the rows.

    `numbered` is the member of a row that is given as `after`, or empty where each page has a cursor. `order` is
    newest, oldest, time (of the member `at`), or empty if the document does not say it.
    """

    operation: ControlOperation
    member: str
    row: Mapping[str, Any]
    numbered: str
    order: str

    @property
    def name(self) -> str:
        """The operationId."""
        return self.operation.name

    @property
    def filters(self) -> Mapping[str, Mapping[str, Any]]:
        """The parameters besides those of the page."""
        return {name: one for name, one in self.operation.parameters.items() if name not in (LIMIT, AFTER)}


def resolved(document: Mapping[str, Any], schema: Any) -> Any:
    """A copy of a part of the document without references; the members beside a reference are added."""
    if isinstance(schema, list):
        return [resolved(document, one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    beside = {name: resolved(document, value) for name, value in schema.items() if name not in {"$ref", "x-lifecycle"}}
    if isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#/"):
        found: Any = document
        for name in schema["$ref"].split("/")[1:]:
            found = found[name.replace("~1", "/").replace("~0", "~")]
        return {**resolved(document, found), **beside}
    return beside


_STATES_OF = {"listSandboxCharges": "Charge", "listSandboxStaticCharges": "StaticCharge"}


def states_of(one: ControlList, name: str) -> tuple[str, ...]:
    """The states that a parameter for a state allows, by the lifecycle in the document of the charge service; empty for
    another parameter."""
    if name != "status" or one.name not in _STATES_OF:
        return ()
    return tuple(packaged_contract("charges").lifecycles[_STATES_OF[one.name]].states)


def control_document() -> Mapping[str, Any]:
    """The packaged document of the control plane."""
    return packaged_contract("sandbox").document


@cache
def control_operations() -> tuple[ControlOperation, ...]:
    """The operations of the document, in its order."""
    return tuple(operations_in(control_document()))


def operations_in(document: Mapping[str, Any]) -> Iterator[ControlOperation]:
    """The operations of a document."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method not in item:
                continue
            one = item[method]
            given = [resolved(document, each) for each in (*item.get("parameters", ()), *one.get("parameters", ()))]
            responses = {int(status): resolved(document, response) for status, response in one["responses"].items()}
            media = next(response for status, response in responses.items() if status < 300).get("content", {})
            body = resolved(document, one.get("requestBody", {})).get("content", {}).get("application/json", {})
            example_path = path
            for each in given:
                if each["in"] == "path":
                    example_path = example_path.replace(f"{{{each['name']}}}", str(each.get("example", "x")))
            yield ControlOperation(
                one["operationId"], method.upper(), path, one.get("description", ""),
                {each["name"]: each for each in given if each["in"] == "query"},
                media.get("application/json", {}).get("schema", {}), tuple(responses),
                tuple(each["value"] for each in body.get("examples", {}).values()), "requestBody" in one,
                example_path, body.get("schema", {}).get("properties", {}),
            )  # fmt: skip


@cache
def control_lists() -> tuple[ControlList, ...]:
    """The lists of the document."""
    return tuple(lists_in(control_operations()))


def lists_in(operations: tuple[ControlOperation, ...]) -> Iterator[ControlList]:
    """Each operation that reads pages: a GET with a `limit`."""
    for one in operations:
        if one.method == "GET" and LIMIT in one.parameters:
            member, row = _rows_of(one.success)
            after = one.parameters.get(AFTER, {}).get("schema", {})
            numbered = ""
            if after.get("type") == "integer":
                numbered = next(name for name, each in row["properties"].items() if each.get("type") == "integer")
            text = f"{one.description} {one.success.get('description', '')}"
            order = next((order for words, order in _ORDERS.items() if words in text), "")
            yield ControlList(one, member, row, numbered, order)


def _rows_of(schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if schema.get("type") == "array":
        return "", schema["items"]
    arrays = [(name, each["items"]) for name, each in schema["properties"].items() if each.get("type") == "array"]
    return arrays[0]


def single_of(one: ControlList) -> ControlOperation | None:
    """The operation that reads one row of a list: a GET of the list's path and a parameter."""
    return _below(one, "GET")


def removal_of(one: ControlList) -> ControlOperation | None:
    """The operation that removes one row."""
    return _below(one, "DELETE")


def creation_of(one: ControlList) -> ControlOperation | None:
    """The operation that adds a row: a POST to the list's path."""
    path = one.operation.path
    return next((each for each in control_operations() if (each.method, each.path) == ("POST", path)), None)


def _below(one: ControlList, method: str) -> ControlOperation | None:
    for each in control_operations():
        start, _, last = each.path.rpartition("/")
        if each.method == method and start == one.operation.path and _PARAMETER.fullmatch(last):
            return each
    return None
