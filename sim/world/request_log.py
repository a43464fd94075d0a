"""The request log: the latest requests that clients sent to a sandbox, with what each of them got.

It is beside the sandbox and no part of its state: snapshots, forks and the event journal have none of it, and a reset
keeps it. A row refers to the bytes of the request and of the response; they are decoded when somebody reads them. A
request pays for one row and one `append`: what the rows take in memory is counted for many of them at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace, merge
from itertools import chain, count, islice, takewhile
from typing import NamedTuple

MOST_ROWS = 1_000
MOST_CONSOLE_READS = 100
KEPT_BYTES = 16 * 1024  # of each body
_TOTAL_BYTES = 32 << 20
_COUNTED_AT_ONCE = 128  # rows
# What a row and each of its headers take besides their texts.
_ROW_BYTES, _HEADER_BYTES = 600, 130

_Headers = Sequence[tuple[bytes, bytes]]


class LoggedRequest(NamedTuple):
    """One request. `doc_id` is its number in the log, `at_ms` is the sandbox's instant when its response ended.
    `started_ns` and `ended_ns` are readings of one clock.

    `status` is None when the client got no response. `response_size` is the length of the body that was sent, of which
    `response_body` is the start, and `is_complete` whether all of it was sent. `fault` is the id and the kind of the
    service fault that applied.
    """

    doc_id: int
    at_ms: int
    started_ns: int
    ended_ns: int
    method: str
    path: str
    raw_path: bytes
    query: bytes
    request_headers: _Headers
    request_body: bytes
    request_size: int
    status: int | None
    response_headers: _Headers
    response_body: bytes
    response_size: int
    is_complete: bool
    fault: tuple[str, str] | None
    client: bytes | None

    @property
    def memory_bytes(self) -> int:
        """About what the row takes."""
        sent = self.request_headers
        return (
            _ROW_BYTES
            + _HEADER_BYTES * (len(sent) + len(self.response_headers))
            + sum(map(len, chain.from_iterable(sent)))
            + 2 * len(self.path)
            + len(self.query)
            + len(self.request_body)
            + len(self.response_body)
        )


class _Rows:
    """The latest rows of one kind, and how much memory those take that were counted."""

    __slots__ = ("counted", "counted_bytes", "last_counted", "rows")

    def __init__(self, most: int) -> None:
        self.rows: deque[LoggedRequest] = deque(maxlen=most)
        self.counted: deque[int] = deque()  # the bytes of the rows, except for the latest ones
        self.counted_bytes = 0
        self.last_counted = 0  # the number of the latest row that was counted

    def count(self) -> int:
        """Count what was added since the last time, and what was displaced; by how much the memory has grown."""
        before = self.counted_bytes
        new = []
        for row in reversed(self.rows.copy()):
            if row.doc_id <= self.last_counted:
                break
            new.append(row)
        if new:
            self.last_counted = new[0].doc_id
        self.counted.extend(row.memory_bytes for row in reversed(new))
        self.counted_bytes += sum(islice(self.counted, len(self.counted) - len(new), None))
        while len(self.counted) > len(self.rows):
            self.counted_bytes -= self.counted.popleft()
        return self.counted_bytes - before

    def drop_oldest(self) -> int:
        """Drop one row that was counted; its bytes."""
        self.rows.popleft()
        freed = self.counted.popleft()
        self.counted_bytes -= freed
        return freed


class LogBudget:
    """The memory for the logs of all sandboxes of one server: beyond it the oldest requests of all are dropped, until
    a tenth of it is free.

    It is counted for every 128 requests: the logs take more by the rows that were not counted.
    """

    def __init__(self, limit_bytes: int = _TOTAL_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._all: dict[_Rows, None] = {}
        self._added: list[_Rows] = []  # those of each row that was not counted
        self._lock = threading.Lock()  # a server thread and a notebook share one sandbox

    def join(self, rows: _Rows) -> None:
        """Rows of a log that count from now on."""
        with self._lock:
            self._all[rows] = None
            self._added.append(rows)
            self._bytes += rows.counted_bytes

    def leave(self, rows: _Rows) -> None:
        """They do not count any more."""
        with self._lock:
            del self._all[rows]
            self._bytes -= rows.counted_bytes

    def added(self, rows: _Rows) -> None:
        """These have one more."""
        self._added.append(rows)
        if len(self._added) >= _COUNTED_AT_ONCE:
            self.count()

    def count(self) -> None:
        """Count all rows, and drop the oldest if they take too much."""
        with self._lock:
            added, self._added = self._added, []
            self._bytes += sum(rows.count() for rows in {*added} if rows in self._all)
            if self._bytes > self._limit_bytes:
                self._drop(self._limit_bytes * 9 // 10)

    def _drop(self, wanted_bytes: int) -> None:
        order = [(rows.rows[0].started_ns, index, rows) for index, rows in enumerate(self._all) if rows.counted]
        heapify(order)
        while self._bytes > wanted_bytes and order:
            _, index, rows = order[0]
            self._bytes -= rows.drop_oldest()
            following = rows.rows[0].started_ns if rows.counted else 1 << 62
            heapreplace(order, (following, index, rows))


class RequestLog:
    """The latest thousand requests to one sandbox. Of the reads of the console it has the latest hundred, apart from
    the others: a page that is open must not displace what it shows. Numbers rise in both together."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self._rows = _Rows(MOST_ROWS)
        self._console_reads = _Rows(MOST_CONSOLE_READS)
        self._budget: LogBudget | None = None

    def __len__(self) -> int:
        return len(self._rows.rows) + len(self._console_reads.rows)

    def add(self, row: LoggedRequest, *, is_console_read: bool = False) -> None:
        """Add a request that has ended, with the next of `numbers`."""
        rows = self._console_reads if is_console_read else self._rows
        rows.rows.append(row)
        budget = self._budget
        if budget is None:
            self.share(budget := LogBudget())
        budget.added(rows)

    def share(self, budget: LogBudget) -> None:
        """From now on the rows count in this budget, together with those of other logs."""
        self._leave()
        self._budget = budget
        budget.join(self._rows)
        budget.join(self._console_reads)

    def close(self) -> None:
        """Drop all rows: the sandbox has ended."""
        self._leave()
        self._rows, self._console_reads = _Rows(MOST_ROWS), _Rows(MOST_CONSOLE_READS)

    def row(self, number: int) -> LoggedRequest | None:
        """The request with this number, or None: it was dropped, or there is none."""
        return next((row for row in self.newest_first(console_reads=True) if row.doc_id == number), None)

    def newest_first(self, after: int | None = None, *, console_reads: bool = False) -> Iterator[LoggedRequest]:
        """The rows with a number below `after`, or all; the console's reads are among them if they are wanted."""
        rows: Iterator[LoggedRequest] = reversed(self._rows.rows.copy())
        if console_reads:
            rows = merge(rows, reversed(self._console_reads.rows.copy()), key=lambda row: -row.doc_id)
        return rows if after is None else (row for row in rows if row.doc_id < after)

    def since(self, number: int, *, console_reads: bool = False) -> list[LoggedRequest]:
        """The rows with a number above `number`, the oldest first."""
        rows = self.newest_first(console_reads=console_reads)
        return [*takewhile(lambda row: row.doc_id > number, rows)][::-1]

    def _leave(self) -> None:
        if self._budget is not None:
            self._budget.leave(self._rows)
            self._budget.leave(self._console_reads)
            self._budget = None
