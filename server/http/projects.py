"""Projects: who holds a key, and with which secrets their callbacks are signed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leyden.server.callbacks.signing import signers
from leyden.server.ports import Clock, RandomSource
from leyden.server.store.store import Store

_SECRET_BYTES = 32  # Standard Webhooks: 24 to 64 bytes
_KEY_BYTES = 16
_LONGEST_KEY = 200


class Projects:
    """The projects of one world. A key belongs to one project; a project may hold several keys.

    `rotation_ms` is how long a secret that was replaced goes on signing beside its successor: `secretRotation` in the
    spec's `x-delivery`.
    """

    def __init__(self, store: Store, clock: Clock, chance: RandomSource, rotation_ms: int = 0) -> None:
        self._clock = clock
        self._rotation_ms = rotation_ms
        self._chance = chance
        self.projects = store.table("projects", key="id")
        self._keys = store.table("keys", key="id", indexes=("project",))

    def add(self, name: str, key: str) -> dict[str, Any]:
        """Open a project under `name` with one key and one callback secret; an existing project only gains the key.

        A key that was ended stays so. Raises `ValueError` when another project holds the key.
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

    def project_for_key(self, key: str) -> str | None:
        """The project that holds `key`, or None."""
        row = self._keys.row(key)
        return None if row is None or "ended_at" in row else row["project"]

    def was_issued(self, key: str) -> bool:
        """Whether the key was ever given out here, be it one that was ended."""
        return self._keys.row(key) is not None

    def keys(self, project: str) -> list[str]:
        """The keys that open the project, the oldest first."""
        return [row["id"] for row in self._keys.find("project", project) if "ended_at" not in row]

    def issue_key(self, project: str, key: str | None = None) -> str:
        """Give the project one more key, by default one that nobody can guess, and return it.

        Raises `ValueError` for a key that is not 1 to 200 printable ASCII characters, or that was given out before.
        """
        if key is None:
            key = self._drawn_key()
            while self.was_issued(key):  # the world before a reset drew it from the same luck
                key = self._drawn_key()
        check_key(key)
        if self.was_issued(key):
            raise ValueError(f"the key {key!r} was given out before: choose one that never was")
        self._keys.put({"id": key, "project": project, "created_at": self._clock.now()})
        return key

    def rotate_key(self, project: str, new_key: str | None = None, *, replaces: str | None = None) -> str:
        """Give the project another key; the one that it `replaces`, by default every one that the project held, opens
        nothing from now on, and never again.

        The new key, and what is raised, are as with `give_key`; `ValueError` too when the project holds no such key.
        """
        old = self.keys(project) if replaces is None else [replaces]
        if replaces is not None and self.project_for_key(replaces) != project:
            raise ValueError("no key of this project is spelled like the one to be replaced: check it")
        key = self.issue_key(project, new_key)
        for one in old:
            self._keys.put({**self._keys.existing(one), "ended_at": self._clock.now()})
        return key

    def key_rows(self) -> list[dict[str, Any]]:
        """Every key that was ever given out, as `take_over_keys` reads it."""
        return [dict(row) for row in self._keys]

    def import_keys(self, rows: Iterable[dict[str, Any]]) -> None:
        """Let exactly the keys be known that another world knew: a reset neither ends a key nor brings one back."""
        for known in list(self._keys):
            self._keys.delete(known["id"])
        for row in rows:
            self._keys.put(row)

    def rotate_secret(self, project: str) -> str:
        """Give the project another callback secret and return it. Until the rotation is over the old one signs too.

        Raises `LookupError` for an unknown project.
        """
        row = self.projects.existing(project)
        now = self._clock.now()
        over = now + self._rotation_ms
        old = [{**s, "until_ms": over} if s["until_ms"] is None else s for s in row["webhook_secrets"]]
        secret = self._new_secret()
        new = {"secret": secret, "from_ms": now, "until_ms": None}
        self.projects.put({**row, "webhook_secrets": [*old, new]})
        return secret

    def secrets(self, project: str) -> Sequence[Mapping[str, Any]]:
        """Every secret that the project ever had, the oldest first: `secret`, `from_ms`, and `until_ms` or None."""
        row = self.projects.row(project)
        secrets: Sequence[Mapping[str, Any]] = () if row is None else row["webhook_secrets"]
        return secrets

    def signing_secrets(self, project: str, at: int) -> list[str]:
        """The `whsec_` secrets that sign the project's callbacks at instant `at`, the newest first."""
        return signers(self.secrets(project), at)

    def _drawn_key(self) -> str:
        return "key_" + self._chance.bytes(_KEY_BYTES).hex()

    def _new_secret(self) -> str:
        return "whsec_" + base64.b64encode(self._chance.bytes(_SECRET_BYTES)).decode()


def check_key(key: str) -> None:
    """Raise `ValueError` unless the text can be a key."""
    if not (key.isascii() and key.isprintable() and 1 <= len(key) <= _LONGEST_KEY and key == key.strip()):
        raise ValueError(f"{key[:40]!r} cannot be an API key: give 1 to {_LONGEST_KEY} printable ASCII characters")
