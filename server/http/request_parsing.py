"""Request parsing: media type, Accept, strict JSON, parameters and body, each checked against the spec.

A `RequestParser` prepares at start-up what depends only on the operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from email.message import Message
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Scope

from leyden.server.contract.types import IDEMPOTENCY_KEY, Operation, Parameter
from leyden.server.errors import (
    FieldError,
    InvalidRequest,
    NotAcceptable,
    SemanticConflict,
    UnsupportedMediaType,
)
from leyden.server.http.corrections import malformed_id, received, shown
from leyden.server.http.ignored_fields import IGNORED, USUAL_HEADERS, IgnoredField, ignored_fields, misspelt_keys
from leyden.server.http.number_range import WHOLE, with_range_errors
from leyden.server.http.request import Request
from leyden.server.http.strict_json import parse
from leyden.server.http.validation import (
    body_with_defaults,
    declared_fields,
    find_errors,
    integers_with_point,
    is_whole_number,
    plain_name,
    read_parameter,
    undeclared_fields,
    unknown_parameter,
)

JSON = "application/json"

_NO_PARAMETERS: Mapping[str, Any] = {}


BLANKS = b" \t"  # optional white space around the value of a header (RFC 9110, 5.6.3)


def expects_continue(headers: Sequence[tuple[bytes, bytes]], version: str) -> bool:
    """Whether the client waits for 100 Continue, which HTTP/1.0 does not have (RFC 9110, 10.1.1)."""
    return version != "1.0" and any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


def headers_by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name; repeated ones are joined with a comma (RFC 9110, 5.2), and blanks around a value are no part
    of it (5.5)."""
    found: dict[bytes, bytes] = {}
    for name, given in headers:
        value = given.strip(BLANKS)
        found[name] = value if name not in found else found[name] + b", " + value
    return found


class RequestParser:
    """Parses the requests of one operation. `key_header` is the header of the API key, in lower case."""

    def __init__(self, operation: Operation, depth_limit: int, key_header: bytes) -> None:
        self._operation = operation
        self._depth_limit = depth_limit
        self._body = operation.body
        self._body_properties: Mapping[str, Any] = {}
        if operation.body is not None:
            schemas = declared_fields(operation.body.rule.schema)
            self._body_properties = {name: schemas.get(name, {}) for name in operation.body.properties}
        self._body_names = frozenset(self._body_properties)
        self._ignores_fields = (
            not operation.refuses_body
            if operation.body is None
            else operation.body.rule.schema.get("additionalProperties") is not False
        )
        self._path = [parameter for parameter in operation.parameters if parameter.location == "path"]
        self._query = [parameter for parameter in operation.parameters if parameter.location == "query"]
        self._query_schemas = {parameter.name: parameter.rule.schema for parameter in self._query}
        self._query_names = frozenset(self._query_schemas)
        self._has_key = any(parameter.key == IDEMPOTENCY_KEY for parameter in operation.parameters)
        self._ignores_key = operation.has_effect and not self._has_key
        self._headers = [(p.key.encode(), p) for p in operation.parameters if p.location == "header"]
        self._declared = frozenset([key_header, *(name for name, _ in self._headers)])
        # LUD-06 and others add their own parameters to every URL: unknown parameters are ignored.
        self._ignore_unknown = operation.errors_as == "lnurl"
        self._response_media = operation.success.media_type or JSON
        self._media = JSON.encode() if self._body is not None and JSON in self._body.media_types else None

    def parse_body(self, body: bytes, headers: Mapping[bytes, bytes]) -> dict[str, Any]:
        """The JSON object in the body, as it was sent; empty for an absent optional body.

        Of an operation without a body it is what the request has all the same, and empty if that is no JSON object.
        Raises `UnsupportedMediaType`, `NotAcceptable`, or `InvalidRequest` for a body that is not strict JSON.
        """
        rule = self._body
        no_body = rule is None or (not body and not rule.required)
        if rule is not None and not no_body:
            content_type = headers.get(b"content-type", b"")
            if content_type != self._media:
                media, charset = _media_type(content_type)
                if media not in rule.media_types or charset not in {"", "utf-8"}:
                    came = shown(content_type.decode("latin-1")) if content_type else "no Content-Type"
                    raise UnsupportedMediaType(f"send the body as Content-Type: {rule.media_types[0]}; received {came}")
        accept = headers.get(b"accept")
        if accept and accept != b"*/*" and not _accepts(accept.decode("latin-1"), self._response_media):
            came = shown(accept.decode("latin-1"))
            media = self._response_media
            raise NotAcceptable(f"responses are {media}: accept that, or leave Accept out; received {came}")
        if no_body:
            return self._parse_undeclared(body) if body else {}
        value = parse(body, depth_limit=self._depth_limit)
        if not isinstance(value, dict):
            nested = isinstance(value, str) and value.lstrip().startswith("{")
            mend = "send the object itself, not its text" if nested else "send one object, {...}"
            detail = f"the body must be a JSON object; received {received(value)}: {mend}"
            raise InvalidRequest(detail, field_errors=[FieldError("", detail)])
        return value

    def _parse_undeclared(self, body: bytes) -> dict[str, Any]:
        """The fields of a body that the operation does not declare. Raises `InvalidRequest` if it refuses them."""
        value: Any = {}
        if body.strip():
            try:
                value = parse(body, depth_limit=self._depth_limit)
            except InvalidRequest:
                value = None
        if self._operation.refuses_body and value != {}:
            errors = undeclared_fields(value, self._query_names)
            raise InvalidRequest(_summary(errors), field_errors=errors)
        return value if isinstance(value, dict) else {}

    def parse_request(
        self, project: str, scope: Scope, headers: Mapping[bytes, bytes], raw_body: dict[str, Any]
    ) -> Request:
        """The request for the handler, with all parameters parsed and everything checked against the spec.

        The names that the operation does not know are `scope[IGNORED]`, of a request that is refused too.
        Raises `NotFound` for a malformed path parameter, `InvalidRequest` for another violation of the schema and for
        a number that the service cannot keep, and `SemanticConflict` for an integer with a decimal point.
        """
        errors: list[FieldError] = []
        path: Mapping[str, str] = scope["path_params"]
        for parameter in self._path:
            name, path_rule = parameter.name, parameter.rule
            if not path_rule.validator.is_valid(read_parameter(parameter, path[name])):
                raise malformed_id(name, path[name], path_rule.schema, path_rule.validator.is_valid)
        query = _NO_PARAMETERS
        ignored: tuple[IgnoredField, ...] = ()
        if self._query or scope["query_string"]:
            query, ignored = self._parse_query(scope["query_string"], errors)
        header = _NO_PARAMETERS
        for header_name, parameter in self._headers:
            value = headers.get(header_name)
            if value is not None or parameter.required or parameter.default is not None:
                header = {**header}
                _parse_parameter(parameter, None if value is None else value.decode("latin-1"), header, errors)
        rule = self._body
        body: Mapping[str, Any] = raw_body
        known: Mapping[str, Any] | None = None  # the fields that are not ignored, where some are
        if self._ignores_fields and not self._body_names.issuperset(raw_body):
            ignored = (*ignored, *ignored_fields(self._operation, raw_body, self._body_properties))
            if rule is None:
                body = raw_body = {}
            known = {name: value for name, value in raw_body.items() if name in self._body_names}
        if self._ignores_key and b"idempotency-key" in headers:
            ignored = (*ignored, IgnoredField("Idempotency-Key"))
        if (self._has_key or self._ignores_key) and not USUAL_HEADERS.issuperset(headers):
            has_effect = self._has_key and b"idempotency-key" not in headers
            ignored = (*ignored, *misspelt_keys(headers, self._declared, has_effect=has_effect))
        if ignored:
            scope[IGNORED] = ignored  # for the response, even if the request is refused
        if rule is not None:
            read = raw_body if known is None else known
            errors = errors or with_range_errors(find_errors(rule.rule, raw_body), read)
            if not errors:
                body = body_with_defaults(rule, read)
        if errors:
            raise InvalidRequest(_summary(errors), field_errors=errors)
        if rule is not None and rule.rule.integers and (not_whole := integers_with_point(rule.rule, raw_body)):
            raise SemanticConflict(_summary(not_whole), field_errors=not_whole)
        return Request(project, path, query, header, body, raw_body)

    def _parse_query(
        self, query_string: bytes, errors: list[FieldError]
    ) -> tuple[dict[str, Any], tuple[IgnoredField, ...]]:
        """The declared parameters, and the names that are ignored."""
        query: dict[str, Any] = {}
        if self._ignore_unknown and not self._query:
            errors = []  # without parameters nothing in the query can be wrong
        texts = self._query_texts(query_string, errors) if query_string else {}
        for parameter in self._query:
            _parse_parameter(parameter, texts.get(parameter.name), query, errors)
        if self._query_names.issuperset(texts):
            return query, ()
        return query, ignored_fields(self._operation, texts, self._query_schemas)

    def _query_texts(self, query_string: bytes, errors: list[FieldError]) -> dict[str, str]:
        """The texts by name. Names that are ignored are among them."""
        texts: dict[str, str] = {}
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except (UnicodeDecodeError, ValueError):
            errors.append(FieldError("query", "the query is not percent-encoded UTF-8, or has too many fields"))
            return texts
        for name, text in pairs:
            pointer = f"query.{name[:60]}"
            if self._ignore_unknown and name not in self._query_names:
                texts[name] = text
            elif name in texts:
                errors.append(FieldError(pointer, f"{plain_name(name)} is given twice: give it once"))
            elif name in self._query_names:
                texts[name] = text
            else:
                detail = unknown_parameter(name, self._query_schemas)
                errors.append(FieldError(pointer, detail))
        return texts


def _parse_parameter(parameter: Parameter, text: str | None, values: dict[str, Any], errors: list[FieldError]) -> None:
    """Put the value of one query or header parameter into `values`, and its violations into `errors`."""
    pointer = f"{parameter.location}.{parameter.key}"
    if text is None:
        if parameter.required:
            errors.append(FieldError(pointer, f"{parameter.name} is missing"))
        elif parameter.default is not None:
            values[parameter.key] = parameter.default
        return
    value = read_parameter(parameter, text)
    found = find_errors(parameter.rule, value, pointer)
    is_unread = isinstance(value, str) and is_whole_number(parameter, text)
    if found and is_unread and "x-expect" not in parameter.rule.schema:
        found = [FieldError(pointer, WHOLE)]
    errors.extend(found)
    values[parameter.key] = value


@lru_cache(maxsize=64)
def _media_type(content_type: bytes) -> tuple[str, str]:
    """The media type and the charset of a Content-Type (RFC 9110, 8.3.1), both in lower case and empty if absent."""
    header = Message()
    header["content-type"] = content_type.decode("latin-1")
    return header.get_content_type() if content_type else "", str(header.get_param("charset", "")).lower()


def accepts_coding(accept_encoding: str, coding: str) -> bool:
    """Whether an Accept-Encoding header allows the content coding (RFC 9110, 12.5.3)."""
    return _allows(accept_encoding, {"*": 1, coding: 2})


def _accepts(accept: str, wanted: str) -> bool:
    """Whether an Accept header allows the media type: the most specific range decides (RFC 9110, 12.5.1)."""
    return _allows(accept, {"*/*": 1, f"{wanted.partition('/')[0]}/*": 2, wanted.lower(): 3})


def _allows(header: str, ranks: Mapping[str, int]) -> bool:
    """Whether the value of the highest rank in a header has another weight than 0 (RFC 9110, 12.4.2)."""
    best: tuple[int, bool] = (0, False)
    for part in header.lower().split(","):
        value, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        if ranks.get(value, 0) > best[0]:
            best = (ranks[value], quality.strip("0.") != "")
    return best[1]


def _summary(errors: Sequence[FieldError]) -> str:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0].pointer or 'body'}: {errors[0].detail}{more}"
