"""The file of a sweep: a line for each run that was made, so that an interrupted sweep goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from leyden.lab.sweeps.runs import COLUMNS, OK
from leyden.server.errors import StoreError

Row = dict[str, Any]
_FIELDS = {*COLUMNS, "params", "metrics"}


class SweepStore:
    """Rows by their `run_id`, one line of JSON each, written as they come.

    A last line that was cut off, because the program or the machine stopped in the middle of it, is taken away; any
    other line that is no row raises `StoreError`: then the file is something else. Runs that failed are not in `rows`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        whole = self._read()
        self._file: IO[bytes] = path.open("ab")
        self._file.truncate(whole)

    def _read(self) -> int:
        """Read what is there; how many bytes of it are whole lines."""
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
                raise StoreError(f"{self.path}, line {number}, is no row of a sweep: give store= a file of its own")
            if row["status"] == OK:
                self.rows[row["run_id"]] = row
            else:
                self.rows.pop(row["run_id"], None)
        return whole

    def add(self, row: Row) -> None:
        """Write one row down; when this returns the system has it."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
