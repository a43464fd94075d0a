"""The texts of the receiver check against the receiver's own record: causes told once, and groups counted."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from itertools import count

import pytest

from leyden.devserver.receiver_check.cases import CASES, FORGED, MALFORMED, SERIOUS
from leyden.devserver.receiver_check.cause import Cause
from leyden.devserver.receiver_check.check import Report
from leyden.devserver.receiver_check.findings import FAIL, NOTICE, PASS, Finding
from leyden.devserver.receiver_check.report import _cause_text, report_text
from leyden.devserver.receiver_check.report_html import report_html
from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.devserver.test_receiver_check import Endpoint, checked

Reply = Callable[[CallbackRequest], CallbackResponse]
_SILENT = CallbackResponse(error="timeout", note="no answer within 5 s")
_LATE = CallbackResponse(status=200, latency_ms=9_000)


def by_number(answer: Callable[[int], int | CallbackResponse | None]) -> Reply:
    """A careful endpoint that answers otherwise by the number of the request."""
    numbers, careful = count(1), Endpoint(effects=True)

    def reply(post: CallbackRequest) -> CallbackResponse:
        other = answer(next(numbers))
        if other is None:
            return careful(post)
        return other if isinstance(other, CallbackResponse) else CallbackResponse(status=other)

    return reply


def by_message(status: int, is_refused: Callable[[CallbackRequest], bool]) -> Reply:
    """A careful endpoint that answers otherwise to some messages."""
    careful = Endpoint(effects=True)
    return lambda post: CallbackResponse(status=status) if is_refused(post) else careful(post)


def both(numbers: Reply, messages: Reply) -> Reply:
    """The answer of the first that does not accept the message."""

    def reply(post: CallbackRequest) -> CallbackResponse:
        answer = numbers(post)
        return answer if answer.status in (429, 503) else messages(post)

    return reply


ONE_CAUSE: dict[str, Callable[[], Reply]] = {
    "429 from the 11th on": lambda: by_number(lambda number: 429 if number > 10 else None),
    "503 to every fifth": lambda: by_number(lambda number: 503 if number % 5 == 0 else None),
    "429 to every seventh": lambda: by_number(lambda number: 429 if number % 7 == 0 else None),
    "500 to every fifth": lambda: by_number(lambda number: 500 if number % 5 == 0 else None),
    "500 from the 11th on": lambda: by_number(lambda number: 500 if number > 10 else None),
    "502 to every third": lambda: by_number(lambda number: 502 if number % 3 == 0 else None),
    "401 from the 11th on": lambda: by_number(lambda number: 401 if number > 10 else None),
    "410 from the 20th on": lambda: by_number(lambda number: 410 if number > 19 else None),
    "silent to every fourth, late at first": lambda: by_number(
        lambda number: _LATE if number == 1 else _SILENT if number % 4 == 0 else None
    ),
    "silent to every sixth": lambda: by_number(lambda number: _SILENT if number % 6 == 0 else None),
    "413 to large bodies": lambda: by_message(413, lambda post: len(post.body) > 700),
    "503 to names in capitals": lambda: by_message(503, lambda post: "Webhook-Id" in post.headers),
    "503 to emoji": lambda: by_message(503, lambda post: b"\xf0" in post.body),
}


def plain_text(report: Report) -> str:
    return " ".join(report_text(report).split())


def failures(report: Report) -> set[str]:
    return {finding.case.name for finding in report.findings if finding.verdict == FAIL}


@pytest.mark.parametrize("receiver", ONE_CAUSE)
def test_one_cause_is_told_once(receiver: str) -> None:
    report = checked(ONE_CAUSE[receiver]())
    text = plain_text(report)
    [cause] = report.causes
    assert failures(report) <= {*cause.checks}
    assert "also fails otherwise" not in text
    assert text.count("How to fix it: ") == 1
    assert text.count(cause.found) == 1


@pytest.mark.parametrize("receiver", ONE_CAUSE)
def test_the_counts_of_a_cause_are_those_of_the_record(receiver: str) -> None:
    """Of the statuses that it names, and of the failures that it explains."""
    statuses: list[list[int | str | None]] = []
    reply = ONE_CAUSE[receiver]()
    report = checked(reply)
    statuses = [[one.answer.status or one.answer.error for one in finding.exchanges] for finding in report.findings]
    [cause] = report.causes
    counted = re.match(r"it answered (\d+) in (\d+) of (\d+) checks, first in ([a-z-]+)", cause.found)
    if counted is not None:
        having = [place for place, found in enumerate(statuses) if int(counted[1]) in found]
        wanted = (str(len(having)), str(len(statuses)), CASES[having[0]].name)
        assert counted.groups()[1:] == wanted
    explained = re.search(r"The cause of (?:all (\d+)|the|(both)) failures?: ", plain_text(report))
    assert explained is not None
    assert int(explained[1] or (2 if explained[2] else 1)) == len(failures(report))


@pytest.mark.parametrize(
    ("numbers", "messages", "shares"),
    [
        (lambda number: 503 if number % 9 == 0 else None, by_message(413, lambda post: len(post.body) > 700), 2),
        (lambda number: 429 if number % 8 == 0 else None, Endpoint(checks_time=False, effects=True), 1),
    ],
)
def test_two_causes_are_told_as_two(numbers: Callable[[int], int | None], messages: Reply, shares: int) -> None:
    report = checked(both(by_number(numbers), messages))
    text, failed = plain_text(report), failures(report)
    told = re.findall(r"The cause of (\d+) of the (\d+) failures: ", text)
    assert len(told) == shares
    assert {int(whole) for _, whole in told} == {len(failed)}
    assert [int(part) for part, _ in told] == [len(cause.failures) for cause in report.causes if cause.is_common]
    assert all(text.count(cause.found.removeprefix("it ")) >= 1 for cause in report.causes)
    assert sum(len(cause.failures) for cause in report.causes) == len(failed)


def test_otherwise_is_said_only_beside_a_cause_that_the_grade_names() -> None:
    """It verifies nothing, and limits the number of requests in the beginning."""
    report = checked(by_number(lambda number: 429 if number in (5, 9) else 200))
    [first, second] = [cause for cause in report.causes if cause.is_common]
    assert first.found in report.why
    assert f"It also fails otherwise: {second.found}" in plain_text(report)
    assert second.failures


def test_a_remark_is_no_failure() -> None:
    """One of ten messages at the same moment is refused: it is sent again."""
    place = sum(len(one.exchanges) for one in checked(200).findings[: [case.name for case in CASES].index("burst")])
    report = checked(by_number(lambda number: 429 if number == place + 3 else None))
    assert failures(report) == set()
    assert "It has 1 remark for one reason: it answered 429 in 1 of 47 checks" in plain_text(report)


def test_a_message_after_refused_ones_may_be_acted_on() -> None:
    """Its first delivery was answered with 500, so its second is the one that counts."""
    for name in ("duplicate", "a-day-later", "another-id", "contradiction"):
        answers = iter(
            [CallbackResponse(status=500), CallbackResponse(status=200, headers={"leyden-effect": "applied"})]
        )
        [finding] = checked(lambda post, answers=answers: next(answers), only=[name]).findings
        assert "acted" not in finding.found


@pytest.mark.parametrize("reply", [200, 401, by_number(lambda number: 401 if number > 3 else None)])
def test_each_group_that_was_checked_is_counted(reply: int | Reply) -> None:
    report = checked(reply)
    text, page = plain_text(report), html.unescape(report_html(report))
    for group in dict.fromkeys(case.group for case in CASES):
        members = [finding for finding in report.findings if finding.case.group == group]
        passed, failed = (sum(one.verdict == verdict for one in members) for verdict in (PASS, FAIL))
        is_sent = any(one.exchanges for one in members)
        assert (f" {group.lower()} {passed} of {len(members)}" in text.partition("Passed:")[2]) is is_sent
        assert (f"<h2>{group} <small>{passed} of {len(members)} pass, {failed} fail</small>" in page) is is_sent


def test_a_group_in_which_nothing_passes_is_named() -> None:
    text = plain_text(checked(200))
    forged, malformed = (sum(case.group == group for case in CASES) for group in (FORGED, MALFORMED))
    assert f"forgeries 0 of {forged}, malformed messages 1 of {malformed}." in text


@pytest.mark.parametrize(
    ("verdicts", "heading"),
    [
        ((FAIL, NOTICE), "duplicate (serious); with a remark: at-once"),
        ((FAIL, FAIL), "duplicate, at-once (serious)"),
        ((NOTICE, NOTICE), "duplicate, at-once (consider)"),
    ],
)
def test_the_heading_of_a_cause_calls_no_remark_a_failure(verdicts: tuple[str, str], heading: str) -> None:
    cases = [next(case for case in CASES if case.name == name) for name in ("duplicate", "at-once")]
    findings = [
        Finding(case, verdict, SERIOUS, "it answered 409") for case, verdict in zip(cases, verdicts, strict=True)
    ]
    assert next(_cause_text(Cause("it answered 409", "Answer 2xx.", findings), "1. ")).strip() == f"1. {heading}"
