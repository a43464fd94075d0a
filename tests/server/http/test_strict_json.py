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


@given(
    st.one_of(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("\ud800"),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
            max_leaves=20,
        ).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
        st.text('[]{},:"\\\\19eE.+-truefalsn \n', max_size=60).map(str.encode),
    ),
    st.integers(1, 12),
)
@example(b'{"a": [1, 2, {"b": 1, "b": 2}], "c": 3}', 6)
@example(b"[[1, 2], [1, 2,]]", 4)
@example(b'[[1, 2], {"a" 1}]', 4)
@example(b'{"a": [1, NaN]}', 2)
@example(b"[[1], [2]] x", 2)
def test_a_long_body_is_read_in_parts_with_the_same_result(body: bytes, part: int) -> None:
    whole = reading(body)
    with pytest.MonkeyPatch.context() as long:
        long.setattr(strict_json, "LONG_BODY_BYTES", 0)
        long.setattr(strict_json, "_PART_CHARS", part)
        assert reading(body) == whole


def test_no_part_of_a_long_body_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the decoder in C runs, no other thread does."""
    decoder: Any = strict_json._DECODER_IN_PARTS
    lengths: list[int] = []

    def scan(text: str, start: int) -> Any:
        lengths.append(len(text))
        return original(text, start)

    original = decoder._scan_part
    monkeypatch.setattr(decoder, "_scan_part", scan)
    monkeypatch.setattr(strict_json, "_DECODER", None)
    monkeypatch.setattr(strict_json, "_parse_simple", None)
    body = {"x": [[0] * 10] * 10_000}
    assert strict_json.parse(json.dumps(body).encode(), depth_limit=32) == body
    assert len(lengths) > 10_000
    assert max(lengths) <= 4_096


def test_an_ordinary_body_uses_only_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("the careful reader was asked")

    monkeypatch.setattr(strict_json, "_DECODER", refuse)
    body = b'{"amount": "1000", "description": "tea", "expiresIn": 600, "callbackUrl": null}'
    assert strict_json.parse(body, depth_limit=32)["expiresIn"] == 600
