"""Durability: when a response may be sent, and what is then guaranteed to be on the disk."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from leyden.server.system import group_commit
from leyden.server.system.group_commit import DurableTransport, GroupCommit
from leyden.world.config import world_config
from leyden.world.world import World
from tests.support.served import listening_receiver, run_command, served_leyden

KEY = (b"apikey", b"leyden")
START_MS = 1_893_456_000_000


class Disk:
    """A store with commit and flush only: each flush ends, or fails, when the test allows it."""

    def __init__(self) -> None:
        self.depth = 0
        self.commits = self.synced = self.flushes = 0
        self.fails = False
        self.flush_started: asyncio.Queue[threading.Event] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()

    def commit(self) -> int:
        self.commits += 1
        return self.commits

    @property
    def unsynced(self) -> bool:
        return self.synced < self.commits

    def note_flushed(self) -> None:
        """Keep no mark."""

    def flush(self) -> None:
        covered, end = self.commits, threading.Event()
        self.flushes += 1
        self.loop.call_soon_threadsafe(self.flush_started.put_nowait, end)
        assert end.wait(20)
        if self.fails:
            raise StorageUnavailable("the disk is broken")
        self.synced = max(self.synced, covered)


def run_scenario(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the scenario on a new event loop, with a timeout."""
    asyncio.run(asyncio.wait_for(scenario(), 30))


async def later() -> None:
    """Let every task that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_response_waits_for_a_flush_that_started_after_its_commit() -> None:
    async def scenario() -> None:
        disk = Disk()
        sync = GroupCommit(disk)  # type: ignore[arg-type]
        await sync.wait_durable()
        assert disk.flushes == 0, "nothing to wait for"

        disk.commit()
        first = asyncio.create_task(sync.wait_durable())
        flush = await disk.flush_started.get()
        # These arrive during a flush that may have started too early for them.
        disk.commit()
        others = [asyncio.create_task(sync.wait_durable()) for _ in range(20)]
        await later()
        flush.set()
        await first
        await later()
        assert not any(task.done() for task in others)

        (await disk.flush_started.get()).set()
        await asyncio.gather(*others)
        assert disk.flushes == 2, "one for the first, one for all the others"
        assert not disk.unsynced
        await sync.wait_durable()
        assert disk.flushes == 2

    run_scenario(scenario)


def test_a_failed_flush_fails_exactly_the_requests_that_waited_for_it() -> None:
    async def scenario() -> None:
        disk = Disk()
        sync = GroupCommit(disk)  # type: ignore[arg-type]
        disk.commit()
        waiting = [asyncio.create_task(sync.wait_durable()) for _ in range(3)]
        flush = await disk.flush_started.get()
        disk.commit()
        next_waiter = asyncio.create_task(sync.wait_durable())
        await later()
        disk.fails = True
        flush.set()
        refusals = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(refusal) for refusal in refusals] == [StorageUnavailable] * 3
        assert "the change was made, but the disk did not confirm it" in str(refusals[0])
        disk.fails = False
        (await disk.flush_started.get()).set()
        await next_waiter

    run_scenario(scenario)


def test_a_cancelled_waiter_does_not_affect_the_others() -> None:
    async def scenario() -> None:
        disk = Disk()
        sync = GroupCommit(disk)  # type: ignore[arg-type]
        disk.commit()
        impatient, patient = asyncio.create_task(sync.wait_durable()), asyncio.create_task(sync.wait_durable())
        flush = await disk.flush_started.get()
        impatient.cancel()
        await later()
        flush.set()
        await patient
        assert impatient.cancelled()

    run_scenario(scenario)


def test_inside_a_commit_nobody_waits() -> None:
    async def scenario() -> None:
        disk = Disk()
        disk.commit()
        disk.depth = 1
        await GroupCommit(disk).wait_durable()  # type: ignore[arg-type]
        assert disk.flushes == 0

    run_scenario(scenario)


# Callbacks


class RecordingTransport:
    """A transport that records requests and answers 200."""

    pending_count = 0

    def __init__(self) -> None:
        self.posts: list[CallbackRequest] = []

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.posts.append(post)
        answered(post, CallbackResponse(status=200))

    def receiver_time_s(self, url: str) -> int:
        return 7

    async def wait_idle(self) -> None:
        return None

    close = wait_idle


def post() -> CallbackRequest:
    return CallbackRequest("d1", 1, "http://127.0.0.1:9/", {}, b"{}", 1_000, 1_000)


def test_a_callback_is_sent_after_its_commit_is_on_the_disk() -> None:
    async def scenario() -> None:
        disk, inner, answers = Disk(), RecordingTransport(), []
        transport = DurableTransport(inner, GroupCommit(disk).wait_durable)  # type: ignore[arg-type]
        disk.commit()
        transport.post(post(), lambda sent, answer: answers.append(answer))
        flush = await disk.flush_started.get()
        await later()
        assert inner.posts == []
        flush.set()
        await transport.wait_idle()
        assert [len(inner.posts), [answer.status for answer in answers]] == [1, [200]]
        assert transport.receiver_time_s("") == 7

    run_scenario(scenario)


def test_a_callback_whose_flush_failed_is_not_sent_and_is_reported_as_lost() -> None:
    async def scenario() -> None:
        disk, inner, answers = Disk(), RecordingTransport(), []
        transport = DurableTransport(inner, GroupCommit(disk).wait_durable)  # type: ignore[arg-type]
        disk.commit()
        disk.fails = True
        transport.post(post(), lambda sent, answer: answers.append(answer))
        (await disk.flush_started.get()).set()
        await transport.wait_idle()
        assert inner.posts == []
        assert [answer.error for answer in answers] == ["lost"]

    run_scenario(scenario)


def test_closing_a_transport_leaves_no_waiting_callbacks() -> None:
    async def scenario() -> None:
        disk, inner = Disk(), RecordingTransport()
        transport = DurableTransport(inner, GroupCommit(disk).wait_durable)  # type: ignore[arg-type]
        disk.commit()
        transport.post(post(), lambda sent, answer: None)
        flush = await disk.flush_started.get()
        await transport.close()
        assert inner.posts == []
        flush.set()

    run_scenario(scenario)


# The whole service


class Served:
    """A world with policy `always`; requests go to its application on the current loop."""

    def __init__(self, data: Path) -> None:
        self.store = Store.open(data, policy="always", group_commit=True)
        config = world_config(seed=1, start_ms=START_MS, rate=0, real_clock=lambda: 0)
        sync = GroupCommit(self.store)
        self.world = World(config, self.store, control_handlers=control_handlers, wait_durable=sync.wait_durable)
        self.unsynced_when_answered: list[bool] = []

    async def ask(
        self, method: str, path: str, body: Any = None, *, idempotency_key: str | None = None
    ) -> tuple[int, Any]:
        raw = b"" if body is None else orjson.dumps(body)
        sent: list[Any] = []
        unread = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> Any:
            return unread.pop()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.unsynced_when_answered.append(self.store.unsynced)
            sent.append(message)

        path, _, query = path.partition("?")
        headers = [KEY] if body is None else [KEY, (b"content-type", b"application/json")]
        if idempotency_key is not None:
            headers.append((b"idempotency-key", idempotency_key.encode()))
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": headers}
        await self.world.app({**scope, "query_string": query.encode(), "root_path": ""}, receive, send)
        return sent[0]["status"], orjson.loads(sent[1]["body"])

    async def create(self, **fields: Any) -> dict[str, Any]:
        status, answer = await self.ask("POST", "/v0/charges", {"amount": "1000", "description": "tea", **fields})
        assert status == 200, answer
        charge: dict[str, Any] = answer["data"]
        return charge


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.store.close()


def test_under_always_every_answer_is_on_the_disk_and_many_share_one_fsync(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = [], os.fsync

    def counted(fd: int) -> None:
        synced.append(fd)
        real(fd)

    monkeypatch.setattr(os, "fsync", counted)

    async def scenario() -> None:
        await asyncio.gather(*(served.create() for _ in range(50)))
        charge = await served.create()
        await served.ask("GET", f"/v0/charges/{charge['id']}")

    run_scenario(scenario)
    assert served.unsynced_when_answered == [False] * 52
    assert 2 <= len(synced) <= 10


def test_an_lnurl_is_paid_under_always(served: Served) -> None:
    """The wallet sends requests to the service during another request."""

    async def scenario() -> None:
        body = {"minAmount": "1000", "maxAmount": "1000", "description": "tips", "allowedSlots": 1}
        status, answer = await served.ask("POST", "/v0/static-charges", body)
        assert status == 200
        status, payment = await served.ask(
            "POST", "/sandbox/v1/payments", {"request": answer["data"]["invoice"]["uri"]}
        )
        assert (status, payment["status"]) == (200, "succeeded")

    run_scenario(scenario)
    assert served.unsynced_when_answered[-1] is False


def test_when_the_disk_fails_writes_get_507_and_reads_succeed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def scenario() -> None:
        kept = await served.create()
        with monkeypatch.context() as fault:
            fault.setattr(os, "fsync", broken)
            body = {"amount": "2000", "description": "unsure"}
            answers = await asyncio.gather(*(served.ask("POST", "/v0/charges", body) for _ in range(3)))
            for status, problem in answers:
                assert (status, problem["code"]) == (507, "storage_unavailable")
            status, answer = await served.ask("GET", f"/v0/charges/{kept['id']}")
            assert (status, answer["data"]) == (200, kept)
            assert (await served.ask("POST", "/v0/charges", body))[0] == 507
        after = await served.create()
        assert (await served.ask("GET", f"/v0/charges/{after['id']}"))[1]["data"] == after

    run_scenario(scenario)
    assert served.unsynced_when_answered[-1] is False


def test_a_request_that_is_repeated_with_its_key_is_confirmed_when_the_disk_works_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other commit comes, and a repetition makes none: the journal is written anew for it, once a second at most."""
    monkeypatch.setattr(group_commit, "_REWRITE_PAUSE_S", 0.05)
    body = {"amount": "2000", "description": "unsure"}

    async def scenario() -> None:
        with monkeypatch.context() as fault:
            rewrites = []

            def broken(fd: int) -> None:
                rewrites.append(fd)
                raise OSError(errno.EIO, "Input/output error")

            fault.setattr(os, "fsync", broken)
            for _ in range(4):
                assert (await served.ask("POST", "/v0/charges", body, idempotency_key="a"))[0] == 507
            assert (await served.ask("GET", "/v0/charges?limit=1"))[0] == 200
            assert len(rewrites) <= 3  # the flush, and a new journal for one of the others
        await asyncio.sleep(0.1)
        status, answer = await served.ask("POST", "/v0/charges", body, idempotency_key="a")
        assert status == 200
        assert not served.store.unsynced
        _, listed = await served.ask("GET", "/v0/charges")
        assert [charge["id"] for charge in listed["data"]] == [answer["data"]["id"]]

    run_scenario(scenario)
    assert served.unsynced_when_answered[-1] is False
    data = served.store.directory
    served.store.close()
    with Store.open(data) as again:
        assert len(again.table("charges")) == 1


def test_under_interval_everything_is_flushed_after_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        real_time = [0]
        store = Store.open(tmp_path, policy="interval", interval_ms=1)
        config = world_config(seed=1, start_ms=START_MS, rate=0, real_clock=lambda: real_time[0])
        world = World(config, store, control_handlers=control_handlers)
        host = MultiTenantApp({"leyden": world}, sync_clock=lambda: real_time[0])
        spoken: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        messages: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            messages.append(message)

        life = asyncio.create_task(host({"type": "lifespan"}, spoken.get, send))
        spoken.put_nowait({"type": "lifespan.startup"})
        for _ in range(3):
            with world.exclusive():
                world.service.projects.projects.put({"id": "other", "webhook_secrets": []})
            assert store.unsynced
            real_time[0] += 10
            while store.unsynced:
                await asyncio.sleep(0.01)
        spoken.put_nowait({"type": "lifespan.shutdown"})
        await life
        assert [message["type"] for message in messages] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        store.close()

    run_scenario(scenario)


@pytest.mark.parametrize("durability", ["os", "interval", "always"])
def test_a_directory_can_be_reopened_under_another_policy(tmp_path: Path, durability: str) -> None:
    options = ("--data", str(tmp_path), "--durability", durability, "--rate", "0")
    with listening_receiver() as (hook, inbox), served_leyden(*options) as client:
        body = {"amount": "1000", "description": "tea", "callbackUrl": hook}
        charge = client.ok("POST", "/v0/charges", body)["data"]
        client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        assert inbox.get(timeout=10)[1]["status"] == "completed"
    with served_leyden("--data", str(tmp_path)) as client:
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "completed"


def test_an_unknown_policy_is_one_clear_line() -> None:
    done = run_command("serve", "--durability", "sometimes")
    assert done.returncode == 2
    assert "always" in done.stderr.splitlines()[-1]


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)):
        for path in tmp_path.rglob("charges.*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
