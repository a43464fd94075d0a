"""The garbage collector is paused while much is loaded or copied that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_pauses = 0  # those that go on
_collects = False  # whether the collector runs again after the last of them


@contextmanager
def gc_paused(*, freeze: bool = False) -> Iterator[None]:
    """Pause the collector, until the last of several pauses ends. New rows and modules are no garbage, and searching
    them again and again doubles the time that reading a big store takes.

    With `freeze` the collector never examines what exists at the end, unless `gc.unfreeze` is called.
    """
    global _pauses, _collects
    if not _pauses:
        _collects = gc.isenabled()
    _pauses += 1
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        _pauses -= 1
        if _collects and not _pauses:
            gc.enable()
