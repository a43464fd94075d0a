"""Faults: callbacks that go wrong because somebody asked for it, at the places and as often as they said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from leyden.callbacks.callback_rows import packed, unpacked
from leyden.callbacks.fault_kinds import (
    CARRYING_KINDS,
    HOLDING_KINDS,
    KINDS,
    RATE_LIMIT,
    FaultSpec,
    fault_resource,
    fits,
    is_spent,
)
from leyden.callbacks.mutations import CONTENT_KINDS, renamed, restamped, tampered
from leyden.server.callbacks.outbox import Outbox
from leyden.server.contract.types import Contract
from leyden.server.errors import Problem, TooManyRequests
from leyden.server.http.projects import Projects
from leyden.server.ports import (
    CALLBACK,
    CallbackRequest,
    CallbackResponse,
    CallbackTransport,
    Clock,
    EventJournal,
    RandomSource,
)
from leyden.server.store.store import Store
from leyden.world.rng import uuid4_from

__all__ = ["KINDS", "FaultSpec", "Faults", "fault_resource"]

TIMER = "fault"

_SENDING = frozenset({*CARRYING_KINDS, *CONTENT_KINDS})
_HOLDING = frozenset(HOLDING_KINDS)
_COPY = "~"  # in the delivery id of a copy, between the delivery's, the fault's and the number of the hit


class Faults:
    """A `CallbackTransport` in front of another: what no fault is meant for passes through untouched.

    Of the faults that fit an attempt, the oldest of those that hold it back may put it off, and the oldest of the
    others strikes it. All of it is rows and timers, so a hit is undone with the commit that it belongs to, and counts
    go on after a restart. Luck comes from `chance`, a stream of its own: the world's ids and schedules are the same
    with faults as without.

    `callbacks` and `projects` give the service's, `exclusive` is entered around what the faults write by themselves.
    """

    def __init__(
        self,
        contract: Contract,
        store: Store,
        clock: Clock,
        journal: EventJournal,
        chance: RandomSource,
        courier: CallbackTransport,
        *,
        callbacks: Callable[[], Outbox],
        projects: Callable[[], Projects],
        exclusive: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._chance = chance
        self._courier = courier
        self._callbacks = callbacks
        self._projects = projects
        self._exclusive = exclusive
        rules = [rule for operation in contract.operations.values() for rule in operation.callbacks]
        self._known = {
            "operations": tuple(contract.operations),
            "callbacks": tuple(dict.fromkeys(rule.name for rule in rules)),
            "events": tuple(dict.fromkeys(event for rule in rules for event in rule.delivery.events.values())),
        }
        self._faults = store.table("faults", key="id")
        self._held = store.table("held_back", key="id")  # by delivery: which attempt waits, and for which fault
        self._waiting = store.table("fault_posts", key="id")  # copies to be sent, and drops to be found out
        self._hits = store.table("fault_hits", key="id")  # by attempt: what struck it last, and what was sent instead
        clock.on(TIMER, self._due)

    # What people ask

    def add(self, wish: FaultSpec) -> dict[str, Any]:
        """Let something go wrong, and return the fault's row. Raises `ValueError` for what could never strike."""
        row = wish.row(uuid4_from(self._chance), self._clock.now(), self._known)
        self._faults.put(row)
        self._journal.note("fault_added", row["id"], fault=wish.kind)
        return row

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every fault that was not cleared, the oldest first."""
        return list(self._faults)

    def row(self, fault_id: str) -> dict[str, Any] | None:
        """One fault, or None."""
        return self._faults.row(fault_id)

    def hit(self, delivery_id: str, number: int) -> dict[str, Any] | None:
        """The `kind` of fault that struck an attempt, and what was `sent` instead (None: what was to be sent), or
        None."""
        return self._hits.row(_attempt(delivery_id, number))

    def clear(self, fault_id: str | None = None) -> int:
        """Let this fault, or every one, strike no more; the number taken away. What already waits keeps its time."""
        ids = [row["id"] for row in self._faults] if fault_id is None else [fault_id]
        cleared = sum(self._faults.delete(one) for one in ids)
        if cleared:
            self._journal.note("faults_cleared", fault_id or "", count=cleared)
        return cleared

    # What the outbox and the door ask

    def defer_until(self, delivery: Mapping[str, Any], number: int) -> int | None:
        """Until when an attempt that is due is held back, or None: `Outbox.defer_until`."""
        held = self._held.row(delivery["id"])
        if held is not None:
            # It was held back and its time has come; or it was replayed meanwhile, which is the same.
            self._held.delete(delivery["id"])
            return None
        fault = self._fitting(_HOLDING, delivery, number) if len(self._faults) else None
        if fault is None:
            return None
        now = self._clock.now()
        until: int = now + fault["delay_ms"]
        if fault["kind"] == "burst":
            until = max(now, fault.get("until", until))
            fault = {**fault, "until": until}
        fault = self._strike(fault, delivery["id"], number)
        if fault["kind"] == "burst" and is_spent(fault):
            self._release([row for row in self._held if row["fault"] == fault["id"]])
            until = now
        self._held.put({"id": delivery["id"], "attempt": number, "fault": fault["id"], "kind": fault["kind"]})
        return until

    def limited(self, operation_id: str) -> Problem | None:
        """The refusal that a request meets, if a `rate_limit` is meant for its operation."""
        if not len(self._faults) or operation_id not in self._known["operations"]:
            return None
        with self._exclusive():
            for fault in self._faults:
                if fault["kind"] == RATE_LIMIT and fault["operation"] in (None, operation_id) and not is_spent(fault):
                    hit = fault["hits"] + 1
                    self._faults.put({**fault, "hits": hit})
                    self._journal.note("fault_hit", fault["id"], fault=RATE_LIMIT, operation=operation_id, hit=hit)
                    wait_s = -(-fault["delay_ms"] // 1_000)
                    detail = f"too many requests, because a fault asks for it: try again in {wait_s} s"
                    return TooManyRequests(detail, headers={"Retry-After": str(wait_s)})
        return None

    # The port

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        """Send, or what goes for it while a fault strikes."""
        delivery = self._callbacks().delivery(post.delivery_id) if len(self._faults) else None
        fault = None if delivery is None else self._fitting(_SENDING, delivery, post.attempt)
        if delivery is None or fault is None:
            self._courier.post(post, self.answered)
        elif fault["kind"] in CONTENT_KINDS:
            self._send_mutated(post, fault, self._secrets(delivery))
        else:
            self._send_variant(post, self._strike(fault, post.delivery_id, post.attempt), self._secrets(delivery))
        if len(self._held) and (fault is None or fault["kind"] != "drop"):  # what is never sent overtakes nobody
            overtaken = [row for row in self._held if row["kind"] == "reorder" and row["id"] != post.delivery_id]
            self._release(overtaken)

    def receiver_time_s(self, url: str) -> int:
        """The time that this URL's receiver compares signatures with."""
        return self._courier.receiver_time_s(url)

    def answered(self, post: CallbackRequest, answer: CallbackResponse) -> None:
        """Tell the outbox; what becomes of a copy is only written down."""
        if _COPY not in post.delivery_id:
            self._callbacks().on_response(post, answer)
            return
        delivery_id, fault_id, _ = post.delivery_id.split(_COPY)
        self._journal.note(
            "fault_answered", fault_id, delivery=delivery_id, status=answer.status, error=answer.error, note=answer.note
        )

    def resume(self) -> None:
        """Set the timers again for a store that was just opened. Dropped attempts are the outbox's to find lost."""
        for row in list(self._waiting):
            if row["copy"] is None:
                self._waiting.delete(row["id"])
            else:
                self._clock.call_at(row["due_at"], CALLBACK, TIMER, row["id"])

    # Inside

    def _fitting(self, kinds: frozenset[str], delivery: Mapping[str, Any], number: int) -> dict[str, Any] | None:
        for fault in self._faults:
            if fault["kind"] in kinds and not is_spent(fault) and fits(fault, delivery, number):
                return dict(fault)
        return None

    def _strike(
        self, fault: Mapping[str, Any], delivery_id: str, number: int, *sent: CallbackRequest
    ) -> dict[str, Any]:
        struck = {**fault, "hits": fault["hits"] + 1}
        self._faults.put(struck)
        facts: dict[str, Any] = {"delivery": delivery_id, "attempt": number, "hit": struck["hits"]}
        if sent:
            facts["sent"] = [
                {"headers": dict(post.headers), "body": post.body.decode("utf-8", "replace")} for post in sent
            ]
        instead = [] if fault["kind"] == "drop" else facts.get("sent")
        self._hits.put({"id": _attempt(delivery_id, number), "kind": fault["kind"], "sent": instead})
        self._journal.note("fault_hit", fault["id"], fault=fault["kind"], **facts)
        return struck

    def _secrets(self, delivery: Mapping[str, Any]) -> tuple[list[str], str | None]:
        """The secrets that sign now, and the one before the last rotation if there was one."""
        projects, project = self._projects(), delivery["project"]
        replaced = [secret["secret"] for secret in projects.secrets(project)[:-1]]
        return projects.signing_secrets(project, self._clock.now()), replaced[-1] if replaced else None

    def _send_mutated(
        self, post: CallbackRequest, fault: dict[str, Any], secrets: tuple[list[str], str | None]
    ) -> None:
        bad = tampered(fault, post, *secrets, self._chance)
        self._strike(fault, post.delivery_id, post.attempt, bad)
        self._courier.post(bad, self.answered)

    def _send_variant(
        self, post: CallbackRequest, fault: dict[str, Any], secrets: tuple[list[str], str | None]
    ) -> None:
        now = self._clock.now()
        if fault["kind"] == "drop":
            self._wait(post, now + post.timeout_ms, copy=None)
            return
        copy = replace(post, delivery_id=f"{post.delivery_id}{_COPY}{fault['id']}{_COPY}{fault['hits']}")
        if fault["kind"] == "duplicate_new_id":
            copy = renamed(copy, secrets[0], uuid4_from(self._chance))
        self._courier.post(post, self.answered)
        if fault["kind"] == "simultaneous":
            self._send_copy(copy)
        else:
            self._wait(copy, now + fault["delay_ms"], copy="exact" if fault["kind"] == "duplicate" else "fresh")

    def _wait(self, post: CallbackRequest, due_at: int, *, copy: str | None) -> None:
        waiting_id = _attempt(post.delivery_id, post.attempt)
        self._waiting.put({"id": waiting_id, "post": packed(post), "due_at": due_at, "copy": copy})
        self._clock.call_at(due_at, CALLBACK, TIMER, waiting_id)

    def _due(self, waiting_id: str) -> None:
        row = self._waiting.row(waiting_id)
        if row is None:
            return
        self._waiting.delete(waiting_id)
        post = unpacked(row["post"])
        if row["copy"] is None:
            note = "dropped by a fault: it was never sent"
            self.answered(post, CallbackResponse(error="timeout", note=note, latency_ms=post.timeout_ms))
            return
        delivery = self._callbacks().delivery(post.delivery_id.partition(_COPY)[0])
        if row["copy"] == "fresh" and delivery is not None:
            post = restamped(post, self._secrets(delivery)[0], self._courier.receiver_time_s(post.url))
        self._send_copy(post)

    def _send_copy(self, copy: CallbackRequest) -> None:
        delivery_id, fault_id, _ = copy.delivery_id.split(_COPY)
        self._journal.note("fault_sent", fault_id, delivery=delivery_id, headers=dict(copy.headers))
        self._courier.post(copy, self.answered)

    def _release(self, held: Sequence[Mapping[str, Any]]) -> None:
        for row in held:
            self._callbacks().reschedule(row["id"], self._clock.now())


def _attempt(delivery_id: str, number: int) -> str:
    return f"{delivery_id}#{number}"
