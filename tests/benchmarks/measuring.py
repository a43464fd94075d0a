"""Measuring on a machine that has other things to do: short rounds taken in turn, and medians of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Samples = Sequence[float]  # one value for each round
Clock = Callable[[], float]

COST, RATE, SIZE = "s", "/s", "B"


class BenchmarkError(Exception):
    """A part cannot be measured here; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done: `short` only shows that a part works, `repeats` is the number of rounds (at least 1)."""

    short: bool = False
    repeats: int = 5

    def of(self, full: int, short: int) -> int:
        """A count for this scale."""
        return short if self.short else full


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound, `at most` or `at least`, on a row's ratios: on the one at place `at`, or on all of them.

    An `absolute` one bounds the measured values themselves, in the row's unit.
    """

    word: str
    bound: float
    at: int | None = None
    absolute: bool = False

    def met(self, row: Row) -> bool:
        """Whether what was measured keeps the bound; cases that were left out are passed over."""
        values = row.measured if self.absolute else row.ratios
        judged = values if self.at is None else (values[self.at],)
        return all(value <= self.bound if self.word == "at most" else value >= self.bound for value in judged if value)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `measured` and `beside` are medians in `unit` (seconds, per second, bytes), one for each of the cases that `what`
    lists (`at 1, 16, 64 connections`); None where a case was left out. `ratios` are medians of the rounds' own ratios:
    ours to theirs, or with `times_less` theirs to ours.
    """

    part: str
    what: str
    unit: str
    measured: tuple[float | None, ...]
    beside_what: str
    beside: tuple[float | None, ...]
    ratios: tuple[float | None, ...]
    times_less: bool = False
    goal: Goal | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.goal.met(self)

    def plain(self) -> dict[str, Any]:
        """The row as JSON values."""
        goal = None if self.goal is None else f"{self.goal.word} {self.goal.bound:g}"
        return {
            "part": self.part,
            "what": self.what,
            "unit": self.unit,
            "measured": list(self.measured),
            "beside_what": self.beside_what,
            "beside": list(self.beside),
            "ratios": list(self.ratios),
            "ratio_is": "theirs / ours" if self.times_less else "ours / theirs",
            "goal": goal,
            "met": self.met,
        }


def compared(
    part: str,
    what: str,
    unit: str,
    ours: Sequence[Samples | None],
    beside: str,
    theirs: Sequence[Samples | None],
    *,
    times_less: bool = False,
    goal: Goal | None = None,
) -> Row:
    """A row from the rounds' samples of each case; None stands for a case that was left out."""
    ratios: list[float | None] = []
    for own, other in zip(ours, theirs, strict=True):
        if own is None or other is None:
            ratios.append(None)
            continue
        pairs = zip(own, other, strict=True)
        ratios.append(median(b / a if times_less else a / b for a, b in pairs))
    return Row(
        part,
        what,
        unit,
        tuple(None if own is None else median(own) for own in ours),
        beside,
        tuple(None if other is None else median(other) for other in theirs),
        tuple(ratios),
        times_less,
        goal,
    )


def alone(part: str, what: str, unit: str, measured: Sequence[float], *, goal: Goal | None = None) -> Row:
    """A row that has nothing beside it; its goal is absolute."""
    return Row(part, what, unit, tuple(measured), "", (), (), goal=goal)


def in_turn(repeats: int, runs: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Call every function once a round, A B C A B C, so that a slow minute of the machine falls on all of them."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            found[name].append(run())
    return found


def seconds_each(run: Callable[[], object], count: int, clock: Clock = time.process_time) -> float:
    """Seconds for one call of `run`, over `count` calls: of this process's CPU, unless another clock is given."""
    began = clock()
    for _ in range(count):
        run()
    return (clock() - began) / count


def settled_memory() -> None:
    """Collect garbage now, so that the next measurement does not pay for what came before it."""
    gc.collect()
