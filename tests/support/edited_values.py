"""JSON values with another value at a place in them."""

from __future__ import annotations

from typing import Any

DELETE = object()  # as a value: leave the place out


def edited(document: Any, pointer: str, value: Any) -> Any:
    """Put `value` at the JSON pointer, in place; `-` at its end appends, `DELETE` removes."""
    *above, last = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    holder = document
    for token in above:
        holder = holder[int(token) if isinstance(holder, list) else token]
    if isinstance(holder, list) and last == "-":
        holder.append(value)
        return document
    key: Any = int(last) if isinstance(holder, list) else last
    if value is DELETE:
        del holder[key]
    else:
        holder[key] = value
    return document
