"""The directories of a server's projects below `--data`: each holds one project, whatever keys were issued to it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from leyden.server.errors import StoreError
from leyden.server.store.journal import JOURNAL_NAME, check_place, has_journal, load
from leyden.server.timestamps import to_iso
from leyden.world.world import World

IN_MEMORY = ":memory:"


class ProjectFolders:
    """The directories that a server opens for its API keys, and the others below `data`.

    `by_key` has one entry for each project, by the first of the given keys that belongs to it: its directory, or None
    in memory. Raises `StoreError` for a directory that cannot be read, and for
    that of one sandbox.
    """

    def __init__(self, data: str, keys: Sequence[str]) -> None:
        if data != IN_MEMORY:
            check_place(Path(data))  # here, because the directories below it have names of the server's own
        if data != IN_MEMORY and has_journal(Path(data)):
            raise StoreError(
                f"{data} is the directory of one sandbox, and a server has a directory for each project below its own: "
                "give another one, or serve this one from Python with Sandbox(data=...).serve()"
            )
        self._data = data
        self._found = [] if data == IN_MEMORY else _found(Path(data))
        self.by_key: dict[str, Path | None] = {}
        for key in keys:
            folder = None if data == IN_MEMORY else self._folder(Path(data), key)
            if folder is None or folder not in self.by_key.values():
                self.by_key[key] = folder

    def _folder(self, data: Path, key: str) -> Path:
        """The directory of the project that the key was ever issued to, also when it was replaced since; for a key that
        no project has, the directory of a new one. A directory is named after the first key of its project."""
        own = data / hashlib.sha256(key.encode()).hexdigest()[:16]
        if own in self._found:
            return own
        return next((folder for folder in self._found if key in _issued(folder)), own)

    def has_key(self, key: str) -> bool:
        """Whether the key was ever issued to a project that is kept below `data` and was not opened."""
        served = self.by_key.values()
        others = [] if self._data == IN_MEMORY else _found(Path(self._data))
        return any(folder not in served and key in _issued(folder) for folder in others)

    def describe(self, worlds: Mapping[str, World], stored: Collection[World]) -> list[str]:
        """A line for each project in a directory: what was opened; the `stored` worlds were there. It shows no key,
        because a key is a secret."""
        folders = self.by_key.items()
        return [
            f"project {number} in {self._data}: {self._describe(worlds[key], folder, is_stored=worlds[key] in stored)}"
            for number, (key, folder) in enumerate(folders, 1)
            if folder is not None
        ]

    def _describe(self, world: World, folder: Path, *, is_stored: bool) -> str:
        config = world.config
        if folder not in self._found:
            others = len(set(self._found).difference(self.by_key.values()))
            rest = f"; {others} more there, opened by a key of its own each (--api-key)" if others else ""
            return f"new, seed {config.seed}{rest}"
        if not is_stored:
            return f"new, because its journal is empty, seed {config.seed}"
        count, now = len(world.service.charges.charges), to_iso(world.clock.last_seen)
        replaced = "; its key was replaced, so requests need a newer one"
        is_valid = world.service.projects.project_for_key(config.api_key) is not None
        charges = "1 Charge" if count == 1 else f"{count} Charges"
        return f"continued at {now}, seed {config.seed}, {charges}{'' if is_valid else replaced}"


def _found(data: Path) -> list[Path]:
    """The directories of all projects."""
    return sorted(journal.parent for journal in data.glob(f"*/{JOURNAL_NAME}"))


def _issued(folder: Path) -> Iterable[str]:
    """Every key that was ever issued to the project. Another process may have the directory open."""
    return {row["id"] for row in load(folder / JOURNAL_NAME).tables.get("keys", {}).values()}
