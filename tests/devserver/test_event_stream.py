"""The event stream of a sandbox: requests as they end, and what changes, for many listeners."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from leyden import Sandbox
from leyden.devserver.request_log import stream
from tests.support.hosted import Hosted, in_server

Json = dict[str, Any]
EVENTS, CHARGES = "/sandbox/v1/events", "/v0/charges"
TEA = {"amount": "21000", "description": "tea", "expiresIn": 600}


class Left(Exception):
    """The client has closed the connection."""


class Follower:
    """A client of the stream, without a socket. `lines` has what it got."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.text = b""
        self.has_left = False

    async def send(self, message: Any) -> None:
        if self.has_left:
            raise Left
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        self.text += message.get("body", b"")

    def events(self, kind: str) -> list[Json]:
        found = []
        for event in self.text.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in event.splitlines() if not line.startswith(":"))
            if fields.get("event") == kind:
                data = json.loads(fields["data"])
                assert fields.get("id", str(data.get("id"))) == str(data.get("id"))
                found.append(data)
        return found

    async def until(self, kind: str, count: int) -> list[Json]:
        async with asyncio.timeout(20):
            while len(self.events(kind)) < count:
                await asyncio.sleep(0.01)
        return self.events(kind)

    async def until_journal(self, length: int) -> None:
        async with asyncio.timeout(20):
            while self.events("changed")[-1]["journal"] != length:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def following(
    server: Hosted, key: str = "leyden", query: str = "", **headers: str
) -> AsyncIterator[tuple[Follower, asyncio.Task[None]]]:
    follower = Follower()
    sent = {"host": "localhost", "apikey": key, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http", "method": "GET", "path": EVENTS, "raw_path": EVENTS.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1), "server": None,
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    task = asyncio.ensure_future(server.app(scope, receive, follower.send))
    async with asyncio.timeout(20):
        while not follower.status or (follower.status == 200 and not follower.text):
            await asyncio.sleep(0.01)
    try:
        yield follower, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_listener_gets_each_request_as_a_row_of_the_list() -> None:
    async def scenario(server: Hosted) -> None:
        await server.ok("POST", CHARGES, TEA, key="leyden")
        async with following(server) as (follower, _):
            assert (follower.status, follower.headers["content-type"]) == (200, "text/event-stream")
            for _ in range(5):
                await server.ok("POST", CHARGES, TEA, key="leyden")
            found = await follower.until("request", 5)
            listed = await server.ok("GET", "/sandbox/v1/requests?operation=createCharge&limit=5", key="leyden")
            assert found == listed["data"][::-1]  # without the one of the past
            assert follower.text.startswith(b"event: changed\n")

    in_server(scenario)


def test_a_listener_that_returns_continues_from_its_last_event() -> None:
    async def scenario(server: Hosted) -> None:
        for _ in range(4):
            await server.ok("GET", CHARGES, key="leyden")
        async with following(server, last_event_id="2") as (follower, _):
            assert [row["id"] for row in await follower.until("request", 2)] == [3, 4]
            await server.ok("GET", CHARGES, key="leyden")
            assert [row["id"] for row in await follower.until("request", 3)] == [3, 4, 5]
        refused = await server.ask("GET", EVENTS, key="leyden", headers={"last-event-id": "first"})
        assert refused.status == 400

    in_server(scenario)


def test_changes_are_told_and_coalesced() -> None:
    async def scenario(server: Hosted) -> None:
        async with following(server) as (follower, _):
            [first] = await follower.until("changed", 1)
            assert first == {"run": 1, "journal": 0, "now": "2030-01-01T00:00:00.000Z", "rate": 0}
            for _ in range(200):
                await server.ok("POST", CHARGES, TEA, key="leyden")
            await follower.until("request", 200)
            # Changes are told at most once per interval: the last one may follow the requests.
            await follower.until_journal(len(server.first.journal))
            assert 2 <= len(follower.events("changed")) < 100
            count = len(follower.events("changed"))
            await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"}, key="leyden")
            await follower.until("changed", count + 1)
            assert follower.events("changed")[-1]["now"] == "2030-01-01T00:00:01.000Z"
            await server.ok("PATCH", "/sandbox/v1/clock", {"rate": 60}, key="leyden")
            await follower.until("changed", count + 2)
            assert follower.events("changed")[-1]["rate"] == 60

    in_server(scenario)


def test_a_change_before_the_first_tick_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Hosted) -> None:
        run = stream.EventHub._run
        is_running = asyncio.Event()

        async def late(self: stream.EventHub) -> None:
            await is_running.wait()
            await run(self)

        monkeypatch.setattr(stream.EventHub, "_run", late)
        async with following(server) as (follower, _):
            await server.ok("POST", CHARGES, TEA, key="leyden")
            is_running.set()
            await follower.until_journal(len(server.first.journal))

    in_server(scenario)


def test_each_reset_is_told_with_the_number_of_its_run() -> None:
    async def scenario(server: Hosted) -> None:
        await server.ok("POST", "/sandbox/v1/reset", {}, key="leyden")
        async with following(server) as (follower, _):
            [first] = await follower.until("changed", 1)
            for number in (1, 2):
                await server.ok("POST", "/sandbox/v1/reset", {}, key="leyden")
                last = (await follower.until("changed", 1 + number))[-1]
                assert last == {**first, "run": first["run"] + number}

    in_server(scenario)


def test_time_that_passes_at_the_rate_of_the_clock_is_no_change() -> None:
    async def scenario(server: Hosted) -> None:
        await server.ok("PATCH", "/sandbox/v1/clock", {"rate": 1}, key="leyden")
        async with following(server) as (follower, _):
            for _ in range(8):
                await asyncio.sleep(0.05)
                server.now_ms += 50
            count = len(follower.events("changed"))
            assert count == 1
            server.now_ms += 60_000  # such as a computer that was suspended
            await follower.until("changed", count + 1)

    in_server(scenario)


def test_reads_of_the_console_are_streamed_only_on_request() -> None:
    async def scenario(server: Hosted) -> None:
        async with following(server) as (plain, _), following(server, query="client=console") as (own, _):
            for client in ("console", "shop"):
                answer = await server.ask("GET", CHARGES, key="leyden", headers={"leyden-client": client})
                assert answer.status == 200
            assert [row["client"] for row in await plain.until("request", 1)] == ["shop"]
            assert [row["client"] for row in await own.until("request", 1)] == ["console"]
            digest = (await server.ok("GET", "/sandbox/v1", key="leyden"))["journalHash"]
        assert (await server.ok("GET", "/sandbox/v1", key="leyden"))["journalHash"] == digest

    in_server(scenario)


def test_a_hundred_clients_may_listen_to_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_LISTENERS", 3)

    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=5)
        async with following(server), following(server, box["apiKey"]), following(server) as (last, task):
            async with following(server) as (refused, _):
                assert (refused.status, refused.headers["retry-after"]) == (429, "5")
                assert b"close one" in refused.text
            last.has_left = True
            await server.ok("GET", CHARGES, key="leyden")
            await asyncio.wait([task], timeout=20)
            assert task.done()
            async with following(server) as (again, _):
                assert again.status == 200

    in_server(scenario)


def test_streams_end_with_their_sandbox_and_survive_its_restore() -> None:
    async def scenario(server: Hosted) -> None:
        box, other = await server.create(seed=5), await server.create(seed=6)
        base = f"/sandbox/v1/sandboxes/{box['id']}"
        async with (
            following(server, box["apiKey"]) as (follower, task),
            following(server, other["apiKey"]) as (quiet, _),
        ):
            snapshot = await server.ok("POST", f"{base}/snapshots", {})
            await server.ok("POST", CHARGES, TEA, key=box["apiKey"])
            await follower.until("request", 1)
            await server.ok("POST", f"{base}/restore", {"snapshot": snapshot["id"]})
            await server.ok("GET", CHARGES, key=box["apiKey"])
            assert [row["operation"] for row in await follower.until("request", 2)] == ["createCharge", "listCharges"]
            await server.ask("DELETE", base)
            await asyncio.wait([task], timeout=20)
            assert task.done()
            assert quiet.events("request") == []

    in_server(scenario)


def test_a_stream_ends_when_a_key_of_its_project_is_replaced_and_shows_nothing_after_that() -> None:
    async def scenario(server: Hosted) -> None:
        box, other = await server.create(seed=5), await server.create(seed=6)
        async with (
            following(server, box["apiKey"]) as (old, ended),
            following(server, other["apiKey"]) as (quiet, _),
        ):
            await server.ok("POST", "/sandbox/v1/api-keys", {"key": "second"}, key=box["apiKey"])
            await old.until("request", 1)
            async with following(server, "second") as (both, still):
                await server.ok(
                    "POST", "/sandbox/v1/api-keys/rotate", {"key": "third", "replaces": box["apiKey"]}, key="second"
                )
                await server.ok("POST", CHARGES, TEA, key="third")
                await asyncio.wait([ended, still], timeout=20)
                assert ended.done()
                assert still.done()  # a client connects again with the key that it has
                assert [row["operation"] for row in both.events("request")] == []
            assert [row["operation"] for row in old.events("request")] == ["createApiKey"]
            async with following(server, "third") as (new, _):
                await server.ok("GET", CHARGES, key="third")
                assert [row["operation"] for row in await new.until("request", 1)] == ["listCharges"]
            assert quiet.events("request") == []

    in_server(scenario)


def test_a_listener_that_reads_too_slowly_is_ended() -> None:
    async def scenario(server: Hosted) -> None:
        async with following(server) as (_, task):
            hub = server.app._streams._hubs[server.first]
            for number in range(2 * stream._MOST_PENDING):
                for listener in hub._listeners:
                    listener.give(b"id: %d\nevent: test\ndata: {}\n\n" % number)
            held = max(len(listener.pending) for listener in hub._listeners)
            assert held == stream._MOST_PENDING
            await asyncio.wait([task], timeout=20)
            assert task.done()

    in_server(scenario)


def test_a_sandbox_that_is_not_served_has_only_events_of_the_past(sandbox: Sandbox) -> None:
    sandbox.http.get(CHARGES)
    answer = sandbox.http.get(EVENTS, headers={"Last-Event-ID": "0"})
    assert [line for line in answer.text.splitlines() if line.startswith(("id", "event"))] == [
        "id: 1", "event: request", "event: changed",
    ]  # fmt: skip
    assert sandbox.http.get(EVENTS, headers={"Accept": "application/json"}).status_code == 406


@pytest.mark.parametrize("stop", ["server", "client"])
def test_a_stream_over_a_socket_ends_with_its_server_and_with_its_client(sandbox: Sandbox, stop: str) -> None:
    url = sandbox.serve()
    got: list[str] = []
    ended = threading.Event()

    def follow() -> None:
        with httpx2.stream("GET", url + EVENTS, headers={"apikey": "leyden"}, timeout=30) as answer:
            for line in answer.iter_lines():
                got.append(line)
        ended.set()

    if stop == "client":
        where = urlsplit(url)
        with socket.create_connection((where.hostname or "", where.port or 0)) as client:
            client.sendall(f"GET {EVENTS} HTTP/1.1\r\nhost: localhost\r\napikey: leyden\r\n\r\n".encode())
            text = b""
            while b"event: changed" not in text:
                text += client.recv(65_536)
        server: Any = sandbox.world.server
        deadline = time.monotonic() + 20
        while server._streams._hubs and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not server._streams._hubs
        return
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not got and time.monotonic() < deadline:
        time.sleep(0.01)
    sandbox.close()
    assert ended.wait(20)
    assert got[0] == "event: changed"
