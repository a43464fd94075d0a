"""The requests to which a kind of service fault can apply, and the refusal of a rule that no request can match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from leyden.errors import ArgumentError
from leyden.server.contract.types import Operation
from leyden.text_patterns import ANY_TEXT

_KEY = "idempotency-key"
# Kinds that change the body, which a response to HEAD does not have.
_OF_BODY = frozenset({"slow_body", "truncated_body", "unknown_fields"})
_STALE_READ, _KEY_IN_USE = "stale_read", "key_in_use"
_PARAMETER = re.compile(r"\{[^/{}]*\}")
_ONE_OF_PART, _MORE_OF_PART = "{", "}"  # of a parameter in a path: characters other than a slash


def applies_to(kind: str, operation: Operation, method: str) -> bool:
    """Whether a fault of the kind can change the response to a request with the method to the operation."""
    if kind == _STALE_READ:
        return method == "GET"
    if kind == _KEY_IN_USE:
        return any(one.name.lower() == _KEY and one.location == "header" for one in operation.parameters)
    return kind not in _OF_BODY or method != "HEAD"


def check_applicable(
    operations: Mapping[str, Operation], kind: str, operation_id: str | None, method: str | None, path: str | None
) -> None:
    """Raise `ValueError`, with what to give instead, if no request can match all of the conditions."""
    every = [(operation, name) for operation in operations.values() for name in _methods(operation)]
    of_operation = [pair for pair in every if operation_id in (None, pair[0].operation_id)]
    of_method = [pair for pair in of_operation if method in (None, pair[1])]
    if not of_method:
        _refuse(operations, operation_id, f"the method {method}", _listed(name for _, name in of_operation))
    of_path = [pair for pair in of_method if path is None or _can_match(path, pair[0].path)]
    if not of_path:
        has_path = any(_can_match(path, one.path) for one, _ in of_operation) if path is not None else False
        what = f"a path like {path}{f' with the method {method}' if has_path else ''}"
        _refuse(operations, operation_id, what, _listed(as_pattern(one.path) for one, _ in of_method))
    if not any(applies_to(kind, one, name) for one, name in of_path):
        possible = _listed(f"{name} {one.path}" for one, name in every if applies_to(kind, one, name))
        raise ArgumentError(f"{kind} changes no response to these requests: it applies to {possible}")


def as_pattern(path: str) -> str:
    """The pattern that matches every path of a template: `*` for each parameter, such as `{id}`."""
    return _PARAMETER.sub(ANY_TEXT, path)


def _methods(operation: Operation) -> list[str]:
    method = operation.method.upper()
    return ["GET", "HEAD"] if method == "GET" else [method]


def _refuse(operations: Mapping[str, Operation], operation_id: str | None, what: str, possible: str) -> None:
    if operation_id is None:
        raise ArgumentError(f"no operation of the service has {what}: choose one of {possible}")
    operation = operations[operation_id]
    raise ArgumentError(
        f"{operation_id} is {operation.method.upper()} {operation.path} and never has {what}: leave out one of the two"
    )


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _can_match(pattern: str, path: str) -> bool:
    """Whether some path of the operation matches the pattern. A parameter is any text without a slash."""
    template = _tokens_of_path(path)

    @cache
    def common(i: int, j: int) -> bool:
        if i == len(pattern) or j == len(template):
            rest = pattern[i:] or template[j:]
            return all(token in (ANY_TEXT, _MORE_OF_PART) for token in rest)
        one, other = pattern[i], template[j]
        if one == ANY_TEXT:
            return common(i + 1, j) or common(i, j + 1)
        if other == _MORE_OF_PART:
            return common(i, j + 1) or (one != "/" and common(i + 1, j))
        same = one == other or (other == _ONE_OF_PART and one != "/")
        return same and common(i + 1, j + 1)

    return common(0, 0)


def _tokens_of_path(path: str) -> tuple[str, ...]:
    tokens: list[str] = []
    for part in path.replace("{", "}").split("}"):
        is_parameter = f"{{{part}}}" in path
        tokens += [_ONE_OF_PART, _MORE_OF_PART] if is_parameter else list(part)
    return tuple(tokens)
