"""Signing: the header by which a receiver knows that a callback is ours and was not changed on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from standardwebhooks.webhooks import Webhook


def sign(secrets: Sequence[str], webhook_id: str, stamp_s: int, body: str) -> str:
    """The value of `webhook-signature` (Standard Webhooks 1.0): one `v1,...` per secret, in the given order.

    `stamp_s` is the value of `webhook-timestamp`, whole seconds since the epoch. During a rotation both secrets sign,
    so that receivers may change over when it suits them. Without secrets the text is empty.
    """
    moment = datetime.fromtimestamp(stamp_s, UTC)
    return " ".join(_signer(secret).sign(webhook_id, moment, body) for secret in secrets)


def signers(secrets: Sequence[Mapping[str, Any]], at: int) -> list[str]:
    """Which of a project's secrets (oldest first, as `Projects.secrets` gives them) sign at `at`: the newest, before
    those that it replaced and that are not over yet."""
    return [
        row["secret"]
        for row in reversed(secrets)
        # The newest of those that there were then, although it may have been replaced since, at the same instant.
        if row is secrets[-1] or row["until_ms"] is None or at < row["until_ms"]
    ]


@lru_cache(maxsize=64)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)
