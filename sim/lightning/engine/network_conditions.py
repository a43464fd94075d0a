"""The conditions of the network that no node decides: latencies, block times, nodes that are offline, stuck HTLCs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leyden.lightning.engine.outage_times import OutageTimes
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.topology.graph import Flags
from leyden.lightning.topology.liquidity import LND_SCALE_SAT
from leyden.lightning.topology.scale_free import normal

FIRST_HEIGHT = 800_000
# Bitcoin adjusts the difficulty every 2,016 blocks, so that these take two weeks.
PERIOD_BLOCKS = 2_016
_KEPT_PERIODS = 4

# Latencies and stuck HTLCs are drawn in advance: an index below this picks one. Sixteen indices share a latency, so
# that the table stays in the processor's cache.
TABLE_SIZE = 65_536
_LATENCIES = TABLE_SIZE // 16
INDEX_MASK = TABLE_SIZE - 1
# The index of a message of an attempt is `attempt_seed + hop * HOP_STEP & INDEX_MASK`; on the way back `BACKWARD_HOPS`
# is added to the hop. The step is odd, so that the indices of one attempt do not repeat early.
HOP_STEP, BACKWARD_HOPS = 40_503, 32


def attempt_seed(payment_seed: int, attempt: int) -> int:
    """The first index of an attempt of a payment. Low digits decide least in a product: those above are taken."""
    return (payment_seed * 64 + attempt) * 2_654_435_761 >> 8 & INDEX_MASK


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The parameters of the network's conditions. Times are milliseconds, shares are between 0 and 1.

    The latency of a hop is log-normal, `slow_factor` times longer to a slow node; an HTLC gets stuck at a hop with
    probability `stuck_share`, for an exponentially distributed time; nodes are up and down for exponentially
    distributed times, the shop's node with a share of its own. Each period of `PERIOD_BLOCKS * mean_block_ms` has
    `PERIOD_BLOCKS` blocks, at uniformly distributed times: the time between two is close to exponential.
    `offline_code` is the failure code of a node whose next one is offline. `liquidity` is the shape in which balances
    are drawn, with its scale (empty: uniform, and only for a graph that has none). `shop` and `payers` say where these
    are, as in `leyden.lightning.topology.placement` (empty: where they are by default). `payer` is the implementation
    after which payers work, as in `leyden.lightning.payer_models` (empty: this simulation's own). Background traffic is
    in `leyden.lightning.payer.background_traffic`. `parallel_share` and `fees` are of generated graphs, as in
    `leyden.lightning.topology.generate` (0 and empty: no parallel channels, and the fees of 2021).
    """

    hop_median_ms: float = 120.0
    hop_sigma_log: float = 0.6
    slow_share: float = 0.1
    slow_factor: float = 8.0
    stuck_share: float = 0.001
    mean_stuck_ms: float = 3 * 3_600_000
    up_share: float = 0.98
    shop_up_share: float = 1.0
    mean_down_ms: float = 30 * 60_000
    mean_block_ms: float = 600_000
    offline_code: int = FailureCode.UNKNOWN_NEXT_PEER
    liquidity: str = ""
    liquidity_scale_sat: float = LND_SCALE_SAT
    shop: str = ""
    payers: str = ""
    payer: str = ""
    parallel_share: float = 0.0
    fees: str = ""
    background_per_hour: float = 0.0
    background_amount_sat: float = 50_000.0
    spending_share: float = 0.0
    swap_share: float = 0.0


REALISTIC = NetworkConditions()
IDEAL = NetworkConditions(slow_share=0.0, stuck_share=0.0, up_share=1.0)


class SampledConditions:
    """The conditions drawn for one network: a value depends on the seed and on what is asked, never on earlier calls.
    So forks with the same seed share one of these.

    `secret(name)` gives the 32 bytes of a named random stream; `start_ms` is the first instant. For the `index` of
    a message, `latencies_ms[node][index // 16]` is its latency to a node, and the HTLC gets stuck for `stuck[index]` ms
    if `index in stuck`.
    Blocks and outages are drawn for the period that is asked for: the cost of an answer does not depend on how far its
    instant is from the first.
    """

    def __init__(
        self,
        nodes: int,
        start_ms: int,
        secret: Callable[[str], bytes],
        parameters: NetworkConditions,
        *,
        shop: int | None = None,
        before: SampledConditions | None = None,
    ) -> None:
        self.parameters = parameters
        self._nodes = nodes
        self._secret = secret
        self._since = start_ms
        self._before = before
        table = np.random.default_rng(int.from_bytes(secret("latency"), "big"))
        latencies = parameters.hop_median_ms * np.exp(parameters.hop_sigma_log * normal(_LATENCIES, table))
        # A new seed does not change which nodes are slow.
        self._slow: Flags = table.random(nodes) < parameters.slow_share if before is None else before._slow
        fast_ms, slow_ms = (
            np.maximum((latencies * factor).astype(np.int64), 1).tolist() for factor in (1.0, parameters.slow_factor)
        )
        self.latencies_ms: list[list[int]] = [slow_ms if slow else fast_ms for slow in self._slow.tolist()]
        stuck = np.flatnonzero(table.random(TABLE_SIZE) < parameters.stuck_share)
        lasting_ms = 1 + (-np.log1p(-table.random(len(stuck))) * parameters.mean_stuck_ms).astype(np.int64)
        self.stuck: dict[int, int] = dict(zip(stuck.tolist(), lasting_ms.tolist(), strict=True))
        self._period_ms = max(1, int(PERIOD_BLOCKS * parameters.mean_block_ms))
        self._first_height = FIRST_HEIGHT if before is None else before.height(start_ms)
        self._blocks: dict[int, list[int]] = {}  # the times of the blocks of the periods that were drawn last
        self._shop = shop
        shares, mean_down_ms = (parameters.up_share, parameters.shop_up_share), parameters.mean_down_ms
        former: list[OutageTimes | None] = [None, None] if before is None else [*before._outages]
        # Of all nodes but the shop's, and of that.
        self._outages: list[OutageTimes] = [
            OutageTimes(start_ms, secret, up_share, mean_down_ms, earlier)
            for up_share, earlier in zip(shares, former, strict=True)
        ]
        self.always_up = all(each.always_up for each in self._outages[: 1 if shop is None else 2])
        # The last answer of `is_up` for each node: from when until when it holds, and the answer.
        self._answers: list[tuple[int, int, bool]] = [(0, 0, True)] * nodes

    def reseeded(self, now_ms: int, secret: Callable[[str], bytes]) -> SampledConditions:
        """The same past until now, and another seed from then on. An outage in progress ends when it would have."""
        return SampledConditions(self._nodes, now_ms, secret, self.parameters, shop=self._shop, before=self)

    # Outages

    def is_up(self, node: int, at_ms: int) -> bool:
        """Whether a node is reachable at an instant."""
        if self.always_up:
            return True
        since, until, up = self._answers[node]
        if not since <= at_ms < until:
            since, until, up = self._answers[node] = self._outages_of(node).answer(node, at_ms)
        return up

    def same_until(self, node: int, at_ms: int) -> int:
        """The end of an interval that begins at an instant and in which the answer of `is_up` does not change."""
        return self._outages_of(node).answer(node, at_ms)[1]

    def outages(self, node: int, since_ms: int, until_ms: int) -> list[tuple[int, int | None]]:
        """When a node goes offline and comes back, in the time from `since_ms` to `until_ms`, in order. An outage that
        has begun before begins at `since_ms`; one that has not ended by `until_ms` has None."""
        return self._outages_of(node).between(node, since_ms, until_ms)

    def _outages_of(self, node: int) -> OutageTimes:
        return self._outages[node == self._shop]

    # Blocks

    def height(self, at_ms: int) -> int:
        """The height of the latest block at an instant."""
        drawn = self
        while at_ms < drawn._since and drawn._before is not None:
            drawn = drawn._before
        number = max(0, at_ms - drawn._since) // drawn._period_ms
        return drawn._first_height + number * PERIOD_BLOCKS + bisect_right(drawn._blocks_of(number), at_ms)

    def block_time(self, height: int) -> int:
        """The time of the block at this height."""
        drawn = self
        while height <= drawn._first_height and drawn._before is not None:
            drawn = drawn._before
        number, place = divmod(height - drawn._first_height - 1, PERIOD_BLOCKS)
        return drawn._blocks_of(number)[place] if number >= 0 else drawn._since

    def _blocks_of(self, number: int) -> list[int]:
        """The times of the blocks of a period, in order: after its start, and at most at its end."""
        times = self._blocks.get(number)
        if times is None:
            if len(self._blocks) >= _KEPT_PERIODS:
                self._blocks.pop(next(iter(self._blocks)), None)
            times = self._blocks[number] = self._draw_blocks(number)
        return times

    def _draw_blocks(self, number: int) -> list[int]:
        rng = np.random.default_rng(int.from_bytes(self._secret(f"blocks {number}"), "big"))
        start_ms = self._since + number * self._period_ms + 1
        offsets = (rng.random(PERIOD_BLOCKS) * self._period_ms).astype(np.int64)
        times: list[int] = (start_ms + np.sort(offsets)).tolist()
        return times
