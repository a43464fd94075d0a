# %% [markdown]
# # Which expiry sells best?
#
# Every invoice needs an expiry, and somebody has to choose it. Too short, and customers who are still looking for their
# phone find a dead invoice. Too long, and goods stay reserved for people who went home. In this notebook you let a few
# thousand customers come, and let them decide.

# %%
import pandas as pd

from leyden import Sandbox, grid, sweep
from leyden.lab.drawings import bars

# %% tags=["parameters"]
seed = 0
visitors = 100  # in each run
replications = 3  # runs of each scenario, with other customers
workers = 1  # None: as many processes as this machine has cores
expiries_s = [15, 30, 60, 120, 300, 600]
crowds = {  # half of the customers have begun to pay after ...
    "phone in hand": "lognorm(12s)",
    "phone in the bag": "lognorm(45s)",
    "phone at home": "lognorm(3m)",
}

# %% [markdown]
# ## One run
#
# A scenario goes in, a row of figures comes out. The shop is busy, thirty visitors a minute; five in a hundred only
# look, and nobody waits for ever. What is measured:
#
# - `conversion`: the share of the Charges that was paid;
# - `reserved_s`: how long a Charge kept its goods from other customers, until it was paid or expired, on average.


# %%
def shop(s):
    with Sandbox(seed=s.seed) as world:
        world.traffic(
            rate="30/min",
            think_time=s.think_time,
            patience="lognorm(6m)",
            expiresIn=s.expires_s,
            behaviours="choice(pays:95, never:5)",
            count=s.visitors,
        )
        world.run()
        charges = world.charges.table
        until = charges["confirmed_at"].fillna(charges["expires_at"])
        reserved_s = (until - charges["created_at"]).dt.total_seconds().mean()
        return {"conversion": world.kpi.conversion, "reserved_s": reserved_s, "median_s": world.kpi.settle_s()}


# %% [markdown]
# ## Every combination
#
# `grid` makes the scenarios and `sweep` runs them. Each replication has the same luck in every scenario: customer
# number 17 is the same person, as quick or slow, whichever expiry he meets. So what differs between two rows is the
# expiry, and a few hundred customers are enough to see it.

# %%
scenarios = grid(think_time=list(crowds.values()), expires_s=expiries_s, visitors=[visitors])
runs = sweep(shop, scenarios, replications, seed=seed, workers=workers, progress=False)
runs[["scenario", "replication", "think_time", "expires_s", "conversion", "reserved_s", "median_s", "status"]].head(6)

# %%
names = {law: name for name, law in crowds.items()}
runs["crowd"] = pd.Categorical(runs["think_time"].map(names), categories=list(crowds), ordered=True)
by = runs.groupby(["expires_s", "crowd"], observed=True)["conversion"]
table = by.mean().unstack("crowd")
bars(
    table.rename(index="{} s".format),
    title="Share of the charges that are paid, by expiry",
    percent=True,
    low=by.min().unstack("crowd"),
    high=by.max().unstack("crowd"),
)

# %% [markdown]
# The thin lines go from the worst replication to the best. Every crowd has a point from which a longer expiry brings
# nothing more: who has not paid by then does not pay at all.

# %% [markdown]
# ## What the patience costs

# %%
reserved = runs.groupby(["expires_s", "crowd"], observed=True)["reserved_s"].mean().unstack("crowd")
bars(reserved.rename(index="{} s".format), title="Seconds for which a charge holds its goods, on average")

# %% [markdown]
# ## Is the difference real?
#
# Because the customers are the same, compare run with run. For each crowd: how much does the conversion rise from one
# expiry to the next, in points of a hundred, and in how many of the replications does it rise at all?

# %%
wide = runs.pivot(index=["crowd", "replication"], columns="expires_s", values="conversion")
steps = wide.diff(axis="columns").iloc[:, 1:] * 100
gain = steps.groupby("crowd", observed=True).mean().round(1)
rises = (steps > 0).groupby("crowd", observed=True).sum()
gain.astype(str) + "  (" + rises.astype(str) + f" of {replications})"

# %% [markdown]
# ## The answer
#
# It depends on where the phone is. Take the shortest expiry that is within one point of the best one: longer ones only
# keep the goods from others.

# %%
best = table.max()
enough = table.ge(best - 0.01).idxmax()
pd.DataFrame(
    {
        "expiry to choose": enough.map("{} s".format),
        "conversion": [f"{100 * table.loc[enough[crowd], crowd]:.0f} %" for crowd in table],
        "best possible": best.map(lambda share: f"{100 * share:.0f} %"),
        "goods reserved for": [f"{reserved.loc[enough[crowd], crowd]:.0f} s" for crowd in table],
    }
)
