"""Tables that are filled from a snapshot at once."""

from __future__ import annotations

import pytest

from leyden.server.store.store import Store


def rows_by_colour(store: Store, colour: str) -> list[str]:
    return sorted(row["id"] for row in store.table("cups", indexes=("colour",)).find("colour", colour))


def filled() -> Store:
    store = Store.memory()
    cups = store.table("cups", indexes=("colour",), tallies=(("colour",),))
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        cups.put({"id": name, "colour": colour})
    return store


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_loaded_table_has_the_rows_the_indexes_and_the_next_id_of_the_snapshot(is_indexed: bool) -> None:
    store = filled()
    snapshot = store.snapshot(indexes=is_indexed)
    store.table("cups").put({"id": "d", "colour": "red"})
    with store.commit():
        store.drop_tables()
        store.load(snapshot)
    assert rows_by_colour(store, "red") == ["a", "c"]
    assert store.table("cups").row("d") is None
    store.table("cups").put({"id": "e", "colour": "red"})
    assert list(store.table_data("cups").rows) == [1, 2, 3, 4]
    assert rows_by_colour(store, "red") == ["a", "c", "e"]
    assert len(snapshot["cups"].rows) == 3, "the snapshot shares no container with the table"


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_load_is_rolled_back_with_its_commit(is_indexed: bool) -> None:
    store = filled()
    snapshot = store.snapshot(indexes=is_indexed)
    store.table("cups").put({"id": "d", "colour": "red"})

    def refused() -> None:
        with store.commit():
            store.drop_tables()
            store.load(snapshot)
            raise OSError

    with pytest.raises(OSError):
        refused()
    assert rows_by_colour(store, "red") == ["a", "c", "d"]
    store.table("cups").put({"id": "e", "colour": "blue"})
    assert list(store.table_data("cups").rows) == [1, 2, 3, 4, 5]
    assert rows_by_colour(store, "blue") == ["b", "e"]
