"""The memory of a run, or of a sandbox, that has ended is freed then, and not when the garbage collector finds it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ReferenceType, ref

import pytest

from leyden import Sandbox
from leyden.devserver.sandboxes import left_out
from leyden.devserver.sandboxes.left_out import LeftOut
from leyden.server.errors import StorageUnavailable
from leyden.world.snapshots.snapshots import restore_world
from leyden.world.world import World
from tests.support.hosted import Hosted, in_server

CHARGE = {"amount": "1000", "description": "tea"}
TIPS = {"description": "tips", "minAmount": "1000", "maxAmount": "9000"}
PACKAGES = ("leyden", "starlette", "tinydb")
CACHED = {"Form"}  # how a secret may be written: kept for the secrets that were masked last


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(250):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen in time")


def test_a_reset_in_process_frees_the_former_network() -> None:
    sandbox = Sandbox(seed=7, network="star:12")
    former = sandbox.world.engine
    sandbox.ask("POST", "/sandbox/v1/reset")
    assert former is not None
    assert not vars(former)
    charge = sandbox.charges.create(amount="1000", description="tea")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1m")
    assert sandbox.charges[charge.id].status == "completed"


def test_a_reset_that_is_rolled_back_keeps_its_network() -> None:
    sandbox = Sandbox(seed=7, network="star:12")
    world, former = sandbox.world, sandbox.world.engine

    def refused_reset() -> None:
        with world.exclusive():
            world.reset()
            assert world.engine is not former
            raise StorageUnavailable("the disk is full")

    with pytest.raises(StorageUnavailable):
        refused_reset()
    assert world.engine is former
    assert vars(former)
    charge = sandbox.charges.create(amount="1000", description="tea")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1m")
    assert sandbox.charges[charge.id].status == "completed"


@pytest.mark.parametrize("network", ["direct", "star:12"])
def test_a_server_frees_what_was_reset_or_restored_or_removed(network: str) -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(rate=0, network=network)
        world, key = server.world(box), box["apiKey"]
        await server.ok("POST", "/v0/charges", CHARGE, key=key)
        snapshot = await server.ok("POST", "/sandbox/v1/snapshots", {}, key=key)
        for path, body in (("reset", None), ("restore", {"snapshot": snapshot["id"]})):
            former = world.engine
            await server.ok("POST", f"/sandbox/v1/{path}", body, key=key)
            if former is not None:
                await until(lambda former=former: not vars(former))
                assert vars(world.engine)
        rows, former = world.store.table_data("charges"), world.engine
        assert len(rows.rows) == 1
        assert (await server.ask("DELETE", f"/sandbox/v1/sandboxes/{box['id']}")).status == 200
        await until(lambda: not len(rows.rows) and not rows.indexes)
        assert former is None or not vars(former)

    in_server(scenario)


@pytest.mark.parametrize("network", ["direct", "star:12"])
def test_the_copies_that_are_compared_are_freed_afterwards(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[ReferenceType[World]] = []

    def restored(*args: Any, **more: Any) -> World:
        copy = restore_world(*args, **more)
        copies.append(ref(copy))
        return copy

    monkeypatch.setattr("leyden.devserver.control.copies.restore_world", restored)
    sandbox = Sandbox(seed=7, network=network)
    charge = sandbox.charges.create(amount="1000", description="tea")
    snapshot = sandbox.ask("POST", "/sandbox/v1/snapshots", {})
    sandbox.charges.create(amount="2000", description="tea")
    with without_collector():
        assert sandbox.ask("POST", "/sandbox/v1/diff", {"snapshot": snapshot["id"]})["count"] > 0
        assert [copy() for copy in copies] == [None, None]
    assert len(sandbox.charges) == 2
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1m")
    assert sandbox.charges[charge.id].status == "completed"


def is_own(one: object) -> bool:
    kind = type(one)
    return str(kind.__module__).partition(".")[0] in PACKAGES and kind.__name__ not in CACHED


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("network", ["direct", "star:12"])
def test_every_part_of_a_sandbox_that_is_removed_is_freed_without_the_collector(network: str) -> None:
    async def use_and_remove(server: Hosted) -> None:
        box = await server.create(rate=0, network=network)
        key = box["apiKey"]
        for host in ("shop.localhost", "closed.example"):
            charge = await server.ok("POST", "/v0/charges", {**CHARGE, "callbackUrl": f"http://{host}/"}, key=key)
        await server.ok("POST", "/sandbox/v1/payments", {"request": charge["data"]["invoice"]["request"]}, key=key)
        static = await server.ok("POST", "/v0/static-charges", TIPS, key=key)
        await server.ok("GET", f"/v0/static-charges/{static['data']['id']}", key=key)
        await server.ask("GET", f"/lnurlp/{static['data']['id']}", key=key)
        await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "2h"}, key=key)
        await server.ok("POST", "/sandbox/v1/snapshots", {}, key=key)
        await server.ok("POST", "/sandbox/v1/service-faults", {"kind": "stale_read"}, key=key)
        for page in ("", "/charges", "/deliveries", "/journal", "/requests", "/inboxes", "/events?client=a"):
            await server.ask("GET", f"/sandbox/v1{page}", key=key)
        await server.ok("DELETE", f"/sandbox/v1/sandboxes/{box['id']}")
        await until(lambda: not server.app._closing)

    async def scenario(server: Hosted) -> None:
        await use_and_remove(server)  # what is made once
        gc.collect()
        with without_collector():
            known = {id(one): one for one in gc.get_objects()}
            await use_and_remove(server)
            left = [one for one in gc.get_objects() if id(one) not in known and is_own(one)]
        assert [type(one).__name__ for one in left] == []

    in_server(scenario)


def test_a_server_leaves_its_sandboxes_to_no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out, "_TOGETHER", 3)
    monkeypatch.setattr(left_out, "_MOST_ENDED", 4)

    async def scenario(server: Hosted) -> None:
        async def create(count: int) -> list[dict[str, Any]]:
            boxes = []
            for _ in range(count):
                boxes.append(await server.create(rate=0))
            return boxes

        before = gc.get_freeze_count()
        boxes = await create(2)
        assert gc.get_freeze_count() == before
        boxes += await create(1)
        assert gc.get_freeze_count() > before
        ended = [ref(server.world(box).service) for box in boxes]
        for box in boxes:
            await server.ok("POST", "/sandbox/v1/reset", key=box["apiKey"])
        gc.collect()
        assert all(service() is not None for service in ended), "they are left out"
        boxes += await create(3)
        assert all(service() is not None for service in ended), "they are few"
        for box in boxes:
            await server.ok("POST", "/sandbox/v1/reset", key=box["apiKey"])
        await create(3)
        assert all(service() is not None for service in ended), "there are as many sandboxes"
        for box in boxes:
            await server.ok("POST", "/sandbox/v1/reset", key=box["apiKey"])
            await server.ok("DELETE", f"/sandbox/v1/sandboxes/{box['id']}")
        await create(3)
        assert all(service() is None for service in ended)

    try:
        in_server(scenario, added=LeftOut().added)
    finally:
        gc.unfreeze()


def test_a_sandbox_that_is_removed_during_a_request_is_freed_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(server: Hosted) -> None:
        box = await server.create(rate=0)
        key = box["apiKey"]
        for _ in range(20):
            await server.ok("POST", "/v0/charges", CHARGE, key=key)
        rows = server.world(box).store.table_data("charges")
        reading = asyncio.create_task(server.ask("GET", "/v0/charges?limit=20", key=key))
        await asyncio.sleep(0)
        await server.ok("DELETE", f"/sandbox/v1/sandboxes/{box['id']}")
        answer = await reading
        assert answer.status == 404 or len(answer.body["data"]) == 20, "all, or a refusal"
        await until(lambda: not len(rows.rows))

    in_server(scenario)
