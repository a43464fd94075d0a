"""Numbers as people write them: with separators between thousands, a decimal comma or a unit of money."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

_BTC_MSAT = 100_000_000_000
_UNIT_MSAT = {"m": 1, "s": 1_000, "b": _BTC_MSAT, "\u20bf": _BTC_MSAT}  # by the first letter
_NUMBER = re.compile(
    r"\+?(?P<sign>\u20bf? ?)(?P<digits>\d[\d ,._'\u2019\u00a0\u202f]{0,40}) ?"
    r"(?P<unit>m?sats?|(?:milli)?satoshis?|btc|bitcoins?|\u20bf)?",
    re.I | re.A,
)
_BLANKS = re.compile("[ _'\u2019\u00a0\u202f]")  # between digits they separate groups, and are no decimal mark
_WHOLE = re.compile("[0-9]+")
_FRACTION = re.compile("([0-9]+)[,.]([0-9]*)")
_THREE = re.compile("[1-9][0-9]{0,2}[,.][0-9]{3}")
_GROUPS = re.compile(r"[0-9]{1,3}(?:(?P<mark>[,.])[0-9]{2,3}(?:(?P=mark)[0-9]{2,3})*(?P=mark)[0-9]{3}|[,.][0-9]{3})")


class Reading(NamedTuple):
    """One meaning of a text as a number. `if_so` is the condition under which it is meant, "" when there is no other
    meaning."""

    value: Decimal
    if_so: str = ""


class WrittenNumber(NamedTuple):
    """A number in a text: its one or two meanings, the likelier first, and the millisatoshis in its unit, None when it
    has no unit."""

    readings: tuple[Reading, ...]
    unit_msat: int | None


def written_number(text: str) -> WrittenNumber | None:
    """The number that a text of ASCII digits is, or None. A comma or a point with exactly three digits after it can
    separate thousands or begin the decimals: `1,000` has both meanings, `1000,5`, `600,00` and `0,500` have one."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    unit = found["unit"] or found["sign"].strip()
    readings = _readings(_BLANKS.sub("", found["digits"]))
    return WrittenNumber(readings, _UNIT_MSAT[unit[0].lower()] if unit else None) if readings else None


def with_decimal_points(text: str) -> str:
    """The text with a point for each comma that can only begin decimals: `1.5h` for `1,5h`."""
    return re.sub(r"(?<![0-9.,])([0-9]+),([0-9]+)(?![0-9.,])", _pointed, text)


def _pointed(found: re.Match[str]) -> str:
    return found[0] if _THREE.fullmatch(found[0]) else f"{found[1]}.{found[2]}"


def _readings(digits: str) -> tuple[Reading, ...]:
    if _WHOLE.fullmatch(digits):
        return (Reading(Decimal(digits)),)
    if _THREE.fullmatch(digits):
        whole, mark = Decimal(re.sub("[,.]", "", digits)), "comma" if "," in digits else "point"
        grouped = Reading(whole, f"the {mark} separates thousands")
        decimal = Reading(whole / 1_000, f"the {mark} is a decimal {mark}")
        return (grouped, decimal) if mark == "comma" else (decimal, grouped)
    if fraction := _FRACTION.fullmatch(digits):
        return (Reading(Decimal(f"{fraction[1]}.{fraction[2] or 0}")),)
    last = max(digits.rfind(","), digits.rfind("."))
    if digits.count(digits[last]) == 1:  # another mark separates the thousands before it
        before, after = digits[:last], digits[last + 1 :]
        if after and _GROUPS.fullmatch(before):
            return (Reading(Decimal(f"{re.sub('[,.]', '', before)}.{after}")),)
        return ()
    return (Reading(Decimal(re.sub("[,.]", "", digits))),) if _GROUPS.fullmatch(digits) else ()
