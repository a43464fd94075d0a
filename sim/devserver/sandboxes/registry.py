"""The worlds of one server, by API key and by id: those of its options, and the sandboxes created over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from leyden.server.errors import LeydenError
from leyden.server.http.projects import issued_before
from leyden.world.world import World

_RANDOM_KEY = re.compile(r"leyden_[0-9a-f]{32}")  # logs mask it wherever it is
_REMEMBERED = 10_000  # keys and ids of sandboxes that ended


@dataclass(slots=True, eq=False)
class ServedSandbox:
    """A sandbox that was created over HTTP.

    `doc_id` counts the sandboxes of this server. `ttl_s` is how many real seconds it may be without a request (None:
    any number); `used_at_s` is the instant of the last one, on the event loop's clock.
    """

    doc_id: int
    id: str
    name: str | None
    world: World
    url: str
    created_at_ms: int
    ttl_s: float | None
    used_at_s: float
    requests_in_progress: int = 0


class SandboxRegistry:
    """Every look-up takes the same time however many sandboxes there are.

    `configured` are the worlds of the server's options by their keys. They stay as long as the server, and share the
    names of lightning addresses. Raises `LeydenError` when two of them have the same key. `key_refusal` returns why the
    server does not issue an API key that none of its worlds has, or None.
    """

    def __init__(
        self, configured: Mapping[str, World], key_refusal: Callable[[str], str | None] = lambda _: None
    ) -> None:
        self._worlds = {_encoded(key): world for key, world in configured.items()}
        self.configured: Sequence[World] = tuple(configured.values())
        self.first = self.configured[0]
        self._key_refusal = key_refusal
        self._by_id: dict[str, ServedSandbox] = {}
        self._by_world: dict[World, ServedSandbox] = {}
        self._expiries: list[tuple[float, str]] = []  # a heap of ids; a request since makes an entry too early
        self._ended: dict[bytes | str, str] = {}  # why, by key and by id
        self._count = 0
        for key, world in configured.items():
            if any(
                other.service.projects.project_for_key(key) is not None
                for other in self.configured
                if other is not world
            ):
                raise LeydenError("a key belongs to another project of this server already: give each project its own")

    # Worlds

    def __iter__(self) -> Iterator[World]:
        yield from self.configured
        yield from self._by_world

    @property
    def has_one(self) -> bool:
        """Whether there is one world, and there was never another."""
        return len(self.configured) == 1 and not self._count

    def world_of_key(self, key: bytes) -> World | None:
        """The world to which the key was ever issued, also if it was replaced: its own world refuses it."""
        world = self._worlds.get(key)
        if world is not None:
            return world
        text = key.decode("latin-1")
        return next((world for world in self.configured if world.service.projects.was_issued(text)), None)

    def has_valid_key(self, key: bytes) -> bool:
        """Whether a world accepts the key."""
        world = self.world_of_key(key)
        return world is not None and world.service.projects.project_for_key(key.decode("latin-1")) is not None

    def world_of_path(self, path: str) -> World | None:
        """The configured world with the Static Charge or the lightning address that a step of the path names."""
        steps = path.split("/")
        for world in self.configured:
            statics = world.service.static_charges
            if any(statics.static_charges.row(step) is not None or statics.by_user(step) for step in steps):
                return world
        return None

    def name_taken(self, user: str, world: World) -> bool:
        """Whether a lightning address is in use for this world. A created sandbox has the names below its own URL to
        itself; the configured worlds share those at the root."""
        worlds = (world,) if world in self._by_world else self.configured
        return any(each.service.static_charges.user_exists(user) for each in worlds)

    def key_refusal(self, key: str) -> str | None:
        """Why the server does not issue the key, or None."""
        return issued_before(key) if self.key_taken(key) else self._key_refusal(key)

    def key_taken(self, key: str) -> bool:
        """Whether the key was ever issued in a world of this server."""
        encoded = _encoded(key)
        world = self.world_of_key(encoded)  # it leads there, too, when the disk refused the commit
        is_issued = world is not None and world.service.projects.was_issued(key)
        return is_issued or encoded in self._ended

    @property
    def key_texts(self) -> list[str]:
        """The keys of all worlds that do not have the form of a random key."""
        keys = {row["id"] for world in self.configured for row in world.service.projects.key_rows()}
        keys |= {key.decode("latin-1") for key in self._worlds}
        return sorted(key for key in keys if _RANDOM_KEY.fullmatch(key) is None)

    def key_issued(self, key: str, world: World) -> None:
        """From now on the key leads to this world."""
        self._worlds[_encoded(key)] = world

    # Sandboxes created over HTTP

    def __len__(self) -> int:
        """The number of created sandboxes."""
        return len(self._by_id)

    @property
    def next_number(self) -> int:
        """The number of the next sandbox."""
        return self._count + 1

    def add(self, sandbox: ServedSandbox) -> None:
        """Serve a new sandbox: its keys and its id lead to it."""
        self._count = sandbox.doc_id
        self._by_id[sandbox.id] = self._by_world[sandbox.world] = sandbox
        for row in sandbox.world.service.projects.key_rows():
            self.key_issued(row["id"], sandbox.world)
        if sandbox.ttl_s is not None:
            heappush(self._expiries, (sandbox.used_at_s + sandbox.ttl_s, sandbox.id))

    def remove(self, sandbox: ServedSandbox, why: str) -> None:
        """Forget the sandbox. From now on its keys and its id get the reason."""
        del self._by_id[sandbox.id]
        del self._by_world[sandbox.world]
        self._ended[sandbox.id] = why
        for row in sandbox.world.service.projects.key_rows():
            key = _encoded(row["id"])
            self._worlds.pop(key, None)
            self._ended[key] = why
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def of_id(self, sandbox_id: str) -> ServedSandbox | None:
        """The sandbox, or None."""
        return self._by_id.get(sandbox_id)

    def of_world(self, world: World) -> ServedSandbox | None:
        """The sandbox of a world; None for a configured one."""
        return self._by_world.get(world)

    def newest_first(self) -> Iterator[ServedSandbox]:
        """All sandboxes."""
        return reversed(self._by_id.values())

    def ended(self, key_or_id: bytes | str) -> str | None:
        """Why the sandbox with this key or id ended; None when it did not, or when ten thousand ended since."""
        return self._ended.get(key_or_id)

    # Time to live

    def next_expiry_s(self) -> float | None:
        """The earliest instant at which a sandbox can expire."""
        return self._expiries[0][0] if self._expiries else None

    def expired(self, now_s: float) -> Iterator[ServedSandbox]:
        """The sandboxes whose time to live is over; the caller removes them."""
        while self._expiries and self._expiries[0][0] <= now_s:
            sandbox = self._by_id.get(heappop(self._expiries)[1])
            if sandbox is None or sandbox.ttl_s is None:
                continue
            used_at_s = now_s if sandbox.requests_in_progress else sandbox.used_at_s
            if used_at_s + sandbox.ttl_s > now_s:
                heappush(self._expiries, (used_at_s + sandbox.ttl_s, sandbox.id))
            else:
                yield sandbox


def _encoded(key: str) -> bytes:
    return key.encode("latin-1", "replace")
