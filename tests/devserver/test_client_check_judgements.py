"""Each case of the client check judges by evidence: recorded runs of clients that do little, or fail in other ways."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import pytest

from leyden.devserver.client_check.cases import CASES
from leyden.devserver.client_check.check import ClientReport, Finding, grade
from leyden.devserver.client_check.report import report_resource, report_text
from leyden.devserver.client_check.report_html import report_html
from leyden.devserver.client_check.runs import Run, SentRequest

BY_NAME = {case.name: case for case in CASES}
STATUS = {
    "answer-lost": None, "answer-lost-proxy": 502, "key-in-use": None, "reset": None, "too-many-requests": 429,
    "unavailable": 503, "html": 503, "empty-body": 500, "outage": 502, "invalid-request": 400, "unauthorized": 401,
    "forbidden": 403, "not-found": 404, "truncated-body": 200, "slow-first-byte": None, "slow-body": 200,
}  # fmt: skip
COMMITTED = {"answer-lost", "answer-lost-proxy", "key-in-use", "truncated-body", "slow-first-byte", "slow-body"}
REFUSED = ("invalid-request", "unauthorized", "forbidden", "not-found")
PYTHON = 'Traceback (most recent call last):\n  File "/app/client.py", line 3, in <module>\n    main()\n'
JSON_ERROR = f"{PYTHON}json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
NODE = (
    "file:///app/c.mjs:5\nconsole.log(j.data.id);\n                   ^\n\n%s\n    at c.mjs:5:20\n\nNode.js v20.20.2\n"
)


def post(
    status: int | None, at_ms: int = 0, key: str | None = "one", faulty: bool | None = None, body: bytes = b"{}"
) -> SentRequest:
    """A creation that was answered after 5 ms."""
    is_faulty = status != 200 if faulty is None else faulty
    is_complete = status is not None and not (status == 200 and is_faulty)
    return SentRequest(at_ms, "POST", "/v0/charges", key, status, is_complete, at_ms + 5, is_faulty, body)


def sent_at(second: int) -> bytes:
    """The body of a client that writes the time of sending into it."""
    return b'{"amount": "21000", "description": "sent at %d"}' % second


def conflict(at_ms: int, second: int) -> SentRequest:
    """A repetition with another body, which the service refuses."""
    return post(409, at_ms, faulty=False, body=sent_at(second))


def polled(pause_ms: int, count: int, path: str = "/v0/charges/ch_1") -> list[SentRequest]:
    """Reads, each this long after the answer to the one before; the service takes 5 ms for an answer."""
    return [get(100 + number * (pause_ms + 5), path=path) for number in range(count)]


def get(at_ms: int, faulty: bool = False, status: int = 200, path: str = "/v0/charges/ch_1") -> SentRequest:
    """A read that was answered after 5 ms."""
    return SentRequest(at_ms, "GET", path, None, status, True, at_ms + 5, faulty)


def ran(
    *requests: SentRequest,
    exit_status: int | None = 1,
    output: str = "",
    charges: int = 1,
    hits: int = 1,
    uses_charge: bool = False,
) -> Run:
    return Run(exit_status, 1.0, output, requests, charges, hits, "k" * 32, False, uses_charge)


def changed(at_ms: int = 0) -> SentRequest:
    """A creation whose response of success a fault changed."""
    return replace(post(200, at_ms), is_faulty=True)


def once(case: str, exit_status: int = 1, output: str = "") -> Run:
    """The run of a client that sends one request, whatever happens."""
    request = post(STATUS.get(case, 200), faulty=case in STATUS)
    charges = 1 if case in COMMITTED or case not in STATUS else 0
    return ran(request, exit_status=exit_status, output=output, charges=charges)


class Row(NamedTuple):
    """A run in a case, and its judgement: the verdict, the mistake, and a part of what was found."""

    case: str
    run: Run
    verdict: str
    mistake: str | None = None
    part: str = ""
    wanted: int = 1


JUDGED = [
    # Crashes: what the output proves.
    Row("html", once("html", output=f"{PYTHON}urllib.error.HTTPError: HTTP Error 503: Service Unavailable\n"), "fail",
        "unhandled-http-error", "HTTP Error 503"),
    Row("empty-body", once("empty-body", output=NODE % "Error: failed: 500"), "fail", "unhandled-http-error", "500"),
    Row("answer-lost-proxy", once("answer-lost-proxy", output=f"{PYTHON}ApiError: 502 Bad Gateway\n"), "fail",
        "unhandled-http-error", "it crashed: ApiError: 502"),
    Row("html", once("html", output=JSON_ERROR), "fail", "reads-html-as-json", "it crashed: json.decoder"),
    Row("html", once("html", output="invalid character '<' looking for beginning of value"), "fail",
        "reads-html-as-json", "exit status 1: invalid character '<'"),
    Row("empty-body", once("empty-body", output=NODE % "SyntaxError: Unexpected end of JSON input"), "fail",
        "reads-nothing-as-json", "Unexpected end"),
    Row("html", once("html", output=f"{PYTHON}KeyError: 'data'\n"), "fail", "crashes", "KeyError"),
    Row("html", once("html", output="HTTP 503: no charge"), "notice", "gives-up", "exit status 1"),
    Row("truncated-body", once("truncated-body", output=JSON_ERROR), "fail", "crashes", "JSONDecodeError"),
    *(
        Row(case, once(case, output=NODE % "TypeError: fetch failed"), "fail", "crashes", "TypeError: fetch")
        for case in ("reset", "answer-lost", "truncated-body")
    ),
    Row("reset", ran(post(None), exit_status=-11, charges=0), "fail", "crashes", "signal SIGSEGV"),
    Row("invalid-request", once("invalid-request", output=f"{PYTHON}HTTPError: HTTP Error 400\n"), "pass"),
    Row("invalid-request", once("invalid-request", output=NODE % "TypeError: Cannot read properties of undefined"),
        "fail", "crashes", "Cannot read properties"),
    Row("not-found", once("not-found", output=NODE % "RangeError: Invalid time value"), "fail", "crashes", "Range"),
    *(
        Row(case, ran(post(STATUS[case]), exit_status=-6, charges=0), "fail", "crashes", "signal SIGABRT")
        for case in REFUSED
    ),
    Row("outage", ran(get(0, True, 502), get(900, True, 502), exit_status=-6, charges=0), "fail", "crashes", "SIGABRT"),
    Row("too-many-requests", ran(post(429), post(200, 9), exit_status=-15), "fail", "ignores-retry-after"),
    # One request in an outage.
    Row("outage", once("outage"), "notice", "gives-up", "exit status 1"),
    Row("outage", once("outage", output=f"{PYTHON}HTTPError: HTTP Error 502\n"), "fail", "unhandled-http-error"),
    Row("outage", ran(get(0, True, 502), get(900, True, 502), charges=0), "pass", None, "2 times"),
    Row("outage", ran(post(502), post(502, 8), post(502, 16), charges=0), "fail", "retries-without-pause"),
    Row("outage", ran(post(502), post(502, 200), post(502, 600), charges=0), "pass", None, "3 times"),
    Row("outage", ran(post(502), exit_status=None, charges=0), "fail", "does-not-end", "sent 1 request"),
    # Still running: the cause only if the requests show it.
    Row("forbidden", ran(post(403), post(403, 900), exit_status=None, charges=0), "fail", "repeats-refused-request"),
    Row("forbidden", ran(post(403), exit_status=None, charges=0), "fail", "does-not-end", "sent 1 request"),
    Row("slow-first-byte", ran(post(None), exit_status=None), "fail", "no-timeout", "still running"),
    Row("slow-first-byte", ran(post(None), post(200, 900), exit_status=None), "fail", "does-not-end", "2 requests"),
    Row("slow-body", ran(post(200, faulty=True), exit_status=None), "fail", "no-total-timeout", "still running"),
    # 409: only a client that got it can take it for the end.
    Row("key-in-use", once("key-in-use"), "skipped", None, "got no 409"),
    Row("key-in-use", ran(post(None), post(409, 200), hits=2), "notice", "ends-at-409", "did not repeat"),
    # The same key with another body: the 409 of the service is no 409 of the fault.
    Row("key-in-use", ran(post(None, body=sent_at(0)), post(409, 300, body=sent_at(1)),
                          *(conflict(second * 1_000, second) for second in (2, 4, 8, 16)), hits=2),
        "fail", "key-with-another-body", "(members that differ: description), and the service refused it with 409"),
    *(
        Row(case, ran(post(STATUS[case], faulty=True, body=sent_at(0)), conflict(900, 1), conflict(2_700, 2)),
            "fail", "key-with-another-body", "refused it with 409; it ended with exit status 1")
        for case in sorted(COMMITTED)
    ),
    Row("answer-lost", ran(post(None, body=sent_at(0)), conflict(900, 1), output=f"{PYTHON}ApiError: 409 Conflict\n"),
        "fail", "key-with-another-body", "it crashed: ApiError: 409"),
    Row("answer-lost", ran(post(None, body=sent_at(0)), conflict(900, 1), output=f"{PYTHON}KeyError: 'data'\n"),
        "fail", "crashes", "KeyError"),
    Row("answer-lost", ran(post(None, body=sent_at(0)), conflict(900, 1), exit_status=0), "fail", "false-success"),
    Row("key-in-use", ran(post(None, body=sent_at(0)), post(409, 200, body=sent_at(1)), hits=2), "notice",
        "ends-at-409", "it did not repeat the request after the 409"),
    Row("key-in-use", ran(post(None), post(409, 200), post(503, 900, faulty=False), hits=2), "notice",
        "fails-after-repetition", "3 times (the responses: none, 409, 503)"),
    Row("key-in-use", ran(post(None), post(409, 200), post(200, 600), exit_status=0, hits=2), "pass"),
    Row("key-in-use", once("key-in-use", exit_status=0), "fail", "false-success"),
    # An error after a repetition.
    Row("reset", ran(post(None), post(200, 300)), "notice", "fails-after-repetition", "the responses: none, 200"),
    Row("reset", ran(post(None), post(422, 300), charges=0), "notice", "fails-after-repetition", "none, 422"),
    # A client that repeats after the HTML page did not end with the error of its parser.
    Row("html", ran(post(503), post(200, 900), output="a warning: " + JSON_ERROR.splitlines()[-1]), "notice",
        "fails-after-repetition", "503, 200"),
    # Requests for other Charges are no repetitions.
    Row("unavailable", ran(post(503), post(200, 10, "two"), hits=1), "notice", "gives-up", "did not repeat", 2),
    Row("forbidden", ran(post(403), post(403, 10, "two"), charges=0), "pass", None, "", 2),
    Row("forbidden", ran(post(403), post(403, 10, "two"), post(403, 900), charges=0), "fail",
        "repeats-refused-request", "the refused request 2 times", 2),
    Row("outage", ran(*(post(502, 400 * number, key) for number in range(12) for key in ("one", "two")), charges=0),
        "pass", None, "12 times", 2),
    Row("outage", ran(*(post(502, 400 * number) for number in range(21)), charges=0), "fail", "endless-retries", "21"),
    # Pauses: what counts is the time between an answer and the next request, on a busy machine too.
    Row("outage", ran(*(post(502, 150 * number) for number in range(8)), charges=0), "pass", None, "8 times"),
    Row("outage", ran(*(post(502, at_ms) for at_ms in (0, 30, 400, 430, 455, 480)), charges=0), "fail",
        "retries-without-pause", "6 requests, with a median pause of 25 ms"),
    # The client that closed its connection does not wait for the answer.
    Row("slow-first-byte", ran(replace(post(None), has_left=True), exit_status=None), "fail", "does-not-end"),
    # Waiting: the repetition is the request with the same key.
    Row("unavailable", ran(post(503), post(200, 10, "two"), post(200, 2_050), exit_status=0, charges=2),
        "pass", None, "2050 ms", 2),
    Row("unavailable", ran(post(503), post(200, 900), exit_status=0), "fail", "ignores-retry-after", "900 ms"),
    # A read before the failure says nothing about the Charge; nor does a request of another kind.
    Row("answer-lost", ran(get(0, path="/v0/charges"), post(None, 10), exit_status=0), "fail", "false-success"),
    Row("answer-lost", ran(post(None), get(10, path="/health"), exit_status=0), "fail", "false-success"),
    Row("answer-lost", ran(post(None), get(300, path="/v0/charges"), exit_status=0), "pass"),
    # Refusals: every request counts, and each key.
    Row("forbidden", ran(get(0, True, 403), get(300, True, 403), charges=0), "fail", "repeats-refused-request", "GET"),
    # Content types, unknown fields and stale reads.
    Row("wrong-content-type", ran(changed(), exit_status=0), "notice", "ignores-content-type", "text/html"),
    Row("wrong-content-type", ran(changed(), get(300, path="/v0/charges"), exit_status=0), "pass"),
    Row("wrong-content-type", ran(changed(), post(200, 300), exit_status=0), "pass", None, "2 requests"),
    Row("unknown-fields", ran(changed(), exit_status=0), "skipped", None, "not exercised: nothing shows"),
    Row("unknown-fields", ran(changed(), exit_status=0, uses_charge=True), "pass"),
    Row("unknown-fields", ran(changed(), output=f"{PYTHON}ValidationError: x_unknown\n"), "fail",
        "rejects-unknown-fields", "x_unknown"),
    Row("stale-read", ran(post(200), exit_status=0, hits=0), "skipped", None, "it does not read the Charge"),
    Row("reset", ran(get(0, path="/v0/charges"), hits=0), "skipped", None, "no request that the fault changes"),
    Row("stale-read", ran(post(200), get(900, True), exit_status=0), "skipped", None, "not exercised: it ended with 0"),
    Row("stale-read", ran(post(200), get(900, True)), "notice", "believes-first-read",
        "its last read did not show the payment"),
    Row("stale-read", ran(post(200), get(900, True), get(1_900)), "notice", "fails-after-repetition", "it read again"),
    Row("stale-read", ran(post(200), get(900, True), get(1_900), exit_status=0), "pass", None, "again"),
]  # fmt: skip


def judged(case: str, run: Run, wanted: int = 1) -> tuple[str, str | None, str]:
    judgement = BY_NAME[case].judgements(run, wanted)[0]
    return judgement.verdict, judgement.mistake.name if judgement.mistake else None, judgement.found


@pytest.mark.parametrize("row", JUDGED, ids=[f"{row.case}-{row.mistake or row.verdict}" for row in JUDGED])
def test_a_recorded_run_is_judged_by_its_evidence(row: Row) -> None:
    verdict, mistake, found = judged(row.case, row.run, row.wanted)
    assert (verdict, mistake) == (row.verdict, row.mistake), found
    assert row.part in found


@pytest.mark.parametrize("case", [case.name for case in CASES if case.faults])
def test_a_client_that_sends_nothing_has_not_exercised_a_case(case: str) -> None:
    verdict, _, found = judged(case, ran(charges=0, hits=0))
    assert (verdict, found) == ("skipped", "not exercised: no request of it arrived")
    verdict, mistake, found = judged(case, ran(charges=0, hits=0, exit_status=0))
    assert (verdict, mistake) == ("fail", "false-success"), found


@pytest.mark.parametrize("case", STATUS)
def test_a_client_that_sends_one_request_and_says_nothing_passes_only_where_it_must_not_repeat(case: str) -> None:
    verdict, mistake, found = judged(case, once(case))
    assert (verdict == "pass") == (case in REFUSED), (mistake, found)
    verdict, mistake, found = judged(case, once(case, exit_status=0))
    assert (verdict, mistake) == ("fail", "false-success"), found


def findings(*rows: tuple[str, Run]) -> list[Finding]:
    return [Finding(BY_NAME[name], run, BY_NAME[name].judgements(run, 1)) for name, run in rows]


PLAIN = ("plain", ran(post(200), exit_status=0, hits=0))


def test_a_case_that_was_not_exercised_leaves_no_a() -> None:
    found = findings(PLAIN, ("stale-read", ran(post(200), exit_status=0, hits=0)))
    assert grade(found) == ("B", "no mistake was found; not exercised: stale-read")
    assert ClientReport(("client",), found, *grade(found)).count("skipped") == 1
    more = [*found, *findings(("reset", once("reset")))]
    assert grade(more) == ("B", "it could do better: gives-up; not exercised: stale-read")


def test_an_a_names_the_cases_that_ran() -> None:
    found = findings(PLAIN, ("reset", ran(post(None), post(200, 300), exit_status=0)))
    assert grade(found) == ("A", "it did what a good client does in plain and reset")


def names(run: Run, case: str = "plain") -> list[str]:
    return [mistake.name for finding in findings((case, run)) for mistake in finding.mistakes]


def paid(*requests: SentRequest, shows_key: bool = False) -> Run:
    """A run without a fault that ended with success."""
    return replace(ran(post(200), *requests, exit_status=0, hits=0), shows_key=shows_key)


@pytest.mark.parametrize("pause_ms", [0, 10, 40, 49])
def test_reads_without_a_pause_are_found_however_few_a_second_the_machine_makes(pause_ms: int) -> None:
    assert names(paid(*polled(pause_ms, 5))) == ["polls-without-pause"]


def test_reads_without_a_pause_are_found_on_a_busy_machine() -> None:
    # The pauses of a client without a pause while six busy loops ran on two cores; an answer took 150 ms.
    starts = accumulate((150 + pause_ms for pause_ms in (59, 22, 76, 39)), initial=100)
    reads = [replace(get(at_ms), answered_at_ms=at_ms + 150) for at_ms in starts]
    assert names(paid(*reads)) == ["polls-without-pause"]


@pytest.mark.parametrize("pause_ms", [50, 100, 1_000])
def test_reads_with_a_pause_are_no_mistake(pause_ms: int) -> None:
    assert names(paid(*polled(pause_ms, 40))) == []


def test_few_reads_reads_of_two_charges_and_reads_side_by_side_are_no_mistake() -> None:
    assert names(paid(*polled(0, 4))) == []
    assert names(paid(*polled(0, 4), *polled(0, 4, "/v0/charges/ch_2"))) == []
    pairs = [replace(read, at_ms=read.at_ms + late) for read in polled(200, 10) for late in (0, 2)]
    assert names(paid(*pairs)) == []


def test_a_body_with_its_members_in_another_order_is_the_same_and_a_new_key_is_a_new_request() -> None:
    one, other = b'{"amount": "1", "description": "tea"}', b'{"description":"tea","amount":"1"}'
    assert names(ran(post(None, body=one), post(200, 300, body=other), exit_status=0), "reset") == []
    again = [post(None, body=sent_at(0)), post(200, 300, "two", body=sent_at(1))]
    assert names(ran(*again, exit_status=0), "reset") == []


@pytest.mark.parametrize("case", [case.name for case in CASES if case.faults and case.name not in COMMITTED])
def test_a_key_with_another_body_is_found_where_the_service_accepts_it_too(case: str) -> None:
    run = ran(post(503, body=sent_at(0)), post(503, 3_000, body=sent_at(1)), get(4_000, True), charges=0)
    assert "key-with-another-body" in names(run, case)


def test_a_case_with_a_mistake_has_one_result_and_is_no_pass() -> None:
    report = ClientReport(
        ("client",), findings(("plain", paid(*polled(3, 9), shows_key=True))), "C", "serious mistakes"
    )
    assert [report.count(verdict) for verdict in ("pass", "fail")] == [0, 1]
    (case,) = json.loads(json.dumps(report_resource(report)))["cases"]
    assert (case["name"], case["verdict"]) == ("plain", "fail")
    assert [one["name"] for one in case["mistakes"]] == ["shows-api-key", "polls-without-pause"]
    lines = [line for line in report_text(report).splitlines() if " plain " in line]
    assert len(lines) == 1
    assert lines[0].startswith("fail ")
    assert "it succeeded" in lines[0]
    assert "9 times, a quarter of them 3 ms or less after an answer" in lines[0]
    assert '<span class="tag pass">' not in report_html(report)
