"""A parsed request: authenticated, and checked against the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class EncodedJson(NamedTuple):
    """A response body that is already JSON, in pieces: a handler may return it. `outline` is the value with its large
    parts left out; the pipeline checks it against the spec."""

    outline: Any
    pieces: tuple[bytes, ...]


class Request(NamedTuple):
    """The argument of a handler.

    `project` is the project of the API key, empty for operations without one. `path`, `query` and `header` have the
    declared parameters with the spec's defaults. `body` is the JSON object with the spec's defaults, `raw_body` the
    same object as it was sent. Names are those of the spec; of headers they are in lower case.
    """

    project: str
    path: Mapping[str, str]
    query: Mapping[str, Any]
    header: Mapping[str, str]
    body: Mapping[str, Any]
    raw_body: Mapping[str, Any]
