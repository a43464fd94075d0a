"""The conditions of a network are chosen by texts, shown, kept with the sandbox, and their outages are a table."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.engine.condition_texts import condition_text, described, network_conditions
from leyden.lightning.engine.network_conditions import IDEAL, REALISTIC, NetworkConditions
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.topology.graph import from_edges
from leyden.sandbox.resources import Payment
from tests.support.examples import examples

DOWN = {"uptime": 0.5, "outage": "30m"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", REALISTIC),
        ("realistic", REALISTIC),
        ("ideal", IDEAL),
        ("uptime=0.9,outage=2h", NetworkConditions(up_share=0.9, mean_down_ms=7_200_000)),
        ("uptime=0.9, shop_uptime=0.5", NetworkConditions(up_share=0.9, shop_up_share=0.5)),
        ("offline_code=temporary_channel_failure", NetworkConditions(offline_code=0x1007)),
        ({"latency": "50ms", "stuck": 0}, NetworkConditions(hop_median_ms=50, stuck_share=0)),
        (
            {"outage": timedelta(hours=1), "block_time": 60},
            NetworkConditions(mean_down_ms=3_600_000, mean_block_ms=6e4),
        ),
    ],
)
def test_a_text_or_a_mapping_describes_conditions(options: object, expected: NetworkConditions) -> None:
    assert network_conditions(condition_text(options)) == expected  # type: ignore[arg-type]


@given(
    st.builds(
        NetworkConditions,
        hop_median_ms=st.integers(1, 10_000).map(float),
        slow_share=st.sampled_from([0.0, 0.1, 1.0]),
        up_share=st.sampled_from([0.001, 0.5, 1.0]),
        mean_down_ms=st.integers(1, 10**8).map(float),
    )
)
@examples(30)
def test_the_text_of_conditions_describes_them_again(conditions: NetworkConditions) -> None:
    assert network_conditions(described(conditions)) == conditions


@pytest.mark.parametrize(
    ("options", "mend"),
    [
        ("uptime=2", "from 0.001 to 1"),
        ("uptime=NaN", "from 0.001 to 1"),
        ("uptme=1", "did you mean uptime"),
        ("uptime=1,ideal", "ideal is what the others change: write it first, and once"),
        ("colour=blue", "choose from ideal, realistic, uptime"),
        ("outage=soon", "outage: 'soon' is not a duration"),
        ("outage=0s", "outage='0s' is too short"),
        (7, 'give "ideal"'),
    ],
)
def test_other_conditions_are_refused_with_the_mend(options: object, mend: str) -> None:
    with pytest.raises(GraphError, match=mend):
        Sandbox(network="star:12", conditions=options)  # type: ignore[arg-type]


def test_direct_payments_have_no_conditions() -> None:
    with pytest.raises(GraphError, match="needs a network"):
        Sandbox(conditions="ideal")


def test_in_ideal_conditions_nobody_is_offline() -> None:
    sandbox = Sandbox(seed=3, network="star:12", conditions="ideal")
    sandbox.advance("30d")
    assert len(sandbox.outages) == 0
    assert "offline now: no node" in repr(sandbox.network)


def test_the_shops_node_is_offline_only_when_that_is_asked_for() -> None:
    online = Sandbox(seed=3, network="star:12", conditions=DOWN)
    offline = Sandbox(seed=3, network="star:12", conditions={**DOWN, "shop_uptime": 0.5})
    for sandbox in (online, offline):
        sandbox.advance("2d")
    assert len(online.outages) > 100
    assert not online.outages["shop"].any()
    assert offline.outages["shop"].sum() > 10


def test_the_table_of_outages_says_who_is_offline_at_any_instant() -> None:
    sandbox = Sandbox(seed=3, network="star:12", conditions=DOWN)
    network = sandbox.network
    offline = []
    for _ in range(30):
        sandbox.advance("7m")
        offline.append((sandbox.world.clock.now(), set(network.offline)))
    outages = sandbox.outages
    for at_ms, expected in offline:
        is_up = network.engine.conditions.is_up
        assert expected == {name for node, name in enumerate(network.graph.names) if not is_up(node, at_ms)}
        at = (outages["at"].astype("int64") <= at_ms) & ~(outages["until"].astype("int64") <= at_ms).where(
            outages["until"].notna(), False
        )
        assert set(outages[at]["node"]) == expected
    assert not outages.duplicated(["node", "at"]).any()


def test_a_node_taken_offline_is_in_the_table_too() -> None:
    sandbox = Sandbox(seed=3, network="star:12", conditions="ideal")
    sandbox.advance("1h")
    node = sandbox.network["n2"].offline("10m")
    assert sandbox.network.offline == ["n2"]
    sandbox.advance("1h")
    (row,) = sandbox.outages.to_dict("records")
    assert (row["node"], row["cause"], row["until"] - row["at"]) == ("n2", node.id, timedelta(minutes=10))


def test_conditions_are_kept_by_scripts_forks_files_and_directories(tmp_path: Path) -> None:
    sandbox = Sandbox(seed=3, network="star:12", conditions=DOWN, data=tmp_path / "data")
    text = sandbox.network.conditions
    assert 'network="star:12,uptime=0.5,outage=30m"' in sandbox.script()
    fork = sandbox.fork()
    sandbox.save(tmp_path / "saved.json")
    sandbox.close()
    assert Sandbox(data=tmp_path / "data").network.conditions == text
    assert Sandbox.load(tmp_path / "saved.json").network.conditions == fork.network.conditions == text


def test_a_graph_has_conditions_too(tmp_path: Path) -> None:
    graph = from_edges([("ana", "hub", 10**6), ("hub", "shop", 10**6)])
    sandbox = Sandbox(network=graph, conditions="ideal,latency=7ms")
    assert sandbox.network.conditions.startswith("latency=7ms, ")
    sandbox.save(tmp_path / "saved.json")
    assert Sandbox.load(tmp_path / "saved.json").network.conditions == sandbox.network.conditions


# The reasons of payments that found no route


def paid(sandbox: Sandbox, amount: int, wallet: str = "ana") -> Payment:
    charge = sandbox.charges.create(amount=str(amount), description="tea", expiresIn=86_400)
    payment = sandbox.wallet(wallet).pay(charge)
    sandbox.advance("2m")
    return payment


def test_a_payer_that_remembers_an_outage_is_no_lack_of_liquidity() -> None:
    sandbox = Sandbox(seed=1, network="line:4", conditions="ideal")
    offline = sandbox.network["n2"].offline()
    assert "at last n2 was offline" in paid(sandbox, 250_000).row["reason"]
    offline.remove()
    after = paid(sandbox, 250_000).row
    assert (after["outcome"], after["attempts"]) == ("NO_ROUTE", [])
    assert after["reason"].startswith(
        "the payer's node avoids every route, because of earlier failures that it has seen"
    )
    sandbox.advance("1d")
    assert paid(sandbox, 250_000).outcome == "SUCCEEDED"


def test_an_amount_below_its_fees_needs_more_and_not_less() -> None:
    graph = from_edges(
        [
            ("ana", "hub", 10**6),
            {"a": "hub", "b": "shop", "capacity_sat": 10**6, "base_msat": 5_000, "htlc_min_msat": 1},
        ]
    )
    sandbox = Sandbox(network=graph, conditions="ideal")
    refused = paid(sandbox, 1_000).row
    assert (
        refused["reason"]
        == "every route costs more than 1000 msat, the payer's limit for this amount: pay more, such as 8000 msat"
    )
    assert paid(sandbox, 8_000).outcome == "SUCCEEDED"


def test_an_amount_beyond_every_channel_needs_less() -> None:
    sandbox = Sandbox(network=from_edges([("ana", "hub", 10**6), ("hub", "shop", 20_000)]), conditions="ideal")
    reason = paid(sandbox, 400_000_000).row["reason"]
    assert reason.startswith(
        "the payer splits an amount into 16 parts at most, and knows no route for one of 25000000 msat: pay less, such"
    )
    assert "; at last the channel from hub to shop had" in reason
    sandbox.advance("1d")
    reason = paid(sandbox, 19_000_000).row["reason"]
    assert reason.startswith(
        "the payer knows no other route: pay less, such as 9800000 msat; at last the channel from hub to shop had"
    )


def closed_reason(closed: str, at: str | None, outcome: str = "NO_ROUTE") -> str:
    """The reason of a payment of ana to a shop behind three nodes, whose node `closed` closes its channels before the
    payment, or so long after its start."""
    chain = ["ana", "hub", "mid", "last", "shop"]
    graph = from_edges([*((a, b, 10**6) for a, b in pairwise(chain)), ("last", "x", 10**6)], shop="shop")
    sandbox = Sandbox(seed=7, network=graph, conditions={"latency": "1s"})

    def close() -> None:
        for row in sandbox.ask("GET", f"/sandbox/v1/network/nodes/{closed}")["channels"]:
            sandbox.network.close_channel(row["channel"])

    if at is None:
        close()
    payment = sandbox.wallet("ana").pay(sandbox.charges.create(amount="100000000", description="x"))
    if at is not None:
        sandbox.advance(at)
        close()
    sandbox.run("1h")
    assert payment.outcome == outcome
    return str(payment.row["reason"])


def test_the_advice_about_a_closed_channel_is_to_open_one() -> None:
    assert closed_reason("shop", None) == "the receiver has no open channel: open one to it"
    assert closed_reason("mid", None) == "no open channels lead from the payer to the receiver: open one"
    assert closed_reason("ana", None, "INSUFFICIENT_BALANCE") == (
        "the payer has no open channel: open one from it, or pay from another wallet"
    )
    for closed, cause in (
        ("shop", "the receiver has no open channel: open one to it; at last the channel from last to shop is closed"),
        ("mid", "no open channels lead from the payer to the receiver: open one; at last the channel from hub to mid"),
    ):
        assert closed_reason(closed, "1500ms").startswith(cause)


def test_a_smaller_amount_is_advised_only_for_a_lack_of_liquidity() -> None:
    sandbox = Sandbox(seed=7, network=from_edges([("ana", "hub", 10**6), ("hub", "shop", 10**6)]), conditions="ideal")
    sandbox.network.intercept("fail", node="hub", code=FailureCode.UNKNOWN_NEXT_PEER)
    reason = paid(sandbox, 250_000).row["reason"]
    assert reason.startswith(
        "the payer knows no other route: pay later, when what failed is over and the payer's node has forgotten"
        " it; at last "
    )


def test_an_outage_of_the_conditions_does_not_stop_the_payers_own_payments() -> None:
    sandbox = Sandbox(seed=3, network="star:12", conditions={"uptime": 0.5, "outage": "1h"})
    outcomes = []
    for _ in range(20):
        sandbox.advance("7m")
        offline = sandbox.network.wallet("ana").name in sandbox.network.offline
        outcomes.append((offline, paid(sandbox, 250_000).outcome))
    assert (True, "SUCCEEDED") in outcomes
