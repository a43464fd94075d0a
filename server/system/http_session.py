"""The HTTP client behind the real courier: it dials only addresses that were checked, and follows nobody anywhere."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from leyden.server.callbacks.attempts import KEPT_BYTES, READ_CAP_BYTES
from leyden.server.callbacks.ip_addresses import parse_host_address, unmap
from leyden.server.ports import CallbackRequest, CallbackResponse

# What the client would add of its own accord: a receiver sees exactly the headers that the delivery's row shows,
# besides host and content-length.
_NOT_ADDED = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")

_SLOW_PARTS = 8

Allow = Callable[[str, str, int], str | None]
Screen = Callable[[str, int], str | None]
Lookup = Callable[[str], Awaitable[list[str]]]


class Refused(Exception):
    """The policy forbids the address; the text is the rule's name."""


class Session:
    """Connections to receivers. A connection is kept for `keep_alive_s` seconds, long enough for a burst and too short
    to be found dead; the address of every new one was checked just before it was dialled."""

    def __init__(self, allow: Allow, screen: Screen, lookup: Lookup | None, keep_alive_s: float) -> None:
        self._allow = allow
        self._screen = screen
        connector = aiohttp.TCPConnector(
            resolver=_CheckedResolver(allow, lookup or _addresses),
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=keep_alive_s,
        )
        self._client = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
        )

    async def send(self, post: CallbackRequest) -> CallbackResponse:
        """Make the attempt. Whatever happens on the way is an `Answer`."""
        began = time.perf_counter()
        try:
            return await self._send(post, began)
        except Exception as error:
            word, note = _told(post, error)
            return CallbackResponse(error=word, note=note, latency_ms=_since(began))

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _send(self, post: CallbackRequest, began: float) -> CallbackResponse:
        target = _target(post.url)
        if target.trouble:
            raise ValueError(target.trouble)
        rule = self._screen(target.host, target.port)
        if rule is not None:
            raise Refused(rule)
        headers: Mapping[str, str] = post.headers
        if target.nowhere:
            return CallbackResponse(error="unresolved", note=target.nowhere, latency_ms=_since(began))
        if target.address:
            rule = self._allow(target.host, target.address, target.port)
            if rule is not None:
                raise Refused(rule)
        if target.known_as:
            headers = {**headers, "host": target.known_as}
        body: bytes | AsyncIterator[bytes] = post.body
        if post.send_duration_ms:
            headers = {**headers, "Content-Length": str(len(post.body))}  # or it would go out in chunks
            body = _slowly(post)
        timeout = _timeout(post.timeout_ms, post.connect_timeout_ms)
        async with self._client.post(
            target.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            kept, cut = await _read(response)
            return CallbackResponse(
                status=response.status,
                headers=_lower(response.headers),
                body=kept,
                note=f"reading stopped after {READ_CAP_BYTES} bytes" if cut else "",
                latency_ms=_since(began),
            )


class Target(NamedTuple):
    """What a callback's URL means, whoever may be reached there.

    `url` is what is dialled; `address` is the literal address in it, in its usual spelling, and `known_as` the host as
    it was submitted where that was another spelling. `trouble` says why it is no URL of a callback, `nowhere` why its
    host has no address.
    """

    url: URL
    host: str = ""
    port: int = 0
    address: str = ""
    known_as: str = ""
    trouble: str = ""
    nowhere: str = ""


@lru_cache(maxsize=1024)
def _target(text: str) -> Target:
    # `encoded`: the path goes out as it was submitted, without tidying.
    url = URL(text, encoded=True)
    host, port = url.host, url.port
    if url.scheme not in {"http", "https"} or not host or port is None or url.raw_user is not None:
        return Target(url, trouble=f"{text!r} is no http or https address without user info")
    try:
        address = parse_host_address(host)
    except ValueError as error:
        return Target(url, host, port, nowhere=str(error))
    meant = "" if address is None else str(address)
    if meant in ("", host):
        return Target(url, host, port, meant)
    # Dialled as the address it means; the receiver still reads the host it was given.
    return Target(url.with_host(meant), host, port, meant, known_as=url.raw_authority)


def _told(post: CallbackRequest, error: Exception) -> tuple[str, str]:
    """What went wrong, in a word and in words. What is no fault of the network's is raised again."""
    match error:
        case Refused():
            return "blocked", str(error)
        case aiohttp.ConnectionTimeoutError():
            return "timeout", f"no connection within {post.connect_timeout_ms} ms"
        case TimeoutError():
            return "timeout", f"no complete answer within {post.timeout_ms} ms"
        case aiohttp.ClientConnectorDNSError():
            return "unresolved", f"the name {error.host} has no address: {error.os_error}"
        case aiohttp.ClientSSLError():
            return "tls", str(error)
        case aiohttp.ClientConnectorError():
            return "refused", str(error)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "reset", f"closed before the answer was complete: {error}"
        case OSError():
            return "reset", str(error) or type(error).__name__
        case aiohttp.ClientError() | ValueError():
            return "protocol", str(error) or type(error).__name__
    raise error


def _since(began: float) -> int:
    return round((time.perf_counter() - began) * 1_000)


async def _slowly(post: CallbackRequest) -> AsyncIterator[bytes]:
    size = -(-len(post.body) // _SLOW_PARTS)
    for part in range(_SLOW_PARTS):
        await asyncio.sleep(post.send_duration_ms / 1_000 / _SLOW_PARTS)
        yield post.body[part * size : (part + 1) * size]


@lru_cache(maxsize=16)
def _timeout(whole_ms: int, connect_ms: int) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=whole_ms / 1_000, connect=connect_ms / 1_000)


class _CheckedResolver(AbstractResolver):
    """Looks a name up once and hands out the addresses only if every one of them is allowed: a name that leads to both
    a public and a private address is an attack, not a choice."""

    def __init__(self, allow: Allow, lookup: Lookup) -> None:
        self._allow = allow
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The checked addresses, as texts that need no second look-up. Raises `OSError` or `Refused`."""
        try:
            found = await self._lookup(host)
            addresses = [unmap(ip_address(text.partition("%")[0])) for text in found]
        except ValueError as error:
            raise OSError(None, f"not a name that can be looked up: {error}") from error
        if not addresses:
            raise OSError(None, "the name has no address")
        for address in addresses:
            rule = self._allow(host, str(address), port)
            if rule is not None:
                raise Refused(rule)
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Nothing is held."""


def _result(host: str, address: IPv4Address | IPv6Address, port: int) -> ResolveResult:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return ResolveResult(
        hostname=host, host=str(address), port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )


async def _addresses(host: str) -> list[str]:
    # RFC 6761, 6.3: names under localhost are the loopback, whatever a name server may say.
    name = "localhost" if host.rstrip(".").lower().endswith(".localhost") else host
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def _read(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """The first `KEPT_BYTES` of the body, and whether it was longer than we read."""
    content = response.content
    if content.is_eof() and content.total_bytes <= KEPT_BYTES:  # most answers are short, and there in one piece
        return content.read_nowait(), False
    kept, read = b"", 0
    async for chunk in content.iter_any():
        kept += chunk[: KEPT_BYTES - len(kept)]
        read += len(chunk)
        if read > READ_CAP_BYTES:
            response.close()
            return kept, True
    return kept, False


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
