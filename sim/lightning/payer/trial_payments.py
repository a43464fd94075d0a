"""Trials of payments that are not made: which amount a payer could pay now, with what it knows and what channels have.

They decide what a reason may advise. A trial changes nothing, and what the payer learns in it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from leyden.arguments import ALL_MSAT
from leyden.lightning.engine.channel_operations import can_forward
from leyden.lightning.engine.engine import Engine, OutageHandler
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.engine.interceptor_index import FOREVER_MS
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer_models.payer_model import PayerModel, Session
from leyden.lightning.routing.mission_control import MissionControl
from leyden.lightning.routing.pathfinding import LiquidityBound, Route
from leyden.lightning.routing.widest_paths import widest_path
from leyden.lightning.topology.graph import Ints

# The searches of one trial: fewer on a large network, where each takes longer, and none for the payers of an
# implementation on the largest.
_MAX_SEARCHES, _LEAST_OWN_SEARCHES = 60, 2
_SEARCHED_CHANNELS = 60_000
_MAX_ATTEMPTS = 8  # of one trial
_MAX_WIDEST = 10  # widest paths that are tested for nodes that are offline
_MINIMA = 4
_LEAST_MSAT = 1_000  # the least amount of a Charge
_MOST_SMALL_MSAT = 10_000_000  # for a larger amount no larger one is tried
_LESS = ((1, 1), (9, 10), (1, 2), (1, 4), (1, 16), (1, 64), (1, 1_024))
_MORE = (2, 4, 8, 16, 64)

Knowledge = Callable[[], MissionControl | PayerModel]
_Find = Callable[[int], list[Route]]
_Learn = Callable[[Route, int], None]


def fee_limit(amount_msat: int) -> int:
    """The most that a payer spends on fees: the amount itself up to 1,000 sat, above that 5 % of it."""
    return amount_msat if amount_msat <= 1_000_000 else amount_msat // 20


class _Failed(NamedTuple):
    edges: list[int]
    amounts: list[int]
    code: int
    reporter_hop: int


def deliverable_msat(engine: Engine, path: Sequence[int], widths: Ints) -> int:
    """The largest amount (msat) that a path delivers if edges carry at most these widths: the smallest of them, less
    the fees. 0 for an empty path."""
    if not path:
        return 0
    most: list[int] = widths[[*path]].tolist()
    low, high = 0, min(most)
    while low < high:
        middle = (low + high + 1) // 2
        amounts = engine.policies.route(path, middle).amounts
        fits = all(amount <= width for amount, width in zip(amounts, most, strict=True))
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _lasting(outage: OutageHandler) -> OutageHandler:
    """The outages that have no end."""

    def until_ms(payment: str | None, edge: int) -> int | None:
        end_ms = outage(payment, edge)
        return end_ms if end_ms == FOREVER_MS else None

    return until_ms


class TrialPayments:
    """The trials for the payers of one network. `knowledge` is what they know."""

    def __init__(self, engine: Engine, knowledge: Knowledge) -> None:
        self._engine = engine
        self._knowledge = knowledge
        self._searches = 0

    def other_amount(self, session: Session, part_msat: int, parts: int, also: Iterable[int] = ()) -> str | None:
        """What to pay instead of parts of this amount, as an advice; None if no other amount that was tried succeeds.
        `also` are amounts of a part (msat) to try first."""
        self._renew()
        most = self._most_msat(session)
        start = min(most, part_msat)
        less = dict.fromkeys([*also, *(start * above // below for above, below in _LESS)])
        for amount in less:
            if (
                _LEAST_MSAT <= amount * parts < part_msat * parts
                and amount <= most
                and self._delivered_over(session, [amount] * parts) is not None
            ):
                return f"pay less, such as {amount * parts} msat"
        for amount in self._larger(part_msat):
            if amount <= most and self._delivered_over(session, [amount] * parts) is not None:
                return f"pay more, such as {amount * parts} msat"
        return None

    def _larger(self, amount_msat: int) -> Iterator[int]:
        """Larger amounts to try, if this one may be too small for a channel or for the limit on fees."""
        if amount_msat >= _MOST_SMALL_MSAT:
            return iter(())
        minima = sorted({one for one in self._engine.policies.htlc_min_msat if one > amount_msat})[:_MINIMA]
        return chain(minima, (amount_msat * factor for factor in _MORE))

    def succeeds(self, session: Session, part_msat: int, parts: int = 1) -> bool:
        """Whether parts of this amount would arrive."""
        self._renew()
        return self._delivered_over(session, [part_msat] * parts) is not None

    def edges_later(
        self, session: Session, amounts: Sequence[int], *, halves: bool, all_online: bool
    ) -> Collection[int] | None:
        """The edges over which a payment of these amounts would arrive if the payer had learned nothing, and with
        `all_online` if every node were online that will be back by itself; None if it would not. With `halves` the
        payer splits an amount without a route."""
        self._renew()
        engine, conditions = self._engine, self._engine.conditions
        was_up, outage = conditions.always_up, engine.outage
        if all_online:
            conditions.always_up, engine.outage = True, None if outage is None else _lasting(outage)
        try:
            return self._delivered_over(session, amounts, forgetting=True, halves=halves)
        finally:
            conditions.always_up, engine.outage = was_up, outage

    def chosen(self, session: Session, amount_msat: int, *, any_fee: bool = False) -> list[Route]:
        """The routes that the payer finds for an amount, whatever their channels have: with `any_fee` if it had no
        limit on fees."""
        with self._probe(session, amount_msat, forgetting=False) as (probe, routes, _):
            if any_fee:
                probe.fee_limit_msat = ALL_MSAT
            return routes(amount_msat)

    def can_choose(self, times: int) -> bool:
        """Whether `chosen` can be called so often in this network: it would take too long in a large one."""
        self._renew()
        return self._searches >= times

    def _renew(self) -> None:
        knowledge, channels = self._knowledge(), max(1, self._engine.graph.channels)
        if isinstance(knowledge, MissionControl):
            self._searches = max(_LEAST_OWN_SEARCHES, min(_MAX_SEARCHES, _SEARCHED_CHANNELS // channels))
        else:
            self._searches = min(_MAX_SEARCHES, 2 * _SEARCHED_CHANNELS // (knowledge.search_cost * channels))

    def _most_msat(self, session: Session) -> int:
        """The largest amount that one path can deliver now, or a larger one if many nodes are offline."""
        engine = self._engine
        graph, costs = engine.graph, engine.router.costs
        spendable = np.array(engine.balance) - np.repeat(graph.reserve_msat, 2)
        usable = ~graph.disabled & (np.array(engine.slots) < MAX_ACCEPTED_HTLCS)
        widths = np.where(usable, np.minimum(engine.policies.column("htlc_max_msat"), spendable).clip(min=0), 0)
        path, most = list[int](), ALL_MSAT
        # Whether a node is online is drawn when it is first needed, so only those on a path are tested.
        for _ in range(_MAX_WIDEST):
            path = widest_path(costs, widths, session.payer, session.target, most)
            ends = {engine.policies.target[edge] for edge in path}
            offline = [node for node in ends if not engine.conditions.is_up(node, engine.now)]
            if not offline:
                break
            most = int(widths[path].min())
            for node in offline:
                widths[costs.incoming.edges_of(node)] = 0
        return deliverable_msat(engine, path, widths)

    def _delivered_over(
        self, session: Session, amounts: Sequence[int], *, forgetting: bool = False, halves: bool = False
    ) -> Collection[int] | None:
        """The edges over which all these amounts arrive; None if one does not."""
        locked: dict[int, int] = {}
        waiting, count = [*amounts], len(amounts)
        with self._probe(session, sum(amounts), forgetting=forgetting) as (probe, routes, learn):
            while waiting:
                amount = waiting.pop()
                if self._delivered(amount, locked, routes, learn):
                    continue
                half, count = amount // 2, count + 1
                if not halves or half < probe.min_shard_msat or count > probe.max_parts:
                    return None
                waiting += [amount - half, half]
        return locked.keys()

    @contextmanager
    def _probe(self, session: Session, total_msat: int, *, forgetting: bool) -> Iterator[tuple[Session, _Find, _Learn]]:
        """A new payment of this amount by the same payer, how its routes are found, and how it learns from an edge that
        cannot carry its amount."""
        engine, knowledge = self._engine, self._knowledge()
        probe = copy(session)
        probe.amount_msat, probe.fees_msat, probe.parts_in_flight = total_msat, 0, 0
        probe.fee_limit_msat, probe.policy_retries = fee_limit(total_msat), frozenset()
        if isinstance(knowledge, MissionControl):
            known = {} if forgetting else knowledge.penalties(session.payer, engine.now, engine.capacity)
            bounds = dict(known)

            def learn_bound(route: Route, hop: int) -> None:
                bounds[route.edges[hop]] = (0, route.amounts[hop], engine.now, engine.now)

            yield probe, lambda amount_msat: self._own_routes(probe, amount_msat, bounds), learn_bound
            return
        with knowledge.trial(session.payer, forgetting=forgetting):
            knowledge.begin(probe)

            def learn(route: Route, hop: int) -> None:
                code = FailureCode.TEMPORARY_CHANNEL_FAILURE
                part: Any = _Failed(route.edges, route.amounts, code, hop)  # what a payer learns of a shard
                knowledge.failed(probe, part)

            yield probe, lambda amount_msat: knowledge.routes(probe, amount_msat), learn

    def _own_routes(self, session: Session, amount_msat: int, bounds: dict[int, LiquidityBound]) -> list[Route]:
        route, _ = self._engine.router.route(
            session.payer,
            session.target,
            amount_msat,
            spendable_msat=self._engine.spendable_msat,
            bounds=bounds,
            fee_limit_msat=session.fee_limit_msat - session.fees_msat,
            final_cltv_blocks=session.final_cltv_blocks,
        )
        return [] if route is None else [route]

    def _delivered(
        self,
        amount_msat: int,
        locked: dict[int, int],
        routes: _Find,
        learn: _Learn,
    ) -> bool:
        """Whether an amount arrives beside what is `locked`, to which it is added."""
        for _ in range(_MAX_ATTEMPTS):
            if not self._searches:
                return False
            self._searches -= 1
            found, taken = routes(amount_msat), dict(locked)
            if not found:
                return False
            failed = False
            for route in found:
                hop = self._failing_hop(route, taken)
                if hop is not None:
                    learn(route, hop)
                    failed = True
            if not failed:
                locked.update(taken)
                return True
        return False

    def _failing_hop(self, route: Route, taken: dict[int, int]) -> int | None:
        """The hop that cannot carry its amount beside what is taken; what the others carry is added to that."""
        for hop, (edge, amount) in enumerate(zip(route.edges, route.amounts, strict=True)):
            before = taken.get(edge, 0)
            if not can_forward(self._engine, edge, amount) or amount + before > self._engine.spendable_msat(edge):
                return hop
            taken[edge] = before + amount
        return None
