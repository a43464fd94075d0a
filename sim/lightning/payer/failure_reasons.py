"""Why a payer sends no more of a payment: the cause that is so at that instant, and what to do about it.

All payers, of this simulation and as of an implementation, have their reasons from here. No real payer receives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import numpy as np

from leyden.arguments import ALL_MSAT
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.engine.interceptor_index import FOREVER_MS
from leyden.lightning.payer.trial_payments import Knowledge, TrialPayments, deliverable_msat
from leyden.lightning.payer_models.payer_model import PayerModel, Session
from leyden.lightning.routing.mission_control import MissionControl
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS
from leyden.lightning.routing.widest_paths import shortest_path, widest_path
from leyden.lightning.topology.graph import DEFAULT_POLICY
from leyden.server.timestamps import to_iso

FINAL_CLTV_BLOCKS = 80
# Payers add some blocks to the invoice's final delta: a block may come meanwhile (LND: three).
EXTRA_CLTV_BLOCKS = 3
_MINIMA = 8  # how many least amounts of channels are tried to say why there is no route
_PEERS_SHOWN = 3
_NEVER_SPLIT_MSAT = 500_000  # Core Lightning sends up to 1,000 sat in one part, LDK not less than it must
_LACK = re.compile(r"the channel from .* had [0-9]+ msat")  # as the engine writes it
_ANY_BLOCKS = -(10**6)  # as the final time lock: no route locks an amount for so long that it exceeds the limit
_FULL = (
    f"the payer's channels had {MAX_ACCEPTED_HTLCS} HTLCs in flight, the most that they take (BOLT 2): pay when some"
    " of those have ended"
)


class PayingSession(Session, Protocol):
    """What is read of a `PaymentSession` besides what a model reads."""

    attempt_count: int
    max_attempts: int
    min_shard_msat: int
    gives_up_at: int | None


def _open(session: PayingSession, part_msat: int) -> str:
    """The advice to open a channel, which has a least amount of its own."""
    least_msat, parts = DEFAULT_POLICY[3], -(-session.amount_msat // part_msat)
    more = f", and pay {least_msat * parts} msat or more" if part_msat < least_msat else ""
    return f"open a channel from the payer to the receiver{more}"


class FailureReasons:
    """The reasons of one network's payers. `knowledge` is what they know, with the model after which they work.

    An amount is advised only if a trial with it succeeds, and to pay later only if something will be another then."""

    def __init__(self, engine: Engine, knowledge: Knowledge) -> None:
        self._engine = engine
        self._knowledge = knowledge
        self._trials = TrialPayments(engine, knowledge)

    def _model(self) -> PayerModel | None:
        """The model after which payers work; None: this simulation's own."""
        knowledge = self._knowledge()
        return None if isinstance(knowledge, MissionControl) else knowledge

    def timeout(self, session: PayingSession) -> str:
        """Why a payer without patience sends no more."""
        over_ms = self._engine.now if session.gives_up_at is None else session.gives_up_at
        parts = session.parts_in_flight
        in_flight = f", with {parts} part{'' if parts == 1 else 's'} in flight" if parts else ""
        return f"the payer's patience was over at {to_iso(over_ms)}{in_flight}"

    def missing_channel(self, session: PayingSession) -> str | None:
        """Why no amount can come from the payer to the receiver: no open channels lead there. None if some do."""
        engine, disabled = self._engine, self._engine.policies.disabled
        own, last = engine.out_edges(session.payer), [edge ^ 1 for edge in engine.out_edges(session.target)]
        if all(disabled[edge] for edge in own):
            kind = self._usable(own)
            return f"the payer has no {kind} channel: open one from it, or pay from another wallet"
        if all(disabled[edge] for edge in last):
            return f"the receiver has no {self._usable(last)} channel: open one to it"
        if shortest_path(engine.router.costs, ~engine.policies.column("disabled"), session.payer, session.target):
            return None
        kind = self._usable(range(len(disabled)))
        return f"no {kind} channels lead from the payer to the receiver: open one"

    def _usable(self, edges: Iterable[int]) -> str:
        """What those of these edges are not that can carry nothing: the channels are closed, or a policy disables
        them."""
        engine = self._engine
        are_closed = all(edge >> 1 in engine.closed for edge in edges if engine.policies.disabled[edge])
        return "open" if are_closed else "enabled"

    # The payer's own channels

    def insufficient(self, session: PayingSession, amount_msat: int) -> str:
        """Why the payer's own channels cannot send an amount together."""
        missing = self.missing_channel(session)
        if missing is not None:
            return missing
        engine = self._engine
        edges = engine.open_edges(session.payer)
        held = sum(engine.balance[edge] for edge in edges)
        able = sum(self._able_msat(edge) for edge in edges)
        if held < amount_msat:
            mend = self._less_or_other_wallet(session, amount_msat)
            return f"the payer's channels hold {held} msat, less than the {amount_msat}: {mend}"
        if able >= amount_msat:
            return self._offline_peers(session, amount_msat)
        full = sum(self._unlocked_msat(edge) for edge in edges if engine.slots[edge] >= MAX_ACCEPTED_HTLCS)
        if able + full >= amount_msat:
            return _FULL
        reserves = sum(min(engine.balance[edge], engine.reserve[edge >> 1]) for edge in edges)
        holds = f"the payer's channels hold {held} msat, of which they keep {reserves} as their reserves"
        disabled = held - reserves - full - able
        more = f" and cannot send {disabled} because channels are disabled" if disabled else ""
        mend = self._less_or_other_wallet(session, amount_msat)
        return f"{holds}{more}: the rest is less than the {amount_msat}, so {mend}"

    def _less_or_other_wallet(self, session: PayingSession, amount_msat: int) -> str:
        less = self._trials.other_amount(session, amount_msat, 1)
        return "pay from a wallet with more" if less is None else f"{less}, or from a wallet with more"

    def _unlocked_msat(self, edge: int) -> int:
        """What an own edge of a payer could send if HTLCs in flight did not occupy all its slots."""
        engine = self._engine
        return 0 if engine.policies.disabled[edge] else max(0, engine.balance[edge] - engine.reserve[edge >> 1])

    def _able_msat(self, edge: int) -> int:
        """What an own edge of a payer can send, whether its peer is online or not."""
        return max(0, self._engine.spendable_msat(edge))

    def _now_msat(self, session: PayingSession, edge: int) -> int:
        """What an own edge of the payer can send, as far as the payer knows: those of a model know who is online."""
        model = self._model()
        return self._able_msat(edge) if model is None else model.local_msat(session, edge)

    def _offline_peers(self, session: PayingSession, amount_msat: int) -> str:
        engine = self._engine
        names, target = engine.graph.names, engine.policies.target
        edges = engine.open_edges(session.payer)
        peers = sorted(
            {names[target[edge]] for edge in edges if self._able_msat(edge) and not self._now_msat(session, edge)}
        )
        shown = ", ".join(peers[:_PEERS_SHOWN]) + (", ..." if len(peers) > _PEERS_SHOWN else "")
        rest = sum(self._now_msat(session, edge) for edge in edges)
        others = f"and its others could send {rest} msat"
        if rest >= amount_msat:  # the amount does not lack
            others = "and no route of its node leads over its others"
        if len(peers) == 1:
            return f"the payer's channel to {shown} was offline, {others}: pay when it is back"
        return f"the payer's channels to {shown} were offline, {others}: pay when they are back"

    # Routes

    def no_other_route(self, session: PayingSession, amount_msat: int, reasons: Collection[str]) -> str:
        """Why a session sends nothing more after attempts, those that failed with these reasons: it found no route for
        a part of this amount."""
        missing = self.missing_channel(session)
        if missing is not None:
            return missing
        # Only a lack of liquidity is the less for a smaller amount.
        is_lack = not reasons or any(_LACK.match(reason) for reason in reasons)
        mend = (
            self._mend(session, amount_msat, self._parts(session, amount_msat))
            if is_lack
            else self._when_over(session, amount_msat)
        )
        if session.attempt_count >= session.max_attempts:
            return f"the payer makes {session.max_attempts} attempts at most, and none is left: {mend}"
        model = self._model()
        if (model is None or model.halves) and amount_msat // 2 >= session.min_shard_msat:
            split = f"the payer splits an amount into {session.max_parts} parts at most"
            return f"{split}, and knows no route for one of {amount_msat} msat: {mend}"
        return f"the payer knows no other route: {mend}"

    def _parts(self, session: PayingSession, amount_msat: int) -> int:
        """Into how many equal parts the script splits the payment, if this is one of them: no payer here splits so
        small an amount by itself."""
        model = self._model()
        least_msat = session.min_shard_msat if model is None or model.halves else _NEVER_SPLIT_MSAT
        return 1 if amount_msat >= least_msat else -(-session.amount_msat // amount_msat)

    def _mend(self, session: PayingSession, part_msat: int, parts: int, also: Collection[int] = ()) -> str:
        """What to do where liquidity lacked: what is advised helps."""
        mends = [self._trials.other_amount(session, part_msat, parts, also), self._later(session, part_msat, parts)]
        helps = [mend for mend in mends if mend] or [_open(session, part_msat)]
        if any(shard.owner is not session for shard in self._engine.shards.values()):
            helps.append("try again when the HTLCs in flight have ended: they may return what they lock")
        return ", or ".join(helps)

    def _later(self, session: PayingSession, part_msat: int, parts: int) -> str | None:
        """The advice to pay later, if something changes with time; None if nothing does."""
        engine = self._engine
        conditions = engine.conditions.parameters
        if conditions.background_per_hour or conditions.spending_share or conditions.swap_share:
            return "pay later, when other payments have moved liquidity"
        amounts = [session.amount_msat] if parts == 1 else [part_msat] * parts
        later = self._edges_later(session, amounts, all_online=True)
        if later is not None and any(self._comes_back(session, edge) for edge in later):
            return "pay later, when nodes that are offline are back"
        if later is not None and self._edges_later(session, amounts) is not None:
            return "pay later, when the payer's node has forgotten its failures"
        return None

    def _edges_later(
        self, session: PayingSession, amounts: Sequence[int], *, all_online: bool = False
    ) -> Collection[int] | None:
        """The edges over which the amounts arrive later; None if they do not."""
        model = self._model()
        halves = model is None or model.halves
        return self._trials.edges_later(session, amounts, halves=halves, all_online=all_online)

    def _when_over(self, session: PayingSession, amount_msat: int) -> str:
        """What to do after failures that are no lack of liquidity."""
        parts = self._parts(session, amount_msat)
        amounts = [session.amount_msat] if parts == 1 else [amount_msat] * parts
        if self._edges_later(session, amounts, all_online=True) is not None:
            return "pay later, when what failed is over and the payer's node has forgotten it"
        return self._trials.other_amount(session, amount_msat, parts) or _open(session, amount_msat)

    def _comes_back(self, session: PayingSession, edge: int) -> bool:
        """Whether a node of an edge, or its channel, is offline now and will be back by itself."""
        engine = self._engine
        ends = engine.policies.source[edge], engine.policies.target[edge]
        if not all(engine.conditions.is_up(node, engine.now) for node in ends):
            return True
        until_ms = None if engine.outage is None else engine.outage(session.id, edge)
        return until_ms is not None and until_ms < FOREVER_MS

    def no_route(self, session: PayingSession, amount_msat: int) -> str:
        """Why a session found no route for a part of this amount before its first attempt. It searches again without
        what the payer learned, and without its limits on fees and on time locks."""
        missing = self.missing_channel(session)
        if missing is not None:
            return missing
        model = self._model()
        parts = self._parts(session, amount_msat)

        def online(edge: int) -> int:
            return self._now_msat(session, edge)

        most_blocks, most_hops = (MAX_CLTV_BLOCKS, MAX_HOPS) if model is None else (model.most_blocks, model.most_hops)
        hops = self._least_hops(session, amount_msat)
        if hops is not None and hops > most_hops:
            limit = f"the {most_hops} that a route of this payer may have"
            return f"every route has {hops} hops or more, and that is more than {limit}: open a channel past some"
        if self._finds_a_route(session, session.fee_limit_msat, amount_msat):
            if model is None:
                mend = self._mend(session, amount_msat, parts)
                return f"the payer's node avoids every route, because of earlier failures that it has seen: {mend}"
            if not self._finds_a_route(session, session.fee_limit_msat, amount_msat, spendable=online):
                return self._offline_peers(session, amount_msat)
            return self._not_chosen(session, amount_msat, parts)
        if self._finds_a_route(session, ALL_MSAT, amount_msat):
            limit_msat = session.fee_limit_msat
            mend = self._trials.other_amount(session, amount_msat, parts) or _open(session, amount_msat)
            return f"every route costs more than {limit_msat} msat, the payer's limit for this amount: {mend}"
        usual = min(session.final_cltv_blocks, FINAL_CLTV_BLOCKS + EXTRA_CLTV_BLOCKS)
        if self._finds_a_route(session, ALL_MSAT, amount_msat, final_cltv_blocks=usual):
            locked = f"every route locks the amount for more than {most_blocks} blocks, the payer's limit"
            return f"{locked}; the last HTLC alone for {session.final_cltv_blocks}: give it fewer blocks"
        if self._finds_a_route(session, ALL_MSAT, amount_msat, final_cltv_blocks=_ANY_BLOCKS):
            locked = f"every route locks the amount for more than {most_blocks} blocks, the payer's limit"
            return f"{locked}, because of the time_lock_delta of its channels: open a channel past them"
        larger = sorted({one for one in self._engine.policies.htlc_min_msat if one > amount_msat})[:_MINIMA]
        for least_msat in larger:
            if self._finds_a_route(session, ALL_MSAT, least_msat):
                return self._too_small(session, amount_msat, parts, least_msat)
        unlocked = self._unlocked_msat
        if self._finds_a_route(session, ALL_MSAT, amount_msat, final_cltv_blocks=_ANY_BLOCKS, spendable=unlocked):
            return _FULL
        return self._too_large(session, amount_msat, parts)

    def _not_chosen(self, session: PayingSession, amount_msat: int, parts: int) -> str:
        """Why the node of a payer with a model chooses no route, although there is one within its limits."""
        model = self._model()
        assert model is not None
        node = "the payer's node"
        mend = self._mend(session, amount_msat, parts)
        if not self._trials.can_choose(_MINIMA + 1):
            return f"{node} chooses none of the routes: {mend}"
        minima = self._engine.policies.htlc_min_msat
        for least_msat in sorted({one for one in minima if one > amount_msat})[:_MINIMA]:
            routes = self._trials.chosen(session, least_msat)
            if any(minima[edge] > amount_msat for route in routes for edge in route.edges):
                small = f"the channels that {node} prefers forward {least_msat} msat or more, and a part has"
                return f"{small} {amount_msat}: {mend}"
        if self._trials.chosen(session, amount_msat, any_fee=True):
            limit_msat = session.fee_limit_msat
            return f"the routes that {node} prefers cost more than {limit_msat} msat, its limit for this amount: {mend}"
        unlikely = f"no route is probable enough for {node}, by the number and the capacities of channels"
        if model.facts(session.payer):
            unlikely += " and by earlier failures that it has seen"
        return f"{unlikely}: {mend}"

    def _too_small(self, session: PayingSession, amount_msat: int, parts: int, least_msat: int) -> str:
        """Why no route carries an amount: each has a channel that forwards only more."""
        what = "an amount" if parts == 1 else "a part"
        small = f"no route carries {what} so small: each forwards {least_msat} msat or more"
        if parts > 1:
            small += f", and each of the {parts} parts has {amount_msat} or less"
        if self._trials.succeeds(session, least_msat, parts):
            return f"{small}, so pay {least_msat * parts}" if parts > 1 else f"{small}, so pay that"
        return f"{small}: {self._trials.other_amount(session, amount_msat, parts) or _open(session, amount_msat)}"

    def _least_hops(self, session: PayingSession, amount_msat: int) -> int | None:
        """The hops of the shortest way whose channels can carry an amount; None if there is none."""
        engine, column = self._engine, self._engine.policies.column
        fits = (column("htlc_min_msat") <= amount_msat) & (amount_msat <= column("htlc_max_msat"))
        usable = fits & ~column("disabled")
        for edge in engine.out_edges(session.payer):
            usable[edge] &= self._able_msat(edge) >= amount_msat
        return len(shortest_path(engine.router.costs, usable, session.payer, session.target)) or None

    def _too_large(self, session: PayingSession, amount_msat: int, parts: int) -> str:
        """Why no route carries an amount: the limits of channels, or what the payer's own can send."""
        most = {
            "the limits of channels (htlc_maximum_msat and capacity)": self._most_msat(session, limited=False),
            "what the payer's own channels can send": self._most_msat(session, limited=True),
        }
        mend = self._mend(session, amount_msat, parts, [min(most.values())])
        for cause, most_msat in most.items():
            if not most_msat:
                return f"no route carries anything, by {cause}: {mend}"
            if most_msat < amount_msat:
                carried = f"no route carries more than {most_msat} msat in one part, by {cause}"
                split = f"and the payer could not split the {session.amount_msat} into such parts"
                return f"{carried}, {split}: {mend}"
        return f"no route leads to the receiver with enough liquidity: {mend}"

    def _most_msat(self, session: PayingSession, *, limited: bool) -> int:
        """The largest amount that one route can deliver, by the limits of its channels, and with `limited` by what the
        payer's own can send now."""
        engine = self._engine
        widths = np.where(engine.graph.disabled, 0, engine.policies.column("htlc_max_msat"))
        if limited:
            for edge in engine.out_edges(session.payer):
                widths[edge] = min(widths[edge], self._now_msat(session, edge))
        path = widest_path(engine.router.costs, widths, session.payer, session.target)
        return deliverable_msat(engine, path, widths)

    def _finds_a_route(
        self,
        session: PayingSession,
        fee_limit_msat: int,
        amount_msat: int,
        *,
        final_cltv_blocks: int | None = None,
        spendable: Callable[[int], int] | None = None,
    ) -> bool:
        """Whether there is a route without what the payer learned. `spendable` is what an own edge can send, without it
        whether its peer is online or not."""
        model = self._model()
        route, _ = self._engine.router.route(
            session.payer,
            session.target,
            amount_msat,
            spendable_msat=spendable or self._engine.spendable_msat,
            bounds={},
            fee_limit_msat=fee_limit_msat,
            # The router has the limit of BOLT 4, and a payer may have less.
            final_cltv_blocks=MAX_CLTV_BLOCKS
            - (MAX_CLTV_BLOCKS if model is None else model.most_blocks)
            + (session.final_cltv_blocks if final_cltv_blocks is None else final_cltv_blocks),
        )
        return route is not None
