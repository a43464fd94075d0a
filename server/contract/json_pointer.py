"""Locations in a document as JSON Pointers (RFC 6901), and the errors that name them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from leyden.server.errors import ContractError
from leyden.server.spelling import closest

# The location at the start of an error: the name of a file and a pointer. A space ends it: `... (a field): ...`.
_LOCATION = re.compile(r"([^\s#]*#)(/[^\s]*?)(?=: | \()")
_MOST_WRITTEN = 400  # characters of a value that is to be copied


def child(location: str, key: str | int) -> str:
    """`location` with one more reference token (RFC 6901)."""
    return f"{location}/{key.replace('~', '~0').replace('/', '~1')}" if type(key) is str else f"{location}/{key}"


def descendant(location: str, keys: Iterable[str | int]) -> str:
    """`location` with each of `keys` below the one before."""
    for key in keys:
        location = child(location, key)
    return location


def split_pointer(pointer: str) -> list[str]:
    """The reference tokens of a JSON pointer such as `/a~1b/c` (RFC 6901)."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean 'maxLength'?`, or `; known here: ...` when nothing is close and the choice is small, and with
    another choice `; ` and the mend `otherwise`, if there is one."""
    names = sorted(known)
    close = closest(word, names)
    if close is not None:
        return f"; did you mean {close!r}?"
    if 0 < len(names) <= 24:
        return f"; known here: {', '.join(names)}"
    return f"; {otherwise}" if otherwise else ""


def quoted(value: Any) -> str:
    """A value in an error's text, cut short."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def instead(verb: str, value: Any) -> str:
    """What to do with a keyword that allows too little: `write 50, or leave it out`, with a value that can be copied
    into a YAML document as it is; of a value of more than 400 characters only `leave it out`."""
    if isinstance(value, str) and value.isprintable():
        text = "'" + value.replace("'", "''") + "'"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return f"{verb} {text}, or leave it out" if len(text) <= _MOST_WRITTEN else "leave it out"


def contract_error(location: str, problem: str) -> ContractError:
    """The error for `problem` at `location`."""
    return ContractError(f"{location}: {problem}")


def as_written(text: str, document: Any) -> str:
    """The text of an error whose location leads through a `$ref`, with the place where that part is written, and the
    place of the reference at its end; any other text as it is."""
    found = _LOCATION.match(text)
    if found is None:
        return text
    place, reference = _written_place(document, found[2])
    if reference is None:
        return text
    return f"{found[1]}{place}{text[found.end() :]}; {found[1]}{reference} refers to it"


def _written_place(document: Any, pointer: str) -> tuple[str, str | None]:
    """The pointer without a step through a `$ref`, and the pointer to the last one that it led through, or None."""
    node, place, reference = document, "", None
    tokens, seen = split_pointer(pointer), set[str]()
    while tokens:
        token = tokens[0]
        target = node.get("$ref") if isinstance(node, dict) else None
        if isinstance(target, str) and token not in node and target.startswith("#/") and place not in seen:
            seen.add(place)
            if token == "allOf" and tokens[1:2] == ["0"]:  # the target is the first part of what is written out
                tokens = tokens[2:]
            node, place, reference = _at(document, split_pointer(target)), target[1:], place
            continue
        node = _at(node, [token])
        place = child(place, token)
        tokens = tokens[1:]
        seen.clear()  # only references without a step between them can lead in a circle
    return place, reference


def _at(node: Any, tokens: Iterable[str]) -> Any:
    """What stands below a node; None for nothing."""
    for token in tokens:
        if isinstance(node, dict):
            node = node.get(token)
        elif isinstance(node, list) and token.isdigit() and int(token) < len(node):
            node = node[int(token)]
        else:
            return None
    return node
