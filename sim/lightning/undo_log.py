"""The undo log: rolls back what a commit changed in memory, at a cost proportional to the changes."""

from __future__ import annotations

from typing import Any, ClassVar

_MISSING = object()


class Recorded:
    """An object whose changes can be rolled back: only `recorded_fields` change, and only by assignment."""

    __slots__ = ()
    recorded_fields: ClassVar[tuple[str, ...]] = ()

    def saved_fields(self) -> tuple[Any, ...]:
        """The values of the recorded fields, for `restore_fields`."""
        return tuple(getattr(self, name) for name in self.recorded_fields)

    def restore_fields(self, values: tuple[Any, ...]) -> None:
        """Set the recorded fields to these values."""
        for name, value in zip(self.recorded_fields, values, strict=True):
            setattr(self, name, value)


class UndoLog:
    """A state in memory that takes part in commits: `begin`, then `commit` or `rollback`, as the store does."""

    def __init__(self) -> None:
        self.recording = False
        self.commits = 0  # those that changed something
        self.saved: dict[str, Any] = {}  # the former values of the log's own attributes
        self._fields: dict[int, tuple[Recorded, tuple[Any, ...]]] = {}
        self._items: list[tuple[Any, Any, Any]] = []

    def begin(self) -> None:
        """Record changes from now on."""
        self.recording = True

    def commit(self) -> None:
        """Keep the changes."""
        if self._items or self._fields or self.saved:
            self.commits += 1
        self._end()

    def rollback(self, error: BaseException | None = None) -> None:
        """Restore the state at `begin`."""
        for items, key, before in reversed(self._items):
            if before is _MISSING:
                items.pop(key, None)
            else:
                items[key] = before
        for changed, values in self._fields.values():
            changed.restore_fields(values)
        for name, value in self.saved.items():
            setattr(self, name, value)
        self._end()

    def _end(self) -> None:
        """Record nothing from now on."""
        self.recording = False
        if self._items or self._fields or self.saved:
            self.saved, self._fields, self._items = {}, {}, []

    def changed_items(self) -> list[tuple[Any, Any]]:
        """The lists and dictionaries that changed since `begin`, each with a key; a pair may occur more than once."""
        return [(items, key) for items, key, _ in self._items]

    def changed_objects(self) -> list[Recorded]:
        """The objects whose fields changed since `begin`."""
        return [changed for changed, _ in self._fields.values()]

    def record_object(self, changed: Recorded) -> None:
        """Called before the fields of `changed` change."""
        if self.recording and id(changed) not in self._fields:
            self._fields[id(changed)] = (changed, changed.saved_fields())

    def record_item(self, items: Any, key: Any) -> None:
        """Called before an item of a list or a dictionary changes."""
        if self.recording:
            self._items.append((items, key, items.get(key, _MISSING) if isinstance(items, dict) else items[key]))
