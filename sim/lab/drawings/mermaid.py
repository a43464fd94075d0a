"""Mermaid: the same pictures as source text that other tools draw, with nothing in it that is taken for syntax."""

from __future__ import annotations

import re

from leyden.lab.drawings.text_metrics import clean

# Everything else in ASCII is written as an entity: quotes, semicolons, `#`, `<`, `%%`, backticks, `$$`, `@{`.
_UNSAFE = re.compile(r"[^\w .,/+=?!'():-]", re.ASCII)
# `end` closes a block wherever it stands, in any case.
_END = re.compile(r"\bend\b", re.IGNORECASE)
_LONGEST = 120


def said(text: object, longest: int = _LONGEST) -> str:
    """A text for a label or a message, cut after `longest` letters."""
    plain = clean(text)
    if len(plain) > longest:
        plain = plain[: longest - 1].rstrip() + "…"
    escaped = _UNSAFE.sub(lambda found: found[0] if ord(found[0]) > 127 else f"#{ord(found[0])};", plain)
    return _END.sub(lambda found: f"#{ord(found[0][0])};{found[0][1:]}", escaped) or "#32;"
