"""The conditions of the network that no node decides: latencies, block times, nodes that are offline, stuck HTLCs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leyden.lightning.topology.generate import normal
from leyden.lightning.topology.graph import Flags
from leyden.rng import RandomStream

FIRST_HEIGHT = 800_000

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
    probability `stuck_share`; nodes are up and down for exponentially distributed times; so is the time between blocks.
    """

    hop_median_ms: float = 120.0
    hop_sigma_log: float = 0.6
    slow_share: float = 0.1
    slow_factor: float = 8.0
    stuck_share: float = 0.001
    up_share: float = 0.98
    mean_down_ms: float = 30 * 60_000
    mean_block_ms: float = 600_000


IDEAL = NetworkConditions(slow_share=0.0, stuck_share=0.0, up_share=1.0)


class SampledConditions:
    """The conditions drawn for one network: a value depends on the seed and on what is asked, never on earlier calls.
    So forks with the same seed share one of these.

    `secret(name)` gives the 32 bytes of a named random stream; `start_ms` is the first instant. For the `index` of
    a message, `latencies_ms[node][index // 16]` is its latency to a node, and the HTLC gets stuck if `index in stuck`.
    """

    def __init__(
        self,
        nodes: int,
        start_ms: int,
        secret: Callable[[str], bytes],
        parameters: NetworkConditions,
        *,
        before: SampledConditions | None = None,
    ) -> None:
        self.parameters = parameters
        self.always_up = parameters.up_share >= 1.0
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
        self.stuck: frozenset[int] = frozenset(
            np.flatnonzero(table.random(TABLE_SIZE) < parameters.stuck_share).tolist()
        )
        self._blocks: list[int] = [start_ms]
        self._mining = RandomStream("blocks", secret("blocks"))
        self._transitions: dict[int, tuple[RandomStream, list[int]]] = {}
        # The last answer of `is_up` for each node, and from when until when it holds.
        self._up: list[bool] = [True] * nodes
        self._from: list[int] = [0] * nodes
        self._until: list[int] = [0] * nodes

    def reseeded(self, now_ms: int, secret: Callable[[str], bytes]) -> SampledConditions:
        """The same past until now, and another seed from then on."""
        other = SampledConditions(self._nodes, now_ms, secret, self.parameters, before=self)
        self.height(now_ms)
        other._blocks = self._blocks[: bisect_right(self._blocks, now_ms)]
        return other

    def is_up(self, node: int, at_ms: int) -> bool:
        """Whether a node is reachable at an instant."""
        if self._from[node] <= at_ms < self._until[node] or self.always_up:
            return self._up[node]
        times = self._transitions_of(node, at_ms)
        passed = bisect_right(times, at_ms)
        self._from[node], self._until[node] = times[passed - 1] if passed else at_ms, times[passed]
        self._up[node] = passed % 2 == 0
        return self._up[node]

    def _transitions_of(self, node: int, at_ms: int) -> list[int]:
        """The times at which a node goes offline and comes back, to beyond `at_ms`. It starts up, at a time before the
        first instant, so that some nodes are offline at the first instant."""
        parameters = self.parameters
        found = self._transitions.get(node)
        if found is None:
            past: list[int] = []
            if self._before is not None:
                past = [time for time in self._before._transitions_of(node, self._since) if time <= self._since]
            found = self._transitions[node] = (RandomStream("offline", self._secret(f"offline {node}")), past)
        stream, times = found
        while not times or times[-1] <= at_ms:
            mean_up = parameters.mean_down_ms * parameters.up_share / (1.0 - parameters.up_share)
            before = times[-1] if times else self._since - 20 * int(parameters.mean_down_ms)
            if self._before is not None:
                before = max(before, self._since)  # an exponential time to the next transition has no memory
            mean = mean_up if len(times) % 2 == 0 else parameters.mean_down_ms
            times.append(before + 1 + int(stream.exponential(mean)))
        return times

    def height(self, at_ms: int) -> int:
        """The height of the latest block at an instant."""
        while self._blocks[-1] <= at_ms:
            self._mine()
        return FIRST_HEIGHT + bisect_right(self._blocks, at_ms) - 1

    def block_time(self, height: int) -> int:
        """The time of the block at this height."""
        while len(self._blocks) <= height - FIRST_HEIGHT:
            self._mine()
        return self._blocks[max(0, height - FIRST_HEIGHT)]

    def _mine(self) -> None:
        before = max(self._blocks[-1], self._since)
        self._blocks.append(before + 1 + int(self._mining.exponential(self.parameters.mean_block_ms)))
