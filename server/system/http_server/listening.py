"""Listening sockets, and the uvicorn server that runs in this thread or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from leyden.server.errors import ListenError
from leyden.server.system.clock import stopwatch
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_server.accepting import Acceptor
from leyden.server.system.stop_signals import STOP_SIGNALS, ignore_stop_signals

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_OTHER_ADDRESS = "choose another port (0 is any free one) or another host"


def open_listener(host: str, port: int, mend: str = _OTHER_ADDRESS) -> socket.socket:
    """Listen on `host` and `port` (0 picks a free port).

    Raises `ListenError` when the address is in use or does not belong to this machine; `mend` says what to change.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP, not 0: uvicorn sets TCP_NODELAY only on sockets whose protocol is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ListenError(f"cannot listen on {host}:{port}: {reason}; {mend}") from None
    return listener


def base_url(listener: socket.socket) -> str:
    """The URL of a listener, without a path."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def host_name() -> str:
    """The name of this machine."""
    return socket.gethostname()


def local_addresses() -> list[str]:
    """The IP addresses of this machine: those of its host name, and the source addresses of outgoing packets."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        found.update(str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None))
    for family, remote in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Connecting a datagram socket sends nothing: the system only selects the source address.
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((remote, 9))
            found.add(str(probe.getsockname()[0]))
    return sorted(address.partition("%")[0] for address in found)


# Real seconds that requests in progress have to end when the server stops.
_GRACE_S = 2.0
# Real seconds after the signal to stop until which a request must have come.
_LATEST_S = 1.0
# Real seconds for the responses to cancelled requests, and then for the end of the requests without a connection. All
# waits together are 3.5 s: a busy machine needs more than a second besides to stop within five.
_FLUSH_S = 0.75
_STOP_POLL_S = 0.02
_DEFAULT_OPEN_FILES = 256


def _files_left() -> int:
    """The number of files that this process may open beside those that it has open, as those of its stores."""
    if sys.platform == "win32":
        return _DEFAULT_OPEN_FILES
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        return max(0, soft - len(os.listdir("/dev/fd")))
    except OSError:
        return soft


def _protocol() -> Any:
    """The protocol class for uvicorn. Without httptools it is one over h11, which bounds heads itself."""
    if importlib.util.find_spec("httptools") is None:
        from leyden.server.system.http_server.connection import ConnectedH11Protocol
        from leyden.server.system.http_server.flow import UnreadResponses

        return functools.partial(ConnectedH11Protocol, unread=UnreadResponses())
    from leyden.server.system.http_server.connection_table import ConnectionTable
    from leyden.server.system.http_server.protocol import LimitedProtocol, max_connections

    return functools.partial(LimitedProtocol, table=ConnectionTable(max_connections(_files_left())))


def _server(app: ASGIApp, ready: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    class BoundedServer(uvicorn.Server):
        """uvicorn's server, whose stop takes a bounded time whatever its clients do, and is silent about cancelled
        tasks."""

        def run(self, sockets: list[socket.socket] | None = None) -> None:
            """Serve until the server stops. uvicorn before 0.36 would change the event loop policy of the process."""
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self.serve(sockets=sockets))

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            # The event loop of Windows watches no sockets.
            own = [] if sys.platform == "win32" else sockets or []
            await super().startup([] if own else sockets)
            loop = asyncio.get_running_loop()
            self.acceptors = [Acceptor(loop, one, self._make_protocol) for one in own]
            if self.started:
                try:
                    ready()
                except BaseException:
                    await self.lifespan.shutdown()
                    raise

        def _make_protocol(self) -> asyncio.Protocol:
            protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return protocol

        since_stop: Callable[[], float] | None = None  # how many seconds ago the first signal to stop came

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Stop. A second signal ends the time of the requests in progress."""
            self.since_stop = self.since_stop or stopwatch()
            # uvicorn notes the signal and raises it once more when it has stopped; the caller has its files to close.
            self.force_exit = self.should_exit
            self.should_exit = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for acceptor in self.acceptors:
                acceptor.close()
            for server in self.servers:
                server.close()
            for listening in sockets or []:
                listening.close()
            connections, tasks = self.server_state.connections, self.server_state.tasks
            await self._wait_until_idle(_GRACE_S, is_interruptible=True)
            forced = "before the second signal to stop"
            until = forced if self.force_exit else f"within {_GRACE_S:g} s of the signal to stop"
            _log_unfinished(len(tasks), len(connections), until)
            for connection in list(connections):
                connection.end_request()  # type: ignore[union-attr]
            for task in list(tasks):
                task.cancel()
            await self._wait_until_idle(_FLUSH_S)
            for connection in list(connections):
                connection.transport.abort()
            await self._wait_until_idle(_FLUSH_S)
            await self.lifespan.shutdown()

        async def _wait_until_idle(self, seconds: float, *, is_interruptible: bool = False) -> None:
            """Wait until every connection is closed and every request has ended."""
            loop = asyncio.get_running_loop()
            end_s = loop.time() + seconds
            while True:
                # A connection can be accepted in the moment in which the listening socket is closed.
                for connection in list(self.server_state.connections):
                    if not connection.is_stopping:  # type: ignore[union-attr]
                        connection.shutdown()
                if not (self.server_state.connections or self.server_state.tasks) or loop.time() >= end_s:
                    return
                if is_interruptible and self.force_exit:
                    return
                await asyncio.sleep(_STOP_POLL_S)

    async def app_in_time(scope: Scope, receive: Receive, send: Send) -> None:
        """The application. A request that comes too late after the signal, or whose body does, is one that does not
        end in time: many long ones would be done one after another."""

        async def receive_in_time() -> Message:
            message = await receive()
            is_late = server.since_stop is not None and server.since_stop() > _LATEST_S
            if is_late and message["type"] == "http.request":
                await asyncio.Event().wait()
            return message

        await app(scope, receive_in_time if scope["type"] == "http" else receive, send)

    config = uvicorn.Config(
        app_in_time,
        http=_protocol(),
        ws="none",
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        date_header=False,
    )
    server = BoundedServer(config)
    return server


def _log_unfinished(requests: int, connections: int, until: str) -> None:
    """Log in one line what the stop cuts off."""
    log = logging.getLogger("uvicorn.error")
    if requests:
        log.warning(
            "%s: no complete response %s; answered 503, or closed after a part",
            "1 request" if requests == 1 else f"{requests} requests",
            until,
        )
    elif connections:
        log.warning(
            "%s: the client did not read its response %s; closed",
            "1 connection" if connections == 1 else f"{connections} connections",
            until,
        )


def run_server(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal to stop, and return. `ready` is called once, when the server accepts requests.

    Requests in progress have two seconds to end; one that comes, or whose body does, more than a second after the
    signal is answered as one that does not end. After a second signal they are not waited for. The process ignores such
    signals from then on, because it is about to end.
    """
    server = _server(app, ready)
    # uvicorn sets the same handlers later and puts these back at its end.
    for number in STOP_SIGNALS:
        signal.signal(number, server.handle_exit)
    server.run(sockets=[listener])
    ignore_stop_signals()


class ServerThread:
    """The same server in a thread, for a notebook or a test.

    Raises `ListenError` when the server does not start within ten seconds.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.url = base_url(listener)
        self._started = threading.Event()
        self._server = _server(app, self._started.set)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="leyden-server", daemon=True
        )
        self._thread.start()
        if not self._started.wait(10):
            raise ListenError(f"the server at {self.url} did not start within ten seconds")

    def close(self) -> None:
        """Stop the server and wait for its thread."""
        self._server.should_exit = True
        self._thread.join(10)
