"""Hostile receivers over real HTTP: each one affects only its own attempt."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from leyden.callbacks.faults.kinds import FaultSpec
from leyden.server.callbacks.attempts import READ_CAP_BYTES, AttemptLog
from leyden.server.callbacks.egress import Egress
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Contract
from leyden.server.store.store import Store
from leyden.server.system.http_client import client
from leyden.server.system.http_client.client import MOST_HEADERS
from leyden.server.system.http_client.transport import HttpTransport
from leyden.world.concurrency.async_moves import advance_to, run_until_idle
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.world import World
from tests.support.deep import sampled
from tests.support.lists import listed
from tests.support.served import Client, served_leyden

START = 1_893_488_400_000
KEY = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
LINGER_0 = b"\1\0\0\0\0\0\0\0"  # closing sends RST instead of FIN


class Hostile:
    """A server whose paths name its behaviour; it counts requests."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.at_once = self.most_at_once = 0
        self.continued_bytes = 0  # of informational responses
        self.gate = asyncio.Event()
        self.talks: set[asyncio.Task[Any]] = set()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk is not None
        self.talks.add(talk)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1].decode().strip("/")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                self.asked.append(path)
                self.at_once += 1
                self.most_at_once = max(self.at_once, self.most_at_once)
                try:
                    if not await self._answer(path, reader, writer):
                        break
                finally:
                    self.at_once -= 1
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.talks.discard(talk)

    async def _answer(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Behave as the path names; returns whether the connection can be used again."""
        word, _, more = path.partition("-")
        if word == "hang":
            await reader.read()
        elif word == "gate":
            await self.gate.wait()
            return await self._say(writer, 200)
        elif word == "turn":  # the last request is answered first
            while len(self.asked) < 3:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02 * (3 - int(more)))
            return await self._say(writer, 200)
        elif word == "drip":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        elif word == "flood":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n")
            for _ in range(10_000):
                writer.write(b"x" * 1_000)
                await writer.drain()
        elif word == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
            writer.transport.abort()
        elif word == "header":
            writer.write(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n")
            await writer.drain()
        elif word == "name":  # and its value, so many bytes together
            writer.write(b"HTTP/1.1 200 OK\r\nx-name: " + b"v" * (int(more) - 6) + b"\r\ncontent-length: 0\r\n\r\n")
        elif word == "reason":
            writer.write(b"HTTP/1.1 200 " + b"r" * int(more) + b"\r\ncontent-length: 0\r\n\r\n")
        elif word == "headers":
            lines = b"".join(b"x-%d: 1\r\n" % number for number in range(int(more) - 1))
            writer.write(b"HTTP/1.1 200 OK\r\n" + lines + b"content-length: 0\r\n\r\n")
        elif word == "latin":
            writer.write("HTTP/1.1 302 Found\r\nx-l: é\r\n".encode())
            writer.write(
                "location: /caf\u00e9\r\nx-r: caf\u00e9\r\ncontent-length: 4\r\n\r\ncaf\u00e9".encode("latin-1")
            )
        elif word == "continue":
            status = b"HTTP/1.1 %d Wait\r\nlink: %b\r\n\r\n" % (int(more), b"y" * (5_000 if more == "103" else 0))
            with contextlib.suppress(ConnectionError):
                while self.continued_bytes < 50_000_000:
                    writer.write(status * 100)
                    self.continued_bytes += 100 * len(status)
                    await writer.drain()
        elif word == "framing":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + (b"5;" if more == "a" else b""))
            with contextlib.suppress(ConnectionError):
                while self.continued_bytes < 50_000_000:
                    writer.write(more.encode() * 50_000)
                    self.continued_bytes += 50_000
                    await writer.drain()
        elif word == "blank":  # empty lines before the response: so many, or without end
            with contextlib.suppress(ConnectionError):
                while not more and self.continued_bytes < 50_000_000:
                    writer.write(b"\r\n" * 50_000)
                    self.continued_bytes += 100_000
                    await writer.drain()
            writer.write(b"\r\n" * int(more or 0))
            return await self._say(writer, 200)
        elif word == "chunks":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"1\r\na\r\n" * int(more) + b"0\r\n\r\n")
            await writer.drain()
        elif word == "wait":
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * int(more))
            return await self._say(writer, 200)
        elif word != "empty":
            return await self._say(writer, int(word), more)
        return False

    async def _say(self, writer: asyncio.StreamWriter, status: int, retry_after: str = "") -> bool:
        extra = f"retry-after: {retry_after}\r\n" if retry_after else ""
        writer.write(f"HTTP/1.1 {status} So\r\n{extra}location: /200\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        return True


@contextlib.asynccontextmanager
async def hostile() -> AsyncIterator[Hostile]:
    receiver = Hostile()
    server = await asyncio.start_server(receiver, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        talks = list(receiver.talks)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


@contextlib.contextmanager
def hostile_thread() -> Iterator[tuple[Hostile, asyncio.AbstractEventLoop]]:
    """The same server in a thread, for a test that blocks."""
    ready: list[tuple[Hostile, asyncio.AbstractEventLoop, asyncio.Event]] = []
    up = threading.Event()

    async def main() -> None:
        async with hostile() as receiver:
            ready.append((receiver, asyncio.get_running_loop(), asyncio.Event()))
            up.set()
            await ready[0][2].wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert up.wait(10)
    receiver, loop, over = ready[0]
    try:
        yield receiver, loop
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


def short_timeout_contract(timeout: str = "400ms") -> Contract:
    """The packaged spec with a short attempt timeout and two attempts."""
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    [callback] = document["paths"]["/v0/charges"]["post"]["callbacks"].values()
    [item] = callback.values()
    item["x-delivery"].update(timeout=timeout, connectTimeout=timeout, attempts=["0s", "10s"], jitter=0)
    return load_contract(document, known_as="charges.openapi.yaml")


class ServedWorld:
    """A world that sends its callbacks over the network."""

    def __init__(self, contract: Contract) -> None:
        self.transport = HttpTransport(check_address=Egress("loopback").check_address)
        plan = world_config(seed=7, start_ms=START, spec=contract, control=False)
        self.world = World(plan, Store.memory(), external_transport=self.transport)

    def expiring(self, url: str) -> str:
        body = {"amount": "1000", "description": "tea", "expiresIn": 1, "callbackUrl": url}
        answer = send_request(self.world.app, "POST", "/v0/charges", KEY, orjson.dumps(body))
        charge_id: str = orjson.loads(answer.body)["data"]["id"]
        return charge_id

    def attempts(self, charge_id: str) -> list[tuple[int | None, str | None]]:
        [row] = self.world.service.outbox.deliveries(charge_id)
        return [(attempt.status, attempt.error) for attempt in AttemptLog(row).attempts()]


async def among(
    scenario: Callable[[ServedWorld, Hostile], Coroutine[Any, Any, None]], contract: Contract | None = None
) -> None:
    served = ServedWorld(contract or short_timeout_contract())
    async with hostile() as receiver:
        try:
            await scenario(served, receiver)
        finally:
            await served.transport.close()


@pytest.mark.parametrize(
    ("path", "seen"),
    sampled(
        [
            ("200", (200, None)),
            ("204", (204, None)),
            ("302", (302, None)),
            ("410", (410, None)),
            ("429-7", (429, None)),
            ("429-soon", (429, None)),
            ("500", (500, None)),
            ("502", (502, None)),
            ("hang", (None, "timeout")),
            ("drip", (None, "timeout")),
            ("flood", (200, None)),
            ("empty", (None, "reset")),
            ("reset", (None, "reset")),
            ("header", (None, "protocol")),
            ("wait-16", (200, None)),
            ("wait-17", (None, "protocol")),
            ("continue-100", (None, "protocol")),
            ("continue-103", (None, "protocol")),
            ("framing-a", (None, "protocol")),
            ("framing-0", (None, "protocol")),
            ("blank", (None, "protocol")),
            ("blank-500", (200, None)),
            ("blank-513", (None, "protocol")),
        ],
        4,
    ),
)
def test_each_behaviour_is_recorded_with_its_status_or_error(path: str, seen: tuple[int | None, str | None]) -> None:
    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charge = served.expiring(receiver.url(path))
        await advance_to(served.world, lambda _: START + 2_000)
        assert served.attempts(charge) == [seen]
        assert receiver.asked == [path]
        [row] = served.world.service.outbox.deliveries(charge)
        assert receiver.bodies == [row["body"].encode()]
        assert len(AttemptLog(row).attempts()[0].response_body) == (4_096 if path == "flood" else 0)
        assert receiver.continued_bytes < 10_000_000  # what the sockets hold, and no more

    asyncio.run(among(scenario))


def test_a_body_of_many_chunks_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served between two of them."""
    sizes: list[int] = []
    read_slice = client._Protocol._read_slice

    def recorded(connection: client._Protocol, data: bytes) -> None:
        sizes.append(len(data))
        read_slice(connection, data)

    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charge = served.expiring(receiver.url("chunks-20000"))
        await advance_to(served.world, lambda _: START + 2_000)
        assert served.attempts(charge) == [(200, None)]
        [row] = served.world.service.outbox.deliveries(charge)
        assert AttemptLog(row).attempts()[0].response_body == "a" * 4_096

    monkeypatch.setattr(client._Protocol, "_read_slice", recorded)
    asyncio.run(among(scenario))
    assert sum(sizes) == len(b"1\r\na\r\n") * 20_000 + len(b"0\r\n\r\n")
    assert max(sizes) <= client._SLICE_BYTES


class RecordingTransport(asyncio.Transport):
    """A transport that notes whether it is read and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading_ = True
        self.is_closed = False

    def pause_reading(self) -> None:
        self.is_reading_ = False

    def resume_reading(self) -> None:
        self.is_reading_ = True

    def write(self, data: object) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


def test_what_a_receiver_sends_before_the_request_is_not_read_further() -> None:
    """Nor is anything after a refusal: a flood costs nothing."""

    async def scenario() -> None:
        transport, connection = RecordingTransport(), client._Protocol(asyncio.get_running_loop())
        connection.connection_made(transport)
        connection.set_response_params()
        connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)
        assert not transport.is_reading_
        assert connection.transport is not None
        connection.transport.write(b"POST / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0)
        assert transport.is_closed
        assert "informational" in str(connection.exception())
        connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)
        assert (connection._early, bytes(connection._unread)) == (b"", b"")

    async def answered() -> None:
        transport, connection = RecordingTransport(), client._Protocol(asyncio.get_running_loop())
        connection.connection_made(transport)
        connection.set_response_params()
        connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 3000\r\n\r\n" + b"x" * 2_000)
        assert not transport.is_reading_
        assert connection.transport is not None
        connection.transport.write(b"POST / HTTP/1.1\r\n\r\n")
        for _ in range(5):
            await asyncio.sleep(0)
        assert transport.is_reading_
        connection.data_received(b"x" * 1_000)
        _, body = await connection.read()
        assert await body.read() == b"x" * 3_000

    async def unpaused() -> None:
        """A transport of TLS goes on for a while when it is paused."""
        transport, connection = RecordingTransport(), client._Protocol(asyncio.get_running_loop())
        connection.connection_made(transport)
        connection.set_response_params()
        assert connection.transport is not None
        connection.transport.write(b"POST / HTTP/1.1\r\n\r\n")
        connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        most = 0
        for _ in range(100):
            connection.data_received(b"1\r\na\r\n" * 10_000)
            most = max(most, len(connection._unread))
        assert most <= client.MAX_BODY_BYTES_RECEIVED + client._SLICE_BYTES
        _, body = await connection.read()
        assert len(await body.readexactly(READ_CAP_BYTES + 1)) == READ_CAP_BYTES + 1
        assert body.total_bytes <= READ_CAP_BYTES + client._SLICE_BYTES

    asyncio.run(scenario())
    asyncio.run(answered())
    asyncio.run(unpaused())


@pytest.mark.parametrize("what", ["name", "reason", "headers"])
def test_the_bounds_of_a_head_are_those_of_the_readme(what: str) -> None:
    readme = (Path(__file__).parents[3] / "server" / "README.md").read_text(encoding="utf-8")
    words = "about 8 KiB in a header and in the reason of the status line, 128 headers"
    assert words in " ".join(readme.split())
    longest = MOST_HEADERS if what == "headers" else 8_190
    long = "a header, or the reason of the status line, is longer than about 8 kB"

    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charges = [served.expiring(receiver.url(f"{what}-{longest + more}")) for more in (0, 1)]
        await advance_to(served.world, lambda _: START + 2_000)
        assert [served.attempts(charge) for charge in charges] == [[(200, None)], [(None, "protocol")]]
        [row] = served.world.service.outbox.deliveries(charges[1])
        note = AttemptLog(row).attempts()[0].note
        assert note == (f"it has more than {MOST_HEADERS} headers: send fewer" if what == "headers" else long)

    asyncio.run(among(scenario))


def test_bytes_that_are_no_utf_8_are_marked_alike_in_headers_notes_and_bodies() -> None:
    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charge = served.expiring(receiver.url("latin"))
        await advance_to(served.world, lambda _: START + 2_000)
        [row] = served.world.service.outbox.deliveries(charge)
        [attempt, *_] = AttemptLog(row).attempts()
        headers = dict(attempt.response_headers)
        assert (headers["x-l"], headers["x-r"], headers["location"]) == ("é", "caf\ufffd", "/caf\ufffd")
        assert attempt.response_body == "caf\ufffd"
        assert "/caf\ufffd" in attempt.note

    asyncio.run(among(scenario))


def test_informational_responses_are_counted_for_each_response() -> None:
    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charges = [served.expiring(receiver.url("wait-10")) for _ in range(5)]
        await advance_to(served.world, lambda _: START + 2_000)
        for charge in charges:
            assert served.attempts(charge) == [(200, None)]
            [row] = served.world.service.outbox.deliveries(charge)
            assert not AttemptLog(row).attempts()[0].note

    asyncio.run(among(scenario))


def test_twelve_hanging_receivers_take_two_timeouts_with_eight_worker_slots() -> None:
    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charges = [served.expiring(receiver.url("hang")) for _ in range(12)]
        sound = served.expiring(receiver.url("200"))
        await advance_to(served.world, lambda _: START + 1_000)
        assert receiver.most_at_once == 8
        assert receiver.asked.count("hang") == 12
        for charge in charges:
            assert served.attempts(charge) == [(None, "timeout")]
        assert served.attempts(sound) == [(200, None)]

    asyncio.run(among(scenario))


def test_responses_are_reported_in_the_order_of_sending() -> None:
    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        charges = [served.expiring(receiver.url(f"turn-{place}")) for place in range(3)]
        await run_until_idle(served.world)
        reported = [entry.facts["resource"] for entry in served.world.journal.entries(kind="callback_answered")]
        assert reported == charges

    asyncio.run(among(scenario, short_timeout_contract("10s")))


def test_duplicates_and_mutated_bodies_are_sent_over_the_network() -> None:
    async def scenario(served: ServedWorld, receiver: Hostile) -> None:
        with served.world.exclusive():
            served.world.faults.add(FaultSpec("truncated_body"))
            served.world.faults.add(FaultSpec("simultaneous"))
        first = served.expiring(receiver.url("200"))
        second = served.expiring(receiver.url("200"))
        await run_until_idle(served.world)
        [one], [two] = (served.world.service.outbox.deliveries(charge) for charge in (first, second))
        whole, other = one["body"].encode(), two["body"].encode()
        assert sorted(receiver.bodies) == sorted([whole[: len(whole) // 2], other, other])
        assert [entry.facts["status"] for entry in served.world.journal.entries(kind="copy_answered")] == [200]

    asyncio.run(among(scenario))


def test_while_a_receiver_hangs_the_server_answers_other_requests(tmp_path: Path) -> None:
    spec = tmp_path / "charges.openapi.yaml"
    text = default_spec("charges").read_text()
    spec.write_text(text.replace("timeout:            15s", "timeout:            30s"))
    with hostile_thread() as (receiver, loop), served_leyden("--rate", "0", "--spec", str(spec)) as client:
        body = {"amount": "1000", "description": "tea", "expiresIn": 1, "callbackUrl": receiver.url("gate")}
        charge = client.ok("POST", "/v0/charges", body)["data"]
        answers: list[Any] = []

        def advance() -> None:
            answers.append(client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"}))

        moving = threading.Thread(target=advance)
        moving.start()
        other = Client(client.url)
        while not receiver.asked:
            other.ok("GET", "/v0/wallet")
        assert other.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "expired"
        assert other.ok("POST", "/v0/charges", {"amount": "1000", "description": "more"})["success"]
        assert answers == [], "the advance waits for the answer"
        loop.call_soon_threadsafe(receiver.gate.set)
        moving.join(30)
        assert [event["kind"] for event in answers[0]["fired"]] == ["charge_expiry", "callback"]
        [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge['id']}")
        assert delivery["status"] == "delivered"


def test_a_hanging_receiver_delays_a_served_advance_by_one_timeout(tmp_path: Path) -> None:
    spec = tmp_path / "charges.openapi.yaml"
    text = default_spec("charges").read_text()
    for long, short in (
        ("timeout:            15s", "timeout:            300ms"),
        ("Timeout:     3s", "Timeout:     200ms"),
    ):
        assert long in text
        text = text.replace(long, short)
    spec.write_text(text)
    with hostile_thread() as (receiver, _), served_leyden("--rate", "0", "--spec", str(spec)) as client:
        body = {"amount": "1000", "description": "tea", "expiresIn": 1, "callbackUrl": receiver.url("hang")}
        charge = client.ok("POST", "/v0/charges", body)["data"]
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"})
        [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge['id']}")
        assert [attempt["error"] for attempt in delivery["attempts"]] == ["timeout"]
        assert delivery["status"] == "pending"
        assert receiver.asked == ["hang"]
