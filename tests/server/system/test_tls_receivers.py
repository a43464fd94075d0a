"""Receivers with TLS that send without end, or end a connection before all was read."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from leyden.server.system.event_loop import new_event_loop

# A process of its own: the variable that names the trusted issuers is read once. It sends a callback to each URL,
# prints the responses, and runs its event loop until the end of its standard input.
PROGRAM = """
import asyncio, json, sys
from leyden.server.ports import CallbackRequest
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_client.transport import HttpTransport

async def main(urls):
    logged, responses = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(str(context)))
    transport = HttpTransport()
    for url in urls:
        request = CallbackRequest(url, 1, url, {}, b"{}", 10_000, 20_000)
        transport.post(request, lambda sent, response: responses.append([sent.url, response.status, response.error]))
    await transport.wait_idle()
    print(json.dumps(responses), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await transport.close()
    print(json.dumps(logged))

loops = {"asyncio": asyncio.new_event_loop, "server": new_event_loop}
with asyncio.Runner(loop_factory=loops[sys.argv[1]]) as runner:
    runner.run(main(sys.argv[2:]))
"""
# The attempt is cancelled, as by its timeout, in the turn of the event loop in which its handshake succeeds.
CANCELLED = """
import asyncio, sys
from leyden.server.ports import CallbackRequest
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_client import client
from leyden.server.system.http_client.transport import HttpTransport

async def main(url):
    transport = HttpTransport()
    connection_made = client._Protocol.connection_made

    def cancelled(protocol, connected):
        connection_made(protocol, connected)
        for task in transport._tasks.values():
            task.cancel()

    client._Protocol.connection_made = cancelled
    transport.post(CallbackRequest("m1", 1, url, {}, b"{}", 9_000, 9_000), print)
    await transport.wait_idle()
    await asyncio.to_thread(sys.stdin.readline)
    await transport.close()

loops = {"asyncio": asyncio.new_event_loop, "server": new_event_loop}
with asyncio.Runner(loop_factory=loops[sys.argv[1]]) as runner:
    runner.run(main(sys.argv[2]))
"""
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
# What each begins with, and then sends again and again.
ENDLESS = {
    "informational": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
    "headers": (OK, b"a: b\r\n" * 1_000),
    "header": (OK + b"x: ", b"a" * 50_000),
    "reason": (b"HTTP/1.1 200 ", b"a" * 50_000),
    "blank": (b"", b"\r\n" * 50_000),
    "body": (OK + b"\r\n", b"a" * 50_000),
    "extension": (CHUNKED + b"1;", b"a" * 50_000),
    "trailers": (CHUNKED + b"0\r\n", b"a: b\r\n" * 1_000),
    "complete": (OK + b"content-length: 2\r\n\r\nok", b"a" * 50_000),
    "upgrade": (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", b"a" * 50_000),
}
MOST_BYTES = 400_000_000  # that one receiver sends
BUFFERED_BYTES = 200_000_000  # more than both sockets hold, and what is read until the connection is closed


# Complete responses, each in two parts. The second one and the end of the connection come while the first is read.
WHOLE = {
    "length": (OK + b"content-length: 60000\r\n\r\n", b"a" * 60_000),
    "end": (OK + b"\r\n", b"a" * 60_000),
    "chunks": (CHUNKED, b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n"),
}


class Receiver:
    """A receiver that responds to each request by its path, and counts the bytes that it could send after the head."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.sent: dict[str, int] = {}
        self.threads: list[threading.Thread] = []
        self.responds_at_once = ""  # the path of a response without a request

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}/{path}"

    def serve(self, connections: int) -> None:
        for _ in range(connections):
            connection, _ = self._listener.accept()
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def close(self) -> None:
        self._listener.close()

    def _answer(self, connection: socket.socket) -> None:
        """Answer until the connection is closed."""
        with suppress(OSError), self._context.wrap_socket(connection, server_side=True) as stream:
            path = self.responds_at_once or stream.recv(65_536).split(b" ")[1].decode().strip("/")
            self.sent[path] = 0
            if path in WHOLE:
                self._send_whole(stream, path)
            else:
                self._send_endless(stream, path)

    def _send_whole(self, stream: ssl.SSLSocket, path: str) -> None:
        head, body = WHOLE[path]
        stream.sendall(head + body[: len(body) // 2])
        time.sleep(0.005)
        stream.sendall(body[len(body) // 2 :])
        self.sent[path] = len(body)

    def _send_endless(self, stream: ssl.SSLSocket, path: str) -> None:
        begin, again = ENDLESS[path]
        stream.sendall(begin)
        while self.sent[path] < MOST_BYTES:
            stream.sendall(again)
            self.sent[path] += len(again)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    one = Receiver(authority.issue_cert("127.0.0.1"))
    yield one
    one.close()


@contextmanager
def started(
    program: str, receiver: Receiver, directory: Path, loop: str, paths: Sequence[str]
) -> Iterator[subprocess.Popen[str]]:
    """A process of one of the programs, which connects to these paths of the receiver, until the end of the block."""
    accepting = threading.Thread(target=receiver.serve, args=(len(paths),), daemon=True)
    accepting.start()
    process = subprocess.Popen(
        [sys.executable, "-c", program, loop, *map(receiver.url, paths)],
        env={**os.environ, "SSL_CERT_FILE": str(directory / "authority.pem")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        accepting.join(60)
        yield process
    finally:
        process.kill()
        process.communicate()


def responses_of(process: subprocess.Popen[str]) -> list[list[Any]]:
    """What `PROGRAM` received, in order: path, status, error. Its event loop goes on."""
    assert process.stdout is not None
    return [[url.rpartition("/")[2], *response] for url, *response in json.loads(process.stdout.readline() or "[]")]


@pytest.mark.parametrize("loop", ["asyncio", "server"])
def test_a_connection_that_is_closed_is_not_read_any_more(receiver: Receiver, tmp_path: Path, loop: str) -> None:
    with started(PROGRAM, receiver, tmp_path, loop, [*ENDLESS]) as process:
        responses = responses_of(process)
        assert ["complete", 200, None] in responses
        assert ["body", 200, None] in responses
        assert len(responses) == len(receiver.threads) == len(ENDLESS)
        for thread in receiver.threads:  # while the event loop still runs
            thread.join(60)
            assert not thread.is_alive()
        assert {path: sent for path, sent in receiver.sent.items() if sent > BUFFERED_BYTES} == {}
        logged, errors = process.communicate("\n", timeout=60)
        assert (json.loads(logged), errors, process.returncode) == ([], "", 0)


@pytest.mark.parametrize("loop", ["asyncio", "server"])
def test_a_response_that_is_complete_when_the_connection_ends_is_read_to_its_end(
    receiver: Receiver, tmp_path: Path, loop: str
) -> None:
    with started(PROGRAM, receiver, tmp_path, loop, [*WHOLE] * 4) as process:
        assert sorted(responses_of(process)) == sorted([path, 200, None] for path in [*WHOLE] * 4)


@pytest.mark.parametrize("loop", ["asyncio", "server"])
def test_a_connection_whose_attempt_ends_with_the_handshake_is_not_read_any_more(
    receiver: Receiver, tmp_path: Path, loop: str
) -> None:
    receiver.responds_at_once = "body"
    with started(CANCELLED, receiver, tmp_path, loop, ["body"]) as process:
        [thread] = receiver.threads
        thread.join(60)
        assert not thread.is_alive()
        assert receiver.sent.get("body", 0) <= BUFFERED_BYTES  # the handshake may not have ended here
        assert process.communicate("\n", timeout=60) == ("", "")


def test_the_error_of_a_closed_connection_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """uvloop closes the socket of an attempt that is cancelled while it connects, and its TLS may write to it then."""

    async def report(**context: Any) -> None:
        asyncio.get_running_loop().call_exception_handler(context)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        runner.run(report(message="Fatal error on SSL protocol", exception=closed))
        runner.run(report(message="Future exception was never retrieved", exception=ssl.SSLError("wrong version")))
        assert caplog.records == []
        runner.run(report(message="Future exception was never retrieved", exception=ValueError("a defect")))
        runner.run(report(message="Fatal error on SSL protocol", exception=TypeError("a defect")))
        runner.run(report(message="Exception in callback", exception=RuntimeError("another")))
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "Future exception was never retrieved",
        "Fatal error on SSL protocol",
        "Exception in callback",
    ]
