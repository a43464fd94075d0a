"""Functions that threads call one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def one_at_a_time(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The function, whose calls in other threads wait until one has ended: what that one keeps, they find."""
    lock = threading.RLock()

    @wraps(function)
    def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with lock:
            return function(*arguments, **named)

    return call
