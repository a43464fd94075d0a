"""The checks that a forwarding node makes of an HTLC against its policy: each failure with its code and the reason.

BOLT 4 names the codes. The reason is for the analyst: no payer receives it.
"""

from __future__ import annotations

from leyden.lightning.engine.htlc import FULFILLMENT_DEADLINE_BLOCKS
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS, EdgePolicies, hop_fee

MAX_ACCEPTED_HTLCS = 483  # BOLT 2: max_accepted_htlcs
LEAST_BLOCKS = 2  # an HTLC that expires sooner than this cannot be claimed in time


def policy_failure(
    policies: EdgePolicies, shard: Shard, hop: int, block_height: int, channel: str
) -> tuple[int, str] | None:
    """The failure code and the reason of the source of edge `hop`; None if all is right. The payer (hop 0) asks itself
    for no fee and no delta.

    `channel` is how the reason names the channel.
    """
    edge, amount = shard.edges[hop], shard.amounts[hop]
    if amount < policies.htlc_min_msat[edge]:
        return FailureCode.AMOUNT_BELOW_MINIMUM, f"{channel} carries at least {policies.htlc_min_msat[edge]} msat"
    if not hop:
        return None  # BOLT 2: no HTLC is offered below the minimum; the rest is for those who forward
    fee = hop_fee(amount, policies.base_msat[edge], policies.ppm[edge])
    # BOLT 7: the difference of the two amounts is the fee, and may not be less than asked.
    if shard.amounts[hop - 1] - amount < fee:
        return FailureCode.FEE_INSUFFICIENT, f"{channel} costs {fee} msat"
    # BOLT 4: cltv_expiry of the incoming HTLC minus the delta must not be before that of the outgoing one.
    if shard.cltv_offsets[hop - 1] - policies.cltv_delta[edge] < shard.cltv_offsets[hop]:
        return FailureCode.INCORRECT_CLTV_EXPIRY, f"{channel} needs {_blocks(policies.cltv_delta[edge])}"
    # BOLT 4: "if the cltv_expiry is more than max_htlc_cltv in the future": that of the incoming HTLC (BOLT 2).
    left = shard.final_expiry + shard.cltv_offsets[hop - 1] - block_height
    if left > MAX_CLTV_BLOCKS:
        return FailureCode.EXPIRY_TOO_FAR, f"{left} blocks are more than the {MAX_CLTV_BLOCKS} of two weeks"
    return None


def expiry_failure(shard: Shard, hop: int, block_height: int) -> tuple[int, str] | None:
    """The failure code and the reason of the source of edge `hop`, the payer included, if it is too late to offer the
    HTLC."""
    left = shard.final_expiry + shard.cltv_offsets[hop] - block_height
    if left >= LEAST_BLOCKS:
        return None
    if left < 0:
        found = f"the HTLC's expiry had passed {_blocks(-left)} before"
    else:
        found = f"only {_blocks(left)} {'was' if left == 1 else 'were'} left before the HTLC's expiry"
    return FailureCode.EXPIRY_TOO_SOON, f"{found}, and {_blocks(LEAST_BLOCKS)} are needed"


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"


def last_block(shard: Shard, hop: int) -> int:
    """The height at which the node at `hop` fails a shard that it has neither forwarded nor taken by then.

    BOLT 2: a node MUST fail an incoming HTLC if its "`cltv_expiry` minus `current_height` is less than
    `cltv_expiry_delta` for the corresponding outgoing HTLC": when the outgoing one would have expired, less the blocks
    that are needed to claim it. The receiver fails it by its fulfilment deadline.
    """
    if hop == len(shard.edges):
        return shard.final_expiry - FULFILLMENT_DEADLINE_BLOCKS
    return shard.final_expiry + shard.cltv_offsets[hop] - LEAST_BLOCKS + 1
