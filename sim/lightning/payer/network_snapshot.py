"""Snapshots of a network as JSON values: forks and reopened directories continue from them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from leyden.arguments import ALL_MSAT
from leyden.lightning.engine.background_state import BackgroundState
from leyden.lightning.engine.channel_operations import NewChannel, open_channels, opened_since
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.event_queue import EventQueue
from leyden.lightning.engine.on_chain import ForceClose
from leyden.lightning.engine.shard import Shard
from leyden.lightning.payer.network_checks import FORMER_RECEIVER_EDGE, check_closed, check_saved
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.payer_models.choice import restored_knowledge
from leyden.lightning.payer_models.payer_model import PayerModel
from leyden.lightning.routing.mission_control import MissionControl
from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.undo_log import UndoLog
from leyden.server.errors import StoreError

# What is stored as it is: not references and sets. The hint is found again.
_SESSION_FIELDS = tuple(name for name in PaymentSession.__slots__ if name not in ("hint", "policy_retries"))
_SHARD_FIELDS = tuple(name for name in Shard.__slots__ if name not in ("checked_policies", "owner", "taken", "times"))


def fork_engine(engine: Engine) -> Engine:
    """An engine with the same channels, balances and conditions and nothing in flight: `restore_network` adds that.

    The graph, the router and the conditions are shared: they are replaced, never changed.
    """
    fork = copy(engine)
    UndoLog.__init__(fork)
    fork.balance = engine.balance[:]
    fork.in_flight, fork.slots = [0] * len(engine.in_flight), [0] * len(engine.slots)
    fork.queue, fork.shards = EventQueue(), {}
    fork.intercept = fork.outage = fork.on_first_change = None
    fork.what_is_offline = lambda payment, edge: None
    fork.has_outages = lambda: False
    fork.on_force_close = lambda edge, reason: None
    return fork


def dump_network(
    engine: Engine, sessions: Mapping[Any, PaymentSession], mission_control: MissionControl | PayerModel
) -> dict[str, Any]:
    """The state of a network as JSON values, without the graph. Copies the balances.

    Sessions and shards are in the order of their ids, and payers in that of their nodes: a restored network is written
    as one that ran on.
    """
    return {
        **engine_row(engine),
        "balance": engine.balance.tolist(),
        "sessions": [session_row(session) for _, session in sorted(sessions.items())],
        "shards": [shard_row(shard) for _, shard in sorted(engine.shards.items())],
        "events": [events_row(at_ms, items) for at_ms, items in sorted(engine.queue.events_at.items())],
        "mission_control": mission_control.dump(),
    }


def engine_row(engine: Engine) -> dict[str, Any]:
    """The time and the counters of an engine, and the channels opened and closed."""
    return {
        "now": engine.now,
        "event_count": engine.event_count,
        "shard_count": engine.shard_count,
        "reseeds": [list(pair) for pair in engine.reseeds],
        "opened": opened_since(engine, engine.initial_channels),
        "closed": sorted(engine.closed),
        "force_closed": [[channel, *close] for channel, close in sorted(engine.force_closed.items())],
        "background": list(engine.background),
    }


def session_row(session: PaymentSession) -> dict[str, Any]:
    """A payment session that has not ended."""
    return {
        **{name: getattr(session, name) for name in _SESSION_FIELDS},
        "policy_retries": sorted(session.policy_retries),
    }


def shard_row(shard: Shard) -> dict[str, Any]:
    """A shard in flight."""
    return {
        **{name: getattr(shard, name) for name in _SHARD_FIELDS},
        "owner": shard.owner.id,
        "times": [list(times) for times in shard.times],
        **({"taken": shard.taken} if shard.taken != shard.edges else {}),
    }


def events_row(at_ms: int, items: tuple[Shard, ...]) -> list[Any]:
    """The events of one time, in order: each the word `shard` and the id of the shard."""
    return [at_ms, [["shard", shard.id] for shard in items]]


def restore_network(
    engine: Engine, saved: Mapping[str, Any], secret: Callable[[str], bytes]
) -> tuple[dict[Any, PaymentSession], MissionControl | PayerModel]:
    """Restore a new engine of the same graph, or one from `fork_engine`, to the state `saved`, whose `balance` is a
    list by edge, or a dictionary of the edges that differ from the graph.

    Raises `StoreError` for sessions and shards that are on no node or channel of the graph. Returns the
    sessions that have not ended, by id, and what the payers learned.
    """
    opened = saved["opened"][engine.graph.channels - engine.initial_channels :]
    if opened:
        open_channels(engine, [NewChannel(*row) for row in opened])
    check_closed(engine, saved)
    if not engine.closed.issuperset(saved["closed"]):
        engine.close(saved["closed"])
    engine.force_closed = {channel: ForceClose(*close) for channel, *close in saved.get("force_closed", ())}
    for at, seed in saved["reseeds"][len(engine.reseeds) :]:
        engine.now = at
        engine.reseed(seed, secret)
    engine.background = BackgroundState(*saved.get("background", ()))
    engine.now, engine.event_count, engine.shard_count = saved["now"], saved["event_count"], saved["shard_count"]
    check_saved(engine, saved)
    try:
        if isinstance(saved["balance"], dict):
            for edge, amount_msat in saved["balance"].items():
                engine.balance[edge] = amount_msat
        else:
            engine.balance = array("q", saved["balance"])
    except OverflowError:
        raise StoreError(f"network/balance has a value above {ALL_MSAT} msat, which is all bitcoin") from None
    sessions = {}
    for row in saved["sessions"]:
        session = PaymentSession(row["id"], row["payer"], row["target"], row["amount_msat"])
        for name in _SESSION_FIELDS:
            setattr(session, name, row[name] if name != "cause" else row.get(name))
        session.policy_retries = frozenset(row["policy_retries"]) - {FORMER_RECEIVER_EDGE}
        sessions[session.id] = session
    for row in saved["shards"]:
        route = Route(row["edges"], row["amounts"], row["cltv_offsets"])
        shard = Shard(row["id"], sessions[row["owner"]], row["number"], row["latency_seed"], route, row["final_expiry"])
        for name in _SHARD_FIELDS:
            setattr(shard, name, row[name])
        shard.taken = row.get("taken", shard.edges)
        shard.times = tuple((offered, resolved) for offered, resolved in row["times"])
        engine.shards[shard.id] = shard
        for hop in range(shard.hop + 1):
            engine.in_flight[shard.taken[hop] >> 1] += shard.amounts[hop]
            engine.slots[shard.taken[hop]] += 1
    for at_ms, items in saved["events"]:
        for _, number in items:
            engine.queue.push(at_ms, engine.shards[number])
    return sessions, restored_knowledge(engine, saved["mission_control"])
