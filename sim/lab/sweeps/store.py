"""The file of a sweep: one line per completed run, so that an interrupted sweep can continue."""

from __future__ import annotations

import io
import json
import os
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from jsonschema_rs import Draft202012Validator

from leyden.files.json_files import DocumentKind, shown
from leyden.lab.sweeps.runs import COLUMNS, FAILED, MAX_SEED, OK, SweepRow, SweepRun, as_json
from leyden.repr_tables import counted
from leyden.server.errors import StoreError
from leyden.server.version import VERSION

_COUNT = {"type": "integer", "minimum": 0}
_ROW: dict[str, Any] = {
    "type": "object",
    "required": [*(name for name in COLUMNS if name != "leyden_version"), "params", "metrics"],
    "properties": {
        "run_id": {"type": "string"},
        "scenario": _COUNT,
        "replication": _COUNT,
        "seed": {**_COUNT, "maximum": MAX_SEED},
        "params": {"type": "object"},
        "metrics": {"type": "object"},
        "status": {"enum": [OK, FAILED]},
        "error": {"type": ["string", "null"]},
        "real_time_s": {"type": ["number", "null"]},
        "version": {"type": "string"},
        "leyden_version": {"type": "string"},
        "checksum": {"type": "string"},  # former versions wrote none
    },
}
_SWEEP_ROW = DocumentKind(
    "row of a sweep", StoreError, "give store= a file of its own", Draft202012Validator(_ROW), 1_000_000_000
)
_CHANGED_ROW = _SWEEP_ROW._replace(mend="restore it from a copy, or delete the line, and its run is done again")
_FORMER_COLUMNS = {"wall_s": "real_time_s"}  # of files that an earlier version wrote


def _with_new_names(row: Any) -> Any:
    return {_FORMER_COLUMNS.get(name, name): value for name, value in row.items()} if isinstance(row, dict) else row


# How `json.dumps` writes a row, up to its parameters; a pattern stands between two texts.
_BEGINNING = (
    ('{"run_id": "', "[0-9a-f]{16}(-[0-9]*)?|[0-9a-f]{0,15}"),
    ('", "scenario": ', "[0-9]*"),
    (', "replication": ', "[0-9]*"),
    (', "seed": ', "[0-9]*"),
    (', "params": {', "[ -~]*"),
)


def _is_cut_row(data: bytes) -> bool:
    """Whether a row that `SweepStore.add` writes begins so, and has not ended in a newline."""
    try:
        rest = data.decode("ascii")
    except UnicodeDecodeError:
        return False
    for text, pattern in _BEGINNING:
        if len(rest) <= len(text):
            return text.startswith(rest)
        if not rest.startswith(text):
            return False
        rest = rest[len(text) :]
        rest = rest[cast(re.Match[str], re.match(pattern, rest)).end() :]
        if not rest:
            break
    if rest:
        return False
    try:
        row, end = json.JSONDecoder().raw_decode(data.decode("ascii"))
    except (ValueError, RecursionError):
        return True
    return end == len(data) and _SWEEP_ROW.validator.is_valid(_with_new_names(row))


def _without_zeros(data: bytes) -> tuple[bytes, int]:
    """The content without the null bytes at its end, and their number. A file system may have given a file its new size
    before a power failure, and not the content."""
    kept = data.rstrip(b"\0")
    return (kept, len(data) - len(kept)) if kept else (data, 0)  # nothing says that it is the file of a sweep


def _checksum(row: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(row, sort_keys=True).encode(), digest_size=8).hexdigest()


def _is_stored_as(given: Any, stored: Any) -> bool:
    """Whether the file has this value of a parameter so. A value without a JSON form may have another text in each
    process, so it is not compared."""
    if isinstance(given, Mapping):
        if not all(isinstance(name, str) for name in given):
            return True
        named = {as_json(name): value for name, value in given.items()}
        return isinstance(stored, dict) and (
            named.keys() == stored.keys() and all(_is_stored_as(named[name], stored[name]) for name in named)
        )
    if isinstance(given, (list, tuple)):
        return isinstance(stored, list) and (len(given) == len(stored) and all(map(_is_stored_as, given, stored)))
    is_json = given is None or isinstance(given, (bool, int, float, str))
    return not is_json or json.dumps(as_json(given)) == json.dumps(stored)


def _private(path: str, flags: int) -> int:
    """A descriptor of a file; only its owner reads a new one."""
    return os.open(path, flags, 0o600)


class SweepStore:
    """Rows by `run_id`, one line of JSON each, written when a run completes.

    An incomplete last line is removed if it is the beginning of a row, which an interrupted sweep leaves, and so are
    null bytes after the rows, with a `UserWarning`. Any other line that is not a row raises `StoreError`, and the file
    is not changed. Failed runs are not in `rows`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, SweepRow] = {}
        self._lines: dict[str, int] = {}
        self._count = 0  # of the rows in the file, failed ones too
        whole = self._read()
        try:
            # Without a buffer, which would be written again when the file is closed.
            self._file = io.FileIO(path, "ab", opener=_private)
            self._file.truncate(whole)
        except OSError as error:
            raise StoreError(f"{shown(path)} cannot be written: {error.strerror}; choose another store=") from None

    def _read(self) -> int:
        """Read the file; return the number of bytes in complete rows."""
        try:
            is_new = not self.path.exists()
        except OSError as error:  # its name is too long
            raise StoreError(f"{shown(self.path)} cannot be read: {error.strerror}; choose another store=") from None
        if is_new:
            return 0
        data, lost = _without_zeros(_SWEEP_ROW.content(self.path))
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].split(b"\n")[:-1]
        self._count = len(lines)
        for number, line in enumerate(lines, 1):
            where = f"{shown(self.path)}, line {number},"
            document = _with_new_names(_SWEEP_ROW.parse(line, where, infinite=True))
            _SWEEP_ROW.check(document, where)
            if (checksum := document.pop("checksum", None)) is not None and checksum != _checksum(document):
                raise _CHANGED_ROW.refusal(where, "its checksum is that of another content")
            row = cast(SweepRow, as_json(document))
            self._lines[row["run_id"]] = number
            if row["status"] == OK:
                self.rows[row["run_id"]] = row
            else:
                self.rows.pop(row["run_id"], None)
        if not _is_cut_row(data[whole:]):
            where = f"{shown(self.path)}, line {len(lines) + 1},"
            raise _SWEEP_ROW.refusal(where, "it has no end of line, and a row of a sweep does not begin so")
        if lost:
            warnings.warn(
                f"{shown(self.path)}: the {lost} null bytes at its end are removed, which a power failure left; it has"
                f" {counted(len(lines), 'row')} before them",
                stacklevel=5,  # the call of `sweep`
            )
        return whole

    def row_of(self, run: SweepRun) -> SweepRow | None:
        """The row of a run, if it is in the file. Raises `StoreError` for one with another seed or other parameters."""
        row = self.rows.get(run.run_id)
        if row is None:
            return None
        where = f"{shown(self.path)}, line {self._lines[run.run_id]},"
        if row["seed"] != run.seed:
            raise _CHANGED_ROW.refusal(where, f"seed is {row['seed']}, and the run {run.run_id} has {run.seed}")
        if not _is_stored_as(run.params, row["params"]):
            raise _CHANGED_ROW.refusal(where, f"params are not those of the run {run.run_id}")
        # What the id does not fix; a row of an earlier file may lack it.
        return {
            **row, "scenario": run.scenario, "replication": run.replication, "seed": run.seed,
            "params": run.json_params, "version": run.version, "leyden_version": VERSION,
        }  # fmt: skip

    def add(self, row: SweepRow) -> None:
        """Write one row to the operating system. Raises `StoreError`; the file then ends with the row before."""
        line = json.dumps({**row, "checksum": _checksum(row)}).encode() + b"\n"
        written = 0
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(os.fstat(self._file.fileno()).st_size - written)
            raise StoreError(
                f"{shown(self.path)} cannot be written: {error.strerror}; it has the {self._count} rows before: make"
                " room, or move the file, and repeat the sweep, which continues with them"
            ) from None
        self._count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # each row was written when it was added
            self._file.close()
