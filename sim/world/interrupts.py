"""Ctrl-C while a world changes: the interrupt waits until the change is complete.

Python raises `KeyboardInterrupt` between any two instructions, also at the very start of an `__exit__`, where no code
can undo a change any more. So the outermost change of the main thread replaces the handler of SIGINT while it lasts. A
signal is then kept for the former handler, which is called between two events of a run (`between_events`) or after the
change: whatever it raises leaves the state between two events. It is restored at the end, unless somebody else has
replaced the handler meanwhile.

Code from outside that runs within a change is entered by `allowed()`: there an interrupt is raised at once, and the
change is rolled back like for any other exception. Only the main thread gets signals; in any other thread, and where
SIGINT is ignored or ends the process, nothing here has an effect.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT as SIGINT_NAME
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

from leyden.server.system.clock import stopwatch

# Every request replaces the handler. `signal.signal` converts to and from enumerations, which takes ten times as long
# as the function behind it.
_getsignal, _signal_to = _signal.getsignal, _signal.signal
SIGINT = int(SIGINT_NAME)
# A change that takes longer is taken for one that hangs: the next interrupt is raised within it.
PATIENCE_S = 2.0

log = logging.getLogger("leyden")


class DeferredInterrupts:
    """The interrupts of this process. `enter` and `leave` mark a change; changes may be inside one another."""

    __slots__ = ("_allowed", "_depth", "_former", "_main", "_stops", "_waited_s", "pending")

    def __init__(self) -> None:
        self.pending = False  # an interrupt waits
        self._depth = 0
        self._stops = False  # whether the outermost change may end between two events
        self._allowed = False
        self._former: Callable[[int, FrameType | None], Any] = _no_handler
        self._waited_s: Callable[[], float] = stopwatch()
        self.find_main_thread()

    def find_main_thread(self) -> None:
        """Find out which thread gets the signals: in a forked process it is the one that forked."""
        self._main = main_thread().ident

    def enter(self, stops: bool = False) -> None:
        """A change starts. `stops` says whether an interrupt may end it between two of its events."""
        if get_ident() != self._main:
            return
        if self._depth:
            self._depth += 1
            return
        former = _getsignal(SIGINT)
        if not callable(former):
            return
        self.pending = False
        _signal_to(SIGINT, self._defer)  # an interrupt that came before is raised by this call, and nothing has changed
        self._former, self._stops, self._depth = former, stops, 1

    def leave(self) -> None:
        """A change ends. At the end of the outermost one, an interrupt that waits is handled."""
        if not self._depth or get_ident() != self._main:
            return
        if self._depth > 1:
            self._depth -= 1
            return
        pending, self.pending = self.pending, False
        self._allowed = False
        self._depth = 0
        if _getsignal(SIGINT) == self._defer:
            _signal_to(SIGINT, self._former)
        if pending or self.pending:
            self.pending = False
            self._former(SIGINT, None)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside, an interrupt waits until the end: for imports, because a package that is imported in part, such as
        numpy, cannot be imported again in this process."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def set_stops(self, stops: bool) -> None:
        """From now on an interrupt may end the outermost change between two events, or not. No effect further in."""
        if self._depth == 1 and get_ident() == self._main:
            self._stops = stops

    def between_events(self) -> None:
        """Handle an interrupt that waits, if the outermost change may end here. Called when `pending`."""
        if self._stops and get_ident() == self._main:
            self.pending = False
            self._former(SIGINT, None)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Inside, code from outside runs: an interrupt is raised at once."""
        if get_ident() != self._main or not self._depth:
            yield
            return
        before, self._allowed = self._allowed, True
        try:
            if self.pending:
                self._raise_now(None)
            yield
        finally:
            self._allowed = before

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._allowed:
            self._raise_now(frame)
        elif not self.pending:
            self.pending, self._waited_s = True, stopwatch()
        elif self._waited_s() >= PATIENCE_S:
            log.warning(
                "interrupted within a change that took more than %s s: it may be half done, so continue with a saved "
                "sandbox or a new one",
                PATIENCE_S,
            )
            self._raise_now(frame)

    def _raise_now(self, frame: FrameType | None) -> None:
        # What handles the exception is not interrupted again.
        allowed, self._allowed, self.pending = self._allowed, False, False
        self._former(SIGINT, frame)
        self._allowed = allowed


def _no_handler(number: int, frame: FrameType | None) -> None:
    """Nothing was replaced yet."""


interrupts = DeferredInterrupts()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=interrupts.find_main_thread)
