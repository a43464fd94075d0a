"""A callback connects to the addresses that the egress policy checked, whatever a name server answers later."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from leyden.server.callbacks.egress import Egress
from leyden.server.system.http_client.transport import HttpTransport
from tests.support.transport_helpers import Shop, http_transport, opened, send

NAME = "shop.example"


class NameServer:
    """A resolver that gives the next of its answers each time; the last one again and again."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@contextlib.contextmanager
def connections() -> Iterator[list[str]]:
    """The addresses to which this process opens a connection meanwhile."""
    seen: list[str] = []
    watching = True

    def hook(event: str, arguments: Any) -> None:
        if watching and event == "socket.connect":
            seen.append(str(arguments[1][0]))

    sys.addaudithook(hook)
    try:
        yield seen
    finally:
        watching = False


def transport_of(egress: Egress, names: NameServer | None, **settings: Any) -> Any:
    settings = settings if names is None else {"lookup": names, **settings}
    return http_transport(check_address=egress.check_address, check_host=egress.check_host, **settings)


def test_a_name_is_looked_up_once_for_a_connection_and_the_checked_address_is_used() -> None:
    names = NameServer(["127.0.0.1"], ["10.0.0.1"])

    async def scenario() -> None:
        async with opened(Shop()) as shop, transport_of(Egress("loopback"), names) as one:
            with connections() as seen:
                assert (await send(one, shop.url(NAME))).status == 200
            assert (seen, names.asked) == (["127.0.0.1"], [NAME])

    asyncio.run(scenario())


def test_the_system_resolver_is_asked_once_and_gets_no_second_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getaddrinfo` answers with the loopback once, and with a private address from then on."""
    asked: list[tuple[Any, ...]] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, *arguments: Any, **named: Any) -> Any:
        if host != NAME:
            return real(host, *arguments, **named)
        asked.append(arguments)
        address = "127.0.0.1" if len(asked) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)

    async def scenario() -> None:
        one = HttpTransport.within(Egress("loopback"))
        try:
            async with opened(Shop()) as shop:
                with connections() as seen:
                    assert (await send(one, shop.url(NAME))).status == 200
                assert (seen, len(asked)) == (["127.0.0.1"], 1)
                refused = await send(one, shop.url(NAME))
                assert (refused.error, len(asked), shop.connections) == ("blocked", 2, 1)
        finally:
            await one.close()

    asyncio.run(scenario())


def test_of_several_addresses_only_the_checked_ones_are_tried() -> None:
    """Nothing listens at the first two; the third is the receiver."""
    names = NameServer(["127.0.0.3", "127.0.0.2", "127.0.0.1"], ["10.0.0.1"])

    async def scenario() -> None:
        async with opened(Shop()) as shop, transport_of(Egress("loopback"), names) as one:
            with connections() as seen:
                assert (await send(one, shop.url(NAME))).status == 200
            assert set(seen) <= {"127.0.0.1", "127.0.0.2", "127.0.0.3"}
            assert seen[-1] == "127.0.0.1"
            assert names.asked == [NAME]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1", "10.0.0.1"],
        ["10.0.0.1", "127.0.0.1"],
        ["127.0.0.1", "127.0.0.2", "169.254.169.254"],
        ["::1", "fe80::1%lo"],
        ["::ffff:10.0.0.1"],
        ["127.0.0.1", "::ffff:169.254.169.254"],
    ],
    ids=str,
)
def test_one_forbidden_address_among_several_prevents_the_connection(answer: list[str]) -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, transport_of(Egress("loopback"), NameServer(answer)) as one:
            with connections() as seen:
                response = await send(one, shop.url(NAME))
            assert (response.error, response.note, seen) == ("blocked", "loopback-only", [])
            assert shop.connections == 0

    asyncio.run(scenario())


def test_the_address_of_every_attempt_is_checked() -> None:
    names = NameServer(["127.0.0.1"], ["127.0.0.1"], ["10.0.0.1"])

    async def scenario() -> None:
        async with opened(Shop()) as shop, transport_of(Egress("loopback"), names) as one:
            with connections() as seen:
                for _ in range(2):
                    assert (await send(one, shop.url(NAME))).status == 200
                assert (await send(one, shop.url(NAME))).error == "blocked"
            assert (seen, shop.connections, names.asked) == (["127.0.0.1"] * 2, 2, [NAME] * 3)

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["http://elsewhere.example/", "http://169.254.169.254/latest", "/again", "//10.0.0.1/"]
)
def test_a_redirect_is_not_followed_and_its_host_is_not_looked_up(status: int, location: str) -> None:
    names = NameServer(["127.0.0.1"])
    script = f"HTTP/1.1 {status} Away\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode()

    async def scenario() -> None:
        async with opened(Shop(script)) as shop, transport_of(Egress("loopback"), names) as one:
            with connections() as seen:
                assert (await send(one, shop.url(NAME))).status == status
            assert (seen, names.asked, len(shop.requests)) == (["127.0.0.1"], [NAME], 1)

    asyncio.run(scenario())
