"""Look-ups of receivers' names: one that hangs delays no other receiver, and not the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.system.http_client import name_lookup
from leyden.server.system.http_client.name_lookup import MAX_LOOKUPS, LookupSlots, NameLookup
from leyden.server.system.http_client.transport import HttpTransport
from tests.support.transport_helpers import BODY, HEADERS, Shop, http_transport, opened, send

GOOD = "shop.example"


@dataclass
class Resolver:
    """The system's resolver: `shop.example` is the loopback, and every other `.example` name waits for `answered`."""

    answered: threading.Event = field(default_factory=threading.Event)
    asked: Counter[str] = field(default_factory=Counter)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = socket.getaddrinfo

        def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
            if str(host).endswith(".example"):
                self.asked[host] += 1
                if host != GOOD:
                    self.answered.wait()
                    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
                host = "127.0.0.1"
            return real(host, *arguments, **named)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    one = Resolver()
    one.install(monkeypatch)
    yield one
    one.answered.set()
    for thread in threading.enumerate():
        if thread.name == "leyden-work":
            thread.join(10)


def post(one: HttpTransport, url: str, answers: list[CallbackResponse], timeout_ms: int = 200) -> None:
    request = CallbackRequest(
        delivery_id="m1",
        attempt=1,
        url=url,
        body=BODY,
        headers=HEADERS,
        connect_timeout_ms=timeout_ms,
        timeout_ms=10 * timeout_ms,
    )
    one.post(request, lambda request, answer: answers.append(answer))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "a.localhost", GOOD])
def test_names_without_an_answer_delay_no_receiver_of_another_sandbox(resolver: Resolver, host: str) -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as hanging, http_transport() as other:
            for number in range(200):
                post(hanging, f"http://hang{number}.example/", [], timeout_ms=60_000)
            await asyncio.sleep(0.1)
            assert (await send(other, shop.url(host), connect_timeout_ms=10_000)).status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "a.localhost"])
def test_names_without_an_answer_delay_no_local_receiver_of_their_own_sandbox(resolver: Resolver, host: str) -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as one:
            for number in range(200):
                post(one, f"http://hang{number}.example/", [], timeout_ms=60_000)
            await asyncio.sleep(0.1)
            answers: list[CallbackResponse] = []
            post(one, shop.url(host), answers, timeout_ms=10_000)
            while not answers:
                await asyncio.sleep(0.01)
            assert answers[0].status == 200

    asyncio.run(scenario())


def test_the_note_says_whether_the_name_was_looked_up(resolver: Resolver) -> None:
    async def scenario() -> list[CallbackResponse]:
        answers: list[CallbackResponse] = []
        async with http_transport() as one:
            for number in range(MAX_LOOKUPS + 3):
                post(one, f"http://hang{number}.example/", answers)
            await one.wait_idle()
        return answers

    answers = asyncio.run(scenario())
    assert {answer.error for answer in answers} == {"timeout"}
    asked = [f"the look-up of the name hang{number}.example had no answer within 200 ms" for number in range(8)]
    reason = f"{MAX_LOOKUPS} earlier look-ups had no answer within 200 ms"
    waited = [f"the name hang{number}.example was not looked up: {reason}" for number in (8, 9, 10)]
    assert sorted(answer.note for answer in answers) == sorted(asked + waited)
    assert len(resolver.asked) == MAX_LOOKUPS


def test_the_next_name_is_looked_up_when_an_earlier_one_is_answered(resolver: Resolver) -> None:
    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as one:
            for number in range(MAX_LOOKUPS):
                post(one, f"http://hang{number}.example/", [])
            await one.wait_idle()
            answers: list[CallbackResponse] = []
            post(one, shop.url(GOOD), answers, timeout_ms=10_000)
            await asyncio.sleep(0.1)
            assert (answers, resolver.asked[GOOD]) == ([], 0)
            resolver.answered.set()
            await one.wait_idle()
            assert [answer.status for answer in answers] == [200]

    asyncio.run(scenario())


def test_attempts_at_one_name_at_the_same_time_share_a_look_up(resolver: Resolver) -> None:
    async def scenario() -> list[CallbackResponse]:
        answers: list[CallbackResponse] = []
        async with http_transport() as one:
            for _ in range(50):
                post(one, "http://hang.example/", answers, timeout_ms=10_000)
            await asyncio.sleep(0.1)
            resolver.answered.set()
            await one.wait_idle()
        return answers

    answers = asyncio.run(scenario())
    assert {(answer.error, answer.note) for answer in answers} == {
        ("unresolved", "the name hang.example has no address: temporary failure in name resolution")
    }
    assert (len(answers), resolver.asked) == (50, {"hang.example": 1})


def test_the_look_ups_of_all_sandboxes_together_are_bounded(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_lookup, "_slots", LookupSlots(2))

    async def scenario() -> None:
        async with opened(Shop()) as shop, http_transport() as a, http_transport() as b, http_transport() as other:
            for number, one in enumerate((a, b)):
                post(one, f"http://hang{number}.example/", [])
            await asyncio.sleep(0.1)
            answer = await send(other, shop.url(GOOD))
            assert answer.error == "unresolved"
            assert answer.note == f"the name {GOOD} was not looked up: 2 other look-ups have no answer yet"
            resolver.answered.set()
            while (await send(other, shop.url(GOOD))).status != 200:
                await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_many_sandboxes_with_names_without_an_answer_leave_look_ups_to_another(resolver: Resolver) -> None:
    """39 sandboxes, one after the other, with ten names each."""

    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as stack:
            shop = await stack.enter_async_context(opened(Shop()))
            for sandbox in range(39):
                one = await stack.enter_async_context(http_transport())
                for number in range(10):
                    post(one, f"http://hang{number}.of{sandbox}.example/", [], timeout_ms=60_000)
                while not any(name.endswith(f".of{sandbox}.example") for name in resolver.asked):
                    await asyncio.sleep(0.01)
            other = await stack.enter_async_context(http_transport())
            assert (await send(other, shop.url(GOOD), connect_timeout_ms=10_000)).status == 200

    asyncio.run(scenario())


def test_a_share_grows_when_the_look_ups_of_another_sandbox_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 32 look-ups one sandbox alone may have two, and a second one that comes then may have one."""
    monkeypatch.setattr(name_lookup, "_slots", LookupSlots(32))
    answered = {name: threading.Event() for name in ("a1", "a2", "b1", "b2")}
    asked: list[str] = []

    def resolve(name: str) -> list[str]:
        asked.append(name)
        assert answered[name].wait(30)
        return [name]

    monkeypatch.setattr(name_lookup, "_system_addresses", resolve)

    async def scenario() -> None:
        a, b = NameLookup(), NameLookup()
        tasks = [asyncio.create_task(look_up(name)) for name in answered for look_up in [a if name[0] == "a" else b]]
        while len(asked) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert sorted(asked) == ["a1", "a2", "b1"]
        answered["a1"].set()
        answered["a2"].set()
        while "b2" not in asked:
            await asyncio.sleep(0.01)
        assert not answered["b1"].is_set()
        answered["b1"].set()
        answered["b2"].set()
        assert await asyncio.gather(*tasks) == [["a1"], ["a2"], ["b1"], ["b2"]]
        assert (a.asked, b.asked) == (0, 0)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_look_up_that_is_cancelled_before_its_thread_begins_has_no_slot(resolver: Resolver) -> None:
    """The end of an event loop cancels its tasks, those that have not begun, too."""
    one = NameLookup()

    async def scenario() -> None:
        attempt = asyncio.create_task(one("hang.example"))
        await asyncio.sleep(0)
        assert (one.asked, attempt.done()) == (1, False)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(scenario())
    assert (one.asked, resolver.asked) == (0, {})


def test_an_answer_that_nobody_waits_for_is_not_logged(resolver: Resolver, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with http_transport() as one:
            post(one, "http://hang.example/", [], timeout_ms=50)
            await one.wait_idle()
            resolver.answered.set()
            await asyncio.sleep(0.1)
        gc.collect()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert caplog.records == []


def test_the_end_of_the_process_waits_for_no_look_up() -> None:
    code = """
import asyncio, socket, threading
from leyden.server.ports import CallbackRequest
from leyden.server.system.http_client.transport import HttpTransport

socket.getaddrinfo = lambda *arguments, **named: threading.Event().wait()

async def attempt():
    one = HttpTransport()
    request = CallbackRequest(
        delivery_id="m1", attempt=1, url="http://hang.example/", body=b"", headers={},
        connect_timeout_ms=100, timeout_ms=100,
    )
    one.post(request, lambda request, answer: print(answer.error))
    await one.wait_idle()
    await one.close()

asyncio.run(attempt())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "timeout\n", "")
