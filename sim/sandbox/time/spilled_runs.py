"""Runs whose finished rows go to files: time moves in parts, and what has ended is written and removed between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from leyden.lab.parquet.writer import RunWriter
from leyden.sandbox.session import Session
from leyden.sandbox.time.spans import Span, event_count
from leyden.server.timestamps import parse_duration
from leyden.world.time.clock import LAST_MS
from leyden.world.time.timers import Fired

_PORTION = 5_000  # Charges
_FIRST_STEP_MS = 60_000
_EVENTS = 20_000


class _Movable(Protocol):
    session: Session

    def advance_to(self, when: int) -> list[Fired]: ...

    def run(self, until: Span = "idle", *, events: int | None = None) -> list[Fired]: ...


def run_spilling(sandbox: _Movable, until: Span, events: int | None, directory: str | Path) -> None:
    """Run as `Sandbox.run` does with `spill`. After an interrupt, too, the files have everything that has ended so
    far."""
    writer = RunWriter(sandbox.session.world, directory)
    try:
        if events is not None:
            _run_events(sandbox, event_count(until, events), writer.write_ended)
        elif until == "next_event":
            sandbox.run("next_event")
        elif until == "idle":
            _run_events(sandbox, None, writer.write_ended)
        else:
            _advance(sandbox, parse_duration(until), writer)
        writer.write_ended()
    finally:
        writer.close()


def _run_events(sandbox: _Movable, count: int | None, write: Callable[[int], int]) -> None:
    clock = sandbox.session.world.clock
    while count is None or count > 0:
        # Until nothing is left but what repeats: no fewer events run before that than are scheduled now.
        portion = min(_EVENTS, clock.remaining()) if count is None and clock.repeats else min(count or _EVENTS, _EVENTS)
        if not portion:
            return
        if len(sandbox.run(events=portion)) < portion:
            return
        write(_PORTION)
        count = None if count is None else count - portion


def _advance(sandbox: _Movable, by_ms: int, writer: RunWriter) -> None:
    """Advance in steps, so long that about a portion of Charges is created in each."""
    clock = sandbox.session.world.clock
    end, step = min(clock.now() + by_ms, LAST_MS), _FIRST_STEP_MS
    if by_ms < 0:
        sandbox.advance_to(clock.now() + by_ms)  # which says what is wrong with it
        return
    while True:
        before = writer.kept
        sandbox.advance_to(min(clock.now() + step, end))
        created = writer.kept - before
        writer.write_ended(_PORTION)
        if clock.now() >= end:
            return
        if created < _PORTION // 2:
            step *= 2
        elif created > 2 * _PORTION:
            step = max(1, step // 2)
