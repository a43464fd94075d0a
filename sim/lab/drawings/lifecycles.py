"""State diagrams of Charges and Static Charges, with the transitions that were taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from leyden.errors import DrawingError
from leyden.lab.charge_states import Transition, journal_transitions, lost_history, transitions_of
from leyden.lab.drawings.charge_events import state_tone
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.svg import (
    MARGIN,
    MONO,
    NOTE_LINE,
    clock_time,
    coord,
    dated_time,
    day,
    notes,
    pill,
    svg_root,
    text_at,
)
from leyden.lab.drawings.text_metrics import clean, mermaid_text, text_width
from leyden.server.contract.lifecycle_rows import CREATION
from leyden.server.docs.lifecycle_diagram import TakenTransitions, lifecycle_svg
from leyden.server.html import Html, text
from leyden.server.printable import quoted
from leyden.world.world import World

_TOP = 62
_MOST_NOTES = 8
_SIZE = re.compile(r' (?:width|height)="([^"]*)"')

Row = Mapping[str, Any]


def lifecycle(world: World, resource: str, resource_id: str | None = None) -> Drawing:
    """The state diagram of `Charge` or `StaticCharge`. The transitions of one resource are marked with their times, or
    those of all resources with their numbers.

    Raises `DrawingError` for a resource without a lifecycle, and for an unknown id.
    """
    lifecycles = world.service.contract.lifecycles
    if not isinstance(resource, str) or resource not in lifecycles:
        raise DrawingError(
            f"{quoted(resource)} has no lifecycle: the specification has one for {' and '.join(lifecycles)}"
        )
    rows = world.service.charges.charges if resource == "Charge" else world.service.static_charges.static_charges
    table = lifecycles[resource]
    if resource_id is None:
        taken, title, noted = _of_all(world, resource, list(rows))
        status = None
    else:
        row = rows.row(resource_id)
        if row is None:
            raise DrawingError(
                f"there is no {resource} {quoted(resource_id)} in this world: give the id of an existing one"
                f"{world.removed.unknown(_counted(resource))}"
            )
        status = row["status"]
        taken, noted = _of_one(transitions_of(world, resource, resource_id, row), row)
        lost = lost_history(world, resource_id, "refused transitions") if taken.moves else ""
        noted += [lost] if lost else []
        title = f"{_resource_name(resource, 1)} {resource_id}"
    svg = _sheet(lifecycle_svg(table, taken), title, status, state_tone(table, status or table.initial), noted)
    return Drawing(svg, _mermaid(world, resource, taken), _text(title, status, taken, noted))


def _of_one(transitions: list[Transition], row: Row) -> tuple[TakenTransitions, list[str]]:
    """The transitions of one resource with their times; a repeated one shows its number and the last time. A time of
    a later day than that of the creation has its date."""
    times: dict[tuple[str, str, str], list[int]] = {}
    entered: dict[str, int] = {}
    noted: list[str] = []
    created_at = row["created_at"]
    for at, trigger, source, to, because in transitions:
        if to is None:
            noted.append(f"{dated_time(at, created_at)}  {trigger} was refused: {because}")
            continue
        times.setdefault((source, trigger, to), []).append(at)
        if source != to:
            entered[to] = at
    if not transitions:
        noted.append("the journal no longer has the transitions to this state")
    times_of = {
        move: (f"{len(at)} × " if len(at) > 1 else "") + dated_time(at[-1], created_at) for move, at in times.items()
    }
    states = {state: dated_time(at, created_at) for state, at in entered.items()}
    states.setdefault(row["status"], "now")
    if transitions:
        noted.insert(0, f"created {day(created_at)} {clock_time(created_at)} UTC")
    return TakenTransitions(times_of, states, frozenset({row["status"]})), noted


def _of_all(world: World, resource: str, rows: list[Row]) -> tuple[TakenTransitions, str, list[str]]:
    """The transitions of all resources, with the number of each."""
    states_reached = dict.fromkeys((row["id"] for row in rows), CREATION)
    taken: Counter[tuple[str, str, str]] = Counter()
    refused: Counter[tuple[str, str]] = Counter()
    for resource_id, (_, trigger, source, to, because) in journal_transitions(world, resource):
        if resource_id not in states_reached:
            continue
        if to is None:
            refused[trigger, because] += 1
        else:
            taken[source, trigger, to] += 1
            states_reached[resource_id] = to
    counts = Counter(row["status"] for row in rows)
    noted = [f"{trigger} was refused {count} ×: {because}" for (trigger, because), count in refused.items()]
    lost = sum(states_reached[row["id"]] != row["status"] for row in rows)
    if lost:
        noted.insert(0, f"the journal no longer has the transitions of {lost} of them")
    without = world.removed.without(_counted(resource))
    if without:
        noted.insert(0, without)
    elif not rows:
        noted = ["there are no resources yet, so no transition is marked"]
    entered = {to for _, _, to in taken} | counts.keys()
    states = {state: f"{counts[state]} now" if counts[state] else "none now" for state in sorted(entered)}
    marked = TakenTransitions({move: f"{count} ×" for move, count in taken.items()}, states, frozenset(counts))
    return (
        marked,
        f"{len(rows) or 'No'} {_resource_name(resource, len(rows))}{'' if rows or without else ' yet'}",
        noted,
    )


def _counted(resource: str) -> str:
    """The name of the number of removed resources of this kind."""
    return "charges" if resource == "Charge" else "staticCharges"


def _resource_name(resource: str, count: int) -> str:
    words = "Static Charge" if resource == "StaticCharge" else resource
    return words if count == 1 else f"{words}s"


def _sheet(inner: Html, title: str, status: str | None, tone: str, noted: list[str]) -> Html:
    """The diagram under a heading, with notes below."""
    wide, tall = (float(found) for found in _SIZE.findall(inner, 0, inner.index(">")))
    width = max(wide, 480.0) + 2 * MARGIN
    placed = inner.replace("<svg ", f'<svg x="{coord((width - wide) / 2)}" y="{_TOP - 14}" ', 1)
    placed = placed.replace('class="mono"', f'font-family="{text(MONO)}"')
    shown = noted[:_MOST_NOTES]
    if len(noted) > len(shown):
        shown[-1] = f"{len(noted) - len(shown) + 1} more are left out"
    head = [text_at(MARGIN, 30, title, width - 2 * MARGIN - 110, bold=True, size=15)]
    if status is not None:
        beside = min(MARGIN + text_width(clean(title), 15, bold=True) + 10, width - MARGIN - 100)
        head.append(pill(beside, 29, status, tone))
    foot = _TOP + tall + 4
    height, what = foot + len(shown) * NOTE_LINE + 4, f"The lifecycle of {title}, with the path taken"
    return svg_root(width, height, what, *head, Html(placed), *notes(shown, foot, width))


def _text(title: str, status: str | None, taken: TakenTransitions, noted: list[str]) -> str:
    lines = [f"{title}, {status}" if status else title]
    lines += [f"  {source} --{trigger}--> {to}  {note}" for (source, trigger, to), note in taken.moves.items()]
    lines += [f"  {state}: {note}" for state, note in taken.states.items() if status is None]
    return "\n".join(clean(line) for line in [*lines, *(f"  {note}" for note in noted)])


def _mermaid(world: World, resource: str, taken: TakenTransitions) -> str:
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
