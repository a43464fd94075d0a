"""Mutations: functions that change a correct callback into a faulty one, one for each kind of content fault."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypedDict

import orjson

from leyden.arguments import hint
from leyden.errors import ArgumentError
from leyden.server.callbacks.signing import sign
from leyden.server.ports import CallbackRequest, RandomSource
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso

ID, STAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TIME = "leyden-time"
SIGNED_HEADERS = (ID, STAMP, SIGNATURE)
WRONG_CONTENT_TYPE, UNKNOWN_STATUS = "text/plain", "refunded"  # without a `value`
OFF_MS = 600_000  # twice the clock tolerance of Standard Webhooks

CONTENT_KINDS = (
    "truncated_body",
    "wrong_content_type",
    "unknown_field",
    "unknown_status",
    "bad_signature",
    "changed_body",
    "missing_headers",
    "stale_timestamp",
    "future_timestamp",
    "old_secret",
    "two_signatures",
    "unknown_version",
)


class ContentFault(TypedDict):
    """The fields of a fault's row (`leyden.callbacks.faults.kinds.FaultRow`) that say how a message is changed."""

    kind: str
    delay_ms: int | None
    headers: list[str] | None
    value: str | None


def mutated(
    fault: ContentFault, post: CallbackRequest, secrets: Sequence[str], old: str | None, rng: RandomSource
) -> CallbackRequest:
    """The request, changed as the fault's kind (one of `CONTENT_KINDS`) says; it is equal to `post` when this message
    has nothing that the fault could change.

    `secrets` are those that sign now; `old` is the one that `old_secret` signs with, or None without an earlier secret.
    The fault's `delay_ms` is how far a timestamp is off (default ten minutes), its `headers` are those that go
    missing (default: the three of the signature), its `value` is the content type, the extra field's name or the
    status. Raises `ValueError` for any other kind.
    """
    kind, headers, value = fault["kind"], fault["headers"], fault["value"]
    stamp_s = int(post.headers[STAMP])
    off_s = (OFF_MS if fault["delay_ms"] is None else fault["delay_ms"]) // 1_000
    match kind:
        case "truncated_body":
            return post._replace(body=post.body[: len(post.body) // 2])
        case "wrong_content_type":
            return _with(post, "content-type", value or WRONG_CONTENT_TYPE)
        case "unknown_field":
            return restamped(_with_field(post, "", value or "surprise", "sent on request"), secrets, stamp_s)
        case "unknown_status":
            return restamped(_with_field(post, "status", "status", value or UNKNOWN_STATUS), secrets, stamp_s)
        case "bad_signature":
            return _with(post, SIGNATURE, "v1," + base64.b64encode(rng.bytes(32)).decode())
        case "changed_body":
            changed = _with_field(post, "amount", "amount", "999000")
            return _with_field(post, "amount", "amount", "998000") if changed == post else changed
        case "missing_headers":
            missing = {name.lower() for name in (SIGNED_HEADERS if headers is None else headers)}
            kept = {name: text for name, text in post.headers.items() if name.lower() not in missing}
            return post._replace(headers=kept)
        case "stale_timestamp":
            return restamped(post, secrets, max(0, stamp_s - off_s))
        case "future_timestamp":
            return restamped(post, secrets, stamp_s + off_s)
        case "old_secret":
            return post if old is None else restamped(post, [old], stamp_s)
        case "two_signatures":
            return restamped(post, [invented_secret(rng), *secrets], stamp_s)
        case "unknown_version":
            return _with(post, SIGNATURE, post.headers.get(SIGNATURE, "").replace("v1,", "v2,"))
    raise ArgumentError(f"{quoted(kind)} is no way to change a callback: {hint(kind, CONTENT_KINDS)}")


def restamped(post: CallbackRequest, secrets: Sequence[str], stamp_s: int) -> CallbackRequest:
    """The same message as if it had been signed at `stamp_s`, with these secrets."""
    signature = sign(secrets, post.headers[ID], stamp_s, post.body.decode())
    return _with(_with(post, STAMP, str(stamp_s)), SIGNATURE, signature)


def resent(post: CallbackRequest, secrets: Sequence[str], stamp_s: int, at: int) -> CallbackRequest:
    """The same message as if it had been signed at `stamp_s` and sent at `at`, the sandbox's time in ms."""
    return _with(restamped(post, secrets, stamp_s), TIME, to_iso(at))


def renamed(post: CallbackRequest, secrets: Sequence[str], webhook_id: str) -> CallbackRequest:
    """Another message with the same body, signed again."""
    return restamped(_with(post, ID, webhook_id), secrets, int(post.headers[STAMP]))


def invented_secret(rng: RandomSource) -> str:
    """A random secret."""
    return "whsec_" + base64.b64encode(rng.bytes(32)).decode()


def _with(post: CallbackRequest, name: str, text: str) -> CallbackRequest:
    return post._replace(headers={**post.headers, name: text})


def _with_field(post: CallbackRequest, beside: str, name: str, value: Any) -> CallbackRequest:
    """The request with another field, next to the field `beside`, which may be inside an envelope's `data`."""
    body = orjson.loads(post.body)
    if beside and beside not in body and isinstance(body.get("data"), dict):
        body["data"] = {**body["data"], name: value}
    else:
        body[name] = value
    return post._replace(body=orjson.dumps(body))
