"""The server's own control plane: an application beside those of the worlds, with the admin token instead of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from leyden.devserver.health import PATHS as HEALTH_PATHS
from leyden.devserver.sandboxes.admin_access import AdminAccess
from leyden.devserver.sandboxes.factory import SandboxFactory
from leyden.devserver.sandboxes.operations import SandboxHost, SandboxOperations
from leyden.devserver.sandboxes.registry import SandboxRegistry
from leyden.devserver.sandboxes.routing import ID_PREFIX, URL_PREFIX, below_url
from leyden.server.app import ApiMount, build_app
from leyden.server.contract.bind import bind
from leyden.server.errors import NotFound, Problem
from leyden.server.http.corrections import shown
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.pipeline import PipelineContext
from leyden.server.store.store import Store
from leyden.server.system.work_threads import run_in_thread
from leyden.world.config import SERVER_DOCS_PATH, SERVER_DOCUMENT_PATH, packaged_contract
from leyden.world.time.clock import VirtualClock
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.devserver.sandboxes.copies import CopyOperations

PATH = "/sandbox/v1/sandboxes"
FORK_PATH = "/sandbox/v1/fork"  # of a sandbox's own control plane
# The only long bodies are files of sandboxes.
_TOO_LARGE_MEND = "serve a larger file of a sandbox in Python, with Sandbox.load(path).serve()"


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The environment of a server that creates sandboxes: `server_url` is its public URL, `now_ms` the real time. After
    each creation `added(worlds)` is called with all worlds of the server."""

    factory: SandboxFactory
    access: AdminAccess
    new_id: Callable[[], str]
    new_key: Callable[[], str]
    now_ms: Callable[[], int]
    server_url: str
    added: Callable[[Iterable[World]], None] | None = None


class ServerControl:
    """The operations on the sandboxes of one server. Their requests are in no sandbox's event journal."""

    def __init__(
        self,
        settings: SandboxSettings,
        registry: SandboxRegistry,
        host: SandboxHost,
        loop_time_s: Callable[[], float],
    ) -> None:
        self._access = settings.access
        self._registry = registry
        self._server_url = settings.server_url
        self._factory = settings.factory
        self._operations = SandboxOperations(
            settings.factory,
            registry,
            host,
            new_id=settings.new_id,
            new_key=settings.new_key,
            server_url=settings.server_url,
            now_ms=settings.now_ms,
            loop_time_s=loop_time_s,
            added=settings.added,
        )
        self._app: ASGIApp | None = None
        self._copies: CopyOperations | None = None

    @staticmethod
    def has_path(path: str) -> bool:
        """Whether requests for the path belong to the server."""
        return path == PATH or path.startswith((f"{PATH}/", SERVER_DOCUMENT_PATH, SERVER_DOCS_PATH))

    @staticmethod
    def needs_token(path: str) -> bool:
        """Whether the path is that of an operation. The document and its page are public."""
        return path == PATH or path.startswith(f"{PATH}/")

    def misdirected(self, scope: Scope, sandbox_id: str | None) -> Problem | None:
        """The refusal of a path of the server that is asked below the URL of a sandbox, and of the URL of a sandbox
        that is unknown. `sandbox_id` and `scope` are those of `below_url`."""
        path: str = scope["path"]
        if sandbox_id is None:
            if not path.startswith(URL_PREFIX + ID_PREFIX):
                return None
            name = path.removeprefix(URL_PREFIX).partition("/")[0]
            return NotFound(f"this server has no sandbox {shown(name)}: list them with GET {PATH}, or create one")
        sandbox = self._registry.of_id(sandbox_id)
        if sandbox is None or path in sandbox.world.config.contract.by_path():
            return None
        if not (self.has_path(path) or path in HEALTH_PATHS or below_url(self._registry, scope)[1] is not None):
            return None
        # Not that the server has this path: its document is compiled for the first request to it.
        listed = "" if path in HEALTH_PATHS else f", whose paths are listed at {self._server_url}{SERVER_DOCS_PATH}"
        where = f"ask at {self._server_url}{listed}"
        return NotFound(f"{shown(path)} belongs to the server, not to a sandbox: {where}")

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. The application is built for the first one, in a thread: most servers need none."""
        if self._app is None:
            built = await run_in_thread(self._build)
            self._app = self._app or built  # another first request may have come meanwhile
        await self._app(scope, receive, send)

    @property
    def copies(self) -> CopyOperations:
        """The operations that copy sandboxes."""
        if self._copies is None:
            # Imported here: most servers copy no sandbox.
            from leyden.devserver.sandboxes.copies import CopyOperations

            self._copies = CopyOperations(self._operations, self._factory)
        return self._copies

    def _build(self) -> ASGIApp:
        contract = packaged_contract("server")
        pipeline = PipelineContext(
            transaction=nullcontext,
            authenticate=self._access.authenticate,
            idempotency=Idempotency(Store.memory(), VirtualClock(0)),  # no operation has that parameter
            journal=_NoJournal(),
            api_key_header=contract.api_key_header.lower().encode(),
            run_apart=run_in_thread,
        )
        handlers = bind(contract, [self._operations, self.copies], {}, {})
        mount = ApiMount(contract, handlers, SERVER_DOCUMENT_PATH, SERVER_DOCS_PATH)
        return build_app(mount, [], pipeline, too_large_mend=_TOO_LARGE_MEND)


class _NoJournal:
    """A server has no event journal of its own."""

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Nothing is kept."""
