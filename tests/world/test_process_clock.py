"""A sandbox on the clock of the process: freezing time in a test also moves the sandbox."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from urllib.request import Request, urlopen

import orjson
import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.system.clock import SystemClock, stopwatch
from leyden.server.timestamps import parse_iso, to_iso

NINE = "2030-01-01 09:00:00"
HOOK = "http://shop.localhost/paid"
MS = timedelta(milliseconds=1)


def test_the_sandbox_starts_at_the_current_process_time() -> None:
    with freeze_time("2030-01-01 09:00:00.250"), Sandbox(clock="process") as sandbox:
        assert sandbox.now == "2030-01-01T09:00:00.250Z"


@pytest.mark.parametrize(("late_ms", "status"), [(-1, "pending"), (0, "expired"), (1, "expired")])
def test_a_charge_expires_at_its_expiry_and_not_a_millisecond_earlier(late_ms: int, status: str) -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        assert charge.created_at == datetime.now(UTC)
        frozen.tick(timedelta(seconds=60) + late_ms * MS)
        assert charge.status == status
        assert (datetime.now(UTC) >= charge.expires_at) == (status == "expired")


@pytest.mark.parametrize(("late_ms", "outcome"), [(-1, "SUCCEEDED"), (0, "INCORRECT_PAYMENT_DETAILS")])
def test_a_payment_succeeds_until_the_last_millisecond(late_ms: int, outcome: str) -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        frozen.tick(timedelta(seconds=60) + late_ms * MS)
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run()
        assert payment.outcome == outcome


def test_after_a_time_jump_events_run_in_order_at_their_due_times() -> None:
    with freeze_time(NINE) as frozen, Sandbox(seed=7, clock="process") as sandbox:
        sandbox.receiver("shop").answers([500, 500, 500])
        first = sandbox.charges.create(amount="1000", description="first", expiresIn=60, callbackUrl=HOOK)
        second = sandbox.charges.create(amount="1000", description="second", expiresIn=30, callbackUrl=HOOK)
        frozen.tick(timedelta(days=3))
        fired = sandbox.run()
        assert [event.at_ms for event in fired] == sorted(event.at_ms for event in fired)
        start = parse_iso("2030-01-01T09:00:00Z")
        expiries = [(event.at_ms - start, event.key) for event in fired if event.kind == "charge_expiry"]
        assert expiries == [(30_000, second.id), (60_000, first.id)]
        posts = sandbox.receiver("shop").inbox
        assert [post.answer for post in posts] == [500, 500, 500, 200, 200]
        assert [post.at for post in posts] == sorted(post.at for post in posts)
        assert sandbox.now == "2030-01-04T09:00:00.000Z"


def test_following_the_process_clock_equals_advancing() -> None:
    with freeze_time(NINE) as frozen, Sandbox(seed=7, clock="process") as followed:
        followed.receiver("shop").answers([500, "timeout"])
        followed.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        frozen.tick(timedelta(hours=5))
        followed.run()
        followed_posts = [(post.at, post.body, post.answer) for post in followed.receiver("shop").inbox]
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z") as moved:
        moved.receiver("shop").answers([500, "timeout"])
        moved.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        moved.advance("5h")
        assert [(post.at, post.body, post.answer) for post in moved.receiver("shop").inbox] == followed_posts


def test_a_read_first_runs_the_events_that_are_due() -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        payment, shop = sandbox.wallet("ana").pay(charge, delay="5s"), sandbox.receiver("shop")
        frozen.tick(timedelta(seconds=5))
        assert payment.outcome == "SUCCEEDED"
        assert [got.event for got in shop.inbox] == ["charge.completed"]
        late = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        frozen.tick(timedelta(seconds=60))
        assert [got.event for got in shop.inbox] == ["charge.completed", "charge.expired"]
        assert late.status == "expired"


def test_run_advances_to_the_current_time_and_no_further() -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        assert sandbox.run() == []
        frozen.tick(timedelta(seconds=1))
        assert sandbox.run() == []
        assert (charge.status, sandbox.now) == ("pending", "2030-01-01T09:00:01.000Z")


def test_the_sandbox_waits_for_a_clock_that_was_set_back() -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        frozen.tick(timedelta(seconds=10))
        assert sandbox.now == "2030-01-01T09:00:10.000Z"
        frozen.move_to(NINE)
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=5)
        assert sandbox.now == "2030-01-01T09:00:10.000Z"
        frozen.tick(timedelta(milliseconds=14_999))
        assert (charge.status, sandbox.now) == ("pending", "2030-01-01T09:00:14.999Z")
        frozen.tick(MS)
        assert (charge.status, sandbox.now) == ("expired", "2030-01-01T09:00:15.000Z")


def test_an_advanced_sandbox_stays_ahead_by_the_same_time() -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        sandbox.advance("1h")
        frozen.tick(timedelta(minutes=1))
        assert sandbox.now == "2030-01-01T10:01:00.000Z"


def test_a_sandbox_without_freezegun_runs_in_real_time() -> None:
    with Sandbox(clock="process") as sandbox:
        before, shown, after = SystemClock().now(), parse_iso(sandbox.now), SystemClock().now()
        assert before <= shown <= after


def test_a_time_zone_given_to_freezegun_changes_nothing() -> None:
    with freeze_time(NINE, tz_offset=-4), Sandbox(clock="process") as sandbox:
        assert sandbox.now == "2030-01-01T09:00:00.000Z"


def test_frozen_time_applies_to_everything_except_the_event_loop() -> None:
    async def shop() -> str:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        await asyncio.sleep(0.001)
        frozen.tick(timedelta(seconds=60))
        status: str = charge.status
        return status

    with freeze_time(NINE, real_asyncio=True) as frozen, Sandbox(clock="process") as sandbox:
        assert asyncio.run(shop()) == "expired"


def test_a_served_sandbox_follows_the_process_clock() -> None:
    with freeze_time(NINE, real_asyncio=True) as frozen, Sandbox(clock="process") as sandbox:
        url = sandbox.serve()
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        statuses = []
        for seconds in (59, 1):
            frozen.tick(timedelta(seconds=seconds))
            with urlopen(Request(f"{url}/v0/charges/{charge.id}", headers={"apikey": "leyden"}), timeout=10) as answer:
                statuses.append(orjson.loads(answer.read())["data"]["status"])
        assert statuses == ["pending", "expired"]


def test_a_fork_follows_the_process_clock() -> None:
    with freeze_time(NINE) as frozen, Sandbox(clock="process") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        frozen.tick(timedelta(seconds=5))
        fork = sandbox.fork()
        frozen.tick(timedelta(seconds=55))
        assert (fork.now, fork.charges[charge.id].status) == (sandbox.now, "expired")


def test_other_sandboxes_are_not_affected() -> None:
    with freeze_time(NINE) as frozen, Sandbox() as sandbox:
        frozen.tick(timedelta(days=1))
        assert sandbox.now == "2030-01-01T00:00:00.000Z"


def test_a_sandbox_in_a_directory_catches_up_with_the_process_clock(tmp_path: object) -> None:
    with freeze_time(NINE) as frozen:
        with Sandbox(clock="process", data=str(tmp_path)) as sandbox:
            charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        frozen.tick(timedelta(hours=1))
        with Sandbox(clock="process", data=str(tmp_path)) as sandbox:
            assert (sandbox.charges[charge.id].status, sandbox.now) == ("expired", "2030-01-01T10:00:00.000Z")


@pytest.mark.parametrize(("how", "words"), [({"clock": "wall"}, "virtual"), ({"start": NINE + "Z"}, "leave start out")])
def test_options_that_conflict_with_the_process_clock_are_refused(how: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Sandbox(**{"clock": "process", **how})  # type: ignore[arg-type]


@given(st.integers(0, 2**32 * 1_000_000 - 1))
def test_the_process_clock_is_read_in_milliseconds(since_us: int) -> None:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_us)
    with freeze_time(instant):
        exact = since_us // 1_000
        assert to_iso(SystemClock().now()) == to_iso(exact)


def test_the_monotonic_clock_goes_forward() -> None:
    elapsed_s = stopwatch()
    assert 0 <= elapsed_s() <= elapsed_s()
