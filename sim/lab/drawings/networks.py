"""The network: who stands how far from the shop, and how much can still flow towards it.

Every channel is a tube, as thick as it is large. It is filled from the far side by what can flow towards the shop: a
tube that is full to the shop can bring everything, an empty one nothing.
"""

from __future__ import annotations

from math import log10

from leyden.lab.drawings.direct import direct
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.mermaid import said
from leyden.lab.drawings.subgraph import Neighbourhood, Pair, neighbourhood
from leyden.lab.drawings.svg import (
    COLOURS,
    GOOD,
    OPEN,
    OTHER,
    WAIT,
    line,
    n,
    sheet,
    write,
)
from leyden.lab.drawings.text_metrics import PLAIN, Run, clean
from leyden.server.html import Html, tag
from leyden.world.world import World

_MARGIN, _TOP = 18, 100
_COLUMN, _ROW = 226, 58
_WIDE, _TALL = 108, 34
_MOST_NAMES = 5
# More bows than these between nodes of one distance are a thicket: their number is said instead.
_MOST_BOWS = 8

Places = dict[int, tuple[float, float]]
Ports = dict[tuple[int, int], float]


def network(world: World) -> Drawing:
    """The world's Lightning network around the shop, with the liquidity of every channel as it stands now.

    A large network shows the shop's neighbourhood and says what is left out.
    """
    engine = world.engine
    if engine is None:
        return direct(world)
    near = neighbourhood(world, engine)
    places = _places(near)
    return Drawing(_svg(near, places), _mermaid(near), _text(near))


def compact(amount_msat: int) -> str:
    """About how much, in sat: 812, 8,120, 81k, 8.1M."""
    sat = amount_msat / 1_000
    if sat >= 999_500:
        return f"{sat / 1_000_000:,.1f}M"
    return f"{sat / 1_000:.0f}k" if sat >= 9_999.5 else f"{sat:,.0f}"


def _flow(pair: Pair) -> str:
    flying = f", {compact(pair.in_flight_msat)} in flight" if pair.in_flight_msat else ""
    several = f" in {pair.channels} channels" if pair.channels > 1 else ""
    return f"{compact(pair.forward_msat)} of {compact(pair.capacity_msat)} sat{several}{flying}"


def _places(near: Neighbourhood) -> Places:
    """A column for each distance, the shop at the right; within one, who has the same neighbours stands together."""
    farthest = max(near.hops.values())
    rows: dict[int, float] = {}
    tallest = max(list(near.hops.values()).count(far) for far in range(farthest + 1))
    places: Places = {}
    # Tubes of a wide fan need room to be told apart.
    column_width = _COLUMN + max(0, tallest - 4) * 9
    for far in range(farthest + 1):
        column = [node for node, hops in near.hops.items() if hops == far]
        beside = {
            node: [
                rows[pair.near]
                for pair in near.pairs
                if pair.far == node and pair.near in rows and near.hops[pair.near] < far
            ]
            for node in column
        }
        room = {node: sum(pair.capacity_msat for pair in near.pairs if pair.far == node) for node in column}
        column.sort(key=lambda node: (sum(beside[node]) / max(1, len(beside[node])), -room[node], node))
        first = (tallest - len(column)) / 2
        for place, node in enumerate(column):
            rows[node] = first + place
            places[node] = (_MARGIN + _WIDE / 2 + (farthest - far) * column_width, _TOP + (rows[node] + 0.5) * _ROW)
    return places


def _svg(near: Neighbourhood, places: Places) -> Html:
    right = max(x for x, _ in places.values()) + _WIDE / 2
    width = max(right + _MARGIN, 620.0)
    shift = (width - _MARGIN - right) / 2 if right + _MARGIN < width else 0.0
    places = {node: (x + shift, y) for node, (x, y) in places.items()}
    foot = max(y for _, y in places.values()) + _ROW
    title = f"{_count(len(near.names), 'node')}, {_count(near.channels, 'channel')}"
    could = (
        f"{compact(near.inbound_msat)} sat could come in to the shop and {compact(near.outbound_msat)} sat could go out"
    )
    head = [
        write(_MARGIN, 30, [Run(title, bold=True)], room=width, size=16),
        write(_MARGIN, 52, [Run(could, soft=True)], room=width - 2 * _MARGIN, size=12.5),
    ]
    columns = {near.hops[node]: x for node, (x, _) in places.items()}
    for far, x in columns.items():
        named = "shop" if far == 0 else "1 hop" if far == 1 else f"{far} hops"
        head.append(write(x, _TOP - 14, [Run(named, soft=True)], room=_WIDE, size=11.5, anchor="middle"))
    ports = _ports(near, places)
    bows = _bows(near)
    tubes = [_tube(pair, near, places, ports) for pair in near.pairs if pair not in bows]
    if len(bows) <= _MOST_BOWS:
        tubes = [*(_bow(pair, near, places) for pair in bows), *tubes]
    boxes = [_box(node, near, places) for node in near.hops]
    notes = _notes(near)
    below = [_legend(width, foot), *(_note(text, foot + 26 + place * 17, width) for place, text in enumerate(notes))]
    what = f"The Lightning network around the shop: {len(near.hops)} of {title}"
    return sheet(width, foot + 26 + len(notes) * 17, what, *head, *tubes, *boxes, *below)


def _note(text: str, y: float, width: float) -> Html:
    return write(_MARGIN, y, [Run(text, soft=True)], room=width - 2 * _MARGIN, size=11.5)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _bows(near: Neighbourhood) -> list[Pair]:
    """The channels between nodes of one distance, which lead nobody closer."""
    return [pair for pair in near.pairs if near.hops[pair.far] == near.hops[pair.near]]


def _ports(near: Neighbourhood, places: Places) -> Ports:
    """Where along the side of its box each tube begins or ends: (node, the other node) -> height."""
    ports: Ports = {}
    for node, (_, y) in places.items():
        for side in (-1, 1):
            others = [
                pair.near if pair.far == node else pair.far for pair in near.pairs if node in (pair.far, pair.near)
            ]
            others = [other for other in others if near.hops[other] == near.hops[node] - side]
            others.sort(key=lambda other: places[other][1])
            step = min(8.0, (_TALL - 10) / max(1, len(others) - 1))
            for place, other in enumerate(others):
                ports[node, other] = y + (place - (len(others) - 1) / 2) * step
    return ports


def _bow(pair: Pair, near: Neighbourhood, places: Places) -> Html:
    (x, y1), (_, y2) = places[pair.far], places[pair.near]
    side, bulge = x - _WIDE / 2, 14 + 7 * abs(y2 - y1) / _ROW
    bow = f"M{n(side)} {n(y1)} Q{n(side - bulge)} {n((y1 + y2) / 2)} {n(side)} {n(y2)}"
    style = {"stroke_width": "1.3", "stroke_opacity": ".38", "stroke_dasharray": "5 4" if pair.disabled else None}
    shape = tag("path", d=bow, fill="none", stroke="currentColor", **style)
    return tag("g", _tip(pair, near), shape)


def _tip(pair: Pair, near: Neighbourhood) -> Html:
    return tag("title", clean(f"{near.names[pair.far]} to {near.names[pair.near]}: {_flow(pair)}"))


def _tube(pair: Pair, near: Neighbourhood, places: Places, ports: Ports) -> Html:
    """A channel that leads closer to the shop, with what lies on its two sides."""
    x1, y1 = places[pair.far][0] + _WIDE / 2, ports[pair.far, pair.near]
    x2, y2 = places[pair.near][0] - _WIDE / 2, ports[pair.near, pair.far]
    thick = 2.4 + 1.7 * max(0.0, log10(max(1, pair.capacity_msat) / 1e7))
    dashes = "5 4" if pair.disabled else None
    total = max(1, pair.capacity_msat)

    def stretch(start: float, end: float, tone: str, opacity: str | None) -> Html | None:
        if end - start < 0.002:
            return None
        ends = [(x1 + (x2 - x1) * share, y1 + (y2 - y1) * share) for share in (start, end)]
        return line(*ends[0], *ends[1], tone, wide=thick, stroke_opacity=opacity, stroke_dasharray=dashes)

    filled = pair.forward_msat / total
    flying = filled + pair.in_flight_msat / total
    return tag(
        "g",
        _tip(pair, near),
        stretch(0, 1, PLAIN, ".17"),
        stretch(0, filled, GOOD, ".9"),
        stretch(filled, flying, WAIT, None),
    )


def _box(node: int, near: Neighbourhood, places: Places) -> Html:
    x, y = places[node]
    payers = near.payers.get(node, [])
    tone = OPEN if node == near.shop else OTHER if payers else PLAIN
    size = {"x": n(x - _WIDE / 2), "y": n(y - _TALL / 2), "width": str(_WIDE), "height": str(_TALL), "rx": "8"}
    frame = tag(
        "rect",
        **size,
        fill=COLOURS[tone],
        fill_opacity=".07" if tone == PLAIN else ".2",
        stroke=COLOURS[tone],
        stroke_opacity=".5" if tone == PLAIN else None,
        stroke_width="1.2" if tone == PLAIN else "1.8",
        stroke_dasharray="3 3" if node in near.offline else None,
    )
    under = "the shop" if node == near.shop else ", ".join(payers[:_MOST_NAMES])
    if node in near.offline:
        under = f"{under}, offline" if under else "offline"
    name = [Run(near.names[node], bold=True)]
    drawn = [frame, write(x, y + (-2 if under else 4.5), name, room=_WIDE - 10, size=12.5, anchor="middle")]
    if under:
        drawn.append(write(x, y + 11.5, under, room=_WIDE - 10, size=10.5, anchor="middle"))
    inward = [pair for pair in near.pairs if pair.far == node and near.hops[pair.near] < near.hops[node]]
    if inward:
        flows = f"{compact(sum(p.forward_msat for p in inward))} of {compact(sum(p.capacity_msat for p in inward))} →"
        drawn.append(write(x, y + _TALL / 2 + 12, [Run(flows, soft=True)], room=_WIDE + 30, size=10, anchor="middle"))
    return tag("g", *drawn)


def _legend(width: float, y: float) -> Html:
    x = float(_MARGIN)
    drawn: list[Html] = []
    for tone, opacity, words, wide in (
        (GOOD, ".9", "can flow towards the shop", 190),
        (PLAIN, ".17", "lies on the other side", 165),
        (WAIT, None, "in flight (amounts are sat)", 190),
    ):
        drawn.append(line(x, y, x + 22, y, tone, wide=6, stroke_opacity=opacity))
        drawn.append(write(x + 28, y + 4, [Run(words, soft=True)], room=wide, size=11))
        x += wide + 20
    return tag("g", *drawn)


def _notes(near: Neighbourhood) -> list[str]:
    """What the picture does not show."""
    notes: list[str] = []
    if near.hidden_nodes or near.hidden_channels:
        notes.append(f"left out: {_count(near.hidden_nodes, 'node')} and {_count(near.hidden_channels, 'channel')}")
    if near.hidden_peers:
        peers = _count(near.hidden_peers, "direct neighbour")
        notes.append(f"{peers} of the shop left out, from whom {compact(near.hidden_inbound_msat)} sat could come in")
    bows = _bows(near)
    if len(bows) > _MOST_BOWS:
        notes.append(f"not drawn: {_count(len(bows), 'link')} between nodes that are equally far from the shop")
    for payer, home, hops in near.distant:
        far = f"{hops} hops away" if hops else "from which no way leads here"
        notes.append(f"{payer}'s wallet is at {home}, {far}")
    return notes


def _text(near: Neighbourhood) -> str:
    names = near.names
    lines = [
        f"{_count(len(names), 'node')}, {_count(near.channels, 'channel')}; the shop is at {names[near.shop]}: "
        f"{compact(near.inbound_msat)} sat could come in, {compact(near.outbound_msat)} sat could go out"
    ]
    bows = _bows(near)
    for pair in sorted(near.pairs, key=lambda pair: (near.hops[pair.far], -pair.capacity_msat, pair.far)):
        if pair in bows and len(bows) > _MOST_BOWS:
            continue
        bar = "#" * round(12 * pair.forward_msat / max(1, pair.capacity_msat))
        who = f" ({', '.join(near.payers[pair.far])})" if pair.far in near.payers else ""
        off = ", offline" if pair.far in near.offline else ""
        lines.append(f"  {names[pair.far]:>8} --> {names[pair.near]:<8} [{bar:<12}] {_flow(pair)}{who}{off}")
    return "\n".join(clean(line) for line in [*lines, *(f"  {note}" for note in _notes(near))])


def _mermaid(near: Neighbourhood) -> str:
    lines = ["graph LR"]
    for node in near.hops:
        who = "the shop" if node == near.shop else ", ".join(near.payers.get(node, []))
        lines.append(f'    n{node}["{said(f"{near.names[node]}: {who}" if who else near.names[node], 60)}"]')
    bows = _bows(near)
    for pair in near.pairs:
        if pair in bows and len(bows) > _MOST_BOWS:
            continue
        shaft = "---" if pair in bows else "-->"
        lines.append(f'    n{pair.far} {shaft}|"{said(_flow(pair))}"| n{pair.near}')
    if near.hidden_nodes:
        lines.append(f'    rest["{near.hidden_nodes} more nodes are left out"]')
    return "\n".join(lines)
