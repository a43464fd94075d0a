"""The HTTP client of the transport: it connects only to checked addresses and follows no redirects."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from leyden.server.callbacks.attempts import KEPT_BYTES, READ_CAP_BYTES, invalid_status
from leyden.server.callbacks.deliveries import status_note
from leyden.server.callbacks.egress import NO_CONNECTION, NO_LOOKUP, NOTHING_WRITTEN, UNRESOLVED
from leyden.server.callbacks.ip_addresses import parse_host_address, unmap
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.printable import encodable
from leyden.server.system.http_client.certificates import is_of_unknown_issuer, issuer_mend, plain_error
from leyden.server.system.http_client.client import ReceiverClient, parse_error
from leyden.server.system.http_client.name_lookup import (
    PROGRESS,
    AttemptProgress,
    LookupState,
    NameLookup,
    TooManyLookups,
)

AddressCheck = Callable[[str, str, int], str | None]
HostCheck = Callable[[str, int], str | None]
Explain = Callable[[str, str, int, str], str]
Lookup = Callable[[str], Awaitable[list[str]]]


# The errors of a connection that was opened, and that the receiver closed.
_CLOSED = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
# The reasons of OpenSSL for an answer that is no TLS, as one of a receiver that speaks HTTP.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
_PLAIN_MEND = "it does not answer in TLS: give a callbackUrl that begins with http://, or let the receiver speak TLS"


# What the error of the operating system means when no receiver refused the connection.
_NO_ROUTE = "nobody refused it: this machine has no route to the address"
_NO_TARGET = "nobody refused it: the operating system connects to no address of this kind"
NO_ROUTES = {
    errno.ENETUNREACH: _NO_ROUTE,
    errno.EHOSTUNREACH: _NO_ROUTE,
    errno.EINVAL: _NO_TARGET,
    errno.EACCES: _NO_TARGET,
    errno.EADDRNOTAVAIL: _NO_TARGET,
}


class EgressBlocked(Exception):
    """The egress policy forbids the address. `details` are the rule, the URL's host and port, and the address or ""."""

    def __init__(self, *details: Any) -> None:
        super().__init__(details[0])
        self.details: tuple[str, str, int, str] = (*details,)


class Session:
    """Attempts to reach receivers. The address of each is checked immediately before its connection is opened."""

    def __init__(
        self,
        check_address: AddressCheck,
        check_host: HostCheck,
        explain: Explain,
        lookup: Lookup | None,
    ) -> None:
        self._check_address = check_address
        self._check_host = check_host
        self._explain = explain
        self._client = ReceiverClient(_CheckedResolver(check_address, lookup or NameLookup()))

    async def send(self, request: CallbackRequest) -> CallbackResponse:
        """Make the attempt. A network error is returned as a response with `error`, not raised."""
        start = time.perf_counter()
        progress = AttemptProgress()
        PROGRESS.set(progress)
        try:
            return await self._send(request, start)
        except EgressBlocked as blocked:
            note = self._explain(*blocked.details)
            return CallbackResponse(error="blocked", note=note, latency_ms=_elapsed_ms(start))
        except Exception as error:
            code, note = _classify(request, error, progress)
            note = encodable(note)
            if isinstance(error, aiohttp.ClientConnectorDNSError):
                note = _joined(note, self._explain(UNRESOLVED, error.host, error.port or 0, ""))
            return CallbackResponse(error=code, note=note, latency_ms=_elapsed_ms(start))

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _send(self, request: CallbackRequest, start: float) -> CallbackResponse:
        target = _parse_target(request.url)
        if target.invalid_reason:
            raise ValueError(target.invalid_reason)
        rule = self._check_host(target.host, target.port)
        if rule is not None:
            raise EgressBlocked(rule, target.host, target.port, target.address)
        headers: Mapping[str, str] = request.headers
        if target.unresolved_reason:
            return CallbackResponse(error="unresolved", note=target.unresolved_reason, latency_ms=_elapsed_ms(start))
        if target.address:
            rule = self._check_address(target.host, target.address, target.port)
            if rule is not None:
                raise EgressBlocked(rule, target.host, target.port, target.address)
        if target.host_header:
            headers = {**headers, "host": target.host_header}
        async with await self._client.post(request, target.url, headers) as response:
            invalid = invalid_status(response.status)
            if invalid:
                raise ValueError(invalid)
            kept, truncated = await _read_body(response)
            return CallbackResponse(
                status=response.status,
                headers=_headers(response),
                body=kept,
                note=_joined(
                    status_note(response.status, encodable(response.headers.get("Location", ""))),
                    f"reading stopped after {READ_CAP_BYTES} bytes" if truncated else "",
                ),
                latency_ms=_elapsed_ms(start),
            )


class Target(NamedTuple):
    """A callback's URL, parsed.

    `url` is the URL to connect to. `address` is the literal IP address in it, in its usual spelling, or empty for a
    name. `host_header` is the host as it was written, when its spelling was another. `invalid_reason` says why the text
    is no URL of a callback, `unresolved_reason` why its host can have no address.
    """

    url: URL
    host: str = ""
    port: int = 0
    address: str = ""
    host_header: str = ""
    invalid_reason: str = ""
    unresolved_reason: str = ""


@lru_cache(maxsize=1024)
def _parse_target(text: str) -> Target:
    # `encoded`: the path is sent as it was written, not normalised.
    url = URL(text, encoded=True)
    host, port = url.host, url.port
    if url.scheme not in {"http", "https"} or not host or port is None or url.raw_user is not None:
        return Target(url, invalid_reason=f"{text!r} is not an http or https URL without user info")
    try:
        parsed = parse_host_address(host)
    except ValueError as error:
        return Target(url, host, port, unresolved_reason=str(error))
    address = "" if parsed is None else str(parsed)
    if address in ("", host):
        return Target(url, host, port, address)
    # The connection goes to the address; the receiver still gets the host as it was written.
    return Target(url.with_host(address), host, port, address, host_header=url.raw_authority)


def _classify(request: CallbackRequest, error: Exception, progress: AttemptProgress) -> tuple[str, str]:
    """The error code of a network error, and its explanation. Any other error is raised again."""
    is_tls = request.url[:6].lower() == "https:"
    match error:
        case TimeoutError() if progress.state is not LookupState.NONE:
            return "timeout", _lookup_note(request, progress)
        case TimeoutError() if not progress.is_connected:
            limit_ms = min(request.connect_timeout_ms, request.timeout_ms)
            return "timeout", f"{NO_CONNECTION[is_tls]} within {limit_ms} ms"
        case TimeoutError():
            return "timeout", f"no complete answer within {request.timeout_ms} ms"
        case aiohttp.ClientConnectorDNSError():
            return "unresolved", f"the name {error.host} has no address: {plain_error(error.os_error)}"
        case TooManyLookups():
            return "unresolved", str(error)
        case aiohttp.ClientConnectorCertificateError():
            return "tls", _certificate_note(error)
        case aiohttp.ClientConnectorError() if isinstance(error, aiohttp.ClientSSLError) or (
            is_tls and isinstance(error.os_error, _CLOSED)
        ):  # in the handshake
            note = f"no TLS connection to {_place(error)}: {plain_error(error.os_error)}"
            is_plain = isinstance(error.os_error, ssl.SSLError) and error.os_error.reason in _NOT_TLS
            return "tls", _joined(note, _PLAIN_MEND if is_plain else "")
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, _CLOSED):  # before it was used
            return "reset", f"{NOTHING_WRITTEN}, and nothing was sent"
        case aiohttp.ClientConnectorError():
            note = f"no connection to {_place(error)}: {plain_error(error.os_error)}"
            return "refused", _joined(note, NO_ROUTES.get(error.os_error.errno or 0, ""))
        case aiohttp.ServerDisconnectedError() | OSError() if not progress.is_sent:
            return "reset", f"{NOTHING_WRITTEN}, and nothing was sent"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "reset", "the connection was closed before the answer was complete"
        case OSError():
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error  # of an error of aiohttp
            return "reset", f"the connection was closed: {plain_error(cause)}"
        case aiohttp.ClientResponseError():
            return "protocol", parse_error(error.message)
        case aiohttp.ClientError() | ValueError():
            return "protocol", str(error) or type(error).__name__
    raise error


def _certificate_note(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    note = f"the certificate of {error.host}:{error.port} is refused: {plain_error(cause)}"
    return f"{note}; {issuer_mend()}" if is_of_unknown_issuer(cause) else note


def _lookup_note(request: CallbackRequest, progress: AttemptProgress) -> str:
    """The note of a timeout before the receiver's name had an address."""
    host = URL(request.url, encoded=True).host
    limit_ms = min(request.connect_timeout_ms, request.timeout_ms)
    if progress.state is LookupState.WAITING:
        return f"{NO_LOOKUP[0]}{host} had no answer within {limit_ms} ms"
    earlier = "1 earlier look-up" if progress.earlier == 1 else f"{progress.earlier} earlier look-ups"
    return f"{NO_LOOKUP[1]}{host} was not looked up: {earlier} had no answer within {limit_ms} ms"


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The headers with names in lower case; values of the same name are joined (RFC 9110, 5.2)."""
    joined: dict[str, str] = {}
    for name, value in response.headers.items():
        name, value = encodable(name.lower()), encodable(value)
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _place(error: aiohttp.ClientConnectorError) -> str:
    """The host and the port as in a URL."""
    host = error.host
    return f"[{host}]:{error.port}" if ":" in host else f"{host}:{error.port}"


def _elapsed_ms(start: float) -> int:
    return round((time.perf_counter() - start) * 1_000)


class _CheckedResolver(AbstractResolver):
    """Looks a name up once, and returns its addresses only if all of them are allowed.

    A name that has both a public and a private address is an attack, not a choice.
    """

    def __init__(self, check_address: AddressCheck, lookup: Lookup) -> None:
        self._check_address = check_address
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The checked addresses, in a form that is not looked up again. Raises `OSError` or `EgressBlocked`."""
        progress = PROGRESS.get()
        progress.state = LookupState.WAITING
        try:
            found = await self._lookup(host)
            progress.state = LookupState.NONE
            addresses = [unmap(ip_address(text.partition("%")[0])) for text in found]
        except ValueError as error:
            raise OSError(f"not a name that can be looked up: {error}") from error
        if not addresses:
            raise OSError("the look-up found none")
        for address in addresses:
            rule = self._check_address(host, str(address), port)
            if rule is not None:
                raise EgressBlocked(rule, host, port, str(address))
        return [_resolve_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Nothing to close."""


def _resolve_result(host: str, address: IPv4Address | IPv6Address, port: int) -> ResolveResult:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return ResolveResult(
        hostname=host, host=str(address), port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )


async def _read_body(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """The first `KEPT_BYTES` of the body, and whether the body is longer than `READ_CAP_BYTES`."""
    content = response.content
    if content.is_eof() and content.total_bytes <= KEPT_BYTES:  # most responses are short and arrive in one piece
        return content.read_nowait(), False
    kept, read = b"", 0
    async for chunk in content.iter_any():
        kept += chunk[: KEPT_BYTES - len(kept)]
        read += len(chunk)
        if read > READ_CAP_BYTES:
            response.close()
            return kept, True
    return kept, False
