"""Transactions: one thread changes a world at a time, and everything that it changes is one commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Protocol

from leyden.errors import ClosedError
from leyden.server.errors import Problem, ServiceReplaced, StorageUnavailable
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
    After `end` it cannot be entered: it raises `ServiceReplaced`, or `ClosedError` where no other run follows. While
    `outlives_refusals` is set, a commit around this one goes on after a request that was refused (a `Problem` below
    500): a handler raises before it writes.
    """

    __slots__ = ("_catch_up", "_clock", "_commit", "_has_ended", "_is_last", "_lock", "_store", "outlives_refusals")

    def __init__(
        self, lock: Lock, clock: VirtualClock, store: Store, catch_up: Callable[[VirtualClock], object]
    ) -> None:
        self._lock = lock
        self._clock = clock
        self._store = store
        self._catch_up = catch_up
        self._commit = store.commit()
        self._has_ended = self._is_last = False
        self.outlives_refusals = False

    def end(self, *, is_last: bool = False) -> None:
        """The run of this transaction has ended: what was written from now on would be in the next one, or nowhere
        after the last one."""
        self._has_ended, self._is_last = True, is_last

    def __enter__(self) -> None:
        live = self._clock.rate > 0
        interrupts.enter(live)  # it may end between the events that are due before
        self._lock.acquire()
        try:
            if self._is_last:
                raise ClosedError("this sandbox has ended: create another one")
            if self._has_ended:
                raise ServiceReplaced("a reset or a restore ended this run: use the sandbox's present one")
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
        if self.outlives_refusals and isinstance(error, Problem) and error.status < 500:
            kind = error = trace = None
        try:
            self._commit.__exit__(kind, error, trace)
        finally:
            self._lock.release()
            interrupts.leave()


class PresentTransaction:
    """A context: the transaction of a world's present run, whichever that is when the lock is free."""

    __slots__ = ("_lock", "_present")

    def __init__(self, lock: AbstractContextManager[object], present: Callable[[], Transaction]) -> None:
        self._lock = lock
        self._present = present

    def __enter__(self) -> None:
        with self._lock:
            self._present().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a reset inside of this one it is that of the next run, which has the same lock and the same store.
        self._present().__exit__(kind, error, trace)
