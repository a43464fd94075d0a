"""Answers of a control plane that have another form than its document declares: a violation or exit status 3, never a
traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson
import pytest

from leyden.harness.conformance.conformance import run_cases
from leyden.harness.control.documents import control_operations
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.control_answers import wrong_form
from leyden.harness.targets.served import ServedLeyden
from leyden.harness.targets.target import Headers, InProcess, Response

Mutate = Callable[[Any], Any]


class Mutated(ServedLeyden):
    """A served Leyden whose server is a sandbox in process. The successes of one operation of its control plane are
    changed: those of a method and a path with placeholders."""

    def __init__(self, operation: tuple[str, str] = ("", ""), mutate: Mutate = lambda value: value) -> None:
        super().__init__("http://127.0.0.1:1")
        self._inner = InProcess()
        self._operation, self._mutate = operation, mutate
        self.asked: dict[tuple[str, str], bytes] = {}

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        response = self._inner.send(method, target, headers, body)
        asked = operation_of(method, target)
        if asked is None or response.status not in (200, 201):
            return response
        self.asked.setdefault(asked, response.body)
        if asked != self._operation:
            return response
        raw = self._mutate(response.json)
        return Response(response.status, response.headers, raw if isinstance(raw, bytes) else json.dumps(raw).encode())

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        self._inner.begin(seed, start_ms, overlays)
        super().begin(seed, start_ms, overlays)

    def end(self) -> None:
        """The sandbox can be asked after the end of a run, as a server can."""

    def close(self) -> None:
        self._inner.end()


def operation_of(method: str, target: str) -> tuple[str, str] | None:
    parts = target.partition("?")[0].split("/")
    for one in sorted(control_operations(), key=lambda one: one.path.count("{")):
        names = one.path.split("/")
        if one.method == method and len(names) == len(parts) and all(
            name == part or name.startswith("{") for name, part in zip(names, parts, strict=True)
        ):  # fmt: skip
            return method, one.path
    return None


HOOK = "http://r1.inbox.localhost/hook"
BODY = {"amount": "250000", "description": "x", "callbackUrl": HOOK}
# Steps that make every request to the control plane that the harness makes.
CASE = Case((
    {"do": "receiver", "host": "r1.inbox", "answers": [500], "always": 200},
    {"do": "fault", "kind": "duplicate"},
    {"do": "create_charge", "as": "c1", "body": BODY},
    {"do": "pay", "as": "p1", "charge": "c1"},
    {"do": "advance", "by": 60_000},
    {"do": "create_charge", "as": "c2", "body": BODY},
    {"do": "pay", "as": "p2", "charge": "c2", "outcome": "hold"},
    {"do": "settle", "payment": "p2"},
    {"do": "create_charge", "as": "c3", "body": BODY},
    {"do": "pay", "as": "p3", "charge": "c3", "outcome": "hold"},
    {"do": "cancel", "payment": "p3"},
    {"do": "create_charge", "as": "c4", "body": BODY},
    {"do": "fail", "charge": "c4"},
    {"do": "advance", "to": ["retry", "c4"]},
    {"do": "fault", "kind": "drop"},
    {"do": "clear_faults", "count": 1},
    {"do": "clear_faults"},
    {"do": "replay", "charge": "c1", "offset": 1_000},
    {"do": "odd", "operation": "createCharge", "kind": "too-many"},
    {"do": "spare_key"},
    {"do": "advance", "by": 3_600_000},
))  # fmt: skip
ROTATES = Case((*CASE.steps[:5], {"do": "rotate"}, {"do": "advance", "by": 1_000}))
RESETS = Case((*CASE.steps[:5], {"do": "reset"}, {"do": "advance", "by": 1_000}))


def asked_by(case: Case) -> dict[tuple[str, str], bytes]:
    target = Mutated()
    assert play(case, target).violation is None
    target.journal_hash()
    target.close()
    return target.asked


BY_CASE = [asked_by(case) for case in (CASE, ROTATES, RESETS)]
ASKED = BY_CASE[0] | BY_CASE[1] | BY_CASE[2]
# By the operation: the first case that asks for it, of those with few steps first.
SHORTEST = [(ROTATES, BY_CASE[1]), (RESETS, BY_CASE[2]), (CASE, BY_CASE[0])]
ASKING = {one: next(case for case, asked in SHORTEST if one in asked) for one in ASKED}


def mutations(value: Any) -> Iterator[tuple[str, Mutate]]:
    for other in ({}, [], None, 1, "x", {"data": [{}], "next": None}, {"data": [], "next": "x"}, b"", b"<html>"):
        yield f"is {other!r}", partial(lambda other, _: other, other)
    for path in places(value):
        yield f"without {path}", partial(changed, path, None, remove=True)
        for other in (1, None):
            yield f"{path} is {other!r}", partial(changed, path, other)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, one in members:
        yield (*path, name)
        yield from places(one, (*path, name))


def changed(path: Sequence[Any], other: Any, value: Any, *, remove: bool = False) -> Any:
    value = copy.deepcopy(value)
    found = value
    try:
        for name in path[:-1]:
            found = found[name]
        if remove:
            del found[path[-1]]
        else:
            found[path[-1]] = other
    except (LookupError, TypeError):  # this answer has no such place
        pass
    return value


def result_of(operation: tuple[str, str], mutate: Mutate) -> CaseResult | str:
    target = Mutated(operation, mutate)
    try:
        result = play(ASKING[operation], target)
        target.specification(())
        target.journal_hash()
    except TargetError as error:
        text = str(error)
        assert "\n" not in text
        assert len(text) < 1_000
        return text
    finally:
        target.close()
    if result.violation is not None:
        return result
    return "no violation"


def test_the_steps_make_every_request_that_the_conformance_run_makes() -> None:
    target = Mutated()
    for case in run_cases(None):
        if not (case.disk or any(step["do"] in {"host", "store"} or "control" in step["do"] for step in case.steps)):
            play(case, target)
    assert ASKED.keys() >= target.asked.keys()
    assert len(ASKED) >= 15


@pytest.mark.parametrize("operation", sorted(ASKED), ids=" ".join)
def test_no_answer_of_another_form_ends_with_a_traceback(operation: tuple[str, str]) -> None:
    for name, mutate in mutations(orjson.loads(ASKED[operation])):
        found = result_of(operation, mutate)
        if name.startswith("is "):
            assert found != "no violation", name
            if isinstance(found, str):
                assert f"{operation[0]} {operation[1].partition('{')[0]}" in found, (name, found)


def test_a_form_is_checked_by_the_document() -> None:
    whole = Response(200, {}, ASKED["GET", "/sandbox/v1/webhook-secret"])
    assert wrong_form("GET", "/sandbox/v1/webhook-secret?at=1", whole) is None
    wrong = wrong_form("GET", "/sandbox/v1/webhook-secret", Response(200, {}, b'{"current": 1}'))
    assert wrong is not None
    assert "at /" in wrong
    assert wrong_form("GET", "/sandbox/v1/no-such", Response(200, {}, b"1")) is None
