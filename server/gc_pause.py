"""The garbage collector is paused while much is loaded or copied that stays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def gc_paused(*, freeze: bool = False) -> Iterator[None]:
    """Pause the collector, until the last of several pauses ends. New rows and modules are no garbage, and searching
    them again and again doubles the time that reading a big store takes.

    With `freeze` the collector never examines what exists at the end, unless `gc.unfreeze` is called.
    """
    global _pauses, _was_enabled
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                gc.enable()
