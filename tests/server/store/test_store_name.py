"""The journal's name: no commit is accepted, and no sync claimed, while it leads to another file or to none."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.store import compaction, lock
from leyden.server.store.journal import encode_body, encode_line, header_line, load
from leyden.server.store.lock import LOCK_NAME
from leyden.server.store.storage import Policy
from leyden.server.store.store import Store
from tests.support.store_helpers import END, JOURNAL, CommitObserver, failing, rows

POLICIES: list[Policy] = ["os", "interval", "always"]


def unlink(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("aside"))


def replace_by_another(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def lengthen(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def move_the_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def replace_the_directory(path: Path) -> None:
    move_the_directory(path)
    path.parent.mkdir()


def remove_the_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


MENDED = [unlink, rename, empty]  # when the store is closed
LASTING = [lengthen, replace_by_another, move_the_directory, replace_the_directory, remove_the_directory]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("vanish", [*MENDED, *LASTING])
def test_nothing_is_accepted_while_the_name_does_not_lead_to_the_file(
    tmp_path: Path, policy: Policy, vanish: Callable[[Path], None]
) -> None:
    observer = CommitObserver()
    store = Store.open(tmp_path / "data", policy)
    store.register(observer)
    charges = store.table("charges")
    charges.put({"id": "a"})
    before = rows(store)
    vanish(tmp_path / "data" / JOURNAL)
    for number in range(20):
        with pytest.raises(StorageUnavailable, match=r"while it was in use: .*nothing is accepted until then"):
            charges.put({"id": number})
        assert observer.ends == ["rollback"]
        assert rows(store) == before
    if vanish in MENDED:
        store.close()
        with Store.open(tmp_path / "data") as again:
            assert rows(again) == before
    else:
        with pytest.raises(StorageUnavailable, match="while it was in use"):
            store.close()


@pytest.mark.parametrize("vanish", [unlink, rename, replace_by_another, move_the_directory, remove_the_directory])
def test_a_flush_is_no_claim_while_the_name_does_not_lead_to_the_file(
    tmp_path: Path, vanish: Callable[[Path], None]
) -> None:
    store = Store.open(tmp_path / "data", "always", group_commit=True)
    store.table("charges").put({"id": "a"})
    vanish(tmp_path / "data" / JOURNAL)
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="while it was in use"):
            store.flush()
        assert store.unsynced


def test_a_directory_that_may_not_be_entered_is_named_as_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = os.lstat

    def refused(path: Any, **options: Any) -> os.stat_result:
        if str(path).endswith(JOURNAL):
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, **options)

    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as barred:
            barred.setattr(os, "lstat", refused)
            with pytest.raises(StorageUnavailable, match="this user may not enter its directory: give the permission"):
                charges.put({"id": "b"})
        charges.put({"id": "c"})
        before = rows(store)
    with Store.open(tmp_path) as again:
        assert rows(again) == before


def test_a_file_that_vanishes_during_the_sync_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def vanishing(fd: int) -> None:
        fsync(fd)
        (tmp_path / JOURNAL).unlink()

    with Store.open(tmp_path, "always") as store:
        with monkeypatch.context() as fault:
            fault.setattr(os, "fsync", vanishing)
            with pytest.raises(StorageUnavailable, match="was deleted or moved"):
                store.table("charges").put({"id": "a"})
        assert list(store.table("charges")) == []


@pytest.mark.parametrize("vanish", [rename, replace_by_another, move_the_directory])
def test_work_continues_when_the_file_is_put_back(tmp_path: Path, vanish: Callable[[Path], None]) -> None:
    path = tmp_path / "data" / JOURNAL
    if vanish is replace_by_another:
        os.makedirs(path.parent)

        def vanish(path: Path) -> None:
            os.link(path, path.with_name("aside"))
            replace_by_another(path)

    with Store.open(path.parent, "always") as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        vanish(path)
        with pytest.raises(StorageUnavailable):
            charges.put({"id": "b"})
        if path.parent.exists():
            path.with_name("aside").replace(path)
        else:
            (tmp_path / "moved").rename(path.parent)
        charges.put({"id": "c"})
    with Store.open(path.parent) as again:
        assert [row["id"] for row in again.table("charges")] == ["a", "c"]


def test_another_file_is_never_overwritten(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.table("charges").put({"id": "a"})
    (tmp_path / JOURNAL).unlink()
    other = header_line()[0]
    (tmp_path / JOURNAL).write_bytes(other)
    for attempt in (store.compact, store.close):
        with pytest.raises(StorageUnavailable, match="replaced by another file"):
            attempt()
    assert (tmp_path / JOURNAL).read_bytes() == other


def test_a_link_in_the_place_of_the_journal_is_another_file(tmp_path: Path) -> None:
    """Also one to the journal itself: the next start refuses it."""
    store = Store.open(tmp_path)
    charges = store.table("charges")
    charges.put({"id": "a"})
    (tmp_path / JOURNAL).rename(tmp_path / "aside")
    (tmp_path / JOURNAL).symlink_to("aside")
    with pytest.raises(StorageUnavailable, match="replaced by another file"):
        charges.put({"id": "b"})
    (tmp_path / "aside").replace(tmp_path / JOURNAL)
    charges.put({"id": "c"})
    store.close()
    with Store.open(tmp_path) as again:
        assert [row["id"] for row in again.table("charges")] == ["a", "c"]


def test_a_file_that_another_program_made_longer_is_never_written_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    charges = store.table("charges")
    charges.put({"id": "a"})
    line, _ = encode_line(encode_body({"charges": [[2, {"id": "b"}]]}), load(tmp_path / JOURNAL).chain)
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(line)
    for attempt in (lambda: charges.put({"id": "c"}), store.compact, store.close):
        with pytest.raises(StorageUnavailable, match="was made longer by another program"):
            attempt()
    (tmp_path / END).unlink(missing_ok=True)
    with Store.open(tmp_path) as again:
        assert [row["id"] for row in again.table("charges")] == ["a", "b"]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_directory_whose_lock_file_was_deleted_is_in_use_until_the_store_is_closed(
    tmp_path: Path, compacted: bool
) -> None:
    with Store.open(tmp_path) as store:
        store.table("charges").put({"id": "a"})
        if compacted:
            store.compact()
        for _ in range(2):
            (tmp_path / LOCK_NAME).unlink()
            with pytest.raises(StoreError, match=r"in use by another process, although its charges\.lock was deleted"):
                Store.open(tmp_path)
        store.table("charges").put({"id": "b"})
    with Store.open(tmp_path) as again:
        assert [row["id"] for row in again.table("charges")] == ["a", "b"]


def test_a_journal_that_is_replaced_while_it_is_opened_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        store.table("charges").put({"id": "a"})

    def compacting(fd: int, path: Path) -> None:
        replace_by_another(path)

    monkeypatch.setattr(lock, "lock_journal", compacting)
    with pytest.raises(StoreError, match="is in use by another process"):
        Store.open(tmp_path)


def test_a_compaction_on_demand_writes_a_file_that_was_deleted(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        (tmp_path / JOURNAL).unlink()
        store.compact()
        charges.put({"id": "b"})
        (tmp_path / JOURNAL).unlink()
        store.compact()
    with Store.open(tmp_path) as again:
        assert [row["id"] for row in again.table("charges")] == ["a", "b"]


def test_a_directory_that_was_replaced_is_named_and_not_its_file(tmp_path: Path) -> None:
    """Nothing is written into another directory, whatever is in it."""
    path = tmp_path / "data" / JOURNAL
    store = Store.open(path.parent, "always")
    store.table("charges").put({"id": "a"})
    copy = tmp_path / "copy"
    shutil.copytree(path.parent, copy)
    move_the_directory(path)
    copy.rename(path.parent)
    with pytest.raises(StorageUnavailable, match="its directory was moved, removed or replaced"):
        store.table("charges").put({"id": "b"})
    path.unlink()
    with pytest.raises(StorageUnavailable, match="its directory was moved, removed or replaced"):
        store.close()
    assert not path.exists()


@pytest.mark.parametrize(
    ("vanish", "words"),
    [
        (unlink, "put it back before the next start; if it was deleted, everything that was accepted is lost"),
        (rename, "put it back before the next start; if it was deleted, everything that was accepted is lost"),
        (empty, "what was cut off is lost"),
        (lengthen, "stays as it is: start the server again"),
        (replace_by_another, "before the next start; if it was deleted, what the other file does not have is lost"),
        (move_the_directory, "put the directory back before the next start"),
        (remove_the_directory, "if it was removed, what no copy of it has is lost"),
    ],
)
def test_a_close_that_cannot_write_the_file_again_says_what_is_lost(
    tmp_path: Path, vanish: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data" / JOURNAL
    store = Store.open(path.parent, "always")
    store.table("charges").put({"id": "a"})
    vanish(path)
    with pytest.raises(StorageUnavailable) as commit:
        store.table("charges").put({"id": "b"})
    assert ("see that its disk has room" in commit.value.detail) is (vanish in [*MENDED, replace_by_another])
    monkeypatch.setattr(compaction, "write_all", failing)
    with pytest.raises(StorageUnavailable, match=r"charges\.journal ") as refused:
        store.close()
    assert words in refused.value.detail
    assert "stays in the store" not in refused.value.detail
    assert ("the disk refused: " in refused.value.detail) is (vanish in MENDED)


def test_a_commit_that_writes_the_file_again_needs_the_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, "always") as store:
        charges = store.table("charges")
        charges.put({"id": "a"})
        with monkeypatch.context() as fault:
            fault.setattr(os, "fsync", failing)
            with pytest.raises(StorageUnavailable):
                charges.put({"id": "b"})
        (tmp_path / JOURNAL).unlink()
        with pytest.raises(StorageUnavailable, match="was deleted or moved"):
            charges.put({"id": "c"})
    with Store.open(tmp_path) as again:
        assert [row["id"] for row in again.table("charges")] == ["a"]
