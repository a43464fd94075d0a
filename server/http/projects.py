"""Projects: their API keys, and the secrets that sign their callbacks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict, cast

from leyden.server.callbacks.signing import SecretRow, signing_rows, signing_rows_then
from leyden.server.ports import Clock, RandomSource
from leyden.server.printable import cut, masked
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

KEYS = "keys"  # the table of the API keys
_SECRET_BYTES = 32  # Standard Webhooks: 24 to 64 bytes
_KEY_BYTES = 16
_MAX_KEY_LENGTH = 200


class ProjectRow(TypedDict):
    """A row of the table `projects`. `webhook_secrets` are in the order of their creation."""

    id: str
    created_at: int
    webhook_secrets: list[SecretRow]


class KeyRow(TypedDict):
    """A row of the table `keys`: `id` is the API key. `ended_at` is set when the key was replaced."""

    id: str
    project: str
    created_at: int
    ended_at: NotRequired[int]


class Projects:
    """The projects of one service. A key belongs to one project; a project can have several keys.

    `rotation_ms` is how long a replaced secret continues to sign together with its successor: `secretRotation` in the
    spec's `x-delivery`.
    """

    def __init__(self, store: Store, clock: Clock, random: RandomSource, rotation_ms: int = 0) -> None:
        self._clock = clock
        self._rotation_ms = rotation_ms
        self._random = random
        self.projects = cast(TypedTable[ProjectRow], store.table("projects", key="id"))
        self._keys = cast(TypedTable[KeyRow], store.table(KEYS, key="id", indexes=("project",)))

    def add(self, name: str, key: str, webhook_secret: str | None = None) -> ProjectRow:
        """Create a project with one key and one callback secret, by default a random one; an existing project only gets
        the key.

        A replaced key stays invalid. Raises `ValueError` when the key belongs to another project.
        """
        existing_key = self._keys.row(key)
        if existing_key is not None and existing_key["project"] != name:
            raise ValueError(f"another project holds the key {key!r}: choose a different one")
        project = self.projects.row(name)
        now = self._clock.now()
        if project is None:
            drawn = self._new_secret()  # in any case: later draws do not depend on whether a secret was given
            secret: SecretRow = {"secret": webhook_secret or drawn, "from_ms": now, "until_ms": None}
            project = {"id": name, "created_at": now, "webhook_secrets": [secret]}
            self.projects.put(project)
        if existing_key is None:
            self._keys.put({"id": key, "project": name, "created_at": now})
        return project

    def project_for_key(self, key: str) -> str | None:
        """The project of a valid key, or None."""
        row = self._keys.row(key)
        return None if row is None or "ended_at" in row else row["project"]

    def was_issued(self, key: str) -> bool:
        """Whether the key exists, valid or replaced."""
        return self._keys.row(key) is not None

    def keys(self, project: str) -> list[str]:
        """The project's valid keys, the oldest first."""
        return [row["id"] for row in self._keys.find("project", project) if "ended_at" not in row]

    def issue_key(self, project: str, key: str | None = None) -> str:
        """Give the project one more key and return it; without `key`, a random one.

        Raises `ValueError` for a key that is not 1 to 200 printable ASCII characters, or that was issued before.
        """
        if key is None:
            key = self._random_key()
            while self.was_issued(key):  # after a restore the random stream draws the same keys again
                key = self._random_key()
        check_key(key)
        if self.was_issued(key):
            raise ValueError(issued_before(key))
        self._keys.put({"id": key, "project": project, "created_at": self._clock.now()})
        return key

    def rotate_key(self, project: str, new_key: str | None = None, *, replaces: str | None = None) -> str:
        """Give the project a new key and return it. The key that it `replaces`, by default every key of the project, is
        invalid from now on.

        The new key and its errors are those of `issue_key`. Raises `ValueError` when the project has no key `replaces`.
        """
        old_keys = self.keys(project) if replaces is None else [replaces]
        if replaces is not None and self.project_for_key(replaces) != project:
            raise ValueError("this project has no such key to replace: check the spelling")
        key = self.issue_key(project, new_key)
        for old in old_keys:
            self._keys.put({**self._keys.existing(old), "ended_at": self._clock.now()})
        return key

    def key_rows(self) -> list[KeyRow]:
        """Every key that was ever issued."""
        return [{**row} for row in self._keys]

    def import_keys(self, rows: Iterable[KeyRow]) -> None:
        """Replace all keys by these rows."""
        self._keys.clear()
        for row in rows:
            self._keys.put(row)

    def rotate_secret(self, project: str, secret: str | None = None) -> str:
        """Give the project a new callback secret, by default a random one, and return it. Until the rotation ends the
        old secret signs too, as long as it is one of the newest three. A secret that is given again has a row for each
        time.

        Raises `LookupError` for an unknown project.
        """
        row, given = self.projects.existing(project), secret is not None
        now = self._clock.now()
        until = now + self._rotation_ms
        old: list[SecretRow] = [
            {**s, "until_ms": until} if s["until_ms"] is None else s for s in row["webhook_secrets"]
        ]
        while secret is None or (secret in {one["secret"] for one in old} and not given):
            secret = self._new_secret()  # after a reset the random stream draws the same secrets again
        new: SecretRow = {"secret": secret, "from_ms": now, "until_ms": None}
        self.projects.put({**row, "webhook_secrets": [*old, new]})
        return secret

    def secrets(self, project: str) -> Sequence[SecretRow]:
        """Every secret that the project ever had, the oldest first."""
        row = self.projects.row(project)
        return () if row is None else row["webhook_secrets"]

    def signing_rows(self, project: str, at: int) -> list[SecretRow]:
        """The secrets that sign the project's callbacks at instant `at`, the newest first."""
        return signing_rows(self.secrets(project), at)

    def signing_rows_then(self, project: str, at: int) -> list[SecretRow]:
        """The secrets that signed the project's callbacks at an instant of the past, the newest first."""
        return signing_rows_then(self.secrets(project), at)

    def signing_secrets(self, project: str, at: int) -> list[str]:
        """The texts of these secrets."""
        return [row["secret"] for row in self.signing_rows(project, at)]

    def _random_key(self) -> str:
        return "key_" + self._random.bytes(_KEY_BYTES).hex()

    def _new_secret(self) -> str:
        return drawn_secret(self._random)


def issued_before(key: str) -> str:
    """Why a key is not issued that exists, valid or replaced."""
    return f"the key {masked(key)} was issued before: choose a new one"


def drawn_secret(random: RandomSource) -> str:
    """A callback secret, drawn from a random stream."""
    return "whsec_" + base64.b64encode(random.bytes(_SECRET_BYTES)).decode()


def check_key(key: str) -> None:
    """Raise `ValueError` unless the text can be an API key: 1 to 200 printable ASCII characters, no outer spaces."""
    if not (key.isascii() and key.isprintable() and 1 <= len(key) <= _MAX_KEY_LENGTH and key == key.strip()):
        raise ValueError(
            f"{cut(key, 40)!r} cannot be an API key: give 1 to {_MAX_KEY_LENGTH} printable ASCII characters, "
            "without spaces at the ends"
        )
