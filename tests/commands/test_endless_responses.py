"""A server that sends without end: each client ends the request in one line, after bounded bytes and time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from leyden.api_client.response_bodies import bounded_body
from leyden.commands.catalogue import build_parser
from leyden.commands.served.connection.client import Client, RequestFailed
from leyden.commands.served.connection.follow import follow_journal
from leyden.devserver import listen
from leyden.errors import LeydenError
from leyden.harness.targets import served
from leyden.harness.targets.adapter import TargetError
from leyden.http_sandbox import requests
from tests.commands.conftest import Leyden
from tests.support.http_servers import answering, handling

MOST = 1_000_000
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def endless(head: bytes, part: bytes) -> type[BaseHTTPRequestHandler]:
    """A handler that sends this head, and then this part again and again, up to 100 times as many bytes as are read and
    for 20 seconds."""

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.close_connection = True
            end = time.monotonic() + 20
            with contextlib.suppress(OSError):
                self.wfile.write(head)
                for _ in range(100 * MOST // len(part)):
                    self.wfile.write(part)
                    if len(part) < 1_000:
                        time.sleep(0.001)
                    if time.monotonic() > end:
                        break

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Endless


def client_at(url: str) -> Client:
    return Client(build_parser().parse_args(["clock", "--url", url.removesuffix("/hook")]))


def test_a_command_reads_bounded_bytes_of_a_response() -> None:
    with handling(endless(BODY, b"a" * 65_536)) as url, pytest.raises(RequestFailed) as refused:
        client_at(url)("GET", "/sandbox/v1/clock", max_bytes=MOST)
    assert f"its response has more than {MOST} bytes, and no more are read): check the URL" in str(refused.value)


def test_a_command_that_follows_reads_bounded_bytes_of_an_event() -> None:
    with handling(endless(BODY, b"a" * 65_536)) as url, pytest.raises(RequestFailed, match=r"an event of .* has more"):
        follow_journal(client_at(url), lambda rows: None, None)


def test_a_command_that_follows_waits_so_long_for_the_head_of_the_events() -> None:
    with handling(endless(b"", CONTINUE)) as url, pytest.raises(RequestFailed, match=r"did not answer within 0.5 sec"):
        client_at(url).stream("/sandbox/v1/events", query={}, headers={}, timeout_s=0.5)


def test_a_response_that_ends_too_early_is_not_complete() -> None:
    head = BODY.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000000000\r\n\r\n")
    with handling(endless(head, b"a" * 50 * MOST)) as url, pytest.raises(RequestFailed, match="is not complete"):
        client_at(url)("GET", "/sandbox/v1/clock")


def test_the_sandbox_over_http_reads_bounded_bytes_of_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "bounded_body", partial(bounded_body, most=MOST))
    with handling(endless(BODY, b"a" * 65_536)) as url, pytest.raises(LeydenError, match=f"more than {MOST} bytes"):
        requests.ask(url.removesuffix("/hook"), "GET", "/sandbox/v1", None, {})


def test_listen_reads_bounded_bytes_of_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "MAX_RESPONSE_BYTES", MOST)

    async def ask(url: str) -> Any:
        client = listen.ControlClient(url, "key", url)
        try:
            return await client.ask("GET", "")
        finally:
            await client.close()

    with handling(endless(BODY, b"a" * 65_536)) as url, pytest.raises(LeydenError, match=f"more than {MOST} bytes"):
        asyncio.run(ask(url.removesuffix("/hook")))


@pytest.mark.parametrize(
    ("head", "part", "text"),
    [
        (BODY, b"a" * 65_536, f"its response has more than {MOST} bytes"),
        (b"", CONTINUE, "does not end its response within 0.5 seconds"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a", "does not end its response within 0.5 seconds"),
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"a" * 5_000 + b"\r\n", "does not respond"),
    ],
    ids=["body", "informational responses", "header", "headers"],
)
def test_a_request_of_a_check_has_bounds_for_the_whole_response(
    head: bytes, part: bytes, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "RESPONSE_S", 0.5)
    monkeypatch.setattr(served, "MAX_RESPONSE_BYTES", MOST)
    with handling(endless(head, part)) as url:
        target = served.ServedLeyden(url.removesuffix("/hook"), "key-1")
        began = time.monotonic()
        with pytest.raises(TargetError, match=text):
            target.send("GET", "/v0/wallet", [("apikey", "key-1")], b"")
        assert time.monotonic() - began < 10
        target.end()


def test_a_kept_connection_has_the_bound_of_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RESPONSE_S", 0.5)
    with handling(answering(b"{}")) as url:
        target = served.ServedLeyden(url.removesuffix("/hook"), "key-1")
        for _ in range(3):
            assert target.send("GET", "/v0/wallet", [("apikey", "key-1")], b"").status == 200
            time.sleep(0.3)
        target.end()


def test_a_refusal_whose_detail_is_no_text_is_none_of_leydens(leyden: Leyden) -> None:
    with handling(answering(b'{"title": "x", "status": 400, "detail": {"a": 1}}', 400)) as url:
        done = leyden("charges", "list", LEYDEN_URL=url.removesuffix("/hook"))
    assert done.returncode == 1
    assert "did not answer as Leyden does (the detail of its error 400 is no text): check the URL" in done.stderr


@pytest.mark.parametrize(
    ("answer", "text"),
    [(b"\x00\xff" * 100, "the answer is not an HTTP response"), (BODY + b"{}", "is no Leyden"), (BODY, "is no Leyden")],
)
def test_listen_says_in_words_what_is_wrong_with_a_server(answer: bytes, text: str, leyden: Leyden) -> None:
    handler = answering(b"")
    handler.do_GET = lambda self: self.wfile.write(answer) and None  # type: ignore[attr-defined]
    with handling(handler) as url:
        done = leyden("listen", "http://127.0.0.1:3000/x", "--server", url.removesuffix("/hook"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert text in done.stderr
    assert "ClientResponseError" not in done.stderr
    assert "message=" not in done.stderr
