"""Timelines of a Charge: five lanes, time runs down, and gaps in time are labelled.

09:00:00.000  |o--|---|-->|   |  ana pays ...
              |   |   |   |   |
   + 5 min    :   :   :   :   :
09:05:00.000  |   |   |   |-->|  callback 2 → 200
"""

from __future__ import annotations

from leyden.lab.drawings.charge_events import ChargeEvents, charge_events
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.lanes import MARGIN, WIDTH, LaneRows, gap_lines, mermaid_timeline, text_lines
from leyden.lab.drawings.svg import clock_time, pill, sat, svg_root, text_at
from leyden.lab.drawings.text_metrics import TextRun, clean, clip, text_width
from leyden.server.html import Html
from leyden.world.world import World

_LEFT_OUT = "events are left out here"


def timeline(world: World, charge_id: str) -> Drawing:
    """The timeline of a Charge: the events of its payers, the network's hops, the node, the service and the receiver.

    Scheduled events are below the present. Raises `DrawingError` for an unknown id.
    """
    record = charge_events(world, charge_id)
    title = f"{charge_title(record)}, {record.charge['status']}"
    return Drawing(_svg(record), mermaid_timeline(title, record.events), _text(record))


def charge_title(record: ChargeEvents) -> str:
    """The title of a drawing of a Charge."""
    return f"Charge of {sat(record.charge['amount_msat'])}"


def heading(record: ChargeEvents, width: float, before: str = "") -> list[Html]:
    """The title, the state, the id and the description."""
    charge, title = record.charge, charge_title(record)
    beside = MARGIN + text_width(title, 16, bold=True) + 10
    text = [TextRun(before, bold=True), TextRun(charge["id"], mono=True, soft=True)]
    if charge["description"]:
        text.append(TextRun(f"  “{charge['description']}”"))
    return [
        text_at(MARGIN, 30, [TextRun(title, bold=True)], max_width=width, size=16),
        pill(beside, 29, charge["status"], record.tone)[0],
        text_at(MARGIN, 52, text, max_width=width - 2 * MARGIN, size=12),
    ]


def _now(record: ChargeEvents) -> str:
    return "now" if record.scheduled else "now, and nothing is scheduled"


def _svg(record: ChargeEvents) -> Html:
    rows = LaneRows()
    for place, event in enumerate(record.events):
        if place == record.shown_before_gap and record.omitted:
            rows.omission(record.omitted, _LEFT_OUT)
        rows.event(event)
    rows.now(record.now, _now(record))
    for event in record.scheduled:
        rows.event(event, ahead=True)
    used = [lane for event in (*record.events, *record.scheduled) for lane in (event.source, event.target)]
    what = f"Timeline of a Charge: {len(record.events)} events, now {record.charge['status']}"
    return svg_root(WIDTH, rows.y + 6 + MARGIN, what, *heading(record, WIDTH), *rows.svg_parts(used))


def _text(record: ChargeEvents) -> str:
    charge = record.charge
    described = f"  “{clip(clean(charge['description']), 400, 10)}”" if charge["description"] else ""
    lines = [f"{charge_title(record)}, {charge['status']}  {charge['id']}{described}"]
    shown: int | None = None
    for place, event in enumerate(record.events):
        if place == record.shown_before_gap and record.omitted:
            lines.append(f"{'':14}... {record.omitted} {_LEFT_OUT}")
        lines += text_lines(event, shown)
        shown = event.at
    lines += [*gap_lines(record.now, shown), f"{clock_time(record.now)}  -- {_now(record)} --"]
    shown = record.now
    for event in record.scheduled:
        lines += text_lines(event, shown)
        shown = event.at
    return "\n".join(lines)
