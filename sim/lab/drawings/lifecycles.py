"""State diagrams of Charges and Static Charges, with the transitions that were taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from leyden.errors import DrawingError
from leyden.lab.drawings.charge_events import Transition, state_tone, transitions_of
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.mermaid import mermaid_text
from leyden.lab.drawings.svg import MONO, clock_time, coord, day, pill, svg_root, text_at
from leyden.lab.drawings.text_metrics import TextRun, clean, text_width
from leyden.server.charges.lifecycle import CREATION
from leyden.server.docs.lifecycle_diagram import Taken, lifecycle_svg
from leyden.server.html import Html
from leyden.world.world import World

_MARGIN, _TOP, _LINE = 18, 62, 17
_MOST_NOTES = 8

Row = Mapping[str, Any]


def lifecycle(world: World, resource: str, resource_id: str | None = None) -> Drawing:
    """The state diagram of `Charge` or `StaticCharge`. The transitions of one resource are marked with their times, or
    those of all resources with their numbers.

    Raises `DrawingError` for a resource without a lifecycle, and for an unknown id.
    """
    lifecycles = world.service.contract.lifecycles
    if resource not in lifecycles:
        raise DrawingError(f"{resource!r} has no lifecycle: the specification has one for {' and '.join(lifecycles)}")
    rows = world.service.charges.charges if resource == "Charge" else world.service.static_charges.static_charges
    table = lifecycles[resource]
    if resource_id is None:
        taken, title, notes = _of_all(world, resource, list(rows))
        status = None
    else:
        row = rows.row(resource_id)
        if row is None:
            raise DrawingError(f"there is no {resource} {resource_id!r} in this world: give the id of an existing one")
        status = row["status"]
        taken, notes = _of_one(transitions_of(world, resource, resource_id, row), row)
        title = f"{_resource_name(resource, 1)} {resource_id}"
    svg = _sheet(lifecycle_svg(table, taken), title, status, state_tone(table, status or table.initial), notes)
    return Drawing(svg, _mermaid(world, resource, taken), _text(title, status, taken, notes))


def _of_one(transitions: list[Transition], row: Row) -> tuple[Taken, list[str]]:
    """The transitions of one resource with their times; a repeated one shows its number and the last time."""
    times: dict[tuple[str, str, str], list[int]] = {}
    entered: dict[str, int] = {}
    notes: list[str] = []
    for transition in transitions:
        if transition.to is None:
            notes.append(f"{clock_time(transition.at)}  {transition.trigger} was refused: {transition.because}")
            continue
        times.setdefault((transition.source, transition.trigger, transition.to), []).append(transition.at)
        if transition.source != transition.to:
            entered[transition.to] = transition.at
    if not transitions:
        notes.append("the journal no longer has the transitions to this state")
    noted = {move: (f"{len(at)} × " if len(at) > 1 else "") + clock_time(at[-1]) for move, at in times.items()}
    states = {state: clock_time(at) for state, at in entered.items()}
    states.setdefault(row["status"], "now")
    if transitions:
        notes.insert(0, f"created {day(row['created_at'])} {clock_time(row['created_at'])} UTC")
    return Taken(noted, states, frozenset({row["status"]})), notes


def _of_all(world: World, resource: str, rows: list[Row]) -> tuple[Taken, str, list[str]]:
    """The transitions of all resources, with the number of each."""
    known = {row["id"] for row in rows}
    state_of = dict.fromkeys(known, CREATION)
    taken: Counter[tuple[str, str, str]] = Counter()
    refused: Counter[tuple[str, str]] = Counter()
    for entry in world.journal.entries():
        if entry.subject not in known:
            continue
        if entry.kind == "refused":
            refused[entry.facts["trigger"], entry.facts["refuse"]] += 1
        elif entry.facts.get("resource") == resource and "status" in entry.facts:
            status = entry.facts["status"]
            taken[state_of[entry.subject], entry.kind, status] += 1
            state_of[entry.subject] = status
    standing = Counter(row["status"] for row in rows)
    notes = [f"{trigger} was refused {count} ×: {code}" for (trigger, code), count in refused.items()]
    lost = sum(state_of[row["id"]] != row["status"] for row in rows)
    if lost:
        notes.insert(0, f"the journal no longer has the transitions of {lost} of them")
    if not rows:
        notes = ["there are no resources yet, so no transition is marked"]
    entered = {to for _, _, to in taken} | standing.keys()
    states = {state: f"{standing[state]} now" if standing[state] else "none now" for state in sorted(entered)}
    marked = Taken({move: f"{count} ×" for move, count in taken.items()}, states, frozenset(standing))
    return marked, f"{len(rows) or 'No'} {_resource_name(resource, len(rows))}{'' if rows else ' yet'}", notes


def _resource_name(resource: str, count: int) -> str:
    words = "Static Charge" if resource == "StaticCharge" else resource
    return words if count == 1 else f"{words}s"


def _sheet(inner: Html, title: str, status: str | None, tone: str, notes: list[str]) -> Html:
    """The diagram under a heading, with notes below."""
    size = dict(
        part.split("=", 1) for part in inner.partition(">")[0].split(" ") if part.startswith(("width=", "height="))
    )
    wide, tall = (float(size[side].strip('"')) for side in ("width", "height"))
    width = max(wide, 480.0) + 2 * _MARGIN
    left = (width - wide) / 2
    placed = Html(
        inner.replace("<svg ", f'<svg x="{coord(left)}" y="{_TOP - 14}" ', 1).replace(
            'class="mono"', f'font-family="{_MONO}"'
        )
    )
    shown = notes[:_MOST_NOTES]
    if len(notes) > len(shown):
        shown[-1] = f"{len(notes) - len(shown) + 1} more are left out"
    head = [text_at(_MARGIN, 30, [TextRun(title, bold=True)], max_width=width - 2 * _MARGIN - 110, size=15)]
    if status is not None:
        beside = min(_MARGIN + text_width(clean(title), 15, bold=True) + 10, width - _MARGIN - 100)
        head.append(pill(beside, 29, status, tone)[0])
    foot = _TOP + tall + 4
    below = [
        text_at(_MARGIN, foot + place * _LINE, [TextRun(note, soft=True)], max_width=width - 2 * _MARGIN, size=11.5)
        for place, note in enumerate(shown)
    ]
    height = foot + len(shown) * _LINE + 4
    return svg_root(width, height, f"The lifecycle of {title}, with the path taken", *head, placed, *below)


_MONO = MONO.replace("'", "&#x27;")


def _text(title: str, status: str | None, taken: Taken, notes: list[str]) -> str:
    lines = [f"{title}, {status}" if status else title]
    lines += [f"  {source} --{trigger}--> {to}  {note}" for (source, trigger, to), note in taken.moves.items()]
    lines += [f"  {state}: {note}" for state, note in taken.states.items() if status is None]
    return clean_lines([*lines, *(f"  {note}" for note in notes)])


def clean_lines(lines: list[str]) -> str:
    """Lines for a terminal, without control characters."""
    return "\n".join(clean(line) for line in lines)


def _mermaid(world: World, resource: str, taken: Taken) -> str:
    table = world.service.contract.lifecycles[resource]
    ids = {state: f"s{place}" for place, state in enumerate(table.states)}
    ids[CREATION] = "[*]"
    lines = ["stateDiagram-v2", "    direction LR"]
    lines += [f'    state "{mermaid_text(state)}" as {ids[state]}' for state in table.states]
    for row in table.rows:
        if row.to is None:
            continue
        label = f"{row.trigger} ({row.when})" if row.when else row.trigger
        note = taken.moves.get((row.source, row.trigger, row.to))
        text = mermaid_text(f"{label}, {note}" if note else label).replace(":", "#58;")
        lines.append(f"    {ids[row.source]} --> {ids[row.to]} : {text}")
    lines += [f"    {ids[state]} --> [*]" for state in table.terminal]
    lines.append("    classDef taken stroke:#4a7dde,stroke-width:3px")
    lines += [f"    class {ids[state]} taken" for state in table.states if state in taken.states]
    return "\n".join(lines)
