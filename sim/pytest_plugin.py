"""The pytest plugin: fixtures with a new sandbox for each test, module or session, in the process or served on a port.

    def test_a_paid_charge_is_shipped(leyden_server):
        order = my_shop(base_url=leyden_server, key=leyden_server.api_key).order("tea")
        leyden_server.sandbox.wallet("ana").pay(order.invoice)
        leyden_server.sandbox.run()
        assert order.shipped

`sandbox` and `leyden_server` are new for each test, `module_sandbox` and `module_leyden_server` for each module,
`session_sandbox` and `session_leyden_server` for each run (with pytest-xdist: for each worker). `leyden_server` serves
the sandbox of the same scope: in a test that uses both, `leyden_server.sandbox is sandbox`.

pytest loads the plugin wherever Leyden is installed; `-p no:leyden` disables it. Options of the configuration file:

- `leyden_seed` (0; at most 9007199254740991): each test has a seed that is derived from it and from the name of the
  test. So a test has the same ids in every run, and no two tests have the same.
- `leyden_webhook_secret`: signs the callbacks of all tests; by default derived from `leyden_seed`.
- `leyden_start` (2030-01-01T00:00:00Z), `leyden_overlays` (a list).
- `leyden_egress`, `leyden_egress_allow` (a list): where callbacks may go; by default nowhere from `sandbox`, and to
  this machine from `leyden_server`.
- `leyden_callback_timeout` (15s): the longest wait for the response of a receiver on the network, 100ms to 60s.
- `leyden_url`: a running server for `leyden_server`; `--leyden-url` and the variable `LEYDEN_URL` come first.

With a URL, `leyden_server` creates a sandbox on that server and deletes it at the end. Its `sandbox` is a
`leyden.http_sandbox.HttpSandbox` then. Options about callbacks are those of the server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from leyden.http_sandbox import HttpSandbox
    from leyden.sandbox import Sandbox

_TTL = "1h"  # of a sandbox on a running server: a test run that was killed deletes nothing
_START = "2030-01-01T00:00:00Z"
# The fields of a sandbox on a running server that have an option.
_OPTION_OF_FIELD = {
    "start": "leyden_start",
    "overlays": "leyden_overlays",
    "webhookSecret": "leyden_webhook_secret",
}
_OPTIONS = ("--leyden-url", "--leyden-admin-token")
_INI_OPTIONS = (
    "leyden_url",
    "leyden_seed",
    "leyden_start",
    "leyden_egress",
    "leyden_egress_allow",
    "leyden_callback_timeout",
    "leyden_webhook_secret",
    "leyden_overlays",
)


class LiveServer(str):
    """The base URL of a served sandbox, for any client; `sandbox` is that sandbox.

    Callbacks to a receiver of this machine are real requests: `http://127.0.0.1:5000/paid`, for example. Names below
    `.localhost` are built-in receivers: `sandbox.receiver("shop").inbox` holds the exact requests that
    `http://shop.localhost/` received, which a test can pass to the code under test.

    With a running server (`--leyden-url`), `sandbox` is a `leyden.http_sandbox.HttpSandbox`.
    """

    sandbox: Any

    @property
    def url(self) -> str:
        """The base URL, as a plain text."""
        return str(self)

    @property
    def server_url(self) -> str:
        """The URL of the server, at which further sandboxes are created. In this process it is `url`."""
        url: str = getattr(self.sandbox, "server_url", str(self))
        return url

    @property
    def api_key(self) -> str:
        """The project's API key, for the header `apikey`: the newest one. With a running server, the newest of those
        that `sandbox` created or replaced; after another client replaced it, set `sandbox.api_key`."""
        key: str = self.sandbox.api_key
        return key

    @property
    def webhook_secret(self) -> str:
        """The newest secret that signs the callbacks."""
        sandbox = self.sandbox
        secret: str = sandbox.world.webhook_secret if hasattr(sandbox, "world") else sandbox.webhook_secret
        return secret


class _Switch:
    """The application of the server: it delegates to the application of the running test."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        self._refused = count(1)

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

            await send_problem(
                send, SandboxClosed("the running test does not use leyden_server"), f"req-{next(self._refused)}"
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the configuration file and of the command line."""
    group = parser.getgroup("leyden", "Leyden, a sandbox for Lightning charges")
    group.addoption("--leyden-url", metavar="URL", help="running server on which leyden_server creates sandboxes")
    group.addoption("--leyden-admin-token", metavar="TOKEN", help="its admin token (default: $LEYDEN_ADMIN_TOKEN)")
    parser.addini("leyden_url", "Leyden: running server on which leyden_server creates sandboxes", default="")
    parser.addini("leyden_seed", "Leyden: the seed of a test is derived from this number and its name (0)", default="")
    parser.addini("leyden_start", "Leyden: the instant at which their clocks start, ISO 8601", default="")
    parser.addini("leyden_egress", "Leyden: where callbacks may go: none, loopback or public", default="")
    parser.addini("leyden_egress_allow", "Leyden: networks that callbacks may go to", type="args", default=[])
    parser.addini("leyden_callback_timeout", "Leyden: longest wait for a receiver, 100ms to 60s", default="")
    parser.addini("leyden_webhook_secret", "Leyden: the secret that signs callbacks, whsec_...", default="")
    parser.addini("leyden_overlays", "Leyden: overlays for the specification", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a wrong value of an option in one line, before any test runs."""
    for name in _INI_OPTIONS:
        try:
            given = config.getini(name)
        except (ValueError, pytest.UsageError) as error:  # a list with an open quotation mark
            raise pytest.UsageError(f"{name}: {error}") from None
        for text in [given] if isinstance(given, str) else given:
            _read(name, text)
    for name in _OPTIONS:
        text = config.getoption(name)
        if text == "":  # of a shell variable that is not set, for example
            raise pytest.UsageError(f"{name}: it is empty: give a value, or leave the option out")
        _read(name, text)


def _read(option: str, text: str | None) -> Any:
    """The value that a text of an option means; None if it is not given. Raises `pytest.UsageError` for a wrong one."""
    if not text:
        return None
    # Imported here: most runs of pytest give no option.
    from argparse import ArgumentTypeError

    from leyden.devserver import argument_types
    from leyden.errors import LeydenError
    from leyden.server.callbacks.egress import Egress
    from leyden.server.contract.load import overlay_file

    readers: dict[str, Callable[[str], Any]] = {
        "url": argument_types.base_url,
        "admin_token": argument_types.admin_token,
        "seed": argument_types.seed,
        "start": argument_types.instant,
        "egress": Egress,
        "egress_allow": argument_types.ip_range,
        "callback_timeout": argument_types.callback_timeout,
        "webhook_secret": argument_types.webhook_secret,
        "overlays": overlay_file,
    }
    try:
        return readers[option.lower().lstrip("-").replace("-", "_").removeprefix("leyden_")](text)
    except (ArgumentTypeError, ValueError, LeydenError) as error:
        raise pytest.UsageError(f"{option}: {error}") from None


# Sandboxes


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A new `leyden.Sandbox` in memory: the whole service, its network and its clock, in this process."""
    yield from _sandbox(request, "leyden_server")


@pytest.fixture(scope="module")
def module_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A `leyden.Sandbox` in memory that the tests of a module share."""
    yield from _sandbox(request, "module_leyden_server")


@pytest.fixture(scope="session")
def session_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A `leyden.Sandbox` in memory that all tests share; with pytest-xdist, all tests of a worker."""
    yield from _sandbox(request, "session_leyden_server")


def _sandbox(request: pytest.FixtureRequest, server: str) -> Iterator[Any]:
    """A sandbox in the process; with a running server, that of `server` if a test of the same scope uses it."""
    if _external_url(request.config) and _is_used(request, server):
        yield request.getfixturevalue(server).sandbox
    else:
        with _new_sandbox(request) as new:
            yield new


def _is_used(request: pytest.FixtureRequest, fixture: str) -> bool:
    """Whether a test of the scope uses the fixture."""
    if request.scope == "function":
        return fixture in request.fixturenames
    inside = "" if request.scope == "session" else f"{request.node.nodeid}::"
    tests = (item for item in request.session.items if item.nodeid.startswith(inside))
    return any(fixture in getattr(test, "fixturenames", ()) for test in tests)


# Served sandboxes


@pytest.fixture(scope="session")
def _leyden_port() -> Iterator[tuple[str, _Switch]]:
    from leyden.server.system.http_server.listening import ServerThread, open_listener

    switch = _Switch()
    thread = ServerThread(switch, open_listener("127.0.0.1", 0))
    yield thread.url, switch
    thread.close()


@pytest.fixture
def leyden_server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """The URL of a served sandbox, which is new for each test: `.sandbox`. In this process the URL is the same in all
    tests."""
    if _external_url(request.config):
        yield from _external_server(request)
        return
    sandbox = request.getfixturevalue("sandbox")
    url, switch = request.getfixturevalue("_leyden_port")
    switch.app = sandbox._http.served_at(url)
    yield _live(url, sandbox)
    created = sandbox._http.server_app
    if created.sandbox_count:
        from leyden.http_sandbox import delete_sandboxes

        switch.app = created  # the sandbox of the test may be closed
        delete_sandboxes(url)
    switch.app = None


@pytest.fixture(scope="module")
def module_leyden_server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """The URL of a served sandbox that the tests of a module share: `.sandbox`."""
    yield from _shared_server(request, "module_sandbox")


@pytest.fixture(scope="session")
def session_leyden_server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """The URL of a served sandbox that all tests share, with pytest-xdist all tests of a worker: `.sandbox`."""
    yield from _shared_server(request, "session_sandbox")


def _shared_server(request: pytest.FixtureRequest, sandbox: str) -> Iterator[LiveServer]:
    if _external_url(request.config):
        yield from _external_server(request)
    else:
        shared = request.getfixturevalue(sandbox)
        yield _live(shared.serve(), shared)


def _live(url: str, sandbox: Sandbox | HttpSandbox) -> LiveServer:
    server = LiveServer(url)
    server.sandbox = sandbox
    return server


# A running server


def _external_url(config: pytest.Config) -> str:
    """The URL of the running server; empty without one."""
    url = config.getoption("--leyden-url") or _variable("LEYDEN_URL") or config.getini("leyden_url")
    return "" if not url else str(url).rstrip("/")


def _variable(name: str) -> str | None:
    """A variable of the environment. A wrong one is no matter of the tests that do not use it."""
    try:
        _read(name, os.environ.get(name))
    except pytest.UsageError as error:
        _refuse(str(error))
    return os.environ.get(name)


def _external_server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """A sandbox of its own on the running server, until the scope ends."""
    from leyden.errors import LeydenError
    from leyden.http_sandbox import create_sandbox

    config = request.config
    seed, secret = _seed_and_secret(request)
    name = f"{request.node.nodeid or 'session'}{_worker()}"
    try:
        created = create_sandbox(
            _external_url(config),
            admin_token=config.getoption("--leyden-admin-token") or _variable("LEYDEN_ADMIN_TOKEN"),
            name="".join(char if " " <= char <= "~" else "?" for char in name)[-200:],
            seed=seed,
            start=config.getini("leyden_start") or _START,
            rate=0,
            overlays=config.getini("leyden_overlays"),
            webhookSecret=secret,
            ttl=_TTL,
        )
    except LeydenError as error:
        _refuse(f"{_refused_option(error)}: {error}")
    with created:
        yield _live(created.url, created)


def _refused_option(error: Exception) -> str:
    """The option whose value the server refuses, or the fixture."""
    for refused in getattr(error, "problem", {}).get("errors", ()):
        for field in refused["pointer"].split("/")[1:2]:
            if field in _OPTION_OF_FIELD:
                return _OPTION_OF_FIELD[field]
    return "leyden_server"


# The options


def _refuse(text: str) -> None:
    """End the test with one line: a traceback would say nothing more."""
    pytest.fail(text, pytrace=False)


def _worker() -> str:
    """The name of this worker of pytest-xdist, so that two of them have other ids in a session; else empty."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    return f" {name}" if name else ""


def _seed_and_secret(request: pytest.FixtureRequest) -> tuple[int, str]:
    """The seed of a test, module or session, and the webhook secret of all."""
    from leyden.rng import RandomStreams, derived_seed
    from leyden.server.http.projects import drawn_secret

    seed = _read("leyden_seed", request.config.getini("leyden_seed")) or 0
    secret = request.config.getini("leyden_webhook_secret") or drawn_secret(RandomStreams(seed).stream("secrets"))
    where = request.node.nodeid if request.scope != "session" else f"session{_worker()}"
    return derived_seed(seed, where), secret


def _new_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """The sandbox of one test, module or session, with its own ids and the webhook secret of all."""
    from leyden.errors import LeydenError
    from leyden.sandbox import Sandbox

    config = request.config
    seed, secret = _seed_and_secret(request)
    overlays: list[str] = config.getini("leyden_overlays")
    timeout_ms = _read("leyden_callback_timeout", config.getini("leyden_callback_timeout"))
    try:
        return Sandbox(
            seed,
            config.getini("leyden_start") or None,
            webhook_secret=secret,
            overlays=overlays,
            egress=config.getini("leyden_egress") or None,
            egress_allow=config.getini("leyden_egress_allow"),
            callback_timeout=None if timeout_ms is None else timeout_ms / 1_000,
        )
    except LeydenError as error:  # of the file of an overlay, or of overlays that do not fit together
        _refuse(f"leyden_overlays = {' '.join(overlays)}: {error}")
        raise
