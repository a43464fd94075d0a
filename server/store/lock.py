"""The lock of a data directory: only one process at a time has it open."""

from __future__ import annotations

import os
import stat
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from leyden.server.errors import TOO_MANY_FILES, StoreError
from leyden.server.store.disk_errors import not_opened

if sys.platform != "win32":
    import fcntl

_Release = Callable[[], None]

LOCK_NAME = "charges.lock"
_FILES = ("charges.journal*", "charges.end*", f"{LOCK_NAME}*")  # of a store; a pattern finds links to nothing, too
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # an open file is never that of a link that was put there meanwhile


class Lock:
    """The lock of a directory. The kernel releases it when the process ends in any way, so it is never stale."""

    def __init__(self, directory: Path) -> None:
        """Take the lock. Raises `StoreError` when another holder has it, the directory cannot be written, or one of its
        files is no regular file."""
        path = directory / LOCK_NAME
        if sys.platform == "win32":
            raise StoreError(f"{directory}: this system lacks the file locks a stored sandbox needs; keep it in memory")
        for each in sorted(found for name in _FILES for found in directory.glob(name)):
            check_regular(each)
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o600)
        except OSError as error:
            if error.errno in TOO_MANY_FILES:
                raise not_opened(path, error) from error
            raise StoreError(
                f"{directory} cannot be written ({error.strerror}): let this user write there, or choose another place"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise StoreError(f"{directory} is in use by {_holder(holder)}, or choose another directory") from error
        except OSError as error:
            os.close(self._fd)
            raise StoreError(
                f"{directory} cannot be locked ({error.strerror}): choose a place whose file system has locks"
            ) from error
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, str(os.getpid()).encode(), 0)
        except OSError:
            pass  # The number is only for the error message above; a full disk must not prevent reading.

    def close(self) -> None:
        """Release the lock. The file stays, so that the next holder locks the same one."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


def check_regular(path: Path) -> None:
    """Raise `StoreError` when a file of a store is not a regular file. Opening a pipe would wait for its writer, and
    writing through a link would change another file. A missing file is refused later, when it is opened."""
    with suppress(OSError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            return
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link"}
        kind = kinds.get(stat.S_IFMT(mode), "a pipe, a socket or a device")
        raise StoreError(f"{path} is not a regular file but {kind}: move it away, or put the file itself in its place")


def notes_of_access(directory: Path, names: Sequence[str] = _FILES) -> list[str]:
    """Notes about what other users of the machine can read or replace in the directory of a store, whose rows have keys
    and secrets. They concern a directory or files that existed before; Leyden creates both for this user alone."""
    notes: list[str] = []
    with suppress(OSError):
        for place in reversed((directory, *directory.parents)):
            found = place.stat()
            mode = found.st_mode
            if _is_of_another(found):
                return [*notes, _note_of_owner(place, found)]
            if not mode & stat.S_IXOTH:  # nobody else gets further
                return notes
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                notes.append(f"other users of this machine can replace what is in {place}: chmod o-w {place}")
        files = {path: path.stat() for name in names for path in directory.glob(name)}
        notes += [_note_of_owner(path, file) for path, file in files.items() if _is_of_another(file)][:1]
        for allowed, verb in ((stat.S_IROTH, "read"), (stat.S_IWOTH, "change")):
            if any(file.st_mode & allowed for file in files.values()):
                notes.append(
                    f"other users of this machine can {verb} the files in {directory}, which have API keys and webhook"
                    f" secrets: chmod -R o= {directory}"
                )
    return notes


def _is_of_another(found: os.stat_result) -> bool:
    """Whether it belongs to a user who is neither this one nor root, who can read everything anyway."""
    return sys.platform != "win32" and found.st_uid not in (0, os.geteuid())


def _note_of_owner(place: Path, found: os.stat_result) -> str:
    return (
        f"the user {found.st_uid} of this machine, who owns {place}, can read and replace it, with its API keys and"
        f" webhook secrets: chown -R {os.geteuid()} {place}"
    )


def open_journal(path: Path, *, new: bool = False) -> int:
    """Open a journal, create it if it is `new`, and lock it. Raises `StoreError` when another process has it, or it
    lost its name meanwhile, and `OSError` when it cannot be opened."""
    # A new file must not exist: what is not read first would be cut off. It contains keys and secrets.
    fd = os.open(path, os.O_RDWR | os.O_APPEND | NOFOLLOW | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
    try:
        lock_journal(fd, path)
        if not os.path.samestat(os.fstat(fd), os.stat(path)):
            raise _in_use(path)  # a compaction of that process has just replaced it
    except BaseException:
        os.close(fd)
        raise
    return fd


def lock_journal(fd: int, path: Path) -> None:
    """Lock an open journal until it is closed: a directory whose `charges.lock` was deleted is still in use.

    Raises `StoreError` when another process has it, and `OSError` when it cannot be locked.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _in_use(path) from error


def _holder(process: str) -> str:
    """Who has the lock, and what releases it. `process` is the id that the lock's file has, if it has one."""
    if process == str(os.getpid()):
        return f"this process ({process}): close() the other Sandbox of this process first"
    return f"{f'process {process}' if process else 'another process'}: stop that one first"


def _in_use(path: Path) -> StoreError:
    return StoreError(
        f"{path.parent} is in use by another process, although its {LOCK_NAME} was deleted: stop that one first, or"
        " choose another directory"
    )


def after_fork_in_child(release: _Release) -> None:
    """Call the method `release` in a forked process, as long as its object exists.

    A forked process has the files and the lock too. If both wrote, each would find lines of the other; and a child that
    goes on would keep the directory locked after its parent was killed.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(_call, weakref.WeakMethod(release)))


def _call(kept: weakref.WeakMethod[_Release]) -> None:
    release = kept()
    if release is not None:
        release()
