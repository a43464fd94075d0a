"""Schedule drawings: all scheduled events in order, and the past and future attempts of each pending message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leyden.callbacks.faults.faults import TIMER as FAULT
from leyden.callbacks.receivers import TIMER as RESPONSE
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.events.callback_events import callback_waits, host_of, response_of, rule_of
from leyden.lab.drawings.events.payment_events import CALLBACK, CLIENT, HOPS, NODE, PAYER, SERVICE, Event
from leyden.lab.drawings.lanes import WIDTH, LaneRows, mermaid_timeline
from leyden.lab.drawings.svg import (
    MARGIN,
    OPEN,
    OTHER,
    WAIT,
    clock_time,
    dated_time,
    day,
    dot,
    headline,
    line,
    sat,
    svg_root,
    text_at,
)
from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean
from leyden.repr_tables import counted, left_out
from leyden.server.callbacks.attempts import Attempt, AttemptLog
from leyden.server.callbacks.deliveries import LOST, PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.html import Html, tag
from leyden.server.timestamps import span_in_words
from leyden.world.time.timers import Timer
from leyden.world.world import World

_MAX_EVENTS, _MAX_DELIVERIES = 20, 5
_BEFORE, _MAX_MARKS = 8, 12
_STRIP = 92


class Action(NamedTuple):
    """What a program does with its sandbox at an instant: what it is called, and whether it is done again."""

    at: int
    name: str
    again: str


def schedule(world: World, actions: Sequence[Action] = ()) -> Drawing:
    """The scheduled events of the clock, the `actions` of a program, and the retry schedule of the pending messages."""
    timers = world.clock.upcoming(_MAX_EVENTS + 1)
    total = len(timers) if len(timers) <= _MAX_EVENTS else len(world.clock.snapshot()["timers"])
    total += len(actions)
    found = [_event(world, timer) for timer in timers[:_MAX_EVENTS]]
    found += [Event(one.at, (), CLIENT, SERVICE, f"action: {one.name}", one.again, OTHER) for one in actions]
    events = sorted(found, key=lambda event: event.at)[:_MAX_EVENTS]  # an action is after what is due at its instant
    now = world.clock.now()
    rows = LaneRows()
    rows.now(now, "now")
    rows.y += 4
    rows.lines = [f"{clock_time(now)}  -- now, {day(now)} --"]
    for event in events:
        rows.event(event, ahead=True)
    if total > len(events):
        rows.omission(total - len(events), "later event")
    title = counted(total, "scheduled event") if total else "Nothing is scheduled"
    below = [TextRun("now it is ", soft=True), TextRun(f"{day(now)} {clock_time(now)} UTC", mono=True)]
    drawn = [*headline(title, below, WIDTH, size=12), *rows.svg_parts()]
    strips, lines, foot = _pending_callbacks(world, rows.y + 30)
    svg = svg_root(WIDTH, foot + 4, f"Schedule: {title}", *drawn, *strips)
    return Drawing(svg, mermaid_timeline(title, events), "\n".join([title, *rows.lines, *lines]))


def _event(world: World, timer: Timer) -> Event:
    """A timer of the clock as an event."""
    if timer.kind in (RESPONSE, FAULT):
        for kind, key, event in callback_waits(world):
            if (kind, key) == (timer.kind, timer.key):
                return event._replace(at=timer.due_ms, rank=(timer.priority, timer.sequence))
    source, target, words, more, tone = _describe(world, timer.kind, timer.key)
    return Event(timer.due_ms, (timer.priority, timer.sequence), source, target, words, more, tone)


_DESCRIPTIONS = {
    "mpp_timeout": (NODE, NODE, "the node stops waiting for the missing parts", "they are returned to the payer", WAIT),
    "hold_deadline": (
        NODE,
        NODE,
        "the node holds the payment no longer",
        "it is returned to the payer, if it is held until then",
        WAIT,
    ),
    "network": (HOPS, HOPS, "next event of the network", "a payment is in flight", OPEN),
    "network_background": (HOPS, HOPS, "background traffic", "a payment of others, or the shop sends", PLAIN),
    "traffic": (PAYER, PAYER, "the next customer arrives", "", OPEN),
    "traffic_return": (PAYER, PAYER, "a customer comes back", "", OPEN),
}


def _describe(world: World, kind: str, key: str) -> tuple[str, str, str, str, str]:
    charges, statics = world.service.charges.charges, world.service.static_charges.static_charges
    if kind == "charge_expiry" and (charge := charges.row(key)) is not None:
        described = f" · “{charge['description']}”" if charge["description"] else ""
        return SERVICE, SERVICE, "Charge expires", sat(charge["amount_msat"]) + described, WAIT
    if kind == "static_charge_expiry" and (static := statics.row(key)) is not None:
        return SERVICE, SERVICE, "Static Charge expires", f"“{static['description']}”", WAIT
    if kind == "callback" and (delivery := world.service.outbox.delivery(key)) is not None:
        number = AttemptLog(delivery).attempt_count + 1
        words, more = f"callback {number}", f"{delivery['event']} to {host_of(delivery['url'])}"
        if forbidden := world.transport.forbidden_note(delivery["url"]):
            return SERVICE, SERVICE, f"{words} is blocked", f"{more}: {rule_of(forbidden)}", WAIT
        return SERVICE, CALLBACK, words, more, OPEN
    if kind in ("payment", "payment_patience") and (row := world.payments.rows.row(key)) is not None:
        verb, tone = ("gives up", WAIT) if kind == "payment_patience" else ("pays", OPEN)
        amount = "amount unknown" if row["amount_msat"] is None else sat(row["amount_msat"])
        return PAYER, PAYER, f"{row['payer']} {verb}", amount, tone
    return _DESCRIPTIONS.get(kind, (SERVICE, SERVICE, kind.replace("_", " "), key, PLAIN))


def _pending_callbacks(world: World, y: float) -> tuple[list[Html], list[str], float]:
    """The attempts of each pending message, from `y` down: as SVG, as text, and the y coordinate below them."""
    pending = [row for row in world.service.outbox.deliveries() if row["status"] == PENDING]
    if not pending:
        return [], [], y
    pending.sort(key=lambda row: (row["due_at"] is not None, row["due_at"] or 0, row["sequence"], row["id"]))
    drawn = [text_at(MARGIN, y, "Pending callbacks", WIDTH, bold=True, size=14)]
    lines: list[str] = []
    for row in pending[:_MAX_DELIVERIES]:
        marks = _attempt_marks(world, row)
        drawn.append(_strip(row, marks, y + 28))
        lines.append(_strip_text(row, marks))
        y += _STRIP
    if len(pending) > _MAX_DELIVERIES:
        more = left_out(len(pending) - _MAX_DELIVERIES, "more message")
        drawn.append(text_at(MARGIN, y + 26, more, WIDTH, soft=True, size=12))
        lines.append(f"... {more}")
        y += 24
    return drawn, lines, y + 12


class _Mark(NamedTuple):
    """The mark of one attempt: completed, in flight, due, or in the future (`far`)."""

    above: str
    word: str
    below: str
    tone: str
    hollow: bool = True
    far: bool = False


class _Marks(NamedTuple):
    """The attempts of a message in order, and how many before and after them are not shown."""

    shown: list[_Mark]
    earlier: int
    later: int


def _attempt_marks(world: World, row: DeliveryRow) -> _Marks:
    operations = world.service.contract.operations.values()
    rule = next(each.delivery for one in operations for each in one.callbacks if each.name == row["rule"])
    attempts = AttemptLog(row).attempts()[row.get("replayed_from", 0) :]
    first_number = row.get("replayed_from", 0) + 1
    marks = [
        _attempt_mark(world, attempt, is_dropped=world.faults.hits.is_dropped(row["id"], number))
        for number, attempt in enumerate(attempts, first_number)
    ]
    counted = sum(attempt.error != LOST for attempt in attempts)
    following = rule.delays_ms[counted:]
    if row["due_at"] is not None:
        pause = following[0] if following else 0
        marks.append(_Mark(_wait(pause), "due", _when(world, row["due_at"]), OPEN))
        following = following[1:]
        if forbidden := world.transport.forbidden_note(row["url"]):  # the first attempt ends it
            following = ()
            marks.append(_Mark("", "then blocked", rule_of(forbidden), WAIT, far=True))
    vary = f"±{rule.jitter * 100:g} %" if rule.jitter else ""
    marks += [_Mark(_wait(pause), "later", vary if pause else "", PLAIN, far=True) for pause in following]
    first = max(0, min(len(attempts) - _BEFORE, len(marks) - _MAX_MARKS))
    return _Marks(marks[first : first + _MAX_MARKS], first, max(0, len(marks) - first - _MAX_MARKS))


def _attempt_mark(world: World, attempt: Attempt, *, is_dropped: bool) -> _Mark:
    if attempt.ended_at is None:
        return _Mark("", "dropped" if is_dropped else "in flight", _when(world, attempt.at), WAIT)
    answer, tone = response_of(attempt)
    return _Mark("", answer, _when(world, attempt.at), tone, hollow=False)


def _wait(pause_ms: int) -> str:
    return f"+ {span_in_words(pause_ms)}" if pause_ms else ""


def _when(world: World, at: int) -> str:
    """The time, with the date when it is not today."""
    return dated_time(at, world.clock.now())


def _strip(row: DeliveryRow, marks: _Marks, y: float) -> Html:
    title = [
        TextRun(row["event"], bold=True),
        TextRun(f"  to {row['url']}  "),
        TextRun(row["id"], mono=True, soft=True),
    ]
    drawn = [text_at(MARGIN, y, title, WIDTH - 2 * MARGIN - 150, size=12)]
    step = (WIDTH - 2 * MARGIN - 80) / max(9, len(marks.shown) - 1)
    left, middle = MARGIN + 36.0, y + 30
    for place, mark in enumerate(marks.shown):
        x = left + place * step
        if place:
            start, end, dashes = x - step + 8, x - 8, "2 4" if mark.far else None
            drawn.append(line(start, middle, end, middle, width=1.3, stroke_opacity=".5", stroke_dasharray=dashes))
        if mark.above and place:
            drawn.append(_small(x - step / 2, middle - 6, mark.above, step - 16, soft=True))
        parts = [
            dot(x, middle, mark.tone, hollow=mark.hollow, r=5.2),
            _small(x, middle + 18, mark.word, step - 4, bold=not mark.far),
            _small(x, middle + 31, mark.below, step - 4, soft=True),
        ]
        drawn.append(tag("g", *parts, opacity=".85" if mark.far else None))
    hidden = [f"{marks.earlier} earlier" if marks.earlier else "", f"{marks.later} later" if marks.later else ""]
    if any(hidden):
        omitted = f"{' and '.join(filter(None, hidden))} not shown"
        drawn.append(_small(WIDTH - MARGIN - 70, y, omitted, 140, soft=True))
    return tag("g", *drawn)


def _small(x: float, y: float, words: str, room: float, **style: bool) -> Html:
    return text_at(x, y, words, room, size=10.5, anchor="middle", **style)


def _strip_text(row: DeliveryRow, marks: _Marks) -> str:
    attempts = [f"... {marks.earlier} earlier"] if marks.earlier else []
    attempts += [" ".join(filter(None, (mark.above, mark.word, mark.below))) for mark in marks.shown]
    attempts += [f"... {marks.later} later"] if marks.later else []
    return clean(f"{row['event']} to {row['url']}: {' | '.join(attempts)}")
