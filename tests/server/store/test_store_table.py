"""The table behaves as TinyDB does in every operation, id and error, and finds the rows of a full search."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinydb import TinyDB, where
from tinydb.operations import add, delete, increment
from tinydb.queries import QueryInstance
from tinydb.storages import MemoryStorage, Storage
from tinydb.table import Document, Table

from leyden.server.store.rows import RowStorage
from leyden.server.store.storage import JournalStorage
from leyden.server.store.store import Database, Store
from leyden.server.store.tables.former_content import ITEMS_PER_STEP, FormerContent
from leyden.server.store.tables.table_data import TableData
from leyden.server.store.tinydb.table import IndexedTable
from tests.support.examples import examples


class TextStorage(Storage):
    """TinyDB's own JSON file storage without the file: it keeps only the last text written."""

    def __init__(self) -> None:
        self.text = ""

    def read(self) -> dict[str, dict[str, Any]] | None:
        return json.loads(self.text) if self.text else None

    def write(self, data: dict[str, dict[str, Any]]) -> None:
        self.text = json.dumps(data)


# Operations. Each is a name (for the failure message) and a function of a database.

Operation = tuple[str, Callable[[TinyDB], Any]]
TABLES = st.sampled_from(["charges", "charges", "deliveries"])
FIELDS = st.sampled_from(["status", "project", "n"])
VALUES = st.one_of(
    st.sampled_from(["pending", "completed", "", "\u00e9", "\ud800", None, True, False, 0, 1, -1, 2**70]),
    st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2),
)
ROWS = st.dictionaries(FIELDS, VALUES, max_size=3)
IDS = st.integers(1, 8)
DOCUMENTS = st.builds(Document, ROWS, st.one_of(IDS, IDS, IDS.map(str)))
CONDITIONS: st.SearchStrategy[QueryInstance] = st.one_of(
    st.builds(lambda field, value: where(field) == value, FIELDS, VALUES),
    st.builds(lambda field, value: ~(where(field) == value), FIELDS, VALUES),
    st.builds(lambda field: where(field).exists(), FIELDS),
    st.builds(lambda value: where("n").test(lambda found: found == value), VALUES),
    st.just(where("n") > 0),
)


def append(row: dict[str, Any]) -> None:
    """A nested change of a row, which must not change the row's former value."""
    row.setdefault("status", []).append(1)


SHALLOW_CHANGES = st.one_of(ROWS, st.sampled_from([delete("status"), increment("n"), add("n", 2), dict.clear]))
CHANGES = st.one_of(SHALLOW_CHANGES, st.just(append))


def operation(name: str, run: Callable[..., Any], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
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


def mutate_result(table: Table, cond: QueryInstance) -> Any:
    """Search, change the result, and read the rows: they must be unchanged."""
    for row in table.search(cond):
        row["status"] = "defaced"
    table.clear_cache()
    return table.all()


def reinsert(table: Table, known: int, row: dict[str, Any]) -> Any:
    """Remove a row and insert another with its id, which is then the last."""
    return [table.remove(doc_ids=[known]), table.insert(Document(row, known)), table.all()]


MIXED = st.lists(st.one_of(ROWS, DOCUMENTS), max_size=4)
GROWING = [
    operation("insert", lambda table, row: table.insert(row), row=ROWS),
    operation("insert", lambda table, row: table.insert(row), row=DOCUMENTS),
    operation("insert_multiple", lambda table, rows: table.insert_multiple(rows), rows=MIXED),
    operation("upsert", lambda table, row: table.upsert(row), row=DOCUMENTS),
    operation("reinsert", reinsert, known=IDS, row=ROWS),
]
CHANGING = [
    operation(
        "update", lambda table, to, cond: table.update(to, cond), to=CHANGES, cond=st.one_of(st.none(), CONDITIONS)
    ),
    operation(
        "update", lambda table, to, ids: table.update(to, doc_ids=ids), to=CHANGES, ids=st.lists(IDS, max_size=3)
    ),
    operation(
        "update_multiple",
        lambda table, updates: table.update_multiple(updates),
        # Shallow ones: TinyDB would let `append` change the list in another update's fields, for all rows after it.
        updates=st.lists(st.tuples(SHALLOW_CHANGES, CONDITIONS), max_size=2),
    ),
    operation("upsert", lambda table, row, cond: table.upsert(row, cond), row=ROWS, cond=CONDITIONS),
    operation("remove", lambda table, known: table.remove(doc_ids=[known]), known=IDS),
]
ASKING = [
    operation("search", lambda table, cond: table.search(cond), cond=CONDITIONS),
    operation("search", mutate_result, cond=CONDITIONS),
    operation("count", lambda table, cond: table.count(cond), cond=CONDITIONS),
    operation("contains", lambda table, cond: table.contains(cond), cond=st.one_of(st.none(), CONDITIONS)),
    operation("get", lambda table, cond: table.get(cond), cond=st.one_of(st.none(), CONDITIONS)),
    operation(
        "get", lambda table, known: table.get(doc_id=known), known=st.one_of(IDS, st.sampled_from(["2", "02", True]))
    ),
    operation("get", lambda table, ids: table.get(doc_ids=ids), ids=st.lists(st.one_of(IDS, st.just("3")), max_size=4)),
    operation("all", lambda table: table.all()),
    operation("len and iter", lambda table: (len(table), next(iter(table), None))),
    st.just(("tables", lambda db: sorted(db.tables()))),
]
# Operations that empty tables or are refused are rare, so that the tables fill.
SELDOM = [
    operation("insert", lambda table: table.insert(5)),
    operation("insert_multiple", lambda table, rows: table.insert_multiple([*rows, "no row"]), rows=MIXED),
    operation("upsert", lambda table, row: table.upsert(row), row=ROWS),
    operation("remove", lambda table: table.remove()),
    operation("remove", lambda table, known: table.remove(doc_ids=[known, known]), known=IDS),
    operation("remove", lambda table, cond: table.remove(cond), cond=CONDITIONS),
    operation("truncate", lambda table: table.truncate()),
    operation("remove while walking", lambda table: [table.remove(doc_ids=[row.doc_id]) for row in table]),
    operation(
        "remove another while walking",
        lambda table, known: [(table.remove(doc_ids=[known]), row) for row in table],
        known=IDS,
    ),
    st.just(("drop_table", lambda db: db.drop_table("deliveries"))),
    st.just(("drop_tables", lambda db: db.drop_tables())),
]
OPERATIONS: st.SearchStrategy[Operation] = st.sampled_from(
    [*GROWING, *CHANGING, *ASKING, *GROWING, *CHANGING, st.sampled_from(SELDOM).flatmap(lambda chosen: chosen)]
).flatmap(lambda chosen: chosen)


def answer(act: Callable[[TinyDB], Any], db: TinyDB) -> Any:
    try:
        return documents(act(db))
    except (ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
        return (type(error), str(error))


def contents(db: TinyDB) -> Any:
    return {name: documents(db.table(name).all()) for name in sorted(db.tables())}


@examples(50, bounded=15)
@given(operations=st.one_of(st.lists(OPERATIONS, max_size=20), st.lists(OPERATIONS, min_size=60, max_size=200)))
def test_every_operation_returns_what_stock_tinydb_returns(operations: list[Operation]) -> None:
    stock = TinyDB(storage=TextStorage)
    with tempfile.TemporaryDirectory() as place:
        ours = [Database(storage=RowStorage), Database(place, storage=JournalStorage)]
        for db in ours:
            db.table("charges", indexes=["status", "project"])
        for label, act in operations:
            expected = answer(act, stock)
            for db in ours:
                assert answer(act, db) == expected, label
        expected = contents(stock)
        for db in ours:
            assert contents(db) == expected
            db.close()
        # The file holds the same rows in the same sequence when it is opened again.
        with Database(place, storage=JournalStorage) as again:
            assert contents(again) == expected
        with TinyDB(place, storage=JournalStorage) as stock_table_on_our_storage:
            assert contents(stock_table_on_our_storage) == expected


def test_a_row_given_with_its_id_as_text_replaces_the_row_that_got_the_id_as_a_number() -> None:
    stock, ours = TinyDB(storage=TextStorage), Database(storage=RowStorage)
    for db in (stock, ours):
        table = db.table("charges")
        table.insert(Document({"n": 0}, 1))
        table.insert({"n": 1})
        table.insert(Document({"n": 2}, "3"))
        table._next_id = 3
        assert table.insert_multiple([Document({"n": "text"}, "3"), {"n": "number"}])
    assert contents(ours) == contents(stock)


@examples(40, bounded=15)
@given(operations=st.lists(OPERATIONS, max_size=20))
def test_the_stock_table_works_on_our_storages_too(operations: list[Operation]) -> None:
    stock = TinyDB(storage=TextStorage)
    with tempfile.TemporaryDirectory() as place:
        ours = [TinyDB(storage=RowStorage), TinyDB(place, storage=JournalStorage)]
        for label, act in operations:
            expected = answer(act, stock)
            for db in ours:
                assert answer(act, db) == expected, label
        for db in ours:
            db.close()
        with Database(place, storage=JournalStorage) as again:
            assert contents(again) == contents(stock)


class Thrown(Exception):
    """Raised to roll a commit back."""


def do_and_fail(store: Store, *operations: Callable[[TinyDB], Any]) -> None:
    with store.commit():
        for act in operations:
            answer(act, store.db)
        raise Thrown


@examples(50, bounded=15)
@given(
    batches=st.lists(st.tuples(st.lists(OPERATIONS, min_size=1, max_size=8), st.booleans()), min_size=3, max_size=12)
)
def test_a_commit_changes_no_result_and_a_failed_one_leaves_no_trace(
    batches: list[tuple[list[Operation], bool]],
) -> None:
    stock = TinyDB(storage=TextStorage)
    with tempfile.TemporaryDirectory() as place:
        stores = [Store.memory(), Store.open(place)]
        for store in stores:
            for name in ("charges", "deliveries"):
                store.table(name, key=None, indexes=["status", "n"])
        for operations, kept in batches:
            for store in stores:
                before, sequence = store.snapshot(), sequences(store)
                with pytest.raises(Thrown):
                    do_and_fail(store, *(act for _, act in operations))
                assert as_data(store) == as_data(Store.from_snapshot(before))
                assert sequences(store) == sequence
            if kept:
                expected = [answer(act, stock) for _, act in operations]
                for store in stores:
                    with store.commit():
                        assert [answer(act, store.db) for _, act in operations] == expected
        for store in stores:
            assert contents(store.db) == contents(stock)
            assert_indexes_match_the_rows(store)
            store.close()
        with Store.open(place) as again:
            assert contents(again.db) == contents(stock)


def as_data(store: Store) -> Any:
    return {
        name: state._replace(
            indexes={field: as_sets(groups) for field, groups in state.indexes.items()},
            tallies={fields: tally.counts() for fields, tally in state.tallies.items()},
        )
        for name, state in store.snapshot().items()
    }


def sequences(store: Store) -> Mapping[str, list[int]]:
    return {name: list(table.rows) for name, table in store.tables.items()}


def assert_indexes_match_the_rows(store: Store) -> None:
    for name, table in store.tables.items():
        fresh = TableData(RowStorage(), name)
        for doc_id, row in table.rows.items():
            fresh.set(doc_id, row)
        fresh.declare(table.key, table.indexes)
        for field, index in table.indexes.items():
            assert as_sets(index.groups) == as_sets(fresh.indexes[field].groups), (name, field)
        assert table.keys == fresh.keys
        assert table.max_id >= max(table.rows, default=0)
        assert not table.ascending or list(table.rows) == sorted(table.rows)


def as_sets(groups: Mapping[Any, Any]) -> dict[Any, set[int]]:
    return {value: {held} if isinstance(held, int) else {*held} for value, held in groups.items()}


def test_an_id_given_as_text_is_the_same_id_only_once_it_is_written() -> None:
    rows = [Document({"n": 1}, "2"), {"n": 2}, Document({"n": 3}, "2")]  # type: ignore[arg-type]
    for storage, database in ((TextStorage, TinyDB), (RowStorage, Database)):
        table = database(storage=storage).table("charges")
        with pytest.raises(ValueError, match="Document with ID 2 already exists"):
            table.insert_multiple(rows)
        assert table.insert_multiple(rows[:2]) == ["2", 2]
        assert documents(table.all()) == documents([Document({"n": 2}, 2)])


def test_the_stock_table_iterates_over_the_rows_at_the_start() -> None:
    db = TinyDB(storage=RowStorage)
    db.insert_multiple([{"n": 1}, {"n": 2}])
    assert [(row["n"], db.remove(doc_ids=[2])) for row in db] == [(1, [2]), (2, [])]


def test_a_table_that_persists_empty_exists_at_once_and_is_empty() -> None:
    for db in (TinyDB(storage=TextStorage), Database(storage=RowStorage)):
        db.insert({})
        assert db.tables() == {"_default"}
        assert db.table("charges", persist_empty=True).all() == []
        assert db.tables() == {"_default", "charges"}
        db.table("charges").insert({"n": 1})
        assert type(db).table_class(db.storage, "charges", persist_empty=True).insert({"n": 2}) == 1


def test_the_query_cache_is_emptied_by_a_change() -> None:
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


def test_the_query_cache_is_emptied_by_an_operation_that_finds_nothing_to_do_too() -> None:
    charges = Store.memory().table("charges")
    charges.put({"id": "a"})
    charges.search(where("id") == "a")[0]["id"] = "defaced"
    charges.remove(where("id") == "b")
    assert charges.search(where("id") == "a") == [{"id": "a"}]


def test_a_table_written_as_a_whole_keeps_types_and_sequence() -> None:
    storage = RowStorage()
    before = {"1": {"n": 1}, "2": {"n": 0}, "3": {}}
    after = {"2": {"n": False}, "1": {"n": 1.0}}
    for tables in ({"charges": before}, {"charges": after, "others": {}}, {"others": {}}, {}):
        storage.write(tables)
        kept = {name: {key: dict(row) for key, row in table.items()} for name, table in (storage.read() or {}).items()}
        assert json.dumps(kept) == json.dumps(tables)


def test_the_journal_holds_only_the_changes_when_a_table_is_written_as_a_whole(tmp_path: Path) -> None:
    with TinyDB(tmp_path, storage=JournalStorage) as db:
        db.insert_multiple([{"n": 1}, {"n": 2}, {"n": 3}])
        db.update({"n": 9}, doc_ids=[2])
        db.remove(doc_ids=[1])
    changes = [json.loads(line)[1] for line in (tmp_path / "charges.journal").read_text().splitlines()[2:]]
    assert changes == [{"_default": [[2, {"n": 9}]]}, {"_default": [[1]]}]


def test_a_table_that_was_read_may_be_written_as_another() -> None:
    storage = RowStorage()
    storage.write({"charges": {"1": {"n": 1}}})
    read = storage.read() or {}
    with pytest.raises(KeyError, match="first"):
        read["charges"]["first"]
    storage.write({**read, "copies": read["charges"]})
    assert storage.table_data("copies").rows == storage.table_data("charges").rows == {1: {"n": 1}}


def test_the_usual_table_stays_in_the_order_of_its_ids() -> None:
    """While it is, a rollback of rows needs no record of their positions."""
    store = Store.memory()
    charges = store.table("charges")
    table = store.tables["charges"]
    charges.insert(Document({"id": "a"}, 1))
    for name in "bc":
        charges.put({"id": name})
    assert table.ascending
    charges.delete("b")
    with pytest.raises(Thrown):
        do_and_fail(store, lambda db: charges.delete("a"), lambda db: charges.insert(Document({"id": "x"}, 2)))
    assert table.ascending
    charges.insert(Document({"id": "x"}, 2))
    assert table.ascending is False
    assert Store.from_snapshot(store.snapshot()).tables["charges"].ascending is False
    charges.truncate()
    charges.insert(Document({"id": "a"}, 1))
    assert table.ascending


def test_a_rollback_restores_rows_at_their_positions() -> None:
    store = Store.memory()
    charges = store.table("charges")
    charges.insert_multiple([Document({"id": "a"}, 1), Document({"id": "c"}, 3)])
    with pytest.raises(Thrown):
        do_and_fail(
            store,
            lambda db: charges.delete("a"),
            lambda db: charges.insert(Document({"id": "b"}, 2)),
            lambda db: charges.delete("c"),
        )
    assert [row["id"] for row in charges] == ["a", "c"]
    assert store.tables["charges"].ascending


def test_a_table_is_given_its_key_and_indexes_with_its_name() -> None:
    db = Database(storage=RowStorage)
    charges = db.table("charges", key="id", indexes=["status"])
    charges.put({"id": "a", "status": "pending"})
    assert charges.row("a") == charges.first("status", "pending") == {"id": "a", "status": "pending"}
    assert list(charges._data.indexes) == ["status"]


def test_ids_used_by_failed_inserts_are_reused_once_the_table_is_dropped() -> None:
    for db in (TinyDB(storage=TextStorage), Database(storage=RowStorage)):
        for first in (3, 1):
            with pytest.raises(ValueError, match="not a Mapping"):
                db.table("charges").insert_multiple([{"n": 1}, {"n": 2}, 5])  # type: ignore[list-item]
            if first == 1:
                db.drop_table("charges")
            assert db.table("charges").insert({"n": 1}) == first
            db.drop_table("charges")


def test_a_change_empties_the_query_caches_of_both_views_of_a_table() -> None:
    storage = RowStorage()
    one, other = (IndexedTable(storage, "charges", key="id") for _ in range(2))
    one.put({"id": "a"})
    named_a = where("id") == "a"
    assert len(one.search(named_a)) == len(other.search(named_a)) == 1
    one.delete("a")
    assert one.search(named_a) == other.search(named_a) == []


@pytest.mark.parametrize(("named", "room"), [({}, 10), ({"cache_size": 2}, 2), ({"cache_size": 0}, 0)])
def test_a_query_cache_holds_as_many_results_as_its_capacity(named: dict[str, int], room: int) -> None:
    for db in (TinyDB(storage=TextStorage), Database(storage=RowStorage)):
        charges = db.table("charges", **named)
        charges.insert({"n": 1})
        for number in range(20):
            charges.search(where("n") > -number)
        held = [number for number in range(20) if (where("n") > -number) in charges._query_cache]
        assert held == list(range(20 - room, 20))


def test_a_storage_that_keeps_whole_tables_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"IndexedTable needs a storage that keeps rows.*MemoryStorage"):
        IndexedTable(MemoryStorage(), "charges")


STATES = st.sampled_from(["pending", "completed", "expired"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abcdef"), st.fixed_dictionaries({"status": STATES}, optional={"event": STATES})),
        st.tuples(st.sampled_from("abcdef"), st.none()),
        st.just(("", None)),
    ),
    max_size=8,
)


@examples(50, bounded=15)
@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=8))
def test_a_tally_counts_what_a_pass_over_the_rows_counts(commits: list[tuple[list[Any], bool]]) -> None:
    store = Store.memory()
    table = store.table("deliveries", indexes=["status"], tallies=[("status", "event")])
    for changes, kept in commits:
        try:
            with store.commit():
                for key, fields in changes:
                    if fields is not None:
                        table.put({"id": key, **fields})
                    elif key:
                        table.delete(key)
                    else:
                        table.truncate()
                if not kept:
                    raise Thrown
        except Thrown:
            pass
        rows = list(table)
        assert table.counts("status", "event") == Counter((row["status"], row.get("event")) for row in rows)
        assert table.counts("status") == Counter((row["status"],) for row in rows)
    late = Store.from_snapshot(store.snapshot()).table("deliveries", tallies=[("status", "event")])
    assert late.counts("status", "event") == table.counts("status", "event")
    with pytest.raises(LookupError, match="declare it"):
        table.counts("event")


# What a store takes over from another one


def numbered(count: int, start: int = 0) -> Store:
    """A store with rows of two kinds, by an index."""
    store = Store.memory()
    table = store.table("charges", indexes=["kind"])
    with store.commit():
        for number in range(start, start + count):
            table.put({"id": f"c{number}", "kind": number % 2})
    return store


@pytest.mark.parametrize("durable", [False, True])
def test_a_store_that_takes_over_another_ones_rows_has_them_and_can_return_to_its_own(
    durable: bool, tmp_path: Path
) -> None:
    store = Store.open(tmp_path) if durable else Store.memory()
    with store:
        table = store.table("charges", indexes=["kind"])
        for number in range(3):
            table.put({"id": f"old{number}", "kind": number})
        before = store.snapshot()

        def take_over(fail: bool) -> None:
            with store.commit():
                store.drop_tables()
                store.load(numbered(40))
                if fail:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            take_over(fail=True)
        assert store.snapshot() == before
        take_over(fail=False)
        assert [row["id"] for row in table] == [f"c{number}" for number in range(40)]
        assert [row["id"] for row in table.search(where("kind") == 1)] == [f"c{number}" for number in range(1, 40, 2)]
        assert table.put({"id": "c40", "kind": 1}) == 41
        after = store.snapshot()
    if durable:
        with Store.open(tmp_path) as again:
            again.table("charges", indexes=["kind"])
            assert again.snapshot()["charges"].rows == after["charges"].rows


def test_former_content_is_freed_in_steps_and_what_the_tables_have_stays() -> None:
    count = 3 * ITEMS_PER_STEP
    store = numbered(count)
    rows, former = store.tables["charges"].rows, FormerContent(store.tables.values())
    assert [*former.free()] == []  # the tables have it still
    assert len(rows) == count
    former = FormerContent(store.tables.values())
    with store.commit():
        store.drop_tables()
        store.load(numbered(count, start=count))
    lengths = [len(rows) for _ in former.free()]
    assert (lengths[0], lengths[-1]) == (count, 0)
    assert max(a - b for a, b in pairwise(lengths)) == ITEMS_PER_STEP
    assert [row["id"] for row in store.table("charges")][:: count - 1] == [f"c{count}", f"c{2 * count - 1}"]


def test_rows_are_counted_by_indexed_values() -> None:
    store = Store.memory()
    table = store.table("charges", indexes=["kind", "status"])
    for number in range(30):
        table.put({"id": f"c{number}", "kind": number % 3, "status": "even" if number % 2 == 0 else "odd", "other": 1})
    for kind in (0, 1, 5):
        for status in ("even", "odd", "none"):
            values = {"kind": kind, "status": status}
            assert table.count_with(values) == table.count((where("kind") == kind) & (where("status") == status))
        assert table.count_with({"kind": kind}) == table.count(where("kind") == kind)
    table.put({"id": "c0", "kind": 0, "status": "odd"})
    assert table.count_with({"kind": 0, "status": "odd"}) == 6
    assert table.count_with({}) == 30
    with pytest.raises(LookupError, match=r"no index of 'other'"):
        table.count_with({"other": 1})
