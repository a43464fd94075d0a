"""Timelines of a Charge: five lanes, time runs down, and gaps in time are labelled."""

from __future__ import annotations

from leyden.lab.drawings.charge_events import EVENTS_BEFORE_GAP, ChargeEvents, charge_events
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.lanes import WIDTH, LaneRows, mermaid_timeline
from leyden.lab.drawings.svg import MARGIN, headline, pill, svg_root
from leyden.lab.drawings.text_metrics import TextRun, clean, clip, text_width
from leyden.repr_tables import counted
from leyden.server.html import Html
from leyden.world.world import World


def timeline(world: World, charge_id: str) -> Drawing:
    """The timeline of a Charge: the events of its payers, the network's hops, the node, the service and the receiver.

    Scheduled events are below the present; those of the network are in the schedule only. Raises `DrawingError` for an
    unknown id.
    """
    record = charge_events(world, charge_id)
    charge, rows = record.charge, LaneRows()
    for place, event in enumerate(record.events):
        if record.omitted and place == EVENTS_BEFORE_GAP:
            rows.omission(record.omitted, "event", " here")
        rows.event(event)
    idle = "a payment is in flight" if record.in_flight else "nothing is scheduled"
    rows.now(record.now, "now" if record.scheduled else f"now, and {idle}")
    for event in record.scheduled:
        rows.event(event, ahead=True)
    if record.more_scheduled:
        rows.omission(record.more_scheduled, "scheduled event")
    rows.note(record.lost)
    title = f"{record.title}, {charge['status']}"
    what = f"Timeline of a Charge: {counted(len(record.events), 'event')}, now {charge['status']}"
    svg = svg_root(WIDTH, rows.y + 6 + MARGIN, what, *heading(record, WIDTH), *rows.svg_parts())
    described = f"  “{clip(clean(charge['description']), 400, 10)}”" if charge["description"] else ""
    text = "\n".join([f"{title}  {charge['id']}{described}", *rows.lines])
    return Drawing(svg, mermaid_timeline(f"{title}{record.lost and f'; {record.lost}'}", record.events), text)


def heading(record: ChargeEvents, width: float, before: str = "") -> list[Html]:
    """The title, the state, the id and the description."""
    charge = record.charge
    below = [TextRun(before, bold=True), TextRun(charge["id"], mono=True, soft=True)]
    if charge["description"]:
        below.append(TextRun(f"  “{charge['description']}”"))
    title, line = headline(record.title, below, width, size=12)
    beside = MARGIN + text_width(record.title, 16, bold=True) + 10
    return [title, pill(beside, 29, charge["status"], record.tone), line]
