"""The timeline: five lanes, time runs down, and every gap says how long it was.

09:00:00.000  |o--|---|-->|   |  ana pays ...
              |   |   |   |   |
   + 5 min    :   :   :   :   :
09:05:00.000  |   |   |   |-->|  callback 2 → 200
"""

from __future__ import annotations

from leyden.lab.drawings.charge_events import Story, story_of
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.lanes import MARGIN, WIDTH, Rows, mermaid_timeline, passed_lines, text_lines
from leyden.lab.drawings.svg import clock_time, pill, sat, sheet, state_tone, write
from leyden.lab.drawings.text_metrics import Run, clean, clip, width_of
from leyden.server.html import Html
from leyden.world.world import World

_LEFT_OUT = "steps are left out here"


def timeline(world: World, charge_id: str) -> Drawing:
    """A Charge's timeline: what its payers, the network's hops, the node, the service and the receiver did, and when.

    What is set for later stands below the present. Raises `DrawingError` for an id that is no Charge's.
    """
    story = story_of(world, charge_id)
    title = f"{title_of(story)}, {story.charge['status']}"
    return Drawing(_svg(story), mermaid_timeline(title, story.steps), _text(story))


def title_of(story: Story) -> str:
    """What the story is about, in a few words."""
    return f"Charge of {sat(story.charge['amount_msat'])}"


def head_of(story: Story, width: float, before: str = "") -> list[Html]:
    """The title, the state, and whose story it is."""
    charge, title = story.charge, title_of(story)
    beside = MARGIN + width_of(title, 16, bold=True) + 10
    text = [Run(before, bold=True), Run(charge["id"], mono=True, soft=True)]
    if charge["description"]:
        text.append(Run(f"  “{charge['description']}”"))
    return [
        write(MARGIN, 30, [Run(title, bold=True)], room=width, size=16),
        pill(beside, 29, charge["status"], state_tone(charge["status"]))[0],
        write(MARGIN, 52, text, room=width - 2 * MARGIN, size=12),
    ]


def _now(story: Story) -> str:
    return "now" if story.ahead else "now, and nothing is ahead"


def _svg(story: Story) -> Html:
    rows = Rows()
    for place, step in enumerate(story.steps):
        if place == story.told and story.left_out:
            rows.omission(story.left_out, _LEFT_OUT)
        rows.step(step)
    rows.now(story.now, _now(story))
    for step in story.ahead:
        rows.step(step, ahead=True)
    used = [lane for step in (*story.steps, *story.ahead) for lane in (step.source, step.target)]
    what = f"Timeline of a Charge: {len(story.steps)} steps, now {story.charge['status']}"
    return sheet(WIDTH, rows.y + 6 + MARGIN, what, *head_of(story, WIDTH), *rows.drawn(used))


def _text(story: Story) -> str:
    charge = story.charge
    described = f"  “{clip(clean(charge['description']), 400, 10)}”" if charge["description"] else ""
    lines = [f"{title_of(story)}, {charge['status']}  {charge['id']}{described}"]
    shown: int | None = None
    for place, step in enumerate(story.steps):
        if place == story.told and story.left_out:
            lines.append(f"{'':14}... {story.left_out} {_LEFT_OUT}")
        lines += text_lines(step, shown)
        shown = step.at
    lines += [*passed_lines(story.now, shown), f"{clock_time(story.now)}  -- {_now(story)} --"]
    shown = story.now
    for step in story.ahead:
        lines += text_lines(step, shown)
        shown = step.at
    return "\n".join(lines)
