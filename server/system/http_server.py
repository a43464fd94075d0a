"""Listening sockets, and the uvicorn server that runs in this thread or in one of its own."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leyden.server.errors import ListenError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp


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
_GRACE_S = 3
_DEFAULT_OPEN_FILES = 256


def _open_files() -> int:
    """The number of files that this process may open."""
    if sys.platform == "win32":
        return _DEFAULT_OPEN_FILES
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _protocol() -> Any:
    """The protocol class for uvicorn. Without httptools it is one over h11, which bounds heads itself."""
    if importlib.util.find_spec("httptools") is None:
        from leyden.server.system.client_connection import ConnectedH11Protocol

        return ConnectedH11Protocol
    from leyden.server.system.http_protocol import ConnectionTable, LimitedProtocol, max_connections

    return functools.partial(LimitedProtocol, table=ConnectionTable(max_connections(_open_files())))


def _server(app: ASGIApp, ready: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    class NotifyingServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            log = logging.getLogger("uvicorn.error")
            log.addFilter(_name_stopped_requests)
            try:
                await super().shutdown(sockets)
            finally:
                log.removeFilter(_name_stopped_requests)

    config = uvicorn.Config(
        app,
        http=_protocol(),
        ws="none",
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return NotifyingServer(config)


def _name_stopped_requests(record: logging.LogRecord) -> bool:
    """Say once, in words, what happens to the requests that uvicorn cancels when it stops: it calls them tasks, and the
    end of their time an error, and logs each that had sent a part of its response."""
    if record.msg == "ASGI callable returned without completing response.":
        return False
    if str(record.msg).startswith("Cancel %s running task(s)"):
        record.msg = (
            f"%s: no complete response within {_GRACE_S} s of the signal to stop; answered 503, or closed after a part"
        )
        [count] = record.args if isinstance(record.args, tuple) else [0]
        record.args = ("1 request" if count == 1 else f"{count} requests",)
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


def run_server(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, and return. `ready` is called once, when the server accepts requests.

    Requests in progress have three seconds to end. After a second signal they are not waited for. The process ignores
    both signals from then on, because it is about to end.
    """
    # uvicorn raises the signal once more when it has stopped. The default action of SIGTERM would then end the process
    # before the caller closes its files, and a second SIGINT would interrupt that.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    with contextlib.suppress(KeyboardInterrupt):
        _server(app, ready).run(sockets=[listener])
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
