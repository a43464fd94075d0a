"""Repeatable runs: on a paused clock of a server, when the speed of a receiver on the network changes the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.support.hosted import Hosted, in_server

WAIT, ADVANCE = "/sandbox/v1/deliveries/wait", "/sandbox/v1/clock/advance"


class GatedReceiver(NamedTuple):
    """A receiver on this machine that answers 200 when its gate is open."""

    url: str
    gate: asyncio.Event


@asynccontextmanager
async def gated_receiver() -> AsyncIterator[GatedReceiver]:
    gate = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        await gate.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield GatedReceiver(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", gate)


class Run(NamedTuple):
    """What a run left behind."""

    journal_hash: str
    entries: list[tuple[str, str]]


async def run(server: Hosted, url: str, after_payment: Callable[[Any, str], Coroutine[Any, Any, None]]) -> Run:
    """The same requests in a sandbox of their own; `after_payment(sandbox, charge id)` follows each payment."""
    box = await server.create(seed=7)

    async def ok(method: str, path: str, body: Any = None) -> Any:
        return await server.ok(method, path, body, key=box["apiKey"])

    for _ in range(2):
        charge = (await ok("POST", "/v0/charges", {"amount": "1000", "description": "tea", "callbackUrl": url}))["data"]
        await ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        await after_payment(box, charge["id"])
        await ok("GET", f"/v0/charges/{charge['id']}")
    await ok("POST", ADVANCE, {"until": "idle"})
    state = await ok("GET", "/sandbox/v1")
    entries = await ok("GET", "/sandbox/v1/journal")
    return Run(state["journalHash"], [(entry["kind"], entry["subject"]) for entry in entries])


async def answered(server: Hosted, box: Any) -> None:
    """Until no callback is in flight, without a request."""
    async with asyncio.timeout(10):
        while server.world(box).transport.is_waiting:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(("path", "by"), [(WAIT, "charge"), (ADVANCE, {"by": "0s"}), (ADVANCE, {"by": "1s"})])
def test_a_client_that_waits_or_advances_next_gets_the_same_journal_from_a_fast_and_a_slow_receiver(
    path: str, by: Any
) -> None:
    runs: list[Run] = []

    async def scenario(server: Hosted) -> None:
        async with gated_receiver() as receiver:

            async def next_request(box: Any, charge_id: str) -> None:
                body = {"chargeId": charge_id} if by == "charge" else by
                await server.ok("POST", path, body, key=box["apiKey"])

            async def fast(box: Any, charge_id: str) -> None:
                receiver.gate.set()
                await answered(server, box)
                await next_request(box, charge_id)

            async def slow(box: Any, charge_id: str) -> None:
                receiver.gate.clear()
                request = asyncio.create_task(next_request(box, charge_id))
                await asyncio.sleep(0.05)
                assert not request.done()
                receiver.gate.set()
                await request

            runs.extend([await run(server, receiver.url, one) for one in (fast, slow, fast)])

    in_server(scenario, egress="loopback")
    assert len({one.journal_hash for one in runs}) == 1
    kinds = [kind for kind, _ in runs[0].entries]
    assert kinds.count("callback_answered") == 2


def test_a_request_during_a_callback_is_before_or_after_its_answer_by_the_receivers_speed() -> None:
    runs: list[Run] = []

    async def scenario(server: Hosted) -> None:
        async with gated_receiver() as receiver:

            async def fast(box: Any, charge_id: str) -> None:
                receiver.gate.set()
                await answered(server, box)

            async def slow(box: Any, charge_id: str) -> None:
                receiver.gate.clear()
                assert server.world(box).transport.is_waiting, "the payment's response waited for the receiver"
                asyncio.get_running_loop().call_later(0.3, receiver.gate.set)

            runs.extend([await run(server, receiver.url, one) for one in (fast, slow)])

    in_server(scenario, egress="loopback")
    first, second = runs
    assert first.journal_hash != second.journal_hash
    assert sorted(first.entries) == sorted(second.entries), "only the order may differ"
    read = next(entry for entry in first.entries if entry[1].startswith("GET /v0/charges/"))
    kinds = [[kind for kind, _ in one.entries[: one.entries.index(read)]] for one in runs]
    assert [found.count("callback_answered") for found in kinds] == [1, 0]


@pytest.mark.parametrize("path", [WAIT, None])
def test_built_in_receivers_answer_before_the_response_to_the_request(path: str | None) -> None:
    runs: list[Run] = []

    async def scenario(server: Hosted) -> None:
        async def next_request(box: Any, charge_id: str) -> None:
            assert not server.world(box).transport.is_waiting
            entries = await server.ok("GET", "/sandbox/v1/journal", key=box["apiKey"])
            assert entries[-1]["kind"] == "callback_finished"
            if path is not None:
                assert (await server.ok("POST", path, {"chargeId": charge_id}, key=box["apiKey"]))["reached"]

        runs.extend([await run(server, "http://shop.localhost/hook", next_request) for _ in range(2)])

    in_server(scenario)
    assert runs[0] == runs[1]
