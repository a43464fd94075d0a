"""Compiles what identifies and parametrises a request: the key's header, security requirements and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.contract.json_pointer import child, contract_error
from leyden.server.contract.json_schema.schemas import Schemas
from leyden.server.contract.paths import VARIABLE
from leyden.server.contract.types import IDEMPOTENCY_KEY, SENT_BY_CODE, TOKEN, Parameter

_KINDS = ("string", "integer", "boolean")
_PLACES = ("path", "query", "header")
_IGNORED_HEADERS = ("accept", "content-type", "authorization")  # OpenAPI 3.1, Parameter Object: ignored by definition
# Those that clients, browsers, proxies or the control plane give a meaning, and cannot have another one; among them are
# all that a page in a browser cannot send (Fetch, "forbidden request-header").
_RESERVED_HEADERS = SENT_BY_CODE | {
    "accept", "allow", "alt-used", "baggage", "cache-control", "connection", "cookie", "cookie2", "date", "dnt",
    "expect", "forwarded", "from", "host", "keep-alive", "last-event-id", "max-forwards", "origin", "pragma",
    "priority", "range", "referer", "server", "set-cookie", "te", "traceparent", "tracestate", "trailer",
    "transfer-encoding", "upgrade", "upgrade-insecure-requests", "user-agent", "vary", "via", "x-correlation-id",
    "x-http-method", "x-http-method-override", "x-method-override", "x-real-ip", "x-request-id", "x-requested-with",
}  # fmt: skip
_RESERVED_STARTS = (
    "accept-", "access-control-", "content-", "if-", "leyden-", "proxy-", "sec-", "webhook-", "x-forwarded-",
    "x-leyden-",
)  # fmt: skip


def compile_key_header(components: Mapping[str, Any], schemas: Schemas, root: str) -> str:
    """The name of the header that holds the API key. Raises `ContractError` unless there is exactly one scheme, an
    apiKey in a header that a client can send."""
    location = f"{root}/components/securitySchemes"
    schemes = components.get("securitySchemes", {})
    if len(schemes) != 1:
        raise contract_error(location, f"must hold exactly one scheme, not {len(schemes)}: an apiKey in a header")
    for name, node in schemes.items():
        scheme = schemas.resolve(node)
        at = child(location, name)
        if scheme["type"] != "apiKey" or scheme.get("in") != "header" or not scheme.get("name"):
            raise contract_error(at, "must be {type: apiKey, in: header, name: ...}: no other key is checked")
        header: str = scheme["name"]
        check_header_name(header, f"{at}/name")
        low = header.lower()
        if low in {*_RESERVED_HEADERS, IDEMPOTENCY_KEY} or low.startswith(_RESERVED_STARTS):
            raise contract_error(
                f"{at}/name", f"{header!r} has another meaning to HTTP, to browsers or to Leyden; choose another header"
            )
    return header


def is_secured(node: Mapping[str, Any], document: Mapping[str, Any], location: str) -> bool:
    """Whether an operation needs the key. Raises `ContractError` for a requirement that is not checked."""
    at = f"{location}/security"
    wanted = node.get("security", document.get("security"))
    if wanted is None:
        # OpenAPI reads silence as "open to everyone"; forgetting a line must not open an operation.
        raise contract_error(location, "security is missing; write [{SCHEME: []}], or [] where no key is needed")
    schemes = document["components"].get("securitySchemes", {})
    for requirement in wanted:
        if len(requirement) != 1:
            raise contract_error(location, "security must name one scheme; write security: [] where no key is needed")
        for scheme, scopes in requirement.items():
            if scheme not in schemes:
                raise contract_error(
                    location, f"security names {scheme!r}, which is not in components.securitySchemes; add it"
                )
            if scopes:
                raise contract_error(at, f"a key has no scopes; write {{{scheme}: []}}")
    return bool(wanted)


def compile_parameters(
    path: str, item: Mapping[str, Any], node: Mapping[str, Any], schemas: Schemas, location: str
) -> tuple[Parameter, ...]:
    """The parameters of an operation, those of its path item included. Raises `ContractError`."""
    # OpenAPI 3.1, Path Item Object: an operation's parameter replaces the path's of the same name and location.
    found: dict[tuple[str, str], Parameter] = {}
    key_at = ""
    for level, level_location in ((item, location.rpartition("/")[0]), (node, location)):
        own: set[tuple[str, str]] = set()
        for index, reference in enumerate(level.get("parameters", ())):
            at = schemas.place(reference, f"{level_location}/parameters/{index}")
            parameter = compile_parameter(schemas.resolve(reference), schemas, at)
            key = (parameter.location, parameter.key)
            if key in own:
                raise contract_error(
                    location, f"declares the {parameter.location} parameter {parameter.name!r} twice; leave one out"
                )
            own.add(key)
            key_at = f"{level_location}/parameters/{index}" if parameter.key == IDEMPOTENCY_KEY else key_at
            found[key] = parameter
    named = set(VARIABLE.findall(path))
    declared = {name for where, name in found if where == "path"}
    for name in sorted(named - declared):
        raise contract_error(
            location, f"the path's {{{name}}} is not declared; add a parameter {{name: {name}, in: path}}"
        )
    for name in sorted(declared - named):
        raise contract_error(
            location,
            f"declares the path parameter {name!r}, but the path has no {{{name}}}; leave it out, or add {{{name}}} to"
            " the path",
        )
    if ("header", IDEMPOTENCY_KEY) in found and ("requestBody" not in node or len(found) > 1):
        _check_key_alone(found, key_at, has_body="requestBody" in node)
    return tuple(found.values())


def compile_parameter(node: Mapping[str, Any], schemas: Schemas, location: str) -> Parameter:
    """One parameter, written at `location`. Raises `ContractError` for one that no code reads."""
    name, where = node["name"], node["in"]
    if where not in _PLACES:
        raise contract_error(f"{location}/in", f"in: {where!r} is not read; use path, query or header")
    if where == "path" and node.get("required") is not True:
        raise contract_error(location, "a path parameter is always there; add required: true")
    if where == "header":
        check_header_name(name, f"{location}/name")
        if name.lower() in _IGNORED_HEADERS:
            raise contract_error(
                location, "this header is read by the protocol and cannot be a parameter; leave it out"
            )
    if "idempoten" in name.lower() and (where, name.lower()) != ("header", IDEMPOTENCY_KEY):
        raise contract_error(
            location, "no code reads it; only the header Idempotency-Key makes a repeated request safe"
        )
    rule = schemas.rule(node["schema"], f"{location}/schema")
    named = rule.schema.get("type")
    types = [kind for kind in (named if isinstance(named, list) else [named]) if kind != "null"]
    if "string" not in types and (len(types) != 1 or types[0] not in _KINDS):
        raise contract_error(location, f"its schema needs one type of {', '.join(_KINDS)}: parameters arrive as texts")
    # A parameter that may be a text is read as a text.
    kind = "string" if "string" in types else str(types[0])
    return Parameter(name, where, bool(node.get("required")), kind, rule, rule.schema.get("default"))


def check_header_name(name: str, location: str) -> None:
    """Raise `ContractError` for a text that is not the name of a header."""
    if not TOKEN.fullmatch(name):
        raise contract_error(location, f"{name!r} is not the name of a header; write letters, digits and hyphens")


def _check_key_alone(found: Mapping[tuple[str, str], Parameter], location: str, *, has_body: bool) -> None:
    """A stored response is found by the operation, the key and the body alone."""
    if not has_body:
        raise contract_error(
            location, "only a request with a body is compared with the first one; leave this header out"
        )
    for where, name in found:
        if where != "header":
            raise contract_error(
                location, f"a response is not kept by the {where} parameter {name!r}; leave one of them out"
            )
