"""The transport of a world: callbacks to the built-in receivers stay in process, all others go to the real network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Protocol
from urllib.parse import urlsplit

from leyden.callbacks.receivers import Receivers, Responded
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse, CallbackTransport

Pending = tuple[CallbackRequest, CallbackResponse, Responded]


class ExternalTransport(CallbackTransport, Protocol):
    """A transport to the real network."""

    def report_within(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter `around()` whenever responses are reported: those that arrive together are reported within one."""

    async def wait_idle(self) -> None:
        """Wait until every request was answered."""

    async def close(self) -> None:
        """Close every connection."""


class TransportRouter:
    """Sends each callback to the built-in receivers or to the real network, by its host.

    Served worlds keep `inbox.localhost` and the names below it for their built-in receivers; every other host is
    external. Without an external transport every host is a built-in receiver.

    A request to the real network leaves when the commit that records it is written; a rollback discards it. Responses
    are recorded as they arrive, or in the order of sending inside `responses_in_order`; those that arrive together are
    recorded in one transaction. What cannot be recorded because the disk is full waits for `flush_responses`.
    """

    def __init__(
        self,
        receivers: Receivers,
        external: ExternalTransport | None,
        exclusive: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.receivers = receivers
        self.external = external
        self._exclusive = exclusive
        self._to_send: list[tuple[CallbackRequest, Responded]] = []
        self._pending: list[Pending] = []
        self._sent: dict[int, Pending | None] = {}  # by number, in the order of sending
        self._numbers = count(1)
        self._in_order = 0
        self._collecting = False
        if external is not None:
            external.report_within(self._collect)

    def post(self, post: CallbackRequest, responded: Responded) -> None:
        """Send the request to the receiver of its URL."""
        if self._is_built_in(post.url):
            self.receivers.post(post, responded)
        else:
            self._to_send.append((post, responded))

    # Part of a commit (`leyden.server.store.rows.CommitParticipant`)

    def begin(self) -> None:
        """Nothing waits to be sent when a commit starts."""

    def commit(self) -> None:
        """Send the requests that the commit has written."""
        if not self._to_send:
            return
        to_send, self._to_send = self._to_send, []
        for post, responded in to_send:
            assert self.external is not None, "without an external transport every host is built in"
            number = next(self._numbers)
            self._sent[number] = None
            self.external.post(post, self._recorder(responded, number))

    def rollback(self, error: BaseException) -> None:
        """Discard what would have been sent: the outbox tries it again."""
        self._to_send.clear()

    # Responses

    @property
    def has_pending_responses(self) -> bool:
        """Whether responses wait to be recorded."""
        return bool(self._pending)

    def flush_responses(self) -> None:
        """Record the responses that wait.

        Raises `StorageUnavailable` if they cannot be recorded: then they go on waiting. Any other exception is raised,
        too, after the responses of its group were recorded one by one: the one that fails by itself is dropped, and
        the others are not lost with it.
        """
        group_size, defect = len(self._pending), None
        while self._pending:
            group = self._pending[:group_size]
            del self._pending[:group_size]
            try:
                with self._exclusive():
                    for post, response, responded in group:
                        responded(post, response)
            except StorageUnavailable:
                self._pending[:0] = group
                raise
            except Exception as error:
                if len(group) == 1:
                    raise
                self._pending[:0] = group  # all of them were rolled back
                group_size, defect = 1, error
        if defect is not None:
            raise defect  # none of them fails alone

    @contextmanager
    def responses_in_order(self) -> Iterator[None]:
        """While inside, a response is recorded only after those to all earlier requests."""
        self._in_order += 1
        try:
            yield
        finally:
            self._in_order -= 1
            if not self._in_order:
                self._pending.extend(pending for pending in self._sent.values() if pending is not None)
                self._sent = {number: pending for number, pending in self._sent.items() if pending is None}

    def receiver_time_s(self, url: str) -> int:
        """The time that this URL's receiver compares signatures with, in seconds since 1970."""
        if self._is_built_in(url):
            return self.receivers.receiver_time_s(url)
        assert self.external is not None
        return self.external.receiver_time_s(url)

    def _recorder(self, responded: Responded, number: int) -> Responded:
        def record(post: CallbackRequest, response: CallbackResponse) -> None:
            if self._in_order:
                self._sent[number] = (post, response, responded)
                while self._sent and (pending := self._sent[first := next(iter(self._sent))]) is not None:
                    del self._sent[first]
                    self._pending.append(pending)
            else:
                del self._sent[number]
                self._pending.append((post, response, responded))
            if not self._collecting:
                self._flush()

        return record

    @contextmanager
    def _collect(self) -> Iterator[None]:
        self._collecting = True
        try:
            yield
        finally:
            self._collecting = False
            self._flush()

    def _flush(self) -> None:
        with suppress(StorageUnavailable):
            self.flush_responses()

    def _is_built_in(self, url: str) -> bool:
        return self.external is None or _is_inbox(url)


@lru_cache(maxsize=256)
def _is_inbox(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "inbox.localhost" or host.endswith(".inbox.localhost")
