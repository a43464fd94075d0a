"""Signatures of callbacks (Standard Webhooks 1.0): the receiver verifies the sender and the unchanged body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypedDict

from standardwebhooks.webhooks import Webhook

from leyden.server.errors import ArgumentError

_SECRET = re.compile(  # the last form is that of 63 and 64 bytes
    "whsec_(?:(?:[A-Za-z0-9+/]{4}){8,20}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
    "|(?:[A-Za-z0-9+/]{4}){21}(?:[A-Za-z0-9+/]{2}==)?)"
)


class SecretRow(TypedDict):
    """A callback secret, `whsec_...`, of a project. `until_ms` is None for the current one."""

    secret: str
    from_ms: int
    until_ms: int | None


def check_secret(text: str) -> None:
    """Raise `ValueError` unless the text is a secret of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64."""
    if not isinstance(text, str) or not _SECRET.fullmatch(text):
        raise ArgumentError("that is not a webhook secret: give whsec_ and 24 to 64 bytes in base64")


# A header with more signatures would be refused by common servers: 170 of them are more than 8 KiB.
MAX_SIGNING = 3


def sign(secrets: Sequence[str], webhook_id: str, timestamp_s: int, body: str) -> str:
    """The value of the header `webhook-signature`: one `v1,...` per secret, in the given order.

    `timestamp_s` is the value of `webhook-timestamp` in seconds since the epoch. During a rotation the old and the new
    secret both sign, so that a receiver can change over at any time. Without secrets the text is empty.
    """
    return " ".join(sign_once(secret, webhook_id, timestamp_s, body) for secret in secrets)


@lru_cache(maxsize=16)
def sign_once(secret: str, webhook_id: str, timestamp_s: int, body: str) -> str:
    """One signature, `v1,...`. The latest are remembered: the receivers in this process verify what was just signed."""
    return _signer(secret).sign(webhook_id, datetime.fromtimestamp(timestamp_s, UTC), body)


def signing_rows(secrets: Sequence[SecretRow], at: int) -> list[SecretRow]:
    """The secrets that sign at instant `at`, the newest first: at most `MAX_SIGNING`, however often they are rotated.
    One that was given again signs once.

    `secrets` are a project's, the oldest first.
    """
    if len(secrets) == 1:
        return [*secrets]
    newest = {row["secret"]: row for row in secrets}
    distinct = [row for row in reversed(secrets) if newest[row["secret"]] is row]
    return [
        row
        for row in distinct[:MAX_SIGNING]
        # The last one always signs, even when it was replaced later at the same instant.
        if row is secrets[-1] or row["until_ms"] is None or at < row["until_ms"]
    ]


def signing_rows_then(secrets: Sequence[SecretRow], at: int) -> list[SecretRow]:
    """The secrets that signed at instant `at`, which may be long past, the newest first; before the first secret, it.

    At the instant of a rotation those from before it signed, too, so there they may be more than `MAX_SIGNING`.
    """
    at_it = [row for row in reversed(secrets) if row["from_ms"] == at]
    earlier = [row for row in secrets if row["from_ms"] < at]
    signing = [*at_it, *(signing_rows(earlier, at) if earlier else [])] or [secrets[0]]
    newest: dict[str, SecretRow] = {}
    for row in signing:
        newest.setdefault(row["secret"], row)
    return list(newest.values())


def stops_at_ms(secrets: Sequence[SecretRow], row: SecretRow) -> int | None:
    """The instant at which the secret of this row, one of `secrets`, stops to sign: the end of its rotation, or an
    earlier one at which `MAX_SIGNING` newer ones sign. A secret that is given again before that goes on. None for one
    that is not replaced."""
    text, until_ms, newer = row["secret"], row["until_ms"], set[str]()
    for later in secrets[secrets.index(row) + 1 :]:
        if until_ms is not None and later["from_ms"] > until_ms:
            break
        if later["secret"] == text:
            until_ms, newer = later["until_ms"], set()
            continue
        newer.add(later["secret"])
        if len(newer) == MAX_SIGNING:
            return later["from_ms"]
    return until_ms


def valid_secrets(secrets: Sequence[SecretRow], at: int) -> list[str]:
    """The texts of `signing_rows`."""
    return [row["secret"] for row in signing_rows(secrets, at)]


@lru_cache(maxsize=64)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)
