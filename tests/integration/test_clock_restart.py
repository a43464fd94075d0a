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
