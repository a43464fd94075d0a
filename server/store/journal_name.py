"""The name of the journal file: whether it still leads to the file that the store has open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from leyden.server.errors import StorageUnavailable

# free: no file has the name, in the directory that was opened; taken: another file has it; cut: the file is shorter
# than was written; longer: it is longer; gone: the directory was moved or removed.
Fault = Literal["free", "taken", "cut", "longer", "gone", "barred"]

_CLOSE = "see that its disk has room, and stop the server (or close the store), which writes it again with all its data"
_FAULTS: dict[Fault, str] = {
    "free": f"was deleted or moved while it was in use: put it back, or {_CLOSE}",
    "taken": f"was replaced by another file while it was in use: put it back, or move the other file away and {_CLOSE}",
    "cut": f"was shortened by another program while it was in use: {_CLOSE}",
    "longer": "was made longer by another program while it was in use: stop that program, stop the server (or close the"
    " store), which leaves the file as it is, and start the server again: it says how to continue",
    "gone": "cannot be found, because its directory was moved, removed or replaced while it was in use: put the"
    " directory back",
    "barred": "cannot be reached, because this user may not enter its directory: give the permission back",
}

_Identity = tuple[int, int]  # device and inode


class JournalName:
    """The name, and the identity of the files that may have it: an unlinked file accepts writes and syncs, too."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._directory = str(path.parent)
        self._directory_identity = _identity(os.stat(self._directory))
        self._files: tuple[_Identity, ...] = ()

    def expect(self, fd: int) -> None:
        """From now on the name must lead to this open file. Raises `OSError`."""
        self._files = (_identity(os.stat(fd)),)

    def begin_replacement(self, fd: int) -> None:
        """From now on the name may lead to this open file, too. Raises `OSError`."""
        self._files = (self._files[0], _identity(os.stat(fd)))

    def end_replacement(self, *, done: bool) -> None:
        """From now on the name must lead to the new file if it was given the name, otherwise to the former one."""
        self._files = self._files[-1:] if done else self._files[:1]

    def fault(self, size: int | None = None) -> Fault | None:
        """The fault of the name, or None. The file must have `size` bytes, if it is given."""
        try:
            found = os.lstat(self._path)  # a link is refused at the next start
        except PermissionError:
            return "barred"
        except OSError:
            return self._fault_without_file()
        if (found.st_dev, found.st_ino) not in self._files:
            return "taken" if self._has_directory() else "gone"
        if size is None or found.st_size == size or (found.st_dev, found.st_ino) != self._files[0]:
            return None
        return "longer" if found.st_size > size else "cut"

    def check(self, size: int | None = None) -> None:
        """Raise `StorageUnavailable` when `fault` finds something."""
        try:  # the usual result without a further call, because this is part of every commit
            found = os.lstat(self._path)  # a link is refused at the next start
            if (found.st_dev, found.st_ino) in self._files and (size is None or found.st_size == size):
                return
        except OSError:
            pass
        fault = self.fault(size)
        if fault is not None:
            raise self._error(fault)

    def check_replaceable(self, size: int | None) -> None:
        """Raise `StorageUnavailable` when a new file must not be given the name. The file may have at most `size`
        bytes, if it is given."""
        fault = self.fault(size)
        if fault in ("taken", "longer", "gone", "barred"):
            raise self._error(fault)

    def _error(self, fault: Fault) -> StorageUnavailable:
        """The fault as a problem with its mend."""
        return StorageUnavailable(
            f"{os.path.basename(self._path)} {_FAULTS[fault]}; nothing is accepted until then: repeat the request later"
        )

    def _fault_without_file(self) -> Fault:
        try:
            return "free" if self._has_directory() else "gone"
        except PermissionError:
            return "barred"

    def _has_directory(self) -> bool:
        """Whether the directory is the one that was opened. Raises `PermissionError`."""
        try:
            return _identity(os.stat(self._directory)) == self._directory_identity
        except PermissionError:
            raise
        except OSError:
            return False


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino
