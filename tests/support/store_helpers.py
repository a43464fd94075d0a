"""Helpers of the store's tests: all rows with their sequence, and disks that refuse."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leyden.server.store.journal import load
from leyden.server.store.store import Store

JOURNAL = "charges.journal"
END = "charges.end"


class CommitObserver:
    """A commit participant that records how a commit ends."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def begin(self) -> None:
        self.ends.clear()

    def commit(self) -> None:
        self.ends.append("commit")

    def rollback(self, error: BaseException) -> None:
        self.ends.append("rollback")


def rows(store: Store) -> dict[str, dict[int, Any]]:
    """All rows, in their sequence."""
    return {
        name: dict(sorted(table.rows.items())) | {-1: list(table.rows)}
        for name, table in store.tables.items()
        if table.exists
    }


def loaded_rows(path: Path) -> dict[str, dict[int, Any]]:
    return {name: dict(sorted(held.items())) | {-1: list(held)} for name, held in load(path).tables.items()}


def load_size(directory: Path) -> int:
    return (directory / JOURNAL).stat().st_size


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """The kernel's own refusal, with the half-written line that comes before it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def lowest_free_descriptor() -> int:
    fd = os.dup(0)
    os.close(fd)
    return fd


def failing(*arguments: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
