"""SIGTERM and SIGINT, the signals to stop, before and after a server runs. It has handlers of its own while it runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_ONE_STOP_S = 2.0
_last_stop_s = -_ONE_STOP_S


def interrupt_on_stop_signals() -> None:
    """Both signals raise `KeyboardInterrupt`: what has been opened is closed. Those that come within two seconds
    after one that did belong to the same stop, and do not interrupt the closing."""
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last_stop_s
    now_s = time.monotonic()
    if now_s - _last_stop_s >= _ONE_STOP_S:
        _last_stop_s = now_s
        raise KeyboardInterrupt


def ignore_stop_signals() -> None:
    """Ignore both signals in a process that is about to end: they must not interrupt the closing of its files."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stop_signals_ignored() -> Iterator[None]:
    """Neither signal has an effect until the end. Only in the main thread."""
    before = [signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(STOP_SIGNALS, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Both signals wait until the end, where the system can do this; a process that is started here begins so, too."""
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
