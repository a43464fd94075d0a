"""Sequence diagrams of a Charge: its messages between payer, network, node, service and receiver."""

from __future__ import annotations

from typing import NamedTuple

from leyden.lab.drawings.charge_events import EVENTS_BEFORE_GAP, ChargeEvents, charge_events
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.payment_events import CALLBACK, CLIENT, HOPS, NODE, PAYER, SERVICE, Event
from leyden.lab.drawings.svg import GOOD, MARGIN, OPEN, arrow, clock_time, day, dot, line, rect, svg_root, text_at
from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean, mermaid_text, text_width, wrap_runs
from leyden.lab.drawings.timelines import heading
from leyden.server.docs.tables import span_in_words
from leyden.server.html import Html, tag
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
    """One message of the diagram; a response is dashed."""

    at: int
    source: Participant
    target: Participant
    text: str
    detail: str
    tone: str
    is_response: bool = False


def sequence(world: World, charge_id: str) -> Drawing:
    """The sequence diagram of a Charge: messages between its payers, the network, the node, the service, the receiver.

    Raises `DrawingError` for an unknown id.
    """
    record = charge_events(world, charge_id)
    messages = _messages(record)
    participants = _participants(messages)
    return Drawing(
        _Sequence(record, messages, participants).svg(),
        _mermaid(record, messages, participants),
        _text(record, messages),
    )


def _messages(record: ChargeEvents) -> list[Message]:
    payers = list(dict.fromkeys(event.actor for event in record.events if PAYER in (event.source, event.target)))
    known = set(payers if len(payers) <= _MOST_PAYERS else payers[: _MOST_PAYERS - 1])

    def participant(lane: str, event: Event) -> Participant:
        if lane == PAYER:
            return lane, (event.actor if event.actor in known else _OTHERS) if event.actor else "payer"
        return lane, event.actor if lane == CALLBACK else ""

    messages: list[Message] = []
    for event in record.events:
        source, target = participant(event.source, event), participant(event.target, event)
        tone = OPEN if event.response else event.tone
        # Payers that share a column are named in the text.
        words = event.text if (PAYER, _OTHERS) in (source, target) else event.short_text or event.text
        messages.append(Message(event.at, source, target, words, event.detail, tone))
        if event.response:
            messages.append(Message(event.at, target, source, event.response, "", event.tone, is_response=True))
    return messages


def _participants(messages: list[Message]) -> list[Participant]:
    seen = dict.fromkeys(participant for message in messages for participant in (message.source, message.target))
    return sorted(seen, key=lambda participant: _ORDER.index(participant[0]))


def _name(participant: Participant) -> str:
    return participant[1] or _DISPLAY_NAMES[participant[0]]


def _runs(message: Message) -> list[TextRun]:
    runs = [TextRun(message.text, bold=True, tone=message.tone if message.is_response else PLAIN)]
    return [*runs, TextRun(" " + message.detail, soft=True)] if message.detail else runs


class _Sequence:
    """The diagram while it is built, from top to bottom."""

    def __init__(self, record: ChargeEvents, messages: list[Message], participants: list[Participant]) -> None:
        self.record = record
        self.messages = messages
        self.participants = participants
        self.gaps = self._widths()
        self.xs = [_GUTTER + _BOX_WIDE / 2 + sum(self.gaps[:place]) for place in range(len(participants))]
        self.width = _GUTTER + _BOX_WIDE / 2 + sum(self.gaps) + MARGIN

    def _gap_of(self, message: Message) -> int:
        """The gap between columns that holds a message's text: the last that it crosses, or the one right of it."""
        source, target = self.participants.index(message.source), self.participants.index(message.target)
        return source if source == target else max(source, target) - 1

    def _widths(self) -> list[float]:
        """The width to the right of each column: enough for its texts, within limits."""
        widths = [float(_NARROWEST)] * len(self.participants)
        widths[-1] = _BOX_WIDE / 2
        for message in self.messages:
            gap = self._gap_of(message)
            wide = sum(text_width(clean(run.text), _SIZE, bold=run.bold) for run in _runs(message)) + 34
            widths[gap] = max(widths[gap], min(wide, _WIDEST))
        return widths

    def svg(self) -> Html:
        y = float(_TOP + _BOX_TALL + 8)
        drawn: list[Html] = []
        shown: int | None = None
        for place, message in enumerate(self.messages):
            if self.record.omitted and place == self._index_of_gap():
                words = f"{self.record.omitted} events are left out here"
                drawn.append(text_at(self.xs[0] + 12, y + 18, words, self.width, bold=True, size=_SIZE))
                y += 34
            if shown is not None and message.at - shown >= _NOTABLE_MS:
                drawn.append(self._pause(y + 16, message.at - shown))
                y += 26
            lines = len(wrap_runs(_runs(message), self.gaps[self._gap_of(message)] - 26, _SIZE, _LINES))
            y += lines * _LINE + 13
            if message.at != shown:
                drawn.append(text_at(MARGIN, y + 4, clock_time(message.at), _GUTTER, mono=True, size=11))
            drawn.append(self._message(message, y, lines))
            shown = message.at
        foot = y + 22
        lifelines = [line(x, _TOP + _BOX_TALL, x, foot, stroke_opacity=".22") for x in self.xs]
        boxes = [self._box(place, _TOP) for place in range(len(self.participants))]
        if foot > 700:
            boxes += [self._box(place, foot) for place in range(len(self.participants))]
            foot += _BOX_TALL
        what = f"Sequence diagram of a Charge: {len(self.messages)} messages, now {self.record.charge['status']}"
        width = max(self.width, 460.0)
        head = heading(self.record, width, f"{day(self.record.charge['created_at'])}  ")
        return svg_root(width, foot + MARGIN, what, *head, *lifelines, *boxes, *drawn)

    def _index_of_gap(self) -> int:
        """The index of the message before which events are omitted."""
        before = self.record.events[:EVENTS_BEFORE_GAP]
        return len(before) + sum(bool(event.response) for event in before)

    def _box(self, place: int, top: float) -> Html:
        lane, name = self.participants[place]
        x, room = self.xs[place], _BOX_WIDE - 10
        frame = rect(x - _BOX_WIDE / 2, top, _BOX_WIDE, _BOX_TALL, 7, PLAIN, ".07", stroke_opacity=".45")
        role = {PAYER: "payer", CALLBACK: "receiver"}.get(lane)
        shown = _name(self.participants[place])
        if role is None or role == name:
            return tag("g", frame, text_at(x, top + 21.5, shown, room, bold=True, anchor="middle"))
        small = text_at(x, top + 28, role, room, soft=True, size=10, anchor="middle")
        return tag("g", frame, text_at(x, top + 16, shown, room, bold=True, anchor="middle"), small)

    def _pause(self, y: float, passed: int) -> Html:
        words = text_at(MARGIN, y + 4, f"{span_in_words(passed)} later", _GUTTER - MARGIN - 2, soft=True, size=10.5)
        return tag("g", words, line(_GUTTER, y, self.width - MARGIN, y, stroke_dasharray="1.4 4", stroke_opacity=".5"))

    def _message(self, message: Message, y: float, lines: int) -> Html:
        source, target = (self.xs[self.participants.index(end)] for end in (message.source, message.target))
        gap = self._gap_of(message)
        runs, room = _runs(message), self.gaps[gap] - 26
        if source == target:
            mark = dot(source, y - 4 - lines * _LINE / 2, message.tone)
            first = y - lines * _LINE + 8
            return tag("g", mark, text_at(source + 12, first, runs, room, size=_SIZE, max_lines=_LINES))
        side = 3 if target > source else -3
        shaft = arrow(source + side, y, target - side, message.tone, dashed=message.is_response)
        middle, first = self.xs[gap] + self.gaps[gap] / 2, y - 7 - (lines - 1) * _LINE
        words = text_at(middle, first, runs, room, size=_SIZE, anchor="middle", max_lines=_LINES)
        return tag("g", shaft, words)


def _text(record: ChargeEvents, messages: list[Message]) -> str:
    lines = [f"{record.title}, {record.charge['status']}  {record.charge['id']}"]
    names = {participant: clean(_name(participant)) for participant in _participants(messages)}
    wide = max(map(len, names.values()))
    shown: int | None = None
    for message in messages:
        when = clock_time(message.at) if message.at != shown else ""
        shaft = "   " if message.source == message.target else "<--" if message.is_response else "-->"
        ends = (message.target, message.source) if message.is_response else (message.source, message.target)
        other = "" if message.source == message.target else names[ends[1]]
        text = clean(f"{message.text}  {message.detail}").rstrip()
        lines.append(f"{when:<12}  {names[ends[0]]:>{wide}} {shaft} {other:<{wide}}  {text}")
        shown = message.at
    if record.omitted:
        lines.append(f"({record.omitted} events in the middle are left out)")
    return "\n".join(lines)


def _mermaid(record: ChargeEvents, messages: list[Message], participants: list[Participant]) -> str:
    ids = {participant: f"p{place}" for place, participant in enumerate(participants)}
    lines = ["sequenceDiagram"]
    for participant in participants:
        kind = "actor" if participant[0] == PAYER else "participant"
        lines.append(f"    {kind} {ids[participant]} as {mermaid_text(_name(participant), 30)}")
    shown: int | None = None
    for message in messages:
        if shown is not None and message.at - shown >= _NOTABLE_MS:
            over = f"{ids[participants[0]]},{ids[participants[-1]]}" if len(participants) > 1 else ids[participants[0]]
            lines.append(f"    Note over {over}: {mermaid_text(span_in_words(message.at - shown))} later")
        words = mermaid_text(f"{message.text}, {message.detail}" if message.detail else message.text)
        if message.source == message.target:
            lines.append(f"    Note over {ids[message.source]}: {words}")
        else:
            shaft = "-->>" if message.is_response else "-x" if message.tone not in (OPEN, GOOD, PLAIN) else "->>"
            lines.append(f"    {ids[message.source]}{shaft}{ids[message.target]}: {words}")
        shown = message.at
    if record.omitted:
        lines.append(f"    Note over {ids[participants[0]]}: {record.omitted} events in the middle are left out")
    return "\n".join(lines)
