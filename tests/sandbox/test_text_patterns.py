"""Patterns of the conditions of rules: `*` is any text, and every other character is itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.text_patterns import matches_pattern

_TEXTS = st.text("ab?[]*\n\\.", max_size=8)


@given(text=_TEXTS, pattern=_TEXTS)
def test_only_a_star_has_a_meaning(text: str, pattern: str) -> None:
    expected = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    assert matches_pattern(text, pattern) is (expected.fullmatch(text) is not None)
    assert matches_pattern(text, text.replace("a", "*"))


@pytest.mark.parametrize("name", ["description", "internal_id"])
@pytest.mark.parametrize(
    ("pattern", "paid"),
    [
        ("t?a", ["t?a"]),
        ("t[e]a", ["t[e]a"]),
        ("t*a", ["tea", "t?a", "t[e]a", "ta"]),
        ("*", ["tea", "t?a", "t[e]a", "ta", ""]),
        ("", [""]),
        ("TEA", []),
    ],
)
def test_a_payer_takes_the_charges_whose_text_matches(name: str, pattern: str, paid: list[str]) -> None:
    with Sandbox(seed=1) as sb:
        sb.payers.add(**{name: pattern})
        field = {"internal_id": "internalId"}.get(name, name)
        charges = {
            text: sb.charges.create(**{"amount": "1000", "description": "plain", field: text})
            for text in ("tea", "t?a", "t[e]a", "ta", "")
        }
        without = sb.charges.create(amount="1000", description="plain")
        sb.advance("1s")
        assert [text for text, charge in charges.items() if sb.charges[charge.id].status == "completed"] == paid
        if name == "internal_id":
            assert sb.charges[without.id].status == "pending"
