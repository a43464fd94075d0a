"""AttemptLog reads what it wrote, and its text is short."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.callbacks.attempts import KEPT_BYTES, MAX_HEADER_BYTES, MAX_HEADERS, Attempt, AttemptLog
from leyden.server.callbacks.deliveries import LOST_IN_RESTART, delivery_resource
from leyden.server.ports import CallbackResponse
from tests.support.outbox_helpers import START

HEADERS = st.dictionaries(st.sampled_from(["date", "server", "x-shop"]), st.text(max_size=20))
SIGNED = st.none() | st.integers(0, 2 * START // 1_000)  # of a recorded response
RESPONSES = st.builds(
    CallbackResponse,
    status=st.integers(200, 599),
    error=st.none(),
    headers=HEADERS,
    body=st.one_of(st.just(b""), st.just(b"Internal Server Error"), st.binary(max_size=40)),
    note=st.text(max_size=20),
    latency_ms=st.integers(0, 15_000),
    signed_s=SIGNED,
) | st.builds(
    CallbackResponse,
    status=st.none(),
    headers=st.just({}),
    body=st.just(b""),
    error=st.sampled_from(["timeout", "reset", "lost"]),
    note=st.text(st.characters(codec=None), max_size=20),
    latency_ms=st.integers(0, 15_000),
    signed_s=SIGNED,
)


def delivery(attempts: str = "") -> Any:
    return {"created_at": START, "attempts": attempts}


def start(row: Any, at: int = START, due_at: int = START, timestamp_s: int = START // 1_000, secrets: int = 1) -> Any:
    return delivery(AttemptLog(row).record_start(at, due_at, timestamp_s, secrets))


def end(row: Any, response: CallbackResponse, at: int = START, asked_ms: int | None = None) -> Any:
    return delivery(AttemptLog(row).record_result(at, response, asked_ms))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.integers(0, 10**6),
            st.integers(-(10**9), 10**9),
            st.integers(0, 9),
            RESPONSES,
            st.none() | st.integers(0, 10**13),
        ),
        max_size=6,
    )
)
def test_every_attempt_is_read_as_it_was_written(
    steps: list[tuple[int, int, int, int, CallbackResponse, int | None]],
) -> None:
    row, expected, now = delivery(), [], START
    for delay, late, ahead_s, secrets, response, asked_ms in steps:
        due_at, now = now + delay, now + delay + late
        timestamp_s = now // 1_000 + ahead_s
        row = start(row, now, due_at, timestamp_s, secrets)
        in_flight = Attempt(due_at, now, timestamp_s, secrets)
        assert AttemptLog(row).attempts()[-1] == in_flight
        at, now = now, now + response.latency_ms
        row = end(row, response, now, asked_ms)
        timestamp_s = timestamp_s if response.signed_s is None else response.signed_s
        note = re.sub("[\ud800-\udfff]", "\ufffd", response.note)
        body = response.body.decode("utf-8", "replace")
        status, error, latency_ms = response.status, response.error, response.latency_ms
        headers = tuple(response.headers.items())
        ended = Attempt(due_at, at, timestamp_s, secrets, now, status, error, latency_ms, note, body, headers)
        expected.append(ended._replace(asked_ms=asked_ms))
        assert AttemptLog(row).attempts() == expected
        assert AttemptLog(row).attempt_count == len(expected)


@pytest.mark.parametrize(("response", "latency_ms"), [(LOST_IN_RESTART, None), (CallbackResponse(status=200), 0)])
def test_the_latency_of_a_lost_attempt_is_not_known(response: CallbackResponse, latency_ms: int | None) -> None:
    texts = dict.fromkeys(("id", "resource_id", "event", "url", "status", "sequence"), "")
    row: Any = {**texts, "due_at": None, **end(start(delivery()), response)}
    [attempt] = delivery_resource(row, None)["attempts"]
    assert (attempt["error"], attempt["latencyMs"]) == (response.error, latency_ms)


def test_an_empty_text_has_no_attempts() -> None:
    log = AttemptLog(delivery())
    assert (log.attempts(), log.attempt_count) == ([], 0)


@pytest.mark.parametrize(
    ("response", "written"),
    [
        (CallbackResponse(status=204), "[7,3,2,1,50,204]\n"),
        (CallbackResponse(status=500, latency_ms=12), "[7,3,2,1,50,500,12]\n"),
        (CallbackResponse(error="reset", note="gone"), '[7,3,2,1,50,"reset",0,"gone"]\n'),
        (CallbackResponse(status=500, body=b"no"), '[7,3,2,1,50,500,0,"","no"]\n'),
        (CallbackResponse(status=204, headers={"Server": "nginx"}), '[7,3,2,1,50,204,0,"","",["server","nginx"]]\n'),
    ],
)
def test_an_attempt_is_one_line_without_trailing_empty_values(response: CallbackResponse, written: str) -> None:
    row = start(delivery(), START + 7, START + 4, START // 1_000 + 2)
    assert row["attempts"] == "[7,3,2,1]\n"
    assert end(row, response, START + 57)["attempts"] == written


def test_a_repeated_response_body_is_stored_once() -> None:
    row = delivery()
    for _ in range(5):
        row = end(start(row), CallbackResponse(status=502, body=b"<html>" + b"x" * KEPT_BYTES), START + 12)
    assert len(row["attempts"]) < KEPT_BYTES + 5 * 30
    bodies = {attempt.response_body for attempt in AttemptLog(row).attempts()}
    assert bodies == {"<html>" + "x" * (KEPT_BYTES - 6)}


def test_a_byte_that_is_no_utf_8_is_stored_as_the_replacement_character_in_every_text() -> None:
    response = CallbackResponse(
        status=200, note="bad \udcff byte", headers={"x-\udce9": "caf\udce9", "x-l": "café ✓"}, body=b"caf\xe9"
    )
    [attempt] = AttemptLog(end(start(delivery()), response)).attempts()
    assert (attempt.note, attempt.response_body) == ("bad \ufffd byte", "caf\ufffd")
    assert attempt.response_headers == (("x-\ufffd", "caf\ufffd"), ("x-l", "café ✓"))


@pytest.mark.parametrize("body", [b"a\nb", b'"],[1', b"\\n", b"\xff\xfe", "é\u2028".encode()])
def test_no_response_body_or_note_breaks_its_line(body: bytes) -> None:
    row = delivery()
    for response in (
        CallbackResponse(status=500, body=body),
        CallbackResponse(error="reset", note=body.decode("utf-8", "replace")),
    ):
        row = end(start(row), response)
    first, second = AttemptLog(row).attempts()
    assert first.response_body == second.note == body.decode("utf-8", "replace")


def test_headers_beyond_the_limits_are_left_out_and_counted() -> None:
    def kept(headers: dict[str, str]) -> Attempt:
        return AttemptLog(end(start(delivery()), CallbackResponse(status=200, headers=headers))).attempts()[0]

    many = {f"x-{number}": "" for number in range(MAX_HEADERS + 3)}
    assert (len(kept(many).response_headers), kept(many).headers_left_out) == (MAX_HEADERS, 3)
    exact = {"a": "x" * (MAX_HEADER_BYTES - 1)}
    assert (kept(exact).response_headers, kept(exact).headers_left_out) == (tuple(exact.items()), 0)
    long = {"server": "nginx", "a": "é" * (MAX_HEADER_BYTES // 2), "b": "after it"}
    assert (kept(long).response_headers, kept(long).headers_left_out) == ((("server", "nginx"),), 2)


def test_repeated_headers_are_stored_once() -> None:
    row = delivery()
    headers = {f"x-{number}": "y" * 100 for number in range(MAX_HEADERS + 2)}
    for _ in range(5):
        row = end(start(row), CallbackResponse(status=502, headers=headers))
    assert len(row["attempts"]) < MAX_HEADER_BYTES + 5 * 40
    assert {(one.response_headers, one.headers_left_out) for one in AttemptLog(row).attempts()} == {
        (tuple(headers.items())[:MAX_HEADERS], 2)
    }
