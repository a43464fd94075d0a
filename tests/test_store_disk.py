"""A disk may refuse, fail or be slow: the commit in hand is refused or waits, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.errors import StorageUnavailable, StoreError
from server.store import compaction, storage
from server.store.journal import load
from server.store.storage import Policy
from server.store.store import Store
from tests.shelves import JOURNAL, failing, files_no_longer_than, load_size, loaded_rows, rows

# A disk that refuses


@pytest.mark.parametrize("policy", ["os", "interval", "always"])
def test_a_full_disk_refuses_the_commit_in_hand_and_no_other(tmp_path: Path, policy: Policy) -> None:
    rolled_back: list[str] = []
    with Store.open(tmp_path, policy) as store:
        store.on_rollback(lambda: rolled_back.append("told"))
        charges = store.table("charges", indexes=["status"])
        charges.put({"id": "a", "status": "pending"})
        before = rows(store)
        size = (tmp_path / JOURNAL).stat().st_size
        for room in range(40):
            with files_no_longer_than(size + room), pytest.raises(StorageUnavailable, match="nothing was accepted"):
                charges.put({"id": "b", "status": "pending"})
            assert rows(store) == before == loaded_rows(tmp_path / JOURNAL)
            assert charges.row("a") is not None
            assert charges.find("status", "pending") == [{"id": "a", "status": "pending"}]
        assert len(rolled_back) == 40
        assert charges.put({"id": "b", "status": "pending"})
    with Store.open(tmp_path) as store:
        assert [row["id"] for row in store.table("charges")] == ["a", "b"]
        assert store.notes == ()


def test_half_a_line_that_cannot_even_be_cut_off_is_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as broken:
            broken.setattr(os, "write", half_of(os.write))
            broken.setattr(os, "ftruncate", failing)
            for _ in range(2):
                with pytest.raises(StorageUnavailable):
                    charges.put({"id": "b"})
        assert load(tmp_path / JOURNAL).note is not None
        charges.put({"id": "c"})
        assert load(tmp_path / JOURNAL).note is None
        assert [row["id"] for row in charges] == ["a", "c"]
    with Store.open(tmp_path) as store:
        assert [row["id"] for row in store.table("charges")] == ["a", "c"]


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with Store.open(tmp_path) as store, monkeypatch.context() as slow:
        slow.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        for act in (lambda: store.table("charges").put({"id": "a"}), store.compact):
            act()
            assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def half_of(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    """A disk with room for half of what it is first given."""
    given: list[int] = []

    def half(fd: int, data: bytes) -> int:
        if given:
            failing()
        given.append(fd)
        return write(fd, data[: len(data) // 2])

    return half


# Reaching the disk


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of fsync, which still do their work."""
    calls: list[int] = []
    real = os.fsync

    def counted(fd: int) -> None:
        calls.append(fd)
        real(fd)

    monkeypatch.setattr(os, "fsync", counted)
    return calls


def test_policy_os_leaves_the_disk_to_the_kernel_until_it_closes(tmp_path: Path, syncs: list[int]) -> None:
    store = Store.open(tmp_path)
    del syncs[:]
    assert not store.unsynced
    store.table("charges").put({"id": "a"})
    assert store.unsynced
    assert not store.maybe_sync(10**12)
    assert syncs == []
    store.close()
    assert len(syncs) == 1


def test_policy_interval_syncs_when_asked_and_at_most_so_often(tmp_path: Path, syncs: list[int]) -> None:
    with Store.open(tmp_path, "interval", interval_ms=500) as store:
        charges = store.table("charges")
        assert not store.maybe_sync(0)  # nothing to bring
        for now_ms, synced in ((0, True), (1, False), (499, False), (500, True), (999, False), (1_000, True)):
            charges.put({"id": now_ms})
            assert store.maybe_sync(now_ms) is synced
            assert store.unsynced is not synced
        charges.put({"id": "clock set back"})
        assert store.maybe_sync(3)


def test_policy_always_syncs_before_a_commit_returns(tmp_path: Path, syncs: list[int]) -> None:
    with Store.open(tmp_path, "always") as store:
        del syncs[:]
        with store.commit():
            store.table("charges").put({"id": "a"})
            store.table("charges").put({"id": "b"})
            assert syncs == []
        assert len(syncs) == 1
        assert not store.unsynced


def test_a_group_commit_waits_once_for_all(tmp_path: Path, syncs: list[int]) -> None:
    with Store.open(tmp_path, "always", group_commit=True) as store:
        del syncs[:]
        for number in range(50):
            store.table("charges").put({"id": number})
        assert store.unsynced
        assert syncs == []
        store.flush()
        store.flush()
        assert not store.unsynced
        assert len(syncs) == 1


def test_a_disk_that_fails_to_sync_takes_the_commit_back_and_then_everything_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, "always") as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            for _ in range(2):
                with pytest.raises(StorageUnavailable):
                    charges.put({"id": "b"})
                assert charges.all() == [{"id": "a"}]
                assert loaded_rows(tmp_path / JOURNAL) == rows(store)
        inode = (tmp_path / JOURNAL).stat().st_ino
        charges.put({"id": "c"})
        assert (tmp_path / JOURNAL).stat().st_ino != inode
        assert not store.unsynced
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)
        inode = (tmp_path / JOURNAL).stat().st_ino
        charges.put({"id": "d"})
        assert (tmp_path / JOURNAL).stat().st_ino == inode  # once was enough
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_a_failed_flush_is_not_believed_when_it_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path, "always", group_commit=True) as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            with pytest.raises(StorageUnavailable):
                store.flush()
        with pytest.raises(StorageUnavailable, match="the next commit writes everything anew"):
            store.flush()
        assert store.unsynced
        charges.put({"id": "b"})
        assert not store.unsynced
        store.flush()
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


# Compaction

STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.sampled_from("ppppdtx")), min_size=1, max_size=4),
    max_size=40,
)


def do(store: Store, step: list[tuple[str, int, str]]) -> None:
    with store.commit():
        for name, number, deed in step:
            table = store.table(name)
            if deed == "p":
                table.put({"id": number, "version": len(table)})
            elif deed == "d":
                table.delete(number)
            elif deed == "t":
                table.truncate()
            else:
                store.db.drop_table(name)


@settings(max_examples=60)
@given(steps=STEPS, rows_a_step=st.integers(1, 3))
def test_at_every_moment_the_file_holds_what_memory_holds(
    steps: list[list[tuple[str, int, str]]], rows_a_step: int
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as eager:
        eager.setattr(storage, "GARBAGE_FLOOR", 0)
        eager.setattr(storage, "GARBAGE_TIMES", 1)
        eager.setattr(compaction, "ROWS_A_STEP", rows_a_step)
        path = Path(place) / JOURNAL
        with Store.open(place) as store:
            for step in steps:
                do(store, step)
                assert loaded_rows(path) == rows(store)
            store.compact()
            assert loaded_rows(path) == rows(store)


def test_a_journal_grows_with_its_rows_and_not_with_its_past(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        largest = 0
        for number in range(30_000):
            charges.put({"id": number % 10, "fill": "x" * 20})
            largest = max(largest, load_size(tmp_path))
        assert largest < (storage.GARBAGE_FLOOR + 100) * 70  # bytes a line
    with Store.open(tmp_path) as store:
        assert len(store.table("charges")) == 10


def test_a_crash_during_compaction_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 50)
    monkeypatch.setattr(compaction, "ROWS_A_STEP", 5)
    seen = set()
    with Store.open(tmp_path / "live") as store:
        charges = store.table("charges")
        for number in range(400):
            charges.put({"id": number % 60, "version": number})
            copy = tmp_path / f"copy-{number}"
            shutil.copytree(tmp_path / "live", copy)
            seen |= {path.name for path in copy.iterdir()}
            with Store.open(copy) as again:
                assert rows(again) == rows(store)
            assert sorted(path.name for path in copy.iterdir()) == [JOURNAL, "charges.lock"]
            shutil.rmtree(copy)
    assert f"{JOURNAL}.new" in seen


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "ftruncate"])
def test_a_disk_that_refuses_compaction_leaves_the_old_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 20)
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        real_write = os.write
        journal_fd = store.storage._fd  # type: ignore[attr-defined]

        def only_the_journal(fd: int, data: bytes) -> int:
            return real_write(fd, data) if fd == journal_fd else failing()

        with monkeypatch.context() as broken:
            broken.setattr(os, call, only_the_journal if call == "write" else failing)
            for number in range(200):
                charges.put({"id": number % 3, "version": number})
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)
        assert not (tmp_path / f"{JOURNAL}.new").exists()
        size = load_size(tmp_path)
        store.compact()
        assert load_size(tmp_path) < size or call == "ftruncate"
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_compaction_on_demand_says_when_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path) as store:
        store.table("charges").put({"id": "a"})
        before = (tmp_path / JOURNAL).read_bytes()
        with monkeypatch.context() as broken:
            broken.setattr(os, "replace", failing)
            with pytest.raises(StorageUnavailable):
                store.compact()
        assert (tmp_path / JOURNAL).read_bytes() == before
        assert not (tmp_path / f"{JOURNAL}.new").exists()
        assert store.unsynced
        store.compact()
        assert not store.unsynced
        with store.commit(), pytest.raises(StoreError, match="a compaction inside a commit"):
            store.compact()
