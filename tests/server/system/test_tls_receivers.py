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

# A process of its own: the variable that names the trusted issuers is read once. It sends a callback to each URL, says
# when all of them are answered, and keeps its event loop until it is told to stop.
PROGRAM = """
import asyncio, json, sys
from leyden.server.ports import CallbackRequest
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_client.transport import HttpTransport

async def main(urls):
    logged, answers = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(str(context)))
    transport = HttpTransport()
    for url in urls:
        request = CallbackRequest(url, 1, url, {}, b"{}", 10_000, 20_000)
        transport.post(request, lambda request, answer: answers.append([request.url, answer.status, answer.error]))
    await transport.wait_idle()
    print(json.dumps(answers), flush=True)
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

    def cancelled(protocol, made):
        connection_made(protocol, made)
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
    """A receiver that answers each request by its path, and counts the bytes that it could send after the head."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.sent: dict[str, int] = {}
        self.threads: list[threading.Thread] = []
        self.answers_at_once = ""  # a path that is answered without a request

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
            path = self.answers_at_once or stream.recv(65_536).split(b" ")[1].decode().strip("/")
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
def sent_to(
    receiver: Receiver, directory: Path, loop: str, paths: Sequence[str]
) -> Iterator[tuple[list[list[Any]], subprocess.Popen[str]]]:
    """What was answered at these paths, in order (path, status, error), and the process, whose event loop goes on."""
    accepting = threading.Thread(target=receiver.serve, args=(len(paths),), daemon=True)
    accepting.start()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, loop, *map(receiver.url, paths)],
        env={**os.environ, "SSL_CERT_FILE": str(directory / "authority.pem")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        answers = json.loads(process.stdout.readline() or "[]")
        accepting.join(60)
        yield [[url.rpartition("/")[2], *answer] for url, *answer in answers], process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("loop", ["asyncio", "server"])
def test_a_connection_that_is_closed_is_not_read_any_more(receiver: Receiver, tmp_path: Path, loop: str) -> None:
    with sent_to(receiver, tmp_path, loop, [*ENDLESS]) as (answers, process):
        assert ["complete", 200, None] in answers
        assert ["body", 200, None] in answers
        assert len(answers) == len(receiver.threads) == len(ENDLESS)
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
    with sent_to(receiver, tmp_path, loop, [*WHOLE] * 4) as (answers, _):
        assert sorted(answers) == sorted([path, 200, None] for path in [*WHOLE] * 4)


@pytest.mark.parametrize("loop", ["asyncio", "server"])
def test_a_connection_whose_attempt_ends_with_the_handshake_is_not_read_any_more(
    receiver: Receiver, tmp_path: Path, loop: str
) -> None:
    receiver.answers_at_once = "body"
    accepting = threading.Thread(target=receiver.serve, args=(1,), daemon=True)
    accepting.start()
    process = subprocess.Popen(
        [sys.executable, "-c", CANCELLED, loop, receiver.url("body")],
        env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "authority.pem")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        accepting.join(60)
        [thread] = receiver.threads
        thread.join(60)
        assert not thread.is_alive()
        assert receiver.sent.get("body", 0) <= BUFFERED_BYTES  # the handshake may not have ended here
        assert process.communicate("\n", timeout=60) == ("", "")
    finally:
        process.kill()
        process.communicate()


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
