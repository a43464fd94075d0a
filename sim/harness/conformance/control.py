"""Conformance scenarios of the control plane: the cheapest obligations of each class, on a server that the case
hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leyden.harness.conformance.scenario import Scenarios
from leyden.harness.obligations.control.callbacks.replays import replay_obligations
from leyden.harness.obligations.control.clock import clock_obligations
from leyden.harness.obligations.control.lists import DIRECT, SMALL, control_list_obligations
from leyden.harness.obligations.control.setups import charge, host, rows, send
from leyden.harness.obligations.machine.pending import pending_obligations
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.obligations.whole.aged import aged_obligations
from leyden.harness.obligations.whole.apart import apart_obligations
from leyden.harness.steps import Step

_KINDS = ("list-order", "list-pages", "count")
_CASES = ("middle same", "middle +0-ms", "middle +1-ms", "created", "removed at the cursor")
_CLOCK = ("rate 60, close for 45000 ms", "rate 0.5, advances")
# These read every request with its bodies, or more entries than the others together.
_VALUES = ("listDeliveries query.chargeId list-filter every same", "listPayments query.status list-filter every same")
_LONG = ("listRequests query.text", "listRequests query.text+", "getJournal", "listRequests list-pages")


def control_scenarios() -> Scenarios:
    """Every list in pages, with its filters and with changes between pages; a replay in two portions; a live clock."""
    replays = [step for one in replay_obligations() if one.case in ("all", "51 ids") for step in one.steps]
    clocks = {f"control plane: {one.case}": [*one.steps] for one in clock_obligations() if one.case in _CLOCK}
    return {
        **{f"control plane: {one.case}": [*one.steps] for one in _whole()},
        "control plane: lists": [host(rows(6)), *_steps(_chosen(control_list_obligations()))],
        "control plane: replays": [host(_deliveries()), *replays],
        **clocks,
    }


# Copies and bounds whose sandboxes have some of everything.
_WHOLE = (
    "scriptInbox, restore", "createSnapshot, fork", "addServiceFault, fork of a snapshot", "addPayer, import",
    "addFault, forked", "addFault, restore", "createApiKey, 2", "end of an endpoint of a Static Charge, 1, kill",
    "messages in flight, fork",
)  # fmt: skip


def _whole() -> Iterator[Obligation]:
    for one in (*apart_obligations(), *aged_obligations(), *pending_obligations()):
        if one.case in _WHOLE:
            yield one


_OF_LISTS = frozenset({"list-filter", "list-search", "list-between-pages"})


def _steps(obligations: Iterable[Obligation]) -> Iterator[Step]:
    return (step for one in obligations for step in one.steps)


def _chosen(obligations: Iterable[Obligation]) -> Iterator[Obligation]:
    for one in obligations:
        wanted = one.kind in _KINDS or (one.kind in _OF_LISTS and one.case in _CASES)
        wanted = wanted or one.id in _VALUES
        if one.setup in (DIRECT, SMALL) and wanted and not one.id.startswith(_LONG):
            yield one


def _deliveries() -> tuple[Step, ...]:
    """More deliveries than are replayed at once."""
    fail = send("POST", "/sandbox/v1/charges/{lost.n.data.id}/fail", {}, count=55)
    return (charge(55, "lost"), fail, charge(4, "timed", expiresIn=1))
