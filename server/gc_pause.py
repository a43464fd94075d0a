"""The garbage collector is paused while much is loaded or copied that stays, and not needed for what has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

_pauses = 0  # those that go on
_collects = False  # whether the collector runs again after the last of them
_times_in_parts = 0  # those that go on
_thresholds = gc.get_threshold()  # after the last of them
_NEVER = 1 << 30


@contextmanager
def gc_paused(*, freeze: bool = False) -> Iterator[None]:
    """Pause the collector, until the last of several pauses ends. New rows and modules are no garbage, and searching
    them again and again doubles the time that reading a big store takes.

    With `freeze` the collector never examines what exists at the end, unless `gc.unfreeze` is called. Without, a pause
    that begins during `gc_in_parts` is none: its end would be what that avoids.
    """
    global _pauses, _collects
    if _times_in_parts and not freeze:
        yield
        return
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


@contextmanager
def gc_in_parts() -> Iterator[None]:
    """Let the collector examine only new objects, until the last of several such times ends. Work in a thread may make
    a million: paused, the collector would examine all of them at once afterwards, and no other thread runs meanwhile.
    """
    global _times_in_parts, _thresholds
    if not _times_in_parts:
        _thresholds = gc.get_threshold()
        gc.set_threshold(*_thresholds[:2], _NEVER)
    _times_in_parts += 1
    try:
        yield
    finally:
        _times_in_parts -= 1
        if not _times_in_parts:
            gc.set_threshold(*_thresholds)


def unlink(parts: Iterable[object]) -> None:
    """Remove all attributes of objects that nobody uses any more. Then they do not refer to each other, and are freed
    without the collector."""
    for part in parts:
        if hasattr(part, "__dict__"):
            vars(part).clear()
        for name in getattr(type(part), "__slots__", ()):
            with suppress(AttributeError):
                delattr(part, name)
