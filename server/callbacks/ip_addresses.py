"""IP addresses in URLs, in all the spellings that browsers and the C library accept."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


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
        return unmap(IPv6Address(text.partition("%")[0]))
    parts = text.removesuffix(".").split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise ValueError(f"{host!r} is not an IP address: write it as four numbers from 0 to 255")
    *high, low = [_number(part) for part in parts]
    if any(number > 255 for number in high) or low >= 256 ** (4 - len(high)):
        raise ValueError(f"{host!r} is not an IP address: a part is too large")
    return IPv4Address(low + sum(number << 8 * (3 - place) for place, number in enumerate(high)))


def unmap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address in `::ffff:a.b.c.d`, or the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _number(part: str) -> int:
    if part[:2] in {"0x", "0X"}:
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)
