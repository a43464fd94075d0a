"""The number of rows that a sandbox with a bound has removed since its directory was created."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, cast

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.server.printable import quoted
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.world.event_journal import HashedEventJournal

TABLE = "last_ids"
HEADER = "Leyden-Removed"
# What the responses count, by table. Responses for idempotency keys are deleted after 24 hours in any case.
_SHOWN = {
    "charges": "charges",
    "static_charges": "staticCharges",
    "payments": "payments",
    "deliveries": "deliveries",
}


class LastIdRow(TypedDict):
    """Table `last_ids`: the highest document id that the table `id` ever had, when the row with it was removed."""

    id: str
    last_id: int


class RemovedRows:
    """Counts what is missing below the highest document id of a table.

    A journal file has no such id apart from the rows. So the row with the highest one leaves it behind when it is
    removed, and a store that is opened again continues from it, with or without a bound.

    `is_bounded`: a bound removes rows. The directories of `run(spill=)` are known to the process that wrote them.
    """

    def __init__(self, store: Store, journal: HashedEventJournal, *, is_bounded: bool = False) -> None:
        self._store = store
        self._journal = journal
        self._is_bounded = is_bounded
        self._directories: dict[Path, int] = {}  # each with the number of Charges that had been removed before
        self._left: set[Path] = set()  # those with rows of a later instant, before a return to an earlier one
        if TABLE in store.tables:
            for row in self._last_ids():
                data = store.table_data(row["id"])
                data.max_id = max(data.max_id, row["last_id"])
                data.next_id = data.max_id + 1

    def note(self) -> None:
        """At the end of a commit that may have removed rows, inside of it: note the highest ids that no row has."""
        for name in _SHOWN:
            data = self._store.table_data(name)
            if data.max_id and data.max_id not in data.rows:
                data.next_id = data.max_id + 1  # a table that was opened has none until a row is put
                rows = self._last_ids()
                last = rows.row(name)
                if last is None or last["last_id"] != data.max_id:
                    rows.put({"id": name, "last_id": data.max_id})

    def counts(self) -> dict[str, int]:
        """The number of removed rows of each kind; for journal entries, the number of those of this process that can no
        longer be read."""
        return {**self._of_tables(), "journalEntries": self._journal.dropped}

    def nothing(self, name: str, text: str, of: str = "") -> str:
        """`text`, which says that there is nothing of this kind (a name of `counts`), and of what was removed."""
        count = self.counts()[name]
        return f"{text} is kept: {count}{of} removed{self._where()}" if count else text

    def without(self, name: str, of: str = "") -> str:
        """That rows of this kind (a name of `counts`) are missing because they were removed, and where they are; empty
        if none is. Whatever counts, draws or lists rows says it. `of` says of what the number is."""
        count = self.counts()[name]
        return f"without {count}{of} that were removed from the sandbox{self._where()}" if count else ""

    def unknown(self, *names: str) -> str:
        """What an error about an id that no row of these kinds has adds: that it may be one of those that were removed;
        empty if none was."""
        counts = self.counts()
        count = sum(counts[name] for name in names)
        return f"; {count} that ended were removed from the sandbox{self._where()}" if count else ""

    def write_to(self, directory: Path) -> None:
        """From now on rows that are removed are in this directory, until another is given."""
        self._directories.setdefault(directory, self._of_tables()["charges"])

    def is_left(self, directory: Path) -> bool:
        """Whether the sandbox wrote this directory before it returned to an earlier instant."""
        return directory.resolve() in self._left

    def continue_from(self, former: RemovedRows, *, is_return: bool = False) -> None:
        """The directories of the world whose rows these are, too; with `is_return` that world was at a later
        instant."""
        count = self._of_tables()["charges"]
        self._directories = {path: before for path, before in former._directories.items() if before < count}
        if is_return:
            self._left = former._left | {path.resolve() for path in former._directories}

    def _where(self) -> str:
        """Where the removed rows are, or what removed them."""
        if self._directories:
            calls = [f"leyden.read({quoted(str(path), 120)})" for path in self._directories]
            return f" ({' and '.join(calls)} {'has' if len(calls) == 1 else 'have'} them)"
        return " by --keep" if self._is_bounded else " by run(spill=) or --keep, before it was opened"

    def any_row(self) -> bool:
        """Whether a row was ever removed."""
        return any(self._of_tables().values())

    def _of_tables(self) -> dict[str, int]:
        tables = {shown: self._store.table_data(name) for name, shown in _SHOWN.items()}
        return {shown: max(data.max_id, (data.next_id or 1) - 1) - len(data.rows) for shown, data in tables.items()}

    def _last_ids(self) -> TypedTable[LastIdRow]:
        return cast(TypedTable[LastIdRow], self._store.table(TABLE))


class RemovedHeader:
    """Says in the header `Leyden-Removed` of every response how many of each kind were removed, once some were."""

    def __init__(self, app: ASGIApp, removed: RemovedRows) -> None:
        self._app = app
        self._removed = removed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""

        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                counts = [f"{name}={count}" for name, count in self._removed.counts().items() if count]
                if counts:
                    MutableHeaders(scope=message)[HEADER] = ", ".join(counts)
            await send(message)

        await self._app(scope, receive, with_header)
