"""Attempts as a text: what was written is what is read, and it is as short as it is said to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.callbacks.attempts import KEPT_BYTES, Attempt, attempts_of, begun, ended, made
from leyden.server.ports import CallbackResponse
from tests.support.outbox_helpers import START

ANSWERS = st.builds(
    CallbackResponse,
    status=st.integers(200, 599),
    body=st.one_of(st.just(b""), st.just(b"Internal Server Error"), st.binary(max_size=40)),
    note=st.text(max_size=20),
    latency_ms=st.integers(0, 15_000),
) | st.builds(
    CallbackResponse,
    error=st.sampled_from(["timeout", "reset", "lost"]),
    note=st.text(st.characters(codec=None), max_size=20),
    latency_ms=st.integers(0, 15_000),
)


def due(at: int, attempts: str = "", created_at: int = START) -> dict[str, Any]:
    return {"created_at": created_at, "due_at": at, "attempts": attempts}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9), st.integers(0, 10**6), st.integers(-(10**9), 10**9), st.integers(0, 9), ANSWERS
        ),
        max_size=6,
    )
)
def test_every_attempt_is_read_as_it_was_written(
    story: list[tuple[int, int, int, int, CallbackResponse]],
) -> None:
    row, wanted, now = due(START), [], START
    for pause, late, ahead_s, secrets, answer in story:
        due_at, now = now + pause, now + pause + late
        row = due(due_at, row["attempts"])
        stamp_s = now // 1_000 + ahead_s
        row["attempts"] = begun(row, now, stamp_s, secrets)
        assert attempts_of(row)[-1] == Attempt(due_at, now, stamp_s, secrets, None, None, None, 0, "", "")
        began, now = now, now + answer.latency_ms
        row["attempts"] = ended(row, now, answer)
        note = answer.note.encode("utf-8", "replace").decode()
        told = answer.body.decode("utf-8", "replace")
        status, error, latency_ms = answer.status, answer.error, answer.latency_ms
        wanted.append(Attempt(due_at, began, stamp_s, secrets, now, status, error, latency_ms, note, told))
        assert attempts_of(row) == wanted
        assert made(row) == len(wanted)


def test_without_attempts_there_is_nothing_to_read() -> None:
    assert (attempts_of(due(START)), made(due(START))) == ([], 0)


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (CallbackResponse(status=204), "[7,3,2,1,50,204]\n"),
        (CallbackResponse(status=500, latency_ms=12), "[7,3,2,1,50,500,12]\n"),
        (CallbackResponse(error="reset", note="gone"), '[7,3,2,1,50,"reset",0,"gone"]\n'),
        (CallbackResponse(status=500, body=b"no"), '[7,3,2,1,50,500,0,"","no"]\n'),
    ],
)
def test_an_attempt_is_a_line_without_the_empty_values_at_its_end(answer: CallbackResponse, written: str) -> None:
    row = due(START + 4)
    row["attempts"] = begun(row, START + 7, START // 1_000 + 2, 1)
    assert row["attempts"] == "[7,3,2,1]\n"
    assert ended(row, START + 57, answer) == written


def test_an_answer_that_is_always_the_same_is_written_once() -> None:
    row = due(START)
    for _ in range(5):
        row["attempts"] = begun(row, START, START // 1_000, 1)
        row["attempts"] = ended(row, START + 12, CallbackResponse(status=502, body=b"<html>" + b"x" * KEPT_BYTES))
    assert len(row["attempts"]) < KEPT_BYTES + 5 * 30
    assert {attempt.answer for attempt in attempts_of(row)} == {"<html>" + "x" * (KEPT_BYTES - 6)}


def test_half_a_character_in_a_note_is_written_as_a_question_mark() -> None:
    row = due(START)
    row["attempts"] = begun(row, START, START // 1_000, 1)
    row["attempts"] = ended(row, START, CallbackResponse(error="tls", note="bad \udcff byte"))
    assert attempts_of(row)[0].note == "bad ? byte"


@pytest.mark.parametrize("body", [b"a\nb", b'"],[1', b"\\n", b"\xff\xfe", "é\u2028".encode()])
def test_whatever_a_receiver_says_stays_in_its_line(body: bytes) -> None:
    row = due(START)
    for answer in (
        CallbackResponse(status=500, body=body),
        CallbackResponse(error="reset", note=body.decode("utf-8", "replace")),
    ):
        row["attempts"] = begun(row, START, START // 1_000, 1)
        row["attempts"] = ended(row, START, answer)
    first, second = attempts_of(row)
    assert first.answer == second.note == body.decode("utf-8", "replace")
