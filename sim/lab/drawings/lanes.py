"""Lane diagrams: time runs down, each participant has a lane, and every event is one line of text beside them.

Events of one instant are close together. A gap in time is a labelled vertical gap that grows with its logarithm, so
that two milliseconds and three days are readable in one drawing.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log10

from leyden.lab.drawings.mermaid import mermaid_text
from leyden.lab.drawings.payment_events import CALLBACK, HOPS, NODE, PAYER, SERVICE, Event, Key
from leyden.lab.drawings.svg import COLOURS, OPEN, arrow, clock_time, coord, day, dot, line, text_at
from leyden.lab.drawings.text_metrics import TextRun, clean, wrap_runs
from leyden.server.docs.tables import span_in_words
from leyden.server.html import Html, tag

LANES = (PAYER, HOPS, NODE, SERVICE, CALLBACK)

MARGIN, TOP = 18, 98
GUTTER, LANE, LABELS = 122, 66, 520
LABEL_X = GUTTER + len(LANES) * LANE + 10
WIDTH = LABEL_X + LABELS + MARGIN
_ROW, _LINE, _LINES = 25, 16, 3
_TRACKS = 4
# A shorter gap has no label.
_NOTABLE_MS = 100


def event_label(event: Event) -> list[TextRun]:
    """The label of an event: its text, the response, and details."""
    runs = [TextRun(event.text, bold=True)]
    if event.response:
        runs += [TextRun(" → ", soft=True), TextRun(event.response, bold=True, tone=event.tone)]
    if event.detail:
        runs.append(TextRun("  " + event.detail, soft=True))
    return runs


def lane_x(lane: str) -> float:
    """The x coordinate of a lane."""
    return GUTTER + (LANES.index(lane) + 0.5) * LANE


class LaneRows:
    """The rows of a diagram while it is built: `y` is the next free coordinate, `at` the instant of the last row."""

    def __init__(self, top: float = TOP) -> None:
        self.top = top
        self.y = float(top)
        self.at: int | None = None
        self.rows: list[Html] = []
        self.gaps: list[Html] = []
        self._opened: dict[Key, tuple[float, str]] = {}  # y coordinate and tone
        self._tracks: dict[Key, int] = {}
        self._bars: list[tuple[float, float, float, str, bool]] = []

    def svg_parts(self, used: Iterable[str]) -> list[Html]:
        """All parts of the diagram, the lanes first; unused lanes are paler."""
        foot, here = self.y + 6, set(used)
        heads = [
            text_at(
                lane_x(lane),
                self.top - 20,
                [TextRun(lane, soft=lane not in here)],
                max_width=LANE,
                size=11.5,
                anchor="middle",
            )
            for lane in LANES
        ]
        lanes = [line(lane_x(lane), self.top - 12, lane_x(lane), foot, stroke_opacity=".16") for lane in LANES]
        return [*heads, *lanes, *self._duration_bars(), *self.gaps, *self.rows]

    def event(self, event: Event, *, ahead: bool = False) -> None:
        """Add one event; a scheduled one is hollow and dashed."""
        self._gap(event.at)
        self._time(event.at)
        if event.opens:
            others = {self._tracks[key] for key in self._opened if key[0] == event.opens[0]}
            self._tracks[event.opens] = min(set(range(len(others) + 1)) - others)
        y, target = self.y, self._x(event, event.target)
        drawn: list[Html] = []
        if event.source in LANES and event.source != event.target:
            start = self._x(event, event.source)
            drawn.append(arrow(start, y, target - (7 if target > start else -7), event.tone, dashed=ahead))
        drawn.append(dot(target, y, event.tone, hollow=ahead))
        label = event_label(event)
        drawn.append(text_at(LABEL_X, y + 4.3, label, max_width=LABELS, max_lines=_LINES))
        self.rows.append(tag("g", *drawn))
        if event.opens:
            self._opened[event.opens] = (y, event.tone)
        if event.closes and event.closes in self._opened:
            start, tone = self._opened.pop(event.closes)
            # The end of an attempt colours its whole bar; a charge and its invoice were open until then.
            ended = tone if event.closes[0] in (NODE, SERVICE) else event.tone
            self._bars.append((self._track(event.closes), start, y, ended, False))
        self.y += _ROW + (len(wrap_runs(label, LABELS, 12.5, _LINES)) - 1) * _LINE

    def omission(self, events: int, where: str) -> None:
        """Add a row that says how many events are left out."""
        words = [TextRun(f"{events:,} {where}", bold=True)]
        self.rows.append(text_at(LABEL_X, self.y + 4.3, words, max_width=LABELS))
        self.rows += [
            text_at(lane_x(lane), self.y + 4.3, "⋮", max_width=20, size=13, anchor="middle") for lane in LANES
        ]
        self.y += _ROW + 4

    def now(self, at: int, words: str) -> None:
        """Add the line between past and scheduled events."""
        self._gap(at)
        y = self.y + 3
        self._bars += [(self._track(key), start, y, OPEN, True) for key, (start, _) in self._opened.items()]
        self.rows.append(line(GUTTER - 4, y, WIDTH - MARGIN, y, stroke_dasharray="2 4", stroke_opacity=".6"))
        self._time(at)
        self.rows.append(
            text_at(WIDTH - MARGIN, y - 5, [TextRun(words, bold=True)], max_width=300, size=11, anchor="end")
        )
        self.y += _ROW + 4

    def _gap(self, at: int) -> None:
        """Add the gap for the time since the last row; an event that is overdue adds none."""
        first = self.at is None
        passed = 0 if self.at is None else max(0, at - self.at)
        if passed:
            tall = 5 + 6.5 * log10(1 + passed)
            if passed >= _NOTABLE_MS:
                tall = max(tall, 24)
                middle = self.y - _ROW / 2 + tall / 2 + 4
                words = [TextRun(f"+ {span_in_words(passed)}", soft=True)]
                self.gaps.append(text_at(GUTTER - 14, middle, words, max_width=104, size=10.5, anchor="end"))
                dots = line(GUTTER - 6, middle - tall / 2 + 3, GUTTER - 6, middle + tall / 2 - 10, width=1.4)
                self.gaps.append(tag("g", dots, stroke_dasharray="1.4 3.2", opacity=".55"))
            self.y += tall
        if first or day(at) != day(self.at or 0):
            self.y += 0 if first else 8
            where = self.top - 20 if first else self.y - 15
            self.gaps.append(
                text_at(GUTTER - 14, where, [TextRun(day(at), bold=True)], max_width=104, size=10.5, anchor="end")
            )

    def _time(self, at: int) -> None:
        if self.at is None or at != self.at:
            time = [TextRun(clock_time(at), mono=True)]
            self.rows.append(text_at(GUTTER - 14, self.y + 4, time, max_width=104, size=11, anchor="end"))
        self.at = at

    def _track(self, key: Key) -> float:
        """The x coordinate of a duration in its lane, beside those of the same time."""
        return lane_x(key[0]) + min(self._tracks[key], _TRACKS) * 9.0

    def _x(self, event: Event, lane: str) -> float:
        keys = [key for key in (event.opens, event.closes, *event.within) if key in self._tracks and key[0] == lane]
        return self._track(keys[0]) if keys else lane_x(lane)

    def _duration_bars(self) -> list[Html]:
        """The bars of durations; one that has not ended reaches to the present and has an outline."""
        drawn: list[Html] = []
        for x, start, end, tone, still in sorted(self._bars):
            size = {"x": coord(x - 3.5), "y": coord(start), "width": "7", "height": coord(end - start)}
            edge = {"stroke": COLOURS[tone], "stroke_opacity": ".55"} if still else {}
            drawn.append(tag("rect", **size, rx="3.5", fill=COLOURS[tone], fill_opacity=".28", **edge))
        return drawn


def text_lines(event: Event, shown: int | None) -> list[str]:
    """An event as text: the gap before it, and a line with its time, unless that equals `shown`, the last one."""
    when = clock_time(event.at) if event.at != shown else ""
    answer = f" → {event.response}" if event.response else ""
    text = clean(f"{event.text}{answer}  {event.detail}").rstrip()
    return [*gap_lines(event.at, shown), f"{when:<12}  {event.target:<8}  {text}"]


def gap_lines(at: int, shown: int | None) -> list[str]:
    """A line for the time since the last one shown; none for a short gap."""
    passed = 0 if shown is None else at - shown
    return [f"{'':14}+ {span_in_words(passed)}"] if passed >= _NOTABLE_MS else []


def mermaid_timeline(title: str, events: Iterable[Event]) -> str:
    """A Mermaid timeline: one period per instant, with its events."""
    lines = ["timeline", f"    title {mermaid_text(title)}"]
    shown: int | None = None
    for event in events:
        # In Mermaid a colon starts the next event of the period.
        words = mermaid_text(
            f"{event.target}, {event.text}" + (f" → {event.response}" if event.response else "")
        ).replace(":", "#58;")
        period = f"    {clock_time(event.at).replace(':', '.')}" if event.at != shown else "       "
        lines.append(f"{period} : {words}")
        shown = event.at
    return "\n".join(lines)
