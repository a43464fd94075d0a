"""Control operations: the changes to a network that Python code and the control plane can make."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import Any, TypedDict

from leyden.arguments import span_from
from leyden.errors import GraphError, InterceptError
from leyden.lightning.engine.channel_operations import (
    NewChannel,
    close_channel,
    find_circle,
    open_channel,
    send_over,
)
from leyden.lightning.engine.interceptor_row import InterceptorRow
from leyden.lightning.engine.interceptors import MAX_DELAY_MS
from leyden.lightning.network.network_tables import on_chain_msat, outages_of
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.server.printable import printable, quoted
from leyden.server.spelling import closest_names
from leyden.stepwise import Stepwise

_COMPARED = 1_000  # nodes, and wallets, among which similar names are sought

Span = str | float | timedelta


class ChannelRow(TypedDict):
    """A channel as one of its nodes sees it; `on_chain_msat` is what it has on the chain, if it was closed."""

    channel: int
    peer: str
    capacity_msat: int
    local_msat: int
    remote_msat: int
    in_flight_msat: int
    on_chain_msat: int
    closed: bool


class NetworkOperations:
    """The changes to a network; each is written to the journal. Amounts are msat. Call inside a transaction.

    The errors are for requests. `in_python` is for the methods of a sandbox: the mends are then calls of these."""

    def __init__(self, payments: RoutedPayments, *, in_python: bool = False) -> None:
        self.payments = payments
        self.engine = payments.engine
        self._in_python = in_python

    def node(self, name: str) -> int:
        """The number of a node: `shop`, the name of a node, or a wallet that has paid.

        Raises `GraphError` with the nearest names for any other, because every name could be a wallet's.
        """
        payments = self.payments
        if not isinstance(name, str):
            raise GraphError(f'{quoted(name)} is not the name of a node: give a text, such as "shop" or "n5"')
        if name == "shop":
            return payments.shop
        if payments.has_node(name) or payments.rows.find("payer", name):
            return payments.node_of(name)
        names = self.engine.graph.names
        payers = [payer for payer, _ in islice(payments.rows.ids_by_value("payer"), _COMPARED)]
        near = closest_names(name, ["shop", *islice(names, _COMPARED), *payers], 3)
        shown = ", ".join(names[:6]) + ", ..." * (len(names) > 6)
        advice = f"did you mean {' or '.join(near)}?" if near else f"its nodes are {shown};"
        if self._in_python:
            of_wallet = f"network.wallet({quoted(name, 60)}) is the node of a wallet before its first payment"
        else:
            of_wallet = "a wallet is known here from its first payment, which POST /sandbox/v1/payments makes"
        raise GraphError(
            f"there is no node {printable(name[:60])}, and no wallet of this name has paid: this network has "
            f"{len(names)} nodes; "
            f"{advice} {of_wallet}"
        )

    def outbound_msat(self, node: int) -> int:
        """The balances of a node in its open channels."""
        return sum(self.engine.balance[edge] for edge in self.engine.open_edges(node))

    def inbound_msat(self, node: int) -> int:
        """The balances of its peers in them."""
        return sum(self.engine.balance[edge ^ 1] for edge in self.engine.open_edges(node))

    def offline_nodes(self) -> list[str]:
        """The names of the nodes that are offline now."""
        outages = outages_of(self.payments, self.payments.now_ms())
        return list(dict.fromkeys(row["node"] for row in outages if row["until"] is None))

    def height(self) -> int:
        """The height of the latest block."""
        return self.engine.conditions.height(self.payments.now_ms())

    def channels(self, node: int) -> list[ChannelRow]:
        """A node's channels, the closed ones included."""
        engine, height = self.engine, self.height()
        return [
            {
                "channel": edge >> 1,
                "peer": engine.graph.names[engine.policies.target[edge]],
                "capacity_msat": engine.capacity[edge >> 1],
                "local_msat": engine.balance[edge] - on_chain_msat(engine, edge, height),
                "remote_msat": engine.balance[edge ^ 1] - on_chain_msat(engine, edge ^ 1, height),
                "in_flight_msat": engine.in_flight[edge >> 1],
                "on_chain_msat": on_chain_msat(engine, edge, height),
                "closed": edge >> 1 in engine.closed,
            }
            for edge in engine.out_edges(node)
        ]

    def drain(self, node: int, inbound: float, outbound: float) -> None:
        """Move shares (0 to 1) of the balances of each open channel to its other side."""
        self.payments.synchronize_time()
        engine, moved = self.engine, {"inbound": 0, "outbound": 0}
        for edge in self.engine.open_edges(node):
            for name, side, share in (("inbound", edge ^ 1, inbound), ("outbound", edge, outbound)):
                moved[name] += engine.move_balance(side, int(engine.balance[side] * share))
        self._note("drained", node, inbound_msat=moved["inbound"], outbound_msat=moved["outbound"])

    def rebalance(self, node: int, amount_msat: int, out: str | None, into: str | None) -> Stepwise[int]:
        """Send an amount in a circle (a circular rebalance) in the last step, and return the fee. Each step before it
        searches a route. Raises `GraphError`."""
        if amount_msat < 1:
            raise GraphError(f"an amount of {amount_msat} msat: rebalance moves at least 1 msat, so give more")
        ends = [None if peer is None else self.node(peer) for peer in (out, into)]
        self.payments.synchronize_time()
        circle = yield from find_circle(self.engine, node, amount_msat, *ends)
        self.payments.synchronize_time()
        fee_msat = send_over(self.engine, circle)
        names, target = self.engine.graph.names, self.engine.policies.target
        route = [names[target[edge]] for edge in circle.edges]
        self._note("rebalanced", node, amount_msat=amount_msat, fee_msat=fee_msat, route=route)
        return fee_msat

    def open_channel(self, a: int, b: int, capacity_msat: int, local_msat: int | None, base_msat: int, ppm: int) -> int:
        """Open a channel funded by `a` and return its number. Raises `GraphError`."""
        self.payments.synchronize_time()
        own = capacity_msat if local_msat is None else local_msat
        channel = open_channel(self.engine, NewChannel(a, b, capacity_msat, own, base_msat, ppm))
        names = self.engine.graph.names
        self._note("channel_opened", a, channel=channel, peer=names[b], capacity_msat=capacity_msat, local_msat=own)
        return channel

    def close_channel(self, channel: int) -> None:
        """Close a channel. Raises `GraphError`."""
        self.payments.synchronize_time()
        close_channel(self.engine, channel)
        policies, names = self.engine.policies, self.engine.graph.names
        ends = (2 * channel, 2 * channel + 1)
        self._note(
            "channel_closed",
            policies.source[ends[0]],
            channel=channel,
            peer=names[policies.target[ends[0]]],
            balances_msat=[self.engine.balance[edge] for edge in ends],
        )

    def intercept(
        self,
        kind: str,
        *,
        node: str | None = None,
        after_ms: int = 0,
        lasting_ms: int | None = None,
        **where: Any,
    ) -> InterceptorRow:
        """Add an interceptor (see `leyden.lightning.engine.interceptors`), with the node's name and with times
        counted from now.

        Raises `InterceptError`.
        """
        payment = where.get("payment")
        if payment is not None and (not isinstance(payment, str) or self.payments.rows.row(payment) is None):
            raise InterceptError(f"payment={quoted(payment)} is not a payment of this sandbox: give one, or its id")
        now = self.payments.now_ms()
        from_ms = now + after_ms
        return self.payments.interceptors.add(
            kind,
            node=None if node is None else self.node(node),
            from_ms=from_ms,
            until_ms=None if lasting_ms is None else now + after_ms + lasting_ms,
            **where,
        )

    def _note(self, kind: str, node: int, **facts: Any) -> None:
        self.payments.note(kind, self.engine.graph.names[node], facts)


def interceptor_times(
    delay: Span | None = None, after: Span | None = None, lasting: Span | None = None
) -> tuple[int | None, int, int | None]:
    """The times of an interceptor in ms: the delay, the start from now, and how long it lasts. Raises
    `InterceptError`."""
    try:
        return (
            None if delay is None else span_from("delay", delay, least_ms=1, most_ms=MAX_DELAY_MS),
            0 if after is None else span_from("after", after),
            None if lasting is None else span_from("lasting", lasting, least_ms=1),
        )
    except (TypeError, ValueError) as error:
        raise InterceptError(str(error)) from None
