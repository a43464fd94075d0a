"""The type of every drawing: SVG for a notebook, Mermaid source for a document, text for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leyden.arguments import checked_path
from leyden.errors import DrawingError
from leyden.files.written_files import write_document
from leyden.server.html import Html, tag

_TEXT_COLOUR, _BACKGROUND = "#1d1f24", "#ffffff"


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """A drawing in three forms. Equal worlds give equal bytes.

    `svg` is one `<svg>` element without a background that uses the text colour of its page, so it is readable on light
    and dark pages. `mermaid` is Mermaid source; None for a drawing that Mermaid cannot express. `text` is plain text.
    """

    svg: str
    mermaid: str | None
    text: str

    @property
    def svg_with_background(self) -> str:
        """The SVG with a background of its own: an image cannot take the colours of its page."""
        opening, _, rest = self.svg.partition(">")
        background = tag("rect", width="100%", height="100%", rx="8", fill=_BACKGROUND, stroke="none")
        return f'{opening} color="{_TEXT_COLOUR}">{background}{rest}'

    def save(self, path: str | Path) -> Path:
        """Write an `.svg` (with a background) or an `.mmd` (Mermaid source) file, and return its path.

        Raises `DrawingError` for any other suffix, for `.mmd` when there is no Mermaid form, and for a file that cannot
        be written.
        """
        target = checked_path("path", path)
        if target.suffix == ".svg":
            written = self.svg_with_background
        elif target.suffix == ".mmd" and self.mermaid is not None:
            written = self.mermaid
        elif target.suffix == ".mmd":
            raise DrawingError(f"{target.name}: this drawing has no Mermaid form: save it as .svg")
        else:
            raise DrawingError(f"{target.name}: a drawing is written as .svg or as .mmd (Mermaid source)")
        try:
            write_document(target, written + "\n")
        except OSError as error:
            raise DrawingError(f"{target} cannot be written: {error.strerror}; choose another path") from None
        return target

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.svg_with_background

    def _repr_html_(self) -> str:
        return tag("div", Html(self.svg), style="overflow-x:auto;max-width:100%")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """HTML comes first: there the drawing takes the notebook's colours, which an image cannot."""
        bundle = {"text/html": self._repr_html_(), "image/svg+xml": self.svg_with_background, "text/plain": self.text}
        return {
            kind: form
            for kind, form in bundle.items()
            if (not include or kind in include) and not (exclude and kind in exclude)
        }
