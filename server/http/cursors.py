"""Cursors: a position in a list, with a mark of the list, the project and the run to which it belongs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from leyden.server.errors import FieldError, InvalidRequest

_POSITION_DIGITS = 14  # hexadecimal; the six before them are the mark
_MARK_BYTES = 3
_REFUSAL = (
    "this cursor is not of this list, or of a run before a reset or a restore: give the next of a page of this list, or"
    " leave after out for the first page"
)


def list_mark(run: str, project: str, operation_id: str, path: Mapping[str, str]) -> str:
    """The mark of a list: of an operation with these values in its path, in one project of one run."""
    named = "\n".join((run, project, operation_id, *(f"{name}={path[name]}" for name in sorted(path))))
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=_MARK_BYTES).hexdigest()


def cursor_at(mark: str, position: int) -> str:
    """The cursor of a position in the list with this mark."""
    return f"{mark}{position:0{_POSITION_DIGITS}x}"


def position_of(mark: str, cursor: str) -> int:
    """The position of a cursor of the list with this mark. Raises `InvalidRequest` for one of another list."""
    if not cursor.startswith(mark):
        raise InvalidRequest(f"query.after: {_REFUSAL}", field_errors=[FieldError("query.after", _REFUSAL)])
    return int(cursor[len(mark) :], 16)
