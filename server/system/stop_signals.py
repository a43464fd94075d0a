"""The signals to stop, before and after a server runs. It has handlers of its own while it runs."""

from __future__ import annotations

import signal
import sys
import threading
import time
from _thread import interrupt_main, start_new_thread
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def _stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM, SIGINT, and SIGHUP, with which a terminal that is closed ends its programs: where the system has it, and
    `nohup` did not start this process so that it ignores it."""
    found = [signal.SIGTERM, signal.SIGINT]
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        found.append(hangup)
    return tuple(found)


STOP_SIGNALS = _stop_signals()
_ONE_STOP_S = 2.0
_last_stop_s = -_ONE_STOP_S
_is_stopping = False


def interrupt_on_stop_signals() -> None:
    """Each of them raises `KeyboardInterrupt`: what has been opened is closed. Those that come within two seconds
    after one that did belong to the same stop, and do not interrupt the closing.

    Python discards what is raised within a callback of the garbage collector or of a weak reference. Then it is raised
    again, outside of it.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    former = sys.unraisablehook

    def interrupt_again(discarded: Any) -> None:
        if discarded.exc_type is KeyboardInterrupt:
            start_new_thread(_interrupt_again, ())
        else:
            former(discarded)

    sys.unraisablehook = interrupt_again


def note_stop() -> None:
    """This process was told to stop, in another way than by a signal."""
    global _is_stopping
    _is_stopping = True


def is_stopping() -> bool:
    """Whether this process was told to stop. What ran meanwhile may have ended too early: its result does not count."""
    return _is_stopping


def _interrupt_again() -> None:
    global _last_stop_s
    time.sleep(0.01)  # the callback has ended
    _last_stop_s = -_ONE_STOP_S
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # wakes a system call, too
    else:
        interrupt_main()


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last_stop_s
    note_stop()
    now_s = time.monotonic()
    if now_s - _last_stop_s >= _ONE_STOP_S:
        _last_stop_s = now_s
        raise KeyboardInterrupt


def ignore_stop_signals() -> None:
    """Ignore them in a process that is about to end: they must not interrupt the closing of its files."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stop_signals_ignored() -> Iterator[None]:
    """None of them has an effect until the end. Only in the main thread."""
    before = [signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(STOP_SIGNALS, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """They wait until the end, where the system can do this; a process that is started here begins so, too."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextmanager
def stop_signals_held() -> Iterator[None]:
    """A signal to stop raises `KeyboardInterrupt` at the end: a native module that is interrupted while it is imported
    may end the process with an error of its own. In another thread than the main one, no signal arrives."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    before = [signal.signal(number, lambda number, _: seen.append(number)) for number in STOP_SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(STOP_SIGNALS, before, strict=True):
            signal.signal(number, handler)
    if seen:
        _interrupt(seen[0], None)
