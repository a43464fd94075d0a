"""Repetitions in the recorded requests: which requests repeat another one, how long the client waited, and keys that
were sent with two bodies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Any, NamedTuple

from leyden.devserver.client_check.runs import Run, SentRequest

_SHOWN_MEMBERS, _SHOWN_CHARS = 3, 40


class Repetitions(NamedTuple):
    """Requests to one target in order, of which the first `needed` repeat none."""

    requests: Sequence[SentRequest]
    needed: int

    @property
    def are_any(self) -> bool:
        """Whether a request is repeated."""
        return len(self.requests) > self.needed


def repetitions(run: Run, wanted: int) -> list[Repetitions]:
    """The requests to each target: one list for each Idempotency-Key if the client has one for each Charge."""
    found: list[Repetitions] = []
    for requests in run.by_target().values():
        by_key: dict[str | None, list[SentRequest]] = {}
        for request in requests:
            by_key.setdefault(request.idempotency_key, []).append(request)
        if None in by_key or len(by_key) > max(wanted, 1):
            found.append(Repetitions(requests, max(wanted, 1)))
        else:
            found += [Repetitions(same, 1) for same in by_key.values()]
    return found


def pauses_ms(requests: Sequence[SentRequest]) -> list[int]:
    """The times between an answer and the next request, the shortest first.

    A request that was sent before the answer to the one before gives none: the client did not wait for that answer.
    """
    return sorted(
        later.at_ms - answered_ms
        for early, later in pairwise(requests)
        if later.at_ms >= (answered_ms := early.at_ms if early.answered_at_ms is None else early.answered_at_ms)
    )


class ReusedKey(NamedTuple):
    """A request with the Idempotency-Key of an earlier one and another body."""

    first: SentRequest
    later: SentRequest

    @property
    def is_refused(self) -> bool:
        """Whether the service refused it; a 409 that a fault sent says nothing about the body."""
        return self.later.status == HTTPStatus.CONFLICT and not self.later.is_faulty

    @property
    def found(self) -> str:
        """A text about the client's repetition, with the members of the body that differ."""
        names = _differing(_value(self.first), _value(self.later))
        more = ", ..." if len(names) > _SHOWN_MEMBERS else ""
        shown = ", ".join(name[:_SHOWN_CHARS] for name in names[:_SHOWN_MEMBERS])
        members = f" (members that differ: {shown}{more})" if names else ""
        refused = ", and the service refused it with 409" if self.is_refused else ""
        return f"it sent the same Idempotency-Key with another body{members}{refused}"


def reused_key(run: Run) -> ReusedKey | None:
    """A key that was sent with two bodies, if possible one that the service refused."""
    first: dict[tuple[str, str], SentRequest] = {}
    found: list[ReusedKey] = []
    for request in run.requests:
        if request.method == "POST" and request.idempotency_key is not None and request.body is not None:
            early = first.setdefault((request.path, request.idempotency_key), request)
            # As the service compares them: the order of the members makes no difference.
            if early.body != request.body and _value(early) != _value(request):
                found.append(ReusedKey(early, request))
    return next((one for one in found if one.is_refused), found[0] if found else None)


def _value(request: SentRequest) -> Any:
    try:
        return json.loads(request.body or b"")
    except (ValueError, RecursionError):
        return request.body


def _differing(one: Any, other: Any) -> list[str]:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return []
    return [name for name in {**one, **other} if (name in one, one.get(name)) != (name in other, other.get(name))]
