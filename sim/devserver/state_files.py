"""The files of `--pid-file` and `--ready-file`: they tell other programs that the server runs, and where."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leyden.json_files import InputError


class StateFile:
    """A file with one line, which is there as long as the server has the state that it stands for.

    It is written under another name first, so that nobody reads half of it. What an earlier process left is replaced.
    """

    def __init__(self, path: str | Path, option: str) -> None:
        self._path = Path(path)
        self._option = option
        self._line: str | None = None

    def write(self, text: str) -> None:
        """Write the line. Raises `InputError`."""
        self._line = f"{text}\n"
        with self._draft(self._line) as draft:
            os.replace(draft, self._path)

    def discard(self) -> None:
        """Remove what an earlier process left, and see whether the file can be written. Raises `InputError`."""
        with self._draft("") as draft:
            draft.unlink()
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _draft(self, content: str) -> Iterator[Path]:
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            draft.write_text(content)
            yield draft
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            refusal = f"{self._option} {self._path} cannot be written ({error.strerror}): choose another path"
            raise InputError(refusal) from None

    def remove(self) -> None:
        """Remove the file if it still has what was written here; another server may have the name since."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if self._line is not None and self._path.read_text() == self._line:
                self._path.unlink()


@contextmanager
def state_files(pid_file: str | None, ready_file: str | None) -> Iterator[StateFile | None]:
    """Write the process id now, and remove both files at the end. The ready file is for the caller to write: one that
    an earlier process left is removed at once. Raises `InputError`."""
    pid = None if pid_file is None else StateFile(pid_file, "--pid-file")
    ready = None if ready_file is None else StateFile(ready_file, "--ready-file")
    try:
        if ready is not None:
            ready.discard()
        if pid is not None:
            pid.write(str(os.getpid()))
        yield ready
    finally:
        for file in (ready, pid):
            if file is not None:
                file.remove()
