"""The memory of a run, or of a sandbox, that has ended is freed then, and not when the garbage collector finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.errors import StorageUnavailable
from leyden.world.snapshots.snapshots import restore_world
from leyden.world.world import World
from tests.support.hosted import Hosted, in_server

CHARGE = {"amount": "1000", "description": "tea"}


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
    copies: list[World] = []

    def restored(*args: Any, **more: Any) -> World:
        copies.append(restore_world(*args, **more))
        return copies[-1]

    monkeypatch.setattr("leyden.devserver.control.copies.restore_world", restored)
    sandbox = Sandbox(seed=7, network=network)
    charge = sandbox.charges.create(amount="1000", description="tea")
    snapshot = sandbox.ask("POST", "/sandbox/v1/snapshots", {})
    sandbox.charges.create(amount="2000", description="tea")
    assert sandbox.ask("POST", "/sandbox/v1/diff", {"snapshot": snapshot["id"]})["count"] > 0
    assert [len(copy.store.table_data("charges").rows) for copy in copies] == [0, 0]
    assert all(copy.engine is None or not vars(copy.engine) for copy in copies)
    assert len(sandbox.charges) == 2
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1m")
    assert sandbox.charges[charge.id].status == "completed"


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
