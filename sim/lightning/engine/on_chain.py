"""Force closes: until when a node waits before it closes a channel, and when HTLCs and balances are on the chain.

The times are those of a chain without congestion; transactions and their fees are not simulated.
"""

from __future__ import annotations

from typing import NamedTuple

from leyden.lightning.engine.htlc import FULFILLMENT_DEADLINE_BLOCKS
from leyden.lightning.engine.shard import Shard

# An HTLC that timed out: a block for the commitment transaction, one for the HTLC-timeout transaction (BOLT 5), and two
# more until a reorganization is unlikely (R in BOLT 2, "cltv_expiry_delta Selection"). A preimage is read at once.
TIMEOUT_BLOCKS, PREIMAGE_BLOCKS = 4, 2
# BOLT 3: the balance of the node that closed the channel is delayed (LND's least `to_self_delay`); its peer's is not.
TO_SELF_DELAY_BLOCKS = 144


class ForceClose(NamedTuple):
    """The edge whose source closed the channel, and the block height at which it did."""

    edge: int
    height: int

    def spendable_height(self, edge: int) -> int:
        """The height from which the balance of the source of an edge of this channel is on the chain."""
        return self.height + 1 + (TO_SELF_DELAY_BLOCKS if edge == self.edge else 0)


def deadline(shard: Shard, hop: int) -> int:
    """The height at which a node closes the channel of edge `hop`, if the peer has not answered by then.

    BOLT 2: an offering node MUST fail the channel after the `cltv_expiry` of an HTLC; a fulfilling node so early that
    it can still claim the HTLC before.
    """
    expiry = shard.final_expiry + shard.cltv_offsets[hop]
    return expiry - FULFILLMENT_DEADLINE_BLOCKS if shard.settled else expiry


def resolution_height(shard: Shard, hop: int, height: int) -> int:
    """The height at which the HTLC on edge `hop` of a closed channel is resolved, and the node before it knows that.

    BOLT 5: an HTLC without a preimage is spent after its expiry, and the node MUST then fail the incoming one. It does
    so before that expires, too.
    """
    if shard.settled:
        return height + PREIMAGE_BLOCKS
    resolved = max(shard.final_expiry + shard.cltv_offsets[hop], height) + TIMEOUT_BLOCKS
    latest = shard.final_expiry + shard.cltv_offsets[hop - 1] if hop else resolved
    return max(min(resolved, latest), height + 1)
