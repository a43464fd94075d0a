"""One pattern is compared with another one as their texts are."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.contract.value_checks.pattern_inclusion import (
    UnreadPattern,
    is_included,
    lengths,
    numbers_of,
    pattern_of_numbers,
    text_beyond,
)

AMOUNT = "^(?:[1-9][0-9]{3,7}|[1-4][0-9]{8}|500000000)$"
ATOMS = st.sampled_from(["a", "b", "1", "[ab]", "[^a]", "[a-c1]", ".", "^", "$", r"\d", r"[\s-]", "", r"\.", r"\x61"])
PATTERNS = st.recursive(
    ATOMS,
    lambda below: st.one_of(
        st.lists(below, max_size=3).map("".join),
        st.lists(below, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(below, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(
            lambda both: f"({both[0]}){both[1]}"
        ),
    ),
    max_leaves=5,
)
WHOLE = PATTERNS.map(lambda pattern: f"^(?:{pattern})$")
TEXTS = ["".join(one) for length in range(5) for one in product("ab1.", repeat=length)]


def matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


@given(inner=PATTERNS | WHOLE, outer=PATTERNS | WHOLE)
def test_the_comparison_is_that_of_the_texts(inner: str, outer: str) -> None:
    found = text_beyond(inner, outer)
    if found is None:
        assert [text for text in TEXTS if matches(inner, text) and not matches(outer, text)] == []
    elif found.isascii() and not {"\n", "\r"} & set(found):  # Python and ECMA 262 read the end of a line in two ways
        assert matches(inner, found)
        assert not matches(outer, found)


@given(pattern=PATTERNS | WHOLE)
def test_the_lengths_of_a_pattern_are_those_of_its_texts(pattern: str) -> None:
    least, most = lengths(pattern)
    for text in TEXTS:
        if matches(pattern, text):
            assert least <= len(text)
            assert most is None or len(text) <= most


@given(least=st.integers(0, 5_000), more=st.integers(0, 5_000))
def test_a_pattern_of_numbers_has_those_and_no_others(least: int, more: int) -> None:
    pattern = re.compile(pattern_of_numbers(least, least + more))
    found = [number for number in range(12_000) if pattern.search(str(number))]
    assert found == [*range(least, least + more + 1)]
    ends = {number for number in numbers_of(pattern.pattern, 18) if number}
    assert not found[-1] or (min(ends), max(ends)) == (found[0] or 1, found[-1])


@pytest.mark.parametrize(
    ("inner", "outer", "beyond"),
    [
        (AMOUNT, "^[1-9][0-9]*$", None),
        ("^[0-9]{4,8}$", AMOUNT, "0000"),
        ("^(?:[1-9][0-9]{3,7}|free)$", AMOUNT, "free"),
        ("^[1-9]$", r"^\d$", None),
        (r"^\d$", "^[0-9]$", "\x80"),
        ("^a$|^b$", "^[ab]$", None),
        ("a", "^.*a", "\na"),
        (r"^[^\d]$", r"^\D$", "\x80"),
        ("^$", "^a?$", None),
        ("^a{2,}?$", "^a+$", None),
    ],
)
def test_a_text_that_only_one_pattern_matches(inner: str, outer: str, beyond: str | None) -> None:
    assert text_beyond(inner, outer) == beyond


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\p{Nd}$",
        "^(?=a)b$",
        "^(?<name>a)$",
        r"^(a)\1$",
        r"\bx",
        "a{2000}",
        "(?:a{900}){900}",
        "[[a]b]",
        "a{3,2}",
        r"\u{61}",
    ],
)
def test_a_pattern_that_is_not_read_is_not_compared(pattern: str) -> None:
    with pytest.raises(UnreadPattern):
        text_beyond(pattern, "^a$")
    assert not is_included(pattern, "^a$")
    assert lengths(pattern).least >= 0


def test_the_number_of_states_is_bounded() -> None:
    pattern = f"^[ab]*a[ab]{{{20}}}$"
    with pytest.raises(UnreadPattern):
        text_beyond("^[ab]*$", f"{pattern}|^[ab]*b[ab]{{20}}$|^[ab]{{0,20}}$")


@given(text=st.text(max_size=12) | st.just("(" * 5_000))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UnreadPattern):
        text_beyond(text, "^a$")
