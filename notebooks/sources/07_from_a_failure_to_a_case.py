# %% [markdown]
# # A requirement is violated: how do I report it so that others can reproduce it?
#
# "It sometimes completes a charge that has expired." Such a report stays open for long, because nobody can reproduce
# it. In this notebook a random walk finds a violation, shrinking reduces it to a few steps, and the result is a file
# that reproduces it everywhere.

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
seed = 120  # the first seed of the search; from 0 it takes some seconds
most = 2_000  # the largest number of runs

# %% [markdown]
# ## A service with a defect
#
# The service has no known defect, so this one gets a changed specification: a payment *at* the expiry still counts,
# where the original says *before*. (It is the overlay `payable-at-expiry`.)

# %%
defective = InProcess(spec=load_contract(overlays=["payable-at-expiry"]))

# %% [markdown]
# ## The search
#
# The harness has a reference *model*: the requirements of the specification, implemented a second time without the code
# of the service. A random walk creates a run from a seed, takes dozens of steps on the service and on the model, and
# compares them after each step. It prefers boundaries: the last second, the last slot, the tenth attempt.

# %%
for number in range(seed, seed + most):
    walked = random_walk(number, defective, overlays=(), disks=False)
    if walked.violation is not None:
        break
print(f"Seed {number}, after {len(walked.case.steps)} steps: {walked.violation}")

# %% [markdown]
# ## Smaller
#
# The failing run has many steps that do not matter. `shrink` removes steps and simplifies the others, as long as the
# same requirement is violated.

# %%
case, result = shrink(walked.case, defective, walked.violation)
print(case.describe())

# %% [markdown]
# ## See it
#
# The same steps again, in a sandbox that you can inspect.

# %%
defective.begin(case.seed, case.start_ms, case.overlays)
for request in result.requests:
    defective.send(*request)
charges = defective.sandbox.charges.table
charges[["status", "created_at", "expires_at", "confirmed_at"]]

# %%
[late] = charges.loc[charges["confirmed_at"] >= charges["expires_at"], "id"]
defective.sandbox.charges[late].timeline()

# %% [markdown]
# The payment arrives in the millisecond of the expiry, and this service accepts it.

# %% [markdown]
# ## The file
#
# A case is a small text: the changes to the packaged specification, and then, as printed here, the seed, the steps, the
# requirement, and the hash of the journal. An equal hash proves that a replay is the same run.

# %%
text = case.dumps()
print(text[text.index('  "seed"') :])

# %%
received = read_case(json.loads(text))
again = replay(received, defective)
again.same_violation, again.same_journal

# %% [markdown]
# The same case as a pytest file. The test fails until the defect is fixed.

# %%
print(as_pytest(received).partition("CASE =")[0], "...")

# %% [markdown]
# ## The answer
#
# Report a case: a seed, a few steps and a requirement, which reproduce the violation every time. The same file also
# proves the fix.

# %%
fixed = replay(received, InProcess())
pd.DataFrame(
    [
        {
            "service": name,
            "requirement": "met" if replayed.result.expectation is None else "violated",
            "same violation": replayed.same_violation,
            "same journal": replayed.same_journal,
        }
        for name, replayed in (("with the defect", again), ("as specified", fixed))
    ]
).set_index("service")

# %% [markdown]
# **Try it.** `leyden fuzz` does all of this in one command, also against your own server, and writes each finding as a
# case, a test, a notebook and, where it can show the finding, a script of `curl` commands.
