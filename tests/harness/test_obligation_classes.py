"""Each class of obligations finds a defect that the rest of the harness cannot see."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from leyden.harness.runs.cases import Case, play, read_case
from leyden.harness.runs.describe import describe_step
from leyden.harness.targets.target import DAMAGES, RESTARTS, InProcess
from leyden.server.callbacks.delivery_row import endpoint_of
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges import lnurl_pay
from leyden.server.charges.charges import ChargeService
from leyden.server.errors import NotAcceptable, StoreError
from leyden.server.http import idempotency
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.request_parsing import RequestParser
from leyden.server.store import compaction, table
from leyden.server.store.compaction import ROWS_PER_STEP, Compaction
from leyden.server.store.storage import JournalStorage
from leyden.server.store.tables.index import Index
from leyden.server.store.tables.row_map import BLOCK_ROWS, UNPACKED_ROWS, RowMap
from leyden.world.persistence import row_checks
from leyden.world.persistence.number_checks import check_counters
from tests.support.deep import deep
from tests.support.obligations import violation_of

URL = "http://r1.inbox.localhost/hook"
CHARGE: Any = {"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": "tea", "callbackUrl": URL}}


@deep("test_a_success_message_that_is_cut_at_bytes")
def test_a_page_that_ends_with_the_first_portion_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_portion(*args: Any, **options: Any) -> Any:
        yield from [*original(*args, **options)][:1]

    original = table.id_portions
    monkeypatch.setattr(table, "id_portions", first_portion)
    assert violation_of("long-list") is not None


def test_an_index_without_the_rows_whose_value_was_null(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Index.add

    def added(self: Index, value: Any, doc_id: int) -> None:
        if value != "b" or doc_id % 2:
            add(self, value, doc_id)

    monkeypatch.setattr(Index, "add", added)
    assert violation_of("change", "internalId") is not None


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda body: {**body, "x": str(body.get("x"))[:8]}, "same-body"),
        (lambda body: {name: value for name, value in body.items() if value is not None}, "same-body"),
        (lambda body: {name: value.strip() if isinstance(value, str) else value for name, value in body.items()},
         "same-body"),
        (lambda body: [*body.items()], "same-body"),
    ],
)  # fmt: skip
def test_bodies_that_are_taken_for_the_same_request(
    spoil: Callable[[dict[str, Any]], Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = idempotency._fingerprint
    monkeypatch.setattr(idempotency, "_fingerprint", lambda body: original(spoil(body)))
    assert violation_of(kind) is not None


def test_a_key_that_is_compared_without_its_last_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    original = idempotency._row_id
    monkeypatch.setattr(idempotency, "_row_id", lambda project, name, key: original(project, name, key[:240]))
    assert violation_of("same-request") is not None


def test_a_response_that_is_stored_for_as_long_as_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Idempotency.recall

    def recall(self: Any, *name: Any) -> Any:
        stored = original(self, *name)
        if stored is not None:
            self.remember(*name, stored.status, stored.body)
        return stored

    monkeypatch.setattr(Idempotency, "recall", recall)
    assert violation_of("retention") is not None


def test_a_success_message_that_is_cut_at_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    original = lnurl_pay.LnurlPayService.request_invoice

    @wraps(original)
    def request_invoice(self: Any, request: Any) -> Any:
        answer = original(self, request)
        if "successAction" in answer:
            message = answer["successAction"]["message"].encode()[:144].decode(errors="ignore")
            answer["successAction"] = {**answer["successAction"], "message": message}
        return answer

    monkeypatch.setattr(lnurl_pay.LnurlPayService, "request_invoice", request_invoice)
    assert violation_of("change", "successMessage") is not None
    monkeypatch.undo()
    assert violation_of("change", "successMessage") is None


def test_a_port_that_no_callback_is_sent_to(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Outbox.enqueue

    def enqueue(self: Any, *, url: str, **delivery: Any) -> None:
        original(self, url=url.replace(":1023", ""), **delivery)

    monkeypatch.setattr(Outbox, "enqueue", enqueue)
    assert violation_of("url", "1023") is not None


def test_a_header_of_a_callback_that_the_document_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithHeader(InProcess):
        def begin(self, *args: Any, **options: Any) -> None:
            super().begin(*args, **options)
            receivers = self.sandbox.world.receivers
            original = receivers._receive

            def receive(name: str, post: Any, *rest: Any) -> None:
                original(name, post._replace(headers={**post.headers, "cookie": "a=b"}), *rest)

            receivers._receive = receive  # type: ignore[method-assign]

    case = Case((CHARGE, {"do": "fail", "charge": "c1"}))
    assert "cookie" in str(play(case, WithHeader()).violation)
    assert play(case).violation is None


def test_numbers_of_an_unknown_field_that_are_compared_as_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(body: dict[str, Any]) -> dict[str, Any]:
        return {name: float(value) if type(value) is int else value for name, value in body.items()}

    original = idempotency._fingerprint
    monkeypatch.setattr(idempotency, "_fingerprint", lambda body: original(spoil(body)))
    assert violation_of("same-value") is not None


def test_an_endpoint_that_is_open_again_after_a_replay_and_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Outbox.resume

    def resume(self: Outbox, *args: Any) -> None:
        original(self, *args)
        delivered = {endpoint_of(row) for row in self.rows if row["status"] == "delivered"}
        self._in_flight.disabled -= delivered

    monkeypatch.setattr(Outbox, "resume", resume)
    assert violation_of("410", "restarts") is not None


# Durability


def test_a_callback_that_is_stored_after_the_change_that_it_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart between two steps does not show it: only a kill between two commits of one does."""
    # Such a directory is refused, because the number of the callback is not in the row of its Charge.
    monkeypatch.setattr(row_checks, "_CHECKS", [one for one in row_checks._CHECKS if one is not check_counters])
    notify = ChargeService._notify
    late: list[Any] = []
    monkeypatch.setattr(ChargeService, "_notify", lambda self, *args: late.append((self, args)))
    send = InProcess.send

    def send_late(self: InProcess, *args: Any) -> Any:
        response = send(self, *args)
        for service, (draft, at) in late:
            with service._outbox._store.commit():
                notify(service, {**draft}, at)
        late.clear()
        self.sandbox.world.catch_up()
        return response

    monkeypatch.setattr(InProcess, "send", send_late)
    fail: Any = {"do": "fail", "charge": "c1"}
    assert play(Case((CHARGE, fail, {"do": "restart"}), disk=True)).violation is None
    result = play(Case((CHARGE, {"do": "crash", "steps": [fail]}), disk=True))
    assert "killed after 1 commits" in str(result.violation)


def test_a_charge_that_does_not_expire_after_a_kill_within_an_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    expire: Any = {"do": "advance", "to": ["expiry", "c1"], "offset": 0}
    case = Case((CHARGE, {"do": "crash", "steps": [expire]}), disk=True)
    assert play(case).violation is None
    monkeypatch.setattr(ChargeService, "resume", lambda self: None)
    assert "expired" in str(play(case).violation)


def test_files_that_others_may_read_are_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        return original(path, flags, 0o644 if str(path).endswith("charges.journal") else mode, **more)

    original = os.open
    case = Case((CHARGE, {"do": "restart", "how": "damaged"}), disk=True)
    monkeypatch.setattr(os, "open", opened)
    assert "charges.journal, which others may read" in str(play(case).violation)


def test_a_recovery_that_leaves_a_directory_which_is_refused_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        if path.name != "charges.end":
            original(path, missing_ok=missing_ok)

    original = Path.unlink
    case = Case((CHARGE, {"do": "restart", "how": "damaged"}), disk=True)
    monkeypatch.setattr(Path, "unlink", unlink)
    assert "recovered" in str(play(case).violation)


def test_a_damaged_journal_that_is_opened_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case((CHARGE, {"do": "restart", "how": "damaged"}), disk=True)
    assert play(case).violation is None
    monkeypatch.setattr("leyden.server.store.end_mark.EndMark.check", lambda *args, **options: None)
    violation = play(case).violation
    assert violation is not None
    for damage in ("without its last line", "missing", "without its end, from the middle of a line"):
        assert f"'{damage}'" in violation.observed


@pytest.mark.parametrize("how", RESTARTS)
def test_a_service_has_the_same_state_after_each_kind_of_restart(how: str) -> None:
    steps = (CHARGE, {"do": "fail", "charge": "c1"}, {"do": "restart", "how": how}, {"do": "get", "what": "c1"})
    result = play(Case(steps, disk=True))
    assert result.violation is None
    assert result.skipped == 0
    assert read_case(Case(steps, disk=True).document()).steps == steps
    described = (
        "take snapshots, delete one, and return to the last one" if how == "snapshot" else "start it on its data"
    )
    assert described in describe_step(steps[2])


def test_a_compaction_that_loses_a_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def compact(self: JournalStorage) -> None:
        raise StoreError("no")

    assert set(DAMAGES) >= {"without its last line", "empty"}
    monkeypatch.setattr(JournalStorage, "compact", compact)
    result = play(Case((CHARGE, {"do": "restart", "how": "compact"}), disk=True))
    assert result.violation is not None


def test_a_commit_during_a_compaction_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compaction, "add_commit", lambda *args: None)
    assert violation_of("during") is not None


@deep("test_a_success_message_that_is_cut_at_bytes")
def test_a_large_table_that_a_compaction_cuts_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole_portions(tables: Any) -> Any:
        return ((body, count) for body, count in pieces(tables) if count in (0, 1, ROWS_PER_STEP))

    pieces = compaction._pieces
    monkeypatch.setattr(compaction, "_pieces", whole_portions)
    assert violation_of("long history") is not None


@deep("test_a_success_message_that_is_cut_at_bytes")
def test_a_row_that_is_packed_with_former_content_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowMap, "pack", with_former_content)
    assert violation_of("long history") is not None


def with_former_content(self: RowMap, replaced: Iterable[int], summarize: Any = None) -> None:
    """As `RowMap.pack`, but it packs rows that were replaced since, too."""
    cells = self._cells
    queue = self._written = deque() if self._written is None else self._written
    queue.extend((doc_id, cell) for doc_id in replaced if isinstance(cell := cells.get(doc_id), dict))
    while len(queue) > UNPACKED_ROWS:
        self._pack_rows(dict([queue.popleft() for _ in range(BLOCK_ROWS)]), summarize)


@pytest.mark.parametrize(
    ("place", "name", "spoilt", "found"),
    [
        ("leyden.server.store.lock.fcntl", "flock", lambda *args: None, "in use by another sandbox"),
        ("leyden.world.stored_snapshots.StoredSnapshots", "page", lambda *args: [], "a list of other snapshots"),
    ],
)
def test_a_lock_and_a_list_of_snapshots(
    monkeypatch: pytest.MonkeyPatch, place: str, name: str, spoilt: Any, found: str
) -> None:
    monkeypatch.setattr(f"{place}.{name}", spoilt)
    how = "damaged" if name == "flock" else "snapshot"
    assert found in str(play(Case((CHARGE, {"do": "restart", "how": how}), disk=True)).violation)


def test_time_that_passes_in_python_is_kept_by_a_restart() -> None:
    passes: Any = {"do": "advance", "by": 1_000, "how": "python"}
    steps = (CHARGE, passes, {"do": "restart", "how": "kill"}, {"do": "get", "what": "c1"})
    assert play(Case(steps, disk=True)).violation is None
    assert "in Python" in describe_step(passes)
    assert read_case(Case(steps, disk=True).document()).steps == steps


def test_a_resource_is_followed_only_after_a_request_that_created_it() -> None:
    refused: Any = {**CHARGE, "body": {"amount": "1"}}
    follow: Any = {"do": "follow", "what": "c1"}
    assert play(Case((refused, follow))).violation is None
    result = play(Case((CHARGE, follow)))
    assert result.violation is None
    assert ("row", "Charge", "pending", "payment_settled", "before_expiry", "completed") in result.reached
    assert describe_step(follow).startswith("use c1")


def test_media_types_that_are_checked_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RequestParser.parse_body

    def accept_first(self: RequestParser, body: bytes, headers: Any) -> Any:
        if headers.get(b"accept") == b"text/html":
            raise NotAcceptable("responses are JSON")
        return original(self, body, headers)

    monkeypatch.setattr(RequestParser, "parse_body", accept_first)
    assert violation_of("content type and", "accept") is not None
    assert violation_of("accept and") is None
