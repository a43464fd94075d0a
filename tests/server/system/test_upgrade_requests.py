"""Requests with `Upgrade`, as Java's HTTP client sends them: they are answered, and their body is no next request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from leyden import Sandbox
from leyden.server.system.http_server import listening
from leyden.server.system.http_server.connection import ConnectedH11Protocol
from tests.server.system.test_http_limits import BODY, CREATE, GET, KEY, dial_url, statuses

H2C = b"connection: Upgrade, HTTP2-Settings\r\nhttp2-settings: AAEAAEAAAAIAAAABAAMAAABk\r\nupgrade: h2c\r\n"
WEBSOCKET = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
LENGTH = b"content-length: %d\r\n\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
LAST = HEALTH + b"connection: close\r\n\r\n"


@pytest.fixture(scope="module", params=["httptools", "h11"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "h11":
            patched.setattr(listening, "_protocol", lambda: ConnectedH11Protocol)
        with Sandbox(seed=7, start="2030-01-01T00:00Z") as served:
            served.serve()
            yield served


@pytest.mark.parametrize("pieces", ["whole", "head and body", "bytes"])
@pytest.mark.parametrize("upgrade", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (CREATE + KEY + b"{}" + LENGTH + BODY, [200, 200]),
        (CREATE + KEY + b"{}" + CHUNKED, [200, 200]),
        (CREATE + KEY + b"{}content-length: 0\r\n\r\n", [400, 200]),
        (GET + KEY + b"{}\r\n", [200, 200]),
        (CREATE + KEY + b"{}" + LENGTH + BODY + CREATE + KEY + b"{}" + CHUNKED + GET + KEY + b"\r\n", [200] * 4),
        (HEALTH + b"{}content-length: %d\r\n\r\n" % len(LAST) + LAST, [200, 200]),
    ],
    ids=["length", "chunked", "empty", "no body", "several", "a request as the body"],
)
def test_a_request_with_upgrade_is_answered_with_its_body(
    sandbox: Sandbox, request_: bytes, expected: list[int], upgrade: bytes, pieces: str
) -> None:
    before = len(sandbox.charges)
    sent = request_.replace(b"{}", upgrade) + LAST
    head = sent.index(b"\r\n\r\n") + 4
    parts = {"whole": [sent], "head and body": [sent[:head], sent[head:]], "bytes": [bytes([one]) for one in sent]}
    with closing(dial_url(sandbox.serve())) as connection:
        for part in parts[pieces]:
            connection.sendall(part)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert statuses(received) == expected
    assert len(sandbox.charges) == before + request_.count(BODY)


def test_a_body_after_upgrade_has_the_same_bounds(sandbox: Sandbox) -> None:
    with closing(dial_url(sandbox.serve())) as connection:
        connection.sendall(CREATE + KEY + H2C + b"transfer-encoding: chunked\r\n\r\nzz\r\n")
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert statuses(received) == [400]
