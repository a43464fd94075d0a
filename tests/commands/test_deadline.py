"""A response that arrives a byte at a time ends a request when its time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from leyden.commands.catalogue import build_parser
from leyden.commands.served.connection.client import Client, RequestFailed
from leyden.harness.targets import served
from leyden.harness.targets.adapter import TargetError
from tests.support.http_servers import handling

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LONG, UNTIL_END = b"Content-Length: 100000\r\n\r\n", b"\r\n"


def slowly(at_once: bytes) -> type[BaseHTTPRequestHandler]:
    """A handler that sends these bytes, and then a space every 50 ms."""

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(at_once)
            try:
                for _ in range(400):
                    time.sleep(0.05)
                    self.wfile.write(b" ")
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Slow


@pytest.fixture(params=[b"", HEAD + b"X: ", HEAD + LONG, HEAD + UNTIL_END], ids=["status", "header", "body", "to end"])
def slow(request: pytest.FixtureRequest) -> Iterator[str]:
    with handling(slowly(request.param)) as url:
        yield url.removesuffix("/hook")


def test_a_request_of_a_command_has_a_limit_for_the_whole_response(slow: str) -> None:
    client = Client(build_parser().parse_args(["clock", "--url", slow]))
    began = time.monotonic()
    with pytest.raises(RequestFailed, match=r"did not answer within [0-9.]+ seconds: check the URL"):
        client("GET", "/sandbox/v1/clock", timeout_s=0.5)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("end", [LONG, UNTIL_END], ids=["length", "to end"])
def test_a_request_of_a_check_has_a_limit_for_the_whole_body(end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RESPONSE_S", 0.5)
    with handling(slowly(HEAD + end)) as url:
        target = served.ServedLeyden(url.removesuffix("/hook"), "key-1")
        began = time.monotonic()
        with pytest.raises(TargetError, match=r"does not end its response within 0\.5 seconds"):
            target.send("GET", "/v0/wallet", [("apikey", "key-1")], b"")
        target.end()
        assert time.monotonic() - began < 5
