"""A disk that is full while a sweep or a run writes its files: one error, and what is in the files stays of use."""

from __future__ import annotations

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import leyden
from leyden import Sandbox, grid, sweep
from leyden.files.json_files import InputError
from leyden.sandbox.time import spilled_runs
from leyden.server.errors import StoreError
from tests.support.store_helpers import files_no_longer_than


def square(s: Any) -> dict[str, Any]:
    return {"y": s.x**2}


@pytest.mark.parametrize("more", [0, 1, 100])
def test_a_sweep_names_the_file_and_continues_with_its_rows(tmp_path: Path, more: int) -> None:
    store = tmp_path / "runs.jsonl"
    scenarios, options = grid(x=[1, 2, 3]), {"store": store, "progress": False, "workers": 1}
    sweep(square, scenarios[:2], **options)
    before = store.read_bytes()
    words = r"runs\.jsonl cannot be written: File too large; it has the 2 rows before: make room"
    with files_no_longer_than(len(before) + more), pytest.raises(StoreError, match=words):
        sweep(square, scenarios, **options)
    assert store.read_bytes() == before
    assert list(sweep(square, scenarios, **options)["y"]) == [1, 4, 9]
    assert [json.loads(line)["metrics"]["y"] for line in store.read_text().splitlines()] == [1, 4, 9]


def test_a_sweep_in_a_pool_names_the_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool, files_no_longer_than(0), pytest.raises(StoreError, match="it has the 0 rows"):
        sweep(square, grid(x=[1, 2, 3]), executor=pool, store=tmp_path / "runs.jsonl", progress=False)


# Runs with spill=


def shop() -> Sandbox:
    sb = Sandbox(seed=1)
    sb.traffic("60/min", duration="2m", expiresIn=60, callbackUrl="http://shop.localhost/paid")
    return sb


@pytest.fixture(scope="module")
def plain() -> Sandbox:
    sb = shop()
    sb.run()
    return sb


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_runs, "_PORTION", 40)
    monkeypatch.setattr(spilled_runs, "_EVENTS", 150)


def run_on_a_full_disk(sb: Sandbox, folder: Path, room: int) -> str:
    """Run until the file after `room` files cannot be written, with a part of it on the disk. Returns the error."""
    left = room
    write_table = pyarrow.parquet.write_table

    def write(rows: Any, path: Path) -> None:
        nonlocal left
        left -= 1
        with files_no_longer_than(50 if left < 0 else resource.RLIM_INFINITY):
            write_table(rows, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyarrow.parquet, "write_table", write)
        with pytest.raises(InputError) as refused:
            sb.run(spill=folder)
    return str(refused.value)


def is_complete(sb: Sandbox, folder: Path, plain: Sandbox) -> bool:
    sb.run(spill=folder)
    run = leyden.read(folder)
    assert [*run.charges["id"]] == [*plain.charges.table["id"]]
    assert [*run.journal["sequence"]] == [*range(1, len(run.journal) + 1)]
    return sb.journal_hash == plain.journal_hash


@pytest.mark.parametrize("room", [0, 4, 6])
def test_a_first_portion_that_is_not_written_leaves_nothing(tmp_path: Path, plain: Sandbox, room: int) -> None:
    sb, folder = shop(), tmp_path / "run"
    text = run_on_a_full_disk(sb, folder, room)
    assert "parquet cannot be written: " in text
    assert "File too large" in text
    assert f"{folder} has no portion, and the sandbox has all Charges: make room, and run again" in text
    assert "\n" not in text
    assert list(folder.iterdir()) == []
    assert is_complete(sb, folder, plain)


@pytest.mark.parametrize("room", [7, 12, 15, 24])
def test_what_was_written_before_stays(tmp_path: Path, plain: Sandbox, room: int) -> None:
    sb, folder = shop(), tmp_path / "run"
    text = run_on_a_full_disk(sb, folder, room)
    charges = len(leyden.read(folder).charges)
    assert f" with {charges} Charges, and the sandbox has the others: make room" in text
    assert charges > 0
    assert not list(folder.rglob("*.tmp"))
    assert is_complete(sb, folder, plain)


def test_a_manifest_that_is_not_written_leaves_the_former(tmp_path: Path, plain: Sandbox) -> None:
    sb, folder = shop(), tmp_path / "run"
    run_on_a_full_disk(sb, folder, 7)
    before = (folder / "run.json").read_bytes()
    (folder / "run.tmp").mkdir()
    with pytest.raises(InputError, match=r"run\.json cannot be written: .*has 1 portion with"):
        sb.run(spill=folder)
    assert (folder / "run.json").read_bytes() == before
    (folder / "run.tmp").rmdir()
    assert is_complete(sb, folder, plain)
