"""Changes of a regular expression: quantifiers, members of classes, alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_TOKEN = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])+\]|\{\d+(?:,\d*)?\}|\(\?[:=!]|\(\?P?<\w*[=!>]?|.", re.DOTALL)
_MEMBER = re.compile(r"(?:\\.|[^\\])(?:-(?:\\.|[^\\]))?", re.DOTALL)
_COUNTS = {"*": "+", "+": "*", "?": ""}
_CLASSES = {"\\d": ".", "\\w": ".", "\\s": "."}


def changed_patterns(pattern: str) -> list[str]:
    """The pattern with one change in each: a quantifier that takes one more or one less, a class without one of its
    members, any character for a class such as `\\d`, and without one alternative or one group that may be left out."""
    tokens = _TOKEN.findall(pattern)
    changed = {}
    for place, token in enumerate(tokens):
        for other in _others(token):
            changed["".join([*tokens[:place], other, *tokens[place + 1 :]])] = None
    for start, end in _alternatives(tokens):
        changed["".join([*tokens[:start], *tokens[end:]])] = None
    return [one for one in changed if one != pattern and _is_valid(one)]


def _others(token: str) -> Iterator[str]:
    if token in _COUNTS:
        yield _COUNTS[token]
    elif token in _CLASSES:
        yield _CLASSES[token]
    elif token.startswith("{") and len(token) > 1:
        low, comma, high = token[1:-1].partition(",")
        if not comma:
            yield from (f"{{{int(low) + by}}}" for by in (-1, 1) if int(low) + by >= 0)
            return
        yield from (f"{{{int(low) + by},{high}}}" for by in (-1, 1) if int(low) + by >= 0)
        yield from (f"{{{low},{int(high) + by}}}" for by in (-1, 1) if high)
    elif token.startswith("[") and len(token) > 1:
        start = "[^" if token.startswith("[^") else "["
        members = _MEMBER.findall(token[len(start) : -1])
        for place in range(len(members) if len(members) > 1 else 0):
            yield f"{start}{''.join([*members[:place], *members[place + 1 :]])}]"


def _alternatives(tokens: list[str]) -> Iterator[tuple[int, int]]:
    """Each alternative of the pattern or of a group with the bar beside it: from which token to which."""
    open_: list[list[int]] = [[0]]
    for place, token in enumerate([*tokens, ")"]):
        if token.startswith("("):
            open_.append([place + 1])
        elif token == "|":
            open_[-1].append(place + 1)
        elif token == ")":
            starts = open_.pop()
            if len(starts) > 1:
                yield from pairwise(starts)
                yield starts[-1] - 1, place


def _is_valid(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
