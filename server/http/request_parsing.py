"""Reading a request: media type, Accept, strict JSON, parameters and body, each held against the spec.

What can be known of an operation before any request comes is worked out once, when its `Reader` is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Scope

from leyden.server.contract.types import Operation, Parameter
from leyden.server.errors import (
    FieldError,
    InvalidRequest,
    NotAcceptable,
    NotFound,
    SemanticConflict,
    UnsupportedMediaType,
)
from leyden.server.http.request import Request
from leyden.server.http.strict_json import parse
from leyden.server.http.validation import body_with_defaults, find_errors, integers_with_point, read_parameter

JSON = "application/json"

_NO_PARAMETERS: Mapping[str, Any] = {}


def headers_by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name; a repeated one is joined as RFC 9110 (5.2) says."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        found[name] = value if name not in found else found[name] + b", " + value
    return found


class RequestParser:
    """Reads the requests of one operation."""

    def __init__(self, operation: Operation, depth_limit: int) -> None:
        self._operation = operation
        self._depth_limit = depth_limit
        self._body = operation.body
        self._path = [(p.name, p.rule.validator) for p in operation.parameters if p.location == "path"]
        self._query = [parameter for parameter in operation.parameters if parameter.location == "query"]
        self._names = {parameter.name for parameter in self._query}
        self._headers = [(p.name.lower().encode(), p) for p in operation.parameters if p.location == "header"]
        # LUD-06 and others hang parameters of their own on every URL: what is not asked for is passed over.
        self._lenient = operation.errors_as == "lnurl"
        self._media = JSON.encode() if self._body is not None and JSON in self._body.media_types else None

    def parse_body(self, raw: bytes, sent: Mapping[bytes, bytes]) -> dict[str, Any]:
        """The body's JSON object, after its media type and Accept were found good; an absent optional one is empty.

        Raises `UnsupportedMediaType`, `NotAcceptable`, or `InvalidRequest` for what is not strict JSON.
        """
        rule = self._body
        skipped = rule is None or (not raw and not rule.required)
        if rule is not None and not skipped:
            kind = sent.get(b"content-type", b"")
            if kind != self._media:
                media, _, parameters = kind.decode("latin-1").lower().partition(";")
                charset = parameters.partition("charset=")[2].strip().strip('"')
                if media.strip() not in rule.media_types or charset not in {"", "utf-8"}:
                    raise UnsupportedMediaType(f"send the body as Content-Type: {rule.media_types[0]}")
        accept = sent.get(b"accept")
        if accept is not None and accept != b"*/*" and not _accepts_json(accept.decode("latin-1")):
            raise NotAcceptable(f"answers are {JSON}: accept that, or leave Accept out")
        if skipped:
            return {}
        value = parse(raw, depth_limit=self._depth_limit)
        if not isinstance(value, dict):
            detail = "the body must be a JSON object"
            raise InvalidRequest(detail, field_errors=[FieldError("", detail)])
        return value

    def parse_request(
        self, project: str, scope: Scope, sent: Mapping[bytes, bytes], submitted: dict[str, Any]
    ) -> Request:
        """The request as its handler sees it: parameters read, and everything held against the spec.

        Raises `NotFound` for a malformed path parameter, `InvalidRequest` for whatever else breaks the spec.
        """
        faults: list[FieldError] = []
        path: Mapping[str, str] = scope["path_params"]
        for name, validator in self._path:
            # A malformed id is answered as an unknown one: neither tells what exists.
            if not validator.is_valid(path[name]):
                raise NotFound(f"there is nothing with this {name} for this key: check it and the apikey")
        query = _NO_PARAMETERS
        if self._query or scope["query_string"]:
            query = self._parameters(scope["query_string"], faults)
        header = _NO_PARAMETERS
        for name_sent, parameter in self._headers:
            raw = sent.get(name_sent)
            if raw is not None or parameter.required or parameter.default is not None:
                header = {**header}
                _take(parameter, None if raw is None else raw.decode("latin-1"), header, faults)
        rule = self._body
        body: Mapping[str, Any] = submitted
        if rule is not None:
            faults = faults or find_errors(rule.rule, submitted)
            if not faults:
                body = body_with_defaults(rule, submitted)
        if faults:
            raise InvalidRequest(_first_of(faults), field_errors=faults)
        if rule is not None and rule.rule.integers and (pointed := integers_with_point(rule.rule, submitted)):
            raise SemanticConflict(_first_of(pointed), field_errors=pointed)
        return Request(project, path, query, header, body, submitted)

    def _parameters(self, raw: bytes, faults: list[FieldError]) -> dict[str, Any]:
        query: dict[str, Any] = {}
        if self._lenient and not self._query:
            return query
        given = self._given(raw, faults) if raw else {}
        for parameter in self._query:
            _take(parameter, given.get(parameter.name), query, faults)
        return query

    def _given(self, raw: bytes, faults: list[FieldError]) -> dict[str, str]:
        given: dict[str, str] = {}
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except (UnicodeDecodeError, ValueError):
            faults.append(FieldError("query", "the query is not percent-encoded UTF-8, or has too many fields"))
            return given
        for name, value in pairs:
            place = f"query.{name[:60]}"
            if name in given:
                faults.append(FieldError(place, f"{name[:60]} is given twice: give it once"))
            elif name in self._names:
                given[name] = value
            elif not self._lenient:
                faults.append(FieldError(place, f"there is no parameter {name[:60]} here: leave it out"))
        return given


def _take(parameter: Parameter, text: str | None, into: dict[str, Any], faults: list[FieldError]) -> None:
    """Read one parameter of a query or of the headers."""
    place = f"{parameter.location}.{parameter.name}"
    if text is None:
        if parameter.required:
            faults.append(FieldError(place, f"{parameter.name} is missing"))
        elif parameter.default is not None:
            into[parameter.name] = parameter.default
        return
    value = read_parameter(parameter, text)
    found = find_errors(parameter.rule, value, place)
    expect = parameter.rule.schema.get("x-expect")
    faults.extend(FieldError(fault.pointer, f"expected {expect}") if expect else fault for fault in found)
    into[parameter.name] = value


def _accepts_json(accept: str) -> bool:
    """Whether an Accept header lets `application/json` through: the most specific range decides (RFC 9110, 12.5.1)."""
    best: tuple[int, bool] = (0, False)
    for part in accept.lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        rank = {"*/*": 1, "application/*": 2, JSON: 3}.get(media, 0)
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        allowed = quality.strip("0.") != ""
        if rank > best[0]:
            best = (rank, allowed)
    return best[1]


def _first_of(faults: Sequence[FieldError]) -> str:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0].pointer or 'body'}: {faults[0].detail}{more}"
