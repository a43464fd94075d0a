"""A disk that is full or may not be written: what is asked is refused whole, what was there stays, and work goes on."""

from __future__ import annotations

import asyncio
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
from leyden.errors import ApiError
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.timers import Timers
from leyden.world.world import World
from tests.integration.test_restart import ACTIONS, BEGINNING, Action, act, opened, stood
from tests.support.served import Client, listening_receiver, served_leyden

# The receivers of `opened` answer always alike. A script would be used up by an attempt that was taken back: what a
# receiver saw, it saw.

KEY = (b"apikey", b"leyden")
START_MS = 1_893_456_000_000


@contextmanager
def full_disk(room: int = 0, error: int = errno.ENOSPC) -> Iterator[list[int]]:
    """Inside, regular files take `room` more bytes, the last write being cut short as a real disk does it, and then no
    more. Gives the list of refusals."""
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
    with opened(tmp_path) as made:
        yield made


# What a commit taken back takes back

NAMES = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))
TIMER_DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 9), NAMES),
        st.tuples(st.just("cancel"), NAMES),
        st.tuples(st.just("take"), st.integers(0, 9)),
        st.tuples(st.just("take and put back"), st.integers(0, 9)),
    )
)


def wind(timers: Timers, deeds: Sequence[Action]) -> None:
    for word, *rest in deeds:
        if word == "schedule":
            timers.schedule(rest[0], 1, *rest[1])
        elif word == "cancel":
            timers.cancel(*rest[0])
        else:
            for timer in timers.due(rest[0]):
                if word == "take and put back":
                    timers.put_back(timer)
                break


@given(earlier=TIMER_DEEDS, undone=TIMER_DEEDS, later=TIMER_DEEDS)
def test_timers_taken_back_are_as_if_nobody_had_touched_them(
    earlier: Sequence[Action], undone: Sequence[Action], later: Sequence[Action]
) -> None:
    timers, twin = Timers(), Timers()
    wind(timers, earlier)
    wind(twin, earlier)
    timers.begin()
    wind(timers, undone)
    timers.rollback()
    assert timers.snapshot() == twin.snapshot()
    timers.begin()
    wind(timers, later)
    timers.commit()
    wind(twin, later)
    assert timers.snapshot() == twin.snapshot()
    assert list(timers.due(10)) == list(twin.due(10))


# One request


@pytest.mark.parametrize("room", [0, 1, 300])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_request_that_cannot_be_written_is_refused_and_leaves_nothing(kept: Sandbox, room: int, error: int) -> None:
    before_it = kept.charges.create(amount="1000", description="earlier", expiresIn=60)
    before = stood(kept)
    with full_disk(room, error):
        with pytest.raises(ApiError) as caught:
            kept.charges.create(amount="2000", description="refused", expiresIn=30, callbackUrl="http://shop.localhost")
        assert is_declared(kept, caught.value)
        assert "charges.journal could not be written" in caught.value.problem["detail"]
        assert stood(kept) == before, "no row, no invoice, no timer, no luck"
        assert kept.charges[before_it.id].status == "pending", "earlier data stays readable"
        assert [charge.id for charge in kept.charges] == [before_it.id]
    after = kept.charges.create(amount="3000", description="accepted", expiresIn=60)
    assert [event.key for event in kept.run()] == [before_it.id, after.id]


@pytest.mark.parametrize("deed", ["create_static", "update", "pay", "fail", "settle", "reset", "scan"])
def test_every_kind_of_write_is_refused_whole(kept: Sandbox, deed: str) -> None:
    charge = kept.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    static = kept.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", allowedSlots=1)
    held = kept.wallet("ana").pay(kept.charges.create(amount="5000", description="held"), outcome="hold")
    kept.advance("1s")
    deeds: dict[str, Callable[[], Any]] = {
        "create_static": lambda: kept.static_charges.create(minAmount="1000", maxAmount="1000", description="more"),
        "update": lambda: static.update(allowedSlots=5),
        "pay": lambda: kept.ask("POST", "/sandbox/v1/payments", {"request": charge.request}),
        "fail": lambda: charge.fail(),
        "settle": lambda: held.settle(),
        "reset": lambda: kept.ask("POST", "/sandbox/v1/reset", {"seed": 99}),
        "scan": lambda: kept.ask("POST", "/sandbox/v1/payments", {"request": static.request}),
    }
    before = stood(kept)
    with full_disk():
        with pytest.raises(ApiError) as caught:
            deeds[deed]()
        assert is_declared(kept, caught.value)
    assert stood(kept) == before
    deeds[deed]()
    assert stood(kept) != before


def test_an_idempotency_key_is_not_used_up_by_a_refusal(kept: Sandbox) -> None:
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
    assert (again.status, again.body) == (200, first.body), "an answer given before needs no room"


def test_the_journal_of_what_happened_says_what_was_taken_back(kept: Sandbox) -> None:
    before = len(kept.world.journal)
    with full_disk(), pytest.raises(ApiError):
        kept.charges.create(amount="1000", description="tea")
    *taken, note, request = kept.world.journal.entries(after=before)
    assert (note.kind, note.facts["entries"]) == ("rolled_back", len(taken))
    assert (request.kind, request.facts["status"]) == ("request", 507)


# Time


def test_an_expiry_that_cannot_be_written_waits_and_time_with_it(kept: Sandbox) -> None:
    charge = kept.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl="http://shop.localhost/")
    with full_disk():
        with pytest.raises(StorageUnavailable):
            kept.advance("1h")
        with pytest.raises(ApiError) as caught:
            kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert is_declared(kept, caught.value)
        assert kept.now == "2030-01-01T09:01:00.000Z", "time does not pass what has not happened"
        assert charge.status == "pending"
        assert len(kept.receiver("shop").inbox) == 0
    kept.advance("1ms")
    assert charge.status == "expired"
    assert len(kept.receiver("shop").inbox) == 1


def test_a_move_that_cannot_be_written_down_has_not_been_made(kept: Sandbox, tmp_path: Path) -> None:
    kept.charges.create(amount="1000", description="tea", expiresIn=600)
    kept.advance("1s")
    with full_disk(), pytest.raises(StorageUnavailable):
        kept.advance("1m")
    assert kept.now == "2030-01-01T09:00:01.000Z"
    kept.advance("1m")
    kept.close()
    with Sandbox(data=tmp_path) as again:
        assert again.now == "2030-01-01T09:01:01.000Z"


TIMELY = {"advance", "run"}
# A scan is two requests: the invoice may have been given out when the payment is refused.
IN_ONE_PIECE = ACTIONS.filter(lambda action: action[0] not in {"reopen", "scan"})


@given(
    actions=st.lists(
        st.one_of(
            ACTIONS,
            st.tuples(st.just("full"), st.integers(0, 4_000), IN_ONE_PIECE),
        ),
        min_size=4,
        max_size=40,
    )
)
def test_whenever_the_disk_is_full_it_ends_as_if_it_had_not_been(actions: Sequence[Action]) -> None:
    with tempfile.TemporaryDirectory() as data, opened() as steady:
        tried = opened(data)
        try:
            for action in [*BEGINNING, *actions, ("reopen",), ("run", "idle"), ("reopen",)]:
                word, *rest = action
                if word == "reopen":
                    tried.close()
                    tried = opened(data)
                elif word == "full":
                    room, deed = rest
                    did = act(steady, deed)
                    assert attempted(tried, room, deed, steady.now) in (did, None)
                else:
                    assert act(tried, action) == act(steady, action)
                assert stood(tried) == stood(steady), action
        finally:
            tried.close()


def attempted(sandbox: Sandbox, room: int, deed: Action, end: str) -> Any:
    """Do it on a disk with this much room, and again with enough if it was refused. None: done, in several moves."""
    before = stood(sandbox)
    try:
        with full_disk(room) as refused:
            result = act(sandbox, deed)
        if not refused:
            return result
        assert "507" in str(result) or "could not be written" in str(result), result
    except StorageUnavailable:
        pass
    if deed[0] in TIMELY:
        sandbox.advance_to(end)
        return None
    assert stood(sandbox) == before
    return act(sandbox, deed)


# Callbacks to the real network


class Street:
    """The real network, by hand: posts wait in a list until the test answers them."""

    def __init__(self) -> None:
        self.posts: list[tuple[CallbackRequest, Callable[[CallbackRequest, CallbackResponse], None]]] = []

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.posts.append((post, answered))

    def answer(self, status: int = 200) -> None:
        post, answered = self.posts.pop(0)
        answered(post, CallbackResponse(status=status))

    def receiver_time_s(self, url: str) -> int:
        return 0

    def report_within(self, around: object) -> None:
        """Each answer comes by itself here."""

    async def wait_idle(self) -> None:
        return None

    close = wait_idle


class Wall:
    """Real time, in the test's hands."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def world_on(data: Path, street: Street, wall: Wall, rate: float = 0) -> World:
    plan = world_config(seed=3, start_ms=START_MS, rate=rate, real_clock=wall)
    return World(plan, Store.open(data), control_handlers=control_handlers, external_transport=street)


def told_of_failure(world: World, number: int = 1) -> list[str]:
    """Make charges with a callback and let the node lose them: a callback is due for each."""
    made = []
    for _ in range(number):
        body = {"amount": "1000", "description": "tea", "callbackUrl": "http://127.0.0.1:9/"}
        headers = (KEY, (b"content-type", b"application/json"))
        charge = orjson.loads(send_request(world.app, "POST", "/v0/charges", headers, orjson.dumps(body)).body)["data"]
        assert send_request(world.app, "POST", f"/sandbox/v1/charges/{charge['id']}/fail", headers, b"{}").status == 200
        made.append(charge["id"])
    return made


def deliveries(world: World) -> list[tuple[str, int]]:
    return [(row["status"], AttemptLog(row).attempt_count) for row in world.service.outbox.deliveries()]


def test_an_attempt_that_cannot_be_written_down_is_not_made(tmp_path: Path) -> None:
    street = Street()
    world = world_on(tmp_path, street, Wall())
    told_of_failure(world)
    with full_disk():
        for _ in range(3):
            with pytest.raises(StorageUnavailable):
                world.catch_up()
        assert (street.posts, world.service.outbox.in_flight_count) == ([], 0)
    world.catch_up()
    street.answer()
    assert deliveries(world) == [("delivered", 1)]
    world.store.close()


def test_an_answer_that_cannot_be_written_down_is_kept_until_it_can(tmp_path: Path) -> None:
    street = Street()
    world = world_on(tmp_path, street, Wall())
    told_of_failure(world)
    world.catch_up()
    with full_disk():
        street.answer()
        assert world.transport.has_pending_responses
        with pytest.raises(StorageUnavailable):
            world.catch_up()
    assert deliveries(world) == [("pending", 1)]
    world.catch_up()
    assert deliveries(world) == [("delivered", 1)]
    assert (world.transport.has_pending_responses, street.posts) == (False, [])
    world.store.close()


def test_callbacks_that_wait_for_a_free_hand_are_not_lost(tmp_path: Path) -> None:
    street = Street()
    world = world_on(tmp_path, street, Wall())
    told_of_failure(world, 20)
    world.catch_up()
    assert len(street.posts) == 8, "eight are in flight at once"
    with full_disk():
        for _ in range(8):
            street.answer()
        with pytest.raises(StorageUnavailable):
            world.catch_up()
        assert street.posts == []
    while street.posts or world.transport.has_pending_responses or world.clock.next_due() == world.clock.now():
        world.catch_up()
        assert world.service.outbox.in_flight_count == len(street.posts) <= 8
        if street.posts:
            street.answer()
    assert deliveries(world) == [("delivered", 1)] * 20
    world.store.close()


# A live clock, and the server around it


def test_readers_are_answered_while_a_live_clock_waits_for_the_disk(tmp_path: Path) -> None:
    wall = Wall()
    world = world_on(tmp_path, Street(), wall, rate=1)
    headers = (KEY, (b"content-type", b"application/json"))
    body = {"amount": "1000", "description": "tea", "expiresIn": 60}
    made = send_request(world.app, "POST", "/v0/charges", headers, orjson.dumps(body))
    path = f"/v0/charges/{orjson.loads(made.body)['data']['id']}"
    wall.now_ms += 3_600_000
    with full_disk():
        for _ in range(2):
            answer = send_request(world.app, "GET", path, (KEY,))
            assert (answer.status, orjson.loads(answer.body)["data"]["status"]) == (200, "pending")
            assert send_request(world.app, "GET", "/v0/charges", (KEY,)).status == 200
        assert world.clock.now() == START_MS + 60_000, "and time with it"
        refused = send_request(world.app, "POST", "/v0/charges", headers, orjson.dumps(body))
        assert refused.status == 507
    assert orjson.loads(send_request(world.app, "GET", path, (KEY,)).body)["data"]["status"] == "expired"
    assert world.clock.now() == START_MS + 3_600_000
    world.store.close()


@pytest.mark.parametrize("rate", [0, 1])
def test_the_server_goes_on_by_itself_when_space_returns(
    tmp_path: Path, rate: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        street, wall = Street(), Wall()
        world = world_on(tmp_path, street, wall, rate)
        told_of_failure(world)
        host = MultiTenantApp({"leyden": world})
        spoken: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(message: Any) -> None:
            return None

        with full_disk() as refused:
            life = asyncio.create_task(host({"type": "lifespan"}, spoken.get, send))
            spoken.put_nowait({"type": "lifespan.startup"})
            while len(refused) < 3:  # at the start, and whenever it is tried again
                await asyncio.sleep(0.01)
            assert street.posts == []
        while not street.posts:
            await asyncio.sleep(0.01)
        with full_disk() as refused:
            street.answer()
            while len(refused) < 3:
                await asyncio.sleep(0.01)
        while deliveries(world) != [("delivered", 1)]:
            await asyncio.sleep(0.01)
        spoken.put_nowait({"type": "lifespan.shutdown"})
        await life
        world.store.close()

    asyncio.run(asyncio.wait_for(story(), 30))
    assert len(caplog.records) == 2, "each trouble is told once, however often it is met"


def test_one_event_that_fails_on_a_defect_does_not_stop_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        world = world_on(tmp_path, Street(), Wall())
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

    asyncio.run(asyncio.wait_for(story(), 30))
    assert len(caplog.records) == 1


def test_a_directory_that_may_not_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
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


def test_a_journal_whose_name_may_not_last_does_not_count_as_written(tmp_path: Path) -> None:
    """A compaction gives the journal another file: until the directory is on the disk, the old one may come back."""
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


# A whole server whose kernel refuses


def size_limit(pid: int, limit: int | None) -> None:
    """Let a process's files grow no further than this: the kernel cuts the write short and then refuses (EFBIG)."""
    import resource

    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))


def test_a_server_that_runs_out_of_room_and_gets_it_back(tmp_path: Path) -> None:
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
