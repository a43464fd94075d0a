"""Tables of the network: attempts, HTLCs and balances.

Three functions return lists of flat dictionaries, each with all columns named here, in this order. Amounts are msat,
times milliseconds since 1970; `None` means unknown, or not yet. Direct payments have attempts, and HTLCs of one hop,
but no channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from leyden.lightning.payer.payment_rows import AttemptRow, PaymentRow
from leyden.lightning.payer.payments import Payments

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine
    from leyden.lightning.payer.routed_payments import RoutedPayments

Row = dict[str, Any]


# One row for each attempt of each part. `attempt` numbers those of a payment from 0. `status` is in_flight, waiting
# (for other parts), held, settled or failed. `hop` is the hop of the node that resolved it: 0 is the payer,
# `hops` the receiver; `source` is the name of that node, or "final". `code` and `name` are what the payer received
# (BOLT 4), `retried` and `learned` how it interpreted them; no payer receives `why` (a word) and `reason` (a sentence).
ATTEMPT_COLUMNS = (
    "at", "payment", "payer", "payment_hash", "attempt", "amount_msat", "fee_msat", "hops", "route", "status", "hop",
    "source", "code", "name", "retried", "learned", "why", "reason", "resolved_at",
)  # fmt: skip


class HtlcRow(TypedDict):
    """One row for each HTLC that was offered: a hop of an attempt, `hop` 0 being the payer's own channel.

    `at` is when it was offered, `resolved_at` when it was fulfilled or failed. `status` is in_flight, settled or
    failed. `fee_msat` is the fee of the node that offers it.
    """

    at: int
    payment: str
    attempt: int
    hop: int
    channel: int | None
    source: str
    target: str
    amount_msat: int
    fee_msat: int
    cltv_expiry: int
    status: str
    resolved_at: int | None


class BalanceRow(TypedDict):
    """Two rows for each channel, one for each side.

    `local_msat` is the balance now, `before_msat` the initial one. `change_msat` is how much more the node has now, on
    the channel or from it on the chain. `share` is local of capacity. `shop`: whether the node is the shop's. A channel
    that was closed, whether by agreement or by one node, is `closing` until both balances are on the chain:
    `on_chain_msat` is what this node has there, and no longer in `local_msat`. The two balances, both amounts on the
    chain and what is in flight are the capacity.
    """

    at: int
    node: str
    peer: str
    channel: int
    capacity_msat: int
    local_msat: int
    remote_msat: int
    in_flight_msat: int
    on_chain_msat: int
    before_msat: int
    change_msat: int
    share: float
    status: str
    shop: bool


class OutageRow(TypedDict):
    """One row for each time that a node was offline, until now; `until` is None while it lasts.

    `cause` is "condition" for an outage that the conditions of the network drew, or the id of an interceptor, whose
    outage ends when it is removed. `shop`: whether the node is the shop's.
    """

    node: str
    at: int
    until: int | None
    cause: str
    shop: bool


def attempts_of(payments: Payments) -> list[Row]:
    """All attempts, by payment (oldest first) and attempt; `ATTEMPT_COLUMNS`."""
    found: list[Row] = []
    for payment in payments.rows:
        for attempt in payment["attempts"]:
            route = attempt.get("route", [])
            row = {
                "fee_msat": 0,
                **attempt,
                "payment": payment["id"],
                "payer": payment["payer"],
                "payment_hash": payment["payment_hash"],
                "attempt": attempt["part"],
                "hops": len(route) or 1,
                "route": route,
            }
            found.append({column: row.get(column) for column in ATTEMPT_COLUMNS})
    return found


def htlcs_of(payments: Payments, rows: Iterable[PaymentRow] | None = None) -> list[HtlcRow]:
    """All HTLCs that were offered, or those of some payments, by payment, attempt and hop. An attempt that failed at
    its second hop has one."""
    return [
        row
        for payment in (payments.rows if rows is None else rows)
        for attempt in payment["attempts"]
        for row in _htlcs_of_attempt(payments, payment, attempt)
    ]


def balances_of(payments: Payments, node: str | None = None) -> list[BalanceRow]:
    """The balances of all channels, or of one node's ("shop", the name of a node or a wallet). Empty if payments
    are direct."""
    routed = _routed(payments)
    if routed is None:
        return []
    payments, engine = routed, routed.engine
    names, policies = engine.graph.names, engine.policies
    if node is None:
        edges: Any = range(len(engine.balance))
    else:
        edges = engine.out_edges(payments.shop if node == "shop" else payments.node_of(node))
    now = payments.now_ms()
    height = engine.conditions.height(now)
    return [
        {
            "at": now,
            "node": names[policies.source[edge]],
            "peer": names[policies.target[edge]],
            "channel": edge >> 1,
            "capacity_msat": engine.capacity[edge >> 1],
            "local_msat": engine.balance[edge] - on_chain_msat(engine, edge, height),
            "remote_msat": engine.balance[edge ^ 1] - on_chain_msat(engine, edge ^ 1, height),
            "in_flight_msat": engine.in_flight[edge >> 1],
            "on_chain_msat": on_chain_msat(engine, edge, height),
            "before_msat": engine.initial_balance[edge],
            "change_msat": engine.balance[edge] - engine.initial_balance[edge],
            "share": (engine.balance[edge] - on_chain_msat(engine, edge, height)) / engine.capacity[edge >> 1],
            "status": channel_status(engine, edge, height),
            "shop": policies.source[edge] == payments.shop,
        }
        for edge in edges
    ]


def on_chain_msat(engine: Engine, edge: int, height: int) -> int:
    """What the source of an edge has on the chain from its channel, which was closed; 0 before it is there. After a
    close by agreement it is there when no HTLC is in flight (BOLT 2, "closing_signed")."""
    channel = edge >> 1
    close = engine.force_closed.get(channel)
    if close is None:
        is_there = channel in engine.closed and not engine.in_flight[channel]
    else:
        is_there = height >= close.spendable_height(edge)
    return engine.balance[edge] if is_there else 0


def channel_status(engine: Engine, edge: int, height: int) -> str:
    """The status of a channel at a block height, from the side of an edge: `open`, `disabled`, `closing` (closed, and
    not yet all on the chain) or `closed`."""
    channel = edge >> 1
    if channel not in engine.closed:
        return "disabled" if engine.policies.disabled[edge] else "open"
    close = engine.force_closed.get(channel)
    is_waiting = close is not None and height < close.spendable_height(close.edge)
    return "closing" if is_waiting or engine.in_flight[channel] else "closed"


def outages_of(payments: Payments, since_ms: int) -> list[OutageRow]:
    """The outages of all nodes from an instant until now, by their start. Empty if payments are direct."""
    routed = _routed(payments)
    if routed is None:
        return []
    payments, engine, now = routed, routed.engine, routed.now_ms()
    found = [
        (at, until, node, "condition")
        for node in range(len(engine.graph.names))
        for at, until in engine.conditions.outages(node, since_ms, now)
    ]
    added = [(row, row["until_ms"]) for row in payments.interceptors.rows]
    for removed in payments.interceptors.removed:
        ends = [each for each in (removed["until_ms"], removed["removed_at"]) if each is not None]
        if (removed["from_ms"] or since_ms) < min(ends):
            added.append((removed, min(ends)))
    for row, until in added:
        at = max(row["from_ms"] or since_ms, since_ms)
        is_whole = all(row[name] is None for name in ("payment", "hop", "channel", "times"))
        if row["kind"] == "offline" and row["node"] is not None and is_whole and at <= now:
            found.append((at, until if until is not None and until <= now else None, row["node"], row["id"]))
    names = engine.graph.names
    return [
        {"node": names[node], "at": at, "until": until, "cause": cause, "shop": node == payments.shop}
        for at, until, node, cause in sorted(found, key=lambda outage: (outage[0], outage[2], outage[3]))
    ]


def _routed(payments: Payments) -> RoutedPayments | None:
    """Payments over a network, None for direct ones. The first need the extra `network`, and so does their class."""
    if type(payments) is Payments:
        return None
    from leyden.lightning.payer.routed_payments import RoutedPayments

    assert isinstance(payments, RoutedPayments)
    return payments


def _htlcs_of_attempt(payments: Payments, payment: PaymentRow, attempt: AttemptRow) -> Iterator[HtlcRow]:
    """The HTLCs of one attempt: `hops` are `[channel, source, target, amount, expiry]` each, `times` the times at which
    each hop that was reached was locked and unlocked. A direct payment has one hop."""
    settled = attempt["status"] == "settled"
    hops: list[list[Any]]
    times: Iterable[Sequence[Any]] | None
    if "hops" in attempt:
        hops, times = attempt["hops"], attempt["times"]
    else:
        script = payment["script"]
        assert script is not None
        hops = [[None, payment["payer"], "shop", attempt["amount_msat"], script["cltv_expiry"]]]
        times = [[attempt["at"], attempt["resolved_at"]]]
    if times is None:  # in flight
        routed = _routed(payments)
        assert routed is not None
        shard = routed.shard(payment["id"], attempt["part"])
        times, settled = shard.times, bool(shard.settled)
    before_msat = hops[0][3]
    for place, (hop, (offered, resolved)) in enumerate(zip(hops, times, strict=False)):
        channel, source, target, amount_msat, expiry = hop
        yield {
            "at": offered,
            "payment": payment["id"],
            "attempt": attempt["part"],
            "hop": place,
            "channel": channel,
            "source": source,
            "target": target,
            "amount_msat": amount_msat,
            "fee_msat": before_msat - amount_msat,
            "cltv_expiry": expiry,
            "status": "in_flight" if resolved is None else "settled" if settled else "failed",
            "resolved_at": resolved,
        }
        before_msat = amount_msat
