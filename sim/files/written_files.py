"""Files that are written whole: the former content stays, byte for byte, until the new one is on the disk.

The text is written to a file of another name beside it, which then takes its place. What is no regular file (a
terminal, a pipe) is written as it is, and so is a file whose directory takes no other one: a file that was mounted by
itself, for example.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from leyden.server.pipes import open_to_write

# A directory or a mount that does not permit another file, and a rename onto a file that was mounted by itself.
_NO_OTHER_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_RENAME = frozenset({errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES})


def write_private(path: str | Path, text: str) -> None:
    """Write a file that only its owner reads (0600), because it holds secrets. Raises `OSError`; the file is then as it
    was before."""
    _write(path, text, 0o600)


def create_private(path: str | Path) -> None:
    """An empty file that only its owner reads (0600), in the place of a former one, for a library that opens it by its
    name. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def write_document(path: str | Path, text: str) -> None:
    """Write a file of the user's that has no secret: it keeps its mode. Raises `OSError`; the file is then as it was
    before."""
    _write(path, text, None)


def check_file(path: str | Path) -> None:
    """Raise `OSError` if a file cannot be written there, before what takes long. Nothing is changed, and a pipe is not
    opened: its reader would see an end."""
    target = os.path.realpath(path)
    try:
        former = os.stat(path)
    except FileNotFoundError:
        with _made(_new_file(os.path.dirname(target), 0o600)):
            return
    if stat.S_ISDIR(former.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def check_directory(path: str | Path) -> None:
    """Raise `OSError` if there is no directory in which files can be written and none can be made, before what takes
    long. Nothing is changed."""
    made: list[Path] = []
    try:
        for place in reversed((Path(path), *Path(path).parents)):
            if not place.exists():
                place.mkdir()
                made.append(place)
        with _made(_new_file(str(path), 0o600)):
            pass
    finally:
        for place in reversed(made):
            with contextlib.suppress(OSError):  # another program may have put a file there
                place.rmdir()


@contextlib.contextmanager
def _made(file: tuple[int, str]) -> Iterator[None]:
    """A new file that is removed at the end."""
    descriptor, path = file
    try:
        yield
    finally:
        os.close(descriptor)
        os.unlink(path)


def _write(path: str | Path, text: str, mode: int | None) -> None:
    """`mode` None: the mode that the file has, or that of a new file."""
    data = text.encode("utf-8")
    target = os.path.realpath(path)  # a link stays a link
    try:
        former: os.stat_result | None = os.stat(path)  # of a pipe of this process, a link with no target
    except FileNotFoundError:
        former = None
    if former is not None and not stat.S_ISREG(former.st_mode):
        with open_to_write(path) as file:  # a directory raises
            file.write(data)
        return
    if former is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not _replace(target, data, stat.S_IMODE(former.st_mode) if mode is None and former is not None else mode):
        _write_in_place(target, data, mode)


def _replace(target: str, data: bytes, mode: int | None) -> bool:
    """Write the file beside the target and rename it. False, without effect, where that is not permitted and the target
    exists."""
    try:
        descriptor, draft = _new_file(os.path.dirname(target), 0o666 if mode is None else 0o600)
    except OSError as error:
        if error.errno in _NO_OTHER_FILE and os.path.exists(target):
            return False
        raise
    try:
        with open(descriptor, "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.replace(draft, target)
        except OSError as error:
            if error.errno not in _NO_RENAME or not os.path.isfile(target):
                raise
            os.unlink(draft)
            return False
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    _sync_directory(os.path.dirname(target))
    return True


def _new_file(directory: str, mode: int) -> tuple[int, str]:
    """A descriptor and the path of a new file. A process that was killed may have left one of the same name."""
    for number in count(1):
        path = os.path.join(directory, f".leyden-{os.getpid()}-{number}")
        with contextlib.suppress(FileExistsError):
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), path
    raise AssertionError("numbers have no end")


def _write_in_place(target: str, data: bytes, mode: int | None) -> None:
    with open(os.open(target, os.O_WRONLY), "wb") as file:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)  # before anything is in it
        file.truncate()
        file.write(data)


def _sync_directory(directory: str) -> None:
    """Write the new name to the disk, where the system can do that for a directory."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
