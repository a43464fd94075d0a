"""A signal to stop interrupts the program, wherever it arrives."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.served import Client

PROGRAM = """
import gc, os, signal, sys, time, weakref
from leyden.server.system.stop_signals import interrupt_on_stop_signals

class Row: ...

def stop(*_):
    os.kill(os.getpid(), signal.{number})
    for _ in range(1000): pass

interrupt_on_stop_signals()
row = Row()
try:
    if "{where}" == "collector":
        gc.callbacks.append(lambda phase, _: stop() if phase == "stop" else None)
        gc.collect()
        gc.callbacks.clear()
    elif "{where}" == "weak reference":
        seen = weakref.ref(row, stop)
        del row
    else:
        stop()
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted")
"""


def hangup(handler: signal.Handlers) -> Callable[[], object]:
    """For a process that starts: a terminal that is closed ends it, or does not, as below `nohup`."""
    return lambda: signal.signal(signal.SIGHUP, handler)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("where", ["collector", "weak reference", "program"])
def test_a_signal_within_a_callback_of_python_interrupts_the_program(where: str, number: str) -> None:
    program = PROGRAM.format(where=where, number=number)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=hangup(signal.SIG_DFL),
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_server_whose_terminal_is_closed_ends_but_not_below_nohup(is_ignored: bool, tmp_path: Path) -> None:
    ready, pid = tmp_path / "ready", tmp_path / "pid"
    command = [
        sys.executable,
        "-m",
        "leyden",
        "serve",
        "--port",
        "0",
        "--ready-file",
        str(ready),
        "--pid-file",
        str(pid),
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=hangup(signal.SIG_IGN if is_ignored else signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            while not ready.exists():
                time.sleep(0.01)
            process.send_signal(signal.SIGHUP)
            if is_ignored:
                assert Client(url)("GET", "/v0/charges")[0] == 200
                process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []
