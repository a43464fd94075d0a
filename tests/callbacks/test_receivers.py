"""The receivers in process: they answer as told, and they look at the post as a careful shop would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leyden.callbacks.replies import (
    COMMIT_THEN_500,
    EMPTY,
    ENDLESS,
    HUGE,
    PROTOCOL,
    REFUSED,
    RESET,
    TIMEOUT,
    TLS,
    UNRESOLVED,
    WORDS,
    Reply,
    reply_resource,
    said_from,
)
from leyden.server.callbacks.signing import sign
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from tests.support.outbox_helpers import NEXT_SECRET, SECRET, START, OutboxFixture

BODY = b'{"id":"c1","status":"completed"}'
AT_S = START // 1_000


def post(
    url: str = "http://shop.localhost/hook", body: bytes = BODY, stamp_s: int = AT_S, **headers: str | None
) -> CallbackRequest:
    """A post as the outbox would make it; `headers` replace its own, None takes one away (`_` stands for `-`)."""
    given: dict[str, str | None] = {
        "content-type": "application/json",
        "webhook-id": "m1",
        "webhook-timestamp": str(stamp_s),
        "webhook-signature": sign([SECRET], "m1", stamp_s, body.decode()),
        "leyden-event": "charge.completed",
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in given.items() if value is not None}
    return CallbackRequest("m1", 1, url, kept, body, 3_000, 15_000)


class Answers:
    """Who posted, and what came back."""

    def __init__(self) -> None:
        self.all: list[CallbackResponse] = []

    def __call__(self, post: CallbackRequest, answer: CallbackResponse) -> None:
        self.all.append(answer)


@pytest.fixture
def desk() -> OutboxFixture:
    return OutboxFixture()


@pytest.fixture
def back() -> Answers:
    return Answers()


# Answers


def test_a_receiver_answers_its_script_and_then_200_again(desk: OutboxFixture, back: Answers) -> None:
    desk.shop.answers([500, Reply(429, headers={"Retry-After": "7"}, body="later")])
    for _ in range(3):
        desk.receivers.post(post(), back)
    assert [answer.status for answer in back.all] == [500, 429, 200]
    assert (back.all[1].headers, back.all[1].body) == ({"retry-after": "7"}, b"later")
    assert [got.answer for got in desk.shop.inbox] == [500, 429, 200]


def test_always_holds_until_it_is_changed_and_a_script_comes_first(desk: OutboxFixture, back: Answers) -> None:
    desk.receivers.receiver("shop", answers=[204], always=503)
    for _ in range(3):
        desk.receivers.post(post(), back)
    desk.shop.always(200)
    desk.receivers.post(post(), back)
    assert [answer.status for answer in back.all] == [204, 503, 503, 200]


@pytest.mark.parametrize("word", [RESET, REFUSED, UNRESOLVED, TLS, PROTOCOL])
def test_a_connection_can_fail_in_each_way_and_only_some_posts_reach_the_receiver(
    desk: OutboxFixture, back: Answers, word: str
) -> None:
    desk.shop.answers([word])
    desk.receivers.post(post(), back)
    assert (back.all[0].status, back.all[0].error) == (None, word)
    assert len(desk.shop.inbox) == (1 if word in {RESET, PROTOCOL} else 0)


def test_a_late_answer_comes_when_the_clock_gets_there(desk: OutboxFixture, back: Answers) -> None:
    desk.shop.answers([Reply(delay="2s")])
    desk.receivers.post(post(), back)
    desk.pass_time("1.999s")
    assert back.all == []
    desk.pass_time("1ms")
    assert (back.all[0].status, back.all[0].latency_ms) == (200, 2_000)


@pytest.mark.parametrize(("delay_ms", "error"), [(14_999, None), (15_000, "timeout"), (15_001, "timeout")])
def test_an_answer_at_the_timeout_is_too_late(
    desk: OutboxFixture, back: Answers, delay_ms: int, error: str | None
) -> None:
    desk.shop.answers([Reply(delay=f"{delay_ms}ms")])
    desk.receivers.post(post(), back)
    desk.pass_time("1m")
    assert back.all[0].error == error
    assert back.all[0].latency_ms == min(delay_ms, 15_000)
    assert len(desk.shop.inbox) == 1


def test_a_receiver_that_never_answers_costs_one_timeout(desk: OutboxFixture, back: Answers) -> None:
    desk.shop.answers([TIMEOUT])
    desk.receivers.post(post(), back)
    desk.pass_time("14.999s")
    assert back.all == []
    desk.pass_time("1ms")
    assert back.all[0].error == "timeout"


@pytest.mark.parametrize("said", ["later", 99, 199, 600, True, Reply(delay="-1s"), Reply(error="gone")])
def test_nonsense_is_refused_when_it_is_said(desk: OutboxFixture, said: Any) -> None:
    with pytest.raises(ValueError):
        desk.shop.answers([said])
    with pytest.raises(ValueError):
        desk.shop.always(said)


def test_a_name_its_localhost_host_and_odd_capitals_are_one_receiver(desk: OutboxFixture, back: Answers) -> None:
    for url in (
        "http://shop.localhost/a",
        "https://SHOP.localhost:8443/b?x=1",
        "http://shop/c",
        "http://shop.localhost./",
    ):
        desk.receivers.post(post(url), back)
    desk.receivers.post(post("http://shop.example/d"), back)
    assert [got.path for got in desk.shop.inbox] == ["/a", "/b?x=1", "/c", "/"]
    assert [got.path for got in desk.receivers["shop.example"].inbox] == ["/d"]
    assert {receiver.name for receiver in desk.receivers} == {"shop", "shop.example"}


def test_the_receivers_clock_is_the_sandbox_clock(desk: OutboxFixture) -> None:
    desk.pass_time("90m")
    assert desk.receivers.receiver_time_s("http://shop/") == AT_S + 5_400


@pytest.mark.parametrize(
    ("word", "status", "error", "commits"),
    [
        (EMPTY, None, "reset", False),
        (HUGE, 200, None, True),
        (ENDLESS, None, "timeout", True),
        (COMMIT_THEN_500, 500, None, True),
        (TIMEOUT, None, "timeout", False),
        (RESET, None, "reset", False),
    ],
)
def test_a_word_is_what_the_sender_sees_and_what_the_receiver_did(
    desk: OutboxFixture, back: Answers, word: str, status: int | None, error: str | None, commits: bool
) -> None:
    desk.shop.answers([word])
    desk.receivers.post(post(), back)
    desk.pass_time("1m")
    assert (back.all[0].status, back.all[0].error) == (status, error)
    got = desk.shop.inbox[0]
    assert (got.commits, got.answer) == (commits, word)
    assert word in WORDS


@pytest.mark.parametrize("size", [4_095, 4_096, 4_097, 65_536, 65_537, 10_000_000])
def test_of_a_long_reply_no_more_is_read_and_kept_than_of_a_real_one(
    desk: OutboxFixture, back: Answers, size: int
) -> None:
    desk.shop.answers([Reply(size=size)])
    desk.receivers.post(post(), back)
    assert back.all[0].body == b"x" * min(size, 4_096)
    assert ("65536" in back.all[0].note) == (size > 65_536)


@pytest.mark.parametrize("status", [201, 302, 410, 429, 500, 502])
def test_any_status_can_come_late_and_only_success_acts_on_the_message(
    desk: OutboxFixture, back: Answers, status: int
) -> None:
    desk.shop.answers([Reply(status, headers={"Retry-After": "soon", "Location": "http://away.example/"}, delay="14s")])
    desk.receivers.post(post(), back)
    desk.pass_time("14s")
    assert (back.all[0].status, back.all[0].headers["retry-after"]) == (status, "soon")
    assert desk.shop.inbox[0].commits is (status == 201)


def test_a_success_that_comes_too_late_was_still_a_success_over_there(desk: OutboxFixture, back: Answers) -> None:
    desk.shop.answers([Reply(200, delay="16s"), 200])
    for _ in range(2):
        desk.receivers.post(post(), back)
        desk.pass_time("15s")
    assert [answer.error or answer.status for answer in back.all] == ["timeout", 200]
    assert [got.commits for got in desk.shop.inbox] == [True, True], "a receiver that forgets ids acts twice"


# To whom what is answered


def test_a_rule_answers_what_it_fits_as_often_as_it_says_and_before_the_script(
    desk: OutboxFixture, back: Answers
) -> None:
    desk.shop.answers([202]).when(503, event="charge.completed", attempt=1, count=2).when(500, charge="c2", count=None)
    other = post(body=BODY.replace(b"c1", b"c2"), leyden_event="charge.expired")
    for sent in (post(), other, post(), other, post(), replace(post(), attempt=2)):
        desk.receivers.post(sent, back)
    assert [answer.status for answer in back.all] == [503, 500, 503, 500, 202, 200]
    assert [(rule["said"]["status"], rule["charge"], rule["count"]) for rule in desk.shop.rules] == [(500, "c2", None)]
    desk.shop.reset_script()
    desk.receivers.post(other, back)
    assert (back.all[-1].status, desk.shop.rules) == (200, [])


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (b'{"id":"c9","status":"completed"}', True),
        (b'{"id":"c1","staticChargeId":"c9"}', True),
        (b'{"type":"charge.completed","data":{"id":"c9"}}', True),
        (b'{"id":"c1"}', False),
        (b'{"data":7}', False),
        (b"[]", False),
        (b'{"id":"c9', False),
    ],
)
def test_a_charge_is_known_by_its_body_in_every_form(
    desk: OutboxFixture, back: Answers, body: bytes, fits: bool
) -> None:
    desk.shop.when(503, charge="c9")
    desk.receivers.post(post(body=body), back)
    assert back.all[0].status == (503 if fits else 200)


@pytest.mark.parametrize("wrong", [{"attempt": 0}, {"count": 0}, {"count": True}, {"attempt": "1"}])
def test_a_rule_that_fits_nothing_is_refused(desk: OutboxFixture, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole number from 1"):
        desk.shop.when(500, **wrong)


@pytest.mark.parametrize(
    "value",
    [
        404,
        "huge",
        {},
        {"status": 429, "headers": {"retry-after": "7"}, "delay": "2s"},
        {"error": "empty", "delay": 1},
        {"size": 7, "commits": False},
        {"status": 500, "body": "no", "commits": True},
    ],
)
def test_what_is_said_in_json_means_the_same_again(desk: OutboxFixture, value: Any) -> None:
    desk.shop.when(said_from(value), count=None)
    [rule] = desk.shop.rules
    desk.shop.reset_script().when(said_from(rule["said"]), count=None)
    assert desk.shop.rules == [rule]
    if isinstance(value, dict):
        assert {name: rule["said"][name] for name in value if name != "delay"} == {
            name: value[name] for name in value if name != "delay"
        }
    assert set(rule["said"]) == set(reply_resource({**desk.shop._state["default"]}))


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1.5, "later", []),
        *({"statos": 200}, {1: 2}, {"status": "200"}, {"error": 7}, {"commits": "yes"}),
        *({"size": -1}, {"size": 10**10}, {"body": 7}, {"headers": []}, {"headers": {"a": 1}}),
        *({"delay": "-1s"}, {"delay": []}, {"delay": "soon"}),
    ],
)
def test_what_json_cannot_mean_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        said_from(value)


# What a careful receiver notices


def verdict(desk: OutboxFixture, sent: CallbackRequest) -> list[str]:
    desk.receivers.post(sent, Answers())
    return list(desk.shop.inbox[-1].verdict)


def test_a_sound_post_gives_no_cause_for_complaint(desk: OutboxFixture) -> None:
    assert verdict(desk, post()) == []
    noted = desk.journal.entries(kind="callback_received")
    assert [(entry.subject, entry.facts["verdict"]) for entry in noted] == [("shop", [])]


@pytest.mark.parametrize(("off_s", "fine"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_a_timestamp_may_be_five_minutes_off_and_no_more(desk: OutboxFixture, off_s: int, fine: bool) -> None:
    assert (verdict(desk, post(stamp_s=AT_S + off_s)) == []) is fine


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ({"webhook_id": None}, "header missing: webhook-id"),
        ({"webhook_signature": None}, "header missing: webhook-signature"),
        ({"webhook_timestamp": None}, "header missing: webhook-timestamp"),
        ({"webhook_timestamp": "now"}, "not a number of seconds"),
        ({"webhook_timestamp": "1" * 12}, "not a number of seconds"),
        ({"webhook_signature": "v1,AAAA"}, "no signature matches"),
        ({"webhook_signature": "nonsense"}, "no signature matches"),
        ({"webhook_signature": "v2,é"}, "no signature matches"),
        ({"content_type": "text/plain"}, "content-type"),
        ({"leyden_event": "charge.eaten"}, "not in the spec"),
    ],
)
def test_each_wrong_header_is_named(desk: OutboxFixture, headers: dict[str, Any], complaint: str) -> None:
    (told,) = verdict(desk, post(**headers))
    assert complaint in told


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"id":"c1","status":"comp', "not JSON"),
        (b'{"id":"c1"}', "status"),
        (b'{"id":"c1","status":7}', "/status"),
        (b'{"id":"c1","status":"completed","extra":1}', "extra"),
    ],
)
def test_a_body_is_held_against_the_spec(desk: OutboxFixture, body: bytes, complaint: str) -> None:
    (told,) = verdict(desk, post(body=body))
    assert complaint in told


def test_a_body_changed_after_signing_is_noticed(desk: OutboxFixture) -> None:
    assert verdict(desk, replace(post(), body=BODY.replace(b"c1", b"c2"))) == ["no signature matches a valid secret"]


def test_during_a_rotation_either_secret_will_do_and_afterwards_only_the_new(desk: OutboxFixture) -> None:
    both = sign([NEXT_SECRET, SECRET], "m1", AT_S, BODY.decode())
    desk.shop.use_secret(NEXT_SECRET)
    assert verdict(desk, post(webhook_id="m1", webhook_signature=both)) == []
    assert "no signature matches a valid secret" in verdict(desk, post())
    desk.shop.use_secret(None)
    assert "no signature matches a valid secret" not in verdict(desk, post())


def test_a_repeat_is_marked_and_only_blamed_once_it_was_acknowledged(desk: OutboxFixture) -> None:
    desk.shop.answers([500, 200])
    assert verdict(desk, post()) == []
    assert verdict(desk, post()) == []
    assert verdict(desk, post()) == ["the same webhook-id came again after it was acknowledged"]
    assert [got.repeated for got in desk.shop.inbox] == [False, True, True]


def test_one_identity_with_two_bodies_is_noticed(desk: OutboxFixture) -> None:
    desk.shop.always(500)
    verdict(desk, post())
    assert verdict(desk, post(body=BODY.replace(b"c1", b"c2"))) == ["the same webhook-id came with another body"]


# Rows


def test_a_receiver_goes_on_from_its_rows(desk: OutboxFixture, back: Answers) -> None:
    desk.shop.answers([500, 503, 504]).when(418, attempt=7)
    desk.shop.always(202)
    desk.receivers.post(post(), back)
    twin = OutboxFixture(store=Store.from_snapshot(desk.store.snapshot()))
    desk.receivers.post(post(), back)
    for one in (desk, twin):
        assert [got.answer for got in one.shop.inbox] == [500, 503][: len(one.shop.inbox)]
    told = Answers()
    for _ in range(3):
        twin.receivers.post(post(), told)
    twin.receivers.post(replace(post(), attempt=7), told)
    assert [answer.status for answer in told.all] == [503, 504, 202, 418]
    assert [got.repeated for got in twin.shop.inbox] == [False, True, True, True, True]
    assert len(desk.shop.inbox) == 2


def test_what_a_refused_commit_heard_was_not_heard(desk: OutboxFixture, back: Answers) -> None:
    desk.shop.answers([500])

    def refused() -> None:
        with desk.store.commit():
            desk.receivers.post(post(), back)
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused()
    assert len(desk.shop.inbox) == 0
    assert len(desk.shop.script) == 1


def test_of_very_many_posts_the_oldest_are_given_up_and_numbers_go_on(desk: OutboxFixture, back: Answers) -> None:
    desk.receivers._posts.kept = 3
    for number in range(5):
        desk.receivers.post(post(webhook_id=f"m{number}"), back)
    inbox = desk.shop.inbox
    assert (len(inbox), inbox.total) == (3, 5)
    assert [got.webhook_id for got in inbox] == ["m2", "m3", "m4"]
    assert (inbox[0].webhook_id, inbox[-1].webhook_id) == ("m2", "m4")
    assert [number for number, _ in inbox.after(0, 2)] == [3, 4]
    assert [number for number, _ in inbox.after(4, 9)] == [5]
    assert list(inbox.after(5, 9)) == []
    with pytest.raises(IndexError, match="shop holds no post 3: 3 came"):
        inbox[3]
    with pytest.raises(IndexError, match="nothing came yet: let time run"):
        desk.receivers["other"].inbox[0]
    desk.receivers.post(post(webhook_id="m1"), back)
    assert not desk.shop.inbox[-1].repeated, "what was given up is forgotten"


def test_an_inbox_and_a_receiver_show_themselves(desk: OutboxFixture, back: Answers) -> None:
    assert "nothing came yet" in repr(desk.shop.inbox)
    desk.shop.answers([500, 500])
    assert "2 scripted answers" in repr(desk.shop)
    desk.receivers.post(post(), back)
    assert "charge.completed attempt 1 -> 500" in repr(desk.shop.inbox)
    assert [got.attempt for got in desk.shop.inbox[0:5]] == [1]
