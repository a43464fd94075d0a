"""Holds an edited document to the code: the values that a handler reads, and the answers that it gives.

`bind` finds a missing handler, problem or value in every document. What is checked here can be wrong in an edited
document only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from leyden.server.contract.applied_rows import never_applied
from leyden.server.contract.bind import Handler, problems_before_handler
from leyden.server.contract.json_pointer import contract_error, descendant, quoted
from leyden.server.contract.json_schema.ecma_patterns import with_written_patterns
from leyden.server.contract.json_schema.schemas import Schemas, properties, value_types
from leyden.server.contract.schema_errors import first_error
from leyden.server.contract.types import EVENT_STREAM, IDEMPOTENCY_KEY, TOKEN, WALLET_STATUSES, Contract, Operation
from leyden.server.errors import ContractError, FieldError, Problem, StorageUnavailable, TooManyRequests

_VALUES = frozenset({"const", "enum", "default", "examples"})  # keywords that hold values, and no schemas
WITH_FIELDS = frozenset({400, 409, 500})  # the statuses of errors that name places of the request
ENVELOPE = frozenset({"type", "timestamp", "sequence", "data"})  # the fields of a callback of this form
_JSON = "application/json"
_TEXTS = ("a text", "a text " * 140)  # of errors, whose length is at most about 1,000 characters
_VISIBLE = re.compile(r"[!-~]+(?:[ \t]+[!-~]+)*")
# Headers that the HTTP server writes itself, or that OpenAPI says to ignore.
_OF_SERVER = frozenset({
    "content-type", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "trailer", "te",
    "date", "server", "content-encoding",
})  # fmt: skip


# Values of headers that are sent, from the first one to the extreme ones
_LONG_NAME = '"' + "x" * 255 + '";did-you-mean="callbackUrl"'
_IGNORED = ('"x"', '"unit";always="msats", "a b"', f"{', '.join([_LONG_NAME] * 8)}, more;count=1000")
_SECONDS = ("30", "1", "120", "3600", "31536000")
_SIGNATURES = (
    "v1,JILN6zssdjnOp+EXbq84p3z2jZpeeyDR5SzCaEYLgI8=", "v1,q83vEjRWeJC/3v66mHZUMhASNFZ4kLze8BI0VniQvN4=",
    "v1,ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopQ=",
)  # fmt: skip
_CALLBACK_HEADERS: Mapping[str, tuple[str, ...]] = {
    "content-type": ("application/json",),
    "webhook-id": tuple(
        f"{digit * 8}-{digit * 4}-4{digit * 3}-9{digit * 3}-{digit * 12}" for digit in "0123456789abcdef"
    ),
    "webhook-timestamp": ("1893456000", "1735689601", "4102444799"),
    "webhook-signature": tuple(" ".join(_SIGNATURES[:count]) for count in (1, 2, 3)),
    "leyden-attempt": ("1", "2", "9", "10", "11", "99", "100"),
    "leyden-time": ("2030-01-01T00:00:00.000Z", "2027-12-31T23:59:59.999Z", "2040-02-29T10:20:30.123Z"),
}


def check_served(contract: Contract, handlers: Mapping[str, Handler]) -> None:
    """Raises `ContractError` for a value that the document allows and its handler does not read, and for an answer that
    the document promises and no code gives, or that the document excludes and the code gives."""
    for index, server in enumerate(contract.document.get("servers", ())):
        url: str = server["url"]
        if "//" not in url and url.strip("./"):
            raise contract_error(f"#/servers/{index}/url", "the paths are served at the root; write / as the URL")
    schemas = Schemas(contract.document, "#", is_checked=True)
    for name, operation in contract.operations.items():
        check_reads(operation, handlers[name])
        _check_directions(operation)
        _check_statuses(operation)
        _check_errors(operation, handlers[name])
        _check_headers(operation, handlers[name], contract, schemas)
        _check_callback_headers(operation)


def check_reads(operation: Operation, handler: Handler) -> None:
    """Raises `ContractError` for a type that the document allows and the handler does not read, for a path parameter
    that it does not read, and for a body that can be something else than an object."""
    reads = _reads(handler)
    for parameter in operation.parameters:
        at = _at(operation, f"parameters ({parameter.name})")
        expected = reads.get(f"{parameter.location}.{parameter.key}")
        if expected is not None and parameter.kind not in expected.split():
            raise _unread(operation, at, parameter.name, expected, [parameter.kind])
        if expected is None and parameter.location == "path" and hasattr(handler, "reads"):
            raise contract_error(
                at, f"{operation.handler_name} reads no {parameter.name}; write a text in its place, or leave it out"
            )
    if operation.body is None:
        return
    schema = operation.body.rule.schema
    others = value_types(schema) - {"object"}
    if others:
        raise contract_error(
            _at(operation, "requestBody"), f"the body is one JSON object, not {_listed(others)}; write type: object"
        )
    if getattr(handler, "is_partial", False) and operation.body.defaults:
        name = next(iter(operation.body.defaults))
        raise contract_error(
            _at(operation, f"requestBody ({name})"), "a field that is left out keeps its value; leave the default out"
        )
    for name in operation.body.properties:
        expected = reads.get(f"body.{name}")
        if expected is not None and (more := value_types(schema, name) - set(expected.split())):
            raise _unread(operation, _at(operation, f"requestBody ({name})"), name, expected, more)


def unread(contract: Contract, handlers: Mapping[str, Handler]) -> list[str]:
    """A text about each part of the document without effect: parameters and request fields that are validated only,
    fields of callbacks that are not sent, and rows of the lifecycles that never apply."""
    texts = never_applied(contract)
    for name, operation in contract.operations.items():
        handler = handlers[name]
        texts += _unsent(operation, handler)
        if not hasattr(handler, "reads"):
            continue
        reads = _reads(handler)
        declared = [f"{one.location}.{one.key}" for one in operation.parameters]
        if operation.body is not None:
            echoed = {*operation.echoed} - getattr(handler, "computes", frozenset())
            declared += [f"body.{one}" for one in operation.body.properties if one not in echoed]
        found = [one for one in declared if one not in reads]
        if found:
            texts.append(
                f"paths.{operation.path}.{operation.method}: no code reads {', '.join(found)}: requests are validated"
                " with it, and it has no other effect"
            )
    return texts


def _unsent(operation: Operation, handler: Handler) -> list[str]:
    """A text about each callback whose body has fields that no code sends."""
    texts = []
    sent: frozenset[str] = getattr(handler, "sends", frozenset())
    for rule in operation.callbacks if sent else ():
        declared = properties(rule.rule.schema)
        found = [name for name in declared if name not in sent]
        if rule.delivery.form == "envelope":
            found = [name for name in declared if name not in ENVELOPE]
            data = (properties(schema) for schema in declared.get("data", ()))
            found += dict.fromkeys(f"data.{name}" for names in data for name in names if name not in sent)
        if found:
            texts.append(f"{rule.location}/post: no code sends {', '.join(found)} in the body: a receiver gets none")
    return texts


def _reads(handler: Handler) -> Mapping[str, str]:
    return {f"header.{IDEMPOTENCY_KEY}": "string", **getattr(handler, "reads", {})}


def _unread(operation: Operation, at: str, name: str, expected: str, found: Iterable[str]) -> ContractError:
    return contract_error(
        at,
        f"{operation.handler_name} reads {name} as {_listed(expected.split())}, and the document allows"
        f" {_listed(found)} too; change its type",
    )


def _check_directions(operation: Operation) -> None:
    """No field of a request is for responses only, and none of a response for requests only."""
    if operation.body is not None and _has(operation.body.rule.schema, "readOnly"):
        raise contract_error(_at(operation, "requestBody"), "has a field with readOnly, which is read; leave that out")
    for status, response in operation.responses.items():
        if response.rule is not None and _has(response.rule.schema, "writeOnly"):
            raise contract_error(
                _at(operation, "responses", str(status)), "has a field with writeOnly, which is sent; leave that out"
            )


def _has(schema: Any, keyword: str) -> bool:
    """Whether a schema or one below it has the keyword with true."""
    if isinstance(schema, list):
        return any(_has(one, keyword) for one in schema)
    if not isinstance(schema, Mapping):
        return False
    below = (value for key, value in schema.items() if key not in _VALUES)
    return schema.get(keyword) is True or any(_has(one, keyword) for one in below)


def _check_statuses(operation: Operation) -> None:
    success = operation.success
    at = _at(operation, "responses")
    for status in operation.responses:
        if status < 400 and status != success.status:
            raise contract_error(f"{at}/{status}", f"no code answers it; a success is {success.status}: leave it out")
        if status >= 400 and operation.errors_as == "lnurl" and status not in WALLET_STATUSES:
            raise contract_error(
                f"{at}/{status}", f"with x-errors-as: lnurl this error is answered with {success.status}; leave it out"
            )
    if success.rule is None:
        raise contract_error(f"{at}/{success.status}", "has no content, but the answer has a body; declare its content")
    if success.media_type == EVENT_STREAM:
        raise contract_error(
            f"{at}/{success.status}/content",
            f"{operation.handler_name} answers JSON, and no {EVENT_STREAM}; declare {_JSON}",
        )
    errors = [{"status": "ERROR", "reason": text} for text in _TEXTS]
    if operation.errors_as == "lnurl" and not all(map(success.rule.validator.is_valid, errors)):
        raise contract_error(
            f"{at}/{success.status}/content",
            "with x-errors-as: lnurl its schema must allow {status: ERROR, reason: any text}; add it by oneOf",
        )


def problem_kinds(operation: Operation, handler: Handler) -> list[type[Problem]]:
    """The kinds of the errors that the operation can answer."""
    raised = (*getattr(handler, "raises", ()), TooManyRequests, StorageUnavailable)
    return list(dict.fromkeys((*problems_before_handler(operation), *raised)))


def _check_errors(operation: Operation, handler: Handler) -> None:
    """The documents of all errors that the operation can answer fit their declared schemas."""
    for kind in problem_kinds(operation, handler):
        response = operation.responses.get(kind.status)
        if response is None or response.rule is None or kind.status < 400:
            continue
        fields = [FieldError("/amount", "a text")] * 2 if kind.status in WITH_FIELDS else []
        for text, count in product(_TEXTS, range(len(fields) + 1)):
            document = kind(text, field_errors=fields[:count]).to_document("req-1")
            error = first_error(response.rule.validator, document)
            if error is not None:
                where = descendant("", error.instance_path)
                raise contract_error(
                    _at(operation, "responses", str(kind.status), "content"),
                    f"its schema does not allow the error {kind.code}{' at ' + where if where else ''}:"
                    f" {with_written_patterns(error.message)[:200]}; allow it",
                )


def _check_headers(operation: Operation, handler: Handler, contract: Contract, schemas: Schemas) -> None:
    responses = contract.document["paths"][operation.path][operation.method]["responses"]
    for status in operation.responses:
        sent = _sent_headers(operation, handler, status, contract.api_key_header)
        for name, reference in schemas.resolve(responses[str(status)]).get("headers", {}).items():
            at = _at(operation, "responses", str(status), "headers", name)
            header, low = schemas.resolve(reference), name.lower()
            constant = schemas.inline(header["schema"]).get("const")
            if low in _OF_SERVER or not TOKEN.fullmatch(name):
                raise contract_error(at, "a document cannot declare this header; leave it out")
            if low in sent:
                is_always, samples = sent[low]
                validator = schemas.validator(header["schema"], f"{at}/schema")
                types = value_types(schemas.inline(header["schema"]))
                for sample in samples:
                    if not any(map(validator.is_valid, _readings(sample, types))):
                        shown = quoted(sample)
                        raise contract_error(f"{at}/schema", f"does not allow what is sent, such as {shown}; allow it")
                if header.get("required") and not is_always:
                    raise contract_error(at, "is not in every response; take out required")
            elif constant is None:
                raise contract_error(at, "no code sends it; give its schema a const, or leave it out")
            elif status >= 400:
                raise contract_error(at, "only a successful response has headers of its own; leave it out")
            elif not _VISIBLE.fullmatch(constant):
                raise contract_error(f"{at}/schema/const", "must be printable ASCII, without blanks around it")
            elif not schemas.validator(header["schema"], f"{at}/schema").is_valid(constant):
                raise contract_error(
                    f"{at}/schema", "excludes its own const, which is sent as a text; change one of them"
                )
            elif low == "access-control-allow-origin" and constant != "*":
                raise contract_error(f"{at}/schema/const", "each origin is allowed; write '*', or leave the header out")


def _check_callback_headers(operation: Operation) -> None:
    for rule in operation.callbacks:
        for index, declared in enumerate(rule.headers):
            samples = _CALLBACK_HEADERS.get(declared.key, ())
            if declared.key == "leyden-event":
                samples = tuple(rule.delivery.events.values())
            types = value_types(declared.rule.schema)
            for sample in samples:
                if not any(map(declared.rule.validator.is_valid, _readings(sample, types))):
                    raise contract_error(
                        f"{rule.location}/post/parameters/{index}/schema",
                        f"{declared.name}: {quoted(sample)} is sent, which this schema refuses; allow it here",
                    )


def _sent_headers(
    operation: Operation, handler: Handler, status: int, key_header: str
) -> dict[str, tuple[bool, tuple[str, ...]]]:
    """The headers that the code sends with a status: whether always, and values."""
    sent: dict[str, tuple[bool, tuple[str, ...]]] = {"leyden-ignored": (False, _IGNORED)}
    if any(one.key == IDEMPOTENCY_KEY for one in operation.parameters):
        sent["idempotent-replayed"] = (False, ("true",))
    if status == 401:
        sent["www-authenticate"] = (True, (f'ApiKey header="{key_header}"',))
    if status == TooManyRequests.status:
        sent["retry-after"] = (True, _SECONDS)
    if getattr(handler, "mock", False) and status < 400:
        sent["x-leyden-mock"] = (True, ("example",))
    return sent


def _readings(text: str, types: frozenset[str]) -> list[Any]:
    """The values that a header's text can stand for: itself, or another one where a schema of these types has no
    text."""
    if "string" in types:
        return [text]
    return [*([True] if text == "true" else []), *([int(text)] if text.isdigit() else [])]


def _at(operation: Operation, *keys: str) -> str:
    return descendant("#/paths", (operation.path, operation.method, *keys))


def _listed(types: Iterable[str]) -> str:
    return " or ".join(sorted(types))
