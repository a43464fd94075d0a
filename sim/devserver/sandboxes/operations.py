"""The operations of `specs/server.openapi.yaml`: create, list, read, reset and delete the sandboxes of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from leyden.devserver.control.pages import Page, page
from leyden.devserver.control.resets import reset_world
from leyden.devserver.sandboxes.factory import SandboxFactory
from leyden.devserver.sandboxes.registry import SandboxRegistry, ServedSandbox
from leyden.devserver.sandboxes.routing import URL_PREFIX
from leyden.server.contract.bind import handles
from leyden.server.errors import Conflict, LeydenError, NotFound, Problem, SemanticConflict, is_out_of_files
from leyden.server.http.request import Request
from leyden.server.system.work_threads import run_in_thread
from leyden.server.timestamps import parse_duration, to_iso
from leyden.world.time.process_clock import NOW, requested_start
from leyden.world.world import World

MAX_SANDBOXES = 10_000
_MIN_TTL_MS, _MAX_TTL_MS = 1_000, 366 * 86_400_000


class SandboxHost(Protocol):
    """The server that serves the sandboxes."""

    def add_sandbox(self, sandbox: ServedSandbox) -> None:
        """Serve a new sandbox."""

    def remove_sandbox(self, sandbox: ServedSandbox, why: str) -> None:
        """End a sandbox, for this reason."""

    def sandbox_restored(self, sandbox: ServedSandbox) -> None:
        """The sandbox returned to an earlier state: its next event may be an earlier one."""


class SandboxOperations:
    """Handlers for one server.

    `now_ms` is the real time, `loop_time_s` the clock of the event loop. `new_id` and `new_key` return random ids and
    API keys. `server_url` is the server's public URL. After each creation `added(worlds)` is called with all worlds.
    """

    def __init__(
        self,
        factory: SandboxFactory,
        registry: SandboxRegistry,
        host: SandboxHost,
        *,
        new_id: Callable[[], str],
        new_key: Callable[[], str],
        server_url: str,
        now_ms: Callable[[], int],
        loop_time_s: Callable[[], float],
        added: Callable[[Iterable[World]], None] | None = None,
    ) -> None:
        self._factory = factory
        self._registry = registry
        self._host = host
        self._new_id = new_id
        self._new_key = new_key
        self._server_url = server_url
        self._now_ms = now_ms
        self._loop_time_s = loop_time_s
        self._added = added

    @handles(raises=(SemanticConflict, Conflict))
    async def create_sandbox(self, call: Request) -> dict[str, Any]:
        """A new sandbox with its own API key."""
        fields = {name: value for name, value in call.body.items() if value is not None}
        start_ms = requested_start(fields.get("start"), self._now_ms())

        def make(key: str, url: str) -> World:
            return self._factory.create(fields, api_key=key, start_ms=start_ms, url=url)

        return await self.add_built_apart(fields, make) if self._factory.is_slow(fields) else self._add(fields, make)

    @handles(needs=("query.limit",))
    def list_sandboxes(self, call: Request) -> Page:
        """One page of the sandboxes, the newest first."""
        name = call.query.get("name")

        def read(after: int | None, limit: int) -> list[ServedSandbox]:
            found: list[ServedSandbox] = []
            for sandbox in self._registry.newest_first():
                if (after is None or sandbox.doc_id < after) and (name is None or sandbox.name == name):
                    found.append(sandbox)
                    if len(found) == limit:
                        break
            return found

        return page(call, "sandbox", read, self.show)

    @handles(raises=(NotFound,), needs=("path.id",))
    def get_sandbox(self, call: Request) -> dict[str, Any]:
        """One sandbox."""
        return self.show(self.find(call))

    @handles(raises=(NotFound,), needs=("path.id",))
    def reset_sandbox(self, call: Request) -> dict[str, Any]:
        """Discard the state of a sandbox and start it again, with the same keys and contract."""
        sandbox = self.find(call)
        start_ms = requested_start(call.body.get("start"), self._now_ms())
        starts_now = call.body.get("start") == NOW
        reset_world(sandbox.world, seed=call.body.get("seed"), start_ms=start_ms, starts_now=starts_now)
        sandbox.used_at_s = self._loop_time_s()
        return self.show(sandbox)

    @handles(raises=(NotFound,), needs=("path.id",))
    def delete_sandbox(self, call: Request) -> dict[str, Any]:
        """End a sandbox."""
        sandbox = self.find(call)
        shown = self.show(sandbox)
        self._host.remove_sandbox(sandbox, f"{described(sandbox)} was deleted")
        return shown

    def _add(self, fields: Mapping[str, Any], make: Callable[[str, str], World]) -> dict[str, Any]:
        """Serve the world that `make(key, url)` returns, with the name and the time to live of `fields`. Returns the
        resource with its secrets."""
        self._check_room()
        ttl_s = _ttl_s(fields)
        sandbox_id, key, url = self._new_access()
        with _refusals():
            world = make(key, url)
        return self._serve(world, fields, sandbox_id, key, url, ttl_s)

    # Used by the copies

    async def add_built_apart(
        self,
        fields: Mapping[str, Any],
        make: Callable[[str, str], World],
        complete: Callable[[World], None] | None = None,
    ) -> dict[str, Any]:
        """As `_add`, for a large world: `make` is called in a thread, and `complete(world)` before it is served."""
        self._check_room()
        ttl_s = _ttl_s(fields)
        sandbox_id, key, url = self._new_access()
        with _refusals():
            world = await run_in_thread(lambda: make(key, url))
            if complete is not None:
                complete(world)
        self._check_room()  # another request may have made one meanwhile
        return self._serve(world, fields, sandbox_id, key, url, ttl_s)

    def _check_room(self) -> None:
        if len(self._registry) >= MAX_SANDBOXES:
            raise Conflict(
                f"this server has {MAX_SANDBOXES:,} sandboxes, and no more: delete some, or create them with a ttl"
            )

    def _new_access(self) -> tuple[str, str, str]:
        sandbox_id, key = self._new_id(), self._new_key()
        return sandbox_id, key, self._server_url + URL_PREFIX + sandbox_id

    def _serve(
        self, world: World, fields: Mapping[str, Any], sandbox_id: str, key: str, url: str, ttl_s: float | None
    ) -> dict[str, Any]:
        sandbox = ServedSandbox(
            doc_id=self._registry.next_number,
            id=sandbox_id,
            name=fields.get("name"),
            world=world,
            url=url,
            created_at_ms=self._now_ms(),
            ttl_s=ttl_s,
            used_at_s=self._loop_time_s(),
        )
        # First what may fail: a request that is not answered leaves nothing behind.
        resource = {**self.show(sandbox), "apiKey": key, "webhookSecret": world.webhook_secret}
        self._host.add_sandbox(sandbox)
        if self._added is not None:
            self._added(self._registry)
        return resource

    def restored(self, sandbox: ServedSandbox) -> None:
        """The sandbox returned to a snapshot."""
        self._host.sandbox_restored(sandbox)
        sandbox.used_at_s = self._loop_time_s()

    def ttl_s(self, world: World) -> float | None:
        """The time to live of a world's sandbox; None if it stays."""
        sandbox = self._registry.of_world(world)
        return None if sandbox is None else sandbox.ttl_s

    def find(self, call: Request) -> ServedSandbox:
        """The sandbox with the id in the path. Raises `NotFound`."""
        sandbox = self._registry.of_id(call.path["id"])
        if sandbox is None:
            why = self._registry.ended(call.path["id"])
            gone = why and f"{why}: create another one"
            raise NotFound(gone or "this server has no sandbox with this id: list the sandboxes")
        return sandbox

    def of_id(self, sandbox_id: str) -> ServedSandbox | None:
        """The sandbox with this id, or None."""
        return self._registry.of_id(sandbox_id)

    def show(self, sandbox: ServedSandbox) -> dict[str, Any]:
        """The resource."""
        world = sandbox.world
        config = world.config
        return {
            "id": sandbox.id,
            "name": sandbox.name,
            "createdAt": to_iso(sandbox.created_at_ms),
            "ttl": sandbox.ttl_s,
            "idle": 0 if sandbox.requests_in_progress else round(self._loop_time_s() - sandbox.used_at_s, 3),
            "url": sandbox.url,
            "serverUrl": self._server_url,
            "seed": config.seed,
            "start": to_iso(config.start_ms),
            "now": to_iso(world.clock.now()),
            "rate": world.clock.rate,
            "overlays": list(config.contract.overlays),
            "network": config.network if isinstance(config.network, str) else "map",
        }


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Problem:
        raise
    except (LeydenError, ValueError) as error:
        if is_out_of_files(error):
            raise
        raise SemanticConflict(str(error)) from None


def described(sandbox: ServedSandbox) -> str:
    """The sandbox in a sentence, by its name and id."""
    return f"the sandbox {sandbox.id}" + ("" if sandbox.name is None else f" ({sandbox.name})")


def ttl_text(sandbox: ServedSandbox) -> str:
    """Why a sandbox ended that had no request during its time to live."""
    return f"{described(sandbox)} ended, because it had no request for {sandbox.ttl_s:g} s (its ttl)"


def _ttl_s(fields: Mapping[str, Any]) -> float | None:
    if "ttl" not in fields:
        return None
    try:
        ttl_ms = parse_duration(fields["ttl"])
    except ValueError:  # longer than any instant, or shorter than a millisecond
        ttl_ms = _MAX_TTL_MS + 1
    if not _MIN_TTL_MS <= ttl_ms <= _MAX_TTL_MS:
        raise SemanticConflict('ttl must be from 1 s to 366 days of real time, such as "10m": give another one')
    return ttl_ms / 1_000
