"""The snapshots of a world that are kept beside it in memory, to return to: a reset and a restore keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from leyden.world.persistence.encoded_state import decoded

MAX_SNAPSHOTS = 20  # of one world


Position = tuple[int, str]  # of a run: the instant, and the hash of the event journal


def position_of(state: Mapping[str, Any]) -> Position:
    """The position of what `dump_world` wrote."""
    return state["clock"]["now"], state["journal"]["hash"]


class SnapshotListener(Protocol):
    """Has a state of its own beside the world's, which a snapshot does not have."""

    def snapshot_taken(self, position: Position) -> None:
        """The world may return to this position."""

    def returned_to(self, position: Position) -> None:
        """The world is at this position again."""


class StoredSnapshot(NamedTuple):
    """A state of a world. `content` is the JSON of what `dump_world` returns, in pieces, `rate` that of the clock, and
    `doc_id` counts the snapshots of the world."""

    doc_id: int
    id: str
    name: str | None
    at_ms: int
    rate: float
    journal_hash: str
    content: tuple[bytes, ...]

    @property
    def position(self) -> Position:
        """Where the run is in this state."""
        return self.at_ms, self.journal_hash

    def state(self) -> Any:
        """The result of `dump_world`."""
        return decoded(self.content)


class StoredSnapshots:
    """At most `MAX_SNAPSHOTS` snapshots of one world, by id. Ids are counted, so that no id returns."""

    __slots__ = ("_by_id", "_count", "listener")

    def __init__(self) -> None:
        self.listener: SnapshotListener | None = None
        self._by_id: dict[str, StoredSnapshot] = {}  # the oldest first
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more may be added."""
        return len(self._by_id) >= MAX_SNAPSHOTS

    def add(
        self, name: str | None, at_ms: int, rate: float, journal_hash: str, content: tuple[bytes, ...]
    ) -> StoredSnapshot:
        """Keep a snapshot."""
        self._count += 1
        snapshot = StoredSnapshot(self._count, f"snapshot-{self._count}", name, at_ms, rate, journal_hash, content)
        self._by_id[snapshot.id] = snapshot
        if self.listener is not None:
            self.listener.snapshot_taken(snapshot.position)
        return snapshot

    def returned_to(self, snapshot: StoredSnapshot) -> None:
        """The world has returned to this snapshot."""
        if self.listener is not None:
            self.listener.returned_to(snapshot.position)

    def get(self, snapshot_id: str) -> StoredSnapshot | None:
        """The snapshot, or None."""
        return self._by_id.get(snapshot_id)

    def page(self, name: str | None, after: int | None, limit: int) -> list[StoredSnapshot]:
        """At most `limit` snapshots with this name (None: any) and a number below `after`, the newest first."""
        found = [
            snapshot
            for snapshot in reversed(self._by_id.values())
            if (after is None or snapshot.doc_id < after) and name in (None, snapshot.name)
        ]
        return found[:limit]

    def delete(self, snapshot_id: str) -> StoredSnapshot | None:
        """Forget the snapshot and return it; None if there was none."""
        return self._by_id.pop(snapshot_id, None)

    def copy(self) -> StoredSnapshots:
        """The same snapshots, for a fork; independent from here on."""
        copy = StoredSnapshots()
        copy._by_id, copy._count = dict(self._by_id), self._count
        return copy
