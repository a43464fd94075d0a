"""An index: the ids of the rows that have a given value in one field. A unique key has one id for each value."""

from __future__ import annotations

from typing import Any

from leyden.server.errors import StoreError
from leyden.server.store.tables.id_set import MANY, IdSet, packed

# Most values are unique: such a value maps to the id itself.
Groups = dict[Any, "int | set[int] | IdSet"]


class Index:
    """The document ids for each value of one field.

    Null, missing and unhashable values (a list, a dict) are not indexed: most rows have no value for most optional
    fields, and a group of nearly all rows is of no use.
    """

    __slots__ = ("groups",)

    def __init__(self, groups: Groups | None = None) -> None:
        self.groups: Groups = {} if groups is None else groups

    def copy_groups(self) -> Groups:
        """A copy of the groups that shares nothing that changes."""
        return {value: held if isinstance(held, int) else held.copy() for value, held in self.groups.items()}

    def add(self, value: Any, doc_id: int) -> None:
        """Add a row to the group of its value. `value` is not None."""
        groups = self.groups
        try:
            held = groups.setdefault(value, doc_id)
        except TypeError:
            return
        if held is doc_id:
            return
        if isinstance(held, set):
            held.add(doc_id)
            if not len(held) % MANY:
                groups[value] = packed(held)
        elif isinstance(held, IdSet):
            if (now := held.with_id(doc_id)) is not held:
                groups[value] = now
        elif held != doc_id:
            groups[value] = {held, doc_id}

    def remove(self, value: Any, doc_id: int) -> None:
        """Remove a row from the group of its value. `value` is not None."""
        groups = self.groups
        try:
            held = groups.get(value)
        except TypeError:
            return
        if isinstance(held, set):
            held.discard(doc_id)
            if held:
                return
        elif isinstance(held, IdSet):
            if (now := held.without_id(doc_id)) is not held:
                groups[value] = now
            if now:
                return
        elif held != doc_id:
            return  # an interrupt came before it was added
        del groups[value]

    def count(self, value: Any) -> int | None:
        """The number of rows with the value; None when the index does not know it."""
        if value is None:
            return None
        try:
            held = self.groups.get(value)
        except TypeError:
            return None
        return 0 if held is None else 1 if isinstance(held, int) else len(held)


def holder_of(keys: dict[Any, int], value: Any, doc_id: int, name: str) -> int:
    """The id of the row with a key, which is `doc_id` from now on if no row had it."""
    try:
        return keys.setdefault(value, doc_id)
    except TypeError:
        raise StoreError(f"table {name!r}: document {doc_id} has the key {value!r:.60}; correct it") from None
