"""Injected faults: each fault changes, delays or drops the callback attempts that it matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import Any, cast

from leyden.callbacks.callback_rows import HeldRow, WaitingRow, attempt_id, attempt_of, packed, request_id, unpacked
from leyden.callbacks.faults.hits import DROPPED, UNMET, FaultHits, original_never_left
from leyden.callbacks.faults.holds import Holds
from leyden.callbacks.faults.index import SENDING, FaultIndex
from leyden.callbacks.faults.kinds import (
    HOLDING_KINDS,
    RATE_LIMIT,
    WITHOUT,
    FaultRow,
    FaultSpec,
    is_last,
    known_names,
    with_unsent,
)
from leyden.callbacks.faults.targets import check_sends
from leyden.callbacks.mutations import CONTENT_KINDS, SIGNATURE, STAMP, mutated, renamed, resent
from leyden.callbacks.receivers import is_built_in
from leyden.callbacks.replies import never_left
from leyden.errors import ArgumentError
from leyden.rng import uuid4_from
from leyden.server.callbacks.attempts import Attempt
from leyden.server.callbacks.deliveries import GONE, ResultKinds, result_kind
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.contract.types import Contract
from leyden.server.errors import Problem, StorageUnavailable, TooManyRequests
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
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import to_iso

TIMER = "fault"

COPY_STARTED, COPY_ANSWERED, COPY_NOT_SENT = "copy_started", "copy_answered", "copy_not_sent"
_COPY_KINDS = ResultKinds(COPY_ANSWERED, "copy_failed", COPY_NOT_SENT)


class Faults:
    """A `leyden.server.ports.CallbackTransport` in front of another: a callback that no fault fits passes unchanged.

    Of the faults that fit an attempt, the oldest of those that delay may postpone it, and the oldest of the others
    applies. All of it is rows and timers: a hit is rolled back with the commit that it belongs to, and counts go on
    after a restart. `rng` is a random stream of the faults' own: the world's ids and schedules are the same with faults
    as without.

    `index` takes part in commits. `exclusive` is entered around what the faults write by themselves. `connect` must be
    called before the first callback.
    """

    def __init__(
        self,
        contract: Contract,
        store: Store,
        clock: Clock,
        journal: EventJournal,
        rng: RandomSource,
        transport: CallbackTransport,
        *,
        exclusive: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._rng = rng
        self._transport = transport
        self._exclusive = exclusive
        self._contract = contract
        self._faults = cast(TypedTable[FaultRow], store.table("faults"))
        self.index = FaultIndex(self._faults)
        self._waiting = cast(TypedTable[WaitingRow], store.table("fault_posts"))
        self.hits = FaultHits(store, clock)
        self._holds = Holds(store, clock, journal, self._faults, self.hits, lambda: self._outbox)
        clock.on(TIMER, self._on_due)

    def connect(
        self, outbox: Outbox, projects: Projects, charges: ChargeService, static_charges: StaticChargeService
    ) -> None:
        """Give responses to this outbox, whose callbacks are those of `charges` and of the payments of
        `static_charges`, and sign with the secrets of these projects."""
        self._outbox, self._projects = outbox, projects
        self._charges, self._static_charges = charges, static_charges

    @cached_property
    def _known(self) -> Mapping[str, tuple[str, ...]]:
        """The names that a fault may use. Most sandboxes have no fault."""
        return known_names(self._contract)

    # Control operations

    def add(self, spec: FaultSpec) -> FaultRow:
        """Store a fault and return its row. Raises `ValueError` for one that could never apply or change anything."""
        row = spec.row(uuid4_from(self._rng), self._clock.now(), self._known)
        if spec.charge is not None:
            check_sends(self._contract, spec, self._outbox, self._charges, self._static_charges)
        if spec.kind == "old_secret" and not any(self._earlier_secret(row["id"]) for row in self._projects.projects):
            raise ArgumentError(
                "there is no earlier secret that could sign: rotate the webhook secret first (POST"
                " /sandbox/v1/webhook-secret/rotate)"
            )
        self._faults.put(row)
        self.index.add(row)
        self._journal.note("fault_added", row["id"], fault=spec.kind)
        return row

    @property
    def rows(self) -> list[FaultRow]:
        """Every fault that was not cleared, the oldest first."""
        return list(self._faults)

    def page(self, after: int | None, limit: int) -> list[Any]:
        """At most `limit` faults after the document id `after`, the oldest first."""
        return self._faults.page_up(after=after, limit=limit)

    def row(self, fault_id: str) -> FaultRow | None:
        """One fault, or None."""
        return self._faults.row(fault_id)

    def held(self, delivery_id: str) -> HeldRow | None:
        """The row of an attempt that a fault delays, or None."""
        return self._holds.row(delivery_id)

    def clear(self, fault_id: str | None = None) -> int:
        """Delete this fault, or all; returns how many. What they have begun goes on (`begun`)."""
        if fault_id is None:
            cleared = self._faults.clear()
            self.index.clear()
        else:
            cleared = int(self._faults.delete(fault_id))
        if cleared:
            self._journal.note("faults_cleared", fault_id or "", count=cleared)
        return cleared

    def begun(self, fault_id: str | None = None) -> tuple[int, int]:
        """What this fault has begun, or all faults, those that were cleared too: how many attempts are still held, and
        how many copies are still to be sent."""
        copies = [row["post"]["copied_by"] for row in self._waiting if row["is_copy"]]
        return self._holds.count(fault_id), sum(by is not None and fault_id in (None, by[0]) for by in copies)

    # Called by the outbox and the request pipeline

    def defer_until(self, delivery: DeliveryRow, number: int) -> int | None:
        """The instant until which an attempt that is due is delayed, or None (`Outbox`)."""
        held = self._holds.row(delivery["id"])
        if held is not None:
            self._holds.end(held)
            return None
        fault = self._holding(delivery, number, self._clock.now())
        return None if fault is None else self._holds.begin(fault, delivery["id"], number)

    def postponing(self, delivery: DeliveryRow, number: int, due_ms: int) -> tuple[FaultRow, int] | None:
        """The fault that will delay an attempt due at `due_ms`, if no other attempt uses it up before, and the latest
        instant until which; None if none will, and for one that a fault has delayed already."""
        fault = None if self.held(delivery["id"]) is not None else self._holding(delivery, number, due_ms)
        if fault is None or (fault["kind"] == "burst" and is_last(fault)):
            return None  # the last attempt of a burst releases it
        until_ms = self._holds.until(fault, due_ms)
        return (fault, until_ms) if until_ms > due_ms else None

    def rate_limit(self, operation_id: str) -> Problem | None:
        """The problem 429 for a request if a `rate_limit` fault matches its operation; otherwise None. It is also None
        when the disk refuses to store the hit, because operations that only read do not declare the response 507."""
        if not len(self._faults) or operation_id not in self._known["operations"]:
            return None
        with suppress(StorageUnavailable), self._exclusive():
            fault = next(self.index.of_request(operation_id), None)
            if fault is not None:
                hit = fault["hits"] + 1
                self._faults.put({**fault, "hits": hit})
                self._journal.note("fault_hit", fault["id"], fault=RATE_LIMIT, operation=operation_id, hit=hit)
                wait_s = -(-(fault["delay_ms"] or 0) // 1_000)
                detail = f"too many requests, because a fault asks for it: try again in {wait_s} s"
                return TooManyRequests(detail, headers={"Retry-After": str(wait_s)})
        return None

    # The port

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        """Send the callback, or what a fault sends instead."""
        delivery = self._outbox.delivery(post.delivery_id) if len(self._faults) else None
        fault, changed = (None, post) if delivery is None else self._applying(delivery, post)
        if len(self._holds) and (fault is None or fault["kind"] != "drop"):  # a dropped callback overtakes nothing
            self._holds.overtake(post)
        if delivery is None or fault is None:
            self._transport.post(post, self.on_response)
        elif fault["kind"] in CONTENT_KINDS:
            self._count_hit(fault, post.delivery_id, post.attempt, changed)
            self._transport.post(changed, self.on_response)
        else:
            self._send_variant(post, self._count_hit(fault, post.delivery_id, post.attempt), self._secrets(delivery))

    def receiver_time_s(self, url: str) -> int:
        """The time that this URL's receiver compares signatures with."""
        return self._transport.receiver_time_s(url)

    def on_response(self, post: CallbackRequest, response: CallbackResponse) -> None:
        """Give the response to the outbox; that to a copy only goes into the journal."""
        if post.copied_by is None:
            if never_left(response):
                for kind, fault_id in self.hits.applying(post.delivery_id, post.attempt):
                    if kind in HOLDING_KINDS:
                        self._holds.not_sent(kind, fault_id, post)
                    elif not self.hits.is_copied(post.delivery_id, post.attempt, kind):
                        self._withdraw(kind, fault_id, post)
            self.hits.signed(post)
            self._outbox.on_response(post, response)
            if len(self._holds):
                if response.status == GONE:
                    self._holds.drop_stopped(post.delivery_id)
                self._holds.end_of_attempt(post)
            return
        fault_id, _ = post.copied_by
        event = result_kind(response, _COPY_KINDS)
        answer = str(response.status or response.error or "")
        copied_by = self.hits.copied(post.delivery_id, post.attempt, event, fault_id, answer)
        facts = {"status": response.status, "error": response.error, "note": response.note}
        self._journal.note(event, fault_id, delivery=post.delivery_id, **facts)
        if never_left(response) and copied_by is not None:
            self.hits.add(post.delivery_id, post.attempt, UNMET, copied_by)
            if (fault := self._faults.row(fault_id)) is not None:
                self._faults.put(with_unsent(fault, 1))
            self._unmet(fault_id, copied_by, post)
            if original_never_left(self._outbox.delivery(post.delivery_id), post.attempt):
                self._withdraw(copied_by, fault_id, post)

    @property
    def open_attempts(self) -> frozenset[tuple[str, int]]:
        """The attempts in flight that were dropped and have yet to time out, by delivery id and number."""
        return frozenset(attempt_of(row["post"]) for row in self._waiting if not row["is_copy"])

    def attempt_note(self, delivery_id: str, number: int, attempt: Attempt) -> str:
        """The note of an attempt; of one that was dropped and has yet to time out, when it does."""
        unmet = self.hits.unmet(delivery_id, number)
        notes = [] if unmet is None else [f"held by the fault {unmet}: nothing {WITHOUT[unmet]} it"]
        if attempt.ended_at is None and self.hits.is_dropped(delivery_id, number):
            waiting = self._waiting.row(attempt_id(delivery_id, number))
            notes += [DROPPED, *([] if waiting is None else [f"it times out at {to_iso(waiting['due_at'])}"])]
        return "; ".join(filter(None, [*notes, attempt.note]))

    def check_held(self) -> None:
        """Hold nothing of deliveries that have ended: in a store that was opened or a state that was restored."""
        self._holds.check()

    def resume(self) -> None:
        """Set the timers again after a store was opened."""
        self.check_held()
        for row in self._waiting:
            self._clock.call_at(row["due_at"], CALLBACK, TIMER, row["id"])

    # Inside

    def _holding(self, delivery: DeliveryRow, number: int, due_ms: int) -> FaultRow | None:
        """The fault that holds an attempt that is due at `due_ms`, or None."""
        return self._holds.first(self.index, delivery, number, due_ms) if len(self._faults) else None

    def _applying(self, delivery: DeliveryRow, post: CallbackRequest) -> tuple[FaultRow | None, CallbackRequest]:
        """The fault that applies to an attempt that is sent, and the changed message. A fault of the message that
        would leave this one as it is does not apply."""
        secrets = None
        for fault in self.index.of_attempt((SENDING,), delivery, post.attempt):
            if fault["kind"] not in CONTENT_KINDS:
                return fault, post
            secrets = self._secrets(delivery) if secrets is None else secrets
            changed = mutated(fault, post, *secrets, self._rng)
            if changed != post:
                return fault, changed
        return None, post

    def _count_hit(self, fault: FaultRow, delivery_id: str, number: int, *sent: CallbackRequest) -> FaultRow:
        updated: FaultRow = {**fault, "hits": fault["hits"] + 1}
        self._faults.put(updated)
        facts: dict[str, Any] = {"delivery": delivery_id, "attempt": number, "hit": updated["hits"]}
        if sent:
            facts["sent"] = [
                {"headers": dict(post.headers), "body": post.body.decode("utf-8", "replace")} for post in sent
            ]
            facts |= _not_hashed(sent[0].url)
        instead = [] if fault["kind"] == "drop" else facts.get("sent")
        self.hits.applied(delivery_id, number, updated, instead)
        self._journal.note("fault_hit", fault["id"], fault=fault["kind"], **facts)
        return updated

    def _withdraw(self, kind: str, fault_id: str, post: CallbackRequest) -> None:
        """A changed or copied message was never sent: its fault has not applied, and applies to a later one. A copy
        that is still to be sent is not sent. After a copy was sent the fault has applied, whatever became of the
        message itself."""
        fault = self._faults.row(fault_id)
        is_known = self.hits.is_unmet(post.delivery_id, post.attempt, kind)
        if fault is not None:  # else it was cleared meanwhile
            fault = {**fault, "hits": fault["hits"] - 1}
            self._faults.put(with_unsent(fault, -1) if is_known else fault)
            self.index.add(fault)
        for waiting_id in (request_id(post), *self._copies(fault_id, post)):
            if self._waiting.delete(waiting_id):
                self._clock.cancel(TIMER, waiting_id)
        self.hits.withdraw(post.delivery_id, post.attempt, kind)
        if not is_known:
            self._unmet(fault_id, kind, post)

    def _copies(self, fault_id: str, post: CallbackRequest) -> list[str]:
        """The ids that the rows of a message's copies may have. Rows of earlier versions do not say which."""
        hits = self.hits.numbers(post.delivery_id, post.attempt, fault_id)
        if hits is not None:
            return [request_id(post._replace(copied_by=(fault_id, hit))) for hit in hits]
        attempt = (post.delivery_id, post.attempt)
        return [row["id"] for row in self._waiting if attempt_of(row["post"]) == attempt]

    def _unmet(self, fault_id: str, kind: str, post: CallbackRequest) -> None:
        self._journal.note(UNMET, fault_id, fault=kind, delivery=post.delivery_id, attempt=post.attempt)

    def _secrets(self, delivery: DeliveryRow) -> tuple[list[str], str | None]:
        """The secrets that sign now, and the one from before the last rotation, if there was one."""
        project = delivery["project"]
        return self._projects.signing_secrets(project, self._clock.now()), self._earlier_secret(project)

    def _earlier_secret(self, project: str) -> str | None:
        """The newest secret of the project that is not the current one."""
        texts = [secret["secret"] for secret in self._projects.secrets(project)]
        return next((text for text in reversed(texts) if text != texts[-1]), None)

    def _send_variant(self, post: CallbackRequest, fault: FaultRow, secrets: tuple[list[str], str | None]) -> None:
        now = self._clock.now()
        if fault["kind"] == "drop":
            self._wait(post, now + post.timeout_ms)
            return
        copy = post._replace(copied_by=(fault["id"], fault["hits"]))
        if fault["kind"] == "duplicate_new_id":
            copy = renamed(copy, secrets[0], uuid4_from(self._rng))
        self._transport.post(post, self.on_response)
        hit = self.hits.row(post.delivery_id, post.attempt)
        if hit is None or hit["kind"] != fault["kind"]:
            return  # it was withdrawn at once, because the message was not sent
        if fault["kind"] == "simultaneous":
            self._send_copy(copy)
        else:
            self._wait(copy, now + (fault["delay_ms"] or 0), sign_again=fault["kind"] != "duplicate")

    def _wait(self, post: CallbackRequest, due_at: int, *, sign_again: bool = False) -> None:
        waiting_id = request_id(post)
        row: WaitingRow = {
            "id": waiting_id,
            "post": packed(post),
            "due_at": due_at,
            "is_copy": post.copied_by is not None,
            "sign_again": sign_again,
        }
        self._waiting.put(row)
        self._clock.call_at(due_at, CALLBACK, TIMER, waiting_id)

    def _on_due(self, waiting_id: str) -> None:
        row = self._waiting.row(waiting_id)
        if row is None:
            return
        self._waiting.delete(waiting_id)
        post = unpacked(row["post"])
        if not row["is_copy"]:
            response = CallbackResponse(error="timeout", note=DROPPED, latency_ms=post.timeout_ms, sent=False)
            self.on_response(post, response)
            return
        delivery = self._outbox.delivery(post.delivery_id)
        if row["sign_again"] and delivery is not None:
            stamp_s = self._transport.receiver_time_s(post.url)
            post = resent(post, self._secrets(delivery)[0], stamp_s, self._clock.now())
        self._send_copy(post)

    def _send_copy(self, copy: CallbackRequest) -> None:
        assert copy.copied_by is not None
        self.hits.copied(copy.delivery_id, copy.attempt, COPY_STARTED, copy.copied_by[0])
        facts: dict[str, Any] = {"delivery": copy.delivery_id, "headers": dict(copy.headers), **_not_hashed(copy.url)}
        self._journal.note(COPY_STARTED, copy.copied_by[0], **facts)
        self._transport.post(copy, self.on_response)


def _not_hashed(url: str) -> dict[str, Any]:
    """The facts that name the headers of a message which depend on the webhook secret and, to a receiver on the
    network, on real time."""
    return {"secretDependent": [SIGNATURE], **({} if is_built_in(url) else {"realTime": [SIGNATURE, STAMP]})}
