# %% [markdown]
# # How much does it cost a shop that the network is not ideal?
#
# In an ideal network every node is up, every message is fast and no payment gets stuck. In a real one nodes are
# offline, some are slow, and now and then an HTLC hangs. A study of a shop has to say which of them it simulates. In
# this notebook you run the same customers under four conditions, with the same random numbers, and read the differences
# with their confidence intervals.

# %%
from leyden import Sandbox, compare, estimates, grid, plot_sweep, sweep

# %% tags=["parameters"]
seed = 0
shape = "scale-free:60"
duration = "8h"  # of each run, with ten customers an hour
replications = 6  # other networks, balances and customers each
workers = 1  # None: as many processes as this machine has cores
settings = {
    "ideal": "ideal",
    "realistic": "realistic",
    "a bad day": "uptime=0.8,outage=20m,slow=0.3,stuck=0.01",
    "the shop too": "uptime=0.8,outage=20m,slow=0.3,stuck=0.01,shop_uptime=0.9",
}

# %% [markdown]
# ## What the conditions are
#
# A network shows its conditions and who is offline at the moment. `realistic`, the default, is an assumption about the
# public network, not a measurement: `help("leyden.lightning.engine.condition_texts")` has every name with its unit and
# its default.

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z", network=shape, conditions=settings["a bad day"])
sb.network

# %% [markdown]
# Outages are rows of a table. These ended in the first hour:

# %%
sb.advance("1h")
sb.outages.dropna(subset="until")[["node", "at", "until", "shop"]].head()

# %% [markdown]
# ## The same customers, four times
#
# The figures of a run:
#
# - `conversion`: the share of the Charges that were paid;
# - `parts`: the parts that a wallet sent for each payment; more than one means that it had to try again;
# - `settle_s`: the median time from a Charge to its payment, in seconds.


# %%
def shop(s):
    with Sandbox(seed=s.seed, network=shape, conditions=settings[s.conditions]) as sb:
        sb.traffic("10/h", amount="lognorm(20_000sat, 1)", patience="2m", payers=100, duration=duration)
        sb.run()
        kpi = sb.kpi
        return {
            "conversion": kpi.conversion,
            "parts": kpi.attempts / kpi.payments,
            "settle_s": kpi.settle_s(),
        }


scenarios = grid(conditions=list(settings))
runs = sweep(shop, scenarios, replications, seed=seed, workers=workers, progress=False)
estimates(runs)[["conditions", "metric", "mean", "low", "high"]].round(3)

# %%
plot_sweep(runs, "conversion", x="conditions")

# %% [markdown]
# The vertical lines are 95 % intervals of the means. They overlap for the first three, because the replications differ
# by more than the conditions do: each has another network and other customers. So the means alone do not say whether
# a bad day of the others matters to the shop.

# %% [markdown]
# ## The answer
#
# Compare in pairs instead. In each replication the four scenarios have the same channels, customers and amounts; only
# the conditions differ. What is left is the effect of the conditions: the difference from the ideal network, with its
# 95 % interval.

# %%
answer = compare(runs, {"conditions": "ideal"})
columns = ["metric", "conditions", "baseline", "difference", "low", "high"]
answer[columns].sort_values(["metric", "difference"]).round(3)

# %% [markdown]
# An interval without 0 shows a difference. Realistic conditions cost this shop nothing that six replications show. When
# a fifth of the network is down, its customers wait longer, and some do not pay. That they also send more parts is not
# shown: a few payments with many parts make that interval wide. What costs most is the shop's own node, which nobody
# can replace by another route.
#
# How many replications would an interval of 0.05 for the difference of the conversion need? `needed` estimates it. A
# sweep with `width={"conversion": 0.05}` adds replications until the mean of each scenario, for itself, is so exact.

# %%
wanted = compare(runs, {"conditions": "ideal"}, ["conversion"], width=0.05)
wanted[["conditions", "difference", "replications", "needed"]].round(3)

# %% [markdown]
# **Try it.** Which condition matters most? Set one at a time: `"uptime=0.8"`, `"stuck=0.01"`, `"latency=1s"`.
