"""The channels of a network: balances, opening and closing, the time and the blocks, and how a commit is undone."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from leyden.lightning.engine.event_queue import EventQueue
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.engine.network_conditions import NetworkConditions, SampledConditions
from leyden.lightning.engine.on_chain import ForceClose
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.routing.pathfinding import EdgePolicies, Router
from leyden.lightning.topology.graph import Graph
from leyden.lightning.undo_log import UndoLog
from leyden.server.errors import LeydenError


class ConservationError(LeydenError):
    """The balances of a channel and its HTLCs no longer add up to its capacity: a defect of the simulation."""


class Channels(UndoLog):
    """The channels of one network. Times are milliseconds, amounts msat.

    Per edge: `balance` (of its source), `initial_balance`, `slots` (HTLCs in flight); per channel: `capacity`,
    `reserve`, `in_flight`. `queue` has the events that are scheduled. `on_first_change` is called before the first
    change in a commit, `on_force_close` with the edge whose source closed the channel, and the reason.
    """

    # All that a commit may change by assignment; items of lists and dictionaries are recorded one by one.
    recorded_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        graph: Graph,
        start_ms: int,
        secret: Callable[[str], bytes],
        conditions: NetworkConditions,
        shop: int | None,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.policies = EdgePolicies(graph)
        self.router = Router(graph, self.policies)
        self.conditions = SampledConditions(len(graph.names), start_ms, secret, conditions, shop=shop)
        self.now = start_ms
        self.queue = EventQueue()
        self.on_first_change: Callable[[], None] | None = None
        self.on_force_close: Callable[[int, str], None] = lambda edge, reason: None
        # The garbage collector visits each item of a list, but not those of an array, nor of a tuple of numbers.
        self.balance: array[int] = array("q", graph.local_msat.tolist())
        self.initial_balance: tuple[int, ...] = tuple(self.balance)
        self.capacity: tuple[int, ...] = tuple(graph.capacity_msat.tolist())
        self.reserve: tuple[int, ...] = tuple(graph.reserve_msat.tolist())
        self.in_flight: list[int] = [0] * graph.channels
        self.slots: list[int] = [0] * (2 * graph.channels)
        self.closed: frozenset[int] = frozenset()
        self.force_closed: dict[int, ForceClose] = {}  # by channel; of `closed`
        self.initial_channels = graph.channels
        self.reseeds: tuple[tuple[int, int], ...] = ()
        self.height = self.next_block = 0

    def discard(self) -> None:
        """The network has ended, and nothing may be done with it: free its memory now. What refers to it may refer to
        itself, and the garbage collector, which counts objects and not bytes, would come late to that."""
        while self.__dict__:
            self.__dict__.popitem()

    # Time

    def block_height(self) -> int:
        """The present block height."""
        if self.now >= self.next_block:
            self.height = self.conditions.height(self.now)
            self.next_block = self.conditions.block_time(self.height + 1)
        return self.height

    def reseed(self, seed: int, secret: Callable[[str], bytes]) -> None:
        """Use another seed from now on for latencies, blocks, outages and stuck HTLCs; the past does not change."""
        self.reseeds = (*self.reseeds, (self.now, seed))
        seeds = [number for _, number in self.reseeds]
        self.conditions = self.conditions.reseeded(self.now, lambda name: secret(f"{name} after {seeds}"))
        self.next_block = 0

    # Channels

    def spendable_msat(self, edge: int) -> int:
        """What the source of an edge can send over it now."""
        if self.policies.disabled[edge] or self.slots[edge] >= MAX_ACCEPTED_HTLCS:
            return 0
        return self.balance[edge] - self.reserve[edge >> 1]

    def liquidity_failure(self, edge: int, amount: int, channel: str) -> tuple[int, str] | None:
        """The failure code and the reason if an edge cannot carry an amount now, `channel` being its name; None if it
        can."""
        most, held, kept = self.policies.htlc_max_msat[edge], self.balance[edge], self.reserve[edge >> 1]
        if amount > most:
            why = f"carries at most {most} msat"
        elif amount > held - kept:
            reserved = ""
            if held < kept:
                reserved = f", less than its reserve of {kept},"
            elif amount <= held:
                reserved = f", {kept} of them its reserve,"
            why = f"had {held} msat{reserved} for {amount}"
        elif self.slots[edge] >= MAX_ACCEPTED_HTLCS:
            why = f"had {MAX_ACCEPTED_HTLCS} HTLCs in flight"
        else:
            return None
        return FailureCode.TEMPORARY_CHANNEL_FAILURE, f"{channel} {why}"

    def other_edge(self, edge: int, amount: int) -> int | None:
        """The edge of another channel between the same nodes that can carry an amount now, if there is one.

        BOLT 4, "Non-strict Forwarding": a node may forward over any channel to the peer. Here it does if the one that
        the payer named cannot carry the amount, has too little on the node's side or no slot left. The policy of the
        named channel decides on the fee and the time lock; the other one must be open, enabled and within its own
        limits. Of several it is the one that has least to send, as in LDK, and of these the one with the lowest number.
        A named channel that is closed or disabled fails, and so does the payer's own. An interceptor of a channel acts
        on what was named for it.
        """
        policies = self.policies
        found = [
            (rest, other)
            for other in self.parallel_edges(edge)
            if (rest := self.spendable_msat(other)) >= amount
            and policies.htlc_min_msat[other] <= amount <= policies.htlc_max_msat[other]
        ]
        return min(found)[1] if found else None

    def parallel_edges(self, edge: int) -> list[int]:
        """The other edges from the same node to the same, those of closed channels included."""
        source, target = self.policies.source[edge], self.policies.target[edge]
        forwards, backwards = self.out_edges(source), self.out_edges(target)
        if len(forwards) <= len(backwards):
            return [one for one in forwards if one != edge and self.policies.target[one] == target]
        return [one ^ 1 for one in backwards if one != edge ^ 1 and self.policies.target[one] == source]

    def out_edges(self, node: int) -> list[int]:
        """The edges that start at a node, those of closed channels included; read only."""
        return self.router.out_edges(node)

    def open_edges(self, node: int) -> list[int]:
        """The edges of open channels that start at a node."""
        return [edge for edge in self.out_edges(node) if edge >> 1 not in self.closed]

    def move_balance(self, edge: int, amount_msat: int) -> int:
        """Move at most this amount from the source of an edge to its target; returns what was moved."""
        self.before_change()
        if self.recording:
            self.record_channel(edge)
        amount_msat = min(amount_msat, self.balance[edge])
        self.balance[edge] -= amount_msat
        self.balance[edge ^ 1] += amount_msat
        return amount_msat

    def replace_graph(self, graph: Graph) -> None:
        """Use another graph, with channels that were closed or opened after the others; `rollback` restores the former
        one."""
        self.before_change()
        self.graph = graph
        self.policies = EdgePolicies(graph, self.policies)
        self.router = Router(graph, self.policies, self.router)

    def close(self, channels: Iterable[int]) -> None:
        """Close channels: they take no new HTLC (BOLT 2, "shutdown"), and those in flight are resolved first."""
        closed = self.closed.union(channels)
        disabled = self.graph.disabled.copy()
        for channel in closed - self.closed:
            disabled[2 * channel : 2 * channel + 2] = True
        self.replace_graph(replace(self.graph, disabled=disabled))
        self.closed = closed

    def force_close(self, edge: int, reason: str) -> None:
        """The source of an edge closes its channel on the chain, where the HTLCs in flight are resolved."""
        if edge >> 1 not in self.closed:
            self.close([edge >> 1])
        self.force_closed = {**self.force_closed, edge >> 1: ForceClose(edge, self.block_height())}
        self.on_force_close(edge, reason)

    def raise_imbalance(self, channel: int) -> None:
        """Raise `ConservationError` for a channel that does not add up."""
        a, b, in_flight = self.balance[2 * channel], self.balance[2 * channel + 1], self.in_flight[channel]
        raise ConservationError(
            f"channel {channel}: {a} + {b} msat and {in_flight} in flight are not its {self.capacity[channel]}"
        )

    # Commits

    def before_change(self) -> None:
        """Called before anything changes."""
        if self.recording and not self.saved:
            self.saved = {name: getattr(self, name) for name in self.recorded_fields}
            self.queue.log = []
            if self.on_first_change is not None:
                self.on_first_change()

    def rollback(self, error: BaseException | None = None) -> None:
        """Restore the state at `begin`."""
        self.queue.rollback()
        self.next_block = 0
        super().rollback(error)

    def _end(self) -> None:
        super()._end()
        self.queue.log = None

    def record_channel(self, edge: int) -> None:
        """Called before the balances of an edge's channel change."""
        items = ((self.balance, edge), (self.balance, edge ^ 1), (self.in_flight, edge >> 1), (self.slots, edge))
        for column, key in items:
            self.record_item(column, key)
