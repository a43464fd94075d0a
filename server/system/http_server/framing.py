"""The headers of a request: their values, and those that name its host and delimit its body."""

from __future__ import annotations

from collections.abc import Sequence

import httptools

from leyden.server.errors import InvalidHttp, Problem, UnknownTransferCoding
from leyden.server.http.request_parsing import BLANKS

_SHOWN = 100
_VERSIONS = ("1.0", "1.1")


def trim_values(headers: list[tuple[bytes, bytes]]) -> None:
    """Take the blanks around the values out of the list, which stays the same: the parser leaves those after a value,
    and they are no part of it (RFC 9110, 5.5)."""
    headers[:] = [(name, value.strip(BLANKS)) for name, value in headers]


def framing_problem(headers: Sequence[tuple[bytes, bytes]], version: str) -> Problem | None:
    """Why these headers of a request, with names in lower case, are refused (RFC 9112, 3.2 and 6.1), or None."""
    if version not in _VERSIONS:
        return InvalidHttp(f"the version HTTP/{version} is not understood: send HTTP/1.1")
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
        return InvalidHttp("a request of HTTP/1.1 has one header Host: send it once")
    if b"transfer-encoding" not in names:
        return None
    coding = b", ".join([value for name, value in headers if name == b"transfer-encoding"])
    if coding.strip().lower() == b"chunked":
        return None
    text = coding[:_SHOWN].decode("latin-1")
    return UnknownTransferCoding(f"the transfer coding {text!r} is not understood: send chunked alone, or no coding")


def origin_form(url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The path and the query of a URL with a scheme and a host. The host replaces that of the header `Host` (RFC 9112,
    3.2.2). A URL without a host is returned as it is."""
    parts = httptools.parse_url(url)
    if parts.host is None:
        return url
    host = b"[%b]" % parts.host if b":" in parts.host else parts.host
    authority = host if parts.port is None else b"%b:%d" % (host, parts.port)
    headers[:] = [(b"host", authority), *(header for header in headers if header[0] != b"host")]
    return (parts.path or b"/") + (b"" if parts.query is None else b"?" + parts.query)
