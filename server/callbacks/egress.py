"""Egress: where callbacks may go, and the name of the rule that says no."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from leyden.server.callbacks.ip_addresses import parse_host_address, unmap

Network = IPv4Network | IPv6Network

MODES = ("loopback", "public", "none")

# The rules, by the names under which an attempt is recorded as blocked.
PORT = "port"
OWN_LISTENER = "own-listener"
EGRESS_NONE = "egress-none"
LOOPBACK_ONLY = "loopback-only"
PRIVATE_NETWORK = "private-network"

# Besides what IANA's registries call not globally reachable (`is_global`): networks that carry another address inside,
# which would be reached through a translator or a tunnel, and those that old registries or old Pythons let through.
_NEVER_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "100.64.0.0/10",  # shared address space, RFC 6598
        "192.88.99.0/24",  # 6to4 relays, RFC 7526
        "::/96",  # IPv4-compatible, RFC 4291
        "64:ff9b::/96",  # NAT64, RFC 6052
        "64:ff9b:1::/48",  # NAT64 for local use, RFC 8215
        "100::/64",  # discard only, RFC 6666
        "2001::/32",  # Teredo, RFC 4380
        "2002::/16",  # 6to4, RFC 3056
        "3fff::/20",  # documentation, RFC 9637
        "5f00::/16",  # segment routing, RFC 9602
        "fec0::/10",  # site-local, RFC 3879
    )
)


class Egress:
    """The policy of one server.

    `loopback` lets callbacks go to this machine only, `public` to public addresses only, `none` nowhere. `allow` lists
    networks that are open in every mode (with `none`: the only ones). `own` lists the hosts and ports at which this
    server itself is reached: no mode and no network opens those. Ports are 80, 443 and 1024 to 65535.

    Raises `ValueError` for a mode or a network that is none.
    """

    def __init__(self, mode: str, *, allow: Iterable[str | Network] = (), own: Iterable[tuple[str, int]] = ()) -> None:
        if mode not in MODES:
            raise ValueError(f"{mode!r} is not an egress mode: choose {', '.join(MODES)}")
        self.mode = mode
        self._allowed = tuple(ip_network(network) for network in allow)
        self._own_names: set[tuple[str, int]] = set()
        self._own_addresses: set[tuple[IPv4Address | IPv6Address, int]] = set()
        self._own_local_ports: set[int] = set()
        for host, port in own:
            address = parse_host_address(host)
            if address is None:
                self._own_names.add((_bare(host), port))
            elif address.is_loopback or address.is_unspecified:
                self._own_local_ports.add(port)
            else:
                self._own_addresses.add((address, port))

    def check_host(self, host: str, port: int) -> str | None:
        """The rule that forbids a URL's host and port whatever address the host has; None when the address decides."""
        if port not in {80, 443} and not 1024 <= port <= 65_535:
            return PORT
        if (_bare(host), port) in self._own_names:
            return OWN_LISTENER
        if self.mode == "none" and not self._allowed:
            return EGRESS_NONE
        return None

    def check_address(self, host: str, address: str, port: int) -> str | None:
        """The rule that forbids to dial `address` for a URL's `host` and `port`, or None."""
        rule = self.check_host(host, port)
        if rule is not None:
            return rule
        dialled = unmap(ip_address(address.partition("%")[0]))
        local = dialled.is_loopback or dialled.is_unspecified  # the system takes 0.0.0.0 for this machine
        if (dialled, port) in self._own_addresses or (local and port in self._own_local_ports):
            return OWN_LISTENER
        if any(dialled in network for network in self._allowed):
            return None
        if self.mode == "none":
            return EGRESS_NONE
        if self.mode == "loopback":
            return None if dialled.is_loopback else LOOPBACK_ONLY
        return None if is_public(dialled) else PRIVATE_NETWORK


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether the address is one of the public internet's, and carries no other address inside."""
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local:
        return False
    return not any(address in network for network in _NEVER_PUBLIC)


def _bare(host: str) -> str:
    return host.lower().rstrip(".")
