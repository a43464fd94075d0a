"""A request that got through the door: parsed, checked against the contract, and known to belong to a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What a handler is given.

    `project` owns the key (empty for operations without one). `path`, `query` and `header` hold the declared
    parameters with the spec's defaults; `body` the JSON object with defaults filled in, `submitted` the same object
    as it was sent. Names are the wire's.
    """

    project: str
    path: Mapping[str, str]
    query: Mapping[str, Any]
    header: Mapping[str, str]
    body: Mapping[str, Any]
    raw_body: Mapping[str, Any]
