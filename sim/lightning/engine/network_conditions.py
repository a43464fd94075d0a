"""What no node decides: how fast messages travel, when blocks come, who is away, and which HTLC gets stuck."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leyden.lightning.topology.graph import Flags
from leyden.world.rng import RandomStream

FIRST_HEIGHT = 800_000

# An HTLC's luck is a number below this; which of them stick is drawn in advance, and a latency for every sixteen: few
# enough that they stay close to the processor.
TABLE_SIZE = 65_536
_LATENCIES = TABLE_SIZE // 16


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """How well the network works. Times are milliseconds, shares are of 1.

    A hop takes a log-normal time; nodes are up and down in turns, exponentially long.
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
    """The weather of one world: each value depends on the seed and on what is asked about, never on who asked before,
    so forks of equal luck share one of these.

    `secret(name)` gives the 32 bytes that a named part of chance begins with; `start_ms` is the first instant.
    `spans_ms[node][draw // 16]` is how long a message to a node takes, and a hop never answers when `draw in stuck`; a
    draw is 0 to `TABLE` - 1.
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
        drawn = np.sqrt(-2.0 * np.log(1.0 - table.random(_LATENCIES))) * np.cos(2.0 * np.pi * table.random(_LATENCIES))
        spans = parameters.hop_median_ms * np.exp(parameters.hop_sigma_log * drawn)
        # Who is slow is no luck of the day.
        self._slow: Flags = table.random(nodes) < parameters.slow_share if before is None else before._slow
        fast_ms, slow_ms = (
            np.maximum((spans * factor).astype(np.int64), 1).tolist() for factor in (1.0, parameters.slow_factor)
        )
        self.latencies_ms: list[list[int]] = [slow_ms if slow else fast_ms for slow in self._slow.tolist()]
        self.stuck: frozenset[int] = frozenset(
            np.flatnonzero(table.random(TABLE_SIZE) < parameters.stuck_share).tolist()
        )
        self._blocks: list[int] = [start_ms]
        self._mining = RandomStream("blocks", secret("blocks"))
        self._transitions: dict[int, tuple[RandomStream, list[int]]] = {}
        self._up: list[bool] = [True] * nodes
        self._from: list[int] = [0] * nodes
        self._until: list[int] = [0] * nodes

    def reseeded(self, now_ms: int, secret: Callable[[str], bytes]) -> SampledConditions:
        """The same past until now, and other luck from here on."""
        twin = SampledConditions(self._nodes, now_ms, secret, self.parameters, before=self)
        self.height(now_ms)
        twin._blocks = self._blocks[: bisect_right(self._blocks, now_ms)]
        return twin

    def current(self) -> tuple[bool, list[bool], list[int], list[int]]:
        """What `up` found last, for a loop that cannot afford the call: whether all nodes always are up, and for each
        whether it was, from when and until when that is so."""
        return self.always_up, self._up, self._from, self._until

    def is_up(self, node: int, at_ms: int) -> bool:
        """Whether a node is reachable at an instant."""
        if self._from[node] <= at_ms < self._until[node] or self.always_up:
            return self._up[node]
        turns = self._transitions_of(node, at_ms)
        place = bisect_right(turns, at_ms)
        self._from[node], self._until[node] = turns[place - 1] if place else at_ms, turns[place]
        self._up[node] = place % 2 == 0
        return self._up[node]

    def _transitions_of(self, node: int, at_ms: int) -> list[int]:
        """The instants at which a node goes and comes, beyond `at_ms`. The first turn is an up one, and begins before
        the world does: who is away at the start came from somewhere."""
        weather = self.parameters
        found = self._transitions.get(node)
        if found is None:
            past: list[int] = []
            if self._before is not None:
                past = [turn for turn in self._before._transitions_of(node, self._since) if turn <= self._since]
            found = self._transitions[node] = (RandomStream("offline", self._secret(f"offline {node}")), past)
        stream, turns = found
        while not turns or turns[-1] <= at_ms:
            mean_up = weather.mean_down_ms * weather.up_share / (1.0 - weather.up_share)
            before = turns[-1] if turns else self._since - 20 * int(weather.mean_down_ms)
            if self._before is not None:
                before = max(before, self._since)  # the time until the next turn has no memory
            mean = mean_up if len(turns) % 2 == 0 else weather.mean_down_ms
            turns.append(before + 1 + int(stream.exponential(mean)))
        return turns

    def height(self, at_ms: int) -> int:
        """The number of the latest block at an instant."""
        while self._blocks[-1] <= at_ms:
            self._mine()
        return FIRST_HEIGHT + bisect_right(self._blocks, at_ms) - 1

    def block_time(self, height: int) -> int:
        """When this block comes, or came."""
        while len(self._blocks) <= height - FIRST_HEIGHT:
            self._mine()
        return self._blocks[max(0, height - FIRST_HEIGHT)]

    def _mine(self) -> None:
        before = max(self._blocks[-1], self._since)
        self._blocks.append(before + 1 + int(self._mining.exponential(self.parameters.mean_block_ms)))
