"""Commits of which some are rolled back, for the tests of the indexes in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from leyden.server.store.store import Store


class _RolledBack(Exception):
    """Rolls a commit back."""


@contextmanager
def commit(store: Store, *, is_written: bool) -> Iterator[None]:
    """A commit that is rolled back at its end, unless it `is_written`."""
    with suppress(_RolledBack), store.commit():
        yield
        if not is_written:
            raise _RolledBack
