"""The network in your hand: who has how much where, and what you may move."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sim.lightning.engine import Engine

Turn = Callable[[], AbstractContextManager[None]]


class Network:
    """A world's network: `network["shop"]` is the shop's node, `network[name]` the one of that name or of a wallet."""

    def __init__(self, engine: Engine, shop: int, home_of: Callable[[str], int], turn: Turn) -> None:
        self.engine = engine
        self.graph = engine.graph
        self._shop = shop
        self._home_of = home_of
        self._turn = turn

    def __getitem__(self, name: str) -> NetworkNode:
        return NetworkNode(self.engine, self._shop if name == "shop" else self._home_of(name), self._turn)

    def __len__(self) -> int:
        return len(self.graph.names)

    def __repr__(self) -> str:
        flying = sum(self.engine.in_flight)
        total = sum(self.engine.capacity)
        return (
            f"Network of {len(self)} nodes and {self.graph.channels} channels, {total // 1_000} sat, "
            f"{flying} msat in flight\n  shop: {self['shop']!r}"
        )


class NetworkNode:
    """One node with its channels, as they stand now. Amounts are msat."""

    def __init__(self, engine: Engine, number: int, turn: Turn) -> None:
        self._engine = engine
        self._turn = turn
        self.number = number
        self.name = engine.graph.names[number]

    @property
    def outbound_msat(self) -> int:
        """What the node itself holds in its channels."""
        return sum(self._engine.balance[edge] for edge in self._edges)

    @property
    def inbound_msat(self) -> int:
        """What its peers hold in them: the most that could be received."""
        return sum(self._engine.balance[edge ^ 1] for edge in self._edges)

    @property
    def channels(self) -> list[dict[str, Any]]:
        """Every channel: the peer, the capacity, and the balance of either side."""
        engine = self._engine
        return [
            {
                "channel": edge >> 1,
                "peer": engine.graph.names[engine.terms.target[edge]],
                "capacity_msat": engine.capacity[edge >> 1],
                "local_msat": engine.balance[edge],
                "remote_msat": engine.balance[edge ^ 1],
                "in_flight_msat": engine.in_flight[edge >> 1],
            }
            for edge in self._edges
        ]

    def drain(self, *, inbound: float = 0.0, outbound: float = 0.0) -> NetworkNode:
        """Use up shares (0 to 1) of what could be received, or sent, in each channel. Raises `ValueError`.

        Nothing is lost: it lies on the other side of the same channels then, as after many payments.
        """
        for share in (inbound, outbound):
            if not 0 <= share <= 1:
                raise ValueError(f"{share} is not a share: drain(inbound=0.98) uses up 98 % of it")
        with self._turn():
            for edge in self._edges:
                for side, share in ((edge ^ 1, inbound), (edge, outbound)):
                    self._engine.shift(side, int(self._engine.balance[side] * share))
        return self

    @property
    def _edges(self) -> list[int]:
        return self._engine.router.out_edges(self.number)

    def __repr__(self) -> str:
        return (
            f"{self.name} with {len(self._edges)} channels, outbound {self.outbound_msat // 1_000} sat, "
            f"inbound {self.inbound_msat // 1_000} sat"
        )
