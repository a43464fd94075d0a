"""The index of faults finds what a search through all of them finds, also after a commit that is rolled back."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from leyden.callbacks.faults.index import SENDING, FaultIndex
from leyden.callbacks.faults.kinds import HOLDING_KINDS, FaultRow, is_spent
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from tests.support.index_commits import commit


def matches(fault: FaultRow, groups: tuple[str, ...], delivery: dict[str, Any], number: int) -> bool:
    kind = fault["kind"]
    return (
        (kind if kind in HOLDING_KINDS else SENDING) in groups
        and not is_spent(fault)
        and fault["operation"] in (None, delivery["rule"])
        and fault["event"] in (None, delivery["event"])
        and fault["charge"] in (None, delivery["resource_id"], delivery.get("endpoint_id"))
        and fault["attempt"] in (None, number)
    )


def maybe(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values])


FAULTS = st.builds(
    dict, kind=st.sampled_from(["delay", "burst", "drop", "duplicate"]), operation=maybe(["r1", "r2"]),
    event=maybe(["e1", "e2"]), charge=maybe(["c1", "s1"]), attempt=maybe([1, 2]), count=maybe([1, 2]),
)  # fmt: skip
ATTEMPTS = st.tuples(
    st.builds(dict, rule=st.sampled_from(["r1", "r2"]), event=st.sampled_from(["e1", "e2"]),
              resource_id=st.sampled_from(["c1", "c2"]), endpoint_id=maybe(["s1", "s2"])),
    st.sampled_from([1, 2]), st.sampled_from([HOLDING_KINDS, ("burst",), (SENDING,)]),
)  # fmt: skip
STEPS = st.lists(
    FAULTS.map(lambda fault: ("add", fault))
    | ATTEMPTS.map(lambda attempt: ("attempt", attempt))
    | st.tuples(st.sampled_from(["clear", "return", "over"]), st.integers(1, 8)),
    max_size=12,
)


@settings(max_examples=300)
@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=5))
def test_the_index_finds_what_a_search_through_all_finds(commits: list[tuple[list[tuple[str, Any]], bool]]) -> None:
    store = Store(None)
    faults = cast(TypedTable[FaultRow], store.table("faults"))
    index = FaultIndex(faults)
    store.register(index)
    added = 0
    for steps, is_written in commits:
        with commit(store, is_written=is_written):
            for step, value in steps:
                if step == "add":
                    added += 1
                    row = cast(FaultRow, {**value, "id": f"f{added}", "hits": 0})
                    faults.put(row)
                    index.add(row)
                elif step == "clear":
                    faults.delete(f"f{value}")
                elif step == "over":
                    if (fault := faults.row(f"f{value}")) is not None and not is_spent(fault):
                        index.remove(fault)
                        faults.delete(fault["id"])
                elif step == "return":
                    fault = faults.row(f"f{value}")
                    if fault is not None and fault["hits"]:
                        fault = cast(FaultRow, {**fault, "hits": fault["hits"] - 1})
                        faults.put(fault)
                        index.add(fault)
                else:
                    delivery, number, groups = value
                    found = [*index.of_attempt(groups, delivery, number)]
                    assert found == [one for one in faults if matches(one, groups, delivery, number)]
                    if found:
                        faults.put(cast(FaultRow, {**found[0], "hits": found[0]["hits"] + 1}))
