"""The JSON of a state in pieces. It is written and read in steps, because the state may be large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

BATCH = 64  # rows, entries or timers that one step writes
_ARRAY_START = b',"%b":['
_ARRAYS = frozenset({"rows", "entries", "timers"})
_ARRAY_STARTS = frozenset(_ARRAY_START % name for name in map(str.encode, _ARRAYS))


def array(name: bytes, items: Iterable[Any]) -> Iterator[bytes]:
    """A member of an object that has other members before it: an array, some items in each piece."""
    yield _ARRAY_START % name
    left, separator = iter(items), b""
    while batch := list(islice(left, BATCH)):
        yield separator + orjson.dumps(batch)[1:-1]
        separator = b","
    yield b"]"


def decoded(pieces: Iterable[bytes]) -> Any:
    """Parse the bytes of `FrozenState.encoded`, in steps: a parser of JSON lets no other thread run."""
    rest: list[bytes] = []
    arrays: list[list[Any]] = []
    is_array = False
    for piece in pieces:
        if is_array and piece != b"]":
            arrays[-1] += orjson.loads(b"[%b]" % piece.removeprefix(b","))
            continue
        rest.append(piece)
        is_array = piece in _ARRAY_STARTS
        if is_array:
            arrays.append([])
    state = orjson.loads(b"".join(rest))
    *tables, entries, timers = arrays
    for table, rows in zip(state["tables"].values(), tables, strict=True):
        table["rows"] = rows
    state["journal"]["entries"], state["clock"]["timers"] = entries, timers
    return state


def free(state: Mapping[str, Any]) -> None:
    """Free the arrays of a state that `decoded` returned, and that nobody needs any more, some items at a time: no
    other thread runs while a million are freed at once."""
    parts = [state["journal"], state["clock"], *state["tables"].values()]
    arrays = [part[name] for part in parts if isinstance(part, dict) for name in part.keys() & _ARRAYS]
    for array in arrays:
        while isinstance(array, list) and array:
            del array[-BATCH:]
