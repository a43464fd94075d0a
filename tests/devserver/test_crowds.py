"""Many charges at once: counts are kept, lists have pages, and long work lets other requests through."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.transport import TransportRouter
from leyden.devserver.request_log.resources import RequestRows
from leyden.devserver.request_log.stream import request_events
from leyden.server.contract.bind import bind
from leyden.server.contract.load import load_contract
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.tables import row_map
from leyden.server.store.tables.table_data import TableData
from leyden.server.store.tinydb.table import IndexedTable
from leyden.server.system import work_slices
from leyden.server.system.work_slices import MAX_STEPS, Turns, WorkSlices
from leyden.server.version import VERSION
from leyden.world import config
from leyden.world.concurrency.async_moves import catch_up
from leyden.world.persistence.encoded_state import BATCH
from leyden.world.snapshots.frozen_state import FrozenState
from leyden.world.snapshots.snapshots import dump_world
from tests.support.gate import Gate
from tests.support.hosted import Hosted, in_server
from tests.support.in_loop import HOOK, START_TEXT, ServedInLoop, in_loop
from tests.support.prompt_network import PromptNetwork


def test_counts_are_read_without_reading_a_row(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        if number < 2:
            sandbox.wallet("ana").pay(charge)
    sandbox.advance("30s")

    def refuse(table: IndexedTable) -> None:
        raise AssertionError(f"a pass over {table.name}")

    monkeypatch.setattr(IndexedTable, "__iter__", refuse)
    assert sandbox.ask("GET", "/sandbox/v1")["charges"] == {"completed": 2, "pending": 3}
    waits = [({}, 2), ({"event": "charge.expired"}, 0), ({"event": "charge.completed", "status": "any"}, 2)]
    for wanted, count in waits:
        assert (
            sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 1, **wanted, "timeout": 0})["count"] == count
        )


# Pages


def pages(sandbox: Sandbox, path: str, limit: int) -> list[list[Any]]:
    found, after = [], ""
    while True:
        page = sandbox.ask("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}{after}")
        found.append(page["data"])
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


@pytest.mark.parametrize(
    ("path", "total"),
    [
        ("deliveries", 5),
        ("deliveries?event=charge.completed&status=delivered", 4),
        ("payments", 6),
        ("payments?chargeId={tea}", 2),
        ("payments/{payment}/attempts", 1),
        ("inboxes", 3),
        ("faults", 3),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 3, 1_000])
def test_a_list_is_read_page_by_page(sandbox: Sandbox, path: str, total: int, limit: int) -> None:
    for number in range(5):
        url = f"http://shop{number % 3}.localhost/hook"
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=url)
        if number < 4:
            payment = sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request})
            sandbox.run("1s")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request.upper(), "amount": "3"})
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "fail"})
    sandbox.run("2m")
    for _ in range(3):
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "drop"})
    path = f"/sandbox/v1/{path.format(tea=charge.id, payment=payment['id'])}"
    found = pages(sandbox, path, limit)
    assert [len(page) for page in found] == [min(limit, total - first) for first in range(0, total, limit)]
    [whole] = pages(sandbox, path, 1_000)
    assert [row for page in found for row in page] == whole
    assert sandbox.ask("GET", path)["data"] == whole, "a page has up to a hundred rows by default"


def test_a_page_continues_where_the_one_before_ended_while_rows_are_added(sandbox: Sandbox) -> None:
    def expire(count: int) -> None:
        for _ in range(count):
            sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
        sandbox.advance("1h")

    expire(3)
    first = sandbox.ask("GET", "/sandbox/v1/deliveries?limit=2")
    expire(2)
    second = sandbox.ask("GET", f"/sandbox/v1/deliveries?limit=100&after={first['next']}")
    ids = [row["id"] for page in (first, second) for row in page["data"]]
    assert (len(ids), len(set(ids)), second["next"]) == (3, 3, None), "newer rows are on pages before"
    every = [row["id"] for row in sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]]
    assert (len(every), every[2:]) == (5, ids)


def test_a_list_of_deliveries_has_bodies_only_if_they_are_asked_for(sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
    sandbox.advance("1h")
    [short] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    [whole] = sandbox.ask("GET", "/sandbox/v1/deliveries?bodies=true")["data"]
    assert sandbox.ask("GET", f"/sandbox/v1/deliveries/{short['id']}") == whole
    assert whole.keys() - short.keys() == {"body"}
    [attempt], [whole_attempt] = short["attempts"], whole["attempts"]
    assert whole_attempt.keys() - attempt.keys() == {
        "headers",
        "answer",
        "answerHeaders",
        "answerHeadersLeftOut",
        "sent",
    }
    assert attempt == {name: whole_attempt[name] for name in attempt}


@pytest.mark.parametrize("bodies", ["true", "false"])
def test_a_page_with_many_attempts_is_written_delivery_by_delivery(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, bodies: str
) -> None:
    for number in range(3):
        sandbox.charges.create(amount="1000", description=f"tea [] {number}", expiresIn=60, callbackUrl=HOOK)
    sandbox.receiver("shop").always(500)
    sandbox.advance("1h")
    for path in ("limit=2", "limit=3", "limit=2&event=charge.expired", "event=charge.completed", "status=pending"):
        target = f"/sandbox/v1/deliveries?bodies={bodies}&{path}"
        whole = sandbox.ask("GET", target)
        with monkeypatch.context() as patched:
            patched.setattr("leyden.devserver.control.callbacks.deliveries._CHECKED_ATTEMPTS", -1)
            assert sandbox.ask("GET", target) == whole
        if path != "event=charge.completed":
            assert all(len(delivery["attempts"]) > 1 for delivery in whole["data"])


def test_a_replay_lists_the_first_thousand_deliveries_and_counts_all(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leyden.devserver.control.callbacks.deliveries._SHOWN_IDS", 60)
    for _ in range(130):
        sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
    sandbox.advance("1h")
    answer = sandbox.ask("POST", "/sandbox/v1/deliveries/replay")
    assert (answer["replayed"], len(answer["ids"])) == (130, 60)
    assert (
        answer["ids"] == [row["id"] for row in sandbox.ask("GET", "/sandbox/v1/deliveries?limit=200")["data"]][:69:-1]
    )


def test_an_advance_lists_the_first_events_and_counts_all(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.world.concurrency.async_moves.MAX_FIRED", 3)
    for _ in range(5):
        sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    moved = sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
    assert (moved["count"], len(moved["fired"])) == (5, 3)


# Long work on the event loop


def test_a_slice_ends_after_ten_milliseconds_or_a_hundred_steps() -> None:
    seconds = 0.0
    starts: list[float] = []

    def start_stopwatch() -> Callable[[], float]:
        starts.append(start := seconds)
        return lambda: seconds - start

    async def scenario() -> None:
        nonlocal seconds
        slices = WorkSlices(start_stopwatch)
        for _ in range(99):
            assert not slices.is_over()
        assert slices.is_over()
        await slices.pause()
        seconds += 0.0099
        assert not slices.is_over()
        seconds += 0.0002
        assert slices.is_over()
        await slices.pause()
        assert not slices.is_over()

    asyncio.run(scenario())
    assert starts == pytest.approx([0, 0, 0.0101])


def test_long_works_go_on_one_after_another_and_other_tasks_in_between() -> None:
    rounds: list[str] = []

    async def work(name: str, turns: Turns) -> None:
        slices = WorkSlices(turns=turns)
        for _ in range(3):
            await slices.pause()
            rounds.append(name)

    async def scenario() -> None:
        turns = Turns()
        works = [asyncio.create_task(work(name, turns)) for name in "abcd"]
        cancelled = asyncio.create_task(work("x", turns))
        await asyncio.sleep(0)
        cancelled.cancel()
        while not all(one.done() for one in works):
            rounds.append("-")
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), 10))
    assert [name for name in rounds if name != "-"] == [*"abcd"] * 3
    text = "".join(rounds)
    assert all(text[place + 1 : place + 3] == "--" for place, name in enumerate(text[:-3]) if name != "-"), text


@pytest.mark.parametrize("target", ["/v0/charges?limit=1000", "/sandbox/v1/deliveries?limit=1000"])
def test_a_request_waits_for_few_of_many_long_pages(target: str) -> None:
    async def scenario(served: ServedInLoop) -> None:
        for _ in range(210):
            await served.create(callbackUrl=HOOK)
        ended: list[str] = []

        async def ask(name: str, path: str) -> None:
            await served.ask("GET", path)
            ended.append(name)

        pages = [asyncio.create_task(ask("page", target)) for _ in range(30)]
        await asyncio.sleep(0)
        await ask("clock", "/sandbox/v1/clock")
        await asyncio.gather(*pages)
        assert ended.index("clock") <= 3

    in_loop(scenario)


@pytest.mark.parametrize("url", [HOOK, "http://127.0.0.1:9/blocked"])
def test_the_event_loop_gets_control_during_an_advance(url: str) -> None:
    async def scenario(served: ServedInLoop) -> None:
        for _ in range(300):
            await served.create(callbackUrl=url)
        before = served.rounds
        moved = await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "60s"})
        assert moved["count"] == 600
        assert served.rounds - before >= 600 // MAX_STEPS

    in_loop(scenario)


@pytest.mark.parametrize("move", [{"by": "1h"}, {"to": "2030-01-01T01:00:00Z"}, {"until": "idle"}])
def test_the_event_loop_gets_control_during_an_advance_with_one_event_at_each_instant(move: dict[str, str]) -> None:
    async def scenario(served: ServedInLoop) -> None:
        for number in range(5 * MAX_STEPS):
            await served.create(expiresIn=60 + number, callbackUrl=None)
        before = served.rounds
        moved = await served.ask("POST", "/sandbox/v1/clock/advance", move)
        assert moved["count"] == 5 * MAX_STEPS
        assert served.rounds - before >= 5

    in_loop(scenario)


def test_the_event_loop_gets_control_while_others_pay_over_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The background traffic of a network is one event at each instant, too, and each is a search for a route."""
    monkeypatch.setattr(work_slices, "LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        before = served.rounds
        moved = await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert moved["count"] > 100
        assert served.rounds - before >= moved["count"]

    in_loop(scenario, network="star:12,background=200")


def test_a_request_during_an_advance_sees_the_instant_that_it_has_reached() -> None:
    async def scenario(served: ServedInLoop) -> None:
        charges = [await served.create(expiresIn=60 + number) for number in range(150)]
        moving = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"}))
        await asyncio.sleep(0)
        now = (await served.ask("GET", "/sandbox/v1/clock"))["now"]
        seen = [(await served.ask("GET", f"/v0/charges/{charge['id']}"))["data"]["status"] for charge in charges]
        created = await served.create()
        assert not moving.done()
        assert START_TEXT < now < charges[-1]["expiresAt"]
        for charge, status in zip(charges, seen, strict=True):
            assert status == "pending" if charge["expiresAt"] > now else "expired"
        assert created["createdAt"][:19] == now[:19]
        moved = await moving
        assert moved["now"] == "2030-01-01T01:00:00.000Z"
        assert moved["count"] == 302
        assert (await served.ask("GET", f"/v0/charges/{created['id']}"))["data"]["status"] == "expired"

    in_loop(scenario)


def test_an_advance_during_another_begins_where_that_ends() -> None:
    async def scenario(served: ServedInLoop) -> None:
        for _ in range(150):
            await served.create()
        first, second = [
            asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": span})) for span in ("1h", "2m")
        ]
        assert (await second)["now"] == "2030-01-01T01:02:00.000Z"
        assert first.done()
        assert ((await first)["count"], (await second)["count"]) == (300, 0)

    in_loop(scenario)


@pytest.mark.parametrize("end", ["reset", "restore"])
def test_a_reset_or_a_restore_ends_an_advance(end: str) -> None:
    async def scenario(served: ServedInLoop) -> None:
        await served.ask("POST", "/sandbox/v1/snapshots", status=201)
        for _ in range(150):
            await served.create()
        moving, queued = [
            asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"}, status=409))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        await served.ask("POST", f"/sandbox/v1/{end}", {"snapshot": "snapshot-1"} if end == "restore" else None)
        ended = re.fullmatch(
            r"a reset or a restore ended this move of time, after (\d+) of its events: .* move time again",
            (await moving)["detail"],
        )
        assert ended is not None
        assert 0 < int(ended[1]) < 300
        assert "a reset or a restore ended this move of time, after 0 of its events" in (await queued)["detail"]
        assert (await served.ask("GET", "/sandbox/v1/clock"))["now"] == START_TEXT
        assert (await served.ask("GET", "/sandbox/v1"))["charges"] == {}

    in_loop(scenario)


def test_a_reset_ends_a_wait_for_deliveries() -> None:
    async def scenario(served: ServedInLoop) -> None:
        waiting = asyncio.create_task(served.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 1, "timeout": 5}))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "60s"})
        assert (await served.ask("GET", "/sandbox/v1/inboxes"))["data"][0]["received"] == 1
        note = "a reset or a restore ended this wait: wait again in the new run"
        assert await waiting == {"reached": False, "count": 0, "note": note}

    in_loop(scenario)


def test_a_response_waits_for_what_its_own_request_made_due() -> None:
    """On a paused clock: then the next request of the same client comes after all of it."""

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(150):
            await served.create(callbackUrl="http://shop.localhost/hook")
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        before = served.rounds
        assert (await served.ask("POST", "/sandbox/v1/deliveries/replay"))["replayed"] == 150
        assert served.rounds - before >= 150 // MAX_STEPS
        [inbox] = (await served.ask("GET", "/sandbox/v1/inboxes"))["data"]
        assert inbox["received"] == 300

    in_loop(scenario)


@pytest.mark.parametrize("filters", [{}, {"status": "delivered"}])
def test_a_request_during_a_replay_does_not_wait_for_its_deliveries(
    filters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def replay(served: ServedInLoop, *, looks: bool) -> list[tuple[str, str]]:
        for _ in range(150):
            await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        events, rounds = served.world.clock.event_count, served.rounds
        replaying = asyncio.create_task(served.ask("POST", "/sandbox/v1/deliveries/replay", filters))
        await asyncio.sleep(0)
        if looks:
            await served.ask("GET", "/sandbox/v1/clock")
            assert served.world.clock.event_count == events, "a request between two slices runs none of the deliveries"
            [inbox] = (await served.ask("GET", "/sandbox/v1/inboxes"))["data"]
            assert inbox["received"] == 150
            assert not replaying.done()
        answer = await replaying
        assert (answer["replayed"], len(answer["ids"])) == (150, 150)
        assert served.rounds - rounds >= 150
        [inbox] = (await served.ask("GET", "/sandbox/v1/inboxes"))["data"]
        assert inbox["received"] == 300
        assert served.world.clock.event_count > events
        return [(entry.kind, entry.subject) for entry in served.world.journal.entries() if entry.kind != "request"]

    runs: list[list[tuple[str, str]]] = []

    async def watched(served: ServedInLoop) -> None:
        runs.append(await replay(served, looks=True))

    async def alone(served: ServedInLoop) -> None:
        runs.append(await replay(served, looks=False))

    in_loop(watched)
    in_loop(alone)
    assert runs[0] == runs[1]


def test_a_reset_during_a_replay_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(150):
            await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        replaying = asyncio.create_task(served.ask("POST", "/sandbox/v1/deliveries/replay"))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        assert 0 < (await replaying)["replayed"] < 150
        await served.create()
        moved = await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert moved["count"] == 2
        assert served.world.running_moves == 0

    in_loop(scenario)


def test_a_page_of_deliveries_with_bodies_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)
    path = "/sandbox/v1/deliveries?bodies=true&limit=1000"

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(150):
            await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        rounds = served.rounds
        found = await served.ask("GET", path)
        assert len({delivery["id"] for delivery in found["data"]}) == 150
        assert all(delivery["attempts"][0]["answer"] is not None for delivery in found["data"])
        assert served.rounds - rounds >= 150
        reading = asyncio.create_task(served.ask("GET", path))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        assert (await reading)["data"] == [], "the page is of the run that a reset began meanwhile"

    in_loop(scenario)


def test_a_delivery_with_many_attempts_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "61s"})
        [row] = (await served.ask("GET", "/sandbox/v1/deliveries"))["data"]
        path = f"/sandbox/v1/deliveries/{row['id']}"
        for number in range(1, 40):
            assert len((await served.ask("POST", f"{path}/replay"))["attempts"]) == number
        for target in (path, "/sandbox/v1/deliveries?bodies=true"):
            rounds = served.rounds
            found = await served.ask("GET", target)
            delivery = found if target == path else found["data"][0]
            assert [one["number"] for one in delivery["attempts"]] == [*range(1, 41)]
            assert served.rounds - rounds >= 40
        reading = asyncio.create_task(served.ask("GET", path, status=404))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        assert "no delivery with this id" in (await reading)["detail"]

    in_loop(scenario)


def test_the_details_of_a_charge_with_many_payments_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        charge = await served.create()
        path, body = f"/sandbox/v1/charges/{charge['id']}", {"request": charge["invoice"]["request"], "outcome": "fail"}
        for _ in range(50):
            await served.ask("POST", "/sandbox/v1/payments", body)
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "10s"})
        rounds = served.rounds
        details = await served.ask("GET", path)
        assert (len(details["timeline"]), details["omitted"] > 30) == (64, True)
        assert served.rounds - rounds >= 100
        reading = asyncio.create_task(served.ask("GET", path, status=404))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        await reading

    in_loop(scenario)


def test_a_rebalance_searches_its_routes_in_slices_and_moves_what_can_be_moved_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)
    path = "/sandbox/v1/network/nodes/shop/rebalance"

    async def scenario(served: ServedInLoop) -> None:
        rounds = served.rounds
        refused = await served.ask("POST", path, {"amount": "900000000000000"}, status=409)
        assert "give a smaller amount, such as" in refused["detail"]
        assert served.rounds - rounds >= 20
        moving = asyncio.create_task(served.ask("POST", path, {"amount": "900000000000000"}, status=409))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        assert "such as" in (await moving)["detail"], "the network is that of the run that began meanwhile"
        moving = asyncio.create_task(served.ask("POST", path, {"amount": "900000000000000"}, status=409))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/network/nodes/shop/drain", {"outbound": 1, "inbound": 0})
        assert "no circle" in (await moving)["detail"]
        refused = await served.ask("POST", path, {"amount": "900000000000000"}, status=409)
        assert "such as" not in refused["detail"], "the node has nothing to send now"
        await served.ask("POST", "/sandbox/v1/reset")
        before = await served.ask("GET", "/sandbox/v1/network/nodes/shop")
        fee = int((await served.ask("POST", path, {"amount": "1000000"}))["fee"])
        after = await served.ask("GET", "/sandbox/v1/network/nodes/shop")
        assert int(before["outbound"]) - int(after["outbound"]) == fee

    in_loop(scenario, network="scale-free:60")


def test_the_inboxes_are_listed_without_their_scripts_and_one_is_read_without_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The script of an inbox may have a thousand replies, and a row that was replaced is packed."""
    monkeypatch.setattr("leyden.server.store.tables.row_map.UNPACKED_ROWS", 4)
    monkeypatch.setattr("leyden.server.store.tables.table_data.REPLACED_TOGETHER", 4)

    async def scenario(served: ServedInLoop) -> None:
        names = [f"box-{number}" for number in range(20)]
        for name in names:
            await served.ask("PUT", f"/sandbox/v1/inboxes/{name}/script", {"answers": [500] * 30})
        for name in names[:3]:
            await served.create(callbackUrl=f"http://{name}.localhost/hook")
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "61s"})
        rows = served.world.store.table_data("receivers").rows
        assert sum(block is not None for block in rows.contents[0].values()) >= 8
        read, unpack = list[bytes](), row_map.unpack_after_summary
        monkeypatch.setattr(row_map, "unpack_after_summary", lambda block: read.append(block) or unpack(block))
        rows._unpacked.clear()
        first = await served.ask("GET", "/sandbox/v1/inboxes?limit=15")
        second = await served.ask("GET", f"/sandbox/v1/inboxes?limit=15&after={first['next']}")
        assert [(one["name"], one["received"]) for one in (*first["data"], *second["data"])] == [
            (name, int(name in names[:3])) for name in names
        ]
        assert second["next"] is None
        missing = await served.ask("GET", "/sandbox/v1/inboxes/box", status=404)
        assert "did you mean one of box-0, box-1, box-10" in missing["detail"]
        assert read == []
        assert len((await served.ask("GET", "/sandbox/v1/inboxes/BOX-7.localhost"))["script"]["answers"]) == 30
        assert len(read) <= 1

    in_loop(scenario)


def test_the_request_log_is_masked_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        for number in range(60):
            await served.ask("GET", f"/v0/charges?limit=1&x={number}{'ab' * 1000}", status=400)
        rounds = served.rounds
        found = await served.ask("GET", "/sandbox/v1/requests?limit=60&method=GET")
        assert len(found["data"]) == 60
        assert served.rounds - rounds >= 120, "each row is a step where it is sought, and where it is shown"
        rounds = served.rounds
        rows = RequestRows(served.world)
        events = await request_events(rows, served.world.request_log.since(0, console_reads=False))
        assert events.count(b"event: request") >= 60
        assert served.rounds - rounds >= 60

    in_loop(scenario)


def test_a_sandbox_in_slices_runs_the_same_events_in_the_same_order() -> None:
    def script(number: int) -> dict[str, Any]:
        return {"amount": "1000", "description": "tea", "expiresIn": 60 + number % 3, "callbackUrl": HOOK}

    async def scenario(served: ServedInLoop) -> None:
        await served.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"answers": [500, 503, 200, "timeout"] * 40})
        for number in range(200):
            await served.create(**script(number))
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "2h"})
        await served.ask("POST", "/sandbox/v1/deliveries/replay")
        await served.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})

    served = in_loop(scenario)
    sandbox = Sandbox(seed=7, api_key="leyden")
    sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"answers": [500, 503, 200, "timeout"] * 40})
    for number in range(200):
        sandbox.ask("POST", "/v0/charges", script(number))
    sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "2h"})
    sandbox.ask("POST", "/sandbox/v1/deliveries/replay")
    sandbox.world.catch_up()
    sandbox.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
    assert served.world.journal.hash == sandbox.journal_hash


class RealClock:
    """Real milliseconds that the test sets."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


def test_a_request_to_a_live_clock_that_is_behind_runs_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 1_000_000)
    real = RealClock()

    async def scenario(served: ServedInLoop) -> None:
        world = served.world
        for number in range(250):
            await served.create(expiresIn=60 + number, callbackUrl=None)
        real.ms = 3_600_000
        assert await served.ask("GET", "/v0/wallet")
        assert world.clock.event_count == MAX_STEPS
        now = (await served.ask("GET", "/sandbox/v1/clock"))["now"]
        assert now < "2030-01-01T00:05:00"
        catching_up = asyncio.create_task(catch_up(world))
        await asyncio.sleep(0)
        events = world.clock.event_count
        assert (await served.ask("GET", "/v0/wallet"))["success"]
        assert world.clock.event_count == events, "another task runs what is due"
        await catching_up
        assert world.clock.event_count == 250
        assert (await served.ask("GET", "/sandbox/v1/clock"))["now"] == "2030-01-01T01:00:00.000Z"

    in_loop(scenario, rate=1, real_clock=real)


def test_a_server_answers_before_it_has_caught_up_with_the_time_since_its_last_run() -> None:
    real = RealClock()

    async def scenario(served: ServedInLoop) -> None:
        for number in range(450):
            await served.create(expiresIn=60 + number, callbackUrl=None)
        real.ms = 3_600_000
        started, stop = asyncio.Event(), asyncio.Event()
        messages = [stop, None]

        async def receive() -> Any:
            message = messages.pop()
            if message is not None:
                await message.wait()
            return {}

        async def send(message: Any) -> None:
            started.set()

        serving = asyncio.create_task(served.app({"type": "lifespan"}, receive, send))
        await started.wait()
        assert 0 < served.world.clock.event_count < 450
        while served.world.clock.event_count < 450:
            await asyncio.sleep(0)
        stop.set()
        await serving

    in_loop(scenario, rate=1, real_clock=real)


def test_responses_that_come_between_two_slices_change_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: ServedInLoop) -> None:
        served.world.connect_network(PromptNetwork())
        for number in range(40):
            fields = {"description": "tea" * (number % 4 + 1), "expiresIn": 60 + number // 20}
            await served.create(callbackUrl="http://receiver.example/hook", **fields)
        await served.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})

    runs = []
    for steps in (1, 7, 1_000_000):
        monkeypatch.setattr("leyden.server.system.work_slices.MAX_STEPS", steps)
        monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 1_000_000)
        served = in_loop(scenario)
        kinds = Counter(entry.kind for entry in served.world.journal.entries())
        assert kinds["callback_answered"] > 40
        runs.append(served)
    one, seven, whole = (served.world.journal.hash for served in runs)
    assert one == seven == whole
    assert runs[0].rounds > 2 * runs[2].rounds


def count_groups(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """From now on `sizes` gets the number of responses of each group that is recorded in one transaction."""
    record = TransportRouter._record

    def counted(transport: TransportRouter, group: Any, times_s: list[int], is_over: Callable[[], bool]) -> bool:
        ended = record(transport, group, times_s, is_over)
        sizes.append(len(times_s))
        return ended

    monkeypatch.setattr(TransportRouter, "_record", counted)


@pytest.mark.parametrize("rate", [0, 1])
def test_the_responses_of_one_instant_are_recorded_in_slices(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that arrive while the events of the instant run wait together, and other requests come between them."""
    monkeypatch.setattr("leyden.server.system.work_slices.MAX_STEPS", 4)
    recorded, real = list[int](), RealClock()
    count_groups(monkeypatch, recorded)

    async def scenario(served: ServedInLoop) -> None:
        served.world.connect_network(PromptNetwork())
        for _ in range(40):
            await served.create(callbackUrl="http://receiver.example/hook", expiresIn=60)
        if rate:
            real.ms = 61_000
            moving = asyncio.create_task(catch_up(served.world))
        else:
            moving = asyncio.create_task(served.ask("POST", "/sandbox/v1/clock/advance", {"by": "60s"}))
        between = 0
        while not moving.done():
            between += served.world.transport.has_pending_responses
            await served.ask("GET", "/v0/wallet")
            await asyncio.sleep(0)
        await moving
        assert between >= 5

    served = in_loop(scenario, **({"rate": 1, "real_clock": real} if rate else {}))
    assert max(recorded) <= 4
    assert sum(recorded) >= 40
    assert not served.world.transport.has_pending_responses


@pytest.mark.parametrize("rate", [0, 1])
def test_responses_that_arrive_together_are_recorded_in_slices(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody moves time: the receivers have answered while the server was busy. Those of the configured sandbox and
    those of a created one."""
    monkeypatch.setattr("leyden.server.system.work_slices.MAX_STEPS", 4)
    recorded = list[int]()
    count_groups(monkeypatch, recorded)

    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=5, rate=rate)
        body = {"amount": "1000", "description": "tea"}
        for world, key in ((server.first, "leyden"), (server.world(box), box["apiKey"])):
            network = HeldNetwork()
            world.connect_network(network)
            if world.clock.rate != rate:
                world.move(lambda clock: clock.set_rate(rate))
            for number in range(8):
                named = {**body, "callbackUrl": f"http://receiver-{number}.example/hook"}
                charge = (await server.ok("POST", "/v0/charges", named, key=key))["data"]
                await server.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]}, key=key)
            async with asyncio.timeout(20):
                while len(network.held) < 8:  # so many may be in flight
                    await asyncio.sleep(0.01)
                recorded.clear()
                network.release()
                assert world.transport.has_pending_responses
                while world.transport.has_pending_responses:
                    await asyncio.sleep(0.01)
            assert sum(recorded) == 8
            assert max(recorded) <= 4

    in_server(scenario)


class HeldNetwork(PromptNetwork):
    """A network whose receivers answer all at once."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[CallbackRequest, Callable[[CallbackRequest, CallbackResponse], None]]] = []

    def post(self, request: CallbackRequest, responded: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.held.append((request, responded))

    def release(self) -> None:
        with self._around():
            for request, responded in self.held:
                responded(request, CallbackResponse(status=200))


def test_a_request_during_a_snapshot_does_not_wait_for_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(200):
            await served.create()
        await served.ask("GET", "/sandbox/v1")  # the journal is hashed first
        before, rounds = dump_world(served.world), served.rounds
        keeping = asyncio.create_task(served.ask("POST", "/sandbox/v1/snapshots", {}, status=201))
        await asyncio.sleep(0)
        await served.ask("GET", "/sandbox/v1/clock")
        await served.create()
        assert not keeping.done()
        shown = await keeping
        assert served.rounds - rounds >= 2 * 200 // BATCH, "each slice has the rows of one step"
        [kept] = served.world.snapshots.page(None, None, 9)
        state = kept.state()
        assert state.pop("leyden") == VERSION
        before["requests"] += 1  # its own
        assert state == json.loads(json.dumps(before)), "it has the state of its beginning"
        assert (shown["journalHash"], shown["bytes"]) == (before["journal"]["hash"], sum(map(len, kept.content)))

    in_loop(scenario)


def test_copies_are_made_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each needs memory for all rows."""
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)
    encoded = FrozenState.encoded
    in_work: list[int] = [0]

    async def counted(state: FrozenState, slices: Any) -> Any:
        in_work.append(in_work[-1] + 1)
        try:
            return await encoded(state, slices)
        finally:
            in_work.append(in_work[-1] - 1)

    monkeypatch.setattr(FrozenState, "encoded", counted)

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(100):
            await served.create()
        exports = [served.ask("GET", "/sandbox/v1/export") for _ in range(5)]
        snapshots = [served.ask("POST", "/sandbox/v1/snapshots", {}, status=201) for _ in range(5)]
        copies = [asyncio.create_task(each) for each in (*exports, *snapshots)]
        await asyncio.sleep(0)
        await served.ask("GET", "/sandbox/v1/clock")
        copies[1].cancel()
        assert not any(each.done() for each in copies)
        left = await asyncio.gather(*copies, return_exceptions=True)
        assert [isinstance(each, dict) for each in left] == [number != 1 for number in range(10)]

    in_loop(scenario)
    assert in_work == [0, *[1, 0] * 9]


def test_requests_are_answered_while_the_control_plane_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is built for its first request, in a thread."""
    gate = Gate(monkeypatch, "leyden.world.components.bind")

    async def scenario(served: ServedInLoop) -> None:
        asking = [asyncio.create_task(served.ask("GET", "/sandbox/v1")) for _ in range(2)]
        asking.append(asyncio.create_task(served.ask("GET", "/sandbox", status=404)))
        for _ in range(3):
            await served.create()
        assert not any(one.done() for one in asking)
        gate.open()
        first, second, unknown = await asyncio.gather(*asking)
        assert first == second
        assert "did you mean /sandbox/v1" in unknown["detail"]

    in_loop(scenario, has_control=False)


def test_the_control_plane_is_built_once_for_its_first_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when they are requests to several sandboxes."""
    compiled: list[str] = []
    bound: list[Any] = []

    def load(*path: Any, **named: Any) -> Any:
        compiled.append(str(path[0]))
        time.sleep(0.05)  # the other requests have come
        return load_contract(*path, **named)

    def counted(*given: Any, **named: Any) -> Any:
        bound.append(given[0])
        return bind(*given, **named)

    monkeypatch.setattr("leyden.world.config.load_contract", load)
    monkeypatch.setattr("leyden.world.components.bind", counted)
    config._compiled.__wrapped__.cache_clear()  # type: ignore[attr-defined]

    async def scenario(served: ServedInLoop) -> None:
        await asyncio.gather(*(served.ask("GET", "/sandbox/v1") for _ in range(12)))

    in_loop(scenario, has_control=False)
    assert sum("sandbox" in path for path in compiled) == 1
    assert len(bound) == 1


def test_requests_during_a_comparison_are_answered_and_change_nothing_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, "leyden.devserver.control.copies.restore_world")

    async def scenario(served: ServedInLoop) -> None:
        first = await served.create()
        kept = await served.ask("POST", "/sandbox/v1/snapshots", {}, status=201)
        await served.create()
        comparing = asyncio.create_task(served.ask("POST", "/sandbox/v1/diff", {"snapshot": kept["id"]}))
        await asyncio.sleep(0)
        await served.ask("GET", "/sandbox/v1/clock")
        third = await served.create()
        assert not comparing.done()
        gate.open()
        found = {row["id"] for row in (await comparing)["differences"] if row["table"] == "charges"}
        assert len(found) == 1
        assert found.isdisjoint({first["id"], third["id"]}), "it compares the state of its beginning"

    in_loop(scenario)


def test_a_request_during_an_export_does_not_wait_for_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(200):
            await served.create()
        await served.ask("GET", "/sandbox/v1")  # the journal is hashed first
        before, rounds = dump_world(served.world), served.rounds
        exporting = asyncio.create_task(served.ask("GET", "/sandbox/v1/export"))
        await asyncio.sleep(0)
        await served.ask("GET", "/sandbox/v1/clock")
        await served.create()
        assert not exporting.done()
        state = await exporting
        assert served.rounds - rounds >= 2 * 200 // BATCH, "each slice has the rows of one step"
        assert state.pop("leyden") == VERSION
        before["requests"] += 1  # its own
        assert state == json.loads(json.dumps(before)), "it has the state of its beginning"

    in_loop(scenario)


def test_a_restore_sets_no_single_row_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: ServedInLoop) -> None:
        for number in range(100):
            charge = await served.create(callbackUrl=f"http://shop{number}.localhost/")
            order = {
                "request": charge["invoice"]["request"],
                "payer": f"ana{number}",
                "delay": "30s",
                "outcome": "fail",
            }
            await served.ask("POST", "/sandbox/v1/payments", order)
            keys = (await served.ask("POST", "/sandbox/v1/api-keys", {"key": f"key of shop {number}"}))["keys"]
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        kept = await served.ask("POST", "/sandbox/v1/snapshots", {}, status=201)
        before = [row["id"] for row in (await served.ask("GET", "/v0/charges?limit=1000"))["data"]]
        await served.create()
        sets: list[int] = []
        usual = TableData.set

        def counted(table: TableData, doc_id: int, row: dict[str, Any]) -> None:
            sets.append(doc_id)
            usual(table, doc_id, row)

        monkeypatch.setattr(TableData, "set", counted)
        await served.ask("POST", "/sandbox/v1/restore", {"snapshot": kept["id"]})
        assert len(sets) < 100
        assert (await served.ask("POST", "/sandbox/v1/api-keys", {"key": "next"}))["keys"] == [*keys, "next"]
        sets.clear()
        await served.ask("POST", "/sandbox/v1/reset", {})
        assert len(sets) < 100
        assert (await served.ask("POST", "/sandbox/v1/api-keys", {"key": "last"}))["keys"] == [*keys, "next", "last"]
        await served.ask("POST", "/sandbox/v1/restore", {"snapshot": kept["id"]})
        assert [row["id"] for row in (await served.ask("GET", "/v0/charges?limit=1000"))["data"]] == before

    in_loop(scenario)


def test_a_replay_by_a_filter_is_made_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(70):
            await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        for number in (2, 3):
            rounds = served.rounds
            found = await served.ask("POST", "/sandbox/v1/deliveries/replay", {"event": "charge.expired"})
            assert (found["replayed"], len(set(found["ids"]))) == (70, 70)
            assert served.rounds - rounds >= 70
            await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
            every = (await served.ask("GET", "/sandbox/v1/deliveries?limit=1000"))["data"]
            assert [len(delivery["attempts"]) for delivery in every] == [number] * 70

    in_loop(scenario)


def test_a_page_of_an_inbox_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.server.system.work_slices.LIMIT_S", 0)

    async def scenario(served: ServedInLoop) -> None:
        for _ in range(150):
            await served.create()
        await served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        [inbox] = (await served.ask("GET", "/sandbox/v1/inboxes"))["data"]
        path = f"/sandbox/v1/inboxes/{inbox['name']}"
        rounds = served.rounds
        found = await served.ask("GET", f"{path}?limit=1000")
        assert [post["number"] for post in found["posts"]] == [*range(1, 151)]
        assert served.rounds - rounds >= 7
        for after, limit in ((0, 20), (130, 21), (149, 5), (150, 5), (7, 100)):
            page = await served.ask("GET", f"{path}?after={after}&limit={limit}")
            assert page == {**found, "posts": found["posts"][after : after + limit]}
        reading = asyncio.create_task(served.ask("GET", f"{path}?limit=1000", status=404))
        await asyncio.sleep(0)
        await served.ask("POST", "/sandbox/v1/reset")
        assert "no inbox with this name" in (await reading)["detail"]

    in_loop(scenario)
