"""Distributions of what differs between customers, or between the responses of a receiver, written as short texts.

45s                        constant
uniform(1000, 50000)       uniform between two values
exp(2m)                    exponential with this mean
lognorm(45s, 0.6)          log-normal with this median; standard deviation of the logarithm, 0.6 if left out
normal(60s, 5s)            mean and standard deviation
choice(1000:3, 5000:1)     1000 with weight 3, 5000 with weight 1; all weights are 1 if left out

A value that is drawn outside the bounds of its quantity becomes the nearest bound: 0 and all bitcoin for an amount, 0
and 1,000 years for a span, 1 s and 1,000 years for `expiresIn`, because a Charge with `expiresIn` 0 has the default.
Drawn values are rounded to whole msat, ms, and seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any

from leyden.arguments import ALL_MSAT, MAX_SPAN_MS, span_ms, whole_number
from leyden.errors import DistributionError
from leyden.rng import RandomStream

Distribution = list[Any]  # its name and its numbers, as JSON values
DistributionText = str | int | float | timedelta
# Reads one value of a quantity from its text.
Reader = Callable[[str], Any]

SPREAD = 0.6  # of a log-normal without a second number
_MAX_SPREAD = 50  # a larger one draws numbers that no float has
_MAX_WEIGHT = 1e9

_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL)
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?)(sat|msat)?")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FORMS = {
    "uniform": "uniform(low, high)",
    "exp": "exp(mean)",
    "lognorm": "lognorm(median, spread)",
    "normal": "normal(mean, deviation)",
    "choice": "choice(a:3, b:1)",
}
_NAMES = ", ".join(_FORMS.values())


def msat_distribution(value: DistributionText, name: str = "amount") -> Distribution:
    """Amounts in msat; `25sat` is 25000. Raises `DistributionError`."""
    return _distribution(value, name, _msat)


def span_distribution(value: DistributionText, name: str = "span") -> Distribution:
    """Spans in milliseconds: `45s`, `1h30m`, a bare number of seconds, a `timedelta`. Raises `DistributionError`."""
    return _distribution(value, name, _span_ms)


def seconds_distribution(value: DistributionText, name: str = "expiresIn") -> Distribution:
    """Spans in seconds, written as for `span_distribution`; a constant and a choice are 1 s or more. Raises
    `DistributionError`."""
    found = _distribution(value, name, lambda text: _span_ms(text) / 1_000)
    fixed = [found[1]] if found[0] == "const" else [one for one, _ in found[1]] if found[0] == "choice" else []
    if any(each < 1 for each in fixed):
        raise DistributionError(f"{name}: {value!r} is shorter than a second, the unit: give 1s or more")
    return found


def payer_distribution(value: int | str | Sequence[str]) -> Distribution:
    """Who pays: a number of wallets (`payer-1`, `payer-2`, ...), names, or a choice of names. Raises
    `DistributionError`."""
    if not isinstance(value, (str, Sequence)):
        try:
            return ["people", whole_number("payers", value, 1)]
        except ValueError as error:
            raise DistributionError(f"{error}, or names of wallets") from None
    if not isinstance(value, str):
        if not all(isinstance(name, str) for name in value):
            raise DistributionError(f"payers: {value!r:.60} are not names of wallets: give texts")
        value = f"choice({', '.join(value)})"
    return word_distribution(value, "payers", _payer)


def word_distribution(value: str, name: str, read: Reader) -> Distribution:
    """A word, or a choice of words; `read` raises `ValueError` for one that is none. Raises `DistributionError`."""
    if not isinstance(value, str):
        raise DistributionError(f"{name}: {value!r} is not a name: write one, or {_FORMS['choice']}")
    call = _CALL.fullmatch(value)
    if call is None:
        return ["const", _read(value.strip(), name, read)]
    if call[1] != "choice":
        raise DistributionError(f"{name}: {value!r} has no names: write {_FORMS['choice']}")
    return _choice(_parts(call[2]), value, name, read)


def sample(distribution: Distribution, rng: RandomStream) -> Any:
    """One value of a distribution, for exactly one draw: a number, or a word for a choice between words."""
    name = distribution[0]
    if name == "uniform":
        return distribution[1] + (distribution[2] - distribution[1]) * rng.uniform()
    if name == "lognorm":
        return rng.lognormal(distribution[1], distribution[2])
    if name == "exp":
        return rng.exponential(distribution[1])
    if name == "normal":
        return rng.normal(distribution[1], distribution[2])
    place = rng.uniform()  # drawn for a constant, too, so that the number of draws is always the same
    if name == "choice":
        sums = list(accumulate(weight for _, weight in distribution[1]))
        return distribution[1][min(bisect_right(sums, place * sums[-1]), len(sums) - 1)][0]
    if name == "people":
        return f"payer-{int(place * distribution[1]) + 1}"
    return distribution[1]


def whole_draw(distribution: Distribution, rng: RandomStream, least: int, most: int) -> int:
    """One value of a distribution of numbers, rounded, or the nearest of the bounds."""
    value: float = sample(distribution, rng)
    return round(min(max(value, least), most))


def _distribution(value: DistributionText, name: str, read: Reader) -> Distribution:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, timedelta)):
        raise DistributionError(f"{name}: {value!r} is not a distribution: give a number or one of {_NAMES}")
    if isinstance(value, timedelta):
        value = value.total_seconds()
    text = value if isinstance(value, str) else repr(value)
    call = _CALL.fullmatch(text)
    if call is None:
        if "(" in text:
            raise DistributionError(f"{name}: {text!r} is not a distribution: write one of {_NAMES}")
        return ["const", _read(text, name, read)]
    kind, parts = call[1], _parts(call[2])
    if kind not in _FORMS:
        raise DistributionError(f"{name}: there is no distribution {kind!r}: write one of {_NAMES}")
    if kind == "choice":
        return _choice(parts, text, name, read)
    if kind == "lognorm" and len(parts) == 1:
        parts = [*parts, str(SPREAD)]
    form = _FORMS[kind]
    if len(parts) != form.count(",") + 1:
        raise DistributionError(f"{name}: {text!r} has {len(parts)} values: write {form}")
    first = _read(parts[0], name, read)
    if kind == "exp":
        return ["exp", first]
    second = _read(parts[1], name, _spread if kind == "lognorm" else read)
    if kind == "uniform" and first > second:
        raise DistributionError(
            f"{name}: {text!r} goes from {parts[0]} down to {parts[1]}: write uniform({parts[1]}, {parts[0]})"
        )
    return [kind, first, second]


def _choice(parts: list[str], text: str, name: str, read: Reader) -> Distribution:
    if not parts:
        raise DistributionError(f"{name}: {text!r} has no values: write {_FORMS['choice']}")
    weighted = []
    for part in parts:
        value, colon, weight = part.partition(":")
        weighted.append([_read(value.strip(), name, read), _read(weight.strip(), name, _weight) if colon else 1.0])
    if not sum(weight for _, weight in weighted):
        raise DistributionError(f"{name}: every weight in {text!r} is 0: give at least one above 0")
    return ["choice", weighted]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _read(text: str, name: str, read: Reader) -> Any:
    """One value. Raises `DistributionError` with the name of the quantity when `read` raises `ValueError`."""
    try:
        return read(text)
    except ValueError as error:
        raise DistributionError(f"{name}: {error}") from None


def _msat(text: str) -> int:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text!r} is not an amount: write msat as "250000", or "250sat"')
    number = Decimal(found[1].replace("_", "")).scaleb(3 if found[2] == "sat" else 0)
    if number > ALL_MSAT:
        raise ValueError(f"{text:.60} is more than all bitcoin: give at most {ALL_MSAT} msat")
    if number != int(number):
        raise ValueError(f"{text:.60} is no whole number of msat: amounts are not rounded")
    return int(number)


def _span_ms(text: str) -> int:
    try:
        number = float(text)
    except ValueError:
        found = span_ms(text)
    else:
        found = span_ms(number)
    if found < 0:
        raise ValueError(f"{text!r} is negative: spans are 0 or more")
    if found > MAX_SPAN_MS:
        raise ValueError(f"{text!r:.60} is too long: spans are at most 365250d, which are 1000 years")
    return found


def _payer(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError(f"{text!r} is not a name: use letters, digits, dots and dashes, at most 64")
    return text


def _weight(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a plain number") from None
    if not 0 <= number <= _MAX_WEIGHT:
        raise ValueError(f"{text:.60} is out of bounds: give 0 or more, at most {_MAX_WEIGHT:.0f}")
    return number


def _spread(text: str) -> float:
    number = _weight(text)
    if number > _MAX_SPREAD:
        raise ValueError(f"{text:.60} is too large for the standard deviation of a logarithm: give 0 to {_MAX_SPREAD}")
    return number
