"""A function that waits until a test lets it go on: work in a thread of a server, beside requests."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

import pytest


class Gate:
    """The function with this dotted name waits, until the test calls `open`: with all arguments, or with those for
    which `applies` is true."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, name: str, applies: Callable[..., bool] = lambda *_, **__: True
    ) -> None:
        self._open = threading.Event()
        module, _, function = name.rpartition(".")
        work = getattr(importlib.import_module(module), function)

        def wait(*args: Any, **named: Any) -> Any:
            if applies(*args, **named):
                assert self._open.wait(30), "the work and the requests wait for each other"
            return work(*args, **named)

        monkeypatch.setattr(name, wait)

    def open(self) -> None:
        """Let the function go on."""
        self._open.set()
