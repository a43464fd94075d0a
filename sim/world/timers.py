"""The alarm clock's list: who wants to be woken, when, and in what order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any, NamedTuple


class Timer(NamedTuple):
    """A standing wish to be woken at `due_ms`. Timers order as tuples: by instant, then priority, then arrival."""

    due_ms: int
    priority: int
    sequence: int
    kind: str
    key: str


# What the heap holds: a Timer's fields as a bare tuple, which costs a third of a Timer to make.
Entry = tuple[int, int, int, str, str]


class Timers:
    """A heap of plain data in which at most one timer stands for each `(kind, key)`.

    A replaced or cancelled timer stays in the heap until it surfaces, but is never seen; when most of the heap is
    such leftovers it is rebuilt, so that an invoice paid in time does not weigh until the day it would have expired.
    Every operation costs the logarithm of the number of standing timers, on average.
    """

    __slots__ = ("_before", "_heap", "_sequence", "_sequence_before", "_standing")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._standing: dict[tuple[str, str], Entry] = {}
        self._sequence = self._sequence_before = 0
        # What stood under each name before it was first touched since `begin` (None: nothing did).
        self._before: dict[tuple[str, str], Entry | None] | None = None

    def __len__(self) -> int:
        return len(self._standing)

    def __contains__(self, name: tuple[str, str]) -> bool:
        return name in self._standing

    def schedule(self, due_ms: int, priority: int, kind: str, key: str) -> None:
        """Stand a timer, in the place of the `(kind, key)` timer if there is one: it then queues as newly arrived."""
        heap, standing = self._heap, self._standing
        self._sequence = sequence = self._sequence + 1
        if self._before is not None:
            self._before.setdefault((kind, key), standing.get((kind, key)))
        standing[kind, key] = entry = (due_ms, priority, sequence, kind, key)
        heappush(heap, entry)
        if len(heap) > 2 * len(standing) + 16:
            self._tidy()

    def cancel(self, kind: str, key: str) -> bool:
        """Forget the `(kind, key)` timer; tells whether there was one."""
        gone = self._standing.pop((kind, key), None)
        if gone is None:
            return False
        if self._before is not None:
            self._before.setdefault((kind, key), gone)
        if len(self._heap) > 2 * len(self._standing) + 16:
            self._tidy()
        return True

    def put_back(self, entry: Entry) -> None:
        """Stand a taken timer again, with the place in the order that it had."""
        if self._before is not None:
            self._before.setdefault((entry[3], entry[4]), self._standing.get((entry[3], entry[4])))
        self._standing[entry[3], entry[4]] = entry
        heappush(self._heap, entry)

    def next_due(self) -> int | None:
        """The next timer's instant."""
        heap, standing = self._heap, self._standing
        while heap:
            entry = heap[0]
            if standing.get((entry[3], entry[4])) is entry:
                return entry[0]
            heappop(heap)
        return None

    def peek(self) -> Timer | None:
        """The next timer, left standing."""
        return None if self.next_due() is None else Timer._make(self._heap[0])

    def due(self, now_ms: int) -> Iterator[Entry]:
        """Take, one by one, every timer due by `now_ms`, those included that are scheduled while this goes on."""
        heap, standing = self._heap, self._standing
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            name = (entry[3], entry[4])
            if standing.get(name) is entry:
                del standing[name]
                if self._before is not None:
                    self._before.setdefault(name, entry)
                yield entry

    def sequence_of(self, kind: str, key: str) -> int | None:
        """The timer's number, in the order in which timers were scheduled; None when there is none of this name."""
        entry = self._standing.get((kind, key))
        return None if entry is None else entry[2]

    def entries(self) -> Collection[Entry]:
        """Every standing timer, in no order."""
        return self._standing.values()

    def changed(self) -> Iterable[tuple[str, str]]:
        """The names that were touched since `begin`."""
        return self._before or ()

    def upcoming(self, count: int) -> list[Timer]:
        """The next `count` timers in order, all left standing."""
        return [Timer._make(entry) for entry in nsmallest(count, self._standing.values())]

    def begin(self) -> None:
        """Remember what changes from now on, until `commit` or `rollback`."""
        self._before = {}
        self._sequence_before = self._sequence

    def commit(self) -> None:
        """What changed since `begin` stays as it is."""
        self._before = None

    def rollback(self) -> None:
        """Let everything stand as it stood at `begin`, the count of arrivals too. Costs no more than was changed."""
        before, self._before = self._before or {}, None
        for name, entry in before.items():
            if entry is None:
                self._standing.pop(name, None)
            elif self._standing.get(name) is not entry:
                # It may be in the heap already, as a leftover: the second of the two is never seen.
                self._standing[name] = entry
                heappush(self._heap, entry)
        self._sequence = self._sequence_before

    def copy(self) -> Timers:
        """Another list with the same timers; from here on the two go their own ways."""
        twin = Timers()
        twin._heap = self._heap.copy()
        twin._standing = self._standing.copy()
        twin._sequence = self._sequence
        return twin

    def snapshot(self) -> dict[str, Any]:
        """Everything as JSON values; equal lists of timers give equal snapshots."""
        return {"sequence": self._sequence, "timers": [list(entry) for entry in sorted(self._standing.values())]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Become what `snapshot()` wrote down; what stood before is forgotten."""
        entries: list[Entry] = [
            (due_ms, priority, sequence, kind, key) for due_ms, priority, sequence, kind, key in snapshot["timers"]
        ]
        self._sequence = snapshot["sequence"]
        self._standing = {(entry[3], entry[4]): entry for entry in entries}
        self._heap = entries
        heapify(self._heap)

    def _tidy(self) -> None:
        # In place: `due` may be running over this very list.
        self._heap[:] = self._standing.values()
        heapify(self._heap)
