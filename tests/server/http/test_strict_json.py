"""The fast path and the strict parser agree about every body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leyden.server.errors import InvalidRequest
from leyden.server.http import strict_json

NAMES = st.sampled_from(["a", "b", "", "amount", "é", '"', "\\", "{", "\u2028"])
NUMBERS = st.one_of(
    st.integers(-(2**66), 2**66).map(str), st.floats().map(repr), st.sampled_from(["-0", "1E400", "01", "+1", "1.0"])
)
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["\ud800", "😀", "\x00", '"', "\\u0041", "}"]))
LEAVES = st.one_of(
    NUMBERS,
    st.sampled_from(["true", "false", "null", "NaN", "Infinity", "nul", ""]),
    TEXTS.map(json.dumps),
    TEXTS.map(lambda text: f'"{text}"'),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"
        ),
    ),
    max_leaves=6,
)
OBJECTS = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda pairs: "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in pairs) + "}"
)
BODIES = st.one_of(
    OBJECTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    VALUES.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(),
)


def reading(body: bytes) -> tuple[str, str]:
    try:
        return "read", repr(strict_json.parse(body, depth_limit=3))
    except InvalidRequest as refusal:
        return "refused", refusal.detail


@given(BODIES)
@example(b'{"a": 1, "a": 2}')
@example(b'{"a": {"b": 1}, "a": 2}')
@example(b'{"a": [], "a": "x"}')
@example(b'{"n": 18446744073709551616}')
@example(b"\xef\xbb\xbf{}")
@example(b'{"a": "\xed\xa0\x80"}')
@example(b' {"amount":"1000","description":"tea","expiresIn":600,"x":null,"y":true}\n')
def test_the_fast_path_never_changes_the_result(body: bytes) -> None:
    quick = reading(body)
    with pytest.MonkeyPatch.context() as careful:
        careful.setattr(strict_json, "_parse_simple", lambda body: None)
        assert reading(body) == quick


def test_an_ordinary_body_uses_only_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("the careful reader was asked")

    monkeypatch.setattr(strict_json, "_DECODER", refuse)
    body = b'{"amount": "1000", "description": "tea", "expiresIn": 600, "callbackUrl": null}'
    assert strict_json.parse(body, depth_limit=32)["expiresIn"] == 600
