"""Lane diagrams: time runs down, each participant has a lane, and every event is one line of text beside them.

Events of one instant are close together. A gap in time is a labelled vertical gap that grows with its logarithm, so
that two milliseconds and three days are readable in one drawing. As text, every event is a line:

09:00:00.000  payer     ana pays 250 sat
              + 5 min
09:05:00.000  service   expired

The date stands before the first event of each later day.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log10

from leyden.lab.drawings.events.payment_events import CALLBACK, HOPS, NODE, PAYER, SERVICE, Event, Key
from leyden.lab.drawings.svg import MARGIN, NOTE_LINE, OPEN, arrow, clock_time, day, dot, line, notes, rect, text_at
from leyden.lab.drawings.text_metrics import TextRun, clean, mermaid_text, wrap_runs
from leyden.repr_tables import left_out
from leyden.server.html import Html, tag
from leyden.server.timestamps import span_in_words

LANES = (PAYER, HOPS, NODE, SERVICE, CALLBACK)

_TOP = 98
_GUTTER, _LANE, _LABELS = 122, 66, 520
_LABEL_X = _GUTTER + len(LANES) * _LANE + 10
WIDTH = _LABEL_X + _LABELS + MARGIN
_ROW, _LINE, _LINES = 25, 16, 3
_TRACKS = 4
# A shorter gap has no label.
_NOTABLE_MS = 100


def _label(event: Event) -> list[TextRun]:
    """The label of an event: its text, the response, and details."""
    runs = [TextRun(event.text, bold=True)]
    if event.response:
        runs += [TextRun(" → ", soft=True), TextRun(event.response, bold=True, tone=event.tone)]
    if event.detail:
        runs.append(TextRun("  " + event.detail, soft=True))
    return runs


def _lane_x(lane: str) -> float:
    return _GUTTER + (LANES.index(lane) + 0.5) * _LANE


class LaneRows:
    """The rows of a diagram while it is built, as SVG and as text.

    `y` is the next free coordinate, `lines` the text.
    """

    def __init__(self) -> None:
        self.y = float(_TOP)
        self.lines: list[str] = []
        self._at: int | None = None  # the instant of the last row
        self._used: set[str] = set()
        self._rows: list[Html] = []
        self._gaps: list[Html] = []
        self._opened: dict[Key, tuple[float, str]] = {}  # y coordinate and tone
        self._tracks: dict[Key, int] = {}
        self._bars: list[tuple[float, float, float, str, bool]] = []

    def svg_parts(self) -> list[Html]:
        """All parts of the diagram, the lanes first; unused lanes are paler."""
        xs = {lane: _lane_x(lane) for lane in LANES}
        heads = [
            text_at(x, _TOP - 20, lane, _LANE, soft=lane not in self._used, size=11.5, anchor="middle")
            for lane, x in xs.items()
        ]
        lanes = [line(x, _TOP - 12, x, self.y + 6, stroke_opacity=".16") for x in xs.values()]
        # A duration that has not ended reaches to the present and has an outline.
        bars = [
            rect(x - 3.5, start, 7, end - start, 3.5, tone, ".28", **({"stroke_opacity": ".55"} if still else {}))
            for x, start, end, tone, still in sorted(self._bars)
        ]
        return [*heads, *lanes, *bars, *self._gaps, *self._rows]

    def event(self, event: Event, *, ahead: bool = False) -> None:
        """Add one event; a scheduled one is hollow and dashed."""
        self._used |= {event.source, event.target}
        self._gap(event.at)
        answer = f" → {event.response}" if event.response else ""
        words = clean(f"{event.text}{answer}  {event.detail}").rstrip()
        self.lines.append(f"{self._time(event.at):<12}  {event.target:<8}  {words}")
        if event.opens:
            others = {self._tracks[key] for key in self._opened if key[0] == event.opens[0]}
            self._tracks[event.opens] = min(set(range(len(others) + 1)) - others)
        y, target = self.y, self._x(event, event.target)
        drawn: list[Html] = []
        if event.source in LANES and event.source != event.target:
            start = self._x(event, event.source)
            drawn.append(arrow(start, y, target - (7 if target > start else -7), event.tone, dashed=ahead))
        drawn.append(dot(target, y, event.tone, hollow=ahead))
        label = _label(event)
        drawn.append(text_at(_LABEL_X, y + 4.3, label, _LABELS, max_lines=_LINES))
        self._rows.append(tag("g", *drawn))
        if event.opens:
            self._opened[event.opens] = (y, event.tone)
        if event.closes and event.closes in self._opened:
            start, tone = self._opened.pop(event.closes)
            # The end of an attempt colours its whole bar; a charge and its invoice were open until then.
            ended = tone if event.closes[0] in (NODE, SERVICE) else event.tone
            self._bars.append((self._track(event.closes), start, y, ended, False))
        self.y += _ROW + (len(wrap_runs(label, _LABELS, 12.5, _LINES)) - 1) * _LINE

    def omission(self, number: int, what: str, where: str = "") -> None:
        """Add a row that says how many events are left out."""
        words = f"{left_out(number, what)}{where}"
        self.lines.append(f"{'':14}... {words}")
        self._rows.append(text_at(_LABEL_X, self.y + 4.3, words, _LABELS, bold=True))
        self._rows += [text_at(_lane_x(lane), self.y + 4.3, "⋮", 20, size=13, anchor="middle") for lane in LANES]
        self.y += _ROW + 4

    def note(self, words: str) -> None:
        """Add a note below everything; none if it is empty."""
        if words:
            self.lines.append(f"{'':14}{words}")
            self._rows += notes([words], self.y + 8, WIDTH)
            self.y += NOTE_LINE

    def now(self, at: int, words: str) -> None:
        """Add the line between past and scheduled events."""
        self._gap(at)
        self.lines.append(f"{clock_time(at)}  -- {words} --")
        y = self.y + 3
        self._bars += [(self._track(key), start, y, OPEN, True) for key, (start, _) in self._opened.items()]
        self._rows.append(line(_GUTTER - 4, y, WIDTH - MARGIN, y, stroke_dasharray="2 4", stroke_opacity=".6"))
        self._time(at)
        self._rows.append(text_at(WIDTH - MARGIN, y - 5, words, 300, bold=True, size=11, anchor="end"))
        self.y += _ROW + 4

    def _gap(self, at: int) -> None:
        """Add the gap for the time since the last row; an event that is overdue adds none."""
        passed = 0 if self._at is None else max(0, at - self._at)
        if passed:
            tall = 5 + 6.5 * log10(1 + passed)
            if passed >= _NOTABLE_MS:
                tall = max(tall, 24)
                middle = self.y - _ROW / 2 + tall / 2 + 4
                words = f"+ {span_in_words(passed)}"
                self.lines.append(f"{'':14}{words}")
                self._gaps.append(self._margin_note(middle, words, soft=True))
                dots = line(_GUTTER - 6, middle - tall / 2 + 3, _GUTTER - 6, middle + tall / 2 - 10, width=1.4)
                self._gaps.append(tag("g", dots, stroke_dasharray="1.4 3.2", opacity=".55"))
            self.y += tall
        if self._at is None:
            self._gaps.append(self._margin_note(_TOP - 20, day(at), bold=True))
        elif day(at) != day(self._at):
            self.y += 8
            self.lines.append(day(at))
            self._gaps.append(self._margin_note(self.y - 15, day(at), bold=True))

    def _time(self, at: int) -> str:
        """Show the time of a row unless the last row has it too, and return what is shown."""
        if at == self._at:
            return ""
        self._at = at
        self._rows.append(self._margin_note(self.y + 4, clock_time(at), mono=True, size=11))
        return clock_time(at)

    def _margin_note(self, y: float, words: str, *, size: float = 10.5, **style: bool) -> Html:
        return text_at(_GUTTER - 14, y, words, 104, size=size, anchor="end", **style)

    def _track(self, key: Key) -> float:
        """The x coordinate of a duration in its lane, beside those of the same time."""
        return _lane_x(key[0]) + min(self._tracks[key], _TRACKS) * 9.0

    def _x(self, event: Event, lane: str) -> float:
        keys = [key for key in (event.opens, event.closes, *event.within) if key in self._tracks and key[0] == lane]
        return self._track(keys[0]) if keys else _lane_x(lane)


def mermaid_timeline(title: str, events: Iterable[Event]) -> str:
    """A Mermaid timeline: one period per instant, with its events."""
    lines = ["timeline", f"    title {mermaid_text(title, 240)}"]
    shown: int | None = None
    for event in events:
        answer = f" → {event.response}" if event.response else ""
        # In Mermaid a colon starts the next event of the period.
        words = mermaid_text(f"{event.target}, {event.text}{answer}").replace(":", "#58;")
        date = f"{day(event.at)} " if shown is not None and day(event.at) != day(shown) else ""
        period = f"    {date}{clock_time(event.at).replace(':', '.')}" if event.at != shown else "       "
        lines.append(f"{period} : {words}")
        shown = event.at
    return "\n".join(lines)
