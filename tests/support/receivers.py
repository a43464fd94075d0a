"""Callback receivers on this machine, each of another make: they keep what they are sent, and answer by a function."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI, Request, Response

from leyden.server.system.http_server.listening import ServerThread, open_listener
from tests.support.http_servers import handling


class Got(NamedTuple):
    """One request that a receiver was sent."""

    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value


Answer = Callable[[Got], int | tuple[int, dict[str, str]]]


class Hook(NamedTuple):
    """A running receiver: its URL, and what it was sent so far."""

    url: str
    inbox: list[Got]


def ok(got: Got) -> int:
    return 200


@contextmanager
def threaded(answer: Answer = ok) -> Iterator[Hook]:
    """The standard library's server, with a thread for each request. `answer` gives the status, and headers or not."""
    inbox: list[Got] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            inbox.append(got := Got({name.lower(): value for name, value in self.headers.items()}, body))
            given = answer(got)
            status, headers = (given, {}) if isinstance(given, int) else given
            self.send_response(status)
            for name, value in {**headers, "content-length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with handling(Handler) as url:
        yield Hook(url, inbox)


@contextmanager
def on_asyncio() -> Iterator[Hook]:
    """A server on bare asyncio streams, with its event loop in a thread. It closes each connection."""
    inbox: list[Got] = []
    started: list[int] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        pairs = [line.split(": ", 1) for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value for name, value in pairs}
        inbox.append(Got(headers, await reader.readexactly(int(headers["content-length"]))))
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def serve(stopped: asyncio.Event) -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        started.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stopped.wait()
        server.close()

    stopped = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(stopped)), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield Hook(f"http://127.0.0.1:{started[0]}/hook", inbox)
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        loop.close()


@contextmanager
def on_fastapi() -> Iterator[Hook]:
    """A FastAPI application on uvicorn."""
    inbox: list[Got] = []
    app = FastAPI()

    async def hook(request: Request) -> Response:
        inbox.append(Got(dict(request.headers), await request.body()))
        return Response(status_code=204)

    app.add_api_route("/hook", hook, methods=["POST"])
    server = ServerThread(app, open_listener("127.0.0.1", 0))
    try:
        yield Hook(f"{server.url}/hook", inbox)
    finally:
        server.close()


NODE = """
const unread = [];
const server = require("http").createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    unread.push(response);
    console.log(JSON.stringify([request.headers, Buffer.concat(chunks).toString()]));
  });
});
process.stdin.on("data", (read) => unread.splice(0, read.length).forEach((response) => response.end()));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


@contextmanager
def on_node() -> Iterator[Hook]:
    """A server of Node.js, which responds when the inbox has the request. Skips the test where Node.js is not
    installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("this test needs Node.js: install the program node")
    process = subprocess.Popen([node, "-e", NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    inbox: list[Got] = []
    port, lines, read_up_to = int(process.stdout.readline()), process.stdout, process.stdin

    def read() -> None:
        for line in lines:
            headers, body = json.loads(line)
            inbox.append(Got(headers, body.encode()))
            with suppress(BrokenPipeError):
                read_up_to.write(".")
                read_up_to.flush()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield Hook(f"http://127.0.0.1:{port}/hook", inbox)
    finally:
        process.terminate()
        process.wait(10)
        reader.join(10)
        lines.close()
        with suppress(BrokenPipeError):
            read_up_to.close()


@contextmanager
def on_silence() -> Iterator[str]:
    """The URL of a listener that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"


RECEIVERS: dict[str, Callable[[], AbstractContextManager[Hook]]] = {
    "http.server": threaded,
    "asyncio": on_asyncio,
    "FastAPI": on_fastapi,
    "Node.js": on_node,
}
