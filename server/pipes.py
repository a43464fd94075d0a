"""Files that a user names, opened so that nobody waits without knowing why.

A named pipe (FIFO) has two ends, and to open one of them waits until another program has opened the other. Such a wait
is said in one line on standard error. A pipe whose other end is open, as that of `/dev/stdin` or of the process
substitution of a shell, is used at once, and so is every other file.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from leyden.server.printable import printable

_BINARY = getattr(os, "O_BINARY", 0)
_PIECE_BYTES = 1 << 20
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # a system without it has no named pipes among its files


def read_file(path: str | Path, most: int) -> bytes:
    """The bytes of a file, at most `most` (-1: all): a device or a pipe has no size, and perhaps no end.

    Raises `OSError`, and `ValueError` for a path with a null byte.
    """
    descriptor = os.open(path, os.O_RDONLY | _BINARY | _AT_ONCE)
    try:
        first = _first_of_pipe(descriptor, path) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        if _AT_ONCE:
            os.set_blocking(descriptor, True)
        pieces, left = [first], sys.maxsize if most < 0 else most - len(first)
        with open(descriptor, "rb", closefd=False) as file:
            # In pieces, because the memory for all that may be read would be reserved.
            while left > 0 and (piece := file.read(min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def open_to_write(path: str | Path) -> BinaryIO:
    """Open what is no regular file, such as a pipe or a terminal, to write bytes to it. Raises `OSError`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | _BINARY | _AT_ONCE)
    except OSError as error:
        if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
            raise
        _say(path, "reads")
        descriptor = os.open(path, os.O_WRONLY | _BINARY)
    if _AT_ONCE:
        os.set_blocking(descriptor, True)
    return open(descriptor, "wb")


def _first_of_pipe(descriptor: int, path: str | Path) -> bytes:
    """Wait for a writer of a pipe that is empty and has none; the beginning of the content that was read meanwhile."""
    pipe = select.poll()
    pipe.register(descriptor, select.POLLIN)
    if pipe.poll(0):  # it has data, or its writers have left
        return b""
    try:
        first = os.read(descriptor, 1)
    except BlockingIOError:  # a writer has it open
        return b""
    if not first:
        _say(path, "writes")
        pipe.poll()
    return first


def _say(path: str | Path, verb: str) -> None:
    print(f"leyden: {printable(str(path))} is a pipe: waiting until a program {verb} it", file=sys.stderr, flush=True)
