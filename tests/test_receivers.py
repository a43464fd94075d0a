"""The receivers in process: they answer as told, and they look at the post as a careful shop would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from server.ports import Answer, Post
from server.signing import sign
from sim.receivers import PROTOCOL, REFUSED, RESET, TIMEOUT, TLS, UNRESOLVED, Reply
from tests.outbox import NEXT_SECRET, SECRET, START, Desk

BODY = b'{"id":"c1","status":"completed"}'
AT_S = START // 1_000


def post(
    url: str = "http://shop.localhost/hook", body: bytes = BODY, stamp_s: int = AT_S, **headers: str | None
) -> Post:
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
    return Post("m1", 1, url, kept, body, 3_000, 15_000)


class Answers:
    """Who posted, and what came back."""

    def __init__(self) -> None:
        self.all: list[Answer] = []

    def __call__(self, post: Post, answer: Answer) -> None:
        self.all.append(answer)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def back() -> Answers:
    return Answers()


# Answers


def test_a_receiver_answers_its_script_and_then_200_again(desk: Desk, back: Answers) -> None:
    desk.shop.answers([500, Reply(429, headers={"Retry-After": "7"}, body="later")])
    for _ in range(3):
        desk.receivers.post(post(), back)
    assert [answer.status for answer in back.all] == [500, 429, 200]
    assert (back.all[1].headers, back.all[1].body) == ({"retry-after": "7"}, b"later")
    assert [got.answer for got in desk.shop.inbox] == [500, 429, 200]


def test_always_holds_until_it_is_changed_and_a_script_comes_first(desk: Desk, back: Answers) -> None:
    desk.receivers.receiver("shop", answers=[204], always=503)
    for _ in range(3):
        desk.receivers.post(post(), back)
    desk.shop.always(200)
    desk.receivers.post(post(), back)
    assert [answer.status for answer in back.all] == [204, 503, 503, 200]


@pytest.mark.parametrize("word", [RESET, REFUSED, UNRESOLVED, TLS, PROTOCOL])
def test_a_connection_can_fail_in_each_way_and_only_some_posts_reach_the_receiver(
    desk: Desk, back: Answers, word: str
) -> None:
    desk.shop.answers([word])
    desk.receivers.post(post(), back)
    assert (back.all[0].status, back.all[0].error) == (None, word)
    assert len(desk.shop.inbox) == (1 if word in {RESET, PROTOCOL} else 0)


def test_a_late_answer_comes_when_the_clock_gets_there(desk: Desk, back: Answers) -> None:
    desk.shop.answers([Reply(delay="2s")])
    desk.receivers.post(post(), back)
    desk.pass_time("1.999s")
    assert back.all == []
    desk.pass_time("1ms")
    assert (back.all[0].status, back.all[0].latency_ms) == (200, 2_000)


@pytest.mark.parametrize(("delay_ms", "error"), [(14_999, None), (15_000, "timeout"), (15_001, "timeout")])
def test_an_answer_at_the_timeout_is_too_late(desk: Desk, back: Answers, delay_ms: int, error: str | None) -> None:
    desk.shop.answers([Reply(delay=f"{delay_ms}ms")])
    desk.receivers.post(post(), back)
    desk.pass_time("1m")
    assert back.all[0].error == error
    assert back.all[0].latency_ms == min(delay_ms, 15_000)
    assert len(desk.shop.inbox) == 1


def test_a_receiver_that_never_answers_costs_one_timeout(desk: Desk, back: Answers) -> None:
    desk.shop.answers([TIMEOUT])
    desk.receivers.post(post(), back)
    desk.pass_time("14.999s")
    assert back.all == []
    desk.pass_time("1ms")
    assert back.all[0].error == "timeout"


@pytest.mark.parametrize("said", ["later", 99, 199, 600, True, Reply(delay="-1s"), Reply(error="gone")])
def test_nonsense_is_refused_when_it_is_said(desk: Desk, said: Any) -> None:
    with pytest.raises(ValueError):
        desk.shop.answers([said])
    with pytest.raises(ValueError):
        desk.shop.always(said)


def test_a_name_its_localhost_host_and_odd_capitals_are_one_receiver(desk: Desk, back: Answers) -> None:
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


def test_the_receivers_clock_is_the_sandbox_clock(desk: Desk) -> None:
    desk.pass_time("90m")
    assert desk.receivers.wall_seconds("http://shop/") == AT_S + 5_400


# What a careful receiver notices


def verdict(desk: Desk, sent: Post) -> list[str]:
    desk.receivers.post(sent, Answers())
    return list(desk.shop.inbox[-1].verdict)


def test_a_sound_post_gives_no_cause_for_complaint(desk: Desk) -> None:
    assert verdict(desk, post()) == []
    noted = desk.journal.entries(kind="callback_received")
    assert [(entry.subject, entry.facts["verdict"]) for entry in noted] == [("shop", [])]


@pytest.mark.parametrize(("off_s", "fine"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_a_timestamp_may_be_five_minutes_off_and_no_more(desk: Desk, off_s: int, fine: bool) -> None:
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
def test_each_wrong_header_is_named(desk: Desk, headers: dict[str, Any], complaint: str) -> None:
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
def test_a_body_is_held_against_the_spec(desk: Desk, body: bytes, complaint: str) -> None:
    (told,) = verdict(desk, post(body=body))
    assert complaint in told


def test_a_body_changed_after_signing_is_noticed(desk: Desk) -> None:
    assert verdict(desk, replace(post(), body=BODY.replace(b"c1", b"c2"))) == ["no signature matches a valid secret"]


def test_during_a_rotation_either_secret_will_do_and_afterwards_only_the_new(desk: Desk) -> None:
    both = sign([NEXT_SECRET, SECRET], "m1", AT_S, BODY.decode())
    desk.shop.trusts(NEXT_SECRET)
    assert verdict(desk, post(webhook_id="m1", webhook_signature=both)) == []
    assert "no signature matches a valid secret" in verdict(desk, post())
    desk.shop.trusts(None)
    assert "no signature matches a valid secret" not in verdict(desk, post())


def test_a_repeat_is_marked_and_only_blamed_once_it_was_acknowledged(desk: Desk) -> None:
    desk.shop.answers([500, 200])
    assert verdict(desk, post()) == []
    assert verdict(desk, post()) == []
    assert verdict(desk, post()) == ["the same webhook-id came again after it was acknowledged"]
    assert [got.repeated for got in desk.shop.inbox] == [False, True, True]


def test_one_identity_with_two_bodies_is_noticed(desk: Desk) -> None:
    desk.shop.always(500)
    verdict(desk, post())
    assert verdict(desk, post(body=BODY.replace(b"c1", b"c2"))) == ["the same webhook-id came with another body"]


# Copies


def test_a_snapshot_is_not_touched_by_what_comes_later(desk: Desk, back: Answers) -> None:
    desk.shop.answers([500, Reply(delay="9s")])
    desk.receivers.post(post(), back)
    kept = desk.receivers.snapshot()
    desk.receivers.post(post(), back)
    desk.shop.always(418)

    other, told = Desk(), Answers()
    other.receivers.restore(kept, told)
    assert [got.answer for got in other.shop.inbox] == [500]
    other.receivers.post(post(), told)
    other.pass_time("9s")
    other.receivers.post(post(), told)
    assert [answer.status for answer in told.all] == [200, 200]


def test_an_inbox_and_a_receiver_show_themselves(desk: Desk, back: Answers) -> None:
    assert "nothing came yet" in repr(desk.shop.inbox)
    desk.shop.answers([500, 500])
    assert "2 scripted answers" in repr(desk.shop)
    desk.receivers.post(post(), back)
    assert "charge.completed attempt 1 -> 500" in repr(desk.shop.inbox)
    assert [got.attempt for got in desk.shop.inbox[0:5]] == [1]
