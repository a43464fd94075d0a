"""The errors of a store when the disk refuses to write."""

from __future__ import annotations

from pathlib import Path

from leyden.server.errors import OPEN_MORE_FILES, TOO_MANY_FILES, StorageUnavailable, StoreError
from leyden.server.store.journal_name import Fault, text_after_close

_MEND = "give its disk room and write permission"


def not_opened(path: Path, error: OSError) -> StoreError:
    """A file of the store could not be opened, read or written at the start."""
    mend = "let this user read and write it, and see that the disk has room"
    if error.errno in TOO_MANY_FILES:
        mend = OPEN_MORE_FILES
    return StoreError(f"{path} cannot be opened ({error.strerror}): {mend}")


def not_accepted(path: Path, error: OSError) -> StorageUnavailable:
    """A commit could not be written to the file and was rolled back."""
    return StorageUnavailable(
        f"{path.name} could not be written ({error.strerror}), and nothing was accepted: {_MEND}, then repeat the"
        " request"
    )


def not_synced(path: Path, error: OSError) -> StorageUnavailable:
    """Commits that were accepted could not be written to the disk."""
    return StorageUnavailable(
        f"{path.name} could not be written to the disk ({error.strerror}): {_MEND}; what was accepted since the last"
        " sync stays in the store, and a power failure would lose it"
    )


def not_compacted(path: Path, error: BaseException) -> str:
    """The journal could not be compacted; its commits are on the disk as before."""
    why = error.strerror if isinstance(error, OSError) else str(error) or type(error).__name__
    return f"{path} could not be compacted ({why}), and grows with each commit: {_MEND}"


def not_closed(path: Path, fault: Fault | None, error: OSError | StorageUnavailable) -> StorageUnavailable:
    """The store was closed with this fault of its file's name, or None, and could not write everything to the disk."""
    if fault is not None:
        cause = f"; the disk refused: {error.strerror}" if isinstance(error, OSError) else ""
        return StorageUnavailable(f"{path.name} {text_after_close(fault)}{cause}")
    return not_synced(path, error) if isinstance(error, OSError) else StorageUnavailable(error.detail)
