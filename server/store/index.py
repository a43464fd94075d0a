"""An index answers "which rows have this value here" without looking at the rows."""

from __future__ import annotations

from typing import Any

Groups = dict[Any, "int | set[int]"]  # a value that one row alone has stands as that row's id: most values are unique


class Index:
    """The document ids behind each value of one field.

    Null, missing and unhashable values (a list, a dict) are not held: of most optional fields most rows have none,
    and a group of nearly everything helps nobody.
    """

    __slots__ = ("groups",)

    def __init__(self, groups: Groups | None = None) -> None:
        self.groups: Groups = {} if groups is None else groups

    def copy_groups(self) -> Groups:
        """The groups, sharing nothing that changes."""
        return {value: held.copy() if isinstance(held, set) else held for value, held in self.groups.items()}

    def add(self, value: Any, doc_id: int) -> None:
        """Add a row to its value's group. `value` is not None."""
        groups = self.groups
        try:
            held = groups.setdefault(value, doc_id)
        except TypeError:
            return
        if held is doc_id:
            return
        if isinstance(held, set):
            held.add(doc_id)
        elif held != doc_id:
            groups[value] = {held, doc_id}

    def remove(self, value: Any, doc_id: int) -> None:
        """Take a row out of its value's group. `value` is not None."""
        groups = self.groups
        try:
            held = groups.get(value)
        except TypeError:
            return
        if isinstance(held, set):
            held.discard(doc_id)
            if held:
                return
        elif held != doc_id:
            return  # it had not joined yet when its commit was interrupted
        del groups[value]

    def count(self, value: Any) -> int | None:
        """How many rows have the value; None when the index cannot tell."""
        if value is None:
            return None
        try:
            held = self.groups.get(value)
        except TypeError:
            return None
        return 0 if held is None else len(held) if isinstance(held, set) else 1

    def ids(self, value: Any) -> list[int]:
        """The ids behind a value whose `size` is known, in no order."""
        held = self.groups.get(value)
        return [] if held is None else list(held) if isinstance(held, set) else [held]
