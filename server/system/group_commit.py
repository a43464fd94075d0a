"""Group commit: requests and callbacks that wait for the disk share one fsync."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from leyden.server.callbacks.deliveries import LOST
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse, OnResponse
from leyden.server.store.store import Store
from leyden.server.system.http_client.transport import HttpTransport, ReportContext

_REWRITE_PAUSE_S = 1.0


class GroupCommit:
    """The wait for the disk under policy `always`, for a store opened with `group_commit`.

    Flushes run one after another in a worker thread. A caller that arrives during a flush waits for the next one,
    because the running flush may have started before the caller's commit.

    After a flush that failed only a new journal brings to the disk what was committed. The next commit writes it. So
    does a caller that commits nothing, such as a request that is repeated with its key: at most once a second.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[asyncio.Future[None]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._rewrite_at_s: float | None = None  # on the event loop's clock: after a flush that failed

    async def wait_durable(self) -> None:
        """Return when everything committed so far is on the disk.

        Returns at once when nothing is unsynced, and inside a commit: the owner of the commit waits when it is over.
        Raises `StorageUnavailable` in every waiting caller when the disk fails.
        """
        if self._store.depth or not self._store.unsynced:
            return
        loop = asyncio.get_running_loop()
        if self._rewrite_at_s is not None and loop.time() >= self._rewrite_at_s:
            self._rewrite_at_s = loop.time() + _REWRITE_PAUSE_S
            try:
                self._store.compact()
            except StorageUnavailable as error:
                raise _not_confirmed(error) from None
        # One future for each caller: a cancelled caller does not cancel the others.
        waiting = loop.create_future()
        self._waiting.append(waiting)
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        await waiting

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                failure = None
                try:
                    await loop.run_in_executor(None, self._store.flush)
                    self._store.note_flushed()
                except StorageUnavailable as error:
                    failure = error
                self._rewrite_at_s = None if failure is None else self._rewrite_at_s or loop.time()
                for future in waiting:
                    if future.done():
                        continue
                    if failure is None:
                        future.set_result(None)
                    else:
                        future.set_exception(_not_confirmed(failure))
        finally:
            self._flushing = None
            for future in (*waiting, *self._waiting):
                future.cancel()


class DurableTransport:
    """An `HttpTransport` that sends a callback only after the commit that records it is on the disk."""

    def __init__(self, transport: HttpTransport, wait_durable: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._wait_durable = wait_durable
        self._tasks: set[asyncio.Task[None]] = set()

    def post(self, request: CallbackRequest, on_response: OnResponse) -> None:
        """Send after the next flush, and call `on_response` in the event loop. Raises `RuntimeError` without a loop."""
        task = asyncio.get_running_loop().create_task(self._send(request, on_response))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def report_within(self, context: ReportContext) -> None:
        """Enter `context()` when responses are reported: those that arrive together are reported in one context."""
        self._transport.report_within(context)

    def blocked_note(self, url: str) -> str:
        """The note of an attempt to send to `url` that is blocked now, as that of `HttpTransport`."""
        return self._transport.blocked_note(url)

    def receiver_time_s(self, url: str) -> int:
        """The system clock, in seconds since the epoch."""
        return self._transport.receiver_time_s(url)

    async def wait_idle(self) -> None:
        """Return when nothing is in flight and every response is reported, those of follow-up attempts included."""
        while self._tasks or self._transport.pending_count:
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._transport.wait_idle()

    async def close(self) -> None:
        """Cancel what is in flight, without reporting it."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._transport.close()

    async def _send(self, request: CallbackRequest, on_response: OnResponse) -> None:
        try:
            await self._wait_durable()
        except StorageUnavailable as error:
            # For the outbox this attempt is lost: it does not count against the schedule.
            on_response(request, CallbackResponse(error=LOST, note=f"not sent: {error.detail}"))
        else:
            self._transport.post(request, on_response)


def _not_confirmed(failure: StorageUnavailable) -> StorageUnavailable:
    return StorageUnavailable(
        "the change was made, but the disk did not confirm it, so a power failure may undo it: read the resource before"
        f" you repeat the request, or repeat it with its Idempotency-Key ({failure.detail})"
    )
