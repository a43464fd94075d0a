"""The policies of generated channels: fees, deltas and limits of HTLCs, and which directions are disabled.

`2021`, the default: shares and quantiles of the snapshot of about 2021 (`leyden.lightning.topology.scale_free`). The
largest HTLC is the capacity without the reserves, and nothing is disabled.

`2024`: fees of autumn 2024, from the charts and `data/FeeES.csv` of github.com/sorukumar/plebdashboard (commit 7e9236a;
46,978 channels of 12,041 nodes, 97,000 directions). Of their directions

- 41.2 % have no base fee, 57.5 % one of 1 to 10 sat, 0.7 % up to 100, 0.2 % up to 1,000 and 0.4 % more; the median is
  1,000 msat;
- 11.1 % have a proportional fee of 0 ppm, 32.9 % one of 1 to 10, 11.4 % of 11 to 100, 32.5 % of 101 to 1,000 and 12.1 %
  a higher one; the median is 80 ppm, in channels of 1,000,000 sat and more 175, of 10,000,000 sat and more 500.

No source was found for these, which are assumptions: where the values are within a class (LND's defaults of 1,000 msat
and 1 ppm are the most frequent in theirs, and the highest fee is 5,000 ppm), that both fees are independent, that 10 %
of the directions are disabled, each by itself, and that a quarter have a largest HTLC of 10 to 90 % of the capacity,
uniformly. The other largest HTLCs, deltas and smallest HTLCs are as in `2021`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leyden.lightning.topology.graph import Ints
from leyden.lightning.topology.scale_free import logistic, normal

Floats = npt.NDArray[np.float64]

FEES_2021, FEES_2024 = "2021", "2024"
FEES = (FEES_2021, FEES_2024)

# Quantiles of the proportional fee.
_PPM = ((0.0, 0.67, 0.75, 0.90, 0.95, 0.99, 1.0), (1, 1, 10, 300, 1_000, 4_000, 4_000))
_PPM_OF_2024 = ((0.111, 0.36, 0.44, 0.5, 0.554, 0.879, 1.0), (1, 1, 10, 80, 100, 1_000, 5_000))
# The correlation of its normal score with that of the capacity: the medians of large channels are then as above.
_BY_CAPACITY = 0.42
_BASE_OF_2024 = ((0.412, 0.987, 0.994, 0.996, 1.0), (0, 1_000, 30_000, 300_000, 2_000_000))
_DISABLED, _LIMITED, _LIMITS = 0.1, 0.25, (0.1, 0.9)


def policies_of_2021(capacity: Ints, rng: np.random.Generator) -> list[Ints]:
    """The six columns by edge that `leyden.lightning.topology.graph.assemble` takes, for capacities in msat."""
    edges = 2 * len(capacity)
    at, values = _PPM
    return [
        _picked(rng.random(edges), (0.58, 0.74, 0.83, 0.90, 0.96, 1.0), (1_000, 1, 0, 100, 500, 5_000)),
        np.interp(rng.random(edges), at, values).astype(np.int64),
        _picked(rng.random(edges), (0.55, 0.84, 1.0), (40, 144, 80)),
        _picked(rng.random(edges), (0.83, 0.97, 1.0), (1_000, 1, 10_000)),
        np.repeat(capacity - capacity // 100, 2),
        np.zeros(edges, dtype=np.int64),
    ]


def policies_of_2024(capacity: Ints, former: list[Ints], rng: np.random.Generator) -> list[Ints]:
    """The columns of `policies_of_2021` with the fees, the largest HTLCs and the disabled edges of 2024."""
    _, _, deltas, least, most, _ = former
    edges = len(most)
    ranks = np.argsort(np.argsort(np.repeat(capacity, 2) + rng.random(edges)))
    share = (ranks + 0.5) / edges
    score = _BY_CAPACITY * logistic(share) + (1 - _BY_CAPACITY**2) ** 0.5 * normal(edges, rng)
    places = (np.argsort(np.argsort(score)) + 0.5) / edges
    at, values = _PPM_OF_2024
    rates = np.where(places < at[0], 0, np.exp(np.interp(places, at, np.log(values))))
    is_limited, limits = rng.random(edges) < _LIMITED, _LIMITS[0] + (_LIMITS[1] - _LIMITS[0]) * rng.random(edges)
    return [
        _picked(rng.random(edges), *_BASE_OF_2024),
        np.rint(rates).astype(np.int64),
        deltas,
        least,
        np.where(is_limited, (np.repeat(capacity, 2) * limits).astype(np.int64), most),
        (rng.random(edges) < _DISABLED).astype(np.int64),
    ]


def _picked(drawn: Floats, upto: tuple[float, ...], values: tuple[int, ...]) -> Ints:
    places = np.searchsorted(upto, drawn, side="right").clip(max=len(values) - 1)
    picked: Ints = np.array(values, dtype=np.int64)[places]
    return picked
