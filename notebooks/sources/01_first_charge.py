# %% [markdown]
# # What happens when a customer pays?
#
# A shop wants 250 satoshis for a coffee. It asks the charge service for a **Charge**, shows the customer the invoice
# that came with it, and waits to be told. In this notebook you are the shop, the customer and the clock.
#
# You need no server and no network: a *sandbox* is the whole service with its Lightning node, its customers and their
# time in one Python object. Run the cells from top to bottom; the same seed gives everybody the same ids, invoices and
# pictures.

# %%
import leyden.lab.drawings  # loaded here, so that every cell below answers at once
import leyden.lab.tables
from leyden import Sandbox

# %% tags=["parameters"]
seed = 7
amount_msat = 250_000  # Lightning counts in thousandths of a satoshi: this is 250 sat
expires_in_s = 300

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
sb

# %% [markdown]
# ## The shop asks
#
# `create` takes the names that the HTTP interface has, so what you learn here is true for the real requests. Amounts
# are texts of digits, in millisatoshis. The `callbackUrl` is where the shop wants to hear of it; every host that ends
# in `.localhost` is played by the sandbox.

# %%
charge = sb.charges.create(
    amount=str(amount_msat),
    description="Coffee",
    expiresIn=expires_in_s,
    callbackUrl="http://shop.localhost/paid",
)
charge

# %% [markdown]
# `pending`: nobody has paid. The long text at the end is the invoice. It is a real BOLT11 invoice, signed by the
# sandbox's node, and it can be read back without asking anybody (`bcrt` in its currency means that it is play money).

# %%
charge.invoice.decode()

# %% [markdown]
# A customer would scan it.

# %%
charge.qr()

# %% [markdown]
# ## The customer pays
#
# Ana's wallet is made when it is first named. Paying only *schedules* the payment.

# %%
payment = sb.wallet("ana").pay(charge)
payment, charge.status

# %% [markdown]
# Nothing happens until you let time move. That is the one rule of the sandbox: it is why you can look as long as you
# like between two milliseconds, and why a week takes no longer than a minute.

# %%
sb.run("1m")
payment.outcome, charge.status

# %% [markdown]
# ## The shop is told
#
# The service posted a message to the shop. This is what arrived, with nothing left out but the invoice.

# %%
message = sb.receiver("shop").inbox[0]
{name: value for name, value in message.json.items() if name != "invoice"}

# %% [markdown]
# ## Who did what, when?
#
# The timeline has a lane for everybody who took part. Time runs downwards.

# %%
charge.timeline()

# %% [markdown]
# The same as a conversation:

# %%
charge.sequence()

# %% [markdown]
# A Charge can end in three ways. This one went the way that is drawn strong.

# %%
charge.lifecycle()

# %% [markdown]
# ## The answer
#
# When a customer pays, the node takes the money, the Charge becomes `completed` in the same instant, the shop is told,
# and the customer's wallet gets the proof of payment. Everything that happens in a sandbox is in its journal, in order:

# %%
sb.journal[["at", "kind", "subject"]]

# %% [markdown]
# **Try it.** Change `expires_in_s` to 1 and let two minutes pass *before* Ana pays. What does her wallet say? The next
# notebook is about that.
