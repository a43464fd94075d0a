"""A receiver without invoices, for tests and benchmarks of the network alone."""

from __future__ import annotations

from leyden.lightning.engine.engine import Engine, ReceiverDecision
from leyden.lightning.engine.htlc import SETTLED, WAITING
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FailureCode


def receive_sets(engine: Engine) -> None:
    """Let every receiver collect the shards of a payment session and settle them when they add up to its amount."""

    def receive(shard: Shard) -> ReceiverDecision:
        amount_msat = shard.amounts[-1]
        if amount_msat < shard.owner.amount_msat:
            earlier = [other for other in _waiting(engine) if other.owner is shard.owner]
            if amount_msat + sum(other.amounts[-1] for other in earlier) < shard.owner.amount_msat:
                return WAITING, 0, ""
            for other in earlier:
                engine.resolve(other, True)
        return SETTLED, 0, ""

    engine.on_arrival = receive


def fail_incomplete_sets(engine: Engine) -> bool:
    """Fail the shards that wait for others, as after BOLT 4's MPP timeout; False if none waits."""
    incomplete = _waiting(engine)
    for shard in incomplete:
        engine.resolve(shard, False, FailureCode.MPP_TIMEOUT, "the other parts did not arrive in time")
    return bool(incomplete)


def finish(engine: Engine) -> None:
    """Process all events. A set that is incomplete when nothing else is scheduled fails."""
    while True:
        while (due := engine.next_event_ms()) is not None:
            engine.run(due)
        if not fail_incomplete_sets(engine):
            return


def _waiting(engine: Engine) -> list[Shard]:
    return [shard for shard in engine.shards.values() if shard.status == WAITING]
