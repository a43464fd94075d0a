# %% [markdown]
# # Two customers, one slot: who gets it?
#
# A **Static Charge** is a code that stays the same: printed on a jar, it takes tips from anybody. It can have a limit,
# a number of *slots*. Suppose that one table is left, so there is one slot. Two people scan the code in the same
# second, and both wallets request an invoice. Who gets the table, and what does the other customer see?

# %%
import pandas as pd

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
# The code holds an LNURL: a link to the possible amounts, from which the wallet then requests an invoice. `scan` does
# both, and schedules the payment. Bob's payment is half a second later than Ana's.

# %%
ana = sb.wallet("ana").scan(table, amount=amount_msat)
bob = sb.wallet("bob").scan(table, amount=amount_msat, delay="500ms")
sb.charges[["status", "amount_sat", "created_at", "expires_at"]]

# %% [markdown]
# Two invoices for one slot. Both are valid at this moment: the slot goes to the first payment, not the first request.

# %%
sb.run()
sb.payments[["payer", "status", "outcome", "reason"]]

# %%
table

# %% [markdown]
# Ana's payment used the slot, the Static Charge became `disabled`, and in the same instant the node cancelled Bob's
# invoice. His payment was refused on arrival, so he paid nothing. The two Charges:

# %%
first, second = table.charges
first.timeline()

# %%
second.timeline()

# %%
table.lifecycle()

# %% [markdown]
# ## A customer without an invoice

# %%
try:
    sb.wallet("cleo").scan(table, amount=amount_msat)
except PayerError as refused:
    print(refused)

# %% [markdown]
# Cleo gets no invoice, and her wallet shows why. The shop can add a slot by changing the limit:

# %%
table.update(allowedSlots=slots + 1)
cleo = sb.wallet("cleo").scan(table, amount=amount_msat)
sb.run()
cleo.outcome, table.slots, table.status

# %% [markdown]
# ## Three ways to count
#
# When is a slot used: when an invoice is issued, or when it is paid? And what happens to open invoices when the last
# slot is used? Overlays select one of three interpretations. The table shows the same two customers, and a third one
# ten minutes later; once Ana pays, and once she requests an invoice and does not pay.


# %%
def scan(world, name, code, **how):
    """The payment, or None when the wallet gets no invoice."""
    try:
        return world.wallet(name).scan(code, amount=amount_msat, **how)
    except PayerError:
        return None


def race(reading, ana_pays):
    world = Sandbox(seed=seed, start="2030-01-01T09:00Z", overlays=reading)
    code = world.static_charges.create(minAmount="1000", maxAmount="5000000", description="A table", allowedSlots=slots)
    payments = {"Ana": scan(world, "ana", code, outcome="settle" if ana_pays else "fail")}
    payments["Bob"] = scan(world, "bob", code, delay="500ms")
    world.advance("10m")
    payments["Cleo, later"] = scan(world, "cleo", code)
    world.run()
    words = {True: "paid", False: "refused, nothing paid"}
    results = {who: words[got.outcome == "SUCCEEDED"] if got else "no invoice" for who, got in payments.items()}
    if not ana_pays:
        results["Ana"] = "does not pay"
    return {"Ana pays": ana_pays, "interpretation": " ".join(reading) or "as specified", **results, "sold": code.slots}


readings = ([], ["reserve-on-issue"], ["count-on-settle"])
pd.DataFrame([race(reading, pays) for pays in (True, False) for reading in readings]).set_index(
    ["Ana pays", "interpretation"]
)

# %% [markdown]
# ## The answer
#
# The first payment gets the slot; the second one is refused and costs nothing. With `reserve-on-issue` the second
# customer gets no invoice, but every customer who does not pay blocks a slot. With `count-on-settle` every issued
# invoice can be paid, so more is sold than there is.
#
# **Try it.** Let the node hold Ana's payment (`outcome="hold"`) and not Bob's. Who is first now?
