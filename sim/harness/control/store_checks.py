"""Checks of the store on a disk that fails: what was confirmed is there after a restart, a kill and a power cut, and
what was refused is not."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from leyden.harness.control.host import violation
from leyden.harness.targets.disk import Disk, Fault
from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.store.end_mark import END_NAME
from leyden.server.store.journal import JOURNAL_NAME, recover
from leyden.server.store.store import Store

# The policies of the store; `group` is `always` with one flush for several commits.
POLICIES = ("os", "interval", "always", "group")
ENDINGS = ("close", "kill", "power", "cut", "recover")
COMPACTIONS = ("none", "gradual", "whole")
_TABLE, _OTHER = "rows", "others"
_CHANGES = 9
_ATTEMPTS = 3  # to write after a fault

_State = dict[str, dict[str, int]]


class _Run:
    """A store, the states after each of its commits, and how many of them are confirmed to be on the disk."""

    def __init__(self, folder: Path, policy: str, disk: Disk) -> None:
        self.folder, self.policy, self.disk = folder, policy, disk
        self.store = self.open(folder)
        self.states: list[_State] = [{}]
        self.next: list[_State] = []  # the state after the commit that is being written
        self.confirmed = 0
        self.on_disk = policy in ("always", "group")

    def open(self, folder: Path) -> Any:
        """Open a directory with the policy of this run."""
        policy: Any = "always" if self.policy == "group" else self.policy
        return Store.open(folder, policy=policy, group_commit=self.policy == "group")

    def change(self, table: str, name: str, value: int | None) -> None:
        """Put or delete a row, as often as the disk needs; a refused commit changes nothing."""
        before = self.states[-1]
        rows = {**before.get(table, {})}
        if value is None:
            rows.pop(name, None)
        else:
            rows[name] = value
        after = {**before, table: rows}
        self.next = [after]
        for _ in range(_ATTEMPTS):
            try:
                self._change(table, name, value)
                break
            except StorageUnavailable:
                self._same(self.rows(self.store), before, "after a refused commit")
        else:
            raise violation("a commit after a fault of the disk", "it succeeds", "it is refused again")
        self.next = []
        self.states.append(after)
        self._same(self.rows(self.store), self.states[-1], "after a commit")
        if self.policy == "always":
            self.confirmed = len(self.states) - 1

    def _change(self, table: str, name: str, value: int | None) -> None:
        rows = self.store.table(table)
        if value is None:
            rows.delete(name)
        else:
            rows.put({"id": name, "value": value})

    def fill(self, count: int) -> None:
        """Many rows in one commit."""
        with self.store.commit():
            for number in range(count):
                self.store.table(_TABLE).put({"id": f"{number}", "value": 0})
        self.states.append({_TABLE: {f"{number}": 0 for number in range(count)}})
        self.confirmed = len(self.states) - 1 if self.policy == "always" else self.confirmed

    def flush(self) -> None:
        """Wait for the disk; what was written before is then confirmed."""
        written = len(self.states) - 1
        # In other calls nothing else happens: a commit waits for them.
        self.disk.meanwhile = lambda: self.change(_OTHER, "meanwhile", 7)
        try:
            self.store.flush()
        except StorageUnavailable:
            return
        finally:
            self.disk.meanwhile = lambda: None
        self.confirmed = written if self.store.unsynced else len(self.states) - 1

    def rows(self, store: Any) -> _State:
        """The rows of the store."""
        found = {name: {row["id"]: row["value"] for row in store.table(name)} for name in (_TABLE, _OTHER)}
        return {name: rows for name, rows in found.items() if rows}

    def _same(self, found: _State, wanted: _State, where: str) -> None:
        self.one_of(found, [wanted], where)

    def one_of(self, found: _State, wanted: Iterable[_State], where: str) -> None:
        """The rows are those of one of these states."""
        states = [{name: rows for name, rows in state.items() if rows} for state in wanted]
        if found not in states:
            raise violation(f"rows of the store {where}", _short(states[-1]), _short(found))

    def reopened(self, folder: Path, wanted: Iterable[_State], where: str) -> None:
        """Open a directory: its rows are those of one of these states, and it goes on from there."""
        try:
            store = self.open(folder)
        except (StoreError, StorageUnavailable) as error:
            raise violation(f"opening the store {where}", "it opens", str(error)) from None
        self.one_of(self.rows(store), wanted, where)
        store.table(_OTHER).put({"id": "next", "value": 1})
        store.close()
        store = self.open(folder)
        if "next" not in {row["id"] for row in store.table(_OTHER)}:
            raise violation(f"a row that was put {where}", "it is there after a restart", "it is not")
        store.close()


def check_store(folder: Path, step: Mapping[str, Any]) -> None:
    """{"do": "store", "policy", "compaction", "how", "count", "fault"?: [call, nth, how]}: write rows to a store on a
    disk with this fault, end it, and open it again."""
    fault = Fault(*step["fault"]) if "fault" in step else None
    data = folder / "data"
    data.mkdir(mode=0o700)
    how = step["how"]
    disk = Disk(data)
    with disk.in_use():
        run = _Run(data, step["policy"], disk)
        images = _Images(run, folder) if how == "power" else None
        try:
            run.fill(step["count"])
            run.flush()
            if images is not None:
                disk.after = images.check
            disk.arm(fault)
            _work(run, step)
            if images is not None:
                images.check()
            disk.after = lambda: None
            _END[how](run, folder)
        except (StoreError, StorageUnavailable) as error:
            where = f"a store with the policy {step['policy']} on a disk that fails"
            raise violation(where, "one call fails, and the next ones succeed", str(error)) from None
        finally:
            disk.after = lambda: None
            run.store.release()


def _work(run: _Run, step: Mapping[str, Any]) -> None:
    """Changes, with a compaction between or during them."""
    for number in range(_CHANGES):
        if number == 2 and step["compaction"] != "none":
            with suppress(StorageUnavailable):  # the former journal stays
                run.store.compact(gradually=step["compaction"] == "gradual")
        name = f"{number * 37 % max(step['count'], 1)}"
        run.change(_TABLE if number % 3 else _OTHER, name, None if number == 7 else number + 1)
        if number % 2:
            run.flush()
            run.disk.after()


class _Images:
    """Looks at what a power cut would leave."""

    def __init__(self, run: _Run, folder: Path) -> None:
        self._run, self._folder, self._number = run, folder, 0

    def check(self) -> None:
        """Each image opens, with every commit that is confirmed."""
        run = self._run
        after, run.disk.after = run.disk.after, lambda: None
        for name, files in run.disk.images(JOURNAL_NAME).items():
            self._number += 1
            place = self._folder / f"image-{self._number}"
            place.mkdir(mode=0o700)
            for file, content in files.items():
                (place / file).write_bytes(_started_again(content) if file == END_NAME else content)
            where = f"after a power cut, {name}"
            if run.on_disk:
                run.reopened(place, [*run.states[run.confirmed :], *run.next], where)
            shutil.rmtree(place)
        run.disk.after = after


def _close(run: _Run, folder: Path) -> None:
    with suppress(StorageUnavailable):  # it says so when the disk refuses; the kernel has everything
        run.store.close()
    run.reopened(run.folder, [run.states[-1]], "after a restart")


def _kill(run: _Run, folder: Path) -> None:
    run.reopened(_copied(run, folder), [run.states[-1]], "after a kill")


def _cut(run: _Run, folder: Path) -> None:
    """After each line, and in the middle of the next one."""
    run.disk.arm(None)
    journal = (run.folder / JOURNAL_NAME).read_bytes()
    ends = [place + 1 for place, byte in enumerate(journal) if byte == 10]
    for number, end in enumerate(ends):
        for size in (end, (end + ends[min(number + 1, len(ends) - 1)]) // 2):
            place = folder / f"cut-{number}-{size}"
            place.mkdir(mode=0o700)
            (place / JOURNAL_NAME).write_bytes(journal[:size])
            run.reopened(place, [{}, *run.states], f"after a cut behind line {number + 1}")
            shutil.rmtree(place)


def _recover(run: _Run, folder: Path) -> None:
    """A damaged last line is refused, and `recover` goes on with the commits before it."""
    run.disk.arm(None)
    run.store.close()
    path = run.folder / JOURNAL_NAME
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    middle = (start + len(whole)) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    try:
        run.open(run.folder).close()
    except StoreError:
        recover(run.folder)
    else:
        raise violation("a journal with a changed byte", "it is refused", "it is opened")
    run.reopened(run.folder, run.states[-2:-1], "after a recovery")


_END: Mapping[str, Callable[[_Run, Path], None]] = {
    "close": _close, "kill": _kill, "power": _kill, "cut": _cut, "recover": _recover,
}  # fmt: skip


def _copied(run: _Run, folder: Path) -> Path:
    place = folder / "killed"
    place.mkdir(mode=0o700)
    for name in (JOURNAL_NAME, END_NAME):
        if (run.folder / name).exists():
            shutil.copy2(run.folder / name, place / name)
    return place


def _started_again(content: bytes) -> bytes:
    """The file of the end mark as another start of the machine sees it."""
    boot = (orjson.loads(content) if content else {}).get("boot", "").encode()
    return content.replace(boot, bytes(len(boot)).replace(b"\0", b"0")) if boot else content


def _short(state: _State) -> str:
    changed = {name: value for name, value in state.get(_TABLE, {}).items() if value}
    return f"{len(state.get(_TABLE, {}))} rows, changed {changed}, others {state.get(_OTHER, {})}"[:300]
