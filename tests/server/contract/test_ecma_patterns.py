r"""A `pattern` of a document is read as ECMA 262 has it: `\w`, `\d`, `\s`, `\b` and `.`, wherever it is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson
import pytest

from leyden.harness.control.field_checks import is_allowed
from leyden.server.contract.json_schema.ecma_patterns import matches
from leyden.server.contract.json_schema.schemas import LateValidator, Schemas
from leyden.server.contract.value_checks.schema_inclusion import Inclusion
from tests.server.contract.test_edited_headers import Document, create, edited

LINE_ENDS = "\n\r\u2028\u2029"
BLANKS = {*"\t\v\f \xa0\u1680\u202f\u205f\u3000\ufeff", *LINE_ENDS, *map(chr, range(0x2000, 0x200B))}
DIGITS = {*"0123456789"}
WORD = DIGITS | {*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"}
# ECMA 262, 22.2.2.9: pattern, text, whether it matches.
CASES = [
    (r"\bab\b", "éab", True),
    (r"\bab\b", "xab", False),
    (r"\bab\b", "é ab", True),
    (r"\Bab", "éab", False),
    (r"\Bab", "1ab", True),
    (r"\B", "", True),
    (r"\b", "", False),
    (r"\b", "é", False),
    (r"^[\b]$", "\b", True),
    (r"^\\b$", "\\b", True),
    (r"(?=.)\w", "é", False),
    (r"(?=.)^[^\w]$", "é", True),
    (r"(?=.)\d", "٣", False),
    (r"(a)\1\d", "aa٣", False),
    (r"^[.\]]$", "x", False),
    (r"^[.\]]$", "]", True),
    (r"a$", "a\n", False),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), CASES)
def test_a_pattern_is_read_as_ecma_262_wherever_it_is_evaluated(pattern: str, text: str, expected: bool) -> None:
    schema = {"type": "string", "pattern": pattern}
    schemas = Schemas({"components": {}}, "#")
    validators: list[Any] = [
        LateValidator(schema),
        schemas.validator(schema, "#/x"),
        schemas.rule(schema, "#/x").validator,
    ]
    assert [one.is_valid(text) for one in validators] == [expected] * len(validators)
    named = LateValidator({"patternProperties": {pattern: False}}), LateValidator({"propertyNames": schema})
    assert [one.is_valid({text: 1}) for one in named] == [not expected, expected]
    nested = LateValidator({"properties": {"x": {"anyOf": [{"items": schema}, False]}}})
    assert nested.is_valid({"x": [text]}) is expected
    assert matches(pattern, text) is expected
    assert is_allowed(schema, text) is expected


def members(pattern: str) -> Iterator[str]:
    is_valid = LateValidator({"pattern": pattern}).is_valid
    return (one for one in map(chr, chain(range(0xD800), range(0xE000, 0x10100))) if is_valid(one))


@pytest.mark.parametrize("form", ["^{}$", "^[{}]$", "^(?=[^]?){}$", "^[^]?(?<={})$"])
@pytest.mark.parametrize(("letter", "expected"), [("d", DIGITS), ("w", WORD), ("s", BLANKS)])
def test_a_set_of_characters_has_the_members_of_ecma_262(form: str, letter: str, expected: set[str]) -> None:
    form = form.replace("[^]", r"[\d\D]")
    found = {one: {*members(form.format(rf"\{one}"))} for one in (letter, letter.upper())}
    assert found[letter] == expected
    assert not found[letter.upper()] & expected
    assert len(found[letter.upper()]) + len(expected) == 0x10100 - 0x800


def test_a_point_is_no_end_of_a_line() -> None:
    assert not {*members("^.$")} & {*LINE_ENDS}
    assert not LateValidator({"pattern": "(?=a)a."}).is_valid("a\u2028")


def test_a_name_is_compared_with_a_pattern_of_names_as_it_is_validated() -> None:
    """`éab` is a name of `patternProperties` here, so its schema holds for a property that is sent."""
    outer = {"patternProperties": {r"\bab\b": {"type": "integer"}}}
    inner = {"properties": {"éab": {"type": "string"}}, "required": ["éab"], "additionalProperties": False}
    assert LateValidator(outer).is_valid({"éab": "x"}) is False
    assert Inclusion(Schemas({"components": {}}, "#")).narrower(outer, [inner], "#/x") is not None


def test_a_request_is_validated_by_the_pattern_and_its_refusal_shows_it_as_it_is_written() -> None:
    written = r"^.\b\w\d[\s\D]?(?=\B)"

    def edit(document: Document) -> None:
        fields = document["components"]["schemas"]["ChargeRequest"]["properties"]
        fields |= {"mark": {"type": "string", "pattern": r"\bab\b"}, "other": {"type": "string", "pattern": written}}

    with edited(edit) as sandbox:
        for mark, status in (("éab", 200), ("ab", 200), ("xab", 400)):
            body = orjson.dumps({"amount": "1000", "description": "tea", "mark": mark})
            assert create(sandbox, body=body).status == status
        body = orjson.dumps({"amount": "1000", "description": "tea", "other": "x"})
        (error,) = orjson.loads(create(sandbox, body=body).body)["errors"]
        assert written in error["detail"]
