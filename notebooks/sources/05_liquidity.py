# %% [markdown]
# # Why can nobody pay my shop any more?
#
# At nine o'clock payments worked. At twenty past nine, customers report that their wallets find no route. Nothing is
# broken: your node has *received* too much. In this notebook a shop uses up its inbound liquidity. You see what a
# customer's wallet sees, and compare six remedies.

# %%
import pandas as pd

from leyden import Sandbox

# %% tags=["parameters"]
seed = 1
shape = "hub:60"  # sixty nodes, a few of them large; the shop is one of the small ones
rate = "20/min"
amount = "lognorm(3_000_000, 1)"  # msat: half of the customers spend less than 3,000 sat
minutes = 20

# %% [markdown]
# ## A good day
#
# A channel has two balances: the balance of the other side can move to you, your own balance can move away. Every
# received payment moves some of it to your side. This is the shop before it opens. Each line is a channel; its
# thickness is the capacity, its filled part is the balance that can still move towards the shop.

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z", network=shape)
sb.liquidity()

# %% [markdown]
# Now customers arrive, twenty a minute. Every payment moves balance from the other side to the shop's.

# %%
customers = {"rate": rate, "amount": amount, "patience": "5m", "payers": 200}
sb.traffic(**customers, duration=f"{minutes}m")
sb.run(f"{minutes + 10}m")  # until nearly all payments have ended
sb.plot.liquidity()

# %% [markdown]
# The share of the customers who could pay, by the time at which their Charge was created:

# %%
sb.plot.conversion("2m")

# %% [markdown]
# For a quarter of an hour payments work, then within minutes hardly any succeeds, without any warning to the shop. The
# rest in the channels is the reserve, one per cent of each, which cannot be spent.

# %%
sb.liquidity()

# %% [markdown]
# ## What a customer sees
#
# A wallet knows the channel graph, but not the balances. It can only try routes, and learn from the failures. This is
# the failed payment with the most attempts.

# %%
failed = sb.payments[sb.payments["outcome"] == "NO_ROUTE"]
longest = failed.loc[failed["attempts"].idxmax()]
tries = sb.attempts[sb.attempts["payment_id"] == longest["id"]]
tries[["at", "amount_sat", "route", "hop", "failure", "retried", "learned"]]

# %%
longest["outcome"], longest["reason"], sb.charges[longest["charge_id"]].status

# %% [markdown]
# The customer sees only `NO_ROUTE`, and may blame the wallet or the shop. (Only the simulation knows the reason beside
# it.) The shop sees a Charge that expired like any other: there is no trace of an attempted payment. It also does not
# see that wallets remember failures.

# %%
failed["attempts"].value_counts().sort_index().rename("customers").to_frame().T

# %% [markdown]
# With 0 attempts nothing was sent: the wallet's node already knew from earlier failures that there is no route.

# %% [markdown]
# ## What helps?
#
# Each remedy gets a fork of the same instant, with the same customers for five more minutes:
#
# - **nothing**: no action;
# - **rebalance**: the shop sends 20,000 sat in a circle, out through one channel and in through the other;
# - **own channel**: the shop opens a channel to its largest peer, with five million satoshis of its own;
# - **spend**: the shop pays its suppliers over Lightning, with half of its outbound balance;
# - **spend, and wait**: the same, an hour before the customers arrive;
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
bars = after["can pay"].plot.barh(figsize=(7.2, 3), xlim=(0, 1), ylabel="")
bars.set_xlabel("share of the customers who can pay afterwards")
bars.invert_yaxis()

# %% [markdown]
# No payment succeeded because the shop had no inbound liquidity left. A new channel funded by the shop adds balance on
# *its own* side and changes nothing. Rebalancing moves inbound balance between channels, and there is none. A shop that
# only receives must regularly spend what it received, or get a channel that a peer opens *to* it. A new channel helps
# at once, because no wallet remembers failures on it; wallets avoid the old ones for a while after they work again.
#
# **Try it.** `sb.network["shop"].drain(inbound=0.98)` removes the inbound liquidity at once. How much can a shop lose
# before customers notice?
