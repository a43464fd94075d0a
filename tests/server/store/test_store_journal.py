"""Commits survive a restart; damage is reported with its line and the remedy."""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB, where

from leyden.devserver.startup.project_folders import ProjectFolders
from leyden.server.errors import StoreError
from leyden.server.store.journal import DamagedJournal, LoadedJournal, encode_line, header_line, load, recover
from leyden.server.store.storage import JournalStorage
from leyden.server.store.store import Store
from tests.support.store_helpers import END, JOURNAL, files_no_longer_than, lowest_free_descriptor, rows

ROOT = Path(__file__).parents[3]


@pytest.fixture
def three_commits(tmp_path: Path) -> Path:
    """A directory whose journal has a header and three commits: lines 1 to 4."""
    with Store.open(tmp_path) as store:
        charges, deliveries = store.table("charges"), store.table("deliveries")
        charges.put({"id": "a", "status": "pending", "amount_msat": 1_000})
        charges.put({"id": "b", "status": "pending", "description": "caf\u00e9"})
        with store.commit():
            charges.put({"id": "a", "status": "completed", "amount_msat": 1_000})
            deliveries.put({"id": "d", "charge": "a"})
            charges.delete("b")
    return tmp_path


# The form of the file


def test_a_journal_is_lines_of_json_and_the_first_names_the_format(three_commits: Path) -> None:
    lines = (three_commits / JOURNAL).read_text().splitlines()
    read = [json.loads(line) for line in lines]
    assert read[0][1] == {"format": "leyden-journal", "version": 1}
    assert [body for _, body in read[1:]] == [
        {"charges": [[1, {"id": "a", "status": "pending", "amount_msat": 1000}]]},
        {"charges": [[2, {"id": "b", "status": "pending", "description": "caf\u00e9"}]]},
        {
            "charges": [[1, {"id": "a", "status": "completed", "amount_msat": 1000}], [2]],
            "deliveries": [[1, {"id": "d", "charge": "a"}]],
        },
    ]


def test_only_the_owner_may_read_the_journal(three_commits: Path) -> None:
    assert (three_commits / JOURNAL).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("value", [2**64, -(2**70), "\ud800", {"1": "\udfff"}, [2**63, 0.1], "\u0000\u2028\U0001f600"])
def test_json_values_are_read_as_they_were_written(tmp_path: Path, value: Any) -> None:
    with Store.open(tmp_path) as store:
        store.table("charges").put({"id": "a", "value": value})
        store.table("charges").put({"id": "b"})
    with Store.open(tmp_path) as store:
        assert [repr(dict(row)) for row in store.table("charges")] == [repr({"id": "a", "value": value}), "{'id': 'b'}"]


def test_other_values_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for value in ({1, 2}, b"bytes", object(), datetime(2030, 1, 1, tzinfo=UTC), LoadedJournal()):
            with pytest.raises(TypeError, match="not JSON serializable"):
                store.table("charges").put({"id": "a", "value": value})
        assert len(store.table("charges")) == 0
        assert store.table("charges").put({"id": "b"}) == 1
    with Store.open(tmp_path) as store:
        assert store.table("charges").all() == [{"id": "b"}]


# Torn and damaged


def test_a_commit_cut_short_at_any_byte_is_left_out_with_a_note(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        (three_commits / END).unlink()  # a process that dies while it writes a line has not noted its end
        with Store.open(three_commits) as store:
            assert [dict(row) for row in store.table("charges")] == [
                {"id": "a", "status": "pending", "amount_msat": 1_000},
                {"id": "b", "status": "pending", "description": "caf\u00e9"},
            ]
            if length > last:
                assert store.notes[-1] == (
                    f"{path}: line 4 was not finished ({length - last} bytes) and is ignored; without the mark in"
                    " charges.end it is not known whether its commit was confirmed"
                )
            else:
                assert store.notes == ()
            store.table("charges").put({"id": "c"})
        with Store.open(three_commits) as store:
            assert len(store.table("charges")) == 3
            assert store.notes == ()


def test_a_file_cut_within_its_first_line_is_a_new_one(tmp_path: Path) -> None:
    first, _ = header_line()
    for length in range(len(first)):
        (tmp_path / JOURNAL).write_bytes(first[:length])
        with Store.open(tmp_path) as store:
            assert store.db.tables() == set()
        assert (tmp_path / JOURNAL).read_bytes() == first


def test_any_changed_bit_is_found_and_its_line_named(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    whole = path.read_bytes()
    line = 1
    for place, byte in enumerate(whole):
        for bit in (place % 8, (place + 3) % 8):
            path.write_bytes(whole[:place] + bytes([byte ^ (1 << bit)]) + whole[place + 1 :])
            with pytest.raises(DamagedJournal) as caught:
                load(path)
            assert caught.value.line == line, (place, bit)
            assert str(caught.value).startswith(f"{path}, line {line}: ")
            assert "None" not in str(caught.value)
        line += byte == ord("\n")


def test_a_line_lost_doubled_or_out_of_place_is_found(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    one, two, three, four = path.read_bytes().splitlines(keepends=True)
    for lines, bad in (
        ([one, three, four], 2),
        ([one, two, four], 3),
        ([one, two, two, three, four], 3),
        ([one, three, two, four], 2),
        ([two, three, four], 1),
        ([one, two, b"\n", three, four], 3),
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(DamagedJournal) as caught:
            load(path)
        assert caught.value.line == bad


def test_a_damaged_journal_is_not_opened_and_recover_keeps_what_precedes(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    damaged = path.read_bytes().replace(b'"b","status":"pending"', b'"b","status":"PENDING"')
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"line 3: .* The 1 commits before it are sound") as refusal:
        Store.open(three_commits)
    assert f"recover({str(three_commits)!r})" in str(refusal.value)
    assert "the line is not what was written, or does not follow" in str(refusal.value)
    assert f"cut the file to its first 2 lines ({len(b''.join(damaged.splitlines(True)[:2]))} bytes)" in str(
        refusal.value
    )
    assert path.read_bytes() == damaged
    aside, kept = recover(three_commits)
    assert kept == 1
    assert aside.read_bytes() == damaged
    assert sorted(path.name for path in three_commits.iterdir()) == [JOURNAL, f"{JOURNAL}.damaged-1", "charges.lock"]
    with Store.open(three_commits) as store:
        assert store.table("charges").all() == [{"id": "a", "status": "pending", "amount_msat": 1_000}]
        store.table("charges").put({"id": "c"})
    with pytest.raises(StoreError, match="is sound: there is nothing to recover"):
        recover(three_commits)


def test_the_manual_remedy_works_too(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    path.write_bytes(path.read_bytes().replace(b"completed", b"complEted"))
    with pytest.raises(DamagedJournal) as caught:
        Store.open(three_commits)
    assert f"delete {three_commits / END}" in str(caught.value)
    os.truncate(path, caught.value.good_bytes)
    (three_commits / END).unlink()
    with Store.open(three_commits) as store:
        assert len(store.table("charges")) == 2


def test_damage_in_the_first_line_loses_no_commit(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"leyden", b"Leyden", 1))
    with pytest.raises(DamagedJournal, match="line 1: "):
        Store.open(three_commits)
    for number in (1, 2):
        assert recover(three_commits) == (three_commits / f"{JOURNAL}.damaged-{number}", 3)
        assert path.read_bytes() == whole
        path.write_bytes(whole.replace(b"leyden", b"Leyden", 1))


def test_a_truncated_first_line_loses_no_commit(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"\n", b"\x0b", 1))
    assert recover(three_commits)[1] == 3
    assert path.read_bytes() == whole


def test_only_the_owner_may_read_the_recovered_and_the_damaged_file(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    path.write_bytes(path.read_bytes().replace(b"completed", b"complEted"))
    aside, _ = recover(three_commits)
    assert [stat.S_IMODE(kept.stat().st_mode) for kept in (path, aside)] == [0o600, 0o600]


def test_a_recovery_is_noted_while_the_damaged_file_is_there(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    path.write_bytes(path.read_bytes().replace(b"completed", b"complEted"))
    aside, _ = recover(three_commits)
    for _ in range(2):
        with closing(Store.open(three_commits)) as store:
            [note] = store.notes
            assert note.startswith(f"{aside} is a damaged journal")
    aside.unlink()
    with closing(Store.open(three_commits)) as store:
        assert store.notes == ()


def test_a_journal_that_is_in_use_without_its_lock_file_is_not_recovered(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    whole = path.read_bytes()
    with closing(Store.open(three_commits)):
        (three_commits / "charges.lock").unlink()
        with pytest.raises(StoreError, match=r"is in use by another process, although its charges\.lock was deleted"):
            recover(three_commits)
    assert path.read_bytes() == whole


def test_damage_in_the_first_line_and_in_a_later_one_keeps_what_lies_between(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    whole = path.read_bytes()
    damaged = whole.replace(b"leyden", b"Leyden", 1).replace(b"completed", b"complEted")
    path.write_bytes(damaged)
    aside, kept = recover(three_commits)
    assert (aside.read_bytes(), kept) == (damaged, 2)
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])


def test_a_foreign_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    for content in (b"hello\n", b"\x00" * 40, b'{"format": "leyden-journal", "version": 1}\n', b"hello"):
        (tmp_path / JOURNAL).write_bytes(content)
        with pytest.raises(StoreError, match="if this is not a journal of Leyden, choose another directory") as refusal:
            Store.open(tmp_path)
        what = "the line is not what was written" if b"\n" in content else "it does not name the format"
        assert f"line 1: {what}" in str(refusal.value)
        assert (tmp_path / JOURNAL).read_bytes() == content


def test_a_newer_format_is_refused_by_name(three_commits: Path) -> None:
    path = three_commits / JOURNAL
    newer, chain = encode_line(b'{"format":"leyden-journal","version":2}', 0)
    path.write_bytes(newer + encode_line(b'{"unheard":"of"}', chain)[0])
    with pytest.raises(StoreError, match=r"written by a newer Leyden \(format 2; this one reads 1\)") as refusal:
        Store.open(three_commits)
    assert not isinstance(refusal.value, DamagedJournal)


@pytest.mark.parametrize("named", [b'"1"', b"0", b"-1", b"null", b"1.0"])
def test_a_format_that_has_no_such_version_is_damage(tmp_path: Path, named: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(encode_line(b'{"format":"leyden-journal","version":%b}' % named, 0)[0])
    with pytest.raises(DamagedJournal, match=r"line 1: there is no format version .*The 0 commits before it are sound"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"format":"tea","version":1}', "the format is 'tea', not leyden-journal"),
        (b'{"version":1}', "it does not name the format"),
        (b"[]", "it does not name the format"),
        (b"{", "it does not name the format"),
    ],
)
def test_a_line_of_another_format_with_a_valid_checksum_is_refused(tmp_path: Path, body: bytes, words: str) -> None:
    (tmp_path / JOURNAL).write_bytes(encode_line(body, 0)[0])
    with pytest.raises(DamagedJournal, match=f"line 1: {words}"):
        Store.open(tmp_path)


def test_a_deletion_of_a_missing_row_is_accepted(tmp_path: Path) -> None:
    """A compaction may omit a row that a later commit in the same journal deletes."""
    line, chain = header_line()
    for body in (
        b'{"charges":[[7],[1,{"id":"a"}]],"none":null,"after":[[1,{}]]}',
        b'{"after":null,"charges":[[2,{}]]}',
    ):
        sealed, chain = encode_line(body, chain)
        line += sealed
    (tmp_path / JOURNAL).write_bytes(line)
    loaded = load(tmp_path / JOURNAL)
    assert loaded.tables == {"charges": {1: {"id": "a"}, 2: {}}}
    assert (loaded.commits, loaded.records, loaded.size) == (2, 4, len(line))


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b'{"charges":[[1,{"n":NaN}]]}',
        b'{"charges":5}',
        b'{"charges":[5]}',
        b'{"charges":[[[],{}]]}',
        b"NaN",
    ],
)
def test_a_line_with_a_valid_checksum_and_invalid_content_is_damage(tmp_path: Path, body: bytes) -> None:
    first, chain = header_line()
    (tmp_path / JOURNAL).write_bytes(first + encode_line(body, chain)[0])
    with pytest.raises(DamagedJournal, match="line 2: its checksum is right, but it is not a commit"):
        Store.open(tmp_path)


def test_reading_restores_the_garbage_collector(three_commits: Path) -> None:
    assert gc.isenabled()
    load(three_commits / JOURNAL)
    assert gc.isenabled()
    gc.disable()
    try:
        load(three_commits / JOURNAL)
        assert not gc.isenabled()
    finally:
        gc.enable()


# One process at a time


def test_a_second_store_on_the_directory_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first = Store.open(tmp_path)
    free = lowest_free_descriptor()
    mend = r"close\(\) the other Sandbox of this process first, or choose another directory"
    with pytest.raises(StoreError, match=rf"{tmp_path} is in use by this process \({os.getpid()}\): {mend}"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="is in use"):
        recover(tmp_path)
    assert lowest_free_descriptor() == free
    first.close()
    Store.open(tmp_path).close()


FORKING = """
import os, sys
from leyden.server.errors import StoreError
from leyden.server.store.store import Store
store = Store.open(sys.argv[1])
store.table("charges").put({"id": "before"})
if not os.fork():
    try:
        store.table("charges").put({"id": "child"})
    except StoreError as error:
        print(error, flush=True)
    with store.commit():
        pass
    store.close()
    os.read(0, 1)
    os._exit(0)
os.wait() if len(sys.argv) > 2 else None
store.table("charges").put({"id": "after"})
os._exit(0)
"""


def test_a_forked_process_cannot_use_the_store(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    words = subprocess.run([*command, "wait"], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT)
    assert "is closed: open the store again" in words.stdout, words.stderr
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        parent.wait()
        assert parent.stdout is not None
        assert "is closed" in parent.stdout.readline()
        # The child still runs, and nothing is locked.
        with Store.open(tmp_path) as store:
            assert [row["id"] for row in store.table("charges")] == ["before", "after"]
        parent.communicate("x")


WRITER = """
import sys
from leyden.server.store.store import Store
from tests.support.store_helpers import JOURNAL, failing, files_no_longer_than, load_size, loaded_rows, rows
with Store.open(sys.argv[1]) as store:
    charges = store.table("charges")
    deliveries = store.table("deliveries")
    number = len(charges)
    while True:
        with store.commit():
            charges.put({"id": number, "fill": "x" * (number % 50)})
            deliveries.put({"id": number % 7, "charge": number})
        print(number, flush=True)
        number += 1
"""


def test_what_a_killed_process_had_answered_is_there_and_the_lock_is_free(tmp_path: Path) -> None:
    for kills in range(1, 7):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert writer.stdout is not None
        answered = [int(writer.stdout.readline()) for _ in range(37 * kills)]
        if kills == 1:
            with pytest.raises(StoreError, match=f"in use by process {writer.pid}"):
                Store.open(tmp_path)
        writer.send_signal(signal.SIGKILL)
        answered += map(int, writer.stdout.read().splitlines())
        writer.stdout.close()
        writer.wait()
        with Store.open(tmp_path) as store:
            charges = store.table("charges")
            assert len(charges) - 1 in (answered[-1], answered[-1] + 1)
            assert [row["id"] for row in charges] == list(range(len(charges)))
            assert max(row["charge"] for row in store.table("deliveries")) == len(charges) - 1


def test_an_impossible_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        place = tmp_path / name
        for below, why in (
            (place, "is a file and no directory"),
            (place / "below" / "further", f"cannot be made, because {place} is a file"),
        ):
            for open_it in (Store.open, lambda path: ProjectFolders(str(path), ["leyden"])):
                with pytest.raises(StoreError) as refused:
                    open_it(below)
                assert str(refused.value) == f"{below} {why}: choose another place for the store"
    with pytest.raises(StoreError, match="there is no store policy 'sometimes': choose os, interval or always"):
        JournalStorage(tmp_path, policy="sometimes")  # type: ignore[arg-type]
    (tmp_path / "odd" / JOURNAL).mkdir(parents=True)
    with pytest.raises(StoreError, match="not a regular file but a directory"):
        Store.open(tmp_path / "odd")
    (tmp_path / "odd" / JOURNAL).rmdir()
    Store.open(tmp_path / "odd").close()  # the failed attempt released the lock


def test_a_directory_is_made_with_those_above_it_even_if_somebody_else_does_so_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "some" / "where"
    Store.open(place).close()
    there = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path != place and there(path))
    Store.open(place).close()


def test_a_journal_is_not_overwritten_when_the_check_for_it_fails(
    three_commits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Path.exists` returns False also when the disk returns an error."""
    before = (three_commits / JOURNAL).read_bytes()
    with monkeypatch.context() as blind:
        blind.setattr(Path, "exists", lambda path: path.name != JOURNAL)
        with pytest.raises(StoreError, match="is missing or empty, and 3 commits were written to it"):
            Store.open(three_commits)
        (three_commits / END).unlink()
        with pytest.raises(StoreError, match="cannot be opened"):
            Store.open(three_commits)
    assert (three_commits / JOURNAL).read_bytes() == before


def test_a_file_system_without_locks_is_not_reported_as_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lockless(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    free = lowest_free_descriptor()
    monkeypatch.setattr(fcntl, "flock", lockless)
    with pytest.raises(StoreError, match=r"cannot be locked .*: choose a place whose file system has locks"):
        Store.open(tmp_path)
    assert lowest_free_descriptor() == free


def test_a_directory_without_write_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(StoreError, match=r"cannot be written \(Read-only file system\): let this user write there"):
        Store.open(tmp_path)


def test_a_closed_store_refuses_changes(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    charges = store.table("charges")
    charges.put({"id": "a"})
    store.close()
    store.close()
    for act in (lambda: charges.put({"id": "b"}), store.compact):
        with pytest.raises(StoreError, match="is closed: open the store again to write to it"):
            act()
    assert charges.all() == [{"id": "a"}]


# Plain TinyDB files


def test_stock_tinydb_reads_an_export_and_leyden_imports_it(three_commits: Path) -> None:
    plain = three_commits / "plain.json"
    with Store.open(three_commits) as store:
        store.table("charges").put({"id": "odd", "value": ["\ud800", 2**70, None]})
        store.table("empty").truncate()
        store.export_tinydb(plain)
        before = rows(store)
    with TinyDB(plain) as stock:
        assert stock.tables() == {"charges", "deliveries", "empty"}
        assert stock.table("charges").search(where("status") == "completed")[0].doc_id == 1
        assert stock.table("charges").insert({"id": "by TinyDB"}) == 3
        stock.table("charges").remove(doc_ids=[3])
    for fresh in (Store.memory(), Store.open(three_commits / "fresh")):
        with fresh:
            assert fresh.import_tinydb(plain) == {"charges": 2, "deliveries": 1, "empty": 0}
            assert rows(fresh) == before
            assert fresh.table("charges").row("a") is not None
    with Store.open(three_commits / "fresh") as again:
        assert rows(again) == before
        with pytest.raises(StoreError, match="table 'charges' has rows already"):
            again.import_tinydb(plain)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"charges": []}',
        '{"a": {"1": {"n": NaN}}}',
        '{"charges": {"x": {}}}',
        '{"charges": {"1": 5}}',
        '{"a": {"1": {}, "2": 0}}',
    ],
)
def test_a_file_that_is_not_tinydbs_is_refused_completely(tmp_path: Path, content: str) -> None:
    (tmp_path / "plain.json").write_text(content)
    store = Store.memory()
    with pytest.raises(StoreError, match=r"plain\.json is not a TinyDB JSON file"):
        store.import_tinydb(tmp_path / "plain.json")
    assert store.db.tables() == set()
    with pytest.raises(StoreError, match="cannot be read"):
        store.import_tinydb(tmp_path / "none.json")


def test_an_export_that_fails_leaves_the_former_one(tmp_path: Path) -> None:
    store = Store.memory()
    store.export_tinydb(tmp_path / "plain.json")
    store.table("charges").put({"id": "a", "fill": "x" * 10_000})
    with files_no_longer_than(100), pytest.raises(StoreError, match="could not be written"):
        store.export_tinydb(tmp_path / "plain.json")
    assert [path.name for path in tmp_path.iterdir()] == ["plain.json"]
    assert json.loads((tmp_path / "plain.json").read_text()) == {}


def test_every_directory_that_a_store_makes_is_private(tmp_path: Path) -> None:
    Store.open(tmp_path / "data" / "project").close()
    assert [stat.S_IMODE((tmp_path / part).stat().st_mode) for part in ("data", "data/project")] == [0o700, 0o700]
