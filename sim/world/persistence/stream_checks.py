"""Checks of the positions of random streams: no id and no preimage is drawn twice."""

from __future__ import annotations

from collections.abc import Mapping

from leyden.rng import RandomStreams, uuid4_from
from leyden.server.errors import StoreError
from leyden.server.store.store import Store

# The random streams that draw ids, and the tables and fields that have them.
_ID_STREAMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "ids": (("charges", "static_charges", "deliveries"), "id"),
    "payments": (("payments",), "id"),
    "preimages": (("invoices",), "preimage"),
    "faults": (("faults",), "id"),
    "service_faults": (("service_faults",), "id"),
    "payers": (("payers",), "id"),
}


def check_streams(streams: RandomStreams, store: Store) -> None:
    """Raise `StoreError` when a random stream would draw an id that a row has."""
    copies = streams.fork()
    for name, (tables, field) in _ID_STREAMS.items():
        rows = [row for table in tables for row in store.table_data(table).rows.values()]
        used, stream = {row[field] for row in rows}, copies.stream(name)
        for _ in rows:
            drawn = stream.bytes(64)[:32].hex() if field == "preimage" else uuid4_from(stream)
            if drawn in used:
                raise StoreError(
                    f"the position {streams.snapshot().get(name, 0)} of the random stream {name} is too low: it"
                    f" would draw {drawn[:60]} again, which a row of the table {' or '.join(tables)} has"
                )
