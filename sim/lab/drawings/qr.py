"""QR codes of payment requests, always dark on light, because scanners expect that."""

from __future__ import annotations

import re
from itertools import groupby

from leyden.arguments import checked_text
from leyden.errors import DrawingError
from leyden.extras import require
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.svg import coord, shape, svg_root, text_at
from leyden.lab.drawings.text_metrics import clean, clip
from leyden.server.html import tag

# ISO/IEC 18004: a symbol needs a quiet zone of four modules.
_QUIET = 4
_MODULE, _LARGEST = 6.0, 460.0
_REQUEST = re.compile(r"(lightning:)?ln[a-z0-9]*")


def qr(text: str) -> Drawing:
    """A text as a QR code. A payment request is encoded in capitals, as BOLT 11 advises: the code gets smaller.

    Raises `DrawingError` for an empty text, and for one that no QR code can hold (2,953 bytes).
    """
    require("qr()", "segno", "lab")
    import segno

    checked_text("text", text)
    if not text:
        raise DrawingError("there is nothing to draw: give a payment request, a link or any other text")
    written = text.upper() if text in (text.lower(), text.upper()) and _REQUEST.fullmatch(text.lower()) else text
    content = written if written.isascii() else written.encode("utf-8", "replace")
    try:
        code = segno.make_qr(content, boost_error=False)
    except segno.DataOverflowError:
        size = len(written.encode())
        raise DrawingError(f"a QR code holds at most 2,953 bytes, not the {size} of this text") from None
    matrix = [[bool(module) for module in row] for row in code.matrix]
    return Drawing(_svg(matrix, text), None, _text(matrix, text))


def _svg(matrix: list[list[bool]], text: str) -> str:
    across = len(matrix) + 2 * _QUIET
    module = min(_MODULE, _LARGEST / across)
    side = across * module
    path: list[str] = []
    for y, row in enumerate(matrix):
        x = 0
        for dark, stretch in groupby(row):
            wide = len(list(stretch))
            if dark:
                path.append(f"M{x} {y}h{wide}v1h-{wide}z")
            x += wide
    card = shape("rect", x=8, y=8, width=side, height=side, rx=10, fill="#fff")
    shift = coord(8 + _QUIET * module)
    dots = tag("path", d="".join(path), fill="#000", transform=f"translate({shift} {shift}) scale({module:.4f})")
    code = tag("g", dots, shape_rendering="crispEdges")
    caption = text_at(8 + side / 2, side + 26, text, side, mono=True, soft=True, size=11, anchor="middle")
    return svg_root(side + 16, side + 38, f"QR code of {clip(clean(text), 400, 10)}", card, code, caption)


def _text(matrix: list[list[bool]], text: str) -> str:
    """Two rows of modules per line; the light modules are drawn, for terminals with light text on dark."""
    across = len(matrix[0]) + 4
    quiet = [False] * across
    rows = [quiet, quiet, *([False, False, *row, False, False] for row in matrix), quiet, quiet]
    if len(rows) % 2:
        rows.append(quiet)
    glyphs = {(False, False): "█", (False, True): "▀", (True, False): "▄", (True, True): " "}
    lines = [
        "".join(glyphs[pair] for pair in zip(*both, strict=True)) for both in zip(rows[::2], rows[1::2], strict=True)
    ]
    return "\n".join([*lines, clean(text)])
