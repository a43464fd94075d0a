"""Flow control of a connection with a client that sends further requests before it has read earlier responses, or that
does not read its responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

# Real seconds. A connection is closed when its client has read nothing of a waiting response for so long.
WRITE_TIMEOUT_S = 30.0


class HeldFlow(FlowControl):
    """uvicorn's flow control, which reads nothing more while `is_held()`, and does not wait for ever to write.

    uvicorn resumes reading at each response and whenever an application waits for a body: a client that goes on
    sending would have any number of requests in memory. One that never reads would keep its response there.
    """

    def __init__(self, transport: asyncio.Transport, is_held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._written_to = transport
        self._is_held = is_held
        self._write_timer: asyncio.TimerHandle | None = None

    def resume_reading(self) -> None:
        """Read on, unless what was read waits."""
        if not self._is_held():
            super().resume_reading()

    def pause_writing(self) -> None:
        """The transport's buffer is full: wait until the client reads, for a bounded time."""
        super().pause_writing()
        if self._write_timer is None:
            self._expect_progress()

    def resume_writing(self) -> None:
        """The client has read, or the connection was lost."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _expect_progress(self) -> None:
        unsent = self._written_to.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._write_timer = loop.call_later(WRITE_TIMEOUT_S, self._check_progress, unsent)

    def _check_progress(self, unsent: int) -> None:
        self._write_timer = None
        if self._written_to.get_write_buffer_size() >= unsent:
            self._written_to.abort()
        else:
            self._expect_progress()
