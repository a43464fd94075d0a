"""Callbacks a second to a fast receiver: transport and complete outbox, beside bare clients.

The ceiling is the bare aiohttp client, which the transport itself uses. Each of its requests has a connection of its
own, as each attempt of a callback has: on a connection that is kept, a receiver that fails cannot be told from one that
closed the connection before. httpx2 is another client of the core's
dependencies, so a complete install has it. The former httpx is not measured: its connection pool slows down above about
ten requests at once, so a ratio to it says more about the pool than about Leyden.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator

import aiohttp
import httpx2

from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Contract
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_client.transport import HttpTransport
from leyden.world.config import world_config
from leyden.world.world import World
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import RATE, BenchmarkError, Goal, Row, compared, in_turn, settled_memory
from tests.benchmarks.serving import receiver

PART = "callbacks"
CONCURRENCY = 50
_HEADERS = {
    "content-type": "application/json",
    "user-agent": "leyden/0",
    "webhook-id": "5f0c9a52-4d11-4c1b-8f55-2f6f2a6f0b1e",
    "webhook-timestamp": "1893488400",
    "webhook-signature": "v1," + "A" * 44,
}
_BODY = b'{"id":"5f0c9a52-4d11-4c1b-8f55-2f6f2a6f0b1e","status":"completed","request":"' + b"q" * 700 + b'"}'

Measure = Callable[[str, int], Coroutine[None, None, float]]


def rows(bench: Bench) -> Iterator[Row]:
    """Callbacks a second at concurrency 50."""
    contract = _wide_contract()
    with receiver() as url:

        def run(measure: Measure, full: int) -> Callable[[], float]:
            count = bench.scale.of(full, 60)

            def once() -> float:
                with asyncio.Runner(loop_factory=new_event_loop) as runner:
                    return count / runner.run(measure(f"{url}/hook", count))

            return once

        runs = {
            "aiohttp": run(_by_aiohttp, 4_000),
            "transport": run(_by_transport, 4_000),
            "outbox": run(lambda where, count: _by_outbox(contract, where, count), 4_000),
            "httpx2": run(_by_httpx2, 1_000),
        }
        in_turn(1, runs)  # a warm-up, so that no measurement includes one-time costs
        found = in_turn(bench.scale.repeats, runs)
    goals = {"aiohttp": Goal("at least", 0.5)}
    for what, name in (("transport", "transport"), ("complete outbox", "outbox")):
        text = f"callbacks by the {what}, {CONCURRENCY} at once"
        for client in ("aiohttp", "httpx2"):
            beside = f"bare {client} client"
            yield compared(PART, text, RATE, [found[name]], beside, [found[client]], goal=goals.get(client))


async def _shared(count: int, send: Callable[[], Awaitable[object]]) -> float:
    """Fifty senders share `count` posts; the seconds they take."""
    left = iter(range(count))

    async def sender() -> None:
        for _ in left:
            await send()

    began = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(CONCURRENCY)))
    return time.perf_counter() - began


async def _by_aiohttp(url: str, count: int) -> float:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as client:

        async def send() -> None:
            async with client.post(url, data=_BODY, headers=_HEADERS) as response:
                await response.read()

        return await _shared(count, send)


async def _by_httpx2(url: str, count: int) -> float:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx2.AsyncClient(limits=limits) as client:
        return await _shared(count, lambda: client.post(url, content=_BODY, headers=_HEADERS))


async def _by_transport(url: str, count: int) -> float:
    http = HttpTransport()
    post = CallbackRequest("delivery", 1, url, _HEADERS, _BODY, 3_000, 15_000)
    left = iter(range(count - CONCURRENCY))

    def answered(sent: CallbackRequest, answer: CallbackResponse) -> None:
        if answer.status != 200:
            raise BenchmarkError(f"a callback was answered {answer}")
        if next(left, None) is not None:
            http.post(sent, answered)

    began = time.perf_counter()
    for _ in range(CONCURRENCY):
        http.post(post, answered)
    await http.wait_idle()
    took = time.perf_counter() - began
    await http.close()
    return took


async def _by_outbox(contract: Contract, url: str, count: int) -> float:
    """Deliveries that all fall due at once, from the first attempt to the last answer recorded."""
    plan = world_config(seed=1, start_ms=1_893_488_400_000, spec=contract, control=False)
    world = World(plan, Store.memory(), external_transport=HttpTransport())
    rule = contract.operations["createCharge"].callbacks[0]
    data = contract.document["components"]["examples"]["ChargeUpdateCompleted"]["value"]
    callbacks = world.service.outbox
    for number in range(count):
        with world.exclusive():
            callbacks.enqueue(
                resource_id=f"charge-{number}",
                project=plan.project,
                url=url,
                rule=rule,
                event="charge.completed",
                sequence=1,
                data=data,
                at=plan.start_ms,
            )
    settled_memory()
    gc.freeze()  # as `leyden serve` does with what is there when it begins
    began = time.perf_counter()
    world.catch_up()
    assert world.external_transport is not None
    await world.external_transport.wait_idle()
    took = time.perf_counter() - began
    gc.unfreeze()
    await world.close_external_transport()
    unheard = [row for row in callbacks.deliveries() if row["status"] != "delivered"]
    if unheard:
        raise BenchmarkError(f"{len(unheard)} of {count} callbacks were not delivered: {unheard[0]['attempts']}")
    return took


def _wide_contract() -> Contract:
    """The packaged spec with room for as many attempts at once as are measured here."""
    document = read_yaml(default_spec().read_bytes(), "charges.openapi.yaml")
    for path in document["paths"].values():
        for operation in path.values():
            for callback in operation.get("callbacks", {}).values() if isinstance(operation, dict) else ():
                for item in callback.values():
                    item["x-delivery"]["inFlight"] = CONCURRENCY
    return load_contract(document)
