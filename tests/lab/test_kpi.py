"""Key figures: what they read, and that they are those of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.lab.kpi import quantile
from leyden.lightning.payer.payment_rows import payment_summary
from leyden.server.callbacks.attempts import delivery_summary
from leyden.server.charges.rows import charge_summary
from leyden.server.store.tables import row_map
from leyden.server.store.tables.row_map import RowMap, Summarize
from tests.lab.test_traffic import HOOK, busy


def test_all_figures_read_each_table_once_and_unpack_no_row(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_map, "UNPACKED_ROWS", 2)
    busy(sandbox, "every(10s)", count=60, callbackUrl=HOOK)
    sandbox.run()
    readings: list[str] = []
    read = RowMap.summaries

    def summaries(rows: RowMap, summarize: Summarize) -> dict[int, tuple[Any, ...]]:
        readings.append(summarize.__name__)
        return read(rows, summarize)

    def unpack(block: bytes) -> object:
        raise AssertionError("a packed row was read")

    monkeypatch.setattr(RowMap, "summaries", summaries)
    monkeypatch.setattr(row_map, "unpack_after_summary", unpack)
    kpi = sandbox.kpi
    for read_all in (kpi.row, lambda: kpi.by("10m"), lambda: kpi.by("1s"), kpi.by_amount):
        readings.clear()
        read_all()
        assert sorted(readings) == ["charge_summary", "delivery_summary", "payment_summary"]


def test_a_summary_is_that_of_the_row_however_the_row_is_kept(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Packed with a summary or without, in a fork, loaded from a file, after changes and deletions."""
    monkeypatch.setattr(row_map, "UNPACKED_ROWS", 2)
    sandbox.receiver("shop").answers([500, 200])
    busy(sandbox, "every(30s)", behaviours="choice(pays:2, never:1)", callbackUrl=HOOK, count=90, expiresIn=300)
    sandbox.advance("20m")
    plain = Sandbox(seed=5)
    charges = plain.world.service.charges.charges
    charges._data.summarize = None  # type: ignore[attr-defined]
    busy(plain, "every(30s)", callbackUrl=HOOK, count=60, expiresIn=300)
    plain.run()
    charges.declare_summary(charge_summary)
    sandbox.save(tmp_path / "saved.json")
    for each in (sandbox, sandbox.fork(), Sandbox.load(tmp_path / "saved.json"), plain):
        world = each.world
        tables: tuple[tuple[Any, Any], ...] = (
            (world.service.charges.charges, charge_summary),
            (world.payments.rows, payment_summary),
            (world.service.outbox.rows, delivery_summary),
        )
        for table, summarize in tables:
            rows = table._data.rows
            assert len(rows) >= 20
            expected = {doc_id: summarize(row) for doc_id, row in rows.items()}
            assert table.summaries() == expected
            pages = [table.summaries_up(None, 9)]
            while pages[-1]:
                pages.append(table.summaries_up(max(pages[-1]), 9))
            assert [len(page) for page in pages[:-2]] == [9] * (len(pages) - 2)
            assert [item for page in pages for item in page.items()] == sorted(expected.items())
            assert table.summaries_up(None, 10**30) == expected


def test_callback_figures_are_those_of_the_attempts(sandbox: Sandbox) -> None:
    shop = sandbox.receiver("shop")
    shop.answers([500, Reply(200, delay=0.12), Reply(204, delay=0.08), 410])
    for number in range(4):
        charge = sandbox.charges.create(amount="250000", description=f"C{number}", callbackUrl=HOOK)
        sandbox.wallet("ana").pay(charge)
    sandbox.run()
    expected_ms, notified_s = [], []
    callbacks = sandbox.callbacks
    for delivery in sandbox.deliveries.itertuples():
        own = callbacks[callbacks.delivery_id == delivery.id]
        answered = own[own.http_status.between(200, 299)]
        if len(answered):
            expected_ms.append(float(answered.iloc[0].latency_ms))
            notified_s.append((answered.iloc[0].answered_at - delivery.created_at).total_seconds())
    assert sorted(expected_ms) == [0.0, 80.0, 120.0]
    for q in (0, 0.25, 0.5, 1):
        assert sandbox.kpi.callback_ms(q) == quantile(expected_ms, q)
        assert sandbox.kpi.notified_s(q) == pytest.approx(quantile(notified_s, q))
    assert sandbox.kpi.row()["callback_p95_ms"] == quantile(expected_ms, 0.95)


def test_figures_by_amount_are_those_of_the_charges_of_each_band(sandbox: Sandbox) -> None:
    busy(sandbox, behaviours="choice(pays:2, never:1)", callbackUrl=HOOK, count=60, amount="uniform(1000, 200000)")
    sandbox.run()
    charges = sandbox.charges.table
    for bounds, starts in ((None, (1_000, 10_000, 100_000)), ((50_000, 60_000), (0, 50_000, 60_000))):
        table = sandbox.kpi.by_amount(bounds)
        assert list(table.index) == list(starts)
        for start, after in zip(starts, (*starts[1:], 10**9), strict=True):
            own = charges[(charges.amount_msat >= start) & (charges.amount_msat < after)]
            assert table.created[start] == len(own)
            assert table.completed[start] == (own.status == "completed").sum()
            assert table.received_msat[start] == own.received_msat.sum()
        assert table.callbacks.sum() == sandbox.kpi.callbacks
    for wrong in ([0], [5, 5], [7, 3], ["x"]):
        with pytest.raises(ValueError, match="bounds_msat"):
            sandbox.kpi.by_amount(wrong)  # type: ignore[arg-type]
