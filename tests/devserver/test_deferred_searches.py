"""Searches for routes of an implementation's payer: on a server they run in a thread, and events find the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.devserver.sandboxes.event_runner import EventRunner
from leyden.lightning.payer_models.cln_search import ClnSearch
from leyden.lightning.payer_models.ldk_search import LdkSearch
from leyden.lightning.payer_models.lnd_search import LndSearch
from leyden.lightning.payer_models.searches import Searches, SearchNeeded
from leyden.lightning.routing.pathfinding import Route
from leyden.world.world import World
from tests.support.hosted import Hosted, in_server
from tests.support.in_loop import ServedInLoop, in_loop

AMOUNTS = ("50000", "200000000", "450000000")
SEARCHES: dict[str, Any] = {"lnd": LndSearch, "lnd-bimodal": LndSearch, "ldk": LdkSearch, "cln": ClnSearch}


class PausedSearch:
    """Called in each search: it signals that one runs, and pauses it until the test lets it go on."""

    def __init__(self) -> None:
        self.started, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.started.set()
        assert self.may_go_on.wait(10)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.started.wait, 10)


@pytest.fixture(autouse=True)
def _short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is over at once: so every search is one that others would wait for."""
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)


def watch(monkeypatch: pytest.MonkeyPatch, payer: str, before: Callable[[], None] = lambda: None) -> list[str]:
    """A list to which each search adds the name of its thread; `before()` is called in it."""
    threads: list[str] = []
    kind = SEARCHES[payer]
    former = kind.routes

    def routes(search: Any) -> list[Route]:
        threads.append(threading.current_thread().name)
        before()
        found: list[Route] = former(search)
        return found

    monkeypatch.setattr(kind, "routes", routes)
    return threads


def in_process(network: str) -> Sandbox:
    return Sandbox(seed=7, api_key="leyden", network=network)


async def pay_some(ask: Callable[..., Any], count: int = 12) -> None:
    for number in range(count):
        charge = await ask("POST", "/v0/charges", {"amount": AMOUNTS[number % 3], "description": "tea"})
        request = charge["data"]["invoice"]["request"]
        await ask("POST", "/sandbox/v1/payments", {"request": request, "payer": f"p{number % 4}", "delay": 1 + number})


def run_undivided(network: str, steps: Callable[[Callable[..., Any]], Any]) -> Sandbox:
    sandbox = in_process(network)

    async def ask(method: str, path: str, body: Any = None) -> Any:
        return sandbox.ask(method, path, body)

    asyncio.run(steps(ask))
    return sandbox


@pytest.mark.parametrize("payer", SEARCHES)
def test_no_search_runs_in_the_event_loop_and_all_ends_as_in_one_piece(
    payer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = f"scale-free:60,payer={payer}"
    threads = watch(monkeypatch, payer)

    async def steps(ask: Callable[..., Any]) -> None:
        await ask("POST", "/sandbox/v1/network/interceptors", {"kind": "offline", "node": "n1", "lasting": "5s"})
        await pay_some(ask)
        await ask("POST", "/sandbox/v1/clock/advance", {"by": "30m"})

    served = in_loop(lambda served: steps(served.ask), network=network)
    deferred = len(threads)
    assert deferred > 12
    assert threading.main_thread().name not in threads
    sandbox = run_undivided(network, steps)
    assert served.world.journal.hash == sandbox.journal_hash
    assert [*served.world.payments.rows] == [*sandbox.world.payments.rows]
    last = [*sandbox.world.payments.rows][-1]
    assert payer == "lnd-bimodal" or "pay less, such as" in last["reason"], "the searches for an advice count, too"
    assert len(threads) == 2 * deferred, "each search ran once"


def test_other_requests_are_answered_during_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search = PausedSearch()
    watch(monkeypatch, "ldk", search)

    async def scenario(served: ServedInLoop) -> None:
        await pay_some(served.ask, 1)
        advance = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "10m"}))
        await search.wait()
        assert (await served.ask("GET", "/sandbox/v1/clock"))["now"] == "2030-01-01T00:00:00.000Z"
        [payment] = served.world.payments.rows
        assert (payment["status"], payment["attempts"]) == ("in_flight", [])
        search.may_go_on.set()
        await advance
        assert (await served.ask("GET", f"/sandbox/v1/payments/{payment['id']}"))["status"] == "succeeded"

    in_loop(scenario, network="scale-free:60,payer=ldk")


CHANGES: dict[str, Any] = {
    "open": ("POST", "/sandbox/v1/network/nodes/n1/channels", {"peer": "shop", "capacity": "900000000"}),
    "drain": ("POST", "/sandbox/v1/network/nodes/shop/drain", {"inbound": 1, "outbound": 0}),
    "offline": ("POST", "/sandbox/v1/network/interceptors", {"kind": "offline", "node": "shop"}),
    "fail": ("POST", "/sandbox/v1/network/interceptors", {"kind": "fail", "code": 4103, "hop": 0}),
    "no fail": ("DELETE", "/sandbox/v1/network/interceptors/intercept-1", None),
    "close": ("DELETE", "/sandbox/v1/network/channels/0", None),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("payer", ["lnd", "ldk", "cln"])
def test_a_change_of_the_network_during_a_search_counts(
    payer: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payment is sent in the state that the network has then, as if the change had come before the advance."""
    network = f"scale-free:60,payer={payer}"
    search = PausedSearch()

    async def prepare(ask: Callable[..., Any]) -> None:
        if change == "no fail":
            await ask("POST", "/sandbox/v1/network/interceptors", {"kind": "fail", "code": 4103, "hop": 0})
        await pay_some(ask, 3)

    async def undivided(ask: Callable[..., Any]) -> None:
        await prepare(ask)
        await ask(*CHANGES[change])
        await ask("POST", "/sandbox/v1/clock/advance", {"by": "10m"})

    sandbox = run_undivided(network, undivided)
    watch(monkeypatch, payer, search)

    async def scenario(served: ServedInLoop) -> None:
        await prepare(served.ask)
        advance = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "10m"}))
        await search.wait()
        await served.ask(*CHANGES[change])
        search.may_go_on.set()
        await advance

    served = in_loop(scenario, network=network)
    assert [*served.world.payments.rows] == [*sandbox.world.payments.rows]


def test_changes_without_end_do_not_keep_a_payment_from_its_search(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = ("POST", "/sandbox/v1/network/nodes/n1/channels", {"peer": "n5", "capacity": "900000"})
    search = PausedSearch()

    def before() -> None:
        if threading.current_thread() is not threading.main_thread():
            search()
            search.may_go_on.clear()

    threads = watch(monkeypatch, "cln", before)

    async def scenario(served: ServedInLoop) -> None:
        await pay_some(served.ask, 1)
        advance = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "5s"}))
        for _ in range(3):
            await search.wait()
            search.started.clear()
            await served.ask(*channel)
            search.may_go_on.set()
        await advance
        main = threading.main_thread().name
        assert [name == main for name in threads] == [False] * 3 + [True]

    in_loop(scenario, network="scale-free:60,payer=cln")


def test_a_payment_that_comes_during_a_search_is_sent_before_and_gets_its_own_routes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = PausedSearch()
    watch(monkeypatch, "ldk", search)

    async def scenario(served: ServedInLoop) -> None:
        first, second = [await served.create(amount=amount) for amount in ("400000000", "70000")]
        payment = {"request": first["invoice"]["request"], "payer": "ana", "delay": 20}
        await served.ask("POST", "/sandbox/v1/payments", payment)
        advance = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "10m"}))
        await search.wait()
        await served.ask("POST", "/sandbox/v1/payments", {"request": second["invoice"]["request"], "payer": "ben"})
        search.may_go_on.set()
        await advance
        rows = [*served.world.payments.rows]
        assert [row["status"] for row in rows] == ["succeeded", "succeeded"]
        assert [sum(one["amount_msat"] for one in row["attempts"]) for row in rows] == [400_000_000, 70_000]
        assert rows[1]["attempts"][0]["at"] < rows[0]["attempts"][0]["at"]

    in_loop(scenario, network="scale-free:60,payer=ldk")


def test_a_reset_ends_an_advance_that_waits_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search = PausedSearch()
    watch(monkeypatch, "lnd", search)

    async def scenario(served: ServedInLoop) -> None:
        await pay_some(served.ask, 1)
        advance = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "10m"}, status=409))
        await search.wait()
        await served.ask("POST", "/sandbox/v1/reset")
        search.may_go_on.set()
        assert "reset" in (await advance)["detail"]
        assert not (await served.ask("GET", "/sandbox/v1/payments"))["data"]

    in_loop(scenario, network="scale-free:60,payer=lnd")


def test_a_request_to_a_live_clock_leaves_a_search_to_the_task_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from leyden.world.concurrency.async_moves import catch_up

    ms = 0
    threads = watch(monkeypatch, "ldk")

    async def scenario(served: ServedInLoop) -> None:
        nonlocal ms
        await pay_some(served.ask, 1)
        ms = 60_000
        for _ in range(5):
            assert (await served.ask("GET", "/v0/wallet"))["success"]
        [payment] = (await served.ask("GET", "/sandbox/v1/payments"))["data"]
        assert (payment["status"], threads) == ("in_flight", [])
        await catch_up(served.world)
        assert threads
        assert threading.main_thread().name not in threads
        assert (await served.ask("GET", f"/sandbox/v1/payments/{payment['id']}"))["status"] == "succeeded"

    in_loop(scenario, network="scale-free:60,payer=ldk", rate=1, real_clock=lambda: ms)


def test_the_task_of_the_server_does_not_spin_during_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search, rounds = PausedSearch(), 0
    run_live = EventRunner.run_live

    async def counted(self: EventRunner, world: World) -> None:
        nonlocal rounds
        rounds += 1
        await run_live(self, world)

    watch(monkeypatch, "ldk", search)
    monkeypatch.setattr(EventRunner, "run_live", counted)

    async def scenario(server: Hosted) -> None:
        nonlocal rounds
        box = await server.create(rate=1, network="scale-free:60,payer=ldk")
        charge = await server.ok("POST", "/v0/charges", {"amount": "50000", "description": "tea"}, key=box["apiKey"])
        payment = {"request": charge["data"]["invoice"]["request"]}
        paying = asyncio.create_task(server.ok("POST", "/sandbox/v1/payments", payment, key=box["apiKey"]))
        await search.wait()
        server.now_ms += 50
        await server.ok("GET", "/sandbox/v1/clock", key=box["apiKey"])
        rounds = 0
        await asyncio.sleep(0.2)
        assert rounds < 10
        search.may_go_on.set()
        assert (await paying)["status"] == "in_flight"
        server.now_ms += 60_000
        for _ in range(200):
            [row] = server.world(box).payments.rows
            if row["status"] == "succeeded":
                break
            await asyncio.sleep(0.02)
        assert row["status"] == "succeeded"

    in_server(scenario)


class Given:
    """A search with a result that the test gives."""

    def __init__(self, *amounts: int) -> None:
        self.amounts = [*amounts]

    def routes(self) -> list[Route]:
        return [Route([0], [amount], [0]) for amount in self.amounts]


def test_results_are_those_of_one_event_in_one_state() -> None:
    searches = Searches()

    def run(state: tuple[int, ...], *wanted: Given, takes_long: bool = True) -> list[int]:
        with searches.deferred(lambda: False):
            found = [searches.routes(state, takes_long, lambda each=each: each) for each in wanted]
        return [route.amounts[0] for routes in found for route in routes]

    def needed(state: tuple[int, ...], *wanted: Given) -> Given:
        with pytest.raises(SearchNeeded) as raised:
            run(state, *wanted)
        found = raised.value.search
        assert isinstance(found, Given)
        raised.value.add_result(found.routes())
        return found

    first, second, other = Given(1), Given(2), Given(3)
    assert searches.routes((1,), True, lambda: first)[0].amounts == [1], "not deferred"
    assert run((1,), other, takes_long=False) == [3]
    assert needed((2,), first, second) is first
    assert needed((2,), first, second) is second
    assert run((2,), first, second) == [1, 2]
    assert needed((3,), other) is other, "another state"
    assert needed((2,), second) is second
    with pytest.raises(ZeroDivisionError), searches.deferred(lambda: False):
        raise ZeroDivisionError  # an event that was not undone by a search
    assert needed((2,), first) is first
    assert run((2,), first) == [1]
    for state in (4, 5, 6):
        needed((state,), first)
    assert run((7,), second) == [2], "three results that no event used: it is run in the event"
    needed((8,), first)


def test_a_search_that_begins_when_the_slice_is_over_is_deferred() -> None:
    searches, over = Searches(), iter([False, True])
    with searches.deferred(lambda: next(over)):
        assert searches.routes((1,), False, Given) == []
        with pytest.raises(SearchNeeded):
            searches.routes((1,), False, Given)
