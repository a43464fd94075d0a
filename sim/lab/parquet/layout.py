"""The directory of a run: a folder of Parquet files for each table, and `run.json`.

charges/part-00001.parquet ...   the Charges that had ended by then, in portions; the same for `payments`, `attempts`,
                                 `htlcs`, `deliveries` and `callbacks` of these Charges, and for `journal`
charges/rest.parquet             what was left in the sandbox when the run ended; the next run replaces it
static_charges/rest.parquet      tables that are written at the end only; so are `balances` and `outages`
run.json                         the seed, the start, the number of Charges in the portions, the states of each column,
                                 the rows and the checksum of each file, and its own checksum

A column `row` gives the order in which the rows were created.
"""

from __future__ import annotations

PORTIONED = ("charges", "payments", "attempts", "htlcs", "deliveries", "callbacks")
AT_THE_END = ("static_charges", "balances", "outages")
JOURNAL = "journal"
MANIFEST = "run.json"
FORMAT = 1
ORDER = "row"
REST = "rest.parquet"
# Columns that earlier versions wrote by other names.
FORMER_NAMES = {"attempts": {"payment": "payment_id", "name": "failure"}, "htlcs": {"payment": "payment_id"}}


def part_name(number: int) -> str:
    """The name of the file with a portion; `number` counts from 1."""
    return f"part-{number:05d}.parquet"
