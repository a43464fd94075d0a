"""httptools' parser, for a server that speaks no other protocol than HTTP/1.1."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Protocol

import httptools

_CALLBACKS = ("on_message_begin", "on_url", "on_header", "on_chunk_header", "on_body")
_FRAMING = (b"content-length", b"transfer-encoding")


class Parsed(Protocol):
    """What the parser reads of the connection that it reports to."""

    headers: list[tuple[bytes, bytes]]  # of the request whose head is complete

    def on_headers_complete(self) -> None:
        """The end of a head."""

    def on_message_complete(self) -> None:
        """The end of a request."""


class RequestParser:
    """A parser that ignores `Upgrade` (RFC 9110, 7.8). It has the methods of httptools' parser that are used here.

    httptools ends such a request with its head, and takes its body for the next request. Here another parser of
    httptools reads the body and what follows: it gets a head with the headers that delimit the body, about which
    nothing is reported.
    """

    def __init__(self, connection: Parsed) -> None:
        self._connection = connection
        self._framing = b""  # the headers that delimit the body of a request with `Upgrade`, up to the end of its head
        self._is_in_head = False  # in that which was made for the body
        self._parser = self._new(lambda callback: callback)
        self.get_http_version = self._parser.get_http_version
        self.get_method = self._parser.get_method

    def feed_data(self, data: bytes) -> None:
        """Parse what arrived. Raises `HttpParserError`."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            framing, self._framing = self._framing, b""
            if framing:
                self._parse_body(framing)
            rest = data[upgrade.args[0] :]
            if rest:
                self.feed_data(rest)

    def should_keep_alive(self) -> bool:
        """Whether the connection may stay open after the request."""
        return bool(self._parser.should_keep_alive())

    def should_upgrade(self) -> bool:
        """No request upgrades the connection."""
        return False

    def close(self) -> None:
        """The connection was lost: let go of it, because the parser is a part of what it reports to."""
        self.__dict__.clear()

    def _parse_body(self, framing: bytes) -> None:
        self._parser = self._new(self._unless_in_head)
        self.get_http_version, self.get_method = self._parser.get_http_version, self._parser.get_method
        self._is_in_head = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n")

    def _new(self, reported: Callable[[Callable[..., None]], Callable[..., None]]) -> httptools.HttpRequestParser:
        callbacks = {name: reported(getattr(self._connection, name)) for name in _CALLBACKS}
        callbacks["on_headers_complete"] = self._on_headers_complete
        callbacks["on_message_complete"] = self._on_message_complete
        parser = httptools.HttpRequestParser(SimpleNamespace(**callbacks))
        with suppress(AttributeError):  # as uvicorn: a request after one with `Connection: close` is no error
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _unless_in_head(self, callback: Callable[..., None]) -> Callable[..., None]:
        def report(*arguments: bytes) -> None:
            if not self._is_in_head:
                callback(*arguments)

        return report

    def _on_headers_complete(self) -> None:
        if self._is_in_head:
            self._is_in_head = False
            return
        headers = self._connection.headers  # the connection has another list afterwards
        self._connection.on_headers_complete()
        if self._parser.should_upgrade():
            self._framing = b"".join(b"%b: %b\r\n" % one for one in headers if one[0] in _FRAMING)

    def _on_message_complete(self) -> None:
        if not self._framing:
            self._connection.on_message_complete()
