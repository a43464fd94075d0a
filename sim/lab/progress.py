"""Progress bars (tqdm) for what takes more than a second, at a terminal and in a notebook.

A thread that only reads draws the bar, so that the work itself runs as it does without a bar. There is no bar in a
pipe, in a test of pytest, without tqdm, and while the environment variable TQDM_DISABLE is set.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leyden.extras import is_installed
from leyden.server.system.clock import stopwatch

AFTER_S = 1.0
_EVERY_S = 0.2
# Simulated milliseconds are shown as a share, and what has no unit by its duration alone.
_FORMS = {" ms": "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}", "": "{desc} {elapsed}"}


def is_wanted() -> bool:
    """Whether the output is a notebook or a terminal, and no test runs."""
    if os.environ.get("TQDM_DISABLE", "0") not in ("", "0") or "PYTEST_CURRENT_TEST" in os.environ:
        return False
    return (is_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())) and is_installed("tqdm")


def is_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


class _Work:
    """Work in progress: `done()` of `total`, which is None when the end is not known."""

    def __init__(self, what: str, unit: str, done: Callable[[], float], total: float | None) -> None:
        self.what, self.unit, self.done, self.total = what, unit, done, total
        self.elapsed_s = stopwatch()
        self.finished = threading.Event()
        self.drawn: threading.Event | None = None  # set when its bar is gone


class Progress:
    """The bar of one sandbox's work. Work within other work has no bar of its own."""

    def __init__(self, after_s: float = AFTER_S) -> None:
        self._after_s = after_s
        self._lock = threading.Lock()
        self._work: _Work | None = None
        self._is_watched = False

    @contextmanager
    def shown(
        self, what: str, unit: str = "", done: Callable[[], float] = lambda: 0.0, total: float | None = None
    ) -> Iterator[None]:
        """The context of work that may take long. Another thread calls `done`."""
        if self._work is not None or not is_wanted():
            yield
            return
        work = _Work(what, unit, done, total)
        with self._lock:
            self._work = work
            begins, self._is_watched = not self._is_watched, True
        if begins:
            threading.Thread(target=self._watch, name="leyden-progress", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._work = None
            work.finished.set()
            if work.drawn is not None:
                work.drawn.wait()

    def _watch(self) -> None:
        """Draw a bar for each piece of work that has lasted long enough, and end when there is no work. Short work does
        not wake the thread: it polls."""
        pause = threading.Event()
        while True:
            with self._lock:
                work = self._work
                if work is None:
                    self._is_watched = False
                    return
            pause.wait(max(0.0, self._after_s - work.elapsed_s()))
            with self._lock:
                if self._work is not work:
                    continue
                gone = work.drawn = threading.Event()
            try:
                _draw(work)
            finally:
                gone.set()


def _draw(work: _Work) -> None:
    """Draw the bar of a piece of work until it is finished."""
    with bar(work.what, work.unit, work.total) as shown:
        while not work.finished.wait(_EVERY_S):
            shown.n = work.done() if work.total is None else min(work.done(), work.total)
            shown.refresh()


def bar(what: str, unit: str, total: float | None, initial: int = 0, *, leave: bool = False) -> Any:
    """A bar of tqdm: a widget in a notebook that has ipywidgets, otherwise text on stderr."""
    if is_notebook() and is_installed("ipywidgets"):
        from tqdm.notebook import tqdm
    else:
        from tqdm.std import tqdm
    form = _FORMS.get(unit)
    return tqdm(desc=what or None, unit=unit, total=total, initial=initial, leave=leave, bar_format=form)
