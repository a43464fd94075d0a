"""Indexes hold large groups of ids as bytes, and behave as if they held sets."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.store.store import Store
from leyden.server.store.tables import id_set, index
from leyden.server.store.tables.id_order import IdOrder
from leyden.server.store.tables.id_set import IdSet
from leyden.server.store.tables.index import Index
from leyden.server.store.tables.pages import in_all
from tests.support.examples import examples

NEAR = st.integers(1, 60)
FAR = st.one_of(NEAR, st.integers(1, 3_000), st.sampled_from([10**6, 2**63, 10**30]))
CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), FAR), max_size=120)


@contextmanager
def small_sets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_set, "MANY", 4)
        patch.setattr(index, "MANY", 4)
        yield


@examples(300)
@given(start=st.lists(NEAR, unique=True, max_size=40), changes=CHANGES, asked=st.lists(FAR, max_size=20))
def test_an_index_holds_the_ids_that_were_added_and_not_removed(
    start: list[int], changes: list[tuple[bool, str, int]], asked: list[int]
) -> None:
    tested, expected = Index(), dict[str, set[int]]()
    copies = list[tuple[Index, dict[str, set[int]]]]()
    with small_sets():
        for adds, value, doc_id in [(True, "a", doc_id) for doc_id in start] + changes:
            if adds:
                tested.add(value, doc_id)
                expected.setdefault(value, set()).add(doc_id)
            else:
                tested.remove(value, doc_id)
                expected.get(value, set()).discard(doc_id)
            expected = {value: ids for value, ids in expected.items() if ids}
            if len(copies) < 3:
                copies.append((Index(tested.copy_groups()), {value: {*ids} for value, ids in expected.items()}))
    for one, ids_by_value in ((tested, expected), *copies):
        assert one.groups.keys() == ids_by_value.keys()
        for value, ids in ids_by_value.items():
            held = one.groups[value]
            group = {held} if isinstance(held, int) else held
            assert {*group} == ids
            assert one.count(value) == len(ids)
            assert [doc_id in group for doc_id in asked] == [doc_id in ids for doc_id in asked]
            assert [*in_all(asked, [group])] == [doc_id for doc_id in asked if doc_id in ids]
            assert not isinstance(group, IdSet) or [*group] == sorted(ids)


def test_a_group_becomes_bytes_while_its_ids_are_many_and_close_together() -> None:
    many = id_set.MANY
    tested = Index()
    for doc_id in range(10, 10 + many):
        assert not isinstance(tested.groups.get("a"), IdSet)
        tested.add("a", doc_id)
    held = tested.groups["a"]
    assert isinstance(held, IdSet)
    assert "10" not in held
    for doc_id in range(1, 10):  # below the lowest
        tested.add("a", doc_id)
    assert [*held] == [*range(1, 10 + many)]
    tested.add("a", 10**9)
    assert tested.groups["a"] == {*range(1, 10 + many), 10**9}
    assert not isinstance(tested.groups["a"], IdSet)
    scattered = Index()
    for doc_id in range(0, 100 * many, 100):
        scattered.add("a", doc_id)
    assert isinstance(scattered.groups["a"], set)


def test_few_ids_that_are_left_of_many_are_a_set_again() -> None:
    tested, many = Index(), 20 * id_set.MANY
    for doc_id in range(1, many):
        tested.add("a", doc_id)
    for doc_id in range(1, many - 5):
        tested.remove("a", doc_id)
    assert isinstance(tested.groups["a"], set)
    assert tested.groups["a"] == {*range(many - 5, many)}


def test_ids_that_no_array_has_room_for_are_in_the_order_of_a_table() -> None:
    rows: dict[int, dict[str, Any]] = {1: {}, 2**63 - 1: {}}
    order = IdOrder(rows)
    assert [*order.ids(rows)] == [1, 2**63 - 1]
    order.append(2**63, {})
    assert order.ids(rows) == [1, 2**63 - 1, 2**63]
    assert [*IdOrder({2**70: {}}).ids({2**70: {}, 5: {}})] == [5, 2**70]


def test_the_garbage_collector_does_not_go_through_the_ids_and_packed_rows_of_a_table() -> None:
    with Sandbox(seed=1) as sandbox:
        count = 3 * id_set.MANY
        sandbox.traffic("1000/min", duration="1h", count=count, callbackUrl="http://shop.localhost/paid")
        sandbox.run()
        store = sandbox.world.store
        most = 0
        for name in ("charges", "invoices", "payments", "deliveries"):
            data = store.table_data(name)
            assert len(data.rows) > 2 * id_set.MANY
            groups = [one for each in data.indexes.values() for one in each.groups.values()]
            blocks, dicts = data.rows.contents
            held = [dicts, data.order.ids(data.rows), *groups]
            if sys.version_info < (3, 14):
                held += [blocks, data.keys]
            most = max(most, *(len(gc.get_referents(one)) for one in held if gc.is_tracked(one)))
        assert most < id_set.MANY


def test_a_count_of_two_values_is_that_of_the_rows_with_both() -> None:
    table = Store.memory().table("rows", indexes=["a", "b"])
    for number in range(4 * id_set.MANY):
        table.put({"id": number, "a": number % 2, "b": number % 3})
    assert table.count_with({"a": 1, "b": 2}) == sum(number % 6 == 5 for number in range(4 * id_set.MANY))
    assert table.counts("a") == {(0,): 2 * id_set.MANY, (1,): 2 * id_set.MANY}
