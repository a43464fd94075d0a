# %% [markdown]
# # Can a customer still pay in the last second?
#
# An invoice is good for a while, and then it is not. Between the two lies one instant, and every shop has a customer
# who pays exactly then. Waiting for that to happen in real life takes patience. Here you stop the clock one second
# before, and try all the ways in which it could go on.

# %%
import pandas as pd

import leyden.lab.drawings
from leyden import Sandbox

# %% tags=["parameters"]
seed = 7
expires_in_s = 60
edges_ms = [-1000, -1, 0, 1, 1000]  # when the payment is made, counted from the expiry; -1 and 0 are needed below

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
charge = sb.charges.create(
    amount="250000", description="Late", expiresIn=expires_in_s, callbackUrl="http://shop.localhost/paid"
)
charge

# %% [markdown]
# ## One past, five presents
#
# Time in a sandbox only goes forwards. To try something, make a **fork**: a second world that stands where this one
# stands and goes its own way. The first one never notices.
#
# So let each fork walk up to the expiry, stop a little before, at, or after it, and let Bob pay there.

# %%
worlds = {}
for edge_ms in edges_ms:
    world = worlds[edge_ms] = sb.fork(label=f"{edge_ms:+} ms")
    world.advance_to(charge.expires_at, offset=f"{edge_ms}ms")
    world.wallet("bob").pay(charge)
    world.run()

told = pd.concat([world.charges[["world", "status"]] for world in worlds.values()], ignore_index=True)
heard = pd.concat([world.payments[["payer", "outcome"]] for world in worlds.values()], ignore_index=True)
pd.concat([told, heard], axis=1)

# %% [markdown]
# The answer is sharp. One millisecond before the expiry the payment counts. At the instant itself it no longer does:
# a Charge has to be paid *before* it expires. And Bob is not told any of this: all that a wallet learns is
# `INCORRECT_PAYMENT_DETAILS`, the same as for a wrong amount. Why it was really refused, only the simulation knows:

# %%
worlds[0].payments["reason"].item()

# %% [markdown]
# ## What else is different?
#
# `diff` compares two worlds, row by row and field by field, and leaves out what is the same in both. `here` is the fork
# that stopped a millisecond before the expiry, `there` the one that stopped at it. The journal knows more; this is what
# the shop, its node and its customer could see.

# %%
before, at = worlds[-1], worlds[0]
found = before.diff(at)
seen = found["table"].isin(["charges", "payments", "deliveries", "balances"]) & (found["field"] != "body")
found.loc[seen, ["table", "field", "here", "there"]]

# %% [markdown]
# ## Both stories

# %%
before.charges[charge.id].timeline()

# %%
at.charges[charge.id].timeline()

# %% [markdown]
# In the second world Bob comes within the very millisecond of the expiry, and still the Charge is gone before he has
# pressed the button. Both shops were told at once, the one of its money, the other that this Charge is over.

# %% [markdown]
# ## Arrived in time, and not taken yet
#
# A node may also *hold* a payment: the money is there, but the node has not taken it. What if the Charge expires
# meanwhile?

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
# ## Another reading
#
# Not every service draws the line there. An *overlay* changes one rule of the specification; this one lets the very
# instant of the expiry still count. Bob sends his payment at once here, and it is under way just so long that it
# arrives at the edge.

# %%
rows = []
for overlays in ([], ["payable-at-expiry"]):
    other = Sandbox(seed=seed, start="2030-01-01T09:00Z", overlays=overlays)
    late = other.charges.create(amount="250000", description="Late", expiresIn=expires_in_s)
    for edge_ms in edges_ms:
        world = other.fork()
        world.wallet("bob").pay(late, delay=expires_in_s + edge_ms / 1000)
        world.run()
        reading = " ".join(overlays) or "as specified"
        rows.append({"reading": reading, "arrives": f"{edge_ms:+} ms", "status": world.charges[late.id].status})
pd.DataFrame(rows).pivot(index="reading", columns="arrives", values="status")[[f"{edge:+} ms" for edge in edges_ms]]

# %% [markdown]
# ## The answer
#
# Yes, in the last second, and even in the last millisecond; not at the stroke. If your shop shows a countdown, let it
# reach zero a few seconds early: a payment also needs time for its way, and what counts is when it *arrives*.
#
# **Try it.** Set `expires_in_s` to 1. Does anything change but the clock?
