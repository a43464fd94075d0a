"""Packed rows are read as they were written: same values, same types, same order, through commits and rollbacks."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.store.store import Store
from leyden.server.store.tables import row_map, table_data
from leyden.server.store.tables.packed import unpack_after_summary
from leyden.server.store.tables.row_map import RowMap

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
STEP = st.tuples(st.sampled_from(["put", "put", "put", "delete", "fail", "clear"]), st.integers(0, 9), VALUE)


class Thrown(Exception):
    pass


@pytest.fixture(autouse=True)
def _small_window() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_map, "UNPACKED_ROWS", 2)
        patched.setattr(row_map, "BLOCK_ROWS", 2)
        patched.setattr(table_data, "REPLACED_TOGETHER", 1)
        yield


def packed(rows: RowMap) -> int:
    """How many rows are in blocks."""
    return sum(isinstance(cell, bytes) for cell in rows._cells.values())


def drop_and_fail(store: Store) -> None:
    with store.commit():
        store.drop_tables()
        raise Thrown


def put_delete_and_fail(store: Store, row: dict[str, Any]) -> None:
    with store.commit():
        store.table("rows").put(row)
        store.table("rows").delete((row["id"] + 1) % 10)
        raise Thrown


@given(st.lists(STEP, max_size=40), st.booleans())
def test_a_table_with_packed_rows_equals_a_dict(steps: list[tuple[str, int, Any]], is_final: bool) -> None:
    store, model = Store.memory(), dict[int, dict[str, Any]]()
    table = store.table("rows", key="id", indexes=["value"])
    if is_final:
        table.declare_final()
    for action, number, value in steps:
        row = {"id": number, "value": value}
        if action == "put":
            model[number] = row
            table.put(row)
        elif action == "delete":
            assert table.delete(number) == (model.pop(number, None) is not None)
        elif action == "fail":
            with pytest.raises(Thrown):
                put_delete_and_fail(store, row)
        else:
            model.clear()
            store.table_data("rows").clear()
    rows = store.table_data("rows").rows
    found = [rows[doc_id] for doc_id in rows]
    assert found == list(model.values())
    assert repr(found) == repr(list(model.values()))  # types too: 1, 1.0 and True are equal
    assert [row for _, row in rows.items()] == found == [rows.get(doc_id) for doc_id in rows]
    for number, row in model.items():
        assert table.row(number) == row
        assert row in table.find("value", row["value"])


def test_the_rows_replaced_longest_ago_are_packed_and_a_change_unpacks_its_row_only() -> None:
    store = Store.memory()
    table = store.table("rows", key="id")
    for number in range(10):
        table.put({"id": number, "state": "new"})
    rows = store.table_data("rows").rows
    assert packed(rows) == 0  # what was never replaced is pending, and will be changed
    for number in range(10):
        table.put({"id": number, "state": "new"})
    assert packed(rows) == 8
    table.put({"id": 0, "state": "changed"})
    assert [row["state"] for row in table] == ["changed", *["new"] * 9]
    assert packed(rows) == 7
    assert list(rows) == list(range(1, 11))


def test_the_rows_of_a_final_table_are_packed_without_being_replaced() -> None:
    store = Store.memory()
    table = store.table("rows", key="id")
    table.declare_final()
    for number in range(10):
        table.put({"id": number, "state": "final"})
    assert packed(store.table_data("rows").rows) == 8
    table.delete(0)
    table.put({"id": 1, "state": "changed"})
    assert [row["state"] for row in table] == ["changed", *["final"] * 8]


def test_a_row_that_one_commit_inserts_and_replaces_is_packed() -> None:
    store = Store.memory()
    table = store.table("rows", key="id")
    for number in range(10):
        with store.commit():
            table.put({"id": number, "state": "new"})
            table.put({"id": number, "state": "final"})
    assert packed(store.table_data("rows").rows) == 8
    assert [row["state"] for row in table] == ["final"] * 10


def test_the_rows_of_many_commits_are_packed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_data, "REPLACED_TOGETHER", 8)
    store = Store.memory()
    table = store.table("rows", key="id")
    for number in [*range(7), *range(7)]:
        table.put({"id": number})
    assert packed(store.table_data("rows").rows) == 0
    table.put({"id": 0, "changed": True})
    assert packed(store.table_data("rows").rows) == 4  # of 7, the last two stay dicts, and a block has two
    assert [row["id"] for row in table] == list(range(7))
    assert table.row(0) == {"id": 0, "changed": True}


def test_a_copy_shares_the_blocks_and_changes_alone() -> None:
    store = Store.memory()
    table = store.table("rows", key="id")
    for number in [*range(10), *range(10)]:
        table.put({"id": number})
    state = store.snapshot()
    other = Store.from_snapshot(state)
    other.table("rows", key="id").put({"id": 1, "changed": True})
    assert table.row(1) == {"id": 1}
    assert other.table("rows", key="id").row(1) == {"id": 1, "changed": True}
    assert packed(other.table_data("rows").rows) == 7


@pytest.mark.parametrize(
    "filters", [{}, {"state": "new"}, {"state": "new", "odd": None}, {"since_ms": 3}, {"until_ms": 95, "state": "new"}]
)
@pytest.mark.parametrize("oldest_first", [False, True])
def test_a_page_unpacks_each_block_once(
    monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any], oldest_first: bool
) -> None:
    monkeypatch.setattr(row_map, "_CACHED_BLOCKS", 1)
    store = Store.memory()
    table = store.table("rows", key="id", indexes=["state"])
    for number in [*range(100), *range(100)]:
        table.put({"id": number, "state": "new", "created_at": number})
    blocks = {*filter(None, store.table_data("rows").rows.contents[0].values())}
    unpacked: list[bytes] = []

    def counted(block: bytes) -> Any:
        unpacked.append(block)
        return unpack_after_summary(block)

    monkeypatch.setattr(row_map, "unpack_after_summary", counted)
    bounds = {name: filters[name] for name in filters.keys() & {"since_ms", "until_ms"}}
    wanted = {name: value for name, value in filters.items() if name not in bounds}
    found = (table.page_up if oldest_first else table.page)(wanted, limit=200, **bounds)
    expected = [n for n in range(100) if bounds.get("since_ms", 0) <= n < bounds.get("until_ms", 100)]
    assert [row["id"] for row in found] == (expected if oldest_first else expected[::-1])
    assert len(unpacked) <= len(blocks)


def test_a_value_that_only_memory_can_hold_is_not_packed() -> None:
    class Color(IntEnum):
        RED = 1

    store = Store.memory()
    table = store.table("rows", key="id")
    for number in [*range(10), *range(10)]:
        table.put({"id": number, "color": Color.RED})
    assert packed(store.table_data("rows").rows) == 0
    assert all(row["color"] is Color.RED for row in table)


def test_a_table_is_cleared_and_restored_without_reading_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.memory()
    table = store.table("rows", key="id", indexes=["state"])
    for number in [*range(10), *range(10)]:
        table.put({"id": number, "state": "new"})

    def clear_and_fail() -> None:
        with store.commit():
            table.put({"id": 3, "state": "changed"})
            store.drop_tables()
            table.put({"id": 3, "state": "again"})
            store.drop_tables()
            table.put({"id": 77, "state": "other"})
            table.delete(77)
            raise Thrown

    def unpack(block: bytes) -> object:
        raise AssertionError("a packed row was read")

    with monkeypatch.context() as patched:
        patched.setattr(row_map, "unpack_after_summary", unpack)
        with pytest.raises(Thrown):
            drop_and_fail(store)
    assert [row["id"] for row in table] == list(range(10))
    with pytest.raises(Thrown):
        clear_and_fail()
    assert [(row["id"], row["state"]) for row in table] == [(number, "new") for number in range(10)]
    assert len(table.find("state", "new")) == 10
    assert table.find("state", "again") == table.find("state", "other") == []
    assert table.put({"id": 10, "state": "new"}) == 11
