"""The number of rows that a sandbox with a bound has removed since its directory was created."""

from __future__ import annotations

from typing import TypedDict, cast

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """

    def __init__(self, store: Store, journal: HashedEventJournal) -> None:
        self._store = store
        self._journal = journal
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

    def nothing(self, name: str, text: str) -> str:
        """`text`, which says that there is nothing of this kind (a name of `counts`), and of what was removed."""
        count = self.counts()[name]
        return f"{text} is kept: {count} removed" if count else text

    def without(self, name: str) -> str:
        """That rows of this kind (a name of `counts`) are missing because they were removed; empty if none is."""
        count = self.counts()[name]
        return f"without {count} that were removed from the sandbox" if count else ""

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
