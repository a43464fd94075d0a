"""The real http_transport, against real sockets on the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import queue
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp.helpers import calculate_timeout_when
from hypothesis import given
from hypothesis import strategies as st

from leyden.callbacks.replies import never_left
from leyden.server.callbacks.egress import NOTHING_WRITTEN
from leyden.server.callbacks.ip_addresses import parse_host_address
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_client.client import client_timeout
from leyden.server.system.http_client.transport import HttpTransport
from tests.support.transport_helpers import BODY, HEADERS, OK, Shop, Talk, http_transport, opened, send, sockets_watched


def answer_of(script: bytes | Talk, **changes: Any) -> tuple[CallbackResponse, Shop]:
    """The response to an attempt at a server with this script."""

    async def scenario() -> tuple[CallbackResponse, Shop]:
        async with opened(Shop(script)) as shop, http_transport() as one:
            return await send(one, shop.url(), **changes), shop

    return asyncio.run(scenario())


REDIRECTED = "redirects are not followed: give the final URL"


# Answers


def test_the_receiver_gets_the_exact_bytes_and_no_additional_header() -> None:
    answer, shop = answer_of(b"HTTP/1.1 202 Accepted\r\nRetry-After: 7\r\ncontent-length: 2\r\n\r\nok")
    assert (answer.status, answer.error, answer.body, answer.headers["retry-after"]) == (202, None, b"ok", "7")
    head, _, body = shop.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /hook HTTP/1.1"
    sent = {name.lower(): value for name, value in (line.split(": ") for line in lines)}
    length = str(len(BODY))
    assert sent == {**HEADERS, "host": f"127.0.0.1:{shop.port}", "content-length": length, "connection": "close"}
    assert body == BODY


def test_the_path_and_query_are_sent_as_they_were_written() -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as one:
            await send(one, shop.url(path="/a%7Eb/../c%2fd?x=%41&y=a+b&x="))
            assert shop.requests[0].startswith(b"POST /a%7Eb/../c%2fd?x=%41&y=a+b&x= HTTP/1.1")

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_response_and_is_not_followed(status: int) -> None:
    async def scenario() -> None:
        async with opened(Shop()) as elsewhere:
            script = f"HTTP/1.1 {status} Away\r\nlocation: {elsewhere.url()}\r\ncontent-length: 0\r\n\r\n"
            async with opened(Shop(script.encode())) as shop, http_transport() as one:
                assert (await send(one, shop.url())).status == status
            assert elsewhere.connections == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("head", "note"),
    [
        ("302 Found\r\nlocation: /new?a=b", f"{REDIRECTED} (location: /new?a=b)"),
        ("308 Moved\r\nlocation: " + "x" * 5_000, f"{REDIRECTED} (location: {'x' * 200}...)"),
        ("302 Found\r\nx: y", f"{REDIRECTED} (the response has no location)"),
        ("304 Not Modified\r\nx: y", ""),
        ("410 Gone\r\nx: y", "the receiver asked for no more"),
        ("404 Not Found\r\nlocation: /new", ""),
    ],
)  # fmt: skip
def test_the_note_says_what_a_redirect_and_410_mean(head: str, note: str) -> None:
    answer, _ = answer_of(f"HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n".encode())
    assert (answer.error, answer.note) == (None, note)


def test_cookies_are_neither_kept_nor_sent_and_proxies_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    async def scenario() -> None:
        script = b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
        async with opened(Shop(script)) as shop, http_transport() as one:
            for _ in range(2):
                assert (await send(one, shop.url())).status == 200
            assert not any(b"cookie" in request.lower() for request in shop.requests)

    asyncio.run(scenario())


def test_only_a_part_of_a_long_response_is_read_and_a_smaller_part_is_stored() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(10_000):
                writer.write(b"x" * 1_000)
                await writer.drain()

    answer, _ = answer_of(flood)
    assert (answer.status, answer.body) == (200, b"x" * 4_096)
    assert "65536" in answer.note


def test_a_response_of_exactly_the_cap_is_read_completely() -> None:
    answer, _ = answer_of(b"HTTP/1.1 200 OK\r\ncontent-length: 65536\r\n\r\n" + b"x" * 65_536)
    assert (answer.status, answer.note) == (200, "")


def test_a_compressed_response_is_not_decompressed() -> None:
    answer, _ = answer_of(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nxyz")
    assert (answer.status, answer.body) == (200, b"xyz")


# Failures


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    await writer.drain()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
    await reader.read()


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Linger 0: closing sends RST instead of FIN.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (_silent, "timeout"),
        (_drip, "timeout"),
        (_reset, "reset"),
        (_hang_up, "reset"),
        (_half, "reset"),
        (b"SSH-2.0-OpenSSH_9.0\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", "protocol"),
    ],
)
def test_each_network_error_has_its_code(script: bytes | Talk, error: str) -> None:
    answer, _ = answer_of(script, timeout_ms=300 if error == "timeout" else 10_000)  # a busy machine takes its time
    assert (answer.status, answer.error) == (None, error)
    assert answer.note
    assert answer.note.isprintable()


@pytest.mark.parametrize(
    "script",
    [
        b"SSH-2.0-OpenSSH_9.0\r\n\r\n", b"garbage\r\n\r\n", b"220 mail ESMTP\r\n", b'{"ok": true}\n',
        b"\x15\x03\x03\x00\x02\x02\x28", b"<html></html>\r\n", b"HTTP 200 OK\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
        b"it's \"so\"\r\n\r\n", b"z" * 2_000 + b"\r\n\r\n", b"RTSP/1.0 200 OK\r\n\r\n",
        b"ICE/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)  # fmt: skip
def test_an_answer_of_another_protocol_is_called_no_http_response(script: bytes) -> None:
    note = answer_of(script, timeout_ms=300)[0].note
    assert note.startswith("the answer is not an HTTP response: it begins with b")
    assert ("RTSP" in note) == script.startswith(b"RTSP")
    assert len(note) < 120
    assert repr(script[:2])[2:-1] in note


def test_a_wrong_status_line_is_shown_without_the_sign_beneath_it() -> None:
    note = answer_of(b"HTTP/1.1 abc\r\n\r\n", timeout_ms=300)[0].note
    assert "Invalid status code" in note
    assert note.endswith("b'HTTP/1.1 abc'")


LENGTH_2 = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ENDINGS = {
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b"more", (204, None, b"")),
    "204 with a length": (b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\n", b"more", (204, None, b"")),
    "304": (b"HTTP/1.1 304 Not Modified\r\n\r\n", b"more", (304, None, b"")),
    "no length left": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"more", (200, None, b"")),
    "a longer body": (LENGTH_2 + b"ok", b"more", (200, None, b"ok")),
    "a line end": (LENGTH_2 + b"ok", b"\r\n", (200, None, b"ok")),
    "a second response": (LENGTH_2 + b"ok", b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno", (200, None, b"ok")),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ay", (200, None, b"ok")),
    "it closes": (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", b"ay", (200, None, b"ok")),
    "chunks": (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", b"more", (200, None, b"ok")),
    "until it closes": (b"HTTP/1.0 200 OK\r\n\r\nok", b"ay", (200, None, b"okay")),
    "after a 103": (b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" + LENGTH_2 + b"ok", b"more", (200, None, b"ok")),
    "bare line feeds": (b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", b"more", (200, None, b"ok")),
    "an incomplete body": (LENGTH_2 + b"o", b"", (None, "reset", b"")),
    "an incomplete head": (LENGTH_2[:-2], b"", (None, "reset", b"")),
    "no chunk": (CHUNKED + b"zz\r\n", b"more", (None, "protocol", b"")),
    "no end of a chunk": (CHUNKED + b"2\r\nokXX", b"more", (None, "protocol", b"")),
    "no head": (b"SSH-2.0-OpenSSH_9.0\r\n\r\n", b"more", (None, "protocol", b"")),
    "a second line end": (b"HTTP/1.1 200 OK\r\nx\r\n\r\n", b"more", (None, "protocol", b"")),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_packets_make_no_difference_and_what_follows_a_complete_response_is_not_read(ending: str) -> None:
    """RFC 9112, 6.3: the head says where a response ends. The connection is closed then."""
    response, more, expected = ENDINGS[ending]
    whole, head = response + more, response.rfind(b"\n\r\n") + 3

    async def scenario(parts: Sequence[bytes]) -> CallbackResponse:
        ended = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for part in parts:
                    if not reader.at_eof():  # the client has closed the connection
                        writer.write(part)
                        await asyncio.sleep(0.002)
            finally:
                writer.close()
                ended.set()

        async with opened(Shop(talk)) as shop, http_transport() as one:
            answer = await send(one, shop.url(), timeout_ms=5_000)
            await ended.wait()
            return answer

    found = set()
    for parts in (
        [whole],
        [response, more],
        [whole[:head], whole[head:]],
        [whole[: len(response) - 1], whole[len(response) - 1 :]],
        [whole[: head - 1], whole[head - 1 :]],
        [bytes([byte]) for byte in whole],
    ):
        answer = asyncio.run(scenario(parts))
        found.add((answer.status, answer.error, answer.body))
    assert found == {expected}


def test_nobody_listening_is_refused_and_an_unknown_name_is_unresolved() -> None:
    async def unknown(name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            async with http_transport(lookup=unknown) as one:
                port = taken.getsockname()[1]
                answer = await send(one, f"http://127.0.0.1:{port}/")
                assert answer.error == "refused"
                assert answer.note == f"no connection to 127.0.0.1:{port}: connection refused"
                assert (await send(one, "http://nowhere.example/")).error == "unresolved"
                assert (await send(one, "http://1.2.3.256/")).error == "unresolved"
                assert (await send(one, "ftp://127.0.0.1/")).error == "protocol"
                assert (await send(one, "http://user:word@127.0.0.1/")).error == "protocol"
                assert (await send(one, "http:///path")).error == "protocol"

    asyncio.run(scenario())


def test_a_name_without_addresses_or_with_a_label_too_long_is_unresolved() -> None:
    async def nothing(name: str) -> list[str]:
        return []

    async def scenario() -> None:
        async with http_transport(lookup=nothing) as one:
            assert (await send(one, "http://empty.example/")).error == "unresolved"
        async with http_transport() as one:
            assert (await send(one, f"http://{'a' * 64}.localhost.invalid/")).error == "unresolved"

    asyncio.run(scenario())


def test_a_name_server_that_hangs_ends_with_the_connect_timeout() -> None:
    async def hang(name: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def scenario() -> None:
        async with http_transport(lookup=hang) as one:
            answer = await send(one, "http://slow.example/", connect_timeout_ms=50)
            assert (answer.error, answer.note) == (
                "timeout",
                "the look-up of the name slow.example had no answer within 50 ms",
            )

    asyncio.run(scenario())


def test_a_receiver_that_accepts_and_is_silent_is_named_by_the_connection_that_is_missing() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server, http_transport() as one:
            port = server.sockets[0].getsockname()[1]
            answer = await send(one, f"https://127.0.0.1:{port}/", connect_timeout_ms=80)
            assert (answer.error, answer.note) == ("timeout", "no TLS connection within 80 ms")

    asyncio.run(scenario())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_missing_connection_is_named_when_the_whole_attempt_may_take_no_longer(scheme: str) -> None:
    # The backlog of this listener is full after two connections that nobody accepts; a TLS handshake never begins.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4 if scheme == "http" else 0)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)

        async def scenario() -> None:
            async with http_transport() as transport:
                answer = await send(transport, f"{scheme}://127.0.0.1:{address[1]}/", timeout_ms=80)
                kind = "no TLS connection" if scheme == "https" else "no connection"
                assert (answer.error, answer.note) == ("timeout", f"{kind} within 80 ms")
                assert never_left(answer)

        asyncio.run(scenario())
        for one in waiting:
            one.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop])
@pytest.mark.parametrize("half_closed", [False, True])
@pytest.mark.parametrize("response", [OK, b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", b"no HTTP\r\n\r\n"])
def test_a_receiver_that_answers_before_it_reads_gets_the_whole_request(
    loop: Callable[[], asyncio.AbstractEventLoop], half_closed: bool, response: bytes
) -> None:
    received: queue.Queue[bytes] = queue.Queue()

    def serve(listener: socket.socket) -> None:
        for _ in range(10):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(response)
                if half_closed:
                    connection.shutdown(socket.SHUT_WR)
                whole = b""
                while part := connection.recv(65_536):
                    whole += part
                received.put(whole)

    async def scenario(port: int) -> list[CallbackResponse]:
        async with http_transport() as one:
            return [await send(one, f"http://127.0.0.1:{port}/") for _ in range(10)]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        with asyncio.Runner(loop_factory=loop) as runner:
            answers = runner.run(scenario(listener.getsockname()[1]))
        thread.join(5)
    status = int(response.split()[1]) if response.startswith(b"HTTP") else None
    assert [answer.status for answer in answers] == [status] * 10
    assert [received.get_nowait().partition(b"\r\n\r\n")[2] for _ in answers] == [BODY] * 10


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop])
@pytest.mark.parametrize("framing", [b"", b"content-length: 9\r\n", b"transfer-encoding: chunked\r\n"])
def test_a_response_whose_connection_is_reset_in_its_body_is_incomplete(
    framing: bytes, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Also one that ends with its connection (RFC 9112, 6.3)."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"4\r\nhalf\r\n" if b"chunked" in framing else b"half"
        writer.write(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + body)
        await writer.drain()
        await asyncio.sleep(0.05)  # the client has read it
        await _reset(reader, writer)

    async def scenario() -> CallbackResponse:
        async with opened(Shop(half)) as shop, http_transport() as one:
            return await send(one, shop.url())

    with asyncio.Runner(loop_factory=loop) as runner:
        answer = runner.run(scenario())
    assert (answer.status, answer.error) == (None, "reset")
    assert answer.note == "the connection was closed before the answer was complete"


def test_a_receiver_that_resets_a_new_connection_has_got_nothing_or_a_message_that_was_written() -> None:
    def serve(listener: socket.socket) -> None:
        for _ in range(20):
            connection, _ = listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    async def scenario(port: int) -> list[CallbackResponse]:
        async with http_transport() as one:
            return [await send(one, f"http://127.0.0.1:{port}/") for _ in range(20)]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        answers = asyncio.run(scenario(listener.getsockname()[1]))
    assert {answer.error for answer in answers} == {"reset"}
    for answer in answers:
        assert never_left(answer) == answer.note.endswith("nothing was sent")


def test_a_connection_that_is_reset_before_it_is_used_was_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: object) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    async def scenario() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", connect)
        async with http_transport() as one:
            answer = await send(one, "http://127.0.0.1:8099/")
        assert (answer.error, answer.note) == ("reset", f"{NOTHING_WRITTEN}, and nothing was sent")
        assert never_left(answer)

    asyncio.run(scenario())


def test_a_connection_that_is_reset_in_the_tls_handshake_is_a_tls_error() -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    async def scenario(port: int) -> None:
        async with http_transport() as one:
            answer = await send(one, f"https://127.0.0.1:{port}/")
            assert answer.error == "tls"
            assert answer.note == f"no TLS connection to 127.0.0.1:{port}: connection reset by peer"

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        asyncio.run(scenario(listener.getsockname()[1]))


def test_plain_http_on_a_tls_port_is_a_tls_error() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(OK)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        async with server, http_transport() as one:
            port = server.sockets[0].getsockname()[1]
            answer = await send(one, f"https://127.0.0.1:{port}/")
            assert answer.error == "tls"
            assert answer.note.startswith(f"no TLS connection to 127.0.0.1:{port}: ")
            assert "ssl" not in answer.note
            assert "give a callbackUrl that begins with http://" in answer.note

    asyncio.run(scenario())


# Where a callback may go


def no_loopback(host: str, address: str, port: int) -> str | None:
    return "loopback" if address.startswith("127.") or address == "::1" else None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7F000001",
        "2130706433",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "127.0.0.1.",
    ],
)
def test_a_forbidden_address_opens_no_socket_however_it_is_spelled(host: str) -> None:
    async def scenario() -> None:
        async with http_transport(check_address=no_loopback) as one:
            await send(one, "http://127.0.0.1/")  # imports and the session itself are done now
            with sockets_watched() as seen:
                answer = await send(one, f"http://{host}:8080/hook")
            assert (answer.error, answer.note) == ("blocked", "loopback")
            assert seen == []

    asyncio.run(scenario())


def test_one_forbidden_address_of_a_name_forbids_all_its_addresses() -> None:
    async def two(name: str) -> list[str]:
        return ["203.0.113.9", "::ffff:127.0.0.1"]

    async def scenario() -> None:
        async with http_transport(check_address=no_loopback, lookup=two) as one:
            await send(one, "http://127.0.0.1/")
            with sockets_watched() as seen:
                answer = await send(one, "http://shop.example/")
            assert (answer.error, answer.note) == ("blocked", "loopback")
            assert seen == []

    asyncio.run(scenario())


def test_a_name_is_looked_up_once_and_the_connection_goes_to_the_checked_address() -> None:
    looked: list[str] = []
    asked: list[tuple[str, str, int]] = []

    async def rebinding(name: str) -> list[str]:
        looked.append(name)
        return ["127.0.0.1"] if len(looked) == 1 else ["10.0.0.1"]

    def allow(host: str, address: str, port: int) -> str | None:
        asked.append((host, address, port))
        return None if address == "127.0.0.1" else "private"

    async def scenario() -> None:
        async with (
            opened(Shop()) as shop,
            http_transport(check_address=allow, lookup=rebinding) as one,
        ):
            assert (await send(one, shop.url("shop.example"))).status == 200
            assert (looked, asked) == (["shop.example"], [("shop.example", "127.0.0.1", shop.port)])
            assert f"Host: shop.example:{shop.port}\r\n".encode() in shop.requests[0]
            assert (await send(one, shop.url("shop.example"))).error == "blocked"
            assert shop.connections == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "[::ffff:127.0.0.1]"])
def test_an_unusual_spelling_of_an_address_is_connected_and_the_host_header_is_unchanged(host: str) -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as one:
            assert (await send(one, shop.url(host, path="/a%2fb"))).status == 200
            assert shop.requests[0].startswith(b"POST /a%2fb ")
            assert f"host: {host}:{shop.port}\r\n".encode() in shop.requests[0].lower()

    asyncio.run(scenario())


def test_names_under_localhost_are_the_loopback() -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as one:
            assert (await send(one, shop.url("shop.localhost"))).status == 200

    asyncio.run(scenario())


# The transport


def test_many_attempts_run_at_once_and_wait_idle_waits_for_their_follow_ups() -> None:
    reported: list[int] = []

    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as one:

            def answered(post: CallbackRequest, answer: CallbackResponse) -> None:
                assert answer.status == 200
                reported.append(post.attempt)
                if post.attempt < 3:
                    again(post.attempt + 1)

            def again(attempt: int) -> None:
                one.post(CallbackRequest("m1", attempt, shop.url(), HEADERS, BODY, 1_000, 3_000), answered)

            for _ in range(20):
                again(1)
            assert one.pending_count == 20
            await one.wait_idle()
            assert sorted(reported) == [1] * 20 + [2] * 20 + [3] * 20
            assert shop.connections == 60

    asyncio.run(scenario())


def test_close_cancels_attempts_in_flight_without_a_report() -> None:
    reported: list[CallbackResponse] = []

    async def scenario() -> None:
        async with opened(Shop(_silent)) as shop:
            one = HttpTransport()
            post = CallbackRequest("m1", 1, shop.url(), HEADERS, BODY, 1_000, 60_000)
            one.post(post, lambda post, answer: reported.append(answer))
            while not shop.requests:
                await asyncio.sleep(0.001)
            await one.close()
            assert (one.pending_count, reported) == (0, [])

    asyncio.run(scenario())


def test_nothing_is_sent_once_it_is_closed() -> None:
    failures: list[Any] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with opened(Shop()) as shop, http_transport() as one:
            await send(one, shop.url())
            closing = asyncio.ensure_future(one.close())
            for _ in range(20):  # while it closes, and then
                post = CallbackRequest("m2", 1, shop.url(), HEADERS, BODY, 1_000, 60_000)
                one.post(post, lambda *answer: failures.append(answer))
                await asyncio.sleep(0)
            await closing
            assert (one.pending_count, len(shop.requests)) == (0, 1)

    asyncio.run(scenario())
    gc.collect()
    assert not failures


def test_an_error_while_a_response_is_recorded_is_reported_to_the_event_loop() -> None:
    reported: list[BaseException] = []

    def broken(post: CallbackRequest, answer: CallbackResponse) -> None:
        raise OSError("disk full")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        async with opened(Shop()) as shop, http_transport() as one:
            one.post(CallbackRequest("m1", 1, shop.url(), HEADERS, BODY, 1_000, 3_000), broken)
            await one.wait_idle()
            assert one.pending_count == 0

    asyncio.run(scenario())
    assert [str(error) for error in reported] == ["disk full"]


def test_the_client_library_is_not_loaded_before_something_is_sent() -> None:
    import subprocess

    transport = "leyden.server.system.http_client.transport"
    code = f"import sys, {transport} as c; c.HttpTransport(); print('aiohttp' in sys.modules)"
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert reported.stdout.strip() == "False"


# Addresses


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0x.0", "0.0.0.0"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("10.1.513", "10.1.2.1"),
        ("1.2.3.4.", "1.2.3.4"),
        ("[::ffff:a00:1]", "10.0.0.1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("shop.example", None),
        ("1.2.3.example", None),
        ("0x7f.shop", None),
        ("", None),
    ],
)
def test_a_host_is_read_as_the_address_it_means(host: str, meant: str | None) -> None:
    address = parse_host_address(host)
    assert (None if address is None else str(address)) == meant


@pytest.mark.parametrize("host", ["1.2.3.256", "1.2.3.4.5", "256.1", "08.1.1.1", "4294967296", "a.1", "1..2", "[::g]"])
def test_an_invalid_address_that_cannot_be_a_name_is_refused(host: str) -> None:
    with pytest.raises(ValueError):
        parse_host_address(host)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "{:#x}", "0{:o}"]))
def test_every_number_is_the_address_that_the_c_library_reads(number: int, form: str) -> None:
    text = form.format(number)
    assert str(parse_host_address(text)) == socket.inet_ntoa(socket.inet_aton(text))


@given(timeout_ms=st.integers(1, 60_000), now_s=st.floats(0, 1e6))
def test_a_timeout_of_any_length_ends_at_its_own_instant(timeout_ms: int, now_s: float) -> None:
    limit = client_timeout(timeout_ms, timeout_ms)
    assert limit.total is not None
    assert calculate_timeout_when(now_s, limit.total, limit.ceil_threshold) == now_s + timeout_ms / 1_000
