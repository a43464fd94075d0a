"""A replayed idempotent response has the status and the media type of the first one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leyden.harness.conformance.scenario import charge
from leyden.harness.runs.cases import Case, play
from leyden.harness.targets.target import Headers, InProcess, Response

CASE = Case(({**charge("c1"), "idempotency_key": "k1"}, {**charge("c1"), "idempotency_key": "k1"}))


class ChangedReplays(InProcess):
    """A sandbox whose replayed responses have another status or media type."""

    def __init__(self, status: int, media: str) -> None:
        super().__init__()
        self._status, self._media = status, media

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        response = super().send(method, target, headers, body)
        if "idempotent-replayed" not in response.headers:
            return response
        return replace(response, status=self._status, headers={**response.headers, "content-type": self._media})


@pytest.mark.parametrize(("status", "media"), [(201, "application/json"), (200, "text/plain")])
def test_a_replay_with_another_status_or_media_type_is_a_violation(status: int, media: str) -> None:
    result = play(CASE, ChangedReplays(status, media))
    assert result.violation is not None
    assert str(status if status != 200 else media) in str(result.violation.observed)


def test_the_same_replay_is_none() -> None:
    assert play(CASE, ChangedReplays(200, "application/json")).violation is None
