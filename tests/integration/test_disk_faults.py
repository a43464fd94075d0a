"""A full or read-only disk: requests are refused completely, stored data stays, and work continues later."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.errors import ActionLogError, ApiError
from leyden.sandbox.resources import Charge
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.time.timers import Timers
from leyden.world.world import World
from tests.integration.test_restart import ACTIONS, BEGINNING, Action, act, opened, persistent_state
from tests.support.served import Client, listening_receiver, served_leyden

# The receivers of `opened` always give the same answer. An attempt that is rolled back would consume an entry of a
# script, because a receiver is external and cannot be rolled back.

KEY = (b"apikey", b"leyden")
START_MS = 1_893_456_000_000


@contextmanager
def full_disk(room: int = 0, error: int = errno.ENOSPC) -> Iterator[list[int]]:
    """Inside, regular files accept `room` more bytes; the last write is partial, as on a real disk; later ones fail.
    Yields the list of refused writes."""
    real, refused, left = os.write, [], [room]

    def write(fd: int, data: bytes) -> int:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return real(fd, data)
        if left[0] <= 0:
            refused.append(fd)
            raise OSError(error, os.strerror(error))
        written = real(fd, data[: left[0]])
        left[0] -= written
        return written

    with pytest.MonkeyPatch.context() as fault:
        fault.setattr(os, "write", write)
        yield refused


def is_declared(sandbox: Sandbox, refusal: ApiError) -> bool:
    problem = sandbox.world.config.contract.schemas["Problem"].validator
    return refusal.status == 507 and problem.is_valid(refusal.problem)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Sandbox]:
    with opened(tmp_path) as sandbox:
        yield sandbox


# Rollback of timers

NAMES = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))
TIMER_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 9), NAMES),
        st.tuples(st.just("cancel"), NAMES),
        st.tuples(st.just("take"), st.integers(0, 9)),
        st.tuples(st.just("take and put back"), st.integers(0, 9)),
    )
)


def apply_actions(timers: Timers, actions: Sequence[Action]) -> None:
    for word, *rest in actions:
        if word == "schedule":
            timers.schedule(rest[0], 1, *rest[1])
        elif word == "cancel":
            timers.cancel(*rest[0])
        else:
            for timer in timers.due(rest[0]):
                if word == "take and put back":
                    timers.put_back(timer)
                break


@given(earlier=TIMER_ACTIONS, undone=TIMER_ACTIONS, later=TIMER_ACTIONS)
def test_a_rollback_restores_the_timers(
    earlier: Sequence[Action], undone: Sequence[Action], later: Sequence[Action]
) -> None:
    timers, reference = Timers(), Timers()
    apply_actions(timers, earlier)
    apply_actions(reference, earlier)
    timers.begin()
    apply_actions(timers, undone)
    timers.rollback()
    assert timers.snapshot() == reference.snapshot()
    timers.begin()
    apply_actions(timers, later)
    timers.commit()
    apply_actions(reference, later)
    assert timers.snapshot() == reference.snapshot()
    assert list(timers.due(10)) == list(reference.due(10))


# One request


@pytest.mark.parametrize("room", [0, 1, 300])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_request_that_cannot_be_written_is_refused_without_effect(kept: Sandbox, room: int, error: int) -> None:
    before_it = kept.charges.create(amount="1000", description="earlier", expiresIn=60)
    before = persistent_state(kept)
    with full_disk(room, error):
        with pytest.raises(ApiError) as caught:
            kept.charges.create(amount="2000", description="refused", expiresIn=30, callbackUrl="http://shop.localhost")
        assert is_declared(kept, caught.value)
        assert "charges.journal could not be written" in caught.value.problem["detail"]
        assert persistent_state(kept) == before, "no row, no invoice, no timer, no random draw"
        assert kept.charges[before_it.id].status == "pending", "earlier data stays readable"
        assert [charge.id for charge in kept.charges] == [before_it.id]
    after = kept.charges.create(amount="3000", description="accepted", expiresIn=60)
    assert [event.key for event in kept.run()] == [before_it.id, after.id]


@pytest.mark.parametrize("operation", ["create_static", "update", "pay", "fail", "settle", "reset", "scan"])
def test_every_kind_of_write_is_refused_completely(kept: Sandbox, operation: str) -> None:
    charge = kept.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    static = kept.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", allowedSlots=1)
    held = kept.wallet("ana").pay(kept.charges.create(amount="5000", description="held"), outcome="hold")
    kept.advance("1s")
    actions: dict[str, Callable[[], Any]] = {
        "create_static": lambda: kept.static_charges.create(minAmount="1000", maxAmount="1000", description="more"),
        "update": lambda: static.update(allowedSlots=5),
        "pay": lambda: kept.ask("POST", "/sandbox/v1/payments", {"request": charge.request}),
        "fail": lambda: charge.fail(),
        "settle": lambda: held.settle(),
        "reset": lambda: kept.ask("POST", "/sandbox/v1/reset", {"seed": 99}),
        "scan": lambda: kept.ask("POST", "/sandbox/v1/payments", {"request": static.request}),
    }
    before = persistent_state(kept)
    with full_disk():
        with pytest.raises(ApiError) as caught:
            actions[operation]()
        assert is_declared(kept, caught.value)
    assert persistent_state(kept) == before
    actions[operation]()
    assert persistent_state(kept) != before


def test_a_refused_request_does_not_use_its_idempotency_key(kept: Sandbox) -> None:
    headers = (KEY, (b"content-type", b"application/json"), (b"idempotency-key", b"once"))
    body = orjson.dumps({"amount": "1000", "description": "tea"})

    def create() -> Any:
        return send_request(kept.app, "POST", "/v0/charges", headers, body)

    with full_disk():
        assert create().status == 507
    first = create()
    assert (first.status, (b"idempotent-replayed", b"true") in first.headers) == (200, False)
    with full_disk():
        again = create()
    assert (again.status, again.body) == (200, first.body), "a stored response needs no space"


def test_the_event_journal_records_the_rollback(kept: Sandbox) -> None:
    before = len(kept.world.journal)
    with full_disk(), pytest.raises(ApiError):
        kept.charges.create(amount="1000", description="tea")
    *rolled_back, note, request = kept.world.journal.entries(after=before)
    assert (note.kind, note.facts["entries"]) == ("rolled_back", len(rolled_back))
    assert (request.kind, request.facts["status"]) == ("request", 507)


@pytest.mark.parametrize(
    "refused",
    [
        lambda sandbox, charge: sandbox.charges.create(amount="1000", description="refused"),
        lambda sandbox, charge: sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request}),
        lambda sandbox, charge: sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"}),
        lambda sandbox, charge: sandbox.http.post("/v0/charges", json={"amount": "1000", "description": "refused"}),
        lambda sandbox, charge: sandbox.wallet("ana").pay(charge),
    ],
)
def test_a_sandbox_whose_disk_refused_a_request_has_no_script(
    tmp_path: Path, refused: Callable[[Sandbox, Charge], Any]
) -> None:
    """A script would repeat the request where there is space, and create what this sandbox does not have."""
    with Sandbox(data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        assert "description=" in sandbox.script()
        with full_disk(), contextlib.suppress(ApiError, StorageUnavailable):
            refused(sandbox, charge)
        with pytest.raises(ActionLogError, match=r"the disk refused a change.*use save\(\) or fork\(\) instead"):
            sandbox.script()


# Time


def test_time_does_not_pass_an_expiry_that_cannot_be_written(kept: Sandbox) -> None:
    charge = kept.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl="http://shop.localhost/")
    with full_disk():
        with pytest.raises(StorageUnavailable):
            kept.advance("1h")
        with pytest.raises(ApiError) as caught:
            kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert is_declared(kept, caught.value)
        assert kept.now == "2030-01-01T09:00:00.000Z", "the event has not run, and its instant has not come"
        assert charge.status == "pending"
        assert len(kept.receiver("shop").inbox) == 0
    kept.advance("59999ms")
    assert charge.status == "pending"
    kept.advance("1ms")
    assert charge.status == "expired"
    assert len(kept.receiver("shop").inbox) == 1


@contextmanager
def full_disk_after(writes: int) -> Iterator[None]:
    """Inside, so many writes to regular files succeed, and later ones fail."""
    real, left = os.write, [writes]

    def write(fd: int, data: bytes) -> int:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    with pytest.MonkeyPatch.context() as fault:
        fault.setattr(os, "write", write)
        yield


@pytest.mark.parametrize("form", ["in process", "request", "server"])
@pytest.mark.parametrize("move", [{"by": "1h"}, {"to": "2030-01-01T10:00:00Z"}, {"until": "idle"}])
@pytest.mark.parametrize(
    ("expiries_s", "written", "stands"), [([60], 0, "09:00"), ([60, 60, 120], 1, "09:01"), ([60, 120, 180], 2, "09:02")]
)
def test_a_refused_move_says_where_time_stands(
    tmp_path: Path, form: str, move: dict[str, str], expiries_s: list[int], written: int, stands: str
) -> None:
    """At the last event that was written, or where it was before; a restart continues there."""
    instant = f"2030-01-01T{stands}:00.000Z"
    with opened(tmp_path) as sandbox:
        for expiry_s in expiries_s:
            sandbox.charges.create(amount="1000", description="x", expiresIn=expiry_s)
        url = sandbox.serve() if form == "server" else ""
        with full_disk_after(written):
            first, second = (refused_move(sandbox, url or form, move) for _ in range(2))
            assert sandbox.now == instant
        events = {0: "", 1: ", after 1 event of this move, which stay", 2: ", after 2 events of this move, which stay"}
        assert first.endswith(f"; the clock stands at {instant}{events[written]}")
        assert second.endswith(f"; the clock stands at {instant}"), "nothing has happened in it"
        expired = [charge for charge in sandbox.charges if charge.status == "expired"]
        assert len(expired) == written
    with opened(tmp_path) as again:
        assert again.now == instant
        again.advance_to("2030-01-01T10:00:00Z")
        assert {charge.status for charge in again.charges} == {"expired"}


def refused_move(sandbox: Sandbox, form: str, body: dict[str, str]) -> str:
    """Why the disk refuses a move in process, in a request, or at a server with this URL."""
    if form == "in process":
        [(name, value)] = body.items()
        moves = {"by": sandbox.advance, "to": sandbox.advance_to, "until": sandbox.run}
        with pytest.raises(StorageUnavailable) as caught:
            moves[name](value)
        return str(caught.value)
    if form == "request":
        with pytest.raises(ApiError) as refused:
            sandbox.ask("POST", "/sandbox/v1/clock/advance", body)
        return str(refused.value.problem["detail"])
    status, problem = Client(form)("POST", "/sandbox/v1/clock/advance", body)
    assert status == 507
    return str(problem["detail"])


def test_an_advance_that_cannot_be_written_is_rolled_back(kept: Sandbox, tmp_path: Path) -> None:
    kept.charges.create(amount="1000", description="tea", expiresIn=600)
    kept.advance("1s")
    with full_disk(), pytest.raises(StorageUnavailable):
        kept.advance("1m")
    assert kept.now == "2030-01-01T09:00:01.000Z"
    kept.advance("1m")
    kept.close()
    with Sandbox(data=tmp_path) as again:
        assert again.now == "2030-01-01T09:01:01.000Z"


TIME_ACTIONS = {"advance", "run"}
# A scan is two requests: the invoice may exist when the payment is refused.
SINGLE_REQUEST_ACTIONS = ACTIONS.filter(lambda action: action[0] not in {"reopen", "scan"})


@given(
    actions=st.lists(
        st.one_of(
            ACTIONS,
            st.tuples(st.just("full"), st.integers(0, 4_000), SINGLE_REQUEST_ACTIONS),
        ),
        min_size=4,
        max_size=40,
    )
)
def test_a_full_disk_at_any_time_does_not_change_the_final_state(actions: Sequence[Action]) -> None:
    with tempfile.TemporaryDirectory() as data, opened() as steady:
        tried = opened(data)
        try:
            for action in [*BEGINNING, *actions, ("reopen",), ("run", "idle"), ("reopen",)]:
                word, *rest = action
                if word == "reopen":
                    tried.close()
                    tried = opened(data)
                elif word == "full":
                    room, operation = rest
                    did = act(steady, operation)
                    assert attempted(tried, room, operation, steady.now) in (did, None)
                else:
                    assert act(tried, action) == act(steady, action)
                assert persistent_state(tried) == persistent_state(steady), action
        finally:
            tried.close()


def attempted(sandbox: Sandbox, room: int, operation: Action, end: str) -> Any:
    """Act on a disk with this much space, and again without a limit if refused. None: time moved in several steps."""
    before = persistent_state(sandbox)
    try:
        with full_disk(room) as refused:
            result = act(sandbox, operation)
        if not refused:
            return result
        assert "507" in str(result) or "could not be written" in str(result), result
    except StorageUnavailable:
        pass
    if operation[0] in TIME_ACTIONS:
        sandbox.advance_to(end)
        return None
    assert persistent_state(sandbox) == before
    return act(sandbox, operation)


# Callbacks to the real network


class ManualTransport:
    """A transport that keeps requests in a list until the test answers them."""

    def __init__(self) -> None:
        self.posts: list[tuple[CallbackRequest, Callable[[CallbackRequest, CallbackResponse], None]]] = []

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.posts.append((post, answered))

    def answer(self, status: int = 200) -> None:
        post, answered = self.posts.pop(0)
        answered(post, CallbackResponse(status=status))

    def receiver_time_s(self, url: str) -> int:
        return 0

    def blocked_note(self, url: str) -> str:
        return ""

    def report_within(self, around: object) -> None:
        """Does nothing: each response arrives alone."""

    async def wait_idle(self) -> None:
        return None

    close = wait_idle


class ManualRealClock:
    """A real clock that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def world_on(data: Path, transport: ManualTransport, real_clock: ManualRealClock, rate: float = 0) -> World:
    config = world_config(seed=3, start_ms=START_MS, rate=rate, real_clock=real_clock)
    return World(config, Store.open(data), control_handlers=control_handlers, external_transport=transport)


def fail_charges(world: World, number: int = 1) -> list[str]:
    """Create charges with a callback and fail their invoices: a callback is due for each."""
    charge_ids = []
    for _ in range(number):
        body = {"amount": "1000", "description": "tea", "callbackUrl": "http://127.0.0.1:9/"}
        headers = (KEY, (b"content-type", b"application/json"))
        charge = orjson.loads(send_request(world.app, "POST", "/v0/charges", headers, orjson.dumps(body)).body)["data"]
        assert send_request(world.app, "POST", f"/sandbox/v1/charges/{charge['id']}/fail", headers, b"{}").status == 200
        charge_ids.append(charge["id"])
    return charge_ids


def deliveries(world: World) -> list[tuple[str, int]]:
    return [(row["status"], AttemptLog(row).attempt_count) for row in world.service.outbox.deliveries()]


def test_an_attempt_that_cannot_be_written_is_not_sent(tmp_path: Path) -> None:
    transport = ManualTransport()
    world = world_on(tmp_path, transport, ManualRealClock())
    fail_charges(world)
    with full_disk():
        for _ in range(3):
            with pytest.raises(StorageUnavailable):
                world.catch_up()
        assert (transport.posts, len(world.service.outbox.in_flight.attempts)) == ([], 0)
    world.catch_up()
    transport.answer()
    assert deliveries(world) == [("delivered", 1)]
    world.store.close()


def test_a_response_that_cannot_be_written_is_kept_until_it_can(tmp_path: Path) -> None:
    transport = ManualTransport()
    world = world_on(tmp_path, transport, ManualRealClock())
    fail_charges(world)
    world.catch_up()
    with full_disk():
        transport.answer()
        assert world.transport.has_pending_responses
        with pytest.raises(StorageUnavailable):
            world.catch_up()
    assert deliveries(world) == [("pending", 1)]
    world.catch_up()
    assert deliveries(world) == [("delivered", 1)]
    assert (world.transport.has_pending_responses, transport.posts) == (False, [])
    world.store.close()


def test_callbacks_that_wait_for_a_free_worker_slot_are_not_lost(tmp_path: Path) -> None:
    transport = ManualTransport()
    world = world_on(tmp_path, transport, ManualRealClock())
    fail_charges(world, 20)
    world.catch_up()
    assert len(transport.posts) == 8, "eight are in flight at once"
    with full_disk():
        for _ in range(8):
            transport.answer()
        with pytest.raises(StorageUnavailable):
            world.catch_up()
        assert transport.posts == []
    while transport.posts or world.transport.has_pending_responses or world.clock.next_due() == world.clock.now():
        world.catch_up()
        assert len(world.service.outbox.in_flight.attempts) == len(transport.posts) <= 8
        if transport.posts:
            transport.answer()
    assert deliveries(world) == [("delivered", 1)] * 20
    world.store.close()


# A running clock and its server


def test_reads_succeed_while_a_running_clock_waits_for_the_disk(tmp_path: Path) -> None:
    real_clock = ManualRealClock()
    world = world_on(tmp_path, ManualTransport(), real_clock, rate=1)
    headers = (KEY, (b"content-type", b"application/json"))
    body = {"amount": "1000", "description": "tea", "expiresIn": 60}
    created = send_request(world.app, "POST", "/v0/charges", headers, orjson.dumps(body))
    path = f"/v0/charges/{orjson.loads(created.body)['data']['id']}"
    real_clock.now_ms += 3_600_000
    with full_disk():
        for _ in range(2):
            answer = send_request(world.app, "GET", path, (KEY,))
            assert (answer.status, orjson.loads(answer.body)["data"]["status"]) == (200, "pending")
            assert send_request(world.app, "GET", "/v0/charges", (KEY,)).status == 200
        assert world.clock.now() == START_MS + 60_000, "time waits at the expiry"
        refused = send_request(world.app, "POST", "/v0/charges", headers, orjson.dumps(body))
        assert refused.status == 507
    assert orjson.loads(send_request(world.app, "GET", path, (KEY,)).body)["data"]["status"] == "expired"
    assert world.clock.now() == START_MS + 3_600_000
    world.store.close()


@pytest.mark.parametrize("rate", [0, 1])
def test_the_server_continues_without_a_restart_when_space_returns(
    tmp_path: Path, rate: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        transport, real_clock = ManualTransport(), ManualRealClock()
        world = world_on(tmp_path, transport, real_clock, rate)
        fail_charges(world)
        host = MultiTenantApp({"leyden": world})
        spoken: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(message: Any) -> None:
            return None

        with full_disk() as refused:
            life = asyncio.create_task(host({"type": "lifespan"}, spoken.get, send))
            spoken.put_nowait({"type": "lifespan.startup"})
            while len(refused) < 3:  # at the start, and at each retry
                await asyncio.sleep(0.01)
            assert transport.posts == []
        while not transport.posts:
            await asyncio.sleep(0.01)
        with full_disk() as refused:
            transport.answer()
            while len(refused) < 3:
                await asyncio.sleep(0.01)
        while deliveries(world) != [("delivered", 1)]:
            await asyncio.sleep(0.01)
        spoken.put_nowait({"type": "lifespan.shutdown"})
        await life
        world.store.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert len(caplog.records) == 2, "each problem is logged once, however often it occurs"


def test_a_defect_in_one_event_does_not_stop_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        world = world_on(tmp_path, ManualTransport(), ManualRealClock())
        tries: list[str] = []

        def fail(key: str) -> None:
            tries.append(key)
            if len(tries) < 3:
                raise ZeroDivisionError(key)

        world.clock.on("defect", fail)
        world.clock.call_at(0, 0, "defect", "x")
        host = MultiTenantApp({"leyden": world})
        spoken: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(message: Any) -> None:
            return None

        life = asyncio.create_task(host({"type": "lifespan"}, spoken.get, send))
        spoken.put_nowait({"type": "lifespan.startup"})
        while len(tries) < 3:
            await asyncio.sleep(0.01)
        spoken.put_nowait({"type": "lifespan.shutdown"})
        await life
        world.store.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert len(caplog.records) == 1


def test_a_read_only_directory_is_refused_at_startup(tmp_path: Path) -> None:
    Sandbox(data=tmp_path).close()
    real = os.open

    def read_only(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *more, **named)

    with pytest.MonkeyPatch.context() as fault:
        fault.setattr(os, "open", read_only)
        with pytest.raises(StoreError, match="cannot be written"):
            Sandbox(data=tmp_path)
    Sandbox(data=tmp_path).close()


def test_a_compaction_without_a_directory_fsync_does_not_count_as_written(tmp_path: Path) -> None:
    """A compaction replaces the journal file: until the directory is synced, a power cut may restore the old file."""
    real = os.fsync

    def directories_fail(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    with Store.open(tmp_path, policy="always", group_commit=True) as store:
        table = store.table("things")
        for _ in range(3):
            table.put({"id": "a"})
            store.flush()
        table.put({"id": "a"})
        with pytest.MonkeyPatch.context() as fault:
            fault.setattr(os, "fsync", directories_fail)
            store.compact()
            assert store.unsynced
            table.put({"id": "b"})
            assert store.unsynced
            with pytest.raises(StorageUnavailable):
                store.flush()
        table.put({"id": "c"})
        assert not store.unsynced
    with Store.open(tmp_path) as store:
        assert [row["id"] for row in store.table("things")] == ["a", "b", "c"]


# A server process whose writes the kernel refuses


def size_limit(pid: int, limit: int | None) -> None:
    """Limit the size of the files of a process: the kernel shortens one write and then refuses (EFBIG)."""
    import resource

    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))


def test_a_server_runs_out_of_space_and_recovers(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="this system cannot limit another process's files")
    with (
        listening_receiver() as (hook, inbox),
        served_leyden("--data", str(tmp_path), "--rate", "0", "--seed", "1") as client,
    ):
        body = {"amount": "1000", "description": "tea", "callbackUrl": hook, "expiresIn": 60}
        first = client.ok("POST", "/v0/charges", body)["data"]
        [journal] = tmp_path.rglob("*.journal")
        [lock] = tmp_path.rglob("*.lock")
        pid = int(lock.read_text())
        size_limit(pid, journal.stat().st_size + 100)
        try:
            refused_by(client, "POST", "/v0/charges", body)
            refused_by(client, "POST", "/sandbox/v1/clock/advance", {"by": "1h"})
            refused_by(client, "POST", "/sandbox/v1/payments", {"request": first["invoice"]["request"]})
            assert client.ok("GET", f"/v0/charges/{first['id']}")["data"] == first
            assert [charge["id"] for charge in client.ok("GET", "/v0/charges")["data"]] == [first["id"]]
        finally:
            size_limit(pid, None)
        second = client.ok("POST", "/v0/charges", body)["data"]
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert {inbox.get(timeout=10)[1]["id"] for _ in range(2)} == {first["id"], second["id"]}
    with served_leyden("--data", str(tmp_path)) as client:
        listed = client.ok("GET", "/v0/charges")["data"]
        assert [(charge["id"], charge["status"]) for charge in listed] == [
            (second["id"], "expired"),
            (first["id"], "expired"),
        ]


def refused_by(client: Client, method: str, path: str, body: Any) -> None:
    status, problem = client(method, path, body)
    assert (status, problem["code"]) == (507, "storage_unavailable"), json.dumps(problem)


# The journal loses its name


@pytest.mark.parametrize("durability", ["os", "interval", "always"])
def test_a_deleted_journal_refuses_every_change_and_is_written_again_when_the_server_stops(
    tmp_path: Path, durability: str
) -> None:
    options = ("--data", str(tmp_path), "--durability", durability)
    body = {"amount": "1000", "description": "tea"}
    with served_leyden(*options) as client:
        kept = [client.ok("POST", "/v0/charges", body)["data"]["id"] for _ in range(3)]
        [journal] = tmp_path.rglob("*.journal")
        journal.unlink()
        for _ in range(20):
            status, problem = client("POST", "/v0/charges", body)
            assert (status, problem["code"]) == (507, "storage_unavailable")
            assert "charges.journal was deleted or moved while it was in use: put it back" in problem["detail"]
        assert [charge["id"] for charge in client.ok("GET", "/v0/charges")["data"]] == kept[::-1]
    with served_leyden(*options) as client:
        assert [charge["id"] for charge in client.ok("GET", "/v0/charges")["data"]] == kept[::-1]


def test_a_data_directory_that_is_moved_refuses_changes_until_it_is_back(tmp_path: Path) -> None:
    body = {"amount": "1000", "description": "tea"}
    with served_leyden("--data", str(tmp_path / "data"), "--durability", "always") as client:
        kept = [client.ok("POST", "/v0/charges", body)["data"]["id"]]
        (tmp_path / "data").rename(tmp_path / "moved")
        status, problem = client("POST", "/v0/charges", body)
        assert status == 507
        assert "its directory was moved, removed or replaced" in problem["detail"]
        (tmp_path / "moved").rename(tmp_path / "data")
        kept.append(client.ok("POST", "/v0/charges", body)["data"]["id"])
    with served_leyden("--data", str(tmp_path / "data")) as client:
        assert [charge["id"] for charge in client.ok("GET", "/v0/charges")["data"]] == kept[::-1]
