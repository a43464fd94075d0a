"""The conditions of the network that no node decides: latencies, block times, nodes that are offline, stuck HTLCs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leyden.lightning.topology.generate import normal
from leyden.lightning.topology.graph import Flags
from leyden.rng import RandomStream

FIRST_HEIGHT = 800_000
# Bitcoin adjusts the difficulty every 2,016 blocks, so that these take two weeks.
PERIOD_BLOCKS = 2_016
_KEPT_PERIODS = 4

# Outages are drawn by windows with four of them on average: no outage in this many windows has a probability of e**-80.
_LOOK_BACK = 20
_DRAWS_PER_WINDOW = 1_024  # eight are needed on average
_FOREVER = 2**63

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
    probability `stuck_share`; nodes are up and down for exponentially distributed times. Each period of
    `PERIOD_BLOCKS * mean_block_ms` has `PERIOD_BLOCKS` blocks, at uniformly distributed times: the time between two
    is close to exponential.
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
        self._period_ms = max(1, int(PERIOD_BLOCKS * parameters.mean_block_ms))
        self._first_height = FIRST_HEIGHT if before is None else before.height(start_ms)
        self._blocks_of = lru_cache(_KEPT_PERIODS)(self._draw_blocks)
        down_share = 1.0 - parameters.up_share
        self._mean_up_ms = parameters.mean_down_ms * parameters.up_share / down_share if down_share > 0.0 else 0.0
        self._window_ms = max(1, int(4 * self._mean_up_ms))
        # The last answer of `is_up` for each node: from when until when it holds, and the answer.
        self._answers: list[tuple[int, int, bool]] = [(0, 0, True)] * nodes

    def reseeded(self, now_ms: int, secret: Callable[[str], bytes]) -> SampledConditions:
        """The same past until now, and another seed from then on. An outage in progress ends when it would have."""
        return SampledConditions(self._nodes, now_ms, secret, self.parameters, before=self)

    # Outages

    def is_up(self, node: int, at_ms: int) -> bool:
        """Whether a node is reachable at an instant."""
        if self.always_up:
            return True
        since, until, up = self._answers[node]
        if not since <= at_ms < until:
            since, until, up = self._answers[node] = self._answer(node, at_ms)
        return up

    def _answer(self, node: int, at_ms: int) -> tuple[int, int, bool]:
        """Whether a node is up at an instant, with an interval around it in which that does not change."""
        drawn, until = self, _FOREVER
        while at_ms < drawn._since and drawn._before is not None:
            until, drawn = drawn._since, drawn._before
        number = drawn._window(at_ms)
        later = (start for start, _ in drawn._outages(node, number) if start > at_ms)
        until = min(until, drawn._window_start(number + 1), *later)
        # The last outage decides: one that starts during another replaces its end. An exponential time has no memory,
        # so that the times down stay exponential.
        last, latest = drawn._last_outage(node, at_ms), at_ms
        while last is None and drawn._before is not None:
            latest, drawn = drawn._since - 1, drawn._before
            last = drawn._last_outage(node, latest)
        if last is None:
            return at_ms, until, True
        start, end = last
        return (end, until, True) if end <= at_ms else (start, min(until, end), False)

    def _last_outage(self, node: int, at_ms: int) -> tuple[int, int] | None:
        """The start and the end of the latest outage that started by an instant; None without one."""
        number = self._window(at_ms)
        # Some nodes are offline at the first instant, because windows before it have outages, too.
        earliest = 0 if self._before is None else _LOOK_BACK
        for window in range(number, max(number - _LOOK_BACK, earliest - 1), -1):
            started = [outage for outage in self._outages(node, window) if outage[0] <= at_ms]
            if started:
                return started[-1]
        return None

    def _outages(self, node: int, number: int) -> list[tuple[int, int]]:
        """The outages of a node that start in a window, in order."""
        positions = {"offline": number * _DRAWS_PER_WINDOW}
        stream = RandomStream("offline", self._secret(f"offline {node}"), positions)
        at_ms, until = self._window_start(number), self._window_start(number + 1)
        found: list[tuple[int, int]] = []
        while (at_ms := at_ms + 1 + int(stream.exponential(self._mean_up_ms))) < until:
            found.append((at_ms, at_ms + 1 + int(stream.exponential(self.parameters.mean_down_ms))))
        return found

    def _window(self, at_ms: int) -> int:
        """The number of the window with an instant; number `_LOOK_BACK` starts at the first instant."""
        return max(0, (at_ms - self._since) // self._window_ms + _LOOK_BACK)

    def _window_start(self, number: int) -> int:
        return self._since + (number - _LOOK_BACK) * self._window_ms

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

    def _draw_blocks(self, number: int) -> list[int]:
        """The times of the blocks of a period, in order: after its start, and at most at its end."""
        rng = np.random.default_rng(int.from_bytes(self._secret(f"blocks {number}"), "big"))
        start_ms = self._since + number * self._period_ms + 1
        offsets = (rng.random(PERIOD_BLOCKS) * self._period_ms).astype(np.int64)
        times: list[int] = (start_ms + np.sort(offsets)).tolist()
        return times
