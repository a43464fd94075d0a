"""Requests, and their responses."""

from __future__ import annotations

from typing import NamedTuple

from leyden.harness.targets.target import Response


class Request(NamedTuple):
    """A request as it is sent."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Exchange(NamedTuple):
    """A request with its response, and the time of the model, in ms, at which it was sent."""

    request: Request
    response: Response
    at_ms: int
