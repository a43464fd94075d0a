"""Stores a callback request as a field of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.ports import CallbackRequest


def packed(post: CallbackRequest) -> dict[str, Any]:
    """The request as JSON values; each byte of the body is the character of that number (Latin-1)."""
    fields = {name: getattr(post, name) for name in post.__slots__}
    copied_by = None if post.copied_by is None else list(post.copied_by)
    return {**fields, "headers": dict(post.headers), "body": post.body.decode("latin-1"), "copied_by": copied_by}


def unpacked(row: Mapping[str, Any]) -> CallbackRequest:
    """The request that `packed` wrote."""
    copied_by = None if row["copied_by"] is None else tuple(row["copied_by"])
    return CallbackRequest(**{**row, "body": row["body"].encode("latin-1"), "copied_by": copied_by})


def request_id(post: CallbackRequest) -> str:
    """A text that no other request in flight has: the delivery, the attempt and, for a copy, its origin."""
    return "#".join(map(str, (post.delivery_id, post.attempt, *(post.copied_by or ()))))
