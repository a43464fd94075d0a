"""Background traffic: payments that are not for the shop, and how the shop's money flows back.

Three conditions of the network (`leyden.lightning.engine.condition_texts`) move balances that the payments to the shop
would only move towards it. `background` payments an hour go between two nodes that wallets may be on, at exponentially
distributed intervals, with a log-normal amount of the median `background_amount`. At the end of each hour the shop pays
the share `spending` of what it was paid to such nodes, in at most 16 payments and until four find no route; the rest is
tried again in the next hour. If the share of its capacity that it can receive is below `swap`, it swaps out: it sends
what is missing to half of its capacity to the node with the most channels, as a swap provider, which pays on the chain
(that payment is not simulated).

A run until nothing is scheduled ends when only they are. These payments take no time and have no rows. A payer of them
looks for routes like any other, skips those that would fail, and gives up after 16; a node that is offline forwards
nothing. The rates are assumptions: nobody publishes how many payments the network forwards.
"""

from __future__ import annotations

from typing import Any

from leyden.lightning.engine.channel_operations import send_at_once
from leyden.lightning.engine.engine import Engine
from leyden.lightning.payer.network_rows import BACKGROUND_TIMER
from leyden.lightning.payer.trial_payments import fee_limit
from leyden.rng import RandomStream
from leyden.server.ports import SETTLEMENT, Clock, EventJournal

HOUR_MS = 3_600_000
SIGMA_LOG = 1.0
LEAST_MSAT = 1_000_000  # the shop spends and swaps no less than 1,000 sat at once
_PARTS, _FAILURES = 16, 4  # the payments that may send an hour's amount, and those that may find no route


class BackgroundTraffic:
    """The background traffic of one network: its state is `engine.background`, its draws are those of a stream of
    its own. `nodes` are those between which it pays, without the shop's; if they are fewer than two, all others.
    Nothing happens unless a condition asks for it.
    """

    def __init__(
        self, engine: Engine, shop: int, nodes: list[int], clock: Clock, stream: RandomStream, journal: EventJournal
    ) -> None:
        self._engine = engine
        self._shop = shop
        self._nodes = nodes if len(nodes) > 1 else [node for node in range(len(engine.graph.names)) if node != shop]
        self._clock = clock
        self._stream = stream
        self._journal = journal
        clock.on(BACKGROUND_TIMER, self._run, repeated="next")

    def begin(self) -> None:
        """Start with a new network, in the commit that creates it. The network takes no part in that one, so it is told
        of its first change here: a directory that is opened again before the next change has the state, too."""
        parameters = self._engine.conditions.parameters
        state = self._engine.background
        if parameters.background_per_hour > 0:
            state = state._replace(next_payment_ms=self._clock.now() + self._interval_ms())
        if parameters.spending_share > 0 or parameters.swap_share > 0:
            state = state._replace(next_hour_ms=self._clock.now() + HOUR_MS)
        if state != self._engine.background:
            self._engine.background = state
            if self._engine.on_first_change is not None:
                self._engine.on_first_change()
        self.resume()

    def resume(self) -> None:
        """Set the timer."""
        state = self._engine.background
        due = min((at for at in (state.next_payment_ms, state.next_hour_ms) if at is not None), default=None)
        if due is not None:
            self._clock.call_at(due, SETTLEMENT, BACKGROUND_TIMER, "next")

    def received(self, amount_msat: int) -> None:
        """The shop was paid: it will spend its share of that."""
        share = self._engine.conditions.parameters.spending_share
        if share > 0:
            state = self._engine.background
            self._engine.before_change()
            self._engine.background = state._replace(unspent_msat=state.unspent_msat + int(amount_msat * share))

    def _run(self, key: str) -> None:
        engine, now = self._engine, self._clock.now()
        engine.before_change()
        engine.now = max(engine.now, now)
        state = engine.background
        if state.next_payment_ms is not None and state.next_payment_ms <= now:
            self._pay()
        if state.next_hour_ms is not None and state.next_hour_ms <= now:
            self._end_hour()
        self.resume()

    def _interval_ms(self) -> int:
        mean_ms = HOUR_MS / self._engine.conditions.parameters.background_per_hour
        return 1 + int(self._stream.exponential(mean_ms))

    def _pay(self) -> None:
        engine, stream = self._engine, self._stream
        payer = stream.choice(self._nodes)
        target = stream.choice([node for node in self._nodes if node != payer])
        median_msat = 1_000 * engine.conditions.parameters.background_amount_sat
        amount_msat = max(1, int(stream.lognormal(median_msat, SIGMA_LOG)))
        route = send_at_once(engine, payer, target, amount_msat, fee_limit(amount_msat))
        state, earned_msat = engine.background, 0
        if route is not None:
            passed = [engine.policies.target[edge] for edge in route.edges[:-1]]
            if self._shop in passed:
                hop = passed.index(self._shop)
                earned_msat = route.amounts[hop] - route.amounts[hop + 1]
                if earned_msat:  # without a fee the shop's balances stay in sum
                    name, forwarded_msat = engine.graph.names[self._shop], route.amounts[hop + 1]
                    self._journal.note("shop_forwarded", name, amount_msat=forwarded_msat, earned_msat=earned_msat)
        engine.background = state._replace(
            next_payment_ms=self._clock.now() + self._interval_ms(),
            succeeded=state.succeeded + (route is not None),
            failed=state.failed + (route is None),
            earned_msat=state.earned_msat + earned_msat,
        )

    # The shop

    def _end_hour(self) -> None:
        engine, state = self._engine, self._engine.background
        spent_msat = self._send("shop_spent", state.unspent_msat, None)
        swapped_msat, edges = 0, engine.open_edges(self._shop)
        total_msat = sum(engine.capacity[edge >> 1] for edge in edges)
        inbound_msat = sum(engine.balance[edge ^ 1] for edge in edges)
        if inbound_msat < engine.conditions.parameters.swap_share * total_msat:
            swapped_msat = self._send("shop_swapped_out", total_msat // 2 - inbound_msat, self._swap_provider())
        engine.background = engine.background._replace(
            next_hour_ms=self._clock.now() + HOUR_MS,
            unspent_msat=state.unspent_msat - spent_msat,
            spent_msat=state.spent_msat + spent_msat,
            swapped_msat=state.swapped_msat + swapped_msat,
        )

    def _swap_provider(self) -> int:
        """The node with the most channels, but the shop's."""
        degree = self._engine.graph.degree.tolist()
        return max((node for node in range(len(degree)) if node != self._shop), key=lambda node: degree[node])

    def _send(self, kind: str, amount_msat: int, target: int | None) -> int:
        """Send an amount from the shop in few payments, to this node or to random ones; returns what was sent. None
        sends more than the shop has in one channel, and an amount that finds no route is halved."""
        engine = self._engine
        sent_msat = fees_msat = payments = failures = 0
        size_msat = amount_msat
        while payments < _PARTS and failures < _FAILURES:
            largest_msat = max((engine.spendable_msat(edge) for edge in engine.open_edges(self._shop)), default=0)
            size_msat = min(size_msat, amount_msat - sent_msat, largest_msat)
            if size_msat < LEAST_MSAT:
                break
            to = self._stream.choice(self._nodes) if target is None else target
            route = send_at_once(engine, self._shop, to, size_msat, fee_limit(size_msat))
            if route is None:
                size_msat, failures = size_msat // 2, failures + 1
            else:
                sent_msat, payments = sent_msat + size_msat, payments + 1
                fees_msat += route.amounts[0] - size_msat
        engine.background = engine.background._replace(fees_msat=engine.background.fees_msat + fees_msat)
        if amount_msat >= LEAST_MSAT:
            names = engine.graph.names
            facts: dict[str, Any] = {"amount_msat": sent_msat, "wanted_msat": amount_msat}
            facts |= {"fees_msat": fees_msat, "payments": payments}
            if target is not None:
                facts["provider"] = names[target]
            self._journal.note(kind, names[self._shop], **facts)
        return sent_msat
