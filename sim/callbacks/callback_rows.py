"""Posts as plain data: a callback that waits in a table for the clock or for the disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.ports import CallbackRequest


def packed(post: CallbackRequest) -> dict[str, Any]:
    """The post as JSON values; its bytes stand one to one for the first 256 characters."""
    fields = {name: getattr(post, name) for name in post.__slots__}
    return {**fields, "headers": dict(post.headers), "body": post.body.decode("latin-1")}


def unpacked(row: Mapping[str, Any]) -> CallbackRequest:
    """The post that `packed` wrote down."""
    return CallbackRequest(**{**row, "body": row["body"].encode("latin-1")})
