"""The table answers as TinyDB does: every operation, every id, every error; and finds rows as a full search would."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tinydb import TinyDB, where
from tinydb.operations import add, delete, increment
from tinydb.queries import QueryInstance
from tinydb.storages import MemoryStorage, Storage
from tinydb.table import Document, Table

from server.store.rows import RowStorage
from server.store.shelf import Shelf
from server.store.storage import JournalStorage
from server.store.store import Database, Store
from server.store.table import IndexedTable


class TextStorage(Storage):
    """TinyDB's own JSON file storage without the file: what it writes is all it remembers."""

    def __init__(self) -> None:
        self.text = ""

    def read(self) -> dict[str, dict[str, Any]] | None:
        return json.loads(self.text) if self.text else None

    def write(self, data: dict[str, dict[str, Any]]) -> None:
        self.text = json.dumps(data)


# Operations. Each is a name (for the failure's story) and what to do with a database.

Deed = tuple[str, Callable[[TinyDB], Any]]
TABLES = st.sampled_from(["charges", "deliveries", "_default"])
FIELDS = st.sampled_from(["status", "project", "n"])
VALUES = st.one_of(
    st.sampled_from(["pending", "completed", "", "\u00e9", "\ud800", None, True, False, 0, 1, -1, 2**70]),
    st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2),
)
ROWS = st.dictionaries(FIELDS, VALUES, max_size=3)
IDS = st.integers(1, 8)
DOCUMENTS = st.builds(Document, ROWS, IDS)
CONDITIONS: st.SearchStrategy[QueryInstance] = st.one_of(
    st.builds(lambda field, value: where(field) == value, FIELDS, VALUES),
    st.builds(lambda field, value: ~(where(field) == value), FIELDS, VALUES),
    st.builds(lambda field: where(field).exists(), FIELDS),
    st.builds(lambda value: where("n").test(lambda found: found == value), VALUES),
    st.just(where("n") > 0),
)


def append(row: dict[str, Any]) -> None:
    """A change deep inside a row, which must not reach what the row was before."""
    row.setdefault("status", []).append(1)


SHALLOW_CHANGES = st.one_of(ROWS, st.sampled_from([delete("status"), increment("n"), add("n", 2), dict.clear]))
CHANGES = st.one_of(SHALLOW_CHANGES, st.just(append))


def deed(name: str, run: Callable[..., Any], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Deed]:
    return st.builds(
        lambda table, **given: (f"{table}.{name}({given})", lambda db: run(db.table(table), **deepcopy(given))),
        TABLES,
        **arguments,
    )


def documents(found: Any) -> Any:
    """An answer as text with its ids: 1, 1.0 and True are equal, and their confusion must be seen."""
    if isinstance(found, Document):
        return (type(found), repr(found.doc_id), repr(dict(found)))
    if isinstance(found, list):
        return [documents(each) for each in found]
    return repr(found)


def spoilt(table: Table, cond: QueryInstance) -> Any:
    """Ask, deface the answer, and ask for the rows: they must be unharmed."""
    for row in table.search(cond):
        row["status"] = "defaced"
    table.clear_cache()
    return table.all()


MIXED = st.lists(st.one_of(ROWS, DOCUMENTS), max_size=4)
DEEDS = st.one_of(
    deed("insert", lambda table, row: table.insert(row), row=st.one_of(ROWS, DOCUMENTS, st.just(5))),
    deed("insert", lambda table, row: table.insert(row), row=ROWS),
    deed("insert_multiple", lambda table, rows: table.insert_multiple(rows), rows=MIXED),
    deed("insert_multiple", lambda table, rows: table.insert_multiple([*rows, "no row"]), rows=MIXED),
    deed("update", lambda table, to, cond: table.update(to, cond), to=CHANGES, cond=st.one_of(st.none(), CONDITIONS)),
    deed("update", lambda table, to, ids: table.update(to, doc_ids=ids), to=CHANGES, ids=st.lists(IDS, max_size=3)),
    deed(
        "update_multiple",
        lambda table, updates: table.update_multiple(updates),
        # Shallow ones: TinyDB would let `append` change the list in another update's fields, for all rows after it.
        updates=st.lists(st.tuples(SHALLOW_CHANGES, CONDITIONS), max_size=2),
    ),
    deed("upsert", lambda table, row, cond: table.upsert(row, cond), row=ROWS, cond=st.one_of(st.none(), CONDITIONS)),
    deed("upsert", lambda table, row: table.upsert(row), row=DOCUMENTS),
    deed("remove", lambda table, cond: table.remove(cond), cond=st.one_of(st.none(), CONDITIONS)),
    deed("remove", lambda table, ids: table.remove(doc_ids=ids), ids=st.lists(IDS, max_size=3)),
    deed("truncate", lambda table: table.truncate()),
    deed("search", lambda table, cond: table.search(cond), cond=CONDITIONS),
    deed("search", spoilt, cond=CONDITIONS),
    deed("count", lambda table, cond: table.count(cond), cond=CONDITIONS),
    deed("contains", lambda table, cond: table.contains(cond), cond=st.one_of(st.none(), CONDITIONS)),
    deed("get", lambda table, cond: table.get(cond), cond=st.one_of(st.none(), CONDITIONS)),
    deed("get", lambda table, known: table.get(doc_id=known), known=st.one_of(IDS, st.sampled_from(["2", "02", True]))),
    deed("get", lambda table, ids: table.get(doc_ids=ids), ids=st.lists(st.one_of(IDS, st.just("3")), max_size=4)),
    deed("all", lambda table: table.all()),
    deed("len", len),
    deed("next(iter)", lambda table: next(iter(table), None)),
    deed("remove while walking", lambda table: [table.remove(doc_ids=[row.doc_id]) for row in table]),
    st.just(("drop_table", lambda db: db.drop_table("deliveries"))),
    st.just(("drop_tables", lambda db: db.drop_tables())),
    st.just(("tables", lambda db: sorted(db.tables()))),
)


def answer(act: Callable[[TinyDB], Any], db: TinyDB) -> Any:
    try:
        return documents(act(db))
    except (ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
        return (type(error), str(error))


def contents(db: TinyDB) -> Any:
    return {name: documents(db.table(name).all()) for name in sorted(db.tables())}


@settings(max_examples=80)
@given(deeds=st.one_of(st.lists(DEEDS, max_size=20), st.lists(DEEDS, min_size=60, max_size=200)))
def test_every_operation_answers_as_stock_tinydb_does(deeds: list[Deed]) -> None:
    stock = TinyDB(storage=TextStorage)
    with tempfile.TemporaryDirectory() as place:
        ours = [Database(storage=RowStorage), Database(place, storage=JournalStorage)]
        for db in ours:
            db.table("charges", indexes=["status", "project"])
        for story, act in deeds:
            expected = answer(act, stock)
            for db in ours:
                assert answer(act, db) == expected, story
        expected = contents(stock)
        for db in ours:
            assert contents(db) == expected
            db.close()
        # And the file holds it all, in the same sequence, whoever opens it.
        with Database(place, storage=JournalStorage) as again:
            assert contents(again) == expected
        with TinyDB(place, storage=JournalStorage) as stock_table_on_our_storage:
            assert contents(stock_table_on_our_storage) == expected


@settings(max_examples=60)
@given(deeds=st.lists(DEEDS, max_size=20))
def test_the_stock_table_works_on_our_storages_too(deeds: list[Deed]) -> None:
    stock = TinyDB(storage=TextStorage)
    with tempfile.TemporaryDirectory() as place:
        ours = [TinyDB(storage=RowStorage), TinyDB(place, storage=JournalStorage)]
        for story, act in deeds:
            expected = answer(act, stock)
            for db in ours:
                assert answer(act, db) == expected, story
        for db in ours:
            db.close()
        with Database(place, storage=JournalStorage) as again:
            assert contents(again) == contents(stock)


class Thrown(Exception):
    """What ends a commit that is to fail."""


def do_and_fail(store: Store, *deeds: Callable[[TinyDB], Any]) -> None:
    with store.commit():
        for act in deeds:
            answer(act, store.db)
        raise Thrown


@settings(max_examples=80)
@given(batches=st.lists(st.tuples(st.lists(DEEDS, max_size=6), st.booleans()), max_size=8))
def test_a_commit_changes_no_answer_and_a_failed_one_leaves_no_trace(batches: list[tuple[list[Deed], bool]]) -> None:
    stock = TinyDB(storage=TextStorage)
    with tempfile.TemporaryDirectory() as place:
        stores = [Store.memory(), Store.open(place)]
        for store in stores:
            for name in ("charges", "deliveries", "_default"):
                store.table(name, key=None, indexes=["status", "n"])
        for deeds, kept in batches:
            for store in stores:
                before, sequence = store.snapshot(), sequences(store)
                with pytest.raises(Thrown):
                    do_and_fail(store, *(act for _, act in deeds))
                assert as_data(store) == as_data(Store.from_snapshot(before))
                assert sequences(store) == sequence
            if kept:
                expected = [answer(act, stock) for _, act in deeds]
                for store in stores:
                    with store.commit():
                        assert [answer(act, store.db) for _, act in deeds] == expected
        for store in stores:
            assert contents(store.db) == contents(stock)
            assert_indexes_tell_the_truth(store)
            store.close()
        with Store.open(place) as again:
            assert contents(again.db) == contents(stock)


def as_data(store: Store) -> Any:
    return {
        name: state._replace(indexes={field: as_sets(groups) for field, groups in state.indexes.items()})
        for name, state in store.snapshot().items()
    }


def sequences(store: Store) -> Mapping[str, list[int]]:
    return {name: list(shelf.rows) for name, shelf in store.storage.shelves.items()}


def assert_indexes_tell_the_truth(store: Store) -> None:
    for name, shelf in store.storage.shelves.items():
        fresh = Shelf(RowStorage(), name)
        for doc_id, row in shelf.rows.items():
            fresh.set(doc_id, row)
        fresh.declare(shelf.key, shelf.indexes)
        for field, index in shelf.indexes.items():
            assert as_sets(index.groups) == as_sets(fresh.indexes[field].groups), (name, field)
        assert shelf.keys == fresh.keys


def as_sets(groups: Mapping[Any, Any]) -> dict[Any, set[int]]:
    return {value: held if isinstance(held, set) else {held} for value, held in groups.items()}


def test_the_query_cache_forgets_what_has_changed() -> None:
    store = Store.memory()
    charges = store.table("charges")
    pending = where("status") == "pending"
    charges.put({"id": "a", "status": "pending"})
    assert len(charges.search(pending)) == 1
    put = {"id": "b", "status": "pending"}
    with pytest.raises(Thrown):
        do_and_fail(store, lambda db: charges.put(put), lambda db: charges.search(pending))
    assert len(charges.search(pending)) == 1
    charges.put({"id": "a", "status": "completed"})
    assert charges.search(pending) == []


def test_a_storage_that_keeps_whole_tables_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"IndexedTable needs a storage that keeps rows.*MemoryStorage"):
        IndexedTable(MemoryStorage(), "charges")


# The service's look-ups

COUNT = 60
LISTED = st.fixed_dictionaries(
    {
        "id": st.integers(0, 40).map("c{}".format),
        "status": st.sampled_from(["pending", "completed", "expired"]),
        "project": st.sampled_from(["shop", "bank", None]),
        "internal_id": st.one_of(st.none(), st.integers(0, 3)),
        "created_at": st.integers(0, 9),
    }
)
STEPS = st.lists(st.one_of(LISTED, st.integers(0, 40).map("c{}".format)), max_size=COUNT)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["pending", "completed", "none"]),
        "project": st.sampled_from(["shop", "bank", None]),
        "internal_id": st.sampled_from([None, 1, 2]),
        "created_at": st.integers(0, 9),
    },
)
BOUND = st.one_of(st.none(), st.integers(0, 9))


@settings(max_examples=200)
@given(STEPS, FILTERS, st.one_of(st.none(), st.integers(0, COUNT)), st.integers(0, 5), BOUND, BOUND, st.booleans())
def test_a_page_is_what_a_full_search_would_give(
    steps: list[Any],
    filters: dict[str, Any],
    after: int | None,
    limit: int,
    since_ms: int | None,
    until_ms: int | None,
    looked_before: bool,
) -> None:
    charges = Store.memory().table("charges", indexes=["status", "project", "internal_id"])
    model: dict[str, dict[str, Any]] = {}
    ids: dict[str, int] = {}
    for step in steps:
        if looked_before:
            charges.page()  # from now on the sequence of ids is kept
        if isinstance(step, str):
            assert charges.delete(step) == (step in model)
            model.pop(step, None)
            ids.pop(step, None)
        else:
            row = charges.put(step)
            assert ids.setdefault(step["id"], row.doc_id) == row.doc_id
            model[step["id"]] = step
    newest_first = sorted(model.values(), key=lambda row: -ids[row["id"]])
    expected = [
        row
        for row in newest_first
        if (after is None or ids[row["id"]] < after)
        and all(row[field] == value for field, value in filters.items())
        and (since_ms is None or row["created_at"] >= since_ms)
        and (until_ms is None or row["created_at"] < until_ms)
    ]
    assert charges.page(filters, after, limit, since_ms, until_ms) == expected[:limit]
    for field, value in filters.items():
        assert charges.find(field, value) == [row for row in newest_first[::-1] if row[field] == value]
        assert charges.first(field, value) == next(iter(charges.find(field, value)), None)
    for key, row in model.items():
        found = charges.row(key)
        assert found == row
        assert found is not None
        assert found.doc_id == ids[key]
    assert charges.row("c99") is None


def test_pages_follow_one_another_without_gap_or_repeat() -> None:
    charges = Store.memory().table("charges", indexes=["project"])
    for number in range(1_000):
        charges.put({"id": number, "project": "rare" if number % 10 == 0 else "usual"})
    for filters, total in (({}, 1_000), ({"project": "rare"}, 100), ({"project": "usual"}, 900)):
        seen: list[int] = []
        after = None
        while page := charges.page(filters, after, 7):
            seen += [row["id"] for row in page]
            after = page[-1].doc_id
        assert seen == sorted(set(seen), reverse=True)
        assert len(seen) == total


def test_a_row_handed_out_or_in_is_nobody_elses() -> None:
    charges = Store.memory().table("charges")
    mine = {"id": "a", "status": "pending"}
    handed_out = charges.put(mine)
    mine["status"] = handed_out["status"] = "defaced"
    found = charges.row("a")
    assert found == {"id": "a", "status": "pending"}
    found["status"] = "defaced"
    assert charges.row("a") == {"id": "a", "status": "pending"}


def test_a_key_is_held_by_one_row() -> None:
    store = Store.memory()
    charges = store.table("charges")
    first = charges.put({"id": "a"})
    charges.put({"id": "b"})
    with pytest.raises(ValueError, match=r"table 'charges': a row with id 'a' already exists \(document 1\)"):
        charges.insert({"id": "a"})
    with pytest.raises(ValueError, match="a row with id 'a'"):
        charges.update({"id": "a"}, doc_ids=[2])
    with pytest.raises(ValueError, match="a row with id 'z'"):
        charges.update({"id": "z"})  # the first may have it, the second not: so neither
    assert [row["id"] for row in charges] == ["a", "b"]
    charges.update({"id": "c"}, doc_ids=[first.doc_id])
    assert charges.row("a") is None
    assert charges.row("c") == {"id": "c"}
    assert charges.put({"id": "a"}).doc_id == 4  # 3 went to the refused insert, as it would in TinyDB


def test_rows_without_a_key_can_be_inserted_but_not_put() -> None:
    store = Store.memory()
    charges = store.table("charges")
    charges.insert({"note": "no id"})
    with pytest.raises(ValueError, match="table 'charges': a row needs 'id' to be put"):
        charges.put({"note": "no id"})
    with pytest.raises(ValueError, match="table 'notes' has no unique key"):
        store.table("notes", key=None).put({"id": "a"})
    with pytest.raises(TypeError, match="unhashable"):
        charges.put({"id": ["a"]})
    assert len(charges) == 1


def test_a_put_steps_over_ids_given_by_hand() -> None:
    charges = Store.memory().table("charges")
    charges.put({"id": "a"})
    charges.insert_multiple([Document({"id": "b"}, 2), Document({"id": "c"}, 3)])
    assert charges.put({"id": "d"}).doc_id == 4
    assert [row["id"] for row in charges.page()] == ["d", "c", "b", "a"]


def test_a_key_or_an_index_may_come_after_the_rows() -> None:
    store = Store.memory()
    plain = store.db.table("charges")
    plain.insert_multiple([{"id": "a", "status": "pending"}, {"id": "b", "status": ["odd"]}, {}])
    charges = store.table("charges", indexes=["status"])
    assert charges is plain
    assert charges.row("b") == {"id": "b", "status": ["odd"]}
    assert charges.find("status", "pending") == [{"id": "a", "status": "pending"}]
    assert charges.find("status", ["odd"]) == [{"id": "b", "status": ["odd"]}]
    assert charges.find("status", None) == [{}]
    with pytest.raises(ValueError, match="table 'charges' has the key 'id'; it cannot also have the key 'status'"):
        store.table("charges", key="status")
    store.db.table("twins").insert_multiple([{"id": "a"}, {"id": "a"}])
    with pytest.raises(ValueError, match="table 'twins': documents 1 and 2 both have id 'a'"):
        store.table("twins")


def test_single_row_operations_never_walk_the_table() -> None:
    class Unwalkable(dict[int, dict[str, Any]]):
        def __iter__(self) -> Any:
            raise AssertionError("the whole table was walked")

        keys = values = items = copy = __reversed__ = __iter__  # type: ignore[assignment]

    store = Store.memory()
    charges = store.table("charges", indexes=["status"])
    for number in range(50):
        charges.put({"id": number, "status": "pending" if number % 10 == 0 else "completed"})
    charges.page()
    shelf = store.storage.shelves["charges"]
    shelf.rows = Unwalkable(shelf.rows)
    assert charges.insert({"id": "x"}) == 51
    assert charges.put({"id": "y"}).doc_id == 52
    assert charges.upsert(Document({"id": "z"}, 60)) == [60]
    assert charges.upsert(Document({"status": "new"}, 60)) == [60]
    assert charges.insert({"id": "after"}) == 61
    assert charges.update({"status": "expired"}, doc_ids=[1, 2]) == [1, 2]
    assert charges.remove(doc_ids=[3]) == [3]
    assert charges.get(doc_id=60) == {"id": "z", "status": "new"}
    assert charges.row("y") == {"id": "y"}
    assert len(charges.find("status", "pending")) == 4
    assert len(charges.page({"status": "pending"}, limit=2)) == 2
    assert len(charges.page(limit=3)) == 3
    with pytest.raises(Thrown):
        do_and_fail(store, lambda db: charges.put({"id": "w"}), lambda db: charges.put({"id": "y", "status": "new"}))
    assert charges.row("y") == {"id": "y"}
