"""Projects: who holds a key, and with which secrets their callbacks are signed."""

from __future__ import annotations

import base64
from typing import Any

from server.ports import Chance, Clock
from server.store.store import Store

_SECRET_BYTES = 32  # Standard Webhooks: 24 to 64 bytes


class Projects:
    """The projects of one world. A key belongs to one project; a project may hold several keys."""

    def __init__(self, store: Store, clock: Clock, chance: Chance) -> None:
        self._clock = clock
        self._chance = chance
        self.projects = store.table("projects", key="id")
        self._keys = store.table("keys", key="id", indexes=("project",))

    def add(self, name: str, key: str) -> dict[str, Any]:
        """Open a project under `name` with one key and one callback secret; an existing project only gains the key.

        Raises `ValueError` when another project holds the key.
        """
        holder = self._keys.row(key)
        if holder is not None and holder["project"] != name:
            raise ValueError(f"another project holds the key {key!r}: choose a different one")
        project: dict[str, Any] | None = self.projects.row(name)
        now = self._clock.now()
        if project is None:
            secret = {"secret": self._new_secret(), "from_ms": now, "until_ms": None}
            project = {"id": name, "created_at": now, "webhook_secrets": [secret]}
            self.projects.put(project)
        if holder is None:
            self._keys.put({"id": key, "project": name, "created_at": now})
        return project

    def owner(self, key: str) -> str | None:
        """The project that holds `key`, or None."""
        row = self._keys.row(key)
        return None if row is None else row["project"]

    def secrets_of(self, project: str, at: int) -> list[str]:
        """The `whsec_` secrets that sign the project's callbacks at instant `at`, the newest first."""
        row = self.projects.row(project)
        secrets = [] if row is None else row["webhook_secrets"]
        return [s["secret"] for s in reversed(secrets) if s["until_ms"] is None or at < s["until_ms"]]

    def _new_secret(self) -> str:
        return "whsec_" + base64.b64encode(self._chance.bytes(_SECRET_BYTES)).decode()
