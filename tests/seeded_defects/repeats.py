"""Defects of asking twice: what a repeated request does."""

from __future__ import annotations

from typing import Any

import leyden.server.http.idempotency
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.probing import (
    CHARGE,
    CHARGES,
    STATICS,
    TIPS,
    other_project,
    send,
)
from tests.seeded_defects.seams import Through, attribute, gate
from tests.seeded_defects.wire import Answered, Asked, Bent, answers, app


class Memory(Through):
    """A memory of Idempotency-Keys that looks at less than it should."""

    def recall(self, project: str, operation_id: str, key: str, submitted: Any) -> Any:
        return self.inner.recall(*self._name(project, operation_id, key, submitted))

    def remember(self, project: str, operation_id: str, key: str, submitted: Any, status: int, body: bytes) -> None:
        self.inner.remember(*self._name(project, operation_id, key, submitted), status, body)

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return project, operation_id, key, submitted


class Forgetful(Through):
    """Recalls nothing."""

    def recall(self, *given: Any) -> None:
        return None


class BlindToBody(Memory):
    """Any body under a key is the same request."""

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return project, operation_id, key, {}


class BlindToOperation(Memory):
    """A key holds for all operations."""

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return project, "any", key, submitted


class BlindToProject(Memory):
    """A key holds for all projects."""

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return "any", operation_id, key, submitted


def kept_for(span_ms: int) -> Plant:
    """Remember answers so long."""
    return attribute(leyden.server.http.idempotency, "RETENTION_MS", lambda true: span_ms)


def post(sandbox: Any, body: Any = CHARGE, path: str = CHARGES, key: str = "leyden") -> Any:
    """Create something under the Idempotency-Key `k`."""
    return send(sandbox, "POST", path, dict(body), key=key, idempotency_key="k")


@seeded(
    "idempotency",
    "The same request sent twice creates two Charges.",
    violates="decision: idempotency",
    plant=gate("idempotency", Forgetful),
)
def repeated_request_done_twice(make: Make) -> bool:
    with make() as sandbox:
        return bool(post(sandbox).json["data"]["id"] != post(sandbox).json["data"]["id"])


@seeded(
    "idempotency",
    "Another body under a used Idempotency-Key gets the first answer instead of a refusal.",
    violates="decision: idempotency",
    plant=gate("idempotency", BlindToBody),
)
def another_body_under_a_key(make: Make) -> bool:
    with make() as sandbox:
        post(sandbox)
        return bool(post(sandbox, {**CHARGE, "amount": "26000"}).status == 200)


@seeded(
    "idempotency",
    "An Idempotency-Key used for a Charge is refused for a Static Charge.",
    violates="decision: idempotency",
    plant=gate("idempotency", BlindToOperation),
)
def key_of_another_operation(make: Make) -> bool:
    with make() as sandbox:
        post(sandbox)
        return bool(post(sandbox, TIPS, STATICS).status == 409)


@seeded(
    "idempotency",
    "Two projects that choose the same Idempotency-Key get the same Charge.",
    violates="decision: idempotency",
    plant=gate("idempotency", BlindToProject),
)
def key_of_another_project(make: Make) -> bool:
    with make() as sandbox:
        return bool(post(sandbox).raw == post(sandbox, key=other_project(sandbox)).raw)


@seeded(
    "idempotency",
    "An Idempotency-Key is forgotten after an hour.",
    violates="decision: idempotency",
    plant=kept_for(3_600_000),
)
def key_forgotten_too_soon(make: Make) -> bool:
    with make() as sandbox:
        first = post(sandbox)
        sandbox.advance("1h")
        return bool(post(sandbox).raw != first.raw)


@seeded(
    "idempotency",
    "An Idempotency-Key is still remembered after a day.",
    violates="decision: idempotency",
    plant=kept_for(25 * 3_600_000),
)
def key_remembered_too_long(make: Make) -> bool:
    with make() as sandbox:
        first = post(sandbox)
        sandbox.advance("24h")
        return bool(post(sandbox).raw == first.raw)


def _unmarked(asked: Asked, answered: Answered) -> None:
    answered.headers = [pair for pair in answered.headers if pair[0] != b"idempotent-replayed"]


@seeded(
    "idempotency",
    "A repeated answer is not marked as one.",
    violates="spec: /components/headers/IdempotentReplayed",
    plant=answers(_unmarked),
)
def repetition_not_marked(make: Make) -> bool:
    with make() as sandbox:
        first, second = post(sandbox), post(sandbox)
        return first.raw == second.raw and "idempotent-replayed" not in second.headers


class KeepsRefusals(Bent):
    """Remembers a 400 under its Idempotency-Key and answers it again."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._refused: dict[tuple[str, bytes], Answered] = {}

    def answer(self, asked: Asked, answered: Answered) -> None:
        key = asked.header(b"idempotency-key")
        if key is None or asked.method != "POST":
            return
        before = self._refused.setdefault((asked.path, key), answered) if answered.status == 400 else None
        before = before or self._refused.get((asked.path, key))
        if before is not None:
            answered.status, answered.headers, answered.raw = before.status, before.headers, before.raw


@seeded(
    "idempotency",
    "A request that broke the schema uses up its Idempotency-Key, so the mended one is refused too.",
    violates="decision: idempotency",
    plant=app(KeepsRefusals),
)
def refusal_uses_up_the_key(make: Make) -> bool:
    with make() as sandbox:
        post(sandbox, {**CHARGE, "amount": "x"})
        return bool(post(sandbox).status == 400)
