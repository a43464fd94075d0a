"""Numbers as people write them: what a correction says is what the number meant, in every style."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.http.corrections import correction
from leyden.world.config import packaged_contract

STYLES = [("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), (" ", "."), ("'", "."), ("_", "."), ("\u202f", ",")]
UNITS = {"": None, " msat": 1, "msats": 1, " sats": 1_000, " sat": 1_000, " satoshis": 1_000, " BTC": 10**11}
PROPOSED = re.compile(r'(?:if the (?:comma|point) (.*?), )?write (?:the number ([0-9.]+)|"([0-9]+)")')
AMBIGUOUS = re.compile("[1-9][0-9]{0,2}[,.][0-9]{3}")


def written(whole: int, decimals: str, group: str, mark: str) -> str:
    """The number in a style: `group` between thousands and `mark` before the decimals."""
    return f"{whole:,}".replace(",", group) + (mark + decimals if decimals else "")


def schema_of(field: str) -> dict[str, Any]:
    properties = packaged_contract("charges").document["components"]["schemas"]["ChargeRequest"]["properties"]
    return dict(properties[field])


def is_amount(value: Any) -> bool:
    return (
        isinstance(value, str) and re.fullmatch("[1-9][0-9]*", value) is not None and 10**3 <= int(value) <= 5 * 10**8
    )


def is_span(value: Any) -> bool:
    return isinstance(value, int) and 1 <= value <= 2_592_000


NUMBERS = st.tuples(
    st.integers(0, 10**7), st.sampled_from(["", "0", "00", "000", "5", "50", "500", "25", "250", "0005"])
)


@given(NUMBERS, st.sampled_from(STYLES), st.sampled_from([*UNITS]))
def test_the_amount_that_a_correction_names_is_the_amount_that_was_written(
    number: tuple[int, str], style: tuple[str, str], unit: str
) -> None:
    digits = written(*number, *style)
    text, value = digits + unit, Decimal(f"{number[0]}.{number[1] or 0}")
    if is_amount(text):
        return
    hint = correction(text, schema_of("amount"), is_amount)
    msat = value * (UNITS[unit] or 1)
    found = [(condition, Decimal(amount)) for condition, _, amount in PROPOSED.findall(hint)]
    if msat == int(msat) and is_amount(str(int(msat))):
        assert msat in [one for _, one in found], (text, hint)
    for condition, amount in found:
        in_satoshis = UNITS[unit] is None and amount == value * 1_000
        if not condition:
            assert amount == msat or (in_satoshis and ("satoshi" in hint or AMBIGUOUS.fullmatch(digits))), (text, hint)
        else:
            assert AMBIGUOUS.fullmatch(digits), (text, hint)


@given(NUMBERS, st.sampled_from(STYLES))
def test_the_seconds_that_a_correction_names_are_the_seconds_that_were_written(
    number: tuple[int, str], style: tuple[str, str]
) -> None:
    text, value = written(*number, *style), Decimal(f"{number[0]}.{number[1] or 0}")
    hint = correction(text, schema_of("expiresIn"), is_span)
    found = [(condition, Decimal(seconds)) for condition, seconds, _ in PROPOSED.findall(hint)]
    if value == int(value) and is_span(int(value)):
        assert value in [one for _, one in found], (text, hint)
    for condition, seconds in found:
        assert seconds == value or (condition and AMBIGUOUS.fullmatch(text)), (text, hint)
    if AMBIGUOUS.fullmatch(text):
        assert all(condition for condition, _ in found), (text, hint)


@pytest.mark.parametrize(
    ("field", "text", "hint"),
    [
        ("amount", "1000,5", "write whole millisatoshis, without a decimal comma"),
        ("amount", "600,00", 'amounts are in millisatoshis; if you mean 600 satoshis, write "600000"'),
        ("amount", "1,5", "write whole millisatoshis, without a decimal comma"),
        ("amount", "250,000", 'write "250000"'),
        ("amount", "1,00,000", 'write "100000"'),
        ("amount", "1.5 sats", 'amounts are in millisatoshis; if you mean 1.5 satoshis, write "1500"'),
        ("amount", "2,500 sats", 'amounts are in millisatoshis: if the comma separates thousands, write "2500000"; '
         'if the comma is a decimal comma, write "2500"'),
        ("amount", "2.500", 'if the point separates thousands, write "2500"'),
        ("expiresIn", "600,0", "write the number 600"),
        ("expiresIn", "1,5h", "write the number 5400"),
        ("expiresIn", "1,000", "if the comma separates thousands, write the number 1000; "
         "if the comma is a decimal comma, write the number 1"),
        ("expiresIn", "1,5,3", ""),
    ],
)  # fmt: skip
def test_a_comma_is_read_as_what_it_can_be(field: str, text: str, hint: str) -> None:
    assert correction(text, schema_of(field), is_amount if field == "amount" else is_span) == hint
