"""Receivers in process: they answer as scripted and verify each callback as a correct receiver would."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
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
    parse_reply,
    reply_resource,
)
from leyden.errors import ApiError
from leyden.server.callbacks.signing import sign
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.spelling import closest
from leyden.server.store.store import Store
from leyden.server.store.tables.row_map import RowMap, Summarize
from tests.support.lists import listed
from tests.support.outbox_helpers import NEXT_SECRET, SECRET, START, OutboxFixture

BODY = b'{"id":"c1","status":"completed"}'
AT_S = START // 1_000


def post(
    url: str = "http://shop.localhost/hook", body: bytes = BODY, stamp_s: int = AT_S, **headers: str | None
) -> CallbackRequest:
    """A request as the outbox would send it; `headers` replace its own, None removes one (`_` stands for `-`)."""
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


class Responses:
    """Collects the responses to callbacks."""

    def __init__(self) -> None:
        self.all: list[CallbackResponse] = []

    def __call__(self, post: CallbackRequest, answer: CallbackResponse) -> None:
        self.all.append(answer)


@pytest.fixture
def outbox() -> OutboxFixture:
    return OutboxFixture()


@pytest.fixture
def responses() -> Responses:
    return Responses()


# Responses


def test_a_receiver_answers_its_script_and_then_200(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.shop.answers([500, Reply(429, headers={"Retry-After": "7"}, body="later")])
    for _ in range(3):
        outbox.receivers.post(post(), responses)
    assert [answer.status for answer in responses.all] == [500, 429, 200]
    assert (responses.all[1].headers, responses.all[1].body) == ({"retry-after": "7"}, b"later")
    assert [got.answer for got in outbox.shop.inbox] == [500, 429, 200]


def test_the_default_answer_applies_after_the_script_until_it_is_changed(
    outbox: OutboxFixture, responses: Responses
) -> None:
    outbox.receivers.receiver("shop", answers=[204], always=503)
    for _ in range(3):
        outbox.receivers.post(post(), responses)
    outbox.shop.always(200)
    outbox.receivers.post(post(), responses)
    assert [answer.status for answer in responses.all] == [204, 503, 503, 200]


@pytest.mark.parametrize("word", [RESET, REFUSED, UNRESOLVED, TLS, PROTOCOL])
def test_only_some_connection_errors_let_the_request_reach_the_receiver(
    outbox: OutboxFixture, responses: Responses, word: str
) -> None:
    outbox.shop.answers([word])
    outbox.receivers.post(post(), responses)
    assert (responses.all[0].status, responses.all[0].error) == (None, word)
    assert len(outbox.shop.inbox) == (1 if word in {RESET, PROTOCOL} else 0)


def test_a_delayed_answer_arrives_at_its_virtual_time(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.shop.answers([Reply(delay="2s")])
    outbox.receivers.post(post(), responses)
    outbox.pass_time("1.999s")
    assert responses.all == []
    outbox.pass_time("1ms")
    assert (responses.all[0].status, responses.all[0].latency_ms) == (200, 2_000)


@pytest.mark.parametrize(("delay_ms", "error"), [(14_999, None), (15_000, "timeout"), (15_001, "timeout")])
def test_an_answer_at_the_timeout_counts_as_a_timeout(
    outbox: OutboxFixture, responses: Responses, delay_ms: int, error: str | None
) -> None:
    outbox.shop.answers([Reply(delay=f"{delay_ms}ms")])
    outbox.receivers.post(post(), responses)
    outbox.pass_time("1m")
    assert responses.all[0].error == error
    assert responses.all[0].latency_ms == min(delay_ms, 15_000)
    assert len(outbox.shop.inbox) == 1


def test_a_receiver_that_never_answers_causes_a_timeout(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.shop.answers([TIMEOUT])
    outbox.receivers.post(post(), responses)
    outbox.pass_time("14.999s")
    assert responses.all == []
    outbox.pass_time("1ms")
    assert responses.all[0].error == "timeout"


@pytest.mark.parametrize("answer", ["later", 99, 199, 600, True, Reply(delay="-1s"), Reply(error="gone")])
def test_an_invalid_answer_is_refused_when_it_is_set(outbox: OutboxFixture, answer: Any) -> None:
    with pytest.raises(ValueError):
        outbox.shop.answers([answer])
    with pytest.raises(ValueError):
        outbox.shop.always(answer)


def test_a_name_and_its_localhost_host_are_one_receiver_in_any_case(
    outbox: OutboxFixture, responses: Responses
) -> None:
    for url in (
        "http://shop.localhost/a",
        "https://SHOP.localhost:8443/b?x=1",
        "http://shop/c",
        "http://shop.localhost./",
    ):
        outbox.receivers.post(post(url), responses)
    outbox.receivers.post(post("http://shop.example/d"), responses)
    assert [got.path for got in outbox.shop.inbox] == ["/a", "/b?x=1", "/c", "/"]
    assert [got.path for got in outbox.receivers["shop.example"].inbox] == ["/d"]
    assert {receiver.name for receiver in outbox.receivers} == {"shop", "shop.example"}


def test_the_clock_of_receivers_is_the_sandbox_clock(outbox: OutboxFixture) -> None:
    outbox.pass_time("90m")
    assert outbox.receivers.receiver_time_s("http://shop/") == AT_S + 5_400


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
def test_each_named_answer_has_a_result_for_the_sender_and_the_receiver(
    outbox: OutboxFixture, responses: Responses, word: str, status: int | None, error: str | None, commits: bool
) -> None:
    outbox.shop.answers([word])
    outbox.receivers.post(post(), responses)
    outbox.pass_time("1m")
    assert (responses.all[0].status, responses.all[0].error) == (status, error)
    got = outbox.shop.inbox[0]
    assert (got.commits, got.answer) == (commits, word)
    assert word in WORDS


@pytest.mark.parametrize("size", [4_095, 4_096, 4_097, 65_536, 65_537, 10_000_000])
def test_a_long_response_body_is_truncated_as_over_real_http(
    outbox: OutboxFixture, responses: Responses, size: int
) -> None:
    outbox.shop.answers([Reply(size=size)])
    outbox.receivers.post(post(), responses)
    assert responses.all[0].body == b"x" * min(size, 4_096)
    assert ("65536" in responses.all[0].note) == (size > 65_536)


@pytest.mark.parametrize("status", [201, 302, 410, 429, 500, 502])
def test_any_status_can_be_delayed_and_only_success_commits(
    outbox: OutboxFixture, responses: Responses, status: int
) -> None:
    outbox.shop.answers(
        [Reply(status, headers={"Retry-After": "soon", "Location": "http://away.example/"}, delay="14s")]
    )
    outbox.receivers.post(post(), responses)
    outbox.pass_time("14s")
    assert (responses.all[0].status, responses.all[0].headers["retry-after"]) == (status, "soon")
    assert outbox.shop.inbox[0].commits is (status == 201)


def test_a_success_after_the_timeout_still_commits_at_the_receiver(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.shop.answers([Reply(200, delay="16s"), 200])
    for _ in range(2):
        outbox.receivers.post(post(), responses)
        outbox.pass_time("15s")
    assert [answer.error or answer.status for answer in responses.all] == ["timeout", 200]
    assert [got.commits for got in outbox.shop.inbox] == [True, True], (
        "the receiver does not check ids, so it acts twice"
    )


# Answer rules


def test_a_rule_applies_to_matching_requests_count_times_and_before_the_script(
    outbox: OutboxFixture, responses: Responses
) -> None:
    outbox.shop.answers([202]).when(503, event="charge.completed", attempt=1, count=2).when(
        500, charge="c2", count=None
    )
    other = post(body=BODY.replace(b"c1", b"c2"), leyden_event="charge.expired")
    for sent in (post(), other, post(), other, post(), post()._replace(attempt=2)):
        outbox.receivers.post(sent, responses)
    assert [answer.status for answer in responses.all] == [503, 500, 503, 500, 202, 200]
    assert [(rule["reply"]["status"], rule["charge"], rule["count"]) for rule in outbox.shop.rules] == [
        (500, "c2", None)
    ]
    outbox.shop.reset_script()
    outbox.receivers.post(other, responses)
    assert (responses.all[-1].status, outbox.shop.rules) == (200, [])


@pytest.mark.parametrize(
    ("body", "matches"),
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
def test_a_rule_finds_the_charge_id_in_every_form_of_body(
    outbox: OutboxFixture, responses: Responses, body: bytes, matches: bool
) -> None:
    outbox.shop.when(503, charge="c9")
    outbox.receivers.post(post(body=body), responses)
    assert responses.all[0].status == (503 if matches else 200)


@pytest.mark.parametrize("wrong", [{"attempt": 0}, {"count": 0}, {"count": True}, {"attempt": "1"}])
def test_a_rule_that_matches_nothing_is_refused(outbox: OutboxFixture, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole number from 1"):
        outbox.shop.when(500, **wrong)


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
def test_an_answer_in_json_survives_a_round_trip(outbox: OutboxFixture, value: Any) -> None:
    outbox.shop.when(parse_reply(value), count=None)
    [rule] = outbox.shop.rules
    outbox.shop.reset_script().when(parse_reply(rule["reply"]), count=None)
    assert outbox.shop.rules == [rule]
    if isinstance(value, dict):
        assert {name: rule["reply"][name] for name in value if name != "delay"} == {
            name: value[name] for name in value if name != "delay"
        }
    assert set(rule["reply"]) == set(reply_resource({**outbox.shop._state["default"]}))


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1.5, "later", []),
        *({"statos": 200}, {1: 2}, {"status": "200"}, {"error": 7}, {"commits": "yes"}),
        *({"size": -1}, {"size": 10**10}, {"body": 7}, {"headers": []}, {"headers": {"a": 1}}),
        *({"delay": "-1s"}, {"delay": []}, {"delay": "soon"}),
    ],
)
def test_an_invalid_answer_in_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        parse_reply(value)


# Verification of callbacks


def verdict(outbox: OutboxFixture, sent: CallbackRequest) -> list[str]:
    outbox.receivers.post(sent, Responses())
    return list(outbox.shop.inbox[-1].verdict)


def test_a_valid_callback_has_no_violations(outbox: OutboxFixture) -> None:
    assert verdict(outbox, post()) == []
    noted = outbox.journal.entries(kind="callback_received")
    assert [(entry.subject, entry.facts["verdict"]) for entry in noted] == [("shop", [])]


@pytest.mark.parametrize(("off_s", "fine"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_a_timestamp_may_differ_by_at_most_five_minutes(outbox: OutboxFixture, off_s: int, fine: bool) -> None:
    assert (verdict(outbox, post(stamp_s=AT_S + off_s)) == []) is fine


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
def test_each_invalid_header_is_reported(outbox: OutboxFixture, headers: dict[str, Any], complaint: str) -> None:
    (violation,) = verdict(outbox, post(**headers))
    assert complaint in violation


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"id":"c1","status":"comp', "not JSON"),
        (b'{"id":"c1"}', "status"),
        (b'{"id":"c1","status":7}', "/status"),
        (b'{"id":"c1","status":"completed","extra":1}', "extra"),
    ],
)
def test_a_body_is_validated_against_the_specification(outbox: OutboxFixture, body: bytes, complaint: str) -> None:
    (violation,) = verdict(outbox, post(body=body))
    assert complaint in violation


def test_a_body_changed_after_signing_is_reported(outbox: OutboxFixture) -> None:
    assert verdict(outbox, post()._replace(body=BODY.replace(b"c1", b"c2"))) == ["no signature matches a valid secret"]


def test_both_secrets_are_valid_during_a_rotation_and_only_the_new_one_afterwards(outbox: OutboxFixture) -> None:
    both = sign([NEXT_SECRET, SECRET], "m1", AT_S, BODY.decode())
    outbox.shop.use_secret(NEXT_SECRET)
    assert verdict(outbox, post(webhook_id="m1", webhook_signature=both)) == []
    assert "no signature matches a valid secret" in verdict(outbox, post())
    outbox.shop.use_secret(None)
    assert "no signature matches a valid secret" not in verdict(outbox, post())


def test_a_repeated_id_is_a_violation_only_after_it_was_acknowledged(outbox: OutboxFixture) -> None:
    outbox.shop.answers([500, 200])
    assert verdict(outbox, post()) == []
    assert verdict(outbox, post()) == []
    assert verdict(outbox, post()) == ["the same webhook-id came again after it was acknowledged"]
    assert [got.repeated for got in outbox.shop.inbox] == [False, True, True]


def test_one_id_with_two_bodies_is_reported(outbox: OutboxFixture) -> None:
    outbox.shop.always(500)
    verdict(outbox, post())
    assert verdict(outbox, post(body=BODY.replace(b"c1", b"c2"))) == ["the same webhook-id came with another body"]


# Persistence


def test_a_receiver_continues_from_its_stored_rows(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.shop.answers([500, 503, 504]).when(418, attempt=7)
    outbox.shop.always(202)
    outbox.receivers.post(post(), responses)
    restored = OutboxFixture(store=Store.from_snapshot(outbox.store.snapshot()))
    outbox.receivers.post(post(), responses)
    for one in (outbox, restored):
        assert [got.answer for got in one.shop.inbox] == [500, 503][: len(one.shop.inbox)]
    later = Responses()
    for _ in range(3):
        restored.receivers.post(post(), later)
    restored.receivers.post(post()._replace(attempt=7), later)
    assert [answer.status for answer in later.all] == [503, 504, 202, 418]
    assert [got.repeated for got in restored.shop.inbox] == [False, True, True, True, True]
    assert len(outbox.shop.inbox) == 2


def test_a_rolled_back_commit_leaves_the_receiver_unchanged(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.shop.answers([500])

    def refused() -> None:
        with outbox.store.commit():
            outbox.receivers.post(post(), responses)
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused()
    assert len(outbox.shop.inbox) == 0
    assert len(outbox.shop.script) == 1


def test_the_oldest_requests_are_discarded_and_numbering_continues(outbox: OutboxFixture, responses: Responses) -> None:
    outbox.receivers._posts.kept = 3
    for number in range(5):
        outbox.receivers.post(post(webhook_id=f"m{number}"), responses)
    inbox = outbox.shop.inbox
    assert (len(inbox), inbox.total) == (3, 5)
    assert [got.webhook_id for got in inbox] == ["m2", "m3", "m4"]
    assert (inbox[0].webhook_id, inbox[-1].webhook_id) == ("m2", "m4")
    assert [number for number, _ in inbox.after(0, 2)] == [3, 4]
    assert [number for number, _ in inbox.after(4, 9)] == [5]
    assert list(inbox.after(5, 9)) == []
    with pytest.raises(IndexError, match="no callback 3 in the inbox of 'shop', which holds 3 callbacks"):
        inbox[3]
    with pytest.raises(IndexError, match="which holds no callback yet: the deliveries show what is due, blocked"):
        outbox.receivers["other"].inbox[0]
    outbox.receivers.post(post(webhook_id="m1"), responses)
    assert not outbox.shop.inbox[-1].repeated, "discarded requests are not remembered"


def test_an_inbox_and_a_receiver_have_a_repr(outbox: OutboxFixture, responses: Responses) -> None:
    assert "no callback yet" in repr(outbox.shop.inbox)
    outbox.shop.answers([500, 500])
    assert "2 scripted answers" in repr(outbox.shop)
    outbox.receivers.post(post(), responses)
    assert "charge.completed attempt 1 -> 500" in repr(outbox.shop.inbox)
    assert [got.attempt for got in outbox.shop.inbox[0:5]] == [1]


@pytest.mark.parametrize(
    ("url", "answer", "said"),
    [
        ("http://shop.localhost/paid", 200, ""),
        ("http://shop.localhost:3000/paid", 200, "own receiver 'shop'.*http://localhost:3000"),
        ("https://shop.localhost:8443/paid", 500, "own receiver 'shop'.*http://localhost:8443"),
        *(
            ("http://shop.localhost:3000/paid", answer, f"{words}; received by Leyden's own receiver 'shop'")
            for answer, words in (
                ("reset", "the receiver 'shop' is set to answer so"),
                (302, "give the final URL .*"),
                (410, "asked for no more"),
                ("huge", "reading stopped after 65536 bytes"),
            )
        ),
    ],
)
def test_an_answer_of_a_built_in_receiver_to_a_port_says_who_answered(
    sandbox: Sandbox, url: str, answer: int | str, said: str
) -> None:
    sandbox.receiver("shop").always(answer)
    sandbox.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=1)
    sandbox.advance("1s")
    [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    [attempt] = delivery["attempts"]
    assert re.search(said, attempt["note"])
    assert bool(said) == bool(attempt["note"])


def test_an_error_word_may_be_written_in_capitals_as_the_constants_are() -> None:
    sandbox = Sandbox()
    receiver = sandbox.receiver("shop").answers(["TIMEOUT", "Reset", "timeout", Reply(error=TIMEOUT)])
    assert [each["error"] for each in receiver.script] == ["timeout", "reset", "timeout", "timeout"]
    assert receiver.always("COMMIT_THEN_500").usual["error"] == "commit_then_500"
    with pytest.raises(ValueError, match="'TIME_OUT'"):
        receiver.always("TIME_OUT")
    program: dict[str, Any] = {}
    exec(sandbox.script(), program)
    assert program["sb"].receiver("shop").script == receiver.script


def test_a_redirect_of_a_built_in_receiver_has_the_note_of_one_on_the_network(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").always(Reply(status=301, headers={"Location": "http://shop.example/new"}))
    sandbox.wallet("ana").pay(
        sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
    )
    sandbox.run("1s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    note = "redirects are not followed: give the final URL (location: http://shop.example/new)"
    assert delivery["attempts"][0]["note"] == note


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (301, "redirects are not followed: give the final URL (the response has no location)"),
        (410, "the receiver asked for no more"),
        (304, ""),
        (Reply(status=304, headers={"Location": "/new"}), ""),
        (Reply(status=300, headers={"Location": "/"}), "redirects are not followed: give the final URL (location: /)"),
        (Reply(status=200, delay="20s"), "the receiver 'shop' is set to answer 200 after 20 s, which is too late"),
        (Reply(error="reset", delay="20s"), "the receiver 'shop' is set to answer reset after 20 s, which is too late"),
        (
            Reply(error="commit_then_500", delay=90),
            "the receiver 'shop' is set to answer commit_then_500 after 1 min 30 s, which is too late",
        ),
        ("timeout", "the receiver 'shop' is set to answer so"),
        (Reply(error="timeout", delay="20s"), "the receiver 'shop' is set to answer so"),
        ("endless", "the receiver 'shop' is set to answer so: endless"),
    ],
)
def test_the_note_of_an_attempt_says_what_the_reply_means(sandbox: Sandbox, answer: Any, note: str) -> None:
    sandbox.receiver("shop").answers([answer])
    sandbox.wallet("ana").pay(
        sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
    )
    sandbox.run("16s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    assert delivery["attempts"][0]["note"] == note


def restored_counts(sandbox: Sandbox) -> dict[str, tuple[int, int]]:
    """The received and the restored callbacks of each inbox, as the list and the inbox itself say."""
    inboxes = listed(sandbox.ask, "/sandbox/v1/inboxes")
    for one in inboxes:
        own = sandbox.ask("GET", f"/sandbox/v1/inboxes/{one['name']}")
        assert {name: own[name] for name in one} == one
    return {one["name"]: (one["received"], one["restored"]) for one in inboxes}


def failed(sandbox: Sandbox, host: str) -> None:
    """A Charge whose end is a callback to this receiver."""
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=f"http://{host}.localhost/")
    sandbox.ask("POST", f"/sandbox/v1/charges/{charge.id}/fail", {})
    sandbox.advance("1s")


def test_the_restored_callbacks_are_those_of_the_latest_snapshot(sandbox: Sandbox, tmp_path: Path) -> None:
    failed(sandbox, "shop")
    failed(sandbox, "blog")
    first = sandbox.ask("POST", "/sandbox/v1/snapshots", {})["id"]
    failed(sandbox, "shop")
    assert restored_counts(sandbox) == {"shop": (2, 0), "blog": (1, 0)}
    sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": first})
    assert restored_counts(sandbox) == {"shop": (1, 1), "blog": (1, 1)}
    failed(sandbox, "shop")
    failed(sandbox, "tips")
    sandbox.receiver("blog").always(500)
    expected = {"shop": (2, 1), "blog": (1, 1), "tips": (1, 0)}
    assert restored_counts(sandbox) == expected
    second = sandbox.ask("POST", "/sandbox/v1/snapshots", {})["id"]
    sandbox.save(tmp_path / "saved.json")
    all_restored = {name: (received, received) for name, (received, _) in expected.items()}
    assert restored_counts(Sandbox.load(tmp_path / "saved.json")) == expected
    sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": second})
    assert restored_counts(sandbox) == all_restored
    sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": first})
    assert restored_counts(sandbox) == {"shop": (1, 1), "blog": (1, 1)}
    sandbox.ask("POST", "/sandbox/v1/reset", {})
    failed(sandbox, "shop")
    assert restored_counts(sandbox) == {"shop": (1, 0)}


def test_of_thousands_of_inboxes_a_page_and_the_names_for_a_hint_are_read(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"shop{number}" for number in range(40)]
    for name in names:
        sandbox.receiver(name).always(201)
    monkeypatch.setattr("leyden.devserver.control.callbacks.inboxes._COMPARED", 20)
    compared: list[int] = []

    def counted(word: str, known: Sequence[str]) -> str | None:
        compared.append(len(known))
        return closest(word, known)

    monkeypatch.setattr("leyden.devserver.control.callbacks.inboxes.closest", counted)
    with pytest.raises(ApiError, match=r"did you mean shop7\?"):
        sandbox.ask("GET", "/sandbox/v1/inboxes/sho7")
    assert compared == [20]
    read: list[int] = []
    summaries = RowMap.summaries

    def noted(rows: RowMap, summarize: Summarize, ids: Iterable[int] | None = None) -> dict[int, tuple[Any, ...]]:
        found = summaries(rows, summarize, ids)
        read.append(len(found))
        return found

    monkeypatch.setattr(RowMap, "summaries", noted)
    assert [one["name"] for one in listed(sandbox.ask, "/sandbox/v1/inboxes?limit=7")] == names
    assert max(read) == 8
    assert [receiver.name for receiver in sandbox.world.receivers] == names
