"""The rows of the receivers and of their inboxes, and a callback request as a field of a row."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from leyden.server.ports import CallbackRequest


class RequestRow(TypedDict):
    """A `CallbackRequest` as JSON values; each byte of the body is the character of that number (Latin-1)."""

    delivery_id: str
    attempt: int
    url: str
    headers: dict[str, str]
    body: str
    connect_timeout_ms: int
    timeout_ms: int
    send_duration_ms: int
    copied_by: list[Any] | None


class ReplyRow(TypedDict):
    """A `Reply` as JSON values. `error` is the error of the response, `word` the word that asked for it; `commits` says
    whether the receiver acts on the callback. `late_ms` is the delay that the reply of a timed-out attempt was set to.
    """

    status: int
    headers: dict[str, str]
    body: str
    delay_ms: int
    error: str | None
    word: str | None
    size: int | None
    commits: bool
    late_ms: NotRequired[int]


class ReplyRuleRow(TypedDict):
    """A rule of `Receiver.when`: the reply, what it matches (None: all), and the `count` left (None: always)."""

    reply: ReplyRow
    event: str | None
    charge: str | None
    attempt: int | None
    count: int | None


class DownRow(TypedDict):
    """A time when a receiver is down, every day (UTC) or once: from `from_ms` (included) to `until_ms` (excluded). A
    daily window whose end is before its start includes midnight."""

    daily: bool
    from_ms: int
    until_ms: int


class BehaviourRow(TypedDict):
    """`Receiver.behaves`: the share of failures and what they are, the distribution of the latency, when it is down."""

    failure: float
    fails_with: ReplyRow
    latency: list[Any] | None
    down: list[DownRow]


class ReceiverRow(TypedDict):
    """Table `receivers`: `script` are the next replies, `default` the one after them, `objections` counts the callbacks
    that failed verification. `restored` is the number of the `received` callbacks that were in the snapshot to which
    the sandbox was restored, and `restores` the `RestoresRow.count` when the row was written; both are absent before a
    restore. If that count is another one now, all of the `received` callbacks were in the snapshot. `behaviour` is
    absent until one is set."""

    id: str
    script: list[ReplyRow]
    rules: list[ReplyRuleRow]
    default: ReplyRow
    secret: str | None
    received: int
    objections: int
    restored: NotRequired[int]
    restores: NotRequired[int]
    behaviour: NotRequired[BehaviourRow | None]


class RestoresRow(TypedDict):
    """Table `restores`, row `receivers`: `count` is how often the rows of the receivers were in a snapshot to which a
    sandbox was restored. The row is absent before the first time."""

    id: str
    count: int


class LateReplyRow(TypedDict):
    """Table `late_answers`: a response that a receiver gives at `due_at` (ms), which rows of earlier versions do not
    have."""

    id: str
    receiver: str
    post: RequestRow
    reply: ReplyRow
    due_at: NotRequired[int]


class ReceivedFields(TypedDict):
    """A callback as it reached a receiver: the fields of `leyden.callbacks.inboxes.Received`."""

    at: int
    url: str
    path: str
    headers: dict[str, str]
    body: str
    attempt: int
    answer: int | str
    repeated: bool
    commits: bool
    verdict: list[str]


class PostRow(ReceivedFields):
    """Table `received`, `id` is `<receiver>#<number>`. `acknowledged`: whether the sender got a 2xx response. `copy` is
    true of what a fault sent besides an attempt; earlier versions left it out otherwise, or always."""

    id: str
    webhook_id: str
    acknowledged: bool
    copy: NotRequired[bool]


class HeldRow(TypedDict):
    """Table `held_back`: an attempt that a fault delays. `id` is the delivery's, `fault` the fault's id.

    For `reorder`, `waits` is `release` until another attempt has ended that started since then, and then `effect` until
    one has started that was due after this one; otherwise null, and absent in rows of earlier versions. `overtaken_by`
    has the attempts whose end releases this one, in the form of `HitRow.id`. `not_overtaken_by` is the last one of
    those that was due before this one and was held, too: it has not overtaken it.
    """

    id: str
    attempt: int
    fault: str
    kind: str
    waits: NotRequired[str | None]
    overtaken_by: NotRequired[list[str]]
    not_overtaken_by: NotRequired[str]


class WaitingRow(TypedDict):
    """Table `fault_posts`: a copy that is sent at `due_at` (ms), or a dropped attempt that then times out.

    `post` is a `CallbackRequest` as `packed` writes it; `sign_again` gives a copy the timestamp, the signature
    and the `leyden-time` of the moment at which it is sent.
    """

    id: str
    post: RequestRow
    due_at: int
    is_copy: bool
    sign_again: bool


class HitEventRow(TypedDict):
    """What happened at the instant `at` to an attempt because of a fault: `event` is a kind of the event journal,
    `fault` the kind of the fault. `answer` is the status or the error with which a copy ended; otherwise empty. `by`
    is the id of a fault that applied, and absent otherwise and in rows of earlier versions. So is `hit`, the number of
    the hit, of a fault that sends something else or a copy."""

    at: int
    event: str
    fault: str
    answer: str
    by: NotRequired[str]
    hit: NotRequired[int]


class SentRow(TypedDict):
    """A message that a fault sent: its headers, and its body as a text, with U+FFFD for what is not UTF-8."""

    headers: dict[str, str]
    body: str


class HitRow(TypedDict):
    """Table `fault_hits`, `id` is `<delivery>#<attempt>`: the fault that applied to an attempt, and what was sent
    instead.

    `sent` has the messages in their order; it is empty when nothing was sent, and None when the message was left as it
    was.
    Rows of earlier versions have no `events`.
    """

    id: str
    kind: str
    sent: list[SentRow] | None
    events: NotRequired[list[HitEventRow]]


def packed(post: CallbackRequest) -> RequestRow:
    """The request as a row."""
    return {
        "delivery_id": post.delivery_id,
        "attempt": post.attempt,
        "url": post.url,
        "headers": dict(post.headers),
        "body": post.body.decode("latin-1"),
        "connect_timeout_ms": post.connect_timeout_ms,
        "timeout_ms": post.timeout_ms,
        "send_duration_ms": post.send_duration_ms,
        "copied_by": None if post.copied_by is None else list(post.copied_by),
    }


def unpacked(row: RequestRow) -> CallbackRequest:
    """The request that `packed` wrote."""
    copied_by = None if row["copied_by"] is None else tuple(row["copied_by"])
    fields: dict[str, Any] = {**row, "body": row["body"].encode("latin-1"), "copied_by": copied_by}
    return CallbackRequest(**fields)


def attempt_id(delivery_id: str, number: int) -> str:
    """The id of the row of an attempt: the `request_id` of its message."""
    return f"{delivery_id}#{number}"


def attempt_of(row: RequestRow) -> tuple[str, int]:
    """The delivery id and the number of the attempt that the request belongs to."""
    return row["delivery_id"], row["attempt"]


def request_id(post: CallbackRequest) -> str:
    """A text that no other request in flight has: the delivery, the attempt and, for a copy, its origin."""
    return "#".join(map(str, (post.delivery_id, post.attempt, *(post.copied_by or ()))))
