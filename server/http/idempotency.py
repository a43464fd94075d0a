"""Idempotency keys: the same request sent twice is done once, and answered alike.

A remembered answer belongs to (project, operation, key) and is written in the same commit as what the request did, so
there is no moment at which one exists without the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from leyden.server.errors import FieldError, IdempotencyMismatch
from leyden.server.ports import Clock
from leyden.server.store.store import Store

RETENTION_MS = 24 * 3_600_000


class StoredResponse(NamedTuple):
    """An answer given before: its status and exact body."""

    status: int
    body: bytes


class Idempotency:
    """Remembers answers for 24 hours of the world's clock."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._clock = clock
        self._rows = store.table("idempotency", key="id")

    def recall(self, project: str, operation_id: str, key: str, submitted: Mapping[str, Any]) -> StoredResponse | None:
        """The answer this key was given before, or None.

        Raises `IdempotencyMismatch` when the key came with another body.
        """
        row = self._rows.row(_name(project, operation_id, key))
        if row is None or self._clock.now() >= row["created_at"] + RETENTION_MS:
            return None
        if row["fingerprint"] != _fingerprint(submitted):
            detail = "this Idempotency-Key was used with another body: use a new key for a new request"
            raise IdempotencyMismatch(detail, field_errors=[FieldError("header.idempotency-key", detail)])
        return StoredResponse(row["status"], row["body"].encode())

    def remember(
        self, project: str, operation_id: str, key: str, submitted: Mapping[str, Any], status: int, body: bytes
    ) -> None:
        """Keep an answer; what has outlived its 24 hours is let go, oldest first."""
        now = self._clock.now()
        stale = list(takewhile(lambda row: now >= row["created_at"] + RETENTION_MS, self._rows))
        for row in stale:
            self._rows.delete(row["id"])
        name = _name(project, operation_id, key)
        self._rows.delete(name)  # so that a name used again stands last, and the oldest stay first
        self._rows.put(
            {
                "id": name,
                "fingerprint": _fingerprint(submitted),
                "status": status,
                "body": body.decode(),
                "created_at": now,
            }
        )


def _name(project: str, operation_id: str, key: str) -> str:
    return f"{project} {operation_id} {key}"


def _fingerprint(submitted: Mapping[str, Any]) -> str:
    # Sorted names: the same object with its members in another order is the same request.
    # (The standard library's writer, because ignored fields may hold integers of any size.)
    return hashlib.sha256(json.dumps(submitted, sort_keys=True).encode()).hexdigest()
