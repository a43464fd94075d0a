"""A signal to stop interrupts the program, wherever it arrives."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("where", ["collector", "weak reference", "program"])
def test_a_signal_within_a_callback_of_python_interrupts_the_program(where: str, number: str) -> None:
    program = PROGRAM.format(where=where, number=number)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
