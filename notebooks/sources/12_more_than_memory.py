# %% [markdown]
# # How do I analyse more customers than fit into memory?
#
# A sandbox keeps every Charge, payment and callback, so that a long run fills the memory. With `spill` what has ended
# goes to Parquet files on the way and leaves the sandbox, and DuckDB, polars or pandas read the files afterwards. Here
# a short run is written and read back, so that the notebook takes seconds. A longer one differs by one parameter.

# %%
import pandas as pd

import leyden
from leyden import Sandbox

try:
    import duckdb
except ImportError:
    duckdb = None
    print("DuckDB is not installed (pip install duckdb): pandas answers in its place.")

# %% tags=["parameters"]
seed = 1
duration = "4h"
rate = "3/min"
directory = "runs/shop"

# %% [markdown]
# ## Write
#
# Customers pay, the shop's receiver fails for one callback in ten, and what has ended is written to `directory`.

# %%
sb = Sandbox(seed=seed, start="2030-01-01T08:00Z")
sb.receiver("shop").behaves(failure=0.1, latency="lognorm(80ms)")
customers = {"callbackUrl": "http://shop.localhost/paid", "behaviours": "choice(pays:9, never:1)"}
sb.traffic(rate, **customers, duration=duration)
sb.run(spill=directory)
print(f"{len(sb.charges)} Charges are left in the sandbox")

# %% [markdown]
# The run is the same as without `spill`: the same ids, the same random numbers, the same hash of the journal.

# %%
twin = Sandbox(seed=seed, start="2030-01-01T08:00Z")
twin.receiver("shop").behaves(failure=0.1, latency="lognorm(80ms)")
twin.traffic(rate, **customers, duration=duration)
twin.run()
"the same run" if twin.journal_hash == sb.journal_hash else "another run"

# %% [markdown]
# ## Read
#
# `leyden.read` has the tables of a sandbox, by the same names and with the same columns: a DataFrame at each call, when
# it fits. `files` are the files of a table, for other programs.

# %%
run = leyden.read(directory)
sizes = {name: {"files": len(run.files(name)), "rows": len(run.table(name))} for name in run.tables}
pd.DataFrame(sizes).T

# %% [markdown]
# Rows of different tables belong together by `charge_id`, `payment_id` and `delivery_id`. The question for this run:
# for each hour, how many Charges were paid, how long did that take, and how many attempts did the callbacks need?

# %%
QUERY = """
    WITH told AS (
        SELECT charge_id, count(*) AS attempts
        FROM read_parquet($callbacks) GROUP BY charge_id
    )
    SELECT
        date_trunc('hour', created_at AT TIME ZONE 'UTC') AS hour,
        count(*) AS charges,
        count(confirmed_at) AS paid,
        median(date_diff('millisecond', created_at, confirmed_at)) / 1000 AS median_s,
        avg(attempts) AS callback_attempts
    FROM read_parquet($charges) AS charges JOIN told ON told.charge_id = charges.id
    GROUP BY hour ORDER BY hour
"""


def by_duckdb(run):
    """The answer from the files alone: DuckDB reads the columns that it needs, part by part."""
    files = {name: [str(path) for path in run.files(name)] for name in ("charges", "callbacks")}
    with duckdb.connect() as database:
        rows = database.execute(QUERY, files).fetchall()
    return pd.DataFrame(rows, columns=["hour", "charges", "paid", "median_s", "callback_attempts"])


def by_pandas(run):
    """The same from whole tables in memory."""
    attempts = run.callbacks.groupby("charge_id").size().rename("attempts")
    charges = run.charges.join(attempts, on="id", how="inner")
    charges["waited_s"] = (charges["confirmed_at"] - charges["created_at"]).dt.total_seconds()
    hours = charges.groupby(charges["created_at"].dt.floor("h").rename("hour"))
    return hours.agg(
        charges=("id", "size"),
        paid=("confirmed_at", "count"),
        median_s=("waited_s", "median"),
        callback_attempts=("attempts", "mean"),
    ).reset_index()


# %% [markdown]
# ## The answer
#
# Write with `spill`, ask the files, and look at a table that is small again:

# %%
answer = by_pandas(run) if duckdb is None else by_duckdb(run)
answer["hour"] = pd.to_datetime(answer["hour"], utc=True).dt.strftime("%H:%M")
answer.round(3).set_index("hour")

# %% [markdown]
# Both ways agree, also with the sandbox that kept everything:

# %%
kept, pandas_answer = twin.kpi.by("1h"), by_pandas(run)
pd.DataFrame(
    {
        "files": answer[["charges", "paid", "median_s"]].sum(),
        "DataFrames": pandas_answer[["charges", "paid", "median_s"]].sum(),
        "sandbox": [kept["created"].sum(), kept["completed"].sum(), kept["settle_p50_s"].sum()],
    }
).round(3)

# %% [markdown]
# **Try it.** Set `duration = "30d"`: the sandbox keeps only what has not ended, and a bar shows how far the run is.
