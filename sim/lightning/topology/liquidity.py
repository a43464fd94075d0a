"""How the capacity of a channel is divided between its two sides, before the first payment: nobody but these knows it.

- `uniform`: any division between the reserves is as likely as any other.
- `bimodal`: nearly all of it is on one side or on the other, as on channels that carry payments one way. The density of
  a side's balance x in a channel with c to spend is proportional to exp(-x / s) + exp((x - c) / s): the distribution
  that LND's bimodal estimator assumes (`routing/probability_bimodal.go`), with its default scale s of 300,000 sat
  (`DefaultBimodalScaleMsat`). LND adds a constant so small that one channel in about 10**8 would be of it; it is left
  out. A channel much smaller than the scale is divided nearly uniformly.
- a function, called once: `function(capacity_msat, rng)` gets the capacities of all channels as an array of int64 and a
  `numpy.random.Generator` that depends on the seed alone, and returns the balance (msat) of the first side of each,
  0 to the capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from leyden.errors import GraphError
from leyden.lightning.topology.graph import Graph, Ints, interleaved

UNIFORM, BIMODAL = "uniform", "bimodal"
SHAPES = (UNIFORM, BIMODAL)
LND_SCALE_SAT = 300_000

LiquidityFunction = Callable[[Ints, np.random.Generator], Any]


def balances(capacity: Ints, drawn: npt.NDArray[np.float64], shape: str, scale_sat: float) -> Ints:
    """The balance (msat) of the first side of channels with these capacities (msat), from numbers that were drawn
    uniformly from 0 to 1. Each side has its reserve, a hundredth of the capacity, at least."""
    reserve = capacity // 100
    spendable = capacity - 2 * reserve
    if shape == BIMODAL:
        # The half of the number says which side is poor; the inverse of the truncated exponential distribution, how.
        is_low = drawn < 0.5
        place = np.where(is_low, 2 * drawn, 2 * (1 - drawn))
        scale_msat = scale_sat * 1_000
        poor = -scale_msat * np.log1p(place * np.expm1(-spendable / scale_msat))
        drawn = np.where(is_low, poor, spendable - poor) / np.maximum(spendable, 1)
    found: Ints = reserve + (spendable * drawn).astype(np.int64)
    return np.clip(found, reserve, capacity - reserve)


def with_liquidity(graph: Graph, rng: np.random.Generator, shape: str, scale_sat: float) -> Graph:
    """The graph with balances drawn in this shape; with an empty one they are drawn, uniformly, only for a graph of a
    file, which has none."""
    if not shape and not graph.is_drawn:
        return graph
    local = balances(graph.capacity_msat, rng.random(graph.channels), shape or UNIFORM, scale_sat)
    return replace(graph, local_msat=interleaved(local, graph.capacity_msat - local))


def with_function(graph: Graph, rng: np.random.Generator, function: LiquidityFunction) -> Graph:
    """The graph with the balances that a function returns, from now on its own. Raises `GraphError` for anything but a
    whole number from 0 to the capacity for each channel; what the function raises itself passes."""
    answer = function(graph.capacity_msat.copy(), rng)
    try:
        local = np.asarray(answer)
    except ValueError:
        local = np.zeros(0)
    wanted = f"liquidity: give {graph.channels} whole numbers of msat, from 0 to the capacity of each channel"
    if local.shape != (graph.channels,) or local.dtype.kind not in "iu":
        raise GraphError(f"{wanted}: the function returned {answer!r:.80}")
    wrong = np.flatnonzero((local < 0) | (local > graph.capacity_msat))
    if len(wrong):
        first = int(wrong[0])
        raise GraphError(f"{wanted}: for channel {first} of {graph.capacity_msat[first]} msat it returned"
                         f" {local[first]}")  # fmt: skip
    local = local.astype(np.int64)
    return replace(graph, local_msat=interleaved(local, graph.capacity_msat - local), is_drawn=False, origin="")
