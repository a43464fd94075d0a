"""Writes ended Charges with their payments and callbacks into a directory, and removes them from the world."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from leyden.arguments import checked_path
from leyden.extras import require
from leyden.files.json_files import InputError, shown
from leyden.files.written_files import create_private
from leyden.lab.parquet.layout import AT_THE_END, FORMAT, JOURNAL, MANIFEST, ORDER, PORTIONED, REST, part_name
from leyden.lab.parquet.manifest import checksum_of, portion_names, read_manifest, write_manifest
from leyden.lab.table_rows import TABLES, Row, states_of
from leyden.lab.tables import frame_of
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.server.callbacks.deliveries import PENDING
from leyden.server.printable import printable, quoted
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.interrupts import interrupts
from leyden.world.world import World

_REMOVED_PER_COMMIT = 500
# The column of each table with the id of what it belongs to, and the table that has these ids.
_OWNERS = {
    "charges": ("id", "charges"),
    "payments": ("id", "payments"),
    "attempts": ("payment_id", "payments"),
    "htlcs": ("payment_id", "payments"),
    "deliveries": ("id", "deliveries"),
    "callbacks": ("delivery_id", "deliveries"),
}


class RunWriter:
    """The directory of one world's run. It is created, or continued by the sandbox that has written it.

    Raises `InputError` for a directory with other files, or with the files of another run, and `MissingExtra` without
    pandas and pyarrow.
    """

    def __init__(self, world: World, directory: str | Path) -> None:
        require("spill=", "pandas", "lab")
        require("spill=", "pyarrow", "lab")
        self._world = world
        self._directory = checked_path("spill", directory)
        self._final = world.config.contract.lifecycles["Charge"].terminal
        self._tables: dict[str, Any] = {
            "charges": world.service.charges.charges,
            "payments": world.payments.rows,
            "deliveries": world.service.outbox.rows,
        }
        self._manifest = self._opened()
        # The files that the manifest has, with their rows and checksums.
        self._files: dict[str, dict[str, Any]] = dict(self._manifest.get("files") or self._of_former_files())
        with world.exclusive():
            world.removed.write_to(self._directory, self._manifest["removed"] - self._manifest["charges"])
        # What the portions have and the world still has, after an interrupt: rows are removed in several commits.
        self._unremoved: dict[str, dict[str, str]] = {}
        self._has_failed = False

    @property
    def kept(self) -> int:
        """The number of Charges in the world."""
        return len(self._tables["charges"])

    def write_ended(self, least: int = 1) -> int:
        """Write the Charges that have ended, with their payments and callbacks, and remove them from the world, if
        there are at least this many. Returns their number.

        A Charge has ended when its state is final, its invoice is settled or cancelled, every payment of it has ended
        and no callback about it is pending.
        """
        self._finish_removal()
        with self._world.exclusive():
            ended = self._ended()
            if len(ended["charges"]) < least:
                return 0
            number = self._manifest["parts"] + 1
            for name in PORTIONED:
                column, owner = _OWNERS[name]
                rows = [row for row in TABLES[name].rows(self._world) if row[column] in ended[owner]]
                self._write(name, part_name(number), rows)
            self._write_journal(part_name(number))
            self._forget_rest()
            # The portion counts once the manifest has it; only then are its rows removed.
            self._write_manifest(
                parts=number,
                charges=self._manifest["charges"] + len(ended["charges"]),
                removed=self._removed() + len(ended["charges"]),
                journal=len(self._world.journal),
                now="",
            )
            for name in (*PORTIONED, JOURNAL):
                (self._directory / name / REST).unlink(missing_ok=True)
            self._unremoved = ended
            self._world.journal.drop_readable()
        self._finish_removal()
        return len(ended["charges"])

    def close(self) -> None:
        """Write the rows that have not ended into separate files. They stay in the world. An interrupt waits.

        After a file that could not be written nothing more is.
        """
        if self._has_failed:
            return
        with interrupts.deferred():
            self._finish_removal()
            with self._world.exclusive():
                if self._forget_rest():
                    self._write_manifest(now="")  # a killed run has none, and not one of two moments
                for name in (*PORTIONED, *AT_THE_END):
                    self._write(name, REST, TABLES[name].rows(self._world))
                self._write_journal(REST)
                self._write_manifest(now=to_iso(self._world.clock.now()))

    # Inside

    def _opened(self) -> dict[str, Any]:
        path, config = self._directory / MANIFEST, self._world.config
        own = {"format": FORMAT, "seed": config.seed, "start": to_iso(config.start_ms), "world": self._world.label}
        states = {
            name: {column: states for column, kind in table.columns if (states := states_of(self._world, kind))}
            for name, table in TABLES.items()
        }
        new = {
            **own, "leyden": VERSION, "now": "", "parts": 0, "charges": 0, "removed": self._removed(), "journal": 0,
            "states": states,
        }  # fmt: skip
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # the rows hold secrets
        except (OSError, ValueError) as error:
            raise InputError(
                f"spill={quoted(str(self._directory), 60)} is no directory ({error}): give another"
            ) from None
        if not path.exists():
            if any(self._directory.iterdir()):
                raise InputError(f"{self._directory} has other files: give a new directory")
            return new
        found = read_manifest(self._directory)
        if self._world.removed.is_left(self._directory) and found["removed"] != self._removed():
            raise InputError(
                f"{self._directory} has a later part of this sandbox's run, which has returned to an earlier instant:"
                " give a new directory, or delete this one"
            )
        if any(found.get(name) != value for name, value in own.items()) or found["removed"] != self._removed():
            raise InputError(f"{self._directory} has the run of another sandbox: give a new directory")
        return found

    def _of_former_files(self) -> dict[str, dict[str, Any]]:
        """What the manifest of a former version does not say of its portions."""
        import pyarrow
        import pyarrow.parquet

        found = {}
        for name in portion_names(self._manifest["parts"]):
            path = self._directory / name
            try:
                rows = pyarrow.parquet.read_metadata(path).num_rows
                found[name] = {"rows": rows, "checksum": checksum_of(path)}
            except (OSError, ValueError, pyarrow.ArrowException) as error:
                raise InputError(f"{path} cannot be read ({error}): restore it, or give a new directory") from None
        return found

    def _removed(self) -> int:
        return self._world.removed.counts()["charges"]

    def _ended(self) -> dict[str, dict[str, str]]:
        """The ids of the rows to write next, by table, each with its payment hash or the id of its Charge."""
        # Each table is read once from its beginning: rows that were packed are unpacked once.
        paid = [(row["id"], row["payment_hash"], _has_ended(row)) for row in self._tables["payments"]]
        deliveries = [(row["id"], row["resource_id"], row["status"] != PENDING) for row in self._tables["deliveries"]]
        busy = {payment_hash for _, payment_hash, has_ended in paid if not has_ended}
        busy.update(row["payment_hash"] for row in self._world.node.invoices.rows if not _is_closed(row))
        unfinished = {charge_id for _, charge_id, has_ended in deliveries if not has_ended}
        charges = {
            row["id"]: row["payment_hash"]
            for row in self._tables["charges"]
            if row["status"] in self._final and row["payment_hash"] not in busy and row["id"] not in unfinished
        }
        hashes = set(charges.values())
        return {
            "charges": charges,
            "payments": {name: payment_hash for name, payment_hash, _ in paid if payment_hash in hashes},
            "deliveries": {name: charge_id for name, charge_id, _ in deliveries if charge_id in charges},
        }

    def _finish_removal(self) -> None:
        """Remove the written rows, some hundreds in a commit. The Charges are last, because the other rows refer to
        them. An interrupt may come after each commit; the next call continues."""
        ended = self._unremoved
        rows = [(name, key) for name in ("deliveries", "payments", "charges") for key in ended.get(name, ())]
        for start in range(0, len(rows), _REMOVED_PER_COMMIT):
            with self._world.exclusive():
                for name, key in rows[start : start + _REMOVED_PER_COMMIT]:
                    if self._tables[name].delete(key) and name == "charges":
                        self._world.node.invoices.forget(ended[name][key])
                self._world.removed.note()
        self._unremoved = {}

    def _forget_rest(self) -> bool:
        """The next manifest has none of the files that an earlier run left at its end, because they have rows of the
        next portion, too. Whether there were any."""
        rest = [name for name in self._files if name.endswith(f"/{REST}")]
        for name in rest:
            del self._files[name]
        return bool(rest)

    def _write_journal(self, file: str) -> None:
        after = self._manifest["journal"]
        self._write(JOURNAL, file, [row for row in TABLES[JOURNAL].rows(self._world) if row["sequence"] > after])

    def _write(self, name: str, file: str, rows: list[Row]) -> None:
        import pyarrow
        import pyarrow.parquet

        frame = frame_of(self._world, name, rows)
        frame.insert(0, ORDER, self._order(name, rows))
        path = self._directory / name / file
        with self._writing(path) as unfinished:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            create_private(unfinished)
            pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), unfinished)
            found = {"rows": len(rows), "checksum": checksum_of(unfinished)}
            unfinished.replace(path)
        self._files[f"{name}/{file}"] = found

    @contextmanager
    def _writing(self, path: Path) -> Iterator[Path]:
        """The unfinished file beside a path. When the disk refuses a file, `InputError` says what the directory has:
        the portions that count, and nothing else."""
        unfinished = path.with_suffix(".tmp")
        try:
            yield unfinished
        except OSError as error:
            self._has_failed = True
            self._remove_uncounted(unfinished)
            why = printable((error.strerror or str(error)).splitlines()[0])
            parts, charges = self._manifest["parts"], self._manifest["charges"]
            portions = f"{parts} portion{'' if parts == 1 else 's'}"
            left = f"has {portions} with {charges} Charges, and the sandbox has the others"
            raise InputError(
                f"{shown(path)} cannot be written: {why}; {shown(self._directory)}"
                f" {left if parts else 'has no portion, and the sandbox has all Charges'}: make room, and run again"
                " with the same spill="
            ) from None

    def _remove_uncounted(self, unfinished: Path) -> None:
        counted = {*portion_names(self._manifest["parts"]), *self._manifest.get("files", ())}
        for path in (unfinished, *(self._directory / name for name in self._files.keys() - counted)):
            with suppress(OSError):
                path.unlink()
        if not (self._directory / MANIFEST).exists():  # else the next run could not tell it from another directory
            for name in (*PORTIONED, *AT_THE_END, JOURNAL):
                with suppress(OSError):
                    (self._directory / name).rmdir()

    def _order(self, name: str, rows: list[Row]) -> list[int]:
        if name not in _OWNERS:
            return list(range(1, len(rows) + 1)) if name != JOURNAL else [row["sequence"] for row in rows]
        column, owner = _OWNERS[name]
        numbers = dict(self._tables[owner].ids_by_value("id"))
        return [numbers[row[column]] for row in rows]

    def _write_manifest(self, **changes: Any) -> None:
        found = {**self._manifest, **changes}
        portions = {*portion_names(found["parts"])}  # an interrupt may have left one that does not count
        files = {name: one for name, one in self._files.items() if name in portions or name.endswith(f"/{REST}")}
        with self._writing(self._directory / MANIFEST):
            self._manifest = write_manifest(self._directory, {**found, "files": files})


def _is_closed(row: InvoiceRow) -> bool:
    held = any(part["state"] == "held" for part in row.get("parts", ()))
    return row["state"] in ("SETTLED", "CANCELED") and not held


def _has_ended(row: PaymentRow) -> bool:
    return row["resolved_at"] is not None and all(attempt["resolved_at"] is not None for attempt in row["attempts"])
