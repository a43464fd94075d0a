"""Checks of what is numbered: callbacks of a Charge, customers, journal entries, timers. A number is used once, and no
counter is below what it counts.

Instants have no order that could be checked: `leyden serve --start now` sets a clock back, and later rows are then
dated before earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.contract.types import Contract
from leyden.server.errors import StoreError
from leyden.world.persistence.table_rows import Rows


def check_counters(table: Callable[[str], Rows], contract: Contract | None) -> None:
    """Refuse a callback with a number that its Charge has not reached or that another one has, and a customer beyond
    those who have arrived."""
    charges, deliveries = table("charges"), table("deliveries")
    numbers: set[tuple[str, int]] = set()
    for row in deliveries:
        number = row["resource_id"], row["sequence"]
        if number in numbers:
            deliveries.refuse(row, f"sequence is {row['sequence']}, as of another delivery of {row['resource_id']}")
        numbers.add(number)
        charge = charges.by_key.get(row["resource_id"])
        if charge is not None and charge.get("sequence", 0) < row["sequence"]:
            counted = charge.get("sequence", 0)
            charges.refuse(charge, f"sequence is {counted}, and it has the delivery number {row['sequence']}")
    streams, returns = table("traffic"), table("traffic_returns")
    for row in returns:
        stream = streams.by_key.get(row["traffic"])
        if stream is not None and not 1 <= row["number"] <= stream["arrived"]:
            returns.refuse(row, f"number is {row['number']}, and {stream['arrived']} customers have arrived")


def check_journal(journal: Mapping[str, Any]) -> None:
    """Raise `StoreError` when the entries are not the last ones of the journal's length, without a gap."""
    entries, length = journal["entries"], journal["length"]
    expected = length - len(entries)
    if expected < 0:
        raise StoreError(f"the journal: its length is {length}, and it has {len(entries)} entries")
    for place, entry in enumerate(entries):
        expected += 1
        if entry[0] != expected:
            raise StoreError(
                f"the journal, entry {place} of the list: its number is {entry[0]}, and {expected} comes there, because"
                f" entries are numbered without a gap up to the length {length}"
            )


def check_next_ids(tables: Mapping[str, Any]) -> None:
    """Raise `StoreError` when a table would give a row a document id that another row has.

    Former versions wrote such a number in a sandbox with a bound that was opened again: it has the table's last id.
    """
    last_ids = {row.get("id") for _, row in tables.get("last_ids", {"rows": ()})["rows"]}
    for name, table in tables.items():
        next_id, highest = table["next_id"], max((doc_id for doc_id, _ in table["rows"]), default=0)
        if next_id is not None and next_id <= highest and name not in last_ids:
            raise StoreError(f"the table {name}, row {highest}: next_id of the table is {next_id}, no number above it")


def check_timer_numbers(clock: Mapping[str, Any]) -> None:
    """Raise `StoreError` when two timers have one name or one number, or one has a number that is not given yet."""
    names: set[tuple[str, str]] = set()
    numbers: set[int] = set()
    for _, _, sequence, kind, key in clock["timers"]:
        timer = f"the timer {kind} {key[:60]!r}"
        if (kind, key) in names:
            raise StoreError(f"clock/timers has {timer} twice")
        if sequence in numbers:
            raise StoreError(f"clock/timers: {timer} has the number {sequence}, as another timer has")
        if sequence > clock["sequence"]:
            raise StoreError(
                f"clock/timers: {timer} has the number {sequence}, above clock/sequence {clock['sequence']}"
            )
        names.add((kind, key))
        numbers.add(sequence)
