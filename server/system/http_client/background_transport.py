"""The HTTP transport of a program without an event loop: it sends callbacks in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import nullcontext

from leyden.server.callbacks.egress import Egress
from leyden.server.ports import CallbackRequest, OnResponse
from leyden.server.system.clock import system_time_ms
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_client.transport import HttpTransport, ReportContext

_CLOSING_S = 5.0


class BackgroundTransport:
    """A `leyden.server.ports.CallbackTransport` over real HTTP, as `HttpTransport`, for callers in any thread.

    The thread runs while something is in flight; responses are reported in it. `egress` is the policy of the attempts
    that start from now on.
    """

    def __init__(self, egress: Egress) -> None:
        self.egress = egress
        self._changed = threading.Condition()
        self._queue: deque[tuple[CallbackRequest, OnResponse]] = deque()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: HttpTransport | None = None
        self._report_context: ReportContext = nullcontext

    def post(self, request: CallbackRequest, on_response: OnResponse) -> None:
        """Send in the background, and call `on_response` in the thread of this transport."""
        with self._changed:
            self._queue.append((request, on_response))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leyden-callbacks", daemon=True)
                self._thread.start()
            elif self._loop is not None and self._transport is not None:
                self._loop.call_soon_threadsafe(self._send_queued, self._transport)

    def report_within(self, context: ReportContext) -> None:
        """Enter `context()` when responses are reported: those that arrive together are reported in one context."""
        self._report_context = context

    def blocked_note(self, url: str) -> str:
        """The note of an attempt to send to `url` that is blocked now, as that of `HttpTransport`."""
        return self.egress.blocked_note(url)

    def receiver_time_s(self, url: str) -> int:
        """The system clock, in seconds since the epoch: a real receiver compares signatures with its own clock."""
        return system_time_ms() // 1_000

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight and every response is reported."""
        with self._changed:
            return self._thread is None

    async def wait_idle(self) -> None:
        """Return when nothing is in flight and every response is reported."""
        await asyncio.to_thread(self._wait_idle)

    async def close(self) -> None:
        """As `stop`."""
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """Cancel what is in flight, without reporting it, and wait for the thread. A later `post` starts another."""
        with self._changed:
            self._queue.clear()
            thread, loop, transport = self._thread, self._loop, self._transport
            if loop is not None and transport is not None:
                asyncio.run_coroutine_threadsafe(transport.close(), loop)
        if thread is not None:
            thread.join(_CLOSING_S)

    def _wait_idle(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._send_all())

    async def _send_all(self) -> None:
        transport = self._new_transport()
        try:
            while not self._has_ended(transport):
                if transport.is_closed:  # by `stop`, and more was posted since
                    transport = self._new_transport()
                self._send_queued(transport)
                await transport.wait_idle()
        finally:
            await transport.close()

    def _new_transport(self) -> HttpTransport:
        transport = HttpTransport.following(lambda: self.egress)
        transport.report_within(lambda: self._report_context())
        with self._changed:
            self._loop, self._transport = asyncio.get_running_loop(), transport
        return transport

    def _has_ended(self, transport: HttpTransport) -> bool:
        """Whether nothing is left to send; the next `post` then starts another thread."""
        with self._changed:
            if self._queue or transport.pending_count:
                return False
            self._loop = self._transport = self._thread = None
            self._changed.notify_all()
            return True

    def _send_queued(self, transport: HttpTransport) -> None:
        with self._changed:
            if transport is not self._transport:
                return  # this thread has ended, and what is queued now is another's
            queued = [*self._queue]
            self._queue.clear()
        for request, on_response in queued:
            transport.post(request, on_response)


def in_event_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
