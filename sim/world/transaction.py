"""Turns: one thing happens at a time."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Protocol

from leyden.server.errors import StorageUnavailable
from leyden.server.store.store import Store
from leyden.world.clock import VirtualClock


class Lock(Protocol):
    """A lock that its holder may take again."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


class Stage(Protocol):
    """What a turn must know of the world that it changes."""

    store: Store
    clock: VirtualClock

    @property
    def lock(self) -> Lock:
        """Held by whoever changes the world."""


class Transaction:
    """One thing at a time: the lock, then whatever is due, then one commit around what the caller does.

    It keeps nothing of its own, so that one object serves every turn of a world. Inside another turn it joins that one.
    """

    __slots__ = ("_clock", "_commit", "_lock", "_storage")

    def __init__(self, stage: Stage) -> None:
        self._lock = stage.lock
        self._clock = stage.clock
        self._storage = stage.store.storage
        self._commit = stage.store.commit()

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            # Not inside another turn: an event is a commit of its own, whatever becomes of the caller's.
            if not self._storage.depth and self._clock.rate and self._clock.is_behind():
                # What is due stays due while the disk refuses it. Whoever only wants to read may go on.
                with suppress(StorageUnavailable):
                    self._clock.catch_up()
            self._commit.__enter__()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._commit.__exit__(kind, error, trace)
        finally:
            self._lock.release()
