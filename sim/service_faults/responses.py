"""Responses that a fault changes: content types, unknown fields, dates, and the error responses of a proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from leyden.server.contract.types import Operation
from leyden.server.errors import (
    Conflict,
    InternalError,
    InvalidRequest,
    NotFound,
    Problem,
    TooManyRequests,
    Unauthorized,
)
from leyden.server.http.authentication import challenge
from leyden.server.http.pipeline import PROBLEM
from leyden.service_faults.kinds import KEY_IN_USE, ServiceFaultRow

HEADER = b"leyden-fault"
Header = tuple[bytes, bytes]

_DETAIL = "a fault of this sandbox asks for this response"
_UNKNOWN = {"x_unknown": {"added_by": "a fault of this sandbox", "list": [1, None, "text"]}}


class Forbidden(Problem):
    """The answer of a service to a key without the permission."""

    status, code, title = 403, "forbidden", "Forbidden"


class Unavailable(Problem):
    """The answer of a service that is down for maintenance."""

    status, code, title = 503, "service_unavailable", "Service unavailable"


class BadGateway(Problem):
    """The answer of a proxy that does not reach the service."""

    status, code, title = 502, "bad_gateway", "Bad gateway"


_PROBLEMS: Mapping[int, type[Problem]] = {
    problem.status: problem
    for problem in (
        InvalidRequest, Unauthorized, Forbidden, NotFound, Conflict, TooManyRequests, InternalError, BadGateway,
        Unavailable,
    )
}  # fmt: skip


class Response(NamedTuple):
    """A whole response."""

    status: int
    headers: Sequence[Header]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, by its name in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    def with_headers(self, **changed: bytes) -> Response:
        """The response with these headers instead of its own of the same names; `_` stands for `-`."""
        new = {name.replace("_", "-").encode(): value for name, value in changed.items()}
        kept = [pair for pair in self.headers if pair[0].lower() not in new]
        return self._replace(headers=[*kept, *new.items()])


def error_response(row: ServiceFaultRow, request_id: str, operation: Operation, key_header: bytes) -> Response:
    """The response of a rule `error` or `key_in_use`, with the headers of every response with this status; a problem
    document also has those with which the operation answers any error. `key_header` is the name of the header for the
    API key."""
    response = _error_response(row, request_id)
    headers = challenge(key_header) if response.status == Unauthorized.status else {}
    if operation.errors_as == "lnurl" and response.header(b"content-type") == PROBLEM.encode():
        headers |= dict(operation.success.constants)
    more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return response._replace(headers=[*response.headers, *more])


def _error_response(row: ServiceFaultRow, request_id: str) -> Response:
    if row["kind"] == KEY_IN_USE:
        text = "a request with this Idempotency-Key is in progress, says a fault of this sandbox: repeat it later"
        return _problem(Conflict(text), request_id)
    status = row["status"] or InternalError.status
    headers: list[Header] = []
    if row["retry_after_ms"] is not None:
        headers.append((b"retry-after", b"%d" % -(-row["retry_after_ms"] // 1_000)))
    if row["body"] == "html":
        phrase = HTTPStatus(status).phrase
        text = (
            f"<html>\r\n<head><title>{status} {phrase}</title></head>\r\n<body>\r\n<center><h1>{status} {phrase}</h1>"
            "</center>\r\n<hr><center>proxy</center>\r\n</body>\r\n</html>\r\n"
        )
        return _response(status, [(b"content-type", b"text/html"), *headers], text.encode())
    if row["body"] == "empty":
        return _response(status, headers, b"")
    response = _problem(_PROBLEMS[status](_DETAIL), request_id)
    return response._replace(headers=[*response.headers, *headers])


def changed_response(row: ServiceFaultRow, response: Response, now_ms: int) -> Response:
    """The service's response with what the rule changes in it."""
    kind = row["kind"]
    if kind == "wrong_content_type":
        return response.with_headers(content_type=(row["value"] or "").encode("ascii"))
    if kind == "unknown_fields":
        return _with_unknown_fields(response)
    if kind in ("past_date", "future_date"):
        delay_ms = (row["delay_ms"] or 0) * (-1 if kind == "past_date" else 1)
        date = formatdate(max(0, now_ms + delay_ms) // 1_000, usegmt=True)
        return response.with_headers(date=date.encode("ascii"))
    return response


def changes(kind: str, response: Response, changed: Response) -> bool:
    """Whether a rule that is applied after the service has answered changes what the client gets: there is no part of
    an empty body to lose or to delay, and no field to add to a body that is no object."""
    if kind in ("truncated_body", "slow_body"):
        return bool(response.body)
    if kind == "unknown_fields":
        return changed.body != response.body
    if kind == "wrong_content_type":
        return changed.header(b"content-type") != response.header(b"content-type")
    return True


def _with_unknown_fields(response: Response) -> Response:
    try:
        value: Any = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        return response
    if not isinstance(value, dict):
        return response
    if isinstance(value.get("data"), dict):
        value["data"] = {**value["data"], **_UNKNOWN}
    body = orjson.dumps({**value, **_UNKNOWN})
    return response._replace(body=body).with_headers(content_length=b"%d" % len(body))


def _problem(problem: Problem, request_id: str) -> Response:
    body = orjson.dumps(problem.to_document(request_id))
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
    return _response(problem.status, [(b"content-type", PROBLEM.encode()), *headers], body)


def _response(status: int, headers: Sequence[Header], body: bytes) -> Response:
    return Response(status, [*headers, (b"content-length", b"%d" % len(body))], body)
