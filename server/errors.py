"""The errors of the service. Their texts name what is wrong and how to correct it.

A `Problem` is an error response to an API client: it has an HTTP status and becomes an RFC 9457 document. A
`ContractError` stops the start-up: the spec, an overlay or a handler is wrong. A `StoreError` concerns the data
directory, a `ListenError` the server's address. Any other exception is a defect of Leyden.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from leyden.server.printable import printable

# The process, or the system, has as many files and connections open as it may.
TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
OPEN_MORE_FILES = "raise the number of files that a process may open, for example with `ulimit -n`"
NO_FILE_LEFT = "the server has as many files and connections open as it may: repeat the request later"
_MOST, _END = 1_000, 250  # characters of an error's text, and of its end, which says what to do


def _one_line(text: str) -> str:
    return printable(text if len(text) <= _MOST else f"{text[: _MOST - _END]} ... {text[-_END:]}")


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, the last one first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_out_of_files(error: BaseException) -> bool:
    """Whether an error, or one that led to it, means that no further file or connection can be opened."""
    return any(isinstance(one, OSError) and one.errno in TOO_MANY_FILES for one in with_causes(error))


class LeydenError(Exception):
    """The base class of all errors of Leyden. A command that it ends returns `exit_status`: 1, or 2 for its input.

    The text is one line of at most about 1,000 characters: it may quote paths and values that have any characters and
    any length. Those that are not printable are escaped, and the middle of a longer text is left out.
    """

    exit_status = 1

    def __init__(self, *texts: object) -> None:
        super().__init__(*(_one_line(each) if isinstance(each, str) else each for each in texts))


class ArgumentError(LeydenError, ValueError, TypeError):
    """An argument cannot be used; the text names it, says what was given, and what to give instead."""

    exit_status = 2


class ContractError(LeydenError):
    """The spec cannot be served. The text is `place in the spec: what is wrong; how to correct it`."""

    exit_status = 2


class StoreError(LeydenError):
    """The data cannot be opened, read or written. The text names the file and what to do."""

    exit_status = 2


class ListenError(LeydenError):
    """The server cannot listen on a host and port. The text names the address and the reason."""


class ServiceReplaced(LeydenError):
    """The service of this request ended before the request changed or read anything, in a reset for example. Its
    successor answers the request."""


class InvalidAmount(LeydenError, ValueError):
    """The text is not an amount in millisatoshis."""


class FieldError(NamedTuple):
    """One wrong field of a request: its JSON pointer (or `query.limit`, `header.accept`), and how to correct it."""

    pointer: str
    detail: str


class Problem(LeydenError):
    """An error response (RFC 9457). Subclasses set `status`, `code` and `title`.

    `code` is stable and meant for programs; `detail` is meant for people, says what to do, and may change.
    """

    status: int = 500
    code: str = "internal_error"
    title: str = "Internal error"

    def __init__(
        self, detail: str, *, field_errors: Sequence[FieldError] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field_errors = tuple(field_errors)
        self.headers: Mapping[str, str] = headers or {}

    def to_document(self, request_id: str) -> dict[str, Any]:
        """The problem+json body. `message` and `success` are for clients that read only the response envelope."""
        return {
            "type": f"urn:leyden:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "message": self.detail,
            "success": False,
            "errors": [{"pointer": error.pointer, "detail": error.detail} for error in self.field_errors],
            "request_id": request_id,
        }


class InvalidRequest(Problem):
    """A body or parameter does not match the spec."""

    status, code, title = 400, "invalid_request", "Invalid request"


class Unauthorized(Problem):
    """The API key is missing, unknown or replaced, or stands in another place; the text says which."""

    status, code, title = 401, "unauthorized", "Unauthorized"


class NotFound(Problem):
    """The resource does not exist for this API key: unknown or malformed id, or another project's resource."""

    status, code, title = 404, "not_found", "Not found"


class MethodNotAllowed(Problem):
    """The path has no such method; the header `Allow` lists its methods."""

    status, code, title = 405, "method_not_allowed", "Method not allowed"


class NotAcceptable(Problem):
    """The header `Accept` excludes the media type of the response."""

    status, code, title = 406, "not_acceptable", "Not acceptable"


class Conflict(Problem):
    """The request is valid, but the present state of the resource does not allow it."""

    status, code, title = 409, "conflict", "Conflict"


class SemanticConflict(Problem):
    """The request matches the schema, but its fields contradict each other or the resource's fixed facts.

    A schema violation has the status 400, so that a client or a fuzzer can predict it from the spec. What only the
    service can detect has the status 409.
    """

    status, code, title = 409, "not_possible", "Not possible"


class PayloadTooLarge(Problem):
    """The body is longer than the spec's `x-limits.bodyBytes`."""

    status, code, title = 413, "payload_too_large", "Payload too large"


class InvalidHttp(Problem):
    """The received bytes are not an HTTP/1.1 request."""

    status, code, title = 400, "invalid_http", "Invalid HTTP"


class UnknownTransferCoding(Problem):
    """The body has a transfer coding other than chunked."""

    status, code, title = 501, "unknown_transfer_coding", "Unknown transfer coding"


class RequestTimeout(Problem):
    """The request did not arrive in time."""

    status, code, title = 408, "request_timeout", "Request timeout"


class MisdirectedRequest(Problem):
    """The request is for a host that this server does not answer for."""

    status, code, title = 421, "misdirected_request", "Misdirected request"


class ForeignOrigin(Problem):
    """A page of another origin sent the request."""

    status, code, title = 403, "foreign_origin", "Foreign origin"


class UriTooLong(Problem):
    """The URL of the request is longer than the server reads."""

    status, code, title = 414, "uri_too_long", "URI too long"


class RequestHeadTooLarge(Problem):
    """The headers of the request are longer or more than the server reads."""

    status, code, title = 431, "request_head_too_large", "Request header fields too large"


class ServerBusy(Problem):
    """Every connection that the server accepts has a request in progress, or too much waits for its turn."""

    status, code, title = 503, "server_busy", "Server busy"


class ServerStopping(Problem):
    """The server stopped while the request was in progress."""

    status, code, title = 503, "server_stopping", "Server stopping"


class SandboxClosed(Problem):
    """The server still runs, but the sandbox that it serves was closed."""

    status, code, title = 503, "sandbox_closed", "Sandbox closed"


class UnsupportedMediaType(Problem):
    """The operation does not accept the body's Content-Type."""

    status, code, title = 415, "unsupported_media_type", "Unsupported media type"


class TooManyRequests(Problem):
    """The client sends too many requests; `Retry-After` says when to send the next one."""

    status, code, title = 429, "too_many_requests", "Too many requests"


class IdempotencyMismatch(Problem):
    """The Idempotency-Key was used before with another body."""

    status, code, title = 409, "idempotency_key_reused", "Idempotency key reused"


class InternalError(Problem):
    """A defect of Leyden. It is reported and not hidden, because a sandbox must show its defects."""


class StorageUnavailable(Problem):
    """The disk refused the write (full, read-only). The request changed nothing; earlier data is unchanged."""

    status, code, title = 507, "storage_unavailable", "Storage unavailable"
