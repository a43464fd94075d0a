# %% [markdown]
# # Two customers, one slot: who gets it?
#
# A **Static Charge** is a code that stays the same: printed on a jar, it takes tips from anybody. It can have a limit,
# a number of *slots*. Say that there is one table left, and so one slot. Two people scan the code in the same second,
# and both of their wallets ask for an invoice. Who gets the table, and what does the other one see?

# %%
import pandas as pd

import leyden.lab.drawings
from leyden import Sandbox
from leyden.errors import PayerError

# %% tags=["parameters"]
seed = 7
slots = 1
amount_msat = 2_000

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
table = sb.static_charges.create(
    minAmount="1000",
    maxAmount="5000000",
    description="A table for two",
    allowedSlots=slots,
    callbackUrl="http://shop.localhost/taken",
)
table

# %%
table.qr()

# %% [markdown]
# The code holds an LNURL, a link that a wallet follows to learn what it may pay, and then to ask for an invoice.
# `scan` does all of that; like every payment, it arrives when time moves. Bob is half a second behind Ana.

# %%
ana = sb.wallet("ana").scan(table, amount=amount_msat)
bob = sb.wallet("bob").scan(table, amount=amount_msat, delay="500ms")
sb.charges[["status", "amount_sat", "created_at", "expires_at"]]

# %% [markdown]
# Two invoices for one slot. Both are good at this moment; the slot is not given to who asks, but to who pays.

# %%
sb.run()
sb.payments[["payer", "status", "outcome", "reason"]]

# %%
table

# %% [markdown]
# Ana's payment took the slot, the Static Charge became `disabled`, and in the same instant the node cancelled the
# invoice that Bob was about to pay. When his payment arrived it was refused, and his wallet had its money back. The two
# Charges, one after the other:

# %%
first, second = table.charges
first.timeline()

# %%
second.timeline()

# %%
table.lifecycle()

# %% [markdown]
# ## The one who comes too late

# %%
try:
    sb.wallet("cleo").scan(table, amount=amount_msat)
except PayerError as refused:
    print(refused)

# %% [markdown]
# Cleo's wallet is told at once; she gets no invoice at all. The shop can open a slot again by changing the limit:

# %%
table.update(allowedSlots=slots + 1)
cleo = sb.wallet("cleo").scan(table, amount=amount_msat)
sb.run()
cleo.outcome, table.slots, table.status

# %% [markdown]
# ## Three ways to count
#
# When is a slot used up: when an invoice is given out, or when it is paid? And what becomes of invoices that are open
# when the last slot goes? Overlays choose between three readings. The same two customers, and then a third, who comes
# ten minutes later; once Ana pays, and once she only looks at the invoice and goes home.


# %%
def scan(world, name, code, **how):
    """The payment, or None when the wallet is given no invoice."""
    try:
        return world.wallet(name).scan(code, amount=amount_msat, **how)
    except PayerError:
        return None


def race(reading, ana_pays):
    world = Sandbox(seed=seed, start="2030-01-01T09:00Z", overlays=reading)
    code = world.static_charges.create(minAmount="1000", maxAmount="5000000", description="A table", allowedSlots=slots)
    seen = {"Ana": scan(world, "ana", code, outcome="settle" if ana_pays else "fail")}
    seen["Bob"] = scan(world, "bob", code, delay="500ms")
    world.advance("10m")
    seen["Cleo, later"] = scan(world, "cleo", code)
    world.run()
    told = {True: "paid", False: "refused, nothing paid"}
    saw = {who: told[got.outcome == "SUCCEEDED"] if got else "no invoice" for who, got in seen.items()}
    if not ana_pays:
        saw["Ana"] = "only looks"
    return {"Ana pays": ana_pays, "reading": " ".join(reading) or "as specified", **saw, "sold": code.slots}


readings = ([], ["reserve-on-issue"], ["count-on-settle"])
pd.DataFrame([race(reading, pays) for pays in (True, False) for reading in readings]).set_index(["Ana pays", "reading"])

# %% [markdown]
# ## The answer
#
# Who pays first gets the slot; the other one's payment is refused and costs nothing. `reserve-on-issue` tells the
# second customer before he has pressed anything, but a slot is blocked by everybody who only looks. `count-on-settle`
# sends nobody away with an invoice in hand, and so sells more than there is.
#
# **Try it.** Let Ana's payment be held (`outcome="hold"`) and Bob's not. Who is first now?
