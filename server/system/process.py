"""The real machine: the only place that reads its clock, draws from its luck, or opens its ports."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from leyden.server.errors import ListenError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp


def system_time_ms() -> int:
    """The machine's own time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """What this process takes for the present, frozen or not.

    With freezegun's `freeze_time` around it that is the frozen instant, and `tick()` and `move_to()` move it.
    """

    def __init__(self) -> None:
        self._latest = 0

    def now(self) -> int:
        """Milliseconds since the epoch; never less than a value returned before. A process clock that is set back is
        waited for: until it has come that far again, the present stands still."""
        # In microseconds first: freezegun works its `time_ns` out in floating point, and can be a millisecond short. A
        # float of seconds tells microseconds apart until 2106.
        # Not `datetime.now(UTC)` either: freezegun adds a `tz_offset` even to that.
        self._latest = max(self._latest, round(time.time() * 1_000_000) // 1_000)
        return self._latest


def stopwatch() -> Callable[[], float]:
    """Start counting; each call of what is returned tells the real seconds since. Under `freeze_time` they stand."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began


def random_seed() -> int:
    """A seed nobody chose: 48 bits of the machine's entropy, small enough to write down."""
    return int.from_bytes(os.urandom(6), "big")


def open_listener(host: str, port: int) -> socket.socket:
    """Listen on `host` and `port` (0 picks a free one).

    Raises `PortTaken` when the address is taken or is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP, not 0: uvicorn sets TCP_NODELAY only on sockets that say they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ListenError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port (0 is any free one) or --host"
        ) from None
    return listener


def base_url(listener: socket.socket) -> str:
    """The base URL a listener is reached at."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def local_addresses() -> list[str]:
    """The addresses by which this machine knows itself: its name's, and those that it would send from."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        found.update(str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None))
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Connecting a datagram socket sends nothing: the system only chooses the address it would send from.
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            found.add(str(probe.getsockname()[0]))
    return sorted(address.partition("%")[0] for address in found)


def _server(app: ASGIApp, ready: Callable[[], None] | None) -> uvicorn.Server:
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if ready is not None and self.started:
                ready()

    return Announcing(
        uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="on", server_header=False, date_header=False
        )
    )


def run_server(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until interrupted. `ready` is called once the first request can be answered."""
    _server(app, ready).run(sockets=[listener])


class ServerThread:
    """The same server beside a program that goes on: a notebook, a test."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.url = base_url(listener)
        self._up = threading.Event()
        self._server = _server(app, self._up.set)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="leyden-server", daemon=True
        )
        self._thread.start()
        if not self._up.wait(10):
            raise ListenError(f"the server at {self.url} did not start within ten seconds")

    def close(self) -> None:
        """Stop serving and wait for the thread to end."""
        self._server.should_exit = True
        self._thread.join(10)
