"""Turns: one thing happens at a time, and what could not be written down has not happened at all."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Protocol

from server.errors import StorageUnavailable
from server.store.store import Store
from sim.clock import VirtualClock


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

    def begin(self) -> None:
        """A commit begins: remember what it may change besides rows."""

    def keep(self) -> None:
        """The commit is written down."""

    def take_back(self, error: BaseException) -> None:
        """The commit came to nothing: undo what it changed besides rows."""


class Step:
    """One commit of a world: rows, and with them timers, luck and posts. Inside another it joins that one.

    It keeps nothing of its own, so that one object serves every commit of a world.
    """

    __slots__ = ("_commit", "_stage")

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._commit = stage.store.commit()

    def __enter__(self) -> None:
        if not self._stage.store.storage.depth:
            self._stage.begin()
        self._commit.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stage = self._stage
        outermost = stage.store.storage.depth == 1
        try:
            self._commit.__exit__(kind, error, trace)
        except BaseException as refused:
            if outermost:
                stage.take_back(refused)
            raise
        if not outermost:
            return
        if error is None:
            stage.keep()
        else:
            stage.take_back(error)


class Turn:
    """One thing at a time: the lock, then whatever is due, then one step around what the caller does."""

    __slots__ = ("_stage", "_step")

    def __init__(self, stage: Stage, step: Step) -> None:
        self._stage = stage
        self._step = step

    def __enter__(self) -> None:
        stage = self._stage
        stage.lock.acquire()
        try:
            # Not inside another turn: an event is a commit of its own, whatever becomes of the caller's.
            if stage.clock.rate and not stage.store.storage.depth:
                # What is due stays due while the disk refuses it. Whoever only wants to read may go on.
                with suppress(StorageUnavailable):
                    stage.clock.catch_up()
            self._step.__enter__()
        except BaseException:
            stage.lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._step.__exit__(kind, error, trace)
        finally:
            self._stage.lock.release()
