"""What each edge carries of an amount at which cost, as in Core Lightning's askrene (plugins/askrene/child/mcf.c)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import log

import numpy as np
import numpy.typing as npt

from leyden.lightning.payer_models.flow_refinement import Limits
from leyden.lightning.payer_models.min_cost_flow import Steps

MU_MAX = 100
PIVOTS = (0.0, 0.5, 0.8, 0.95)
_SHARES = [high - low for low, high in pairwise(PIVOTS)]
_SLOPES = [log((1 - low) / (1 - high)) / (high - low) for low, high in pairwise(PIVOTS)]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def edge_steps(
    limits: Limits, amount_msat: int, unit_msat: int, mu: int, delay_weight: float
) -> Callable[[int], Steps | None]:
    """The function of an edge's steps for an amount in units; None for an edge that carries none of it.

    Its costs are `mu` times the fee and 100 - `mu` times the cost of probability, which the ratio of the medians makes
    comparable.
    """
    units = -(-amount_msat // unit_msat)
    usable, low, high = _bounds(limits, amount_msat)
    most = limits.policies.column("htlc_max_msat")
    fees = _fees(limits, amount_msat, delay_weight, is_single=units == 1)
    if units == 1:
        capacities, costs = single_steps(low, high, most, amount_msat)
    else:
        capacities, costs = channel_steps(low, high, most, amount_msat, unit_msat)
    capacities[~usable] = 0
    is_arc = capacities > 0
    weight = _ratio(costs[is_arc], np.broadcast_to(fees[:, None], costs.shape)[is_arc])
    combined = (fees[:, None] * mu + (MU_MAX - mu) * costs * weight).astype(np.int64)
    carries, capacities_of, costs_of = is_arc.max(axis=1).tolist(), capacities.tolist(), combined.tolist()

    def steps(edge: int) -> Steps | None:
        return Steps(capacities_of[edge], costs_of[edge]) if carries[edge] else None

    return steps


def channel_steps(low: Ints, high: Ints, most: Ints, amount_msat: int, unit_msat: int) -> tuple[Ints, Floats]:
    """By edge the units that it carries at each cost, and these costs: certain units first, then those down to the
    probabilities 0.5, 0.2 and 0.05. `most` is the largest HTLC."""
    a, b = np.minimum(low, high) // unit_msat, 1 + high // unit_msat
    room = np.minimum(most // unit_msat, -(-amount_msat // unit_msat))
    capacities, costs = np.zeros((len(a), 4), dtype=np.int64), np.zeros((len(a), 4))
    for step in range(4):
        wanted = (_SHARES[step - 1] * (b - a)).astype(np.int64) if step else a
        capacities[:, step] = np.minimum(wanted, room)
        room = room - capacities[:, step]
        if step:
            costs[:, step] = _SLOPES[step - 1] * 1000 * (amount_msat / unit_msat) / (b - a)
    return capacities, costs


def single_steps(low: Ints, high: Ints, most: Ints, amount_msat: int) -> tuple[Ints, Floats]:
    """The same for the whole amount over one path."""
    fits = (amount_msat <= most) & (amount_msat <= high)
    above = high + 1
    likely = np.where(fits, (above - amount_msat) / np.maximum(above - np.minimum(low, high), 1), 1.0)
    costs = np.where(amount_msat > np.minimum(low, high), -np.log(likely), 0.0)
    return fits.astype(np.int64)[:, None], costs[:, None]


def _bounds(limits: Limits, amount_msat: int) -> tuple[npt.NDArray[np.bool_], Ints, Ints]:
    """By edge whether it is used, and the bounds of what it carries."""
    policies = limits.policies
    usable = ~policies.column("disabled")
    usable[list(limits.local)] = True
    usable &= policies.column("htlc_min_msat") <= amount_msat
    usable[list(limits.disabled)] = False
    low, high = np.zeros(len(usable), dtype=np.int64), np.repeat(np.array(limits.capacity, dtype=np.int64), 2)
    for edge in limits.known.keys() | limits.reserved.keys():
        low[edge], high[edge] = limits.bounds(edge)
    return usable, low, high


def _fees(limits: Limits, amount_msat: int, delay_weight: float, *, is_single: bool) -> Ints:
    """The fee of each edge: of the amount (msat) for a single path, and else in millionths, as if a tenth of the amount
    was sent over it; the payer's own cost nothing."""
    policies = limits.policies
    base, ppm, blocks = policies.column("base_msat"), policies.column("ppm"), policies.column("cltv_delta")
    if is_single:
        fees = base + amount_msat * ppm // 1_000_000 + delay_weight * blocks
    else:
        fees = ppm + base * (10_000_000 / amount_msat) + blocks * delay_weight
    whole: Ints = fees.astype(np.int64)
    whole[list(limits.local)] = 0
    return whole


def _ratio(costs: Floats, fees: Ints) -> float:
    """The median fee for the median cost of probability."""
    middle = len(costs) // 2
    if not len(costs) or (median := float(np.sort(costs)[middle])) < 0.001:
        return 1.0
    return float(np.sort(fees)[middle]) / median
