"""Receivers with TLS that send without end: a connection that is closed is not read any more."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trustme

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
MOST_BYTES = 200_000_000  # that one receiver sends
BUFFERED_BYTES = 40_000_000  # more than the sockets of both sides hold, and what is read of a response


class Endless:
    """A receiver that answers the request for each path of `ENDLESS`, and counts what it can send."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.sent: dict[str, int] = {}
        self.threads: list[threading.Thread] = []

    def serve(self, connections: int) -> None:
        for _ in range(connections):
            connection, _ = self._listener.accept()
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def close(self) -> None:
        self._listener.close()

    def _answer(self, connection: socket.socket) -> None:
        with self._context.wrap_socket(connection, server_side=True) as stream:
            path = stream.recv(65_536).split(b" ")[1].decode().strip("/")
            begin, again = ENDLESS[path]
            self.sent[path] = 0
            try:
                stream.sendall(begin)
                while self.sent[path] < MOST_BYTES:
                    stream.sendall(again)
                    self.sent[path] += len(again)
            except OSError:  # the connection was closed
                pass


@pytest.mark.parametrize("loop", ["asyncio", "server"])
def test_a_connection_that_is_closed_is_not_read_any_more(tmp_path: Path, loop: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    receiver = Endless(authority.issue_cert("127.0.0.1"))
    accepting = threading.Thread(target=receiver.serve, args=(len(ENDLESS),), daemon=True)
    accepting.start()
    urls = [f"https://127.0.0.1:{receiver.port}/{path}" for path in ENDLESS]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, loop, *urls],
        env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "authority.pem")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        answers = {url.rpartition("/")[2]: answer for url, *answer in json.loads(process.stdout.readline() or "[]")}
        assert answers["complete"] == answers["body"] == [200, None]
        accepting.join(60)
        for thread in receiver.threads:  # while the event loop still runs
            thread.join(60)
            assert not thread.is_alive()
        assert {path: sent for path, sent in receiver.sent.items() if sent > BUFFERED_BYTES} == {}
        assert receiver.sent.keys() == ENDLESS.keys()
        logged, errors = process.communicate("\n", timeout=60)
        assert (json.loads(logged), errors, process.returncode) == ([], "", 0)
    finally:
        receiver.close()
        process.kill()
        process.communicate()
