"""Compiles a validated document into the contract: plain values for the service."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leyden.server.contract.delivery import compile_callback, is_json, json_schema
from leyden.server.contract.json_pointer import child, contract_error
from leyden.server.contract.json_schema.schemas import Schemas, media_examples, parts, properties
from leyden.server.contract.lifecycle_rows import compile_lifecycle
from leyden.server.contract.links import check_links
from leyden.server.contract.parameters import compile_key_header, compile_parameters, is_secured
from leyden.server.contract.paths import check_paths
from leyden.server.contract.types import (
    EVENT_STREAM,
    SENT_BY_CODE,
    Body,
    CallbackRule,
    Contract,
    LifecycleTable,
    Operation,
    ResponseRule,
)

if TYPE_CHECKING:
    from leyden.server.contract.document.extensions import Extensions
    from leyden.server.contract.document.validate_document import DocumentIndex

_METHODS = ("get", "post", "put", "patch", "delete")
_PROBLEM = "application/problem+json"
_MOST_DEPTH = 500  # of a body: deeper ones exceed the recursion of Python when they are checked
_OPERATION_ID = re.compile(r"[a-z][A-Za-z0-9]*")
_DIALECT = "https://spec.openapis.org/oas/3.1/dialect/base"


def compile_contract(
    document: Mapping[str, Any],
    *,
    name: str,
    extensions: Extensions | None,
    overlays: Sequence[str] = (),
    mock_unbound: bool = False,
) -> Contract:
    """Compile a whole document. `name` is its file name in errors.

    `extensions` checks its `x-` keys; None for a document that has passed every check before: it is not validated, and
    each validator is built on its first use. Raises `ContractError` at the first thing that cannot be served, naming
    the location and the correction.
    """
    root = f"{name}#"
    seen = None
    if extensions is not None:
        # Imported here: most starts need no checks.
        from leyden.server.contract.document.validate_document import validate_document

        seen = validate_document(document, root, extensions)
    return _Compiler(document, root, seen).contract(tuple(overlays), mock_unbound)


class _Compiler:
    def __init__(self, document: Mapping[str, Any], root: str, seen: DocumentIndex | None) -> None:
        self._document = document
        self._components: Mapping[str, Any] = document["components"]
        self._root = root
        self._seen = seen
        self._schemas = Schemas(document, root, is_checked=seen is None)
        self._lifecycles: dict[str, LifecycleTable] = {}
        self._callback_names: dict[str, str] = {}  # operationId by name
        self._open_links: list[tuple[str, str]] = []
        self._refuses_undeclared_bodies = document.get("x-undeclared-body") == "refused"

    def contract(self, overlays: tuple[str, ...], mock_unbound: bool) -> Contract:
        document = self._document
        if not re.fullmatch(r"3\.1\.[0-9]+", document["openapi"]):
            raise contract_error(self._root, f"openapi: {document['openapi']!r} is not read; write openapi: 3.1.0")
        if document.get("jsonSchemaDialect", _DIALECT) != _DIALECT:
            raise contract_error(self._root, "jsonSchemaDialect must be left out: the default is the one that is read")
        location = f"{self._root}/components/schemas"
        schemas = {
            name: self._schemas.rule(schema, child(location, name))
            for name, schema in self._components.get("schemas", {}).items()
        }
        if self._seen is not None:
            from leyden.server.contract.examples import check_examples

            check_examples(self._seen, self._schemas)
        self._lifecycles = self._compile_lifecycles()
        api_key_header = compile_key_header(self._components, self._schemas, self._root)
        operations = self._operations()
        limits = document["x-limits"]
        if limits["depth"] > _MOST_DEPTH:
            raise contract_error(
                f"{self._root}/x-limits/depth", f"must be at most {_MOST_DEPTH}: no deeper body can be checked"
            )
        return Contract(
            title=document["info"]["title"],
            version=document["info"]["version"],
            document=document,
            overlays=overlays,
            operations=operations,
            lifecycles=self._lifecycles,
            body_limit=int(limits["bodyBytes"]),
            depth_limit=int(limits["depth"]),
            api_key_header=api_key_header,
            schemas=schemas,
            mock_unbound=mock_unbound,
            open_links=tuple(self._open_links),
        )

    def _compile_lifecycles(self) -> dict[str, LifecycleTable]:
        declared = {
            f"{child(f'{self._root}/components/schemas', resource)}/properties/status": (resource, status)
            for resource, schema in self._components.get("schemas", {}).items()
            if isinstance(status := schema.get("properties", {}).get("status"), dict) and "x-lifecycle" in status
        }
        for location, schema in () if self._seen is None else self._seen.of("schema"):
            if "x-lifecycle" in schema and location not in declared:
                raise contract_error(
                    location,
                    "x-lifecycle stands beside the enum in components.schemas.RESOURCE.properties.status; move it",
                )
        tables: dict[str, LifecycleTable] = {}
        for location, (resource, status) in declared.items():
            states = status.get("enum")
            if not states or not all(isinstance(state, str) for state in states):
                raise contract_error(location, "x-lifecycle needs an enum of states beside it; add the enum")
            tables[resource] = compile_lifecycle(resource, states, status["x-lifecycle"], f"{location}/x-lifecycle")
        return tables

    def _operations(self) -> dict[str, Operation]:
        operations: dict[str, Operation] = {}
        locations: dict[str, str] = {}
        if self._seen is not None:
            check_paths(self._document["paths"], f"{self._root}/paths")
        for path, item in self._document["paths"].items():
            location = child(f"{self._root}/paths", path)
            for method in item:
                if method in _METHODS:
                    at = f"{location}/{method}"
                    operation = self._operation(path, method, item, at)
                    name = operation.operation_id
                    if name in operations:
                        raise contract_error(
                            at, f"operationId {name!r} is already that of {locations[name]}; choose another"
                        )
                    operations[name] = operation
                    locations[name] = at
        if not operations:
            raise contract_error(f"{self._root}/paths", "has no operation, so there is nothing to serve; add one")
        for name, operation in operations.items():
            responses = self._document["paths"][operation.path][operation.method]["responses"]
            self._open_links += check_links(operation, responses, operations, self._schemas, locations[name])
        return operations

    def _operation(self, path: str, method: str, item: Mapping[str, Any], location: str) -> Operation:
        node, document = item[method], self._document
        name = node["operationId"]
        if not _OPERATION_ID.fullmatch(name):
            raise contract_error(
                location, f"operationId {name!r} must be camelCase letters and digits: it names the handler"
            )
        errors_as = node.get("x-errors-as", "problem")
        replies = self._replies(node["responses"], errors_as, f"{location}/responses")
        body = self._body(node.get("requestBody"), method, f"{location}/requestBody")
        return Operation(
            operation_id=name,
            method=method,
            path=path,
            summary=node.get("summary", ""),
            tags=tuple(node.get("tags", ())),
            secured=is_secured(node, document, location),
            parameters=compile_parameters(path, item, node, self._schemas, location),
            body=body,
            responses=replies,
            callbacks=self._callbacks(node, name, body, location),
            echoed=_echoed(body, replies[200 if 200 in replies else 201]),
            errors_as=errors_as,
            basis=node["x-basis"],
            decision=node.get("x-decision"),
            # A wallet may send anything: LUD-06 and others let it.
            refuses_body=body is None and errors_as == "problem" and self._refuses_undeclared_bodies,
            other_names=tuple(node.get("x-other-names", ())),
            has_effect=node.get("x-has-effect", method != "get"),
        )

    def _body(self, reference: Any, method: str, location: str) -> Body | None:
        if reference is None:
            return None
        if method in ("get", "delete"):
            raise contract_error(location, f"a {method.upper()} has no body; use parameters")
        node = self._schemas.resolve(reference)
        media_type = next(iter(node["content"]), "")
        at = f"{child(f'{location}/content', media_type)}/schema"
        rule = self._schemas.rule(json_schema(node["content"], location), at)
        declared = properties(rule.schema)
        defaults: dict[str, Any] = {}
        absent: dict[str, tuple[Any, ...]] = {}
        for name, schemas in declared.items():
            for schema in schemas:
                if "default" in schema:
                    defaults.setdefault(name, schema["default"])
                if "x-absent" in schema:
                    absent.setdefault(name, tuple(schema["x-absent"]))
            if name in absent and name not in defaults:
                raise contract_error(
                    f"{location} ({name})", "x-absent without a default; add the default that takes its place"
                )
        media_types = tuple(media_type.lower() for media_type in node["content"])
        return Body(media_types, bool(node.get("required")), rule, tuple(declared), defaults, absent)

    def _replies(self, responses: Mapping[str, Any], errors_as: str, location: str) -> dict[int, ResponseRule]:
        replies: dict[int, ResponseRule] = {}
        for text, reference in responses.items():
            if not re.fullmatch(r"[2-5][0-9]{2}", text):
                raise contract_error(location, f"{text!r} is not a status code; declare each status by its number")
            at = f"{location}/{text}"
            replies[int(text)] = reply = self._reply(int(text), self._schemas.resolve(reference), at)
            if reply.status >= 400 and errors_as == "problem" and reply.media_type != _PROBLEM:
                raise contract_error(
                    at,
                    f"every error is {_PROBLEM} (RFC 9457), not {reply.media_type or 'without a body'}; declare its"
                    " content in this media type, or leave the status out",
                )
        if errors_as == "lnurl" and 200 not in replies:
            raise contract_error(location, "200 is missing; with x-errors-as lnurl errors are answered with 200, too")
        if not {200, 201} & set(replies):
            raise contract_error(location, "200 is missing; a handler that succeeds answers 200, or 201")
        if {200, 201} <= set(replies):
            raise contract_error(location, "has 200 and 201; a handler that succeeds answers one of them")
        return replies

    def _reply(self, status: int, node: Mapping[str, Any], location: str) -> ResponseRule:
        headers: list[str] = []
        constants: list[tuple[str, str]] = []
        for name, reference in node.get("headers", {}).items():
            headers.append(name.lower())
            schema = self._schemas.inline(self._schemas.resolve(reference)["schema"])
            if "const" in schema and name.lower() not in SENT_BY_CODE:
                if not isinstance(schema["const"], str):
                    raise contract_error(child(f"{location}/headers", name), "its const must be a text; quote it")
                constants.append((name.lower(), schema["const"]))
        content = node.get("content")
        if content is None:
            return ResponseRule(status, None, None, tuple(headers), (), tuple(constants))
        if len(content) > 1 or not all(is_json(media_type) or media_type == EVENT_STREAM for media_type in content):
            raise contract_error(
                f"{location}/content", f"must be one JSON media type, not {', '.join(content)}; or {EVENT_STREAM} alone"
            )
        schema = content[EVENT_STREAM]["schema"] if EVENT_STREAM in content else json_schema(content, location)
        media_type, media = next(iter(content.items()))
        rule = self._schemas.rule(schema, f"{child(f'{location}/content', media_type)}/schema")
        examples = media_examples(media, self._schemas) or tuple(rule.schema.get("examples", ()))
        return ResponseRule(status, media_type, rule, tuple(headers), examples, tuple(constants))

    def _callbacks(
        self, node: Mapping[str, Any], operation_id: str, body: Body | None, location: str
    ) -> tuple[CallbackRule, ...]:
        states = dict.fromkeys(state for table in self._lifecycles.values() for state in table.states)
        rules: list[CallbackRule] = []
        for name, reference in node.get("callbacks", {}).items():
            at = self._schemas.place(reference, child(f"{location}/callbacks", name))
            items = self._schemas.resolve(reference)
            if len(items) != 1:
                raise contract_error(at, f"has {len(items) or 'no'} expressions; write one: each callback has one URL")
            if name in self._callback_names:
                raise contract_error(
                    child(f"{location}/callbacks", name),
                    f"is the name of the callback of {self._callback_names[name]}; choose another one",
                )
            self._callback_names[name] = operation_id
            for expression, item in items.items():
                request = body.rule.schema if body else None
                where = child(at, expression)
                rules.append(
                    compile_callback(name, expression, item, operation_id, request, states, self._schemas, where)
                )
        return tuple(rules)


def _echoed(body: Body | None, reply: ResponseRule) -> tuple[str, ...]:
    """The request properties that the returned resource has too: a field that is added to both needs no code."""
    if body is None or reply.rule is None:
        return ()
    answered: set[str] = set()
    for schema in properties(reply.rule.schema).get("data", ()):
        for part in (schema, *parts(schema.get("items", {}))):
            answered.update(properties(part))
    return tuple(name for name in body.properties if name in answered)
