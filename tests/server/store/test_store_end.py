"""The expected end of the journal: a shortened file is noticed, and no kill and no power cut is taken for one."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.devserver.startup.addresses import access_notes
from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.store import compaction, end_mark, lock, storage
from leyden.server.store.end_mark import EndMark, Mark, ShortenedJournal
from leyden.server.store.journal import load, recover
from leyden.server.store.storage import JournalStorage, Policy
from leyden.server.store.store import Store
from tests.support.examples import examples
from tests.support.served import run_command, served_leyden, started_server
from tests.support.store_helpers import END, JOURNAL, failing, rows

DRAFT = "charges.journal.new"


@pytest.fixture
def five_commits(tmp_path: Path) -> Path:
    """A directory with a header and five commits, after a complete stop."""
    with Store.open(tmp_path / "data") as store:
        for number in range(5):
            store.table("charges").put({"id": number})
    return tmp_path / "data"


@pytest.fixture
def other_boot(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to start the machine again."""
    numbers = iter(range(1_000_000))

    def start() -> None:
        boot = f"{next(numbers):036d}"
        monkeypatch.setattr(end_mark, "_boot_id", lambda: boot)

    start()
    return start


def ids(directory: Path) -> list[Any]:
    with Store.open(directory) as store:
        return [row["id"] for row in store.table("charges")]


def cut(directory: Path, lines: int) -> None:
    path = directory / JOURNAL
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


# What is noticed


@pytest.mark.parametrize("lines", range(6))
@pytest.mark.parametrize("stopped", [True, False])
def test_a_journal_cut_at_the_end_of_a_line_is_refused(five_commits: Path, lines: int, stopped: bool) -> None:
    if not stopped:
        killed = five_commits.with_name("killed")
        with Store.open(five_commits) as store:
            store.table("charges").put({"id": 5})
            shutil.copytree(five_commits, killed)
        five_commits = killed
    cut(five_commits, lines)
    before = (five_commits / JOURNAL).read_bytes()
    for _ in range(2):
        with pytest.raises(ShortenedJournal, match=r"Put the complete file back; or, .*, delete .*charges\.end"):
            Store.open(five_commits)
        assert (five_commits / JOURNAL).read_bytes() == before
    (five_commits / END).unlink()
    assert ids(five_commits) == list(range(max(0, lines - 1)))
    assert ids(five_commits) == list(range(max(0, lines - 1)))


def test_the_error_counts_the_commits(five_commits: Path) -> None:
    cut(five_commits, 4)
    with pytest.raises(ShortenedJournal, match=r"was shortened: it has 3 commits, and 2 more were written to it\."):
        Store.open(five_commits)
    cut(five_commits, 0)
    with pytest.raises(ShortenedJournal, match="is missing or empty, and 5 commits were written to it"):
        Store.open(five_commits)
    (five_commits / JOURNAL).unlink()
    with pytest.raises(ShortenedJournal, match="is missing or empty"):
        Store.open(five_commits)


def test_another_journal_is_refused(five_commits: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "other") as store:
        for number in range(9):
            store.table("charges").put({"id": f"other {number}"})
    shutil.copy(tmp_path / "other" / JOURNAL, five_commits / JOURNAL)
    with pytest.raises(ShortenedJournal, match="is not the journal that was written here"):
        Store.open(five_commits)


def test_a_compacted_journal_that_is_cut_is_refused(five_commits: Path) -> None:
    with Store.open(five_commits) as store:
        store.table("charges").put({"id": 9})
        store.compact()
    cut(five_commits, 1)
    with pytest.raises(ShortenedJournal):
        Store.open(five_commits)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((content, "damaged") for content in (b"", b"{}", b"\x00" * 40, b'{"format":"leyden-journal-end"}')),
        *(
            (b'{"format":"leyden-journal-end","version":%b}' % version, reason)
            for version, reason in ((b"1", "damaged"), (b"0", "damaged"), (b'"2"', "damaged"), (b"true", "damaged"))
        ),
        (b'{"format":"leyden-journal-end","version":2}', "of a newer version of Leyden"),
    ],
)
def test_a_mark_that_cannot_be_read_is_noted(five_commits: Path, content: bytes, reason: str) -> None:
    (five_commits / END).write_bytes(content)
    cut(five_commits, 3)
    with Store.open(five_commits) as store:
        [note] = store.notes
        assert f"charges.end is {reason}, so it is not known whether the journal is complete" in note


def test_a_first_start_that_was_killed_before_it_wrote_the_mark_leaves_no_note(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / END).write_bytes(b"")
    with Store.open(tmp_path) as store:
        assert store.notes == ()
        store.table("charges").put({"id": 1})
    (tmp_path / END).write_bytes(b"")
    with Store.open(tmp_path) as store:
        assert "charges.end is damaged" in store.notes[0]


def test_a_command_refuses_it_in_one_line(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)) as client:
        client.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
    [journal] = tmp_path.rglob(JOURNAL)
    cut(journal.parent, 0)
    done = run_command("serve", "--port", "0", "--data", str(tmp_path))
    assert (done.returncode != 0, done.stdout) == (True, "")
    [line] = done.stderr.splitlines()
    assert "charges.journal is missing or empty" in line


@pytest.mark.parametrize("name", [JOURNAL, END, "charges.lock"])
def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with served_leyden("--data", str(tmp_path)) as client:
        client.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
    [journal] = tmp_path.rglob(JOURNAL)
    (journal.parent / name).unlink()
    os.mkfifo(journal.parent / name)
    done = run_command("serve", "--port", "0", "--data", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert f"{name} is not a regular file" in line


@pytest.mark.parametrize("kind", ["directory", "link", "link to nothing", "link in a circle", "pipe", "device"])
@pytest.mark.parametrize("name", [JOURNAL, END, "charges.lock", "charges.journal.new"])
def test_what_is_no_file_in_the_place_of_a_file_is_refused_and_left_alone(tmp_path: Path, name: str, kind: str) -> None:
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    with Store.open(folder) as store:
        store.table("t", key="id").put({"id": "x"})
    place = folder / name
    before = place.read_bytes() if place.exists() else b""
    place.unlink(missing_ok=True)
    elsewhere.write_bytes(b"not of this store")
    targets = {
        "link": elsewhere,
        "link to nothing": tmp_path / "nothing",
        "link in a circle": place,
        "device": "/dev/zero",
    }
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(targets[kind])
    what = "a symbolic link" if kind in targets else {"directory": "a directory", "pipe": "a pipe"}[kind]
    words = f"{name} is not a regular file but {what}.*: move it away, or put the file itself in its place"
    for action in (lambda: Store.open(folder), lambda: recover(folder)):
        with pytest.raises(StoreError, match=words):
            action()
    assert elsewhere.read_bytes() == b"not of this store"
    assert not (tmp_path / "nothing").exists()
    if kind == "directory":
        place.rmdir()
    else:
        place.unlink()
    if before:
        place.write_bytes(before)
    with Store.open(folder) as store:
        assert store.table("t", key="id").row("x") == {"id": "x"}
        assert store.notes == ()


def test_a_link_that_is_put_in_the_place_of_a_file_while_the_store_opens_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "check_regular", lambda path: None)
    with Store.open(tmp_path / "data") as store:
        store.table("t", key="id").put({"id": "x"})
    (tmp_path / "elsewhere").write_bytes(b"not of this store")
    for name in (END, "charges.lock"):
        (tmp_path / "data" / name).unlink()
        (tmp_path / "data" / name).symlink_to(tmp_path / "elsewhere")
        with suppress(StoreError):
            Store.open(tmp_path / "data").close()
        assert (tmp_path / "elsewhere").read_bytes() == b"not of this store"
        (tmp_path / "data" / name).unlink(missing_ok=True)


def test_a_journal_of_another_project_is_not_waited_for(tmp_path: Path) -> None:
    other = tmp_path / "0000000000000000"
    other.mkdir()
    os.mkfifo(other / JOURNAL)
    done = run_command("serve", "--port", "0", "--data", str(tmp_path), "--api-key", "k1", "--api-key", "k2")
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert f"{other / JOURNAL} is not a regular file but a pipe" in line


def open_above(folder: Path) -> Callable[..., os.stat_result]:
    """`Path.stat` that shows everything above the folder as open to all: a folder of a test is the user's alone."""
    real = Path.stat

    def opened(path: Path, **options: Any) -> os.stat_result:
        found = real(path, **options)
        if folder in (path, *path.parents):
            return found
        return os.stat_result((found.st_mode | stat.S_IXOTH, *tuple(found)[1:]))

    return opened


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        ({}, []),
        ({"": 0o755}, []),
        ({JOURNAL: 0o644}, []),
        ({"": 0o755, JOURNAL: 0o640}, []),
        ({"": 0o755, JOURNAL: 0o644}, ["can read the files in {data}, which have API keys and webhook secrets: chmod"]),
        ({"": 0o755, END: 0o602}, ["can change the files in {data}"]),
        ({"": 0o777}, ["can replace what is in {data}: chmod o-w {data}"]),
        ({"": 0o1777}, []),
        ({"..": 0o700, "": 0o777, JOURNAL: 0o666}, []),
        ({"..": 0o777}, ["can replace what is in {above}: chmod o-w {above}"]),
    ],
)
def test_a_directory_that_others_can_use_has_a_note(
    tmp_path: Path, modes: dict[str, int], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    above = tmp_path / "above"
    data = above / "data"
    Store.open(data).close()
    above.chmod(0o755)
    for name, mode in modes.items():
        (data / name).chmod(mode)
    monkeypatch.setattr(Path, "stat", open_above(above))
    with Store.open(data) as store:
        assert len(store.notes) == len(words), store.notes
        for note, part in zip(store.notes, words, strict=True):
            assert "other users of this machine " + part.format(data=data, above=above) in note


@pytest.mark.parametrize(("owned", "count"), [("data", 1), (f"data/{JOURNAL}", 1), ("", 1), ("data/api-key", 0)])
def test_what_belongs_to_another_user_has_one_note(
    tmp_path: Path, owned: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    Store.open(data).close()
    real = open_above(tmp_path)

    def of_another(path: Path, **options: Any) -> os.stat_result:
        fields = [*real(path, **options)]
        fields[4] = os.geteuid() + 7 if path == tmp_path / owned else 0
        return os.stat_result(fields)

    tmp_path.chmod(0o755)
    data.chmod(0o755)
    (data / "api-key").touch(0o600)
    monkeypatch.setattr(Path, "stat", of_another)
    with Store.open(data) as store:
        notes = [*store.notes]
    user = os.geteuid() + 7
    assert len(notes) == count
    for note in notes:
        assert note.startswith(f"the user {user} of this machine, who owns {tmp_path / owned}, can read and replace it")
        assert note.endswith(f"secrets: chown -R {os.geteuid()} {tmp_path / owned}")


def test_a_note_about_the_directory_is_the_same_for_each_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` shows each text once: those about the journal, and those about the stored key and token."""
    data = tmp_path / "data"
    Store.open(data).close()
    tmp_path.chmod(0o755)
    data.chmod(0o777)
    monkeypatch.setattr(Path, "stat", open_above(tmp_path))
    monkeypatch.chdir(tmp_path)
    with Store.open("data") as store:
        assert [*store.notes] == access_notes("data")
        assert [*store.notes] == [f"other users of this machine can replace what is in {data}: chmod o-w {data}"]


def test_what_was_dropped_is_printed_at_the_start_and_readable(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)) as client:
        client.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
        assert client.ok("GET", "/sandbox/v1")["notes"] == []
    [journal] = tmp_path.rglob(JOURNAL)
    with journal.open("ab") as file:
        file.write(b'["1234')
    with started_server("--data", str(tmp_path)) as (client, printed):
        [note] = client.ok("GET", "/sandbox/v1")["notes"]
        assert "was not finished (6 bytes)" in note
    assert f"note: {note}" in printed()


@pytest.mark.parametrize(
    ("end", "is_known"), [("unchanged", True), ("deleted", False), ("emptied", False), ("of another run", False)]
)
def test_half_a_line_was_never_confirmed_only_where_the_mark_says_so(
    five_commits: Path, end: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (five_commits / JOURNAL).open("ab") as file:
        file.write(b'["1234')
    if end == "deleted":
        (five_commits / END).unlink()
    elif end == "emptied":
        (five_commits / END).write_bytes(b"")
    elif end == "of another run":
        monkeypatch.setattr(end_mark, "_boot_id", lambda: "0" * 36)
    with Store.open(five_commits) as store:
        [note] = [one for one in store.notes if "line 7 was not finished (6 bytes) and is ignored" in one]
    assert note.endswith(": its commit was never confirmed") is is_known
    assert note.endswith("it is not known whether its commit was confirmed") is not is_known


@pytest.mark.parametrize("vanish", [Path.unlink, lambda path: path.rename(path.with_name("aside"))])
def test_a_mark_that_was_deleted_is_written_again_at_the_stop(
    five_commits: Path, vanish: Callable[[Path], object]
) -> None:
    with Store.open(five_commits) as store:
        vanish(five_commits / END)
        store.table("charges").put({"id": 5})
    journal = five_commits / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]))
    with pytest.raises(ShortenedJournal, match="2 more were written"):
        Store.open(five_commits)


# What is accepted


def test_a_directory_without_an_expected_end_is_opened_and_gets_one(five_commits: Path) -> None:
    (five_commits / END).unlink()
    assert ids(five_commits) == list(range(5))
    cut(five_commits, 5)
    with pytest.raises(ShortenedJournal):
        Store.open(five_commits)


def test_a_journal_that_a_former_version_continued_is_opened(five_commits: Path, tmp_path: Path) -> None:
    former_end = (five_commits / END).read_bytes()
    with Store.open(five_commits) as store:
        store.table("charges").put({"id": 5})
    (five_commits / END).write_bytes(former_end)
    assert ids(five_commits) == list(range(6))


def test_the_file_is_json_of_a_fixed_length(five_commits: Path) -> None:
    before = (five_commits / END).read_bytes()
    document = json.loads(before)
    lines = (five_commits / JOURNAL).read_bytes().splitlines(keepends=True)
    assert document["written"] == document["synced"]
    assert document["written"] == {
        "bytes": sum(map(len, lines)),
        "lines": 6,
        "checksum": json.loads(lines[-1])[0],
    }
    with Store.open(five_commits) as store:
        store.table("charges").put({"id": 5})
        assert len((five_commits / END).read_bytes()) == len(before)
    assert stat.S_IMODE((five_commits / END).stat().st_mode) == 0o600


@examples(60)
@given(data=st.data())
def test_a_damaged_expected_end_is_one_line_or_a_note(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    directory = tmp_path_factory.mktemp("data")
    with Store.open(directory) as store:
        store.table("charges").put({"id": 0})
        store.table("charges").put({"id": 1})
    content = bytearray((directory / END).read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position:] = data.draw(st.binary(max_size=3)) + content[position + data.draw(st.integers(0, 3)) :]
    (directory / END).write_bytes(content)
    try:
        store = Store.open(directory)
    except StoreError as error:
        text = str(error)
        assert "charges.end" in text and "\n" not in text  # noqa: PT018
    else:
        with store:
            assert len(store.table("charges")) == 2


@pytest.mark.parametrize("content", [b"[]", b"{}", b"x"])
def test_an_expected_end_that_cannot_be_read_is_a_note(five_commits: Path, content: bytes) -> None:
    (five_commits / END).write_bytes(content)
    with Store.open(five_commits) as store:
        assert len(store.table("charges")) == 5
        assert "charges.end is damaged" in store.notes[0]
    with Store.open(five_commits) as store:
        assert store.notes == ()


def test_an_expected_end_that_cannot_be_written_is_a_note_and_does_not_stay(
    five_commits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", failing)
        with Store.open(five_commits) as store:
            assert "charges.end cannot be written" in store.notes[0]
            store.compact()
            store.table("charges").put({"id": 5})
    assert ids(five_commits) == list(range(6))


def test_a_disk_that_refuses_the_end_of_a_compacted_file_keeps_the_old_one(
    five_commits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(five_commits) as store:
        inode = (five_commits / JOURNAL).stat().st_ino
        with monkeypatch.context() as full:
            full.setattr(os, "pwrite", failing)
            with pytest.raises(StorageUnavailable):
                store.compact()
            store.table("charges").put({"id": 5})
        assert (five_commits / JOURNAL).stat().st_ino == inode
    assert ids(five_commits) == list(range(6))


def test_recovery_of_a_damaged_journal_expects_what_it_kept(five_commits: Path) -> None:
    path = five_commits / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"id":3', b'"id":8'))
    recover(five_commits)
    assert ids(five_commits) == [0, 1, 2]


def test_recovery_of_a_shortened_journal_says_what_to_do(five_commits: Path) -> None:
    cut(five_commits, 3)
    with pytest.raises(StoreError, match=r"put the complete file back, or delete .*charges\.end"):
        recover(five_commits)


def test_a_last_commit_cut_within_its_line_is_dropped_with_a_note(five_commits: Path) -> None:
    path = five_commits / JOURNAL
    os.truncate(path, path.stat().st_size - 1)
    with Store.open(five_commits) as store:
        assert len(store.table("charges")) == 4
        assert store.notes == (f"{path}: the last commit is cut off in the middle of its line and is lost",)
    with Store.open(five_commits) as store:
        assert store.notes == ()


def test_commits_that_a_crash_of_the_machine_lost_are_counted(tmp_path: Path, other_boot: Callable[[], None]) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    with Store.open(live) as store:
        for number in range(5):
            store.table("charges").put({"id": number})
        shutil.copytree(live, crashed)
    cut(crashed, 4)
    other_boot()
    with Store.open(crashed) as store:
        assert len(store.table("charges")) == 3
        [note] = store.notes
        assert "the last 2 commits before the machine stopped were not known to be on the disk, and are lost" in note
    cut(live, 4)  # after a complete stop everything was on the disk
    with pytest.raises(ShortenedJournal):
        Store.open(live)


@pytest.mark.parametrize("how", ["always", "group commit", "interval", "flush, then a commit"])
@pytest.mark.parametrize("lines", range(6))
def test_a_journal_cut_before_a_crash_of_the_machine_is_refused_up_to_the_last_flush(
    tmp_path: Path, other_boot: Callable[[], None], how: str, lines: int
) -> None:
    """The process is killed, the file is cut, and the machine starts again."""
    live, killed = tmp_path / "live", tmp_path / "killed"
    policy: Policy = "interval" if how == "interval" else "always" if how == "always" else "os"
    with Store.open(live, policy, group_commit=how == "group commit") as store:
        for number in range(5):
            store.table("charges").put({"id": number})
            if how == "interval":
                store.maybe_sync(number * 1_000)
            elif how != "always":
                store.flush()
        if how != "flush, then a commit":
            store.note_flushed()
        else:
            store.table("charges").put({"id": 5})
        shutil.copytree(live, killed)
    cut(killed, lines)
    other_boot()
    with pytest.raises(ShortenedJournal):
        Store.open(killed)


def test_a_flush_that_a_compaction_overtakes_marks_nothing(tmp_path: Path, other_boot: Callable[[], None]) -> None:
    with Store.open(tmp_path) as store:
        for number in range(5):
            store.table("charges").put({"id": number})
        end = store._end  # type: ignore[attr-defined]
        flushed = end.begin_flush()
        store.compact()
        end.end_flush(flushed)
        store.note_flushed()
        document = json.loads((tmp_path / END).read_bytes())
    assert document["synced"] == document["written"]
    assert document["synced"]["bytes"] == (tmp_path / JOURNAL).stat().st_size


# Kills and power cuts


class Moments:
    """Calls `seen` after each system call of this thread that changes a file. What another thread or a finalizer of
    the process does meanwhile may come in the middle of a call of `seen`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seen: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._thread = threading.get_ident()
        self._busy = False
        for name in ("open", "write", "pwrite", "fsync", "ftruncate", "replace", "unlink"):
            monkeypatch.setattr(os, name, self._observed(name, getattr(os, name), seen))

    def _observed(self, name: str, call: Any, seen: Callable[[str, tuple[Any, ...]], None]) -> Any:
        def observed(*arguments: Any, **named: Any) -> Any:
            result = call(*arguments, **named)
            if threading.get_ident() == self._thread and not self._busy:
                self._busy = True
                try:
                    seen(name, arguments)
                finally:
                    self._busy = False
            return result

        return observed


@contextmanager
def small_compactions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(storage, "GARBAGE_FLOOR", 5)
        small.setattr(compaction, "ROWS_PER_STEP", 2)
        yield


def act(directory: Path, policy: Policy) -> None:
    """Three runs of a store with several compactions and refused commits. The first is killed, the others stop."""
    for run in range(3):
        store = Store.open(directory, policy)
        table = store.table("charges")
        for number in range(25):
            table.put({"id": number % 4, "version": [run, number]})
            if number == 12 and run:
                store.compact()
            if number % 10 == 9:
                with pytest.raises(TypeError):
                    table.put({"id": object()})
        if run:
            store.close()
        else:
            cast(JournalStorage, store).release()


def checked(directory: Path) -> str | None:
    """What `JournalStorage` reads and checks, without writing."""
    end = EndMark(directory)
    path = directory / JOURNAL
    if not path.exists():
        return end.check(path, Mark(), {}, is_torn=False)
    loaded = load(path, end.sizes)
    return end.check(path, loaded.end, loaded.chains, is_torn=loaded.note is not None)


@pytest.mark.parametrize("policy", ["os", "always"])
def test_a_kill_at_any_moment_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Policy) -> None:
    live, moments = tmp_path / "live", []

    def seen(name: str, arguments: tuple[Any, ...]) -> None:
        if live.exists():
            assert checked(live) is None
            moments.append(name)

    with small_compactions(), monkeypatch.context() as watched:
        Moments(watched, seen)
        act(live, policy)
    assert {"open", "write", "pwrite", "fsync", "replace"} <= set(moments)
    assert len(moments) > 150


@pytest.mark.parametrize("policy", ["os", "always"])
def test_a_power_cut_at_any_moment_is_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Policy, other_boot: Callable[[], None]
) -> None:
    """A file may keep any state since its last sync, and the name any of the files since the directory's last sync."""
    live, cut_off = tmp_path / "live", tmp_path / "cut-off"
    live.mkdir()
    cut_off.mkdir()
    states: defaultdict[int, list[bytes]] = defaultdict(list)  # by inode
    names: list[int] = []  # inodes
    ends: list[int] = []
    tried = 0
    read = os.read

    def seen(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal tried
        for path, inodes in ((live / JOURNAL, names), (live / DRAFT, None), (live / END, ends)):
            if not path.exists():
                continue
            inode = path.stat().st_ino
            fd = real_open(path, os.O_RDONLY)
            content = read(fd, 1 << 20)
            os.close(fd)
            if not states[inode] or states[inode][-1] != content:
                states[inode].append(content)
            if inodes is not None and (not inodes or inodes[-1] != inode):
                inodes.append(inode)
        if name == "fsync":
            status = os.fstat(arguments[0])
            if stat.S_ISDIR(status.st_mode):
                del names[:-1], ends[:-1]
            else:
                del states[status.st_ino][:-1]
        if name in ("open", "unlink") or not names or not ends:
            return
        for journal in names:
            found = states[journal]
            for content in {found[0], found[len(found) // 2], found[-1]}:
                for end in {states[ends[-1]][0], states[ends[-1]][len(states[ends[-1]]) // 2], states[ends[-1]][-1]}:
                    for path, held in ((cut_off / JOURNAL, content), (cut_off / END, end)):
                        fd = real_open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                        real_write(fd, held)
                        os.close(fd)
                    with pytest.MonkeyPatch.context() as later:
                        later.setattr(end_mark, "_boot_id", lambda: "b" * 36)
                        checked(cut_off)
                    tried += 1

    real_open, real_write = os.open, os.write
    with small_compactions(), monkeypatch.context() as watched:
        Moments(watched, seen)
        act(live, policy)
    assert tried > 500


def test_what_a_power_cut_leaves_can_be_continued_and_cut_again(tmp_path: Path, other_boot: Callable[[], None]) -> None:
    directory = tmp_path / "data"
    for lost in (1, 2, 0, 3):
        with Store.open(directory) as store:
            before = rows(store)
            assert len(store.notes) <= 1
            for number in range(5):
                store.table("charges").put({"id": f"{lost} {number}"})
            crashed = directory.with_name(f"crashed-{lost}")
            shutil.copytree(directory, crashed)
        cut(crashed, len((crashed / JOURNAL).read_bytes().splitlines()) - lost)
        assert before is not None
        other_boot()
        directory = crashed
    assert len(ids(directory)) == 4 * 5 - 6
