"""Fills a table with the content of a snapshot or of another table at once, instead of row by row."""

from __future__ import annotations

from leyden.server.store.tables.table_data import TableData
from leyden.server.store.tables.table_snapshot import TableSnapshot


def fill(table: TableData, state: TableSnapshot | TableData) -> bool:
    """Replace the content of the table by a copy of a snapshot's content, or by the content of another table, which
    must not be used afterwards. Returns False and changes nothing if the other content does not have the key, the
    indexes and the tallies of the table. Call it inside a commit."""
    if state.key != table.key or set(state.indexes) != set(table.indexes) or set(state.tallies) != set(table.tallies):
        return False
    table.clear()
    content = state if isinstance(state, TableData) else TableData(table._commit_state, table.name, state)
    table.rows, table.keys = content.rows, content.keys
    table.indexes, table.tallies = content.indexes, content.tallies
    table.max_id, table.ascending, table.order = content.max_id, content.ascending, content.order
    table.exists, table.next_id = state.exists, state.next_id
    return True
