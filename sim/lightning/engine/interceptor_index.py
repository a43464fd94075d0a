"""The interceptors of a network by the conditions that they have, so that an HTLC reads those that may match."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import chain

from leyden.condition_index import ConditionIndex, RowIndex
from leyden.lightning.engine.interceptor_row import InterceptorRow
from leyden.lightning.failure_codes import FINAL_NODE_CODES, FORWARDING_NODE_CODES
from leyden.server.store.typed_table import TypedTable

FOREVER_MS = 2**62
_FAIL_ANYWHERE, _FAIL_AT_RECEIVER, _FAIL_BEFORE_RECEIVER = "fail", "fail at the receiver", "fail before the receiver"


class InterceptorIndex(RowIndex):
    """An index of the table `interceptors`. What has ended is removed when it is found.

    All interceptors in a list of `_acting` match the same HTLCs, so the first that is in force acts. An interceptor
    that takes a node or a channel `offline`, for every HTLC or for one payment, is in two more lists: the oldest in
    force is named, the last to end says until when.
    """

    def __init__(self, rows: TypedTable[InterceptorRow]) -> None:
        super().__init__()
        self._rows = rows
        self._forget()

    def add(self, row: InterceptorRow, now: int) -> None:
        """Add an interceptor, of which there is a row, at `now` (ms)."""
        self._start(now)
        self._add(row)

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
        lists = chain(
            self._acting.matching(kinds, payments, numbers, nodes[:1], channels),
            self._acting.matching(("offline",), payments, numbers, nodes, channels),
        )
        return self._oldest(lists, now)

    def first_offline(self, payment: str | None, edge: int, nodes: tuple[int, int], now: int) -> InterceptorRow | None:
        """The oldest interceptor that keeps an edge between two nodes offline at `now` (ms) for every HTLC of a payment
        (None: of a payment without a row)."""
        self._start(now)
        return self._oldest(self._oldest_offline.matching((payment,), nodes, (edge >> 1,)), now)

    def offline_until(self, payment: str | None, edge: int, nodes: tuple[int, int], now: int) -> int | None:
        """Until when (ms) what `first_offline` returns, and all that are in force with it, last; None without any."""
        self._start(now)
        lists = self._last_offline.matching((payment,), nodes, (edge >> 1,))
        rows = [row for items in lists if (row := self._in_force(items, now)) is not None]
        return max(map(_until_ms, rows), default=None)

    # Inside

    def _forget(self) -> None:
        self._is_built = False
        self._future: list[tuple[int, int, str]] = []  # from when (ms), its place by age, and its id
        self._acting, self._oldest_offline, self._last_offline = ConditionIndex(), ConditionIndex(), ConditionIndex()

    def _start(self, now: int) -> None:
        """Move the interceptors that are in force from now on to where they are found."""
        if not self._is_built:
            self._is_built = self._changed = True
            for each in self._rows:
                self._add(each)
        while self._future and self._future[0][0] <= now:
            _, number, id = heappop(self._future)
            self._changed = True
            row = self._rows.row(id)
            if row is None:
                continue
            payment, hop, node, channel = row["payment"], row["hop"], row["node"], row["channel"]
            self._acting.add((_kind(row), payment, hop, node, channel), (number, id))
            if row["kind"] == "offline" and hop is row["times"] is None:
                self._oldest_offline.add((payment, node, channel), (number, id))
                self._last_offline.add((payment, node, channel), (-_until_ms(row), id))

    def _add(self, row: InterceptorRow) -> None:
        heappush(self._future, (row["from_ms"] or 0, self._rows.id_of(row["id"]) or 0, row["id"]))
        self._changed = True

    def _oldest(self, lists: Iterable[list[tuple[int, str]]], now: int) -> InterceptorRow | None:
        """The oldest interceptor in force of lists by age."""
        found = [(items[0][0], row) for items in lists if (row := self._in_force(items, now)) is not None]
        return min(found, key=lambda each: each[0])[1] if found else None

    def _in_force(self, items: list[tuple[int, str]], now: int) -> InterceptorRow | None:
        """The first of a list that is in force, after those that ended were removed."""
        ended, found = 0, None
        for _, id in items:
            row = self._rows.row(id)
            if row is not None and now < _until_ms(row) and (row["times"] is None or row["acted"] < row["times"]):
                found = row
                break
            ended += 1
        if ended:
            del items[:ended]
            self._changed = True
        return found


def _until_ms(row: InterceptorRow) -> int:
    return FOREVER_MS if row["until_ms"] is None else row["until_ms"]


def _kind(row: InterceptorRow) -> str:
    """The kind of an interceptor, with the nodes that send its failure code (BOLT 4)."""
    if row["code"] in FINAL_NODE_CODES:
        return _FAIL_AT_RECEIVER
    return _FAIL_BEFORE_RECEIVER if row["code"] in FORWARDING_NODE_CODES else row["kind"]
