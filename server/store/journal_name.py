"""The name of the journal file: whether it still leads to the file that the store has open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from leyden.server.errors import StorageUnavailable

# free: no file has the name, in the directory that was opened; taken: another file has it; cut: the file is shorter
# than was written; longer: it is longer; gone: the directory was moved or removed.
Fault = Literal["free", "taken", "cut", "longer", "gone", "barred"]

_CLOSE = "see that its disk has room, and stop the server (or close the store), which writes it again with all its data"


class _Texts(NamedTuple):
    """What has happened to the file, what to do while the store is open, and what is left after it was closed."""

    what: str
    mend: str
    after_close: str


_TEXTS: dict[Fault, _Texts] = {
    "free": _Texts(
        "was deleted or moved while it was in use",
        f": put it back, or {_CLOSE}",
        ", and could not be written again: put it back before the next start; if it was deleted, everything that was"
        " accepted is lost",
    ),
    "taken": _Texts(
        "was replaced by another file while it was in use",
        f": put it back, or move the other file away and {_CLOSE}",
        ", which stays as it is: put the first one back before the next start; if it was deleted, what the other file"
        " does not have is lost",
    ),
    "cut": _Texts(
        "was shortened by another program while it was in use",
        f": {_CLOSE}",
        ", and could not be written again: what was cut off is lost",
    ),
    "longer": _Texts(
        "was made longer by another program while it was in use",
        ": stop that program, stop the server (or close the store), which leaves the file as it is, and start the"
        " server again: it says how to continue",
        ", and stays as it is: start the server again: it says how to continue",
    ),
    "gone": _Texts(
        "cannot be found, because its directory was moved, removed or replaced while it was in use",
        ": put the directory back",
        ": put the directory back before the next start; if it was removed, what no copy of it has is lost",
    ),
    "barred": _Texts(
        "cannot be reached, because this user may not enter its directory",
        ": give the permission back",
        ": give the permission back before the next start; what was accepted since the last sync may be lost in a power"
        " failure",
    ),
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
            return self._directory_fault() or "free"
        if (found.st_dev, found.st_ino) not in self._files:
            return self._directory_fault() or "taken"
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
        what, mend, _ = _TEXTS[fault]
        return StorageUnavailable(
            f"{os.path.basename(self._path)} {what}{mend}; nothing is accepted until then: repeat the request later"
        )

    def _directory_fault(self) -> Fault | None:
        """The fault of the directory that has the file: whether it is the one that was opened."""
        try:
            directory = _identity(os.stat(self._directory))
        except PermissionError:
            return "barred"
        except OSError:
            return "gone"
        return None if directory == self._directory_identity else "gone"


def text_after_close(fault: Fault) -> str:
    """What has happened to the file, and what is left of it, after the name of the file."""
    return _TEXTS[fault].what + _TEXTS[fault].after_close


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino
