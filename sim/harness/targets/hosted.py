"""A server of `leyden serve` in this process, without a socket. The harness moves its real time."""

from __future__ import annotations

import argparse
import asyncio
import gc
import shutil
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import orjson

from leyden.devserver.serve import keep_time, open_server
from leyden.devserver.serve_options import describe_serve
from leyden.devserver.startup.addresses import ServerAddresses
from leyden.errors import GraphError
from leyden.files.json_files import InputError
from leyden.harness.constants import API_KEY
from leyden.harness.targets.target import Headers, Response
from leyden.server.contract.load import known_overlays
from leyden.server.ports import CONNECTION
from leyden.server.printable import printable
from leyden.server.store.journal import JOURNAL_NAME
from leyden.service_faults.connection import InProcessConnection
from leyden.world.concurrency.async_moves import catch_up
from leyden.world.loopback import Header, LoopbackResponse, send_once
from leyden.world.world import World

_START_MS = 1_893_456_000_000  # of the real time: 2030-01-01
_URL = "http://localhost"
# How a server ends before it is started again on its data.
ENDS = ("close", "kill", "torn", "compact")
_KEPT_OPTIONS = ("--rate", "--seed", "--start")
# Of `leyden serve`. Somebody else may have written the case: no option names a file, and none opens the network.
_OPTIONS = frozenset({"rate", "seed", "start", "keep", "webhook_secret", "overlay", "network", "autopay", "egress",
                      "durability", "public_url"})  # fmt: skip
_MOST_ROUNDS, _LONGEST_S = 1_000, 1  # of waits for callbacks that are in flight after a response
_TORN = b'["00000000",{"charges":[[1'  # of a commit that was never confirmed


class _RealTime:
    """A real clock that the harness moves."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self.ms

    def offset_ms(self) -> int:
        """The system clock is never set."""
        return 0

    def change_ms(self) -> int:
        """The system clock is never set."""
        return 0


class _Connection(InProcessConnection):
    """The connection of a stream, which ends when the server stops."""

    def __init__(self) -> None:
        super().__init__()
        self.server_stops = False

    @property
    def is_ending(self) -> bool:
        """Whether the server stops."""
        return self.server_stops


class HostedStream:
    """A response of a hosted server that goes on until the server stops. Its parts come while other requests are
    answered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, app: Any, target: str, headers: Headers) -> None:
        self._connection, self._loop = _Connection(), loop
        raw = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)
        sent = send_once(app, "GET", target, raw, extensions={CONNECTION: self._connection})
        self._task = loop.create_task(sent)

    def wait(self, real_s: float) -> None:
        """Let the server go on for this real time."""
        self._loop.run_until_complete(asyncio.sleep(real_s))

    def end(self) -> Response | None:
        """The whole response, once the server stops; None if it does not end in time."""
        self._connection.server_stops = True
        done, _ = self._loop.run_until_complete(asyncio.wait([self._task], timeout=_LONGEST_S))
        if not done:
            self._task.cancel()
            self._loop.run_until_complete(asyncio.wait([self._task]))
        self._loop.run_until_complete(asyncio.sleep(0))  # the server ends what looked for events
        return _response(self._task.result()) if done else None


class _OptionParser(argparse.ArgumentParser):
    """The parser of `leyden serve`, which raises `InputError` and prints nothing."""

    def error(self, message: str) -> NoReturn:
        """Raise `InputError`."""
        raise InputError(f"a case cannot host a server with these options: {printable(message)}")


def _parsed(texts: Sequence[str]) -> argparse.Namespace:
    """The options of a hosted server. Raises `InputError` for one that a case may not give."""
    parser = _OptionParser(add_help=False, allow_abbrev=False)
    describe_serve(parser)
    options = parser.parse_args(texts)
    for name, value in vars(options).items():
        if name not in _OPTIONS and value != parser.get_default(name):
            named = ", ".join(f"--{one.replace('_', '-')}" for one in sorted(_OPTIONS))
            parser.error(f"--{name.replace('_', '-')} is none of {named}")
    if not set(options.overlay) <= set(known_overlays()):
        parser.error(f"--overlay: give the names of packaged overlays: {', '.join(known_overlays())}")
    if ".json" in (options.network or "").lower():
        parser.error("--network: give one that is generated, such as line:4")
    if options.egress not in (None, "none"):
        parser.error("--egress: give none")
    options.egress = "none"
    return options


class HostedServer:
    """A server with these options of `leyden serve`, with one project, whose API key is `leyden`.

    Options that name a file, an address or another key are refused with `InputError`, and its callbacks are never sent
    to the network: a case of somebody else may give the options. With a `folder` its data is kept in a directory below
    it. Nothing happens except by requests and `pass_time`.
    """

    def __init__(self, options: Sequence[str] = (), folder: Path | None = None, *, real_ms: int = _START_MS) -> None:
        self._options = tuple(options)
        self._folder = folder
        self._copies = count(1)
        self._data = None if folder is None else folder / "data"
        self._time = _RealTime(real_ms)
        self._loop = asyncio.new_event_loop()
        self.most_rounds = _MOST_ROUNDS
        self._worlds: dict[str, World] = {}
        self._key = API_KEY
        try:
            self._open()
        except BaseException:
            self._loop.close()
            raise

    def _open(self) -> None:
        options = _parsed(self._options)
        options.lnurl_budget = 0
        if self._data is not None:
            options.data = str(self._data)
        public = options.public_url or _URL
        addresses = ServerAddresses(_URL, public, (("127.0.0.1", 80),), is_loopback=True, is_local=True)
        try:
            self._app, _ = open_server(options, self._time, addresses, [self._key], None, self._worlds)
        except GraphError as error:
            raise InputError(f"a case cannot host a server with these options: {error}") from None
        self._catch_up()

    @property
    def world(self) -> World:
        """The world of the project."""
        return self._worlds[self._key]

    def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Response:
        """Send one request, and return its response."""
        named = any(name.lower() == "host" for name, _ in headers)
        sent = headers if named else (("host", "localhost"), *headers)
        raw = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in sent)
        return _response(self._loop.run_until_complete(self._respond(method, target, raw, body)))

    def open_stream(self, target: str, headers: Headers = ()) -> HostedStream:
        """Send a request with the API key whose response does not end."""
        sent = (("host", "localhost"), ("apikey", self._key), *headers)
        return HostedStream(self._loop, self._app, target, sent)

    async def _respond(self, method: str, target: str, headers: tuple[Header, ...], body: bytes) -> LoopbackResponse:
        answer = await send_once(self._app, method, target, headers, body)
        # A callback to the network ends later, also one that is blocked.
        for _ in range(self.most_rounds):
            if not any(_is_waiting(world) for world in self._worlds.values()):
                break
            callbacks = asyncio.all_tasks() - {asyncio.current_task()}
            if callbacks:
                await asyncio.wait(callbacks, timeout=_LONGEST_S)
            await asyncio.sleep(0)
            for world in self._worlds.values():
                await catch_up(world)
        return answer

    def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        key: str = API_KEY,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request with the API key and a JSON body."""
        sent = [("apikey", key), *(headers or {}).items()]
        if body is not None:
            sent.append(("content-type", "application/json"))
        return self.send(method, target, sent, b"" if body is None else orjson.dumps(body))

    def pass_time(self, by_ms: int) -> None:
        """Let real time pass, and run the events that are due on live clocks."""
        self._time.ms += by_ms
        self._catch_up()

    def _catch_up(self) -> None:
        for world in self._worlds.values():
            if world.clock.rate:
                self._loop.run_until_complete(catch_up(world))

    def restart(
        self, how: str = ENDS[0], *, stopped_ms: int = 0, options: Sequence[str] = (), without: Sequence[str] = (),
        key: str = API_KEY, torn: bytes = _TORN,
    ) -> None:  # fmt: skip
        """End the server in one of the ways of `ENDS`, let this real time pass, and start a server on the same data. It
        has the same options, except those that are stored in the data (`--rate`, `--seed`, `--start`) and those of
        `without`, and these `options`, and is given the API key. `torn` is what a kill within a write leaves of a
        line."""
        assert self._data is not None, "the server has no data directory"
        data = self._data
        if how == "compact":
            self.world.store.compact()
        if how in {"kill", "torn"}:
            assert self._folder is not None
            data = self._folder / f"killed-{next(self._copies)}"
            shutil.copytree(self._data, data)
            if how == "torn":
                for journal in data.glob(f"*/{JOURNAL_NAME}"):
                    with journal.open("ab") as file:
                        file.write(torn)
        else:
            keep_time(self._worlds.values())
        self._close_stores()
        self._time.ms += stopped_ms
        self._data = data
        self._options, self._key = (*self._without_kept(without), *options), key
        self._open()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the present start."""
        return self._options

    @property
    def real_ms(self) -> int:
        """The real time, in ms."""
        return self._time.ms

    @property
    def store_folder(self) -> Path:
        """The directory of the project's store."""
        assert self._data is not None, "the server has no data directory"
        [journal] = self._data.glob(f"*/{JOURNAL_NAME}")
        return journal.parent

    @property
    def last_line(self) -> bytes:
        """The last line of the journal of the project's store, with its end."""
        return (self.store_folder / JOURNAL_NAME).read_bytes().splitlines(keepends=True)[-1]

    def leave(self) -> str:
        """End the server, and return the folder in which another process can go on with the data."""
        assert self._folder is not None, "the server has no data directory"
        assert self._data is not None
        keep_time(self._worlds.values())
        self._close_stores()
        self._options = self._without_kept()
        folder = self._folder / f"left-{next(self._copies)}"
        shutil.copytree(self._data, folder / "data")
        return str(folder)

    def _without_kept(self, others: Sequence[str] = ()) -> tuple[str, ...]:
        names = {*_KEPT_OPTIONS, *others}
        kept = {place + more for place, name in enumerate(self._options) if name in names for more in (0, 1)}
        return tuple(text for place, text in enumerate(self._options) if place not in kept)

    def _close_stores(self) -> None:
        for world in self._worlds.values():
            self._loop.run_until_complete(world.close_external_transport())
            world.store.close()
        self._worlds.clear()

    def close(self) -> None:
        """End the server."""
        self._close_stores()
        self._loop.close()
        gc.collect(0)


def _response(answer: LoopbackResponse) -> Response:
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
    return Response(answer.status, found, answer.body)


def _is_waiting(world: World) -> bool:
    """Whether a callback to the network is in flight, or events that its response made due have not run yet."""
    transport = world.transport
    is_due = not world.clock.rate and world.wait_after_request() == 0
    return transport.is_waiting or transport.has_pending_responses or is_due
