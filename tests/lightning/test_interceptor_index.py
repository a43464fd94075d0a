"""The index of interceptors finds what a search through all of them finds, and reads a few."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leyden.lightning.engine.interceptor_index import FOREVER_MS, InterceptorIndex
from leyden.lightning.engine.interceptor_row import KINDS, InterceptorRow
from leyden.lightning.failure_codes import FINAL_NODE_CODES, FORWARDING_NODE_CODES, FailureCode
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from tests.support.index_commits import commit

CODES = (
    FailureCode.MPP_TIMEOUT, FailureCode.TEMPORARY_CHANNEL_FAILURE, FailureCode.TEMPORARY_NODE_FAILURE,
)  # fmt: skip


def a_table() -> TypedTable[InterceptorRow]:
    return cast(TypedTable[InterceptorRow], Store(None).table("interceptors", key="id", indexes=("kind",)))


def a_row(number: int, kind: str, **conditions: Any) -> InterceptorRow:
    row: dict[str, Any] = {
        "id": f"intercept-{number}", "kind": kind, "payment": None, "hop": None, "node": None, "channel": None,
        "code": None, "delay_ms": None, "from_ms": None, "until_ms": None, "times": None, "acted": 0,
    }  # fmt: skip
    return cast(InterceptorRow, {**row, **conditions})


def in_force(row: InterceptorRow, now: int) -> bool:
    is_used_up = row["times"] is not None and row["acted"] >= row["times"]
    return not is_used_up and (row["from_ms"] or 0) <= now < (row["until_ms"] or FOREVER_MS)


def matches(row: InterceptorRow, payment: str, hop: int, nodes: list[int], channels: list[int]) -> bool:
    """Whether an interceptor in force acts on an HTLC at a hop of a route over these nodes: field by field."""
    is_last = hop == len(channels)
    if row["payment"] not in (None, payment) or row["hop"] not in (None, hop, hop - len(nodes)):
        return False
    if row["channel"] is not None and (is_last or channels[hop] != row["channel"]):
        return False
    if row["kind"] == "offline":
        return not is_last and row["node"] in (None, nodes[hop], nodes[hop + 1])
    if row["node"] not in (None, nodes[hop]) or (row["kind"] == "drop" and hop == 0):
        return False
    return row["code"] is None or row["code"] not in (FORWARDING_NODE_CODES if is_last else FINAL_NODE_CODES)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROWS = st.builds(
    dict,
    kind=st.sampled_from(KINDS), payment=maybe(st.sampled_from("ab")), hop=maybe(st.integers(-4, 3)),
    node=maybe(st.integers(0, 3)), channel=maybe(st.integers(0, 2)), from_ms=maybe(st.integers(1, 6)),
    until_ms=maybe(st.integers(3, 9)), times=maybe(st.integers(1, 2)), code=st.sampled_from(CODES),
)  # fmt: skip
STEPS = st.lists(
    ROWS.map(lambda row: ("add", row))
    | st.tuples(st.just("htlc"), st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from([1, 2, 3])))
    | st.tuples(st.just("edge"), st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 5)))
    | st.tuples(st.just("remove"), st.integers(0, 9))
    | st.tuples(st.just("later"), st.integers(1, 3)),
    max_size=20,
)


@settings(max_examples=400)
@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=5))
def test_the_index_finds_what_a_search_through_all_finds(commits: list[tuple[list[tuple[str, Any]], bool]]) -> None:
    store = Store(None)
    rows = cast(TypedTable[InterceptorRow], store.table("interceptors", key="id", indexes=("kind",)))
    index = InterceptorIndex(rows)
    store.register(index)
    now = added = 0
    for steps, is_written in commits:
        before = now
        with commit(store, is_written=is_written):
            now, added = play(steps, rows, index, now, added)
        if not is_written:
            now = before


def play(
    steps: list[tuple[str, Any]], rows: TypedTable[InterceptorRow], index: InterceptorIndex, now: int, added: int
) -> tuple[int, int]:
    """Do the steps and compare each search. Returns the time and the number of interceptors added."""
    for step, value in steps:
        if step == "add":
            added += 1
            fields = {**value, "code": value["code"] if value["kind"] == "fail" else None}
            row = a_row(added, **fields)
            rows.put(row)
            index.add(row, now)
        elif step == "remove":
            rows.delete(f"intercept-{value}")
        elif step == "later":
            now += value
        elif step == "htlc":
            payment, hop, hops = value
            nodes, channels, hop = list(range(hops + 1)), list(range(hops)), min(hop, hops)
            expected = [row for row in rows if in_force(row, now) and matches(row, payment, hop, nodes, channels)]
            if hop < hops:
                found = index.first_forwarding(payment, hop, hops, 2 * hop, (hop, hop + 1), now)
            else:
                found = index.first_at_receiver(payment, hops, hops, now)
            assert found == (expected[0] if expected else None)
            if found is not None:
                rows.put({**found, "acted": found["acted"] + 1})
        else:
            payment, edge = value
            channel = edge >> 1
            ends = (channel, channel + 1)
            expected = [
                row
                for row in rows
                if row["kind"] == "offline"
                and in_force(row, now)
                and row["hop"] is row["times"] is None
                and row["payment"] in (None, payment)
                and row["channel"] in (None, channel)
                and row["node"] in (None, *ends)
            ]
            assert index.first_offline(payment, edge, ends, now) == (expected[0] if expected else None)
            ends_at = max((row["until_ms"] or FOREVER_MS for row in expected), default=None)
            assert index.offline_until(payment, edge, ends, now) == ends_at
    return now, added


class _Counted:
    """A table that counts the rows that are read."""

    def __init__(self, rows: TypedTable[InterceptorRow]) -> None:
        self._rows, self.reads = rows, 0

    def row(self, key: Any) -> InterceptorRow | None:
        self.reads += 1
        return self._rows.row(key)

    def id_of(self, key: Any) -> int | None:
        return self._rows.id_of(key)

    def __iter__(self) -> Any:
        return iter(self._rows)


@pytest.mark.parametrize(
    "conditions",
    [
        {"hop": 19},
        {"node": 7},
        {"channel": 7},
        {"payment": "another"},
        {"from_ms": 10},
        {"until_ms": 1},
        {"times": 1, "acted": 1},
        {"kind": "fail", "code": FailureCode.MPP_TIMEOUT},
        {"kind": "offline", "node": 7},
        {"kind": "offline", "channel": 7, "until_ms": 1},
        {"kind": "offline", "node": 1, "from_ms": 10},
    ],
    ids=str,
)
def test_interceptors_that_match_nothing_are_not_read_at_each_hop(conditions: dict[str, Any]) -> None:
    rows = a_table()
    for number in range(2_000):
        rows.put(a_row(number, **{"kind": "delay", "delay_ms": 1, **conditions}))
    counted = _Counted(rows)
    index = InterceptorIndex(cast(TypedTable[InterceptorRow], counted))
    for search in range(3):
        if search:
            counted.reads = 0
        assert index.first_forwarding("a", 0, 2, 0, (0, 1), 5) is None
        assert index.offline_until("a", 0, (0, 1), 5) is None
        assert index.first_offline("a", 0, (0, 1), 5) is None
    assert counted.reads <= 4


def test_one_interceptor_in_force_is_found_without_the_others() -> None:
    rows = a_table()
    for number in range(2_000):
        rows.put(a_row(number, "offline", node=1, until_ms=100 + number))
    counted = _Counted(rows)
    index = InterceptorIndex(cast(TypedTable[InterceptorRow], counted))
    index.first_forwarding("a", 0, 2, 0, (0, 1), 5)
    counted.reads = 0
    first = index.first_forwarding("a", 0, 2, 0, (0, 1), 5)
    assert first is not None
    assert first["id"] == "intercept-0"
    assert index.offline_until("a", 0, (0, 1), 5) == 2_099
    assert counted.reads <= 2
