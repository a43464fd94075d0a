"""SVG shapes, texts and colours that all drawings use.

Most parts use the text colour of the page (`currentColor`); colours with a meaning have contrast on white and on black.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leyden.lab.drawings.text_metrics import PLAIN, TextRun, clean, clip, has_unknown_width, text_width, wrap_runs
from leyden.server.html import Html, join, tag
from leyden.server.timestamps import to_iso

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

# Tones by meaning. Each colour has a contrast of 3 to 1 (WCAG 2.2, 1.4.11) on white and on #1e1e1e.
GOOD, BAD, WAIT, OPEN, OTHER = "good", "bad", "wait", "open", "other"
COLOURS = {
    PLAIN: "currentColor",
    GOOD: "#1a9c5b",
    BAD: "#e0484d",
    WAIT: "#b9770e",
    OPEN: "#4a7dde",
    OTHER: "#9069d6",
}

MARGIN = 18  # around every drawing
NOTE_LINE = 17  # the height of a line of `notes`


def coord(value: float) -> str:
    """A coordinate as text, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def shape(element: str, /, *children: Html | None, **attributes: str | float | None) -> Html:
    """An element. Numbers are coordinates and sizes in pixels; other numbers, such as opacities, are texts."""
    written = {name: value if isinstance(value, str | None) else coord(value) for name, value in attributes.items()}
    return tag(element, *children, **written)


def text_at(
    x: float,
    y: float,
    what: Sequence[TextRun] | str,
    max_width: float,
    *,
    bold: bool = False,
    soft: bool = False,
    mono: bool = False,
    size: float = 12.5,
    anchor: str = "start",
    max_lines: int = 1,
) -> Html:
    """A text in at most `max_lines` lines of `max_width` pixels; a text that was cut is complete in its tooltip.

    `y` is the baseline of its first line. `bold`, `soft` and `mono` are the style of a text that is not in runs.
    """
    runs = [TextRun(what, bold, soft, mono)] if isinstance(what, str) else what
    lines = wrap_runs(runs, max_width, size, max_lines)
    whole = clean("".join(run.text for run in runs))
    shown = "".join(run.text for line in lines for run in line)
    title = tag("title", whole) if shown.rstrip().endswith("…") and not whole.endswith(shown) else None
    texts = [_line(x, y + place * (size + 3.5), line, size, anchor) for place, line in enumerate(lines)]
    return tag("g", title, *texts) if title is not None or len(texts) > 1 else join(texts)


def _line(x: float, y: float, line: Sequence[TextRun], size: float, anchor: str) -> Html:
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
    anchored = None if anchor == "start" else anchor
    wide = sum(run.width(size) for run in line)
    unknown = wide and has_unknown_width("".join(run.text for run in line))
    squeeze = {"textLength": wide, "lengthAdjust": "spacingAndGlyphs"} if unknown else {}
    return shape("text", *spans, x=x, y=y, font_size=size, text_anchor=anchored, **squeeze)


def headline(title: str, below: str | Sequence[TextRun], width: float, size: float = 12.5) -> list[Html]:
    """The title of a drawing of this width, and a line below it."""
    return [
        text_at(MARGIN, 30, title, width, bold=True, size=16),
        text_at(MARGIN, 52, below, width - 2 * MARGIN, soft=True, size=size),
    ]


def notes(lines: Iterable[str], y: float, width: float) -> list[Html]:
    """Notes below a drawing, each one line."""
    return [
        text_at(MARGIN, y + place * NOTE_LINE, text, width - 2 * MARGIN, soft=True, size=11.5)
        for place, text in enumerate(lines)
    ]


def line(
    x1: float, y1: float, x2: float, y2: float, tone: str = PLAIN, *, width: float = 1.2, **style: str | None
) -> Html:
    """A straight line."""
    return shape("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=COLOURS[tone], stroke_width=width, **style)


def arrow(x1: float, y: float, x2: float, tone: str = PLAIN, *, dashed: bool = False) -> Html:
    """A horizontal arrow."""
    back = -6 if x2 > x1 else 6
    shaft = line(x1, y, x2 + back / 2, y, tone, width=1.4, stroke_dasharray="4 3" if dashed else None)
    head = tag("path", d=f"M{coord(x2)} {coord(y)} l{back} -3.6 v7.2 z", fill=COLOURS[tone])
    return join([shaft, head])


def dot(x: float, y: float, tone: str = PLAIN, *, hollow: bool = False, r: float = 4.6) -> Html:
    """A round mark of an event; a scheduled one is hollow."""
    if hollow:
        return shape("circle", cx=x, cy=y, r=r - 0.6, fill="none", stroke=COLOURS[tone], stroke_width=1.6)
    return shape("circle", cx=x, cy=y, r=r, fill=COLOURS[tone])


def rect(
    x: float, y: float, width: float, height: float, rx: float, tone: str, opacity: str, **edge: str | float | None
) -> Html:
    """A tinted rectangle with round corners; with `edge` (attributes of its stroke) it has an outline."""
    size = {"x": x, "y": y, "width": width, "height": height, "rx": rx}
    outline = {"stroke": COLOURS[tone], **edge} if edge else {}
    return shape("rect", **size, fill=COLOURS[tone], fill_opacity=opacity, **outline)


def pill(x: float, y: float, text: str, tone: str) -> Html:
    """A word in a tinted frame. `y` is the baseline of the text."""
    size = 11.5
    word = clip(clean(text), 200, size, bold=True)
    wide, tall = text_width(word, size, bold=True) + 18, size + 8
    frame = rect(x, y - size - 1.5, wide, tall, tall / 2, tone, ".14", stroke_opacity=".75")
    return tag("g", frame, text_at(x + wide / 2, y, word, wide, bold=True, size=size, anchor="middle"))


def svg_root(width: float, height: float, label: str, *children: Html | None) -> Html:
    """The `<svg>` element of a drawing. `label` is its text for screen readers."""
    return shape(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=clean(label),
        viewBox=f"0 0 {coord(width)} {coord(height)}",
        width=width,
        height=height,
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


def dated_time(at_ms: int, other_ms: int) -> str:
    """The time of an instant: to the millisecond on the day of another one, and to the second with its date on any
    other day."""
    same = day(at_ms) == day(other_ms)
    return clock_time(at_ms) if same else f"{day(at_ms)[5:]} {clock_time(at_ms)[:8]}"
