"""What views and rows of a network say about it."""

from __future__ import annotations

import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.topology.graph import from_edges


def test_closed_channels_are_not_counted_as_channels() -> None:
    with Sandbox(seed=3, network="star:4") as sandbox:
        network = sandbox.network
        sat = sum(sandbox.world.engine.capacity) // 1_000
        assert f"3 open channels, {sat} sat" in repr(network)
        gone = network["n3"].channels[0]
        network.close_channel(gone["channel"])
        assert f"2 open channels, {sat - gone['capacity_msat'] // 1_000} sat" in repr(network)
        assert "with 0 channels (1 closed), outbound 0 sat" in repr(network["n3"])
        network["n3"].open_channel("n1", 1_000_000)
        assert "with 1 channel (1 closed), outbound 1000 sat" in repr(network["n3"])


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
