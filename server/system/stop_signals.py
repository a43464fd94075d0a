"""SIGTERM and SIGINT, the signals to stop, before and after a server runs. It has handlers of its own while it runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def interrupt_on_stop_signals() -> None:
    """SIGTERM raises `KeyboardInterrupt`, as SIGINT does: what has been opened is closed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


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
        raise KeyboardInterrupt
