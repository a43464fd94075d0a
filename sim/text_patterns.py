"""Patterns of the conditions of rules, in which `*` is any text and every other character is itself."""

from __future__ import annotations

ANY_TEXT = "*"


def matches_pattern(text: str, pattern: str) -> bool:
    """Whether the whole text matches the pattern, in the same case. It takes time in proportion to the text for each
    `*` of the pattern."""
    first, *others = pattern.split(ANY_TEXT)
    if not others:
        return text == pattern
    last = others.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in others:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
