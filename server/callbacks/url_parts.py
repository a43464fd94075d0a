"""The parts of a URL of a receiver or a server: the one reading of its scheme, its host and its port."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import urlsplit

from leyden.server.callbacks.ip_addresses import parse_host_address
from leyden.server.errors import ArgumentError
from leyden.server.printable import cut, quoted, without_user

DEFAULT_PORTS = {"http": 80, "https": 443}


class UrlParts(NamedTuple):
    """An http or https URL. `scheme` and `host` are in lower case (RFC 3986, 3.1 and 3.2.2), an IPv6 `host` has no
    brackets, `authority` is the host with the port as both were written, `port` is that of the scheme where none is
    written, `has_port` whether one is, and `target` the path and the query."""

    scheme: str
    host: str
    authority: str
    port: int
    has_port: bool
    target: str

    def address(self) -> IPv4Address | IPv6Address | None:
        """The IP address that the host spells; None for a name. Raises `ArgumentError` for a host in the form of a
        number that is no address, such as `256.0.0.1` or `08`: it is no name either."""
        return parse_host_address(self.host)

    def address_fault(self) -> str:
        """Why the host is no address, with the mend; empty for a name and for an address."""
        try:
            self.address()
        except ArgumentError as error:
            return str(error)
        return ""


@lru_cache(maxsize=1024)
def url_parts(url: str) -> UrlParts:
    """The parts of a URL. Raises `ArgumentError` for a text that is no http or https URL with a host."""
    with suppress(ValueError):  # brackets that hold no IPv6 address, and ports that are no number up to 65535
        parts = urlsplit(url)
        port = parts.port
        if parts.scheme in DEFAULT_PORTS and parts.hostname and port != 0:
            return UrlParts(
                parts.scheme,
                parts.hostname,
                parts.netloc.rpartition("@")[2],
                DEFAULT_PORTS[parts.scheme] if port is None else port,
                port is not None,
                (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
            )
    shown = quoted(cut(without_user(url), 80))
    raise ArgumentError(f"{shown} is not an http or https URL with a host: give one such as http://localhost:3000/hook")


def address_fault(url: str) -> str:
    """Why the host of a URL is no address, with the mend; empty for a name, for an address, and for no URL."""
    try:
        return url_parts(url).address_fault()
    except ArgumentError:
        return ""


def host_of(url: str) -> str:
    """The host of a URL in lower case, without brackets; empty for a text that is no URL."""
    try:
        return url_parts(url).host
    except ArgumentError:
        return ""
