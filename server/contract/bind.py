"""Binds the document's names to functions: handlers to operations, guards and effects to lifecycle rows.

A handler is a method marked `@handles(raises=..., needs=..., reads=...)`. It takes a `Request` and returns the JSON
body of the response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from leyden.server.contract.json_pointer import contract_error, suggestion
from leyden.server.contract.json_schema.schemas import always_there
from leyden.server.contract.lifecycle_rows import check_functions
from leyden.server.contract.types import IDEMPOTENCY_KEY, Contract, Operation
from leyden.server.errors import (
    ContractError,
    IdempotencyMismatch,
    InternalError,
    InvalidRequest,
    NotAcceptable,
    NotFound,
    PayloadTooLarge,
    Problem,
    SemanticConflict,
    Unauthorized,
    UnsupportedMediaType,
)

Handler = Callable[..., Any]
Functions = Mapping[str, Any]

_F = TypeVar("_F", bound=Callable[..., Any])


def handles(
    *,
    raises: tuple[type[Problem], ...] = (),
    needs: tuple[str, ...] = (),
    reads: Mapping[str, str] | None = None,
    computes: frozenset[str] = frozenset(),
    sends: frozenset[str] = frozenset(),
    is_partial: bool = False,
    recorded: bool = True,
) -> Callable[[_F], _F]:
    """Mark a method as the handler of an operation. Its name is the operationId in snake_case.

    `raises` are the problems that it may raise; the operation must declare a response for the status of each. `needs`
    are the values that it always reads, such as `path.id`, `query.limit`, `body.amount`, and `key` for the API key's
    project; the operation must declare each as required or with a default. `reads` are all values that it reads with
    the JSON types that it expects, `{"query.limit": "integer"}`; without it an edited document is not held to them
    (`leyden.server.contract.served`). `computes` are the properties of the answered resource that no request sets by
    itself, and `sends` the fields of the body of its callback. A change `is_partial` if a field that a request leaves
    out keeps its value. The event journal gets an entry of each request if they are `recorded`.
    """

    def mark(handler: _F) -> _F:
        handler.raises = raises  # type: ignore[attr-defined]
        handler.needs = needs  # type: ignore[attr-defined]
        handler.recorded = recorded  # type: ignore[attr-defined]
        handler.computes = computes  # type: ignore[attr-defined]
        handler.sends = sends  # type: ignore[attr-defined]
        handler.is_partial = is_partial  # type: ignore[attr-defined]
        if reads is not None:
            handler.reads = reads  # type: ignore[attr-defined]
        return handler

    return mark


class MockHandler:
    """Answers an operation that has no handler with its example. `mock` marks the response as an example."""

    mock = True
    raises: tuple[type[Problem], ...] = ()

    def __init__(self, example: Any) -> None:
        self.example = example

    def __call__(self, *call: Any, **named: Any) -> Any:
        """The example, for every request."""
        return self.example


def bind(
    contract: Contract,
    handlers: Mapping[str, Handler] | Iterable[object],
    guards: Functions,
    effects: Functions,
    *,
    mock_unbound: bool = False,
) -> Mapping[str, Handler]:
    """A handler for every operation, by operationId, in the document's order. A handler whose operation the document
    leaves out is not used.

    `handlers` are service objects whose methods are marked `@handles`, or a mapping operationId -> callable. `guards`
    and `effects` map names to functions, either for all lifecycles or by resource (`{"Charge": {...}}`). With
    `mock_unbound` (here or given to `load_contract`) an operation without a handler answers its own example.

    Raises `ContractError` for an operation without a handler, a link to an operation that neither the document nor
    the handlers have, a guard or effect of a lifecycle row without a function, a problem that an operation's responses
    leave out, and a value that a handler needs and a valid request may leave out.
    """
    found = dict(handlers) if isinstance(handlers, Mapping) else _by_operation(handlers)
    for location, name in contract.open_links:
        if name not in found:
            raise contract_error(location, f"no operation {name!r}" + suggestion(name, {*contract.operations, *found}))
    unused = [name for name in found if name not in contract.operations]
    bound: dict[str, Handler] = {}
    for name, operation in contract.operations.items():
        bound_here = found.get(name)
        if bound_here is None:
            bound_here = _mock_handler(operation, mock_unbound or contract.mock_unbound, unused)
        _check_raises(operation, bound_here)
        _check_needs(operation, bound_here)
        bound[name] = bound_here
    _check_rows(contract, guards, effects)
    return bound


def _by_operation(services: Iterable[object]) -> dict[str, Handler]:
    found: dict[str, Handler] = {}
    for service in services:
        kind: Any = type(service)
        for name, operation_id in _marked(kind):
            handler = getattr(service, name)
            if operation_id in found:
                both = f"{_name(handler, name)} and {_name(found[operation_id], name)}"
                raise ContractError(f"{both} both answer {operation_id}; keep one")
            found[operation_id] = handler
    return found


@lru_cache(maxsize=64)
def _marked(service: type) -> tuple[tuple[str, str], ...]:
    """The methods of a class that are marked `@handles`, with their operationIds."""
    return tuple(
        (name, re.sub("_([a-z0-9])", lambda match: match[1].upper(), name))
        for name in dir(service)
        if not name.startswith("_") and hasattr(getattr(service, name, None), "raises")
    )


def _mock_handler(operation: Operation, mock_unbound: bool, unused: Iterable[str]) -> MockHandler:
    """`unused` are the operationIds of the handlers that have no operation: one of them may be what is meant."""
    location = _location(operation)
    if not mock_unbound:
        raise contract_error(
            location,
            f"operationId {operation.operation_id!r} has no handler; add the method {operation.handler_name}, "
            f"or answer with its example by --mock-unbound{suggestion(operation.operation_id, unused)}",
        )
    examples = operation.success.examples
    if not examples:
        raise contract_error(
            f"{location}.responses.{operation.success.status}",
            f"{operation.operation_id} has no handler and no example to answer; add one of them",
        )
    return MockHandler(examples[0])


def _check_raises(operation: Operation, handler: Handler) -> None:
    location = f"{_location(operation)}.responses"
    for problem in getattr(handler, "raises", ()):
        if not operation.can_answer(problem.status):
            raise contract_error(
                location,
                f"{operation.handler_name} can raise {problem.__name__}, but {problem.status} is not declared; add it",
            )
    answered = {one.status for one in problems_before_handler(operation)}
    missing = [str(status) for status in sorted(answered) if not operation.can_answer(status)]
    if missing:
        statuses = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise contract_error(
            location,
            f"every request may be answered with {statuses} before {operation.handler_name} runs, and the operation "
            f"does not declare {'them' if missing[1:] else 'it'}; add a response for {'each' if missing[1:] else 'it'}",
        )


def problems_before_handler(operation: Operation) -> Iterable[type[Problem]]:
    """The problems that the request pipeline can answer for an operation, whatever its handler does.

    Those that concern the connection, and not an operation, are declared nowhere: 403, 408, 414, 421, 431 and 503.
    """
    yield from (InvalidRequest, NotAcceptable, PayloadTooLarge, InternalError)
    if operation.secured:
        yield Unauthorized
    if any(one.location == "path" for one in operation.parameters):
        yield NotFound
    if any(one.key == IDEMPOTENCY_KEY for one in operation.parameters):
        yield IdempotencyMismatch
    if operation.body is not None:
        yield UnsupportedMediaType
        if operation.body.rule.integers:
            yield SemanticConflict


def _check_needs(operation: Operation, handler: Handler) -> None:
    given = {f"{one.location}.{one.key}" for one in operation.parameters if one.required or one.default is not None}
    declared = {f"{one.location}.{one.key}" for one in operation.parameters}
    body = operation.body
    for need in getattr(handler, "needs", ()):
        place, _, name = need.partition(".")
        if need == "key":
            if not operation.secured:
                raise contract_error(
                    f"{_location(operation)}.security",
                    f"{operation.handler_name} answers for the project of the API key; name the scheme of the key",
                )
            continue
        if place == "body":
            is_sent = body is not None and body.required and always_there(body.rule.schema, name)
            there = is_sent or (body is not None and name in body.defaults)
        else:
            there = need in given
        if not there:
            why, mend = "a request may leave it out", "require it, or give it a default"
            if place != "body" and need not in declared:
                why, mend = "it is not declared", f"declare the {place} parameter {name}, under this name"
            raise contract_error(
                f"{_location(operation)} ({need})", f"{operation.handler_name} reads it, but {why}; {mend}"
            )


def _check_rows(contract: Contract, guards: Functions, effects: Functions) -> None:
    for resource, table in contract.lifecycles.items():
        check_functions(table, _for_resource(guards, resource), _for_resource(effects, resource))


def _for_resource(functions: Functions, resource: str) -> Functions:
    own = functions.get(resource)
    return own if isinstance(own, Mapping) else functions


def _location(operation: Operation) -> str:
    return f"paths.{operation.path}.{operation.method}"


def _name(handler: Handler, name: str) -> str:
    return getattr(handler, "__qualname__", name)
