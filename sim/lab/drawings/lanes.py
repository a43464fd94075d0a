"""Lanes: time runs down, each who acts has a lane, and every step is one line of text beside them.

Rows of one instant stand close together. A gap in time becomes a gap on paper that grows with its logarithm and says
how long it was, so that two milliseconds and three days can be read in one picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log10

from leyden.lab.drawings.mermaid import said
from leyden.lab.drawings.payment_events import CALLBACK, HOPS, NODE, PAYER, SERVICE, Key, Step
from leyden.lab.drawings.svg import COLOURS, OPEN, arrow, clock_time, day, dot, line, n, write
from leyden.lab.drawings.text_metrics import Run, clean, lines_of
from leyden.server.docs.tables import span_in_words
from leyden.server.html import Html, tag

LANES = (PAYER, HOPS, NODE, SERVICE, CALLBACK)

MARGIN, TOP = 18, 98
GUTTER, LANE, LABELS = 122, 66, 520
LABEL_X = GUTTER + len(LANES) * LANE + 10
WIDTH = LABEL_X + LABELS + MARGIN
_ROW, _LINE, _LINES = 25, 16, 3
_TRACKS = 4
# A gap shorter than this is not worth a label of its own.
_NOTABLE_MS = 100


def label_of(step: Step) -> list[Run]:
    """A step as a reader sees it: the deed, what came back, and the circumstances."""
    runs = [Run(step.words, bold=True)]
    if step.answer:
        runs += [Run(" → ", soft=True), Run(step.answer, bold=True, tone=step.tone)]
    if step.more:
        runs.append(Run("  " + step.more, soft=True))
    return runs


def lane_x(lane: str) -> float:
    """Where a lane runs."""
    return GUTTER + (LANES.index(lane) + 0.5) * LANE


class Rows:
    """The rows of a picture while it is drawn: `y` is how far down the paper it has come, `at` the instant there."""

    def __init__(self, top: float = TOP) -> None:
        self.top = top
        self.y = float(top)
        self.at: int | None = None
        self.rows: list[Html] = []
        self.gaps: list[Html] = []
        self._opened: dict[Key, tuple[float, str]] = {}  # where on the paper, and in which colour
        self._tracks: dict[Key, int] = {}
        self._bars: list[tuple[float, float, float, str, bool]] = []

    def drawn(self, used: Iterable[str]) -> list[Html]:
        """Everything, the lanes first; a lane that is not used steps back."""
        foot, here = self.y + 6, set(used)
        heads = [
            write(
                lane_x(lane), self.top - 20, [Run(lane, soft=lane not in here)], room=LANE, size=11.5, anchor="middle"
            )
            for lane in LANES
        ]
        lanes = [line(lane_x(lane), self.top - 12, lane_x(lane), foot, stroke_opacity=".16") for lane in LANES]
        return [*heads, *lanes, *self._lasting(), *self.gaps, *self.rows]

    def step(self, step: Step, *, ahead: bool = False) -> None:
        """One step; one that is ahead is hollow and dashed."""
        self._gap(step.at)
        self._time(step.at)
        if step.opens:
            others = {self._tracks[key] for key in self._opened if key[0] == step.opens[0]}
            self._tracks[step.opens] = min(set(range(len(others) + 1)) - others)
        y, target = self.y, self._x(step, step.target)
        drawn: list[Html] = []
        if step.source in LANES and step.source != step.target:
            start = self._x(step, step.source)
            drawn.append(arrow(start, y, target - (7 if target > start else -7), step.tone, dashed=ahead))
        drawn.append(dot(target, y, step.tone, hollow=ahead))
        label = label_of(step)
        drawn.append(write(LABEL_X, y + 4.3, label, room=LABELS, most=_LINES))
        self.rows.append(tag("g", *drawn))
        if step.opens:
            self._opened[step.opens] = (y, step.tone)
        if step.closes and step.closes in self._opened:
            begun, tone = self._opened.pop(step.closes)
            # How a try ended colours the whole of it; a charge and its invoice were open until then.
            ended = tone if step.closes[0] in (NODE, SERVICE) else step.tone
            self._bars.append((self._track(step.closes), begun, y, ended, False))
        self.y += _ROW + (len(lines_of(label, LABELS, 12.5, _LINES)) - 1) * _LINE

    def omission(self, steps: int, where: str) -> None:
        """A row that says how many steps are left out."""
        words = [Run(f"{steps:,} {where}", bold=True)]
        self.rows.append(write(LABEL_X, self.y + 4.3, words, room=LABELS))
        self.rows += [write(lane_x(lane), self.y + 4.3, "⋮", room=20, size=13, anchor="middle") for lane in LANES]
        self.y += _ROW + 4

    def now(self, at: int, words: str) -> None:
        """The line between what happened and what is ahead."""
        self._gap(at)
        y = self.y + 3
        self._bars += [(self._track(key), start, y, OPEN, True) for key, (start, _) in self._opened.items()]
        self.rows.append(line(GUTTER - 4, y, WIDTH - MARGIN, y, stroke_dasharray="2 4", stroke_opacity=".6"))
        self._time(at)
        self.rows.append(write(WIDTH - MARGIN, y - 5, [Run(words, bold=True)], room=300, size=11, anchor="end"))
        self.y += _ROW + 4

    def _gap(self, at: int) -> None:
        """Room for the time that passed since the last row. What is due in the past takes none."""
        first = self.at is None
        passed = 0 if self.at is None else max(0, at - self.at)
        if passed:
            tall = 5 + 6.5 * log10(1 + passed)
            if passed >= _NOTABLE_MS:
                tall = max(tall, 24)
                middle = self.y - _ROW / 2 + tall / 2 + 4
                words = [Run(f"+ {span_in_words(passed)}", soft=True)]
                self.gaps.append(write(GUTTER - 14, middle, words, room=104, size=10.5, anchor="end"))
                dots = line(GUTTER - 6, middle - tall / 2 + 3, GUTTER - 6, middle + tall / 2 - 10, wide=1.4)
                self.gaps.append(tag("g", dots, stroke_dasharray="1.4 3.2", opacity=".55"))
            self.y += tall
        if first or day(at) != day(self.at or 0):
            self.y += 0 if first else 8
            where = self.top - 20 if first else self.y - 15
            self.gaps.append(write(GUTTER - 14, where, [Run(day(at), bold=True)], room=104, size=10.5, anchor="end"))

    def _time(self, at: int) -> None:
        if self.at is None or at != self.at:
            time = [Run(clock_time(at), mono=True)]
            self.rows.append(write(GUTTER - 14, self.y + 4, time, room=104, size=11, anchor="end"))
        self.at = at

    def _track(self, key: Key) -> float:
        """Where in its lane something runs: beside what lasts at the same time."""
        return lane_x(key[0]) + min(self._tracks[key], _TRACKS) * 9.0

    def _x(self, step: Step, lane: str) -> float:
        keys = [key for key in (step.opens, step.closes, *step.within) if key in self._tracks and key[0] == lane]
        return self._track(keys[0]) if keys else lane_x(lane)

    def _lasting(self) -> list[Html]:
        """What lasted: a bar from its first step to its last; what lasts still has an edge, down to the present."""
        drawn: list[Html] = []
        for x, start, end, tone, still in sorted(self._bars):
            size = {"x": n(x - 3.5), "y": n(start), "width": "7", "height": n(end - start)}
            edge = {"stroke": COLOURS[tone], "stroke_opacity": ".55"} if still else {}
            drawn.append(tag("rect", **size, rx="3.5", fill=COLOURS[tone], fill_opacity=".28", **edge))
        return drawn


def text_lines(step: Step, shown: int | None) -> list[str]:
    """A step as a line of text, with the time when it is another than the one `shown` last, and the gap before it."""
    when = clock_time(step.at) if step.at != shown else ""
    answer = f" → {step.answer}" if step.answer else ""
    told = clean(f"{step.words}{answer}  {step.more}").rstrip()
    return [*passed_lines(step.at, shown), f"{when:<12}  {step.target:<8}  {told}"]


def passed_lines(at: int, shown: int | None) -> list[str]:
    """How much time passed since what was shown last, where that is worth a line."""
    passed = 0 if shown is None else at - shown
    return [f"{'':14}+ {span_in_words(passed)}"] if passed >= _NOTABLE_MS else []


def mermaid_timeline(title: str, steps: Iterable[Step]) -> str:
    """Mermaid's own timeline: a period for each instant, its steps one after another."""
    lines = ["timeline", f"    title {said(title)}"]
    shown: int | None = None
    for step in steps:
        # A colon begins the next event of the period.
        words = said(f"{step.target}, {step.words}" + (f" → {step.answer}" if step.answer else "")).replace(":", "#58;")
        period = f"    {clock_time(step.at).replace(':', '.')}" if step.at != shown else "       "
        lines.append(f"{period} : {words}")
        shown = step.at
    return "\n".join(lines)
