"""Checks of the rows of a directory when it is opened: somebody may have changed its journal, with right checksums.

A journal that ends at the mark that its writer kept beside it (`leyden.server.store.end_mark`) has the checksum of what
was written, and a store of many rows is then taken as it is. Any other one is checked row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import orjson
from jsonschema_rs import Draft4Validator

from leyden.files.json_files import WRONG_DATA, in_words
from leyden.server.contract.schema_errors import first_error, with_short_alternatives
from leyden.server.contract.types import Contract
from leyden.server.errors import LeydenError, StoreError
from leyden.server.printable import printable
from leyden.server.store.store import Store
from leyden.world.persistence.field_schemas import COUNTER
from leyden.world.persistence.row_checks import check_references, check_states
from leyden.world.persistence.row_schemas import row_schemas
from leyden.world.persistence.table_rows import RowError

MEND = "restore the directory from a copy, or use a new one"
WORLD_ROWS = ("config", "state")  # the seed and the network, and the time: every world writes them
OWN_TABLES = ("world", "network")  # rows about the world itself, which are checked when it is opened
_HIGHEST_ID: int = COUNTER["maximum"]  # as of a saved sandbox
_ANY_ROW = Draft4Validator({"type": "object"})
ALWAYS_CHECKED_ROWS = 2_000  # in about forty milliseconds


@contextmanager
def errors_of_directory(store: Store) -> Iterator[None]:
    """While a world is opened: every error about its rows names the directory, or a file in it. Rows that no check
    refuses, and with which the world cannot be built, are a `StoreError`, too."""
    if not store.is_durable:
        yield
        return
    try:
        yield
    except StoreError as error:
        where = store.place_of("", 0)
        if where in str(error):
            raise
        raise StoreError(f"{where}: {error}") from None
    except LeydenError:  # of an argument, or of the spec
        raise
    except WRONG_DATA as error:
        why = f"its rows do not fit together ({in_words(error)})"
        raise StoreError(f"{store.place_of('', 0)}: {why}; {MEND}") from error


def is_trusted(store: Store) -> bool:
    """Whether the rows are taken as they are: they are many, and those that a process of Leyden wrote."""
    return store.is_as_written and sum(len(data.rows) for data in store.tables.values()) > ALWAYS_CHECKED_ROWS


def check_directory(store: Store, contract: Contract) -> list[str]:
    """Notes about rows that contradict one another: such a directory is opened, for what it accepted is not lost. A
    file of its sandbox could not be loaded, so none is written (`snapshots.savable`).

    Raise `StoreError`, with the file and the line, for a row that no world writes, unless the store is in memory or
    trusted, for a directory without the rows of its world, and for a row that the contract does not permit (in a
    trusted store: for its state). The spec may be another one than at the last start.
    """
    if not store.is_durable:
        return []
    world = {row.get("id") for row in store.table_data("world").rows.values()}
    missing = next((name for name in WORLD_ROWS if name not in world), None)
    if missing is not None and any(data.rows for data in store.tables.values()):
        raise StoreError(
            f"{store.place_of('world', 0)}: the table world has no row {missing!r}, and there are other rows; {MEND}"
        )
    try:
        if is_trusted(store):
            check_states(store, contract)
            return []
        for name in store.tables:
            if name not in OWN_TABLES:
                _check_table(store, name, _validators().get(name, _ANY_ROW))
        check_references(store, contract)
    except RowError as error:
        raise StoreError(f"{store.place_of(error.table, error.doc_id)}: {printable(str(error))}; {MEND}") from None
    from leyden.world.persistence.relations import check_relations  # it loads the cryptography

    try:
        check_relations(store, contract)
    except RowError as error:
        where = f"{store.place_of(error.table, error.doc_id)}: {printable(str(error))}"
        return [f"{where}: this row or another one was changed, and the rows are used as they are"]
    return []


@cache
def _validators() -> Mapping[str, Draft4Validator]:
    return {name: Draft4Validator(with_short_alternatives(schema)) for name, schema in row_schemas().items()}


def _check_table(store: Store, name: str, validator: Draft4Validator) -> None:
    for doc_id, row in store.table_data(name).rows.items():
        if doc_id > _HIGHEST_ID:
            raise RowError(name, doc_id, row, f"its number is above {_HIGHEST_ID}, which no world gives a row")
        try:
            error = first_error(validator, row)
            if error is None:
                orjson.dumps(row)  # a field of any type, and a table of another version, may have any number
                continue
            place, why = "/".join(str(step) for step in error.instance_path), error.message
        except (OverflowError, RecursionError, TypeError, ValueError):
            place, why = "", "it has a value that cannot be written as JSON"
        raise RowError(name, doc_id, row, f"{f'{place[:100]}: ' if place else ''}{why[:200]}")
