"""The types of a compiled contract. Its values are never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from leyden.server.errors import ContractError

EVENT_STREAM = "text/event-stream"
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # the name of a header (RFC 9110, 5.6.2)

Path = tuple[str | None, ...]  # property by property; None is each item of an array


# The request header with which a repeated request gets the first response, in lower case.
IDEMPOTENCY_KEY = "idempotency-key"
# The response headers whose values code decides, in lower case: a single value in a schema does not set them.
SENT_BY_CODE = frozenset({"idempotent-replayed", "leyden-ignored", "retry-after", "www-authenticate", "x-leyden-mock"})


class Validator(Protocol):
    """A compiled JSON Schema (jsonschema-rs)."""

    def is_valid(self, instance: Any) -> bool: ...

    def iter_errors(self, instance: Any) -> Any: ...

    def validate(self, instance: Any) -> None: ...


class Rule(NamedTuple):
    """A compiled schema: the validator, the schema, and what a JSON validator cannot check.

    `integers` are the paths (`("expiresIn",)`) whose numbers must be written without a
    decimal point: JSON Schema takes 600.0 for an integer, the contract does not.
    """

    schema: Mapping[str, Any]
    validator: Validator
    integers: tuple[Path, ...] = ()


class Parameter(NamedTuple):
    """A path, query or header parameter. `kind` is the schema's JSON type: `string`, `integer` or `boolean`."""

    name: str
    location: str
    required: bool
    kind: str
    rule: Rule
    default: Any = None

    @property
    def key(self) -> str:
        """The name as it is compared: that of a header has no case (RFC 9110, 5.1) and is in lower case."""
        return self.name.lower() if self.location == "header" else self.name


class Body(NamedTuple):
    """A request body: its media types and its rule.

    `properties` are the declared top-level names. `defaults` apply to a name that is absent, or whose value is one
    of `absent[name]` (`x-absent`: values that count as not given).
    """

    media_types: tuple[str, ...]
    required: bool
    rule: Rule
    properties: tuple[str, ...]
    defaults: Mapping[str, Any]
    absent: Mapping[str, tuple[Any, ...]]


class ResponseRule(NamedTuple):
    """A declared response: `rule` is None when it has no body. `headers` are the declared names, lower case;
    `constants` are those whose schema is a single value, sent without any code."""

    status: int
    media_type: str | None
    rule: Rule | None
    headers: tuple[str, ...] = ()
    examples: tuple[Any, ...] = ()
    constants: tuple[tuple[str, str], ...] = ()


ANY_SUCCESS = frozenset(range(200, 300))


class DeliveryRule(NamedTuple):
    """How a callback is delivered (`x-delivery`). Spans in milliseconds.

    `events` maps the state a resource entered to the event's name; a state that is not there is not reported.
    `delays_ms[k]` is the wait before attempt k+1, counted from the end of the attempt before it (the first is
    usually 0). `jitter` is the fraction each wait may be shortened or lengthened by. `retry_after_times` bounds a
    receiver's Retry-After to this multiple of the wait it replaces. `received` are the statuses that end
    the delivery as received, some or all 2xx: those that the callback's responses declare.
    """

    events: Mapping[str, str]
    form: str
    delays_ms: tuple[int, ...]
    jitter: float
    retry_after_times: float
    connect_timeout_ms: int
    timeout_ms: int
    in_flight: int
    rotation_ms: int
    received: frozenset[int] = ANY_SUCCESS


# LUD-06: a wallet reads the reason of an error from a 200 response. These errors have their own status all the same.
WALLET_STATUSES = frozenset({406, 413, 500, 507})


class CallbackRule(NamedTuple):
    """An OpenAPI callback: the name, where its URL stands in the request body (`("callbackUrl",)`), the body's rule and
    media types, its headers and the delivery rule. `location` is that of the item below its expression."""

    name: str
    operation_id: str
    url_path: tuple[str, ...]
    rule: Rule
    headers: tuple[Parameter, ...]
    delivery: DeliveryRule
    media_types: tuple[str, ...] = ("application/json",)
    location: str = ""


class Operation(NamedTuple):
    """One operation of the document. `method` is in lower case, as the document has it.

    `operation_id` names its handler: `createCharge` -> `create_charge`.

    `errors_as` is `problem` (RFC 9457 with the error's own status) or `lnurl` (HTTP 200 with a reason, but for
    `WALLET_STATUSES`).
    `echoed` are request properties that are also properties of the answered resource. `refuses_body`: it declares no
    body, and refuses one with fields (`x-undeclared-body`); without a wallet's errors only. `other_names` are the last
    words of its path in other interfaces (`x-other-names`). `has_effect`: it creates or changes something, as every
    method but GET does, and a GET with `x-has-effect`.
    """

    operation_id: str
    method: str
    path: str
    summary: str
    tags: tuple[str, ...]
    secured: bool
    parameters: tuple[Parameter, ...]
    body: Body | None
    responses: Mapping[int, ResponseRule]
    callbacks: tuple[CallbackRule, ...]
    echoed: tuple[str, ...]
    errors_as: str
    basis: str
    decision: str | None
    refuses_body: bool = False
    other_names: tuple[str, ...] = ()
    has_effect: bool = False

    def can_answer(self, status: int) -> bool:
        """Whether an error of this status can be answered: it is declared, or a wallet gets the reason with 200."""
        return status in self.responses or (self.errors_as == "lnurl" and status not in WALLET_STATUSES)

    @property
    def success(self) -> ResponseRule:
        """The response of a handler that succeeds: that of 200, or of 201 if the operation creates a resource."""
        return self.responses[200 if 200 in self.responses else 201]

    @property
    def handler_name(self) -> str:
        """The operationId in snake_case."""
        return "".join("_" + c.lower() if c.isupper() else c for c in self.operation_id)


class LifecycleRow(NamedTuple):
    """One row of a lifecycle table: a transition (`to` is given) or a written refusal (`refuse` is given).

    `source` is `(creation)` for the row that creates a resource. `when` names a guard; a row without
    one always applies. `refuse` is the refusal's code and `because` its sentence.
    """

    source: str
    trigger: str
    when: str | None
    to: str | None
    effects: tuple[str, ...]
    refuse: str | None
    because: str | None
    basis: str
    decision: str | None


class LifecycleTable(NamedTuple):
    """The lifecycle beside a `status` enum: every (state, trigger) has at least one row, the last of them unguarded.

    `location` is that of the rows, which have the document's order.
    """

    resource: str
    states: tuple[str, ...]
    triggers: tuple[str, ...]
    rows: tuple[LifecycleRow, ...]
    location: str = ""

    @property
    def initial(self) -> str:
        """The state of a new resource."""
        return next(row.to for row in self.rows if row.source == "(creation)" and row.to is not None)

    @property
    def terminal(self) -> tuple[str, ...]:
        """The states that no row leaves."""
        left = {row.source for row in self.rows if row.to is not None and row.to != row.source}
        return tuple(state for state in self.states if state not in left)


class Contract(NamedTuple):
    """A whole compiled document. `document` is what `/openapi.json` answers (overlays applied).
    `overlays` are their names, or the paths as given.

    With `mock_unbound`, an operation without a handler answers its own example. `open_links` are the links to
    operations that the document does not have: (location, operationId).
    """

    title: str
    version: str
    document: Mapping[str, Any]
    overlays: tuple[str, ...]
    operations: Mapping[str, Operation]
    lifecycles: Mapping[str, LifecycleTable]
    body_limit: int
    depth_limit: int
    api_key_header: str
    schemas: Mapping[str, Rule]
    mock_unbound: bool = False
    open_links: tuple[tuple[str, str], ...] = ()

    def operation(self, operation_id: str) -> Operation:
        """The operation. Raises `ContractError` when the document leaves it out."""
        found = self.operations.get(operation_id)
        if found is None:
            raise ContractError(
                f"{self.title}: the document leaves out the operation {operation_id!r}, which is needed here; "
                "add it under paths"
            )
        return found

    def path(self, operation_id: str, default: str) -> str:
        """The path template of an operation; `default` when the document leaves it out: a request there gets 404."""
        found = self.operations.get(operation_id)
        return default if found is None else found.path

    def lifecycle(self, resource: str) -> LifecycleTable:
        """The lifecycle of a resource. Raises `ContractError` when the document has none for it."""
        found = self.lifecycles.get(resource)
        if found is None:
            raise ContractError(
                f"#/components/schemas/{resource}/properties/status: there is no x-lifecycle; "
                f"add it beside the enum, or leave out every operation on a {resource}"
            )
        return found

    def by_path(self) -> Mapping[str, Sequence[Operation]]:
        """The operations under each path template, in the document's order."""
        paths: dict[str, list[Operation]] = {}
        for operation in self.operations.values():
            paths.setdefault(operation.path, []).append(operation)
        return paths
