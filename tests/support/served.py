"""For tests over real HTTP: a served Leyden in a process of its own, a receiver, and a small client."""

from __future__ import annotations

import http.client
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.forked import forked_leyden
from tests.support.http_servers import handling

ROOT = Path(__file__).parents[2]


class Client:
    """JSON over one connection each time, with the key set."""

    def __init__(self, url: str, key: str = "leyden") -> None:
        self.url = url
        self.key = key

    def __call__(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        host = urlsplit(self.url)
        connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=30)
        sent = {"apikey": self.key, **headers}
        raw = None
        if body is not None:
            raw = json.dumps(body).encode()
            sent["content-type"] = "application/json"
        try:
            connection.request(method, target, raw, sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text else None

    def ok(self, method: str, target: str, body: Any = None, **headers: str) -> Any:
        status, answer = self(method, target, body, **headers)
        assert status in (200, 201), (method, target, status, answer)
        return answer


@contextmanager
def served_leyden(*options: str) -> Iterator[Client]:
    """`leyden serve` on a free port with these options, until the block ends."""
    with started_server(*options) as (client, _):
        yield client


@contextmanager
def started_server(*options: str) -> Iterator[tuple[Client, Callable[[], str]]]:
    """The same, and a function that returns what it printed on stderr, for after the block."""
    process = forked_leyden("serve", "--port", "0", *options)
    assert process.stdout is not None
    assert process.stderr is not None
    printed = ""
    try:
        line = process.stdout.readline()
        assert line.startswith("Leyden listening on http://"), line + process.stderr.read()
        key = options[options.index("--api-key") + 1] if "--api-key" in options else "leyden"
        yield Client(line.split()[-1], key), lambda: printed
    finally:
        process.terminate()
        _, printed = process.communicate(timeout=20)


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one `leyden` command to its end."""
    process = forked_leyden(*arguments)
    printed, said = process.communicate(timeout=60)
    return subprocess.CompletedProcess(["leyden", *arguments], process.wait(), printed, said)


@contextmanager
def listening_receiver(
    status: int = 200, answers: threading.Event | None = None
) -> Iterator[tuple[str, queue.Queue[tuple[dict[str, str], dict[str, Any]]]]]:
    """A callback receiver on this machine: its URL, and what it is sent as (headers, body), in order. It answers
    nothing before the event `answers`, if one is given."""
    inbox: queue.Queue[tuple[dict[str, str], dict[str, Any]]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            inbox.put(({name.lower(): value for name, value in self.headers.items()}, json.loads(body)))
            if answers is not None:
                answers.wait(timeout=60)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with handling(Handler) as url:
        yield url, inbox


def run_shell(script: str, url: str) -> list[str]:
    """The lines that a shell script prints which reads the server's address from `LEYDEN`. It must succeed."""
    environment = {"LEYDEN": url, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
