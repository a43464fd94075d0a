"""Idempotency keys: a repeated request runs once, and gets the same response.

A stored response belongs to (project, operation, key). It is written in the same commit as the changes of the request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, cast

from leyden.server.errors import FieldError, IdempotencyMismatch
from leyden.server.ports import Clock
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

RETENTION_MS = 24 * 3_600_000


class IdempotencyRow(TypedDict):
    """A row of the table `idempotency`. `fingerprint` is a hash of the request body, `body` the response body."""

    id: str
    fingerprint: str
    status: int
    body: str
    created_at: int


class StoredResponse(NamedTuple):
    """The response to an earlier request: its status and exact body."""

    status: int
    body: bytes


class Idempotency:
    """Stores responses for 24 hours of the sandbox clock."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._clock = clock
        self._rows = cast(TypedTable[IdempotencyRow], store.table("idempotency", key="id"))

    def recall(self, project: str, operation_id: str, key: str, raw_body: Mapping[str, Any]) -> StoredResponse | None:
        """The stored response for this key, or None.

        Raises `IdempotencyMismatch` when the key was used with another request body.
        """
        row = self._rows.row(_row_id(project, operation_id, key))
        if row is None or self._clock.now() >= row["created_at"] + RETENTION_MS:
            return None
        if row["fingerprint"] != _fingerprint(raw_body):
            detail = "this Idempotency-Key was used with another body: use a new key for a new request"
            raise IdempotencyMismatch(detail, field_errors=[FieldError("header.idempotency-key", detail)])
        return StoredResponse(row["status"], row["body"].encode())

    def is_known(self, project: str, operation_id: str, key: str) -> bool:
        """Whether a request with this key has a stored response."""
        row = self._rows.row(_row_id(project, operation_id, key))
        return row is not None and self._clock.now() < row["created_at"] + RETENTION_MS

    def remember(
        self, project: str, operation_id: str, key: str, raw_body: Mapping[str, Any], status: int, body: bytes
    ) -> None:
        """Store a response, and delete those older than 24 hours."""
        now = self._clock.now()
        while (oldest := self._rows.oldest()) is not None and now >= oldest["created_at"] + RETENTION_MS:
            self._rows.delete(oldest["id"])
        row_id = _row_id(project, operation_id, key)
        self._rows.delete(row_id)  # a reused id moves to the end, so that the rows stay in order of age
        self._rows.put(
            {
                "id": row_id,
                "fingerprint": _fingerprint(raw_body),
                "status": status,
                "body": body.decode(),
                "created_at": now,
            }
        )


def _row_id(project: str, operation_id: str, key: str) -> str:
    return f"{project} {operation_id} {key}"


def _fingerprint(raw_body: Mapping[str, Any]) -> str:
    # Sorted names: the same object with its members in another order is the same request.
    # json, not orjson: ignored fields may hold integers of any size.
    return hashlib.sha256(json.dumps(raw_body, sort_keys=True).encode()).hexdigest()
