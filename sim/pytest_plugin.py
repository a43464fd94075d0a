"""The pytest plugin: fixtures with a new sandbox for each test, in the process or served on a port.

    def test_a_paid_charge_is_shipped(leyden_server):
        order = my_shop(base_url=leyden_server, key="leyden").order("tea")
        leyden_server.sandbox.wallet("ana").pay(order.invoice)
        leyden_server.sandbox.run()
        assert order.shipped

pytest loads it wherever Leyden is installed; `-p no:leyden` disables it. Options of the configuration file:

- `leyden_seed` (0; at most 9007199254740991): each test has a seed that is derived from it and from the name of the
  test. So a test has the same ids in every run, and no two tests have the same.
- `leyden_webhook_secret`: signs the callbacks of all tests; by default derived from `leyden_seed`.
- `leyden_start` (2030-01-01T00:00:00Z), `leyden_overlays` (a list).
- `leyden_egress`, `leyden_egress_allow` (a list): where callbacks may go; by default nowhere from `sandbox`, and to
  this machine from `leyden_server`.
- `leyden_callback_timeout` (15s): the longest wait for the response of a receiver on the network, 100ms to 60s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from leyden.sandbox import Sandbox


class LiveServer(str):
    """The base URL of a server on 127.0.0.1, for any client; `sandbox` is the sandbox that it serves.

    Callbacks to a receiver of this machine are real requests: `http://127.0.0.1:5000/paid`, for example. Names below
    `.localhost` are built-in receivers: `sandbox.receiver("shop").inbox` holds the exact requests that
    `http://shop.localhost/` received, which a test can pass to the code under test.
    """

    sandbox: Sandbox

    @property
    def api_key(self) -> str:
        """The project's API key, for the header `apikey`."""
        return self.sandbox.api_key


class _Switch:
    """The application of the server: it delegates to the application of the running test."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
        elif self.app is not None:
            await self.app(scope, receive, send)
        else:
            # A client that still runs after its test must not write into the sandbox of the next one.
            from leyden.server.errors import SandboxClosed
            from leyden.server.http.pipeline import send_problem

            await send_problem(send, SandboxClosed("the running test does not use leyden_server"), "")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the configuration file."""
    parser.addini("leyden_seed", "Leyden: seed of all random choices in `sandbox` and `leyden_server`", default="0")
    parser.addini("leyden_start", "Leyden: the instant at which their clocks start, ISO 8601", default="")
    parser.addini("leyden_egress", "Leyden: where callbacks may go: none, loopback or public", default="")
    parser.addini("leyden_egress_allow", "Leyden: networks that callbacks may go to", type="args", default=[])
    parser.addini("leyden_callback_timeout", "Leyden: longest wait for a receiver, 100ms to 60s", default="")
    parser.addini("leyden_webhook_secret", "Leyden: the secret that signs callbacks, whsec_...", default="")
    parser.addini("leyden_overlays", "Leyden: overlays for the specification", type="args", default=[])


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A new `leyden.Sandbox` in memory: the whole service, its network and its clock, in this process."""
    with _new_sandbox(request) as new:
        yield new


@pytest.fixture(scope="session")
def _leyden_port() -> Iterator[tuple[str, _Switch]]:
    from leyden.server.system.http_server import ServerThread, open_listener

    switch = _Switch()
    thread = ServerThread(switch, open_listener("127.0.0.1", 0))
    yield thread.url, switch
    thread.close()


@pytest.fixture
def leyden_server(request: pytest.FixtureRequest, _leyden_port: tuple[str, _Switch]) -> Iterator[LiveServer]:
    """The URL of a served Leyden, the same in all tests. Each test has its own sandbox there: `.sandbox`."""
    url, switch = _leyden_port
    with _new_sandbox(request) as new:
        switch.app = new._http.served_at(url)
        server = LiveServer(url)
        server.sandbox = new
        yield server
        switch.app = None


def _new_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """The sandbox of one test, with its own ids and the webhook secret of all tests."""
    from leyden.arguments import seed_from_text
    from leyden.rng import RandomStreams, derived_seed
    from leyden.sandbox import Sandbox
    from leyden.server.http.projects import drawn_secret

    config = request.config
    options: dict[str, Any] = {}
    try:
        seed = seed_from_text(config.getini("leyden_seed"))
    except ValueError as error:
        raise pytest.UsageError(f"leyden_seed: {error}") from None
    options["seed"] = derived_seed(seed, request.node.nodeid)
    given_secret, start = config.getini("leyden_webhook_secret"), config.getini("leyden_start")
    options["webhook_secret"] = given_secret or drawn_secret(RandomStreams(seed).stream("secrets"))
    if start:
        options["start"] = start
    options["egress"] = config.getini("leyden_egress") or None
    options["callback_timeout"] = config.getini("leyden_callback_timeout") or None
    options["egress_allow"] = config.getini("leyden_egress_allow")
    try:
        return Sandbox(**options, overlays=config.getini("leyden_overlays"))
    except ValueError as error:
        raise pytest.UsageError(f"Leyden's options: {error}") from None
