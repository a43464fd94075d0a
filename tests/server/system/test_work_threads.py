"""Long work in threads: how much of it runs at a time, and the garbage collector meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading

from leyden.server.gc_pause import gc_in_parts, gc_paused
from leyden.server.system.work_threads import MOST_AT_A_TIME, run_in_thread


def test_so_much_work_runs_at_a_time_and_the_rest_waits_for_its_turn() -> None:
    lock, full = threading.Lock(), threading.Barrier(MOST_AT_A_TIME, timeout=10)
    running, most = 0, 0

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait()  # as many as may run do
        with lock:
            running -= 1
        full.wait()

    async def scenario() -> None:
        await asyncio.gather(*[run_in_thread(work) for _ in range(3 * MOST_AT_A_TIME)])

    asyncio.run(scenario())
    assert most == MOST_AT_A_TIME


def test_the_collector_is_paused_until_the_last_of_several_pauses_ends() -> None:
    assert gc.isenabled()
    first, second = gc_paused(), gc_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_work_in_a_thread_makes_no_objects_that_the_collector_examines_at_once() -> None:
    thresholds, passes = gc.get_threshold(), list[int]()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            passes.append(info["generation"])

    def work() -> list[list[int]]:
        with gc_paused():
            assert gc.isenabled()
            return [[number] for number in range(30 * thresholds[0])]

    gc.callbacks.append(note)
    try:
        asyncio.run(run_in_thread(work))
    finally:
        gc.callbacks.remove(note)
    assert len(passes) >= 25
    assert 2 not in passes
    assert gc.get_threshold() == thresholds


def test_the_collector_is_as_before_after_the_last_of_several_times_in_parts() -> None:
    thresholds = gc.get_threshold()
    first, second = gc_in_parts(), gc_in_parts()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[:2] == thresholds[:2]
    assert gc.get_threshold()[2] > thresholds[2]
    with gc_paused(freeze=True):
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.unfreeze()
    second.__exit__(None, None, None)
    assert gc.get_threshold() == thresholds
