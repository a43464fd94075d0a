"""A heap of timers: what is due when, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any, NamedTuple, Protocol

from leyden.errors import ArgumentError
from leyden.server.gc_pause import gc_paused
from leyden.server.printable import quoted


class Fired(NamedTuple):
    """One event that has run: at its own instant, in milliseconds since the epoch."""

    at_ms: int
    kind: str
    key: str


# The fields of a `Fired`. CPython's garbage collector soon ceases to visit such a tuple, but never a `Fired`.
EventFields = tuple[int, str, str]


def fired_events(ran: list[EventFields]) -> list[Fired]:
    """The events that have run, in order."""
    if not ran:
        return []
    with gc_paused():  # all of them stay
        return [*map(Fired._make, ran)]


class Timer(NamedTuple):
    """An event that is due at `due_ms`. Timers order as tuples: by instant, then priority, then sequence number."""

    due_ms: int
    priority: int
    sequence: int
    kind: str
    key: str


# What the heap holds: a Timer's fields as a bare tuple, which costs a third of a Timer to make.
Entry = tuple[int, int, int, str, str]


class Hold(Protocol):
    """An object that can keep a clock at its instant: requests to the real network that have no response yet."""

    def holds_time(self) -> bool:
        """Whether time must stay where it is."""

    def wait_for_network(self) -> None:
        """Block until time may move on. Called outside of every event and commit."""


class Timers:
    """A heap of plain data with at most one timer for each `(kind, key)`.

    A replaced or cancelled timer stays in the heap until it reaches the top, but is never returned; when most of the
    heap is such entries it is rebuilt, so that a paid invoice costs no memory until the day it would have expired.
    Every operation costs the logarithm of the number of timers, on average.
    """

    __slots__ = ("_before", "_current", "_heap", "_sequence", "_sequence_before")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._current: dict[tuple[str, str], Entry] = {}
        self._sequence = self._sequence_before = 0
        # The timer of each name before its first change since `begin` (None: there was none).
        self._before: dict[tuple[str, str], Entry | None] | None = None

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, name: tuple[str, str]) -> bool:
        return name in self._current

    def schedule(self, due_ms: int, priority: int, kind: str, key: str) -> None:
        """Set a timer. It replaces the `(kind, key)` timer, if there is one, and gets a new sequence number."""
        heap, current = self._heap, self._current
        self._sequence = sequence = self._sequence + 1
        if self._before is not None:
            self._before.setdefault((kind, key), current.get((kind, key)))
        current[kind, key] = entry = (due_ms, priority, sequence, kind, key)
        heappush(heap, entry)
        if len(heap) > 2 * len(current) + 16:
            self._rebuild()

    def cancel(self, kind: str, key: str) -> bool:
        """Cancel the `(kind, key)` timer; whether there was one."""
        gone = self._current.pop((kind, key), None)
        if gone is None:
            return False
        if self._before is not None:
            self._before.setdefault((kind, key), gone)
        if len(self._heap) > 2 * len(self._current) + 16:
            self._rebuild()
        return True

    def put_back(self, entry: Entry) -> None:
        """Set a timer again that `due` returned, with its former sequence number."""
        if self._before is not None:
            self._before.setdefault((entry[3], entry[4]), self._current.get((entry[3], entry[4])))
        self._current[entry[3], entry[4]] = entry
        heappush(self._heap, entry)

    def next_due(self) -> int | None:
        """The next timer's instant."""
        heap, current = self._heap, self._current
        while heap:
            entry = heap[0]
            if current.get((entry[3], entry[4])) is entry:
                return entry[0]
            heappop(heap)
        return None

    def peek(self) -> Timer | None:
        """The next timer; it stays set."""
        return None if self.next_due() is None else Timer._make(self._heap[0])

    def due(self, now_ms: int) -> Iterator[Entry]:
        """Remove and yield, one by one, every timer due by `now_ms`, those included that are scheduled while this goes
        on.
        """
        heap, current = self._heap, self._current
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            name = (entry[3], entry[4])
            if current.get(name) is entry:
                del current[name]
                if self._before is not None:
                    self._before.setdefault(name, entry)
                yield entry

    def sequence_of(self, kind: str, key: str) -> int | None:
        """The timer's number, in the order in which timers were scheduled; None when there is none of this name."""
        entry = self._current.get((kind, key))
        return None if entry is None else entry[2]

    def entries(self) -> Collection[Entry]:
        """Every timer, in no order."""
        return self._current.values()

    def changed(self) -> Iterable[tuple[str, str]]:
        """The names whose timers changed since `begin`."""
        return self._before or ()

    def upcoming(self, count: int) -> list[Timer]:
        """The next `count` timers in order; they stay set."""
        return [Timer._make(entry) for entry in nsmallest(count, self._current.values())]

    def begin(self) -> None:
        """Record what changes from now on, until `commit` or `rollback`."""
        self._before = {}
        self._sequence_before = self._sequence

    def commit(self) -> None:
        """Keep what changed since `begin`."""
        self._before = None

    def rollback(self) -> None:
        """Restore the timers and the sequence number at `begin`. The cost depends on what was changed."""
        before, self._before = self._before or {}, None
        for name, entry in before.items():
            if entry is None:
                self._current.pop(name, None)
            elif self._current.get(name) is not entry:
                # It may be in the heap already: the second of the two is never returned.
                self._current[name] = entry
                heappush(self._heap, entry)
        self._sequence = self._sequence_before

    def copy(self) -> Timers:
        """Another list with the same timers; independent from here on."""
        copy = Timers()
        copy._heap = self._heap.copy()
        copy._current = self._current.copy()
        copy._sequence = self._sequence
        return copy

    def snapshot(self, *, timers: bool = True) -> dict[str, Any]:
        """Everything as JSON values; equal lists of timers give equal snapshots. The `timers` may be left out."""
        listed = {"timers": [list(entry) for entry in sorted(self._current.values())]} if timers else {}
        return {"sequence": self._sequence, **listed}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore what `snapshot()` returned. Other `Timers` in it are taken over and must not be used afterwards."""
        self._sequence = snapshot["sequence"]
        if isinstance(timers := snapshot["timers"], Timers):
            self._current, self._heap = timers._current, timers._heap
            return
        entries: list[Entry] = [
            (due_ms, priority, sequence, kind, key) for due_ms, priority, sequence, kind, key in timers
        ]
        self._current = {(entry[3], entry[4]): entry for entry in entries}
        self._heap = entries
        heapify(self._heap)

    def _rebuild(self) -> None:
        # In place: `due` may be running over this very list.
        self._heap[:] = self._current.values()
        heapify(self._heap)


def whole_ms(value: int, name: str) -> int:
    """The value, if it is whole milliseconds. Raises `TypeError` otherwise: texts are for
    `leyden.server.timestamps`.
    """
    if type(value) is not int:
        raise ArgumentError(
            f"{name} is whole milliseconds, not {quoted(value)}: parse texts and spans with leyden.server.timestamps"
            " first"
        )
    return value
