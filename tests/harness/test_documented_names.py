"""The obligations of ignored names, numbers, blocked callbacks and directories find a defect of their class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pytest

from leyden.server.callbacks import outbox
from leyden.server.callbacks.deliveries import BLOCKED, PENDING, STOPPED
from leyden.server.callbacks.delivery_row import endpoint_of
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges import charges
from leyden.server.charges.charges import ChargeService
from leyden.server.http import idempotency, ignored_fields, request_parsing
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.projects import Projects
from leyden.server.store import storage
from leyden.server.store.table import RowTable
from leyden.world.time.timers import Timers
from tests.support.deep import deep
from tests.support.obligations import violation_of


def test_a_display_string_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_capitals(text: str) -> str:
        found = original(text)
        return found if not found.startswith("%") else found.upper()

    original = ignored_fields._string
    monkeypatch.setattr(ignored_fields, "_string", in_capitals)
    assert violation_of("ignored-name", "umlauts", "createCharge body") is not None


def test_a_fixed_value_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignored_fields, "_constants", lambda operation: {})
    assert violation_of("ignored-fixed", "other", "createCharge") is not None


@pytest.mark.parametrize("letters", ["-", "_", "idempotencykey"])
def test_a_slip_that_is_not_named(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_like(name: bytes) -> bool:
        text = name.decode()
        return original(name) and (letters in text if len(letters) == 1 else text != letters)

    original = ignored_fields._is_like_key
    monkeypatch.setattr(ignored_fields, "_is_like_key", is_like)
    assert violation_of("slip", "alone", "createCharge") is not None


@pytest.mark.parametrize("kind", [dict, list, int, type(None)])
def test_ignored_values_of_which_a_kind_is_left_out(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(body: Mapping[str, Any]) -> str:
        kept = {name: value for name, value in body.items() if name != "x" or not isinstance(value, kind)}
        return sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    monkeypatch.setattr(idempotency, "_fingerprint", fingerprint)
    assert violation_of("changed-field", "ignored", "createCharge") is not None


def test_a_key_that_is_in_use_after_its_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Idempotency, "is_known", lambda self, *of: self._rows.row(idempotency._row_id(*of)) is not None)
    assert violation_of("repeated-in-use", "a day", "createCharge") is not None


@pytest.mark.parametrize("status", ["expired", "pending", "delivered"])
def test_a_state_that_stays_counted(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(self: RowTable, *fields: str) -> dict[tuple[Any, ...], int]:
        found = original(self, *fields)
        return {names: count + (names[0] == status and len(found) > 1) for names, count in found.items()}

    original = RowTable.counts
    monkeypatch.setattr(RowTable, "counts", counts)
    assert violation_of("numbers") is not None


def test_a_query_that_is_read_with_replacements(monkeypatch: pytest.MonkeyPatch) -> None:
    original = request_parsing.parse_qsl
    monkeypatch.setattr(
        request_parsing, "parse_qsl", lambda text, **options: original(text, **{**options, "errors": "replace"})
    )
    assert violation_of("bytes", "never", "query.comment") is not None
    assert violation_of("list-bytes", "never", "listSandboxCharges query.text") is not None


def test_a_blocked_callback_that_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_status(row: Any, response: Any, rule: Any, now: int, *more: Any) -> tuple[str, int | None]:
        found = outcome(row, response, rule, now, *more)
        if found[0] != BLOCKED or row["id"] in tried:
            return found
        tried.add(row["id"])
        return PENDING, now + 5_000

    tried = set[str]()
    outcome = outbox.next_status
    monkeypatch.setattr(outbox, "next_status", next_status)
    assert violation_of("blocked", "127.0.0.1:9/ pay") is not None


def test_an_end_that_is_forgotten_when_its_delivery_was_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def resume(self: Outbox, *args: Any) -> None:
        opened(self, *args)
        told = {endpoint_of(row) for row in self._rows if row["status"] == STOPPED}
        self._in_flight.disabled.intersection_update(told)

    opened = Outbox.resume
    monkeypatch.setattr(Outbox, "resume", resume)
    assert violation_of("410-sent-again", "200, kill") is not None


def test_a_replaced_key_that_an_option_makes_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(self: Projects, name: str, key: str, *more: Any) -> Any:
        row = self._keys.row(key)
        if row is not None and "ended_at" in row:
            self._keys.put({"id": key, "project": name, "created_at": row["created_at"]})
        return added(self, name, key, *more)

    added = Projects.add
    monkeypatch.setattr(Projects, "add", add)
    assert violation_of("keys-at-a-start", "the first key, replaced, kill") is not None


def test_half_a_line_that_is_cut_off_with_the_end_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(descriptor: int, size: int) -> None:
        original(descriptor, size - 1)

    original = storage.os.ftruncate
    monkeypatch.setattr(storage.os, "ftruncate", truncate)
    assert violation_of("cut-line", "a Charge, part 0.5") is not None


def test_a_timer_of_a_refused_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timers, "rollback", Timers.commit)
    assert violation_of("full-disk-left", "createCharge, refused") is not None


@deep("test_half_a_line_that_is_cut_off_with_the_end_before_it")
def test_rows_of_which_a_start_takes_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    def resume(self: ChargeService) -> None:
        for row in [*self.charges.find("status", "pending")][:100]:
            self._clock.call_at(row["expires_at"], charges.EXPIRY, charges.TIMER, row["id"])

    monkeypatch.setattr(ChargeService, "resume", resume)
    assert violation_of("pending-many", "130, kill", "charges") is not None
