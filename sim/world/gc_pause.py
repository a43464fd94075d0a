"""Garbage: while a big store is read or copied, nobody looks for any."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Let the collector wait: the rows of a big store and the timers set for them are no garbage, and looking for it
    among them doubles the time that opening takes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
