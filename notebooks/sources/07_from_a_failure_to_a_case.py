# %% [markdown]
# # A promise is broken: how do I show it to somebody?
#
# "It sometimes completes a charge that has expired." Sentences like this one live long in issue trackers: nobody can
# make it happen again. In this notebook you let a machine look for a broken promise, boil what it finds down to a few
# steps, and hand it on as a file that makes it happen anywhere, every time.

# %%
import json

import pandas as pd

from leyden.harness.engines.random_walk import random_walk
from leyden.harness.engines.shrink import shrink
from leyden.harness.reports.exports import as_pytest
from leyden.harness.runs.cases import read_case, replay
from leyden.harness.targets.target import InProcess
from leyden.server.contract.load import load_contract

# %% tags=["parameters"]
seed = 120  # where the search begins; from 0 it takes some seconds
most = 2_000  # worlds to try at most

# %% [markdown]
# ## A service with a flaw
#
# Nothing is wrong with the service, so here is one in which somebody has changed a single word of the specification:
# a payment *at* the expiry still counts, where the original says *before*. (It is the overlay `payable-at-expiry`, used
# as if it were a slip.)

# %%
flawed = InProcess(spec=load_contract(overlays=["payable-at-expiry"]))

# %% [markdown]
# ## The search
#
# What is right? The harness holds a *model*: the promises of the specification, written down a second time by people
# who did not look at the service. A walk makes up a world from a seed, does thirty things in it, to the service and to
# the model, and compares the two after each. The dice like edges: the last second, the last slot, the tenth attempt.

# %%
for number in range(seed, seed + most):
    walked = random_walk(number, flawed, overlays=(), disks=False)
    if walked.violation is not None:
        break
print(f"The world of seed {number}, after {len(walked.case.steps)} steps: {walked.violation}")

# %% [markdown]
# ## Smaller
#
# Found; but the world in which it happened is full of things that have nothing to do with it. `shrink` takes steps
# away, and makes those that stay plainer, as long as the same promise is broken.

# %%
case, result = shrink(walked.case, flawed, walked.violation)
print(case.describe())

# %% [markdown]
# ## See it
#
# The same steps once more, and this time you look at the world that they lead to.

# %%
flawed.begin(case.seed, case.start_ms, case.overlays)
for request in result.requests:
    flawed.send(*request)
charges = flawed.sandbox.charges.table
charges[["status", "created_at", "expires_at", "confirmed_at"]]

# %%
[late] = charges.loc[charges["confirmed_at"] >= charges["expires_at"], "id"]
flawed.sandbox.charges[late].timeline()

# %% [markdown]
# The payment arrives at the very millisecond of the expiry, and this service takes it.

# %% [markdown]
# ## Hand it on
#
# A case is a small text: which specification it was about, and then, from here on, the seed, the steps, the promise,
# and the hash of the journal, so that everybody can tell whether he saw the same thing.

# %%
text = case.dumps()
print(text[text.index('  "seed"') :])

# %%
received = read_case(json.loads(text))
again = replay(received, flawed)
again.same_violation, again.same_journal

# %% [markdown]
# For those who would rather have a test, the same case is a file for pytest. It fails until the flaw is mended.

# %%
print(as_pytest(received).partition("CASE =")[0], "...")

# %% [markdown]
# ## The answer
#
# Not "sometimes", but: these few steps, this seed, this promise. And when the service is mended, the same file says so.

# %%
mended = replay(received, InProcess())
pd.DataFrame(
    [
        {
            "service": name,
            "promise": "kept" if replayed.result.expectation is None else "broken",
            "finding again": replayed.same_violation,
        }
        for name, replayed in (("with the flaw", again), ("as specified", mended))
    ]
).set_index("service")

# %% [markdown]
# **Try it.** `leyden fuzz` does all of this in one command, also to a server of yours, and writes each finding as a
# case, a test, a notebook and a script of `curl` commands.
