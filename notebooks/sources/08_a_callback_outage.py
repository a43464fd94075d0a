# %% [markdown]
# # What does a callback outage of two hours cost?
#
# The shop serves what was paid for when the callback arrives. One day its server is down for two hours. Payments go on,
# because the service takes them, but the shop does not hear of them. Nothing is lost: the service retries. But for how
# long do customers who have paid wait, how much does it depend on the hour, and is it worth replaying the callbacks
# when the server is back?

# %%
import pandas as pd

from leyden import Sandbox, compare, estimates, grid, plot_sweep, sweep

# %% tags=["parameters"]
seed = 0
rate = (
    "daily(10/h, 0:1, 8:3, 12:8, 14:3, 17:6, 21:1)"  # ten customers an hour on average, most at noon and in the evening
)
outage_h = 2
starts_h = [3, 12, 17]  # when the outage begins, UTC
patience_s = 600  # of a customer who has paid
replications = 4
workers = 1  # None: as many processes as this machine has cores

# %% [markdown]
# ## One day
#
# Customers come by the clock. The receiver is down from 12:00 to 14:00: connections are refused.


# %%
def day(seed, start_h, outage_h, replay):
    sb = Sandbox(seed=seed, start="2030-01-01T00:00Z")
    end = f"2030-01-01T{start_h + outage_h:02}:00Z"
    sb.receiver("shop").behaves(latency="lognorm(80ms)", down=(f"2030-01-01T{start_h:02}:00Z", end))
    sb.traffic(rate, patience="lognorm(2m)", callbackUrl="http://shop.localhost/paid", duration="1d")
    if replay:
        sb.at(end, lambda sb: sb.replay_deliveries(status="pending", event="charge.completed"))
    return sb


sb = day(seed, 12, outage_h, replay=False)
sb.run()
sb.plot.conversion("2h")

# %% [markdown]
# The outage does not show in what was paid: customers pay the service's invoice, not the shop. It shows in the attempts
# to deliver the callbacks. The first attempt of everybody who paid in these two hours failed, and so did the next.

# %%
sb.plot.retries()

# %% [markdown]
# ## How long do those who have paid wait?
#
# For each paid Charge: the time from the payment to the end of the first attempt that the shop answered with 200, by
# the hour of the payment.


# %%
def waits(sb):
    paid = sb.charges.table.query("status == 'completed'").set_index("id")
    told = sb.callbacks.query("event == 'charge.completed' and http_status == 200").groupby("charge_id")["answered_at"]
    table = pd.DataFrame({"paid_at": paid["confirmed_at"], "told_at": told.min(), "amount_sat": paid["amount_sat"]})
    table = table.dropna()
    return table.assign(wait_s=(table["told_at"] - table["paid_at"]).dt.total_seconds())


one = waits(sb)
hours = one["wait_s"].groupby(one["paid_at"].dt.hour)
shown = pd.DataFrame(
    {"customers": hours.size(), "median, s": hours.median().round(1), "longest, s": hours.max().round()}
)
shown.loc[10:16].rename_axis("hour")

# %% [markdown]
# The waits end long after the server is back. The service waits longer after each failure: 5 seconds, 5 minutes, half
# an hour, two hours, each by up to 20 % more or less. The callback of a customer who paid at 12:10 meets the server
# down at about 12:15 and 12:45, and the next attempt comes at about 14:45.

# %%
late_min = one["wait_s"].loc[one["wait_s"] > 30] / 60
axes = late_min.plot.hist(
    bins=24, figsize=(7.2, 3), xlabel="minutes from the payment to the callback", ylabel="customers"
)

# %% [markdown]
# ## Every hour, with and without a replay
#
# Three beginnings of the outage, and two ways of coming back: wait for the retries, or replay what is pending at that
# instant (`sb.replay_deliveries`). The replications have other customers each, the same for every scenario. The
# figures:
#
# - `waited`: customers who had paid and waited for more than ten minutes;
# - `hours`: the sum of their waiting times;
# - `held_sat`: what they had paid.


# %%
def outage(s):
    with day(s.seed, s.start_h, s.outage_h, s.replay) as world:
        world.run()
        late = waits(world).query("wait_s > @s.patience_s")
        return {
            "waited": len(late),
            "hours": late["wait_s"].sum() / 3_600,
            "held_sat": float(late["amount_sat"].sum()),
            "delivered": world.kpi.delivered_share,
        }


scenarios = grid(start_h=starts_h, replay=[False, True], outage_h=[outage_h], patience_s=[patience_s])
runs = sweep(outage, scenarios, replications, seed=seed, workers=workers, progress=False)
plot_sweep(runs, "waited", x="start_h", by="replay")

# %%
plot_sweep(runs, "hours", x="start_h", by="replay")

# %% [markdown]
# The lines are the means over the replications with their 95 % confidence intervals. The number of customers depends on
# the hour as the traffic does. A replay cannot help those who waited while the server was down, but it ends their wait
# when it is back.
#
# What does the replay save? `compare` takes the difference pair by pair, with the same customers, so that what
# differs between days leaves the interval.

# %%
saved = pd.concat(
    compare(runs[runs["start_h"] == start_h], {"replay": False}, ["waited", "hours"]) for start_h in starts_h
)
saved[["start_h", "metric", "baseline", "difference", "low", "high"]].round(1).reset_index(drop=True)

# %% [markdown]
# ## The answer
#
# The cost of an outage of two hours, by its beginning, as mean and 95 % interval:

# %%
found = estimates(runs, ["waited", "hours", "held_sat", "delivered"])
found["shown"] = found.apply(
    lambda row: f"{row['mean']:,.0f} ({max(row['low'], 0):,.0f} to {row['high']:,.0f})", axis=1
)
answer = found[found["metric"] != "delivered"].pivot(index=["start_h", "replay"], columns="metric", values="shown")
answer[["waited", "hours", "held_sat"]]

# %%
runs.groupby("replay")["delivered"].min()

# %% [markdown]
# No callback is lost (`delivered` is 1), and no payment either. The cost is the waiting time of customers who have
# paid: at noon it is many times that of the night. About half of it passes after the server is back, because the
# retries come later and later. So: plan maintenance for the hours with the fewest customers, and replay what is pending
# as soon as the server is back. A shop that reads a Charge when the customer asks (`GET /v0/charges/{id}`) need not
# wait at all.
#
# **Try it.** Add a campaign to the rate, ` + burst(40, 6h)`: what does its outage cost? Or let the receiver fail for a
# share of the callbacks all day: `behaves(failure=0.2)`.
