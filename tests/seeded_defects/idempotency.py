"""Defects of idempotency: what a repeated request does."""

from __future__ import annotations

from typing import Any

import leyden.server.http.idempotency
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.middleware import HttpRequest, HttpResponse, Middleware, app, responses
from tests.seeded_defects.patches import Wrapper, attribute, pipeline_part
from tests.seeded_defects.probing import (
    CHARGE,
    CHARGES,
    STATICS,
    TIPS,
    other_project,
    send,
)


class WrappedIdempotency(Wrapper):
    """The store of Idempotency-Keys with another lookup key."""

    def recall(self, project: str, operation_id: str, key: str, submitted: Any) -> Any:
        return self.inner.recall(*self._name(project, operation_id, key, submitted))

    def remember(self, project: str, operation_id: str, key: str, submitted: Any, status: int, body: bytes) -> None:
        self.inner.remember(*self._name(project, operation_id, key, submitted), status, body)

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return project, operation_id, key, submitted


class NoIdempotency(Wrapper):
    """No response is found."""

    def recall(self, *given: Any) -> None:
        return None


class IgnoresBody(WrappedIdempotency):
    """The body is ignored."""

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return project, operation_id, key, {}


class IgnoresOperation(WrappedIdempotency):
    """The operation is ignored."""

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return project, "any", key, submitted


class IgnoresProject(WrappedIdempotency):
    """The project is ignored."""

    def _name(self, project: str, operation_id: str, key: str, submitted: Any) -> tuple[Any, ...]:
        return "any", operation_id, key, submitted


def retention(span_ms: int) -> Plant:
    """Keep responses for this time."""
    return attribute(leyden.server.http.idempotency, "RETENTION_MS", lambda true: span_ms)


def post(sandbox: Any, body: Any = CHARGE, path: str = CHARGES, key: str = "leyden") -> Any:
    """Create a resource with the Idempotency-Key `k`."""
    return send(sandbox, "POST", path, dict(body), key=key, idempotency_key="k")


@seeded(
    "idempotency",
    "The same request sent twice creates two Charges.",
    violates="decision: idempotency",
    plant=pipeline_part("idempotency", NoIdempotency),
)
def repeated_request_processed_twice(make: Make) -> bool:
    with make() as sandbox:
        return bool(post(sandbox).json["data"]["id"] != post(sandbox).json["data"]["id"])


@seeded(
    "idempotency",
    "Another body with a used Idempotency-Key gets the first response instead of an error.",
    violates="decision: idempotency",
    plant=pipeline_part("idempotency", IgnoresBody),
)
def another_body_with_a_used_key(make: Make) -> bool:
    with make() as sandbox:
        post(sandbox)
        return bool(post(sandbox, {**CHARGE, "amount": "26000"}).status == 200)


@seeded(
    "idempotency",
    "An Idempotency-Key used for a Charge is refused for a Static Charge.",
    violates="decision: idempotency",
    plant=pipeline_part("idempotency", IgnoresOperation),
)
def key_of_another_operation(make: Make) -> bool:
    with make() as sandbox:
        post(sandbox)
        return bool(post(sandbox, TIPS, STATICS).status == 409)


@seeded(
    "idempotency",
    "Two projects with the same Idempotency-Key get the same Charge.",
    violates="decision: idempotency",
    plant=pipeline_part("idempotency", IgnoresProject),
)
def key_of_another_project(make: Make) -> bool:
    with make() as sandbox:
        return bool(post(sandbox).raw == post(sandbox, key=other_project(sandbox)).raw)


@seeded(
    "idempotency",
    "An Idempotency-Key is forgotten after an hour.",
    violates="decision: idempotency",
    plant=retention(3_600_000),
)
def key_forgotten_too_soon(make: Make) -> bool:
    with make() as sandbox:
        first = post(sandbox)
        sandbox.advance("1h")
        return bool(post(sandbox).raw != first.raw)


@seeded(
    "idempotency",
    "An Idempotency-Key is still kept after a day.",
    violates="decision: idempotency",
    plant=retention(25 * 3_600_000),
)
def key_kept_too_long(make: Make) -> bool:
    with make() as sandbox:
        first = post(sandbox)
        sandbox.advance("24h")
        return bool(post(sandbox).raw == first.raw)


def _unmarked(request: HttpRequest, on_response: HttpResponse) -> None:
    on_response.headers = [pair for pair in on_response.headers if pair[0] != b"idempotent-replayed"]


@seeded(
    "idempotency",
    "A repeated response has no `Idempotent-Replayed` header.",
    violates="spec: /components/headers/IdempotentReplayed",
    plant=responses(_unmarked),
)
def repetition_not_marked(make: Make) -> bool:
    with make() as sandbox:
        first, second = post(sandbox), post(sandbox)
        return first.raw == second.raw and "idempotent-replayed" not in second.headers


class KeepsRefusals(Middleware):
    """Stores a 400 with its Idempotency-Key and returns it again."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._refused: dict[tuple[str, bytes], HttpResponse] = {}

    def on_response(self, request: HttpRequest, on_response: HttpResponse) -> None:
        key = request.header(b"idempotency-key")
        if key is None or request.method != "POST":
            return
        before = self._refused.setdefault((request.path, key), on_response) if on_response.status == 400 else None
        before = before or self._refused.get((request.path, key))
        if before is not None:
            on_response.status, on_response.headers, on_response.raw = before.status, before.headers, before.raw


@seeded(
    "idempotency",
    "An invalid request uses its Idempotency-Key, so the corrected one is refused.",
    violates="decision: idempotency",
    plant=app(KeepsRefusals),
)
def refusal_uses_up_the_key(make: Make) -> bool:
    with make() as sandbox:
        post(sandbox, {**CHARGE, "amount": "x"})
        return bool(post(sandbox).status == 400)
