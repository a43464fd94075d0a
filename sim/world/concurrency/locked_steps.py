"""Coroutines whose steps hold a lock: what runs between two waits sees no half of what another thread does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LockedSteps(Generic[T]):
    """An awaitable that runs a coroutine. It enters `lock()` for each step, and leaves it for each wait."""

    __slots__ = ("_coroutine", "_lock")

    def __init__(self, coroutine: Coroutine[Any, Any, T], lock: Callable[[], AbstractContextManager[object]]) -> None:
        self._coroutine = coroutine
        self._lock = lock

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        sent, raised = None, None
        while True:
            try:
                with self._lock():
                    waits_for = coroutine.send(sent) if raised is None else coroutine.throw(raised)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            try:
                sent, raised = (yield waits_for), None
            except BaseException as error:
                sent, raised = None, error
