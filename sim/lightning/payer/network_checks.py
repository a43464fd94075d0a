"""Checks of a network's state that somebody else may have changed: places of the graph, balances, shards in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from leyden.lightning.engine.engine import DELAYED, DROPPED, OFFLINE, ON_CHAIN, Engine
from leyden.lightning.engine.htlc import HELD, WAITING
from leyden.lightning.engine.shard import FORWARD, Shard
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.payer.payment_scripts import MAX_PARTS
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS
from leyden.repr_tables import counted
from leyden.server.errors import StoreError
from leyden.server.printable import cut

# Former versions wrote it into `policy_retries` where the receiver refused a part. It is not read.
FORMER_RECEIVER_EDGE = -1


class _Payments(Protocol):
    """The payments of a network whose state was restored."""

    engine: Engine
    open_sessions: dict[Any, PaymentSession]


def check_saved(engine: Engine, saved: Mapping[str, Any]) -> None:
    """Raise `StoreError` when what is saved names a node, a channel or a shard that does not exist. The engine has the
    saved channels already."""
    node_count, edge_count = len(engine.graph.names), 2 * engine.graph.channels
    nodes, edges = range(node_count), range(edge_count)
    there = f"the network has {node_count} nodes and {edge_count // 2} channels"
    for row in saved["sessions"]:
        for field in ("payer", "target"):
            if row[field] not in nodes:
                raise StoreError(f"network/sessions ({cut(row['id'], 60)!r}): {field} is {row[field]}, and {there}")
        if any(edge not in edges and edge != FORMER_RECEIVER_EDGE for edge in row["policy_retries"]):
            raise StoreError(
                f"network/sessions ({cut(row['id'], 60)!r}): policy_retries has an edge that is on no channel"
            )
    owners = {row["id"] for row in saved["sessions"]}
    for row in saved["shards"]:
        where = f"network/shards ({row['id']})"
        if row["owner"] not in owners:
            raise StoreError(f"{where}: owner is {cut(row['owner'], 60)!r}, which is no session")
        if any(edge not in edges for edge in row["edges"]):
            raise StoreError(f"{where}: edges has one that is on no channel, and {there}")
        taken, ends = row.get("taken", row["edges"]), (engine.policies.source, engine.policies.target)
        if any(edge not in edges for edge in taken) or [[end[edge] for edge in taken] for end in ends] != [
            [end[edge] for edge in row["edges"]] for end in ends
        ]:
            raise StoreError(f"{where}: taken has edges that do not join the same nodes as edges, and {there}")
        hops = len(row["edges"])
        if not (1 <= hops == len(row["amounts"]) == len(row["cltv_offsets"]) and -1 <= row["hop"] < hops):
            raise StoreError(f"{where}: it has {hops} edges, and other numbers of amounts, cltv_offsets or hops")
    shards = {row["id"] for row in saved["shards"]}
    if any(number not in shards for _, items in saved["events"] for _, number in items):
        raise StoreError("network/events has one of a shard that is not in network/shards")
    own_payers = not engine.conditions.parameters.payer  # others check what they load
    for payer, _, bounds in saved["mission_control"] if own_payers else ():
        if payer not in nodes or any(edge not in edges for edge, *_ in bounds):
            raise StoreError(f"network/mission_control has a node or an edge that does not exist: {there}")
    balance = saved["balance"]
    if isinstance(balance, dict):
        if any(edge not in edges for edge in balance):
            raise StoreError(f"network/balance has a channel that does not exist: {there}")
    elif len(balance) != edge_count:
        raise StoreError(f"network/balance has {counted(len(balance), 'value')}, and {there}")


def check_closed(engine: Engine, saved: Mapping[str, Any]) -> None:
    """Raise `StoreError` when a closed channel does not exist, or was force closed at a place where it is not."""
    channels = range(engine.graph.channels)
    for channel in saved["closed"]:
        if channel not in channels:
            raise StoreError(f"network/closed has channel {channel}, and the network has {len(channels)} channels")
    for channel, edge, _ in saved.get("force_closed", ()):
        if channel not in saved["closed"] or edge >> 1 != channel:
            raise StoreError(f"network/force_closed has channel {channel} with edge {edge}, which was not closed there")


def check_restored(payments: _Payments, rows: Mapping[str, PaymentRow], invoices: Mapping[str, InvoiceRow]) -> None:
    """Raise `StoreError` when the state of a network that was restored is none that its engine can continue.

    `rows` are the payments by id, `invoices` the invoices by payment hash.
    """
    engine = payments.engine
    _check_balances(engine)
    for session in payments.open_sessions.values():
        _check_session(engine, session, rows.get(session.id))
    in_flight: set[tuple[str, int]] = set()
    for shard in engine.shards.values():
        _check_shard(engine, shard, rows[shard.owner.id])
        in_flight.add((shard.owner.id, shard.number))
    if len(in_flight) != len(engine.shards):
        raise StoreError("network/shards has two of one attempt")
    _check_events(engine)
    for payment_hash, invoice in invoices.items():
        for part in invoice.get("parts", ()):
            payment_id, _, number = part["id"].rpartition(":")
            if part["state"] != HELD or payment_id not in payments.open_sessions:
                continue  # resolved, or the HTLC of another payer
            if not number.isdecimal() or (payment_id, int(number)) not in in_flight:
                raise StoreError(
                    f"the table invoices, row {payment_hash}: the part {part['id']} is held, and network/shards has"
                    " none of that attempt"
                )


def _check_balances(engine: Engine) -> None:
    balance, capacity, in_flight = engine.balance, engine.capacity, engine.in_flight
    for channel in range(engine.graph.channels):
        a, b = balance[2 * channel], balance[2 * channel + 1]
        if a < 0 or b < 0 or a + b + in_flight[channel] != capacity[channel]:
            raise StoreError(
                f"network/balance, channel {channel}: {a} and {b} msat, and {in_flight[channel]} in flight, are not its"
                f" capacity of {capacity[channel]}"
            )


def _check_session(engine: Engine, session: PaymentSession, row: PaymentRow | None) -> None:
    where = f"network/sessions ({cut(session.id, 60)!r})"
    if row is None or row["script"] is None or row["resolved_at"] is not None:
        raise StoreError(f"{where}: id is that of no row in the table payments that has started and not ended")
    owned = sum(shard.owner is session for shard in engine.shards.values())
    checks = {
        "outcome": session.outcome is None,
        "amount_msat": session.amount_msat == row["amount_msat"],
        "attempt_count": session.attempt_count == len(row["attempts"]),
        "parts_in_flight": session.parts_in_flight == owned,
        "fees_msat": session.fees_msat >= 0,
        "fee_limit_msat": session.fee_limit_msat >= 0,
        "final_cltv_blocks": session.final_cltv_blocks >= 0,
        "max_attempts": session.max_attempts >= 1,
        "max_parts": 1 <= session.max_parts <= MAX_PARTS,
        "min_shard_msat": session.min_shard_msat >= 1,
        "received_msat": 0 <= session.received_msat <= session.amount_msat,
        "latency_seed": session.latency_seed >= 0,
    }
    for field, fits in checks.items():
        if not fits:
            raise StoreError(f"{where}: {field} is {getattr(session, field)!r:.60}, which does not fit to its payment")


def _check_shard(engine: Engine, shard: Shard, row: PaymentRow) -> None:
    where, session, hops = f"network/shards ({shard.id})", shard.owner, len(shard.edges)
    policies = engine.policies
    nodes = [policies.source[shard.edges[0]], *(policies.target[edge] for edge in shard.edges)]
    path = [policies.source[edge] for edge in shard.edges]
    known = shard.number < len(row["attempts"])
    checks = {
        "id": 1 <= shard.id <= engine.shard_count,
        "number": shard.number >= 0 and known and row["attempts"][shard.number]["resolved_at"] is None,
        "edges": path == nodes[:-1] and nodes[0] == session.payer and nodes[-1] == session.target and hops <= MAX_HOPS,
        "amounts": min(shard.amounts) >= 1 and shard.amounts == sorted(shard.amounts, reverse=True),
        "cltv_offsets": min(shard.cltv_offsets) >= 0,
        "final_expiry": shard.final_expiry >= 0,
        "phase": shard.phase in (0, 1),
        "settled": shard.settled is None or shard.phase != FORWARD,
        "reporter_hop": 0 <= shard.reporter_hop <= hops,
        "status": shard.status in ("", HELD, WAITING, DELAYED, OFFLINE, DROPPED, ON_CHAIN),
        "times": shard.hop < len(shard.times) <= hops,
        "latency_seed": shard.latency_seed >= 0,
    }
    for field, fits in checks.items():
        if not fits:
            raise StoreError(f"{where}: {field} is {getattr(shard, field)!r:.60}, which does not fit to its payment")


def _check_events(engine: Engine) -> None:
    counts: Counter[int] = Counter()
    for at_ms, shards in engine.queue.events_at.items():
        counts.update(shard.id for shard in shards)
        if at_ms < engine.now:
            raise StoreError(f"network/events has one at {at_ms}, and the network is at {engine.now}")
    if any(count > 1 for count in counts.values()):
        raise StoreError("network/events has two of one shard")
