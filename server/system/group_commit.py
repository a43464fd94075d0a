"""Reaching the disk together: everybody who has to wait for it waits for one and the same fsync."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from leyden.server.callbacks.deliveries import LOST
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from leyden.server.system.http_transport import Around, HttpTransport


class GroupCommit:
    """The wait for the disk under policy `always`, for a store that leaves the waiting to its caller (`group_commit`).

    Flushes follow one another in a worker thread. Who comes while one is under way waits for the next, because the
    one under way may have begun before its commit.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[asyncio.Future[None]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def settled(self) -> None:
        """Return once everything committed up to now is on the disk: at once if it is, or inside a commit, whose owner
        waits when it is over.

        Raises `StorageUnavailable` to all that wait together when the disk fails.
        """
        if self._store.storage.depth or not self._store.unsynced:
            return
        loop = asyncio.get_running_loop()
        # One future for each: whoever gives up waiting takes nothing from the others.
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
                refusal = None
                try:
                    await loop.run_in_executor(None, self._store.flush)
                except StorageUnavailable as error:
                    refusal = error
                for one in waiting:
                    if one.done():
                        continue
                    if refusal is None:
                        one.set_result(None)
                    else:
                        one.set_exception(_unconfirmed(refusal))
        finally:
            self._flushing = None
            for one in (*waiting, *self._waiting):
                one.cancel()


class DurableTransport:
    """A courier to the real network that sends nothing before what it tells of is on the disk."""

    def __init__(self, courier: HttpTransport, settled: Callable[[], Awaitable[None]]) -> None:
        self._courier = courier
        self._settled = settled
        self._tasks: set[asyncio.Task[None]] = set()

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        """Send when the disk has everything, and call `answered` in the loop. Raises `RuntimeError` outside one."""
        task = asyncio.get_running_loop().create_task(self._carry(post, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell_within(self, around: Around) -> None:
        """Enter `around()` whenever answers are told: those that came together are told within one."""
        self._courier.tell_within(around)

    def wall_seconds(self, url: str) -> int:
        """Real time."""
        return self._courier.wall_seconds(url)

    async def drained(self) -> None:
        """Return once nothing is under way and every answer has been told, follow-ups included."""
        while self._tasks or self._courier.pending:
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._courier.drained()

    async def close(self) -> None:
        """Abandon what is under way, without telling."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._courier.close()

    async def _carry(
        self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]
    ) -> None:
        try:
            await self._settled()
        except StorageUnavailable as error:
            # To the outbox this is an attempt that nobody saw the end of: it takes nothing off the schedule.
            answered(post, CallbackResponse(error=LOST, note=f"not sent: {error.detail}"))
        else:
            self._courier.post(post, answered)


def _unconfirmed(refusal: StorageUnavailable) -> StorageUnavailable:
    return StorageUnavailable(
        "the disk did not confirm what was written, so it may or may not outlive a power cut: look before you repeat"
        f" the request, or repeat it with its Idempotency-Key ({refusal.detail})"
    )
