"""Reads the tables of a run that were written to a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leyden.arguments import Spelled, checked_path, hint
from leyden.errors import ArgumentError
from leyden.extras import require
from leyden.files.json_files import InputError, check_regular_file, shown
from leyden.lab.parquet.layout import AT_THE_END, FORMER_NAMES, JOURNAL, ORDER, PORTIONED, REST, part_name
from leyden.lab.parquet.manifest import check_file, read_manifest
from leyden.lab.table_columns import columns
from leyden.lab.table_rows import column_names
from leyden.server.printable import quoted

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow


class RecordedRun(Spelled):
    """The tables of a run, equal to those of its sandbox if nothing had been removed from it: `run.charges`,
    `run.payments`, `run.attempts`, `run.htlcs`, `run.deliveries`, `run.callbacks`, `run.static_charges`,
    `run.balances`, `run.outages` and `run.journal`. Each is a DataFrame, read from its files at each call.

    A file that is not the one that the run wrote is refused when its table is read. `files(name)` are the Parquet files
    of a table, for DuckDB, polars or pyarrow. `seed`, `start` and `now` are those of the sandbox.
    """

    _fields = frozenset({"_directory", "_manifest"})

    def __init__(self, directory: str | Path) -> None:
        require("leyden.read", "pandas", "lab")
        require("leyden.read", "pyarrow", "lab")
        self._directory = checked_path("directory", directory)
        self._manifest = read_manifest(self._directory)

    seed = property(lambda self: self._manifest["seed"], doc="The seed of the sandbox.")
    start = property(lambda self: self._manifest["start"], doc="The instant at which the sandbox began.")
    now = property(lambda self: self._manifest["now"], doc="The instant at which the run ended.")
    charges = property(lambda self: self.table("charges"), doc="All Charges.")
    static_charges = property(lambda self: self.table("static_charges"), doc="The Static Charges at the end.")
    payments = property(lambda self: self.table("payments"), doc="All payments.")
    attempts = property(lambda self: self.table("attempts"), doc="The attempts of the payments.")
    htlcs = property(lambda self: self.table("htlcs"), doc="The hops of the attempts.")
    deliveries = property(lambda self: self.table("deliveries"), doc="All messages for receivers.")
    callbacks = property(lambda self: self.table("callbacks"), doc="All attempts to deliver a message.")
    balances = property(lambda self: self.table("balances"), doc="The balances at the end.")
    outages = property(lambda self: self.table("outages"), doc="The outages of nodes.")
    journal = property(lambda self: self.table("journal"), doc="The event journal.")

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return (*PORTIONED, *AT_THE_END, JOURNAL)

    def files(self, name: str) -> list[Path]:
        """The Parquet files of a table, in the order of time. Raises `ValueError` for an unknown table, `InputError`
        when a file is missing."""
        if name not in self.tables:
            raise ArgumentError(f"there is no table {quoted(name)}: {hint(name, self.tables)}")
        parts = 0 if name in AT_THE_END else self._manifest["parts"]
        names = [*(part_name(number) for number in range(1, parts + 1)), REST]
        files = [self._directory / name / file for file in names]
        for file in files:
            check_regular_file(file)
        missing = [file for file in files if not file.exists()]
        written = self._manifest.get("files")
        if missing == files[-1:] if written is None else f"{name}/{REST}" not in written:
            # A run that was killed has its portions and no rest. What is there may be that of a run before.
            if not parts:
                raise InputError(
                    f"{files[-1]} was not written, because the run was killed: run again into a new directory"
                )
            files, missing = files[:-1], [file for file in missing if file != files[-1]]
        if missing:
            raise InputError(f"{missing[0]} is missing: the run cannot be read without it")
        return files

    def table(self, name: str) -> pd.DataFrame:
        """One table as a DataFrame, with the columns and types of the sandbox's table. Raises as `files`, and
        `InputError` for a file that was changed since the run wrote it."""
        import pandas as pd
        import pyarrow
        import pyarrow.parquet

        files = self.files(name)
        try:
            for file in files:
                with pyarrow.parquet.ParquetFile(file) as found:
                    rows = found.metadata.num_rows
                    _check_schema(name, file, found.schema_arrow, rows)
                check_file(self._manifest, self._directory, f"{name}/{file.name}", rows)
            portions = [pyarrow.parquet.read_table(file) for file in files]
            frame: pd.DataFrame = pyarrow.concat_tables(portions, promote_options="permissive").to_pandas()
        except (OSError, ValueError, pyarrow.ArrowException) as error:  # ValueError: a text that is not UTF-8
            raise InputError(f"a file of {self._directory / name} cannot be read ({error})") from None
        frame = frame.sort_values(ORDER, kind="stable", ignore_index=True).drop(columns=ORDER)
        frame = _present(name, frame)
        for column, states in self._manifest["states"].get(name, {}).items():
            if column in frame:
                frame[column] = pd.Categorical(frame[column], categories=states)
        return frame

    def facts(self, kind: str) -> pd.DataFrame:
        """The events of one kind, with a column for each of their facts. Raises `ValueError` as `Sandbox.facts`."""
        from leyden.lab.tables import facts_of

        return facts_of(self.table("journal"), kind)

    def __repr__(self) -> str:
        return f"<Run in {self._directory}: seed {self.seed}, {self.start} to {self.now or 'an interruption'}>"


def _check_schema(name: str, file: Path, schema: pyarrow.Schema, rows: int) -> None:
    """Raise `InputError` when a file does not have the columns of this table, with their types. A file of an earlier
    version may have other names and not all columns, and one without rows any types."""
    known = {ORDER: "Int64", **dict.fromkeys(FORMER_NAMES.get(name, ()), "str")}
    own = [column for column in columns() if column.table == name]
    known |= {column.name: column.dtype for column in own}
    present = {FORMER_NAMES.get(name, {}).get(column, column) for column in schema.names}
    unknown = [column for column in schema.names if column not in known]
    missing = [column for column in (ORDER, *(one.name for one in own if one.is_key)) if column not in present]
    wrong = [one.name for one in schema if rows and one.name in known and not _fits(one.type, known[one.name])]
    faults = (("has the column", unknown), ("has no column", missing), ("has another type in the column", wrong))
    for what, found in faults:
        if found:
            mend = f"put the file of the table {name} there, or read the directory that the run wrote"
            raise InputError(f"{shown(file)} is no file of the table {name}: it {what} {quoted(found[0])}; {mend}")


def _fits(kind: pyarrow.DataType, dtype: str) -> bool:
    """Whether a column of a file can be a column of this dtype of pandas. One without values may have any type."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    fits = {
        "str": is_text,
        "category": is_text,
        "Int64": types.is_integer(kind),
        "float64": types.is_floating(kind) or types.is_integer(kind),
        "boolean": types.is_boolean(kind),
        "datetime64[ms, UTC]": types.is_timestamp(kind),
    }
    return bool(types.is_null(kind) or fits[dtype])


def _present(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table as they are now: files of an earlier version have other names, or not all of them."""
    for former, present in FORMER_NAMES.get(name, {}).items():
        if former in frame:
            values = frame.pop(former)
            frame[present] = frame[present].fillna(values) if present in frame else values
    wanted = column_names(name)
    return frame if list(frame) == wanted else frame.reindex(columns=wanted)


def read(directory: str | Path) -> RecordedRun:
    """The tables of a run with `spill=directory`. Raises `InputError` for a directory without one, and `MissingExtra`
    without pandas and pyarrow."""
    return RecordedRun(directory)
