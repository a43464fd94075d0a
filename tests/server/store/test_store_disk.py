"""A full, failing or slow disk: the current commit is refused or waits, and no other commit is affected."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.store import compaction, journal, storage
from leyden.server.store.journal import load
from leyden.server.store.lock import Lock
from leyden.server.store.storage import JournalStorage, Policy
from leyden.server.store.store import Store
from leyden.server.store.tinydb.table import IndexedTable
from tests.support.deep import deep_or
from tests.support.examples import examples
from tests.support.store_helpers import (
    END,
    JOURNAL,
    CommitObserver,
    failing,
    files_no_longer_than,
    load_size,
    loaded_rows,
    lowest_free_descriptor,
    rows,
)

# A disk that refuses


@pytest.mark.parametrize("policy", ["os", "interval", "always"])
def test_a_full_disk_refuses_the_current_commit_and_no_other(tmp_path: Path, policy: Policy) -> None:
    observer = CommitObserver()
    with Store.open(tmp_path, policy) as store:
        store.register(observer)
        charges = store.table("charges", indexes=["status"])
        charges.put({"id": "a", "status": "pending"})
        before = rows(store)
        size = (tmp_path / JOURNAL).stat().st_size
        for room in range(40):
            with files_no_longer_than(size + room), pytest.raises(StorageUnavailable, match="nothing was accepted"):
                charges.put({"id": "b", "status": "pending"})
            assert observer.ends == ["rollback"]
            assert rows(store) == before == loaded_rows(tmp_path / JOURNAL)
            assert charges.row("a") is not None
            assert charges.find("status", "pending") == [{"id": "a", "status": "pending"}]
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


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with Store.open(tmp_path) as store, monkeypatch.context() as slow:
        slow.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        for act in (lambda: store.table("charges").put({"id": "a"}), store.compact):
            act()
            assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_a_refused_line_that_could_not_be_cut_off_is_cut_off_when_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path, "always")
    store.table("charges").put({"id": "a"})
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        broken.setattr(os, "ftruncate", failing)
        with pytest.raises(StorageUnavailable):
            store.table("charges").put({"id": "refused"})
    store.close()
    assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def half_of(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    """A disk that writes half of the first data and then is full."""
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


def test_policy_os_syncs_only_when_the_store_is_closed(tmp_path: Path, syncs: list[int]) -> None:
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
        assert not store.maybe_sync(0)  # nothing to sync
        for now_ms, synced in (
            (0, True),
            (0, False),
            (1, False),
            (499, False),
            (500, True),
            (999, False),
            (1_000, True),
        ):
            charges.put({"id": now_ms})
            assert store.unsynced
            assert store.maybe_sync(now_ms) is synced
            assert store.unsynced is not synced
        charges.put({"id": "clock set back"})
        assert store.maybe_sync(3)


def test_a_storage_opened_directly_has_the_defaults_of_a_store(tmp_path: Path, syncs: list[int]) -> None:
    def put(kept: JournalStorage) -> int:
        before = len(syncs)
        IndexedTable(kept, "charges", key="id").put({"id": "a"})
        return len(syncs) - before

    kept = JournalStorage(tmp_path / "os")
    assert (put(kept), kept.unsynced, kept.maybe_sync(10**12)) == (0, True, False)
    kept.close()
    kept = JournalStorage(tmp_path / "always", "always")
    assert (put(kept), kept.unsynced) == (1, False)
    kept.close()
    kept = JournalStorage(tmp_path / "interval", "interval")
    for now_ms, synced in ((0, True), (999, False), (1_000, True)):
        assert (put(kept), kept.maybe_sync(now_ms)) == (0, synced)
    kept.close()


def test_a_journal_may_be_the_first_file_a_process_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service started without a standard input: descriptor 0 is free, and whatever is opened next is given it."""

    def lock_and_free_the_first(directory: Path) -> Lock:
        held = Lock(directory)
        os.close(0)
        return held

    standard_input = os.dup(0)
    try:
        with monkeypatch.context() as first:
            first.setattr(storage, "Lock", lock_and_free_the_first)
            store = Store.open(tmp_path, "always", group_commit=True)
        assert os.path.samestat(os.fstat(0), (tmp_path / JOURNAL).stat())
        store.table("charges").put({"id": "a"})
        assert store.unsynced
        store.flush()
        assert not store.unsynced
        store.table("charges").put({"id": "b"})
        synced = counted(monkeypatch, os, "fsync")
        store.close()
        assert synced == [(0,)]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(0)
        os.dup2(standard_input, 0)
        with monkeypatch.context() as first:
            first.setattr(storage, "Lock", lock_and_free_the_first)
            store = Store.open(tmp_path)
        store.compact()
        assert [row["id"] for row in store.table("charges")] == ["a", "b"]
        store.close()
    finally:
        os.dup2(standard_input, 0)
        os.close(standard_input)


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


def test_a_failed_sync_rolls_the_commit_back_and_then_the_journal_is_rewritten(
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


def test_a_flush_that_succeeds_after_a_failed_one_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, "always", group_commit=True) as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            with pytest.raises(StorageUnavailable):
                store.flush()
        with pytest.raises(StorageUnavailable, match="the next commit writes the whole journal again"):
            store.flush()
        assert store.unsynced
        charges.put({"id": "b"})
        assert not store.unsynced
        store.flush()
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_data_of_a_failed_flush_is_rewritten_when_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path, "interval")
    store.table("charges").put({"id": "a"})
    inode = (tmp_path / JOURNAL).stat().st_ino
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        # The row was accepted: a text that says otherwise makes its reader send it again.
        with pytest.raises(StorageUnavailable, match="what was accepted since the last sync stays in the store"):
            store.maybe_sync(0)
        with pytest.raises(StorageUnavailable, match="what was accepted since the last sync stays in the store"):
            store.close()
    assert loaded_rows(tmp_path / JOURNAL) == rows(store)
    with Store.open(tmp_path, "interval") as store:
        store.table("charges").put({"id": "b"})
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            with pytest.raises(StorageUnavailable):
                store.maybe_sync(0)
    assert (tmp_path / JOURNAL).stat().st_ino != inode
    assert not store.unsynced
    assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_under_always_a_commit_fails_while_the_new_files_name_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, "always") as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            with pytest.raises(StorageUnavailable):
                charges.put({"id": "refused"})
        with monkeypatch.context() as broken:
            broken.setattr(storage, "sync_directory", failing)
            with pytest.raises(StorageUnavailable):
                charges.put({"id": "refused"})
        assert charges.all() == [{"id": "a"}]
        charges.put({"id": "b"})
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_a_flush_in_the_middle_of_a_compaction_waits_for_the_file_that_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    with Store.open(tmp_path, "always", group_commit=True) as store:
        store.table("charges").put({"id": "a"})
        old = store._fd  # type: ignore[attr-defined]

        def flush_meanwhile(directory: Path) -> None:
            """Another thread flushes after the rename and before the directory is synced."""
            del syncs[:]
            store.flush()
            assert syncs == [old]

        monkeypatch.setattr(storage, "sync_directory", flush_meanwhile)
        store.compact()
        assert not store.unsynced


def test_every_directory_that_is_made_and_the_journals_name_reach_the_disk(tmp_path: Path, syncs: list[int]) -> None:
    seen: list[Path] = []
    with pytest.MonkeyPatch.context() as watched:
        for module in (storage, journal):
            watched.setattr(module, "sync_directory", seen.append)
        Store.open(tmp_path / "a" / "b").close()
        assert seen == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
        # The process before may have died between giving the file its name and this.
        del seen[:]
        Store.open(tmp_path / "a" / "b").close()
        assert seen == [tmp_path / "a" / "b"]


# Compaction

STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.sampled_from("ppppdtx")), min_size=1, max_size=4),
    max_size=40,
)


def do(store: Store, step: list[tuple[str, int, str]]) -> None:
    with store.commit():
        for name, number, action in step:
            table = store.table(name)
            if action == "p":
                table.put({"id": number, "version": len(table)})
            elif action == "d":
                table.delete(number)
            elif action == "t":
                table.truncate()
            else:
                store.db.drop_table(name)


@examples(60, bounded=20)
@given(steps=STEPS, rows_a_step=st.integers(1, 3))
def test_at_every_moment_the_file_holds_what_memory_holds(
    steps: list[list[tuple[str, int, str]]], rows_a_step: int
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as eager:
        eager.setattr(storage, "GARBAGE_FLOOR", 0)
        eager.setattr(storage, "GARBAGE_FACTOR", 1)
        eager.setattr(compaction, "ROWS_PER_STEP", rows_a_step)
        path = Path(place) / JOURNAL
        with Store.open(place) as store:
            for step in steps:
                do(store, step)
                assert loaded_rows(path) == rows(store)
                assert_counters_match_the_file(store, path)
            store.compact()
            assert loaded_rows(path) == rows(store)
            assert_counters_match_the_file(store, path)


def assert_counters_match_the_file(store: Store, path: Path) -> None:
    """The counters of an open journal equal those after reopening it."""
    kept, found = store, load(path)
    assert isinstance(kept, JournalStorage)
    assert (kept._size, kept._chain, kept._records) == (found.size, found.chain, found.records)
    assert kept._size == path.stat().st_size


def test_compaction_starts_when_the_journal_holds_more_than_three_changes_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 10)
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        inode = (tmp_path / JOURNAL).stat().st_ino
        for version in range(15):  # with the two rows put first: sixteen, three for each row and ten to spare
            charges.put({"id": "b", "version": version})
        assert not (tmp_path / f"{JOURNAL}.new").exists()
        charges.put({"id": "b", "version": 15})
        assert (tmp_path / f"{JOURNAL}.new").exists()
        for version in range(3):
            charges.put({"id": "b", "version": version})
        assert (tmp_path / JOURNAL).stat().st_ino != inode


def test_the_replaced_journal_is_freed_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "RETIRED_BYTES_PER_STEP", 1_000)
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        charges.put({"id": "a", "fill": "x" * 2_500})
        free, retired = lowest_free_descriptor(), store._fd  # type: ignore[attr-defined]
        store.compact()
        sizes = []
        while lowest_free_descriptor() != retired and len(sizes) < 9:
            sizes.append(os.fstat(retired).st_size)
            charges.put({"id": "a", "version": len(sizes)})
        assert len(sizes) == 3
        assert sizes[0] - sizes[1] == sizes[1] - sizes[2] == 1_000
        store.compact()
    assert lowest_free_descriptor() < free


def test_a_journal_grows_with_its_rows_and_not_with_its_history(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        largest = 0
        for number in range(30_000):
            charges.put({"id": number % 10, "fill": "x" * 20})
            largest = max(largest, load_size(tmp_path))
        assert largest < (storage.GARBAGE_FLOOR + 100) * 70  # bytes a line
    with Store.open(tmp_path) as store:
        assert len(store.table("charges")) == 10


def test_a_crash_during_compaction_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 50)
    monkeypatch.setattr(compaction, "ROWS_PER_STEP", 5)
    seen = set()
    with Store.open(tmp_path / "live") as store:
        charges = store.table("charges")
        for number in range(400):
            charges.put({"id": number % 60, "version": number})
            if number % deep_or(bounded=3, full=1):
                continue
            copy = tmp_path / f"copy-{number}"
            shutil.copytree(tmp_path / "live", copy)
            seen |= {path.name for path in copy.iterdir()}
            with Store.open(copy) as again:
                assert rows(again) == rows(store)
            assert sorted(path.name for path in copy.iterdir()) == [END, JOURNAL, "charges.lock"]
            shutil.rmtree(copy)
    assert f"{JOURNAL}.new" in seen


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "ftruncate"])
def test_a_disk_that_refuses_compaction_leaves_the_old_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 20)
    monkeypatch.setattr(compaction, "RETIRED_BYTES_PER_STEP", 100)
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        real_write = os.write
        journal_fd = store._fd  # type: ignore[attr-defined]

        def only_the_journal(fd: int, data: bytes) -> int:
            return real_write(fd, data) if fd == journal_fd else failing()

        with monkeypatch.context() as broken:
            broken.setattr(os, call, only_the_journal if call == "write" else failing)
            tries = counted(broken, storage, "Compaction")
            for number in range(200):
                charges.put({"id": number % 3, "version": number})
        assert 1 <= len(tries) <= 200 // 29, "no use in trying with every commit"
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)
        assert not (tmp_path / f"{JOURNAL}.new").exists()
        assert ("could not be compacted (" in store.warning) == (call != "ftruncate")
        size = load_size(tmp_path)
        store.compact()
        assert load_size(tmp_path) < size or call == "ftruncate"
        assert store.warning == ""
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def counted(patch: pytest.MonkeyPatch, place: Any, name: str) -> list[Any]:
    """The arguments of each later call of a function."""
    calls, real = [], getattr(place, name)

    def call(*given: Any) -> Any:
        calls.append(given)
        return real(*given)

    patch.setattr(place, name, call)
    return calls


def test_a_failed_compaction_that_cannot_be_cleaned_up_does_not_stop_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 5)
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        with monkeypatch.context() as broken:
            broken.setattr(os, "replace", failing)
            broken.setattr(os, "unlink", failing)
            for number in range(30):
                charges.put({"id": "a", "version": number})
            with pytest.raises(StorageUnavailable):
                store.compact()
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)
        store.compact()
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


@pytest.mark.parametrize("call", ["close", "fstat", "posix_fadvise"])
def test_a_compaction_succeeds_although_its_clean_up_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = getattr(os, call)

    def failing_after_the_call(*arguments: Any) -> Any:
        real(*arguments)
        failing()

    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        for number in range(3):
            charges.put({"id": number})
            with monkeypatch.context() as broken:
                broken.setattr(os, call, failing_after_the_call)
                broken.setattr(storage, "sync_directory", lambda directory: None)  # it closes the directory, too
                for _ in range(2):
                    store.compact()
            charges.put({"id": f"after {number}"})
            assert loaded_rows(tmp_path / JOURNAL) == rows(store)
    with Store.open(tmp_path) as again:
        assert rows(again) == rows(store)


def test_a_closed_store_does_not_change_the_file_even_during_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 5)
    closed = Store.open(tmp_path)
    for version in range(10):
        closed.table("charges").put({"id": "a", "version": version})
    closed.close()
    with Store.open(tmp_path) as store:
        for number in range(5):
            store.table("charges").put({"id": number})
            with closed.commit():
                assert closed.table("charges").row("a") is not None
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)


def test_a_compaction_works_after_the_working_directory_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("mine", "other"):
        (tmp_path / place).mkdir()
    (tmp_path / "link").symlink_to("mine")
    monkeypatch.chdir(tmp_path / "mine")
    for name in (".", tmp_path / "link"):
        with Store.open(name) as store:
            store.table("charges").put({"id": str(name)})
            os.chdir(tmp_path / "other")
            (tmp_path / "link").unlink()
            (tmp_path / "link").symlink_to("other")
            store.compact()
            store.table("charges").put({"id": f"{name}, later"})
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to("mine")
        assert loaded_rows(tmp_path / "mine" / JOURNAL) == rows(store)
        assert list((tmp_path / "other").iterdir()) == []


def test_compaction_on_demand_raises_when_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
