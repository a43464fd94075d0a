# %% [markdown]
# # What happens when a customer pays?
#
# A shop wants 250 satoshis for a coffee. It creates a **Charge** at the charge service, shows the invoice of the Charge
# to the customer, and waits for a callback. In this notebook you are the shop, the customer and the clock.
#
# You need no server and no network: a *sandbox* is the whole service with its Lightning node, its customers and its
# clock in one Python object. Run the cells from top to bottom; the same seed always gives the same ids, invoices and
# drawings.

# %%
from leyden import Sandbox

# %% tags=["parameters"]
seed = 7
amount_msat = 250_000  # Lightning counts in thousandths of a satoshi: this is 250 sat
expires_in_s = 300

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
sb

# %% [markdown]
# ## The shop creates a Charge
#
# `create` takes the field names of the HTTP API, so the same names work in real requests. Amounts are texts of digits,
# in millisatoshis. The service sends its callbacks to `callbackUrl`; the sandbox simulates every host that ends in
# `.localhost`.

# %%
charge = sb.charges.create(
    amount=str(amount_msat),
    description="Coffee",
    expiresIn=expires_in_s,
    callbackUrl="http://shop.localhost/paid",
)
charge

# %% [markdown]
# `pending`: the Charge is not paid yet. It has a real BOLT11 invoice, signed by the sandbox's node, which anybody can
# decode without a request. The currency `bcrt` means test money (regtest).

# %%
charge.invoice.decode()

# %% [markdown]
# A customer scans it as a QR code.

# %%
charge.qr()

# %% [markdown]
# ## The customer pays
#
# Ana's wallet is created when it is first used. `pay` only *schedules* the payment.

# %%
payment = sb.wallet("ana").pay(charge)
payment, charge.status

# %% [markdown]
# Nothing happens until you move time. This is the main rule of the sandbox. You can inspect everything between two
# milliseconds, and a simulated week takes seconds.

# %%
sb.run("1m")
payment.outcome, charge.status

# %% [markdown]
# ## The shop gets a callback
#
# The service posted a message to the shop. This is its body, without the invoice.

# %%
message = sb.receiver("shop").inbox[0]
{name: value for name, value in message.json.items() if name != "invoice"}

# %% [markdown]
# ## Who did what, when?
#
# The timeline has a lane for each participant. Time runs downwards.

# %%
charge.timeline()

# %% [markdown]
# The same as a sequence diagram:

# %%
charge.sequence()

# %% [markdown]
# A Charge has three final states. The bold lines are the transitions of this Charge.

# %%
charge.lifecycle()

# %% [markdown]
# ## The answer
#
# When a customer pays, the node settles the payment, the Charge becomes `completed` in the same instant, the shop gets
# a callback, and the customer's wallet gets the proof of payment. The journal holds all events of a sandbox, in order:

# %%
sb.journal[["at", "kind", "subject"]]

# %% [markdown]
# **Try it.** Change `expires_in_s` to 1 and let two minutes pass *before* Ana pays. What does her wallet report? The
# next notebook is about that.
