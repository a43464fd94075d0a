"""The file of a sweep: one line per completed run, so that an interrupted sweep can continue."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from leyden.lab.sweeps.runs import COLUMNS, OK, SweepRow
from leyden.server.errors import StoreError

_FIELDS = {*COLUMNS, "params", "metrics"}


class SweepStore:
    """Rows by `run_id`, one line of JSON each, written when a run completes.

    An incomplete last line, left by an interrupted program, is removed. Any other line that is not a row raises
    `StoreError`. Failed runs are not in `rows`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, SweepRow] = {}
        whole = self._read()
        self._file: IO[bytes] = path.open("ab")
        self._file.truncate(whole)

    def _read(self) -> int:
        """Read the file; return the number of bytes in complete lines."""
        if not self.path.exists():
            return 0
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict) or not row.keys() >= _FIELDS:
                raise StoreError(f"{self.path}, line {number}, is not a row of a sweep: give store= a file of its own")
            if row["status"] == OK:
                self.rows[row["run_id"]] = cast(SweepRow, row)
            else:
                self.rows.pop(row["run_id"], None)
        return whole

    def add(self, row: SweepRow) -> None:
        """Write one row and flush it to the operating system."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
