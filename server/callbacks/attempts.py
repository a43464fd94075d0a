"""Attempts: every try to hand a message over, written so short that thousands of messages can wait with theirs.

A delivery row keeps its attempts as one text, a line each, in the order in which they were made:

    [since, late, wall, secrets]                                     begun; the answer is awaited
    [since, late, wall, secrets, took, said, latency, note, answer]  ended; empty values at the end are left out

`since` counts from the delivery's creation and `late` from the instant at which the attempt was due, `took` is how long
it lasted on the sandbox clock: all in ms. `wall` is how many seconds the signed timestamp is ahead of the sandbox's.
`said` is the receiver's status, or the word for what went wrong; `answer` is true for the same text as before. Lists of
values would take five times the memory, and the garbage collector would visit every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from leyden.server.ports import CallbackResponse

# Of a receiver's answer
READ_CAP_BYTES = 65_536
KEPT_BYTES = 4_096


class Attempt(NamedTuple):
    """One POST. `due_at`, `at` and `ended_at` are instants on the sandbox clock; `stamp_s` is the signed timestamp.

    `secrets` is how many secrets the project had by then: with those of them that were valid at `at` it was signed.
    `ended_at` is None while the answer is awaited; then exactly one of `status` and `error` is given.
    """

    due_at: int
    at: int
    stamp_s: int
    secrets: int
    ended_at: int | None = None
    status: int | None = None
    error: str | None = None
    latency_ms: int = 0
    note: str = ""
    answer: str = ""


def attempts_of(row: Mapping[str, Any]) -> list[Attempt]:
    """The attempts of a delivery row, the first first."""
    lines: str = row["attempts"]
    # No line is broken inside: JSON writes the line breaks of its texts in another way.
    together = lines[:-1].replace("\n", ",")
    attempts: list[Attempt] = []
    for values in orjson.loads(f"[{together}]"):
        attempts.append(_read(row["created_at"], values, attempts))
    return attempts


def made(row: Mapping[str, Any]) -> int:
    """How many attempts the delivery row has, one that is under way included."""
    lines: str = row["attempts"]
    return lines.count("\n")


def begun(row: Mapping[str, Any], at: int, stamp_s: int, secrets: int) -> str:
    """The attempts of a row that is due, with one more that begins at `at`."""
    lines: str = row["attempts"]
    return f"{lines}[{at - row['created_at']},{at - row['due_at']},{stamp_s - at // 1_000},{secrets}]\n"


def ended(row: Mapping[str, Any], at: int, answer: CallbackResponse) -> str:
    """The attempts of a row whose last one is under way, when it ends at `at` with this answer."""
    lines: str = row["attempts"]
    last = lines.rfind("\n", 0, -1) + 2
    took = at - row["created_at"] - int(lines[last : lines.index(",", last)])
    said = answer.status if answer.error is None else answer.error
    told: str | bool = answer.body[:KEPT_BYTES].decode(errors="replace")
    earlier = lines[: last - 1]
    if told and earlier and told == attempts_of({**row, "attempts": earlier})[-1].answer:
        told = True
    values: list[Any] = [took, said, answer.latency_ms, _sound(answer.note), told]
    while not values[-1] and len(values) > 2:
        values.pop()
    return f"{lines[:-2]},{orjson.dumps(values)[1:].decode()}\n"


def _read(created_at: int, values: list[Any], before: list[Attempt]) -> Attempt:
    since, late, wall_s, secrets, *end = values
    at = created_at + since
    attempt = Attempt(at - late, at, at // 1_000 + wall_s, secrets)
    if not end:
        return attempt
    took, said, latency_ms, note, answer = end + [0, "", ""][len(end) - 2 :]
    status, error = (None, said) if isinstance(said, str) else (said, None)
    return attempt._replace(
        ended_at=at + took,
        status=status,
        error=error,
        latency_ms=latency_ms,
        note=note,
        answer=before[-1].answer if answer is True else answer,
    )


def _sound(text: str) -> str:
    # What a library says of a receiver's bytes may hold half a character, which JSON cannot.
    return text if text.isascii() else text.encode(errors="replace").decode()
