"""The journal file: one line for each commit, with a checksum that depends on all lines before it.

A line is the JSON array `["<crc>",<body>]`, so that common tools can read it. `<crc>` is the CRC-32 of the body,
continued from the line before. So a changed bit, and also a lost, repeated or misplaced line, is found where it is.
The body of the first line names the format and its version. Every other body is an object from a table's name to its
changes in order: `[id, row]` set, `[id]` deleted, `[]` all deleted. Null instead of the changes drops the table.
A body that only Python's `json` can write exactly (an integer beyond 64 bits, half a surrogate pair) is followed by
`,"exact"`, and is read with it again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Container
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import orjson

from leyden.server.errors import StoreError
from leyden.server.gc_pause import gc_paused
from leyden.server.store.end_mark import END_NAME, Mark
from leyden.server.store.lock import Lock, check_regular, open_journal
from leyden.server.store.tables.row_map import Row

JOURNAL_NAME = "charges.journal"
FORMAT, VERSION = "leyden-journal", 1
# The body of the line that ends the compacted state: before it, the lines are a state only together.
COMPACTED = b"{}"
_COMPACTED_LINE = re.compile(rb'\["[0-9a-f]{8}",\{\}\]\n')
_EXACT = b',"exact"'
_ASIDE = ".journal.damaged-"
# Without these, a date or a dataclass would be written as something else, without an error.
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


class DamagedJournal(StoreError):
    """The journal differs from what was written. `line` is the first bad line, `good_bytes` the length before it;
    `in_compacted` is whether the compacted state ends after it."""

    def __init__(self, path: Path, line: int, good_bytes: int, what: str, *, in_compacted: bool = False) -> None:
        self.line = line
        self.good_bytes = good_bytes
        self.in_compacted = in_compacted
        if in_compacted:
            super().__init__(
                f"{path}, line {line}: {what}. It belongs to the compacted state, of which no part is of use without"
                " the others: restore the directory from a copy, or use a new one"
            )
            return
        by_hand = (
            f"keep a copy, cut the file to its first {line - 1} lines ({good_bytes} bytes), and delete"
            f" {path.with_name(END_NAME)}"
        )
        if line == 1:
            by_hand = "if this is not a journal of Leyden, choose another directory"
        super().__init__(
            f"{path}, line {line}: {what}. The {max(line - 2, 0)} commits before it are sound. To continue with"
            f" them, in Python: from leyden.server.store.journal import recover; recover({str(path.parent)!r}) (it"
            f" moves the damaged file aside); or by hand: {by_hand}"
        )


@dataclass(slots=True)
class LoadedJournal:
    """The content of a journal: the rows by table, the length in bytes of the good part, the checksum of its last line,
    the numbers of commits and row changes, and a note when the last line was unfinished. `chains` are the checksums at
    the lengths that were asked for."""

    tables: dict[str, dict[int, Row]] = field(default_factory=dict)
    size: int = 0
    chain: int = 0
    commits: int = 0
    records: int = 0
    note: str | None = None
    chains: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> Mark:
        """The end of the good part."""
        return Mark(self.size, self.commits + (self.size > 0), self.chain)


class _Damage(Exception):
    """The fault in the line that was read last."""


def encode_body(value: Any) -> bytes:
    """A value as the body of a line. Raises `TypeError` for what JSON cannot express. (Not-a-number becomes null.)"""
    try:
        return orjson.dumps(value, option=_STRICT)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode() + _EXACT


def encode_line(body: bytes, chain: int) -> tuple[bytes, int]:
    """The line for a body that follows a line with the checksum `chain` (0: none), and the checksum of the new line."""
    chain = crc32(body, chain)
    return b'["%08x",%b]\n' % (chain, body), chain


def header_line() -> tuple[bytes, int]:
    """The first line of a journal, and its checksum."""
    return encode_line(orjson.dumps({"format": FORMAT, "version": VERSION}), 0)


def load(path: Path, chains_at: Container[int] = ()) -> LoadedJournal:
    """Read a journal. An unfinished last line is ignored, with a note. `chains_at` are lengths in bytes at which the
    checksum of the line that ends there is wanted.

    Raises `DamagedJournal` for any other damage, and `StoreError` for a format newer than this program's and for what
    is no regular file.
    """
    check_regular(path)
    loaded = LoadedJournal()
    with gc_paused(), path.open("rb", buffering=1 << 20) as lines:  # every row that is read stays
        for number, line in enumerate(lines, 1):
            try:
                if line[-1:] != b"\n":
                    _drop_unfinished(line, number, loaded, path)
                    break
                body, chain = _decode_line(line, loaded.chain)
                if number == 1:
                    _check_version(body, path)
                else:
                    _replay(body, loaded)
            except _Damage as damage:
                in_compacted = number > 1 and any(map(_COMPACTED_LINE.fullmatch, lines))
                raise DamagedJournal(path, number, loaded.size, str(damage), in_compacted=in_compacted) from None
            loaded.chain = chain
            loaded.size += len(line)
            if loaded.size in chains_at:
                loaded.chains[loaded.size] = chain
    return loaded


def last_line_of(path: Path, table: str, doc_id: int) -> int | None:
    """The number of the last line of a sound journal that sets the row `doc_id` of a table."""
    found = None
    with path.open("rb", buffering=1 << 20) as lines:
        for number, line in enumerate(lines, 1):
            if number > 1 and line[-1:] == b"\n":
                changes = _commit(line[12:-2]).get(table) or ()
                if any(len(change) == 2 and change[0] == doc_id for change in changes):
                    found = number
    return found


def recover(directory: str | os.PathLike[str]) -> tuple[Path, int]:
    """Keep the part of a directory's journal before the damage, and move the damaged file aside.

    Returns the new path of the damaged file and the number of commits that were kept. When the damage is in the first
    line, that line is written again and the rest is checked. Raises `StoreError` when the journal is sound or in use,
    and when the damage is in the compacted state.
    """
    path = Path(directory) / JOURNAL_NAME
    with closing(Lock(Path(directory))), os.fdopen(open_journal(path), "rb"):  # the journal is locked as well
        try:
            load(path)
        except DamagedJournal as damage:
            if damage.in_compacted:
                raise
            first = damage
        else:
            raise StoreError(
                f"{path} is sound: there is nothing to recover; if lines at its end are missing, put the complete file"
                f" back, or delete {path.with_name(END_NAME)} to continue without them"
            )
        draft = path.with_suffix(".journal.recovered")
        with path.open("rb") as damaged, create_private(draft) as kept:
            if first.line == 1:
                begin = header_line()[0]
                if b'["' in damaged.readline()[len(begin) :]:
                    damaged.seek(len(begin))  # its line end was damaged, so the next line was read as part of it
                kept.write(begin)
                shutil.copyfileobj(damaged, kept)
            else:
                kept.write(damaged.read(first.good_bytes))
        try:
            sound = load(draft)
        except DamagedJournal as second:
            if second.in_compacted:
                draft.unlink()
                raise
            os.truncate(draft, second.good_bytes)
            sound = load(draft)
        aside = next(name for n in range(1, 10_000) if not (name := path.with_suffix(f"{_ASIDE}{n}")).exists())
        with path.open("rb") as damaged, create_private(aside) as copy:
            shutil.copyfileobj(damaged, copy)
        for written in (draft, aside):
            with written.open("rb+") as file:
                os.fsync(file.fileno())
        path.with_name(END_NAME).unlink(missing_ok=True)  # it is about the damaged file
        os.replace(draft, path)
        sync_directory(path.parent)
        return aside, sound.commits


def notes_of_recovery(path: Path) -> list[str]:
    """A note for each damaged file that `recover` moved aside from the journal `path` and that is still there."""
    return [
        f"{aside} is a damaged journal that was replaced by the part of it before the damage; what it has after the"
        " damage is not here. Delete it when you no longer need it"
        for aside in sorted(path.parent.glob(f"{path.stem}{_ASIDE}*"))
    ]


def create_private(path: Path) -> BinaryIO:
    """Create a file that only this user can read: a journal contains keys and secrets."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def has_journal(directory: Path) -> bool:
    """Whether a directory has a journal. Raises `StoreError` for a place where no directory can be, or be read."""
    try:
        return (directory / JOURNAL_NAME).exists()
    except OSError as error:
        raise StoreError(f"{directory} cannot be used ({error.strerror}): choose another place") from None


def check_place(directory: Path) -> None:
    """Raise `StoreError` if the directory, or one above it, is a file."""
    above = (*reversed(directory.parents), directory)
    try:
        file = next((one for one in above if one.exists() and not one.is_dir()), None)
    except OSError:  # a name that is too long, or no permission: whoever opens it says so
        return
    if file is not None:
        why = "is a file and no directory" if file == directory else f"cannot be made, because {file} is a file"
        raise StoreError(f"{directory} {why}: choose another place for the store")


def make_directory(directory: Path) -> None:
    """Make a directory that only this user can enter, and those above it likewise, unless they exist. Raises
    `StoreError`."""
    try:
        for place in reversed((directory, *directory.parents)):
            if not place.exists():
                place.mkdir(mode=0o700, exist_ok=True)  # the rows hold keys and secrets
                sync_directory(place.parent)
        directory.mkdir(exist_ok=True)  # raises when it is a file
    except OSError as error:
        check_place(directory)
        raise StoreError(f"{directory} cannot be made ({error.strerror}): choose another place") from error


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that the names in it survive a power cut."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _decode_line(line: bytes, chain: int) -> tuple[bytes, int]:
    body = line[12:-2]
    chain = crc32(body, chain)
    if line[:12] != b'["%08x",' % chain or line[-2:] != b"]\n":
        raise _Damage("the line is not what was written, or does not follow the one before it")
    return body, chain


def _check_version(body: bytes, path: Path) -> None:
    try:
        named = orjson.loads(body)
        name, version = named["format"], named["version"]
    except (ValueError, TypeError, KeyError):
        raise _Damage("it does not name the format") from None
    if name != FORMAT:
        raise _Damage(f"the format is {name!r}, not {FORMAT}")
    if not isinstance(version, int) or version < 1:
        raise _Damage(f"there is no format version {version!r}")
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer Leyden (format {version}; this one reads {VERSION}): start that one,"
            " or let it export the data for TinyDB and import that into a new directory"
        )


def _commit(body: bytes) -> Any:
    return json.loads(body.removesuffix(_EXACT)) if body.endswith(_EXACT) else orjson.loads(body)


def _replay(body: bytes, loaded: LoadedJournal) -> None:
    tables = loaded.tables
    try:
        for name, changes in _commit(body).items():
            if changes is None:
                tables.pop(name, None)
                continue
            rows = tables.get(name)
            if rows is None:
                rows = tables[name] = {}
            for change in changes:
                if len(change) == 2:
                    doc_id, row = change
                    if type(doc_id) is not int or doc_id < 1 or type(row) is not dict:
                        raise ValueError
                    rows[doc_id] = row
                elif change:
                    rows.pop(change[0], None)  # deleted already when a compaction came between
                else:
                    rows.clear()
            loaded.records += len(changes)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _Damage("its checksum is right, but it is not a commit") from None
    loaded.commits += 1


def _drop_unfinished(line: bytes, number: int, loaded: LoadedJournal, path: Path) -> None:
    if number == 1:
        if not header_line()[0].startswith(line):
            raise _Damage("it does not name the format")
    else:
        # A complete line whose last byte was changed is damage, not an unfinished commit.
        try:
            _decode_line(line[:-1] + b"\n", loaded.chain)
        except _Damage:
            pass
        else:
            raise _Damage("its line end is not what was written")
    loaded.note = f"{path}: line {number} was not finished ({len(line)} bytes) and is ignored"
