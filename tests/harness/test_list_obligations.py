"""Obligations of lists that are read in portions, change, and have pairs of filters; and of many open invoices and
stored answers. Each class finds a defect."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.devserver.control import pages
from leyden.devserver.control.schedule import ScheduleControl
from leyden.devserver.request_log import resources
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.control.list_checks import EVERY
from leyden.harness.engines.obligations import _first_of_each
from leyden.harness.obligations.control.setups import PORTIONS, advance, charge, host, pay, send
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.runs.cases import Case, play, read_case
from leyden.rng import RandomStreams
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.lists import position
from leyden.server.http.idempotency import Idempotency
from leyden.server.store import table
from leyden.server.store.table import RowTable
from leyden.world.stored_snapshots import StoredSnapshots
from tests.support.deep import deep


def chosen_of(kind: str, *texts: str) -> list[Obligation]:
    """The obligations of a kind with all of these texts in their names."""
    chosen = [one for one in all_obligations() if one.kind == kind and all(text in one.id for text in texts)]
    assert chosen
    return chosen


def violation_of(kind: str, *texts: str) -> ContractViolation | None:
    """The first violation of these obligations."""
    found = (play(case).violation for case in obligation_cases(chosen_of(kind, *texts)))
    return next((one for one in found if one is not None), None)


def after(*steps: Any, asks: list[Obligation]) -> ContractViolation | None:
    """The violation of obligations after these steps, instead of those of their setup. Every one of them is played."""
    result = play(Case((host(steps), *(step for one in asks for step in one.steps))))
    assert result.skipped == 0
    return result.violation


# Pairs of filters

TWO_DAYS = (
    charge(1, "c"), pay("c", 1, amount="1"), advance("1h"), pay("c", 1), charge(1, "d"), pay("d", 1), pay("d", 1),
    advance("1h"),
)  # fmt: skip


def test_each_pair_of_filters_of_each_list_is_among_the_first() -> None:
    firsts = _first_of_each(all_obligations(), RandomStreams(1).stream("obligations"))
    for kind in ("filter-pair", "list-filter-pair", "list-changed:removed first"):
        places = {one.place for one in chosen_of(kind)}
        assert len(places) >= 5
        assert {one.place for one in chosen_of(kind) if one.id in firsts} == places


@pytest.mark.parametrize("names", ["chargeId+status", "status+createdAfter"])
def test_a_filter_without_effect_beside_another_one(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = chosen_of("list-filter-pair", f"listPayments query.{names}")
    assert after(*TWO_DAYS, asks=asks) is None
    original = RowTable.page

    def page(self: Any, filters: Any = None, *args: Any, **bounds: Any) -> Any:
        wanted = dict(list((filters or {}).items())[:1])
        return original(self, wanted, *args, **({} if wanted else bounds))

    monkeypatch.setattr(RowTable, "page", page)
    assert "listPayments" in str(after(*TWO_DAYS, asks=asks))


def test_a_pair_of_filters_needs_values_of_which_each_has_an_effect() -> None:
    step: Any = {"do": "control_list", "operation": "listPayments", "check": "pair",
                 "draw": [["status", EVERY, "same"], ["chargeId", EVERY, "same"]]}  # fmt: skip
    assert play(Case((host((charge(1, "c"), pay("c", 1))), step))).skipped == 1


# Portions


@deep("test_a_list_that_ends_with_a_portion_without_a_match")
def test_the_setup_has_rows_for_every_filter_of_portions() -> None:
    asked = chosen_of("list-portions")
    assert len(asked) == sum(map(len, PORTIONS.values()))
    for case in obligation_cases([one for one in asked if "listPayments" in one.place or "listRequests" in one.place]):
        result = play(case)
        assert (result.violation, result.skipped) == (None, 0)


def test_a_list_that_ends_with_a_portion_without_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    original = table._matching
    monkeypatch.setattr(table, "id_portions", _until_no_match(table.id_portions, original))
    assert violation_of("portions", "listStaticCharges query portions status expired by 13") is not None
    assert violation_of("list-portions", "listSandboxStaticCharges query.status") is not None


def _until_no_match(portions: Any, matching: Any) -> Any:
    def id_portions(data: Any, wanted: Any, *args: Any, **options: Any) -> Any:
        for ids in portions(data, wanted, *args, **options):
            yield ids
            if not matching(data.rows, ids, wanted):
                return

    return id_portions


@pytest.mark.parametrize("text", ["Early", "lone"])
def test_a_search_that_leaves_out_a_row_after_each_portion(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = pages.searched_page

    async def searched_page(call: Any, read: Any, *args: Any, **options: Any) -> Any:
        def read_after(last: int | None, limit: int) -> Any:
            cursor = position(call.query.get("after"))
            return read(last if last == cursor or last is None else last - 1, limit)

        return await original(call, read_after, *args, **options)

    monkeypatch.setattr("leyden.devserver.control.charges.searched_page", searched_page)
    assert violation_of("list-portions", "listSandboxStaticCharges", f"text {text}") is not None


# Changes


def test_a_snapshot_that_gets_the_number_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = send("POST", "/sandbox/v1/snapshots", {}, count=9)
    asks = [one for kind in ("removed first", "removed last", "removed first two", "removed later", "removed again")
            for one in chosen_of(f"list-changed:{kind}", "listSnapshots")]  # fmt: skip
    assert after(snapshots, asks=asks) is None
    original = StoredSnapshots.delete

    def delete(self: Any, snapshot_id: str) -> Any:
        self._count -= 1
        return original(self, snapshot_id)

    monkeypatch.setattr(StoredSnapshots, "delete", delete)
    assert after(snapshots, asks=asks) is not None


def test_a_next_page_that_is_empty_when_the_event_before_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [charge(1, f"c{minutes}", expiresIn=60 * minutes) for minutes in range(1, 9)]
    asks = chosen_of("list-between-pages-run", "run at the cursor")
    assert after(*events, asks=asks) is None
    original = ScheduleControl.list_due_events

    def list_due_events(self: Any, call: Any) -> Any:
        number = position(call.query.get("after"))
        if number is not None and all(entry[2] != number for entry in self._world.clock.timers()):
            return {"data": [], "next": None}
        return original(self, call)

    list_due_events.__dict__.update(original.__dict__)
    monkeypatch.setattr(ScheduleControl, "list_due_events", list_due_events)
    assert after(*events, asks=asks) is not None


def test_requests_without_a_response_that_every_status_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    original = resources._has_status
    monkeypatch.setattr(resources, "_has_status", lambda row, wanted: row.status is None or original(row, wanted))
    assert "listRequests?status=" in str(
        violation_of("list-filter", "listRequests query.status list-filter first same")
    )


def test_a_step_whose_response_is_lost_is_read_as_it_was_written() -> None:
    fault = send("POST", "/sandbox/v1/service-faults", {"kind": "connection_reset", "operation": "getWallet"})
    lost = send("GET", "/v0/wallet", status=0)
    case = Case((host((fault, lost)),))
    assert read_case(case.document()).steps == case.steps
    assert play(case).violation is None
    assert "the status 0" in str(play(Case((host((lost,)),))).violation)
    assert "a response" in str(play(Case((host((fault, send("GET", "/v0/wallet"))),))).violation)


# Many


@pytest.mark.parametrize("end", ["the last slot", "fewer slots"])
def test_a_service_that_closes_the_first_hundred_invoices(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("many-open-invoices", end) is None
    original = ChargeService.outstanding
    monkeypatch.setattr(ChargeService, "outstanding", lambda self, static_id: original(self, static_id)[:100])
    assert violation_of("many-open-invoices", end) is not None


def test_a_service_that_stores_a_thousand_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    _limit_answers(monkeypatch)
    assert "again" in str(violation_of("many-keys"))


@deep("test_a_service_that_stores_a_thousand_answers")
def test_a_service_that_stores_every_answer() -> None:
    assert violation_of("many-keys") is None


def _limit_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Idempotency.remember

    def remember(self: Any, *args: Any) -> None:
        while len(self._rows) > 1_000:
            self._rows.delete(self._rows.oldest()["id"])
        original(self, *args)

    monkeypatch.setattr(Idempotency, "remember", remember)
