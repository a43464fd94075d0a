"""What no node decides: how fast messages travel, when blocks come, who is away, and which HTLC gets stuck."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.streams import Stream

FIRST_HEIGHT = 800_000


@dataclass(frozen=True, slots=True)
class Weather:
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


CALM = Weather(slow_share=0.0, stuck_share=0.0, up_share=1.0)


class Conditions:
    """The weather of one world: each value depends on the seed and on what is asked about, never on who asked before.

    `secret(name)` gives the 32 bytes that a named part of chance begins with; `start_ms` is the first instant.
    """

    def __init__(self, nodes: int, start_ms: int, secret: Callable[[str], bytes], weather: Weather) -> None:
        self.weather = weather
        self._start = start_ms
        self._secret = secret
        table = np.random.default_rng(int.from_bytes(secret("latency"), "big"))
        drawn = np.sqrt(-2.0 * np.log(1.0 - table.random(_TABLE))) * np.cos(2.0 * np.pi * table.random(_TABLE))
        spans = weather.hop_median_ms * np.exp(weather.hop_sigma_log * drawn)
        self._spans: list[float] = spans.tolist()
        slow = table.random(nodes) < weather.slow_share
        self._factor: list[float] = np.where(slow, weather.slow_factor, 1.0).tolist()
        self._sticks: list[bool] = (table.random(_TABLE) < weather.stuck_share).tolist()
        self._blocks: list[int] = [start_ms]
        self._mining = Stream("blocks", secret("blocks"))
        self._turns: dict[int, tuple[Stream, list[int]]] = {}

    def latency_ms(self, node: int, draw: int) -> int:
        """How long a message to `node` takes; `draw` numbers the messages of a run."""
        return int(self._spans[draw * 40_503 & _TABLE - 1] * self._factor[node]) or 1

    def sticks(self, draw: int) -> bool:
        """Whether a hop never answers this one."""
        return self._sticks[draw * 48_271 & _TABLE - 1]

    def up(self, node: int, at_ms: int) -> bool:
        """Whether a node is reachable at an instant."""
        weather = self.weather
        if weather.up_share >= 1.0:
            return True
        found = self._turns.get(node)
        if found is None:
            found = self._turns[node] = (Stream("offline", self._secret(f"offline {node}")), [])
        stream, turns = found
        # The first turn is an up one, and begins before the world does: who is away at the start came from somewhere.
        while not turns or turns[-1] <= at_ms:
            mean_up = weather.mean_down_ms * weather.up_share / (1.0 - weather.up_share)
            before = turns[-1] if turns else self._start - 20 * int(weather.mean_down_ms)
            mean = mean_up if len(turns) % 2 == 0 else weather.mean_down_ms
            turns.append(before + 1 + int(stream.exponential(mean)))
        return bisect_right(turns, at_ms) % 2 == 0

    def height(self, at_ms: int) -> int:
        """The number of the latest block at an instant."""
        while self._blocks[-1] <= at_ms:
            self._mine()
        return FIRST_HEIGHT + bisect_right(self._blocks, at_ms) - 1

    def instant_of(self, height: int) -> int:
        """When this block comes, or came."""
        while len(self._blocks) <= height - FIRST_HEIGHT:
            self._mine()
        return self._blocks[max(0, height - FIRST_HEIGHT)]

    def _mine(self) -> None:
        self._blocks.append(self._blocks[-1] + 1 + int(self._mining.exponential(self.weather.mean_block_ms)))


_TABLE = 65_536
