"""The sequence diagram: who said what to whom, one message below the other."""

from __future__ import annotations

from typing import NamedTuple

from leyden.lab.drawings.charge_events import Story, story_of
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.mermaid import said
from leyden.lab.drawings.payment_events import CALLBACK, CLIENT, HOPS, NODE, PAYER, SERVICE, Step
from leyden.lab.drawings.svg import (
    GOOD,
    OPEN,
    arrow,
    clock_time,
    day,
    dot,
    line,
    n,
    sheet,
    write,
)
from leyden.lab.drawings.text_metrics import PLAIN, Run, clean, lines_of, width_of
from leyden.lab.drawings.timelines import head_of, title_of
from leyden.server.docs.tables import span_in_words
from leyden.server.html import Html, tag
from leyden.world.world import World

_GUTTER, _MARGIN, _TOP = 124, 18, 76
_BOX_WIDE, _BOX_TALL = 112, 34
_NARROWEST, _WIDEST = 128, 196
_SIZE, _LINE, _LINES = 12, 15.5, 3
_MOST_PAYERS = 4
_OTHERS = "others"
_NOTABLE_MS = 1_000
# The order from left to right; payers and receivers have a name of their own.
_ORDER = (PAYER, HOPS, NODE, SERVICE, CLIENT, CALLBACK)
_CALLED = {HOPS: "network", NODE: "node", SERVICE: "service", CLIENT: "your program"}

Who = tuple[str, str]


class Message(NamedTuple):
    """One line of the diagram: `back` is an answer, which is drawn dashed."""

    at: int
    source: Who
    target: Who
    words: str
    more: str
    tone: str
    back: bool = False


def sequence(world: World, charge_id: str) -> Drawing:
    """A Charge's sequence diagram: who of its payers, the network, the node, the service and the receiver said what.

    Raises `DrawingError` for an id that is no Charge's.
    """
    story = story_of(world, charge_id)
    messages = _messages(story)
    people = _people(messages)
    return Drawing(_Sequence(story, messages, people).svg(), _mermaid(story, messages, people), _text(story, messages))


def _messages(story: Story) -> list[Message]:
    payers = list(dict.fromkeys(step.actor for step in story.steps if PAYER in (step.source, step.target)))
    known = set(payers if len(payers) <= _MOST_PAYERS else payers[: _MOST_PAYERS - 1])

    def who(lane: str, step: Step) -> Who:
        if lane == PAYER:
            return lane, (step.actor if step.actor in known else _OTHERS) if step.actor else "payer"
        return lane, step.actor if lane == CALLBACK else ""

    messages: list[Message] = []
    for step in story.steps:
        source, target = who(step.source, step), who(step.target, step)
        tone = OPEN if step.answer else step.tone
        # Whoever shares a column is named in what he does.
        words = step.words if (PAYER, _OTHERS) in (source, target) else step.deed
        messages.append(Message(step.at, source, target, words, step.more, tone))
        if step.answer:
            messages.append(Message(step.at, target, source, step.answer, "", step.tone, back=True))
    return messages


def _people(messages: list[Message]) -> list[Who]:
    seen = dict.fromkeys(who for message in messages for who in (message.source, message.target))
    return sorted(seen, key=lambda who: _ORDER.index(who[0]))


def _name(who: Who) -> str:
    return who[1] or _CALLED[who[0]]


def _runs(message: Message) -> list[Run]:
    runs = [Run(message.words, bold=True, tone=message.tone if message.back else PLAIN)]
    return [*runs, Run(" " + message.more, soft=True)] if message.more else runs


class _Sequence:
    """The picture while it is drawn, from the top down."""

    def __init__(self, story: Story, messages: list[Message], people: list[Who]) -> None:
        self.story = story
        self.messages = messages
        self.people = people
        self.gaps = self._widths()
        self.xs = [_GUTTER + _BOX_WIDE / 2 + sum(self.gaps[:place]) for place in range(len(people))]
        self.width = _GUTTER + _BOX_WIDE / 2 + sum(self.gaps) + _MARGIN

    def _gap_of(self, message: Message) -> int:
        """The gap between two people that a message is written in: the last it crosses, or the one to the right."""
        source, target = self.people.index(message.source), self.people.index(message.target)
        return source if source == target else max(source, target) - 1

    def _widths(self) -> list[float]:
        """The room to the right of each person: wide enough for what is written there, within reason."""
        widths = [float(_NARROWEST)] * len(self.people)
        widths[-1] = _BOX_WIDE / 2
        for message in self.messages:
            gap = self._gap_of(message)
            wide = sum(width_of(clean(run.text), _SIZE, bold=run.bold) for run in _runs(message)) + 34
            widths[gap] = max(widths[gap], min(wide, _WIDEST))
        return widths

    def svg(self) -> Html:
        y = float(_TOP + _BOX_TALL + 8)
        drawn: list[Html] = []
        shown: int | None = None
        for place, message in enumerate(self.messages):
            if self.story.left_out and place == self._place_left_out():
                words = [Run(f"{self.story.left_out} steps are left out here", bold=True)]
                drawn.append(write(self.xs[0] + 12, y + 18, words, room=self.width, size=_SIZE))
                y += 34
            if shown is not None and message.at - shown >= _NOTABLE_MS:
                drawn.append(self._pause(y + 16, message.at - shown))
                y += 26
            label = lines_of(_runs(message), self.gaps[self._gap_of(message)] - 26, _SIZE, _LINES)
            y += len(label) * _LINE + 13
            if message.at != shown:
                time = [Run(clock_time(message.at), mono=True)]
                drawn.append(write(_MARGIN, y + 4, time, room=_GUTTER, size=11))
            drawn.append(self._message(message, y, len(label)))
            shown = message.at
        if not self.messages:
            drawn.append(write(_GUTTER, y + 20, "nothing has happened yet", room=400, size=_SIZE))
        foot = y + 22
        lifelines = [line(x, _TOP + _BOX_TALL, x, foot, stroke_opacity=".22") for x in self.xs]
        boxes = [self._box(place, _TOP) for place in range(len(self.people))]
        if foot > 700:
            boxes += [self._box(place, foot) for place in range(len(self.people))]
            foot += _BOX_TALL
        what = f"Sequence diagram of a Charge: {len(self.messages)} messages, now {self.story.charge['status']}"
        width = max(self.width, 460.0)
        head = head_of(self.story, width, f"{day(self.story.charge['created_at'])}  ")
        return sheet(width, foot + _MARGIN, what, *head, *lifelines, *boxes, *drawn)

    def _place_left_out(self) -> int:
        """Before which message the steps are missing that the story leaves out."""
        told = self.story.steps[: self.story.told]
        return len(told) + sum(bool(step.answer) for step in told)

    def _box(self, place: int, top: float) -> Html:
        who = self.people[place]
        x, left = self.xs[place], self.xs[place] - _BOX_WIDE / 2
        size = {"x": n(left), "y": n(top), "width": str(_BOX_WIDE), "height": str(_BOX_TALL), "rx": "7"}
        frame = tag(
            "rect", **size, fill="currentColor", fill_opacity=".07", stroke="currentColor", stroke_opacity=".45"
        )
        name = [Run(_name(who), bold=True)]
        room = _BOX_WIDE - 10
        role = {PAYER: "payer", CALLBACK: "receiver"}.get(who[0])
        if role is None or role == who[1]:
            return tag("g", frame, write(x, top + 21.5, name, room=room, anchor="middle"))
        small = write(x, top + 28, [Run(role, soft=True)], room=room, size=10, anchor="middle")
        return tag("g", frame, write(x, top + 16, name, room=room, anchor="middle"), small)

    def _pause(self, y: float, passed: int) -> Html:
        words = [Run(f"{span_in_words(passed)} later", soft=True)]
        text = write(_MARGIN, y + 4, words, room=_GUTTER - _MARGIN - 2, size=10.5)
        return tag("g", text, line(_GUTTER, y, self.width - _MARGIN, y, stroke_dasharray="1.4 4", stroke_opacity=".5"))

    def _message(self, message: Message, y: float, lines: int) -> Html:
        source, target = self.people.index(message.source), self.people.index(message.target)
        gap = self._gap_of(message)
        room = self.gaps[gap] - 26
        first = y - 7 - (lines - 1) * _LINE
        if source == target:
            mark = dot(self.xs[source], y - 4 - lines * _LINE / 2, message.tone)
            text = write(
                self.xs[source] + 12, y - lines * _LINE + 8, _runs(message), room=room, size=_SIZE, most=_LINES
            )
            return tag("g", mark, text)
        side = 3 if target > source else -3
        shaft = arrow(self.xs[source] + side, y, self.xs[target] - side, message.tone, dashed=message.back)
        middle = self.xs[gap] + self.gaps[gap] / 2
        return tag(
            "g", shaft, write(middle, first, _runs(message), room=room, size=_SIZE, anchor="middle", most=_LINES)
        )


def _text(story: Story, messages: list[Message]) -> str:
    lines = [f"{title_of(story)}, {story.charge['status']}  {story.charge['id']}"]
    names = {who: clean(_name(who)) for message in messages for who in (message.source, message.target)}
    wide = max([len(name) for name in names.values()] or [0])
    shown: int | None = None
    for message in messages:
        when = clock_time(message.at) if message.at != shown else ""
        shaft = "   " if message.source == message.target else "<--" if message.back else "-->"
        ends = (message.target, message.source) if message.back else (message.source, message.target)
        other = "" if message.source == message.target else names[ends[1]]
        told = clean(f"{message.words}  {message.more}").rstrip()
        lines.append(f"{when:<12}  {names[ends[0]]:>{wide}} {shaft} {other:<{wide}}  {told}")
        shown = message.at
    if story.left_out:
        lines.append(f"({story.left_out} steps in the middle are left out)")
    return "\n".join(lines)


def _mermaid(story: Story, messages: list[Message], people: list[Who]) -> str:
    ids = {who: f"p{place}" for place, who in enumerate(people)}
    lines = ["sequenceDiagram"]
    for who in people:
        kind = "actor" if who[0] == PAYER else "participant"
        lines.append(f"    {kind} {ids[who]} as {said(_name(who), 30)}")
    shown: int | None = None
    for message in messages:
        if shown is not None and message.at - shown >= _NOTABLE_MS:
            over = f"{ids[people[0]]},{ids[people[-1]]}" if len(people) > 1 else ids[people[0]]
            lines.append(f"    Note over {over}: {said(span_in_words(message.at - shown))} later")
        words = said(f"{message.words}, {message.more}" if message.more else message.words)
        if message.source == message.target:
            lines.append(f"    Note over {ids[message.source]}: {words}")
        else:
            shaft = "-->>" if message.back else "-x" if message.tone not in (OPEN, GOOD, PLAIN) else "->>"
            lines.append(f"    {ids[message.source]}{shaft}{ids[message.target]}: {words}")
        shown = message.at
    if story.left_out:
        lines.append(f"    Note over {ids[people[0]]}: {story.left_out} steps in the middle are left out")
    return "\n".join(lines)
