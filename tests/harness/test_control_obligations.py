"""Obligations of the control plane: every list of its document has them, and each class finds a defect."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.callbacks.faults.faults import Faults
from leyden.devserver.control import copies, operations, pages
from leyden.devserver.control.callbacks.deliveries import CallbackControl
from leyden.devserver.control.charges import ChargeControl
from leyden.devserver.control.schedule import ScheduleControl
from leyden.devserver.request_log.resources import RequestRows
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.conformance.conformance import grouped_cases
from leyden.harness.control.documents import (
    control_document,
    control_lists,
    control_operations,
    lists_in,
    operations_in,
)
from leyden.harness.obligations.control import kept
from leyden.harness.obligations.control.lists import obligations_of
from leyden.harness.obligations.control.setups import host, rows, send
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import Case, play, read_case
from leyden.harness.runs.describe import describe_step
from leyden.harness.runs.run import Run
from leyden.harness.targets.target import InProcess
from leyden.server.store.table import RowTable
from leyden.world.time.clock import VirtualClock
from leyden.world.world import World
from tests.support.deep import deep, deep_or

START_MS = 1_893_456_000_000
OBLIGATIONS = tuple(one for one in all_obligations() if one.setup.startswith("control"))


def violation_of(*texts: str) -> ContractViolation | None:
    """The first violation of the obligations with all of these texts in their names."""
    chosen = [one for one in OBLIGATIONS if all(text in one.id for text in texts)]
    assert chosen
    found = (play(case).violation for case in obligation_cases(chosen))
    return next((one for one in found if one is not None), None)


def test_every_list_of_the_document_has_obligations_of_each_kind() -> None:
    for one in control_lists():
        kinds = {each.kind for each in obligations_of(one)}
        assert {"list-pages", "list-limit", "list-cursor", "list-unknown", "list-twice"} <= kinds, one.name
        for name, parameter in one.filters.items():
            if parameter["schema"].get("type") != "boolean":
                asked = [each for each in obligations_of(one) if each.place.endswith(f"query.{name}") and each.steps]
                assert {"list-filter", "list-search"} & {each.kind for each in asked}, (one.name, name)
        assert all(each.steps for each in obligations_of(one))


def test_a_list_that_the_document_gets_has_obligations_or_is_named_as_one_that_nobody_asks() -> None:
    document = control_document()
    paths = document["paths"]
    item = {**paths["/sandbox/v1/faults"]}
    whole = {"paths": {"/sandbox/v1/new": {"get": {**item["get"], "operationId": "listNew"}}}}
    (one,) = lists_in(tuple(operations_in({**document, **whole})))
    (unasked,) = obligations_of(one)
    assert (unasked.place, unasked.kind, unasked.steps) == ("listNew", "rows", ())


def test_a_filter_whose_words_are_not_known_is_named() -> None:
    one = next(each for each in control_lists() if each.name == "listSnapshots")
    other = {**one.operation.parameters, "size": {"schema": {"type": "string"}, "description": "Those of a size."}}
    changed = one._replace(operation=one.operation._replace(parameters=other))
    assert [each.place for each in obligations_of(changed) if not each.steps] == ["listSnapshots query.size"]


@deep("test_a_page_that_has_a_next_one_too_many")
def test_the_setups_have_more_rows_than_a_page_and_than_a_portion() -> None:
    run = Run(InProcess(), start_ms=START_MS)
    try:
        assert run.do(host(rows(120)))
        few = {"listSnapshots": 18, "listSandboxStaticCharges": 90}
        for one in control_lists():
            if "/network/" not in one.operation.path and not one.operation.has_path_parameters:
                assert len(run.host.full(one)) >= few.get(one.name, pages.READ_AT_ONCE + 1), one.name
    finally:
        run.target.end()


def test_a_case_of_the_control_plane_is_read_as_it_was_written_and_described() -> None:
    kinds = (
        "list-filter",
        "list-search",
        "list-between-pages",
        "charge",
        "count",
        "replay-filter",
        "kept",
        "live-clock",
    )
    for kind in deep_or(bounded=kinds[:6:2], full=kinds):
        chosen = [one for one in OBLIGATIONS if one.kind == kind][: deep_or(bounded=1, full=2)]
        for case in obligation_cases(chosen):
            assert read_case(case.document()).steps == case.steps
            assert play(case).violation is None
            assert all(step["do"] not in describe_step(step) for step in case.steps if step["do"] != "host")


def test_a_violation_names_the_request_that_showed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "has_text", lambda row, kind, text, lnurl: True)
    step: Any = {"do": "control_list", "operation": "listSandboxCharges", "check": "filter",
                 "draw": [["text", "first", "one-off"]]}  # fmt: skip
    create = send("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
    result = play(Case((host((create,)), step)))
    assert "listSandboxCharges?text=" in str(result.violation)
    assert result.revealed is not None
    assert result.revealed[0].path.startswith("/sandbox/v1/charges?")


@pytest.mark.parametrize("name", ["listSandboxCharges", "listSandboxStaticCharges"])
def test_a_text_that_is_no_state_of_the_lifecycle_is_to_be_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of(f"{name} query.status list-filter") is None
    monkeypatch.setattr(ChargeControl, "_check_status", lambda *_: None)
    violation = violation_of(f"{name} query.status list-filter first one-off")
    assert violation is not None
    assert "400 about query.status" in str(violation)


def test_a_text_that_is_no_state_is_to_be_refused_beside_another_filter() -> None:
    assert violation_of("listSandboxCharges query.status+", "first one-off") is None


# Defects


def test_a_page_that_has_a_next_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sliced_page(call: Any, kind: str, *given: Any, **options: Any) -> Any:
        found = await original(call, kind, *given, **options)
        full = found["next"] is None and len(found["data"]) == call.query["limit"]
        return {**found, "next": pages.cursor(pages.KINDS[kind], 1)} if full else found

    original = pages.sliced_page
    monkeypatch.setattr(operations, "sliced_page", sliced_page)
    assert violation_of("listPayments", "list-pages") is not None


@deep("test_a_page_that_has_a_next_one_too_many")
def test_a_search_that_reads_one_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "READ_AT_ONCE", 10**9)
    assert violation_of("listSandboxCharges query.text list-search first same") is None
    original = pages.searched_page

    async def searched_page(call: Any, read: Any, *args: Any, **options: Any) -> Any:
        return await original(call, lambda after, limit: read(after, 100), *args, **options)

    monkeypatch.setattr("leyden.devserver.control.charges.searched_page", searched_page)
    assert violation_of("listSandboxCharges query.text list-search last same") is not None


def test_deliveries_of_a_static_charge_that_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def filters(self: Any, wanted: Any) -> Any:
        found = original(self, wanted)
        return {"resource_id" if name == "endpoint_id" else name: value for name, value in found.items()}

    original = CallbackControl._filters
    monkeypatch.setattr(CallbackControl, "_filters", filters)
    assert violation_of("listDeliveries query.chargeId list-filter") is not None


@deep("test_a_page_that_has_a_next_one_too_many")
def test_a_scheduled_event_that_two_pages_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_due_events(self: Any, call: Any) -> Any:
        after = call.query.get("after")
        if after is not None:
            call.query["after"] = f"{max(0, int(after, 16) - 1):016x}"
        return original(self, call)

    original = ScheduleControl.list_due_events
    list_due_events.__dict__.update(original.__dict__)
    monkeypatch.setattr(ScheduleControl, "list_due_events", list_due_events)
    assert violation_of("listDueEvents list-pages") is not None


def test_requests_of_the_charges_of_a_static_charge_that_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestRows, "_static_of", lambda self, charge_id: None)
    assert violation_of("listRequests query.chargeId list-filter") is not None


# State


def test_every_operation_that_changes_something_has_obligations_of_kept_state(monkeypatch: pytest.MonkeyPatch) -> None:
    changing = {one.name for one in control_operations() if one.method != "GET"}
    asked = {one.place for one in OBLIGATIONS if one.kind == "kept" and one.steps}
    assert changing - asked == set(kept._NO_STATE)
    monkeypatch.delitem(kept.EXERCISES, "addPayer")  # type: ignore[misc]
    assert [one.place for one in kept.kept_obligations() if not one.steps] == ["addPayer"]


def test_a_replay_of_the_first_portion_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def page_up(self: Any, filters: Any, after: Any, *args: Any) -> Any:
        return original(self, filters, after, *args) if after is None else []

    original = RowTable.page_up
    monkeypatch.setattr(RowTable, "page_up", page_up)
    assert violation_of("replay-filter status delivered") is not None


def test_a_replay_that_sends_the_last_of_each_portion_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def page_up(self: Any, filters: Any, after: Any, *args: Any) -> Any:
        return original(self, filters, None if after is None else after - 1, *args)

    original = RowTable.page_up
    monkeypatch.setattr(RowTable, "page_up", page_up)
    assert violation_of("replay-filter event of the first row") is not None


def test_a_rate_that_a_restart_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("setClock live-clock rate 60, close") is None
    saved = World.saved
    monkeypatch.setattr(World, "saved", staticmethod(lambda store: (row := saved(store)) and {**row, "rate": 1.0}))
    assert violation_of("setClock live-clock rate 60, close") is not None
    assert violation_of("setClock rate 60 kept close") is not None


def test_time_that_a_clock_does_not_make_up_for_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VirtualClock, "resume_from", lambda *args: None)
    assert violation_of("setClock live-clock rate 1, close") is not None


def test_uses_of_a_fault_that_a_restart_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    def resume(self: Faults) -> None:
        for row in list(self._faults):
            self._faults.put({**row, "hits": 0})
        original(self)

    original = Faults.resume
    monkeypatch.setattr(Faults, "resume", resume)
    assert violation_of("clearFault kept kill") is not None


def test_the_conformance_run_has_the_cheapest_of_each_class(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {case.name: case for case in grouped_cases("control plane")}
    played = [*cases.values()][:: deep_or(bounded=4, full=1)]  # `test_conformance.py` plays all
    results = [play(case) for case in played]
    assert [result.violation for result in results] == [None] * len(played)
    assert sum(result.skipped for result in results) == 0
    original = CallbackControl._filters
    monkeypatch.setattr(
        CallbackControl, "_filters", lambda self, wanted: {**original(self, wanted), "endpoint_id": "x"}
    )
    assert play(cases["conformance: control plane: lists"]).violation is not None


def test_a_rate_that_a_restore_does_not_return_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("setClock rate 60 kept restore") is None
    original = copies.return_to
    monkeypatch.setattr(copies, "return_to", lambda world, state, rate: original(world, state, world.clock.rate))
    assert violation_of("setClock rate 60 kept restore") is not None
