"""Transactions: one thread changes a world at a time, and everything that it changes is one commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from leyden.server.errors import StorageUnavailable
from leyden.server.store.store import Store
from leyden.world.interrupts import interrupts
from leyden.world.time.clock import VirtualClock


class Lock(Protocol):
    """A lock that its holder may acquire again."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


class Transaction:
    """A context: it takes the lock, runs what is due on a live clock, then opens a commit around the caller's changes.
    An interrupt (Ctrl-C) waits until the commit has ended.

    It has no state of its own: one object serves every transaction of a world, and one inside another joins it.
    `catch_up(clock)` runs what is due, or a part: the caller's instant is then the one that the clock has reached.
    """

    __slots__ = ("_catch_up", "_clock", "_commit", "_lock", "_store")

    def __init__(
        self, lock: Lock, clock: VirtualClock, store: Store, catch_up: Callable[[VirtualClock], object]
    ) -> None:
        self._lock = lock
        self._clock = clock
        self._store = store
        self._catch_up = catch_up
        self._commit = store.commit()

    def __enter__(self) -> None:
        live = self._clock.rate > 0
        interrupts.enter(live)  # it may end between the events that are due before
        self._lock.acquire()
        try:
            # Not inside another transaction: an event is a commit of its own, whatever becomes of the caller's.
            if live and not self._store.depth and self._clock.is_behind():
                # What is due stays due while the disk refuses it; a caller that only reads may go on.
                with suppress(StorageUnavailable):
                    self._catch_up(self._clock)
            if live:
                interrupts.set_stops(False)
            self._commit.__enter__()
        except BaseException:
            self._lock.release()
            interrupts.leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._commit.__exit__(kind, error, trace)
        finally:
            self._lock.release()
            interrupts.leave()
