"""Every error that a caller may catch. All of them are `LeydenError`s."""

from __future__ import annotations

from leyden.server.errors import ContractError, LeydenError, Problem, StorageUnavailable, StoreError

__all__ = ["ContractError", "LeydenError", "MissingExtra", "Problem", "StorageUnavailable", "StoreError"]


class MissingExtra(LeydenError, ImportError):
    """A package that only an extra installs is missing; the text names what needs it and the command."""
