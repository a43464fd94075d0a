"""YAML of a spec follows the core schema; what would be ambiguous is refused with its line."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.errors import ContractError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, word) for word in ("on", "off", "yes", "no", "y", "n", "On", "NO")],
        *[("true", True), ("True", True), ("FALSE", False), ("tRUE", "tRUE")],
        *[("null", None), ("~", None), ("Null", None), ("none", "none"), ("''", "")],
        *[("2030-01-01", "2030-01-01"), ("2030-01-01T09:00:00Z", "2030-01-01T09:00:00Z")],
        *[("12", 12), ("-7", -7), ("+7", 7), ("0o14", 12), ("0xC", 12), ("010", 10), ("1_000", "1_000")],
        *[("1:30", "1:30"), ("190:20:30", "190:20:30"), ("0b11", "0b11"), ("-0x1", "-0x1")],
        *[("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("1.", 1.0), ("1.5.2", "1.5.2"), ("3.1.0", "3.1.0")],
        *[("-", [None]), ("5s", "5s"), ("'600'", "600"), ('"true"', "true"), ("!", None), (".", "."), ("+", "+")],
    ],
)
def test_a_plain_scalar_is_read_by_the_core_schema(text, value):
    if text == "!":
        with pytest.raises(ContractError, match="the tag ! is not read"):
            read_yaml(text, "x.yaml")
        return
    read = read_yaml(text, "x.yaml")
    assert (read, type(read)) == (value, type(value))


def test_keys_are_always_strings():
    document = read_yaml("200: a\non: b\ntrue: c\nnull: d\n1.0: e\n2030-01-01: f", "x.yaml")
    assert document == {"200": "a", "on": "b", "true": "c", "null": "d", "1.0": "e", "2030-01-01": "f"}


def test_the_order_of_the_document_is_kept():
    assert list(read_yaml("{c: 1, a: 2, b: 3}", "x.yaml")) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "x.yaml, line 4, column 3: the key 'c' stands twice; keep one of them"),
        ("'200': 1\n200: 2\n", "x.yaml, line 2, column 1: the key '200' stands twice"),
        ("a: &here 1\n", "x.yaml, line 1, column 4: the anchor &here is not read"),
        ("a: &here {b: 1}\n", "x.yaml, line 1, column 4: the anchor &here is not read"),
        ("a: *here\n", "x.yaml, line 1, column 4: aliases are not read"),
        ("a:\n  <<: {b: 1}\n", "x.yaml, line 2, column 3: merge keys are not read"),
        ("a: !!str 1\n", "x.yaml, line 1, column 4: the tag tag:yaml.org,2002:str is not read"),
        ("a: !mine {}\n", "x.yaml, line 1, column 4: the tag !mine is not read"),
        ("a: .inf\n", "x.yaml, line 1, column 4: .inf is not a JSON number; quote it if it is a text"),
        ("a: .NaN\n", ".NaN is not a JSON number"),
        ("a: 1e999\n", "1e999 does not fit into 64 bits; give a smaller number"),
        ("a: " + "9" * 5_000, "a smaller number"),
        ("a: 18446744073709551616\n", "x.yaml, line 1, column 4: 18446744073709551616 does not fit into 64 bits"),
        ("a: -9223372036854775809\n", "does not fit into 64 bits"),
        ("? [a]\n: 1\n", "a key must be a text"),
        ("a: 1\n---\nb: 2\n", "a second document begins"),
        ("a: b: c\n", "x.yaml, line 1, column 5: not YAML: mapping values are not allowed"),
        ("a: [1, 2\n", "not YAML"),
        ("[" * 300 + "]" * 300, "nested deeper than"),
        (b"a: \xff\n", "x.yaml: byte 3 is not UTF-8"),
        ("a: \x07\n", "not YAML"),
    ],
)
def test_ambiguous_yaml_is_refused_with_its_location(text, message):
    with pytest.raises(ContractError) as refusal:
        read_yaml(text, "x.yaml")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_byte_order_mark_is_no_part_of_the_text():
    assert read_yaml(b"\xef\xbb\xbfa: 1", "x.yaml") == {"a": 1}


def test_an_empty_file_is_null():
    assert read_yaml("", "x.yaml") is None
    assert read_yaml("# only words\n", "x.yaml") is None


READABLE = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Co", "Cn"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(READABLE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(READABLE, max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_a_json_document_is_read_as_the_json_module_reads_it(value):
    read = read_yaml(json.dumps(value, ensure_ascii=False), "x.json")
    assert read == value
    assert not isinstance(read, float) or math.isfinite(read)


def test_json_may_write_a_character_as_a_pair_of_escapes() -> None:
    document = {"a": "\U0001f4a5", "b": "\\ud83d\\udca5", "c": ["\\\U0001f4a5\U0001f4a5"]}
    assert read_yaml(json.dumps(document), "x.json") == document
    assert read_yaml(r"a: \ud83d\udca5", "x.yaml") == {"a": r"\ud83d\udca5"}
