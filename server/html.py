"""HTML builder: every text is escaped unless it was built here.

`tag` escapes whatever is not `Html` already, so a page is safe by how it is built: a description from the spec can say
`<script>` and the reader sees the letters. Descriptions are Markdown, read with raw HTML and pictures switched off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

_VOID = frozenset({"meta", "br", "col"})
_LONG = 60
_LINK = re.compile(r"https?://|mailto:|[^:]*$", re.IGNORECASE)
_TEXT = r'"(?:[^"\\]|\\.)*"'
_JSON_TOKEN = re.compile(rf"(?P<k>{_TEXT}(?=:))|(?P<s>{_TEXT})|(?P<n>(?<![\w./-])(?:-?\d[\d.eE+-]*|true|false|null)\b)")


class Html(str):
    """A text that is HTML already. `str` methods on it return a plain text, which will be escaped."""

    __slots__ = ()


Child = str | None


def text(value: object) -> Html:
    """Any value as escaped text."""
    return value if isinstance(value, Html) else Html(escape(str(value), quote=True))


def join(children: Iterable[Child], between: str = "") -> Html:
    """The children joined. `None` is skipped, a plain text is escaped."""
    return Html(text(between).join(text(child) for child in children if child is not None))


def tag(element: str, /, *children: Child, **attributes: str | bool | None) -> Html:
    """An element. `class_` and `aria_label` become `class` and `aria-label`; None and False omit one."""
    parts = [element]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        parts.append(written if value is True else f'{written}="{text(value)}"')
    opening = f"<{' '.join(parts)}>"
    return Html(opening if element in _VOID else f"{opening}{join(children)}</{element}>")


def anchor(kind: str, name: str) -> str:
    """The id of an element on the page: `operation-createCharge`. Never empty, never with spaces."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}"


def code(value: object) -> Html:
    """A name or a value as code."""
    return tag("code", text(value))


def link(target: str, *children: Child) -> Html:
    """A link to an element on this page."""
    return tag("a", *children, href=f"#{target}")


def json_source(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def coloured(source: str) -> Html:
    """JSON, or a text that contains some, with keys, strings and numbers marked for colour."""
    parts: list[Html] = []
    end = 0
    for found in _JSON_TOKEN.finditer(source):
        parts.append(_content(source[end : found.start()]))
        # A long text without a space (an invoice, a signature) starts on its key's line and breaks anywhere.
        whole = found.lastgroup == "s" and len(found[0]) > _LONG and " " not in found[0]
        token = _content(found[0])
        match found.lastgroup:
            case "k":
                parts.append(tag("b", token))
            case "n":
                parts.append(tag("i", token))
            case other:
                parts.append(tag("span", token, class_="s whole" if whole else other))
        end = found.end()
    return join([*parts, _content(source[end:])])


def _content(source: str) -> Html:
    # Between tags a quotation mark is itself, and JSON has many: escaped, they are a tenth of a page.
    return Html(escape(source, quote=False))


def frame(content: Html, label: str) -> Html:
    """Preformatted text. It may scroll, so the keyboard can reach it (WCAG 2.1.1) and it has a name."""
    return tag("pre", tag("code", content), tabindex="0", role="region", aria_label=label)


class Markdown:
    """Renders descriptions in Markdown. Each page has its own instance, which caches what it rendered."""

    def __init__(self) -> None:
        self.headings: list[tuple[str, str]] = []
        self._cache: dict[tuple[str, int], Html] = {}  # the same few error descriptions stand under every operation
        self._parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
        # The library's own list lets some data: links through; a page about an API has no use for them.
        self._parser.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]

    def block(self, source: str | None, heading: int = 4, named: str | None = None) -> Html | None:
        """Paragraphs, lists, tables and code; a heading in the text becomes at least an `h<heading>`.

        With `named`, the headings get ids that start with it, and `headings` gathers them as (id, text).
        """
        if not source:
            return None
        block = self._cache.get((source, heading))
        if block is not None and not named:
            return block
        tokens = self._parser.parse(source)
        for token, following in pairwise([*tokens, Token("", "", 0)]):
            if token.type in {"heading_open", "heading_close"}:
                token.tag = f"h{min(6, int(token.tag[1:]) + heading - 1)}"
            if token.type == "heading_open" and named:
                place = anchor(named, following.content.lower())
                token.attrSet("id", place)
                self.headings.append((place, following.content))
            if token.type == "th_open":
                token.attrSet("scope", "col")
            if token.type in {"fence", "code_block"}:
                token.type, token.content = (
                    "html_block",
                    frame(coloured(token.content.rstrip()), token.info or "Example"),
                )
        rendered: str = self._parser.renderer.render(tokens, self._parser.options, {})
        block = self._cache[source, heading] = tag("div", Html(rendered), class_="text")
        return block

    def line(self, source: str | None) -> Html | None:
        """Text for one line: emphasis, code and links only."""
        return Html(self._parser.renderInline(source)) if source else None
