"""The request log: the latest requests that clients sent to a sandbox, with what each of them got.

It is beside the sandbox and no part of its state: snapshots, forks and the event journal have none of it, and a reset
keeps it. Each row is one `bytes` object until it is read. To keep the objects of a request instead would cost a request
several times as much: a thousand of them do not fit into the cache of a processor.
"""

from __future__ import annotations

import marshal
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace, merge
from itertools import count, takewhile
from math import inf
from typing import Any, NamedTuple

MOST_ROWS = 1_000
MOST_CONSOLE_READS = 100
KEPT_BYTES = 16 * 1024  # of each body
TOTAL_BYTES = 32 << 20
_OBJECT_BYTES = 64  # what a row takes besides its bytes
_MARSHAL_VERSION = 2  # without references to equal values, which cost more than they spare

_Headers = Sequence[tuple[bytes, bytes]]


class LoggedRequest(NamedTuple):
    """One request. `doc_id` is its number in the log, `at_ms` is the sandbox's instant when its response ended.
    `started_ns` and `ended_ns` are readings of one clock.

    `status` is None when the client got no response. `response_size` is the length of the body that was handed to the
    operating system, of which `response_body` is the start, and `is_complete` whether all of it was. `fault` is the id
    and the kind of the service fault that was used, and whether it changed anything.

    `service_status` and `service_body` are what the service answered, if the client did not get that: the start of the
    body, and None where it is what was sent.
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
    fault: tuple[str, str, bool] | None
    client: bytes | None
    service_status: int | None = None
    service_body: bytes | None = None


def _unpacked(row: bytes) -> LoggedRequest:
    return LoggedRequest(*marshal.loads(row))


class LogBudget:
    """The memory for the logs of all sandboxes of one server: beyond it the oldest requests of all are dropped, until
    a tenth of it is free."""

    def __init__(self, limit_bytes: int = TOTAL_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.memory_bytes = 0  # the logs add to it themselves
        self._logs: dict[RequestLog, None] = {}

    def join(self, log: RequestLog) -> None:
        """A log counts from now on."""
        self._logs[log] = None
        self.memory_bytes += log.memory_bytes()

    def leave(self, log: RequestLog) -> None:
        """It does not count any more."""
        del self._logs[log]
        self.memory_bytes -= log.memory_bytes()

    def drop_oldest(self) -> None:
        """Drop the oldest requests of all logs."""
        # Counted anew: two threads that add at the same instant may count wrong, and no request waits for a lock.
        self.memory_bytes = sum(log.memory_bytes() for log in self._logs)
        order = [(log.oldest_ns(), index, log) for index, log in enumerate(self._logs)]
        heapify(order)
        while self.memory_bytes > self.limit_bytes * 9 // 10:
            _, index, log = order[0]
            self.memory_bytes -= log.drop_oldest()
            heapreplace(order, (log.oldest_ns(), index, log))


class RequestLog:
    """The latest thousand requests to one sandbox. Of the reads of the console it has the latest hundred, apart from
    the others: a page that is open must not displace what it shows. Numbers rise in both together."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self._rows: deque[bytes] = deque()
        self._console_reads: deque[bytes] = deque()
        self._budget: LogBudget | None = None

    def __len__(self) -> int:
        return len(self._rows) + len(self._console_reads)

    def add(self, fields: tuple[Any, ...], *, is_console_read: bool = False) -> None:
        """Add a request that has ended: the fields of a `LoggedRequest` in order, the first of them the next of
        `numbers`, all of plain types."""
        row = marshal.dumps(fields, _MARSHAL_VERSION)
        rows, most = (self._console_reads, MOST_CONSOLE_READS) if is_console_read else (self._rows, MOST_ROWS)
        budget = self._budget
        if budget is None:
            self.share(budget := LogBudget())
        rows.append(row)
        budget.memory_bytes += len(row) + _OBJECT_BYTES
        if len(rows) > most:
            budget.memory_bytes -= len(rows.popleft()) + _OBJECT_BYTES
        if budget.memory_bytes > budget.limit_bytes:
            budget.drop_oldest()

    def share(self, budget: LogBudget) -> None:
        """From now on the rows count in this budget, together with those of other logs."""
        self._leave()
        self._budget = budget
        budget.join(self)

    def close(self) -> None:
        """Drop all rows: the sandbox has ended."""
        self._leave()
        self._rows.clear()
        self._console_reads.clear()

    def row(self, number: int) -> LoggedRequest | None:
        """The request with this number, or None: it was dropped, or there is none."""
        return next((row for row in self.newest_first(console_reads=True) if row.doc_id == number), None)

    def newest_first(self, after: int | None = None, *, console_reads: bool = False) -> Iterator[LoggedRequest]:
        """The rows with a number below `after`, or all; the console's reads are among them if they are wanted."""
        rows: Iterator[LoggedRequest] = map(_unpacked, reversed(self._rows.copy()))
        if console_reads:
            reads = map(_unpacked, reversed(self._console_reads.copy()))
            rows = merge(rows, reads, key=lambda row: -row.doc_id)
        return rows if after is None else (row for row in rows if row.doc_id < after)

    def since(self, number: int, *, console_reads: bool = False) -> list[LoggedRequest]:
        """The rows with a number above `number`, the oldest first."""
        rows = self.newest_first(console_reads=console_reads)
        return [*takewhile(lambda row: row.doc_id > number, rows)][::-1]

    # For the budget

    def memory_bytes(self) -> int:
        """The memory of the rows, in bytes."""
        return sum(len(row) + _OBJECT_BYTES for row in [*self._rows, *self._console_reads])

    def oldest_ns(self) -> float:
        """When the oldest request began; infinite without one."""
        return min((_unpacked(rows[0]).started_ns for rows in (self._rows, self._console_reads) if rows), default=inf)

    def drop_oldest(self) -> int:
        """Drop the oldest request; what it took."""
        rows = min(
            (rows for rows in (self._rows, self._console_reads) if rows), key=lambda rows: _unpacked(rows[0]).started_ns
        )
        return len(rows.popleft()) + _OBJECT_BYTES

    def _leave(self) -> None:
        if self._budget is not None:
            self._budget.leave(self)
            self._budget = None
