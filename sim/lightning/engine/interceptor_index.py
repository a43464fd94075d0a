"""The interceptors of a network by the conditions that they have, so that one HTLC reads those that may match it.

The cost of a search depends on the number of combinations of conditions in use, not on the number of interceptors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain, product
from typing import Any

from leyden.lightning.engine.interceptor_row import InterceptorRow
from leyden.lightning.failure_codes import FINAL_NODE_CODES, FORWARDING_NODE_CODES
from leyden.server.store.typed_table import TypedTable

FOREVER_MS = 2**62
_ANY = (None,)
_FAIL_ANYWHERE, _FAIL_AT_RECEIVER, _FAIL_BEFORE_RECEIVER = "fail", "fail at the receiver", "fail before the receiver"


class _Heaps:
    """Heaps of interceptors, one for each combination of conditions; None: an interceptor without this condition."""

    def __init__(self) -> None:
        self._by_given: dict[tuple[bool, ...], dict[tuple[Any, ...], list[tuple[int, str]]]] = {}

    def push(self, conditions: tuple[Any, ...], item: tuple[int, str]) -> None:
        """Add an interceptor: where it is in the heap, and its id."""
        given = tuple(condition is not None for condition in conditions)
        heappush(self._by_given.setdefault(given, {}).setdefault(conditions, []), item)

    def matching(self, *values: tuple[Any, ...]) -> Iterator[list[tuple[int, str]]]:
        """The heaps whose conditions are met by one of the `values` each, in no particular order."""
        for given, heaps in self._by_given.items():
            for conditions in product(
                *(met if is_given else _ANY for met, is_given in zip(values, given, strict=True))
            ):
                heap = heaps.get(conditions)
                if heap:
                    yield heap


class InterceptorIndex:
    """An index of the table `interceptors`. What has ended is removed from it when it is found, so a commit that is
    rolled back makes the index obsolete if it `changed` in it.

    All interceptors in a heap of `_acting` match the same HTLCs, so the first that is in force acts. An interceptor
    that takes a node or a channel `offline`, for every HTLC or for one payment, is in two more heaps: the oldest in
    force is named, the last to end says until when.
    """

    def __init__(self, rows: TypedTable[InterceptorRow]) -> None:
        self.changed = True
        self._rows = rows
        self._added = 0
        self._future: list[tuple[int, int, str]] = []  # from when (ms), which one it is, and its id
        self._acting, self._oldest_offline, self._last_offline = _Heaps(), _Heaps(), _Heaps()
        for row in rows:
            self.add(row)

    def add(self, row: InterceptorRow) -> None:
        """Add an interceptor, which is younger than all others."""
        self._added += 1
        heappush(self._future, (row["from_ms"] or 0, self._added, row["id"]))
        self.changed = True

    def first_at_receiver(self, payment: str | None, hops: int, receiver: int, now: int) -> InterceptorRow | None:
        """The oldest interceptor in force at `now` (ms) for an HTLC of a payment that is at the receiver, after `hops`
        edges."""
        self._start(now)
        kinds = ("delay", "drop", _FAIL_ANYWHERE, _FAIL_AT_RECEIVER)
        return self._oldest(self._acting.matching(kinds, (payment,), (hops, -1), (receiver,), ()), now)

    def first_forwarding(
        self, payment: str | None, hop: int, hops: int, edge: int, nodes: tuple[int, int], now: int
    ) -> InterceptorRow | None:
        """The oldest interceptor in force at `now` (ms) for an HTLC of a payment that is at hop `hop` of a route of
        `hops` edges, before `edge` from one of the `nodes` to the other."""
        self._start(now)
        kinds = ("delay", _FAIL_ANYWHERE, _FAIL_BEFORE_RECEIVER, *(("drop",) if hop else ()))
        payments, numbers, channels = (payment,), (hop, hop - hops - 1), (edge >> 1,)
        # The node before the one that is offline notices it; a node that is offline does not send either.
        heaps = chain(
            self._acting.matching(kinds, payments, numbers, nodes[:1], channels),
            self._acting.matching(("offline",), payments, numbers, nodes, channels),
        )
        return self._oldest(heaps, now)

    def first_offline(self, payment: str | None, edge: int, nodes: tuple[int, int], now: int) -> InterceptorRow | None:
        """The oldest interceptor that keeps an edge between two nodes offline at `now` (ms) for every HTLC of a payment
        (None: of a payment without a row)."""
        self._start(now)
        return self._oldest(self._oldest_offline.matching((payment,), nodes, (edge >> 1,)), now)

    def offline_until(self, payment: str | None, edge: int, nodes: tuple[int, int], now: int) -> int | None:
        """Until when (ms) what `first_offline` returns, and all that are in force with it, last; None without any."""
        self._start(now)
        heaps = self._last_offline.matching((payment,), nodes, (edge >> 1,))
        rows = [row for heap in heaps if (row := self._in_force(heap, now)) is not None]
        return max(map(_until_ms, rows), default=None)

    def _start(self, now: int) -> None:
        """Move the interceptors that are in force from now on to where they are found."""
        while self._future and self._future[0][0] <= now:
            _, number, id = heappop(self._future)
            self.changed = True
            row = self._rows.row(id)
            if row is None:
                continue
            payment, hop, node, channel = row["payment"], row["hop"], row["node"], row["channel"]
            self._acting.push((_kind(row), payment, hop, node, channel), (number, id))
            if row["kind"] == "offline" and hop is row["times"] is None:
                self._oldest_offline.push((payment, node, channel), (number, id))
                self._last_offline.push((payment, node, channel), (-_until_ms(row), id))

    def _oldest(self, heaps: Iterable[list[tuple[int, str]]], now: int) -> InterceptorRow | None:
        """The oldest interceptor in force of heaps by age."""
        found = [(heap[0][0], row) for heap in heaps if (row := self._in_force(heap, now)) is not None]
        return min(found, key=lambda each: each[0])[1] if found else None

    def _in_force(self, heap: list[tuple[int, str]], now: int) -> InterceptorRow | None:
        """The first of a heap that is in force, after those that ended were removed."""
        while heap:
            row = self._rows.row(heap[0][1])
            if row is not None and now < _until_ms(row) and (row["times"] is None or row["acted"] < row["times"]):
                return row
            heappop(heap)
            self.changed = True
        return None


def _until_ms(row: InterceptorRow) -> int:
    return FOREVER_MS if row["until_ms"] is None else row["until_ms"]


def _kind(row: InterceptorRow) -> str:
    """The kind of an interceptor, with the nodes that send its failure code (BOLT 4)."""
    if row["code"] in FINAL_NODE_CODES:
        return _FAIL_AT_RECEIVER
    return _FAIL_BEFORE_RECEIVER if row["code"] in FORWARDING_NODE_CODES else row["kind"]
