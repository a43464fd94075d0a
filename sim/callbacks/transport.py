"""The transport of a world: callbacks to names below `.localhost` stay in process, all others go to the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import count
from types import MappingProxyType
from typing import Protocol

from leyden.callbacks.callback_rows import request_id
from leyden.callbacks.receivers import Receivers, Responded, is_built_in
from leyden.server.callbacks.deliveries import BLOCKED
from leyden.server.callbacks.egress import NO_CONNECTION, NO_LOOKUP, before_attempt, closed_note
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse, CallbackTransport

Pending = tuple[CallbackRequest, CallbackResponse, Responded]
Observe = Callable[[CallbackRequest, CallbackResponse, int], None]


class ExternalTransport(CallbackTransport, Protocol):
    """A transport to the real network."""

    def report_within(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter `around()` whenever responses are reported: those that arrive together are reported within one."""

    def blocked_note(self, url: str) -> str:
        """The note of an attempt to send to `url` that is blocked now; empty when it may be sent, and when that is not
        known before it is tried."""

    async def wait_idle(self) -> None:
        """Wait until every request was answered."""

    async def close(self) -> None:
        """Close every connection."""


IsOver = Callable[[], bool]


def _never() -> bool:
    return False


# The cause may be the receiver itself, and the server cannot know who moves time or copies the sandbox.
_NOT_SENT = (*NO_LOOKUP, *NO_CONNECTION)  # the receiver got nothing, so it cannot have asked for anything
_WAITED = "{} waited for this answer meanwhile: if the receiver asked for {}, it must answer first"
MOVE_WAITED = _WAITED.format("a move of time", "that move")
COPY_WAITED = _WAITED.format("a copy or a script of the sandbox", "it")
LOOP_STOOD = (
    "the event loop of the thread that waited for this answer stood still meanwhile: if the receiver runs in it, move"
    " time in another thread, as with asyncio.to_thread"
)


def blocked(request: CallbackRequest) -> CallbackResponse:
    """The result of an attempt to send to the network from a sandbox that sends nothing there."""
    return CallbackResponse(error=BLOCKED, note=closed_note(request.url))


class RecordedNetwork:
    """An `ExternalTransport` that sends nothing: `respond` gives the recorded response to a request.

    `now_s` is the sandbox's time in seconds, with which requests are signed.
    """

    def __init__(self, now_s: Callable[[], int]) -> None:
        self._now_s = now_s
        self._response_time_s: int | None = None
        self._waiting: dict[str, tuple[CallbackRequest, Responded]] = {}
        self._response_context: Callable[[], AbstractContextManager[None]] = nullcontext

    def post(self, request: CallbackRequest, responded: Responded) -> None:
        """Keep the request until it gets its response."""
        self._waiting[request_id(request)] = request, responded

    def respond(
        self, wanted: str, response: CallbackResponse, time_s: int, signed: Mapping[str, str] = MappingProxyType({})
    ) -> bool:
        """Report the response to the request with this `request_id`, at `time_s` on the receiver's clock; whether there
        is such a request. `signed` are headers that the recorded request had in place of those of this one."""
        request, responded = self._waiting.pop(wanted, (None, None))
        if request is None or responded is None:
            return False
        self._response_time_s = time_s
        try:
            with self._response_context():
                responded(request._replace(headers={**request.headers, **signed}) if signed else request, response)
        finally:
            self._response_time_s = None
        return True

    def block_rest(self) -> None:
        """The recorded responses are used up: every request that waits for one is blocked."""
        while self._waiting:
            wanted, (request, _) = next(iter(self._waiting.items()))
            self.respond(wanted, blocked(request), self._now_s())

    def report_within(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        """As `ExternalTransport`."""
        self._response_context = context

    def receiver_time_s(self, url: str) -> int:
        """The recorded time while a response is reported, else the sandbox's time."""
        return self._now_s() if self._response_time_s is None else self._response_time_s

    def blocked_note(self, url: str) -> str:
        """Not known: `respond` gives the responses."""
        return ""

    async def wait_idle(self) -> None:
        """Nothing to wait for: `respond` gives the responses."""

    async def close(self) -> None:
        """Nothing to close."""


class TransportRouter:
    """Sends each callback to the built-in receivers or to the real network, by its host.

    The names below `.localhost` are built-in receivers; every other host is on the network. `network` is None where
    nothing may be sent there: each attempt is then blocked.

    A request to the real network leaves when the commit that records it is written; a rollback discards it. One that
    is known to be blocked does not leave: its result waits for `flush_responses`. Responses are recorded as they
    arrive, or in the order of sending inside `responses_in_order`; those that arrive together are recorded in one
    transaction. `lock` is held meanwhile. `observe(request, response, time_s)` is called when a response is recorded;
    `time_s` is the time that the network's receivers have then. What cannot be recorded because the disk is full waits
    for `flush_responses`. `timeout_ms` replaces the timeout of a request to the network.
    `note_of(url)` is the note of an attempt that is blocked because there is no network. `slice_end()` begins a slice
    of work and returns its `is_over`, for the responses that are recorded as they arrive; the rest of them waits.
    """

    def __init__(
        self,
        receivers: Receivers,
        network: ExternalTransport | None,
        exclusive: Callable[[], AbstractContextManager[None]],
        lock: Callable[[], AbstractContextManager[object]] = nullcontext,
        observe: Observe | None = None,
        timeout_ms: int | None = None,
        note_of: Callable[[str], str] = closed_note,
        slice_end: Callable[[], IsOver] = lambda: _never,
    ) -> None:
        self.receivers = receivers
        self._exclusive = exclusive
        self._lock = lock
        self._observe = observe
        self._timeout_ms = timeout_ms
        self._note_of = note_of
        self._slice_end = slice_end
        self._response_time_s: int | None = None  # while a response is recorded
        self._to_send: list[tuple[CallbackRequest, Responded]] = []
        self._pending: list[Pending] = []
        self._sent: dict[int, Pending | None] = {}  # by number, in the order of sending
        self._numbers = count(1)
        self._moves = 0
        self._awaited: dict[int, str] = {}  # by number: what began later has waited for them, as a note says it
        self._held = 0
        self._collecting = self._discarded = False
        self.connect(network)

    def connect(self, network: ExternalTransport | None) -> None:
        """From now on send through `network`."""
        self._network = network
        if network is not None:
            network.report_within(self._collect)

    def post(self, post: CallbackRequest, responded: Responded) -> None:
        """Send the request to the receiver of its URL."""
        if is_built_in(post.url):
            self.receivers.post(post, responded)
        elif self._network is None:
            responded(post, CallbackResponse(error=BLOCKED, note=self._note_of(post.url)))
        else:
            timeout_ms = self._timeout_ms
            if timeout_ms is not None:
                connect_ms = min(post.connect_timeout_ms, timeout_ms)
                post = post._replace(timeout_ms=timeout_ms, connect_timeout_ms=connect_ms)
            self._to_send.append((post, responded))

    def forbidden_note(self, url: str) -> str:
        """Why an attempt to send to `url` would be blocked now, and what to change before it; empty when it would not,
        and when that is not known."""
        if is_built_in(url):
            return ""
        note = self._note_of(url) if self._network is None else self._network.blocked_note(url)
        return before_attempt(note)

    # Part of a commit (`leyden.server.store.rows.CommitParticipant`)

    def begin(self) -> None:
        """Nothing waits to be sent when a commit starts."""

    def commit(self) -> None:
        """Send the requests that the commit has written."""
        if not self._to_send:
            return
        to_send, self._to_send = self._to_send, []
        for post, responded in to_send:
            network = self._network
            assert network is not None
            number = next(self._numbers)
            self._sent[number] = None
            note = network.blocked_note(post.url)
            if note:
                self._arrived(number, (post, CallbackResponse(error=BLOCKED, note=note), responded))
            else:
                network.post(post, self._recorder(responded, number))

    def rollback(self, error: BaseException) -> None:
        """Discard what would have been sent: the outbox tries it again."""
        self._to_send.clear()

    # Responses

    @property
    def is_waiting(self) -> bool:
        """Whether a request to the network has no response yet."""
        return bool(self._sent)

    @property
    def moves(self) -> int:
        """The number of moves of time in progress: each is inside `responses_in_order`."""
        return self._moves

    def abandon(self) -> None:
        """Wait no more for the requests that were sent and have no response: their transport was closed. The responses
        to later ones wait for nothing then: `flush_responses` records them."""
        self._pending.extend(pending for pending in self._sent.values() if pending is not None)
        self._sent, self._awaited = {}, {}

    def discard(self) -> None:
        """Ignore every response from now on: a reset has ended the run of these requests."""
        self._discarded = True
        self._pending, self._sent, self._awaited = [], {}, {}

    @property
    def is_discarded(self) -> bool:
        """Whether the run has ended: by a reset, a restore, or the end of the world."""
        return self._discarded

    @property
    def has_unrecorded(self) -> bool:
        """Whether a request to the network has no response yet, or one that is not recorded."""
        return bool(self._sent or self._pending)

    @property
    def has_pending_responses(self) -> bool:
        """Whether responses wait to be recorded."""
        return bool(self._pending)

    def flush_responses(self, is_over: IsOver = _never) -> None:
        """Record the responses that wait, until `is_over()`, which is called after each; the rest goes on waiting.

        Raises `StorageUnavailable` if they cannot be recorded: then all of them go on waiting. Any other exception is
        raised, too, after the responses of its group were recorded one by one: the one that fails by itself is dropped,
        and the others are not lost with it.
        """
        defect, ended = None, False
        while self._pending and not ended:
            group = self._pending[: None if defect is None else 1]
            del self._pending[: len(group)]
            times_s = list[int]()
            try:
                ended = self._record(group, times_s, is_over)
            except StorageUnavailable:
                self._pending[:0] = group
                raise
            except Exception as error:
                if len(times_s) == 1:
                    self._pending[:0] = group[1:]
                    raise
                self._pending[:0] = group  # all of them were rolled back
                defect = error
            else:
                self._pending[:0] = group[len(times_s) :]
                for (post, response, _), time_s in zip(group, times_s, strict=False):
                    if self._observe is not None:
                        self._observe(post, response, time_s)
        if defect is not None:
            raise defect  # none of those recorded since fails alone

    def _record(self, group: Sequence[Pending], times_s: list[int], is_over: IsOver) -> bool:
        """Record responses in one transaction, until `is_over()`; whether it was. `times_s` gets the time of the
        receivers at each."""
        ended = False
        try:
            with self._exclusive():
                for post, response, responded in group:
                    self._response_time_s = self.receiver_time_s(post.url)
                    times_s.append(self._response_time_s)
                    responded(post, response)
                    self._response_time_s = None
                    if ended := is_over():
                        break
        finally:
            self._response_time_s = None
        return ended

    @contextmanager
    def responses_in_order(self) -> Iterator[Callable[[], None]]:
        """While inside, time is moved, and a response is recorded only after those to all earlier requests.

        The value is to be called when the move begins to wait for responses: a request from before the move that then
        gets none in time says so, because its receiver may have asked for the move.
        """
        with self._lock():
            self._moves += 1
            earlier = self._unanswered()

        def waits() -> None:
            self._awaited |= dict.fromkeys(earlier & self._unanswered(), MOVE_WAITED)

        try:
            yield waits
        finally:
            with self._lock():
                self._moves -= 1
                if not self._moves:
                    self._pending.extend(pending for pending in self._sent.values() if pending is not None)
                    self._sent = {number: pending for number, pending in self._sent.items() if pending is None}

    def wait_begins(self, *, is_copy: bool, stops_loop: bool) -> None:
        """This thread waits for all responses. A request that gets none in time says so if it was for a copy or a
        script of the sandbox, which its receiver may have asked for, or if it stops an event loop."""
        if is_copy:
            self._awaited |= dict.fromkeys(self._unanswered(), COPY_WAITED)
        if stops_loop:
            self._awaited = dict.fromkeys(self._unanswered(), LOOP_STOOD) | self._awaited

    @contextmanager
    def responses_held(self) -> Iterator[None]:
        """While inside, responses that arrive wait for `flush_responses`: the events that run now come first."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def receiver_time_s(self, url: str) -> int:
        """The time that this URL's receiver compares signatures with, in seconds since 1970."""
        if self._network is None or is_built_in(url):
            return self.receivers.receiver_time_s(url)
        if self._response_time_s is not None:
            return self._response_time_s
        return self._network.receiver_time_s(url)

    def _unanswered(self) -> set[int]:
        return {number for number, pending in self._sent.items() if pending is None}

    def _recorder(self, responded: Responded, number: int) -> Responded:
        def record(post: CallbackRequest, response: CallbackResponse) -> None:
            if self._discarded:
                return
            waited = self._awaited.pop(number, None)
            if waited is not None and response.error == "timeout" and not response.note.startswith(_NOT_SENT):
                response = response._replace(note=f"{response.note}; {waited}")
            self._arrived(number, (post, response, responded))
            if not self._collecting:
                self._flush()

        return record

    def _arrived(self, number: int, pending: Pending) -> None:
        """A response is there: it waits for those to earlier requests if time is moved, and to be recorded."""
        if self._moves and number in self._sent:
            self._sent[number] = pending
            while self._sent and (next_one := self._sent[first := next(iter(self._sent))]) is not None:
                del self._sent[first]
                self._pending.append(next_one)
        else:
            self._sent.pop(number, None)
            self._pending.append(pending)

    @contextmanager
    def _collect(self) -> Iterator[None]:
        with self._lock():
            self._collecting = True
            try:
                yield
            finally:
                self._collecting = False
                self._flush()

    def _flush(self) -> None:
        if self._held:
            return
        with suppress(StorageUnavailable):
            self.flush_responses(self._slice_end())
