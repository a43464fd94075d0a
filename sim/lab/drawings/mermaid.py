"""Texts in Mermaid source, escaped so that Mermaid takes nothing in them for syntax."""

from __future__ import annotations

import re

from leyden.lab.drawings.text_metrics import clean

# All other ASCII characters are written as entities: quotes, semicolons, `#`, `<`, `%%`, backticks, `$$`, `@{`.
_UNSAFE = re.compile(r"[^\w .,/+=?!'():-]", re.ASCII)
# Mermaid ends a block at the word `end`, anywhere and in any case.
_END = re.compile(r"\bend\b", re.IGNORECASE)
_LONGEST = 120


def mermaid_text(text: object, max_letters: int = _LONGEST) -> str:
    """A text for a label or a message, cut to `max_letters`."""
    plain = clean(text)
    if len(plain) > max_letters:
        plain = plain[: max_letters - 1].rstrip() + "…"
    escaped = _UNSAFE.sub(lambda found: found[0] if ord(found[0]) > 127 else f"#{ord(found[0])};", plain)
    return _END.sub(lambda found: f"#{ord(found[0][0])};{found[0][1:]}", escaped) or "#32;"
