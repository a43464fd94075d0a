"""Background traffic: payments that are not for the shop, and money that flows back from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lab.charts.liquidity import liquidity_history
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.lightning.topology.graph import Graph, from_edges
from tests.support.channel_audit import audit
from tests.support.hosted import Hosted, in_server

NETWORK = "scale-free:60"
ALL = "ideal,background=240,background_amount=20000,spending=0.5,swap=0.4"


def corridor() -> Graph:
    """Payers behind a hub, and a shop with one channel of 2,000,000 sat, all of which it can receive."""
    edges = [(f"p{number}", "hub", 50_000_000) for number in range(4)]
    return from_edges([*edges, ("hub", "shop", 2_000_000)], shop="shop")


def emptied(sandbox: Sandbox) -> Sandbox:
    sandbox.network["shop"].drain(outbound=1.0)
    return sandbox


def facts(sandbox: Sandbox, kind: str) -> Any:
    """The facts of the only journal entry of this kind."""
    [entry] = [entry for entry in sandbox.world.journal.entries() if entry.kind == kind]
    return entry.facts


def sold(conditions: str, hours: int) -> list[int]:
    """The number of payments of 200,000 sat that arrive in each of these hours, of six."""
    with emptied(Sandbox(seed=5, network=corridor(), conditions=f"ideal,{conditions}".rstrip(","))) as sandbox:
        found = []
        for _ in range(hours):
            charges = [sandbox.charges.create(amount="200000000", description="x", expiresIn=3600) for _ in range(6)]
            payments = [sandbox.wallet(f"p{number % 4}").pay(charge) for number, charge in enumerate(charges)]
            sandbox.advance("1h")
            found.append(sum(payment.outcome == "SUCCEEDED" for payment in payments))
        return found


def test_a_shop_that_spends_or_swaps_does_not_run_dry() -> None:
    assert sold("", 4) == [6, 3, 0, 0]
    assert sold("spending=1", 4) == [6, 6, 6, 6]
    assert sold("swap=0.5", 4) == [6, 4, 4, 4]  # half of the channel, less its reserve


def test_what_the_shop_spends_is_its_share_of_what_it_was_paid_and_what_it_swaps_makes_its_channels_even() -> None:
    with emptied(Sandbox(seed=5, network=corridor(), conditions="ideal,spending=0.5")) as sandbox:
        before_msat = sandbox.network["shop"].outbound_msat
        charge = sandbox.charges.create(amount="400000000", description="x", expiresIn=3600)
        sandbox.wallet("p1").pay(charge)
        sandbox.advance("1h")
        spent_msat = sandbox.network.background["spent_msat"]
        note = facts(sandbox, "shop_spent")
        assert spent_msat == note["amount_msat"] == note["wanted_msat"] == 200_000_000
        left_msat = sandbox.network["shop"].outbound_msat
        assert left_msat == before_msat + 400_000_000 - spent_msat - note["fees_msat"]
        sandbox.network["shop"].drain(inbound=0.5)
        sandbox.advance("1h")  # nothing was paid, whatever else has moved
        assert sandbox.network.background["spent_msat"] == spent_msat
    with emptied(Sandbox(seed=5, network=corridor(), conditions="ideal,swap=0.5")) as sandbox:
        for number in range(3):
            charge = sandbox.charges.create(amount="500000000", description="x", expiresIn=3600)
            sandbox.wallet(f"p{number}").pay(charge)
        sandbox.advance("1h")
        assert sandbox.network["shop"].inbound_msat == 1_000_000_000
        note = facts(sandbox, "shop_swapped_out")
        assert note["provider"] == "hub"
        assert sandbox.network.background["swapped_msat"] == note["amount_msat"]


def test_what_finds_no_route_is_spent_in_a_later_hour() -> None:
    with emptied(Sandbox(seed=5, network=corridor(), conditions="ideal,spending=0.5")) as sandbox:
        sandbox.wallet("p1").pay(sandbox.charges.create(amount="400000000", description="x", expiresIn=3600))
        sandbox.advance("1m")
        sandbox.network["hub"].offline("90m")
        sandbox.advance("1h")
        assert facts(sandbox, "shop_spent") == {
            "amount_msat": 0, "wanted_msat": 200_000_000, "fees_msat": 0, "payments": 0
        }  # fmt: skip
        sandbox.advance("1h")
        assert sandbox.network.background["spent_msat"] == 200_000_000


def test_the_chart_of_the_liquidity_has_what_the_shop_sent_at_its_instant() -> None:
    with emptied(Sandbox(seed=5, network=corridor(), conditions="ideal,spending=0.5,background=60")) as sandbox:
        sandbox.wallet("p1").pay(sandbox.charges.create(amount="400000000", description="x", expiresIn=3600))
        sandbox.advance("90m")
        start_ms = sandbox.world.config.start_ms
        found = {row.at - start_ms: row for row in liquidity_history(sandbox.world)}
        before, after = (max(at for at in found if at < 3_600_000), 3_600_000)
        assert found[before].outbound_msat == 400_000_000
        assert found[after].outbound_msat == 200_000_000 - facts(sandbox, "shop_spent")["fees_msat"]
        node = sandbox.network["shop"]
        last = found[5_400_000]
        done = sandbox.network.background
        assert done["fees_msat"] == facts(sandbox, "shop_spent")["fees_msat"]
        assert (last.inbound_msat, last.outbound_msat) == (node.inbound_msat, node.outbound_msat)


def through_the_shop() -> Graph:
    """Two nodes on each side of a shop, which forwards what they pay to each other."""
    edges = [(node, "shop", 50_000_000) for node in ("a", "b", "c", "d")]
    return from_edges(edges, shop="shop")


def test_the_fee_of_each_background_payment_is_in_the_history_of_the_liquidity_at_its_instant() -> None:
    with Sandbox(seed=5, network=through_the_shop(), conditions="ideal,background=60") as sandbox:
        earned = [0]
        for _ in range(4):
            sandbox.advance("30m")
            earned.append(sandbox.network.background["earned_msat"])
        start_ms, half_ms = sandbox.world.config.start_ms, 1_800_000
        history = liquidity_history(sandbox.world)
        notes = [entry for entry in sandbox.world.journal.entries() if entry.kind == "shop_forwarded"]
    assert earned == sorted(set(earned)), "the shop earned in each half hour"
    assert sum(note.facts["earned_msat"] for note in notes) == earned[-1]
    assert {row.at for row in history} == {start_ms, *(note.at_ms for note in notes), start_ms + 4 * half_ms}
    for number, msat in enumerate(earned):
        then = [row for row in history if row.at <= start_ms + number * half_ms][-1]
        assert then.outbound_msat - history[0].outbound_msat == msat == history[0].inbound_msat - then.inbound_msat


def test_background_payments_come_at_their_rate_and_are_in_no_table() -> None:
    with Sandbox(seed=3, network=NETWORK, conditions="ideal,background=600,background_amount=1000") as sandbox:
        graph = sandbox.network.graph
        before = sandbox.world.engine.balance[:]
        sandbox.advance("10h")
        done = sandbox.network.background
        assert 5_600 < done["succeeded"] + done["failed"] < 6_400
        assert done["succeeded"] > 20 * done["failed"]
        assert (done["spent_msat"], done["swapped_msat"]) == (0, 0)
        changed = [edge for edge, msat in enumerate(before) if sandbox.world.engine.balance[edge] != msat]
        assert len(changed) > graph.channels // 2
        assert not list(sandbox.world.payments.rows)
        assert f"background: {done['succeeded']} payments succeeded" in repr(sandbox.network)
        audit(sandbox.world.engine)


@pytest.mark.parametrize("network", ["line:4", "star:12", "line:3"])
def test_a_network_with_few_nodes_that_have_funds_has_background_traffic_too(network: str) -> None:
    with Sandbox(seed=3, network=network, conditions="ideal,background=100,background_amount=1000") as sandbox:
        sandbox.advance("2h")
        assert sandbox.network.background["succeeded"] > 50
    with pytest.raises(GraphError, match="background needs two nodes besides the shop's"):
        Sandbox(network="line:2", conditions="background=1")


def test_without_its_conditions_nothing_of_it_happens() -> None:
    with Sandbox(seed=3, network=NETWORK) as sandbox:
        before = sandbox.world.engine.balance[:]
        sandbox.advance("2d")
        assert sandbox.world.engine.balance == before
        assert sandbox.network.background == dict.fromkeys(sandbox.network.background, 0)
        assert "background:" not in repr(sandbox.network)
        assert "background" not in sandbox.world.streams.snapshot()


def state(sandbox: Sandbox) -> Any:
    return sandbox.journal_hash, sandbox.network.background, sandbox.world.engine.balance


def advanced(sandbox: Sandbox) -> Any:
    with sandbox:
        sandbox.advance("90m")
        return state(sandbox)


def roll_back_a_payment(sandbox: Sandbox) -> None:
    """A background payment, and then an error in the same commit. The error is raised here, too."""
    payments = sandbox.world.payments
    assert isinstance(payments, RoutedPayments)
    with sandbox.world.exclusive():
        payments.background._run("next")
        raise ZeroDivisionError


def test_it_is_kept_forked_saved_scripted_and_rolled_back(tmp_path: Path) -> None:
    with Sandbox(seed=4, network=NETWORK, conditions=ALL, data=tmp_path / "data") as sandbox:
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="90000000", description="x", expiresIn=3600))
        sandbox.advance("2h")
        sandbox.save(tmp_path / "saved.json")
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        [scripted] = [value for value in names.values() if isinstance(value, Sandbox)]
        assert state(scripted) == state(sandbox)
        fork, reseeded = sandbox.fork(), sandbox.fork(reseed=9)
        expected = state(sandbox)
        with pytest.raises(ZeroDivisionError):
            roll_back_a_payment(sandbox)
        assert state(sandbox) == expected
    later = advanced(fork)
    assert later != expected
    assert advanced(reseeded)[1:] != later[1:]
    for copy in (scripted, Sandbox.load(tmp_path / "saved.json"), Sandbox(data=tmp_path / "data")):
        assert advanced(copy)[1:] == later[1:]


@pytest.mark.parametrize("conditions", ["background=2", "spending=0.5", "swap=0.4", ALL.removeprefix("ideal,")])
def test_a_directory_that_is_opened_before_anything_happened_has_it(conditions: str, tmp_path: Path) -> None:
    with Sandbox(seed=4, network="star:6", conditions=conditions, data=tmp_path / "a") as unopened:
        expected = unopened.world.clock.next_due()
        assert expected is not None
        unopened.advance("3h")
        later = state(unopened)
    for is_reset in (False, True):
        with Sandbox(seed=4, network="star:6", conditions=conditions, data=tmp_path / f"b {is_reset}") as created:
            if is_reset:
                created.world.reset(seed=4)
        with Sandbox(data=tmp_path / f"b {is_reset}") as again:
            assert again.world.clock.next_due() == expected
            again.advance("3h")
            assert state(again)[1:] == later[1:]


def test_a_reset_and_a_snapshot_start_it_anew() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.ok("POST", "/sandbox/v1/sandboxes", {"network": f"{NETWORK},{ALL}", "seed": 4})
        world = server.world(box)
        first = None
        for _ in range(2):
            world.move(lambda clock: clock.advance(7_200_000))
            first = first or world.engine.background
            assert world.engine.background == first
            assert first.succeeded > 100
            world.reset(seed=4)

    in_server(scenario)


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ("background=-1", "background='-1' is out of bounds: give a number from 0 to 1000000"),
        ("background_amount=0", "background_amount='0' is out of bounds: give a number from 1 to 1000000000"),
        ("spending=1.1", "spending='1.1' is out of bounds: give a number from 0 to 1"),
        ("swap=0.6", "swap='0.6' is out of bounds: give a number from 0 to 0.5"),
        ("backgruond=3", "did you mean background"),
    ],
)
def test_other_values_are_refused(conditions: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        Sandbox(network="line:9", conditions=conditions)


def test_a_run_until_nothing_is_scheduled_ends_without_it(tmp_path: Path) -> None:
    conditions = "ideal,background=60,spending=0.5"
    ends: list[Any] = []
    for kind in ("run", "spilled", "actions"):
        with emptied(Sandbox(seed=5, network=corridor(), conditions=conditions)) as sandbox:
            charge = sandbox.charges.create(amount="400000000", description="x", expiresIn=7200)
            sandbox.wallet("p1").pay(charge)
            sandbox.charges.create(amount="1000", description="x", expiresIn=7200)
            seen: list[str] = []
            if kind == "actions":
                sandbox.every("1d", lambda sb, seen=seen: seen.append(sb.now))  # type: ignore[misc]
            sandbox.run(spill=tmp_path / "spilled" if kind == "spilled" else None)
            assert sandbox.now == "2030-01-01T02:00:00.000Z"
            assert not seen
            ends.append((sandbox.network.background, sandbox.world.engine.balance))
            assert not sandbox.run()
    assert ends[0] == ends[1] == ends[2]

    async def scenario(server: Hosted) -> None:
        body = {"network": f"{NETWORK},ideal,background=60", "seed": 4, "start": "2030-01-01T00:00:00Z"}
        box = await server.ok("POST", "/sandbox/v1/sandboxes", body)
        order = {"amount": "1000", "description": "x", "expiresIn": 600}
        await server.ok("POST", "/v0/charges", order, key=box["apiKey"])
        await server.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"}, key=box["apiKey"])
        assert server.world(box).clock.now() == server.world(box).config.start_ms + 600_000

    in_server(scenario)
