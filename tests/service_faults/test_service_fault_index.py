"""The index of rules finds what a search through all of them finds, and a request reads a few rows."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.service_faults.index import ServiceFaultIndex
from leyden.service_faults.kinds import STALE_READ, ServiceFaultRow, fits, is_spent
from leyden.world.config import packaged_contract
from tests.support.index_commits import commit

OPERATIONS = packaged_contract("charges").operations
REQUESTS = [
    (OPERATIONS["createCharge"], "POST", "/v0/charges"), (OPERATIONS["listCharges"], "GET", "/v0/charges"),
    (OPERATIONS["getChargeDetails"], "GET", "/v0/charges/1"), (OPERATIONS["getWallet"], "GET", "/v0/wallet"),
]  # fmt: skip


def maybe(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values])


RULES = st.builds(
    dict, kind=st.sampled_from(["error", STALE_READ]), operation=maybe(["createCharge", "getChargeDetails"]),
    method=maybe(["GET", "POST"]), path=maybe(["/v0/charges", "/v0/*", "/v0/charges/1"]), count=maybe([1, 2]),
    until=maybe([3, 6]),
)  # fmt: skip
STEPS = st.lists(
    RULES.map(lambda rule: ("add", rule))
    | st.tuples(st.just("request"), st.tuples(st.sampled_from(REQUESTS), st.booleans()))
    | st.tuples(st.just("clear"), st.integers(1, 8))
    | st.tuples(st.just("later"), st.integers(1, 3)),
    max_size=12,
)


@settings(max_examples=300)
@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=5))
def test_the_index_finds_what_a_search_through_all_finds(commits: list[tuple[list[tuple[str, Any]], bool]]) -> None:
    store, now, added = Store(None), [0], 0
    rules = cast(TypedTable[ServiceFaultRow], store.table("service_faults"))
    index = ServiceFaultIndex(rules, lambda: now[0])
    store.register(index)
    for steps, is_written in commits:
        before = now[0]
        with commit(store, is_written=is_written):
            for step, value in steps:
                if step == "add":
                    added += 1
                    row = cast(ServiceFaultRow, {**value, "id": f"f{added}", "hits": 0})
                    rules.put(row)
                    index.add(row)
                elif step == "clear":
                    cleared = rules.row(f"f{value}")
                    if cleared is not None:
                        index.remove(cleared)
                        rules.delete(cleared["id"])
                elif step == "later":
                    now[0] += value
                else:
                    (operation, method, path), is_stale_read = value
                    left = [row for row in rules if not is_spent(row, now[0])]
                    assert len(index) == len(left)
                    assert index.has_stale_read() == any(row["kind"] == STALE_READ for row in left)
                    found = [*index.matching(operation, method, path, is_stale_read=is_stale_read)]
                    of_kind = [row for row in left if (row["kind"] == STALE_READ) == is_stale_read]
                    assert found == [row for row in of_kind if fits(row, operation, method, path)]
                    if found:
                        hit = cast(ServiceFaultRow, {**found[0], "hits": found[0]["hits"] + 1})
                        rules.put(hit)
                        if is_spent(hit, now[0]):
                            index.remove(hit)
        if not is_written:
            now[0] = before


@pytest.mark.parametrize(
    "conditions", [{"operation": "getWallet"}, {"method": "PATCH"}, {"path": "/v0/wallet"}, {"count": 1}], ids=str
)
def test_rules_that_do_not_match_are_not_read(row_reads: list[int], conditions: dict[str, Any]) -> None:
    costs = []
    for many in (10, 500):
        sandbox = Sandbox(seed=7)
        for _ in range(many):
            sandbox.service_faults.add("error", **conditions)
        if "count" in conditions:
            for _ in range(many):
                sandbox.ask("GET", "/sandbox/v1")
                sandbox.request("GET", "/v0/wallet")
        sandbox.request("GET", "/v0/charges")
        row_reads[0] = 0
        for _ in range(10):
            assert sandbox.request("GET", "/v0/charges").status == 200
            sandbox.ask("GET", "/sandbox/v1")
        costs.append(row_reads[0])
    assert costs[1] <= costs[0] + 20, costs
