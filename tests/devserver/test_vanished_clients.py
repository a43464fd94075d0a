"""Clients that leave before a service fault is applied to their request: nothing is logged as an error."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.served import started_server

HEAD = b"POST /v0/charges HTTP/1.1\r\nHost: localhost\r\napikey: leyden\r\nContent-Type: application/json\r\n"
PARTS = {
    "a part of the body": b'Content-Length: 35\r\n\r\n{"amo',
    "a part of the chunks": b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"amo\r\n',
    "no body": b"Expect: 100-continue\r\nContent-Length: 35\r\n\r\n",
    "all": b'Content-Length: 37\r\n\r\n{"amount":"1000","description":"tea"}',
}
FAULTS: tuple[Mapping[str, Any], ...] = (
    {"kind": "connection_reset"},
    {"kind": "connection_reset", "afterCommit": True},
    {"kind": "error", "status": 503},
    *({"kind": kind, "delay": "1ms"} for kind in ("slow_first_byte", "slow_body")),
    *({"kind": kind} for kind in ("truncated_body", "wrong_content_type", "unknown_fields", "past_date")),
)
RESET = struct.pack("ii", 1, 0)  # a socket that is closed sends RST


@pytest.mark.parametrize("leave", ["close", "half-close", "reset"])
def test_a_client_that_has_left_is_no_error(leave: str) -> None:
    with started_server() as (client, printed):
        parts = urlsplit(client.url)
        for fault in FAULTS:
            client.ok("DELETE", "/sandbox/v1/service-faults")
            client.ok("POST", "/sandbox/v1/service-faults", {**fault, "count": None, "operation": "createCharge"})
            for part in PARTS.values():
                leave_after(HEAD + part, (parts.hostname, parts.port), leave)
    assert [line for line in printed().splitlines() if "Traceback" in line or "ERROR" in line] == []


def leave_after(sent: bytes, address: tuple[str | None, int | None], leave: str) -> None:
    with closing(socket.create_connection(address)) as connection:
        connection.sendall(sent)
        time.sleep(0.03)  # the request is read
        if leave == "half-close":
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(10)
                while connection.recv(65_536):
                    pass
        elif leave == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
