"""Checks OpenAPI links: each must name an operation, its parameters, and values that exist."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leyden.server.contract.json_pointer import child, contract_error, split_pointer, suggestion
from leyden.server.contract.json_schema.schemas import Schemas, properties
from leyden.server.contract.types import Operation

_PLACES = ("path", "query", "header")
_BODY = re.compile(r"\$(request|response)\.body#((?:/[^/]+)*)")
_REQUEST = re.compile(r"\$request\.(path|query|header)\.(.+)")


def check_links(
    operation: Operation,
    responses: Mapping[str, Any],
    operations: Mapping[str, Operation],
    schemas: Schemas,
    location: str,
) -> list[tuple[str, str]]:
    """Hold the links of one operation's responses to the operations and bodies they name.

    Returns the links to operations that the document does not have: (location, operationId). Raises `ContractError`
    for an unknown parameter, property or expression.
    """
    open_links: list[tuple[str, str]] = []
    for status, answer in responses.items():
        response = schemas.resolve(answer)
        for name, reference in response.get("links", {}).items():
            link = schemas.resolve(reference)
            at = child(f"{location}/responses/{status}/links", name)
            target = operations.get(link["operationId"])
            if target is None:
                open_links.append((at, link["operationId"]))
                continue
            for parameter, expression in link.get("parameters", {}).items():
                _check_parameter(parameter, target, at)
                _check_expression(expression, operation, int(status), f"{at}/parameters/{parameter}")
    return open_links


def _check_parameter(name: str, target: Operation, location: str) -> None:
    where, _, rest = name.partition(".")
    qualified = where in _PLACES and bool(rest)
    given = rest if qualified else name
    fitting = [parameter for parameter in target.parameters if not qualified or parameter.location == where]
    names = {parameter.name for parameter in fitting}
    if not any(one.key == (given.lower() if one.location == "header" else given) for one in fitting):
        raise contract_error(
            location, f"{target.operation_id} has no parameter {name!r}" + suggestion(rest or name, names)
        )


def _check_expression(expression: Any, operation: Operation, status: int, location: str) -> None:
    if not isinstance(expression, str) or not expression.startswith("$"):
        return
    if expression in ("$url", "$method", "$statusCode"):
        return
    matched = _REQUEST.fullmatch(expression)
    if matched is not None:
        where, name = matched.groups()
        key = name.lower() if where == "header" else name
        if not any((parameter.location, parameter.key) == (where, key) for parameter in operation.parameters):
            raise contract_error(
                location, f"{operation.operation_id} has no {matched[1]} parameter {matched[2]!r}; name one that it has"
            )
        return
    held = _BODY.fullmatch(expression)
    if held is None:
        raise contract_error(
            location, f"{expression!r} is not understood; write $response.body#/... or $request.path.NAME"
        )
    rule = operation.responses[status].rule if held[1] == "response" else operation.body and operation.body.rule
    schemas: list[Mapping[str, Any]] = [rule.schema] if rule else []
    for token in split_pointer(held[2]):
        known: dict[str, list[Mapping[str, Any]]] = {}
        for schema in schemas:
            known |= properties(schema)
            if token.isdigit() and "items" in schema:
                known[token] = [schema["items"]]
        if token not in known:
            raise contract_error(
                location, f"{expression!r}: the {held[1]} body declares no {token!r}" + suggestion(token, known)
            )
        schemas = known[token]
