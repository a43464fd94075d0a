"""Obligations of the rules of inboxes, the conditions of waits, valid keys, links and amounts: each finds a defect."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.callbacks.receivers import Receivers
from leyden.devserver.control.callbacks import deliveries
from leyden.devserver.request_log import stream
from leyden.lightning.bolt11 import codec
from leyden.server.callbacks import deliveries as rules
from leyden.server.callbacks import outbox
from leyden.server.callbacks.in_flight import InFlight
from leyden.server.charges import charges, lnurl
from leyden.server.http import pipeline, request_parsing
from leyden.server.http.limits.body_limit import BodyLimitMiddleware
from leyden.server.http.projects import Projects
from leyden.server.ports import CallbackResponse
from tests.support.obligations import violation_of

KINDS = ("inbox-rules", "wait-conditions", "link-length", "lost", "secrets", "stream")


@pytest.mark.parametrize("kind", KINDS)
def test_the_service_is_as_the_obligations_say(kind: str) -> None:
    assert violation_of(kind) is None


def test_of_several_rules_of_an_inbox_the_newest_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def state(self: Receivers, name: str) -> Any:
        found = original(self, name)
        return {**found, "rules": found["rules"][::-1]}

    original = Receivers.state
    monkeypatch.setattr(Receivers, "state", state)
    assert violation_of("inbox-rules") is not None


def test_a_wait_that_ignores_one_of_its_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    def counter(self: Any, wanted: Any) -> Any:
        return original(self, {**wanted, "event": None} if wanted.get("status") == "any" else wanted)

    original = deliveries.CallbackControl._counter
    monkeypatch.setattr(deliveries.CallbackControl, "_counter", counter)
    assert violation_of("wait-conditions") is not None


def test_a_list_of_valid_keys_with_a_replaced_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(self: Projects, project: str) -> list[str]:
        return [row["id"] for row in self._keys.find("project", project)]

    monkeypatch.setattr(Projects, "keys", keys)
    assert "the keys that are valid" in str(violation_of("secrets", "kill"))


def test_a_random_key_that_was_issued_before(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Projects.issue_key
    monkeypatch.setattr(
        Projects, "issue_key", lambda self, project, key=None: original(self, project, key or self._random_key())
    )
    assert "409" in str(violation_of("secrets", "random keys, restored"))


def test_a_secret_that_newer_ones_end_and_that_is_shown_as_longer_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "stops_at_ms", lambda every, row: row["until_ms"])
    assert violation_of("secrets", "2 rotations") is None
    for count in (3, 4, 5):
        assert "until" in str(violation_of("secrets", f"{count} rotations"))


def test_a_secret_that_is_shown_as_valid_for_a_second_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(every: Any, row: Any) -> int | None:
        end_ms = original(every, row)
        return None if end_ms is None else end_ms + 1_000

    original = deliveries.stops_at_ms
    monkeypatch.setattr(deliveries, "stops_at_ms", later)
    assert "until" in str(violation_of("secrets", "2 rotations"))


def test_a_long_body_of_which_only_the_start_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BodyLimitMiddleware, "_is_authorized", lambda self, scope: False)
    assert "import" in str(violation_of("kept", "import", place="addPayer"))


def test_a_link_whose_last_bits_are_in_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def encoded(*given: Any) -> Any:
        text: str = original(*given)
        return text if len(text) % 8 == 3 else text[:-7] + "q" + text[-6:]

    original = lnurl.bech32_encode
    monkeypatch.setattr(lnurl, "bech32_encode", encoded)
    assert violation_of("link-length") is not None


def test_a_long_name_of_a_parameter_of_which_an_error_has_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    original = request_parsing.FieldError
    monkeypatch.setattr(request_parsing, "FieldError", lambda pointer, *more: original(pointer[:65], *more))
    assert violation_of("unknown", "59 x", "listCharges query") is None
    assert violation_of("unknown", "60 x", "listCharges query") is not None


def test_a_lost_attempt_that_counts_against_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_status(*args: Any) -> Any:
        with monkeypatch.context() as counted:
            counted.setattr(rules, "LOST", "never")
            return original(*args)

    original = rules.next_status
    monkeypatch.setattr(outbox, "next_status", next_status)
    assert violation_of("lost", "200") is None
    assert "retry" in str(violation_of("lost", "500"))


def test_a_lost_attempt_that_is_shown_as_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "LOST_IN_RESTART", CallbackResponse(error="reset"))
    assert "attempts" in str(violation_of("lost", "kill"))


def test_a_stream_that_goes_on_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "CONNECTION", "another")
    assert "goes on" in str(violation_of("stream", "changes, none"))


def test_a_stream_that_lacks_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    original = stream.request_events
    monkeypatch.setattr(stream, "request_events", lambda shown, rows: original(shown, rows[-1:]))
    assert "requests" in str(violation_of("stream", "changes, after 1"))


def test_a_stream_without_the_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream._State, "has_changed", lambda self, world, ticks: False)
    assert "changed" in str(violation_of("stream", "changes, none"))


@pytest.mark.parametrize("zeros", [0, 1, 2, 3, 5, 7])
def test_an_amount_that_is_rounded_at_one_unit_of_the_invoice(zeros: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def encoded(amount_msat: int) -> str:
        found = len(str(amount_msat)) - len(str(amount_msat).rstrip("0"))
        return original(amount_msat + 10**zeros if found == zeros and amount_msat > 10**zeros else amount_msat)

    original = codec.encode_amount
    monkeypatch.setattr(codec, "encode_amount", encoded)
    assert violation_of(f"pattern:zeros-{zeros}", place="createCharge body.amount") is not None


def test_an_empty_text_that_is_null_in_the_callback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(row: Any) -> Any:
        found = original(row)
        return {**found, "internalId": found["internalId"] or None}

    original = charges.charge_callback
    monkeypatch.setattr(charges, "charge_callback", update)
    assert violation_of("empty", place="createCharge body.internalId") is not None


def test_a_date_of_retry_after_that_counts_from_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("reply", "a date") is None
    monkeypatch.setattr(outbox, "delay_asked_for", lambda response, now_s: original(response, now_s - 3))
    original = rules.delay_asked_for
    assert violation_of("reply", "503 after 3 s, Retry-After a date") is not None


def test_places_in_flight_that_each_kind_of_callback_has_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Many(dict[str, int]):
        """As many attempts in flight as those of payments of Static Charges alone."""

        def __len__(self) -> int:
            return max(0, super().__len__() - 8)

    def created(self: InFlight) -> None:
        original(self)
        self.attempts = Many()

    assert violation_of("in-flight", "of payments") is None
    original = InFlight.__init__
    monkeypatch.setattr(InFlight, "__init__", created)
    assert violation_of("in-flight", "of payments") is not None


def test_a_delivery_that_loses_its_turn_when_it_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def replay(self: Any, delivery_id: str, when_ms: int | None = None) -> Any:
        queue = self.in_flight.queue
        if delivery_id in queue:
            queue.remove(delivery_id)
        return original(self, delivery_id, when_ms)

    assert violation_of("replay-queued") is None
    original = outbox.Outbox.replay
    monkeypatch.setattr(outbox.Outbox, "replay", replay)
    assert violation_of("replay-queued", "once, the delivery at place 8") is not None


def test_a_delivery_that_is_put_off_while_it_waits_and_is_sent_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def replay(self: Any, delivery_id: str, when_ms: int | None = None) -> Any:
        return original(self, delivery_id, None if delivery_id in self.in_flight.queue else when_ms)

    original = outbox.Outbox.replay
    monkeypatch.setattr(outbox.Outbox, "replay", replay)
    assert violation_of("replay-queued", "later") is not None
