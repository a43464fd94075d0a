"""Sequence diagrams of a Charge: its messages between payer, network, node, service and receiver."""

from __future__ import annotations

from typing import NamedTuple

from leyden.lab.drawings.charge_events import EVENTS_BEFORE_GAP, ChargeEvents, charge_events
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.events.payment_events import CALLBACK, CLIENT, HOPS, NODE, PAYER, SERVICE, Event
from leyden.lab.drawings.svg import (
    GOOD,
    MARGIN,
    NOTE_LINE,
    OPEN,
    arrow,
    clock_time,
    day,
    dot,
    line,
    notes,
    rect,
    svg_root,
    text_at,
)
from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean, mermaid_text, wrap_runs
from leyden.lab.drawings.timelines import heading
from leyden.repr_tables import counted, left_out
from leyden.server.html import Html, tag
from leyden.server.timestamps import span_in_words
from leyden.world.world import World

_GUTTER, _TOP = 124, 76
_BOX_WIDE, _BOX_TALL = 112, 34
_NARROWEST, _WIDEST = 128, 196
_SIZE, _LINE, _LINES = 12, 15.5, 3
_MOST_PAYERS = 4
_OTHERS = "others"
_NOTABLE_MS = 1_000
# The order from left to right. Payers and receivers have their own names.
_ORDER = (PAYER, HOPS, NODE, SERVICE, CLIENT, CALLBACK)
_DISPLAY_NAMES = {HOPS: "network", NODE: "node", SERVICE: "service", CLIENT: "your program"}

Participant = tuple[str, str]


class Message(NamedTuple):
    """One message of the diagram; a response is dashed.

    `time` is empty in the instant of the message before, `pause_ms` the time since then, `date` the day if it is a
    later one. `omitted` is the number of events that are left out before the message.
    """

    time: str
    pause_ms: int
    omitted: int
    source: Participant
    target: Participant
    text: str
    detail: str
    tone: str
    is_response: bool = False
    date: str = ""

    @property
    def runs(self) -> list[TextRun]:
        """The text in its styles."""
        runs = [TextRun(clean(self.text), bold=True, tone=self.tone if self.is_response else PLAIN)]
        return [*runs, TextRun(clean(" " + self.detail), soft=True)] if self.detail else runs


def sequence(world: World, charge_id: str) -> Drawing:
    """The sequence diagram of a Charge: messages between its payers, the network, the node, the service, the receiver.

    Raises `DrawingError` for an unknown id.
    """
    drawn = _Sequence(charge_events(world, charge_id))
    return Drawing(drawn.svg(), drawn.mermaid(), drawn.text())


def _messages(record: ChargeEvents) -> list[Message]:
    payers = list(dict.fromkeys(event.actor for event in record.events if PAYER in (event.source, event.target)))
    known = set(payers if len(payers) <= _MOST_PAYERS else payers[: _MOST_PAYERS - 1])

    def participant(lane: str, event: Event) -> Participant:
        if lane == PAYER:
            return lane, (event.actor if event.actor in known else _OTHERS) if event.actor else "payer"
        return lane, event.actor if lane == CALLBACK else ""

    messages: list[Message] = []
    last: int | None = None
    for place, event in enumerate(record.events):
        source, target = participant(event.source, event), participant(event.target, event)
        # Payers that share a column are named in the text.
        words = event.text if (PAYER, _OTHERS) in (source, target) else event.short_text or event.text
        time = "" if event.at == last else clock_time(event.at)
        pause_ms = 0 if last is None else event.at - last
        omitted = record.omitted if place == EVENTS_BEFORE_GAP else 0
        tone = OPEN if event.response else event.tone
        date = "" if last is None or day(last) == day(event.at) else day(event.at)
        messages.append(Message(time, pause_ms, omitted, source, target, words, event.detail, tone, date=date))
        if event.response:
            messages.append(Message("", 0, 0, target, source, event.response, "", event.tone, is_response=True))
        last = event.at
    return messages


class _Sequence:
    """The diagram in its three forms. The columns of its participants are numbered from left to right."""

    def __init__(self, record: ChargeEvents) -> None:
        self.record = record
        self.messages = _messages(record)
        ends = dict.fromkeys(end for message in self.messages for end in (message.source, message.target))
        participants = sorted(ends, key=lambda end: _ORDER.index(end[0]))
        self.columns = {participant: column for column, participant in enumerate(participants)}
        self.names = {end: end[1] or _DISPLAY_NAMES[end[0]] for end in participants}
        # The width to the right of each column: enough for its texts, within limits.
        self.gaps = [*[float(_NARROWEST)] * (len(participants) - 1), _BOX_WIDE / 2]
        for message in self.messages:
            gap, wide = self._gap_of(message), sum(run.width(_SIZE) for run in message.runs) + 34
            self.gaps[gap] = max(self.gaps[gap], min(wide, _WIDEST))
        left = _GUTTER + _BOX_WIDE / 2
        self.xs = [left + sum(self.gaps[:column]) for column in range(len(participants))]
        self.width = left + sum(self.gaps) + MARGIN

    def _gap_of(self, message: Message) -> int:
        """The gap between columns that holds a message's text: the last that it crosses, or the one right of it."""
        source, target = self.columns[message.source], self.columns[message.target]
        return source if source == target else max(source, target) - 1

    def svg(self) -> Html:
        """The diagram as SVG, from top to bottom."""
        y = float(_TOP + _BOX_TALL + 8)
        drawn: list[Html] = []
        for message in self.messages:
            if message.omitted:
                words = f"{left_out(message.omitted, 'event')} here"
                drawn.append(text_at(self.xs[0] + 12, y + 18, words, self.width, bold=True, size=_SIZE))
                y += 34
            if message.pause_ms >= _NOTABLE_MS:
                words, room = f"{span_in_words(message.pause_ms)} later", _GUTTER - MARGIN - 2
                across = line(
                    _GUTTER, y + 16, self.width - MARGIN, y + 16, stroke_dasharray="1.4 4", stroke_opacity=".5"
                )
                drawn.append(tag("g", text_at(MARGIN, y + 20, words, room, soft=True, size=10.5), across))
                y += 26
            if message.date:
                drawn.append(text_at(MARGIN, y + 14, message.date, _GUTTER, bold=True, size=10.5))
                y += 14
            lines = len(wrap_runs(message.runs, self.gaps[self._gap_of(message)] - 26, _SIZE, _LINES))
            y += lines * _LINE + 13
            if message.time:
                drawn.append(text_at(MARGIN, y + 4, message.time, _GUTTER, mono=True, size=11))
            drawn.append(self._message(message, y, lines))
        foot = y + 22
        lifelines = [line(x, _TOP + _BOX_TALL, x, foot, stroke_opacity=".22") for x in self.xs]
        boxes = [self._box(participant, _TOP) for participant in self.columns]
        if foot > 700:
            boxes += [self._box(participant, foot) for participant in self.columns]
            foot += _BOX_TALL
        charge, width = self.record.charge, max(self.width, 460.0)
        what = f"Sequence diagram of a Charge: {counted(len(self.messages), 'message')}, now {charge['status']}"
        head = heading(self.record, width, f"{day(charge['created_at'])}  ")
        if self.record.lost:
            drawn += notes([self.record.lost], foot + NOTE_LINE, width)
            foot += NOTE_LINE
        return svg_root(width, foot + MARGIN, what, *head, *lifelines, *boxes, *drawn)

    def _box(self, participant: Participant, top: float) -> Html:
        lane, own_name = participant
        x, room, name = self.xs[self.columns[participant]], _BOX_WIDE - 10, self.names[participant]
        frame = rect(x - _BOX_WIDE / 2, top, _BOX_WIDE, _BOX_TALL, 7, PLAIN, ".07", stroke_opacity=".45")
        role = {PAYER: "payer", CALLBACK: "receiver"}.get(lane)
        if role is None or role == own_name:
            return tag("g", frame, text_at(x, top + 21.5, name, room, bold=True, anchor="middle"))
        small = text_at(x, top + 28, role, room, soft=True, size=10, anchor="middle")
        return tag("g", frame, text_at(x, top + 16, name, room, bold=True, anchor="middle"), small)

    def _message(self, message: Message, y: float, lines: int) -> Html:
        source, target = (self.xs[self.columns[end]] for end in (message.source, message.target))
        gap = self._gap_of(message)
        room = self.gaps[gap] - 26
        if source == target:
            mark = dot(source, y - 4 - lines * _LINE / 2, message.tone)
            first = y - lines * _LINE + 8
            return tag("g", mark, text_at(source + 12, first, message.runs, room, size=_SIZE, max_lines=_LINES))
        side = 3 if target > source else -3
        shaft = arrow(source + side, y, target - side, message.tone, dashed=message.is_response)
        middle, first = self.xs[gap] + self.gaps[gap] / 2, y - 7 - (lines - 1) * _LINE
        words = text_at(middle, first, message.runs, room, size=_SIZE, anchor="middle", max_lines=_LINES)
        return tag("g", shaft, words)

    def text(self) -> str:
        """The diagram as lines of text."""
        charge = self.record.charge
        lines = [f"{self.record.title}, {charge['status']}  {charge['id']}"]
        names = {participant: clean(name) for participant, name in self.names.items()}
        wide = max(map(len, names.values()))
        for message in self.messages:
            shaft, first, second = "-->", names[message.source], names[message.target]
            if message.source == message.target:
                shaft, second = "   ", ""
            elif message.is_response:
                shaft, first, second = "<--", second, first
            words = clean(f"{message.text}  {message.detail}").rstrip()
            if message.date:
                lines.append(message.date)
            lines.append(f"{message.time:<12}  {first:>{wide}} {shaft} {second:<{wide}}  {words}")
        if self.record.omitted:
            lines.append(f"({left_out(self.record.omitted, 'event')} in the middle)")
        if self.record.lost:
            lines.append(f"({self.record.lost})")
        return "\n".join(lines)

    def mermaid(self) -> str:
        """The diagram as Mermaid source."""
        lines = ["sequenceDiagram"]
        for participant, column in self.columns.items():
            kind = "actor" if participant[0] == PAYER else "participant"
            lines.append(f"    {kind} p{column} as {mermaid_text(self.names[participant], 30)}")
        last = len(self.columns) - 1
        for message in self.messages:
            if message.pause_ms >= _NOTABLE_MS:
                over = f"p0,p{last}" if last else "p0"
                until = f", on {message.date}" if message.date else ""
                lines.append(f"    Note over {over}: {mermaid_text(span_in_words(message.pause_ms))} later{until}")
            words = mermaid_text(f"{message.text}, {message.detail}" if message.detail else message.text)
            source, target = self.columns[message.source], self.columns[message.target]
            if source == target:
                lines.append(f"    Note over p{source}: {words}")
            else:
                shaft = "-->>" if message.is_response else "-x" if message.tone not in (OPEN, GOOD, PLAIN) else "->>"
                lines.append(f"    p{source}{shaft}p{target}: {words}")
        if self.record.omitted:
            lines.append(f"    Note over p0: {left_out(self.record.omitted, 'event')} in the middle")
        if self.record.lost:
            lines.append(f"    Note over p0: {mermaid_text(self.record.lost, 240)}")
        return "\n".join(lines)
