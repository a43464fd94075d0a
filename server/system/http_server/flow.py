"""Flow control of a connection with a client that sends further requests before it has read earlier responses, or that
does not read its responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

log = logging.getLogger("leyden")

# Real seconds. A connection is closed when its client has read nothing of a waiting response for so long.
WRITE_TIMEOUT_S = 30.0
# Bytes of responses that clients have not read yet, of all connections.
MAX_UNREAD_BYTES = 256 * 1024 * 1024


class UnreadResponses:
    """The connections of a server whose clients have not read their responses yet, with a bound on these responses.

    When there are more than `MAX_UNREAD_BYTES`, the connection whose client has read nothing for longest is closed, and
    the next one, until they are fewer. The response that exceeds the bound stays, also when it is larger by itself.
    """

    def __init__(self) -> None:
        self._by_progress: dict[HeldFlow, int] = {}  # the number of unsent bytes when it was last looked at
        self._has_closed = False

    def add(self, flow: HeldFlow) -> None:
        """A response waits for its client. Closes other connections when there are too many bytes."""
        self._by_progress[flow] = flow.unsent
        excess = sum([waiting.unsent for waiting in self._by_progress]) - MAX_UNREAD_BYTES
        if excess > 0:
            self._close(excess, flow)

    def note(self, flow: HeldFlow) -> bool:
        """Whether the client has read since the last look."""
        unsent, former = flow.unsent, self._by_progress[flow]
        if unsent < former:
            del self._by_progress[flow]
            self._by_progress[flow] = unsent
        return unsent < former

    def remove(self, flow: HeldFlow) -> None:
        """The client has read, or its connection was lost."""
        self._by_progress.pop(flow, None)

    def _close(self, excess: int, latest: HeldFlow) -> None:
        for flow in list(self._by_progress):
            self.note(flow)
        for flow in list(self._by_progress):
            if flow is not latest and excess > 0:
                excess -= flow.unsent
                if not self._has_closed:
                    self._has_closed = True
                    log.warning(
                        "a connection was closed: its client had not read %d bytes of a response, and all such bytes"
                        " were more than %d (further connections are closed without a line)",
                        flow.unsent,
                        MAX_UNREAD_BYTES,
                    )
                flow.abort()


class HeldFlow(FlowControl):
    """uvicorn's flow control, which reads nothing more while `is_held()`, and does not wait for ever to write.

    uvicorn resumes reading at each response and whenever an application waits for a body: a client that goes on
    sending would have any number of requests in memory. One that never reads would keep its response there.
    """

    def __init__(
        self, transport: asyncio.Transport, is_held: Callable[[], bool], unread: UnreadResponses | None = None
    ) -> None:
        super().__init__(transport)
        self._written_to = transport
        self._is_held = is_held
        self._unread = unread or UnreadResponses()
        self._write_timer: asyncio.TimerHandle | None = None

    def resume_reading(self) -> None:
        """Read on, unless what was read waits."""
        if not self._is_held():
            super().resume_reading()

    @property
    def unsent(self) -> int:
        """The number of bytes that the client has not read."""
        return self._written_to.get_write_buffer_size()

    def pause_writing(self) -> None:
        """The transport's buffer is full: wait until the client reads, for a bounded time."""
        super().pause_writing()
        if self._write_timer is None:
            self._unread.add(self)
            self._expect_progress()

    def resume_writing(self) -> None:
        """The client has read, or the connection was lost."""
        super().resume_writing()
        self._stop_waiting()

    def abort(self) -> None:
        """Close the connection without what was not sent."""
        self._stop_waiting()
        self._written_to.abort()

    def _stop_waiting(self) -> None:
        self._unread.remove(self)
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _expect_progress(self) -> None:
        self._write_timer = asyncio.get_running_loop().call_later(WRITE_TIMEOUT_S, self._check_progress)

    def _check_progress(self) -> None:
        if self._unread.note(self):
            self._expect_progress()
        else:
            self.abort()
