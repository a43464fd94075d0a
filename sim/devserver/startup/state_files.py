"""The files of `--pid-file` and `--ready-file`: they tell other programs that the server runs, and where."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leyden.files.json_files import InputError

_PID = re.compile(rb"[0-9]{1,20}\n?")
_URL = re.compile(rb"https?://[!-~]{1,1000}\n?")
_MAX_BYTES = 1_024


class StateFile:
    """A file with one line, which is there as long as the server has the state that it stands for.

    It is written under another name first, so that nobody reads half of it. A file that an earlier process left is
    replaced: a regular file whose content is one line of the form `form`, or which is empty. Nothing else is replaced.
    """

    def __init__(self, path: str | Path, option: str, form: re.Pattern[bytes]) -> None:
        self._path = Path(path)
        self._option = option
        self._form = form
        self._line: str | None = None

    def write(self, text: str) -> None:
        """Write the line. Raises `InputError`."""
        self.check()
        line = f"{text}\n"
        self._line = line  # before the file is there: a signal may end the process at once
        with self._draft(line) as draft:
            os.replace(draft, self._path)

    def discard(self) -> None:
        """Remove what an earlier process left, and see whether the file can be written. Raises `InputError`."""
        self.check()
        with self._draft("") as draft:
            draft.unlink()
            self._path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise `InputError` for a path where there is anything but the file of an earlier process."""
        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unwritable(error) from None
        if not stat.S_ISREG(status.st_mode):
            raise self._refusal("is no regular file")
        try:
            content = self._content()
        except OSError as error:
            raise self._unwritable(error) from None
        if content and self._form.fullmatch(content) is None:
            raise self._refusal("exists, and no server wrote it")

    def remove(self) -> None:
        """Remove the file if it still has what was written here; another server may have the name since."""
        with contextlib.suppress(OSError):
            if self._line is None or not stat.S_ISREG(os.lstat(self._path).st_mode):
                return
            if self._content() == self._line.encode():
                self._path.unlink()

    def _content(self) -> bytes:
        # Without O_NONBLOCK a named pipe that replaces the file between the check and this call would be waited for.
        with open(os.open(self._path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            return file.read(_MAX_BYTES + 1)

    @contextmanager
    def _draft(self, content: str) -> Iterator[Path]:
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            draft.write_text(content)
            yield draft
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise self._unwritable(error) from None
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def _unwritable(self, error: OSError) -> InputError:
        return self._refusal(f"cannot be written ({error.strerror})")

    def _refusal(self, why: str) -> InputError:
        return InputError(f"{self._option} {self._path} {why}: choose another path")


@contextmanager
def state_files(pid_file: str | None, ready_file: str | None) -> Iterator[StateFile | None]:
    """Write the process id now, and remove both files at the end. The ready file is for the caller to write: one that
    an earlier process left is removed at once. Raises `InputError`."""
    pid = None if pid_file is None else StateFile(pid_file, "--pid-file", _PID)
    ready = None if ready_file is None else StateFile(ready_file, "--ready-file", _URL)
    if pid_file is not None and ready_file is not None and _same(pid_file, ready_file):
        raise InputError(f"--pid-file and --ready-file are both {ready_file}: give each a path of its own")
    try:
        for file in (pid, ready):
            if file is not None:
                file.check()
        if ready is not None:
            ready.discard()
        if pid is not None:
            pid.write(str(os.getpid()))
        yield ready
    finally:
        for file in (ready, pid):
            if file is not None:
                file.remove()


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
