"""Export to and import from TinyDB's JSON file, so that the data can be used without Leyden."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

from leyden.server.errors import StoreError
from leyden.server.store.journal import create_private, sync_directory
from leyden.server.store.rows import RowStorage
from leyden.server.store.tables.row_map import Row


def export_tinydb(storage: RowStorage, path: str | os.PathLike[str]) -> None:
    """Write a file that `tinydb.TinyDB(path)` opens: the same tables, documents and ids.

    The file is replaced atomically, and only its owner may read it (0600). It is ASCII, because TinyDB reads a file in
    the machine's own encoding. Raises `StoreError` when it cannot be written.
    """
    target = Path(path)
    draft = target.with_name(target.name + ".new")
    try:
        with io.TextIOWrapper(create_private(draft), encoding="ascii") as file:
            json.dump(storage.read() or {}, file, default=dict)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
        sync_directory(target.parent)
    except OSError as error:
        raise StoreError(f"{target} could not be written ({error.strerror}): choose another place") from error
    finally:
        draft.unlink(missing_ok=True)


def import_tinydb(storage: RowStorage, path: str | os.PathLike[str]) -> dict[str, int]:
    """Add the tables of a TinyDB JSON file, as one commit. Returns the number of documents for each table.

    Raises `StoreError` when the file is not TinyDB's, and when a table of the same name has rows already, because
    their ids could collide.
    """
    tables = _read(Path(path))
    for name in tables:
        if storage.table_data(name).rows:
            raise StoreError(f"table {name!r} has rows already: import {os.fspath(path)} into an empty store")
    with storage.commit():
        for name, rows in tables.items():
            table = storage.table_data(name)
            table.create()
            for doc_id, row in rows.items():
                table.set(doc_id, row)
    return {name: len(rows) for name, rows in tables.items()}


def _read(path: Path) -> dict[str, dict[int, Row]]:
    try:
        content: Any = json.loads(path.read_bytes() or b"{}", parse_constant=_not_json)
        tables = {name: {int(doc_id): row for doc_id, row in table.items()} for name, table in content.items()}
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, AttributeError) as error:
        raise StoreError(f"{path} is not a TinyDB JSON file: {error}") from error
    for name, rows in tables.items():
        for doc_id, row in rows.items():
            if not isinstance(row, dict):
                raise StoreError(f"{path} is not a TinyDB JSON file: document {doc_id} of {name!r} is not an object")
    return tables


def _not_json(word: str) -> Any:
    # TinyDB writes NaN and Infinity. The journal would store null, so the row would differ after a restart.
    raise ValueError(f"{word} is no JSON value")
