"""Receivers on this machine that move the sandbox's time before they answer their callback: they are refused, or the
attempt says why it timed out. None waits in silence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ClockError
from leyden.pytest_plugin import LiveServer
from leyden.server.timestamps import parse_iso
from tests.support.lists import listed
from tests.support.receivers import Got, threaded
from tests.support.requests import post
from tests.support.served import served_leyden

MOVE = "/sandbox/v1/clock/advance"
MOVERS: dict[str, Callable[[Sandbox, str], Any]] = {
    "method": lambda sandbox, url: sandbox.advance("10s"),
    "request in process": lambda sandbox, url: sandbox.ask("POST", MOVE, {"by": "10s"}),
    "request over HTTP": lambda sandbox, url: post(url, MOVE, {"by": "10s"}),
}


def expiring(sandbox: Sandbox, url: str) -> None:
    sandbox.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=5)


def attempts(sandbox: Sandbox) -> list[dict[str, Any]]:
    [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    found: list[dict[str, Any]] = delivery["attempts"]
    return found


def first_failed_attempt(sandbox: Sandbox, url: str, receiver: str) -> dict[str, Any]:
    """Pay a Charge over HTTP and wait until the attempt at its callback has failed; at most 20 s."""
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=receiver)
    post(url, "/sandbox/v1/payments", {"request": charge.request})
    until = time.monotonic() + 20
    while not (failed := [one for one in attempts(sandbox) if one["error"]]) and time.monotonic() < until:
        time.sleep(0.02)
    [first] = failed
    return first


@pytest.mark.parametrize("mover", MOVERS)
def test_a_receiver_that_moves_time_over_http_is_refused_while_a_move_waits_for_it(
    mover: str, leyden_server: LiveServer
) -> None:
    sandbox, refusals = leyden_server.sandbox, []
    began = parse_iso(sandbox.now)

    def moving(got: Got) -> int:
        refusals.append(post(leyden_server, MOVE, {"by": "1h"}))
        return 200

    with threaded(moving) as hook:
        expiring(sandbox, hook.url)
        MOVERS[mover](sandbox, leyden_server)
    [(status, problem)] = refusals
    assert (status, problem["code"]) == (409, "conflict")
    assert "after the receiver has answered" in problem["detail"]
    assert [attempt["status"] for attempt in attempts(sandbox)] == [200]
    assert parse_iso(sandbox.now) == began + 10_000


@pytest.mark.parametrize("mover", ["request in process", "request over HTTP"])
def test_a_receiver_that_moves_time_by_a_method_is_refused_while_a_request_waits_for_it(
    mover: str, leyden_server: LiveServer
) -> None:
    sandbox, refusals = leyden_server.sandbox, []
    began = parse_iso(sandbox.now)

    def moving(got: Got) -> int:
        for move in (lambda: sandbox.advance("1h"), sandbox.run, sandbox.fork):
            with pytest.raises(ClockError, match="after the receiver has answered") as refused:
                move()
            refusals.append(refused.value)
        return 200

    with threaded(moving) as hook:
        expiring(sandbox, hook.url)
        MOVERS[mover](sandbox, leyden_server)
    assert len(refusals) == 3
    assert [attempt["status"] for attempt in attempts(sandbox)] == [200]
    assert parse_iso(sandbox.now) == began + 10_000


def test_a_served_leyden_refuses_such_a_receiver() -> None:
    refusals: list[int] = []
    with served_leyden("--rate", "0") as client:

        def moving(got: Got) -> int:
            refusals.append(client("POST", MOVE, {"by": "1h"})[0])
            return 200

        with threaded(moving) as hook:
            fields = {"amount": "1000", "description": "tea", "callbackUrl": hook.url, "expiresIn": 5}
            client.ok("POST", "/v0/charges", fields)
            client.ok("POST", MOVE, {"by": "10s"})
        [delivery] = listed(client.ok, "/sandbox/v1/deliveries")
    assert refusals == [409]
    assert (delivery["status"], len(delivery["attempts"])) == ("delivered", 1)


@pytest.mark.parametrize("by", ["request", "method"])
def test_when_only_the_receiver_moves_time_its_attempt_says_why_it_timed_out(by: str) -> None:
    """Nobody else waits, so the move may be that of a client, which waits for the receiver."""
    with Sandbox(callback_timeout="300ms") as sandbox:
        url = sandbox.serve()

        def moving(got: Got) -> int:
            if by == "method":
                sandbox.advance("1s")
            else:
                post(url, MOVE, {"by": "1s"})
            return 200

        with threaded(moving) as hook:
            first = first_failed_attempt(sandbox, url, hook.url)
    assert first["error"] == "timeout"
    assert first["note"].startswith("no complete answer within 300 ms; a move of time waited for this answer")
    assert first["note"].endswith("if the receiver asked for that move, it must answer first")


@pytest.mark.parametrize("copy", ["fork", "save", "snapshot", "script"])
def test_when_the_receiver_copies_the_sandbox_its_attempt_says_why_it_timed_out(copy: str, tmp_path: Path) -> None:
    with Sandbox(callback_timeout="300ms") as sandbox:
        url = sandbox.serve()
        copies: dict[str, Callable[[], Any]] = {
            "fork": lambda: sandbox.fork().close(),
            "save": lambda: sandbox.save(tmp_path / "saved.json"),
            "snapshot": sandbox.snapshot,
            "script": sandbox.script,
        }

        def copying(got: Got) -> int:
            copies[copy]()
            return 200

        with threaded(copying) as hook:
            first = first_failed_attempt(sandbox, url, hook.url)
    assert first["note"] == (
        "no complete answer within 300 ms; a copy or a script of the sandbox waited for this answer meanwhile: if the"
        " receiver asked for it, it must answer first"
    )


def test_an_attempt_says_that_the_event_loop_of_its_receiver_stood_still() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def shop() -> list[Any]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        hook = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with Sandbox(callback_timeout="300ms", egress="loopback") as sandbox:
            for is_apart in (False, True):
                charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=hook)
                sandbox.wallet("ana").pay(charge)
                await asyncio.to_thread(sandbox.run, "1s") if is_apart else sandbox.run("1s")
            found = [row["attempts"][0] for row in listed(sandbox.ask, "/sandbox/v1/deliveries")]
        server.close()
        await asyncio.sleep(0.05)
        return found

    blocked, answered = sorted(asyncio.run(shop()), key=lambda one: one["status"] is not None)
    assert (blocked["error"], answered["status"]) == ("timeout", 200)
    assert "if the receiver runs in it, move time in another thread, as with asyncio.to_thread" in blocked["note"]


MEANWHILE = {
    "nothing": (None, False),
    "pause the clock": (("PATCH", "/sandbox/v1/clock", {"rate": 0}), False),
    "another rate": (("PATCH", "/sandbox/v1/clock", {"rate": 2}), False),
    "wait for deliveries": (("POST", "/sandbox/v1/deliveries/wait", {"count": 1, "timeout": 20}), False),
    "export": (("GET", "/sandbox/v1/export", None), False),
    "advance": (("POST", MOVE, {"by": "0s"}), True),
}


@pytest.mark.parametrize("rate", ["0", "1"])
def test_an_attempt_says_that_a_move_waited_for_it_only_if_one_did(rate: str) -> None:
    with served_leyden("--rate", rate, "--callback-timeout", "300ms") as client:
        for request, waits in MEANWHILE.values():
            client.ok("POST", "/sandbox/v1/reset", {})
            client.ok("PATCH", "/sandbox/v1/clock", {"rate": int(rate)})

            def answer(got: Got, request: Any = request) -> int:
                if request is not None:
                    client(*request)
                time.sleep(0.6)
                return 200

            with threaded(answer) as hook:
                fields = {"amount": "1000", "description": "tea", "callbackUrl": hook.url}
                charge = client.ok("POST", "/v0/charges", fields)
                client.ok("POST", "/sandbox/v1/payments", {"request": charge["data"]["invoice"]["request"]})
                until = time.monotonic() + 20
                ended: list[Any] = []
                while not ended and time.monotonic() < until:
                    time.sleep(0.02)
                    deliveries = listed(client.ok, "/sandbox/v1/deliveries")
                    ended = [one for row in deliveries for one in row["attempts"] if one["error"]]
            assert ended[0]["error"] == "timeout", request
            assert ("a move of time waited" in ended[0]["note"]) == waits, request
