"""Whole lifecycles: create a charge, pay it, complete it, deliver its callback; in process and over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import httpx2
from coincurve import PrivateKey, PublicKey

from leyden import Sandbox
from tests.benchmarks.bench import FROZEN, Bench, charge_body
from tests.benchmarks.measuring import COST, RATE, BenchmarkError, Clock, Goal, Row, compared, in_turn, seconds_each
from tests.benchmarks.serving import KEY, leyden

PART = "lifecycle"
_BODY = {**charge_body(1), "callbackUrl": "http://shop.inbox.localhost/hook"}


def rows(bench: Bench) -> Iterator[Row]:
    """CPU seconds for one lifecycle on three paths, the server's included, and how many the shortest makes of one."""
    count = bench.scale.of(300, 10)
    with ExitStack() as stack:
        served = stack.enter_context(leyden(*FROZEN))
        client = stack.enter_context(httpx2.Client(base_url=served.url, headers={"apikey": KEY}))
        raw, real = stack.enter_context(Sandbox(seed=1)), stack.enter_context(Sandbox(seed=2))
        runs: dict[str, Callable[[], object]] = {
            "raw": lambda: _by_hand(raw),
            "client": lambda: _by_client(real.http, real),
            "http": lambda: _by_client(client, None),
            "bare": signed_and_recovered(),
        }
        for run in runs.values():
            seconds_each(run, count // 5)
        clocks: dict[str, Clock] = {"http": lambda: time.process_time() + served.cpu_s}
        found = in_turn(
            2 * bench.scale.repeats,
            {
                name: partial(seconds_each, run, count, clocks.get(name, time.process_time))
                for name, run in runs.items()
            },
        )
        created = count * 2 * bench.scale.repeats + count // 5
        for box in (raw, real):
            _check(box, created)
    bare, http = "one signature and one key recovery", "over HTTP, client and server"
    rates = {name: [[1 / seconds for seconds in found[name]]] for name in ("raw", "bare")}
    goal = Goal("at least", 4_000, absolute=True)
    yield compared(PART, "lifecycles in process, of CPU", RATE, rates["raw"], bare, rates["bare"], goal=goal)
    yield compared(PART, "lifecycle in process, CPU", COST, [found["raw"]], bare, [found["bare"]])
    yield compared(
        PART,
        "lifecycle in process, CPU",
        COST,
        [found["raw"]],
        http,
        [found["http"]],
        times_less=True,
        goal=Goal("at least", 6),
    )
    yield compared(
        PART, "lifecycle in process by httpx2, CPU", COST, [found["client"]], http, [found["http"]], times_less=True
    )


def _by_hand(box: Sandbox) -> None:
    """The shortest path: requests stepped by hand."""
    answer = box.ask("POST", "/v0/charges", _BODY)
    box.wallet("ana").pay(answer["data"]["invoice"]["request"])
    box.advance(0)


def _by_client(client: httpx2.Client, box: Sandbox | None) -> None:
    """The path of a test suite: a real HTTP client, whose requests stay in process or go to a server."""
    answer = client.post("/v0/charges", json=_BODY).json()
    client.post("/sandbox/v1/payments", json={"request": answer["data"]["invoice"]["request"]}).raise_for_status()
    if box is not None:
        box.advance(0)  # a server does this by itself


def signed_and_recovered() -> Callable[[], object]:
    """What signs a text of an invoice's length and recovers the key from the signature, once for each call."""
    key = PrivateKey(bytes(range(1, 33)))
    message = b"lnbcrt2500n" + bytes(120)
    return lambda: PublicKey.from_signature_and_message(key.sign_recoverable(message), message)


def _check(box: Sandbox, created: int) -> None:
    state = box.ask("GET", "/sandbox/v1")
    received = len(box.receiver("shop.inbox").inbox)
    if state["charges"] != {"completed": created} or received != created:
        raise BenchmarkError(f"of {created} lifecycles, these came to an end: {state['charges']}, {received} callbacks")
