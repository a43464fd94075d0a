"""Standard input, output and error of a command: every text can be printed, and output that is lost is an error.

A character that the encoding of the output does not have is escaped. A failed write to standard output raises
`OutputError`, whichever line prints; only its reader may leave (`leyden table | head`): a command goes on then, and
its exit status is the one that it has with a reader. What prints until it is ended ends with its reader
(`ending_with_reader`). Standard error has the errors and the log: what cannot be written there is discarded.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from leyden.server.errors import LeydenError

_IN, _OUT, _ERROR = range(3)  # descriptors
_ESCAPE = "backslashreplace"


class OutputError(LeydenError):
    """Standard output cannot be written; the text says why, and what to do."""

    exit_status = 2


class _Descriptor(io.FileIO):
    """A descriptor of the process. The first failed write to an output raises `OutputError`, unless its reader has
    left; all later bytes are discarded, also those that a buffer has at the end of the process."""

    ends_with_reader = False  # whether a write raises `BrokenPipeError` when the reader has left

    def __init__(self, number: int, *, is_output: bool, is_closed: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self._is_output = is_output
        self._is_closed = is_closed
        self._has_failed = self._reader_has_left = False

    def write(self, data: Any, /) -> int:
        """Write bytes and return how many were written."""
        if not self._has_failed:
            try:
                if self._is_closed:
                    raise OSError(errno.EBADF, "it is closed")
                return cast(int, super().write(data))  # None: a descriptor that does not wait
            except OSError as error:
                self._has_failed = self._is_output
                self._reader_has_left = self._is_output and isinstance(error, BrokenPipeError)
                if self._is_output and not self._reader_has_left:
                    why = f"standard output cannot be written ({error.strerror})"
                    raise OutputError(f"{why}: send it to another place") from None
        if self._reader_has_left and _Descriptor.ends_with_reader:
            raise BrokenPipeError(errno.EPIPE, "the reader of the output has left")
        return memoryview(data).nbytes


def guard_streams() -> None:
    """Replace the streams of this process. One that was closed reads as empty or cannot be written; no file that is
    opened later gets its number."""
    closed = [stream is None for stream in (sys.stdin, sys.stdout, sys.stderr)]
    number = -1
    while any(closed) and number <= _ERROR:  # each is the lowest that is free
        number = os.open(os.devnull, os.O_RDWR)
    if closed[_IN]:
        sys.stdin = os.fdopen(number, encoding="utf-8", closefd=False)
    sys.stdout = _guarded(sys.stdout, number if closed[_OUT] else None, is_output=True)
    sys.stderr = _guarded(sys.stderr, number if closed[_ERROR] else None, is_output=False)


@contextmanager
def ending_with_reader() -> Iterator[None]:
    """In the block a write raises `BrokenPipeError` when the reader of the output has left."""
    before, _Descriptor.ends_with_reader = _Descriptor.ends_with_reader, True
    try:
        yield
    finally:
        _Descriptor.ends_with_reader = before


@contextmanager
def all_written() -> Iterator[None]:
    """Write what is buffered when the block has done its work, or ends the program as `--help` does. Raises
    `OutputError`."""
    try:
        yield
    except SystemExit:
        _flush()
        raise
    _flush()


def print_document(text: str) -> None:
    """Print what is a file of its own, such as a program or a page: in UTF-8, whatever encoding the output has."""
    sys.stdout.flush()
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write(text.encode("utf-8", _ESCAPE))
        out.flush()


def discard_output() -> None:
    """Discard what is still buffered, if it cannot be written, and then all later output."""
    if sys.stdout is None:
        return
    with suppress(OSError, LeydenError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _guarded(stream: Any, instead: int | None, *, is_output: bool) -> Any:
    """The stream over a `_Descriptor`. `instead` is one of the null device, in place of a stream that was closed."""
    buffer = getattr(stream, "buffer", None)
    raw: Any = getattr(buffer, "raw", buffer)
    if stream is not None and type(raw) is not io.FileIO:  # a console of Windows, or a stream of the caller
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)
        return stream
    number = raw.fileno() if instead is None else instead
    guarded = _Descriptor(number, is_output=is_output, is_closed=instead is not None)
    writes_through = stream is not None and stream.write_through
    target: Any = guarded if writes_through else io.BufferedWriter(guarded)
    return io.TextIOWrapper(
        target,
        encoding="utf-8" if stream is None else stream.encoding,
        errors=_ESCAPE,
        line_buffering=stream is None or stream.line_buffering,
        write_through=writes_through,
    )
