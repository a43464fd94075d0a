"""Network drawings: the nodes around the shop by distance, and the liquidity of their channels.

Every channel is a line whose thickness shows its capacity. It is filled from the far end by the balance that can move
towards the shop: a full line can bring its whole capacity, an empty one nothing.
"""

from __future__ import annotations

from math import log10

from leyden.lab.drawings.direct import direct
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.subgraph import NodePair, Subgraph, shop_subgraph
from leyden.lab.drawings.svg import (
    GOOD,
    MARGIN,
    NOTE_LINE,
    OPEN,
    OTHER,
    WAIT,
    coord,
    headline,
    line,
    notes,
    rect,
    svg_root,
    text_at,
)
from leyden.lab.drawings.text_metrics import PLAIN, clean, mermaid_text
from leyden.repr_tables import counted, left_out
from leyden.server.html import Html, tag
from leyden.world.world import World

_TOP = 100
_COLUMN, _ROW = 226, 58
_WIDE, _TALL = 108, 34
_MAX_NAMES = 5
_MAX_BULGE = 2 * (MARGIN - 4)  # a bow reaches half as far: it stays in the drawing

Positions = dict[int, tuple[float, float]]
Ports = dict[tuple[int, int], float]


def network(world: World) -> Drawing:
    """The world's Lightning network around the shop, with the present liquidity of every channel.

    Of a large network only the part near the shop is shown, with notes on what is left out.
    """
    if world.engine is None:
        return direct(world)
    subgraph = shop_subgraph(world, world.engine)
    size = f"{counted(len(subgraph.names), 'node')}, {counted(subgraph.channels, 'channel')}"
    if world.label != "main":
        size = f"{clean(world.label)}: {size}"
    left_out = _left_out(subgraph)
    return Drawing(_svg(subgraph, size, left_out), _mermaid(subgraph), _text(subgraph, size, left_out))


def compact(amount_msat: int) -> str:
    """A rounded amount in sat: 812, 8,120, 81k, 8.1M."""
    sat = amount_msat / 1_000
    if sat >= 999_500:
        return f"{sat / 1_000_000:,.1f}M"
    return f"{sat / 1_000:.0f}k" if sat >= 9_999.5 else f"{sat:,.0f}"


def _flow(pair: NodePair) -> str:
    in_flight = f", {compact(pair.in_flight_msat)} in flight" if pair.in_flight_msat else ""
    several = f" in {pair.channels} channels" if pair.channels > 1 else ""
    closed = f", {pair.force_closed} force closed with {compact(pair.on_chain_msat)} sat on the chain"
    amounts = f"{compact(pair.forward_msat)} of {compact(pair.capacity_msat)} sat{several}{in_flight}"
    return amounts + closed if pair.force_closed else amounts


def _positions(subgraph: Subgraph) -> Positions:
    """The position of each node: a column per distance, the shop at the right, by the rows of their neighbours."""
    columns: dict[int, list[int]] = {far: [] for far in range(max(subgraph.hops.values()) + 1)}
    for node, far in subgraph.hops.items():
        columns[far].append(node)
    tallest = max(map(len, columns.values()))
    # Many channels to one node need more width.
    column_width = _COLUMN + max(0, tallest - 4) * 9
    rows: dict[int, float] = {}
    places: Positions = {}

    def by_neighbours(node: int) -> tuple[float, int, int]:
        inward = [pair for pair in subgraph.pairs if pair.far == node]
        beside = [rows[pair.near] for pair in inward if not pair.is_level]
        return sum(beside) / max(1, len(beside)), -sum(pair.capacity_msat for pair in inward), node

    for far, column in columns.items():
        x = MARGIN + _WIDE / 2 + (len(columns) - 1 - far) * column_width
        for place, node in enumerate(sorted(column, key=by_neighbours)):
            rows[node] = (tallest - len(column)) / 2 + place
            places[node] = (x, _TOP + (rows[node] + 0.5) * _ROW)
    return places


def _svg(subgraph: Subgraph, size: str, left_out: list[str]) -> Html:
    places = _positions(subgraph)
    right = max(x for x, _ in places.values()) + _WIDE / 2
    width = max(right + MARGIN, 620.0)
    shift = (width - MARGIN - right) / 2
    places = {node: (x + shift, y) for node, (x, y) in places.items()}
    foot = max(y for _, y in places.values()) + _ROW
    could = f"the shop can receive {compact(subgraph.inbound_msat)} sat and send {compact(subgraph.outbound_msat)} sat"
    head = headline(size, could, width)
    for far, x in {subgraph.hops[node]: x for node, (x, _) in places.items()}.items():
        named = "shop" if far == 0 else counted(far, "hop")
        head.append(text_at(x, _TOP - 14, named, _WIDE, soft=True, size=11.5, anchor="middle"))
    ports = _ports(subgraph, places)
    drawn = subgraph.drawn_pairs
    channels = [_level_link(pair, subgraph, places) for pair in drawn if pair.is_level]
    channels += [_channel_line(pair, subgraph, places, ports) for pair in drawn if not pair.is_level]
    boxes = [_box(node, subgraph, places) for node in subgraph.hops]
    explained = [*_explained(drawn, subgraph), *left_out]
    below = [_legend(foot), *notes(explained, foot + 26, width)]
    what = f"The Lightning network around the shop: {len(subgraph.hops)} of {size}"
    return svg_root(width, foot + 26 + len(explained) * NOTE_LINE, what, *head, *channels, *boxes, *below)


def _ports(subgraph: Subgraph, places: Positions) -> Ports:
    """The y coordinate at which each channel meets its node's box: (node, other node) -> y."""
    sides: dict[tuple[int, bool], list[int]] = {}  # the nodes at each side of each box
    for pair in subgraph.pairs:
        if not pair.is_level:
            sides.setdefault((pair.far, True), []).append(pair.near)
            sides.setdefault((pair.near, False), []).append(pair.far)
    ports: Ports = {}
    for (node, _), others in sides.items():
        others.sort(key=lambda other: places[other][1])
        step = min(8.0, (_TALL - 10) / max(1, len(others) - 1))
        for place, other in enumerate(others):
            ports[node, other] = places[node][1] + (place - (len(others) - 1) / 2) * step
    return ports


def _level_link(pair: NodePair, subgraph: Subgraph, places: Positions) -> Html:
    (x, y1), (_, y2) = places[pair.far], places[pair.near]
    side, bulge = x - _WIDE / 2, min(14 + 7 * abs(y2 - y1) / _ROW, _MAX_BULGE)
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
    total = max(1, pair.capacity_msat)
    thick = 2.4 + 1.7 * max(0.0, log10(total / 1e7))
    dashes = "5 4" if pair.disabled else None

    def stretch(start: float, end: float, tone: str, opacity: str | None) -> Html | None:
        if end - start < 0.002:
            return None
        ends = [(x1 + (x2 - x1) * share, y1 + (y2 - y1) * share) for share in (start, end)]
        return line(*ends[0], *ends[1], tone, width=thick, stroke_opacity=opacity, stroke_dasharray=dashes)

    filled = pair.forward_msat / total
    in_flight = filled + pair.in_flight_msat / total
    stretches = (stretch(0, 1, PLAIN, ".17"), stretch(0, filled, GOOD, ".9"), stretch(filled, in_flight, WAIT, None))
    return tag("g", _tooltip(pair, subgraph), *stretches)


def _box(node: int, subgraph: Subgraph, places: Positions) -> Html:
    x, y = places[node]
    payers = subgraph.payers.get(node, [])
    offline = node in subgraph.offline
    tone = OPEN if node == subgraph.shop else OTHER if payers else PLAIN
    opacity, edge_opacity, edge = (".07", ".5", 1.2) if tone == PLAIN else (".2", None, 1.8)
    style = {"stroke_opacity": edge_opacity, "stroke_width": edge, "stroke_dasharray": "3 3" if offline else None}
    frame = rect(x - _WIDE / 2, y - _TALL / 2, _WIDE, _TALL, 8, tone, opacity, **style)
    role = "the shop" if node == subgraph.shop else ", ".join(payers[:_MAX_NAMES])
    under = ", ".join(filter(None, [role, "offline" if offline else ""]))
    room = _WIDE - 10
    drawn = [frame, text_at(x, y + (-2 if under else 4.5), subgraph.names[node], room, bold=True, anchor="middle")]
    if under:
        drawn.append(text_at(x, y + 11.5, under, room, size=10.5, anchor="middle"))
    inward = [pair for pair in subgraph.pairs if pair.far == node and not pair.is_level]
    if inward:
        flows = f"{compact(sum(p.forward_msat for p in inward))} of {compact(sum(p.capacity_msat for p in inward))} →"
        drawn.append(text_at(x, y + _TALL / 2 + 12, flows, _WIDE + 30, soft=True, size=10, anchor="middle"))
    return tag("g", *drawn)


def _legend(y: float) -> Html:
    x = float(MARGIN)
    drawn: list[Html] = []
    for tone, opacity, words, wide in (
        (GOOD, ".9", "can move towards the shop", 190),
        (PLAIN, ".17", "balance of the other side", 165),
        (WAIT, None, "in flight (amounts are sat)", 190),
    ):
        drawn.append(line(x, y, x + 22, y, tone, width=6, stroke_opacity=opacity))
        drawn.append(text_at(x + 28, y + 4, words, wide, soft=True, size=11))
        x += wide + 20
    return tag("g", *drawn)


def _explained(drawn: list[NodePair], subgraph: Subgraph) -> list[str]:
    """Notes on the lines and boxes that the legend does not have, if any is drawn."""
    found = []
    if any(pair.is_level for pair in drawn):
        found.append("a thin bow is a channel between nodes of equal distance to the shop")
    if any(pair.disabled for pair in drawn):
        found.append("a dashed channel is disabled towards the shop")
    if any(node in subgraph.offline for node in subgraph.hops):
        found.append("a dashed box is a node that is offline")
    return found


def _left_out(subgraph: Subgraph) -> list[str]:
    """Notes on what the drawing leaves out."""
    found: list[str] = []
    nodes, channels = counted(subgraph.hidden_nodes, "node"), counted(subgraph.hidden_channels, "channel")
    if subgraph.hidden_nodes or subgraph.hidden_channels:
        found.append(f"left out: {nodes} and {channels}")
    if subgraph.hidden_peers:
        peers, inbound = counted(subgraph.hidden_peers, "direct neighbour"), compact(subgraph.hidden_inbound_msat)
        found.append(f"{peers} of the shop left out, with {inbound} sat of inbound liquidity")
    if links := len(subgraph.pairs) - len(subgraph.drawn_pairs):
        found.append(f"not drawn: {counted(links, 'link')} between nodes of equal distance to the shop")
    for payer, home, hops in subgraph.distant:
        far = f"{hops} hops away" if hops else "without a route to the shop"
        found.append(f"{payer}'s wallet is at {home}, {far}")
    return found


def _text(subgraph: Subgraph, size: str, left_out: list[str]) -> str:
    names = subgraph.names
    inbound, outbound = compact(subgraph.inbound_msat), compact(subgraph.outbound_msat)
    lines = [f"{size}; the shop is at {names[subgraph.shop]}: {inbound} sat inbound, {outbound} sat outbound"]
    for pair in sorted(subgraph.drawn_pairs, key=lambda pair: (subgraph.hops[pair.far], -pair.capacity_msat, pair.far)):
        bar = "#" * round(12 * pair.forward_msat / max(1, pair.capacity_msat))
        who = f" ({', '.join(subgraph.payers[pair.far])})" if pair.far in subgraph.payers else ""
        off = ", offline" if pair.far in subgraph.offline else ""
        lines.append(f"  {names[pair.far]:>8} --> {names[pair.near]:<8} [{bar:<12}] {_flow(pair)}{who}{off}")
    return "\n".join(clean(line) for line in [*lines, *(f"  {note}" for note in left_out)])


def _mermaid(subgraph: Subgraph) -> str:
    lines = ["graph LR"]
    for node in subgraph.hops:
        who = "the shop" if node == subgraph.shop else ", ".join(subgraph.payers.get(node, []))
        name = f"{subgraph.names[node]}: {who}" if who else subgraph.names[node]
        lines.append(f'    n{node}["{mermaid_text(name, 60)}"]')
    for pair in subgraph.drawn_pairs:
        shaft = "---" if pair.is_level else "-->"
        lines.append(f'    n{pair.far} {shaft}|"{mermaid_text(_flow(pair))}"| n{pair.near}')
    if subgraph.hidden_nodes:
        lines.append(f'    rest["{left_out(subgraph.hidden_nodes, "more node")}"]')
    return "\n".join(lines)
