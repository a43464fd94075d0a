"""Who moves the time of a sandbox: one thread at a time. Others read and send requests meanwhile, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from leyden.callbacks.transport import TransportRouter
from leyden.errors import ClockError
from leyden.server.errors import Conflict
from leyden.server.store.store import Store
from leyden.world.interrupts import interrupts


class MovedWorld(Protocol):
    """What a guard looks at in its world."""

    guard: MoveGuard
    store: Store
    transport: TransportRouter

    @property
    def is_waiting(self) -> bool:
        """Whether another thread, or a request, moves time and waits for the network."""


# Whether the present request was refused because time was moved, or a callback was in flight: it changed nothing.
_refused: ContextVar[bool] = ContextVar("refused", default=False)


def refused_by_move(detail: str) -> Conflict:
    """The refusal of a request that cannot be answered while time is moved. `take_refusal` then says so."""
    _refused.set(True)
    return Conflict(detail)


def take_refusal() -> bool:
    """Whether a request of this thread, or of this task, was refused by `refused_by_move` since the last call."""
    refused = _refused.get()
    _refused.set(False)
    return refused


def while_moved(is_waiting: bool) -> ClockError:
    """The refusal of what cannot be done while time is moved. `is_waiting`: the move waits for a receiver."""
    what = "and waits for the response of a receiver: " if is_waiting else "by another call: "
    when = "the receiver has answered" if is_waiting else "that call has returned"
    return ClockError(
        f"time is being moved {what}move time, schedule or cancel actions, copy or restore the sandbox, after {when}; "
        "reads and requests are possible before"
    )


def check_not_waiting(world: MovedWorld) -> None:
    """Raise `ClockError` while something else moves time and waits for the network. Call it with the lock held.

    A receiver that moves or copies the world before it answers would wait for its own answer.
    """
    if world.is_waiting or world.guard.refuses:
        raise while_moved(is_waiting=True)


class MoveGuard:
    """The thread that moves the time of a sandbox, and the action that it calls now.

    A move of a sandbox may have several parts, with actions between them (`Sandbox.at`). From its begin to its end
    every other thread is refused what would move time, change the actions, or copy or restore the sandbox. An action is
    refused to move time, and nothing else. While `refuses` is set, requests are refused as while time is moved: for
    scripts.
    """

    __slots__ = ("_action", "_depth", "_lock", "_mover", "refuses")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._mover: int | None = None
        self._depth = 0
        self._action = ""
        self.refuses = False

    @contextmanager
    def no_moves(self, world: MovedWorld) -> Iterator[None]:
        """Inside, no other thread starts a move. Enter it with the lock of the world held. Raises as `check`."""
        with self._lock:
            self.check(world)
            check_not_waiting(world)
            yield

    def check(self, world: MovedWorld) -> None:
        """Raise `ClockError` while another thread moves time, and within an event of a move of this thread."""
        mover, own = self._mover, threading.get_ident()
        if mover is not None and (mover != own or (world.store.depth and not self._action)):
            raise while_moved(mover != own and world.transport.is_waiting)

    def check_no_action(self) -> None:
        """Raise `ClockError` within an action: it happens at one instant."""
        if self._action:
            raise ClockError(f"{self._action} cannot move time: schedule another action for later, with sb.at(...)")

    def start(self, world: MovedWorld) -> None:
        """A move starts, or a part of one. An interrupt (Ctrl-C) ends it between two events. Raises as `check` and
        `check_no_action`."""
        if self._mover != threading.get_ident():
            interrupts.enter(True)
        try:
            with self._lock:
                self.check_no_action()
                self.check(world)
                self._mover = threading.get_ident()
                self._depth += 1
        except BaseException:
            if self._mover != threading.get_ident():
                interrupts.leave()
            raise

    def end(self) -> None:
        """The move, or the part of it, has ended."""
        self._depth -= 1
        if not self._depth:
            self._mover, self._action = None, ""
            interrupts.leave()

    @contextmanager
    def action(self, name: str) -> Iterator[None]:
        """The context of an action that the move calls. It is code from outside: an interrupt comes at once there."""
        interrupts.leave()
        try:
            self._action = name
            yield
        finally:
            self._action = ""
            interrupts.enter(True)
