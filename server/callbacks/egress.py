"""Egress policy: to which hosts and addresses callbacks may be sent, with the name of each rule that forbids one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from leyden.server.callbacks.ip_addresses import is_public, no_connection_to, parse_host_address, unmap
from leyden.server.callbacks.url_parts import host_of, url_parts
from leyden.server.errors import ArgumentError
from leyden.server.printable import quoted
from leyden.server.timestamps import duration_near

Network = IPv4Network | IPv6Network

MODES = ("loopback", "public", "none")

# The names of the rules. The note of a blocked attempt begins with one of them.
PORT = "port"
OWN_LISTENER = "own-listener"
EGRESS_NONE = "egress-none"
LOOPBACK_ONLY = "loopback-only"
PRIVATE_NETWORK = "private-network"

# Not a rule: the error code of an attempt at a host name without an address.
UNRESOLVED = "unresolved"
# How the note of a timeout begins when the name of the receiver had no address yet.
NO_LOOKUP = ("the look-up of the name ", "the name ")
# How the note of a timeout begins when there was no connection yet, by whether it is one of TLS.
NO_CONNECTION = ("no connection", "no TLS connection")
# How the note of a reset begins when the receiver closed the connection before the request was written to it.
NOTHING_WRITTEN = "the receiver closed the connection at once"

# A part of the note of a blocked attempt in Python: another policy alone sends nothing again.
THEN_REPLAY = " and replay this delivery"

_ANY_MODE = "MODE"  # in a note: one of the modes, which the address of the host decides

_LOOPBACK = ip_address("127.0.0.1")
_MAX_LISTED = 8  # networks that are allowed already, in a note

# The networks that `explain` proposes to allow (RFC 1918, RFC 4193).
_PRIVATE = tuple(
    ip_network(text) for text in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)


def _network(given: str | Network) -> Network:
    if not isinstance(given, (str, IPv4Network, IPv6Network)):  # ip_network(5) is an address
        raise ArgumentError(f"{quoted(given, 60)} is not a network: give a text such as 10.0.0.0/8")
    try:
        return ip_network(given)
    except ValueError as error:
        raise ArgumentError(f"{quoted(given)} is not a network ({error}): give one such as 10.0.0.0/8") from None


def is_allowed_port(port: int) -> bool:
    """Whether a callback may go to this port: 80, 443 and 1024 to 65535."""
    return port in {80, 443} or 1024 <= port <= 65_535


class Egress:
    """The egress policy of one server.

    The mode `loopback` allows only loopback addresses, `public` only public addresses, `none` nothing. `allow` lists
    networks that are allowed in every mode. `own` lists the hosts and ports of this server: they are always forbidden.
    The allowed ports are 80, 443 and 1024 to 65535. `in_python` is whether `explain` names the arguments of `Sandbox`
    instead of the options of the command line; `is_beside` is whether the policy is then that of another sandbox, whose
    server made the one that sends.

    Raises `ValueError` for an unknown mode or an invalid network.
    """

    def __init__(
        self,
        mode: str,
        *,
        allow: Iterable[str | Network] = (),
        own: Iterable[tuple[str, int]] = (),
        in_python: bool = False,
        is_beside: bool = False,
    ) -> None:
        if not isinstance(mode, str) or mode not in MODES:
            raise ArgumentError(f"{quoted(mode)} is not an egress mode: choose {', '.join(MODES)}")
        self.mode = mode
        self._in_python = in_python
        self._is_beside = is_beside
        self._allowed = tuple(_network(network) for network in allow)
        self._own_names: set[tuple[str, int]] = set()
        self._own_addresses: set[tuple[IPv4Address | IPv6Address, int]] = set()
        self._own_local_ports: set[int] = set()
        for host, port in own:
            address = parse_host_address(host)
            if address is None:
                self._own_names.add((_normalise(host), port))
            else:
                self._own_addresses.add((unmap(address), port))
                if address.is_loopback or address.is_unspecified:
                    self._own_local_ports.add(port)

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be sent anywhere."""
        return self.mode == "none" and not self._allowed

    def check_host(self, host: str, port: int) -> str | None:
        """The rule that forbids a URL's host and port for every address; None when it depends on the address."""
        if not is_allowed_port(port):
            return PORT
        name, target = _normalise(host), _spelled(host)
        if (name, port) in self._own_names or (target is not None and self._is_own(unmap(target), port)):
            return OWN_LISTENER
        if self.is_closed:
            return OWN_LISTENER if name == "localhost" and port in self._own_local_ports else EGRESS_NONE
        return None

    def check_address(self, host: str, address: str, port: int) -> str | None:
        """The rule that forbids a connection to `address` for a URL's `host` and `port`, or None."""
        rule = self.check_host(host, port)
        if rule is not None:
            return rule
        target = unmap(ip_address(address.partition("%")[0]))
        if self._is_own(target, port):
            return OWN_LISTENER
        if any(target in network for network in self._allowed):
            return None
        if self.mode == "none":
            return EGRESS_NONE
        if self.mode == "loopback":
            return None if target.is_loopback else LOOPBACK_ONLY
        return None if is_public(target) else PRIVATE_NETWORK

    def blocked_note(self, url: str) -> str:
        """The note of an attempt to send to `url` that is blocked now; empty when it may be sent, and when only the
        lookup of the host's name can tell."""
        try:
            parts = url_parts(url)
        except ArgumentError:
            return ""
        host, port = parts.host, parts.port
        target = "127.0.0.1" if _normalise(host) == "localhost" else str(_spelled(host) or "")
        rule = self.check_address(host, target, port) if target else self.check_host(host, port)
        return "" if rule is None else self.explain(rule, host, port, target)

    def _is_own(self, target: IPv4Address | IPv6Address, port: int) -> bool:
        local = target.is_loopback or target.is_unspecified  # the operating system connects 0.0.0.0 to this machine
        return (target, port) in self._own_addresses or (local and port in self._own_local_ports)

    def _is_listener(self, target: IPv4Address | IPv6Address | None, port: int) -> bool:
        """Whether the server accepts connections at this address, of those that are its own; None: a name of its."""
        if target is None:
            return True
        target = unmap(target)
        if target.is_unspecified:
            target = ip_address("127.0.0.1" if target.version == 4 else "::1")
        any_address = [ip_address("0.0.0.0"), ip_address("::")]
        return any((one, port) in self._own_addresses for one in [target, *any_address])

    def explain(self, rule: str, host: str, port: int, address: str = "") -> str:
        """The note of an attempt that `rule` forbids: its name, the reason, and what to change to allow the attempt.

        `address` is the address of the host; without it, the one that the host spells, if it spells one. For
        `UNRESOLVED` the result says whether the mode would reach the host if its name had an address; it can be empty.
        """
        if rule == UNRESOLVED:
            if self.mode != "loopback" or _normalise(host) == "localhost":
                return ""
            return f"the mode loopback reaches loopback addresses only: for another host, {self._mend(None, host)}"
        if rule == PORT:
            return f"{PORT}: {port} is not an allowed port: give the receiver port 80, 443 or one from 1024 to 65535"
        target = ip_address(address) if address else _spelled(host)
        if rule == OWN_LISTENER:
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            if self._is_listener(target, port):
                return f"{OWN_LISTENER}: {place} is this server itself: give the address of your receiver"
            own = "has the port of this server, and no callback is sent to it at a loopback address"
            return f"{OWN_LISTENER}: {place} {own}: give your receiver another port"
        if rule == EGRESS_NONE:
            return f"{EGRESS_NONE}: nothing may be sent to {host}: {self._mend_of_none(target, host, port)}"
        mend = self._mend(target, host, THEN_REPLAY)
        place = host if target is None or str(target) == host else f"{host} ({target})"
        kind = "a loopback address" if rule == LOOPBACK_ONLY else "a public address"
        return f"{rule}: {place} is not {kind}: {mend}"

    def _mend_of_none(self, target: IPv4Address | IPv6Address | None, host: str, port: int) -> str:
        """What to change where nothing may be sent. No name is looked up then, so the note says which mode is for which
        address."""
        try:
            parse_host_address(host)
        except ArgumentError as error:
            return str(error)
        if target is not None or _normalise(host) == "localhost":
            return self._mend(target, host, THEN_REPLAY)
        kinds = "loopback for a host on this machine, public for one on the public internet"
        own = "; no address of this machine is reached at the port of this server" * (port in self._own_local_ports)
        if self._in_python:
            change = self._python_mend(_ANY_MODE, (), THEN_REPLAY)
            return f"{change}; {_ANY_MODE} is {kinds}; for another, its network as egress_allow{own}"
        return f"use --egress {_ANY_MODE}: {kinds}; for another, --egress-allow with its network{own}"

    def _mend(self, target: IPv4Address | IPv6Address | None, host: str, then: str = "") -> str:
        mode = "loopback" if _normalise(host) == "localhost" else "public"
        if target is not None:
            target = unmap(target)
            kind = no_connection_to(target)
            if kind:
                return f"no connection can be made to {kind}, whatever is allowed: give the address of your receiver"
            mode = "loopback" if target.is_loopback else mode
            if not is_public(target) and not (target.is_loopback and self.mode == "none"):
                own = next((network for network in _PRIVATE if target in network), ip_network(target))
                if self._in_python:
                    return self._python_mend("", [*self._allowed, own], then)
                return f"add --egress-allow {own}" + (" to those that are given" if self._allowed else "")
        is_kept = any(_LOOPBACK in network for network in self._allowed)
        ends = self.mode == "loopback" and mode == "public" and not is_kept
        if self._in_python:
            return self._python_mend(mode, self._allowed, then) + (
                "; the mode public reaches no loopback address" * ends
            )
        return f"use --egress {mode}" + (", which reaches no loopback address" * ends)

    def _python_mend(self, mode: str, networks: Sequence[Network], then: str) -> str:
        """The ways to another policy: the first is for any sandbox, a fork or a loaded one included. A call replaces
        the networks, so it has those that are allowed now."""
        named = [] if not mode else [mode] if mode == _ANY_MODE else [f'"{mode}"']
        allow = [f"egress_allow={_listed(networks, len(self._allowed))}"] if networks else []
        call = f"set_egress({', '.join(named + allow)})"
        count = len(self._allowed)
        where = f"; ALLOWED is the list of the {count} networks that are allowed now" * (count > _MAX_LISTED)
        if self._is_beside:
            return f"in the program that serves this sandbox, call {call} of its Sandbox{then}{where}"
        given = " and ".join([f"egress={text}" for text in named] + allow)
        option = "leyden_egress" if mode else "leyden_egress_allow"
        return f"call {call}{then}; for a new sandbox, pass {given} to Sandbox, or set {option} in pytest{where}"


def _listed(networks: Sequence[Network], allowed: int) -> str:
    """The networks as a list in Python, each once. The first ones are those that are allowed now, as many as `allowed`
    says; a note names no more than eight of them."""
    if allowed > _MAX_LISTED:
        more = "".join(f', "{network}"' for network in networks[allowed:])
        return f"[*ALLOWED{more}]"
    return "[" + ", ".join(f'"{network}"' for network in dict.fromkeys(networks)) + "]"


def parse_timeout(span: str | float | timedelta) -> int:
    """The longest wait for the response of a receiver on the network, in milliseconds: from 100 ms to 60 s.

    Raises `ValueError` for another one.
    """
    timeout_ms = duration_near(span, 100, 60_000)
    if not 100 <= timeout_ms <= 60_000:
        raise ArgumentError(f"a callback timeout is 100ms to 60s, not {quoted(span)}")
    return timeout_ms


def before_attempt(note: str) -> str:
    """The note of a blocked attempt as that of one that is not made yet: there is nothing to replay."""
    return note.replace(THEN_REPLAY, "")


def closed_note(url: str) -> str:
    """The note of an attempt to send to `url` from a sandbox in process that sends nothing to the network."""
    policy = Egress("none", in_python=True)
    return policy.blocked_note(url) or policy.explain(EGRESS_NONE, host_of(url), 0)


def _spelled(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return parse_host_address(host)
    except ValueError:
        return None


def _normalise(host: str) -> str:
    return host.lower().rstrip(".")
