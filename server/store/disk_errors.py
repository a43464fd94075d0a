"""The errors of a store when the disk refuses to write."""

from __future__ import annotations

from pathlib import Path

from leyden.server.errors import StorageUnavailable

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
