# %% [markdown]
# # How do fees and success change with the amount?
#
# A payment of 100 sat and one of 400,000 sat travel over the same channels, but not with the same chances or at the
# same price. In this notebook customers of a small shop send both, over a graph in the format that LND's
# `lncli describegraph` prints, and each figure has its 95 % interval.

# %%
import json
import random

from leyden import Sandbox, estimates, grid, plot_sweep, sweep

# %% tags=["parameters"]
seed = 0
graph_file = None  # the output of `lncli describegraph`; None: a generated one
shop = "shop.example"  # the alias or the public key of the shop's node
amounts_sat = [100, 1_000, 10_000, 100_000, 200_000, 400_000]
customers = 10  # in each run
replications = 6  # each with other balances and customers
workers = 1  # None: as many processes as this machine has cores

# %% [markdown]
# ## The graph
#
# **This graph is generated**, so that the notebook needs no file and no network: 300 nodes, of which the older ones
# have more channels. Capacities are log-normal with a median of about 1,000,000 sat, and so are proportional fees, with
# a median of 90 millionths; most channels also take one satoshi. These are guesses about the public network, not
# measurements of it. The last node is the shop, with three channels. To use a graph of your own, set `graph_file` and
# `shop`.


# %%
def describegraph(seed, nodes, channels_of_each):
    """A random graph in the form of `lncli describegraph`: numbers are texts."""
    rng = random.Random(seed)
    keys = [f"02{rng.getrandbits(256):064x}" for _ in range(nodes)]
    aliases = [f"node {number}" for number in range(nodes - 1)] + ["shop.example"]
    ends, edges = [0], []  # each node is in `ends` once for each of its channels, and once more

    def policy(capacity_sat):
        return {
            "time_lock_delta": rng.choice([34, 40, 80, 144]),
            "min_htlc": "1000",
            "fee_base_msat": str(rng.choice([0, 1_000, 1_000])),
            "fee_rate_milli_msat": str(round(rng.lognormvariate(4.5, 1.5))),
            "max_htlc_msat": str(capacity_sat * 990),
            "disabled": False,
        }

    for number in range(1, nodes):
        for peer in sorted({rng.choice(ends) for _ in range(channels_of_each)}):
            capacity_sat = round(min(1e8, max(2e4, rng.lognormvariate(13.8, 1.2))))
            edges.append(
                {
                    "channel_id": str(len(edges) + 1),
                    "node1_pub": keys[number],
                    "node2_pub": keys[peer],
                    "capacity": str(capacity_sat),
                    "node1_policy": policy(capacity_sat),
                    "node2_policy": policy(capacity_sat),
                }
            )
            ends += [number, peer]
        ends.append(number)
    listed = [{"pub_key": key, "alias": alias} for key, alias in zip(keys, aliases, strict=True)]
    return {"nodes": listed, "edges": edges}


if graph_file is None:
    graph_file = "graph.json"
    with open(graph_file, "w") as file:
        json.dump(describegraph(seed, nodes=300, channels_of_each=3), file)

sb = Sandbox(seed=seed, network=f"{graph_file},shop={shop}")
sb.network

# %%
sb.liquidity()

# %% [markdown]
# The file has capacities, fees and timelocks, but no balances: nobody publishes those. Each sandbox draws them with its
# seed, uniformly, so that the replications below differ by their balances, too. The intervals contain that uncertainty.

# %% [markdown]
# ## One payment after another
#
# One run is a shop whose customers all pay the same amount, ten of them in an hour. Figures:
#
# - `success`: the share of the customers whose payment succeeded;
# - `fee_ppm`: the routing fees, in millionths of what the shop received;
# - `parts`: the parts that a wallet sent, with those that failed on the way.


# %%
def shop_of(s):
    with Sandbox(seed=s.seed, network=f"{graph_file},shop={shop}") as sb:
        sb.traffic("10/h", amount=f"{s.amount_sat}sat", patience="2m", payers=1_000, count=customers)
        sb.run()
        paid = sb.payments.query("status == 'succeeded'")
        fees_msat, received_msat = paid["fees_msat"].sum(), paid["received_msat"].sum()
        return {
            "success": len(paid) / len(sb.payments),
            "fee_ppm": 1e6 * fees_msat / received_msat if len(paid) else None,
            "parts": sb.kpi.attempts / sb.kpi.payments,
        }


scenarios = grid(amount_sat=amounts_sat)
runs = sweep(shop_of, scenarios, replications, seed=seed, workers=workers, progress=False)
figure = plot_sweep(runs, "success", x="amount_sat")
figure.axes[0].set(xscale="log", ylim=(0, 1.05))
figure

# %%
figure = plot_sweep(runs, "fee_ppm", x="amount_sat")
figure.axes[0].set(xscale="log", ylim=(0, None))
figure

# %% [markdown]
# ## The answer
#
# Means with 95 % intervals over the replications. (Student's interval does not know that a share ends at 1; it is cut
# there.)

# %%
table = estimates(runs)
table["high"] = table["high"].where(table["metric"] != "success", table["high"].clip(upper=1))
digits = table["metric"].map({"success": 2, "fee_ppm": 0, "parts": 1})
table["shown"] = [
    f"{row.mean:,.{n}f} ({max(row.low, 0):,.{n}f} to {row.high:,.{n}f})"
    for row, n in zip(table.itertuples(), digits, strict=True)
]
table.pivot(index="amount_sat", columns="metric", values="shown")[["success", "fee_ppm", "parts"]]

# %% [markdown]
# Small amounts always arrived here; an interval without a width says that all values were equal, and not that another
# one is impossible. For each sat the fee of a small amount is high. It is lowest at about 100,000 sat and higher again
# above. From there on, channels lack balance: wallets divide the amount, and many parts fail. Ten payments of 400,000
# sat are also more than the shop can receive in most of these networks, so that the last of them fail whatever the
# route is. The intervals of large amounts are wide, because few of them arrive, and whether they do depends on balances
# that nobody knows.
#
# **Try it.** Take more replications on all cores (`workers = None`), or your own node's graph.
