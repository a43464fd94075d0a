"""The network drawing for direct payments: every payer is one hop from the node."""

from __future__ import annotations

from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.svg import (
    GOOD,
    MARGIN,
    NOTE_LINE,
    OPEN,
    OTHER,
    arrow,
    headline,
    line,
    notes,
    rect,
    sat,
    svg_root,
    text_at,
)
from leyden.lab.drawings.text_metrics import clean, mermaid_text
from leyden.repr_tables import left_out
from leyden.server.html import Html, tag
from leyden.world.world import World

_TOP, _MOST_NAMES, _WIDTH = 100, 5, 620


def direct(world: World) -> Drawing:
    """The network drawing of a world with direct payments."""
    payers = sorted({row["payer"] for row in world.payments.rows})
    shown = payers[:_MOST_NAMES] or ["any payer"]
    title, why = "Payments are direct", "every payer is one hop from the node, and no channel limits the amount"
    received = f"the node received {sat(world.node.balance_msat)} so far"
    more = [left_out(len(payers) - len(shown), "more payer")] if len(payers) > len(shown) else []
    middle, foot = _TOP + (len(shown) - 1) * 22.0, _TOP + len(shown) * 44.0
    drawn = headline(title, why, _WIDTH)
    for place, payer in enumerate(shown):
        y = _TOP + place * 44.0
        drawn += [_box(MARGIN + 58, y, payer, OTHER), line(MARGIN + 116, y, 260, middle, GOOD, width=1.4)]
    drawn += [arrow(260, middle, 340, GOOD), _box(400, middle, "node", OPEN), *notes([received, *more], foot, _WIDTH)]
    svg = svg_root(_WIDTH, foot + (1 + len(more)) * NOTE_LINE, f"{title}: {why}", *drawn)
    arrows = [f'    p{place}["{mermaid_text(payer, 30)}"] --> shop' for place, payer in enumerate(shown)]
    names = ", ".join(clean(payer) for payer in shown)
    text = [f"{title}: {why}", f"  {names} --> node", f"  {received}", *more]
    return Drawing(svg, "\n".join(["graph LR", '    shop["node"]', *arrows]), "\n".join(text))


def _box(x: float, y: float, name: str, tone: str) -> Html:
    frame = rect(x - 58, y - 15, 116, 30, 8, tone, ".2", stroke_width=1.6)
    return tag("g", frame, text_at(x, y + 4.5, name, 106, bold=True, anchor="middle"))
