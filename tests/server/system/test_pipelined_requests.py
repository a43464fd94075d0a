"""Requests that a client sends before it has the responses to earlier ones: all are answered, and few are in memory."""

from __future__ import annotations

import gc
import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from leyden import Sandbox
from leyden.server.system.http_server import listening
from leyden.server.system.http_server import protocol as http_protocol
from leyden.server.system.http_server.connection import ConnectedH11Protocol
from leyden.server.system.http_server.protocol import LimitedProtocol
from tests.server.system.test_http_limits import BODY, CREATE, GET, KEY, dial_url, response, statuses
from tests.support.deep import sampled
from tests.support.served import Client

READ_AT_ONCE = 256 * 1024  # by either event loop
FAR_TOO_MUCH = 16 * 1024 * 1024
Protocol = LimitedProtocol | ConnectedH11Protocol


@pytest.fixture(params=["httptools", "h11"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "h11":
        monkeypatch.setattr(listening, "_protocol", lambda: ConnectedH11Protocol)
    with Sandbox(seed=7, start="2030-01-01T00:00Z") as sandbox:
        yield sandbox.serve()


def protocol_of(connection: socket.socket) -> Protocol:
    """The server's side of a connection."""
    own = connection.getsockname()
    protocols = [one for one in gc.get_objects() if isinstance(one, Protocol)]
    [protocol] = [one for one in protocols if one.client == own]
    return protocol


def waiting(protocol: Protocol) -> tuple[int, int]:
    """The number of parsed requests that wait for their turn, and the bytes that are not parsed."""
    if isinstance(protocol, LimitedProtocol):
        return len(protocol.pipeline), len(protocol._held)
    return 0, len(protocol.conn.trailing_data[0])


def flood(connection: socket.socket, requests: bytes) -> None:
    """Send these requests again and again, until the server has not read for a while, or has read far too much."""
    connection.setblocking(False)
    rest, idle, sent = requests, 0, 0
    while idle < 20 and sent < FAR_TOO_MUCH:
        try:
            count = connection.send(rest)
            rest, idle, sent = rest[count:] or requests, 0, sent + count
        except BlockingIOError:
            time.sleep(0.01)
            idle += 1
    connection.setblocking(True)


WAIT = b'{"count": 1000, "timeout": 0.02}'
REQUESTS = {
    "answered at once": GET + b"\r\n" + CREATE + KEY + b"content-length: %d\r\n\r\n" % len(BODY) + BODY,
    "that wait": b"POST /sandbox/v1/deliveries/wait HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    + KEY
    + b"content-length: %d\r\n\r\n" % len(WAIT)
    + WAIT,
}


@pytest.mark.parametrize("requests", sampled(REQUESTS.values(), 2), ids=REQUESTS.keys())
def test_a_client_that_reads_nothing_has_few_requests_in_memory(url: str, requests: bytes) -> None:
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = url.removeprefix("http://").partition(":")
        connection.connect((host, int(port)))
        flood(connection, requests * 500)
        parsed, unparsed = waiting(protocol_of(connection))
        assert parsed <= 1
        assert unparsed <= 2 * READ_AT_ONCE
        assert Client(url)("GET", "/v0/charges")[0] == 200


def one_request(number: int, chance: random.Random) -> bytes:
    """A request that creates a charge with this number as its description."""
    body = json.dumps({"amount": "250000", "description": f"{number}"}).encode()
    body += chance.choice([b"", b"\r\n\r\n", b"\n\n", b" " * 5_000, b"\n\r\n" * 3_000])
    head = b"POST /v0/charges HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" + KEY
    if chance.random() < 0.5:
        return head + b"content-length: %d\r\n\r\n" % len(body) + body
    middle = chance.randrange(1, len(body))
    parts = (body[:middle], body[middle:], b"")
    return (
        head + b"transfer-encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    )


@pytest.mark.parametrize("seed", sampled(range(3), 3))
def test_every_request_is_answered_in_order_whatever_the_pieces(url: str, seed: int) -> None:
    chance = random.Random(seed)
    sent = b"".join(one_request(number, chance) for number in range(300))
    last = b"GET /v0/charges HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

    def send(connection: socket.socket) -> None:
        rest = sent + last
        while rest:
            size = chance.choice([1, 17, 4_096, 70_000, 400_000])
            connection.sendall(rest[:size])
            rest = rest[size:]

    with closing(dial_url(url)) as connection:
        sender = threading.Thread(target=send, args=(connection,))
        sender.start()
        received = b"".join(iter(lambda: connection.recv(65536), b""))
        sender.join()
    assert statuses(received) == [200] * 300 + [401]
    assert [int(text) for text in re.findall(rb'"description":"([0-9]+)"', received)] == list(range(300))


def test_a_connection_beyond_what_all_may_have_waiting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_HELD_BYTES", 10_000)
    one = GET + KEY + b"\r\n"
    with Sandbox(seed=7) as sandbox:
        url = sandbox.serve()
        with closing(dial_url(url)) as connection:
            connection.sendall(one)
            assert response(connection)[0] == 200
            protocol = protocol_of(connection)
            connection.sendall(one * 1_000)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
        assert set(statuses(received)[:-1]) == {200}
        assert statuses(received)[-1] == 503
        assert b'"code":"server_busy"' in received
        assert isinstance(protocol, LimitedProtocol)
        with closing(dial_url(url)) as connection:
            connection.sendall(one * 50)
            for _ in range(50):
                assert b"HTTP/1.1 200" in one_response(connection)
        while protocol._table.held_bytes:
            time.sleep(0.01)


def one_response(connection: socket.socket) -> bytes:
    """The bytes of the next response, without those of later ones."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(1)
    [length] = re.findall(rb"content-length: ([0-9]+)", received)
    body = b""
    while len(body) < int(length):
        body += connection.recv(int(length) - len(body))
    return received + body
