"""Ink: the few shapes and colours that every picture is drawn with.

Colours are the reader's own (`currentColor`), and the few that carry a meaning stand out on white as on near black.
"""

from __future__ import annotations

from collections.abc import Sequence

from leyden.lab.drawings.text_metrics import PLAIN, Run, clean, clip, is_uncertain, lines_of, width_of
from leyden.server.html import Html, join, tag
from leyden.server.timestamps import to_iso

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

# What something is to the reader. Each colour keeps a contrast of 3 to 1 (WCAG 2.2, 1.4.11) on white and on #1e1e1e.
GOOD, BAD, WAIT, OPEN, OTHER = "good", "bad", "wait", "open", "other"
COLOURS = {
    PLAIN: "currentColor",
    GOOD: "#1a9c5b",
    BAD: "#e0484d",
    WAIT: "#b9770e",
    OPEN: "#4a7dde",
    OTHER: "#9069d6",
}
# The states that the service's own lifecycles know; another specification's take the colour of an open one.
STATE_TONES = {"completed": GOOD, "expired": WAIT, "error": BAD, "disabled": OTHER}


def n(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def write(
    x: float,
    y: float,
    runs: Sequence[Run] | str,
    *,
    room: float,
    size: float = 12.5,
    anchor: str = "start",
    most: int = 1,
) -> Html:
    """A text at a place, in at most `most` lines below one another; what was cut off is in its tooltip."""
    given = [Run(runs)] if isinstance(runs, str) else runs
    lines = lines_of(given, room, size, most)
    whole = clean("".join(run.text for run in given))
    shown = "".join(run.text for line in lines for run in line)
    title = tag("title", whole) if shown.rstrip().endswith("…") and not whole.endswith(shown) else None
    texts = [_line(x, y + place * (size + 3.5), line, size, anchor) for place, line in enumerate(lines)]
    return tag("g", title, *texts) if title is not None or len(texts) > 1 else join(texts)


def _line(x: float, y: float, line: Sequence[Run], size: float, anchor: str) -> Html:
    drawn = "".join(run.text for run in line)
    wide = sum(width_of(run.text, size, bold=run.bold, mono=run.mono) for run in line)
    squeeze = {"textLength": n(wide), "lengthAdjust": "spacingAndGlyphs"} if wide and is_uncertain(drawn) else {}
    spans = [
        tag(
            "tspan",
            run.text,
            font_weight="600" if run.bold else None,
            fill_opacity=".72" if run.soft else None,
            font_family=MONO if run.mono else None,
            fill=None if run.tone == PLAIN else COLOURS[run.tone],
        )
        for run in line
    ]
    where = {"x": n(x), "y": n(y), "font_size": n(size), "text_anchor": None if anchor == "start" else anchor}
    return tag("text", *spans, **where, **squeeze)


def line(
    x1: float, y1: float, x2: float, y2: float, tone: str = PLAIN, *, wide: float = 1.2, **more: str | None
) -> Html:
    """A straight line."""
    ends = {"x1": n(x1), "y1": n(y1), "x2": n(x2), "y2": n(y2)}
    return tag("line", **ends, stroke=COLOURS[tone], stroke_width=n(wide), **more)


def arrow(x1: float, y: float, x2: float, tone: str = PLAIN, *, dashed: bool = False) -> Html:
    """A level arrow."""
    back = -6 if x2 > x1 else 6
    shaft = line(x1, y, x2 + back / 2, y, tone, wide=1.4, stroke_dasharray="4 3" if dashed else None)
    head = tag("path", d=f"M{n(x2)} {n(y)} l{back} -3.6 v7.2 z", fill=COLOURS[tone])
    return join([shaft, head])


def dot(x: float, y: float, tone: str = PLAIN, *, hollow: bool = False, r: float = 4.6) -> Html:
    """A round mark: something happened here, or (hollow) will."""
    if hollow:
        return tag("circle", cx=n(x), cy=n(y), r=n(r - 0.6), fill="none", stroke=COLOURS[tone], stroke_width="1.6")
    return tag("circle", cx=n(x), cy=n(y), r=n(r), fill=COLOURS[tone])


def pill(x: float, y: float, text: str, tone: str, size: float = 11.5) -> tuple[Html, float]:
    """A word in a tinted frame, and how wide it is. `y` is the text's own line."""
    word = clip(clean(text), 200, size, bold=True)
    wide = width_of(word, size, bold=True) + 18
    frame = tag(
        "rect",
        x=n(x),
        y=n(y - size - 1.5),
        width=n(wide),
        height=n(size + 8),
        rx=n((size + 8) / 2),
        fill=COLOURS[tone],
        fill_opacity=".14",
        stroke=COLOURS[tone],
        stroke_opacity=".75",
    )
    letters = write(x + wide / 2, y, [Run(word, bold=True)], room=wide, size=size, anchor="middle")
    return tag("g", frame, letters), wide


def sheet(width: float, height: float, label: str, *children: Html | None) -> Html:
    """The whole picture. `label` is what somebody who cannot see it is told."""
    return tag(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=clean(label),
        viewBox=f"0 0 {n(width)} {n(height)}",
        width=n(width),
        height=n(height),
        direction="ltr",
        fill="currentColor",
        font_family=SANS,
        style="max-width:100%;height:auto",
    )


def sat(amount_msat: int) -> str:
    """An amount in sat, exactly: 1,234.5 sat."""
    whole, rest = divmod(amount_msat, 1_000)
    return f"{whole:,}{f'.{rest:03d}'.rstrip('0') if rest else ''} sat"


def clock_time(at_ms: int) -> str:
    """The time of day of an instant, to the millisecond, in UTC."""
    return to_iso(at_ms)[11:23]


def day(at_ms: int) -> str:
    """The date of an instant, in UTC."""
    return to_iso(at_ms)[:10]


def state_tone(status: str) -> str:
    """The colour of a state of the service's own lifecycles."""
    return STATE_TONES.get(status, OPEN)
