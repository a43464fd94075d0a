"""Replies: the responses that a built-in receiver can give, and how they are stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypedDict

from leyden.arguments import is_utf8, span_from
from leyden.callbacks.callback_rows import ReplyRow
from leyden.errors import ArgumentError
from leyden.server.callbacks.attempts import KEPT_BYTES, READ_CAP_BYTES, Attempt
from leyden.server.callbacks.deliveries import BLOCKED, status_note
from leyden.server.callbacks.egress import NO_CONNECTION, NO_LOOKUP, NOTHING_WRITTEN
from leyden.server.ports import CallbackResponse
from leyden.server.printable import cut, quoted
from leyden.server.timestamps import span_in_words

TIMEOUT, RESET, REFUSED, UNRESOLVED, TLS, PROTOCOL = "timeout", "reset", "refused", "unresolved", "tls", "protocol"
EMPTY, HUGE, ENDLESS, COMMIT_THEN_500 = "empty", "huge", "endless", "commit_then_500"

NOT_RECEIVED = frozenset({REFUSED, UNRESOLVED, TLS})  # the request does not reach the receiver
HUGE_BYTES = 10_000_000
LONGEST_BODY = 1_000_000_000


class _WordFields(TypedDict, total=False):
    late_ms: int  # never set: a type checker wants all keys of a row here
    status: int
    error: str | None
    size: int | None
    commits: bool


# The meaning of each word as fields of a stored reply.
_WORD_FIELDS: Mapping[str, _WordFields] = {
    TIMEOUT: {"error": TIMEOUT},
    RESET: {"error": RESET},
    REFUSED: {"error": REFUSED},
    UNRESOLVED: {"error": UNRESOLVED},
    TLS: {"error": TLS},
    PROTOCOL: {"error": PROTOCOL},
    EMPTY: {"error": RESET},
    HUGE: {"error": None, "status": 200, "size": HUGE_BYTES, "commits": True},
    ENDLESS: {"error": TIMEOUT, "commits": True},
    COMMIT_THEN_500: {"error": None, "status": 500, "commits": True},
}
WORDS = tuple(_WORD_FIELDS)
_TEXTS = 'write for example body="sorry" and headers={"Retry-After": "30"}'
_NAMES = ("status", "headers", "body", "delay", "error", "commits", "size")

# What `parse_reply` reads, as a JSON Schema.
_STATUS = {"type": "integer", "minimum": 200, "maximum": 599}
REPLY_SCHEMA: Mapping[str, Any] = {
    "anyOf": [
        _STATUS,
        {"enum": list(WORDS)},
        {
            "type": "object",
            "properties": {
                "status": _STATUS,
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": {"type": "string"},
                "delay": {"type": ["number", "string"]},
                "error": {"enum": [*WORDS, None]},
                "commits": {"type": ["boolean", "null"]},
                "size": {"type": ["integer", "null"], "minimum": 0, "maximum": LONGEST_BODY},
            },
            "additionalProperties": False,
        },
    ]
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of a receiver: `status` with `headers` and `body`, or the `error` word instead, after `delay` of
    sandbox time (a number of seconds or a text such as "2s"). A delay of the attempt's timeout or more is a timeout.

    `size` replaces `body` by a body of that many bytes. `commits` is whether the receiver acts on the message; the
    default is whether `status` is 2xx, also when the response comes too late.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    delay: str | float = 0
    error: str | None = None
    commits: bool | None = None
    size: int | None = None


ReplySpec = int | str | Reply


def never_left(response: CallbackResponse | Attempt) -> bool:
    """Whether nothing of the message was sent, as a response or an attempt says: there was no connection to send it on.
    A message that a fault has dropped is not meant."""
    if response.error == "timeout":
        return response.note.startswith((*NO_LOOKUP, *NO_CONNECTION))
    if response.error == RESET:
        return response.note.startswith(NOTHING_WRITTEN)
    return response.error == BLOCKED or response.error in NOT_RECEIVED


def parse_reply(value: Any) -> ReplySpec:
    """The reply in a JSON value: a status, an error word, or an object with the fields of a `Reply`.

    Raises `ValueError` for anything else.
    """
    reply = value
    if isinstance(value, dict):
        for name in value:
            if name not in _NAMES:
                raise ArgumentError(f"a reply has no {quoted(cut(str(name), 60))}: give some of {', '.join(_NAMES)}")
        reply = Reply(**value)
    stored_reply(reply)
    return reply if isinstance(reply, Reply | str) else int(reply)


def stored_reply(spec: ReplySpec) -> ReplyRow:
    """The reply as JSON values. Raises `ValueError`, with what to do instead, when it is not valid."""
    reply = spec
    if isinstance(reply, str):
        reply = Reply(error=reply.lower() if reply.lower() in WORDS else reply)
    elif not isinstance(reply, Reply):
        reply = Reply(status=reply)
    if reply.error is not None and (not isinstance(reply.error, str) or reply.error not in WORDS):
        raise ArgumentError(
            f"{quoted(reply.error)} is not a reply: give a status, a Reply or one of {', '.join(sorted(WORDS))}"
        )
    if type(reply.status) is not int or not 200 <= reply.status <= 599:
        raise ArgumentError(f"{quoted(reply.status)} is not a final HTTP status: give a whole number from 200 to 599")
    if reply.size is not None and (type(reply.size) is not int or not 0 <= reply.size <= LONGEST_BODY):
        raise ArgumentError(f"{quoted(reply.size)} is not a body size: give 0 to {LONGEST_BODY} bytes")
    if reply.commits is not None and type(reply.commits) is not bool:
        raise ArgumentError(f"commits is {quoted(reply.commits)}: give true, false, or leave it out")
    if not isinstance(reply.body, str) or not isinstance(reply.headers, Mapping):
        raise ArgumentError(f"a reply's body is a text and its headers are an object of texts: {_TEXTS}")
    if not all(isinstance(text, str) for pair in reply.headers.items() for text in pair):
        raise ArgumentError(f"the names and values of a reply's headers are texts: {_TEXTS}")
    if not all(map(is_utf8, (reply.body, *reply.headers, *reply.headers.values()))):
        raise ArgumentError("a reply's body or headers have half a character, a surrogate: give texts without")
    if not isinstance(reply.delay, str | float | int | timedelta):
        raise ArgumentError(f'{quoted(reply.delay)} is not a delay: give a number of seconds or a text such as "2s"')
    delay_ms = span_from("delay", reply.delay)
    word_fields: _WordFields = {} if reply.error is None else _WORD_FIELDS[reply.error]
    plain: ReplyRow = {
        "status": reply.status,
        "headers": {key.lower(): value for key, value in reply.headers.items()},
        "body": reply.body,
        "delay_ms": delay_ms,
        "error": None,
        "word": reply.error,
        "size": reply.size,
        "commits": reply.error is None and 200 <= reply.status <= 299,
        **word_fields,
    }
    return plain if reply.commits is None else {**plain, "commits": reply.commits}


def reply_resource(plain: ReplyRow) -> dict[str, Any]:
    """A stored reply in the form that `parse_reply` reads; `delay` is in seconds."""
    return {
        "status": plain["status"],
        "headers": plain["headers"],
        "body": plain["body"],
        "delay": plain["delay_ms"] / 1_000,
        "error": plain["word"],
        "commits": plain["commits"],
        "size": plain["size"],
    }


def word_of(plain: ReplyRow) -> str:
    """The error word of a stored reply, or its status."""
    return str(plain["word"] or plain["status"])


def is_acknowledged(reply: ReplyRow, received: Collection[int]) -> bool:
    """Whether the sender takes the callback for delivered: the reply has one of the statuses that are `received`."""
    return reply["error"] is None and reply["status"] in received


def timed_out(plain: ReplyRow, timeout_ms: int) -> ReplyRow:
    """The reply to a sender that waits no longer than `timeout_ms`: none."""
    late: ReplyRow = plain if plain["error"] == TIMEOUT else {**plain, "late_ms": plain["delay_ms"]}
    return {**late, "delay_ms": timeout_ms, "error": TIMEOUT, "word": plain["word"] or TIMEOUT}


def answer_from(plain: ReplyRow, name: str) -> CallbackResponse:
    """The stored reply of receiver `name` as a response; its body is cut as the body of a real response is."""
    latency_ms = plain["delay_ms"]
    if plain["error"] is not None:
        note = f"the receiver {name!r} is set to answer "
        if "late_ms" in plain:
            answer = plain["status"] if plain["word"] == TIMEOUT else plain["word"]
            note += f"{answer} after {span_in_words(plain['late_ms'])}, which is too late"
        else:
            note += "so" if plain["word"] in (None, plain["error"]) else f"so: {plain['word']}"
        return CallbackResponse(error=plain["error"], note=note, latency_ms=latency_ms)
    body = plain["body"].encode() if plain["size"] is None else b"x" * min(plain["size"], READ_CAP_BYTES + 1)
    note = status_note(plain["status"], plain["headers"].get("location", ""))
    if len(body) > READ_CAP_BYTES:
        note = "; ".join(filter(None, [note, f"reading stopped after {READ_CAP_BYTES} bytes"]))
    return CallbackResponse(
        status=plain["status"], headers=plain["headers"], body=body[:KEPT_BYTES], note=note, latency_ms=latency_ms
    )
