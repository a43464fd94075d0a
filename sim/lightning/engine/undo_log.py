"""Second thoughts: what changed in memory since a commit began can be taken back, at the cost of what changed."""

from __future__ import annotations

from typing import Any, ClassVar

_MISSING = object()


class Recorded:
    """Something of which only the fields named in `changing` change, and those by being set anew."""

    __slots__ = ()
    recorded_fields: ClassVar[tuple[str, ...]] = ()

    def saved_fields(self) -> tuple[Any, ...]:
        """What `put_back` needs."""
        return tuple(getattr(self, name) for name in self.recorded_fields)

    def restore_fields(self, mark: tuple[Any, ...]) -> None:
        """Be again what `mark` saw."""
        for name, value in zip(self.recorded_fields, mark, strict=True):
            setattr(self, name, value)


class UndoLog:
    """A part of a world that remembers between `begin` and `commit`, as the store does, so that `rollback` can undo."""

    def __init__(self) -> None:
        self.recording = False
        self.saved: dict[str, Any] = {}  # attributes to set back, a heap for example
        self._fields: dict[int, tuple[Recorded, tuple[Any, ...]]] = {}
        self._items: list[tuple[Any, Any, Any]] = []

    def begin(self) -> None:
        """Remember what changes from now on."""
        self.recording = True

    def commit(self) -> None:
        """What changed stays."""
        self.recording = False
        if self._items or self._fields or self.saved:
            self.saved, self._fields, self._items = {}, {}, []

    def rollback(self) -> None:
        """Let everything be as it was at `begin`."""
        for items, key, before in reversed(self._items):
            if before is _MISSING:
                items.pop(key, None)
            else:
                items[key] = before
        for thing, mark in self._fields.values():
            thing.restore_fields(mark)
        self.__dict__.update(self.saved)
        self.commit()

    def changed_items(self) -> list[tuple[Any, Any]]:
        """Since `begin`: lists and dictionaries, each with a key at which it changed; some more than once."""
        return [(items, key) for items, key, _ in self._items]

    def changed_objects(self) -> list[Recorded]:
        """Since `begin`: the things whose fields changed."""
        return [thing for thing, _ in self._fields.values()]

    def record_object(self, thing: Recorded) -> None:
        """Called before the fields of `thing` change."""
        if self.recording and id(thing) not in self._fields:
            self._fields[id(thing)] = (thing, thing.saved_fields())

    def record_item(self, items: Any, key: Any) -> None:
        """Called before an item of a list or a dictionary changes."""
        if self.recording:
            self._items.append((items, key, items.get(key, _MISSING) if isinstance(items, dict) else items[key]))
