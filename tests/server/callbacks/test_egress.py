"""Egress: where a callback may go, down to the sockets that are never opened."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.callbacks.egress import Egress, before_attempt
from leyden.server.callbacks.ip_addresses import is_public
from leyden.server.ports import CallbackResponse
from leyden.server.system.http_client.session import NO_ROUTES
from tests.support.lists import listed
from tests.support.served import listening_receiver, served_leyden
from tests.support.transport_helpers import Shop, http_transport, opened, send, sockets_watched

VECTORS: dict[str, list[str]] = json.loads((Path(__file__).parents[2] / "vectors" / "egress.json").read_text())
EVERYTHING = (*VECTORS["must_block"], *VECTORS["must_pass"], *VECTORS["must_block_hosts"])


async def nobody(name: str) -> list[str]:
    raise AssertionError(f"{name} was looked up")


async def nowhere(name: str) -> list[str]:
    return []


async def this_machine(name: str) -> list[str]:
    return ["127.0.0.1", "::1"]


def url_of(host: str, port: int = 8080) -> str:
    return f"http://[{host}]:{port}/hook" if ":" in host and not host.startswith("[") else f"http://{host}:{port}/hook"


def sent_to(host: str, egress: Egress, lookup: Callable[[str], Awaitable[list[str]]] = nobody) -> CallbackResponse:
    """The result of an attempt that must open no socket."""

    async def scenario() -> CallbackResponse:
        async with http_transport(
            check_address=egress.check_address, check_host=egress.check_host, lookup=lookup
        ) as one:
            await send(one, "http://127.0.0.1:1/")  # imports and the session itself are done now
            with sockets_watched() as seen:
                answer = await send(one, url_of(host))
            assert seen == []
            return answer

    return asyncio.run(scenario())


# The vectors


@pytest.mark.parametrize("address", VECTORS["must_block"])
def test_no_socket_is_opened_to_an_address_that_is_not_public(address: str) -> None:
    answer = sent_to(address, Egress("public"))
    assert (answer.error, answer.note) == ("blocked", "private-network")


@pytest.mark.parametrize("address", VECTORS["must_block"])
def test_no_socket_is_opened_for_a_name_with_one_private_address(address: str) -> None:
    async def found(name: str) -> list[str]:
        return ["8.8.8.8", address]

    answer = sent_to("shop.example", Egress("public"), found)
    assert (answer.error, answer.note) == ("blocked", "private-network")


@pytest.mark.parametrize("host", VECTORS["must_block_hosts"])
def test_no_socket_is_opened_to_this_machine_under_any_spelling(host: str) -> None:
    answer = sent_to(host, Egress("public"), this_machine)
    assert (answer.error, answer.note) == ("blocked", "private-network")


@pytest.mark.parametrize("host", EVERYTHING)
def test_with_mode_none_nothing_is_sent_or_looked_up(host: str) -> None:
    answer = sent_to(host, Egress("none"))
    assert (answer.error, answer.note) == ("blocked", "egress-none")


@pytest.mark.parametrize("address", VECTORS["must_pass"])
def test_a_public_address_is_allowed_in_public_mode_and_forbidden_in_loopback_mode(address: str) -> None:
    assert Egress("public").check_address("shop.example", address, 443) is None
    assert Egress("loopback").check_address("shop.example", address, 443) == "loopback-only"
    assert sent_to(address, Egress("loopback")).note == "loopback-only"


@pytest.mark.parametrize("network", VECTORS["extra_networks"])
def test_the_first_and_last_address_of_a_translation_network_are_forbidden(network: str) -> None:
    first, _, length = network.partition("/")
    bits = 128 if ":" in first else 32
    number = int(IPv6Address(first) if ":" in first else IPv4Address(first))
    for place in (0, 2 ** (bits - int(length)) - 1):
        address = IPv6Address(number + place) if bits == 128 else IPv4Address(number + place)
        assert Egress("public").check_address("x", str(address), 80) == "private-network"


# IANA's registries of special-purpose addresses, and their column "Globally Reachable", as of October 2025.
REGISTRY = {
    False: (
        "0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24"
        " 192.0.0.0/29 192.0.0.8/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.88.99.0/24 192.88.99.2/32"
        " 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 255.255.255.255/32"
        " ::1/128 ::/128 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:2::/48 2001:10::/28"
        " 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10"
    ),
    True: (
        "192.0.0.9/32 192.0.0.10/32 192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 64:ff9b::/96 2001:1::1/128"
        " 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28 2001:30::/28 2620:4f:8000::/48"
    ),
}
# Globally reachable, and no receivers: addresses of routers, relays and translators, or of keys.
NO_RECEIVERS = [ip_network(text) for text in ("192.0.0.0/24", "64:ff9b::/96", "2001::/23")]


@pytest.mark.parametrize("network", [*map(ip_network, REGISTRY[False].split())], ids=str)
def test_what_is_not_globally_reachable_is_not_public(network: IPv4Network | IPv6Network) -> None:
    for place in (0, network.num_addresses // 2, network.num_addresses - 1):
        assert Egress("public").check_address("x", str(network[place]), 80) == "private-network"


@pytest.mark.parametrize("network", [*map(ip_network, REGISTRY[True].split())], ids=str)
def test_what_is_globally_reachable_is_public_where_receivers_are(network: IPv4Network | IPv6Network) -> None:
    is_receiver = not any(network[0] in one for one in NO_RECEIVERS)
    assert {is_public(network[0]), is_public(network[-1])} == {is_receiver}


def test_every_address_of_the_first_protocol_assignments_is_forbidden() -> None:
    assert [str(one) for one in IPv4Network("192.0.0.0/24") if is_public(one)] == []
    assert is_public(IPv4Address("191.255.255.255"))
    assert is_public(IPv4Address("192.0.1.0"))


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "::", "64:ff9b::", "2002::"]))
def test_an_address_inside_another_is_checked_too(inner: IPv4Address, prefix: str) -> None:
    number = int(inner) << 80 if prefix == "2002::" else int(inner)
    outer = IPv6Address(int(IPv6Address(prefix)) + number)
    rule = Egress("public").check_address("x", str(outer), 80)
    mapped = prefix == "::ffff:0:0"
    assert rule == (None if mapped and is_public(inner) else "private-network")
    assert (Egress("loopback").check_address("x", str(outer), 80) is None) == (
        (mapped and inner.is_loopback) or outer == IPv6Address(1)
    )


@given(st.ip_addresses(v=6))
def test_outside_the_one_global_block_no_ipv6_address_is_public(address: IPv6Address) -> None:
    if address not in IPv6Network("2000::/3") and address.ipv4_mapped is None:
        assert Egress("public").check_address("x", str(address), 80) == "private-network"


# Modes, networks, ports, and the server itself


@pytest.mark.parametrize("port", [0, 1, 22, 25, 79, 81, 442, 444, 1023])
def test_a_system_port_is_forbidden_in_every_mode(port: int) -> None:
    for mode in ("loopback", "public", "none"):
        assert Egress(mode).check_host("shop.example", port) == "port"
        assert Egress(mode, allow=["0.0.0.0/0"]).check_address("x", "8.8.8.8", port) == "port"


@pytest.mark.parametrize("port", [80, 443, 1024, 65_535])
def test_web_ports_and_all_high_ports_are_allowed(port: int) -> None:
    assert Egress("public").check_address("x", "8.8.8.8", port) is None
    assert Egress("loopback").check_address("x", "127.0.0.1", port) is None


def test_every_address_of_an_allowed_network_is_allowed_in_every_mode() -> None:
    for mode, otherwise in (("loopback", "loopback-only"), ("public", "private-network"), ("none", "egress-none")):
        egress = Egress(mode, allow=["10.1.0.0/16", "fd00:1::/32"])
        for address in ("10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "fd00:1::9", "fd00:1::9%eth0"):
            assert egress.check_address("x", address, 80) is None, (mode, address)
        for address in ("10.0.255.255", "10.2.0.0", "fd00:2::"):
            assert egress.check_address("x", address, 80) == otherwise


def test_the_server_itself_is_always_forbidden() -> None:
    own = [("127.0.0.1", 8402), ("192.168.1.5", 8402), ("leyden.example", 443)]
    egress = Egress("loopback", allow=["0.0.0.0/0", "::/0"], own=own)
    for address in ("127.0.0.1", "::1", "0.0.0.0", "::", "127.8.8.8", "::ffff:127.0.0.1", "192.168.1.5"):
        assert egress.check_address("x", address, 8402) == "own-listener"
        assert egress.check_address("x", address, 8403) is None
    assert egress.check_host("LEYDEN.example.", 443) == "own-listener"
    assert egress.check_host("leyden.example", 8443) is None
    closed = Egress("none", own=own)
    for host in ("127.0.0.1", "[::1]", "0.0.0.0", "2130706433", "localhost", "LOCALHOST.", "192.168.1.5"):
        assert closed.check_host(host, 8402) == "own-listener", host
        assert closed.check_host(host, 8403) == "egress-none", host
    assert egress.check_address("x", "192.168.1.6", 8402) is None


def test_the_note_says_that_an_address_is_this_server_only_where_the_server_listens() -> None:
    egress = Egress("loopback", own=[("127.0.0.1", 8402), ("leyden.example", 443)])
    itself = "is this server itself: give the address of your receiver"
    for host, address in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("localhost", "127.0.0.1")]:
        assert egress.explain("own-listener", host, 8402, address) == f"own-listener: {host}:8402 {itself}"
    assert egress.explain("own-listener", "leyden.example", 443) == f"own-listener: leyden.example:443 {itself}"
    other = "has the port of this server, and no callback is sent to it at a loopback address"
    for host, shown in [("127.0.0.2", "127.0.0.2:8402"), ("::1", "[::1]:8402")]:
        note = f"own-listener: {shown} {other}: give your receiver another port"
        assert egress.blocked_note(f"http://{shown}/hook") == egress.explain("own-listener", host, 8402) == note
    everywhere = Egress("loopback", own=[("0.0.0.0", 8402)])
    assert everywhere.explain("own-listener", "127.0.0.2", 8402) == f"own-listener: 127.0.0.2:8402 {itself}"


@pytest.mark.parametrize("wrong", ["lan", "", "PUBLIC"])
def test_an_unknown_mode_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ValueError, match="loopback, public, none"):
        Egress(wrong)


# Over sockets


def test_after_dns_rebinding_the_connection_goes_to_the_checked_address() -> None:
    answers = [["127.0.0.1"], ["8.8.8.8"], ["127.0.0.1", "10.0.0.1"]]

    async def rebinding(name: str) -> list[str]:
        return answers.pop(0)

    async def scenario() -> None:
        egress = Egress("loopback")
        async with (
            opened(Shop()) as shop,
            http_transport(check_address=egress.check_address, check_host=egress.check_host, lookup=rebinding) as one,
        ):
            assert (await send(one, shop.url("shop.example"))).status == 200
            assert f"Host: shop.example:{shop.port}\r\n".encode() in shop.requests[0]
            for _ in range(2):
                with sockets_watched() as seen:
                    answer = await send(one, shop.url("shop.example"))
                assert (answer.error, answer.note, seen) == ("blocked", "loopback-only", [])
            assert (shop.connections, answers) == (1, [])

    asyncio.run(scenario())


def test_a_redirect_to_a_forbidden_address_is_only_a_response() -> None:
    async def scenario() -> None:
        script = b"HTTP/1.1 307 Away\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n"
        async with opened(Shop(script)) as shop, http_transport(check_address=Egress("loopback").check_address) as one:
            await send(one, shop.url())
            with sockets_watched() as seen:
                assert (await send(one, shop.url())).status == 307
            assert set(seen) <= {"socket.__new__", "socket.connect"}
            assert shop.connections in {1, 2}

    asyncio.run(scenario())


# The command line


def delivery_to(client: Any, url: str) -> dict[str, Any]:
    """The delivery of a charge that expires at once, to this URL."""
    body = {"amount": "1000", "description": "tea", "expiresIn": 1, "callbackUrl": url}
    charge = client.ok("POST", "/v0/charges", body)["data"]
    client.ok("POST", "/sandbox/v1/clock/advance", {"by": "2s"})
    [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge['id']}")
    return dict(delivery)


def outcome_of(delivery: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    attempts = [(attempt["error"], attempt["note"].partition(":")[0]) for attempt in delivery["attempts"]]
    return delivery["status"], attempts


def blocked(rule: str) -> tuple[str, list[tuple[str, str]]]:
    return "blocked", [("blocked", rule)]


def test_a_loopback_server_posts_only_to_loopback_and_never_to_itself() -> None:
    with listening_receiver() as (hook, inbox), served_leyden("--rate", "0") as client:
        assert delivery_to(client, hook)["status"] == "delivered"
        assert outcome_of(delivery_to(client, f"{client.url}/v0/charges")) == blocked("own-listener")
        assert outcome_of(delivery_to(client, "http://10.1.2.3/hook")) == blocked("loopback-only")
        assert outcome_of(delivery_to(client, "http://127.0.0.1:22/hook")) == blocked("port")
        assert inbox.qsize() == 1


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--egress", "none"), "egress-none"),
        (("--egress", "public"), "private-network"),
        (("--host", "0.0.0.0", "--api-key", "secret"), "private-network"),
        (("--egress", "none", "--egress-allow", "10.0.0.0/8"), "egress-none"),
    ],
)
def test_the_note_of_a_blocked_attempt_begins_with_its_rule(options: tuple[str, ...], rule: str) -> None:
    with listening_receiver() as (hook, inbox), served_leyden("--rate", "0", *options) as client:
        assert outcome_of(delivery_to(client, hook)) == blocked(rule)
        assert inbox.empty()


@pytest.mark.parametrize(
    ("mode", "host", "expected", "mend", "in_python"),
    [
        ("loopback", "10.1.2.3", "not a loopback address", "--egress-allow 10.0.0.0/8", '"10.0.0.0/8"'),
        ("loopback", "172.31.9.9", "not a loopback address", "--egress-allow 172.16.0.0/12", '"172.16.0.0/12"'),
        ("loopback", "192.0.2.1", "not a loopback address", "--egress-allow 192.0.2.1/32", '"192.0.2.1/32"'),
        ("loopback", "8.8.8.8", "not a loopback address", "--egress public", 'egress="public"'),
        ("none", "127.0.0.1", "nothing may be sent", "--egress loopback", 'egress="loopback"'),
        ("none", "localhost", "nothing may be sent", "--egress loopback", 'egress="loopback"'),
        ("none", "0x7f.1", "nothing may be sent", "--egress loopback", 'egress="loopback"'),
        ("none", "192.168.1.9", "nothing may be sent", "--egress-allow 192.168.0.0/16", '"192.168.0.0/16"'),
        ("public", "127.0.0.1", "is not a public address", "--egress-allow 127.0.0.0/8", '"127.0.0.0/8"'),
        ("public", "fd00::1", "is not a public address", "--egress-allow fc00::/7", '"fc00::/7"'),
    ],
)  # fmt: skip
def test_a_blocked_attempt_says_what_to_change(mode: str, host: str, expected: str, mend: str, in_python: str) -> None:
    for egress, change in ((Egress(mode), mend), (Egress(mode, in_python=True), in_python)):

        async def scenario(egress: Egress = egress) -> CallbackResponse:
            async with http_transport(
                check_address=egress.check_address, check_host=egress.check_host, explain=egress.explain
            ) as transport:
                return await send(transport, url_of(host))

        answer = asyncio.run(scenario())
        rule, _, words = answer.note.partition(": ")
        assert answer.error == "blocked"
        assert rule in {"loopback-only", "egress-none", "private-network"}
        assert expected in words
        words = words.removesuffix(", which reaches no loopback address")
        assert words.endswith(change) or (change in words and " and replay this delivery; " in words)


@pytest.mark.parametrize("in_python", [False, True])
def test_without_egress_a_name_gets_the_mode_for_each_address_that_it_may_have(in_python: bool) -> None:
    egress = Egress("none", own=[("127.0.0.1", 8402)], in_python=in_python)
    note = egress.blocked_note("http://shop.example:8080/hook")
    assert note.startswith("egress-none: nothing may be sent to shop.example: ")
    assert ("set_egress(MODE) and replay this delivery" if in_python else "--egress MODE") in note
    for text, address in (("loopback for a host on this machine", "127.0.0.1"), ("public for one on", "93.184.216.34")):
        assert text in note
        assert Egress(text.split()[0]).check_address("shop.example", address, 8080) is None
    assert ("egress_allow" if in_python else "--egress-allow") in note
    assert "the port of this server" not in note
    assert egress.blocked_note("http://shop.example:8402/").endswith(
        "; no address of this machine is reached at the port of this server"
    )


@pytest.mark.parametrize("host", ["300.1.1.1", "1.2.3.4.5", "0x1.2.3.09"])
def test_what_is_no_address_is_named_without_egress_too(host: str) -> None:
    for in_python in (False, True):
        note = Egress("none", in_python=in_python).explain("egress-none", host, 80)
        assert note.startswith(f"egress-none: nothing may be sent to {host}: '{host}' is not an IP address")
        assert "MODE" not in note
        assert "egress " not in note.partition(": ")[2]


@given(
    st.sampled_from(["loopback", "public", "none"]),
    st.booleans(),
    st.one_of(st.ip_addresses(network="224.0.0.0/4"), st.ip_addresses(network="ff00::/8"),
              st.ip_addresses(network="fe80::/10"), st.just(IPv4Address("255.255.255.255")),
              st.just(IPv6Address("::ffff:255.255.255.255"))),
)  # fmt: skip
def test_no_policy_is_proposed_where_no_connection_can_be_made(
    mode: str, in_python: bool, address: IPv4Address | IPv6Address
) -> None:
    egress = Egress(mode, in_python=in_python)
    note = egress.blocked_note(url_of(str(address)))
    assert note.endswith("whatever is allowed: give the address of your receiver")
    assert "egress_allow" not in note
    assert "--egress" not in note


def test_an_attempt_that_nobody_refused_says_so() -> None:
    """The system connects to no multicast address: nothing is sent."""
    egress = Egress("loopback", allow=["224.0.0.1/32"])

    async def scenario() -> CallbackResponse:
        async with http_transport(check_address=egress.check_address, check_host=egress.check_host) as transport:
            return await send(transport, url_of("224.0.0.1"))

    answer = asyncio.run(scenario())
    assert answer.error == "refused"
    assert answer.note.endswith(tuple(NO_ROUTES.values()))
    assert "nobody refused it" in answer.note


@pytest.mark.parametrize(
    ("egress", "host", "addition"),
    [
        (Egress("loopback"), "shop.example", "use --egress public, which reaches no loopback address"),
        (Egress("loopback", allow=["127.0.0.0/8"]), "shop.example", "use --egress public"),
        (
            Egress("loopback", in_python=True), "shop.example",
            'call set_egress("public"); for a new sandbox, pass egress="public" to Sandbox,'
            " or set leyden_egress in pytest; the mode public reaches no loopback address",
        ),
        (Egress("loopback"), "localhost", ""),
        (Egress("public"), "shop.example", ""),
    ],
)  # fmt: skip
def test_a_name_without_an_address_says_whether_the_mode_reaches_it(egress: Egress, host: str, addition: str) -> None:
    async def scenario() -> CallbackResponse:
        async with http_transport(
            check_address=egress.check_address, check_host=egress.check_host, explain=egress.explain, lookup=nowhere
        ) as transport:
            return await send(transport, url_of(host))

    answer = asyncio.run(scenario())
    assert answer.error == "unresolved"
    assert answer.note.startswith(f"the name {host} has no address")
    expected = f"the mode loopback reaches loopback addresses only: for another host, {addition}" if addition else ""
    assert answer.note.partition("; ")[2] == expected


def test_a_blocked_port_is_told_the_allowed_ports() -> None:
    note = Egress("loopback").explain("port", "127.0.0.1", 25)
    assert note == "port: 25 is not an allowed port: give the receiver port 80, 443 or one from 1024 to 65535"


def test_a_network_can_be_allowed_and_the_server_itself_stays_forbidden() -> None:
    reached = ("--host", "0.0.0.0", "--api-key", "secret", "--public-url", "http://me.example")
    options = ("--rate", "0", *reached, "--egress-allow", "127.0.0.0/8")
    with listening_receiver() as (hook, _), served_leyden(*options) as client:
        assert delivery_to(client, hook)["status"] == "delivered"
        assert outcome_of(delivery_to(client, client.url)) == blocked("own-listener")
        assert outcome_of(delivery_to(client, "http://me.example/hook")) == blocked("own-listener")


def test_the_local_addresses_are_found() -> None:
    from leyden.server.system.http_server.listening import local_addresses

    for address in local_addresses():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        assert socket.inet_pton(family, address)


@pytest.mark.parametrize("mode", ["none", "loopback", "public"])
@pytest.mark.parametrize("networks", [1, 2, 8, 9, 300])
@pytest.mark.parametrize("host", ["10.9.9.9", "127.0.0.1", "8.8.8.8", "192.0.2.1", "fd00::1"])
def test_the_mend_of_a_blocked_attempt_keeps_the_networks_that_are_allowed(mode: str, networks: int, host: str) -> None:
    allowed = [f"198.51.{number // 200}.{number % 200}/32" for number in range(networks)]
    egress = Egress(mode, allow=allowed, in_python=True)
    note = egress.blocked_note(f"http://{host}:8000/x".replace("fd00::1", "[fd00::1]"))
    if not note:
        return
    assert len(note) < 800
    calls: list[Egress] = []

    def set_egress(egress: str = mode, egress_allow: Sequence[str] = ()) -> None:
        calls.append(Egress(egress, allow=egress_allow))

    call = note[note.index("set_egress(") :]
    text = call[: call.index(")") + 1]
    exec(text, {"set_egress": set_egress, "ALLOWED": allowed})
    assert all(calls[0].check_address("x", address.partition("/")[0], 80) is None for address in allowed), note
    assert calls[0].check_address("x", host, 80) is None
    ends = mode == "loopback" and calls[0].check_address("x", "127.0.0.1", 80) is not None
    assert ends == note.endswith("; the mode public reaches no loopback address")
    options = Egress(mode, allow=allowed).blocked_note(f"http://{host}:8000/x".replace("fd00::1", "[fd00::1]"))
    assert "--egress-allow" not in options or options.endswith(" to those that are given")


def test_a_note_for_an_attempt_that_is_not_made_yet_replays_nothing() -> None:
    egress = Egress("none", in_python=True)
    assert "replay" in egress.explain("egress-none", "127.0.0.1", 80)
    assert "replay" in egress.blocked_note("http://127.0.0.1:80/")
    assert "replay" not in before_attempt(egress.blocked_note("http://127.0.0.1:80/"))
