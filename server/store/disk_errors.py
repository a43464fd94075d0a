"""The errors of a store when the disk refuses to write."""

from __future__ import annotations

from pathlib import Path

from leyden.server.errors import StorageUnavailable
from leyden.server.store.journal_name import Fault

# What is left of a store that was closed while its file had lost its name, and could not be written again.
_CLOSED: dict[Fault, str] = {
    "free": "was deleted or moved while it was in use, and could not be written again: put it back before the next"
    " start; if it was deleted, everything that was accepted is lost",
    "taken": "was replaced by another file while it was in use, which stays as it is: put the first one back before the"
    " next start; if it was deleted, what the other file does not have is lost",
    "cut": "was shortened by another program while it was in use, and could not be written again: what was cut off is"
    " lost",
    "longer": "was made longer by another program while it was in use, and stays as it is: start the server again: it"
    " says how to continue",
    "gone": "cannot be found, because its directory was moved, removed or replaced while it was in use: put the"
    " directory back before the next start; if it was removed, what no copy of it has is lost",
    "barred": "cannot be reached, because this user may not enter its directory: give the permission back before the"
    " next start; what was accepted since the last sync may be lost in a power failure",
}
_MEND = "give its disk room and write permission"


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


def not_closed(path: Path, fault: Fault | None, error: OSError | StorageUnavailable) -> StorageUnavailable:
    """The store was closed with this fault of its file's name, or None, and could not write everything to the disk."""
    if fault is not None:
        cause = f"; the disk refused: {error.strerror}" if isinstance(error, OSError) else ""
        return StorageUnavailable(f"{path.name} {_CLOSED[fault]}{cause}")
    return not_synced(path, error) if isinstance(error, OSError) else StorageUnavailable(error.detail)
