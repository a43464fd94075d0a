"""The store: commits are atomic, and a fork is independent of its parent."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinydb import TinyDB, where
from tinydb.table import Document

from leyden.server.errors import StoreError
from leyden.server.store import compaction, storage
from leyden.server.store.journal import load
from leyden.server.store.store import Store
from leyden.server.store.tables.table_data import TableData
from tests.support.deep import sampled
from tests.support.examples import examples
from tests.support.store_helpers import JOURNAL, CommitObserver, loaded_rows, rows


class Thrown(Exception):
    """Raised to roll a commit back."""


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store.memory() if request.param == "memory" else Store.open(tmp_path) as store:
        yield store


def lines(directory: Path) -> list[Any]:
    """The journal's commits."""
    return [json.loads(line)[1] for line in (directory / "charges.journal").read_text().splitlines()[1:]]


def complete(store: Store, key: str, fails: bool = False) -> None:
    """A charge is paid: its status changes and a delivery is due, which is one commit."""
    with store.commit():
        charge = store.table("charges").row(key)
        assert charge is not None
        store.table("charges").put({**charge, "status": "completed"})
        store.table("deliveries").put({"id": f"of {key}", "charge": key})
        if fails:
            raise Thrown


# Commits


def test_the_change_and_the_delivery_it_causes_are_one_line(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.table("charges").put({"id": "a", "status": "pending"})
        complete(store, "a")
    assert lines(tmp_path) == [
        {"charges": [[1, {"id": "a", "status": "pending"}]]},
        {"charges": [[1, {"id": "a", "status": "completed"}]], "deliveries": [[1, {"id": "of a", "charge": "a"}]]},
    ]


def test_a_commit_that_fails_leaves_no_trace(store: Store) -> None:
    charges = store.table("charges", indexes=["status"])
    charges.put({"id": "a", "status": "pending"})
    with pytest.raises(Thrown):
        complete(store, "a", fails=True)
    assert charges.row("a") == {"id": "a", "status": "pending"}
    assert charges.find("status", "completed") == []
    assert store.table("deliveries").all() == []
    assert store.db.tables() == {"charges"}
    complete(store, "a")
    assert store.table("deliveries").all()[0].doc_id == 1


def test_a_commit_inside_another_joins_it(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        with store.commit():
            store.table("charges").put({"id": "a", "status": "pending"})
            complete(store, "a")
            assert lines(tmp_path) == []
        assert len(lines(tmp_path)) == 1


def test_commits_within_commits_are_one_however_deep(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        with store.commit():
            with store.commit():
                with store.commit():
                    charges.put({"id": "a"})
                charges.put({"id": "b"})
            charges.put({"id": "c"})
            assert lines(tmp_path) == []
        assert len(lines(tmp_path)) == 1


def test_an_inner_failure_that_was_caught_still_ends_the_whole_commit(store: Store) -> None:
    def outer() -> None:
        with store.commit():
            store.table("charges").put({"id": "a", "status": "pending"})
            with pytest.raises(Thrown):
                complete(store, "a", fails=True)
            store.table("charges").put({"id": "b"})

    with pytest.raises(StoreError, match="a commit inside this one failed"):
        outer()
    assert store.db.tables() == set()
    store.table("charges").put({"id": "c"})
    assert store.table("charges").all() == [{"id": "c"}]


def test_a_refused_operation_does_not_end_the_commit_it_is_part_of(store: Store) -> None:
    charges = store.table("charges")
    with store.commit():
        charges.put({"id": "a"})
        with pytest.raises(ValueError, match="already exists"):
            charges.insert({"id": "a"})
        with pytest.raises(ValueError, match="already exists"):
            charges.insert(Document({"id": "b"}, 1))
        with pytest.raises(KeyError):
            charges.update(lambda row: row.pop("none"))
        charges.put({"id": "c"})
    assert [row["id"] for row in charges] == ["a", "c"]


def test_a_commit_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        with store.commit():
            assert charges.row("a") is None
            charges.search(where("id") == "a")
        assert store.db.tables() == set()
        charges.put({"id": "a"})
        with store.commit():
            charges.remove(doc_ids=[7])
            charges.update({"status": "x"}, where("id") == "b")
            assert not charges.delete("b")
            charges.put({"id": "passing"})
            charges.delete("passing")
            store.table("passing").put({"id": "a"})
            store.db.drop_table("passing")
        assert len(lines(tmp_path)) == 1
        assert not store.depth


def test_emptying_a_table_is_one_entry_however_many_rows_it_had(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges")
        charges.insert_multiple([{"id": number} for number in range(9)])
        with store.commit():
            charges.truncate()
            charges.put({"id": "new"})
        store.db.drop_table("charges")
    assert lines(tmp_path)[1:] == [{"charges": [[], [1, {"id": "new"}]]}, {"charges": None}]


def test_several_changes_of_one_row_are_written_as_the_last(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.commit():
        for step in range(5):
            store.table("charges").put({"id": "a", "step": step})
    assert lines(tmp_path) == [{"charges": [[1, {"id": "a", "step": 4}]]}]


# Ctrl-C, which CPython raises as a function begins or a call of a C function has returned. (The one moment that nothing
# can guard is the beginning of `__exit__` itself.)

STORE = str(Path(storage.__file__).parent)


def interrupted(moment: int, act: Callable[[], Any]) -> bool:
    """Call `act` with Ctrl-C at that moment inside the store. False if it returned before."""
    left = moment

    def look(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        code = frame.f_code
        if not code.co_filename.startswith(STORE) or event not in ("call", "c_return"):
            return
        left -= (event, code.co_name) != ("call", "__exit__")
        if not left:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def several(store: Store) -> None:
    charges = store.table("charges")
    with store.commit():
        charges.put({"id": "a", "status": "completed"})
        charges.put({"id": "a", "status": "settled"})
        charges.delete("b")
        charges.insert(Document({"id": "b", "status": "again"}, 2))
        store.table("deliveries").put({"id": "of a", "charge": "a"})


def failing_one(store: Store) -> None:
    with suppress(Thrown), store.commit():
        several(store)
        store.table("deliveries").truncate()
        raise Thrown


INTERRUPTED: dict[str, Callable[[Store], Any]] = {
    "several": several,
    "failing": failing_one,
    "update": lambda store: store.table("charges").update({"status": "completed"}, where("status") == "pending"),
    "drop": lambda store: store.db.drop_table("charges"),
    "compact": lambda store: store.compact(),
    "put": lambda store: store.table("charges").put({"id": "c", "status": "pending"}),
}


# `put` also after so many changes that it starts or continues a compaction, swaps the files, or frees the old one.
@pytest.mark.parametrize(
    ("operation", "steps"), sampled([*((one, 0) for one in INTERRUPTED), *(("put", n) for n in (1, 3, 5, 7))], 5)
)
def test_ctrl_c_at_any_moment_leaves_a_commit_complete_or_rolled_back_and_the_file_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, steps: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(storage, "GARBAGE_FACTOR", 1)
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 1 if steps else 99)
    monkeypatch.setattr(compaction, "ROWS_PER_STEP", 1)
    monkeypatch.setattr(compaction, "RETIRED_BYTES_PER_STEP", 100)

    def prepared(store: Store) -> Store:
        charges = store.table("charges", indexes=["status"])
        for key in ("a", "b", "c"):
            charges.put({"id": key, "status": "pending"})
        for version in range(steps):
            charges.put({"id": "a", "status": "pending", "version": version})
        return store

    done = prepared(Store.memory())
    INTERRUPTED[operation](done)
    for moment in itertools.count(1):
        place = tmp_path / str(moment)
        with prepared(Store.open(place)) as store:
            observer = CommitObserver()
            store.register(observer)
            before = rows(store)
            cut = interrupted(moment, lambda store=store: INTERRUPTED[operation](store))  # type: ignore[misc]
            now = rows(store)
            assert now in (before, rows(done)), moment
            assert loaded_rows(place / JOURNAL) == now, moment
            if "commit" in observer.ends and rows(done) != before:
                assert now == rows(done), "commit participants are notified of the result"
            for key in ("a", "next"):
                store.table("charges", indexes=["status"]).put({"id": key, "status": "next"})
            assert [row["id"] for row in store.table("charges").find("status", "next")] == ["a", "next"]
            assert len(store.table("charges").find("status", "pending")) == sum(
                row["status"] == "pending" for row in store.table("charges")
            )
            assert loaded_rows(place / JOURNAL) == rows(store), moment
        with Store.open(place) as again:
            assert rows(again) == rows(store), moment
        if not cut:
            assert moment > 20
            break


def test_a_rollback_that_was_interrupted_twice_is_completed_by_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges", key="id", indexes=["status"])
        charges.put({"id": "a", "status": "pending"})
        undo, interrupts = TableData.rollback, iter((KeyboardInterrupt, KeyboardInterrupt))

        def interrupting(table: TableData) -> None:
            if (interrupt := next(interrupts, None)) is not None:
                raise interrupt
            undo(table)

        monkeypatch.setattr(TableData, "rollback", interrupting)
        with pytest.raises(KeyboardInterrupt), store.commit():
            _ = [charges.put({"id": key, "status": "lost"}) for key in ("a", "b", None)]  # the last is refused
        with pytest.raises(StoreError, match="nothing of this commit was kept"):
            charges.put({"id": "c", "status": "pending"})
        assert [row["id"] for row in charges] == ["a"]
        assert len(charges.find("status", "pending")) == 1
        charges.put({"id": "d", "status": "pending"})
        assert loaded_rows(tmp_path / JOURNAL) == rows(store)
        assert [row["id"] for row in charges] == ["a", "d"]


def test_a_participant_sees_the_restored_rows_in_its_rollback(store: Store) -> None:
    observed: list[list[Any]] = []
    charges = store.table("charges")
    charges.put({"id": "a", "status": "pending"})
    participant = RecordingParticipant()
    participant.rollback = lambda error: observed.append(charges.all())  # type: ignore[method-assign]
    store.register(participant)
    complete(store, "a")
    assert observed == []
    with pytest.raises(Thrown):
        complete(store, "a", fails=True)
    assert observed == [[{"id": "a", "status": "completed"}]]


class RecordingParticipant:
    """A commit participant that records its calls."""

    def __init__(self) -> None:
        self.observed: list[Any] = []

    def begin(self) -> None:
        self.observed.append("begins")

    def commit(self) -> None:
        self.observed.append("is kept")

    def rollback(self, error: BaseException) -> None:
        self.observed.append(error)


def test_a_participant_is_notified_when_an_outermost_commit_begins_and_ends(store: Store) -> None:
    participant = RecordingParticipant()
    store.register(participant)
    with store.commit():
        complete_new(store, "a")
    assert participant.observed == ["begins", "is kept"]
    with pytest.raises(Thrown) as thrown, store.commit():
        complete_new(store, "b", fails=True)
    assert participant.observed[2:] == ["begins", thrown.value]
    with pytest.raises(StoreError) as doomed, store.commit(), suppress(Thrown):
        complete_new(store, "c", fails=True)
    assert participant.observed[4:] == ["begins", doomed.value]
    store.pre_commit_hook = store.close  # which refuses, so that the commit cannot be written down
    with pytest.raises(StoreError) as refused:
        store.table("charges").put({"id": "d"})
    assert participant.observed[6:] == ["begins", refused.value]
    store.pre_commit_hook = None


def complete_new(store: Store, key: str, fails: bool = False) -> None:
    store.table("charges").put({"id": key, "status": "pending"})
    complete(store, key, fails)


def test_what_belongs_to_every_commit_is_added_before_it_is_written(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        clock = store.table("world")
        store.pre_commit_hook = lambda: clock.put({"id": "clock", "now": 5})
        store.table("charges").put({"id": "a"})
        with store.commit():
            pass
        store.pre_commit_hook = None
    assert lines(tmp_path) == [{"charges": [[1, {"id": "a"}]], "world": [[1, {"id": "clock", "now": 5}]]}]


def test_keys_may_move_between_rows_within_a_commit_and_are_rolled_back(store: Store) -> None:
    charges = store.table("charges", indexes=["id"])
    charges.insert_multiple([{"id": "a"}, {"id": "b"}])

    def swap(fails: bool) -> None:
        with store.commit():
            for doc_id, name in ((1, "x"), (2, "a"), (1, "b")):
                charges.update({"id": name}, doc_ids=[doc_id])
            if fails:
                raise Thrown

    def holders() -> list[int | None]:
        ids = {row["id"]: row.doc_id for row in charges}
        assert all((charges.row(name) is not None) == (name in ids) for name in "abx")
        return [ids.get(name) for name in "abx"]

    with pytest.raises(Thrown):
        swap(fails=True)
    assert holders() == [1, 2, None]
    swap(fails=False)
    assert holders() == [2, 1, None]
    assert charges.find("id", "a") == [charges.get(doc_id=2)]


def test_an_id_reused_within_a_commit_is_last_and_is_rolled_back(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.table("charges").insert_multiple([Document({"id": "c"}, 2), Document({"id": "a"}, 1)])

    def replace(store: Store, fails: bool) -> None:
        with store.commit():
            store.table("charges").delete("c")
            assert store.table("charges").put({"id": "d"}) == 2
            if fails:
                raise Thrown

    with Store.open(tmp_path) as store:  # its next id follows the highest id there is
        with pytest.raises(Thrown):
            replace(store, fails=True)
        assert [row["id"] for row in store.table("charges")] == ["c", "a"]
        replace(store, fails=False)
        assert [row["id"] for row in store.table("charges")] == ["a", "d"]
    with Store.open(tmp_path) as store:
        assert [row["id"] for row in store.table("charges")] == ["a", "d"]


def test_dropping_tables_can_be_rolled_back(store: Store) -> None:
    charges = store.table("charges", indexes=["status"])
    charges.insert_multiple(
        [Document({"id": name, "status": "pending"}, doc_id) for name, doc_id in (("b", 2), ("a", 1))]
    )

    def drop() -> None:
        with store.commit():
            store.db.drop_tables()
            store.table("charges").put({"id": "new"})
            store.table("others").put({"id": "new"})
            raise Thrown

    with pytest.raises(Thrown):
        drop()
    assert store.db.tables() == {"charges"}
    assert [row["id"] for row in store.table("charges")] == ["b", "a"]
    assert [row["id"] for row in charges.find("status", "pending")] == ["a", "b"]
    assert charges.put({"id": "c"}) == 3
    store.db.drop_table("charges")
    assert store.db.tables() == set()
    assert charges.row("a") is None
    assert charges.put({"id": "a", "status": "pending"}) == 1
    assert store.table("charges").find("status", "pending") == [{"id": "a", "status": "pending"}]
    store.drop_tables()
    assert store.db.tables() == set()


# Snapshots and forks


def test_a_fork_and_its_parent_are_independent(store: Store) -> None:
    charges = store.table("charges", indexes=["status"])
    for name in "abc":
        charges.put({"id": name, "status": "pending"})
    charges.delete("c")
    state = store.snapshot()
    fork, twin = Store.from_snapshot(state), Store.from_snapshot(state)
    complete(fork, "a")
    charges.delete("b")
    forked = fork.table("charges", indexes=["status"])
    assert [row["id"] for row in forked.find("status", "completed")] == ["a"]
    assert [row["id"] for row in forked.find("status", "pending")] == ["b"]
    assert [row["id"] for row in charges.find("status", "pending")] == ["a"]
    assert [row["status"] for row in twin.table("charges")] == ["pending", "pending"]
    assert twin.db.tables() == {"charges"}
    # The next id continues the parent's sequence, after the row that was deleted.
    assert [each.put({"id": "d"}) for each in (charges, forked, twin.table("charges"))] == [4, 4, 4]
    with pytest.raises(ValueError, match="table 'charges': a row with id 'd' already exists"):
        forked.insert({"id": "d"})


def test_a_fork_shares_the_rows_and_a_pickled_one_the_values(store: Store) -> None:
    store.table("charges").put({"id": "a", "nested": {"deep": [1]}})
    state = store.snapshot()
    fork = Store.from_snapshot(state)
    assert fork.tables["charges"].rows[1] is store.tables["charges"].rows[1]
    sent = Store.from_snapshot(pickle.loads(pickle.dumps(state)))
    assert sent.snapshot() == state
    fork.table("charges").update(lambda row: row["nested"]["deep"].append(2))
    assert store.table("charges").row("a") == {"id": "a", "nested": {"deep": [1]}}


def test_no_snapshot_is_taken_inside_a_commit(store: Store) -> None:
    with store.commit():
        for act, words in ((store.snapshot, "a snapshot inside a commit"), (store.close, "cannot be closed inside")):
            with pytest.raises(StoreError, match=words):
                act()


@examples(50, bounded=20)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=30))
def test_a_fork_taken_at_any_moment_stays_as_it_was(steps: list[tuple[int, bool, bool]]) -> None:
    store = Store.memory()
    table = store.table("charges", indexes=["n"])
    forks = []
    for number, put, fork in steps:
        if put:
            table.put({"id": number, "n": number % 3})
        else:
            table.delete(number)
        if fork:
            state = store.snapshot()
            forks.append((Store.from_snapshot(state), [(row.doc_id, dict(row)) for row in table], table.find("n", 1)))
    for forked, was, found in forks:
        twin = forked.table("charges", indexes=["n"])
        assert [(row.doc_id, dict(row)) for row in twin] == was
        assert twin.find("n", 1) == found


# The complete store


def test_the_database_is_tinydbs_own_with_our_table(store: Store) -> None:
    assert isinstance(store.db, TinyDB)
    charges = store.table("charges")
    assert store.table("charges") is charges
    assert store.db.table("charges") is charges
    charges.put({"id": "a", "status": "pending"})
    found = store.db.table("charges").search(where("status") == "pending")
    assert found == [{"id": "a", "status": "pending"}]
    assert isinstance(found[0], Document)
    assert store.db.insert({"in": "the default table"}) == 1
    assert store.db.tables() == {"charges", "_default"}
    assert "charges" in repr(store.db)


def test_a_store_in_memory_returns_the_same_as_one_in_a_file() -> None:
    store = Store.memory()
    store.table("charges").put({"id": "a"})
    store.flush()
    store.compact()
    assert (store.notes, store.unsynced, store.maybe_sync(10**12)) == ((), False, False)


def test_a_reopened_store_has_its_rows_and_indexes(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        charges = store.table("charges", indexes=["status"])
        for number in range(20):
            charges.put({"id": number, "status": "pending"})
            if number % 3 == 0:
                charges.put({"id": number, "status": "completed"})
        charges.delete(19)
    with Store.open(tmp_path) as store:
        charges = store.table("charges", indexes=["status"])
        assert [row["id"] for row in charges.find("status", "completed")] == [0, 3, 6, 9, 12, 15, 18]
        assert [row["id"] for row in charges.page(limit=3)] == [18, 17, 16]
        assert charges.row(4) == {"id": 4, "status": "pending"}
        assert store.notes == ()


def test_commits_go_on_while_another_thread_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "GARBAGE_FLOOR", 10)
    monkeypatch.setattr(compaction, "ROWS_PER_STEP", 2)
    with Store.open(tmp_path, "always", group_commit=True) as store, ThreadPoolExecutor(1) as thread:
        charges = store.table("charges")
        inodes = set()
        waits = []
        for number in range(1_500):
            charges.put({"id": number % 5, "version": number})
            if number % 10 == 0:
                waits.append(thread.submit(store.flush))
                inodes.add(os.stat(tmp_path / "charges.journal").st_ino)
        for wait in waits:
            wait.result()
        store.flush()
        assert not store.unsynced
        assert len(inodes) > 1
        assert load(tmp_path / "charges.journal").tables["charges"] == store.snapshot()["charges"].rows
