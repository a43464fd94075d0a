"""A forked process of `leyden` behaves like one that Python has started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import forked
from tests.support.forked import ROOT, ForkedProcess, forked_leyden
from tests.support.served import Client


@pytest.mark.parametrize("words", [["version"], ["no-such-command"], ["serve", "--port", "x"], ["table"]], ids=str)
def test_it_prints_the_same_and_ends_with_the_same_status(words: list[str]) -> None:
    command = [sys.executable, "-m", "leyden", *words]
    started = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    process = forked_leyden(*words)
    assert process.communicate(timeout=60) == (started.stdout, started.stderr)
    assert process.poll() == process.wait() == started.returncode


def test_it_has_the_present_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEYDEN_URL", "http://leyden.test:1")
    printed, said = forked_leyden("clock").communicate(timeout=60)
    assert printed == ""
    assert "leyden.test:1" in said


def test_python_is_started_where_its_own_variables_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONHASHSEED", "7")
        process = forked_leyden("version")
        assert isinstance(process, subprocess.Popen)
        assert process.communicate(timeout=60)[0].startswith("leyden ")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are forked on Linux only")
def test_a_parent_that_another_process_has_ended_is_started_again() -> None:
    before = forked_leyden("version")
    assert before.communicate(timeout=60)[0].startswith("leyden ")
    parent = forked._parents[os.getpid()]
    parent._process.kill()
    parent._process.wait()
    process = forked_leyden("version")
    assert process.communicate(timeout=60)[0].startswith("leyden ")
    assert isinstance(before, ForkedProcess)
    assert isinstance(process, ForkedProcess)
    assert forked._parents[os.getpid()] is not parent


def test_two_servers_have_seeds_of_their_own_and_end_by_their_signals() -> None:
    processes = [forked_leyden("serve", "--port", "0") for _ in range(2)]
    try:
        seeds = set()
        for process in processes:
            assert process.stdout is not None
            seeds.add(Client(process.stdout.readline().split()[-1]).ok("GET", "/sandbox/v1")["seed"])
        assert len(seeds) == 2
        for process, signal_name in zip(processes, ("terminate", "kill"), strict=True):
            assert process.poll() is None
            getattr(process, signal_name)()
        assert [process.wait(20) for process in processes] == [0, -9]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_one_that_does_not_end_in_time_is_killed() -> None:
    process = forked_leyden("serve", "--port", "0")
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.01)
    process.kill()
    process.communicate()
    if isinstance(process, ForkedProcess):
        assert process.wait() == -9
