"""The diagram of a lifecycle as SVG, drawn from its table: states are boxes, triggers are arrows.

    (creation) -> [state] --- label ---> [state] --- label ---> [state]
                  layer 0    gap 0-1     layer 1    gap 1-2     layer 2

States stand in layers, as far right as the longest way to them. Every arrow has a lane of its own in each gap that it
crosses, so no two labels can meet. Colours are the reader's own (`currentColor`), for light and dark pages alike.
A way that was taken through the table can be marked: everything else then steps back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from leyden.server.contract.lifecycle_rows import CREATION
from leyden.server.contract.types import LifecycleTable
from leyden.server.html import Html, anchor, join, tag

_CHAR = 6.7  # the width of a letter in the labels' 11 px fixed-width font, with a margin
_LINE = 15
_BOX_HEIGHT = 42
_BEND = 34
_MARGIN = 14
_APART = 14
# Of what was taken: 3 to 1 (WCAG 2.2, 1.4.11) on white and on near black.
_TAKEN = "#4a7dde"
_FAINT = ".6"


@dataclass(frozen=True, slots=True)
class TakenTransitions:
    """The way that was taken: a note for each move (source, trigger, target) and for each state that was entered.

    `now` are the states in which somebody stands.
    """

    moves: Mapping[tuple[str, str, str], str]
    states: Mapping[str, str]
    now: frozenset[str]


@dataclass(slots=True)
class _Arrow:
    source: str
    target: str
    labels: list[str]
    is_decision: bool
    taken: set[int] = field(default_factory=set)
    lanes: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Picture:
    table: LifecycleTable
    layers: dict[str, int]
    arrows: list[_Arrow]
    loops: list[_Arrow]
    taken: TakenTransitions | None = None
    places: dict[str, tuple[float, float]] = field(default_factory=dict)


def lifecycle_svg(table: LifecycleTable, taken: TakenTransitions | None = None) -> Html:
    """The state diagram of a lifecycle as one `<svg>`: final states have a double border, transitions by decision are
    dashed, what was `taken` is coloured. Every name is escaped."""
    arrows, loops = _arrows(table, taken)
    picture = _Picture(table, _layers(table, arrows), arrows, loops, taken)
    notes = taken.states.values() if taken else ()
    box_width = max(*(len(state) * 8 + 36 for state in table.states), *(len(note) * _CHAR + 20 for note in notes), 0)
    gaps = _gap_widths(picture, box_width)
    height = _place(picture, box_width, gaps)
    width = _left(len(gaps) - 1, box_width, gaps) + box_width + _MARGIN
    name = anchor("diagram", table.resource)
    drawn = [
        tag("title", f"The states of {table.resource}", id=f"{name}-title"),
        tag("desc", _in_words(picture), id=f"{name}-desc"),
        tag("defs", _arrow_head(name), _arrow_head(f"{name}-taken", _TAKEN) if taken else None),
        _entry(picture, name),
        *(_draw_arrow(arrow, picture, box_width, gaps, name) for arrow in arrows),
        *(_draw_loop(loop, picture, box_width, name) for loop in loops),
        *(_draw_state(state, picture, box_width) for state in table.states),
    ]
    return tag(
        "svg",
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        fill="none",
        stroke="currentColor",
        font_size="11",
    )


def _arrows(table: LifecycleTable, taken: TakenTransitions | None) -> tuple[list[_Arrow], list[_Arrow]]:
    """One arrow for each pair of states with a transition, with a label for each row; then the loops."""
    found: dict[tuple[str, str], _Arrow] = {}
    for row in table.rows:
        if row.to is None or row.source == CREATION:
            continue
        arrow = found.setdefault((row.source, row.to), _Arrow(row.source, row.to, [], True))
        note = taken.moves.get((row.source, row.trigger, row.to)) if taken else None
        if note is not None:
            arrow.taken.add(len(arrow.labels))
        label = f"{row.trigger} [{row.when}]" if row.when else row.trigger
        arrow.labels.append(f"{label} · {note}" if note else label)
        arrow.is_decision = arrow.is_decision and row.basis == "decision"
    every = list(found.values())
    return [a for a in every if a.source != a.target], [a for a in every if a.source == a.target]


def _layers(table: LifecycleTable, arrows: Sequence[_Arrow]) -> dict[str, int]:
    """The layer of each state: the longest path to it from the initial state that visits no state twice."""
    after: dict[str, list[str]] = {state: [] for state in table.states}
    for arrow in arrows:
        after[arrow.source].append(arrow.target)
    order: list[str] = []
    back: set[tuple[str, str]] = set()
    seen: set[str] = set()

    def visit(state: str, path: tuple[str, ...]) -> None:
        seen.add(state)
        for target in after[state]:
            if target in (*path, state):
                back.add((state, target))
            elif target not in seen:
                visit(target, (*path, state))
        order.append(state)

    for state in (table.initial, *table.states):
        if state not in seen:
            visit(state, ())
    layers = dict.fromkeys(table.states, 0)
    for state in reversed(order):
        for target in after[state]:
            if (state, target) not in back:
                layers[target] = max(layers[target], layers[state] + 1)
    return layers


def _span(arrow: _Arrow, layers: dict[str, int]) -> range:
    low, high = sorted((layers[arrow.source], layers[arrow.target]))
    return range(low, high)


def _gap_widths(picture: _Picture, box_width: float) -> list[float]:
    """The width of the gap to the left of each layer, for the labels of arrows and loops."""
    widths = [0.0] * (max(picture.layers.values()) + 1)
    for arrow in picture.arrows:
        gap = _span(arrow, picture.layers)[0] + 1
        widths[gap] = max(widths[gap], max(map(len, arrow.labels)) * _CHAR)
    loops = [0.0] * len(widths)
    for loop in picture.loops:
        layer = picture.layers[loop.source]
        loops[layer] = max(loops[layer], max(map(len, loop.labels)) * _CHAR - box_width)
    return [max(46.0, loops[0] + _MARGIN), *(sum(both) + 2 * _BEND for both in zip(widths[1:], loops[1:], strict=True))]


def _left(layer: int, box_width: float, gaps: Sequence[float]) -> float:
    return layer * box_width + sum(gaps[: layer + 1])


def _place(picture: _Picture, box_width: float, gaps: Sequence[float]) -> float:
    """Set the position of every state and every lane. Returns the height of the diagram."""
    rows: dict[str, float] = {}
    for layer in range(len(gaps)):
        here = [state for state in picture.table.states if picture.layers[state] == layer]
        foot = 0.0
        for state in here:
            foot += _loop_height(picture, state) + _BOX_HEIGHT + 34
            rows[state] = foot
        centre = (rows[here[0]] + rows[here[-1]]) / 2
        for state in here:
            rows[state] -= centre
    for gap in range(len(gaps) - 1):
        crossing = [arrow for arrow in picture.arrows if gap in _span(arrow, picture.layers)]
        _place_lanes(gap, crossing, rows, picture)
    ends = [y - _BOX_HEIGHT / 2 - _loop_height(picture, state) for state, y in rows.items()]
    ends += [y + _BOX_HEIGHT / 2 for y in rows.values()]
    ends += [lane - _label_height(a, gap, picture) for a in picture.arrows for gap, lane in a.lanes.items()]
    ends += [lane for arrow in picture.arrows for lane in arrow.lanes.values()]
    shift = _MARGIN - min(ends)
    for state, y in rows.items():
        picture.places[state] = (_left(picture.layers[state], box_width, gaps), y + shift)
    for arrow in picture.arrows:
        arrow.lanes = {gap: lane + shift for gap, lane in arrow.lanes.items()}
    return max(ends) + shift + _MARGIN


def _place_lanes(gap: int, crossing: Sequence[_Arrow], rows: dict[str, float], picture: _Picture) -> None:
    """Put the arrows of a gap under one another: level with the box at their right end where there is room, and those
    that go past a layer under its boxes."""
    beside: dict[float, list[_Arrow]] = {}
    for arrow in crossing:
        if not _passed(arrow, picture):
            right = max(arrow.source, arrow.target, key=picture.layers.__getitem__)
            beside.setdefault(rows[right], []).append(arrow)
    last = float("-inf")

    def put(arrow: _Arrow, wanted: float) -> None:
        nonlocal last
        last = arrow.lanes[gap] = max(wanted, last + _label_height(arrow, gap, picture) + _APART)

    for row, group in sorted(beside.items()):
        group.sort(key=lambda arrow: picture.layers[arrow.source] > picture.layers[arrow.target])
        steps = [0.0, *(_label_height(arrow, gap, picture) + _APART for arrow in group[1:])]
        offsets = list(accumulate(steps))
        for arrow, offset in zip(group, offsets, strict=True):
            put(arrow, row + offset - offsets[-1] / 2)
    for arrow in crossing:
        passed = _passed(arrow, picture)
        if passed:
            put(arrow, max(rows[state] for state in passed) + _BOX_HEIGHT / 2 + _APART)


def _passed(arrow: _Arrow, picture: _Picture) -> list[str]:
    """The states in the layers between the two ends of an arrow."""
    between = _span(arrow, picture.layers)[1:]
    return [state for state in picture.table.states if picture.layers[state] in between]


def _label_height(arrow: _Arrow, gap: int, picture: _Picture) -> float:
    return len(arrow.labels) * _LINE if gap == _span(arrow, picture.layers)[0] else 6


def _loop_height(picture: _Picture, state: str) -> float:
    return sum(len(loop.labels) * _LINE + 26 for loop in picture.loops if loop.source == state)


def _port(state: str, arrow: _Arrow, gap: int, picture: _Picture) -> float:
    """The height at which an arrow touches the side of a box, apart from the others, in the order of the lanes."""
    side = [a for a in picture.arrows if state in (a.source, a.target) and gap in a.lanes]
    side = [a for a in side if picture.layers[state] in (gap, gap + 1)]
    side.sort(key=lambda a: a.lanes[gap])
    step = min(12.0, (_BOX_HEIGHT - 14) / max(1, len(side) - 1))
    return picture.places[state][1] + (side.index(arrow) - (len(side) - 1) / 2) * step


def _draw_arrow(arrow: _Arrow, picture: _Picture, box_width: float, gaps: Sequence[float], name: str) -> Html:
    span = _span(arrow, picture.layers)
    ahead = picture.layers[arrow.source] < picture.layers[arrow.target]
    left, right = (arrow.source, arrow.target) if ahead else (arrow.target, arrow.source)
    points: list[tuple[float, float]] = [(picture.places[left][0] + box_width, _port(left, arrow, span[0], picture))]
    for gap in span:
        start = _left(gap, box_width, gaps) + box_width
        points += [(start + _BEND, arrow.lanes[gap]), (start + gaps[gap + 1] - _BEND, arrow.lanes[gap])]
    points.append((picture.places[right][0], _port(right, arrow, span[-1], picture)))
    path = _curve(points if ahead else points[::-1])
    x, y = points[1]
    return tag("g", _line(path, arrow, picture, name), _label(arrow, picture, x, y - 5, "start"))


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Horizontal segments joined by curves that are horizontal at both ends."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (x + to_x) / 2
        path.append(f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}" if y != to_y else f"H{to_x:.1f}")
    return " ".join(path)


def _draw_loop(loop: _Arrow, picture: _Picture, box_width: float, name: str) -> Html:
    x, y = picture.places[loop.source]
    centre, top = x + box_width / 2, y - _BOX_HEIGHT / 2
    bend = f"C{centre - 26:.1f} {top - 30:.1f} {centre + 26:.1f} {top - 30:.1f} {centre + 16:.1f} {top:.1f}"
    path = f"M{centre - 16:.1f} {top:.1f} {bend}"
    return tag("g", _line(path, loop, picture, name), _label(loop, picture, x + box_width, top - 28, "end"))


def _line(path: str, arrow: _Arrow, picture: _Picture, name: str) -> Html:
    dashes = "5 3" if arrow.is_decision else None
    if arrow.taken:
        head = f"url(#{name}-taken-head)"
        return tag("path", d=path, stroke=_TAKEN, stroke_width="2.4", stroke_dasharray=dashes, marker_end=head)
    opacity = ".75" if picture.taken is None else _FAINT
    head = f"url(#{name}-head)"
    return tag("path", d=path, stroke_width="1.4", stroke_dasharray=dashes, marker_end=head, opacity=opacity)


def _label(arrow: _Arrow, picture: _Picture, x: float, y: float, align: str) -> Html:
    first = y - (len(arrow.labels) - 1) * _LINE
    written = (
        tag(
            "tspan",
            label,
            x=f"{x:.1f}",
            y=f"{first + index * _LINE:.1f}",
            font_weight="700" if index in arrow.taken else None,
            fill_opacity=None if picture.taken is None or index in arrow.taken else ".75",
        )
        for index, label in enumerate(arrow.labels)
    )
    return tag("text", *written, fill="currentColor", stroke="none", text_anchor=align, class_="mono")


def _draw_state(state: str, picture: _Picture, box_width: float) -> Html:
    x, y = picture.places[state]
    top = y - _BOX_HEIGHT / 2
    been = picture.taken is not None and state in picture.taken.states
    here = picture.taken is not None and state in picture.taken.now
    color = _TAKEN if been else "currentColor"

    def box(inset: float, opacity: str) -> Html:
        return tag(
            "rect",
            x=f"{x + inset:.1f}",
            y=f"{top + inset:.1f}",
            width=f"{box_width - 2 * inset:.1f}",
            height=f"{_BOX_HEIGHT - 2 * inset:.1f}",
            rx=f"{9 - inset}",
            fill=color if inset == 0 else None,
            fill_opacity=(".2" if here else ".06") if inset == 0 else None,
            stroke=color if been else None,
            stroke_width="2" if been and inset == 0 else "1.4",
            opacity=opacity,
        )

    final = box(3.5, ".55") if state in picture.table.terminal else None
    note = None if picture.taken is None else picture.taken.states.get(state)
    middle = f"{x + box_width / 2:.1f}"
    text_style = {"text_anchor": "middle", "fill": "currentColor", "stroke": "none"}
    name = tag("text", state, x=middle, y=f"{y + (-1.5 if note else 4.5):.1f}", **text_style, font_size="13")
    under = tag("text", note, x=middle, y=f"{y + 12.5:.1f}", **text_style, font_size="10.5") if note else None
    if picture.taken is None or state in picture.taken.states:
        return tag("g", box(0, "1"), final, name, under, class_="state")
    return tag("g", box(0, "1"), final, name, class_="state", opacity=_FAINT)


def _entry(picture: _Picture, name: str) -> Html:
    x, y = picture.places[picture.table.initial]
    dot = tag("circle", cx=f"{x - 32:.1f}", cy=f"{y:.1f}", r="4.5", fill="currentColor", stroke="none")
    return join(
        [dot, tag("path", d=f"M{x - 27:.1f} {y:.1f} H{x:.1f}", stroke_width="1.4", marker_end=f"url(#{name}-head)")]
    )


def _arrow_head(name: str, colour: str = "currentColor") -> Html:
    head = tag("path", d="M0 0 L8 4 L0 8 z", fill=colour, stroke="none")
    size = {"markerWidth": "8", "markerHeight": "8", "refX": "7.5", "refY": "4", "markerUnits": "userSpaceOnUse"}
    return tag("marker", head, id=f"{name}-head", orient="auto", **size)


def _in_words(picture: _Picture) -> str:
    def sentences(arrows: Iterable[_Arrow]) -> list[str]:
        return [f"{a.source} to {a.target}: {', '.join(a.labels)}" for a in arrows]

    return f"Starts {picture.table.initial}. " + ". ".join(sentences([*picture.arrows, *picture.loops])) + "."
