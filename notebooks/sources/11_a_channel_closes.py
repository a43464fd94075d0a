# %% [markdown]
# # The largest channel closes at noon: does it matter?
#
# A shop receives over three channels, and the peer of the largest one closes it at noon. The shop could open another
# channel, but that costs money. Does it have to? In this notebook the same day passes twice, with the channel and
# without it.

# %%
import json
import random

import pandas as pd

from leyden import Sandbox, compare, grid, sweep

# %% tags=["parameters"]
seed = 2
graph_file = None  # the output of `lncli describegraph`; None: a generated one
shop = "shop.example"  # the alias or the public key of the shop's node
rate = "8/h"
amount = "clip(lognorm(15_000sat, 1), 1sat, 500_000sat)"  # a median of 15,000 sat
replications = 16  # each with other balances and customers
workers = 1  # None: as many processes as this machine has cores

# %% [markdown]
# ## The graph
#
# **This graph is generated**, in the format of `lncli describegraph`; the notebook
# [10](10_fees_by_amount.ipynb) explains it. For your own, set `graph_file` and `shop`.


# %%
def describegraph(seed, nodes, channels_of_each):
    rng = random.Random(seed)
    keys = [f"02{rng.getrandbits(256):064x}" for _ in range(nodes)]
    aliases = [f"node {number}" for number in range(nodes - 1)] + ["shop.example"]
    ends, edges = [0], []

    def policy():
        base, rate = rng.choice([0, 1_000, 1_000]), rng.randrange(500)
        fees = {"fee_base_msat": str(base), "fee_rate_milli_msat": str(rate)}
        return {"time_lock_delta": 40, "min_htlc": "1000", "disabled": False, **fees}

    for number in range(1, nodes):
        for peer in sorted({rng.choice(ends) for _ in range(channels_of_each)}):
            capacity = str(round(min(1e8, max(2e4, rng.lognormvariate(13.8, 1.2)))))
            edge = {"channel_id": str(len(edges) + 1), "capacity": capacity}
            edge |= {"node1_pub": keys[number], "node2_pub": keys[peer]}
            edges.append({**edge, "node1_policy": policy(), "node2_policy": policy()})
            ends += [number, peer]
        ends.append(number)
    listed = [{"pub_key": key, "alias": alias} for key, alias in zip(keys, aliases, strict=True)]
    return {"nodes": listed, "edges": edges}


if graph_file is None:
    graph_file = "graph.json"
    with open(graph_file, "w") as file:
        json.dump(describegraph(seed, nodes=300, channels_of_each=3), file)

# %% [markdown]
# ## One day, twice
#
# `at` does an action at a time of the day. The fork has the same balances, customers and random numbers as the
# original; only the action differs.


# %%
def close_largest(sb):
    largest = max(sb.network["shop"].channels, key=lambda channel: channel["capacity_msat"])
    sb.network.close_channel(largest["channel"])


def day(seed):
    network = f"{graph_file},shop={shop}"
    sb = Sandbox(seed=seed, start="2030-01-01T10:00Z", network=network, label="all channels")
    sb.traffic(rate, amount=amount, patience="2m", payers=1_000, duration="6h")
    return sb


sb = day(seed)
without = sb.fork("one less from 12:00")
without.at("12:00", close_largest)
for world in (sb, without):
    world.run("7h")
pd.DataFrame(without.network["shop"].channels)[["peer", "capacity_msat", "remote_msat", "closed"]]

# %%
axes = sb.plot.liquidity()
without.plot.liquidity(ax=axes)

# %% [markdown]
# What the shop could still receive falls by the peer's balance in the channel.

# %%
without.liquidity()

# %%
axes = sb.plot.conversion("1h")
without.plot.conversion("1h", ax=axes)

# %% [markdown]
# In this day the largest channel had nearly all that the shop could receive. In another one, with other balances, it
# may have little of it; so one day says nothing about the next.

# %% [markdown]
# ## The answer
#
# Many days, each twice: with other balances and customers in each replication, and the same in both scenarios. The
# figures of the customers from noon on:
#
# - `conversion`: the share of the Charges that were paid;
# - `received_sat`: what the shop received;
# - `fee_ppm`: what its customers paid for the routes, in millionths of that.


# %%
def afternoon(s):
    with day(s.seed) as sb:
        if s.closes:
            sb.at("12:00", close_largest)
        sb.run("7h")
        kpi = sb.kpis(since="2030-01-01T12:00Z")
        return {
            "conversion": kpi.conversion,
            "received_sat": kpi.received_msat / 1_000,
            "fee_ppm": 1e6 * kpi.fees_msat / (kpi.received_msat or float("nan")),
        }


scenarios = grid(closes=[False, True])
runs = sweep(afternoon, scenarios, replications, seed=seed, workers=workers, progress=False)
answer = compare(runs, {"closes": False})
answer[["metric", "baseline", "difference", "low", "high", "replications"]].round(3)

# %%
pairs = runs.pivot(index="replication", columns="closes", values="conversion")
pd.Series(
    {
        "as many customers paid": (pairs[True] == pairs[False]).sum(),
        "fewer": (pairs[True] < pairs[False]).sum(),
        "half of them or fewer": (pairs[True] <= pairs[False] / 2).sum(),
    },
    name="days",
)

# %% [markdown]
# It matters: the intervals of the conversion and of the revenue are below 0. But the mean hides how much days
# differ. On most of them the other two channels take as many payments; on a few they have so little balance for the
# shop that it loses half of its customers or more. What decides is not the size of the channel that closes, but what
# the others can still receive, and `sb.network["shop"].channels` shows that before noon.
#
# **Try it.** Let the shop answer at 12:10: `sb.network["node 7"].open_channel("shop", 2_000_000_000)`.
