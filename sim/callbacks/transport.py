"""The exchange: callbacks for the built-in receivers stay in the house, all others go out to the real network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Protocol
from urllib.parse import urlsplit

from leyden.callbacks.receivers import Receivers
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse, CallbackTransport

Answered = Callable[[CallbackRequest, CallbackResponse], None]
Told = tuple[CallbackRequest, CallbackResponse, Answered]


class ExternalTransport(CallbackTransport, Protocol):
    """A courier to the real network."""

    def report_within(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter `around()` whenever answers are told: those that came together are told within one."""

    async def wait_idle(self) -> None:
        """Wait until every post was answered."""

    async def close(self) -> None:
        """Close every connection."""


class TransportRouter:
    """The courier of a world: receivers in process for its own hosts, the real network for the others if there is one.

    Served worlds keep `inbox.localhost` and the names below it for their built-in receivers; everything else is
    somebody's own. Without an outside every host is a built-in receiver.

    A post to the outside leaves with `release`, when the commit that records it is over; `drop` forgets it when that
    commit was taken back. Answers are told as they come, or in the order of sending while somebody asks for that; those
    that come together are recorded in one transaction. What cannot be recorded because the disk is full is kept for
    `flush_responses`.
    """

    def __init__(
        self,
        inside: Receivers,
        outside: ExternalTransport | None,
        exclusive: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.receivers = inside
        self.external = outside
        self._exclusive = exclusive
        self._ready: list[tuple[CallbackRequest, Answered]] = []
        self._untold: list[Told] = []
        self._sent: dict[int, Told | None] = {}  # by place in the order of sending
        self._places = count(1)
        self._in_order = 0
        self._gathering = False
        if outside is not None:
            outside.report_within(self._together)

    def post(self, post: CallbackRequest, answered: Answered) -> None:
        """Hand the post to whoever the URL belongs to."""
        if self._is_inside(post.url):
            self.receivers.post(post, answered)
        else:
            self._ready.append((post, answered))

    def commit(self) -> None:
        """Send what is ready: the commit that began it is written down."""
        if not self._ready:
            return
        ready, self._ready = self._ready, []
        for post, answered in ready:
            assert self.external is not None, "posts are made ready only for an outside"
            place = next(self._places)
            self._sent[place] = None
            self.external.post(post, self._teller(answered, place))

    def rollback(self) -> None:
        """Forget what is ready: the commit that began it was taken back, and will be tried again."""
        self._ready.clear()

    @property
    def has_pending_responses(self) -> bool:
        """Whether answers wait to be recorded."""
        return bool(self._untold)

    def flush_responses(self) -> None:
        """Record the answers that were not recorded so far.

        Raises `StorageUnavailable` if they cannot be: then they wait. A defect is always raised, too, after those of
        its group were told one by one: the one that fails by itself is given up, the others must not suffer for it.
        """
        at_once, defect = len(self._untold), None
        while self._untold:
            told = self._untold[:at_once]
            del self._untold[:at_once]
            try:
                with self._exclusive():
                    for sent, answer, answered in told:
                        answered(sent, answer)
            except StorageUnavailable:
                self._untold[:0] = told
                raise
            except Exception as error:
                if len(told) == 1:
                    raise
                self._untold[:0] = told  # all of them were taken back
                at_once, defect = 1, error
        if defect is not None:
            raise defect  # none of them fails alone

    @contextmanager
    def responses_in_order(self) -> Iterator[None]:
        """While inside, an answer waits to be told until those to all earlier posts have come."""
        self._in_order += 1
        try:
            yield
        finally:
            self._in_order -= 1
            if not self._in_order:
                self._untold.extend(told for told in self._sent.values() if told is not None)
                self._sent = {place: told for place, told in self._sent.items() if told is None}

    def receiver_time_s(self, url: str) -> int:
        """The time that this URL's receiver compares signatures with."""
        if self._is_inside(url):
            return self.receivers.receiver_time_s(url)
        assert self.external is not None
        return self.external.receiver_time_s(url)

    def _teller(self, answered: Answered, place: int) -> Answered:
        def tell(sent: CallbackRequest, answer: CallbackResponse) -> None:
            if self._in_order:
                self._sent[place] = (sent, answer, answered)
                while self._sent and (told := self._sent[first := next(iter(self._sent))]) is not None:
                    del self._sent[first]
                    self._untold.append(told)
            else:
                del self._sent[place]
                self._untold.append((sent, answer, answered))
            if not self._gathering:
                self._record()

        return tell

    @contextmanager
    def _together(self) -> Iterator[None]:
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            self._record()

    def _record(self) -> None:
        with suppress(StorageUnavailable):
            self.flush_responses()

    def _is_inside(self, url: str) -> bool:
        return self.external is None or _is_built_in(url)


@lru_cache(maxsize=256)
def _is_built_in(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "inbox.localhost" or host.endswith(".inbox.localhost")
