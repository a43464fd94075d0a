"""Strict JSON: which bytes are a JSON text with one meaning (RFC 8259, RFC 7493)."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from leyden.harness.model.rules import DEPTH_LIMIT, has_lone_surrogate

INVALID = object()


def parse_json(body: bytes) -> Any:
    """The value of a JSON text; `INVALID` for one with a repeated name, NaN, a lone surrogate, a byte order mark or
    more than `DEPTH_LIMIT` levels, and for what is no JSON text in UTF-8."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError):
        return INVALID
    return INVALID if has_lone_surrogate(value) or _depth(value) > DEPTH_LIMIT else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name is repeated")
    return dict(pairs)


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(one) for one in value.values()), default=0)
    return 1 + max((_depth(one) for one in value), default=0) if isinstance(value, list) else 0
