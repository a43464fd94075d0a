"""Moves of time by threads: a move blocks until the real network has answered, and the closing of a world ends it.

`leyden.world.concurrency.async_moves` has the moves of a server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from leyden.callbacks.transport import ExternalTransport, TransportRouter
from leyden.errors import ClockError, ClosedError
from leyden.server.errors import StorageUnavailable
from leyden.server.store.store import Store
from leyden.server.system.http_client.background_transport import BackgroundTransport, in_event_loop
from leyden.world.interrupts import interrupts
from leyden.world.moves.move_guard import MoveGuard
from leyden.world.persistence.world_state import WorldState
from leyden.world.ports import HostServer
from leyden.world.time.clock import VirtualClock
from leyden.world.time.refused_moves import check_same_run, with_reached_instant

_RECHECK_S = 0.5  # the longest time until a transport that was closed is noticed

Moved = TypeVar("Moved")


class ThreadMoves:
    """The part of a world that threads move: what holds its clock, and its end."""

    clock: VirtualClock
    store: Store
    state: WorldState
    transport: TransportRouter
    external_transport: ExternalTransport | None
    server: HostServer | None

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.guard = MoveGuard()
        self.is_closed = False
        self.has_ended = False
        self._responded = threading.Condition(self.lock)  # notified when a response from the network was recorded
        self._movers: dict[int, Sequence[Callable[[], None]]] = {}  # what each calls before it waits

    def move(self, move: Callable[[VirtualClock], Moved], before_wait: Callable[[], None] | None = None) -> Moved:
        """Move the clock and write its new instant, even if no event runs.

        Callbacks that a `BackgroundTransport` sent are waited for, as in `leyden.world.concurrency.async_moves`;
        `before_wait` is called before each wait.

        Raises `StorageUnavailable` when the disk refuses it or an event: a frozen clock shows the last written instant.
        """
        with self.lock, with_reached_instant(self.clock), self.transport.responses_in_order() as waits:
            mover, clock = threading.get_ident(), self.clock
            self._movers[mover] = (waits,) if before_wait is None else (waits, before_wait)
            try:
                moved = move(clock)
            finally:
                del self._movers[mover]
            self.check_same_run(clock)
            self.transport.flush_responses()
            self.keep_time()
            return moved

    def check_same_run(self, moved: VirtualClock, event_count: int | None = None) -> None:
        """Raise `ClosedError` when the world was closed, and as `leyden.world.time.refused_moves.check_same_run`."""
        self.check_open()
        check_same_run(None if self.has_ended else self.clock, moved, event_count)

    # What holds the clock (`leyden.world.time.timers.Hold`): time does not pass a callback that is in flight

    def holds_time(self) -> bool:
        """Whether this thread moves time and has to wait for responses from the network, or to record them. Time of a
        closed world is held, so that the move ends in `wait_for_network`."""
        return self.is_closed or (
            self.transport.has_unrecorded and self.blocks and threading.get_ident() in self._movers
        )

    def wait_for_network(self, *, is_copy: bool = False) -> None:
        """Block until every callback that was sent to the network was answered; before `is_copy`, a copy or a script.

        Meanwhile other threads may use the world. Returns at once inside a commit, and where an event loop sends them.
        Raises `ClosedError` when another thread closes the world.
        """
        network = self.external_transport
        interrupts.enter(True)
        try:
            with self.lock:
                if self.blocks and self.transport.has_unrecorded:
                    for before_wait in self._movers.get(threading.get_ident(), ()):
                        before_wait()
                    self.transport.wait_begins(is_copy=is_copy, stops_loop=in_event_loop())
                while not self.is_closed and self.blocks and self.transport.is_waiting:
                    assert isinstance(network, BackgroundTransport)
                    if network.is_idle:
                        self.transport.abandon()
                    else:
                        self._responded.wait(_RECHECK_S)
                    if interrupts.pending:
                        interrupts.between_events()  # the callback stays in flight
                self.check_open()
                self.transport.flush_responses()
        finally:
            interrupts.leave()

    @property
    def is_waiting(self) -> bool:
        """Whether another thread, or a request, moves time and waits for the network. Read it with the lock held."""
        by_request = self.transport.is_waiting and self.transport.moves > len(self._movers)
        return by_request or any(mover != threading.get_ident() for mover in self._movers)

    @property
    def blocks(self) -> bool:
        """Whether a thread that moves time blocks until callbacks to the network were answered."""
        return isinstance(self.external_transport, BackgroundTransport) and not self.store.depth

    def keep_time(self) -> None:
        """Write the clock's instant. Raises `StorageUnavailable` as `move` does."""
        if not self.store.is_durable:
            return
        try:
            with self.store.commit():
                self.state.write()
        except StorageUnavailable:
            if (saved := WorldState.saved(self.store)) is not None and not self.clock.rate:
                self.clock.set_back(saved["now"])
            raise

    def close(self) -> None:
        """Close the store. A move of time that runs, and a copy that waits for the network, end with `ClosedError`;
        from now on nothing happens here, and nothing is sent.

        Raises `ClockError` within an event, and `StorageUnavailable` when the disk refuses: it may be tried again.
        """
        if self.lock.acquire(blocking=False):  # otherwise another thread is in the commit, and leaves it
            try:
                if self.store.depth:
                    raise ClockError(
                        "an event of this sandbox, or another change of it, runs now: close the sandbox after it, or in"
                        " an action of sb.at(...)"
                    )
            finally:
                self.lock.release()
        self.is_closed = True  # before the lock is free: it ends the move that holds the lock
        with self._responded:
            try:
                self.store.close()
            except BaseException:
                self.is_closed = False
                raise
            self.transport.discard()
            self.external_transport = None
            self.transport.connect(None)
            self._responded.notify_all()

    def check_open(self) -> None:
        """Raise `ClosedError` when the world was closed."""
        if self.is_closed:
            raise ClosedError(
                "this sandbox was closed meanwhile: close it after its moves of time, its copies and its scripts"
            )
