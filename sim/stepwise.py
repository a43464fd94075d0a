"""Long work in steps, so that its caller can let other work run in between: a generator that returns the result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Stepwise = Generator[None, None, T]


def run_to_end(steps: Stepwise[T]) -> T:
    """Do all steps at once; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
