"""The sandboxes that the garbage collector of a server leaves out, because they stay."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from weakref import WeakSet

from leyden.server.service import Service
from leyden.world.world import World

_TOGETHER = 32  # sandboxes
_MOST_ENDED = 64  # runs


class LeftOut:
    """There may be ten thousand sandboxes of a thousand objects each. A full collection would examine all of them, and
    every request waits for it.

    A sandbox that ends is freed without the collector. A run that was reset is not: those are looked for when they are
    more than the sandboxes.
    """

    def __init__(self) -> None:
        self._added = 0
        self._services: WeakSet[Service] = WeakSet()  # of the runs that are left out

    def added(self, worlds: Iterable[World]) -> None:
        """A sandbox was created, and is one of these worlds."""
        self._added += 1
        if self._added < _TOGETHER:
            return
        self._added = 0
        present = [world.service for world in worlds]
        self._services.update(present)
        if len(self._services) - len(present) > max(_MOST_ENDED, len(present)):
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(1)  # what is garbage by now is not left out
        gc.freeze()
