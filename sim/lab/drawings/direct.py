"""The network drawing for direct payments: every payer is one hop from the node."""

from __future__ import annotations

from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.lanes import MARGIN
from leyden.lab.drawings.mermaid import mermaid_text
from leyden.lab.drawings.svg import COLOURS, GOOD, OPEN, OTHER, arrow, coord, line, sat, svg_root, text_at
from leyden.lab.drawings.text_metrics import TextRun, clean
from leyden.server.html import Html, tag
from leyden.world.world import World

_TOP, _MOST_NAMES = 100, 5


def direct(world: World) -> Drawing:
    """The network drawing of a world with direct payments."""
    payers = sorted({row["payer"] for row in world.payments.rows})
    shown = payers[:_MOST_NAMES] or ["any payer"]
    title = "Payments are direct"
    why = "every payer is one hop from the node, and no channel limits the amount"
    received = f"the node received {sat(world.node.balance_msat)} so far"
    more = [f"{len(payers) - len(shown)} more payers are left out"] if len(payers) > len(shown) else []
    width, middle = 620, _TOP + (len(shown) - 1) * 22.0
    head = [
        text_at(MARGIN, 30, [TextRun(title, bold=True)], max_width=width, size=16),
        text_at(MARGIN, 52, [TextRun(why, soft=True)], max_width=width - 2 * MARGIN, size=12.5),
    ]
    drawn: list[Html] = []
    for place, payer in enumerate(shown):
        y = _TOP + place * 44.0
        drawn += [_plain_box(MARGIN + 58, y, payer, OTHER), line(MARGIN + 116, y, 260, middle, GOOD, width=1.4)]
    drawn += [arrow(260, middle, 340, GOOD), _plain_box(400, middle, "node", OPEN)]
    foot = _TOP + len(shown) * 44.0
    notes = [
        text_at(MARGIN, foot + place * 17, [TextRun(text, soft=True)], max_width=width, size=11.5)
        for place, text in enumerate([received, *more])
    ]
    svg = svg_root(width, foot + len(notes) * 17, f"{title}: {why}", *head, *drawn, *notes)
    source = [
        "graph LR",
        '    shop["node"]',
        *(f'    p{i}["{mermaid_text(payer, 30)}"] --> shop' for i, payer in enumerate(shown)),
    ]
    text = "\n".join(
        [f"{title}: {why}", f"  {', '.join(clean(payer) for payer in shown)} --> node", f"  {received}", *more]
    )
    return Drawing(svg, "\n".join(source), text)


def _plain_box(x: float, y: float, name: str, tone: str) -> Html:
    size = {"x": coord(x - 58), "y": coord(y - 15), "width": "116", "height": "30", "rx": "8"}
    frame = tag("rect", **size, fill=COLOURS[tone], fill_opacity=".2", stroke=COLOURS[tone], stroke_width="1.6")
    return tag("g", frame, text_at(x, y + 4.5, [TextRun(name, bold=True)], max_width=106, anchor="middle"))
