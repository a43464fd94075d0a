"""Interrupts (Ctrl-C, the stop button of a notebook) and exceptions of code from outside leave a sandbox between two
events: with a script that repeats it, and able to continue as one that nothing stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import leyden
from leyden import Sandbox
from leyden.lightning.payer.payments import Payments
from leyden.server.callbacks.outbox import Outbox
from leyden.world import interrupts as module
from leyden.world.event_journal import HashedEventJournal
from leyden.world.interrupts import interrupts
from tests.support.deep import deep, deep_except, deep_or

# The folders of the packages, under whatever name they are found.
SOURCES = tuple(
    str(Path(str(folder)).resolve())
    for package in (leyden, leyden.server)
    for folder in package.__path__  # type: ignore[attr-defined]
)


EDGE = deep_or(bounded=2, full=8)  # the first instants, and two more of the last ones
MORE = deep_or(bounded=3, full=6, random=100)  # instants between these


class Stopped(BaseException):
    """Raised within an event. No request answers 500 to it."""


Act = Callable[[Sandbox], object]


def shop(**options: Any) -> Sandbox:
    """A sandbox in which there is something to run: payments, callbacks with a retry, customers, an expiry."""
    sandbox = Sandbox(seed=3, **options)
    sandbox.receiver("shop").answers([500, "timeout", 200])
    charge = sandbox.charges.create(
        amount="250000", description="tea", expiresIn=60, callbackUrl="http://shop.localhost/paid"
    )
    sandbox.charges.create(amount="1000", description="late", expiresIn=5, callbackUrl="http://shop.localhost/late")
    sandbox.static_charges.create(minAmount="1000", maxAmount="5000000", description="tips")
    sandbox.wallet("ana").pay(charge)
    sandbox.traffic("60/min", count=3, callbackUrl="http://shop.localhost/traffic")
    return sandbox


def state(sandbox: Sandbox) -> dict[str, Any]:
    """Everything that a sandbox is: rows, timers, random streams, inboxes, network and journal."""
    snapshot = sandbox.snapshot()
    del snapshot["action_log"]  # of a run that was stopped it has two actions
    return snapshot


def repeated(sandbox: Sandbox) -> Sandbox:
    """The sandbox that the script creates."""
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    created: Sandbox = names["sb"]
    return created


@contextmanager
def signal_at(
    number: int, *, opcodes: bool = False, calls: Sequence[int] = (), sent: int = signal.SIGINT
) -> Iterator[tuple[list[int], list[int]]]:
    """Send SIGINT, or another signal, to this process at the line (or instruction) of Leyden with this number, counted
    inside the block; 0 sends none. Yields two lists: one item, the lines so far; and the lines before each call of a
    function of Leyden.

    `calls`, the second list of an earlier block, leaves out the tracing of the calls that end before that line: only
    the last call before it, those that contain it, and what follows are traced.
    """
    counted = "opcode" if opcodes else "line"
    skipped = max(bisect_left(calls, number) - 1, 0)
    lines, seen = [calls[skipped] if calls else 0], list[int]()

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        if event == counted:
            lines[0] += 1
            if lines[0] == number:
                signal.raise_signal(sent)
        return count

    def observe(frame: FrameType) -> None:
        frame.f_trace_lines, frame.f_trace_opcodes = not opcodes, opcodes

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        seen.append(lines[0])
        if len(seen) <= skipped:
            return None
        if len(seen) == skipped + 1:
            outer = frame.f_back
            while outer is not None:
                if outer.f_code.co_filename.startswith(SOURCES):
                    observe(outer)
                    outer.f_trace = count
                outer = outer.f_back
        observe(frame)
        return count

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield lines, seen
    finally:
        sys.settrace(before)


def interrupted(
    act: Act,
    sandbox: Sandbox,
    number: int,
    *,
    opcodes: bool = False,
    calls: Sequence[int] = (),
    sent: int = signal.SIGINT,
) -> bool:
    """Whether `act` was interrupted at this line."""
    try:
        with signal_at(number, opcodes=opcodes, calls=calls, sent=sent):
            act(sandbox)
    except KeyboardInterrupt:
        return True
    return False


def points(act: Act, sandbox: Sandbox, count: int, *, opcodes: bool = False) -> tuple[list[int], list[int]]:
    """Some lines of `act`: the first and last ones, and others between; and the lines before each call."""
    with signal_at(0, opcodes=opcodes) as (lines, calls):
        act(sandbox)
    total = lines[0]
    # Not at equal distances, which could always meet the same line of a loop.
    numbers = {
        *range(1, EDGE + 1),
        *range(total - EDGE - 1, total + 1),
        *(n * n * 7919 % total + 1 for n in range(count)),
    }
    return sorted(numbers), calls


NETWORKS = {"direct": {}, "line": {"network": "line:3"}, "scale-free": {"network": "scale-free:30"}}


@pytest.mark.parametrize("opcodes", deep_except({"lines": False, "instructions": True}, "instructions"))
@pytest.mark.parametrize("options", deep_except(NETWORKS, "direct", "line"))
def test_a_run_that_is_interrupted_at_any_line_stops_between_two_events(options: Any, opcodes: bool) -> None:
    check_runs(options, opcodes, signal.SIGINT)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no SIGALRM on this platform")
@pytest.mark.parametrize("opcodes", deep_except({"lines": False, "instructions": True}, "lines"))
def test_the_exception_of_a_time_limit_stops_a_run_between_two_events(opcodes: bool) -> None:
    """As a handler of SIGALRM raises it, such as that of pytest-timeout."""
    with handler(signal.default_int_handler, signal.SIGALRM):
        check_runs({}, opcodes, signal.SIGALRM)
        assert signal.getsignal(signal.SIGALRM) is signal.default_int_handler


def check_runs(options: Any, opcodes: bool, sent: int) -> None:
    """Interrupt a run at some of its lines: it stops between two events, and goes on as if nothing had been."""
    start = shop(**options)
    twin = start.fork("main")
    twin.run()
    end, stopped = state(twin), 0
    after_events: dict[int, Any] = {}  # the states of runs of so many events, which nothing stopped
    numbers, calls = points(lambda sandbox: sandbox.run(), start.fork("main"), MORE, opcodes=opcodes)
    for number in numbers:
        sandbox = start.fork("main")
        before = sandbox.world.clock.event_count
        interrupted(lambda sandbox: sandbox.run(), sandbox, number, opcodes=opcodes, calls=calls, sent=sent)
        ran = sandbox.world.clock.event_count - before
        if ran not in after_events:
            steady = start.fork("main")
            steady.run(events=ran)
            after_events[ran] = state(steady)
        between = after_events[ran]
        assert state(sandbox) == between, number
        assert state(repeated(sandbox)) == between, number
        stopped += sandbox.world.clock.next_due() is not None
        sandbox.run()
        assert state(sandbox) == end, number
        assert state(repeated(sandbox)) == end, number
    assert stopped > 3


MOVES: dict[str, Act] = {
    "advance": lambda sandbox: sandbox.advance("2m"),
    "advance_to": lambda sandbox: sandbox.advance_to("2030-01-01T00:02:00Z"),
    "next_event": lambda sandbox: sandbox.run("next_event"),
    "step": lambda sandbox: sandbox.step(),
    "events": lambda sandbox: sandbox.run(events=30),
    "control": lambda sandbox: sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "2m"}),
}


@pytest.mark.parametrize("move", deep_except(list(MOVES), "advance", "control"))
def test_every_move_of_time_is_recorded_as_far_as_it_went(move: str) -> None:
    start = shop()
    numbers, calls = points(MOVES[move], start.fork("main"), deep_or(bounded=2, full=6))
    for number in numbers:
        sandbox = start.fork("main")
        interrupted(MOVES[move], sandbox, number, calls=calls)
        assert state(repeated(sandbox)) == state(sandbox), number
        sandbox.run()
        assert state(repeated(sandbox)) == state(sandbox), number


CREATE = {"amount": "1000", "description": "tea", "expiresIn": 60}
ACTIONS: dict[str, Act] = {
    "create": lambda sandbox: sandbox.charges.create(**CREATE),
    "pay": lambda sandbox: sandbox.wallet("bob").pay(next(iter(sandbox.charges))),
    "scan": lambda sandbox: sandbox.wallet("bob").scan(next(iter(sandbox.static_charges)), amount=2_000),
    "http": lambda sandbox: sandbox.http.post("/v0/charges", json=CREATE),
    "traffic": lambda sandbox: sandbox.traffic("30/min", count=2),
    "answers": lambda sandbox: sandbox.receiver("shop").answers([500]),
    "fault": lambda sandbox: sandbox.faults.add("drop"),
    "fail": lambda sandbox: next(iter(sandbox.charges)).fail(),
}


@pytest.mark.parametrize("action", deep_except(list(ACTIONS), "create", "pay", "traffic", "fail"))
def test_an_action_that_is_interrupted_has_happened_and_is_recorded_or_neither(action: str) -> None:
    start = shop()
    _ = start.http  # the client is made once
    after = start.fork("main")
    ACTIONS[action](after)
    states = (state(start), state(after))
    numbers, calls = points(ACTIONS[action], start.fork("main"), MORE)
    for number in numbers:
        sandbox = start.fork("main")
        interrupted(ACTIONS[action], sandbox, number, calls=calls)
        assert state(sandbox) in states, number
        assert state(repeated(sandbox)) == state(sandbox), number
        sandbox.run()  # nothing is locked, and no commit is open
        assert state(repeated(sandbox)) == state(sandbox), number


@pytest.mark.parametrize("network", ["direct", "line:3"])
def test_a_directory_continues_after_an_interrupt_as_if_there_had_been_none(tmp_path: Path, network: str) -> None:
    twin = shop(network=network)
    twin.run()
    for place in range(6):
        name = str(place)
        with shop(network=network, data=tmp_path / name) as sandbox:
            before = sandbox.world.clock.event_count
            assert interrupted(lambda sandbox: sandbox.run(), sandbox, 97 + 1_931 * place)
            ran = sandbox.world.clock.event_count - before
            if place % 2:
                sandbox.run()
                assert state(sandbox) == state(twin)
                continue
        with shop(network=network, data=tmp_path / f"{name} steady") as steady:
            steady.run(events=ran)
        # What is in flight is lost when the directory is closed, with an interrupt before and without.
        with Sandbox(data=tmp_path / name) as reopened, Sandbox(data=tmp_path / f"{name} steady") as expected:
            assert state(reopened) == state(expected)
            reopened.run()
            expected.run()
            assert state(reopened) == state(expected)


@pytest.mark.skipif(sys.platform == "win32", reason="a process interrupts itself at any instant only on POSIX")
def test_signals_at_random_instants_stop_between_two_events() -> None:
    start = shop(network="line:3")
    start.traffic("600/min", count=40)
    twin = start.fork("main")
    twin.run()
    sandbox = start.fork("main")
    stops, armed, ended = 0, False, threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    def send() -> None:
        number = 0
        while not ended.wait((number * 7919 % 13) / 1_000):
            os.kill(os.getpid(), signal.SIGINT)
            number += 1

    sender = threading.Thread(target=send)
    with handler(stop):
        sender.start()
        while sandbox.world.clock.next_due() is not None:
            try:
                armed = True
                sandbox.run()
                armed = False
            except KeyboardInterrupt:
                stops += 1
        ended.set()
        sender.join()
    assert stops
    assert state(sandbox) == state(twin)
    assert state(repeated(sandbox)) == state(twin)


KERNEL = """
import threading
from leyden import Sandbox
sb = Sandbox(seed=1)
traffic = sb.traffic("600/min", duration=None)
def watch():
    while traffic.arrived < 5: pass
    print("running", flush=True)
threading.Thread(target=watch).start()
sb.run()
"""
VERIFY = """
names = {}
exec(sb.script(), names)
twin = Sandbox(seed=1)
twin.traffic("600/min", duration=None)
twin.run(events=sb.world.clock.event_count)
assert names["sb"].journal_hash == sb.journal_hash == twin.journal_hash
sb.advance("1m"); twin.advance("1m")
assert sb.journal_hash == twin.journal_hash
print(sb.world.clock.event_count > 5)
"""


@deep("test_an_interrupted_program_ends")
def test_the_stop_button_of_a_notebook_stops_between_two_events() -> None:
    """In a kernel of Jupyter, whose cells run inside an event loop."""
    client_module = pytest.importorskip("jupyter_client.manager", reason="pip install 'leyden[dev]'")
    pytest.importorskip("ipykernel", reason="pip install 'leyden[dev]'")
    manager, client = client_module.start_new_kernel(kernel_name="python3")
    try:

        def output(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text", ""))
            if "running" in printed[-1]:
                manager.interrupt_kernel()

        printed: list[str] = []
        reply = client.execute_interactive(KERNEL, output_hook=output, timeout=120)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        printed.clear()
        reply = client.execute_interactive(VERIFY, output_hook=output, timeout=120)
        assert reply["content"]["status"] == "ok", reply["content"]
        assert printed == ["True\n"] or "".join(printed).strip() == "True"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# Handlers


@contextmanager
def handler(function: Any, number: int = signal.SIGINT) -> Iterator[None]:
    before = signal.signal(number, function)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_a_handler_that_does_not_raise_is_called_between_two_events_and_the_run_continues() -> None:
    start = shop()
    twin = start.fork("main")
    twin.run()
    calls: list[tuple[int, bool]] = []
    sandbox = start.fork("main")

    def count(number: int, frame: FrameType | None) -> None:
        calls.append((number, bool(sandbox.world.store.depth)))

    with handler(count):
        assert not interrupted(lambda sandbox: sandbox.run(), sandbox, 900)
        assert signal.getsignal(signal.SIGINT) is count
    assert calls == [(signal.SIGINT, False)]
    assert state(sandbox) == state(twin)


@pytest.mark.parametrize("action", [signal.SIG_IGN, signal.SIG_DFL], ids=["ignored", "default"])
def test_a_signal_without_a_handler_is_left_to_the_system(action: Any) -> None:
    sandbox = shop()
    with handler(action):
        if action is signal.SIG_IGN:
            with signal_at(500):
                sandbox.run()
        sandbox.step()
        assert signal.getsignal(signal.SIGINT) is action


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no SIGALRM on this platform")
def test_signals_that_wait_together_are_all_handled_although_the_first_one_raises() -> None:
    start = shop()
    twin = start.fork("main")
    twin.run()
    sandbox, calls = start.fork("main"), list[int]()

    def both(key: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGALRM)
        assert calls == []  # both wait

    def count(number: int, frame: FrameType | None) -> None:
        calls.append(number)

    sandbox.world.clock.on("own", both)
    with sandbox.world.exclusive():
        sandbox.world.clock.call_at(0, 3, "own", "")
    with handler(count, signal.SIGALRM):
        with pytest.raises(KeyboardInterrupt):
            sandbox.run()
        assert signal.getsignal(signal.SIGALRM) is count
    assert calls == [signal.SIGALRM]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sandbox.run()
    assert [one.status for one in sandbox.charges] == [one.status for one in twin.charges]


def test_a_handler_that_is_set_during_a_run_stays() -> None:
    sandbox = Sandbox()
    own = signal.default_int_handler
    with handler(lambda number, frame: None):
        sandbox.world.clock.on("own", lambda key: signal.signal(signal.SIGINT, own) and None)
        with sandbox.world.exclusive():
            sandbox.world.clock.call_at(0, 3, "own", "")
        sandbox.run()
        assert signal.getsignal(signal.SIGINT) is own


def test_a_thread_moves_time_while_the_main_thread_is_interrupted() -> None:
    sandbox, twin = shop(), shop()
    twin.run()
    thread = threading.Thread(target=sandbox.run)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert state(sandbox) == state(twin)


# Code from outside within an event


def outside(sandbox: Sandbox, call: Callable[[str], None]) -> None:
    """Set an event of the user, which changes rows, timers, random streams and the journal before it calls `call`."""
    world = sandbox.world

    def run(key: str) -> None:
        world.payments.pay(next(iter(sandbox.charges)).request, payer=key, scheduled=True)
        world.streams.stream("own").uniform()
        world.journal.note("own", key)
        call(key)

    world.clock.on("own", run)
    with world.exclusive():
        world.clock.call_at(world.clock.now() + 1_500, 3, "own", "eve")


def test_an_event_whose_code_raises_has_not_happened() -> None:
    def fail(key: str) -> None:
        raise RuntimeError("own code")

    sandbox, steady = shop(), shop()
    outside(sandbox, fail)
    outside(steady, fail)
    before = sandbox.world.clock.event_count
    for _ in range(2):
        with pytest.raises(RuntimeError, match="own code"):
            sandbox.run()
    steady.run(events=sandbox.world.clock.event_count - before)
    assert state(sandbox) == state(steady)
    assert sandbox.journal_hash == repeated(sandbox).journal_hash
    assert sandbox.now == repeated(sandbox).now


def test_code_from_outside_is_interrupted_at_once() -> None:
    reached: list[str] = []

    def wait(key: str) -> None:
        with interrupts.allowed():
            signal.raise_signal(signal.SIGINT)
            reached.append("after the interrupt")

    sandbox, steady = shop(), shop()
    outside(sandbox, wait)
    outside(steady, wait)
    before = sandbox.world.clock.event_count
    with pytest.raises(KeyboardInterrupt):
        sandbox.run()
    assert not reached
    steady.run(events=sandbox.world.clock.event_count - before)
    assert state(sandbox) == state(steady)


@pytest.mark.parametrize("network", ["direct", "line:3"])
@pytest.mark.parametrize(("part", "method"), [(HashedEventJournal, "note"), (Outbox, "_send_due"), (Payments, "_end")])
def test_an_exception_anywhere_in_an_event_leaves_no_line_of_it(
    part: type, method: str, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(part, method)
    start = shop(network=network)
    twin = start.fork("main")
    twin.run()
    for number in range(1, 30, deep_or(bounded=6, full=3)):
        sandbox = start.fork("main")
        calls = 0

        def failing(self: Any, *args: Any, _last: int = number, **named: Any) -> Any:
            nonlocal calls
            result = real(self, *args, **named)
            calls += 1
            if calls == _last:
                raise Stopped
            return result

        before = sandbox.world.clock.event_count
        with monkeypatch.context() as patched:
            patched.setattr(part, method, failing)
            try:
                sandbox.run()
            except Stopped:
                steady = start.fork("main")
                patched.setattr(part, method, real)
                steady.run(events=sandbox.world.clock.event_count - before)
                assert state(sandbox) == state(steady), number
                assert state(repeated(sandbox)) == state(steady), number
        sandbox.run()
        assert state(sandbox) == state(twin), number


def test_the_wait_for_a_receiver_on_the_network_is_interrupted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, Sandbox(seed=1, egress="loopback") as sandbox:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        sandbox.charges.create(amount="1000", description="tea", expiresIn=5, callbackUrl=url)

        def interrupt() -> None:
            with silent.accept()[0] as connection:
                connection.recv(1)
                os.kill(os.getpid(), signal.SIGINT)
                stopped.wait()

        stopped = threading.Event()
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            sandbox.run()
        threading.Timer(0.2, stopped.set).start()
        again = repeated(sandbox)  # waits for the response
        assert sandbox.callbacks["answered_at"].notna().all()
        assert again.journal_hash == sandbox.journal_hash
        thread.join()


def test_an_interrupt_of_a_change_that_hangs_is_raised_within_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "stopwatch", lambda: lambda: module.PATIENCE_S)
    sandbox = shop()
    signals: list[str] = []

    def hang(key: str) -> None:
        for word in ("first", "second", "third"):
            signals.append(word)
            signal.raise_signal(signal.SIGINT)

    outside(sandbox, hang)
    with pytest.raises(KeyboardInterrupt):
        sandbox.run()
    assert signals == ["first", "second"]
    assert "it may be half done" in caplog.text


def test_an_interrupted_program_ends(tmp_path: Path) -> None:
    """At the shell's Ctrl-C a program ends as Python ends it, without having written half an event."""
    program = (
        "import os, signal, sys\n"
        "from leyden import Sandbox\n"
        f"sb = Sandbox(seed=1, data={str(tmp_path / 'data')!r})\n"
        "sb.traffic('600/min', count=50)\n"
        "sb.world.clock.on('own', lambda key: os.kill(os.getpid(), signal.SIGINT))\n"
        "with sb.world.exclusive(): sb.world.clock.call_at(sb.world.clock.now() + 2000, 3, 'own', '')\n"
        "sb.run()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "KeyboardInterrupt" in done.stderr
    with Sandbox(data=tmp_path / "data") as sandbox:
        assert 0 < len(sandbox.charges) < 50


# Interrupts the import of a package: Ctrl-C at its first module that is found.
INTERRUPTED_IMPORT = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from leyden import Sandbox

class Interrupting(MetaPathFinder):
    done = False
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1] and not self.done:
            self.done = True
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sandbox = Sandbox(seed=7)
sandbox.charges.create(amount="1000", description="tea")
call = {"spill": lambda: sandbox.run("10m", spill=sys.argv[3]), "table": lambda: sandbox.charges.table,
        "diff": lambda: sandbox.diff(sandbox)}[sys.argv[2]]
try:
    call()
except KeyboardInterrupt:
    print("interrupted")
call()
"""


NUMPY = "numpy._core.multiarray" if int(np.__version__.split(".")[0]) >= 2 else "numpy.core.multiarray"


@pytest.mark.parametrize("package", deep_except([NUMPY, "pandas._libs.tslibs.dtypes", "pyarrow.lib"], NUMPY))
@pytest.mark.parametrize("call", deep_except(["spill", "table", "diff"], "table"))
def test_an_interrupt_while_pandas_is_imported_leaves_it_usable(package: str, call: str, tmp_path: Path) -> None:
    if call != "spill" and package.startswith("pyarrow"):
        package = "pandas.core.frame"
    words = [sys.executable, "-c", INTERRUPTED_IMPORT, package, call, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_a_command_imports_nothing_before_it_handles_an_interrupt() -> None:
    """What is imported before `main` begins would end in a traceback. The script of the command imports `re`."""
    program = (
        "import re, sys; before = {*sys.modules}; import leyden.__main__;"
        " print(*sorted({*sys.modules} - before - {'__future__'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["leyden", "leyden.__main__"]
