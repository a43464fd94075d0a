"""Errors of a data directory whose rows somebody changed, with right checksums, name the directory, in one line."""

from __future__ import annotations

import json
import random
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ForkError, LeydenError, StoreError
from leyden.server.store.store import Store
from tests.support.deep import deep_or
from tests.support.exercise import rich_sandbox, use_by_every_operation


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("directories")
    for network in ("direct", "line:4"):
        rich_sandbox(network, folder / network).close()
    return folder


def change(directory: Path, table: str, doc_id: int, row: dict[str, Any] | None) -> None:
    """Write another row, or delete it."""
    with Store.open(directory) as store, store.commit():
        data = store.table_data(table)
        if row is None:
            data.delete(doc_id)
        else:
            data.set(doc_id, row)


@pytest.mark.parametrize("network", ["direct", "line:4"])
@pytest.mark.parametrize("seed", range(deep_or(bounded=20, full=200)))
def test_a_directory_with_a_changed_row_is_named_or_works(
    directories: Path, tmp_path: Path, network: str, seed: int
) -> None:
    rng, directory = random.Random(seed), tmp_path / "data"
    shutil.copytree(directories / network, directory)
    with Store.open(directory) as store:
        table = rng.choice([name for name, data in store.tables.items() if data.rows])
        doc_id, row = rng.choice([*store.table_data(table).rows.items()])
    row, name = json.loads(json.dumps(row)), rng.choice([*row])
    if rng.random() < 0.5:
        row[name] = rng.choice((None, -1, 0, 10**15, "", "x", [], {}, 1.5, True))
    else:
        del row[name]
    change(directory, table, doc_id, row if rng.random() < 0.8 else None)
    try:
        sandbox = Sandbox(data=directory)
    except StoreError as error:
        text = str(error)
    else:
        with sandbox, suppress(ForkError):  # a row that contradicts another one cannot be saved
            use_by_every_operation(sandbox, quick=True)
        return
    assert str(directory) in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("network", ["line:zzz", {"x": 1}, 3, None, []])
def test_a_directory_with_another_network_is_named(directories: Path, tmp_path: Path, network: Any) -> None:
    directory = tmp_path / "data"
    shutil.copytree(directories / "line:4", directory)
    with Store.open(directory) as store:
        rows = store.table_data("world").rows
        doc_id, row = next((doc_id, row) for doc_id, row in rows.items() if row["id"] == "config")
    change(directory, "world", doc_id, {**row, "network": network})
    with pytest.raises(StoreError) as refused:
        Sandbox(data=directory)
    assert str(refused.value).startswith(f"{directory}/charges.journal: ")


def test_a_directory_that_contradicts_itself_is_opened_with_a_note_that_names_the_line(
    directories: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    shutil.copytree(directories / "direct", directory)
    with Store.open(directory) as store:
        doc_id, row = next(iter(store.table_data("wallets").rows.items()))
    change(directory, "wallets", doc_id, {**row, "balance_msat": row["balance_msat"] + 1})
    with Sandbox(data=directory) as sandbox:
        [note] = sandbox.ask("GET", "/sandbox/v1")["notes"]
        assert re.search(r"charges\.journal, line [0-9]+: the table wallets, row 1 .*balance_msat is", note), note
        with pytest.raises(LeydenError, match="balance_msat"):
            sandbox.save(tmp_path / "copy.json")
