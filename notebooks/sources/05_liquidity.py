# %% [markdown]
# # Why can nobody pay my shop any more?
#
# At nine everything worked. At twenty past, customers say that their wallets find no way to you. Nothing is broken:
# your node has simply *received* too much. In this notebook a shop runs dry under your eyes, you look over the shoulder
# of a customer's wallet, and try out what helps.

# %%
import pandas as pd

from leyden import Sandbox
from leyden.lab.drawings import bars, network

# %% tags=["parameters"]
seed = 1
shape = "hub:60"  # sixty nodes, a few of them large; the shop is one of the small ones
rate = "20/min"
amount = "lognorm(3_000_000, 1)"  # msat: half of the customers spend less than 3,000 sat
minutes = 20

# %% [markdown]
# ## A good day
#
# A channel is like a wire with beads: what lies on the other side can come to you, what lies on yours can go away.
# Every payment that arrives moves beads to your side. Here is the shop before it opens. Each tube is a channel, as
# thick as it is large, and filled by what can still flow towards the shop.

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z", network=shape)
network(sb.world)

# %% [markdown]
# Now let customers come, twenty a minute, and note every two minutes how much could still be received.

# %%
customers = {"rate": rate, "amount": amount, "patience": "5m", "payers": 200}
sb.traffic(**customers, duration=f"{minutes}m")
inbound = {}
for _ in range(minutes // 2):
    inbound[sb.now[11:16]] = sb.network["shop"].inbound_msat // 1_000
    sb.run("2m")
sb.run("10m")  # until the last of them is through

day = pd.DataFrame({"inbound, sat": inbound})
bars(day, title="What the shop can still receive, in sat")

# %%
day["could pay"] = [kpi.conversion for _, kpi in sb.kpi.windows("2m")][: len(day)]
bars(day[["could pay"]], title="Share of the customers who could pay, by when they came", percent=True)

# %% [markdown]
# For a quarter of an hour all is well, and then within minutes nobody gets through. The shop did nothing wrong, and
# nothing warned it. What is left in the tubes is a hundredth of each, which has to stay there.

# %%
network(sb.world)

# %% [markdown]
# ## What a customer sees
#
# A wallet knows the map of the network, but not how much lies on which side of a channel. It can only try, and learn
# from what comes back. Here is the customer whose wallet tried hardest, in vain.

# %%
in_vain = sb.payments[sb.payments["outcome"] == "NO_ROUTE"]
hardest = in_vain.loc[in_vain["attempts"].idxmax()]
tried = sb.attempts[sb.attempts["payment"] == hardest["id"]]
tried[["at", "amount_sat", "route", "hop", "name", "retried", "learned"]]

# %%
hardest["outcome"], hardest["reason"], sb.charges[hardest["charge_id"]].status

# %% [markdown]
# `NO_ROUTE` is all that the customer reads; he will think that his wallet is bad, or your shop. (The reason beside it
# is what only the simulation knows.) And you? The Charge expired like any other: the shop sees no trace of somebody who
# wanted to pay. And there is more that it does not see: wallets remember what failed.

# %%
in_vain["attempts"].value_counts().sort_index().rename("customers").to_frame().T

# %% [markdown]
# With 0 attempts nothing was even sent: the node behind that wallet knew already that there is no way.

# %% [markdown]
# ## What helps?
#
# Forks of the same moment, and in each the same customers for five more minutes:
#
# - **nothing** is done;
# - **rebalance**: the shop sends 20,000 sat around in a circle, out of one channel and in through the other;
# - **own channel**: the shop opens a channel to its largest peer, with five million satoshis of its own;
# - **spend**: the shop pays its suppliers over Lightning, with half of what lies on its side;
# - **spend, and wait**: the same, an hour before the customers come;
# - **peer's channel**: the largest peer opens a channel of five million satoshis to the shop.

# %%
channels = sorted(sb.network["shop"].channels, key=lambda channel: channel["capacity_msat"])
small, large = channels[0]["peer"], channels[-1]["peer"]
size_msat = 5_000_000_000

remedies = {
    "nothing": lambda world: None,
    "rebalance": lambda world: world.network["shop"].rebalance(20_000_000, out=large, into=small),
    "own channel": lambda world: world.network["shop"].open_channel(large, size_msat),
    "spend": lambda world: world.network["shop"].drain(outbound=0.5),
    "spend, and wait": lambda world: (world.network["shop"].drain(outbound=0.5), world.run("1h")),
    "peer's channel": lambda world: world.network[large].open_channel("shop", size_msat),
}
rows = []
for name, remedy in remedies.items():
    world = sb.fork(label=name)
    try:
        remedy(world)
    except ValueError as refused:
        print(f"{name}: {refused}")
    begin = world.now
    could = world.network["shop"].inbound_msat // 1_000
    world.traffic(**customers, duration="5m")
    world.run("15m")
    kpi = world.kpis(since=begin)
    tries = kpi.attempts / kpi.payments
    rows.append({"remedy": name, "inbound, sat": could, "can pay": kpi.conversion, "attempts each": round(tries, 2)})
after = pd.DataFrame(rows).set_index("remedy")
after

# %% [markdown]
# ## The answer

# %%
bars(after[["can pay"]], title="Share of the customers who can pay afterwards", percent=True)

# %% [markdown]
# Nobody could pay, because nothing was left on the other side. Money of your own in a new channel lies on *your* side
# and changes nothing. A circle only moves what is there from one channel to another, and nothing is there. What a shop
# that only receives needs, again and again, is a way to spend what it got, or a channel that somebody opens *to* it. A
# new channel helps at once, because nobody has bad memories of it; the old ones are avoided for a while after they work
# again.
#
# **Try it.** `sb.network["shop"].drain(inbound=0.98)` makes any shop dry at once. How dry may yours be before customers
# notice?
