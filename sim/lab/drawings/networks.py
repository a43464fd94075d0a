"""Network drawings: the nodes around the shop by distance, and the liquidity of their channels.

Every channel is a line whose thickness shows its capacity. It is filled from the far end by the balance that can move
towards the shop: a full line can bring its whole capacity, an empty one nothing.
"""

from __future__ import annotations

from math import log10

from leyden.lab.drawings.direct import direct
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.mermaid import mermaid_text
from leyden.lab.drawings.subgraph import NodePair, Subgraph, shop_subgraph
from leyden.lab.drawings.svg import (
    COLOURS,
    GOOD,
    OPEN,
    OTHER,
    WAIT,
    coord,
    line,
    svg_root,
    text_at,
)
from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean
from leyden.server.html import Html, tag
from leyden.world.world import World

_MARGIN, _TOP = 18, 100
_COLUMN, _ROW = 226, 58
_WIDE, _TALL = 108, 34
_MAX_NAMES = 5
# More links between nodes of equal distance are not drawn; a note gives their number.
_MAX_LEVEL_LINKS = 8

Positions = dict[int, tuple[float, float]]
Ports = dict[tuple[int, int], float]


def network(world: World) -> Drawing:
    """The world's Lightning network around the shop, with the present liquidity of every channel.

    Of a large network only the part near the shop is shown, with notes on what is left out.
    """
    engine = world.engine
    if engine is None:
        return direct(world)
    subgraph = shop_subgraph(world, engine)
    places = _positions(subgraph)
    return Drawing(_svg(subgraph, places), _mermaid(subgraph), _text(subgraph))


def compact(amount_msat: int) -> str:
    """A rounded amount in sat: 812, 8,120, 81k, 8.1M."""
    sat = amount_msat / 1_000
    if sat >= 999_500:
        return f"{sat / 1_000_000:,.1f}M"
    return f"{sat / 1_000:.0f}k" if sat >= 9_999.5 else f"{sat:,.0f}"


def _flow(pair: NodePair) -> str:
    in_flight = f", {compact(pair.in_flight_msat)} in flight" if pair.in_flight_msat else ""
    several = f" in {pair.channels} channels" if pair.channels > 1 else ""
    return f"{compact(pair.forward_msat)} of {compact(pair.capacity_msat)} sat{several}{in_flight}"


def _positions(subgraph: Subgraph) -> Positions:
    """The position of each node: a column per distance, the shop at the right, by the rows of their neighbours."""
    farthest = max(subgraph.hops.values())
    rows: dict[int, float] = {}
    tallest = max(list(subgraph.hops.values()).count(far) for far in range(farthest + 1))
    places: Positions = {}
    # Many channels to one node need more width.
    column_width = _COLUMN + max(0, tallest - 4) * 9
    for far in range(farthest + 1):
        column = [node for node, hops in subgraph.hops.items() if hops == far]
        beside = {
            node: [
                rows[pair.near]
                for pair in subgraph.pairs
                if pair.far == node and pair.near in rows and subgraph.hops[pair.near] < far
            ]
            for node in column
        }
        room = {node: sum(pair.capacity_msat for pair in subgraph.pairs if pair.far == node) for node in column}
        column.sort(key=lambda node: (sum(beside[node]) / max(1, len(beside[node])), -room[node], node))
        first = (tallest - len(column)) / 2
        for place, node in enumerate(column):
            rows[node] = first + place
            places[node] = (_MARGIN + _WIDE / 2 + (farthest - far) * column_width, _TOP + (rows[node] + 0.5) * _ROW)
    return places


def _svg(subgraph: Subgraph, places: Positions) -> Html:
    right = max(x for x, _ in places.values()) + _WIDE / 2
    width = max(right + _MARGIN, 620.0)
    shift = (width - _MARGIN - right) / 2 if right + _MARGIN < width else 0.0
    places = {node: (x + shift, y) for node, (x, y) in places.items()}
    foot = max(y for _, y in places.values()) + _ROW
    title = f"{_count(len(subgraph.names), 'node')}, {_count(subgraph.channels, 'channel')}"
    could = f"the shop can receive {compact(subgraph.inbound_msat)} sat and send {compact(subgraph.outbound_msat)} sat"
    head = [
        text_at(_MARGIN, 30, [TextRun(title, bold=True)], max_width=width, size=16),
        text_at(_MARGIN, 52, [TextRun(could, soft=True)], max_width=width - 2 * _MARGIN, size=12.5),
    ]
    columns = {subgraph.hops[node]: x for node, (x, _) in places.items()}
    for far, x in columns.items():
        named = "shop" if far == 0 else "1 hop" if far == 1 else f"{far} hops"
        head.append(text_at(x, _TOP - 14, [TextRun(named, soft=True)], max_width=_WIDE, size=11.5, anchor="middle"))
    ports = _ports(subgraph, places)
    level_links = _level_links(subgraph)
    tubes = [_channel_line(pair, subgraph, places, ports) for pair in subgraph.pairs if pair not in level_links]
    if len(level_links) <= _MAX_LEVEL_LINKS:
        tubes = [*(_level_link(pair, subgraph, places) for pair in level_links), *tubes]
    boxes = [_box(node, subgraph, places) for node in subgraph.hops]
    notes = _notes(subgraph)
    below = [_legend(width, foot), *(_note(text, foot + 26 + place * 17, width) for place, text in enumerate(notes))]
    what = f"The Lightning network around the shop: {len(subgraph.hops)} of {title}"
    return svg_root(width, foot + 26 + len(notes) * 17, what, *head, *tubes, *boxes, *below)


def _note(text: str, y: float, width: float) -> Html:
    return text_at(_MARGIN, y, [TextRun(text, soft=True)], max_width=width - 2 * _MARGIN, size=11.5)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _level_links(subgraph: Subgraph) -> list[NodePair]:
    """The channels between nodes of equal distance to the shop."""
    return [pair for pair in subgraph.pairs if subgraph.hops[pair.far] == subgraph.hops[pair.near]]


def _ports(subgraph: Subgraph, places: Positions) -> Ports:
    """The y coordinate at which each channel meets its node's box: (node, other node) -> y."""
    ports: Ports = {}
    for node, (_, y) in places.items():
        for side in (-1, 1):
            others = [
                pair.near if pair.far == node else pair.far for pair in subgraph.pairs if node in (pair.far, pair.near)
            ]
            others = [other for other in others if subgraph.hops[other] == subgraph.hops[node] - side]
            others.sort(key=lambda other: places[other][1])
            step = min(8.0, (_TALL - 10) / max(1, len(others) - 1))
            for place, other in enumerate(others):
                ports[node, other] = y + (place - (len(others) - 1) / 2) * step
    return ports


def _level_link(pair: NodePair, subgraph: Subgraph, places: Positions) -> Html:
    (x, y1), (_, y2) = places[pair.far], places[pair.near]
    side, bulge = x - _WIDE / 2, 14 + 7 * abs(y2 - y1) / _ROW
    bow = f"M{coord(side)} {coord(y1)} Q{coord(side - bulge)} {coord((y1 + y2) / 2)} {coord(side)} {coord(y2)}"
    style = {"stroke_width": "1.3", "stroke_opacity": ".38", "stroke_dasharray": "5 4" if pair.disabled else None}
    shape = tag("path", d=bow, fill="none", stroke="currentColor", **style)
    return tag("g", _tooltip(pair, subgraph), shape)


def _tooltip(pair: NodePair, subgraph: Subgraph) -> Html:
    return tag("title", clean(f"{subgraph.names[pair.far]} to {subgraph.names[pair.near]}: {_flow(pair)}"))


def _channel_line(pair: NodePair, subgraph: Subgraph, places: Positions, ports: Ports) -> Html:
    """A channel towards the shop, with the balances of its two sides."""
    x1, y1 = places[pair.far][0] + _WIDE / 2, ports[pair.far, pair.near]
    x2, y2 = places[pair.near][0] - _WIDE / 2, ports[pair.near, pair.far]
    thick = 2.4 + 1.7 * max(0.0, log10(max(1, pair.capacity_msat) / 1e7))
    dashes = "5 4" if pair.disabled else None
    total = max(1, pair.capacity_msat)

    def stretch(start: float, end: float, tone: str, opacity: str | None) -> Html | None:
        if end - start < 0.002:
            return None
        ends = [(x1 + (x2 - x1) * share, y1 + (y2 - y1) * share) for share in (start, end)]
        return line(*ends[0], *ends[1], tone, width=thick, stroke_opacity=opacity, stroke_dasharray=dashes)

    filled = pair.forward_msat / total
    in_flight = filled + pair.in_flight_msat / total
    return tag(
        "g",
        _tooltip(pair, subgraph),
        stretch(0, 1, PLAIN, ".17"),
        stretch(0, filled, GOOD, ".9"),
        stretch(filled, in_flight, WAIT, None),
    )


def _box(node: int, subgraph: Subgraph, places: Positions) -> Html:
    x, y = places[node]
    payers = subgraph.payers.get(node, [])
    tone = OPEN if node == subgraph.shop else OTHER if payers else PLAIN
    size = {"x": coord(x - _WIDE / 2), "y": coord(y - _TALL / 2), "width": str(_WIDE), "height": str(_TALL), "rx": "8"}
    frame = tag(
        "rect",
        **size,
        fill=COLOURS[tone],
        fill_opacity=".07" if tone == PLAIN else ".2",
        stroke=COLOURS[tone],
        stroke_opacity=".5" if tone == PLAIN else None,
        stroke_width="1.2" if tone == PLAIN else "1.8",
        stroke_dasharray="3 3" if node in subgraph.offline else None,
    )
    under = "the shop" if node == subgraph.shop else ", ".join(payers[:_MAX_NAMES])
    if node in subgraph.offline:
        under = f"{under}, offline" if under else "offline"
    name = [TextRun(subgraph.names[node], bold=True)]
    drawn = [frame, text_at(x, y + (-2 if under else 4.5), name, max_width=_WIDE - 10, size=12.5, anchor="middle")]
    if under:
        drawn.append(text_at(x, y + 11.5, under, max_width=_WIDE - 10, size=10.5, anchor="middle"))
    inward = [pair for pair in subgraph.pairs if pair.far == node and subgraph.hops[pair.near] < subgraph.hops[node]]
    if inward:
        flows = f"{compact(sum(p.forward_msat for p in inward))} of {compact(sum(p.capacity_msat for p in inward))} →"
        drawn.append(
            text_at(x, y + _TALL / 2 + 12, [TextRun(flows, soft=True)], max_width=_WIDE + 30, size=10, anchor="middle")
        )
    return tag("g", *drawn)


def _legend(width: float, y: float) -> Html:
    x = float(_MARGIN)
    drawn: list[Html] = []
    for tone, opacity, words, wide in (
        (GOOD, ".9", "can move towards the shop", 190),
        (PLAIN, ".17", "balance of the other side", 165),
        (WAIT, None, "in flight (amounts are sat)", 190),
    ):
        drawn.append(line(x, y, x + 22, y, tone, width=6, stroke_opacity=opacity))
        drawn.append(text_at(x + 28, y + 4, [TextRun(words, soft=True)], max_width=wide, size=11))
        x += wide + 20
    return tag("g", *drawn)


def _notes(subgraph: Subgraph) -> list[str]:
    """Notes on what the drawing leaves out."""
    notes: list[str] = []
    if subgraph.hidden_nodes or subgraph.hidden_channels:
        notes.append(
            f"left out: {_count(subgraph.hidden_nodes, 'node')} and {_count(subgraph.hidden_channels, 'channel')}"
        )
    if subgraph.hidden_peers:
        peers = _count(subgraph.hidden_peers, "direct neighbour")
        notes.append(
            f"{peers} of the shop left out, with {compact(subgraph.hidden_inbound_msat)} sat of inbound liquidity"
        )
    level_links = _level_links(subgraph)
    if len(level_links) > _MAX_LEVEL_LINKS:
        notes.append(f"not drawn: {_count(len(level_links), 'link')} between nodes of equal distance to the shop")
    for payer, home, hops in subgraph.distant:
        far = f"{hops} hops away" if hops else "without a route to the shop"
        notes.append(f"{payer}'s wallet is at {home}, {far}")
    return notes


def _text(subgraph: Subgraph) -> str:
    names = subgraph.names
    lines = [
        f"{_count(len(names), 'node')}, {_count(subgraph.channels, 'channel')}; the shop is at {names[subgraph.shop]}: "
        f"{compact(subgraph.inbound_msat)} sat inbound, {compact(subgraph.outbound_msat)} sat outbound"
    ]
    level_links = _level_links(subgraph)
    for pair in sorted(subgraph.pairs, key=lambda pair: (subgraph.hops[pair.far], -pair.capacity_msat, pair.far)):
        if pair in level_links and len(level_links) > _MAX_LEVEL_LINKS:
            continue
        bar = "#" * round(12 * pair.forward_msat / max(1, pair.capacity_msat))
        who = f" ({', '.join(subgraph.payers[pair.far])})" if pair.far in subgraph.payers else ""
        off = ", offline" if pair.far in subgraph.offline else ""
        lines.append(f"  {names[pair.far]:>8} --> {names[pair.near]:<8} [{bar:<12}] {_flow(pair)}{who}{off}")
    return "\n".join(clean(line) for line in [*lines, *(f"  {note}" for note in _notes(subgraph))])


def _mermaid(subgraph: Subgraph) -> str:
    lines = ["graph LR"]
    for node in subgraph.hops:
        who = "the shop" if node == subgraph.shop else ", ".join(subgraph.payers.get(node, []))
        lines.append(
            f'    n{node}["{mermaid_text(f"{subgraph.names[node]}: {who}" if who else subgraph.names[node], 60)}"]'
        )
    level_links = _level_links(subgraph)
    for pair in subgraph.pairs:
        if pair in level_links and len(level_links) > _MAX_LEVEL_LINKS:
            continue
        shaft = "---" if pair in level_links else "-->"
        lines.append(f'    n{pair.far} {shaft}|"{mermaid_text(_flow(pair))}"| n{pair.near}')
    if subgraph.hidden_nodes:
        lines.append(f'    rest["{subgraph.hidden_nodes} more nodes are left out"]')
    return "\n".join(lines)
