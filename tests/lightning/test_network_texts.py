"""What views and rows of a network say about it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.engine.forwarding_checks import expiry_failure
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.topology.graph import from_edges
from leyden.sandbox.resources import Payment


def test_closed_channels_are_not_counted_as_channels() -> None:
    with Sandbox(seed=3, network="star:4") as sandbox:
        network = sandbox.network
        sat = sum(sandbox.world.engine.capacity) // 1_000
        assert f"3 open channels, {sat} sat" in repr(network)
        gone = network["n3"].channels[0]
        network.close_channel(gone["channel"])
        assert f"2 open channels, {sat - gone['capacity_msat'] // 1_000} sat" in repr(network)
        assert "with 0 open channels, 1 closed, outbound 0 sat" in repr(network["n3"])
        network["n3"].open_channel("n1", 1_000_000)
        assert "with 1 open channel, 1 closed, outbound 1000 sat" in repr(network["n3"])


def test_a_node_that_is_asked_for_by_its_public_key_is_no_wallets() -> None:
    graph = from_edges([("ana", "hub", 1_000_000), ("hub", "shop", 1_000_000)], shop="shop")
    keys = [f"02{number:064x}" for number in range(3)]
    with Sandbox(network=replace(graph, keys=keys), conditions="ideal") as sandbox:
        assert repr(sandbox.network[keys[1]]) == repr(sandbox.network["hub"])
        assert "the node of the wallet 'dan'" in repr(sandbox.network.wallet("dan"))


def test_wallets_share_nodes_as_the_document_says() -> None:
    with Sandbox(seed=6, network="scale-free:30") as sandbox:
        nodes = [sandbox.network.wallet(f"w{number}").name for number in range(60)]
        assert len(set(nodes)) < len(sandbox.network) < len(nodes)
        schemas = sandbox.http.get("/sandbox/v1/openapi.json").json()["components"]["schemas"]
    description = " ".join(schemas["PaymentOrder"]["properties"]["payer"]["description"].split())
    assert "uses a node of the network" in description
    assert "Other wallets may use it, too" in description


def test_the_conditions_name_the_payer_and_where_payers_are() -> None:
    for given, shown in (("ideal", "payer=leyden"), ("ideal,payer=leyden", "payer=leyden"), ("payer=ldk", "payer=ldk")):
        with Sandbox(network="line:4", conditions=given) as sandbox:
            texts = sandbox.network.conditions.split(", ")
            assert shown in texts
            assert "payers=funded" in texts
            with Sandbox(network="line:4", conditions=sandbox.network.conditions.replace(" ", "")) as same:
                assert same.network.conditions == sandbox.network.conditions


@pytest.mark.parametrize("conditions", ["uptime=0.9,ideal", "ideal,realistic"])
def test_a_preset_that_is_not_first_is_refused(conditions: str) -> None:
    with pytest.raises(GraphError, match="is what the others change: write it first, and once"):
        Sandbox(network="line:4", conditions=conditions)


@pytest.mark.parametrize("payer", ["leyden", "lnd", "ldk", "cln"])
def test_no_route_for_a_small_amount_or_a_closed_shop_is_named(payer: str) -> None:
    ends = (("ana", "hub"), ("hub", "shop"))
    edges = [{"a": a, "b": b, "capacity_sat": 10_000_000, "htlc_min_msat": 5_000_000} for a, b in ends]
    graph = from_edges(edges, shop="shop")
    with Sandbox(network=graph, conditions=f"ideal,payer={payer}") as sandbox:
        small = sandbox.wallet("ana").pay(sandbox.charges.create(amount="2000000", description="tea"))
        sandbox.run("2m")
        assert small.outcome == "NO_ROUTE"
        assert small.reason == "no route carries an amount so small: each forwards 5000000 msat or more, so pay that"
        sandbox.network.close_channel(1)
        late = sandbox.wallet("ana").pay(sandbox.charges.create(amount="6000000", description="tea"))
        sandbox.run("2m")
        assert late.reason == "the receiver has no open channel: open one to it"


@pytest.mark.parametrize("network", ["direct", "line:4"])
def test_attempts_say_why_the_receiver_failed_them(network: str) -> None:
    with Sandbox(network=network, conditions=None if network == "direct" else "ideal") as sandbox:
        found = {}
        for outcome in ("settle", "underpay", "wrong_secret", "overpay_double"):
            charge = sandbox.charges.create(amount="2000000", description="tea")
            payment = sandbox.wallet("ana").pay(charge, outcome=outcome)
            sandbox.run("1m")
            table = sandbox.attempts
            found[outcome] = table[table["payment_id"] == payment.id]["why"].fillna("").tolist()
    assert found == {
        "settle": [""], "underpay": ["underpaid"], "wrong_secret": ["secret"], "overpay_double": ["overpaid"]
    }  # fmt: skip


# The causes of failed payments, and advice that works


def paid(sandbox: Sandbox, amount: int, **how: object) -> Payment:
    charge = sandbox.charges.create(amount=str(amount), description="tea", expiresIn=86_400)
    payment = sandbox.wallet("ana").pay(charge, **how)
    sandbox.run("2m")
    return payment


@pytest.mark.parametrize("payer", ["leyden", "lnd", "lnd-bimodal", "ldk", "cln"])
def test_a_payer_without_enough_names_what_it_holds_its_reserve_or_its_peers_that_are_offline(payer: str) -> None:
    edges = [{"a": "ana", "b": "hub", "capacity_sat": 1_000_000}, ("hub", "shop", 9_000_000)]
    with Sandbox(network=from_edges(edges, shop="shop"), conditions=f"ideal,payer={payer}") as sandbox:
        sandbox.network["hub"].drain(inbound=0.2)
        held, reserve = sandbox.network["ana"].outbound_msat, 10_000_000
        above = paid(sandbox, held + 1)
        assert above.outcome == "INSUFFICIENT_BALANCE"
        assert str(above.reason).startswith(
            f"the payer's channels hold {held} msat, less than the {held + 1}: pay less"
        )
        below = paid(sandbox, held - reserve + 1)
        assert below.outcome == "INSUFFICIENT_BALANCE"
        assert f"hold {held} msat, of which they keep {reserve} as their reserves" in str(below.reason)
        outage = sandbox.network["hub"].offline("10m")
        reason = paid(sandbox, 2_500_000).reason
        if payer == "leyden":  # it tries, and learns that hub was offline
            assert "hub was offline" in str(reason)
            return
        assert str(reason).startswith("the payer's channel to hub was offline, and its others could send 0 msat")
        outage.remove()
        assert paid(sandbox, 2_500_000).outcome == "SUCCEEDED"


def test_a_channel_says_what_it_had_and_what_of_that_is_its_reserve() -> None:
    graph = from_edges([("ana", "hub", 9_000_000), ("hub", "shop", 400_000)], shop="shop")
    with Sandbox(seed=2, network=graph, conditions="ideal") as sandbox:
        [held] = [row["local_msat"] for row in sandbox.network["hub"].channels if row["capacity_msat"] == 400_000_000]
        paid(sandbox, held - 1)
        first = sandbox.attempts["reason"].iloc[0]
        assert first == f"the channel from hub to shop had {held} msat, 4000000 of them its reserve, for {held - 1}"


def test_a_channel_with_less_than_its_reserve_says_so() -> None:
    graph = from_edges([("ana", "hub", 9_000_000), ("hub", "shop", 400_000)], shop="shop")
    with Sandbox(seed=2, network=graph, conditions="ideal") as sandbox:
        sandbox.network["shop"].drain(inbound=0.9999)
        held = next(row["local_msat"] for row in sandbox.network["hub"].channels if row["peer"] == "shop")
        assert 1_000 < held < 4_000_000
        paid(sandbox, 1_000)
        first = sandbox.attempts["reason"].iloc[0]
        assert first == f"the channel from hub to shop had {held} msat, less than its reserve of 4000000, for 1000"


def test_a_peer_that_is_offline_is_named_without_a_lack_where_the_other_channels_lead_nowhere() -> None:
    graph = from_edges([("ana", "hub", 9_000_000), ("hub", "shop", 9_000_000), ("ana", "end", 9_000_000)], shop="shop")
    with Sandbox(network=graph, conditions="ideal,payer=lnd") as sandbox:
        sandbox.network["hub"].offline("10m")
        assert paid(sandbox, 250_000).reason == (
            "the payer's channel to hub was offline, and no route of its node leads over its others: pay when it is "
            "back"
        )


def test_a_payer_of_a_drained_receiver_is_told_that_its_channels_carry_nothing() -> None:
    with Sandbox(seed=5, network="star:6", conditions="ideal") as sandbox:
        sandbox.network["shop"].drain(inbound=1)
        reason = paid(sandbox, 250_000).reason
        assert reason is not None
        assert "more than 0 msat" not in reason
        assert reason.endswith("open a channel from the payer to the receiver")


@pytest.mark.parametrize("background", ["", ",background=60"])
def test_a_later_time_is_advised_if_other_payments_move_liquidity(background: str) -> None:
    graph = from_edges([("ana", "hub", 9_000_000), ("hub", "shop", 9_000_000)], shop="shop")
    with Sandbox(network=graph, conditions=f"ideal{background}") as sandbox:
        sandbox.network["hub"].drain(outbound=1)
        advice = "pay later, when other payments have moved liquidity"
        assert (advice in str(paid(sandbox, 90_000_000).reason)) == bool(background)


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_an_amount_below_what_chosen_channels_forward_is_not_said_to_be_too_large(seed: int) -> None:
    with Sandbox(seed=seed, network="scale-free:40", conditions="ideal,payer=cln") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=86_400)
        payment = sandbox.wallet("w1").pay(charge, outcome="underpay")  # 999 msat
        sandbox.run("2m")
        reason = str(payment.reason)
        assert payment.outcome == "NO_ROUTE"
        assert "1000 msat or more" in reason
        assert "pay less" not in reason


def test_the_parts_of_an_incomplete_payment_need_the_least_amount_each() -> None:
    with Sandbox(seed=1, network="star:6", conditions="ideal") as sandbox:
        for amount in (1_000, 1_500):
            reason = paid(sandbox, amount, outcome="incomplete").reason
            assert reason == (
                f"no route carries a part so small: each forwards 1000 msat or more, and each of the 2 parts has "
                f"{amount // 2} or less, so pay 2000"
            )
        assert "1000 msat or more" not in str(paid(sandbox, 2_000, outcome="incomplete").reason)


def test_a_limit_of_the_channels_is_named_and_what_is_advised_can_be_paid() -> None:
    ends = (("ana", "hub"), ("hub", "shop"))
    edges = [{"a": a, "b": b, "capacity_sat": 5_000_000, "htlc_max_msat": 3_000_000} for a, b in ends]
    with Sandbox(seed=2, network=from_edges(edges, shop="shop"), conditions="ideal") as sandbox:
        payment = paid(sandbox, 4_000_000)
        assert payment.outcome == "NO_ROUTE"
        assert "by the limits of channels (htlc_maximum_msat and capacity)" in str(payment.reason)
        advised = re.search(r"pay less, such as ([0-9]+) msat$", str(payment.reason))
        assert advised is not None
        assert paid(sandbox, int(advised[1]) + 1).outcome == "NO_ROUTE"
        assert paid(sandbox, int(advised[1])).outcome == "SUCCEEDED"


def test_a_refusal_by_the_receiver_has_its_reason_whatever_other_parts_met() -> None:
    edges = [
        ("ana", "a", 6_000_000), {"a": "a", "b": "shop", "capacity_sat": 400_000, "a_balance_sat": 380_000},
        ("ana", "b", 6_000_000), {"a": "b", "b": "shop", "capacity_sat": 400_000, "a_balance_sat": 20_000},
    ]  # fmt: skip
    with Sandbox(seed=1, network=from_edges(edges, shop="shop"), conditions="ideal,latency=1s,latency_sigma=0.5") as sb:
        charge = sb.charges.create(amount="450000000", description="x", expiresIn=5)
        payment = sb.wallet("ana").pay(charge, delay="4s")
        sb.run("5m")
        assert payment.outcome == "INCORRECT_PAYMENT_DETAILS"
        assert str(payment.reason).startswith("the invoice expired at")
        assert "the channel from" in str(sb.attempts["reason"].iloc[-1])


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (-14, "the HTLC's expiry had passed 14 blocks before"),
        (-1, "the HTLC's expiry had passed 1 block before"),
        (0, "only 0 blocks were left before the HTLC's expiry"),
        (1, "only 1 block was left before the HTLC's expiry"),
    ],
)
def test_a_node_that_forwards_too_late_says_how_many_blocks_it_needs(left: int, found: str) -> None:
    shard = Shard(1, None, 0, 0, Route([0, 2], [5, 5], [7, 0], None), 800_000)
    assert expiry_failure(shard, 1, 800_000 - left) == (
        FailureCode.EXPIRY_TOO_SOON, f"{found}, and 2 blocks are needed"
    )  # fmt: skip
    assert expiry_failure(shard, 1, 800_000 - 2) is None


def test_an_htlc_that_was_stuck_past_its_expiry_has_no_negative_number_of_blocks() -> None:
    with Sandbox(seed=4, network="line:4,ideal,stuck=0.5,stuck_time=40h") as sandbox:
        payment = sandbox.wallet("n0").pay(sandbox.charges.create(amount="250000", description="tea"))
        sandbox.run()
        [attempt] = payment.row["attempts"]
        assert attempt["reason"] == "the HTLC's expiry had passed 14 blocks before, and 2 blocks are needed"
        assert str(payment.reason).endswith(attempt["reason"])


@pytest.mark.parametrize("payer", ["leyden", "lnd"])
def test_a_payer_without_patience_sends_once_as_a_direct_one_does(payer: str) -> None:
    with Sandbox(network="star:4", conditions=f"ideal,payer={payer}") as sandbox:
        for number in range(2):
            charge = sandbox.charges.create(amount="2000000", description="tea")
            row = sandbox.world.payments.pay(charge.request, payer="ana", delay_ms=1_000 * number, patience_ms=0)
            sandbox.run("10s")
            assert sandbox.world.payments.rows.row(row["id"])["outcome"] == "SUCCEEDED"


def test_a_payer_that_lost_patience_says_when_and_what_its_parts_met() -> None:
    with Sandbox(network="star:4", conditions="ideal") as sandbox:
        sandbox.network.intercept("delay", node="shop", delay="5m")
        charge = sandbox.charges.create(amount="2000000", description="tea", expiresIn=120)
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run("1h")
        assert payment.outcome == "TIMEOUT"
        assert str(payment.reason).startswith(
            "the payer's patience was over at 2030-01-01T00:01:00.000Z, with 1 part in flight; at last the invoice"
        )


@pytest.mark.parametrize(("payer", "blocks", "hops"), [("leyden", 2_016, 20), ("lnd", 2_016, 20), ("ldk", 928, 19)])
def test_time_locks_and_hops_are_no_lack_of_liquidity(payer: str, blocks: int, hops: int) -> None:
    locking = [("ana", "hub", 5_000_000), {"a": "hub", "b": "shop", "capacity_sat": 5_000_000, "cltv_delta": blocks}]
    chain = [("ana" if not number else f"n{number}", f"n{number + 1}", 5_000_000) for number in range(hops + 1)]
    for edges, cause in (
        (locking, f"every route locks the amount for more than {blocks} blocks, the payer's limit, because of"),
        (chain, f"every route has {hops + 1} hops or more, and that is more than the {hops} that a route of this"),
    ):
        with Sandbox(network=from_edges(edges), conditions=f"ideal,payer={payer}") as sandbox:
            payment = paid(sandbox, 1_000)
            assert payment.outcome == "NO_ROUTE"
            assert str(payment.reason).startswith(cause)
            sandbox.network["ana"].open_channel("shop", 5_000_000_000)  # as advised
            assert paid(sandbox, 1_000).outcome == "SUCCEEDED"


def test_a_payment_that_is_given_too_many_blocks_needs_fewer() -> None:
    with Sandbox(network="line:4", conditions="ideal") as sandbox:
        charge = sandbox.charges.create(amount="2000000", description="tea", expiresIn=86_400)
        outcomes = []
        for blocks in (2_000, 80):
            row = sandbox.world.payments.pay(charge.request, payer="n0", cltv_blocks=blocks)
            sandbox.run("10s")
            outcomes.append(sandbox.world.payments.rows.row(row["id"]))
        assert outcomes[0]["outcome"] == "NO_ROUTE"
        assert outcomes[0]["reason"].endswith("the last HTLC alone for 2003: give it fewer blocks")
        assert outcomes[1]["outcome"] == "SUCCEEDED"


def test_disabled_channels_are_not_said_to_be_closed() -> None:
    chain = (("ana", "hub"), ("hub", "mid"), ("mid", "shop"))
    for place, cause in enumerate(
        (
            "the payer has no enabled channel: open one from it, or pay from another wallet",
            "no enabled channels lead from the payer to the receiver: open one",
            "the receiver has no enabled channel: open one to it",
        )
    ):
        edges = [
            {"a": a, "b": b, "capacity_sat": 1_000_000, "disabled": number == place}
            for number, (a, b) in enumerate(chain)
        ]
        with Sandbox(network=from_edges(edges, shop="shop"), conditions="ideal") as sandbox:
            assert paid(sandbox, 1_000_000).reason == cause
            sandbox.network["ana"].open_channel("shop", 1_000_000_000)
            assert paid(sandbox, 1_000_000).outcome == "SUCCEEDED"


def test_less_is_advised_only_where_liquidity_lacked() -> None:
    graph = from_edges([("ana", "hub", 9_000_000), ("hub", "shop", 9_000_000)], shop="shop")
    with Sandbox(network=graph, conditions="ideal,offline_code=temporary_channel_failure") as sandbox:
        sandbox.network["shop"].offline("10m")
        reason = str(paid(sandbox, 2_000_000).reason)
        assert reason.startswith(
            "the payer knows no other route: pay later, when what failed is over and the payer's node has forgotten"
            " it; at last shop"
        )
        sandbox.advance("1d")
        sandbox.network["hub"].drain(outbound=0.9999)
        assert str(paid(sandbox, 90_000_000).reason).startswith(
            "the payer knows no other route: open a channel from the payer to the receiver; at last the channel from"
        )


@pytest.mark.parametrize("payer", ["leyden", "lnd"])
def test_slots_that_are_in_use_are_named_and_free_again_when_their_htlcs_have_ended(payer: str) -> None:
    edges = [("ana", "shop", 5_000_000), ("ana", "other", 5_000_000)]
    with Sandbox(network=from_edges(edges, shop="shop"), conditions=f"ideal,payer={payer}") as sandbox:
        engine = sandbox.world.engine
        engine.slots[0] = 483
        payment = paid(sandbox, 1_000)
        assert payment.outcome == "NO_ROUTE"
        assert "had 483 HTLCs in flight, the most that they take (BOLT 2)" in str(payment.reason)
        engine.slots[2] = 483
        payment = paid(sandbox, 1_000)
        assert payment.outcome == ("INSUFFICIENT_BALANCE")
        assert "had 483 HTLCs in flight, the most that they take (BOLT 2)" in str(payment.reason)
        engine.slots[0] = engine.slots[2] = 0
        assert paid(sandbox, 1_000).outcome == "SUCCEEDED"


def test_a_lack_of_liquidity_is_the_reason_although_other_parts_waited_until_the_receiver_returned_them() -> None:
    edges = [("ana", "hub", 9_000_000), {"a": "hub", "b": "shop", "capacity_sat": 400_000, "a_balance_sat": 328_000}]
    with Sandbox(seed=2, network=from_edges(edges, shop="shop"), conditions="ideal") as sandbox:
        payment = paid(sandbox, 326_000_000)
        sandbox.run("5m")
        assert payment.outcome == "NO_ROUTE"
        assert re.match(
            "the payer knows no other route: pay less, such as [0-9]+ msat; at last the channel from hub to shop had",
            str(payment.reason),
        )
        returned = "not all parts of the payment arrived within 120 s of the first: all must arrive in that time"
        assert returned in sandbox.attempts["reason"].tolist()
