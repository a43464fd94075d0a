"""Snapshots, restores, forks and files with a sandbox's own key: on a server, with a data directory, and in Python."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, StorageUnavailable
from leyden.server.http import pipeline
from leyden.server.store.store import Store
from leyden.server.system.work_slices import Turns
from leyden.world.config import world_config
from leyden.world.snapshots.snapshots import dump_world, return_to
from leyden.world.time.process_clock import FIRST_MS
from leyden.world.world import World
from tests.support.hosted import Hosted, in_server
from tests.support.served import Client, listening_receiver, served_leyden

BOXES = "/sandbox/v1/sandboxes"
CHARGE = {"amount": "7000", "description": "tea", "expiresIn": 600, "callbackUrl": "http://shop.inbox.localhost"}
TIPS = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips"}


class Own:
    """A sandbox with its own key alone: `ask` and `ok` as a client sends them."""

    def __init__(self, server: Hosted, key: str) -> None:
        self.server = server
        self.key = key

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return await self.server.ask(method, path, body, key=self.key)

    async def ok(self, method: str, path: str, body: Any = None) -> Any:
        return await self.server.ok(method, path, body, key=self.key)

    async def fill(self) -> None:
        charge = (await self.ok("POST", "/v0/charges", CHARGE))["data"]
        await self.ok("POST", "/v0/charges", CHARGE)
        await self.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        await self.ok("POST", "/sandbox/v1/clock/advance", {"by": "1m"})

    async def go_on(self) -> tuple[str, str]:
        charge = (await self.ok("POST", "/v0/charges", CHARGE))["data"]
        await self.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        return charge["id"], (await self.ok("GET", "/sandbox/v1"))["journalHash"]


async def owners(server: Hosted) -> list[Own]:
    """The first sandbox of the server, and a created one, on a server that asks for a token."""
    admin = {"authorization": "Bearer secret-token"}
    created = await server.ask("POST", BOXES, {"seed": 3, "ttl": "1h"}, headers=admin)
    return [Own(server, "leyden"), Own(server, created.body["apiKey"])]


def test_a_restore_repeats_what_follows_and_no_copy_is_in_the_journal() -> None:
    async def scenario(server: Hosted) -> None:
        for own in await owners(server):
            await own.fill()
            before = (await own.ok("GET", "/sandbox/v1/journal"))[-1]["sequence"]
            taken = await own.ask("POST", "/sandbox/v1/snapshots", {"name": "paid"})
            assert (taken.status, taken.body["name"], taken.body["id"]) == (201, "paid", "snapshot-1")
            await own.ok("POST", "/sandbox/v1/fork")
            await own.ok("POST", "/sandbox/v1/diff", {"snapshot": "snapshot-1"})
            await own.ok("GET", "/sandbox/v1/export")
            await own.ok("GET", "/sandbox/v1/snapshots")
            assert (await own.ok("GET", "/sandbox/v1/journal"))[-1]["sequence"] == before
            after = await own.go_on()
            await own.ok("POST", "/sandbox/v1/api-keys", {"key": f"later-{own.key[:9]}"})
            for _ in range(2):
                shown = await own.ok("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
                assert (shown["now"], shown["journalHash"]) == (taken.body["now"], taken.body["journalHash"])
                assert await own.go_on() == after
            assert (await server.ask("GET", "/v0/charges", key=f"later-{own.key[:9]}")).status == 200
            unknown = await own.ask("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-9"})
            assert (unknown.status, unknown.body["errors"][0]["pointer"]) == (409, "/snapshot")

    in_server(scenario, token="secret-token")


def test_a_fork_by_the_own_key_is_a_sandbox_with_the_ttl_of_its_original() -> None:
    async def scenario(server: Hosted) -> None:
        for own, ttl in zip(await owners(server), (None, 3600), strict=True):
            await own.fill()
            fork = await own.ask("POST", "/sandbox/v1/fork", {"name": "course B"})
            assert (fork.status, fork.body["name"], fork.body["ttl"], fork.body["rate"]) == (201, "course B", ttl, 0)
            assert fork.body["apiKey"] != own.key
            assert await Own(server, fork.body["apiKey"]).go_on() == await own.go_on()
            reseeded = await own.ok("POST", "/sandbox/v1/fork", {"reseed": 8, "ttl": "2h"})
            assert reseeded["ttl"] == 7200
            foreign = await server.ask("GET", f"{fork.body['url']}/v0/charges", key=own.key)
            assert foreign.status == 401

    in_server(scenario, token="secret-token")


def test_snapshots_are_paged_filtered_deleted_and_seen_by_the_admin_operations() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=3)
        own = Own(server, box["apiKey"])
        for name in ("a", "b", "a"):
            await own.ok("POST", "/sandbox/v1/snapshots", {"name": name})
        page = await own.ok("GET", "/sandbox/v1/snapshots?limit=2")
        rest = await own.ok("GET", f"/sandbox/v1/snapshots?after={page['next']}")
        assert [row["id"] for row in [*page["data"], *rest["data"]]] == ["snapshot-3", "snapshot-2", "snapshot-1"]
        for path in ("/sandbox/v1/snapshots", f"{BOXES}/{box['id']}/snapshots"):
            assert [row["id"] for row in (await own.ok("GET", f"{path}?name=a"))["data"]] == [
                "snapshot-3",
                "snapshot-1",
            ]
        await own.ok("DELETE", "/sandbox/v1/snapshots/snapshot-3")
        gone = await own.ask("DELETE", "/sandbox/v1/snapshots/snapshot-3")
        assert (gone.status, "list its snapshots" in gone.body["detail"]) == (404, True)
        await own.ok("POST", "/sandbox/v1/reset")
        assert len((await own.ok("GET", "/sandbox/v1/snapshots"))["data"]) == 2

    in_server(scenario)


def test_a_diff_with_a_snapshot_lists_what_changed() -> None:
    async def scenario(server: Hosted) -> None:
        for own in await owners(server):
            await own.fill()
            await own.ok("POST", "/v0/static-charges", TIPS)
            await own.ok("POST", "/sandbox/v1/snapshots")
            same = await own.ok("POST", "/sandbox/v1/diff", {"snapshot": "snapshot-1"})
            assert same == {"count": 0, "differences": []}
            [pending, _] = (await own.ok("GET", "/v0/charges"))["data"]
            await own.ok("POST", f"/sandbox/v1/charges/{pending['id']}/fail", {})
            found = await own.ok("POST", "/sandbox/v1/diff", {"snapshot": "snapshot-1"})
            row = {"table": "charges", "id": pending["id"], "field": "status", "here": "error", "there": "pending"}
            assert row in found["differences"]

    in_server(scenario, token="secret-token")


def test_a_restore_ends_an_advance_and_a_wait_in_progress() -> None:
    async def scenario(server: Hosted) -> None:
        own = Own(server, "leyden")
        await own.fill()
        await own.ok("POST", "/sandbox/v1/snapshots")
        waiting = asyncio.create_task(own.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 9, "timeout": 5}))
        await asyncio.sleep(0)
        await own.ok("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        assert (await waiting).body == {
            "reached": False, "count": 0, "note": "a reset or a restore ended this wait: wait again in the new run"
        }  # fmt: skip

    in_server(scenario)


def test_the_clock_of_a_restored_first_sandbox_runs_on() -> None:
    async def scenario(server: Hosted) -> None:
        own = Own(server, "leyden")
        await own.ok("PATCH", "/sandbox/v1/clock", {"rate": 1})
        await own.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60})
        snapshot = await own.ok("POST", "/sandbox/v1/snapshots")
        server.now_ms += 3_600_000
        assert (await own.ok("GET", "/v0/charges"))["data"][0]["status"] == "expired"
        shown = await own.ok("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        assert (shown["now"], shown["rate"]) == (snapshot["now"], 1)
        assert (await own.ok("GET", "/v0/charges"))["data"][0]["status"] == "pending"
        server.now_ms += 61_000
        assert (await own.ok("GET", "/v0/charges"))["data"][0]["status"] == "expired"

    in_server(scenario)


# With a data directory


@pytest.mark.parametrize("network", ["direct", "line:3"])
def test_a_restore_in_a_directory_outlives_the_process(tmp_path: Path, network: str) -> None:
    options = ("--rate", "0", "--data", str(tmp_path), "--network", network, "--start", "2030-01-01T00:00:00Z")
    pay = "/sandbox/v1/payments"
    with served_leyden(*options, "--autopay", "after=5s,description=paid*") as client:
        held = client.ok("POST", "/v0/charges", CHARGE)["data"]
        client.ok("POST", pay, {"request": held["invoice"]["request"], "outcome": "hold"})
        client.ok("POST", "/v0/charges", {**CHARGE, "description": "paid by itself"})
        client.ok("POST", pay, {"request": held["invoice"]["request"], "delay": 180})
        client.ok("DELETE", "/sandbox/v1/payers")
        taken = client.ok("POST", "/sandbox/v1/snapshots")
        kept = [client.ok("GET", path) for path in ("/v0/charges", pay, "/sandbox/v1/deliveries", "/sandbox/v1/payers")]
        client.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        client.ok("POST", "/v0/charges", CHARGE)
        client.ok("POST", "/sandbox/v1/reset", {"seed": 8})
        client.ok("POST", "/v0/charges", CHARGE)
        shown = client.ok("POST", "/sandbox/v1/restore", {"snapshot": taken["id"]})
        assert shown["journalHash"] == taken["journalHash"]
        paths = ("/v0/charges", pay, "/sandbox/v1/deliveries", "/sandbox/v1/payers")
        assert [client.ok("GET", path) for path in paths] == kept
        fork = client.ok("POST", "/sandbox/v1/fork")
        there = Client(client.url, fork["apiKey"])
        there.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        expected = [there.ok("GET", path) for path in paths[:2]]
    with served_leyden(*options) as client:
        assert [client.ok("GET", path) for path in paths] == kept
        assert client.ok("GET", "/sandbox/v1/snapshots")["data"] == []
        client.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        assert [client.ok("GET", path) for path in paths[:2]] == expected


def test_timers_of_one_instant_keep_their_order_after_a_restore_and_a_restart(tmp_path: Path) -> None:
    def opened() -> World:
        return World(world_config(seed=1, start_ms=FIRST_MS), Store.open(tmp_path))

    def order(world: World) -> list[str]:
        return [timer.kind for timer in world.clock.upcoming(20) if timer.due_ms == FIRST_MS + 60_000]

    world = opened()
    projects, now = world.service.projects, world.config.api_key.encode()
    headers = ((b"apikey", now), (b"content-type", b"application/json"))
    assert projects.was_issued("leyden")
    requests: list[str] = []
    for number in range(4):
        body = json.dumps({"amount": "7000", "description": "tea", "expiresIn": 60}).encode()
        answer = json.loads(world.request("POST", "/v0/charges", headers, body).body)
        requests.append(answer["data"]["invoice"]["request"])
        if number % 2:
            with world.exclusive():
                world.payments.pay(requests[number], delay_ms=60_000)
    before, state = order(world), dump_world(world)
    assert len(set(before)) > 1
    world.reset()
    return_to(world, json.loads(json.dumps(state)), 0)
    assert order(world) == before
    world.store.close()
    again = opened()
    assert order(again) == before
    saved = World.saved(again.store)
    assert saved is not None
    assert saved["run"] == 3
    again.store.close()


def test_a_restore_that_the_disk_refuses_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(seed=3, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        sandbox.ask("POST", "/sandbox/v1/snapshots")
        sandbox.advance("1m")
        before, world = dump_world(sandbox.world), sandbox.world

        def full(_: object) -> None:
            raise StorageUnavailable("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(world.store, "write_commit", full)
            with pytest.raises(ApiError, match="the disk is full"):
                sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        after = dump_world(world)
        for part in ("tables", "clock", "streams", "outbox", "config"):
            assert after[part] == before[part], part
        assert charge.status == "pending"
        sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        assert sandbox.now == "2030-01-01T00:00:00.000Z"


# In Python


def test_a_sandbox_in_python_has_snapshots_and_its_script_repeats_a_restore() -> None:
    with Sandbox(seed=3, start="2030-01-01T00:00Z") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
        sandbox.ask("POST", "/sandbox/v1/snapshots")
        sandbox.wallet("ana").pay(charge)
        sandbox.run()
        assert charge.status == "completed"
        fork = sandbox.fork()
        for one in (sandbox, fork):
            one.ask("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
            assert one.charges[charge.id].status == "pending"
            one.advance("1m")
        found = sandbox.journal_hash
        assert fork.journal_hash == found
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        assert names["sb"].journal_hash == found
        with pytest.raises(ApiError, match=r"use Sandbox\.fork\(\) in Python"):
            sandbox.ask("POST", "/sandbox/v1/fork")


def test_a_served_sandbox_in_python_creates_further_ones_that_its_script_does_not_know() -> None:
    with Sandbox(seed=3, start="2030-01-01T00:00Z", overlays=["strict"]) as sandbox:
        url = sandbox.serve()
        client = Client(url, sandbox.api_key)
        client.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
        box, other = client.ok("POST", BOXES, {"name": "beside"}), client.ok("POST", BOXES, {"seed": 3, "overlays": []})
        assert (box["rate"], box["start"], box["overlays"]) == (0, "2030-01-01T00:00:00.000Z", ["strict"])
        assert other["overlays"] == []
        beside = Client(url, box["apiKey"])
        beside.ok("POST", "/v0/charges", {"amount": "2000", "description": "tea"})
        fork = client.ok("POST", "/sandbox/v1/fork")
        assert len(Client(url, fork["apiKey"]).ok("GET", "/v0/charges")["data"]) == 1
        client.ok("POST", "/sandbox/v1/snapshots")
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
        client.ok("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        assert sandbox.now == "2030-01-01T00:00:00.000Z"
        assert len(sandbox.charges) == 1
        client.ok("DELETE", f"{BOXES}/{box['id']}")
        assert beside("GET", "/v0/charges")[0] == 401
        found, script = sandbox.journal_hash, sandbox.script()
    assert "sandboxes" not in script
    assert "fork" not in script
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["sb"].journal_hash == found


def test_the_seeds_of_sandboxes_beside_one_in_python_are_derived_from_its_seed() -> None:
    def seeds(seed: int) -> list[int]:
        with Sandbox(seed=seed) as sandbox:
            client = Client(sandbox.serve(), sandbox.api_key)
            return [client.ok("POST", BOXES, {})["seed"] for _ in range(2)]

    assert seeds(3) == seeds(3) != seeds(4)
    assert len(set(seeds(3))) == 2


def test_a_served_sandbox_with_a_document_of_its_own_keeps_its_overlays(tmp_path: Path) -> None:
    from leyden.server.contract.load import default_spec

    spec = tmp_path / "charges.openapi.yaml"
    spec.write_text(default_spec().read_text().replace("version: 0.1.0", "version: 0.9.9", 1))
    with Sandbox(spec=spec) as sandbox:
        client = Client(sandbox.serve(), sandbox.api_key)
        box = client.ok("POST", BOXES, {})
        assert Client(client.url, box["apiKey"]).ok("GET", "/sandbox/v1")["contract"] == "0.9.9"
        status, refused = client("POST", BOXES, {"overlays": ["strict"]})
        assert (status, "leave them out" in refused["detail"]) == (409, True)


def test_a_restore_over_http_with_a_callback_in_flight() -> None:
    with served_leyden("--rate", "0") as client, listening_receiver() as (hook, inbox):
        client.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60, "callbackUrl": f"{hook}/hook"})
        client.ok("POST", "/sandbox/v1/snapshots")
        sent = []
        for _ in range(2):
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "2m"})
            sent.append(inbox.get(timeout=10)[0]["webhook-id"])
            client.ok("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        assert sent[0] == sent[1]


@pytest.mark.parametrize("part_bytes", [1, 3_000])
def test_a_long_file_is_sent_in_parts_with_a_turn_of_others_before_each(
    part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts together are the file, and the request log has it as one response."""
    taken: list[None] = []
    take = Turns.take

    async def counted(turns: Turns) -> None:
        taken.append(None)
        await take(turns)

    monkeypatch.setattr(Turns, "take", counted)
    monkeypatch.setattr(pipeline, "_PART_BYTES", part_bytes)
    with Sandbox(seed=7, start="2030-01-01T00:00Z") as sandbox:
        for _ in range(100):
            sandbox.ask("POST", "/v0/charges", CHARGE)
        expected = sandbox.ask("GET", "/sandbox/v1/export")
        client = Client(sandbox.serve())
        status, exported = client("GET", "/sandbox/v1/export")
        assert (status, exported["tables"]) == (200, expected["tables"])
        turns = len(taken)
        assert 1 < turns <= 60
        [row] = [one for one in client.ok("GET", "/sandbox/v1/requests")["data"] if one["path"].endswith("/export")]
        response = client.ok("GET", f"/sandbox/v1/requests/{row['id']}")["response"]
    assert (row["status"], response["complete"]) == (200, True)
    assert response["size"] == len(json.dumps(exported, separators=(",", ":"), ensure_ascii=False).encode())
