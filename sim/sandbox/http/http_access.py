"""HTTP access to a sandbox: an ASGI application that records requests, a client in the process, a server thread."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.devserver.request_log.recording import LoggedApp
from leyden.errors import ClosedError, ListenError, ResponseLost
from leyden.lab.actions.action_log import NO_RESPONSE
from leyden.sandbox.session import Session
from leyden.server.errors import SandboxClosed
from leyden.server.http.pipeline import send_problem
from leyden.world.components import CONTROL_PATH, key_header
from leyden.world.concurrency.locked_steps import LockedSteps
from leyden.world.event_journal import HashedEventJournal

if TYPE_CHECKING:
    import httpx2

    from leyden.devserver.multi_tenant import MultiTenantApp
    from leyden.server.system.http_server.listening import ServerThread


class RecordingApp:
    """An ASGI application that records each request in the session's action log once its response starts.

    `server` is given for one that is served. It says whether a request goes to another sandbox, and is not recorded. It
    runs what the program has made due before a request, and what the request made due before its response: each is
    recorded as an advance of 0 ms. A server may run longer than its sandbox: after `Sandbox.close()` each request gets
    503. Between two waits nobody else changes the sandbox: a request sees nothing of a reset, a restore or a move of
    time that another thread has half done.
    """

    def __init__(self, app: ASGIApp, session: Session, *, server: MultiTenantApp | None = None) -> None:
        self._app = app
        self._session = session
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        session = self._session
        server = self._server
        with session.lock():
            is_closed = server is not None and session.is_closed
            is_for_others = server is not None and not is_closed and server.is_for_others(scope)
        if is_closed:
            return await _respond_closed(send)
        if is_for_others:
            return await self._app(scope, receive, send)
        return await LockedSteps(self._respond(scope, receive, send), session.lock)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        session, server = self._session, self._server
        journal = session.world.journal
        chunks: list[bytes] = []
        facts: dict[str, Any] = {}
        entries = len(journal)
        if server is not None:
            await server.run_due_now(session.world)
            self._record_events(journal, entries)
            entries = len(journal)
        started = ended = left = False

        async def receive_chunk() -> Message:
            nonlocal left
            message = await receive()
            if message["type"] == "http.request":
                chunks.append(message.get("body", b""))
            else:
                left = True
            return message

        async def send_message(message: Message) -> None:
            nonlocal ended, entries, facts, journal, started
            if message["type"] == "http.response.start":
                facts = record(message["status"])
                journal = session.world.journal  # another one after a reset
                entries = len(journal)
            else:
                ended = not message.get("more_body", False)
                if "id" not in facts:
                    session.record_created(facts, message.get("body", b""))
            started = True
            await send(message)

        def record(status: int) -> dict[str, Any]:
            query = scope.get("query_string")
            path = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
            target = (path + b"?" + query if query else path).decode("latin-1")
            return session.record_request(scope["method"], target, scope["headers"], b"".join(chunks), status)

        def record_lost() -> None:
            """A service fault lost the response, or a part of it."""
            if started:
                session.action_log.mark_raised(facts)
            else:
                record(NO_RESPONSE)

        try:
            await self._app(scope, receive_chunk, send_message)
        except ClosedError:
            if server is None or started:
                raise
            return await _respond_closed(send)
        except ResponseLost:
            record_lost()
            raise
        if not ended and not left and not session.is_closed:
            record_lost()
        if server is not None and not session.is_closed:
            self._record_events(journal, entries)
        return None

    def _record_events(self, journal: HashedEventJournal, entries: int) -> None:
        """If the journal has more than these entries, something was due: a move by nothing repeats it."""
        if len(journal) != entries:
            self._session.action_log.add("advance", {"by_ms": 0})
            self._session.action_log.mark_events(self._session.world)


_CLOSED = count(1)  # the requests to closed sandboxes of this process, for their ids


async def _respond_closed(send: Send) -> None:
    detail = "this sandbox is closed: send requests before Sandbox.close(), or serve another sandbox"
    await send_problem(send, SandboxClosed(detail), f"req-{next(_CLOSED)}")


class HttpAccess:
    """The HTTP side of one sandbox: `app` for tools that take an ASGI application, `client()`, `serve()`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._client: httpx2.Client | None = None
        self._client_key = ""
        self._thread: ServerThread | None = None
        self._url: str | None = None
        self.server_app: MultiTenantApp | None = None  # of a served sandbox, with those created beside it
        # Of the world that is there now, after a restore too.
        self.app: ASGIApp = RecordingApp(LoggedApp(lambda: session.world), session)

    def client(self) -> httpx2.Client:
        """The client whose requests stay in the process, with the newest API key."""
        import httpx2

        from leyden.sandbox.http.http_client import LoopbackTransport

        if self._client is None:
            self._client = httpx2.Client(transport=LoopbackTransport(self.app), base_url="http://localhost")
        key = self._session.api_key
        if key != self._client_key:  # a header that the user set or removed since stays as it is
            self._client_key = key
            for target in ("/", CONTROL_PATH):
                self._client.headers[key_header(self._session.world.service, target).decode()] = key
        return self._client

    @property
    def is_served(self) -> bool:
        """Whether a server has been started for the sandbox: `serve()`, or one of its own kind, such as a fixture's."""
        return self._url is not None

    def served_at(self, url: str) -> ASGIApp:
        """The application for a server at this URL. From now on the sandbox is served there."""
        from leyden.devserver.multi_tenant import MultiTenantApp
        from leyden.devserver.sandboxes.in_python import sandboxes_beside

        session = self._session
        sandboxes = sandboxes_beside(session.world, url, lambda: session.egress(url))
        app = self.server_app = MultiTenantApp({session.api_key: session.world}, sandboxes=sandboxes)
        self._url = url
        session.world.moved_to(url)
        session.serve_network(url)
        return RecordingApp(app, session, server=app)

    def serve(self, host: str, port: int) -> str:
        """Start a server thread, unless the sandbox is served already, and return the base URL."""
        if self._url is None:
            from leyden.server.system.http_server.listening import ServerThread, base_url, open_listener

            _ = self._session.world  # raises for a closed sandbox, before a port is taken
            self._check_key(host)
            listener = open_listener(host, port)
            app = self.served_at(base_url(listener))
            try:
                self._thread = ServerThread(app, listener)
            except BaseException:
                self._url = None
                raise
        assert self._url is not None
        return self._url

    def _check_key(self, host: str) -> None:
        """Raise `ListenError` where other machines would reach a sandbox whose key everybody knows."""
        from leyden.devserver.startup.addresses import default_key_refusal
        from leyden.server.callbacks.ip_addresses import parse_host_address

        address, world = parse_host_address(host), self._session.world
        is_local = host == "localhost" if address is None else address.is_loopback
        for key in world.service.projects.keys(world.config.project):
            if default_key_refusal(key, is_local=is_local) is not None:
                raise ListenError(
                    f"the key {key!r} is known to everybody, and other machines reach a server at {host}: give Sandbox"
                    " another api_key, or serve at 127.0.0.1"
                )

    def close(self) -> None:
        """Stop the server thread, if one runs."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None
