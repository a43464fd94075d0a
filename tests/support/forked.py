"""Processes of `leyden` that are forked from one that has imported it: a start and a stop take a fifteenth of the
CPU time, over a network a tenth.

A process of the tests has one such parent, from its first server until its end. What a start itself does, with all its
imports, is tested by the tests that start Python: `integration/test_served.py`, `integration/test_two_servers.py`,
`commands/test_examples.py`, `recipes`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[2]
_MESSAGE = 1 << 20  # bytes
# What a server imports only when it listens, sends its first callback or has a network.
_LATER = (
    "aiohttp",
    "leyden.devserver.serve_options",
    "leyden.lightning.bolt11",
    "leyden.server.system.http_client.client",
    "leyden.server.system.http_server.protocol",
    "leyden.server.system.http_client.session",
    "leyden.server.system.http_client.name_lookup",
    "scipy.sparse.csgraph",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)


def _of_python(variables: Mapping[str, str]) -> dict[str, str]:
    """What Python reads when it starts, and never again."""
    return {name: text for name, text in variables.items() if name.startswith("PYTHON")}


class ForkedProcess:
    """A forked process, with what the tests use of `subprocess.Popen`. Its outputs are pipes."""

    def __init__(self, pid: int, status: socket.socket, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        self.stdout: IO[str] = os.fdopen(stdout, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(stderr, encoding="utf-8")

    def poll(self) -> int | None:
        """The exit status, as `subprocess` has it; None while the process runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                answer = self._status.recv(64)
            except TimeoutError:
                raise subprocess.TimeoutExpired("leyden", timeout or 0) from None
            assert answer, "the parent of the forked processes has ended"
            self.returncode = int(answer)
            self._status.close()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send this signal to the process if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile, and its parent has noticed
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM to the process if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process if it runs."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their ends, wait for the end of the process, and return what was read; a second time
        nothing. A process that does not end in time is killed."""
        if self.stdout.closed:
            return "", ""
        read: dict[IO[str], str] = {}

        def reads(file: IO[str]) -> None:
            with file:
                read[file] = file.read()

        readers = [threading.Thread(target=reads, args=(file,), daemon=True) for file in (self.stdout, self.stderr)]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        finally:
            self.kill()
            for reader in readers:
                reader.join()
        return read[self.stdout], read[self.stderr]


Process = ForkedProcess | subprocess.Popen[str]


class Parent:
    """The process that forks the others: this module as a program."""

    def __init__(self) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # OpenBLAS starts threads when it is imported, and a process with threads cannot be forked.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                cwd=ROOT,
                env=environment,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def is_running(self) -> bool:
        """Whether it can fork."""
        return self._process.poll() is None

    def start(self, *words: str, first: str = "") -> ForkedProcess:
        """`leyden` with these words, in the root of the checkout, with the present environment variables, after the
        program `first`."""
        status, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, err = os.pipe(), os.pipe()
        message = json.dumps({"words": words, "variables": dict(os.environ), "first": first}).encode()
        socket.send_fds(self._control, [message], [other.fileno(), out[1], err[1]])
        for number in (other.detach(), out[1], err[1]):
            os.close(number)
        pid = status.recv(64)
        assert pid, "the parent of the forked processes has ended"
        return ForkedProcess(int(pid), status, out[0], err[0])

    def end(self) -> None:
        """End the process; what it has forked continues."""
        self._control.close()
        self._process.wait()


_VARIABLES = _of_python(os.environ)  # before any test changes them: those of a parent
_parents: dict[int, Parent] = {}


def forked_leyden(*words: str, first: str = "") -> Process:
    """A process of `leyden` with these words in the root of the checkout: forked, where that is possible. It runs the
    program `first` before all else."""
    if hasattr(os, "pidfd_open") and hasattr(socket, "SOCK_SEQPACKET") and _of_python(os.environ) == _VARIABLES:
        pid = os.getpid()
        if pid not in _parents:
            atexit.register(_end_parent, pid)
        elif not _parents[pid].is_running():  # another process has ended it
            _parents.pop(pid).end()
        if pid not in _parents:
            _parents[pid] = Parent()
        return _parents[pid].start(*words, first=first)
    command = [sys.executable, "-c", f"{first}\nimport sys\nfrom leyden.__main__ import main\nsys.exit(main())\n"]
    return subprocess.Popen([*command, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _end_parent(pid: int) -> None:
    if os.getpid() == pid and pid in _parents:
        _parents.pop(pid).end()


# The program


def _warm() -> None:
    """Import and load what a server uses, the documents among it."""
    from leyden import Sandbox
    from leyden.commands.catalogue import build_parser

    for name in ("leyden.__main__", "leyden.devserver.serve", *_LATER):
        import_module(name)
    build_parser("serve")
    with Sandbox(seed=1) as sandbox:
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea"))
    assert threading.active_count() == 1, "a thread of a parent is absent in its children"
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket) -> tuple[list[str], str] | None:
    """Fork a process for each message until the other end closes. In such a process, return its words and what it runs
    first."""
    running: dict[int, tuple[int, int]] = {}  # by the descriptor of the process: its id, and who waits for its end
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for number, _ in poll.poll():
            if number != control.fileno():
                pid, waiting = running.pop(number)
                poll.unregister(number)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                _tell(waiting, status)
                _close(waiting, number)
                continue
            message, given, _, _ = socket.recv_fds(control, _MESSAGE, 3)
            if not message:
                return None
            waiting, out, err = given
            pid = os.fork()
            if pid == 0:
                _close(*running, *(one for _, one in running.values()), waiting, control.detach())
                return _become(json.loads(message), out, err)
            _close(out, err)
            _tell(waiting, pid)
            opened = os.pidfd_open(pid)
            running[opened] = (pid, waiting)
            poll.register(opened, select.POLLIN)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _tell(waiting: int, number: int) -> None:
    try:
        os.write(waiting, str(number).encode())
    except BrokenPipeError:
        """Nobody waits any more."""


def _become(order: dict[str, Any], out: int, err: int) -> tuple[list[str], str]:
    """Take over the outputs and the environment of the order, and return its words and what it runs first."""
    os.dup2(out, 1), os.dup2(err, 2)
    _close(out, err)
    os.environ.clear()
    os.environ.update(order["variables"])
    return order["words"], order["first"]


def _main(descriptor: int) -> int:
    _warm()
    order = _serve(socket.socket(fileno=descriptor))
    if order is None:
        return 0
    from leyden.__main__ import main

    words, first = order
    exec(first, {})
    sys.argv = ["leyden", *words]
    gc.unfreeze()
    return main(words)


def _end(status: int) -> NoReturn:
    """End the process as Python does, but leave its memory to the system: to free all that the parent has imported
    takes twice as long as the rest of a start and a stop."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Python itself says it
        sys.exit(status)
    os._exit(status)


if __name__ == "__main__":
    _end(_main(int(sys.argv[1])))
