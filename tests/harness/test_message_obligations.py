"""Obligations of messages that faults change or copy, and of answers one after another: each class finds a defect."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.callbacks import mutations
from leyden.callbacks.faults import faults
from leyden.callbacks.faults.faults import Faults
from leyden.harness.checks import messages
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.faults import CONTENT_FAULTS, COPYING, FAULTS
from leyden.harness.obligations.callbacks.messages import message_obligations
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import Case, play, read_case
from leyden.harness.runs.describe import describe_step
from leyden.server.callbacks import attempts
from tests.support.deep import deep_or
from tests.support.obligations import violation_of

_DEFECTS: dict[str, Any] = {
    "truncated_body": lambda post, again: again(post._replace(body=post.body[: len(post.body) // 2])),
    "wrong_content_type": lambda post, again: post._replace(headers={**post.headers, "content-type": "text/plain; x"}),
    "unknown_field": lambda post, again: post._replace(body=post.body[:-1] + b',"surprise":1}'),
    "unknown_status": lambda post, again: post._replace(body=post.body.replace(b'"completed"', b'"refunded"')),
    "bad_signature": lambda post, again: post,
    "changed_body": lambda post, again: again(post._replace(body=post.body.replace(b'"1000"', b'"2000"'))),
    "missing_headers": lambda post, again: post._replace(
        headers={name: text for name, text in post.headers.items() if name != "webhook-id"}
    ),
    "stale_timestamp": lambda post, again: post._replace(
        headers={**post.headers, "webhook-timestamp": str(int(post.headers["webhook-timestamp"]) - 600)}
    ),
    "future_timestamp": lambda post, again: again(post, 599),
    "old_secret": lambda post, again: post,
    "two_signatures": lambda post, again: post,
    "unknown_version": lambda post, again: post._replace(
        headers={**post.headers, "webhook-signature": post.headers["webhook-signature"].replace("v1", "v3")}
    ),
}


@pytest.mark.parametrize("kind", CONTENT_FAULTS)
def test_a_message_that_a_fault_changes_in_another_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated(fault: Any, post: Any, secrets: Any, old: Any, rng: Any) -> Any:
        def again(changed: Any, later_s: int = 0) -> Any:
            return mutations.restamped(changed, secrets, int(changed.headers["webhook-timestamp"]) + later_s)

        original(fault, post, secrets, old, rng)
        spoilt = _DEFECTS[kind](post, again)
        return spoilt if spoilt != post else post._replace(headers={**post.headers, "leyden-time": "now"})

    original = mutations.mutated
    chosen = [one for one in message_obligations() if one.place == f"fault {kind}" and one.case == "default"]
    [case] = obligation_cases(chosen)
    assert play(case).violation is None
    monkeypatch.setattr(faults, "mutated", mutated)
    assert play(case).violation is not None


def test_a_body_whose_changed_member_is_another_one() -> None:
    text = '{"amount": "1", "status": "completed", "data": {"amount": "2"}}'
    for body in (
        text.replace('"1"', '"3"').replace('"2"', '"3"'),  # two members
        text.replace("completed", "error"),
        text.replace('"amount": "1", ', ""),
        text,
        text[:-1],
        "[1]",
    ):
        with pytest.raises(ContractViolation):
            messages._other_member(text, body, "amount", "body")
    assert messages._other_member(text, text.replace('"2"', '"3"'), "amount", "body") == "3"


def test_names_of_headers_that_are_left_out_only_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated(fault: Any, *given: Any) -> Any:
        names = fault["headers"] and [name for name in fault["headers"] if name.islower()]
        return original({**fault, "headers": names}, *given)

    original = mutations.mutated
    monkeypatch.setattr(faults, "mutated", mutated)
    assert violation_of("fault-message", "headers Leyden-Time") is not None
    assert violation_of("fault-message", "headers leyden-time") is None


@pytest.mark.parametrize("kind", COPYING)
def test_a_copy_with_the_time_of_another_message(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def send_copy(self: Faults, copy: Any) -> None:
        is_new = kind in {"redeliver", "duplicate_new_id"}
        stamp = copy.headers["leyden-time"].replace(":00:00.", ":10:00.")
        time = "2030-01-01T00:00:00.500Z" if is_new else stamp.replace("T00", "T01")
        original(self, copy._replace(headers={**copy.headers, "leyden-time": time}))

    original = Faults._send_copy
    monkeypatch.setattr(Faults, "_send_copy", send_copy)
    assert violation_of("fault-message", "expired", kind) is not None


def test_copies_that_end_with_their_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def send_copy(self: Faults, copy: Any) -> None:
        if self.row(copy.copied_by[0]) is not None:
            original(self, copy)

    original = Faults._send_copy
    monkeypatch.setattr(Faults, "_send_copy", send_copy)
    assert violation_of("fault-cleared", "all", "redeliver") is not None
    assert violation_of("fault-cleared", "another one", "redeliver") is None


def test_messages_are_as_the_documents_say() -> None:
    obligations = [one for one in all_obligations() if one.kind in {"fault-message", "fault-cleared"}]
    assert {one.place for one in obligations} == {f"fault {kind}" for kind in FAULTS if kind != "drop"}
    for case in obligation_cases(obligations[:: deep_or(bounded=24, full=1)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_an_answer_that_repeats_the_one_before_and_is_shown_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_result(attempt: Any, values: Any, earlier: Any) -> Any:
        return original(attempt, values, [earlier[0]] if earlier else earlier)

    original = attempts._with_result
    monkeypatch.setattr(attempts, "_with_result", with_result)
    assert violation_of("reply-texts", "a, b, b") is not None
    assert violation_of("reply-headers") is None


def test_the_steps_of_the_messages_are_read_and_described() -> None:
    steps: Any = (
        {"do": "fault", "kind": "missing_headers", "names": ["Webhook-Id"]},
        {"do": "fault", "kind": "unknown_field", "value": "x"},
        {"do": "clear_faults", "count": 2},
        {"do": "clear_faults", "count": 2},
        {"do": "clear_faults"},
    )
    case = Case(steps)
    assert read_case(case.document()).steps == steps
    assert (play(case).violation, play(case).skipped) == (None, 1)  # there is no second one any more
    assert [describe_step(one) for one in steps[-2:]] == [
        "clear the fault 2 of callbacks", "clear all faults of callbacks"]  # fmt: skip
