"""Where the shop and the wallets are in a network. It decides more than most conditions whether payments arrive.

`shop` is `random`, `largest` (the node with the most channels) or the name of a node; by default the shop of a
scale-free network has 10 to 50 channels, as somebody has who wants to be paid. `payers` is `funded`, the default: nodes
that have at least 1,000,000 sat of their own and two channels; or `random`: any node but the shop's.

The chance that a payment has a way in `scale-free:1000` with uniform liquidity, in any number of parts, without fees
and limits of HTLCs; 4,000 pairs for each line (20 wallets in each of 200 networks), by
`python -m tests.support.way_chances --seeds 200`:

| placement                 | 1,000 sat | 10,000 sat | 100,000 sat | 1,000,000 sat |
|---------------------------|-----------|------------|-------------|---------------|
| as by default             | 1.000     | 1.000      | 0.998       | 0.975         |
| payers=random             | 0.992     | 0.917      | 0.667       | 0.390         |
| shop=random               | 0.995     | 0.934      | 0.677       | 0.383         |
| shop=random,payers=random | 0.988     | 0.862      | 0.455       | 0.153         |
| shop=largest              | 1.000     | 1.000      | 0.998       | 0.974         |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leyden.errors import GraphError
from leyden.lightning.topology.graph import Graph
from leyden.server.printable import cut
from leyden.server.spelling import closest

RANDOM, LARGEST, FUNDED = "random", "largest", "funded"
SHOP_PLACES, PAYER_PLACES = (RANDOM, LARGEST), (FUNDED, RANDOM)

# A node with funds: wallets are on these by default.
FUNDED_MSAT, FUNDED_CHANNELS = 1_000_000_000, 2


def shop_of(graph: Graph, place: str, secret: Callable[[str], bytes]) -> int:
    """The number of the shop's node: by its place, which may be empty. Raises `GraphError` for a name of no node."""
    if place == RANDOM:
        rng = np.random.default_rng(int.from_bytes(secret("shop"), "big"))
        return int(rng.random() * len(graph.names))
    if place == LARGEST or (not place and graph.shop is None):
        return int(graph.degree.argmax())
    if not place:
        assert graph.shop is not None
        return graph.shop
    for names in (graph.keys, graph.names):
        if place in names:
            return names.index(place)
    near = closest(place, [*SHOP_PLACES, *graph.names[:1000]])
    mend = f"did you mean {near}" if near else f"give {', '.join(SHOP_PLACES)} or the name of a node"
    raise GraphError(f"conditions: shop={cut(place, 60)!r} is no node of this network: {mend}")
