"""The base of the payers that work as an implementation does: what they know, in a form that commits and snapshots
carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.payer_models.searches import RouteSearch, Searches
from leyden.lightning.routing.mission_control import FailureInterpretation
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS, Route
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS
from leyden.server.errors import StoreError

Fact = tuple[int, ...]

# Channels times the cost of a search in each: a search takes about 5 ms at this size.
_LONG_SEARCH = 6_000


class Session(Protocol):
    """What a model reads of a `PaymentSession`, and the limits that it sets."""

    id: Any
    payer: int
    target: int
    amount_msat: int
    fees_msat: int
    final_cltv_blocks: int
    parts_in_flight: int
    fee_limit_msat: int
    max_parts: int
    min_shard_msat: int
    policy_retries: frozenset[int]


class FailedShard(Protocol):
    """What a model reads of a shard that failed."""

    edges: list[int]
    amounts: list[int]
    code: int
    reporter_hop: int


class PayerModel(ABC):
    """The knowledge of all payers of one network, and the choice of their routes.

    A fact is a tuple of whole numbers with a key, which the implementation gives a meaning; facts are replaced, never
    changed. `fact_length` is their length, or divides it. `halves`: a session without a route tries half the amount.
    `most_blocks` and `most_hops` are the limits of a route, with the last HTLC's time lock. `search_cost` is what a
    search costs beside one of this simulation's own payers, about.
    """

    fact_length: ClassVar[int]
    halves: ClassVar[bool] = False
    most_blocks: ClassVar[int] = MAX_CLTV_BLOCKS
    most_hops: ClassVar[int] = MAX_HOPS
    search_cost: ClassVar[int] = 8

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._facts: dict[int, dict[int, Fact]] = {}
        self.changed_payers: set[int] = set()  # payers whose facts changed in this commit
        self.searches = Searches()

    # What an implementation has

    def begin(self, session: Session) -> None:  # noqa: B027 (not every implementation has limits)
        """Set the limits of a new session."""

    @abstractmethod
    def search(self, session: Session, amount_msat: int) -> RouteSearch:
        """A search for routes that deliver this amount together, with what the payer knows now."""

    @abstractmethod
    def succeeded(self, session: Session, shard: Shard) -> None:
        """Learn from a shard that was settled."""

    @abstractmethod
    def failed(self, session: Session, shard: Shard) -> FailureInterpretation:
        """Learn from a shard that failed."""

    def routes(self, session: Session, amount_msat: int) -> list[Route]:
        """Routes that deliver this amount together; none if there are none. Raises `SearchNeeded` while searches are
        deferred."""
        engine = self.engine
        state = (engine.commits, engine.now, session.id)
        takes_long = engine.graph.channels * self.search_cost > _LONG_SEARCH
        return self.searches.routes(state, takes_long, lambda: self.search(session, amount_msat))

    def last_key(self) -> int:
        """The number of possible keys of a fact: keys are below it."""
        return 2 * self.engine.graph.channels

    # The payer's own channels

    def local_msat(self, session: Session, edge: int) -> int:
        """What the payer can send over its own channel now: nothing while the peer is offline.

        LND: `routing/bandwidth.go`, `getBandwidth`, takes a link that is missing or not eligible to forward as one
        without bandwidth. LDK: `channelmanager.rs` gives `list_usable_channels` to the router. Core Lightning:
        `xpay.c` asks askrene with the layer `auto.localchans`, which has the channels of connected peers.
        """
        engine = self.engine
        if not engine.conditions.is_up(engine.policies.target[edge], engine.now):
            return 0
        if engine.outage is not None and engine.has_outages() and engine.outage(session.id, edge) is not None:
            return 0
        return max(0, engine.spendable_msat(edge))

    def can_pay(self, session: Session, amount_msat: int) -> bool:
        """Whether the payer's channels can send an amount together."""
        edges = self.engine.out_edges(session.payer)
        return sum(self.local_msat(session, edge) for edge in edges) >= amount_msat

    def in_flight_msat(self, payer: int) -> dict[int, int]:
        """What a payer's own shards lock on each edge, as far as it knows: until their results are back."""
        found: dict[int, int] = {}
        for shard in self.engine.shards.values():
            if shard.owner.payer == payer:
                for edge, amount in zip(shard.edges, shard.amounts, strict=True):
                    found[edge] = found.get(edge, 0) + amount
        return found

    # Facts

    def facts(self, payer: int) -> dict[int, Fact]:
        """What a payer knows; read only."""
        return self._facts.get(payer, {})

    def set_fact(self, payer: int, key: int, fact: Fact) -> None:
        """Replace a fact, in the present commit."""
        facts = self._facts.setdefault(payer, {})
        self.engine.record_item(facts, key)
        if self.engine.recording:
            self.changed_payers.add(payer)
        facts[key] = fact

    def delete_fact(self, payer: int, key: int) -> None:
        """Forget a fact, in the present commit."""
        facts = self._facts.get(payer, {})
        self.engine.record_item(facts, key)
        if self.engine.recording:
            self.changed_payers.add(payer)
        del facts[key]

    @contextmanager
    def trial(self, payer: int, *, forgetting: bool = False) -> Iterator[None]:
        """What a payer learns within is forgotten after it; with `forgetting` it starts without knowledge."""
        before, recording = self._facts.get(payer), self.engine.recording
        self._facts[payer] = {} if forgetting or before is None else before.copy()
        self.engine.recording = False  # nothing of it is part of a commit
        try:
            yield
        finally:
            self.engine.recording = recording
            if before is None:
                del self._facts[payer]
            else:
                self._facts[payer] = before

    def dump(self, payers: Iterable[int] | None = None) -> list[list[Any]]:
        """All facts, or those of these payers, as JSON values: as `MissionControl.dump` does, with 0 as the time.

        The facts of a payer keep their order: an implementation may add up chances in it.
        """
        return [
            [payer, 0, [[key, *fact] for key, fact in self._facts[payer].items()]]
            for payer in sorted(self._facts if payers is None else payers)
            if self._facts.get(payer)
        ]

    def load(self, saved: list[list[Any]]) -> None:
        """Take what `dump` returned. Raises `StoreError` for facts that are none of this implementation's."""
        nodes, keys = range(len(self.engine.graph.names)), range(self.last_key())
        for payer, _, rows in saved:
            if payer not in nodes or any(row[0] not in keys for row in rows):
                raise StoreError("network/mission_control has a node or a key that does not exist")
            if any(len(row) == 1 or (len(row) - 1) % self.fact_length for row in rows):
                raise StoreError(f"network/mission_control has a row without {self.fact_length} numbers for its key")
            self._facts[payer] = {key: tuple(fact) for key, *fact in rows}
