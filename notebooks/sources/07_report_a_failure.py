# %% [markdown]
# # Something happened that must not happen: how do I report it so that others can reproduce it?
#
# "It sometimes completes a charge that has expired." Such a report stays open for long, because nobody can reproduce
# it. In this notebook you find the failure in a day of customers, reduce the day to three lines, and send them: as a
# program, as a file and as a test. Each of them reproduces the failure everywhere.

# %%
import pandas as pd

from leyden import Sandbox

# %% tags=["parameters"]
seed = 120
customers = 400
share = 0.2  # of the Charges, which a slow wallet pays exactly at their expiry

# %% [markdown]
# ## A service with a defect
#
# The service has no known defect, so this one gets a changed specification: a payment *at* the expiry still counts,
# where the original says *before*. (It is the overlay `payable-at-expiry`.) Customers pay within a minute or never. A
# slow wallet pays one Charge in five in the millisecond of its expiry, if it is still unpaid then.

# %%
day = Sandbox(seed=seed, start="2030-01-01T09:00Z", overlays=["payable-at-expiry"], label="day")
day.payers.add(description="Coffee", before_expiry="0s", share=share)
day.traffic("1/min", description="Coffee", behaviours="choice(pays:9, never:1)", count=customers)
day.run()
day.kpi

# %% [markdown]
# ## See it
#
# The rule in one line of pandas: no Charge is confirmed at its expiry or later.

# %%
charges = day.charges.table
wrong = charges[charges["confirmed_at"] >= charges["expires_at"]]
print(f"{len(wrong)} of {len(charges)} Charges")
wrong[["status", "amount_msat", "created_at", "expires_at", "confirmed_at"]].head(3)

# %%
day.charges[wrong["id"].iloc[0]].timeline()

# %% [markdown]
# The payment arrives in the millisecond of the expiry, and this service accepts it.

# %% [markdown]
# ## Smaller
#
# Nearly all of this day does not matter. What does: one Charge, and a payment at that instant. A function of a new
# sandbox makes the steps easy to remove one by one. Try it: with another delay or another amount, does it still happen?


# %%
def smallest(overlays):
    sb = Sandbox(seed=seed, start="2030-01-01T09:00Z", overlays=overlays, label="smallest")
    charge = sb.charges.create(amount="1000", description="Coffee", expiresIn=1)
    sb.wallet("ana").pay(charge, delay="1s")
    sb.run()
    return sb


small = smallest(["payable-at-expiry"])
small.charges[["status", "expires_at", "confirmed_at"]]

# %% [markdown]
# ## Send it
#
# **As a program.** `script` writes the Python that creates a sandbox again: everything that was done to it, in order.

# %%
program = small.script()
print(program)

# %% [markdown]
# The receiver runs it. An equal hash of the journal proves that it is the same run.

# %%
received = {}
exec(program, received)  # read what others send before you run it
"the same run" if received["sb"].journal_hash == small.journal_hash else "another run"

# %% [markdown]
# **As a file.** `save` writes the whole sandbox, with every row, timer and random stream, and `load` opens it. This is
# for what no program can repeat. The file has the API keys and the webhook secret of the sandbox.

# %%
small.save("failure.json")
opened = Sandbox.load("failure.json")
opened.charges[["status", "expires_at", "confirmed_at"]]


# %% [markdown]
# **As a test.** It fails until the defect is fixed. In a suite of pytest, `sandbox` is a fixture of Leyden.


# %%
def test_a_payment_at_the_expiry_comes_too_late(sandbox):
    charge = sandbox.charges.create(amount="1000", description="Coffee", expiresIn=1)
    payment = sandbox.wallet("ana").pay(charge, delay="1s")
    sandbox.run()
    assert payment.outcome == "INCORRECT_PAYMENT_DETAILS"
    assert charge.status == "expired"


def result(test, sandbox):
    try:
        test(sandbox)
    except AssertionError:
        return "fails"
    return "passes"


# %% [markdown]
# ## The answer
#
# Report a seed, a few steps and a rule. They reproduce the failure every time, and the same lines prove the fix.

# %%
services = {"with the defect": ["payable-at-expiry"], "as specified": []}
rows = []
for name, overlays in services.items():
    sb = smallest(overlays)
    late = sb.charges.table.query("confirmed_at >= expires_at")
    new = Sandbox(seed=seed, overlays=overlays)
    rows.append(
        {
            "service": name,
            "status at the expiry": sb.charges.table["status"].item(),
            "rule": "violated" if len(late) else "met",
            "same journal as reported": sb.journal_hash == small.journal_hash,
            "test": result(test_a_payment_at_the_expiry_comes_too_late, new),
        }
    )
pd.DataFrame(rows).set_index("service")

# %% [markdown]
# **Try it.** You need not find failures by eye. `leyden fuzz` compares every answer of a service with a reference
# model, also for your own server, removes the steps that do not matter, and writes each violation as a case that
# `leyden replay` runs again, as a test, and as a notebook like this one.
