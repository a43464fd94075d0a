"""Look-ups by key, by field and by page return what a full search returns, but faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinydb.table import Document

from leyden import Sandbox
from leyden.server.errors import StoreError
from leyden.server.store.store import IndexedTable, Store
from leyden.server.store.tables.id_order import IdOrder
from leyden.server.store.tables.index import Index
from leyden.server.store.tables.pages import id_portions
from leyden.server.store.tables.row_map import RowMap
from tests.support.examples import examples

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
UNDONE = st.lists(LISTED, min_size=1, max_size=3).map(tuple)
STEPS = st.lists(st.one_of(LISTED, LISTED, st.integers(0, 40).map("c{}".format), UNDONE), max_size=COUNT)
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


class Sorted(set[int]):
    """Ids that note each sorting of them in a list, by their number."""

    def __init__(self, ids: Iterable[int], sorted_of: list[int]) -> None:
        super().__init__(ids)
        self._sorted_of = sorted_of

    def __iter__(self) -> Iterator[int]:
        self._sorted_of.append(len(self))
        return super().__iter__()


class Thrown(Exception):
    """Raised to roll a commit back."""


def put_and_fail(store: Store, *rows: dict[str, Any]) -> None:
    with store.commit():
        for row in rows:
            store.table("charges").put(row)
        raise Thrown


def in_the_order_of_dates(steps: list[Any]) -> list[Any]:
    return [{**step, "created_at": place // 3} if isinstance(step, dict) else step for place, step in enumerate(steps)]


@examples(300)
@given(
    steps=st.one_of(STEPS, STEPS.map(in_the_order_of_dates)),
    filters=FILTERS,
    after=st.one_of(st.none(), st.integers(0, COUNT)),
    limit=st.integers(0, 5),
    since_ms=BOUND,
    until_ms=BOUND,
    looked_before=st.booleans(),
)
def test_a_page_is_the_result_of_a_full_search(
    steps: list[Any],
    filters: dict[str, Any],
    after: int | None,
    limit: int,
    since_ms: int | None,
    until_ms: int | None,
    looked_before: bool,
) -> None:
    store = Store.memory()
    charges = store.table("charges", indexes=["status", "project", "internal_id"])
    model: dict[str, dict[str, Any]] = {}
    ids: dict[str, int] = {}
    for step in steps:
        if looked_before:
            charges.page(since_ms=5)  # from now on the sequence of ids is kept, and whether it is that of the dates
        if isinstance(step, str):
            assert charges.delete(step) == (step in model)
            model.pop(step, None)
            ids.pop(step, None)
        elif isinstance(step, tuple):
            with pytest.raises(Thrown):
                put_and_fail(store, *step)
        else:
            doc_id = charges.put(step)
            assert ids.setdefault(step["id"], doc_id) == doc_id
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
    expected_up = [
        row
        for row in newest_first[::-1]
        if (after is None or ids[row["id"]] > after)
        and all(row[field] == value for field, value in filters.items())
        and (since_ms is None or row["created_at"] >= since_ms)
        and (until_ms is None or row["created_at"] < until_ms)
    ]
    assert charges.page_up(filters, after, limit, since_ms, until_ms) == expected_up[:limit]
    for field, value in filters.items():
        assert charges.find(field, value) == [row for row in newest_first[::-1] if row[field] == value]
        assert charges.first(field, value) == next(iter(charges.find(field, value)), None)
    for key, row in model.items():
        found = charges.row(key)
        assert found == row
        assert found == charges.get(doc_id=ids[key])
    assert charges.row("c99") is None


DATED = st.lists(st.integers(0, 9), max_size=12)


def dated(*batches: list[int]) -> tuple[IdOrder, dict[int, dict[str, Any]]]:
    """Rows with these dates, added in batches with a page request between them."""
    order, rows = IdOrder(), {}
    for batch in batches:
        for date in batch:
            rows[len(rows) + 1] = {"created_at": date}
            order.append(len(rows), rows[len(rows)])
        order.id_bounds(rows, 1, None)
    return order, rows


@given(DATED.map(sorted), st.integers(0, 12), BOUND, BOUND)
def test_dates_in_the_order_of_ids_give_exact_bounds(
    dates: list[int], half: int, since_ms: int | None, until_ms: int | None
) -> None:
    order, rows = dated(dates[:half], dates[half:])
    after_all = len(rows) + 1
    first = 0 if since_ms is None or not rows else min([n for n in rows if dates[n - 1] >= since_ms] or [after_all])
    past = None if until_ms is None else min([n for n in rows if dates[n - 1] >= until_ms], default=None)
    assert order.id_bounds(rows, since_ms, until_ms) == (first, past)


@given(DATED, DATED, BOUND, BOUND)
def test_dates_in_any_order_give_bounds_that_contain_every_match(
    early: list[int], late: list[int], since_ms: int | None, until_ms: int | None
) -> None:
    order, rows = dated(early, late)
    lowest, above = order.id_bounds(rows, since_ms, until_ms)
    for doc_id, row in rows.items():
        if (since_ms is None or row["created_at"] >= since_ms) and (until_ms is None or row["created_at"] < until_ms):
            assert lowest <= doc_id
            assert above is None or doc_id < above
    if any(one > other for one, other in pairwise(early + late)):
        assert (lowest, above) == (0, None)


def test_a_changed_date_is_compared_again() -> None:
    order, rows = dated([1, 2, 3])
    for date, bounds in ((2, (1, None)), (9, (0, None))):
        redated = {"created_at": date}
        order.replaced(rows[1], redated)
        rows[1] = redated
        assert order.id_bounds(rows, 2, None) == bounds


class Reads(RowMap):
    """Rows that count how often one of them is read."""

    count = 0

    def __getitem__(self, doc_id: int) -> dict[str, Any]:
        self.count += 1
        return super().__getitem__(doc_id)

    def get(self, doc_id: int, default: Any = None) -> Any:
        self.count += 1
        return super().get(doc_id, default)


def test_the_page_of_a_minute_is_found_without_reading_every_row() -> None:
    store = Store.memory()
    charges = store.table("charges")
    for number in range(5_000):
        charges.put({"id": number, "created_at": number})
    charges.page(since_ms=1)  # the dates are compared once
    table = store.tables["charges"]
    table.rows = rows = Reads(table.rows)
    charges.put({"id": 5_000, "created_at": 5_000})
    for change in ({"id": 7, "created_at": 7, "status": "paid"}, {"id": 4_000, "created_at": 4_000, "status": "paid"}):
        charges.put(change)
    asked: list[tuple[dict[str, int], list[int]]] = [
        ({"since_ms": 4_999}, [5_000, 4_999]),
        ({"until_ms": 2, "since_ms": 0}, [1, 0]),
        ({"until_ms": 2}, [1, 0]),
        ({"until_ms": 2, "after": 4_000}, [1, 0]),
        ({"until_ms": 4_000, "after": 2}, [0]),
        ({"since_ms": 2_499, "until_ms": 2_501}, [2_500, 2_499]),
    ]
    for asking, found in asked:
        rows.count = 0
        assert [row["id"] for row in charges.page(**asking)] == found
        assert rows.count < 1_500, asking


def dated_charges(count: int) -> tuple[Store, IndexedTable, Reads]:
    """A table of charges of two projects, of which the first third were paid, and the reads of its rows."""
    store = Store.memory()
    charges = store.table("charges", indexes=["project", "status"])
    for number in range(count):
        status = "paid" if number < count // 3 else "pending"
        charges.put({"id": number, "created_at": number, "project": f"shop{number % 2}", "status": status})
    table = store.tables["charges"]
    table.rows = rows = Reads(table.rows)
    return store, charges, rows


@pytest.mark.parametrize(
    ("filters", "bounds", "newest", "oldest"),
    [
        ({"status": "paid"}, {}, 999, 0),
        ({"status": "paid", "project": "shop0"}, {}, 998, 0),
        ({"status": "pending"}, {}, 2_999, 1_000),
        ({"status": "pending", "project": "shop1"}, {"until_ms": 2_000}, 1_999, 1_001),
        ({"status": "paid"}, {"since_ms": 900}, 999, 900),
        ({"status": "paid"}, {"since_ms": 2_000}, None, None),
        ({"status": "pending"}, {"until_ms": 900}, None, None),
        ({}, {"since_ms": 1_499, "until_ms": 1_500}, 1_499, 1_499),
        ({}, {"since_ms": 3_000}, None, None),
        ({}, {"until_ms": 0}, None, None),
    ],
)
def test_a_page_reads_no_row_that_an_index_or_a_date_excludes(
    filters: dict[str, str], bounds: dict[str, int], newest: int | None, oldest: int | None
) -> None:
    _, charges, rows = dated_charges(3_000)
    assert [row["id"] for row in charges.page(filters, limit=1, **bounds)] == [newest][: newest is not None]
    assert rows.count <= 1
    rows.count = 0
    assert [row["id"] for row in charges.page_up(filters, limit=1, **bounds)] == [oldest][: oldest is not None]
    assert rows.count <= 1


def test_dates_are_known_in_a_table_that_was_filled_before_its_indexes_were_declared() -> None:
    store, _, _ = dated_charges(500)
    copy = Store.from_snapshot(store.snapshot(indexes=False))
    charges = copy.table("charges", indexes=["project", "status"])
    table = copy.tables["charges"]
    table.rows = rows = Reads(table.rows)
    assert [row["id"] for row in charges.page(since_ms=100, until_ms=101)] == [100]
    assert rows.count == 1


def test_dates_stay_known_when_most_rows_are_deleted() -> None:
    _, charges, rows = dated_charges(500)
    for number in range(490):
        if number % 10:
            charges.delete(number)
    rows.count = 0
    assert [row["id"] for row in charges.page(since_ms=100, until_ms=121)] == [120, 110, 100]
    assert rows.count == 3


def test_deleted_rows_have_no_date_and_are_no_reason_to_read_others() -> None:
    store, charges, _ = dated_charges(100)
    for number in (0, 1, 50, 99):
        charges.delete(number)
    table = store.tables["charges"]
    ids = table.order.ids(table.rows)
    assert len(ids) == 100
    del table.order._dates[:]
    assert table.order.id_bounds(table.rows, 50, 52) == (52, 53)
    table.rows = rows = Reads(table.rows)
    assert [row["id"] for row in charges.page(since_ms=49, until_ms=52)] == [51, 49]
    assert rows.count == 3


def test_bounds_stay_exact_when_the_last_rows_are_deleted() -> None:
    order, rows = dated(list(range(100)))
    for doc_id in (100, 99):
        del rows[doc_id]
    order.trim(rows)
    assert order.id_bounds(rows, 10, 20) == (11, 21)
    assert order.id_bounds(rows, 98, None) == (99, None)


def test_rows_added_after_all_others_were_deleted_are_compared_too() -> None:
    for staying in range(3):
        order, rows = dated([5, 6, 7])
        for doc_id in range(3, staying, -1):
            del rows[doc_id]
        order.trim(rows)
        for date in (5, 3):
            rows[len(rows) + 1] = {"created_at": date}
            order.append(len(rows), rows[len(rows)])
        assert order.id_bounds(rows, 4, None) == (0, None)


@pytest.mark.parametrize(("ids", "rows", "kept"), [(100, 18, True), (99, 17, False), (100, 17, False)])
def test_deleted_ids_are_discarded_once_they_outnumber_the_rows_and_sixty_four(ids: int, rows: int, kept: bool) -> None:
    order = IdOrder()
    held = {number: {"created_at": number} for number in range(1, ids + 1)}
    noted = order.ids(held)
    for number in range(2, ids - rows + 2):
        del held[number]
    assert (order.ids(held) is noted) is kept
    assert kept or [*order.ids(held)] == list(held)
    assert len(held) == rows


def test_a_table_from_which_the_oldest_rows_are_deleted_notes_no_more_ids_than_twice_its_rows() -> None:
    store = Store.memory()
    charges = store.table("charges")
    for number in range(1_000):
        charges.put({"id": number, "created_at": number})
        charges.delete(number - 10)
        order = store.tables["charges"].order
        assert len(order._ids or ()) <= 2 * 10 + 65
        assert len(order._dates) <= len(order._ids or ())
    assert [row["id"] for row in charges.page(since_ms=995)] == [999, 998, 997, 996, 995]


def test_pages_follow_one_another_without_gap_or_repeat() -> None:
    charges = Store.memory().table("charges", indexes=["project"])
    for number in range(1_000):
        charges.put({"id": number, "project": "rare" if number % 10 == 0 else "usual"})
    for filters, total, limit in (
        ({}, 1_000, 7),
        ({"project": "rare"}, 100, 7),
        ({"project": "usual"}, 900, 7),
        ({"project": "usual"}, 900, 400),
    ):
        seen: list[int] = []
        after = None
        while page := charges.page(filters, after, limit):
            assert len(page) <= limit
            seen += [row["id"] for row in page]
            after = page[-1].doc_id
        assert seen == sorted(set(seen), reverse=True)
        assert len(seen) == total


def test_a_page_contains_explicit_and_reused_ids() -> None:
    charges = Store.memory().table("charges")
    charges.put({"id": "a"})
    charges.insert(Document({"id": "e"}, 5))
    assert [row["id"] for row in charges.page()] == ["e", "a"]
    charges.insert(Document({"id": "c"}, 3))
    assert [row["id"] for row in charges.page()] == ["e", "c", "a"]
    charges.insert(Document({"id": "d"}, 4))
    charges.remove(doc_ids=[5])  # after an explicit id, TinyDB continues from the highest there is
    assert charges.put({"id": "new e"}) == 5
    assert [row["id"] for row in charges.page()] == ["new e", "d", "c", "a"]
    assert [row["id"] for row in charges.page(after=4)] == ["c", "a"]


def test_a_row_whose_removal_is_rolled_back_is_on_the_page_once() -> None:
    store = Store.memory()
    charges = store.table("charges")
    for name in "abc":
        charges.put({"id": name})

    def remove(name: str) -> None:
        with store.commit():
            assert charges.delete(name)
            raise Thrown

    for name in "cab":
        assert [row["id"] for row in charges.page()] == ["c", "b", "a"]
        with pytest.raises(Thrown):
            remove(name)
    assert [row["id"] for row in charges.page()] == ["c", "b", "a"]


def test_a_page_is_a_hundred_rows_unless_another_number_is_asked_for() -> None:
    charges = Store.memory().table("charges")
    for number in range(101):
        charges.put({"id": number})
    assert [row["id"] for row in charges.page()] == list(range(100, 0, -1))
    assert charges.page(limit=0) == charges.page(limit=-1) == []


def test_rows_of_one_value_are_found_oldest_first_however_few_they_are() -> None:
    charges = Store.memory().table("charges", indexes=["project"])
    for number in range(1, 17):
        charges.put({"id": number, "project": "rare" if number % 8 < 2 else "usual"})
    assert [row["id"] for row in charges.find("project", "rare")] == [1, 8, 9, 16]
    charges.delete(9)
    charges.delete(16)
    assert [row["id"] for row in charges.find("project", "rare")] == [1, 8]


def test_an_index_is_used_when_it_selects_at_most_a_quarter_of_the_rows() -> None:
    store = Store.memory()
    charges = store.table("charges", indexes=["project"])
    for number in range(1, 42):
        charges.put({"id": number, "project": "rare" if number <= 10 else "usual"})
    table = store.tables["charges"]
    sorted_of = list[int]()
    table.indexes["project"].groups["rare"] = Sorted(range(1, 11), sorted_of)
    assert list(id_portions(table, {"project": "rare"})) == [list(range(10, 0, -1))]
    assert sorted_of == [10]
    table.indexes["project"].groups["rare"].add(11)
    assert list(id_portions(table, {"project": "rare"})) == [list(range(11, 0, -1))]
    assert sorted_of == [10]


def test_a_long_scan_uses_growing_batches() -> None:
    store = Store.memory()
    charges = store.table("charges")
    charges.insert_multiple([{"id": number} for number in range(20_000)])
    strides = [len(ids) for ids in id_portions(store.tables["charges"], {}, None)]
    assert sum(strides) == 20_000
    assert all(longer in (2 * stride, max(strides)) for stride, longer in pairwise(strides[:-1]))
    assert strides[0] < 1_000
    assert len(strides) < 10


def test_rows_are_copied_into_and_out_of_the_table() -> None:
    charges = Store.memory().table("charges")
    inserted = {"id": "b"}
    charges.insert(inserted)
    inserted["id"] = "defaced"
    found = charges.all()[0]
    assert found == {"id": "b"}
    found["id"] = "defaced"
    charges.get(doc_id=1)["id"] = "defaced"
    assert charges.row("b") == charges.get(doc_id=1) == {"id": "b"}


def test_a_row_that_is_put_is_stored_unchanged() -> None:
    charges = Store.memory().table("charges")
    mine = {"id": "a", "status": "pending"}
    assert charges.put(mine) == 1
    assert charges.row("a") is charges.existing("a") is charges.find("id", "a")[0] is mine


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
    charges.update({"id": "c"}, doc_ids=[first])
    assert charges.row("a") is None
    assert charges.row("c") == {"id": "c"}
    assert charges.put({"id": "a"}) == 4  # 3 went to the refused insert, as it would in TinyDB


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


def test_a_put_skips_explicit_ids() -> None:
    charges = Store.memory().table("charges")
    charges.put({"id": "a"})
    charges.insert_multiple([Document({"id": "b"}, 2), Document({"id": "c"}, 3)])
    assert charges.put({"id": "d"}) == 4
    assert [row["id"] for row in charges.page()] == ["d", "c", "b", "a"]


def test_a_key_or_an_index_may_be_added_after_the_rows() -> None:
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
    with pytest.raises(StoreError, match="table 'twins': documents 1 and 2 both have id 'a'"):
        store.table("twins")


def test_single_row_operations_never_iterate_over_the_table() -> None:
    class NotIterable(RowMap):
        def __iter__(self) -> Any:
            raise AssertionError("the whole table was walked")

        keys = values = items = copy = sort = __iter__

    store = Store.memory()
    charges = store.table("charges", indexes=["status"])
    for number in range(50):
        charges.put({"id": number, "status": "pending" if number % 10 == 0 else "completed"})
    charges.page()
    table = store.tables["charges"]
    table.rows = NotIterable(table.rows)
    assert store.table("charges", indexes=["status"]) is charges
    assert charges.insert({"id": "x"}) == 51
    assert charges.put({"id": "y"}) == 52
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
        put_and_fail(store, {"id": "w"}, {"id": "y", "status": "new"})
    assert charges.row("y") == {"id": "y"}


def test_an_index_knows_how_many_rows_have_a_value() -> None:
    index = Index()
    for doc_id, value in ((1, "a"), (2, "b"), (3, "b"), (4, []), (2, "b")):
        index.add(value, doc_id)
    assert [index.count(value) for value in ("a", "b", "c", None, [])] == [1, 2, 0, None, None]
    assert index.groups == {"a": 1, "b": {2, 3}}
    index.remove("b", 2)
    index.remove("b", 3)
    index.remove("a", 1)
    assert (index.count("a"), index.count("b"), index.groups) == (0, 0, {})


def test_fields_that_the_service_looks_up_often_are_indexed() -> None:
    with Sandbox() as sandbox:
        tables = ("charges", "static_charges", "deliveries")
        kept = {name: set(sandbox.world.store.table_data(name).indexes) for name in tables}
        assert kept["charges"] >= {"payment_hash", "project", "internal_id", "status", "static_charge_id"}
        assert kept["static_charges"] >= {"project", "internal_id", "status", "user"}
        assert kept["deliveries"] >= {"resource_id", "endpoint_id"}


def test_a_page_of_two_indexed_values_reads_the_rows_that_have_both(row_reads: list[int]) -> None:
    table = Store(None).table("t", indexes=("a", "b"))
    for number in range(2_000):
        table.put({"id": str(number), "a": number % 4, "b": number % 5, "c": number % 7})
    wanted = {"a": 3, "b": 2}
    both = [str(number) for number in range(2_000) if number % 20 == 7]
    for page, expected in ((table.page, both[::-1]), (table.page_up, both)):
        row_reads[0] = 0
        assert [row["id"] for row in page(wanted, limit=1_000)] == expected
        assert row_reads[0] <= 4 * len(both)
        assert [row["id"] for row in page({**wanted, "c": 6}, limit=1_000)] == [i for i in expected if int(i) % 7 == 6]
        assert page({"a": 3, "b": 9}) == []
