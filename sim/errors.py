"""Every error that a caller may catch. All of them are `LeydenError`s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.errors import ContractError, LeydenError, Problem, StorageUnavailable, StoreError

__all__ = [
    "ActionLogError",
    "ApiError",
    "ContractError",
    "LeydenError",
    "MissingExtra",
    "Problem",
    "StorageUnavailable",
    "StoreError",
]


class ActionLogError(LeydenError):
    """A sandbox without a complete action log has no script; the text says why, and what to use instead."""


class ApiError(LeydenError):
    """The service refused a request. `status` is the HTTP status, `problem` the RFC 9457 document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('title')}: {problem.get('detail')}")
        self.status = status
        self.problem = problem


class MissingExtra(LeydenError, ImportError):
    """A package that only an extra installs is missing; the text names what needs it and the command."""
