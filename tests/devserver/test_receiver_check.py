"""The receiver check: a careful endpoint passes, a careless one fails where it should, and the report is true."""

from __future__ import annotations

import asyncio
import base64
import hmac
import html
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from html.parser import HTMLParser
from itertools import count, cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from leyden import Sandbox
from leyden.__main__ import main
from leyden.commands.catalogue import COMMANDS
from leyden.commands.receivers import EXAMPLE_SECRET
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.devserver.receiver_check.cases import (
    ACCEPTED,
    CASES,
    CRITICAL,
    FORGED,
    IGNORED,
    MINOR,
    REPEATED,
    SERIOUS,
    SEVERITIES,
    Case,
)
from leyden.devserver.receiver_check.cause import CONSIDER
from leyden.devserver.receiver_check.causes import causes_of
from leyden.devserver.receiver_check.check import Report, check_receiver
from leyden.devserver.receiver_check.findings import SKIPPED, Finding
from leyden.devserver.receiver_check.report import report_resource, report_text
from leyden.devserver.receiver_check.report_html import report_html
from leyden.devserver.receiver_check.session import CheckRefused, CheckSession, KnownIds, signature_of
from leyden.errors import ApiError
from leyden.server.callbacks.signing import sign
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.world.config import packaged_contract
from tests.support.deep import deep
from tests.support.encodings import encodings
from tests.support.example_receivers import CarefulReceiver, CarelessReceiver, serving_receiver
from tests.support.failing_receivers import Talk, answering, closing, hanging, not_listening, plain_http, serving
from tests.support.served import served_leyden

URL = "http://shop.example/hook"
CARELESS_FAILS = {
    "spelled-otherwise",
    "two-signatures",
    "other-versions",
    "unknown-status",
    "unknown-event",
    "duplicate",
    "a-day-later",
    "another-id",
    "at-once",
    "contradiction",
    "another-amount",
    "no-signature",
    "no-headers",
    "empty-signature",
    "cut-signature",
    "stale",
    "future",
    "not-a-time",
    "truncated",
    "empty-body",
    "not-an-object",
    "not-utf-8",
}


class Played:
    """A transport without a network: `reply(post)` returns a status or a response."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.posts: list[CallbackRequest] = []

    def post(self, post: CallbackRequest, answered: Any) -> None:
        self.posts.append(post)
        answer = self.reply(post) if callable(self.reply) else self.reply
        answered(post, answer if isinstance(answer, CallbackResponse) else CallbackResponse(status=answer))

    def receiver_time_s(self, url: str) -> int:
        return 0


def checked(reply: Any, *, only: Sequence[str] | None = None, **options: Any) -> Report:
    transport = Played(reply)
    return asyncio.run(
        check_receiver(
            URL, transport, secret=EXAMPLE_SECRET, contract=packaged_contract("charges"), only=only, **options
        )
    )


def failing(report: Report) -> set[str]:
    return {finding.case.name for finding in report.findings if finding.verdict == "fail"}


def verdict(reply: Any, name: str) -> tuple[str, str]:
    [finding] = checked(reply, only=[name]).findings
    return finding.verdict, finding.severity


def test_a_correction_cures_all_checks_of_its_cause() -> None:
    names = ["duplicate", "another-id", "contradiction", "another-amount", "unknown-status", "unknown-event"]
    report = checked(CallbackResponse(status=200, headers={"leyden-effect": "applied"}), only=names)
    keys = next(cause for cause in report.causes if "The keys are webhook-id and the Charge's id" in cause.fix)
    acted: set[str] = set()

    def with_unique_keys(post: CallbackRequest) -> CallbackResponse:
        mine = {post.headers["webhook-id"], json.loads(post.body).get("id", "")} - {""}
        effect = "ignored" if mine & acted else "applied"
        acted.update(mine)
        return CallbackResponse(status=200, headers={"leyden-effect": effect})

    assert failing(report) == set(names)
    assert (
        failing(checked(with_unique_keys, only=names))
        == set(names) - set(keys.checks)
        == {
            "unknown-status",
            "unknown-event",
        }
    )


def command(*arguments: str, out: Path) -> tuple[int, dict]:
    status = main(["receiver-check", *arguments, "--json", str(out)])
    return status, json.loads(out.read_text())


# The two examples


def test_a_careful_receiver_passes_every_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving_receiver(CarefulReceiver, EXAMPLE_SECRET) as (url, books):
        status, report = command(url, "--grade", "A", out=tmp_path / "report.json")
    assert (status, report["grade"]) == (0, "A")
    assert report["counts"] == {
        "pass": len(CASES), "unjudged": 0, "notice": 0, "fail": 0, "skipped": 0, "noticeUnjudged": 0
    }  # fmt: skip
    assert books.credited_msat == 250_000 * sum(1 for state in books.charges.values() if state == "completed")
    assert "Grade A" in capsys.readouterr().out


def test_a_careless_receiver_fails_exactly_the_checks_it_should(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with serving_receiver(CarelessReceiver, EXAMPLE_SECRET) as (url, _):
        status, report = command(url, "--html", str(page), out=tmp_path / "report.json")
    assert (status, report["grade"]) == (1, "F")
    assert {check["name"] for check in report["checks"] if check["verdict"] == "fail"} == CARELESS_FAILS
    assert report["counts"]["notice"] == 0
    explained = [name for cause in report["causes"] for name in cause["checks"]]
    assert sorted(explained) == sorted(CARELESS_FAILS)
    assert all(cause["mend"] for cause in report["causes"])
    assert "forged" in report["why"]
    assert page.read_text().startswith("<!doctype html>")


def test_the_grade_to_reach_can_be_chosen(tmp_path: Path) -> None:
    with serving_receiver(CarelessReceiver, EXAMPLE_SECRET) as (url, _):
        only = ("--only", "truncated", "--only", "completed")
        assert [command(url, *only, "--grade", grade, out=tmp_path / "report.json")[0] for grade in "ABC"] == [1, 0, 0]


# What is sent


@contextmanager
def wiretap() -> Iterator[tuple[str, list[bytes]]]:
    """A receiver that keeps every request to the byte and answers 204."""
    received: list[bytes] = []

    def converse(connection: socket.socket) -> None:
        with connection:
            unread = b""
            while data := connection.recv(65_536):
                unread += data
                while b"\r\n\r\n" in unread:
                    head, _, rest = unread.partition(b"\r\n\r\n")
                    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                    if len(rest) < size:
                        break
                    received.append(head + b"\r\n\r\n" + rest[:size])
                    unread = rest[size:]
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=converse, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("host", ["{}", "LocalHost:{port}", "0x7f.1:{port}"])
def test_the_report_shows_every_request_to_the_byte(host: str, tmp_path: Path) -> None:
    with wiretap() as (address, received):
        url = f"http://{host.format(address, port=address.partition(':')[2])}/a%20b/c?x=1&y=%2f"
        _, report = command(url, out=tmp_path / "report.json")
    exchanges = [exchange for check in report["checks"] for exchange in check["exchanges"]]
    shown = [base64.b64decode(exchange["requestBase64"]) for exchange in exchanges]
    assert sorted(shown) == sorted(received)
    assert len(shown) > len(CASES) > 40


def test_sound_messages_are_what_the_service_sends() -> None:
    transport = Played(200)
    contract = packaged_contract("charges")
    names = ["completed", "expired", "failed", "static-payment", "unicode", "large", "no-internal-id"]
    asyncio.run(check_receiver(URL, transport, secret=EXAMPLE_SECRET, contract=contract, only=names))
    rules = [rule for operation in contract.operations.values() for rule in operation.callbacks]
    for post in transport.posts:
        body = Webhook(EXAMPLE_SECRET).verify(post.body, dict(post.headers))
        assert any(rule.rule.validator.is_valid(body) for rule in rules), body
        assert body["callbackUrl"] == URL
    assert [post.headers["leyden-event"].partition(".")[2] for post in transport.posts[:4]] == [
        "completed",
        "expired",
        "error",
        "completed",
    ]


def test_messages_with_an_envelope_are_checked() -> None:
    transport = Played(200)
    contract = packaged_contract("charges", ("callback-envelope",))
    asyncio.run(check_receiver(URL, transport, secret=EXAMPLE_SECRET, contract=contract, only=["contradiction"]))
    paid, expired = (json.loads(post.body) for post in transport.posts)
    assert (paid["type"], expired["type"]) == ("charge.completed", "charge.expired")
    assert (expired["data"]["status"], "confirmedAt" in expired["data"]) == ("expired", False)


def test_messages_contain_the_ids_that_the_endpoint_knows() -> None:
    transport = Played(200)
    knows = KnownIds("order-7", "21000", "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de")
    check = check_receiver(
        URL, transport, secret=EXAMPLE_SECRET, contract=packaged_contract("charges"), known=knows, only=["completed"]
    )
    asyncio.run(check)
    body = json.loads(transport.posts[0].body)
    assert (body["internalId"], body["amount"], body["id"]) == ("order-7", "21000", knows.charge_id)


def test_no_forgery_has_a_valid_signature_and_every_malformed_message_has_one() -> None:
    """A check that signed its forgeries would fail correct receivers."""
    transport = Played(200)
    contract = packaged_contract("charges")
    names = {check.name: check for check in CASES}
    for name, check in names.items():
        transport.posts.clear()
        asyncio.run(check_receiver(URL, transport, secret=EXAMPLE_SECRET, contract=contract, only=[name]))
        for post in transport.posts:
            headers = {key.lower(): value for key, value in post.headers.items()}
            stamp, given = headers.get("webhook-timestamp", ""), headers.get("webhook-signature", "")
            right = signature_of(EXAMPLE_SECRET, headers.get("webhook-id", ""), stamp, post.body)
            signed = f"v1,{right}" in given.split(" ")
            assert signed == (check.group != FORGED or name in {"stale", "future", "not-a-time"}), name


@given(st.uuids().map(str), st.integers(0, 4_000_000_000), st.text())
def test_the_checks_signature_is_that_of_the_service(webhook_id: str, stamp_s: int, body: str) -> None:
    assert f"v1,{signature_of(EXAMPLE_SECRET, webhook_id, str(stamp_s), body.encode())}" == sign(
        [EXAMPLE_SECRET], webhook_id, stamp_s, body
    )


# How answers are judged


@pytest.mark.parametrize(
    ("name", "reply", "expected"),
    [
        ("completed", 200, ("pass", CRITICAL)),
        ("completed", 299, ("pass", CRITICAL)),
        ("completed", 302, ("fail", CRITICAL)),
        ("completed", 404, ("fail", CRITICAL)),
        ("completed", 500, ("fail", CRITICAL)),
        ("completed", CallbackResponse(error="timeout"), ("fail", CRITICAL)),
        ("completed", CallbackResponse(status=200, latency_ms=3_000), ("pass", CRITICAL)),
        ("completed", CallbackResponse(status=200, latency_ms=3_001), ("notice", CRITICAL)),
        ("completed", CallbackResponse(status=200, latency_ms=5_001), ("fail", SERIOUS)),
        ("slow-sender", CallbackResponse(status=200, latency_ms=3_999), ("pass", MINOR)),
        ("bad-signature", 401, ("pass", CRITICAL)),
        ("bad-signature", 200, ("fail", CRITICAL)),
        ("bad-signature", 500, ("fail", MINOR)),
        ("bad-signature", 429, ("unjudged", CRITICAL)),
        ("bad-signature", 503, ("unjudged", CRITICAL)),
        ("completed", 429, ("fail", CRITICAL)),
        ("unknown-charge", 429, ("unjudged", MINOR)),
        ("truncated", 503, ("unjudged", MINOR)),
        ("bad-signature", CallbackResponse(status=401, headers={"leyden-effect": "applied"}), ("fail", CRITICAL)),
        ("duplicate", 200, ("unjudged", SERIOUS)),
        ("duplicate", CallbackResponse(status=200, headers={"leyden-effect": "applied"}), ("fail", SERIOUS)),
        ("duplicate", CallbackResponse(status=200, headers={"leyden-effect": "ignored"}), ("pass", SERIOUS)),
        ("duplicate", lambda post: 200 if post.attempt == 1 else 409, ("fail", SERIOUS)),
        ("at-once", 409, ("fail", SERIOUS)),
        ("unknown-charge", 404, ("notice", MINOR)),
        ("truncated", 400, ("pass", MINOR)),
        ("truncated", 200, ("notice", MINOR)),
        ("truncated", 500, ("fail", MINOR)),
        ("content-type", 415, ("pass", MINOR)),
        ("content-type", 200, ("pass", MINOR)),
    ],
)
def test_an_answer_is_judged(name: str, reply: Any, expected: tuple[str, str]) -> None:
    assert verdict(reply, name) == expected


def test_one_of_five_at_once_may_be_the_first() -> None:
    answers = iter([200, 409, 409, 200, 409])
    assert verdict(lambda post: next(answers), "at-once") == ("notice", SERIOUS)


@pytest.mark.parametrize(
    ("fails", "grade"),
    [
        ((), "A"),
        (("charset",), "B"),
        (("charset", "unicode"), "C"),
        (("unicode", "large", "expired", "failed"), "D"),
        (("completed",), "F"),
    ],
)
def test_the_worst_failure_makes_the_grade(fails: tuple[str, ...], grade: str) -> None:
    names = ["completed", "expired", "failed", "unicode", "large", "charset"]
    bad = {names.index(name) for name in fails}
    answers = iter(500 if number in bad else 200 for number in range(len(names)))
    order = [check.name for check in CASES if check.name in names]
    assert order == names
    report = checked(lambda post: next(answers), only=names)
    assert (report.grade, failing(report)) == (grade, set(fails))
    assert [report.reaches(wanted) for wanted in "ABCDF"] == [grade <= wanted for wanted in "ABCDF"]


def test_when_the_endpoint_is_unreachable_the_rest_is_not_sent() -> None:
    report = checked(CallbackResponse(error="refused", note="nobody listens"))
    assert (report.grade, report.count("fail"), report.count("skipped")) == ("F", 1, len(CASES) - 1)
    assert "cannot be reached" in report.why


def test_an_endpoint_that_becomes_unreachable_gets_three_more_requests() -> None:
    received = iter([200, 200])
    report = checked(lambda post: next(received, None) or CallbackResponse(error="reset"))
    assert (report.grade, report.count("fail")) == ("F", 3)
    assert "stopped answering at the check failed" in report.why


REFUSED = CallbackResponse(error="refused", note="no connection to 127.0.0.1:9: connection refused")
RESET = CallbackResponse(error="reset", note="closed before the answer was complete")


@pytest.mark.parametrize(
    ("answers", "name", "when"),
    [
        ([200, 200, RESET], "failed", "at"),
        ([200, 200, CallbackResponse(error="timeout", note="no answer within 5 s")], "failed", "at"),
        ([200, 200], "expired", "after"),
        ([CallbackResponse(status=200, latency_ms=7_000), 200, RESET], "failed", "at"),
        ([200] * 19 + [RESET], "duplicate", "at"),  # the first of its two messages
        ([200] * 20 + [RESET], "duplicate", "at"),  # the second one
        ([200] * 20, "duplicate", "after"),
    ],
)
@pytest.mark.parametrize(
    "gone", [REFUSED, CallbackResponse(error="timeout", note="no connection to 127.0.0.1:9 within 3 s")]
)
def test_an_endpoint_whose_program_ends_is_told_at_which_message(
    answers: list[int | CallbackResponse], name: str, when: str, gone: CallbackResponse
) -> None:
    received = iter(answers)
    report = checked(lambda post: next(received, gone))
    cause, found = report.causes[0], next(one.found for one in report.findings if one.case.name == name)
    assert (report.grade, cause.is_common) == ("F", True)
    assert cause.found.startswith(f"it stopped answering {when} the check {name}: its program may have ended")
    assert f"{found}, and cannot be reached since ({gone.note})" in report.why
    assert f"Look at what the endpoint printed for the message of the check {name}." in cause.fix
    assert "Start the endpoint, and check the host" not in report_text(report)


def test_an_endpoint_whose_program_ends_shortly_before_the_last_check_is_told_so_too() -> None:
    names = ["completed", "expired", "failed"]
    received = iter([200, RESET])
    report = checked(lambda post: next(received, REFUSED), only=names)
    [cause] = report.causes
    assert cause.found.startswith("it stopped answering at the check expired: its program may have ended")
    assert cause.checks == ["expired", "failed"]


@pytest.mark.parametrize(
    ("status", "why", "fix"),
    [(429, "it limits the number of requests", "Raise the limit"), (503, "it was not available", "Look in the log")],
)
@pytest.mark.parametrize("good", [1, 2, 10, 25])
def test_an_endpoint_that_declines_every_message_from_one_on_has_that_one_cause(
    status: int, why: str, fix: str, good: int
) -> None:
    """Also where the first of them was a forgery, which is not judged by such an answer."""
    answers = iter([200] * good)
    report = checked(lambda post: next(answers, status))
    common = [cause for cause in report.causes if cause.is_common]
    [cause] = [cause for cause in common if cause.found.startswith(f"it answered {status} in ")]
    assert cause.found.endswith(f": {why}")
    assert fix in cause.fix
    declined = {one.case.name for one in report.findings if one.is_declined}
    assert {one.case.name for one in report.findings if one.verdict == "fail"} & declined <= {*cause.checks}
    forged = [one for one in report.findings if one.case.group == FORGED and one.is_declined]
    assert {one.verdict for one in forged} == {"unjudged"}
    assert {one.case.name for one in forged} <= {*report.not_checked}
    text = " ".join(report_text(report).split())
    assert "another secret" not in text
    assert "webhook-signature is a list" not in text


@pytest.mark.parametrize("every", [2, 9, 30])
def test_an_endpoint_that_is_silent_now_and_then_has_that_one_cause(every: int) -> None:
    silent = CallbackResponse(error="timeout", note="no answer within 5 s")
    numbers = count(1)
    report = checked(lambda post: silent if next(numbers) % every == 0 else reporting(post))
    fails = {one.case.name for one in report.findings if "timeout" in one.outcomes}
    [cause] = [cause for cause in report.causes if cause.found.startswith("it gave no answer within 5 s in ")]
    assert {*cause.checks} == fails
    assert cause.fix.startswith("Answer first, work later")


def test_the_reason_of_a_grade_is_not_a_cause_of_less_severe_failures() -> None:
    """It accepts one forgery, and limits the number of requests now and then."""
    numbers = count(1)

    def reply(post: CallbackRequest) -> CallbackResponse:
        if next(numbers) in (5, 9, 14):
            return CallbackResponse(status=429)
        try:
            if "webhook-id" in {name.lower() for name in post.headers}:
                Webhook(EXAMPLE_SECRET).verify(post.body, {name.lower(): text for name, text in post.headers.items()})
        except (WebhookVerificationError, ValueError):
            return CallbackResponse(status=400)
        return reporting(post)

    report = checked(reply)
    assert (report.grade, report.why.partition(";")[0]) == ("F", "it accepts forged messages (no-headers)")
    assert report.causes[0].checks == ["no-headers"]
    assert [cause.severity for cause in report.causes if cause.is_common] == ["serious"]


def test_an_endpoint_that_answers_no_forgery_may_never_answer_what_it_refuses() -> None:
    silent = CallbackResponse(error="timeout", note="no answer within 5 s")
    sent = count()
    forged = next(number for number, case in enumerate(CASES) if case.group == FORGED)
    before = sum(len(one.exchanges) for one in checked(200).findings[:forged])
    report = checked(lambda post: silent if next(sent) >= before else reporting(post))
    [cause] = [cause for cause in report.causes if cause.is_common]
    since = f"it gave no answer since the check {CASES[forged].name}, and no valid message follows"
    assert cause.found.startswith(since)
    assert cause.fix.startswith("Answer 4xx to what does not verify")


def test_who_did_not_answer_the_first_message_in_time_may_act_on_its_repetition() -> None:
    def after_silence(first: CallbackResponse) -> Finding:
        answers = iter([first, CallbackResponse(status=200, headers={"leyden-effect": "applied"})])
        [finding] = checked(lambda post: next(answers), only=["a-day-later"]).findings
        return finding

    silence = CallbackResponse(error="timeout", note="no answer within 5 s")
    found = after_silence(silence).found
    assert found.startswith("it gave no answer")
    assert found.endswith("and answered 200")
    applied = CallbackResponse(status=200, headers={"leyden-effect": "applied"})
    assert "it acted on the same message 2 times" in after_silence(applied).found


def test_one_check_is_one() -> None:
    assert "\n1 check: 1 " in report_text(checked(200, only=["completed"]))


def test_the_example_of_a_failure_is_the_answer_that_failed() -> None:
    answers = iter([200, 409])
    text = report_text(checked(lambda post: next(answers), only=["duplicate"]))
    assert "Answer: 409 in" in text
    answers = iter([CallbackResponse(status=200, headers={"leyden-effect": "applied"})] * 2)
    finding = checked(lambda post: next(answers), only=["duplicate"]).findings[0]
    assert finding.example is finding.exchanges[1]
    ignored = [CallbackResponse(status=200, headers={"leyden-effect": word}) for word in ("applied", "ignored")]
    answers = iter([*ignored, *[CallbackResponse(status=500)] * 3])
    finding = checked(lambda post: next(answers), only=["at-once"]).findings[0]
    assert finding.example is finding.exchanges[2]


@pytest.mark.parametrize(("status", "only"), [(200, None), (307, None), (500, None), (404, ["completed"])])
def test_an_answer_stands_below_the_check_that_it_belongs_to(status: int, only: list[str] | None) -> None:
    """A receiver that verifies nothing accepts every message."""
    report = checked(status) if only is None else checked(status, only=only)
    lines = report_text(report).splitlines()
    answers = [number for number, line in enumerate(lines) if line.startswith("  Answer: ")]
    named = {f"For example {finding.case.name}: {finding.case.title}" for finding in report.findings}
    assert answers
    for number in answers:
        before = [line for line in lines[:number] if not line.startswith("  | ")]
        assert before[-1] in named


@pytest.mark.parametrize("status", [302, 401, 404, 429, 500, 503])
def test_three_equal_refusals_at_the_start_end_the_run(status: int) -> None:
    report = checked(status)
    assert (report.count("fail"), report.count("skipped")) == (3, len(CASES) - 3)
    statuses = iter([status, 200])
    report = checked(lambda post: next(statuses, status))
    assert report.count("skipped") == 0


# What is not checked


def reporting(post: CallbackRequest) -> CallbackResponse:
    """A receiver that accepts everything and reports that it ignored it."""
    return CallbackResponse(status=200, headers={"leyden-effect": "ignored"})


REPEATS = ["completed", "duplicate", "another-id"]


def test_a_grade_without_reported_effects_says_which_checks_were_not_judged() -> None:
    report = checked(200, only=REPEATS)
    assert report.headline == (
        "Grade A for what was checked: nothing fails; duplicate, another-id not judged, because its answers have no "
        "header leyden-effect"
    )
    assert report.not_checked == ["duplicate", "another-id"]
    assert "leyden-effect: applied" in report_text(report)
    full = checked(reporting, only=REPEATS)
    assert (full.headline, full.not_checked) == ("Grade A: nothing fails", [])


@pytest.mark.parametrize(
    ("first", "second", "because"),
    [
        ("done", "done", 'its header leyden-effect says "done": the values that are known are applied and ignored'),
        ("done", "ignored", 'its header leyden-effect says "done": the values that are known are applied and ignored'),
        ("a", "b", 'its header leyden-effect says "a", "b": the values that are known are applied and ignored'),
        ("", None, 'its header leyden-effect says "": the values that are known are applied and ignored'),
        ("\x1b\udcff", None, r'leyden-effect says "\x1b\udcff": the values that are known are applied and ignored'),
        ("x" * 99, None, f'"{"x" * 40}"'),
        (None, "ignored", "some of its answers have no header leyden-effect"),
        (None, None, "its answers have no header leyden-effect"),
    ],
)
def test_an_effect_that_is_not_known_is_named_wherever_the_report_is_read(
    first: str | None, second: str | None, because: str
) -> None:
    seen: set[str] = set()

    def answer(post: CallbackRequest) -> CallbackResponse:
        effect = second if post.delivery_id in seen else first
        seen.add(post.delivery_id)
        return CallbackResponse(status=200, headers={} if effect is None else {"leyden-effect": effect})

    report = checked(answer, only=["duplicate"])
    assert report.not_checked == ["duplicate"]
    assert because in report.headline
    has_unknown = "are applied and ignored" in because or "xxx" in because
    assert ("Let the endpoint write one of the values that are known, applied or" in report.to_check) is has_unknown
    assert ("Let the endpoint answer with the header leyden-effect: applied or" in report.to_check) is not has_unknown
    resource = json.loads(json.dumps(report_resource(report, ["text", "html"])))
    assert because in resource["why"]
    assert because in " ".join(resource["text"].split())
    assert because in html.unescape(resource["html"])


def test_a_grade_never_says_both_that_a_check_fails_and_that_it_was_not_judged() -> None:
    """Of the answers to repeated messages, some show a second effect and the others show nothing."""
    names = [case.name for case in CASES if case.group == REPEATED]
    partly = 0
    for showing in range(20):
        shown = count()

        def answer(post: CallbackRequest, showing: int = showing, shown: Iterator[int] = shown) -> CallbackResponse:
            headers = {"leyden-effect": "applied"} if next(shown) < showing else {}
            return CallbackResponse(status=200, headers=headers)

        report = checked(answer, only=names)
        unchecked = report.why.partition("; ")[2]
        if report.not_checked:
            partly += bool(failing(report))
            assert unchecked.startswith(report.not_checked[0])
            assert not any(name in unchecked.partition(" not judged")[0].split(", ") for name in failing(report))
    assert partly > 2


@pytest.mark.parametrize(
    ("reply", "known"),
    [
        (200, None),
        (CallbackResponse(status=200, latency_ms=4_100), None),
        (CallbackResponse(status=200, headers={"leyden-effect": "ignored"}), "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de"),
    ],
)
def test_the_printed_report_counts_and_names_what_the_json_calls_not_checked(
    reply: int | CallbackResponse, known: str | None
) -> None:
    report = checked(reply, known=KnownIds(charge_id=known))
    resource, text = report_resource(report), " ".join(report_text(report).split())
    verdicts = {check["name"]: check["verdict"] for check in resource["checks"]}
    hidden = resource["notChecked"]
    assert len(hidden) >= 2
    assert {verdicts[name] for name in hidden} <= {"unjudged", "notice"}
    assert {name for name, found in verdicts.items() if found == "unjudged"} <= set(hidden)
    counts = resource["counts"]
    with_remark = [name for name in hidden if verdicts[name] == "notice"]
    assert counts.pop("noticeUnjudged") == len(with_remark)
    assert counts == {one: list(verdicts.values()).count(one) for one in counts}
    assert sum(counts.values()) == len(CASES)
    assert len(hidden) == counts["unjudged"] + counts["skipped"] + len(with_remark)
    page = report_html(report)
    if counts["unjudged"]:
        without = [name for name in hidden if name not in with_remark]
        assert f"Sent and not judged: {', '.join(without)}." in text
        assert f"{counts['unjudged']} not judged" in text
        assert "repeated and out of order 8 of 8" not in text
        assert page.count(">not judged<") == counts["unjudged"]
    if with_remark:
        assert f"Sent and not judged, with a remark: {', '.join(with_remark)}." in text
        assert f"{counts['notice']} with a remark ({len(with_remark)} of them not judged)" in text
        assert f"{counts['notice']} notice ({len(with_remark)} not judged)" in page
        assert page.count(">notice, not judged<") == len(with_remark)


@pytest.mark.parametrize("zeros", [24, 32, 64])
def test_a_secret_that_signs_as_an_empty_one_is_no_failure_of_the_receiver(
    zeros: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, page = "whsec_" + base64.b64encode(bytes(zeros)).decode(), tmp_path / "report.html"
    with serving_receiver(CarefulReceiver, secret) as (url, _):
        status, report = command(url, "--secret", secret, "--html", str(page), out=tmp_path / "report.json")
    verdicts = {check["name"]: check["verdict"] for check in report["checks"]}
    assert verdicts.pop("empty-secret") == "unjudged"
    assert set(verdicts.values()) == {"pass"}
    assert (status, report["grade"], report["notChecked"]) == (0, "A", ["empty-secret"])
    assert "empty-secret not judged, because the endpoint's own secret signs the same" in report["why"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "Give the endpoint a secret of random bytes" in printed
    assert "Sent and not judged: empty-secret." in printed
    [shown] = [check for check in report["checks"] if check["name"] == "empty-secret"]
    assert "all zero" in shown["found"]
    assert page.read_text().count(">not judged<") == 1


@pytest.mark.parametrize("key", [bytes(23) + b"a", b"a" + bytes(31), b"a" * 24], ids=["last", "first", "all"])
def test_the_empty_secret_is_a_forgery_for_every_other_secret(key: bytes) -> None:
    secret, contract = "whsec_" + base64.b64encode(key).decode(), packaged_contract("charges")
    check = check_receiver(URL, Played(200), secret=secret, contract=contract, only=["empty-secret"])
    assert failing(asyncio.run(check)) == {"empty-secret"}


def test_messages_about_one_charge_leave_duplicates_unjudged() -> None:
    known = KnownIds(charge_id="8f14e45f-ceea-467f-a8b5-91f3d5a1c0de")
    report = checked(reporting, only=REPEATS, known=known)
    assert " not judged, because all messages are about the one Charge" in report.headline


def test_a_pipeline_can_require_the_full_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(CarefulReceiver):
        def send_header(self, keyword: str, value: str) -> None:
            if keyword != "leyden-effect":
                super().send_header(keyword, value)

    def status_of(kind: type[CarefulReceiver | CarelessReceiver], *options: str) -> int:
        with serving_receiver(kind, EXAMPLE_SECRET) as (url, _):
            only = ("--only", "completed", "--only", "duplicate")
            return command(url, *only, *options, out=tmp_path / "report.json")[0]

    assert status_of(Silent, "--grade", "A") == 0
    assert " not judged, because" in " ".join(capsys.readouterr().out.split())
    assert status_of(Silent, "--require-complete") == 3
    assert status_of(CarefulReceiver, "--require-complete") == 0
    assert status_of(CarelessReceiver, "--require-complete") == 1


# One cause is reported once


FORGERIES = [case.name for case in CASES if case.group == FORGED]


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that is right but for the mistakes that are chosen: a transport's `reply`, without its effect."""

    verifies: bool = True
    crashes: bool = False  # without the header webhook-id
    skips_unsigned: bool = False
    compares_beginnings: bool = False
    checks_time: bool = True
    tolerance_s: int = 300
    prints_again: bool = False
    compares_header: bool = False
    key: bytes = base64.b64decode(EXAMPLE_SECRET.removeprefix("whsec_"))
    encoding: str = "utf-8"  # in which it reads the body
    limit: int = 1_000_000  # bytes of a body
    over_limit: int = 413
    per_s: int = 1  # in which unit it compares the time
    form: str = "base64"
    digest: str = "sha256"
    id_of_body: bool = False
    amount: str = ""  # the only one that it accepts
    refusal: int = 401
    again: int = 200
    effects: bool = False
    acted: set[str] = field(default_factory=set)

    def __call__(self, post: CallbackRequest) -> CallbackResponse:
        headers = {name.lower(): text for name, text in post.headers.items()}
        if self.crashes and "webhook-id" not in headers:
            return CallbackResponse(status=500)
        if len(post.body) > self.limit:
            return self._answer(self.over_limit, "ignored")
        if self.verifies and not self._is_right(headers, post.body):
            return self._answer(self.refusal, "ignored")
        try:
            body = json.loads(post.body)
            charge, status = str(body["id"]), body["status"]
        except (ValueError, TypeError):
            return self._answer(400, "ignored")
        except KeyError:
            return self._answer(200, "ignored")
        if status not in ("completed", "expired", "error"):
            return self._answer(200 if isinstance(status, str) else 400, "ignored")
        if self.amount and body["amount"] != self.amount:
            return self._answer(422, "ignored")
        if not self.acted.isdisjoint((charge, headers.get("webhook-id", charge))):
            return self._answer(200 if status != "completed" else self.again, "ignored")
        self.acted.update((charge, headers.get("webhook-id", charge)))
        return self._answer(200, "applied")

    def _answer(self, status: int, effect: str) -> CallbackResponse:
        return CallbackResponse(status=status, headers={"leyden-effect": effect} if self.effects else {})

    def _is_right(self, headers: dict[str, str], body: bytes) -> bool:
        given = headers.get("webhook-signature", "")
        if self.skips_unsigned and not given:
            return True
        stamp = headers.get("webhook-timestamp", "")
        now = time.time() * self.per_s
        if self.checks_time and not (stamp.isdigit() and abs(int(stamp) - now) <= self.tolerance_s * self.per_s):
            return False
        body = body.decode(self.encoding, "replace").encode()
        if self.prints_again:
            try:
                body = json.dumps(json.loads(body), separators=(",", ":")).encode()
            except ValueError:
                return False
        name = json.loads(body)["id"] if self.id_of_body else headers.get("webhook-id", "")
        signed = f"{name}.{stamp}.".encode() + body
        made = hmac.new(self.key, signed, self.digest).digest()
        right = "v1," + (made.hex() if self.form == "hex" else base64.b64encode(made).decode())
        parts = [given] if self.compares_header else given.split(" ")
        return any(right.startswith(part) if self.compares_beginnings else part == right for part in parts)


# Endpoints with one mistake, and the checks that it fails; a mistake is one cause.
MISTAKES: dict[str, tuple[Endpoint, str, set[str]]] = {
    "verifies nothing": (Endpoint(verifies=False), "Verify the signature before you look", set(FORGERIES)),
    "verifies nothing and crashes": (
        Endpoint(verifies=False, crashes=True), "Verify the signature before you look", set(FORGERIES)
    ),
    "verifies nothing, and says so": (
        Endpoint(verifies=False, crashes=True, effects=True), "Verify the signature before you look", set(FORGERIES)
    ),
    "drops forgeries with 200": (
        Endpoint(refusal=200, effects=True), "It does not act on these messages", set(FORGERIES)
    ),
    "skips unsigned messages": (
        Endpoint(skips_unsigned=True), "A message without webhook-signature is not authenticated",
        {"no-signature", "no-headers", "empty-signature"},
    ),
    "compares beginnings": (
        Endpoint(compares_beginnings=True, checks_time=False), "Compare whole signatures",
        {"cut-signature", "no-signature", "no-headers", "empty-signature"},
    ),
    "never looks at the time": (
        Endpoint(checks_time=False), "compare it with your own clock", {"stale", "future", "not-a-time"}
    ),
    "allows one minute": (
        Endpoint(tolerance_s=60), "Allow five minutes' difference", {"clock-behind", "clock-ahead"}
    ),
    "prints the JSON again": (
        Endpoint(prints_again=True), "do not parse and print them again", {"spelled-otherwise", "unicode", "large"}
    ),
    "compares the header as a whole": (
        Endpoint(compares_header=True), "one right part is enough", {"two-signatures", "other-versions"}
    ),
    "reads latin-1": (Endpoint(encoding="latin-1"), "Bodies are UTF-8", {"unicode", "large"}),
    "reads ASCII": (Endpoint(encoding="ascii"), "Bodies are UTF-8", {"unicode", "large"}),
    "refuses what it has acted on": (
        Endpoint(again=409), "do nothing and answer 200. The keys are",
        {"duplicate", "a-day-later", "another-id", "at-once"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("limit", "status"), [(20, 413), (600, 413), (700, 413), (2_000, 413), (700, 400)])
def test_a_limit_of_the_size_is_one_cause(limit: int, status: int) -> None:
    report = checked(Endpoint(limit=limit, over_limit=status))
    refused = [
        finding
        for finding in report.findings
        if finding.verdict in ("fail", "notice") and any(one.answer.status == status for one in finding.exchanges)
        if max(len(one.sent.request.body) for one in finding.exchanges) > limit
    ]
    assert refused
    [cause] = [cause for cause in report.causes if "it limits the size of the body" in cause.found]
    assert f"it answered {status} to messages of " in cause.found
    assert set(cause.checks) == {finding.case.name for finding in refused}
    assert "Raise the limit of the body" in cause.fix


@pytest.mark.parametrize("endpoint", [Endpoint(prints_again=True, refusal=400), Endpoint(encoding="ascii", refusal=400),
                                      Endpoint(key=b"another"), Endpoint(amount="1")])  # fmt: skip
def test_refusals_for_another_reason_are_not_taken_for_a_limit_of_the_size(endpoint: Endpoint) -> None:
    assert not [one for one in checked(replace(endpoint, acted=set())).causes if "limits the size" in one.found]


VERIFIES_WRONGLY = {
    "another secret": (Endpoint(key=b"another"), "another secret"),
    "milliseconds": (Endpoint(per_s=1_000), "not in milliseconds"),
    "no tolerance": (Endpoint(tolerance_s=-1), "five minutes' difference is allowed"),
    "hexadecimal": (Endpoint(form="hex"), "64 are hexadecimal"),
    "SHA-1": (Endpoint(digest="sha1"), "28 or 40 are SHA-1"),
    "the key as text": (Endpoint(key=EXAMPLE_SECRET.encode()), "what the base64 after whsec_ stands for"),
    "the id of the body": (Endpoint(id_of_body=True), "not the body's"),
}


@pytest.mark.parametrize("mistake", VERIFIES_WRONGLY)
def test_the_list_of_what_refuses_every_valid_message_has_each_mistake(mistake: str) -> None:
    endpoint, text = VERIFIES_WRONGLY[mistake]
    report = checked(replace(endpoint, acted=set()), only=["completed", "expired", "failed", "static-payment"])
    [cause] = report.causes
    assert "to every valid message" in cause.found
    assert text in cause.fix


def test_who_refuses_another_amount_is_not_told_to_compare_it() -> None:
    """So is whoever refuses that a paid Charge has expired."""
    report = checked(Endpoint(amount="250000"), only=["completed", "another-amount"])
    [cause] = report.causes
    assert cause.checks == ["another-amount"]
    assert cause.fix.startswith("It is right not to act on this message. Answer 200 all the same")
    seen: set[str] = set()

    def once(post: CallbackRequest) -> CallbackResponse:
        mine = json.loads(post.body)["id"]
        status = 409 if mine in seen else 200
        seen.add(mine)
        return CallbackResponse(status=status)

    [cause] = checked(once, only=["contradiction", "another-amount"]).causes
    assert cause.fix.startswith("It is right not to act")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_once(mistake: str) -> None:
    endpoint, fix, names = MISTAKES[mistake]
    report = checked(replace(endpoint, acted=set()))
    [cause] = [cause for cause in report.causes if fix in cause.fix]
    assert set(cause.checks) & {finding.case.name for finding in report.findings} >= names & failing(report)
    also = {name for other in report.causes if other is not cause for name in other.checks}
    assert not also & names
    allowed = {"stale", "future", "not-a-time"} if mistake == "compares beginnings" else set()
    assert failing(report) <= names | allowed
    assert len(failing(report)) > 1


def test_an_empty_secret_is_the_cause_of_every_refusal() -> None:
    report = checked(Endpoint(key=b""), only=["completed", "expired", "empty-secret", "bad-signature"])
    [cause] = report.causes
    assert cause.checks == ["completed", "expired", "empty-secret"]
    assert cause.found.endswith("and accepts what an empty secret signs: its own secret is empty")
    assert cause.fix.startswith("Refuse to start without a secret")


def test_mistakes_that_are_not_the_same_are_named_beside_one_another() -> None:
    report = checked(Endpoint(skips_unsigned=True, tolerance_s=7_200, compares_header=True))
    assert sorted(sorted(cause.checks) for cause in report.causes if cause.severity != CONSIDER) == [
        ["empty-signature", "no-headers", "no-signature"],
        ["future", "stale"],
        ["other-versions", "two-signatures"],
    ]


HTML = answering("200 OK", "content-type: text/html", body=b"<!doctype html><title>Shop</title>")
FAILURES: dict[str, tuple[Talk, str, str]] = {
    "slow": (answering("200 OK", after_s=1.5), "it answers too late: 200 after ", "Answer first, work later"),
    "hangs": (hanging, "gives no answer within 3 s", "Answer first, work later"),
    "redirect": (answering("302 Found", "location: /hook/"), "a redirect to /hook/: redirects are never", "/hook/, as"),
    "304": (answering("304 Not Modified"), "every valid message: neither a success nor a redirect", "Answer with a st"),
    "404": (answering("404 Not Found"), "it answered 404 to every valid message", "Check the path of the URL, /hook"),
    "401": (answering("401 Unauthorized"), "it answered 401 to every valid message", "another secret"),
    "410": (answering("410 Gone"), "410 ends all callbacks about the Charge", "Check the path of the URL"),
    "500": (answering("500 Internal Server Error", body=b"KeyError"), "it answered 500 to every", "endpoint's log"),
    "429": (answering("429 Too Many Requests"), "it answered 429 to every valid message: it limits", "Raise the limit"),
    "503": (answering("503 Service Unavailable"), "it answered 503 to every valid message: it was not", "log of the"),
    "closes": (closing, "it closes the connection without a complete answer", "endpoint's log"),
    "HTML 200": (HTML, "it answered 200 to every forged message, with an HTML page", "check the path of the URL"),
    "always 200": (answering("200 OK"), "it answered 200 to every forged message", "Verify the signature"),
}
SCREENFUL = 40


@pytest.mark.parametrize(
    ("effect", "found", "fix"),
    [
        (None, "it answered 204 to every forged message", "Answer 4xx to what does not verify. Verify the signature"),
        ("ignored", "it answered 204 to every forged message", "It does not act on these messages"),
        (
            "applied",
            "it answered 204 to every forged message: it verifies nothing, as its leyden-effect says",
            "Verify the signature",
        ),
    ],
)
def test_only_a_reported_effect_says_that_nothing_is_verified(effect: str | None, found: str, fix: str) -> None:
    """An endpoint that verifies, and drops what is forged with a 2xx, answers like one that verifies nothing."""
    headers = {} if effect is None else {"leyden-effect": effect}
    report = checked(CallbackResponse(status=204, headers=headers), only=["completed", *FORGERIES])
    assert [cause.found for cause in report.causes] == [found]
    assert (report.grade, report.why) == ("F", found)
    resource = json.loads(json.dumps(report_resource(report, ["text", "html"])))
    assert fix in resource["causes"][0]["mend"]
    for form in (resource["text"], html.unescape(resource["html"])):
        assert fix in " ".join(form.split())
        assert ("verifies nothing" in form) is (effect == "applied")


def test_a_remark_that_a_cause_does_not_explain_has_a_cause_of_its_own() -> None:
    """An endpoint that reads JSON objects and verifies nothing. The remark is about a signed message."""

    def reads_objects(post: CallbackRequest) -> int:
        try:
            return 200 if isinstance(json.loads(post.body), dict) else 400
        except ValueError:
            return 400

    report = checked(reads_objects)
    unverified, types = report.causes
    assert set(unverified.checks) == {case.name for case in CASES if case.group == FORGED}
    assert (types.severity, types.checks) == (CONSIDER, ["wrong-types"])
    assert "Check what the body says before you use it" in types.fix
    text = " ".join(report_text(report).split())
    assert "1 with a remark" in text
    assert "wrong-types (consider)" in text
    assert types.fix in text


def test_an_endpoint_that_takes_everything_gets_one_cause_with_both_corrections() -> None:
    [cause] = checked(CallbackResponse(status=200)).causes
    assert {"bad-signature", "truncated", "wrong-types"} <= set(cause.checks)
    assert "Verify the signature before you look at the body" in cause.fix
    assert "Check what the body says before you use it" in cause.fix


def test_a_wrong_effect_is_not_explained_by_the_refusal_of_every_message() -> None:
    only = ["completed", "bad-signature", "changed-body"]
    report = checked(CallbackResponse(status=401, headers={"leyden-effect": "applied"}), only=only)
    refused = next(cause for cause in report.causes if "completed" in cause.checks)
    acted = [finding for finding in report.findings if finding.about == "acted"]
    assert {"bad-signature", "changed-body"} <= {finding.case.name for finding in acted}
    assert not [finding for finding in acted if finding in refused.findings]
    explained = [finding for cause in report.causes for finding in cause.findings]
    assert all(explained.count(finding) == 1 for finding in acted)


@pytest.mark.parametrize(("last", "group"), [("bad-signature", FORGED), ("wrong-types", "malformed")])
def test_the_end_of_a_program_does_not_explain_its_last_answer(last: str, group: str) -> None:
    """A receiver that ends after it has accepted a message which it must refuse."""
    names = [case.name for case in CASES]
    only, sent = ["completed", last, names[names.index(last) + 1]], count()
    gone = CallbackResponse(error="refused", note="no connection to 127.0.0.1:1: connection refused")
    report = checked(lambda post: 200 if next(sent) < 2 else gone, only=only)
    [finding] = [one for one in report.findings if one.case.name == last]
    [cause] = [one for one in report.causes if last in one.checks]
    assert cause.fix == finding.case.fix
    assert cause.checks == [last]
    assert any(
        f"its program may have ended after its answer to it: {finding.found}" in one.found for one in report.causes
    )


def test_a_cause_names_every_status_that_the_forged_messages_got() -> None:
    statuses = cycle([200, 204])
    [cause] = checked(lambda post: next(statuses), only=["completed", *FORGERIES]).causes
    assert cause.found == "it answered 204 and 200 to every forged message"


def test_a_cause_counts_the_forged_messages_that_were_sent() -> None:
    report = checked(CallbackResponse(status=204), only=["completed", *FORGERIES])
    skipped = [replace(one, verdict=SKIPPED, exchanges=()) for one in report.findings[4:]]
    kept = [*report.findings[:4], *skipped]
    sent = sum(one.case.group == FORGED for one in kept[:4])
    [cause] = causes_of("http://127.0.0.1/hook", kept)
    assert cause.found == f"it answered 204 to each of the {sent} forged messages that were sent"


def text_of(url: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    status = main(["receiver-check", url, *arguments])
    text = capsys.readouterr().out
    return status, text.splitlines(), " ".join(text.split())


@pytest.mark.parametrize("failure", FAILURES)
def test_a_receiver_with_one_defect_gets_one_cause_on_one_screen(
    failure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk, found, fix = FAILURES[failure]
    with serving(talk) as address:
        status, lines, text = text_of(f"http://{address}/hook", capsys, "--timeout", "1")
    assert status == 1
    assert lines[3].startswith("Grade F: ")
    assert text.count(found) == 1
    assert text.count("How to fix it: ") == 1
    assert fix in text[text.index("How to fix it: ") :]
    assert len(lines) <= SCREENFUL
    assert max(map(len, lines)) <= 100
    assert "cannot be reached" not in text


def test_a_refused_connection_is_reported_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    with not_listening() as address:
        status, lines, text = text_of(f"http://{address}/hook", capsys)
    assert status == 1
    assert lines[3] == f"Grade F: it cannot be reached: no connection to {address}: connection refused"
    assert "Start the endpoint" in text
    assert "ssl" not in text.lower()


def test_an_address_without_a_route_is_not_a_program_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, text = text_of("http://224.0.0.1/hook", capsys, "--egress-allow", "224.0.0.1/32")
    assert status == 1
    assert "nobody refused it" in text
    assert "Give the URL an address to which this machine can connect" in text
    assert "Start the endpoint" not in text


def test_tls_on_a_plain_port_is_reported_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(plain_http) as address:
        status, lines, text = text_of(f"https://{address}/hook", capsys)
    assert status == 1
    assert lines[3].startswith(f"Grade F: no TLS connection to {address}: ")
    assert f"The port does not speak TLS. Use http://{address}/hook" in text
    assert "ssl" not in text.lower()


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("http://192.0.2.1/hook", "Add --egress-allow 192.0.2.1/32."),
        ("http://10.1.2.3/hook", "Add --egress-allow 10.0.0.0/8."),
        ("http://8.8.8.8/hook", "Use --egress public, which reaches no loopback address."),
        ("http://127.0.0.1:22/hook", "Give the receiver port 80, 443 or one from 1024 to 65535."),
        ("http://[ff02::1]/hook", "Give the address of your receiver."),
    ],
)
def test_a_check_that_the_own_policy_forbids_has_no_grade(
    url: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines, text = text_of(url, capsys)
    assert status == 3
    assert lines[3].startswith("No grade: nothing was sent")
    assert f"{len(CASES)} checks: {len(CASES)} not sent" in lines
    assert fix in text
    assert "FAIL" not in text
    assert "Grade" not in text


@pytest.mark.parametrize(
    "note",
    [
        "the look-up of the name {} had no answer within 15000 ms",
        "the name {} was not looked up: 8 earlier look-ups had no answer within 15000 ms",
    ],
)
def test_a_look_up_without_an_answer_is_no_answer_of_the_endpoint(note: str) -> None:
    note = note.format("shop.example")
    report = checked(CallbackResponse(error="timeout", note=note))
    assert (report.grade, report.why) == (None, f"nothing was sent, because {note}")
    assert {finding.verdict for finding in report.findings} == {SKIPPED}


def test_a_name_without_an_address_has_no_grade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_address(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_address)  # a name server may take longer than the check waits
    status, report = command("http://shop.invalid/hook", out=tmp_path / "report.json")
    assert (status, report["grade"], report["counts"]["skipped"]) == (3, None, len(CASES))
    assert report["why"].startswith("nothing was sent, because the name shop.invalid has no address")
    assert "--egress public" in report["causes"][0]["mend"]


def test_a_name_below_localhost_is_no_built_in_receiver(capsys: pytest.CaptureFixture[str]) -> None:
    with not_listening() as address:
        port = address.partition(":")[2]
        _, _, text = text_of(f"http://inbox.localhost:{port}/x", capsys)
    assert "built-in receivers only inside a sandbox" in text


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_equal_refusals_of_all_messages_name_the_secret_first(status: int) -> None:
    [cause] = checked(status).causes
    assert cause.fix.startswith("Most likely it verifies with another secret")
    assert "public example secret" in cause.fix
    assert "--internal-id" in cause.fix


def test_an_endpoint_that_closes_after_a_message_does_not_fail_the_next_check(tmp_path: Path) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the first request of a connection, and breaks off within the second answer."""
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        for part in (answer, answer[:10]):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
            writer.write(part)
            await writer.drain()

    with serving(once) as address:
        names = ("--only", "completed", "--only", "expired", "--only", "failed")
        status, report = command(f"http://{address}/hook", *names, out=tmp_path / "report.json")
    assert (status, report["grade"]) == (0, "A")


def test_a_run_with_a_time_limit_names_what_was_not_sent() -> None:
    slow = CallbackResponse(status=200, headers={"leyden-effect": "ignored"}, latency_ms=7_000)
    report = checked(slow, timeout_s=8, run_s=20)
    assert report.count("skipped") == len(CASES) - 3
    assert len(report.not_checked) == len(CASES) - 3
    assert report.headline == (
        f"No grade: no check passed, and 3 of {len(CASES)} were sent; {len(CASES) - 3} checks not sent, because no "
        "check begins after 20 s"
    )
    quick = CallbackResponse(status=200, headers={"leyden-effect": "applied"}, latency_ms=900)
    partial = checked(quick, only=["completed", "expired", "failed"], run_s=1)
    assert partial.headline.startswith("Grade A for what was checked: nothing fails; ")
    unsent = [finding.found for finding in report.findings if finding.verdict == "skipped"]
    assert set(unsent) == {"not sent: the time of the run, 20 s, ended before it"}


def test_a_run_with_a_time_limit_also_says_why_checks_that_were_sent_are_not_judged() -> None:
    silent = CallbackResponse(status=200, latency_ms=500)
    report = checked(silent, only=[*REPEATS, "expired"], run_s=2)
    sent = [finding.case.name for finding in report.findings if finding.exchanges]
    unsent = [finding.case.name for finding in report.findings if not finding.exchanges]
    unjudged = [name for name in sent if name in ("duplicate", "another-id")]
    assert unsent
    assert unjudged
    assert report.not_checked == [*unjudged, *unsent]
    assert f"{len(unsent)} checks not sent, because no check begins after 2 s" in report.why
    assert report.why.endswith("not judged, because its answers have no header leyden-effect")
    assert "has no limit of the whole run" in report.to_check
    assert "leyden-effect: applied" in report.to_check


@pytest.mark.parametrize(
    ("status", "reason"),
    [(500, "the first valid messages were refused in the same way"), (None, "the messages before it had no answer")],
)
def test_a_run_that_ends_early_says_so_at_each_check_that_is_left(status: int | None, reason: str) -> None:
    report = checked(CallbackResponse(status=status, error=None if status else "timeout"))
    assert report.findings[-1].found == f"not sent: {reason}"


# `partial`: `st.builds` fills in every field of a named tuple that is not given, and a response has no status beside an
# error.
RESPONSES = st.one_of(
    st.sampled_from([200, 202, 302, 400, 401, 404, 410, 500, 503]).flatmap(
        lambda status: st.builds(
            partial(CallbackResponse, status=status),
            latency_ms=st.sampled_from([3, 4_100, 7_000]),
            headers=st.sampled_from([{}, {"leyden-effect": "applied"}, {"leyden-effect": "ignored"}]),
        )
    ),
    st.builds(
        partial(CallbackResponse, note="what went wrong"),
        error=st.sampled_from(["timeout", "refused", "reset", "tls", "protocol"]),
    ),
)


@deep("test_a_grade_never_says_both_that_a_check_fails_and_that_it_was_not_judged")
@given(st.lists(RESPONSES, min_size=1, max_size=60), st.booleans())
@settings(max_examples=40)
def test_every_failure_and_remark_has_exactly_one_cause(responses: list[CallbackResponse], valid_first: bool) -> None:
    """Whatever it answers, also after a good start: the causes cover what failed, and the grade has a reason."""
    start = [CallbackResponse(status=200)] * 20 if valid_first else []
    answers = cycle([*start, *responses])
    report = checked(lambda post: next(answers), only=[case.name for case in CASES if not case.together])
    explained = [name for cause in report.causes for name in cause.checks]
    assert sorted(explained) == sorted(
        finding.case.name for finding in report.findings if finding.verdict in ("fail", "notice")
    )
    assert report.why
    assert report.reaches("F")
    severities = [[*SEVERITIES, CONSIDER].index(cause.severity) for cause in report.causes]
    assert severities == sorted(severities), "the first to correct first"
    worst = [one.case.name for one in report.findings if one.verdict == "fail" and one.severity == "critical"]
    if worst and not report.count("skipped"):  # the reason is one of what makes the grade
        found = [cause.found for cause in report.causes if {*cause.checks} & {*worst}]
        assert worst[0] in report.why or report.why.startswith(tuple(found))
    assert all(cause.found and cause.fix for cause in report.causes)
    assert (report.grade == "A") == (report.count("fail") == report.count("skipped") == 0)


@pytest.mark.parametrize("refusals", [(400,), (410,), (404, 410)], ids=str)
@pytest.mark.parametrize("place", ["first", "last"])
def test_what_is_said_to_follow_from_a_refusal_follows_from_its_status(refusals: tuple[int, ...], place: str) -> None:
    """Each check is sent alone; the first or the last of its requests are refused, and the others accepted."""
    for case in CASES:
        count = len(checked(200, only=[case.name]).findings[0].exchanges)
        refused = list(refusals)[:count]
        others = [200] * (count - len(refused))
        answers = iter([*refused, *others] if place == "first" else [*others, *refused])
        [finding] = checked(lambda post, answers=answers: CallbackResponse(next(answers)), only=[case.name]).findings
        if "ends all" not in finding.found and "again" not in finding.found:
            assert case.expects not in (ACCEPTED, IGNORED), case.name
            continue
        is_sent_again = set(refused) != {410}
        assert ("sent again while attempts remain" in finding.found) == is_sent_again, finding.found
        assert ("410 ends all callbacks" in finding.found) == (410 in refused), finding.found
        assert finding.verdict == "fail" or 410 not in refused or case.expects == IGNORED, finding.found


def test_slow_answers_within_the_limit_are_one_remark() -> None:
    report = checked(CallbackResponse(status=200, headers={"leyden-effect": "ignored"}, latency_ms=4_100))
    [cause] = [cause for cause in report.causes if "4.1 s" in cause.found]
    assert (cause.severity, len(cause.findings) > 20) == ("consider", True)


def test_a_receiver_that_credits_duplicates_has_one_cause(capsys: pytest.CaptureFixture[str]) -> None:
    class Forgetful(CarefulReceiver):
        def receive(self, body: bytes) -> tuple[int, str]:
            self.books.messages.clear()
            self.books.charges.clear()
            return super().receive(body)

    with serving_receiver(Forgetful, EXAMPLE_SECRET) as (url, _):
        status, lines, text = text_of(url, capsys)
    assert status == 1
    assert text.count("How to fix it: ") == 1
    assert "webhook-id and the Charge's id" in text
    assert len(lines) <= SCREENFUL


def check_session(url: str) -> CheckSession:
    return CheckSession(
        url,
        contract=packaged_contract("charges"),
        secret=EXAMPLE_SECRET,
        known=KnownIds(),
        now=lambda: 1_900_000_000_000,
        seed=1,
        timeout_ms=1_000,
    )


def test_an_unknown_name_and_an_impossible_url_are_refused() -> None:
    with pytest.raises(CheckRefused, match="bad-signature"):
        checked(200, only=["bad-signatur"])
    with pytest.raises(CheckRefused, match="user name"):
        check_session("http://user@shop.example/").paid()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_description_of_a_good_receiver_says_whether_it_acts(case: Case) -> None:
    """A receiver that acts on what it must ignore fails: it is no good one by this description."""
    requests = case.build(check_session("http://shop.example/hook"))
    is_repeated = len({request.request.body for request in requests}) < len(requests)
    must_ignore = any(request.must_ignore for request in requests) or is_repeated or case.expects != ACCEPTED
    acts_less = ("changes nothing", "does nothing else", "acts once", "does not crash", "2xx or 4xx")
    assert any(words in case.expected_behaviour for words in acts_less) == must_ignore


# The report


class Tags(HTMLParser):
    """Which tags and attributes a page has, and whether every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


HOSTILE = b"</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\xe2\x80\xae"


def test_a_hostile_response_is_shown_as_text() -> None:
    report = checked(CallbackResponse(status=500, body=HOSTILE), only=["completed", "unicode"])
    page = report_html(report)
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert not {"script", "img", "iframe", "link"} & set(tags.tags)
    assert not {name for name in tags.attributes if name.startswith("on") or name == "src"}
    assert "&lt;script&gt;" in page
    assert "default-src" in page
    assert not any(char in page + report_text(report) for char in ("\x1b", "\u202e"))


def test_the_json_carries_the_other_forms_when_asked() -> None:
    report = checked(200, only=["completed"])
    resource = report_resource(report, ["text", "html"])
    *text, details = report_text(report).splitlines()
    assert resource["text"].splitlines()[:-1] == text
    assert "--json FILE" in details
    assert "`checks` of the response" in resource["text"].splitlines()[-1]
    assert resource["html"] == report_html(report)
    assert report_resource(report)["html"] is None


@pytest.mark.parametrize("file", ["README.md", "sim/devserver/README.md", "specs/sandbox.openapi.yaml"])
def test_the_documents_state_the_number_of_checks(file: str) -> None:
    assert f"{len(CASES)} checks on your endpoint" in (Path(__file__).parents[2] / file).read_text()


def test_the_help_states_the_number_of_checks() -> None:
    assert f"{len(CASES)} checks on your endpoint" in COMMANDS["receiver-check"].summary


def test_every_check_has_its_own_id_and_a_correction() -> None:
    assert len({check.name for check in CASES}) == len(CASES)
    assert all(check.title and check.fix.endswith(".") for check in CASES)


# From the command line and from the control plane


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (("ftp://x",), 2, "'ftp://x' is not a URL: give the whole URL, such as http://localhost:3000/hook"),
        (("nonsense",), 2, "'nonsense' is not a URL: give the whole URL, such as http://localhost:3000/hook"),
        (("shop.example:3000/paid",), 2, "such as http://shop.example:3000/paid"),
        (("http//shop.example:3000/paid",), 2, "such as http://shop.example:3000/paid"),
        (("http:/shop.example/paid",), 2, "such as http://shop.example/paid"),
        (("http://127.0.0.1:9000/", "--secret", "secret"), 2, "whsec_"),
        (("http://127.0.0.1:9000/", "--grade", "E"), 2, "grade"),
        (("http://127.0.0.1:9000/", "--amount", "1"), 2, "amount"),
        (("http://127.0.0.1:9000/", "--timeout", "60"), 2, "timeout"),
        (("http://127.0.0.1:9000/", "--charge-id", "7"), 2, "Charge"),
        (("http://127.0.0.1:9000/", "--only", "nonsense"), 2, "nonsense"),
        (("http://127.0.0.1:9000/#there",), 2, "fragment"),
        (("http://user:secret@127.0.0.1:9000/",), 2, "callbackUrl"),
        (("http://127.0.0.1:9000/", "--internal-id", "i" * 256), 2, "internalId"),
        (("http://127.0.0.1:9000/", "--overlay", "nonsense"), 2, "nonsense"),
    ],
)
def test_a_bad_option_is_one_clear_line(
    arguments: tuple[str, ...], status: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        given_status = main(["receiver-check", *arguments])
    except SystemExit as ended:
        given_status = int(ended.code or 0)
    assert given_status == status
    assert word in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("error", ["reset", "timeout", "protocol", "empty", "refused", "tls"])
@pytest.mark.parametrize("only", [None, ["completed"], ["completed", "duplicate"]])
def test_a_check_that_was_sent_and_failed_is_not_among_those_not_checked(error: str, only: list[str] | None) -> None:
    report = checked(CallbackResponse(error=error), only=only)
    assert failing(report) >= {"completed"}
    assert set(report.not_checked) == {finding.case.name for finding in report.findings if not finding.exchanges}


@given(replies=st.lists(st.sampled_from([200, 400, "timeout", "reset", "blocked", "unresolved"]), min_size=1))
def test_a_check_is_not_checked_if_it_was_not_sent_or_its_effect_is_unknown(replies: list[int | str]) -> None:
    answers = cycle(CallbackResponse(error=one) if isinstance(one, str) else one for one in replies)
    report = checked(lambda post: next(answers), only=["completed", "expired", *REPEATS, "bad-signature"])
    unjudged = {
        finding.case.name for finding in report.findings if finding.verdict == "skipped" or finding.lacks_effect
    }
    assert set(report.not_checked) == unjudged - failing(report)


def test_it_sends_only_to_this_machine_by_default(tmp_path: Path) -> None:
    status, report = command("http://192.0.2.1/hook", out=tmp_path / "report.json")
    assert (status, report["grade"], report["counts"]["skipped"]) == (3, None, len(CASES))
    assert report["checks"][0]["exchanges"][0]["note"].startswith("loopback-only: 192.0.2.1 is not a loopback")


def test_a_sandbox_that_is_not_served_refuses_the_check(sandbox: Sandbox) -> None:
    with pytest.raises(ApiError, match="409"):
        sandbox.ask("POST", "/sandbox/v1/receiver-check", {"url": URL})


def test_a_served_sandbox_begins_no_check_after_45_seconds(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each response took four seconds, as the transport says: the test does not wait."""
    played = Played(CallbackResponse(status=200, headers={"leyden-effect": "ignored"}, latency_ms=4_000))
    monkeypatch.setattr(sandbox.world, "external_transport", played)

    async def report() -> dict[str, Any]:
        transport = httpx2.ASGITransport(MultiTenantApp({sandbox.api_key: sandbox.world}))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"apikey": sandbox.api_key}
            answer = await client.post("/sandbox/v1/receiver-check", json={"url": URL}, headers=headers)
        found: dict[str, Any] = answer.json()
        return found

    found = asyncio.run(report())
    skipped = found["counts"]["skipped"]
    assert 4 * len(played.posts) >= 45 > 4 * (len(played.posts) - 1)
    assert skipped == len(CASES) - len(played.posts)
    assert found["why"].endswith(f"{skipped} checks not sent, because no check begins after 45 s")


def test_a_served_sandbox_checks_with_its_own_secret() -> None:
    with served_leyden("--rate", "0", "--start", "2030-01-01T00:00:00Z") as client:
        secret = client.ok("GET", "/sandbox/v1/webhook-secret")["current"]
        before, entries = client.ok("GET", "/sandbox/v1"), client.ok("GET", "/sandbox/v1/journal")
        with serving_receiver(CarefulReceiver, secret) as (url, _):
            report = client.ok("POST", "/sandbox/v1/receiver-check", {"url": url, "include": ["text"]})
        assert (report["grade"], report["secret"], report["html"]) == ("A", f"{secret[:10]}...{secret[-4:]}", None)
        assert secret not in str(report)
        assert report["text"].startswith("Receiver check of")
        after = client.ok("GET", "/sandbox/v1")
        assert {name for name in after if after[name] != before[name]} == {"journalHash"}
        more = client.ok("GET", "/sandbox/v1/journal")[len(entries) :]
        assert [(entry["kind"], entry["subject"]) for entry in more] == [("request", "POST /sandbox/v1/receiver-check")]
        own = client.ok("POST", "/sandbox/v1/receiver-check", {"url": f"{client.url}/v0/charges"})
        assert (own["grade"], own["checks"][0]["exchanges"][0]["error"]) == (None, "blocked")
        assert "nothing was sent" in own["why"]
        assert client("POST", "/sandbox/v1/receiver-check", {"url": url, "only": ["nonsense"]})[0] == 409
        for built_in in ("http://inbox.localhost/h", f"http://inbox.localhost:{urlsplit(client.url).port}/v0/charges"):
            status, refused = client("POST", "/sandbox/v1/receiver-check", {"url": built_in})
            assert (status, refused["errors"][0]["pointer"]) == (409, "/url")
            assert (
                "the check sends to the network only, and names below .localhost are the built-in" in refused["detail"]
            )


SECRET_FORMS = encodings(EXAMPLE_SECRET) | encodings(base64.b64decode(EXAMPLE_SECRET.removeprefix("whsec_")))


@pytest.mark.parametrize("form", sorted(SECRET_FORMS))
def test_no_report_has_the_secret_that_an_endpoint_answers(form: str) -> None:
    body, note = json.dumps({"secret": form}).encode() + form.encode(), f"it said {form}"
    answers = cycle([
        CallbackResponse(status=200, headers={"leyden-effect": form}, body=body),
        CallbackResponse(status=500, body=form.encode()),
        CallbackResponse(error="protocol", note=note),
    ])  # fmt: skip
    report = checked(lambda _: next(answers), only=["completed", "duplicate", "expired"])
    resource = json.dumps(report_resource(report, ["text", "html"]))
    for text in (resource, json.dumps(report_resource(report), ensure_ascii=False), report_text(report)):
        assert form not in text, text[text.index(form) - 100 :][:300]
        assert json.dumps(form)[1:-1] not in text
    assert html.escape(form) not in report_html(report)


def test_the_raw_key_and_a_secret_in_the_url_are_in_no_product(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    key = base64.b64decode(EXAMPLE_SECRET.removeprefix("whsec_"))
    with serving(answering("400 Bad Request", body=key)) as where:
        told = f"http://{where}/hook?secret={EXAMPLE_SECRET}"
        status, report = command(told, "--secret", EXAMPLE_SECRET, "--html", str(page), out=tmp_path / "report.json")
    assert status == 1
    shown = json.dumps(report) + page.read_text() + capsys.readouterr().out
    assert EXAMPLE_SECRET not in shown
    assert key.decode("utf-8", "replace") not in shown
    for check in report["checks"]:
        for exchange in check["exchanges"]:
            assert EXAMPLE_SECRET.encode() not in base64.b64decode(exchange["requestBase64"])
