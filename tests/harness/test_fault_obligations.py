"""Obligations of receivers' answers and of faults: each class finds a defect that others do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leyden.callbacks.faults import faults
from leyden.callbacks.faults.faults import Faults
from leyden.harness.conformance.scenario import charge, invoice, static
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import Case, play
from leyden.server.callbacks import attempts, deliveries, retry_after
from leyden.server.http import request_parsing, strict_json
from leyden.service_faults.service_faults import ServiceFaults
from tests.support.deep import with_deep
from tests.support.obligations import violation_of


@pytest.mark.parametrize(
    "kind", with_deep(["service-fault", "reply-headers", "reply", "fault-answers"], "reply", "fault-answers")
)
def test_the_service_is_as_the_obligations_say(kind: str) -> None:
    assert violation_of(kind) is None


TARGETS = {"c1": (charge("c1"),), "c2": (charge("c2", callbackUrl=None),), "s1": (static("s1"),),
           "c3": (static("s1"), invoice("c3"))}  # fmt: skip


@pytest.mark.parametrize("event", [None, "charge.completed", "charge.expired", "charge.error"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_fault_that_could_never_apply_is_refused(
    target: str, event: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {"do": "fault", "kind": "bad_signature", "charge": target, **({"event": event} if event else {})}
    case = Case((*TARGETS[target], fault))
    assert play(case).violation is None
    monkeypatch.setattr(faults, "check_sends", lambda *_: None)
    is_refused = target == "c2" or (target in ("s1", "c3") and event in ("charge.expired", "charge.error"))
    assert (play(case).violation is not None) == is_refused


def test_a_service_fault_that_applies_to_each_nth_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(self: ServiceFaults, rule: Any, request: Any) -> Any:
        hit = count(self, rule, request)
        return hit if hit is None or not hit["matches"] % hit["nth"] else None

    count = ServiceFaults._count
    monkeypatch.setattr(ServiceFaults, "_count", counted)
    assert violation_of("service-fault") is not None


def test_the_headers_of_an_answer_that_differ_in_a_value_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(headers: Any) -> Any:
        return [text if place % 2 == 0 else "1" for place, text in enumerate(original(headers))]

    original = attempts._kept_headers
    monkeypatch.setattr(attempts, "_kept_headers", kept)
    assert violation_of("reply-headers", "other value") is not None


def test_retry_after_of_a_status_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (deliveries, retry_after):
        monkeypatch.setattr(module, "RETRY_AFTER_STATUSES", frozenset({429, 502, 503}))
    assert violation_of("reply", "502 Retry-After") is not None


def test_a_fault_that_an_attempt_uses_up_which_was_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "_withdraw", lambda *_: None)
    assert violation_of("fault-answers", "tls first", "fault bad_signature") is not None


def test_the_answer_to_a_copy_that_is_taken_for_that_to_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(self: Faults, post: Any, response: Any) -> None:
        if post.copied_by is not None:
            self._outbox.on_response(post, response)
        original(self, post, response)

    original = Faults.on_response
    monkeypatch.setattr(Faults, "on_response", respond)
    assert violation_of("fault-answers", "late, then 410", "fault duplicate_new_id") is not None


def test_a_lone_surrogate_whose_escape_is_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(body: bytes, *, depth_limit: int) -> Any:
        return json.loads(body) if b"\\uD83D" in body else parse(body, depth_limit=depth_limit)

    parse = strict_json.parse
    monkeypatch.setattr(request_parsing, "parse", parsed)
    chosen = [one for one in all_obligations() if "surrogate-in-capitals" in one.id]
    assert {one.place.split(" ")[0] for one in chosen} >= {"createCharge", "updateStaticCharge"}
    assert any(play(case).violation for case in obligation_cases(chosen))
