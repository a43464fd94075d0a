"""Many charges at once: counts are kept, lists have pages, and long work lets other requests through."""

from __future__ import annotations

import pytest

from leyden import Sandbox
from leyden.server.store.tinydb.table import IndexedTable

HOOK = "http://shop.localhost/hook"


def test_counts_are_read_without_reading_a_row(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        if number < 2:
            sandbox.wallet("ana").pay(charge)
    sandbox.advance("30s")

    def refuse(table: IndexedTable) -> None:
        raise AssertionError(f"a pass over {table.name}")

    monkeypatch.setattr(IndexedTable, "__iter__", refuse)
    assert sandbox.ask("GET", "/sandbox/v1")["charges"] == {"completed": 2, "pending": 3}
    waits = [({}, 2), ({"event": "charge.expired"}, 0), ({"event": "charge.completed", "status": "any"}, 2)]
    for wanted, count in waits:
        assert (
            sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 1, **wanted, "timeout": 0})["count"] == count
        )
