"""Schedule drawings: all scheduled events in order, and the past and future attempts of each pending message."""

from __future__ import annotations

from collections.abc import Iterator

from leyden.lab.drawings.charge_events import host_of
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.lanes import MARGIN, WIDTH, LaneRows, mermaid_timeline, text_lines
from leyden.lab.drawings.payment_events import CALLBACK, HOPS, NODE, PAYER, SERVICE, Event
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, OTHER, WAIT, clock_time, day, dot, line, sat, svg_root, text_at
from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean
from leyden.server.callbacks.attempts import Attempt, AttemptLog
from leyden.server.callbacks.deliveries import LOST, PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.contract.types import DeliveryRule
from leyden.server.docs.tables import span_in_words
from leyden.server.html import Html, tag
from leyden.world.timers import Timer
from leyden.world.world import World

_MAX_EVENTS, _MAX_DELIVERIES = 20, 5
_BEFORE, _MAX_MARKS = 8, 12
_STRIP = 92
_LEFT_OUT = "later events are left out"


def schedule(world: World) -> Drawing:
    """The scheduled events of the clock, and the retry schedule of the pending messages."""
    timers = world.clock.upcoming(_MAX_EVENTS + 1)
    total = len(timers)
    if total > _MAX_EVENTS:
        total = len(world.clock.snapshot()["timers"])
    steps = [_event(world, timer) for timer in timers[:_MAX_EVENTS]]
    pending = [row for row in world.service.outbox.deliveries() if row["status"] == PENDING]
    pending.sort(key=lambda row: (row["due_at"] is not None, row["due_at"] or 0, row["sequence"], row["id"]))
    now = world.clock.now()
    title = f"{total:,} scheduled events" if total != 1 else "1 scheduled event"
    if not total:
        title = "Nothing is scheduled"
    svg = _svg(world, title, now, steps, total - len(steps), pending)
    return Drawing(svg, mermaid_timeline(title, steps), _text(world, title, now, steps, total - len(steps), pending))


def _event(world: World, timer: Timer) -> Event:
    """A timer of the clock as an event."""
    source, target, words, more, tone = _describe(world, timer.kind, timer.key)
    return Event(timer.due_ms, (timer.priority, timer.sequence), source, target, words, more, tone)


def _describe(world: World, kind: str, key: str) -> tuple[str, str, str, str, str]:
    charges, statics = world.service.charges.charges, world.service.static_charges.static_charges
    if kind == "charge_expiry" and (charge := charges.row(key)) is not None:
        return SERVICE, SERVICE, "Charge expires", _about(charge["amount_msat"], charge["description"]), WAIT
    if kind == "static_charge_expiry" and (static := statics.row(key)) is not None:
        return SERVICE, SERVICE, "Static Charge expires", f"“{static['description']}”", WAIT
    if kind == "callback" and (delivery := world.service.outbox.delivery(key)) is not None:
        number = AttemptLog(delivery).attempt_count + 1
        return SERVICE, CALLBACK, f"callback {number}", f"{delivery['event']} to {host_of(delivery['url'])}", OPEN
    if kind in ("payment", "payment_patience") and (row := world.payments.rows.row(key)) is not None:
        words = f"{row['payer']} gives up" if kind == "payment_patience" else f"{row['payer']} pays"
        return PAYER, PAYER, words, sat(row["amount_msat"] or 0), WAIT if kind == "payment_patience" else OPEN
    known = {
        "mpp_timeout": (
            NODE,
            NODE,
            "the node stops pending for the missing parts",
            "they are returned to the payer",
            WAIT,
        ),
        "network": (HOPS, HOPS, "the network forwards", "a payment is in flight", OPEN),
        "receiver_answer": (CALLBACK, SERVICE, "a receiver responds", "", PLAIN),
        "fault": (CALLBACK, CALLBACK, "a fault applies", "", OTHER),
        "traffic": (PAYER, PAYER, "the next customer arrives", "", OPEN),
    }
    return known.get(kind, (SERVICE, SERVICE, kind.replace("_", " "), key, PLAIN))


def _about(amount_msat: int, description: str) -> str:
    return sat(amount_msat) + (f" · “{description}”" if description else "")


def _svg(world: World, title: str, now: int, steps: list[Event], left_out: int, pending: list[DeliveryRow]) -> Html:
    rows = LaneRows()
    rows.now(now, "now")
    rows.y += 4
    for step in steps:
        rows.event(step, ahead=True)
    if left_out:
        rows.omission(left_out, _LEFT_OUT)
    used = [lane for step in steps for lane in (step.source, step.target)]
    drawn = rows.svg_parts(used)
    y = rows.y + 30
    if pending:
        drawn.append(text_at(MARGIN, y, [TextRun("Pending callbacks", bold=True)], max_width=WIDTH, size=14))
        for row in pending[:_MAX_DELIVERIES]:
            drawn.append(_strip(world, row, y + 28))
            y += _STRIP
        if len(pending) > _MAX_DELIVERIES:
            more = f"{len(pending) - _MAX_DELIVERIES} more messages are left out"
            drawn.append(text_at(MARGIN, y + 26, [TextRun(more, soft=True)], max_width=WIDTH, size=12))
            y += 24
        y += 12
    now_text = f"{day(now)} {clock_time(now)} UTC"
    head = [
        text_at(MARGIN, 30, [TextRun(title, bold=True)], max_width=WIDTH, size=16),
        text_at(MARGIN, 52, [TextRun("now it is ", soft=True), TextRun(now_text, mono=True)], max_width=WIDTH, size=12),
    ]
    return svg_root(WIDTH, y + 4, f"Schedule: {title}", *head, *drawn)


class _AttemptMark:
    """The mark of one attempt: completed, in flight, due, or in the future."""

    def __init__(
        self, above: str, word: str, below: str, tone: str, *, hollow: bool = False, far: bool = False
    ) -> None:
        self.above, self.word, self.below = above, word, below
        self.tone, self.hollow, self.far = tone, hollow, far


def _attempt_marks(world: World, row: DeliveryRow) -> tuple[list[_AttemptMark], int, int]:
    """The attempts of a message in order, and how many before and after them are not shown."""
    rule = _rule(world, row)
    attempts = AttemptLog(row).attempts()[row.get("replayed_from", 0) :]
    spots = [_attempt_mark(attempt) for attempt in attempts]
    counted = sum(attempt.error != LOST for attempt in attempts)
    following = rule.delays_ms[counted:]
    if row["due_at"] is not None:
        pause = following[0] if following else 0
        spots.append(_AttemptMark(_wait(pause), "due", _when(world, row["due_at"]), OPEN, hollow=True))
        following = following[1:]
    vary = f"±{rule.jitter * 100:g} %" if rule.jitter else ""
    spots += [
        _AttemptMark(_wait(pause), "later", vary if pause else "", PLAIN, hollow=True, far=True) for pause in following
    ]
    first = max(0, min(len(attempts) - _BEFORE, len(spots) - _MAX_MARKS))
    return spots[first : first + _MAX_MARKS], first, max(0, len(spots) - first - _MAX_MARKS)


def _rule(world: World, row: DeliveryRow) -> DeliveryRule:
    rules = (rule for operation in world.service.contract.operations.values() for rule in operation.callbacks)
    return next(rule.delivery for rule in rules if rule.name == row["rule"])


def _attempt_mark(attempt: Attempt) -> _AttemptMark:
    if attempt.ended_at is None:
        return _AttemptMark("", "sent", clock_time(attempt.at), WAIT, hollow=True)
    good = attempt.status is not None and 200 <= attempt.status <= 299
    return _AttemptMark("", str(attempt.status or attempt.error), clock_time(attempt.at), GOOD if good else BAD)


def _wait(pause_ms: int) -> str:
    return f"+ {span_in_words(pause_ms)}" if pause_ms else ""


def _when(world: World, at: int) -> str:
    """The time, with the date when it is not today."""
    return clock_time(at) if day(at) == day(world.clock.now()) else f"{day(at)[5:]} {clock_time(at)[:8]}"


def _strip(world: World, row: DeliveryRow, y: float) -> Html:
    spots, before, after = _attempt_marks(world, row)
    title = [
        TextRun(row["event"], bold=True),
        TextRun(f"  to {row['url']}  "),
        TextRun(row["id"], mono=True, soft=True),
    ]
    drawn: list[Html] = [text_at(MARGIN, y, title, max_width=WIDTH - 2 * MARGIN - 150, size=12)]
    step = (WIDTH - 2 * MARGIN - 80) / max(9, len(spots) - 1)
    left, middle = MARGIN + 36.0, y + 30
    for place, spot in enumerate(spots):
        x = left + place * step
        if place:
            dashes = "2 4" if spot.far else None
            drawn.append(
                line(x - step + 8, middle, x - 8, middle, width=1.3, stroke_opacity=".5", stroke_dasharray=dashes)
            )
        if spot.above and place:
            drawn.append(_small(x - step / 2, middle - 6, spot.above, step - 16, soft=True))
        mark = [
            dot(x, middle, spot.tone, hollow=spot.hollow, r=5.2),
            _small(x, middle + 18, spot.word, step - 4, bold=not spot.far),
            _small(x, middle + 31, spot.below, step - 4, soft=True),
        ]
        drawn.append(tag("g", *mark, opacity=".85" if spot.far else None))
    hidden = [f"{before} earlier" if before else "", f"{after} later" if after else ""]
    omitted = " and ".join(part for part in hidden if part)
    if omitted:
        drawn.append(_small(WIDTH - MARGIN - 70, y, f"{omitted} not shown", 140, soft=True))
    return tag("g", *drawn)


def _small(x: float, y: float, text: str, room: float, *, bold: bool = False, soft: bool = False) -> Html:
    return text_at(x, y, [TextRun(text, bold=bold, soft=soft)], max_width=room, size=10.5, anchor="middle")


def _text(world: World, title: str, now: int, steps: list[Event], left_out: int, pending: list[DeliveryRow]) -> str:
    lines = [title, f"{clock_time(now)}  -- now, {day(now)} --"]
    shown = now
    for step in steps:
        lines += text_lines(step, shown)
        shown = step.at
    if left_out:
        lines.append(f"{'':14}... {left_out} {_LEFT_OUT}")
    lines += _delivery_lines(world, pending)
    return "\n".join(lines)


def _delivery_lines(world: World, pending: list[DeliveryRow]) -> Iterator[str]:
    for row in pending[:_MAX_DELIVERIES]:
        spots, before, after = _attempt_marks(world, row)
        attempts = [f"... {before} earlier"] if before else []
        attempts += [" ".join(part for part in (spot.above, spot.word, spot.below) if part) for spot in spots]
        attempts += [f"... {after} later"] if after else []
        yield clean(f"{row['event']} to {row['url']}: {' | '.join(attempts)}")
    if len(pending) > _MAX_DELIVERIES:
        yield f"... {len(pending) - _MAX_DELIVERIES} more messages are left out"
