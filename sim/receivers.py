"""Receivers: the shops that callbacks are for, played on the spot; they answer as told and look closely at the post.

receivers["shop"].answers([500, TIMEOUT, Reply(200, delay="2s")])    # then 200 again
receivers["shop"].inbox[-1].json["status"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload
from urllib.parse import urlsplit

import orjson

from server.contract.shape import CallbackRule
from server.moments import to_iso
from server.ports import CALLBACK, Answer, Clock, Journal, Post
from sim.inspection import body_faults, signature_faults
from sim.posts import packed, unpacked
from sim.replies import NEVER_HEARD, TIMEOUT, Said, answer_from, plain_reply, reply_resource, word_of

TIMER = "receiver_answer"


@dataclass(frozen=True, slots=True)
class Received:
    """One post as it reached a receiver at instant `at`, and how it was answered: a status or an error word.

    `repeated` says that the same `webhook-id` was here before; `commits`, that the receiver acted on this post,
    whatever it answered. `verdict` lists what a careful receiver would object to; empty means that nothing is wrong.
    """

    at: int
    url: str
    path: str
    headers: Mapping[str, str]
    body: str
    attempt: int
    answer: int | str
    repeated: bool
    commits: bool
    verdict: Sequence[str]

    @property
    def json(self) -> Any:
        """The body, parsed; None when it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def webhook_id(self) -> str:
        """The message's identity, the same in all its attempts."""
        return self.headers.get("webhook-id", "")

    @property
    def event(self) -> str:
        """What happened, for example `charge.completed`."""
        return self.headers.get("leyden-event", "")


class Inbox(Sequence[Received]):
    """What a receiver got, oldest first."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Received: ...
    @overload
    def __getitem__(self, place: slice) -> list[Received]: ...
    def __getitem__(self, place: int | slice) -> Received | list[Received]:
        if isinstance(place, slice):
            return [Received(**row) for row in self._rows[place]]
        return Received(**self._rows[place])

    def __iter__(self) -> Iterator[Received]:
        return (Received(**row) for row in self._rows)

    def __repr__(self) -> str:
        lines = [f"{to_iso(got.at)} {got.event} attempt {got.attempt} -> {got.answer}" for got in self[-5:]]
        return f"<Inbox of {len(self)}: {'; '.join(lines) or 'nothing came yet, advance the clock'}>"


class Receiver:
    """One endpoint's owner. Until told otherwise it answers 200."""

    def __init__(self, name: str, state_of: Callable[[str], dict[str, Any]]) -> None:
        self.name = name
        self._state_of = state_of

    @property
    def _state(self) -> dict[str, Any]:
        # Looked up each time: what is in hand must still be right after the world was restored.
        return self._state_of(self.name)

    def answers(self, script: Sequence[Said]) -> Receiver:
        """Answer the next posts so, one after another, and then as `always` says. Replaces what was left of a script.

        An element is a status, an error word (`TIMEOUT`, `RESET`, ...) or a `Reply`; `ValueError` for anything else.
        """
        self._state["script"] = [plain_reply(said) for said in script]
        return self

    def always(self, said: Said) -> Receiver:
        """Answer so whenever there is no script. Raises `ValueError` like `answers`."""
        self._state["default"] = plain_reply(said)
        return self

    def when(
        self,
        said: Said,
        *,
        event: str | None = None,
        charge: str | None = None,
        attempt: int | None = None,
        count: int | None = 1,
    ) -> Receiver:
        """Answer so the next `count` posts (None: every one) that fit all that is given, before script and `always`.

        `charge` is the id of a Charge or of its Static Charge, `attempt` 1 for the first. Of several that fit, the
        first said answers. Raises `ValueError` like `answers`.
        """
        for what, number in (("attempt", attempt), ("count", count)):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{what} is {number!r}: give a whole number from 1, or None for every one")
        rule = {"reply": plain_reply(said), "event": event, "charge": charge, "attempt": attempt, "count": count}
        self._state["rules"].append(rule)
        return self

    @property
    def rules(self) -> list[dict[str, Any]]:
        """What `when` said and has not been used up: `said`, `event`, `charge`, `attempt` and the `count` left."""
        return [
            {"said": reply_resource(rule["reply"]), **{name: rule[name] for name in rule if name != "reply"}}
            for rule in self._state["rules"]
        ]

    @property
    def script(self) -> list[dict[str, Any]]:
        """What is left of the script, in the form that `said_from` reads."""
        return [reply_resource(reply) for reply in self._state["script"]]

    @property
    def usual(self) -> dict[str, Any]:
        """What is answered when nothing else was said, in the form that `said_from` reads."""
        return reply_resource(self._state["default"])

    def forget(self) -> Receiver:
        """Forget the script and the rules; `always` holds."""
        self._state["script"], self._state["rules"] = [], []
        return self

    def trusts(self, secret: str | None) -> Receiver:
        """Verify signatures with this `whsec_` secret alone; None: with those that are valid in the sandbox."""
        self._state["secret"] = secret
        return self

    @property
    def inbox(self) -> Inbox:
        """Everything received so far, oldest first."""
        return Inbox(self._state["inbox"])

    def __repr__(self) -> str:
        waiting = len(self._state["script"])
        told = f"then {waiting} scripted answers" if waiting else f"answers {word_of(self._state['default'])}"
        return f"<Receiver {self.name!r}: {len(self._state['inbox'])} received, {told}>"


class Receivers:
    """Every receiver of one sandbox; a `server.ports.Courier` that carries nothing further than this object.

    `rules` are the contract's callbacks, for the bodies' schemas; `secrets_at(instant)` gives every secret that may
    sign at that instant. What is not given is not looked at. A host has its receiver from its first mention;
    `shop.localhost` is `shop`.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        *,
        rules: Mapping[str, CallbackRule] | None = None,
        secrets_at: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._rules = rules
        self._secrets_at = secrets_at
        self._states: dict[str, dict[str, Any]] = {}
        self._late: dict[str, dict[str, Any]] = {}
        self._last = ""
        self._answered: Callable[[Post, Answer], None] | None = None
        clock.on(TIMER, self._answer_late)

    def __getitem__(self, name: str) -> Receiver:
        return self.receiver(name)

    def __iter__(self) -> Iterator[Receiver]:
        return (self.receiver(name) for name in list(self._states))

    def receiver(self, name: str, *, answers: Sequence[Said] | None = None, always: Said | None = None) -> Receiver:
        """The receiver of this name or host, with a script if one is given."""
        receiver = Receiver(_name(name), self._state)
        self._state(receiver.name)
        if answers is not None:
            receiver.answers(answers)
        if always is not None:
            receiver.always(always)
        return receiver

    # The port

    def post(self, post: Post, answered: Callable[[Post, Answer], None]) -> None:
        """Hand the post to its host's receiver. The answer comes at once, or through the clock if it is late."""
        self._answered = answered
        parts = urlsplit(post.url)
        receiver = self.receiver(parts.hostname or "")
        state = self._state(receiver.name)
        reply = _chosen(state, post)
        wait_ms = reply["delay_ms"]
        if reply["error"] == TIMEOUT or wait_ms >= post.timeout_ms:
            wait_ms = post.timeout_ms
            reply = {**reply, "delay_ms": wait_ms, "error": TIMEOUT, "word": reply["word"] or TIMEOUT}
        if reply["error"] not in NEVER_HEARD:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            self._receive(receiver.name, post, path, reply)
        if wait_ms:
            key = f"{post.delivery_id}#{post.attempt}"
            self._late[key] = {"receiver": receiver.name, "post": packed(post), "reply": reply}
            self._clock.call_at(self._clock.now() + wait_ms, CALLBACK, TIMER, key)
        else:
            self._tell(receiver.name, post, reply, answered)

    def wall_seconds(self, url: str) -> int:
        """Sandbox seconds: these receivers live in the sandbox's time."""
        return self._clock.now() // 1_000

    # State

    def snapshot(self) -> dict[str, Any]:
        """All scripts, inboxes and answers on their way, as JSON values that later posts do not touch."""
        return {"receivers": _copied(self._states), "late": dict(self._late), "last": self._last}

    def restore(self, snapshot: Mapping[str, Any], answered: Callable[[Post, Answer], None]) -> None:
        """Become what `snapshot()` wrote down; answers on their way go to `answered`."""
        self._states = _copied(snapshot["receivers"])
        self._late = dict(snapshot["late"])
        self._last = snapshot["last"]
        self._answered = answered

    # Inside

    def _state(self, name: str) -> dict[str, Any]:
        state = self._states.get(name)
        if state is None:
            state = {"script": [], "rules": [], "default": plain_reply(200), "secret": None, "inbox": [], "seen": {}}
            self._states[name] = state
        return state

    def _receive(self, name: str, post: Post, path: str, reply: Mapping[str, Any]) -> None:
        state = self._state(name)
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
        first = state["seen"].get(webhook_id)
        if first is not None:
            if state["inbox"][first["place"]]["body"] != body:
                verdict.append("the same webhook-id came with another body")
            if first["acknowledged"]:
                verdict.append("the same webhook-id came again after it was acknowledged")
        else:
            state["seen"][webhook_id] = {"place": len(state["inbox"]), "acknowledged": False}
        state["inbox"].append(
            {
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
        )
        self._journal.note(
            "callback_received", name, delivery=webhook_id, attempt=post.attempt, answer=answer, verdict=verdict
        )

    def _valid_secrets(self) -> Sequence[str] | None:
        return None if self._secrets_at is None else self._secrets_at(self._clock.now())

    def _answer_late(self, key: str) -> None:
        assert self._answered is not None, "an answer is late only after a post"
        # The last one is kept: if the commit of its event is refused, the event runs again.
        if self._last != key:
            self._late.pop(self._last, None)
        self._last = key
        late = self._late[key]
        self._tell(late["receiver"], unpacked(late["post"]), late["reply"], self._answered)

    def _tell(self, name: str, post: Post, reply: Mapping[str, Any], answered: Callable[[Post, Answer], None]) -> None:
        if reply["error"] is None and 200 <= reply["status"] <= 299:
            seen = self._state(name)["seen"]
            webhook_id = post.headers.get("webhook-id", "")
            seen[webhook_id] = {**seen[webhook_id], "acknowledged": True}
        answered(post, answer_from(reply, name))


def _copied(states: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The states with containers of their own; what is in them is never changed and may be shared."""
    return {
        name: {
            **state,
            "script": list(state["script"]),
            "rules": list(state["rules"]),
            "inbox": list(state["inbox"]),
            "seen": dict(state["seen"]),
        }
        for name, state in states.items()
    }


def _name(host: str) -> str:
    name = host.lower().rstrip(".")
    return name.removesuffix(".localhost")


def _chosen(state: dict[str, Any], post: Post) -> dict[str, Any]:
    """The reply to this post: the first rule's that fits it, else the script's next, else the usual one."""
    for place, rule in enumerate(state["rules"]):
        if (
            rule["event"] in (None, post.headers.get("leyden-event"))
            and rule["attempt"] in (None, post.attempt)
            and (rule["charge"] is None or rule["charge"] in _charges_of(post))
        ):
            if rule["count"] is not None:
                left = {**rule, "count": rule["count"] - 1}
                state["rules"][place : place + 1] = [left] if left["count"] else []
            chosen: dict[str, Any] = rule["reply"]
            return chosen
    script: list[dict[str, Any]] = state["script"]
    return script.pop(0) if script else state["default"]


def _charges_of(post: Post) -> list[Any]:
    """The ids of the Charge and the Static Charge that a body tells of, in an envelope or not."""
    try:
        body = orjson.loads(post.body)
    except orjson.JSONDecodeError:
        return []
    data = body.get("data", body) if isinstance(body, dict) else {}
    return [data.get("id"), data.get("staticChargeId")] if isinstance(data, dict) else []
