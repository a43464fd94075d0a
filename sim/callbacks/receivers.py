"""Built-in callback receivers: they answer from a script and verify every callback that they receive.

receivers["shop"].answers([500, TIMEOUT, Reply(200, delay="2s")])    # then 200 again
receivers["shop"].inbox[-1].json["status"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, Unpack, cast

import orjson

from leyden.arguments import hint
from leyden.callbacks.behaviour import down_reply, drawn_reply, is_down
from leyden.callbacks.callback_rows import (
    LateReplyRow,
    ReceivedFields,
    ReceiverRow,
    ReplyRow,
    ReplyRuleRow,
    RestoresRow,
    attempt_id,
    attempt_of,
    packed,
    request_id,
    unpacked,
)
from leyden.callbacks.inboxes import KEPT_POSTS, Inbox, Posts
from leyden.callbacks.inspection import body_faults, signature_faults
from leyden.callbacks.receiver import Receiver, ReceiverChanges
from leyden.callbacks.replies import (
    NOT_RECEIVED,
    TIMEOUT,
    ReplySpec,
    answer_from,
    is_acknowledged,
    stored_reply,
    timed_out,
)
from leyden.errors import ArgumentError
from leyden.rng import RandomStream
from leyden.server.callbacks.egress import is_allowed_port
from leyden.server.callbacks.url_parts import host_of, url_parts
from leyden.server.contract.types import ANY_SUCCESS, CallbackRule
from leyden.server.ports import CALLBACK, CallbackRequest, CallbackResponse, Clock, EventJournal
from leyden.server.printable import quoted
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import to_iso

TIMER = "receiver_answer"
_RESTORES = "receivers"

Responded = Callable[[CallbackRequest, CallbackResponse], None]

_DEFAULT = stored_reply(200)


class ReceiverSummary(NamedTuple):
    """A receiver in their list; the counts are those of `ReceiverRow`."""

    doc_id: int
    name: str
    received: int
    restored: int
    objections: int


class Receivers:
    """All receivers of one sandbox; a `CallbackTransport` that stays in process.

    `rules` are the contract's callbacks, for the bodies' schemas; `secrets_at(instant)` gives every secret that may
    sign at that instant. Without `rules` bodies are not verified, without `secrets_at` signatures are not. The host
    `shop.localhost` is the receiver `shop`; a receiver is stored when it gets its first setting or callback. Scripts,
    inboxes and delayed responses are rows of the store: they belong to the commit of what caused them. A delayed
    response goes to the function of the last `post`, or to that of `connect` before the first.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: EventJournal,
        *,
        rules: Mapping[str, CallbackRule] | None = None,
        kept: int | None = None,
        stream: Callable[[str], RandomStream] | None = None,
    ) -> None:
        """`kept` bounds the callbacks that each inbox stores; the bound is at most 10,000. `stream` returns the random
        stream of a name; without it no receiver can have random behaviour."""
        self._store = store
        self._clock = clock
        self._journal = journal
        self._rules = rules
        # The statuses that a document has for responses: those of all its callbacks, which mostly are the same.
        received = [rule.delivery.received for rule in (rules or {}).values()]
        self._received = frozenset[int]().union(*received) or ANY_SUCCESS
        self._stream = stream
        self._responded: Responded | None = None
        self._secrets_at: Callable[[int], Sequence[str]] | None = None
        self._states = cast(TypedTable[ReceiverRow], store.table("receivers", key="id"))
        self._states.declare_summary(_summary)
        self._restores = cast(TypedTable[RestoresRow], store.table("restores", key="id"))
        self._late = cast(TypedTable[LateReplyRow], store.table("late_answers", key="id"))
        self._posts = Posts(store, min(kept or KEPT_POSTS, KEPT_POSTS))
        clock.on(TIMER, self._answer_late)

    def connect(self, responded: Responded, secrets_at: Callable[[int], Sequence[str]]) -> None:
        """Give late responses to `responded`, and verify signatures with `secrets_at(instant)`: every secret that may
        sign at that instant."""
        self._responded = responded
        self._secrets_at = secrets_at

    def __getitem__(self, name: str) -> Receiver:
        return self.receiver(name)

    def __iter__(self) -> Iterator[Receiver]:
        names = sorted(self._states.ids_by_value("id"), key=itemgetter(1))
        return (self.receiver(name) for name, _ in names)

    def names(self, limit: int) -> list[str]:
        """The names of at most `limit` receivers, in no order."""
        return [name for name, _ in islice(self._states.ids_by_value("id"), limit)]

    def page(self, after: int | None, limit: int) -> list[ReceiverSummary]:
        """At most `limit` receivers after the document id `after`, the oldest first."""
        # No packed row is read: a script may have a thousand replies.
        page, restores = self._states.summaries_up(after, limit), self._restore_count()
        return [
            ReceiverSummary(doc_id, name, received, restored if number == restores else received, objections)
            for doc_id, (name, received, restored, number, objections) in page.items()
        ]

    def is_known(self, name: str) -> bool:
        """Whether the receiver has a script or has got a request."""
        return self._states.row(_name(name)) is not None

    def receiver(
        self, name: str, *, answers: Sequence[ReplySpec] | None = None, always: ReplySpec | None = None
    ) -> Receiver:
        """The receiver of this name or host, with a script if one is given."""
        receiver = Receiver(_name(name), lambda: self)
        if answers is not None:
            receiver.answers(answers)
        if always is not None:
            receiver.always(always)
        return receiver

    def state(self, name: str) -> ReceiverRow:
        """The stored state of a receiver."""
        stored = self._states.row(name)
        if stored is not None:
            return stored
        return {
            "id": name, "script": [], "rules": [], "default": _DEFAULT, "secret": None, "received": 0, "objections": 0,
        }  # fmt: skip

    def change(self, name: str, **changes: Unpack[ReceiverChanges]) -> None:
        """Change fields of a receiver's state."""
        state, restores = self.state(name), self._restore_count()
        if state.get("restores", 0) != restores:
            state = {**state, "restored": state["received"], "restores": restores}
        self._states.put({**state, **changes})

    def restored(self, name: str) -> int:
        """The number of the callbacks that a receiver has received before the sandbox was restored."""
        state = self.state(name)
        is_former = state.get("restores", 0) != self._restore_count()
        return state["received"] if is_former else state.get("restored", 0)

    def check_event(self, event: str | None) -> None:
        """Raise `ValueError` for an event that no callback of the contract has."""
        known = {name for rule in (self._rules or {}).values() for name in rule.delivery.events.values()}
        if event is not None and (not isinstance(event, str) or (known and event not in known)):
            raise ArgumentError(f"event={quoted(event)} is not an event of the spec: {hint(event, sorted(known))}")

    def inbox(self, name: str) -> Inbox:
        """The callbacks that the receiver has received."""
        return Inbox(name, self._posts, self.state(name)["received"])

    # The port

    def post(self, post: CallbackRequest, answered: Responded) -> None:
        """Give the request to its host's receiver. The response comes at once, or by a timer if it is delayed."""
        self._responded = answered
        parts = url_parts(post.url)
        name = _name(parts.host)
        with self._store.commit():
            reply = self._chosen(name, post)
            wait_ms = reply["delay_ms"]
            if reply["error"] == TIMEOUT or wait_ms >= post.timeout_ms:
                wait_ms = post.timeout_ms
                reply = timed_out(reply, wait_ms)
            if reply["error"] not in NOT_RECEIVED:
                self._receive(name, post, parts.target, reply)
            if wait_ms:
                key = request_id(post)
                due_at = self._clock.now() + wait_ms
                self._late.put({"id": key, "receiver": name, "post": packed(post), "reply": reply, "due_at": due_at})
                self._clock.call_at(due_at, CALLBACK, TIMER, key)
            else:
                self._respond(name, post, reply, answered)

    def receiver_time_s(self, url: str) -> int:
        """The sandbox's time in seconds, which is the time of these receivers."""
        return self._clock.now() // 1_000

    @property
    def open_attempts(self) -> frozenset[tuple[str, int]]:
        """The attempts in flight that a receiver has yet to answer, by delivery id and number."""
        late = (row["post"] for row in self._late if "due_at" in row)
        return frozenset(attempt_of(post) for post in late if post["copied_by"] is None)

    def attempt_note(self, delivery_id: str, number: int) -> str:
        """When the response to an attempt in flight comes, or when it times out; empty if it waits for none here."""
        late = self._late.row(attempt_id(delivery_id, number))
        if late is None or "due_at" not in late:
            return ""
        what = "it times out" if late["reply"]["error"] == TIMEOUT else "its answer comes"
        return f"the receiver {late['receiver']!r} has not answered yet: {what} at {to_iso(late['due_at'])}"

    def resume(self) -> None:
        """Set the timers of delayed responses again after a store was opened."""
        for row in list(self._late):
            if "due_at" in row:
                self._clock.call_at(row["due_at"], CALLBACK, TIMER, row["id"])
            else:
                self._late.delete(row["id"])  # of an earlier version: the attempt is lost

    def mark_restored(self) -> None:
        """The callbacks received so far came with a snapshot, to which the sandbox was restored."""
        # A row for all: there may be thousands of receivers, and nobody else is answered meanwhile.
        self._restores.put({"id": _RESTORES, "count": self._restore_count() + 1})

    # Inside

    def _restore_count(self) -> int:
        """How often the rows were in a snapshot to which a sandbox was restored."""
        restores = self._restores.row(_RESTORES)
        return 0 if restores is None else restores["count"]

    def _chosen(self, name: str, post: CallbackRequest) -> ReplyRow:
        """The reply to this request: none while the receiver is down, else that of the first rule that matches, else
        the next of the script, else the default or a failure."""
        state = self.state(name)
        behaviour = state.get("behaviour")
        if behaviour is not None and is_down(behaviour, self._clock.now()):
            return down_reply()
        for index, rule in enumerate(state["rules"]):
            if (
                rule["event"] in (None, post.headers.get("leyden-event"))
                and rule["attempt"] in (None, post.attempt)
                and (rule["charge"] is None or rule["charge"] in _charges_of(post))
            ):
                if rule["count"] is not None:
                    left: list[ReplyRuleRow] = [{**rule, "count": rule["count"] - 1}] if rule["count"] > 1 else []
                    self.change(name, rules=[*state["rules"][:index], *left, *state["rules"][index + 1 :]])
                return rule["reply"]
        if state["script"]:
            chosen, *rest = state["script"]
            self.change(name, script=rest)
            return chosen
        if behaviour is None or self._stream is None:
            return state["default"]
        return drawn_reply(behaviour, state["default"], self._stream(f"receiver {name}"))

    def _receive(self, name: str, post: CallbackRequest, path: str, reply: ReplyRow) -> None:
        state = self.state(name)
        answer = reply["word"] or reply["status"]
        headers = {key.lower(): value for key, value in post.headers.items()}
        body = post.body.decode("utf-8", "replace")
        webhook_id = headers.get("webhook-id", "")
        verdict: list[str] = []
        secrets = [state["secret"]] if state["secret"] is not None else self._valid_secrets()
        if secrets is not None:
            verdict += signature_faults(secrets, headers, body, self._clock.now() // 1_000)
        if self._rules is not None:
            verdict += body_faults(self._rules, headers, post.body)
        first = self._posts.first(name, webhook_id)
        if first is not None:
            if first["body"] != body:
                verdict.append("the same webhook-id came with another body")
            if first["acknowledged"]:
                verdict.append("the same webhook-id came again after it was acknowledged")
        number = state["received"] + 1
        got: ReceivedFields = {
            "at": self._clock.now(),
            "url": post.url,
            "path": path,
            "headers": headers,
            "body": body,
            "attempt": post.attempt,
            "answer": answer,
            "repeated": first is not None,
            "commits": reply["commits"],
            "verdict": verdict,
        }
        # The first one with this id, answered at once: what `_respond` would change is in the row from the start.
        at_once = first is None and not reply["delay_ms"] and is_acknowledged(reply, self._received)
        self._posts.add(name, number, got, acknowledged=at_once, copy=post.copied_by is not None)
        self.change(name, received=number, objections=state["objections"] + bool(verdict))
        self._journal.note(
            "callback_received", name, delivery=webhook_id, attempt=post.attempt, answer=answer, verdict=verdict
        )

    def _valid_secrets(self) -> Sequence[str] | None:
        return None if self._secrets_at is None else self._secrets_at(self._clock.now())

    def _answer_late(self, key: str) -> None:
        late = self._late.existing(key)
        self._late.delete(key)
        assert self._responded is not None, "connect() must be called first"
        self._respond(late["receiver"], unpacked(late["post"]), late["reply"], self._responded)

    def _respond(self, name: str, post: CallbackRequest, reply: ReplyRow, answered: Responded) -> None:
        if is_acknowledged(reply, self._received):
            self._posts.acknowledge(name, post.headers.get("webhook-id", ""))
        answer = answer_from(reply, name)
        parts = url_parts(post.url)
        if parts.has_port:  # who writes a port may mean a program that listens there
            own = f"received by Leyden's own receiver {name!r}: names below .localhost lead there, whatever the port"
            if is_allowed_port(parts.port):
                own = f"{own}; a program on this machine is at http://localhost:{parts.port}"
            answer = answer._replace(note="; ".join(filter(None, [answer.note, own])))
        answered(post, answer)


@lru_cache(maxsize=256)
def is_built_in(url: str) -> bool:
    """Whether the URL's host is a name below `.localhost`, and so one of these receivers; `localhost` itself is not."""
    return host_of(url).rstrip(".").endswith(".localhost")


def _name(host: str) -> str:
    name = host.lower().rstrip(".")
    return name.removesuffix(".localhost")


def _summary(row: ReceiverRow) -> tuple[str, int, int, int, int]:
    return row["id"], row["received"], row.get("restored", 0), row.get("restores", 0), row["objections"]


def _charges_of(post: CallbackRequest) -> list[Any]:
    """The ids of the Charge and the Static Charge in a body, with or without an envelope."""
    try:
        body = orjson.loads(post.body)
    except orjson.JSONDecodeError:
        return []
    data = body.get("data", body) if isinstance(body, dict) else {}
    return [data.get("id"), data.get("staticChargeId")] if isinstance(data, dict) else []
