"""Mutated JSON documents: a valid one with one change, the same changes every time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from leyden.errors import LeydenError

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, 10**9, 2**63, -(2**63) - 1, 10**40, "", "x", "\ud800", "\u2028", "\x00", [],
    {}, [[]], {"a": {"b": []}}, ["x", 1], "9" * 300, "../../x", "2030-01-01T00:00:00Z", "-1",
)  # fmt: skip


def refusal(action: Callable[[], object]) -> str | None:
    """Why an action is refused, which must be one line; None if it is not."""
    try:
        action()
    except LeydenError as error:
        why = str(error)
    else:
        return None
    assert len(why.splitlines()) == 1, why
    return why


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of every object and list in a document, as the container and the name or index."""
    found = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += [(value, key), *places(value[key])]
    return found


def mutated(document: Any, count: int, seed: int = 0) -> Iterator[bytes]:
    """`count` files, each with one or two changes to the document.

    A member is dropped, renamed, nested, or has another type; a file is cut, is not UTF-8, has NaN, a huge number, or a
    name twice, or is too deep.
    """
    rng = random.Random(seed)
    for number in range(count):
        changed = deepcopy(document)
        how = number % 12
        if how < 8:
            for _ in range(1 + (number % 5 == 0)):
                container, key = rng.choice(places(changed) or [({"x": 1}, "x")])
                value = container[key]
                match rng.randrange(6):
                    case 0:
                        del container[key]
                    case 1 if isinstance(container, dict):
                        container[f"{key}2"] = container.pop(key)
                    case 2:
                        container[key] = [value]
                    case 3:
                        container[key] = {"x": value}
                    case _:
                        container[key] = rng.choice(HOSTILE)
            yield json.dumps(changed).encode()
            continue
        text = json.dumps(changed)
        place = rng.randrange(1, len(text))
        match how:
            case 8:
                yield text[:place].encode()
            case 9:
                yield text[:place].encode() + rng.choice((b"\xff", b"\x00", b"NaN", b"1e999", b"9" * 5_000))
            case 10:
                digits = [at for at, one in enumerate(text) if one.isdigit() and text[at - 1] in " ["] or [place]
                at = rng.choice(digits)
                yield (
                    text[:at] + rng.choice(("NaN", "-Infinity", "1e999", "9" * 5_000, "[" * 5_000)) + text[at + 1 :]
                ).encode()
            case _:
                openings = [at for at, one in enumerate(text) if one == "{" and text[at + 1] == '"']
                at = rng.choice(openings)
                end = text.index(":", at)
                yield (text[: at + 1] + text[at + 1 : end] + ": 0, " + text[at + 1 :]).encode()
