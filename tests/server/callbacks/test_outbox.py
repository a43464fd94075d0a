"""The outbox: which callbacks are sent, when, in which order, and when it stops."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import orjson
import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from leyden import Sandbox
from leyden.callbacks.receivers import Receivers, Responded
from leyden.callbacks.replies import TIMEOUT, Reply
from leyden.rng import RandomStreams
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import callback_body, delivery_resource, retry_after_ms
from leyden.server.callbacks.retry_after import retry_after_note
from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from leyden.server.timestamps import parse_duration, to_iso
from leyden.world.time.clock import VirtualClock
from tests.support.deep import deep_or
from tests.support.lists import listed
from tests.support.outbox_helpers import (
    NEXT_SECRET,
    PAUSES,
    RULE,
    SECRET,
    SHOP,
    START,
    ManualTransport,
    OutboxFixture,
    rule,
)

HOUR = parse_duration("1h")


def actual_delays(row: dict[str, Any]) -> list[int]:
    """The delays between the end of each attempt and the start of the next."""
    attempts = AttemptLog(row).attempts()
    return [after.at - before.ended_at for before, after in pairwise(attempts)]


# The schedule


def test_the_first_attempt_is_due_at_once() -> None:
    fixture = OutboxFixture()
    fixture.enqueue()
    assert fixture.row()["status"] == "pending"
    assert len(fixture.shop.inbox) == 0

    fixture.clock.run_until_next_event()

    (got,) = fixture.shop.inbox
    assert (got.at, got.path, got.json) == (START, "/hook", {"id": "c1", "status": "completed"})
    assert got.verdict == []
    assert fixture.row()["status"] == "delivered"
    assert len(fixture.clock) == 0


@given(seed=st.integers(0, 2**32))
def test_a_receiver_that_is_down_for_70_hours_gets_the_next_scheduled_attempt_in_one_advance(seed: int) -> None:
    back_at = START + 70 * HOUR
    fixture = OutboxFixture(seed=seed)

    class Late(Receivers):
        def post(self, post: Any, answered: Any) -> None:
            answered(post, CallbackResponse(status=500 if fixture.clock.now() < back_at else 200))

    # The rest of the fixture stays as it is.
    fixture.outbox._transport = Late(fixture.store, VirtualClock(START), fixture.journal)
    fixture.enqueue()
    fixture.pass_time("100h")

    row = fixture.row()
    waits = actual_delays(row)
    for wait, base in zip(waits, PAUSES[1:], strict=False):
        assert round(base * 0.8) <= wait <= round(base * 1.2)
    statuses = [attempt.status for attempt in AttemptLog(row).attempts()]
    assert all((attempt.at >= back_at) == (attempt.status == 200) for attempt in AttemptLog(row).attempts())
    if statuses[-1] == 200:
        assert row["status"] == "delivered"
        assert statuses.count(200) == 1
    else:
        assert row["status"] == "exhausted"
        assert len(statuses) == len(PAUSES)


def test_a_charge_whose_receiver_is_down_for_70_hours_is_delivered_on_schedule_in_one_advance() -> None:
    """The whole sandbox, with the schedule worked out beside it from the spec and the jitter's own stream."""
    with Sandbox(seed=7, start=to_iso(START)) as sandbox:
        sandbox.receiver("shop").always(500)
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=SHOP)
        jitter = RandomStreams(7).stream("jitter")
        due = [START + 60_000]
        for pause in PAUSES[1:]:
            due.append(due[-1] + round(pause * (1 + 0.2 * (2 * jitter.uniform() - 1))))
        attempts_before = next(place for place, at in enumerate(due) if at >= START + 70 * HOUR)
        sandbox.receiver("shop").when(200, attempt=attempts_before + 1)

        sandbox.advance("100h")

        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        assert [attempt["at"] for attempt in delivery["attempts"]] == [to_iso(at) for at in due[: attempts_before + 1]]
        assert [attempt["status"] for attempt in delivery["attempts"]] == [500] * attempts_before + [200]
        assert (delivery["status"], delivery["chargeId"], attempts_before) == ("delivered", charge.id, 9)


def test_a_delivery_without_a_2xx_response_ends_after_the_last_attempt() -> None:
    fixture = OutboxFixture()
    fixture.shop.always(503)
    fixture.enqueue()
    fixture.pass_time("75h")
    fixture.pass_time("20h")

    row = fixture.row()
    assert row["status"] == "exhausted"
    assert row["due_at"] is None
    assert [got.attempt for got in fixture.shop.inbox] == list(range(1, len(PAUSES) + 1))
    assert {got.webhook_id for got in fixture.shop.inbox} == {row["id"]}
    assert {got.body for got in fixture.shop.inbox} == {row["body"]}
    assert fixture.streams.stream("jitter").position == len(PAUSES) - 1
    assert len(fixture.clock) == 0


def test_without_jitter_the_schedule_is_exact() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.always(500)
    fixture.enqueue()
    fixture.pass_time("90h")
    assert actual_delays(fixture.row()) == list(PAUSES[1:])
    assert fixture.streams.stream("jitter").position == 0


def test_the_delay_before_the_first_attempt_has_jitter_too() -> None:
    fixture = OutboxFixture(rule=rule(delays_ms=(10_000, 20_000)))
    drawn = RandomStreams(7).stream("jitter").uniform()
    fixture.enqueue()
    fixture.pass_time("12s")
    assert fixture.shop.inbox[0].at == START + round(10_000 * (0.8 + 0.4 * drawn))


def test_a_delay_counts_from_the_end_of_the_attempt_before() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.answers([TIMEOUT, 200])
    fixture.enqueue()
    fixture.pass_time("1m")
    first, second = AttemptLog(fixture.row()).attempts()
    assert (first.error, first.ended_at - first.at) == ("timeout", 15_000)
    assert second.at - first.at == 20_000


@pytest.mark.parametrize(
    ("answer", "status"),
    [(199, "pending"), (200, "delivered"), (204, "delivered"), (299, "delivered"), (300, "pending"), (307, "pending")],
)
def test_only_2xx_is_success_and_a_redirect_is_not_followed(answer: int, status: str) -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue()
    fixture.pass_time("0s")
    transport.answer(status=answer, headers={"location": "http://elsewhere.example/"})
    assert fixture.row()["status"] == status


def test_a_body_that_does_not_match_the_spec_is_blocked_and_never_sent() -> None:
    fixture = OutboxFixture()
    fixture.enqueue(data={"id": "c1", "status": "completed", "note": 5})
    fixture.enqueue(data={"id": "c1", "status": "expired"})
    fixture.pass_time("1h")
    refused, fitting = fixture.outbox.deliveries()
    assert (refused["status"], fitting["status"]) == ("blocked", "delivered")
    for count in (1, 2):
        attempts = AttemptLog(refused).attempts()
        assert [(one.status, one.error, one.note) for one in attempts] == count * [(
            None, "blocked",
            'the body does not match the schema of chargeUpdated, so it is not sent: /note: 5 is not of type "string"',
        )]  # fmt: skip
        fixture.outbox.replay(refused["id"])
        fixture.pass_time("1h")
        refused = fixture.outbox.deliveries()[0]
    assert [post.json["status"] for post in fixture.shop.inbox] == ["expired"]


def test_the_errors_of_a_body_are_short_text() -> None:
    properties = {f"note{number}": {"type": "string"} for number in range(9)}
    data = dict.fromkeys(properties, ["x"] * 1_000)
    _, mismatch = callback_body(rule({"properties": properties}), "charge.completed", 1, data, START)
    assert mismatch.count("/note") == 3
    assert len(mismatch) < 1_100


def test_a_spec_with_the_form_envelope_gets_the_envelope() -> None:
    properties = {"type": {}, "timestamp": {}, "sequence": {}, "data": {"type": "object"}}
    schema = {"type": "object", "required": list(properties), "additionalProperties": False, "properties": properties}
    fixture = OutboxFixture(rule=rule(schema, form="envelope"))
    fixture.enqueue(sequence=3)
    fixture.pass_time("0s")
    assert fixture.shop.inbox[0].json == {
        "type": "charge.completed",
        "timestamp": to_iso(START),
        "sequence": 3,
        "data": {"id": "c1", "status": "completed"},
    }


# Endings


def test_410_stops_the_delivery_and_every_later_one_of_that_resource() -> None:
    fixture = OutboxFixture()
    fixture.shop.answers([410])
    fixture.enqueue(sequence=1)
    fixture.enqueue(sequence=2)
    fixture.pass_time("1m")
    fixture.enqueue(sequence=3)
    fixture.pass_time("100h")
    assert [row["status"] for row in fixture.outbox.deliveries()] == ["stopped"] * 3
    assert len(fixture.shop.inbox) == 1

    fixture.enqueue(resource="c2")
    fixture.enqueue(resource="c1", url="http://shop.localhost/other", sequence=4)
    fixture.pass_time("1m")
    assert len(fixture.shop.inbox) == 3


def test_410_disables_the_endpoint_for_all_payments_of_a_static_charge() -> None:
    fixture = OutboxFixture()
    fixture.shop.answers([410])
    fixture.enqueue(resource="child1", endpoint_id="static")
    fixture.pass_time("1m")
    fixture.enqueue(resource="child2", endpoint_id="static")
    assert fixture.row("child2")["status"] == "stopped"
    finished = [(entry.subject, entry.facts) for entry in fixture.journal.entries(kind="callback_finished")]
    assert finished == [
        (fixture.row("child1")["id"], {"resource": "child1", "status": "stopped", "attempts": 1}),
        (fixture.row("child2")["id"], {"resource": "child2", "status": "stopped", "attempts": 0}),
    ]


def test_410_stops_the_pending_deliveries_of_that_endpoint_at_once() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.always(500)
    for number in range(3):
        fixture.enqueue(resource=f"child{number}", endpoint_id="static")
    fixture.enqueue(resource="child9", endpoint_id="static", url="http://shop.localhost/other")
    fixture.enqueue(resource="stranger")
    fixture.pass_time("1s")
    fixture.shop.always(410)
    fixture.clock.run_events(1)
    assert sorted(row["status"] for row in fixture.outbox.deliveries()) == ["pending"] * 2 + ["stopped"] * 3
    assert len(fixture.clock) == 2
    assert len(fixture.journal.entries(kind="callback_finished")) == 3


def test_an_attempt_in_flight_when_the_endpoint_is_disabled_is_the_last() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    for resource in ("one", "two", "three"):
        fixture.enqueue(resource=resource, endpoint_id="static")
    fixture.pass_time("0s")
    transport.answer(1, status=410)
    assert [fixture.row(name)["status"] for name in ("one", "two", "three")] == ["pending", "stopped", "pending"]
    transport.answer(0, status=500)
    transport.answer(0, status=200)
    assert [fixture.row(name)["status"] for name in ("one", "two", "three")] == ["stopped", "stopped", "delivered"]
    assert len(fixture.clock) == 0


def test_an_attempt_lost_after_the_endpoint_was_disabled_is_not_repeated_after_a_restart() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    for resource in ("one", "two"):
        fixture.enqueue(resource=resource, endpoint_id="static")
    fixture.pass_time("0s")
    transport.answer(1, status=410)
    again = OutboxFixture(store=fixture.store, seed=8)
    again.outbox.resume()
    again.pass_time("1h")
    assert [again.row(name)["status"] for name in ("one", "two")] == ["stopped", "stopped"]
    assert len(again.shop.inbox) == 0


# Replays


@pytest.mark.parametrize("answers", [[200], [500] * 10, [410]])
def test_a_finished_delivery_can_be_replayed_under_its_own_id(answers: list[int]) -> None:
    fixture = OutboxFixture()
    fixture.shop.answers(answers)
    fixture.enqueue()
    fixture.pass_time("100h")
    before = fixture.row()
    fixture.shop.answers([500, 200])
    fixture.outbox.replay(before["id"])
    fixture.pass_time("0s")
    assert fixture.row()["status"] == "pending"
    fixture.pass_time("6s")
    row = fixture.row()
    assert row["status"] == "delivered"
    assert [attempt.status for attempt in AttemptLog(row).attempts()] == [*answers, 500, 200]
    assert {(got.webhook_id, got.body) for got in fixture.shop.inbox} == {(before["id"], before["body"])}
    assert [got.attempt for got in fixture.shop.inbox] == list(range(1, len(answers) + 3))
    assert len(fixture.journal.entries(kind="callback_replayed")) == 1


def test_a_replay_that_fails_starts_the_whole_schedule_again() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.enqueue()
    fixture.pass_time("1s")
    fixture.shop.always(500)
    fixture.outbox.replay(fixture.row()["id"])
    fixture.pass_time("100h")
    assert fixture.row()["status"] == "exhausted"
    assert actual_delays(fixture.row())[1:] == list(PAUSES[1:])


def test_a_replay_sends_a_pending_delivery_now_and_does_not_change_one_in_flight() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue()
    fixture.pass_time("0s")
    fixture.outbox.replay(fixture.row()["id"])
    fixture.pass_time("1s")
    assert len(transport.requests) == 1
    transport.answer(status=500)
    fixture.outbox.replay(fixture.row()["id"])
    fixture.pass_time("0s")
    assert [post.attempt for post, _ in transport.requests] == [2]
    with pytest.raises(LookupError, match="nobody"):
        fixture.outbox.replay("nobody")


def test_a_replay_survives_a_restart_and_enables_no_disabled_endpoint() -> None:
    fixture = OutboxFixture()
    fixture.shop.answers([410])
    fixture.enqueue()
    fixture.pass_time("1s")
    fixture.outbox.replay(fixture.row()["id"])
    again = OutboxFixture(store=fixture.store, start=fixture.clock.now(), seed=8)
    again.outbox.resume()
    again.pass_time("1s")
    assert again.row()["status"] == "delivered"
    again.enqueue(sequence=2)
    assert again.row(place=1)["status"] == "stopped"


def test_a_replay_waits_for_an_older_callback_of_the_resource() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.enqueue(sequence=1)
    fixture.enqueue(sequence=2)
    fixture.pass_time("1s")
    first, second = fixture.outbox.deliveries("c1")
    fixture.shop.answers([500, 200])
    fixture.outbox.replay(first["id"])
    fixture.outbox.replay(second["id"])
    fixture.pass_time("1m")
    order = [got.webhook_id for got in fixture.shop.inbox]
    assert order == [first["id"], second["id"], first["id"], first["id"], second["id"]]


def test_a_pending_delivery_can_be_rescheduled_and_a_finished_one_cannot() -> None:
    fixture = OutboxFixture()
    fixture.enqueue()
    fixture.outbox.reschedule(fixture.row()["id"], START + 7_000)
    fixture.pass_time("6s")
    assert len(fixture.shop.inbox) == 0
    fixture.outbox.reschedule(fixture.row()["id"], START + 6_500)
    fixture.pass_time("1s")
    assert [got.at for got in fixture.shop.inbox] == [START + 6_500]
    fixture.outbox.reschedule(fixture.row()["id"], START + 60_000)
    assert fixture.row()["status"] == "delivered"
    assert len(fixture.clock) == 0


def test_a_delivery_in_flight_or_finished_is_not_rescheduled() -> None:
    fixture = OutboxFixture(transport=(transport := ManualTransport()))
    fixture.enqueue()
    fixture.pass_time("0s")
    for _ in range(2):
        before = fixture.row()
        fixture.outbox.reschedule(before["id"], START + 60_000)
        assert (fixture.row(), len(fixture.clock)) == (before, 0)
        if transport.requests:
            transport.answer(status=200)


def test_an_attempt_that_the_egress_policy_forbids_is_final() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue()
    fixture.pass_time("0s")
    transport.answer(error="blocked", note="private-network")
    assert fixture.row()["status"] == "blocked"
    assert AttemptLog(fixture.row()).attempts()[0].note == "private-network"
    assert len(fixture.clock) == 0


def test_the_event_journal_has_every_step_of_a_delivery() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.answers([500, "refused", 200, 204])
    fixture.enqueue()
    fixture.pass_time("1h")
    replayed_at = fixture.outbox.replay(fixture.row()["id"])["due_at"]
    fixture.pass_time("1s")
    entries = fixture.journal.entries(subject=fixture.row()["id"])

    def sent(attempt: int) -> tuple[str, dict[str, Any]]:
        return "callback_started", {"resource": "c1", "event": "charge.completed", "attempt": attempt}

    def answered(attempt: int, status: int | None, error: str | None = None) -> tuple[str, dict[str, Any]]:
        kind = "callback_answered" if error is None else "callback_failed"
        return kind, {"resource": "c1", "attempt": attempt, "status": status, "error": error}

    assert [(entry.kind, entry.facts) for entry in entries] == [
        sent(1),
        answered(1, 500),
        sent(2),
        answered(2, None, "refused"),
        sent(3),
        answered(3, 200),
        ("callback_finished", {"resource": "c1", "status": "delivered", "attempts": 3}),
        ("callback_replayed", {"resource": "c1", "due_at": replayed_at}),
        sent(4),
        answered(4, 204),
        ("callback_finished", {"resource": "c1", "status": "delivered", "attempts": 4}),
    ]


# Retry-After

AT_S = START // 1_000


@pytest.mark.parametrize("jitter", [0.0, 0.2])
@pytest.mark.parametrize(
    ("header", "after_s"),
    [
        ("3", 0),
        ("4", 0),
        ("5", 5),
        ("6", 6),
        ("10", 10),
        ("11", 10),
        ("99999999999", 10),
        ("9" * 5_000, 10),
        ("0000000000007", 7),
        ("0", 0),
        ("-1", 0),
        ("1.5", 0),
        ("soon", 0),
        ("", 0),
        ("٧", 0),
        ("+7", 0),
        (format_datetime(datetime.fromtimestamp(AT_S + 7, UTC), usegmt=True), 7),
        (format_datetime(datetime.fromtimestamp(AT_S + 70, UTC), usegmt=True), 10),
        (format_datetime(datetime.fromtimestamp(AT_S - 70, UTC), usegmt=True), 0),
        (datetime.fromtimestamp(AT_S + 8, UTC).strftime("%A, %d-%b-%y %H:%M:%S GMT"), 8),
        (datetime.fromtimestamp(AT_S + 8, UTC).strftime("%a %b %e %H:%M:%S %Y"), 8),
    ],
)
def test_retry_after_postpones_an_attempt_up_to_twice_the_delay_and_never_brings_it_forward(
    header: str, after_s: int, jitter: float
) -> None:
    waits, positions = [], []
    for reply in (Reply(429), Reply(429, headers={"Retry-After": header})):
        fixture = OutboxFixture(rule=rule(jitter=jitter))
        fixture.shop.answers([reply])
        fixture.enqueue()
        fixture.pass_time("1m")
        waits += actual_delays(fixture.row())
        positions.append(fixture.streams.stream("jitter").position)
    scheduled, wait = waits
    assert 4_000 <= scheduled <= 6_000
    assert wait == max(scheduled, after_s * 1_000)
    assert positions[0] == positions[1]


@pytest.mark.parametrize(("status", "heeded"), [(429, True), (503, True), (500, False), (302, False)])
def test_retry_after_counts_only_with_429_and_503(status: int, heeded: bool) -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.answers([Reply(status, headers={"Retry-After": "9"})])
    fixture.enqueue()
    fixture.pass_time("1m")
    assert actual_delays(fixture.row()) == [9_000 if heeded else 5_000]


@pytest.mark.parametrize("latency_ms", [0, 5, 1_200])
@pytest.mark.parametrize("seconds", [0, 1, 2])
def test_the_note_of_a_retry_after_date_says_the_delay_that_was_kept(seconds: int, latency_ms: int) -> None:
    """The receiver's clock may come to the next second while the response is on its way, however short that is."""
    transport = ManualTransport(real_time_s=AT_S)
    fixture = OutboxFixture(transport=transport, rule=rule(jitter=0.0))
    fixture.enqueue()
    fixture.pass_time("1s")
    transport.real_time_s += seconds
    date = format_datetime(datetime.fromtimestamp(AT_S + 9, UTC), usegmt=True)
    transport.answer(status=429, headers={"Retry-After": date}, latency_ms=latency_ms)
    row = fixture.row()
    [attempt] = AttemptLog(row).attempts()
    wait_ms = (row["due_at"] or 0) - (attempt.ended_at or 0)
    assert wait_ms == (9 - seconds) * 1_000
    note = retry_after_note(row, 1, [attempt], fixture.rule.delivery)
    assert note == f"Retry-After asks for {wait_ms // 1_000} s: the next attempt is not earlier"


@given(st.text() | st.from_regex(r"[0-9A-Za-z,: +-]{0,40}"))
def test_any_retry_after_text_is_parsed_or_ignored(text: str) -> None:
    wait = retry_after_ms({"Retry-After": text}, AT_S)
    assert wait is None or wait >= 0


# Order


def test_the_second_callback_of_a_resource_is_sent_after_the_end_of_the_first() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.answers([500, 500, 200])
    fixture.enqueue(status="completed", sequence=1)
    fixture.enqueue(status="expired", sequence=2)
    fixture.enqueue(resource="c2", url="http://other.localhost/hook")
    fixture.pass_time("1h")
    received = [(got.json["status"], got.attempt) for got in fixture.shop.inbox]
    assert received == [("completed", 1), ("completed", 2), ("completed", 3), ("expired", 1)]
    assert [got.at for got in fixture.receivers["other"].inbox] == [START]
    assert {row["status"] for row in fixture.outbox.deliveries()} == {"delivered"}


def test_after_an_exhausted_delivery_the_next_one_is_sent() -> None:
    fixture = OutboxFixture()
    fixture.shop.always(500)
    fixture.enqueue(sequence=1)
    fixture.enqueue(sequence=2)
    fixture.pass_time("91h")
    assert [fixture.row(place=place)["status"] for place in (0, 1)] == ["exhausted", "pending"]
    assert fixture.row(place=1)["attempts"]
    assert AttemptLog(fixture.row(place=1)).attempts()[0].at == AttemptLog(fixture.row(place=0)).attempts()[-1].ended_at


def test_one_event_sends_few_of_a_long_queue() -> None:
    """Receivers that answer at once take no slot, so a response could send thousands in one piece."""

    class HalfManual(ManualTransport):
        def post(self, post: CallbackRequest, responded: Responded) -> None:
            if "prompt" in post.url:
                sent.append(orjson.loads(post.body)["id"])
                responded(post, CallbackResponse(status=200))
            else:
                super().post(post, responded)

        def receiver_time_s(self, url: str) -> int:
            return self.real_time_s

    sent, transport = list[str](), HalfManual()
    fixture = OutboxFixture(transport=transport)
    for number in range(8):
        fixture.enqueue(resource=f"slow{number}")
    for number in range(35):
        fixture.enqueue(resource=f"c{number}", url="http://prompt.example/hook")
    fixture.pass_time("1m")
    assert (sent, len(transport.requests)) == ([], 8)
    now, counts = fixture.clock.now(), list[int]()
    transport.answer(3, status=200)
    counts.append(len(sent))
    while fixture.clock.next_due() == now:
        counts.append(len(fixture.clock.run_events(1)) and len(sent))
    assert counts == [10, 20, 30, 35]
    assert sent == [f"c{number}" for number in range(35)]
    assert fixture.clock.now() == now
    assert [row["status"] for row in fixture.outbox.deliveries()].count("delivered") == 36


def test_the_rule_limits_the_attempts_in_flight_and_the_others_follow_in_due_order() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    for number in range(12):
        fixture.enqueue(resource=f"c{number}")
    fixture.pass_time("1m")
    assert len(fixture.outbox.in_flight.attempts) == 8
    assert [orjson.loads(post.body)["id"] for post, _ in transport.requests] == [f"c{n}" for n in range(8)]

    transport.answer(3, status=200)
    assert len(fixture.outbox.in_flight.attempts) == 8
    assert orjson.loads(transport.requests[-1][0].body)["id"] == "c8"
    while transport.requests:
        transport.answer(status=200)
    assert len(fixture.outbox.in_flight.attempts) == 0
    assert {row["status"] for row in fixture.outbox.deliveries()} == {"delivered"}


def test_a_thousand_due_deliveries_are_sent_without_deep_recursion() -> None:
    fixture = OutboxFixture()
    fixture.receivers["slow"].always(Reply(200, delay="5s"))
    for number in range(8):
        fixture.enqueue(resource=f"slow{number}", url="http://slow.localhost/")
    for number in range(2 * sys.getrecursionlimit()):
        fixture.enqueue(resource=f"c{number}")
    fixture.pass_time("4s")
    assert len(fixture.shop.inbox) == 0
    fixture.pass_time("1s")
    assert len(fixture.shop.inbox) == 2 * sys.getrecursionlimit()
    assert {row["status"] for row in fixture.outbox.deliveries()} == {"delivered"}


# Identity and signature


def test_the_signature_satisfies_the_public_verifier_with_the_old_secret_and_the_new() -> None:
    fixture = OutboxFixture(secrets=[NEXT_SECRET, SECRET])
    fixture.enqueue()
    fixture.pass_time("0s")
    (got,) = fixture.shop.inbox
    with freeze_time(to_iso(START)):
        for secret in (SECRET, NEXT_SECRET):
            assert Webhook(secret).verify(got.body, dict(got.headers)) == got.json
    assert got.headers["webhook-signature"].count("v1,") == 2


def test_the_headers_name_the_event_the_time_and_the_attempt() -> None:
    fixture = OutboxFixture(transport=(transport := ManualTransport(real_time_s=1_700_000_000)), rule=rule(jitter=0.0))
    fixture.enqueue()
    fixture.pass_time("0s")
    transport.answer(status=500)
    fixture.pass_time("5s")
    ((post, _),) = transport.requests
    assert (post.url, post.connect_timeout_ms, post.timeout_ms) == (SHOP, 3_000, 15_000)
    signature = post.headers["webhook-signature"]
    assert dict(post.headers) == {
        "content-type": "application/json",
        "user-agent": "leyden/9.9",
        "webhook-id": fixture.row()["id"],
        "webhook-timestamp": "1700000000",
        "webhook-signature": signature,
        "leyden-event": "charge.completed",
        "leyden-attempt": "2",
        "leyden-time": to_iso(START + 5_000),
    }
    shown = delivery_resource(fixture.row(), fixture.outbox.signature)
    assert shown["attempts"][1]["headers"] == dict(post.headers)
    assert shown["body"].encode() == post.body
    assert shown["dueAt"] is None


def test_the_control_api_returns_each_attempt() -> None:
    fixture = OutboxFixture(rule=rule(jitter=0.0))
    fixture.shop.answers([500])
    fixture.enqueue()
    fixture.pass_time("1s")
    shown = delivery_resource(fixture.row(), fixture.outbox.signature)
    assert {name: shown[name] for name in ("chargeId", "event", "url", "status", "sequence", "createdAt", "dueAt")} == {
        "chargeId": "c1",
        "event": "charge.completed",
        "url": SHOP,
        "status": "pending",
        "sequence": 1,
        "createdAt": to_iso(START),
        "dueAt": to_iso(START + 5_000),
    }
    (attempt,) = shown["attempts"]
    assert (attempt["number"], attempt["at"], attempt["status"], attempt["error"]) == (1, to_iso(START), 500, None)


def test_four_kibibytes_of_a_long_response_are_stored() -> None:
    fixture = OutboxFixture()
    fixture.shop.answers([Reply(500, body="x" * 9_000)])
    fixture.enqueue()
    fixture.pass_time("0s")
    assert AttemptLog(fixture.row()).attempts()[0].response_body == "x" * 4_096


# Restarts, rollbacks and forks


def test_a_second_response_to_the_same_attempt_has_no_effect() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue()
    fixture.pass_time("0s")
    post, answered = transport.requests[0]
    answered(post, CallbackResponse(status=200))
    before = fixture.row(), fixture.journal.hash
    answered(post, CallbackResponse(status=500))
    assert (fixture.row(), fixture.journal.hash) == before


def test_an_obsolete_timer_sends_nothing() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue()
    fixture.pass_time("0s")
    waiting = fixture.row()["id"]
    for late in (waiting, "one whose commit was refused"):
        fixture.outbox.on_due(late)
    assert (len(transport.requests), len(fixture.outbox.in_flight.attempts)) == (1, 1)
    transport.answer(status=200)
    fixture.outbox.on_due(waiting)
    assert (len(transport.requests), len(fixture.outbox.in_flight.attempts)) == (0, 0)
    fixture.enqueue(sequence=2)
    fixture.pass_time("0s")
    assert len(transport.requests) == 1


def test_after_a_restart_a_lost_attempt_is_repeated_under_the_same_id() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue(resource="lost", sequence=1)
    fixture.enqueue(resource="lost", sequence=2)
    fixture.enqueue(resource="waiting")
    fixture.pass_time("0s")
    transport.answer(1, status=500)
    fixture.pass_time("2s")
    (old_post, old_answered) = transport.requests[0]

    again = OutboxFixture(store=fixture.store, start=START + 2_000, seed=8)
    again.outbox.resume()
    assert len(again.outbox.in_flight.attempts) == 0
    again.pass_time("0s")

    lost = again.row("lost")
    first, second = AttemptLog(lost).attempts()
    assert (first.error, first.ended_at) == ("lost", START + 2_000)
    assert first.note == "the service stopped before the answer came"
    assert (second.status, second.at) == (200, START + 2_000)
    assert [got.webhook_id for got in again.shop.inbox] == [lost["id"], again.row("lost", 1)["id"]]
    assert again.row("waiting")["status"] == "pending"
    again.pass_time("5s")
    assert again.row("waiting")["status"] == "delivered"
    assert [got.attempt for got in again.shop.inbox] == [2, 1, 2]

    before = again.outbox.deliveries()
    old_answered(old_post, CallbackResponse(status=500))
    again.outbox.on_response(old_post, CallbackResponse(status=500))
    assert again.outbox.deliveries() == before


def test_overdue_deliveries_are_sent_in_due_order_after_a_restart() -> None:
    fixture = OutboxFixture(transport=(transport := ManualTransport()), rule=rule(jitter=0.0, in_flight=1))
    fixture.enqueue(resource="again")
    fixture.pass_time("0s")
    transport.answer(status=500)  # due once more at five seconds
    fixture.enqueue(resource="lost")
    fixture.pass_time("1s")
    fixture.enqueue(resource="new")
    fixture.pass_time("9s")
    restarted = OutboxFixture(store=fixture.store, start=fixture.clock.now(), rule=fixture.rule)
    restarted.outbox.resume()
    restarted.pass_time("0s")
    assert [got.json["id"] for got in restarted.shop.inbox] == ["new", "again", "lost"]


def test_a_lost_attempt_does_not_count_against_the_schedule() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport, rule=rule(delays_ms=(0, 5_000), jitter=0.0))
    fixture.enqueue()
    fixture.pass_time("0s")
    again = OutboxFixture(store=fixture.store, rule=fixture.rule)
    again.outbox.resume()
    again.shop.always(500)
    again.pass_time("1h")
    assert [(a.error, a.status) for a in AttemptLog(again.row()).attempts()] == [
        ("lost", None),
        (None, 500),
        (None, 500),
    ]
    assert again.row()["status"] == "exhausted"


def test_a_disabled_endpoint_stays_disabled_after_a_restart() -> None:
    fixture = OutboxFixture()
    fixture.shop.answers([410])
    fixture.enqueue()
    fixture.pass_time("0s")
    again = OutboxFixture(store=fixture.store, seed=8)
    again.outbox.resume()
    again.enqueue(sequence=2)
    assert again.row(place=1)["status"] == "stopped"


def test_a_restart_with_a_spec_without_the_callback_raises_an_error() -> None:
    fixture = OutboxFixture()
    fixture.enqueue()
    again = OutboxFixture(store=fixture.store)
    again.outbox._rules = {}
    with pytest.raises(StoreError, match=r"chargeUpdated.*serve the spec"):
        again.outbox.resume()


def test_a_rolled_back_commit_stores_no_delivery_and_the_next_one_is_sent() -> None:
    fixture = OutboxFixture()

    class DiskFull(Exception):
        pass

    def refused() -> None:
        with fixture.store.commit():
            fixture.enqueue()
            raise DiskFull

    with pytest.raises(DiskFull):
        refused()
    fixture.pass_time("1s")
    assert fixture.outbox.deliveries() == []
    fixture.enqueue()
    fixture.pass_time("1s")
    assert [got.verdict for got in fixture.shop.inbox] == [[]]


def test_a_response_to_an_attempt_that_was_never_stored_frees_its_worker_slot() -> None:
    fixture = OutboxFixture(transport=(transport := ManualTransport()))
    fixture.enqueue()

    def refused() -> None:
        with fixture.store.commit():
            fixture.outbox.on_due(fixture.row()["id"])
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused()
    assert (fixture.row()["attempts"], len(fixture.outbox.in_flight.attempts)) == ("", 1)
    transport.answer(status=200)
    assert (fixture.row()["attempts"], len(fixture.outbox.in_flight.attempts)) == ("", 0)


def test_a_response_whose_commit_was_rolled_back_leaves_its_attempt_in_flight() -> None:
    transport = ManualTransport()
    fixture = OutboxFixture(transport=transport)
    fixture.enqueue()
    fixture.pass_time("0s")
    [(post, answered)] = transport.requests
    fixture.outbox.begin()

    def refused() -> None:
        with fixture.store.commit():
            answered(post, CallbackResponse(status=200))
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused()
    fixture.outbox.rollback()
    assert (fixture.row()["status"], len(fixture.outbox.in_flight.attempts)) == ("pending", 1)
    answered(post, CallbackResponse(status=200))
    assert (fixture.row()["status"], len(fixture.outbox.in_flight.attempts)) == ("delivered", 0)


@pytest.mark.parametrize("refused_at", ["0s", "2s"])
def test_an_event_whose_commit_the_disk_refuses_is_repeated(refused_at: str) -> None:
    refuse_at = START + parse_duration(refused_at)

    @contextmanager
    def refusing() -> Iterator[None]:
        nonlocal refuse_at
        with fixture.store.commit():
            yield
            if fixture.clock.now() == refuse_at:
                refuse_at = 0
                raise StorageUnavailable("the disk is full")

    fixture = OutboxFixture(clock=VirtualClock(START, event_context=refusing))
    fixture.shop.always(Reply(200, delay="2s"))
    fixture.enqueue()
    with pytest.raises(StorageUnavailable):
        fixture.pass_time("1m")
    fixture.pass_time("1m")
    assert fixture.row()["status"] == "delivered"
    assert len(fixture.outbox.in_flight.attempts) == 0
    assert [got.webhook_id for got in fixture.shop.inbox] == [fixture.row()["id"]]


def test_a_fork_with_attempts_in_flight_continues_like_the_original() -> None:
    one = OutboxFixture(rule=rule(in_flight=2))
    one.shop.answers([Reply(200, delay="9s"), TIMEOUT, 410, 500, 500])
    for number in range(6):
        one.enqueue(resource=f"c{number}")
    one.pass_time("3s")
    assert len(one.outbox.in_flight.attempts) == 2

    two = OutboxFixture(store=Store.from_snapshot(one.store.snapshot()), clock=one.clock.fork(), rule=one.rule)
    two.streams.restore(one.streams.snapshot())
    two.journal = one.journal.fork(two.clock)
    two.outbox._journal = two.receivers._journal = two.journal
    two.outbox.in_flight.restore(orjson.loads(orjson.dumps(one.outbox.in_flight.snapshot())))
    assert two.journal.hash == one.journal.hash

    one.pass_time("100h")
    assert len(two.outbox.in_flight.attempts) == 2
    two.pass_time("100h")
    assert two.outbox.deliveries() == one.outbox.deliveries()
    assert list(two.shop.inbox) == list(one.shop.inbox)
    assert two.journal.hash == one.journal.hash


@given(
    seed=st.integers(0, 99),
    news=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["0s", "1s", "3h"])), max_size=8),
    script=st.lists(
        st.sampled_from([200, 204, 302, 500, TIMEOUT, "reset", "refused", Reply(delay="14s")]), max_size=30
    ),
    restart=st.booleans(),
)
def test_with_any_receivers_every_delivery_ends_once_and_in_order(
    seed: int, news: list[tuple[str, str]], script: list[Any], restart: bool
) -> None:
    fixture = OutboxFixture(seed=seed, rule=rule(in_flight=2))
    fixture.shop.answers(script)
    for sequence, (resource, span) in enumerate(news):
        fixture.enqueue(resource=resource, sequence=sequence)
        fixture.pass_time(span)
    if restart:
        fixture = OutboxFixture(store=fixture.store, start=fixture.clock.now(), rule=fixture.rule)
        fixture.outbox.resume()
        fixture.shop.answers(script)
    fixture.clock.run_until_idle()
    received = list(fixture.shop.inbox)

    rows = fixture.outbox.deliveries()
    assert len(rows) == len(news)
    assert {row["status"] for row in rows} <= {"delivered", "exhausted"}
    assert len(fixture.outbox.in_flight.attempts) == 0
    assert all(got.verdict == [] for got in received)
    for resource in "abc":
        mine = [row for row in rows if row["resource_id"] == resource]
        sent = [[attempt.at for attempt in AttemptLog(row).attempts()] for row in mine]
        assert all(before[-1] <= after[0] for before, after in pairwise(sent))
        order = [got.webhook_id for got in received if got.json["id"] == resource]
        assert order == sorted(order, key=[row["id"] for row in mine].index)


class Failing:
    """A transport whose receivers all answer 500 at once."""

    def post(self, post: Any, answered: Any) -> None:
        answered(post, CallbackResponse(status=500, body=b"Internal Server Error", latency_ms=12))

    def receiver_time_s(self, url: str) -> int:
        return START // 1_000


class Silent:
    """A journal that stores nothing: a served sandbox stores only the latest entries."""

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Nothing."""


def test_ten_thousand_pending_deliveries_need_at_most_two_kilobytes_each() -> None:
    count = 624  # they fill their tables as 10,000 do: nine tenths of the room that these have; half of them are packed
    text = "lnbcrt500n1" + "q" * 300
    fixture = OutboxFixture(store=Store.memory(), rule=rule({"type": "object"}), transport=Failing())  # type: ignore[arg-type]
    fixture.outbox._journal = Silent()
    # A Charge's own strings exist anyway; the delivery's are what is counted.
    charges = [
        (f"{number:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa", f"https://shop.localhost/{number}") for number in range(count)
    ]
    each = []
    # The cache of formatted instants is bounded.
    aside = tracemalloc.Filter(False, "*timestamps.py")
    tracemalloc.start()
    try:
        for charge_id, url in charges:
            data = {
                "id": charge_id,
                "unit": "msats",
                "amount": "50000",
                "status": "expired",
                "description": "A cup of tea",
                "internalId": "player-7",
                "callbackUrl": url,
                "createdAt": to_iso(START),
                "expiresAt": to_iso(START + HOUR),
                "invoice": {"request": text},
            }
            fixture.enqueue(resource=charge_id, url=url, status="expired", data=data)
        del data
        for pause in (None, *PAUSES[: deep_or(bounded=2, full=-1)]):
            if pause is not None:
                until_ms = fixture.clock.now() + round(1.2 * pause)
                assert fixture.clock.run_slice(until_ms, lambda: False), "the events are not listed"
                fixture.clock.advance_to(until_ms)
            gc.collect()
            held = tracemalloc.take_snapshot().filter_traces([aside]).statistics("filename")
            each.append(sum(place.size for place in held) / count)
    finally:
        tracemalloc.stop()
    assert {AttemptLog(row).attempt_count for row in fixture.outbox.deliveries()} == {len(each) - 1}
    assert {row["status"] for row in fixture.outbox.deliveries()} == {"pending"}
    assert max(each) <= 2_048, each
    assert RULE.delivery.in_flight == 8
