# %% [markdown]
# # Can a customer still pay in the last second?
#
# An invoice can be paid until it expires. Every shop has a customer who pays just at that instant, but in production
# this is hard to reproduce. Here you stop the clock around the expiry and try each case.

# %%
import pandas as pd

from leyden import Sandbox

# %% tags=["parameters"]
seed = 7
expires_in_s = 60
edges_ms = [-1000, -1, 0, 1, 1000]  # the time of the payment, relative to the expiry; -1 and 0 are used below

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
charge = sb.charges.create(
    amount="250000", description="Late", expiresIn=expires_in_s, callbackUrl="http://shop.localhost/paid"
)
charge

# %% [markdown]
# ## One fork per case
#
# Time in a sandbox only moves forward. To try several continuations, create a **fork** for each: an independent copy of
# the sandbox. Nothing in a fork changes the original.
#
# Each fork moves to an instant shortly before, at, or after the expiry. There Bob pays.

# %%
worlds = {}
for edge_ms in edges_ms:
    world = worlds[edge_ms] = sb.fork(label=f"{edge_ms:+} ms")
    world.advance_to(charge.expires_at, offset=f"{edge_ms}ms")
    world.wallet("bob").pay(charge, late=True)  # by itself a wallet pays no expired invoice
    world.run()

charges = pd.concat([world.charges[["world", "status"]] for world in worlds.values()], ignore_index=True)
payments = pd.concat([world.payments[["payer", "outcome"]] for world in worlds.values()], ignore_index=True)
pd.concat([charges, payments], axis=1)

# %% [markdown]
# One millisecond before the expiry the payment counts. At the expiry itself it does not: a Charge must be paid *before*
# it expires. A wallet only sees `INCORRECT_PAYMENT_DETAILS`, the same failure as for a wrong amount. The cause is known
# to the simulation alone:

# %%
worlds[0].payments["reason"].item()

# %% [markdown]
# ## What else is different?
#
# `diff` compares two sandboxes row by row and lists the fields that differ. `here` is the fork one millisecond before
# the expiry, `there` the fork at the expiry. Shown is what the shop, its node and its customer can see.

# %%
before, at = worlds[-1], worlds[0]
found = before.diff(at)
seen = found["table"].isin(["charges", "payments", "deliveries", "balances"]) & ~found["field"].isin(["body", "reason"])
found.loc[seen, ["table", "field", "here", "there"]]

# %% [markdown]
# ## Both timelines

# %%
before.charges[charge.id].timeline()

# %%
at.charges[charge.id].timeline()

# %% [markdown]
# In the second fork Bob pays in the same millisecond as the expiry, and the expiry comes first. Both shops get a
# callback at once: `charge.completed` in the first, `charge.expired` in the second.

# %% [markdown]
# ## A held payment
#
# A node may also *hold* a payment: it has arrived, but the node has not settled it. What happens when the Charge
# expires meanwhile?

# %%
held = sb.fork(label="held")
payment = held.wallet("bob").pay(charge, outcome="hold")
held.advance("1s")
before_expiry = payment.status, held.charges[charge.id].status
held.run()
before_expiry, (payment.status, payment.outcome, held.charges[charge.id].status)

# %%
held.charges[charge.id].timeline()

# %% [markdown]
# ## Another interpretation
#
# Other services may decide this case differently. An *overlay* changes one rule of the specification; with this one a
# payment at the instant of the expiry still counts. Here Bob schedules each payment so that it arrives at the instant.

# %%
rows = []
for overlays in ([], ["payable-at-expiry"]):
    other = Sandbox(seed=seed, start="2030-01-01T09:00Z", overlays=overlays)
    late = other.charges.create(amount="250000", description="Late", expiresIn=expires_in_s)
    for edge_ms in edges_ms:
        world = other.fork()
        world.wallet("bob").pay(late, delay=expires_in_s + edge_ms / 1000)
        world.run()
        interpretation = " ".join(overlays) or "as specified"
        rows.append(
            {"interpretation": interpretation, "arrives": f"{edge_ms:+} ms", "status": world.charges[late.id].status}
        )
pd.DataFrame(rows).pivot(index="interpretation", columns="arrives", values="status")[
    [f"{edge:+} ms" for edge in edges_ms]
]

# %% [markdown]
# ## The answer
#
# Yes: in the last second, and even in the last millisecond, but not at the expiry itself. If your shop shows a
# countdown, let it reach zero a few seconds early: a payment needs time to arrive, and the time of its *arrival*
# counts.
#
# **Try it.** Set `expires_in_s` to 1. Does anything change except the times?
