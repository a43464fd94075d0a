# %% [markdown]
# # Which expiry sells best?
#
# Every invoice needs an expiry. If it is too short, slow customers find an expired invoice. If it is too long, goods
# stay reserved for customers who have left. In this notebook you simulate a few thousand customers and compare.

# %%
import pandas as pd

from leyden import Sandbox, grid, plot_sweep, sweep

# %% tags=["parameters"]
seed = 0
customers = 100  # in each run
replications = 3  # runs of each scenario, with other customers
workers = 1  # None: as many processes as this machine has cores
expiries_s = [15, 30, 60, 120, 300, 600]
customer_groups = {  # think time; its median is the time after which half of the customers have started to pay
    "phone in hand": "lognorm(12s)",
    "phone in the bag": "lognorm(45s)",
    "phone at home": "lognorm(3m)",
}

# %% [markdown]
# ## One run
#
# The function takes a scenario and returns a row of figures. Thirty customers arrive per minute; five per cent never
# pay, and all have limited patience. The figures:
#
# - `conversion`: the share of the Charges that were paid;
# - `reserved_s`: the mean time for which a Charge reserved its goods, until it was paid or expired.


# %%
def shop(s):
    with Sandbox(seed=s.seed) as world:
        world.traffic(
            rate="30/min",
            think_time=s.think_time,
            patience="lognorm(6m)",
            expiresIn=s.expires_s,
            behaviours="choice(pays:95, never:5)",
            count=s.customers,
        )
        world.run()
        charges = world.charges.table
        until = charges["confirmed_at"].fillna(charges["expires_at"])
        reserved_s = (until - charges["created_at"]).dt.total_seconds().mean()
        return {"conversion": world.kpi.conversion, "reserved_s": reserved_s, "median_s": world.kpi.settle_s()}


# %% [markdown]
# ## Every combination
#
# `grid` creates the scenarios and `sweep` runs them. Each replication has the same random numbers in every scenario:
# customer number 17 behaves the same with every expiry. Two rows then differ only by the expiry, and a few hundred
# customers are enough to see the effect.

# %%
scenarios = grid(think_time=list(customer_groups.values()), expires_s=expiries_s, customers=[customers])
runs = sweep(shop, scenarios, replications, seed=seed, workers=workers, progress=False)
runs[["scenario", "replication", "think_time", "expires_s", "conversion", "reserved_s", "median_s", "status"]].head(6)

# %%
names = {think_time: name for name, think_time in customer_groups.items()}
runs["group"] = pd.Categorical(runs["think_time"].map(names), categories=list(customer_groups), ordered=True)
plot_sweep(runs, "conversion", x="expires_s", by="group")

# %% [markdown]
# The vertical lines are the 95 % confidence intervals of the means, over the replications. Where customers pay
# fast, a longer expiry soon stops helping: those who have not paid by then do not pay at all.

# %% [markdown]
# ## The cost of a long expiry

# %%
plot_sweep(runs, "reserved_s", x="expires_s", by="group")

# %% [markdown]
# ## Is the difference real?
#
# The customers are the same, so compare the runs in pairs. For each group: by how many percentage points does the
# conversion rise from one expiry to the next, and in how many replications does it rise?

# %%
wide = runs.pivot(index=["group", "replication"], columns="expires_s", values="conversion")
steps = wide.diff(axis="columns").iloc[:, 1:] * 100
gain = steps.groupby("group", observed=True).mean().round(1)
rises = (steps > 0).groupby("group", observed=True).sum()
gain.astype(str) + "  (" + rises.astype(str) + f" of {replications})"

# %% [markdown]
# ## The answer
#
# It depends on how fast customers pay. Choose the shortest expiry within one percentage point of the best one: a longer
# one only reserves goods for longer.

# %%
means = runs.groupby(["expires_s", "group"], observed=True)[["conversion", "reserved_s"]].mean()
table, reserved = means["conversion"].unstack("group"), means["reserved_s"].unstack("group")
best = table.max()
enough = table.ge(best - 0.01).idxmax()
pd.DataFrame(
    {
        "expiry to choose": enough.map("{} s".format),
        "conversion": [f"{100 * table.loc[enough[group], group]:.0f} %" for group in table],
        "best possible": best.map(lambda share: f"{100 * share:.0f} %"),
        "goods reserved for": [f"{reserved.loc[enough[group], group]:.0f} s" for group in table],
    }
)
