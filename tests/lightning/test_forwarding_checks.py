"""Time locks: the longest that a payer accepts and that a node forwards, on a line of three channels."""

from __future__ import annotations

from hashlib import sha256

import pytest

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_session import PaymentSession, PaymentSessions
from leyden.lightning.topology.graph import from_edges


def engine_with_deltas(*deltas: int) -> Engine:
    edges = [
        {"a": f"n{number}", "b": f"n{number + 1}", "capacity_sat": 100_000, "cltv_delta": delta}
        for number, delta in enumerate(deltas)
    ]
    return Engine(from_edges(edges), 0, lambda name: sha256(name.encode()).digest())


def run(engine: Engine) -> None:
    while (due := engine.next_event_ms()) is not None:
        engine.run(due)


@pytest.mark.parametrize(("blocks", "code"), [(2_016 - 80, 0), (2_017 - 80, FailureCode.EXPIRY_TOO_FAR)])
def test_a_node_refuses_an_incoming_htlc_that_expires_more_than_2016_blocks_ahead(blocks, code):
    """BOLT 4, a forwarding node: "if the `cltv_expiry` is more than `max_htlc_cltv` in the future: return an
    `expiry_too_far` error"; "This `max_htlc_cltv` value is defined as 2016 blocks". Whoever made the route."""
    engine = engine_with_deltas(40, 40, 40)
    returned: list[Shard] = []
    engine.on_return = returned.append
    route = engine.policies.route([0, 2, 4], 1_000_000)._replace(checked_policies=engine.policies)
    engine.send(None, 0, route, engine.block_height() + blocks)
    run(engine)
    [shard] = returned
    assert (shard.settled, shard.code) == (not code, code)
    assert shard.reporter_hop == (1 if code else 3)


@pytest.mark.parametrize(("delta", "outcome"), [(968, "SUCCEEDED"), (969, "NO_ROUTE")])
def test_the_payers_limit_of_2016_blocks_includes_the_final_delta(delta, outcome):
    """BOLT 4: `max_htlc_cltv` bounds the HTLC that the first hop receives, which expires after the whole route and the
    final delta (80 blocks): 2 * 968 + 80 is 2,016."""
    engine = engine_with_deltas(delta, delta, delta)
    payers = PaymentSessions(engine)
    session = PaymentSession(0, 0, 3, 1_000_000)
    session.final_cltv_blocks = 80
    payers.start(session)
    run(engine)
    assert session.outcome == outcome
    if outcome == "NO_ROUTE":
        assert "more than 2016 blocks" in payers.reasons.no_route(session, session.amount_msat)


@pytest.mark.parametrize(("least", "hop"), [({0: 1_000_004}, 0), ({0: 1_000_003}, 3), ({2: 1_000_003}, 1)])
def test_nobody_offers_an_htlc_below_the_minimum_of_the_channel(least, hop):
    """BOLT 2, `update_add_htlc`: "MUST NOT offer `amount_msat` below the receiving node's `htlc_minimum_msat`". BOLT 4:
    a forwarding node then returns `amount_below_minimum`."""
    engine = engine_with_deltas(40, 40, 40)
    policies = engine.policies
    policies.base_msat, policies.ppm = (0, 0, 2, 0, 1, 0), (0,) * 6
    policies.htlc_min_msat = tuple(least.get(edge, 1) for edge in range(6))
    returned: list[Shard] = []
    engine.on_return = returned.append
    engine.send(None, 0, engine.policies.route([0, 2, 4], 1_000_000), engine.block_height() + 80)
    run(engine)
    [shard] = returned
    assert (shard.reporter_hop, shard.settled) == (hop, hop == 3)
    assert shard.code == (0 if hop == 3 else FailureCode.AMOUNT_BELOW_MINIMUM)
