"""The event stream of a sandbox: server-sent events about its requests and about its state, for many listeners.

One task for each sandbox looks ten times a second at what is new, and encodes it once for all of its listeners. A
request pays nothing for them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import orjson

from leyden.devserver.request_log.recording import CONSOLE
from leyden.devserver.request_log.resources import RequestRows
from leyden.server.errors import TooManyRequests
from leyden.server.timestamps import to_iso
from leyden.world.request_log import LoggedRequest
from leyden.world.world import World

MOST_LISTENERS = 100
TICK_S = 0.1
_TICKS_OF_A_HEARTBEAT = 150
_MOST_PENDING = 100  # batches that a slow listener may leave unread
_JUMP_MS = 1_000  # by which a live clock differs from its rate when it was moved
HEARTBEAT = b": heartbeat\n\n"


class _State:
    """Whether what the event `changed` shows has changed."""

    def __init__(self) -> None:
        self._seen: tuple[Any, ...] = ()
        self._now = 0

    def has_changed(self, world: World, ticks: int) -> bool:
        """Whether something happened, or the clock was moved, since the last call, `ticks` ago."""
        clock = world.clock
        now, rate, seen = clock.now(), clock.rate, self._seen
        expected = self._now + rate * ticks * TICK_S * 1_000
        self._seen = (world.config.run, len(world.journal), rate)
        moved = now != self._now if not rate else abs(now - expected) > _JUMP_MS * max(1.0, rate)
        self._now = now
        return moved or seen != self._seen


class _Listener:
    """One client. `client` is its filter; `may_read` returns whether its key is still valid."""

    def __init__(self, client: str | None, may_read: Callable[[], bool]) -> None:
        self.client = client
        self.may_read = may_read
        self.pending: deque[bytes] = deque()
        self.wake = asyncio.Event()
        self.is_over = False

    def give(self, batch: bytes) -> None:
        """Send a batch next. A listener that reads too slowly is ended: it may continue from its last event."""
        if len(self.pending) < _MOST_PENDING:
            self.pending.append(batch)
        else:
            self.is_over = True
        self.wake.set()

    def end(self) -> None:
        """Nothing comes any more."""
        self.is_over = True
        self.wake.set()


class EventHub:
    """The listeners of one sandbox."""

    def __init__(self, world: World, ended: Callable[[EventHub], None]) -> None:
        self.world = world
        self._ended = ended
        self._rows = RequestRows(world)
        self._listeners: list[_Listener] = []
        self._position = last_number(world)
        self._state = _State()
        self._state.has_changed(world, 1)  # before the first listener is told the state: no change is missed
        self._task = asyncio.get_running_loop().create_task(self._run())

    def __len__(self) -> int:
        return len(self._listeners)

    async def listen(
        self, after: int | None, client: str | None, may_read: Callable[[], bool]
    ) -> AsyncGenerator[bytes]:
        """The events for one client: the requests with a number above `after`, those that come, and the state. Empty
        bytes come in between: the chance to notice that the client has left."""
        listener = _Listener(client, may_read)
        self._listeners.append(listener)
        try:
            yield await self._past(after, self._position, client) + _changed(self.world)
            quiet = 0
            while not listener.is_over:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S * 5):
                        await listener.wake.wait()
                listener.wake.clear()
                batch = b"".join(listener.pending)
                listener.pending.clear()
                quiet = 0 if batch else quiet + 5
                if quiet >= _TICKS_OF_A_HEARTBEAT:
                    batch, quiet = HEARTBEAT, 0
                yield batch
        finally:
            self._listeners.remove(listener)
            if not self._listeners:
                self._task.cancel()
                del self._task  # the cancelled task refers to the hub
                self._ended(self)

    async def _past(self, after: int | None, last: int, client: str | None) -> bytes:
        """The events with a number above `after` up to `last`. Decoded rows take much memory: two clients get theirs at
        a time."""
        if after is None:
            return b""
        async with self.world.slices().pages:
            rows = [row for row in _since(self.world, after, client) if row.doc_id <= last]
            return await request_events(self._rows, rows)

    def end(self) -> None:
        """The sandbox has ended."""
        for listener in self._listeners:
            listener.end()

    async def _run(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(TICK_S)
            ticks += 1
            # Another thread may be in the middle of a reset. Nothing waits for it here: the next tick tells as much.
            if self.world.lock.acquire(blocking=False):
                try:
                    changed, rows = self._news(ticks)
                finally:
                    self.world.lock.release()
                ticks = 0
                for listener in self._listeners:
                    if not listener.may_read():
                        listener.end()
                # Who listens from now on has the events up to this position already.
                listeners = [*self._listeners]
                for client, new in rows.items():
                    batch = await request_events(self._rows, new) + changed
                    for listener in listeners if batch else ():
                        if listener.client == client and not listener.is_over:
                            listener.give(batch)

    def _news(self, ticks: int) -> tuple[bytes, dict[str | None, list[LoggedRequest]]]:
        """The event `changed`, empty if nothing has, and the new requests for each filter of a listener."""
        world = self.world
        changed = _changed(world) if self._state.has_changed(world, ticks) else b""
        first, self._position = self._position, last_number(world)
        filters = {listener.client: None for listener in self._listeners}
        if self._position == first:
            return changed, {client: [] for client in filters}
        return changed, {client: _since(world, first, client) for client in filters}


class EventStreams:
    """The event streams of a server."""

    def __init__(self) -> None:
        self._hubs: dict[World, EventHub] = {}

    def listen(
        self, world: World, after: int | None, client: str | None, may_read: Callable[[], bool]
    ) -> AsyncGenerator[bytes]:
        """The events of a sandbox, from now on, as long as the client `may_read` them. Raises `TooManyRequests` when a
        hundred clients listen."""
        if sum(map(len, self._hubs.values())) >= MOST_LISTENERS:
            raise TooManyRequests(
                f"{MOST_LISTENERS} event streams of this server are open: close one, for example a page of the console",
                headers={"Retry-After": "5"},
            )
        hub = self._hubs.get(world)
        if hub is None:
            hub = self._hubs[world] = EventHub(world, self._forget)
        return hub.listen(after, client, may_read)

    def end(self, world: World) -> None:
        """A sandbox has ended."""
        hub = self._hubs.get(world)
        if hub is not None:
            hub.end()

    def _forget(self, hub: EventHub) -> None:
        if self._hubs.get(hub.world) is hub:
            del self._hubs[hub.world]


async def past_events(world: World, after: int | None, client: str | None) -> AsyncGenerator[bytes]:
    """The first bytes of a stream, for a request in process: nothing would follow them."""
    rows = [] if after is None else _since(world, after, client)
    yield await request_events(RequestRows(world), rows) + _changed(world)


def last_number(world: World) -> int:
    """The number of the latest request, reads of the console included."""
    return next((row.doc_id for row in world.request_log.newest_first(console_reads=True)), 0)


async def request_events(shown: RequestRows, rows: Sequence[LoggedRequest]) -> bytes:
    """The rows as events `request`, each with its number as the id. Other requests are answered while they are
    masked."""
    if not rows:
        return b""
    mask, slices, events = shown.mask(), shown.world.slices(), []
    for row in rows:
        while not shown.world.lock.acquire(blocking=False):  # a reset by another thread
            await asyncio.sleep(TICK_S)
        try:
            events.append(
                b"id: %d\nevent: request\ndata: %b\n\n" % (row.doc_id, orjson.dumps(shown.summary(row, mask)))
            )
        finally:
            shown.world.lock.release()
        if slices.is_over():
            await slices.pause()
    return b"".join(events)


def _changed(world: World) -> bytes:
    state: Mapping[str, Any] = {
        "run": world.config.run,
        "journal": len(world.journal),
        "now": to_iso(world.clock.now()),
        "rate": world.clock.rate,
    }
    return b"event: changed\ndata: %b\n\n" % orjson.dumps(state)


def _since(world: World, number: int, client: str | None) -> list[LoggedRequest]:
    rows = world.request_log.since(number, console_reads=client == CONSOLE.decode())
    return rows if client is None else [row for row in rows if row.client == client.encode("latin-1", "replace")]
