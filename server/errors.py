"""What can go wrong, said so that the reader can mend it.

Three families. A `Problem` is an answer to a caller: it has an HTTP status and becomes an RFC 9457 document.
A `ContractError` stops the start: the spec, an overlay or a handler is wrong, and the text names the place.
A `StoreError` concerns the data directory. Anything else that escapes is a defect of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class LeydenError(Exception):
    """The root of every error that Leyden raises on purpose."""


class ContractError(LeydenError):
    """The spec cannot be served. The text is `place: what is wrong; how to mend it`."""


class StoreError(LeydenError):
    """The data cannot be opened, read or written. The text names the file and the way out."""


class ListenError(LeydenError):
    """A host and port cannot be listened on. The text says why."""


class InvalidAmount(LeydenError, ValueError):
    """A text that is not a wire amount."""


class FieldError(NamedTuple):
    """One wrong place in a request: a JSON pointer (or `query.limit`, `header.accept`) and the mend."""

    pointer: str
    detail: str


class Problem(LeydenError):
    """An error answer (RFC 9457). Subclasses fix `status`, `code` and `title`; `detail` says what to do.

    `code` is the stable word programs branch on; `detail` is for people and may change.
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
        """The problem+json body. `message` and `success` serve clients that only know the envelope."""
        return {
            "type": f"urn:leyden:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "message": self.detail,
            "success": False,
            "errors": [{"pointer": fault.pointer, "detail": fault.detail} for fault in self.field_errors],
            "request_id": request_id,
        }


class InvalidRequest(Problem):
    """A body or parameter that breaks the contract."""

    status, code, title = 400, "invalid_request", "Invalid request"


class Unauthorized(Problem):
    """No key, or one nobody holds: the two are answered alike."""

    status, code, title = 401, "unauthorized", "Unauthorized"


class NotFound(Problem):
    """Nothing there for this key: never there, malformed id, or another project's."""

    status, code, title = 404, "not_found", "Not found"


class MethodNotAllowed(Problem):
    """The path exists, the method does not; `Allow` lists those that do."""

    status, code, title = 405, "method_not_allowed", "Method not allowed"


class NotAcceptable(Problem):
    """`Accept` leaves out everything this operation can answer with."""

    status, code, title = 406, "not_acceptable", "Not acceptable"


class Conflict(Problem):
    """The request is sound but the resource's present state refuses it."""

    status, code, title = 409, "conflict", "Conflict"


class SemanticConflict(Problem):
    """A request that keeps the schema and still cannot be: fields that contradict each other, a number's spelling.

    400 is for what the schema refuses, so that a client (or a fuzzer) can know it beforehand; what only the service
    can see is answered 409.
    """

    status, code, title = 409, "not_possible", "Not possible"


class PayloadTooLarge(Problem):
    """More bytes than the document's `x-limits.bodyBytes`."""

    status, code, title = 413, "payload_too_large", "Payload too large"


class UnsupportedMediaType(Problem):
    """A body whose Content-Type the operation does not read."""

    status, code, title = 415, "unsupported_media_type", "Unsupported media type"


class TooManyRequests(Problem):
    """The caller asks too often; `Retry-After` says when to ask again."""

    status, code, title = 429, "too_many_requests", "Too many requests"


class IdempotencyMismatch(Problem):
    """An Idempotency-Key seen before with another body."""

    status, code, title = 409, "idempotency_key_reused", "Idempotency key reused"


class InternalError(Problem):
    """A defect of Leyden's own: said loudly, because a sandbox that hides its defects is useless."""


class StorageUnavailable(Problem):
    """The disk refused the write (full, read-only). Nothing was accepted; earlier data is untouched."""

    status, code, title = 507, "storage_unavailable", "Storage unavailable"
