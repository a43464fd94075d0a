"""The expected end of the journal, kept beside it: a journal that was emptied or shortened at a line end has no damage.

`charges.end` is one JSON object of fixed width. A mark in it is a length of the journal in bytes, the number of its
lines up to there, and the checksum of the last one. A journal fits a mark when it has a line that ends there with that
checksum.

- `written` is the end after the latest commit that the kernel has. A killed process leaves at most a journal that is
  longer. After a crash of the machine the journal may be shorter, so `boot` says since which start of the machine the
  mark is valid.
- `synced` is an end that is on the disk: of the start, the last flush or compaction, or a complete stop. It is valid
  after a crash of the machine, too.
- `next` is the end of a compacted file that is about to replace the journal, or is empty. It is on the disk before the
  file gets the name, so at any moment one of the two marks fits.

A mark is written after the journal, never before it: it may be too low, and is never too high.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import orjson

from leyden.server.errors import StoreError
from leyden.server.store.lock import NOFOLLOW

END_NAME = "charges.end"
FORMAT, VERSION = "leyden-journal-end", 1
# Linux has a new one after each start of the machine. Other systems have none: the machine may have crashed then.
_BOOT_PATH = "/proc/sys/kernel/random/boot_id"
_BOOT_CHARS = 36
_MARK = b'{"bytes":%16d,"lines":%16d,"checksum":"%08x"}'


class Mark(NamedTuple):
    """A place in a journal: the end of a line. `size` is in bytes; `chain` is the checksum of the line."""

    size: int = 0
    lines: int = 0
    chain: int = 0


NOTHING = Mark()


class ShortenedJournal(StoreError):
    """The journal is sound and ends before lines that were written to it, or is another one."""

    def __init__(self, path: Path, found: Mark, expected: Mark) -> None:
        if found.lines == 0:
            what = f"{path} is missing or empty, and {_commits(expected.lines - 1)} were written to it"
        elif found.size < expected.size:
            what = (
                f"{path} was shortened: it has {_commits(found.lines - 1)}, and {expected.lines - found.lines} more"
                " were written to it"
            )
        else:
            what = f"{path} is not the journal that was written here"
        super().__init__(
            f"{what}. Put the complete file back; or, to continue with what is there, delete {path.with_name(END_NAME)}"
        )


class EndMark:
    """The file `charges.end` of a directory. Without it, or when it cannot be read, nothing is expected."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / END_NAME
        self._fd = -1
        self._boot = _boot_id()
        self._expected: Mapping[str, Mark] = {}
        self._expected_boot = ""
        self._synced = self._written = NOTHING
        # Each file that gets the journal's name has a number; a mark of an earlier one is not written.
        self._file = 0
        self._flushed = (0, NOTHING)  # the last mark of a flush, which another thread may set
        self.notes: list[str] = []  # why nothing is expected, although the file exists, or will be
        self._is_empty = False
        with suppress(OSError):
            content = self._path.read_bytes()
            self._is_empty = not content
            if content:
                self._read(content)

    @property
    def sizes(self) -> frozenset[int]:
        """The lengths of the journal at which its checksum is compared."""
        return frozenset([mark.size for mark in self._expected.values()])

    def check(self, path: Path, found: Mark, chains: Mapping[int, int], *, is_torn: bool) -> str | None:
        """Compare the journal `path`, which ends at `found`, with the marks; `chains` are its checksums at `sizes`.
        With `is_torn` half a line follows.

        Returns a note when a crash of the machine lost commits. Raises `ShortenedJournal`.
        """
        if self._is_empty and found.lines > 1:  # before the first commit, the first start may have been killed
            self.notes.append(self._damaged())
        if not self._expected:
            return None
        written, synced, following = (self._expected[name] for name in ("written", "synced", "next"))

        def fits(mark: Mark) -> bool:
            return mark.lines <= 1 or chains.get(mark.size) == mark.chain

        self._synced = synced if fits(synced) else NOTHING
        if following != NOTHING and fits(following):
            self._synced = following
            return None
        machine_ran_on = self._boot == self._expected_boot != ""
        if not machine_ran_on and self._boot:
            self._synced = found  # it was read from the disk
        if fits(written):
            return None
        lost = written.lines - found.lines
        if is_torn and lost == 1:
            return f"{path}: the last commit is cut off in the middle of its line and is lost"
        if machine_ran_on:
            raise ShortenedJournal(path, found, written)
        if not fits(synced):
            raise ShortenedJournal(path, found, synced)
        if lost <= 0:
            return f"{path} is an older file than the one that was in use when the machine stopped"
        return (
            f"{path}: the last {_commits(lost)} before the machine stopped were not known to be on the disk, and are"
            " lost; --durability always waits for the disk"
        )

    def is_at(self, found: Mark) -> bool:
        """Whether the journal ends where the process stopped that wrote it, with the checksum of what was written."""
        return found in (self._expected.get("written"), self._expected.get("next"))

    def unfinished_text(self, found: Mark) -> str:
        """Whether the commit of half a line after `found` was confirmed, to end a sentence. The mark of another run of
        the machine may be too low."""
        if self._boot == self._expected_boot != "" and self.is_at(found):
            return ": its commit was never confirmed"
        return "; without the mark in charges.end it is not known whether its commit was confirmed"

    def start(self, end: Mark, *, is_synced: bool) -> None:
        """The journal, which was checked or is new, ends here; from now on keep the marks."""
        document = _document(end, end if is_synced else self._synced, NOTHING, self._boot)
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o600)
            os.pwrite(self._fd, document, 0)
            os.ftruncate(self._fd, len(document))
        except OSError as error:  # a full disk must not prevent reading
            self.close()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)  # it would not follow a compaction
            self.notes.append(f"{self._path} cannot be written ({error.strerror}): a shortened journal is not noticed")

    def note_written(self, end: Mark, *, is_synced: bool = False) -> None:
        """The kernel has the journal up to here, or with `is_synced` the disk."""
        self._written = end
        with suppress(OSError):  # the mark is too low then
            os.pwrite(self._fd, _MARK % end, _WRITTEN_AT)
        if is_synced:
            self.end_flush(self.begin_flush())
        self.note_flushed()

    def begin_flush(self) -> tuple[int, Mark]:
        """What the journal has now, for `end_flush`. It may be called from another thread."""
        return self._file, self._written

    def end_flush(self, flushed: tuple[int, Mark]) -> None:
        """The disk has what the journal had at `begin_flush`. It may be called from another thread: `note_flushed` in
        that of the store writes the mark."""
        self._flushed = flushed

    def note_flushed(self) -> None:
        """Write the mark of the last flush, unless another file has replaced the journal since it began."""
        (file, end), self._flushed = self._flushed, (0, NOTHING)
        if file == self._file and end != NOTHING:
            self._synced = end
            with suppress(OSError):
                os.pwrite(self._fd, _MARK % end, _SYNCED_AT)

    def begin_replacement(self, end: Mark) -> None:
        """A journal with this end is about to replace the present one. Raises `OSError`."""
        if self._fd >= 0:
            os.pwrite(self._fd, _MARK % end, _NEXT_AT)
            os.fsync(self._fd)

    def note_synced(self, end: Mark) -> None:
        """The journal and its name are on the disk up to here, and no other file is about to replace it. A deleted or
        replaced `charges.end` is written again."""
        self._file, self._written = self._file + 1, end
        if self._fd >= 0 and not self._has_its_name():
            self.close()
            self.start(end, is_synced=True)
        with suppress(OSError):
            for offset, mark in ((_WRITTEN_AT, end), (_SYNCED_AT, end), (_NEXT_AT, NOTHING)):
                os.pwrite(self._fd, _MARK % mark, offset)

    def forget(self) -> None:
        """Expect nothing: it is unknown which file has the name, or will have it after a crash of the machine."""
        self.note_synced(NOTHING)

    def _has_its_name(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return False

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def _read(self, content: bytes) -> None:
        try:
            document = orjson.loads(content)
            version = document["version"]
            if document["format"] != FORMAT or type(version) is not int or version < VERSION:
                raise ValueError
            if version > VERSION:
                self.notes.append(
                    f"{self._path} is of a newer version of Leyden, so it is not known whether the journal is complete"
                )
                return
            expected = {name: _mark(document[name]) for name in ("written", "synced", "next")}
            boot = document["boot"].strip()
        except (ValueError, TypeError, KeyError, AttributeError):
            self.notes.append(self._damaged())
        else:
            self._expected, self._expected_boot = expected, boot

    def _damaged(self) -> str:
        return f"{self._path} is damaged, so it is not known whether the journal is complete"


def _mark(value: Mapping[str, object]) -> Mark:
    size, lines, chain = value["bytes"], value["lines"], int(str(value["checksum"]), 16)
    if type(size) is not int or type(lines) is not int or min(size, lines) < 0:
        raise ValueError
    return Mark(size, lines, chain)


def _document(written: Mark, synced: Mark, following: Mark, boot: str) -> bytes:
    return _HEAD % (VERSION, boot.ljust(_BOOT_CHARS).encode()) + b',"next":'.join(
        [b',"synced":'.join([_MARK % written, _MARK % synced]), _MARK % following + b"}\n"]
    )


_HEAD = b'{"format":"' + FORMAT.encode() + b'","version":%d,"boot":"%b","written":'
_WRITTEN_AT = len(_HEAD % (VERSION, b" " * _BOOT_CHARS))
_SYNCED_AT = _WRITTEN_AT + len(_MARK % NOTHING) + len(',"synced":')
_NEXT_AT = _SYNCED_AT + len(_MARK % NOTHING) + len(',"next":')


def _boot_id() -> str:
    try:
        with open(_BOOT_PATH, encoding="ascii") as file:
            return file.read(_BOOT_CHARS)
    except (OSError, UnicodeDecodeError):
        return ""


def _commits(count: int) -> str:
    return f"{count} commit{'' if count == 1 else 's'}"
