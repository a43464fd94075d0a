"""A disk that fails on demand. While it is in use, the calls of the operating system for files of one directory are
counted and can fail, and it is known what a power cut would leave."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

# What a call does when it is the one that fails.
SHORT, PARTIAL, REFUSED, SLOW = FAILURES = ("short", "partial", "refused", "slow")
CALLS = ("write", "pwrite", "fsync", "ftruncate", "replace")
_Identity = tuple[int, int]


class Fault(NamedTuple):
    """The `nth` call of this name fails: `short`, it writes half and says so; `partial`, it writes half and the next
    one is refused; `refused`, it raises an error; `slow`, something else happens before it returns."""

    call: str
    nth: int
    how: str


class Disk:
    """The directory of a store on a disk that fails once. `meanwhile` is what happens during a slow call, `after` is
    called after each call that changes what a power cut leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fault: Fault | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.failed = False  # whether the call of the fault was made
        self._counts = dict.fromkeys(CALLS, 0)
        self._refuses_next = False
        self._synced: dict[_Identity, bytes] = {}
        self._synced_names: dict[str, _Identity] = {}
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Replace the functions of `os` by those of this disk."""
        for name in CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        try:
            yield
        finally:
            for name, function in self._real.items():
                setattr(os, name, function)

    def arm(self, fault: Fault | None) -> None:
        """Count the calls from now on; that of the fault fails."""
        self.fault, self.failed = fault, False
        self._counts = dict.fromkeys(CALLS, 0)

    # The calls

    def _write(self, fd: int, data: bytes) -> int:
        return self._written("write", fd, data, lambda part: self._real["write"](fd, part))

    def _pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._written("pwrite", fd, data, lambda part: self._real["pwrite"](fd, part, offset))

    def _written(self, call: str, fd: int, data: bytes, write: Callable[[bytes], int]) -> int:
        if not self._is_own(fd):
            return write(data)
        if self._refuses_next:
            self._refuses_next = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        how = self._failure(call, errno.ENOSPC)
        if how in (SHORT, PARTIAL) and len(data) > 1:
            self._refuses_next = how == PARTIAL
            data = bytes(data[: len(data) // 2])
        return write(data)

    def _fsync(self, fd: int) -> None:
        if not self._is_own(fd):
            self._real["fsync"](fd)
            return
        how = self._failure("fsync", errno.EIO)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self._synced_names = self._names()
        else:
            self._synced[_identity(os.fstat(fd))] = _content(fd)
        if how == SLOW:
            self.meanwhile()
        self.after()

    def _ftruncate(self, fd: int, size: int) -> None:
        if self._is_own(fd):
            self._failure("ftruncate", errno.EIO)
        self._real["ftruncate"](fd, size)

    def _replace(self, source: Any, target: Any, **more: Any) -> None:
        is_own = Path(os.fspath(target)).parent == self.folder
        if is_own:
            self._failure("replace", errno.EIO)
        self._real["replace"](source, target, **more)
        if is_own:
            self.after()

    def _failure(self, call: str, code: int) -> str:
        self._counts[call] += 1
        fault = self.fault
        if self.failed or fault is None or (fault.call, fault.nth) != (call, self._counts[call]):
            return ""
        self.failed = True
        if fault.how == REFUSED:
            raise OSError(code, os.strerror(code))
        return fault.how

    # What a power cut leaves

    def images(self, appended: str) -> Mapping[str, Mapping[str, bytes]]:
        """The files that a power cut at this instant may leave, by what the disk has of them. `appended` is the name of
        a file that only grows: half of what was not synced may be on the disk."""
        names = self._names()
        durable = {name: self._synced.get(one, b"") for name, one in names.items()}
        former = {name: self._synced.get(one, b"") for name, one in self._synced_names.items()}
        half = {**durable}
        if appended in names:
            content, whole = durable[appended], (self.folder / appended).read_bytes()
            half[appended] = whole[: (len(content) + len(whole) + 1) // 2] if whole.startswith(content) else content
        return {
            "with what was synced": durable,
            "with the names that were synced": former,
            "with half of the rest": half,
        }

    def _names(self) -> dict[str, _Identity]:
        return {one.name: _identity(one.stat()) for one in os.scandir(self.folder) if one.is_file()}

    def _is_own(self, fd: int) -> bool:
        try:
            found = _identity(os.fstat(fd))
            return found == _identity(self.folder.stat()) or found in self._names().values()
        except OSError:
            return False


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino


def _content(fd: int) -> bytes:
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    except OSError:  # it was opened for writing only
        return b""
