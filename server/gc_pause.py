"""The garbage collector is paused while much is loaded or copied that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused(*, freeze: bool = False) -> Iterator[None]:
    """Pause the collector. New rows and modules are no garbage, and searching them again and again doubles the time
    that reading a big store takes.

    With `freeze` the collector never examines what exists at the end, unless `gc.unfreeze` is called.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        if collecting:
            gc.enable()
