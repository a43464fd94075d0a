"""Drawings: one picture in three forms, for a notebook, a document and a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leyden.errors import DrawingError
from leyden.server.html import Html, tag

_INK, _PAPER = "#1d1f24", "#ffffff"


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """A picture.

    `svg` is one `<svg>` element for a page to hold: it has no background and takes the page's own text colour, so it
    can be read on light pages and dark ones. `mermaid` is the same as Mermaid source, None where that makes no sense.
    `text` says the same in lines. The same world gives the same bytes.
    """

    svg: str
    mermaid: str | None
    text: str

    @property
    def on_paper(self) -> str:
        """The picture with paper of its own: an image cannot see the colours of the page that it is put on."""
        opening, _, rest = self.svg.partition(">")
        paper = tag("rect", width="100%", height="100%", rx="8", fill=_PAPER, stroke="none")
        return f'{opening} color="{_INK}">{paper}{rest}'

    def save(self, path: str | Path) -> Path:
        """Write an `.svg` (with its own paper) or an `.mmd` (Mermaid source), and return where it went.

        Raises `DrawingError` for any other ending, and for `.mmd` where there is no Mermaid form.
        """
        target = Path(path)
        if target.suffix == ".svg":
            written = self.on_paper
        elif target.suffix == ".mmd" and self.mermaid is not None:
            written = self.mermaid
        elif target.suffix == ".mmd":
            raise DrawingError(f"{target.name}: this picture has no Mermaid form: save it as .svg")
        else:
            raise DrawingError(f"{target.name}: a drawing is written as .svg or as .mmd (Mermaid source)")
        target.write_text(written + "\n", encoding="utf-8", newline="\n")
        return target

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.on_paper

    def _repr_html_(self) -> str:
        return tag("div", Html(self.svg), style="overflow-x:auto;max-width:100%")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """HTML first: in it the picture takes the notebook's own colours, which no image could."""
        bundle = {"text/html": self._repr_html_(), "image/svg+xml": self.on_paper, "text/plain": self.text}
        return {
            kind: form
            for kind, form in bundle.items()
            if (not include or kind in include) and not (exclude and kind in exclude)
        }
