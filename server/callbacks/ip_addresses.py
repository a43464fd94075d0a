"""IP addresses in URLs, in all the spellings that browsers and the C library accept."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from leyden.server.errors import ArgumentError
from leyden.server.printable import quoted

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_MOST_DIGITS = 40  # of a number without leading zeros; more are too large for an address in every base

# The networks of IANA's registries of special-purpose addresses (RFC 6890, as of October 2025) that are not globally
# reachable, as wholes: their exceptions are anycast addresses of routers and relays. The tables of `ipaddress` differ
# between versions of Python. In addition multicast, and networks whose addresses contain another address, which a relay
# reaches.
_NEVER_PUBLIC = (
    IPv4Network("0.0.0.0/8"),  # this network
    IPv4Network("10.0.0.0/8"),  # private use
    IPv4Network("100.64.0.0/10"),  # shared address space
    IPv4Network("127.0.0.0/8"),  # loopback
    IPv4Network("169.254.0.0/16"),  # link local
    IPv4Network("172.16.0.0/12"),  # private use
    IPv4Network("192.0.0.0/24"),  # IETF protocol assignments
    IPv4Network("192.0.2.0/24"),  # documentation
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv4Network("192.168.0.0/16"),  # private use
    IPv4Network("198.18.0.0/15"),  # benchmarking
    IPv4Network("198.51.100.0/24"),  # documentation
    IPv4Network("203.0.113.0/24"),  # documentation
    IPv4Network("224.0.0.0/4"),  # multicast
    IPv4Network("240.0.0.0/4"),  # reserved, and limited broadcast
    IPv6Network("2001::/23"),  # IETF protocol assignments, with Teredo
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4
    IPv6Network("3fff::/20"),  # documentation
)
_BROADCAST = IPv4Address("255.255.255.255")
# RFC 4291, 2.4: the global unicast addresses that are assigned. All others are special, reserved, or translated.
_GLOBAL_UNICAST = IPv6Network("2000::/3")


@lru_cache(maxsize=1024)
def parse_host_address(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address of a URL's host, or None when the host is a name.

    An IPv4 address has one to four parts, decimal, octal or hexadecimal; the last part fills the remaining bytes
    (WHATWG URL, host parsing). So `0x7f.1` and `2130706433` are 127.0.0.1. An IPv6 address that maps an IPv4 address is
    that IPv4 address. Brackets and a zone are ignored.

    Raises `ValueError` for an invalid address that cannot be a name, such as `1.2.3.256`.
    """
    text = host.removeprefix("[").removesuffix("]")
    if ":" in text:
        try:
            return unmap(IPv6Address(text.partition("%")[0]))
        except ValueError:
            raise ArgumentError(f"{quoted(host)} is not an IPv6 address: write one such as [::1]") from None
    parts = text.removesuffix(".").split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise ArgumentError(f"{quoted(host)} is not an IP address: write it as four numbers from 0 to 255")
    octal = next((part for part in parts if _is_wrong_octal(part)), None)
    if octal is not None:
        raise ArgumentError(
            f"{quoted(host)} is not an IP address: {quoted(octal)} begins with 0, so it is octal, and has a digit"
            " above 7: leave out the leading zeros"
        )
    *high, low = [_number(part) for part in parts]
    if any(number > 255 for number in high) or low >= 256 ** (4 - len(high)):
        raise ArgumentError(
            f"{quoted(host)} is not an IP address: a part is too large: write it as four numbers from 0 to 255"
        )
    return IPv4Address(low + sum(number << 8 * (3 - place) for place, number in enumerate(high)))


def unmap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address in `::ffff:a.b.c.d`, or the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether the address belongs to the public internet, and contains no other address."""
    address = unmap(address)
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return not any(address in network for network in _NEVER_PUBLIC)


def no_connection_to(address: IPv4Address | IPv6Address) -> str:
    """The kind of an address to which no TCP connection can be made, whatever the policy; empty for any other. A URL
    has no zone (RFC 3986, 3.2.2), and without one an IPv6 address that is link local leads nowhere."""
    address = unmap(address)
    if address.is_multicast:
        return "a multicast address"
    if address == _BROADCAST:
        return "the broadcast address"
    return "a link-local address of IPv6" if address.version == 6 and address.is_link_local else ""


def _is_wrong_octal(part: str) -> bool:
    return part.startswith("0") and part[:2] not in {"0x", "0X"} and not set(part) <= set("01234567")


def _number(part: str) -> int:
    digits, base = (part[2:], 16) if part[:2] in {"0x", "0X"} else (part, 8 if part.startswith("0") else 10)
    digits = digits.lstrip("0") or "0"
    return int(digits, base) if len(digits) <= _MOST_DIGITS else 256**4
