"""The outbox: what is told, when, in which order, under whose name, and when we stop."""

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
from leyden.callbacks.receivers import Receivers
from leyden.callbacks.replies import TIMEOUT, Reply
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import delivery_resource, retry_after_ms
from leyden.server.errors import InternalError, StorageUnavailable, StoreError
from leyden.server.ports import CallbackResponse
from leyden.server.store.store import Store
from leyden.server.timestamps import parse_duration, to_iso
from leyden.world.clock import VirtualClock
from leyden.world.rng import RandomStreams
from tests.support.outbox_helpers import NEXT_SECRET, PAUSES, RULE, SECRET, SHOP, START, Desk, Held, rule

HOUR = parse_duration("1h")


def pauses_made(row: dict[str, Any]) -> list[int]:
    """The waits between the end of each attempt and the beginning of the next."""
    attempts = AttemptLog(row).attempts()
    return [after.at - before.ended_at for before, after in pairwise(attempts)]


# The schedule


def test_a_delivery_is_made_at_once_when_time_next_moves() -> None:
    desk = Desk()
    desk.tell()
    assert desk.row()["status"] == "pending"
    assert len(desk.shop.inbox) == 0

    desk.clock.run_until_next_event()

    (got,) = desk.shop.inbox
    assert (got.at, got.path, got.json) == (START, "/hook", {"id": "c1", "status": "completed"})
    assert got.verdict == []
    assert desk.row()["status"] == "delivered"
    assert len(desk.clock) == 0


@given(seed=st.integers(0, 2**32))
def test_a_receiver_that_is_down_for_70_hours_gets_the_next_scheduled_attempt_in_one_advance(seed: int) -> None:
    back_at = START + 70 * HOUR
    desk = Desk(seed=seed)

    class Late(Receivers):
        def post(self, post: Any, answered: Any) -> None:
            answered(post, CallbackResponse(status=500 if desk.clock.now() < back_at else 200))

    # The rest of the desk stays as it is.
    desk.callbacks._transport = Late(desk.store, VirtualClock(START), desk.journal)
    desk.tell()
    desk.pass_time("100h")

    row = desk.row()
    waits = pauses_made(row)
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
        made = next(place for place, at in enumerate(due) if at >= START + 70 * HOUR)
        sandbox.receiver("shop").when(200, attempt=made + 1)

        sandbox.advance("100h")

        [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")
        assert [attempt["at"] for attempt in delivery["attempts"]] == [to_iso(at) for at in due[: made + 1]]
        assert [attempt["status"] for attempt in delivery["attempts"]] == [500] * made + [200]
        assert (delivery["status"], delivery["chargeId"], made) == ("delivered", charge.id, 9)


def test_a_receiver_that_never_says_2xx_ends_the_delivery_after_the_last_attempt() -> None:
    desk = Desk()
    desk.shop.always(503)
    desk.tell()
    desk.pass_time("75h")
    desk.pass_time("20h")

    row = desk.row()
    assert row["status"] == "exhausted"
    assert row["due_at"] is None
    assert [got.attempt for got in desk.shop.inbox] == list(range(1, len(PAUSES) + 1))
    assert {got.webhook_id for got in desk.shop.inbox} == {row["id"]}
    assert {got.body for got in desk.shop.inbox} == {row["body"]}
    assert desk.streams.stream("jitter").position == len(PAUSES) - 1
    assert len(desk.clock) == 0


def test_without_jitter_the_schedule_is_exact() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.always(500)
    desk.tell()
    desk.pass_time("90h")
    assert pauses_made(desk.row()) == list(PAUSES[1:])
    assert desk.streams.stream("jitter").position == 0


def test_a_wait_before_the_first_attempt_is_spread_like_every_other() -> None:
    desk = Desk(rule=rule(delays_ms=(10_000, 20_000)))
    drawn = RandomStreams(7).stream("jitter").uniform()
    desk.tell()
    desk.pass_time("12s")
    assert desk.shop.inbox[0].at == START + round(10_000 * (0.8 + 0.4 * drawn))


def test_a_pause_is_counted_from_the_end_of_the_attempt_before() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.answers([TIMEOUT, 200])
    desk.tell()
    desk.pass_time("1m")
    first, second = AttemptLog(desk.row()).attempts()
    assert (first.error, first.ended_at - first.at) == ("timeout", 15_000)
    assert second.at - first.at == 20_000


@pytest.mark.parametrize(
    ("answer", "status"),
    [(199, "pending"), (200, "delivered"), (204, "delivered"), (299, "delivered"), (300, "pending"), (307, "pending")],
)
def test_only_2xx_is_success_and_a_redirect_is_not_followed(answer: int, status: str) -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell()
    desk.pass_time("0s")
    courier.answer(status=answer, headers={"location": "http://elsewhere.example/"})
    assert desk.row()["status"] == status


def test_a_body_that_breaks_the_spec_is_our_own_defect_and_is_said_loudly() -> None:
    desk = Desk()
    with pytest.raises(InternalError, match=r"chargeUpdated.*note") as caught:
        desk.tell(data={"id": "c1", "status": "completed", "note": 5})
    [fault] = caught.value.field_errors
    assert fault.pointer == "/note"
    assert '5 is not of type "string"' in fault.detail
    assert desk.callbacks.deliveries() == []
    desk.pass_time("1h")
    assert len(desk.shop.inbox) == 0


def test_a_spec_that_asks_for_the_envelope_gets_it() -> None:
    properties = {"type": {}, "timestamp": {}, "sequence": {}, "data": {"type": "object"}}
    schema = {"type": "object", "required": list(properties), "additionalProperties": False, "properties": properties}
    desk = Desk(rule=rule(schema, form="envelope"))
    desk.tell(sequence=3)
    desk.pass_time("0s")
    assert desk.shop.inbox[0].json == {
        "type": "charge.completed",
        "timestamp": to_iso(START),
        "sequence": 3,
        "data": {"id": "c1", "status": "completed"},
    }


# Endings


def test_410_stops_the_delivery_and_every_later_one_of_that_resource() -> None:
    desk = Desk()
    desk.shop.answers([410])
    desk.tell(sequence=1)
    desk.tell(sequence=2)
    desk.pass_time("1m")
    desk.tell(sequence=3)
    desk.pass_time("100h")
    assert [row["status"] for row in desk.callbacks.deliveries()] == ["stopped"] * 3
    assert len(desk.shop.inbox) == 1

    desk.tell(resource="c2")
    desk.tell(resource="c1", url="http://shop.localhost/other", sequence=4)
    desk.pass_time("1m")
    assert len(desk.shop.inbox) == 3


def test_410_closes_the_endpoint_for_all_payments_of_a_static_charge() -> None:
    desk = Desk()
    desk.shop.answers([410])
    desk.tell(resource="child1", endpoint_id="static")
    desk.pass_time("1m")
    desk.tell(resource="child2", endpoint_id="static")
    assert desk.row("child2")["status"] == "stopped"
    finished = [(entry.subject, entry.facts) for entry in desk.journal.entries(kind="callback_finished")]
    assert finished == [
        (desk.row("child1")["id"], {"resource": "child1", "status": "stopped", "attempts": 1}),
        (desk.row("child2")["id"], {"resource": "child2", "status": "stopped", "attempts": 0}),
    ]


def test_410_stops_what_else_waits_for_that_endpoint_at_once() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.always(500)
    for number in range(3):
        desk.tell(resource=f"child{number}", endpoint_id="static")
    desk.tell(resource="child9", endpoint_id="static", url="http://shop.localhost/other")
    desk.tell(resource="stranger")
    desk.pass_time("1s")
    desk.shop.always(410)
    desk.clock.step()
    assert sorted(row["status"] for row in desk.callbacks.deliveries()) == ["pending"] * 2 + ["stopped"] * 3
    assert len(desk.clock) == 2
    assert len(desk.journal.entries(kind="callback_finished")) == 3


def test_an_attempt_under_way_while_the_endpoint_closes_is_the_last() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    for resource in ("one", "two", "three"):
        desk.tell(resource=resource, endpoint_id="static")
    desk.pass_time("0s")
    courier.answer(1, status=410)
    assert [desk.row(name)["status"] for name in ("one", "two", "three")] == ["pending", "stopped", "pending"]
    courier.answer(0, status=500)
    courier.answer(0, status=200)
    assert [desk.row(name)["status"] for name in ("one", "two", "three")] == ["stopped", "stopped", "delivered"]
    assert len(desk.clock) == 0


def test_an_attempt_lost_while_the_endpoint_closed_is_not_made_again_after_a_restart() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    for resource in ("one", "two"):
        desk.tell(resource=resource, endpoint_id="static")
    desk.pass_time("0s")
    courier.answer(1, status=410)
    again = Desk(store=desk.store, seed=8)
    again.callbacks.resume()
    again.pass_time("1h")
    assert [again.row(name)["status"] for name in ("one", "two")] == ["stopped", "stopped"]
    assert len(again.shop.inbox) == 0


# Once more, because somebody asks


@pytest.mark.parametrize("answers", [[200], [500] * 10, [410]])
def test_a_finished_delivery_can_be_replayed_under_its_own_id(answers: list[int]) -> None:
    desk = Desk()
    desk.shop.answers(answers)
    desk.tell()
    desk.pass_time("100h")
    before = desk.row()
    desk.shop.answers([500, 200])
    desk.callbacks.replay(before["id"])
    desk.pass_time("0s")
    assert desk.row()["status"] == "pending"
    desk.pass_time("6s")
    row = desk.row()
    assert row["status"] == "delivered"
    assert [attempt.status for attempt in AttemptLog(row).attempts()] == [*answers, 500, 200]
    assert {(got.webhook_id, got.body) for got in desk.shop.inbox} == {(before["id"], before["body"])}
    assert [got.attempt for got in desk.shop.inbox] == list(range(1, len(answers) + 3))
    assert len(desk.journal.entries(kind="callback_replayed")) == 1


def test_a_replay_that_fails_has_the_whole_schedule_before_it() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.tell()
    desk.pass_time("1s")
    desk.shop.always(500)
    desk.callbacks.replay(desk.row()["id"])
    desk.pass_time("100h")
    assert desk.row()["status"] == "exhausted"
    assert pauses_made(desk.row())[1:] == list(PAUSES[1:])


def test_a_replay_of_a_waiting_delivery_sends_it_now_and_one_in_flight_is_left_alone() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell()
    desk.pass_time("0s")
    desk.callbacks.replay(desk.row()["id"])
    desk.pass_time("1s")
    assert len(courier.posts) == 1
    courier.answer(status=500)
    desk.callbacks.replay(desk.row()["id"])
    desk.pass_time("0s")
    assert [post.attempt for post, _ in courier.posts] == [2]
    with pytest.raises(LookupError, match="nobody"):
        desk.callbacks.replay("nobody")


def test_a_replay_outlives_a_restart_and_opens_no_closed_endpoint() -> None:
    desk = Desk()
    desk.shop.answers([410])
    desk.tell()
    desk.pass_time("1s")
    desk.callbacks.replay(desk.row()["id"])
    again = Desk(store=desk.store, start=desk.clock.now(), seed=8)
    again.callbacks.resume()
    again.pass_time("1s")
    assert again.row()["status"] == "delivered"
    again.tell(sequence=2)
    assert again.row(place=1)["status"] == "stopped"


def test_a_replay_waits_its_turn_behind_an_older_message_of_the_resource() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.tell(sequence=1)
    desk.tell(sequence=2)
    desk.pass_time("1s")
    first, second = desk.callbacks.deliveries("c1")
    desk.shop.answers([500, 200])
    desk.callbacks.replay(first["id"])
    desk.callbacks.replay(second["id"])
    desk.pass_time("1m")
    order = [got.webhook_id for got in desk.shop.inbox]
    assert order == [first["id"], second["id"], first["id"], first["id"], second["id"]]


def test_a_waiting_delivery_can_be_put_earlier_or_later_and_a_finished_one_cannot() -> None:
    desk = Desk()
    desk.tell()
    desk.callbacks.reschedule(desk.row()["id"], START + 7_000)
    desk.pass_time("6s")
    assert len(desk.shop.inbox) == 0
    desk.callbacks.reschedule(desk.row()["id"], START + 6_500)
    desk.pass_time("1s")
    assert [got.at for got in desk.shop.inbox] == [START + 6_500]
    desk.callbacks.reschedule(desk.row()["id"], START + 60_000)
    assert desk.row()["status"] == "delivered"
    assert len(desk.clock) == 0


def test_what_is_under_way_or_over_is_not_put_off() -> None:
    desk = Desk(courier=(courier := Held()))
    desk.tell()
    desk.pass_time("0s")
    for _ in range(2):
        before = desk.row()
        desk.callbacks.reschedule(before["id"], START + 60_000)
        assert (desk.row(), len(desk.clock)) == (before, 0)
        if courier.posts:
            courier.answer(status=200)


def test_an_attempt_that_the_egress_policy_forbids_is_final() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell()
    desk.pass_time("0s")
    courier.answer(error="blocked", note="private-network")
    assert desk.row()["status"] == "blocked"
    assert AttemptLog(desk.row()).attempts()[0].note == "private-network"
    assert len(desk.clock) == 0


def test_the_journal_tells_the_whole_story_of_a_delivery() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.answers([500, "refused", 200, 204])
    desk.tell()
    desk.pass_time("1h")
    desk.callbacks.replay(desk.row()["id"])
    desk.pass_time("1s")
    story = desk.journal.entries(subject=desk.row()["id"])

    def sent(attempt: int) -> tuple[str, dict[str, Any]]:
        return "callback_sent", {"resource": "c1", "event": "charge.completed", "attempt": attempt}

    def answered(attempt: int, status: int | None, error: str | None = None) -> tuple[str, dict[str, Any]]:
        return "callback_answered", {"resource": "c1", "attempt": attempt, "status": status, "error": error}

    assert [(entry.kind, entry.facts) for entry in story] == [
        sent(1),
        answered(1, 500),
        sent(2),
        answered(2, None, "refused"),
        sent(3),
        answered(3, 200),
        ("callback_finished", {"resource": "c1", "status": "delivered", "attempts": 3}),
        ("callback_replayed", {"resource": "c1"}),
        sent(4),
        answered(4, 204),
        ("callback_finished", {"resource": "c1", "status": "delivered", "attempts": 4}),
    ]


# Retry-After

AT_S = START // 1_000


@pytest.mark.parametrize(
    ("header", "waited_s"),
    [
        ("4", 5),
        ("5", 5),
        ("6", 6),
        ("10", 10),
        ("11", 10),
        ("99999999999", None),
        ("0", 5),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٧", None),
        ("+7", None),
        (format_datetime(datetime.fromtimestamp(AT_S + 7, UTC), usegmt=True), 7),
        (format_datetime(datetime.fromtimestamp(AT_S + 70, UTC), usegmt=True), 10),
        (format_datetime(datetime.fromtimestamp(AT_S - 70, UTC), usegmt=True), 5),
        (datetime.fromtimestamp(AT_S + 8, UTC).strftime("%A, %d-%b-%y %H:%M:%S GMT"), 8),
        (datetime.fromtimestamp(AT_S + 8, UTC).strftime("%a %b %e %H:%M:%S %Y"), 8),
    ],
)
def test_retry_after_is_honoured_between_the_pause_and_twice_the_pause(header: str, waited_s: int | None) -> None:
    desk = Desk()
    desk.shop.answers([Reply(429, headers={"Retry-After": header})])
    desk.tell()
    desk.pass_time("1m")
    (wait,) = pauses_made(desk.row())
    if waited_s is None:
        assert 4_000 <= wait <= 6_000
        assert desk.streams.stream("jitter").position == 1
    else:
        assert wait == waited_s * 1_000


@pytest.mark.parametrize(("status", "heeded"), [(429, True), (503, True), (500, False), (302, False)])
def test_only_who_is_overrun_may_ask_for_a_wait(status: int, heeded: bool) -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.answers([Reply(status, headers={"Retry-After": "9"})])
    desk.tell()
    desk.pass_time("1m")
    assert pauses_made(desk.row()) == [9_000 if heeded else 5_000]


@given(st.text() | st.from_regex(r"[0-9A-Za-z,: +-]{0,40}"))
def test_no_retry_after_is_too_odd_to_be_read_or_ignored(text: str) -> None:
    wait = retry_after_ms({"Retry-After": text}, AT_S)
    assert wait is None or wait >= 0


# Order


def test_a_resource_hears_its_second_news_only_after_the_first_is_settled() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.answers([500, 500, 200])
    desk.tell(status="completed", sequence=1)
    desk.tell(status="expired", sequence=2)
    desk.tell(resource="c2", url="http://other.localhost/hook")
    desk.pass_time("1h")
    heard = [(got.json["status"], got.attempt) for got in desk.shop.inbox]
    assert heard == [("completed", 1), ("completed", 2), ("completed", 3), ("expired", 1)]
    assert [got.at for got in desk.receivers["other"].inbox] == [START]
    assert {row["status"] for row in desk.callbacks.deliveries()} == {"delivered"}


def test_a_message_given_up_lets_the_next_one_go() -> None:
    desk = Desk()
    desk.shop.always(500)
    desk.tell(sequence=1)
    desk.tell(sequence=2)
    desk.pass_time("91h")
    assert [desk.row(place=place)["status"] for place in (0, 1)] == ["exhausted", "pending"]
    assert desk.row(place=1)["attempts"]
    assert AttemptLog(desk.row(place=1)).attempts()[0].at == AttemptLog(desk.row(place=0)).attempts()[-1].ended_at


def test_no_more_attempts_are_in_flight_than_the_rule_allows_and_the_rest_go_in_due_order() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    for number in range(12):
        desk.tell(resource=f"c{number}")
    desk.pass_time("1m")
    assert desk.callbacks.in_flight_count == 8
    assert [orjson.loads(post.body)["id"] for post, _ in courier.posts] == [f"c{n}" for n in range(8)]

    courier.answer(3, status=200)
    assert desk.callbacks.in_flight_count == 8
    assert orjson.loads(courier.posts[-1][0].body)["id"] == "c8"
    while courier.posts:
        courier.answer(status=200)
    assert desk.callbacks.in_flight_count == 0
    assert {row["status"] for row in desk.callbacks.deliveries()} == {"delivered"}


def test_a_thousand_waiting_messages_go_in_one_breath_without_deep_recursion() -> None:
    desk = Desk()
    desk.receivers["slow"].always(Reply(200, delay="5s"))
    for number in range(8):
        desk.tell(resource=f"slow{number}", url="http://slow.localhost/")
    for number in range(2 * sys.getrecursionlimit()):
        desk.tell(resource=f"c{number}")
    desk.pass_time("4s")
    assert len(desk.shop.inbox) == 0
    desk.pass_time("1s")
    assert len(desk.shop.inbox) == 2 * sys.getrecursionlimit()
    assert {row["status"] for row in desk.callbacks.deliveries()} == {"delivered"}


# Identity and signature


def test_the_signature_satisfies_the_public_verifier_with_the_old_secret_and_the_new() -> None:
    desk = Desk(secrets=[NEXT_SECRET, SECRET])
    desk.tell()
    desk.pass_time("0s")
    (got,) = desk.shop.inbox
    with freeze_time(to_iso(START)):
        for secret in (SECRET, NEXT_SECRET):
            assert Webhook(secret).verify(got.body, dict(got.headers)) == got.json
    assert got.headers["webhook-signature"].count("v1,") == 2


def test_the_headers_say_what_when_and_for_the_how_manyeth_time() -> None:
    desk = Desk(courier=(courier := Held(wall_s=1_700_000_000)), rule=rule(jitter=0.0))
    desk.tell()
    desk.pass_time("0s")
    courier.answer(status=500)
    desk.pass_time("5s")
    ((post, _),) = courier.posts
    assert (post.url, post.connect_timeout_ms, post.timeout_ms) == (SHOP, 3_000, 15_000)
    signature = post.headers["webhook-signature"]
    assert dict(post.headers) == {
        "content-type": "application/json",
        "user-agent": "leyden/9.9",
        "webhook-id": desk.row()["id"],
        "webhook-timestamp": "1700000000",
        "webhook-signature": signature,
        "leyden-event": "charge.completed",
        "leyden-attempt": "2",
        "leyden-time": to_iso(START + 5_000),
    }
    shown = delivery_resource(desk.row(), desk.callbacks.signature)
    assert shown["attempts"][1]["headers"] == dict(post.headers)
    assert shown["body"].encode() == post.body
    assert shown["dueAt"] is None


def test_the_control_plane_sees_each_attempt() -> None:
    desk = Desk(rule=rule(jitter=0.0))
    desk.shop.answers([500])
    desk.tell()
    desk.pass_time("1s")
    shown = delivery_resource(desk.row(), desk.callbacks.signature)
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


def test_of_a_long_answer_four_kibibytes_are_kept() -> None:
    desk = Desk()
    desk.shop.answers([Reply(500, body="x" * 9_000)])
    desk.tell()
    desk.pass_time("0s")
    assert AttemptLog(desk.row()).attempts()[0].response_body == "x" * 4_096


# What outlives the process, and what does not happen twice


def test_a_second_answer_to_the_same_attempt_changes_nothing() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell()
    desk.pass_time("0s")
    post, answered = courier.posts[0]
    answered(post, CallbackResponse(status=200))
    before = desk.row(), desk.journal.hash
    answered(post, CallbackResponse(status=500))
    assert (desk.row(), desk.journal.hash) == before


def test_a_timer_that_outlived_its_message_sends_nothing() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell()
    desk.pass_time("0s")
    waiting = desk.row()["id"]
    for late in (waiting, "one whose commit was refused"):
        desk.callbacks.on_due(late)
    assert (len(courier.posts), desk.callbacks.in_flight_count) == (1, 1)
    courier.answer(status=200)
    desk.callbacks.on_due(waiting)
    assert (len(courier.posts), desk.callbacks.in_flight_count) == (0, 0)
    desk.tell(sequence=2)
    desk.pass_time("0s")
    assert len(courier.posts) == 1


def test_after_a_restart_a_lost_attempt_is_made_again_under_the_same_id() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell(resource="lost", sequence=1)
    desk.tell(resource="lost", sequence=2)
    desk.tell(resource="waiting")
    desk.pass_time("0s")
    courier.answer(1, status=500)
    desk.pass_time("2s")
    (old_post, old_answered) = courier.posts[0]

    again = Desk(store=desk.store, start=START + 2_000, seed=8)
    again.callbacks.resume()
    assert again.callbacks.in_flight_count == 0
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

    before = again.callbacks.deliveries()
    old_answered(old_post, CallbackResponse(status=500))
    again.callbacks.on_response(old_post, CallbackResponse(status=500))
    assert again.callbacks.deliveries() == before


def test_what_is_overdue_after_a_restart_goes_in_due_order() -> None:
    desk = Desk(courier=(courier := Held()), rule=rule(jitter=0.0, in_flight=1))
    desk.tell(resource="again")
    desk.pass_time("0s")
    courier.answer(status=500)  # due once more at five seconds
    desk.tell(resource="lost")
    desk.pass_time("1s")
    desk.tell(resource="new")
    desk.pass_time("9s")
    restarted = Desk(store=desk.store, start=desk.clock.now(), rule=desk.rule)
    restarted.callbacks.resume()
    restarted.pass_time("0s")
    assert [got.json["id"] for got in restarted.shop.inbox] == ["new", "again", "lost"]


def test_a_lost_attempt_takes_nothing_off_the_schedule() -> None:
    courier = Held()
    desk = Desk(courier=courier, rule=rule(delays_ms=(0, 5_000), jitter=0.0))
    desk.tell()
    desk.pass_time("0s")
    again = Desk(store=desk.store, rule=desk.rule)
    again.callbacks.resume()
    again.shop.always(500)
    again.pass_time("1h")
    assert [(a.error, a.status) for a in AttemptLog(again.row()).attempts()] == [
        ("lost", None),
        (None, 500),
        (None, 500),
    ]
    assert again.row()["status"] == "exhausted"


def test_a_closed_endpoint_stays_closed_after_a_restart() -> None:
    desk = Desk()
    desk.shop.answers([410])
    desk.tell()
    desk.pass_time("0s")
    again = Desk(store=desk.store, seed=8)
    again.callbacks.resume()
    again.tell(sequence=2)
    assert again.row(place=1)["status"] == "stopped"


def test_a_restart_under_a_spec_without_the_callback_says_so() -> None:
    desk = Desk()
    desk.tell()
    again = Desk(store=desk.store)
    again.callbacks._rules = {}
    with pytest.raises(StoreError, match=r"chargeUpdated.*serve the spec"):
        again.callbacks.resume()


def test_a_refused_commit_leaves_no_delivery_behind_and_the_next_one_is_told() -> None:
    desk = Desk()

    class DiskFull(Exception):
        pass

    def refused() -> None:
        with desk.store.commit():
            desk.tell()
            raise DiskFull

    with pytest.raises(DiskFull):
        refused()
    desk.pass_time("1s")
    assert desk.callbacks.deliveries() == []
    desk.tell()
    desk.pass_time("1s")
    assert [got.verdict for got in desk.shop.inbox] == [[]]


def test_an_answer_to_an_attempt_that_was_never_written_down_frees_its_hand() -> None:
    desk = Desk(courier=(courier := Held()))
    desk.tell()

    def refused() -> None:
        with desk.store.commit():
            desk.callbacks.on_due(desk.row()["id"])
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused()
    assert (desk.row()["attempts"], desk.callbacks.in_flight_count) == ("", 1)
    courier.answer(status=200)
    assert (desk.row()["attempts"], desk.callbacks.in_flight_count) == ("", 0)


def test_an_answer_whose_commit_was_refused_leaves_its_attempt_under_way() -> None:
    courier = Held()
    desk = Desk(courier=courier)
    desk.tell()
    desk.pass_time("0s")
    [(post, answered)] = courier.posts
    desk.callbacks.begin()

    def refused() -> None:
        with desk.store.commit():
            answered(post, CallbackResponse(status=200))
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused()
    desk.callbacks.rollback()
    assert (desk.row()["status"], desk.callbacks.in_flight_count) == ("pending", 1)
    answered(post, CallbackResponse(status=200))
    assert (desk.row()["status"], desk.callbacks.in_flight_count) == ("delivered", 0)


@pytest.mark.parametrize("refused_at", ["0s", "2s"])
def test_an_event_whose_commit_the_disk_refuses_happens_again(refused_at: str) -> None:
    desk = Desk()
    refuse_at = START + parse_duration(refused_at)

    @contextmanager
    def around() -> Iterator[None]:
        nonlocal refuse_at
        with desk.store.commit():
            yield
            if desk.clock.now() == refuse_at:
                refuse_at = 0
                raise StorageUnavailable("the disk is full")

    desk.clock.event_context = around
    desk.shop.always(Reply(200, delay="2s"))
    desk.tell()
    with pytest.raises(StorageUnavailable):
        desk.pass_time("1m")
    desk.pass_time("1m")
    assert desk.row()["status"] == "delivered"
    assert desk.callbacks.in_flight_count == 0
    assert [got.webhook_id for got in desk.shop.inbox] == [desk.row()["id"]]


def test_a_fork_in_mid_flight_goes_on_like_the_original() -> None:
    one = Desk(rule=rule(in_flight=2))
    one.shop.answers([Reply(200, delay="9s"), TIMEOUT, 410, 500, 500])
    for number in range(6):
        one.tell(resource=f"c{number}")
    one.pass_time("3s")
    assert one.callbacks.in_flight_count == 2

    two = Desk(store=Store.from_snapshot(one.store.snapshot()), clock=one.clock.fork(), rule=one.rule)
    two.streams.restore(one.streams.snapshot())
    two.journal = one.journal.fork(two.clock)
    two.callbacks._journal = two.receivers._journal = two.journal
    two.callbacks.restore(orjson.loads(orjson.dumps(one.callbacks.snapshot())))
    assert two.journal.hash == one.journal.hash

    one.pass_time("100h")
    assert two.callbacks.in_flight_count == 2
    two.pass_time("100h")
    assert two.callbacks.deliveries() == one.callbacks.deliveries()
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
def test_whatever_receivers_do_every_message_ends_once_and_in_order(
    seed: int, news: list[tuple[str, str]], script: list[Any], restart: bool
) -> None:
    desk = Desk(seed=seed, rule=rule(in_flight=2))
    desk.shop.answers(script)
    for sequence, (resource, span) in enumerate(news):
        desk.tell(resource=resource, sequence=sequence)
        desk.pass_time(span)
    if restart:
        desk = Desk(store=desk.store, start=desk.clock.now(), rule=desk.rule)
        desk.callbacks.resume()
        desk.shop.answers(script)
    desk.clock.run_until_idle()
    received = list(desk.shop.inbox)

    rows = desk.callbacks.deliveries()
    assert len(rows) == len(news)
    assert {row["status"] for row in rows} <= {"delivered", "exhausted"}
    assert desk.callbacks.in_flight_count == 0
    assert all(got.verdict == [] for got in received)
    for resource in "abc":
        mine = [row for row in rows if row["resource_id"] == resource]
        sent = [[attempt.at for attempt in AttemptLog(row).attempts()] for row in mine]
        assert all(before[-1] <= after[0] for before, after in pairwise(sent))
        order = [got.webhook_id for got in received if got.json["id"] == resource]
        assert order == sorted(order, key=[row["id"] for row in mine].index)


class Failing:
    """A courier to whom every receiver says 500 at once."""

    def post(self, post: Any, answered: Any) -> None:
        answered(post, CallbackResponse(status=500, body=b"Internal Server Error", latency_ms=12))

    def receiver_time_s(self, url: str) -> int:
        return START // 1_000


class Silent:
    """A journal that keeps nothing: a served sandbox keeps the latest entries, however many callbacks wait."""

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Nothing."""


def test_ten_thousand_waiting_deliveries_fit_in_two_kilobytes_each_however_often_they_failed() -> None:
    count = 625  # they fill their tables as 10,000 do: nine tenths of the room that these have
    text = "lnbcrt500n1" + "q" * 300
    desk = Desk(store=Store.memory(), rule=rule({"type": "object"}), courier=Failing())  # type: ignore[arg-type]
    desk.callbacks._journal = Silent()
    # A Charge's own strings exist anyway; the delivery's are what is counted.
    charges = [
        (f"{number:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa", f"https://shop.localhost/{number}") for number in range(count)
    ]
    each = []
    # Instants that were written out are remembered, so many and no more.
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
            desk.tell(resource=charge_id, url=url, status="expired", data=data)
        del data
        for pause in (None, *PAUSES[:-1]):
            if pause is not None:
                desk.clock.run_to(desk.clock.now() + round(1.2 * pause))
            gc.collect()
            held = tracemalloc.take_snapshot().filter_traces([aside]).statistics("filename")
            each.append(sum(place.size for place in held) / count)
    finally:
        tracemalloc.stop()
    assert {AttemptLog(row).attempt_count for row in desk.callbacks.deliveries()} == {9}
    assert {row["status"] for row in desk.callbacks.deliveries()} == {"pending"}
    assert max(each) <= 2_048, each
    assert RULE.delivery.in_flight == 8
