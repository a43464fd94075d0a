"""Where in a document something stands, written so that it can be found again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leyden.server.errors import ContractError


def child(place: str, key: str | int) -> str:
    """`place` with one more reference token (RFC 6901)."""
    return f"{place}/{key.replace('~', '~0').replace('/', '~1')}" if type(key) is str else f"{place}/{key}"


def descendant(place: str, keys: Iterable[str | int]) -> str:
    """`place` with each of `keys` below the one before."""
    for key in keys:
        place = child(place, key)
    return place


def split_pointer(pointer: str) -> list[str]:
    """The reference tokens of a JSON pointer such as `/a~1b/c` (RFC 6901)."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'maxLength'?`, or `; known: ...` when nothing is close and the choice is small."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(word, names, 1, 0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known here: {', '.join(names)}" if 0 < len(names) <= 24 else ""


def quoted(value: Any) -> str:
    """A value in an error's text, cut short."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def contract_error(place: str, problem: str) -> ContractError:
    """The error for `problem` at `place`."""
    return ContractError(f"{place}: {problem}")
