"""Why a node does not pass an HTLC on: each reason with its code, and in words that the payer does not hear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leyden.lightning.failure_codes import (
    AMOUNT_BELOW_MINIMUM,
    CHANNEL_DISABLED,
    EXPIRY_TOO_FAR,
    EXPIRY_TOO_SOON,
    FEE_INSUFFICIENT,
    INCORRECT_CLTV_EXPIRY,
    PERMANENT_CHANNEL_FAILURE,
    TEMPORARY_CHANNEL_FAILURE,
)
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine
    from leyden.lightning.engine.shard import Shard

MAX_ACCEPTED_HTLCS = 483  # BOLT 2: max_accepted_htlcs
_LEAST_BLOCKS = 2  # an HTLC that expires sooner than this cannot be claimed in time


def check_forward(engine: Engine, shard: Shard, place: int) -> tuple[int, str] | None:
    """The code and the words with which the source of edge `place` refuses; None when it passes the HTLC on.

    The payer itself (place 0) keeps no policy towards itself.
    """
    terms, names = engine.policies, engine.graph.names
    edge, carried = shard.edges[place], shard.amounts[place]
    channel = f"the channel from {names[terms.source[edge]]} to {names[terms.target[edge]]}"
    if edge >> 1 in engine.closed:
        # BOLT 4: an unspecified permanent error of the outgoing channel, "e.g. channel recently closed".
        return PERMANENT_CHANNEL_FAILURE, f"{channel} is closed"
    if terms.disabled[edge]:
        return CHANNEL_DISABLED, f"{channel} is disabled"
    if place:
        refused = _by_policy(engine, shard, place, channel)
        if refused is not None:
            return refused
    if not engine.conditions.is_up(terms.target[edge], engine.now):
        # BOLT 4: a transient error of the outgoing channel; unknown_next_peer is for channels that do not exist.
        return TEMPORARY_CHANNEL_FAILURE, f"{names[terms.target[edge]]} was offline"
    able = engine.balance[edge] - engine.reserve[edge >> 1]
    if carried > terms.htlc_max_msat[edge] or carried > able:
        return TEMPORARY_CHANNEL_FAILURE, f"{channel} had {max(able, 0)} msat for {carried}"
    if engine.slots[edge] >= MAX_ACCEPTED_HTLCS:
        return TEMPORARY_CHANNEL_FAILURE, f"{channel} had {MAX_ACCEPTED_HTLCS} HTLCs in flight"
    return None


def _by_policy(engine: Engine, shard: Shard, place: int, channel: str) -> tuple[int, str] | None:
    terms, edge, carried = engine.policies, shard.edges[place], shard.amounts[place]
    if carried < terms.htlc_min_msat[edge]:
        return AMOUNT_BELOW_MINIMUM, f"{channel} carries at least {terms.htlc_min_msat[edge]} msat"
    asked = terms.base_msat[edge] + carried * terms.ppm[edge] // 1_000_000
    # BOLT 7: the difference of the two amounts is the fee, and may not be less than asked.
    if shard.amounts[place - 1] - carried < asked:
        return FEE_INSUFFICIENT, f"{channel} costs {asked} msat"
    # BOLT 4: cltv_expiry of the incoming HTLC minus the delta must not be before that of the outgoing one.
    if shard.cltv_offsets[place - 1] - terms.cltv_delta[edge] < shard.cltv_offsets[place]:
        return INCORRECT_CLTV_EXPIRY, f"{channel} needs {terms.cltv_delta[edge]} blocks"
    left = shard.final_expiry + shard.cltv_offsets[place] - engine.block_height()
    if left < _LEAST_BLOCKS:
        return EXPIRY_TOO_SOON, f"only {left} blocks were left"
    if left > MAX_CLTV_BLOCKS + _LEAST_BLOCKS:
        return EXPIRY_TOO_FAR, f"{left} blocks are more than two weeks"
    return None
