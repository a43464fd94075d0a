"""A live clock that a crash stops in the middle of a move: the next start continues from the instant that was shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest

from leyden.devserver.clock_changes import opened_texts
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.world import World

START_MS = 1_893_456_000_000
HEADERS = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))


def open_world(directory: Path, real_ms: list[int], rate: float) -> World:
    config = world_config(seed=3, start_ms=START_MS, rate=rate, real_clock=lambda: real_ms[0])
    return World(config, Store.open(directory))


@pytest.mark.parametrize("rate", [0.5, 1, 60])
def test_a_crash_in_the_middle_of_a_move_is_no_change_of_the_system_clock(tmp_path: Path, rate: float) -> None:
    real_ms = [START_MS]
    world = open_world(tmp_path / "data", real_ms, rate)
    for seconds in (10, 20):
        body = {"amount": "1000", "description": "tea", "expiresIn": seconds}
        assert send_request(world.app, "POST", "/v0/charges", HEADERS, orjson.dumps(body)).status == 200
    copies: list[Path] = []

    def copy() -> bool:
        copies.append(tmp_path / f"copy{len(copies)}")
        shutil.copytree(tmp_path / "data", copies[-1])
        return False

    world.clock.run_slice(START_MS + 30_000, copy)
    world.store.close()
    assert len(copies) == 2
    for directory, instant_ms in zip(copies, (START_MS + 10_000, START_MS + 20_000), strict=True):
        real_ms[0] = START_MS
        with Store.open(directory) as store:
            saved = World.saved(store)
        assert saved is not None
        assert saved["now"] == instant_ms
        assert opened_texts(saved, rate, START_MS) == []
        [text] = opened_texts(saved, rate, START_MS - 2_000)
        assert text.startswith("the system clock is 2 seconds earlier than when the sandbox was used last")
        real_ms[0] += 4_000
        again = open_world(directory, real_ms, rate)
        again.clock.catch_up()
        assert again.clock.now() == instant_ms + 4_000 * rate
        again.store.close()


DAY_MS = 86_400_000


def pending_with(directory: Path, real_ms: list[int], seconds: int) -> str:
    """The id of a Charge that expires after so many seconds, in a stored sandbox that runs at the system clock."""
    world = open_world(directory, real_ms, 1)
    body = {"amount": "1000", "description": "tea", "expiresIn": seconds}
    answer = send_request(world.app, "POST", "/v0/charges", HEADERS, orjson.dumps(body))
    world.store.close()
    return str(orjson.loads(answer.body)["data"]["id"])


def status_of(world: World, charge: str) -> str:
    answer = send_request(world.app, "GET", f"/v0/charges/{charge}", HEADERS)
    return str(orjson.loads(answer.body)["data"]["status"])


@pytest.mark.parametrize("wrong_ms", [-20_000 * DAY_MS, -2 * DAY_MS])
def test_a_system_clock_that_was_behind_for_one_run_does_not_let_open_charges_expire(
    tmp_path: Path, wrong_ms: int
) -> None:
    directory, real_ms = tmp_path / "data", [START_MS]
    charge = pending_with(directory, real_ms, 3_600)
    real_ms[0] = START_MS + wrong_ms
    wrong = open_world(directory, real_ms, 1)
    for _ in range(2):
        wrong.clock.catch_up()
        real_ms[0] += 60_000
    wrong.keep_time()
    wrong.store.close()
    real_ms[0] = START_MS + 120_000
    with Store.open(directory) as store:
        saved = World.saved(store)
    assert saved is not None
    [text] = opened_texts(saved, 1, real_ms[0])
    assert "ahead of the system clock, which has passed it since: it was set forward by 1 minute to the system" in text
    right = open_world(directory, real_ms, 1)
    right.clock.catch_up()
    assert right.clock.now() == real_ms[0]
    assert status_of(right, charge) == "pending"
    real_ms[0] = START_MS + 3_600_000
    right.clock.catch_up()
    assert status_of(right, charge) == "expired"
    right.store.close()


@pytest.mark.parametrize(
    ("ahead_ms", "stopped_ms", "shown_ms"),
    [
        (DAY_MS, DAY_MS - 1, 2 * DAY_MS - 1),
        (DAY_MS, DAY_MS, DAY_MS),
        (DAY_MS - 1, 3 * DAY_MS, 4 * DAY_MS - 1),
        (30 * DAY_MS, 31 * DAY_MS, 31 * DAY_MS),
    ],
)
def test_a_clock_that_is_a_day_ahead_follows_the_system_clock_once_that_has_passed_it(
    tmp_path: Path, ahead_ms: int, stopped_ms: int, shown_ms: int
) -> None:
    real_ms = [START_MS]
    world = open_world(tmp_path / "data", real_ms, 1)
    world.clock.advance(ahead_ms)
    world.keep_time()
    world.store.close()
    real_ms[0] += stopped_ms
    again = open_world(tmp_path / "data", real_ms, 1)
    again.clock.catch_up()
    assert again.clock.now() == START_MS + shown_ms
    again.store.close()
