"""An audit of a network's channels, for tests and benchmarks."""

from __future__ import annotations

from leyden.lightning.engine.engine import Engine


def audit(engine: Engine) -> None:
    """Add up every channel again, and the HTLCs in flight from the shards."""
    in_flight, slots = [0] * len(engine.in_flight), [0] * len(engine.slots)
    for shard in engine.shards.values():
        for hop in range(shard.hop + 1):
            edge = shard.taken[hop]
            in_flight[edge >> 1] += shard.amounts[hop]
            slots[edge] += 1
    assert in_flight == engine.in_flight
    assert slots == engine.slots
    for channel, capacity in enumerate(engine.capacity):
        a, b = engine.balance[2 * channel], engine.balance[2 * channel + 1]
        assert a >= 0, channel
        assert b >= 0, channel
        assert a + b + in_flight[channel] == capacity, channel
