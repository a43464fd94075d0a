"""Restarts: a sandbox that is closed and reopened continues as an uninterrupted one."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.callbacks.transport import RecordedNetwork
from leyden.devserver.control.handlers import control_handlers
from leyden.errors import ApiError
from leyden.lightning.payer.payments import PaymentError
from leyden.server.errors import StoreError
from leyden.server.store.journal import FORMAT, VERSION, encode_line
from leyden.server.store.store import Store
from leyden.server.timestamps import parse_iso, to_iso
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.world import World
from tests.support.lists import listed
from tests.support.served import run_command, served_leyden

START = "2030-01-01T09:00:00Z"
HOSTS: dict[str, Any] = {
    "shop": 200, "down": 500, "gone": 410, "slow": Reply(200, delay="7s"), "silent": "timeout",
}  # fmt: skip

Action = tuple[Any, ...]


def opened(data: str | Path | None = None) -> Sandbox:
    """A sandbox whose receivers always give the same answers."""
    sandbox = Sandbox(seed=11, start=START, data=data)
    for host, status in HOSTS.items():
        sandbox.receiver(host).always(status)
    return sandbox


def persistent_state(sandbox: Sandbox) -> dict[str, Any]:
    """What a restart must keep: all rows, the time, the positions of the random streams, the events in order."""
    tables = sandbox.world.store.tables
    return {
        "rows": {
            name: list(table.rows.values()) for name, table in sorted(tables.items()) if name != "world" and table.rows
        },
        "now": sandbox.now,
        "ahead": [(timer.due_ms, timer.kind, timer.key) for timer in sandbox.world.clock.upcoming(1_000)],
        "random_streams": sandbox.world.streams.snapshot(),
        "wallet": sandbox.ask("GET", "/v0/wallet")["data"],
    }


# Actions on a sandbox: a name and its arguments. A number selects one of the existing objects.

PICK = st.integers(0, 30)
HOOK = st.sampled_from([None, *(f"http://{host}.localhost/hook" for host in HOSTS)])
DELAY = st.sampled_from([0, "1s", "29.999s", "30s", "1m", "61s"])
OUTCOME = st.sampled_from(["settle", "settle", "settle", "hold", "underpay", "overpay", "wrong_secret", "fail"])
ACTIONS = st.one_of(
    st.tuples(st.just("create"), st.integers(1_000, 9_000), st.sampled_from([1, 30, 60, 600]), HOOK),
    st.tuples(st.just("create_once"), st.sampled_from("abc"), st.sampled_from([30, 60])),
    st.tuples(st.just("create_static"), st.sampled_from([None, 1, 2]), st.sampled_from([None, 30, 360]), HOOK),
    st.tuples(st.just("refuse_static")),
    st.tuples(st.just("allow"), PICK, st.sampled_from([None, 1, 2, 3])),
    st.tuples(st.just("pay"), PICK, OUTCOME, DELAY),
    st.tuples(st.just("pay_in_parts"), PICK, st.integers(2, 4), st.sampled_from([0, 7_000, 31_000]), st.booleans()),
    st.tuples(st.just("scan"), PICK, OUTCOME, DELAY),
    st.tuples(st.just("resolve"), PICK, st.sampled_from(["settle", "cancel"])),
    st.tuples(st.just("fail"), PICK),
    st.tuples(st.just("replay"), PICK),
    st.tuples(st.just("traffic"), st.sampled_from(["every(2s)", "every(4s)", "burst(2, 10s)"])),
    st.tuples(
        st.just("fault"),
        st.sampled_from(["drop", "duplicate", "simultaneous", "redeliver", "reorder", "burst", "bad_signature"]),
    ),
    st.tuples(st.just("advance"), st.sampled_from(["1ms", "5s", "30s", "1m", "2m", "1h"])),
    st.tuples(st.just("run"), st.sampled_from(["next_event", "next_event", "idle"])),
    st.tuples(st.just("reopen")),
)


def act(sandbox: Sandbox, action: Action) -> Any:
    """Perform the action; an error is a result like any other."""
    word, *given_ = action
    try:
        return _DEEDS[word](sandbox, *given_)
    except (ApiError, PaymentError) as refusal:
        return str(refusal)


def _chosen(items: list[Any], pick: int) -> Any:
    return items[pick % len(items)] if items else None


def _create(sandbox: Sandbox, amount: int, expires_in: int, hook: str | None) -> str:
    fields = {"amount": str(amount), "description": "tea", "expiresIn": expires_in, "callbackUrl": hook}
    return sandbox.charges.create(**fields).id


def _create_once(sandbox: Sandbox, key: str, expires_in: int) -> bytes:
    body = orjson.dumps({"amount": "1000", "description": "once", "expiresIn": expires_in})
    headers = ((b"apikey", b"leyden"), (b"content-type", b"application/json"), (b"idempotency-key", key.encode()))
    answer = send_request(sandbox.app, "POST", "/v0/charges", headers, body)
    # The request id is not stored.
    return answer.body if answer.status == 200 else b"%d" % answer.status


def _create_static(sandbox: Sandbox, slots: int | None, expires_in: int | None, hook: str | None) -> str:
    fields = {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "callbackUrl": hook}
    return sandbox.static_charges.create(**fields, allowedSlots=slots, expiresIn=expires_in).id


def _refuse_static(sandbox: Sandbox) -> None:
    sandbox.static_charges.create(minAmount="2000", maxAmount="1000", description="the wrong way round")


def _allow(sandbox: Sandbox, pick: int, slots: int | None) -> None:
    static = _chosen(list(sandbox.static_charges), pick)
    if static is not None:
        static.update(allowedSlots=slots)


def _pay(sandbox: Sandbox, pick: int, outcome: str, delay: Any) -> str | None:
    charge = _chosen(list(sandbox.charges), pick)
    return None if charge is None else sandbox.wallet("ana").pay(charge, outcome=outcome, delay=delay).id


def _pay_in_parts(sandbox: Sandbox, pick: int, parts: int, gap_ms: int, whole: bool) -> str | None:
    charge = _chosen(list(sandbox.charges), pick)
    if charge is None:
        return None
    outcome = "settle" if whole else "incomplete"
    with sandbox.world.exclusive():
        row = sandbox.world.payments.pay(charge.request, parts=parts, gap_ms=gap_ms, outcome=outcome, scheduled=True)
    return str(row["id"])


def _scan(sandbox: Sandbox, pick: int, outcome: str, delay: Any) -> str | None:
    static = _chosen(list(sandbox.static_charges), pick)
    if static is None:
        return None
    try:
        return sandbox.wallet("bob").scan(static, amount=1_000 + pick, outcome=outcome, delay=delay).id
    except ValueError as refusal:
        return str(refusal)


def _resolve(sandbox: Sandbox, pick: int, verb: str) -> None:
    payment = _chosen(list(sandbox.world.payments.rows), pick)
    if payment is not None:
        sandbox.ask("POST", f"/sandbox/v1/payments/{payment['id']}/{verb}")


def _fail(sandbox: Sandbox, pick: int) -> None:
    charge = _chosen(list(sandbox.charges), pick)
    if charge is not None:
        charge.fail()


def _replay(sandbox: Sandbox, pick: int) -> str | None:
    delivery = _chosen(sandbox.world.service.outbox.deliveries(), pick)
    return None if delivery is None else str(sandbox.world.service.outbox.replay(delivery["id"])["id"])


_DEEDS: dict[str, Callable[..., Any]] = {
    "create": _create,
    "create_once": _create_once,
    "create_static": _create_static,
    "refuse_static": _refuse_static,
    "allow": _allow,
    "pay": _pay,
    "pay_in_parts": _pay_in_parts,
    "scan": _scan,
    "resolve": _resolve,
    "fail": _fail,
    "replay": _replay,
    "traffic": lambda sandbox, rate: sandbox.traffic(rate, callbackUrl="http://down.localhost/", duration="10s").id,
    "fault": lambda sandbox, kind: sandbox.faults.add(kind, count=2),
    "advance": lambda sandbox, by: sandbox.advance(by),
    "run": lambda sandbox, until: sandbox.run(until),
}


BEGINNING = [
    ("create", 2_000, 60, "http://shop.localhost/hook"),
    ("create_static", 2, 360, "http://down.localhost/hook"),
    ("create", 3_000, 30, "http://gone.localhost/hook"),
    ("scan", 0, "hold", "1s"),
]


@given(actions=st.lists(ACTIONS, min_size=4, max_size=40))
def test_restarts_at_any_time_do_not_change_the_final_state(actions: list[Action]) -> None:
    with tempfile.TemporaryDirectory() as data, opened() as steady:
        interrupted = opened(data)
        try:
            for action in [*BEGINNING, *actions, ("reopen",), ("run", "idle"), ("reopen",)]:
                if action[0] == "reopen":
                    interrupted.close()
                    interrupted = opened(data)
                else:
                    assert act(interrupted, action) == act(steady, action)
                assert persistent_state(interrupted) == persistent_state(steady), action
        finally:
            interrupted.close()


@pytest.mark.parametrize("reply", [Reply(200, delay="10s"), Reply(503, delay="10s"), "timeout"])
def test_an_attempt_that_a_built_in_receiver_keeps_open_ends_at_its_own_instant(tmp_path: Path, reply: Any) -> None:
    def deliveries(sandbox: Sandbox) -> Any:
        return listed(sandbox.ask, "/sandbox/v1/deliveries")

    def opened_attempt(sandbox: Sandbox) -> Sandbox:
        sandbox.receiver("slow").answers([reply])
        sandbox.faults.add("simultaneous")
        sandbox.charges.create(amount="1000", description="tea", expiresIn=30, callbackUrl="http://slow.localhost/")
        sandbox.advance("35s")
        return sandbox

    with opened_attempt(opened(tmp_path)) as sandbox:
        now, before = sandbox.now, deliveries(sandbox)
    with opened(tmp_path) as sandbox, opened_attempt(opened()) as steady:
        assert (sandbox.now, deliveries(sandbox)) == (now, before), "nothing happens while time stands still"
        assert sandbox.world.service.outbox.in_flight.attempts == {before[0]["id"]: 1}
        sandbox.run()
        steady.run()
        assert deliveries(sandbox) == deliveries(steady)
        assert list(sandbox.receiver("slow").inbox) == list(steady.receiver("slow").inbox)


def test_an_attempt_that_was_sent_to_the_network_is_lost_and_sent_again_with_the_same_id(tmp_path: Path) -> None:
    with opened(tmp_path) as sandbox:
        sandbox.world.connect_network(RecordedNetwork(lambda: 0))
        sandbox.charges.create(amount="1000", description="tea", expiresIn=30, callbackUrl="http://127.0.0.1:9/")
        sandbox.advance("35s")
        [before] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    with opened(tmp_path) as sandbox:
        sandbox.world.connect_network(RecordedNetwork(lambda: 0))
        sandbox.advance("1s")
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        assert delivery["id"] == before["id"]
        assert [attempt["error"] for attempt in delivery["attempts"]] == ["lost", None]
        assert delivery["attempts"][0]["note"] == "the service stopped before the answer came"
        assert len(sandbox.world.service.outbox.in_flight.attempts) == 1


def test_a_delayed_response_of_an_earlier_version_is_dropped_and_its_attempt_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as sandbox:
        sandbox.receiver("slow").always(Reply(200, delay="10s"))
        sandbox.charges.create(amount="1000", description="tea", expiresIn=30, callbackUrl="http://slow.localhost/")
        sandbox.advance("35s")
    with Store.open(tmp_path) as store:
        rows = store.table("late_answers", key="id")
        [late] = list(rows)
        rows.put({name: value for name, value in late.items() if name != "due_at"})
    with opened(tmp_path) as sandbox:
        sandbox.run()
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        assert [attempt["error"] for attempt in delivery["attempts"]] == ["lost", None]


def test_events_due_at_the_same_time_run_in_the_order_of_scheduling(tmp_path: Path) -> None:
    def received_ids(sandbox: Sandbox) -> list[str]:
        return [got.webhook_id for got in sandbox.receiver("shop").inbox]

    with opened(tmp_path) as sandbox:
        for seconds in (60, 30, 90):
            sandbox.charges.create(
                amount="1000", description="tea", expiresIn=seconds, callbackUrl="http://shop.localhost/"
            )
        sandbox.run()
        first, second, third = sandbox.world.service.outbox.deliveries()
        for delivery in (third, first, second):
            sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
        sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="tips", expiresIn=60)
        sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    with opened(tmp_path) as sandbox:
        fired = [event.kind for event in sandbox.advance("60s")]
        assert received_ids(sandbox)[3:] == [third["id"], first["id"], second["id"]]
        assert fired == ["callback"] * 3 + ["static_charge_expiry", "charge_expiry"]


def test_rows_of_removed_timers_are_deleted(tmp_path: Path) -> None:
    def row_ids(sandbox: Sandbox) -> list[str]:
        return [row["id"] for row in sandbox.world.store.table("world", key="id")]

    with opened(tmp_path) as sandbox:
        sandbox.charges.create(amount="1000", description="tea", expiresIn=30, callbackUrl="http://down.localhost/")
        sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="tips", expiresIn=60)
        sandbox.advance("45s")
        (delivery,) = sandbox.world.service.outbox.deliveries()
        (static,) = sandbox.static_charges
        assert sorted(row_ids(sandbox)) == sorted(
            ["config", "state", f"callback {delivery['id']}", f"static_charge_expiry {static.id}"]
        )
    # Stale and missing rows are corrected when the directory is opened.
    with Store.open(tmp_path) as store:
        table = store.table("world", key="id")
        table.delete(f"static_charge_expiry {static.id}")
        table.put({"id": "callback gone", "charges": 1, "sequence": 99})
    with opened(tmp_path) as sandbox:
        assert sorted(row_ids(sandbox)) == sorted(
            ["config", "state", f"callback {delivery['id']}", f"static_charge_expiry {static.id}"]
        )
        before = sandbox.world.store.table("world", key="id").existing("config")
        sandbox.run()
        assert sorted(row_ids(sandbox)) == ["config", "state"]
        assert sandbox.world.store.table("world", key="id").existing("config") is before, "it is written once"


def test_the_faults_of_an_attempt_are_reported_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as sandbox:
        sandbox.faults.add("bad_signature")
        sandbox.faults.add("delay", delay="10s", attempt=2)
        sandbox.charges.create(amount="1000", description="tea", expiresIn=30, callbackUrl="http://down.localhost/")
        sandbox.advance("1m")
        reported = listed(sandbox.ask, "/sandbox/v1/deliveries")
        first, second = reported[0]["attempts"]
        assert (first["fault"], second["fault"], second["sent"]) == ("bad_signature", "delay", None)
        assert first["sent"][0]["headers"]["webhook-signature"] != first["headers"]["webhook-signature"]
    with opened(tmp_path) as sandbox:
        assert listed(sandbox.ask, "/sandbox/v1/deliveries") == reported


def test_a_directory_that_was_reset_keeps_its_first_seed(tmp_path: Path) -> None:
    with Sandbox(seed=5, start=START, data=tmp_path) as sandbox:
        sandbox.world.reset(seed=6, start_ms=parse_iso("2031-01-01T09:00:00Z"))
    with Sandbox(seed=5, start=START, data=tmp_path) as sandbox:
        assert (sandbox.world.config.seed, sandbox.now) == (6, "2031-01-01T09:00:00.000Z")
        sandbox.world.reset()
        assert sandbox.world.config.seed not in (5, 6)
        assert sandbox.now == "2031-01-01T09:00:00.000Z"
    with pytest.raises(StoreError, match="created with seed 5: leave seed out"):
        Sandbox(seed=6, data=tmp_path)


def test_a_directory_keeps_its_seed_and_its_start(tmp_path: Path) -> None:
    with Sandbox(seed=5, start=START, data=tmp_path) as sandbox:
        first = sandbox.charges.create(amount="1000", description="tea")
        sandbox.advance("1h")
    with Sandbox(data=tmp_path) as sandbox:
        assert sandbox.world.config.seed == 5
        assert sandbox.now == "2030-01-01T10:00:00.000Z"
        assert sandbox.charges.create(amount="1000", description="tea").id != first.id
    with Sandbox(seed=5, start=START, data=tmp_path) as sandbox:
        assert len(sandbox.charges) == 2
    with pytest.raises(StoreError, match="created with seed 5: leave seed out"):
        Sandbox(seed=0, data=tmp_path)
    with pytest.raises(StoreError, match=f"created with start {START[:-1]}.000Z: leave start out"):
        Sandbox(start="2031-01-01T00:00:00Z", data=tmp_path)
    Sandbox(data=tmp_path).close()  # a refusal does not lock the directory


def test_requests_refused_before_a_restart_consume_no_random_numbers(tmp_path: Path) -> None:
    with opened(tmp_path) as sandbox, opened() as steady:
        for one in (sandbox, steady):
            assert "minAmount" in act(one, ("refuse_static",))
    with opened(tmp_path) as sandbox, opened() as steady:
        action = ("create", 1_000, 60, None)
        assert act(sandbox, action) == act(steady, action)


# A running clock


class ManualRealClock:
    """A real clock that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 5_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def live(data: Path, real_clock: Callable[[], int], rate: float = 1) -> World:
    plan = world_config(seed=3, start_ms=1_893_456_000_000, rate=rate, real_clock=real_clock)
    return World(plan, Store.open(data), control_handlers=control_handlers)


def create(world: World, expires_in: int) -> str:
    body = orjson.dumps({"amount": "1000", "description": "tea", "expiresIn": expires_in})
    headers = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
    charge_id: str = orjson.loads(send_request(world.app, "POST", "/v0/charges", headers, body).body)["data"]["id"]
    return charge_id


def test_events_due_while_closed_run_in_order_at_their_due_times(tmp_path: Path) -> None:
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock)
    start = world.clock.now()
    late, soon, far = create(world, 60), create(world, 30), create(world, 3_600)
    real_clock.now_ms += 10_000
    world.move(lambda clock: clock.catch_up())
    world.store.close()
    real_clock.now_ms += 100_000

    world = live(tmp_path, real_clock)
    fired = world.catch_up()

    assert [(event.key, event.at_ms - start) for event in fired] == [(soon, 30_000), (late, 60_000)]
    assert world.clock.now() - start == 110_000
    assert [row["status"] for row in world.service.charges.charges] == ["expired", "expired", "pending"]
    assert world.clock.next_due() == start + 3_600_000
    assert world.service.charges.charges.existing(far)["status"] == "pending"
    world.store.close()


def test_a_clock_closed_during_catch_up_continues_it_after_a_restart(tmp_path: Path) -> None:
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock)
    start = world.clock.now()
    create(world, 30)
    world.store.close()
    real_clock.now_ms += 3_600_000

    world = live(tmp_path, real_clock)
    world.clock.run_events(1)  # only the expiry: the rest of the hour is still to come
    world.store.close()
    real_clock.now_ms += 1_000

    world = live(tmp_path, real_clock)
    world.catch_up()
    assert to_iso(world.clock.now()) == to_iso(start + 3_601_000)
    world.store.close()


@pytest.mark.parametrize("rate", [0.5, 1, 60])
def test_the_rate_is_stored_and_applies_while_the_directory_is_closed(tmp_path: Path, rate: float) -> None:
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock, rate)
    create(world, 3_600)
    start = world.clock.now()
    world.store.close()
    with Store.open(tmp_path) as store:
        assert World.saved(store)["rate"] == rate
    real_clock.now_ms += 10_000
    world = live(tmp_path, real_clock, rate)
    assert world.clock.now() - start == 10_000 * rate
    world.store.close()


def test_a_directory_with_the_former_clock_rows_continues(tmp_path: Path) -> None:
    """Former rows have the real time instead of a time base, and no given start."""
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock)
    create(world, 3_600)
    now = world.clock.now()
    world.store.close()
    store = Store.open(tmp_path)
    rows = store.table("world", key="id")
    config, state = rows.existing("config"), rows.existing("state")
    for row in (config, state):
        rows.delete(row["id"])
    rows.put({"id": "plan", "start": config["start_ms"], **{name: config[name] for name in ("seed", "given_seed")}})
    rows.put({"id": "present", "wall": real_clock(), **{name: state[name] for name in ("now", "rate", "streams")}})
    store.close()
    real_clock.now_ms += 100_000
    world = live(tmp_path, real_clock)
    assert world.clock.now() == now + 100_000
    saved = World.saved(world.store)
    assert saved is not None
    assert saved["given_start_ms"] == saved["start_ms"] == world.config.start_ms
    world.store.close()


def test_a_new_rate_applies_from_the_restart_and_time_while_closed_passes_at_the_old_one(tmp_path: Path) -> None:
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock, rate=2)
    start = world.clock.now()
    create(world, 3_600)
    world.store.close()
    real_clock.now_ms += 10_000
    world = live(tmp_path, real_clock, rate=60)
    assert world.clock.now() - start == 20_000
    real_clock.now_ms += 1_000
    assert world.clock.now() - start == 80_000
    world.store.close()


@pytest.mark.parametrize("rate", [0.3, 7, 1_000])
def test_a_clock_closed_at_an_event_continues_as_an_uninterrupted_one(tmp_path: Path, rate: float) -> None:
    real_clock = ManualRealClock()
    steady, other = live(tmp_path / "steady", real_clock, rate), live(tmp_path / "other", real_clock, rate)
    for world in (steady, other):
        create(world, 1)
        body = orjson.dumps({"by": 0.123})
        headers = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
        send_request(world.app, "POST", "/sandbox/v1/clock/advance", headers, body)
    real_clock.now_ms += 60_001
    assert (
        len(steady.move(lambda clock: clock.run_events(1))) == len(other.move(lambda clock: clock.run_events(1))) == 1
    )
    other.store.close()
    other = live(tmp_path / "other", real_clock, rate)
    for span_ms in (0, 1, 12_345):
        real_clock.now_ms += span_ms
        assert other.clock.now() == steady.clock.now()
    steady.store.close()
    other.store.close()


def test_a_paused_clock_adds_no_time_while_closed(tmp_path: Path) -> None:
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock, rate=0)
    create(world, 60)
    start = world.clock.now()
    world.store.close()
    real_clock.now_ms += 3_600_000
    for rate in (0, 1):
        world = live(tmp_path, real_clock, rate)
        assert (world.clock.now(), world.catch_up()) == (start, [])
        world.store.close()


def test_a_real_clock_that_was_set_back_does_not_move_virtual_time_back(tmp_path: Path) -> None:
    real_clock = ManualRealClock()
    world = live(tmp_path, real_clock)
    first = create(world, 60)
    real_clock.now_ms += 50_000
    world.move(lambda clock: clock.catch_up())
    seen = world.clock.now()
    real_clock.now_ms -= 86_400_000  # while the sandbox runs
    assert world.clock.now() == seen
    create(world, 60)
    world.store.close()
    real_clock.now_ms -= 86_400_000  # and while it is closed

    world = live(tmp_path, real_clock)
    assert (world.clock.now(), world.catch_up()) == (seen, [])
    real_clock.now_ms += 10_000
    assert [event.key for event in world.catch_up()] == [first]
    assert world.clock.now() == seen + 10_000
    world.store.close()


def test_a_new_key_changes_neither_time_nor_random_streams(tmp_path: Path) -> None:
    with opened(tmp_path) as sandbox:
        sandbox.charges.create(amount="1000", description="tea")
        sandbox.advance("1h")
        known = World.saved(sandbox.world.store)
    with Sandbox(data=tmp_path, api_key="another") as sandbox:
        assert World.saved(sandbox.world.store) == known
        assert len(sandbox.charges) == 1, "both keys open the same project"


# The command


def test_a_second_server_on_a_directory_is_one_clear_line(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)) as client:
        done = run_command("serve", "--port", "0", "--data", str(tmp_path))
        assert client("GET", "/v0/charges")[0] == 200
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert str(tmp_path) in line
    assert "is in use by process" in line
    assert "choose another directory" in line


def test_a_directory_of_a_newer_version_is_one_clear_line_and_is_not_changed(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)):
        pass
    [journal] = tmp_path.rglob("*.journal")
    journal.write_bytes(encode_line(orjson.dumps({"format": FORMAT, "version": VERSION + 1}), 0)[0])
    before = journal.read_bytes()
    done = run_command("serve", "--port", "0", "--data", str(tmp_path))
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert str(journal) in line
    assert "newer Leyden" in line
    assert journal.read_bytes() == before


def test_a_server_continues_after_the_system_clock_was_set_back(tmp_path: Path) -> None:
    tomorrow = time.time_ns() // 1_000_000 + 86_400_000
    world = live(tmp_path / hashlib.sha256(b"leyden").hexdigest()[:16], lambda: tomorrow)
    late, soon = create(world, 3_600), create(world, 1)
    left = world.clock.now()
    world.store.close()
    with served_leyden("--data", str(tmp_path), "--rate", "100") as client:
        for _ in range(2_000):
            if client.ok("GET", f"/v0/charges/{soon}")["data"]["status"] == "expired":
                break
            time.sleep(0.005)
        else:
            pytest.fail("a running clock is paused")
        now = parse_iso(client.ok("GET", "/sandbox/v1/clock")["now"])
        assert left + 1_000 <= now < left + 3_600_000
        assert client.ok("GET", f"/v0/charges/{late}")["data"]["status"] == "pending"
