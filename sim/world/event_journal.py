"""The event journal with a hash chain: two runs whose journals have the same hash were the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from hashlib import sha256
from itertools import islice
from json import JSONEncoder
from typing import Any, NamedTuple

from leyden.errors import ArgumentError, JournalError
from leyden.repr_tables import counted
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import Clock
from leyden.server.store.tables.packed import pack, unpack
from leyden.server.timestamps import to_iso

# Sorted keys, no spaces, ASCII only: the same facts are the same bytes in every process and on every machine.
_canonical = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode

# Facts that list the keys, of the other facts and of the objects in them, whose values the hash leaves out: those that
# depend on real time, such as the timestamp of a message to a receiver on the network, and those that depend on the
# webhook secret, which outlasts a reset, such as the signature of a message to any receiver.
REAL_TIME, SECRET_DEPENDENT = "realTime", "secretDependent"

_CHUNK = 1024
_START = sha256(b"").digest()

# Notes are kept one after another in one list, four values each: the instant, the kind, the subject and the facts. A
# tuple for each would be visited by the garbage collector, because it holds a dict; the dict itself is not.
_WIDTH = 4
_Notes = list[Any]
_Chunk = bytes | _Notes  # a list where a fact is not a plain value
_BITS = 8_192  # of a chunk's subjects: a chunk without a subject is read in vain once in some tens of searches


class _Summary(NamedTuple):
    """What a whole chunk may have: a bit for the hash of each subject, the kinds, and the instants that bound it."""

    subjects: bytes
    kinds: frozenset[str]
    first_ms: int
    last_ms: int


class Entry(NamedTuple):
    """One thing that happened. `sequence` counts from 1; `at_ms` is the clock's instant; `facts` are JSON values."""

    sequence: int
    at_ms: int
    kind: str
    subject: str
    facts: dict[str, Any]


class HashedEventJournal:
    """An append-only record (`leyden.server.ports.EventJournal`).

    Facts are kept as they were given, packed a thousand entries at a time, and hashed only when the hash is asked for:
    whoever notes a list or a dict must not change it afterwards.
    `keep` is how many of the latest entries can be read; None is all. The older ones go into the hash, and their memory
    is freed a thousand at a time.
    """

    def __init__(self, clock: Clock, *, keep: int | None = None) -> None:
        """Raises `ValueError` when `keep` is negative."""
        if keep is not None and keep < 0:
            raise ArgumentError(f"a journal cannot keep {keep} entries: give 0 or more, or None for all")
        self._now = clock.now
        self.since_ms: int | None = None  # from which instant it has entries, where it does not begin with the world
        self._keep = keep
        self._full_chunks: list[_Chunk] = []  # whole chunks, packed and never changed again: forks share them
        self._summaries: list[_Summary] = []  # of each whole chunk
        self._last_read: tuple[_Chunk, _Notes] | None = None  # the chunk that was unpacked last
        self._open: _Notes = []
        self._dropped = 0  # entries of which only the hash remains; a multiple of the chunk
        self._digest = _START
        self._hashed = 0
        self._in_commit = False
        self._before = (0, self._digest, 0)  # when the commit started: the length, the digest and what it covers

    def __len__(self) -> int:
        """The number of entries ever noted, dropped ones included: the last entry's sequence."""
        return self._dropped + len(self._full_chunks) * _CHUNK + len(self._open) // _WIDTH

    @property
    def dropped(self) -> int:
        """The number of the oldest entries, which can no longer be read."""
        return self._dropped if self._keep is None else max(self._dropped, len(self) - self._keep)

    @property
    def lost_before_ms(self) -> int | None:
        """The instant before which there are no entries or not all: those of a directory that was opened again are
        gone, and those that were dropped. None if all can be read."""
        if not self.dropped:
            return self.since_ms
        first = self.entries(limit=1)
        return first[0].at_ms if first else self._now()

    def lost(self) -> str:
        """That what happened before an instant can no longer be read; empty if all can. Whatever shows what only the
        journal has says it."""
        before_ms = self.lost_before_ms
        return "" if before_ms is None else f"the journal no longer has what happened before {to_iso(before_ms)}"

    def __repr__(self) -> str:
        lost = self.lost()
        return f"<Journal of {counted(len(self), 'entry', 'entries')}, hash {self.hash[:12]}{lost and f'; {lost}'}>"

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Append that `kind` happened to `subject` now. Facts are JSON values."""
        notes = self._open
        notes += (self._now(), kind, subject, facts)
        if len(notes) == _WIDTH * _CHUNK:
            self._close_chunk()

    @property
    def hash(self) -> str:
        """64 hex digits that depend on every entry and their order: link n is SHA-256 of link n-1 and entry n, without
        the values that depend on real time or on the webhook secret.

        Raises `JournalError` when an entry holds something that is not a JSON value.
        """
        self.extend_hash()
        return self._digest.hex()

    def extend_hash(self, limit: int | None = None) -> bool:
        """Include the next `limit` entries in the hash, or all that are not; whether it now depends on every entry.

        A long journal is hashed so in steps. Raises `JournalError` as `hash` does.
        """
        for entry in islice(self._since(self._hashed), limit):
            try:
                line = _hashed_text(entry)
            except (TypeError, ValueError) as error:
                raise JournalError(
                    f"journal entry {entry.sequence} ({entry.kind} of {entry.subject}) cannot be hashed: {error}; "
                    "note only JSON values"
                ) from error
            self._digest = sha256(self._digest + line.encode("ascii")).digest()
            self._hashed = entry.sequence
        return self._hashed == len(self)

    def computed_hash(self) -> str | None:
        """The hash, computed again from all entries; None when some can no longer be read."""
        if self.dropped:
            return None
        digest = _START
        for entry in self._since(0):
            digest = sha256(digest + _hashed_text(entry).encode("ascii")).digest()
        return digest.hex()

    def entries(
        self,
        after: int = 0,
        limit: int | None = None,
        kind: str | None = None,
        subject: str | None = None,
        instants: Set[int] | None = None,
    ) -> list[Entry]:
        """The readable entries with a sequence above `after`, oldest first, at most `limit`, of one kind or subject, or
        of some instants (ms). Chunks that have none of them are not read."""
        found: list[Entry] = []
        if limit is not None and limit <= 0:
            return found
        bit = None if subject is None else hash(subject) % _BITS

        def may_have(summary: _Summary) -> bool:
            return (
                (kind is None or kind in summary.kinds)
                and (bit is None or bool(summary.subjects[bit >> 3] >> (bit & 7) & 1))
                and (instants is None or any(summary.first_ms <= at <= summary.last_ms for at in instants))
            )

        for entry in self._since(max(after, self.dropped), may_have):
            if (
                (kind is None or entry.kind == kind)
                and (subject is None or entry.subject == subject)
                and (instants is None or entry.at_ms in instants)
            ):
                found.append(entry)
                if len(found) == limit:
                    break
        return found

    # Part of a commit (`leyden.server.store.rows.CommitParticipant`)

    def begin(self) -> None:
        """Remember the length."""
        self._in_commit = True
        self._before = (len(self), self._digest, self._hashed)

    def commit(self) -> None:
        """Keep the entries."""
        self._in_commit = False
        if self._keep is not None:
            self._drop_chunks(self._keep)

    def rollback(self, error: BaseException) -> None:
        """Remove the entries noted since `begin`: what they report did not happen.

        A commit that the disk refused stays, and an entry says how many of the latest report what was then undone.
        """
        self._in_commit = False
        length, digest, hashed = self._before
        entries = len(self) - length
        if not entries:
            return
        if isinstance(error, StorageUnavailable):
            self.note("rolled_back", "commit", entries=entries, reason=error.code)
            return
        while self._dropped + len(self._full_chunks) * _CHUNK > length:
            self._open = self._notes(self._full_chunks.pop()).copy()  # a fork may share it
            self._summaries.pop()
        del self._open[_WIDTH * (length - self._dropped - len(self._full_chunks) * _CHUNK) :]
        if self._hashed > length:
            self._digest, self._hashed = digest, hashed

    def fork(self, clock: Clock) -> HashedEventJournal:
        """A journal with the same entries, which continues with `clock`. Costs one reference per thousand entries."""
        fork = HashedEventJournal(clock, keep=self._keep)
        fork.continue_from(self)
        return fork

    def continue_from(self, past: HashedEventJournal) -> None:
        """Take over the entries of another journal; they are shared."""
        self.since_ms = past.since_ms
        self._full_chunks = past._full_chunks.copy()
        self._summaries = past._summaries.copy()
        self._open = past._open.copy()
        self._dropped = past._dropped
        self._digest = past._digest
        self._hashed = past._hashed

    def snapshot(self) -> dict[str, Any]:
        """The length, the hash and the readable entries, as JSON values."""
        return {**self.outline(), "entries": [list(entry) for entry in self.entries()]}

    def outline(self) -> dict[str, Any]:
        """`snapshot()` without the entries. One that begins with its world has no `since`."""
        since = {} if self.since_ms is None else {"since": self.since_ms}
        return {"length": len(self), "hash": self.hash, **since}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what `snapshot()` returned."""
        self.since_ms = snapshot.get("since")
        entries = snapshot["entries"]
        self._full_chunks, self._summaries, self._open = [], [], []
        for start in range(0, len(entries), _CHUNK):
            notes: _Notes = [value for _, *note in entries[start : start + _CHUNK] for value in note]
            if len(notes) < _WIDTH * _CHUNK:
                self._open = notes
            else:
                self._full_chunks.append(_packed(notes))
                self._summaries.append(_summary(notes))
        self._dropped = snapshot["length"] - len(entries)
        self._digest, self._hashed = bytes.fromhex(snapshot["hash"]), snapshot["length"]

    def _since(self, after: int, is_read: Callable[[_Summary], bool] = lambda summary: True) -> Iterator[Entry]:
        """The entries in memory with a sequence above `after`, oldest first; of the whole chunks those that are
        read."""
        sequence = min(max(after, self._dropped), len(self))
        first, skip = divmod(sequence - self._dropped, _CHUNK)
        summaries = iter(self._summaries[first:])
        for chunk in (*self._full_chunks[first:], self._open):
            summary = next(summaries, None)
            if summary is not None and not is_read(summary):
                sequence, skip = sequence + _CHUNK - skip, 0
                continue
            notes = self._notes(chunk)
            for start in range(_WIDTH * skip, len(notes), _WIDTH):
                sequence += 1
                yield Entry(sequence, *notes[start : start + _WIDTH])
            skip = 0

    def _notes(self, chunk: _Chunk) -> _Notes:
        if isinstance(chunk, list):
            return chunk
        if self._last_read is None or self._last_read[0] is not chunk:
            self._last_read = chunk, unpack(chunk)
        return self._last_read[1]

    def _close_chunk(self) -> None:
        self._full_chunks.append(_packed(self._open))
        self._summaries.append(_summary(self._open))
        self._open = []
        if self._keep is not None and not self._in_commit:
            self._drop_chunks(self._keep)

    def drop_readable(self) -> None:
        """Free the memory of the entries so far, except for at most a thousand. The hash includes all of them."""
        self._drop_chunks(0)

    def _drop_chunks(self, keep: int) -> None:
        spare = (len(self._full_chunks) * _CHUNK - keep) // _CHUNK
        if spare > 0:
            self.extend_hash(max(0, self._dropped + spare * _CHUNK - self._hashed))
            del self._full_chunks[:spare], self._summaries[:spare]
            self._dropped += spare * _CHUNK


def _hashed_text(entry: Entry) -> str:
    lists = [names for names in map(entry.facts.get, (REAL_TIME, SECRET_DEPENDENT)) if isinstance(names, list)]
    if lists:
        left_out = frozenset(name for names in lists for name in names if isinstance(name, str))
        entry = entry._replace(facts=_without(entry.facts, left_out))
    return _canonical(entry)


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    if isinstance(value, list):
        return [_without(one, names) for one in value]
    return value


def _summary(notes: _Notes) -> _Summary:
    subjects = bytearray(_BITS // 8)
    for subject in set(notes[2::_WIDTH]):
        bit = hash(subject) % _BITS
        subjects[bit >> 3] |= 1 << (bit & 7)
    instants = notes[::_WIDTH]
    return _Summary(bytes(subjects), frozenset(notes[1::_WIDTH]), min(instants), max(instants))


def _packed(notes: _Notes) -> _Chunk:
    packed = pack(notes)
    return notes if packed is None else packed
