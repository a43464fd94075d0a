"""Signals while a world changes: their handlers wait until the change is complete.

Python calls the handler of a signal between any two instructions, also at the very start of an `__exit__`, where no
code can undo a change any more if the handler raises: `KeyboardInterrupt` at Ctrl-C, or the exception of a time limit
at SIGALRM. So the outermost change of the main thread replaces the handlers while it lasts. A signal is then kept for
its former handler, which is called between two events of a run (`between_events`) or after the change: whatever it
raises leaves the state between two events. Handlers are restored at the end, unless somebody else has replaced them
meanwhile.

Code from outside that runs within a change is entered by `allowed()`: there a handler is called at once, and the change
is rolled back like for any other exception. Only the main thread gets signals; in any other thread, and for signals
that are ignored or left to the system, nothing here has an effect. SIGPROF is left alone: the handlers of profilers
look at what runs.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

from leyden.server.system.clock import stopwatch

# Every request replaces handlers. `signal.signal` converts to and from enumerations, which takes ten times as long as
# the function behind it.
_getsignal, _signal_to = _signal.getsignal, _signal.signal
_NAMES = ("SIGINT", "SIGALRM", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGXCPU", "SIGBREAK")
# Those that come from outside, or from a time limit, at any instant.
SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))
# A change that takes longer is taken for one that hangs: the next signal of the same kind is handled within it.
PATIENCE_S = 2.0

Handler = Callable[[int, FrameType | None], Any]

log = logging.getLogger("leyden")


class DeferredInterrupts:
    """The signals of this process. `enter` and `leave` mark a change; changes may be inside one another."""

    __slots__ = ("_allowed", "_depth", "_formers", "_main", "_restoring", "_stops", "_waited_s", "pending")

    def __init__(self) -> None:
        self.pending: list[int] = []  # the signals that wait
        self._depth = 0
        self._stops = False  # whether the outermost change may end between two events
        self._allowed = False
        self._restoring = False  # at the end of the outermost change
        self._formers: dict[int, Handler] = {}
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
        formers: dict[int, Handler] = {}
        for number in SIGNALS:
            former = _getsignal(number)
            if callable(former):
                # Where an exception has kept `leave` from restoring it, `_defer` has the one that it had replaced.
                formers[number] = self._formers[number] if former == self._defer else former
        if not formers:
            return
        self._formers = formers
        try:
            for number in formers:  # a signal that came before is handled here, and nothing has changed
                _signal_to(number, self._defer)
            self._stops, self._depth = stops, 1
        except BaseException:
            self._restore()
            raise

    def leave(self) -> None:
        """A change ends. At the end of the outermost one, the signals that wait are handled."""
        if not self._depth or get_ident() != self._main:
            return
        if self._depth > 1:
            self._depth -= 1
            return
        self._allowed, self._restoring = False, True
        self._depth = 0
        try:
            self._restore()
        except BaseException:  # a handler that was restored first has raised
            self._restore()
            raise
        finally:
            self._restoring = False
            if self.pending:
                self._handle_all()

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside, a signal waits until the end: for imports, because a package that is imported in part, such as
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
        """Handle the signals that wait, if the outermost change may end here. Called when there are `pending` ones."""
        if self._stops and get_ident() == self._main:
            self._handle()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Inside, code from outside runs: a signal is handled at once."""
        if get_ident() != self._main or not self._depth:
            yield
            return
        before, self._allowed = self._allowed, True
        try:
            while self.pending:
                self._handle_now(self.pending.pop(0), None)
            yield
        finally:
            self._allowed = before

    def _handle(self) -> None:
        # Those after one that raises wait on.
        while self.pending:
            number = self.pending.pop(0)
            self._formers[number](number, None)

    def _handle_all(self) -> None:
        try:
            self._handle()
        finally:
            if self.pending:
                self._handle_all()

    def _restore(self) -> None:
        for number, former in self._formers.items():
            if _getsignal(number) == self._defer:
                _signal_to(number, former)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._allowed or not (self._depth or self._restoring):
            self._handle_now(number, frame)
        elif number not in self.pending:
            if not self.pending:
                self._waited_s = stopwatch()
            self.pending.append(number)
        elif self._waited_s() >= PATIENCE_S:
            self.pending.remove(number)
            try:
                self._handle_now(number, frame)
            except BaseException:
                log.warning(
                    "interrupted within a change that took more than %s s: it may be half done, so continue with a "
                    "saved sandbox or a new one",
                    PATIENCE_S,
                )
                raise

    def _handle_now(self, number: int, frame: FrameType | None) -> None:
        # What handles the exception is not interrupted again.
        allowed, self._allowed = self._allowed, False
        self._formers[number](number, frame)
        self._allowed = allowed


interrupts = DeferredInterrupts()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=interrupts.find_main_thread)
