"""Servers and their load: each in a process of its own, watched from here through what the kernel says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks.measuring import BenchmarkError

ROOT = Path(__file__).parent.parent.parent
KEY = "leyden"
LONGEST_S = 180  # no single measurement may take longer


@dataclass(frozen=True, slots=True)
class Served:
    """A server that listens: where, and as which process. `ready_s` is how long it took to answer a first request."""

    url: str
    pid: int
    ready_s: float

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU that the process's threads have used so far."""
        tasks = Path(f"/proc/{self.pid}/task")
        try:
            return sum(int(task.joinpath("schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
        except OSError:
            return self._coarse_cpu_s()

    def _coarse_cpu_s(self) -> float:
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError as error:
            raise BenchmarkError(f"a server's CPU time is read from /proc, which is not here ({error})") from None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_bytes(self) -> int:
        """What the process holds in memory (VmRSS)."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError as error:
            raise BenchmarkError(f"a server's memory is read from /proc, which is not here ({error})") from None
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))

    def ask(self, method: str, target: str, body: Any = None) -> Any:
        """One request with the key set; the JSON answered. Raises `BenchmarkError` for any status but 200."""
        where = urlsplit(self.url)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=LONGEST_S)
        headers = {"apikey": KEY}
        raw = None
        if body is not None:
            headers["content-type"] = "application/json"
            raw = json.dumps(body)
        try:
            connection.request(method, target, raw, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise BenchmarkError(f"{method} {target} was answered {answer.status}: {text[:200]!r}")
        return json.loads(text)


@dataclass(frozen=True, slots=True)
class Load:
    """What one load came to: the server's CPU for a request, in seconds, and requests a second."""

    cpu_s: float
    rate: float


@contextmanager
def echo() -> Iterator[Served]:
    """The ceiling: a Starlette application that answers with the JSON it was sent, under the same server."""
    with _serving("tests.benchmarks.echo", first="/echo/first") as served:
        yield served


@contextmanager
def floor() -> Iterator[Served]:
    """The floor of a create: an application that parses, signs, appends a line and answers, under the same server."""
    with _serving("tests.benchmarks.floor", first="/ready") as served:
        yield served


@contextmanager
def broadcast() -> Iterator[Served]:
    """The ceiling of an event stream: a Starlette application that sends each row to every listener."""
    with _serving("tests.benchmarks.broadcast", first="/emit/first") as served:
        yield served


@contextmanager
def leyden(*options: str) -> Iterator[Served]:
    """`leyden serve` on a free port."""
    with _serving("leyden", "serve", "--port", "0", "--api-key", KEY, *options, first="/v0/wallet") as served:
        yield served


@contextmanager
def receiver() -> Iterator[str]:
    """A callback receiver that does nothing but answer 200; its URL."""
    with _serving("tests.benchmarks.receiver", first="/") as served:
        yield served.url


@contextmanager
def _serving(*command: str, first: str) -> Iterator[Served]:
    # What is installed has its bytecode from the start: a run from the project's folder may write its own, too.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    program = [sys.executable, "-m", *command]
    began = time.perf_counter()
    process = subprocess.Popen(
        program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "listening on http://" not in line:
            _, output = process.communicate(timeout=20)
            raise BenchmarkError(f"{' '.join(command)} did not start: {output.strip()[-500:] or line.strip()}")
        served = Served(line.split()[-1], process.pid, 0.0)
        served.ask("GET", first)
        yield Served(served.url, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def request(method: str, target: str, body: Any = None) -> str:
    """The text of an HTTP request, as a client on a kept connection sends it."""
    raw = "" if body is None else json.dumps(body)
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", f"apikey: {KEY}"]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(raw)}"]
    return "\r\n".join([*lines, "", raw])


def load(served: Served, requests: Sequence[str], *, connections: int, count: int) -> Load:
    """Send `count` requests, those given in turn, over so many connections; nothing is sent before the last answer."""
    where = urlsplit(served.url)
    order = {
        "host": where.hostname,
        "port": where.port,
        "connections": connections,
        "count": count,
        "requests": list(requests),
    }
    client = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.load"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    before = served.cpu_s
    try:
        output, complaint = client.communicate(json.dumps(order), timeout=LONGEST_S)
    finally:
        client.kill()
        client.wait()
    if client.returncode != 0:
        raise BenchmarkError(f"the load was not answered as it should be: {complaint.strip()[-500:]}")
    return Load((served.cpu_s - before) / count, count / json.loads(output)["seconds"])
