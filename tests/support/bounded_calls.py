"""A bound on work that depends on no clock: how many functions a piece of code may call."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TooManyCallsError(AssertionError):
    """The code called more functions than it may."""


@contextmanager
def bounded_calls(limit: int) -> Iterator[None]:
    """Raise `TooManyCallsError` in the body when it calls more than `limit` functions in this thread."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1
            if calls > limit:
                sys.setprofile(None)
                raise TooManyCallsError(f"more than {limit} calls, the last of {frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
