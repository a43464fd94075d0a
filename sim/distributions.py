"""Distributions as short texts: of the values of customers, and of a receiver's latency.

45s                        constant
uniform(1000, 50000)       uniform between two values
exp(2m)                    exponential with this mean
lognorm(45s, 0.6)          log-normal with this median; standard deviation of the logarithm, 0.6 if left out
normal(60s, 5s)            mean and standard deviation
pareto(1000, 1.2)          Pareto: 1000 or more; x or more with probability (1000 / x) ** 1.2
pareto(1000, 1.2, 9e6)     the same, given that it is 9,000,000 or less
weibull(45s, 0.5)          Weibull with this scale and this shape: heavy-tailed below 1, `exp` at 1
choice(1000:3, 5000:1)     1000 with weight 3, 5000 with weight 1; all weights are 1 if left out
clip(lognorm(45s), 1s, 2m) another distribution; values below 1 s become 1 s, values above 2 m become 2 m

Some arguments also take values (`value_distribution`), each with the same probability or with a weight of its own.

A value that is drawn outside the bounds of its quantity becomes the nearest bound: 0 and all bitcoin for an amount, 0
and 1,000 years for a span, 1 s and 1,000 years for `expiresIn`, because a Charge with `expiresIn` 0 has the default.
Drawn values are rounded to whole msat, ms, and seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import accumulate
from math import log
from typing import Any

from leyden.arguments import ALL_MSAT, MAX_SPAN_MS, shortened, whole_number
from leyden.errors import ArgumentError, DistributionError
from leyden.repr_tables import counted
from leyden.rng import RandomStream
from leyden.server.printable import quoted
from leyden.server.timestamps import duration_near

Distribution = list[Any]  # its name and its numbers, as JSON values
DistributionText = str | int | float | timedelta
# Reads one value of a quantity from its text.
Reader = Callable[[str], Any]


class _Written(str):
    """A value that was given as a number, as a text."""

    __slots__ = ()


SPREAD = 0.6  # of a log-normal without a second number
MAX_SPREAD = 50  # a larger one draws numbers that no float has
_MAX_WEIGHT = 1e9
SHAPES = (0.1, 100.0)  # of a Pareto and a Weibull; smaller ones draw numbers that no float has
MAX_VALUES = 100_000
_MAX_PEOPLE = 100_000  # of unequal weight

_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL)
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e\+?[0-9]+)?)(sat|msat)?")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FORMS = {  # what may be left out is in brackets
    "uniform": "uniform(low, high)",
    "exp": "exp(mean)",
    "lognorm": "lognorm(median[, spread])",
    "normal": "normal(mean, deviation)",
    "pareto": "pareto(least, shape[, most])",
    "weibull": "weibull(scale, shape)",
    "choice": "choice(a:3, b)",
    "clip": "clip(lognorm(median), least, most)",
}
_NAMES = ", ".join(_FORMS.values())


def msat_distribution(value: DistributionText, name: str = "amount") -> Distribution:
    """Amounts in msat; `25sat` is 25000. Raises `DistributionError`."""
    return _distribution(value, name, _msat)


def span_distribution(value: DistributionText, name: str = "span") -> Distribution:
    """Spans in milliseconds: a text such as `45s` or `1h30m`, a number of seconds, a `timedelta`. In a text each span
    has its unit. Raises `DistributionError`."""
    return _distribution(value, name, span_value)


def seconds_distribution(value: DistributionText, name: str = "expiresIn") -> Distribution:
    """Spans in seconds, written as for `span_distribution`; a constant and a choice are 1 s or more. Raises
    `DistributionError`."""
    found = _distribution(value, name, lambda text: _span_ms(text) / 1_000)
    fixed = [found[1]] if found[0] == "const" else [one for one, _ in found[1]] if found[0] == "choice" else []
    if any(each < 1 for each in fixed):
        raise DistributionError(f"{name}: {quoted(value)} is shorter than a second, the unit: give 1s or more")
    return found


def payer_distribution(value: int | str | Sequence[str] | Mapping[str, float]) -> Distribution:
    """Who pays: a number of wallets (`payer-1`, `payer-2`, ...), `zipf(100, 1.1)` for 100 wallets of which number k has
    the weight k ** -1.1, names, a choice of names, or names with weights. Raises `DistributionError`."""
    if isinstance(value, Mapping):
        return value_distribution(value, "payers", _payer)
    if not isinstance(value, (str, Sequence)):
        try:
            return ["people", whole_number("payers", value, 1)]
        except ValueError as error:
            raise DistributionError(f"{error}, or names of wallets") from None
    if not isinstance(value, str):
        if isinstance(value, bytes | bytearray) or not all(isinstance(name, str) for name in value):
            raise DistributionError(f"payers: {quoted(value, 60)} are not names of wallets: give texts")
        value = f"choice({', '.join(value)})"
    elif value.strip().isdecimal():
        number = value.strip()[:20]
        mend = f"write {number} for that many wallets, or choice({number}) for one of that name"
        raise DistributionError(f"payers: {quoted(value, 60)} is a text: {mend}")
    call = _CALL.fullmatch(value)
    if call is not None and call[1] == "zipf":
        return _zipf(split_outside(call[2], ","), value)
    return word_distribution(value, "payers", _payer)


def _zipf(parts: list[str], text: str) -> Distribution:
    if len(parts) not in (1, 2):
        raise DistributionError(_wrong_number("payers", text, len(parts), "zipf(number[, exponent])"))
    number = _read(parts[0], "payers", lambda digits: whole_number("number", _digits(digits), 1, _MAX_PEOPLE))
    exponent = _read(parts[1], "payers", _shape) if len(parts) == 2 else 1.0
    sums = list(accumulate(place**-exponent for place in range(1, number + 1)))
    return ["values", [f"payer-{place}" for place in range(1, number + 1)], sums]


def word_distribution(value: str | Mapping[str, float], name: str, read: Reader) -> Distribution:
    """A word, or a choice of words, or a mapping from words to weights. `read` raises `ValueError` for an unknown word.
    Raises `DistributionError`."""
    if isinstance(value, Mapping):
        value = f"choice({', '.join(f'{word}:{weight!r}' for word, weight in value.items())})"
    if not isinstance(value, str):
        raise DistributionError(f"{name}: {quoted(value, 80)} is not a name: write one, or {_FORMS['choice']}")
    call = _CALL.fullmatch(value)
    if call is None:
        return ["const", _read(value.strip(), name, read)]
    if call[1] != "choice":
        raise DistributionError(f"{name}: {quoted(value)} has no names: write {_FORMS['choice']}")
    return _choice(split_outside(call[2], ","), value, name, read)


def value_distribution(value: Any, name: str, read: Reader) -> Distribution:
    """A distribution text, a list of values with the same probability, or a mapping from values to weights. `read`
    reads each value. Raises `DistributionError`."""
    if not isinstance(value, list | Mapping):
        return _distribution(value, name, read)
    if not value:
        raise DistributionError(f"{name}: {quoted(value)} has no values: give at least one")
    if len(value) > MAX_VALUES:
        raise DistributionError(f"{name}: {len(value)} values are too many: give a sample of at most {MAX_VALUES}")
    is_json = isinstance(value, Mapping)  # whose numbers are texts
    values = [_read(_value_text(each, name, is_json), name, read) for each in value]
    if not isinstance(value, Mapping):
        return ["values", values, None]
    weights = [_read(_written(weight), name, _weight) for weight in value.values()]
    sums = list(accumulate(weights))
    if not sums[-1]:
        raise DistributionError(f"{name}: every weight in {quoted(value, 80)} is 0: give at least one above 0")
    return ["values", values, sums]


def _value_text(value: Any, name: str, is_json: bool) -> str:
    if not isinstance(value, str):
        return _written(_scalar(value, name))
    return _Written(value) if is_json else value


def _scalar(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DistributionError(f"{name}: {quoted(value, 60)} is no number: give numbers or texts such as 250000")
    return value


def msat_value(text: str) -> int:
    """An amount in msat: `250000`, `25sat`. Raises `ValueError`."""
    return _msat(text)


def span_value(text: str) -> int:
    """A span in milliseconds: `45s`, `1h30m`. Raises `ValueError`, also for a number without a unit that a text has;
    one that was given as a number is in seconds."""
    return _span_ms(text) if isinstance(text, _Written) else _non_negative_ms(text, text)


def seconds_value(text: str) -> float:
    """A span in seconds, 1 or more. Raises `ValueError`."""
    found = _span_ms(text) / 1_000
    if found < 1:
        raise ArgumentError(f"{quoted(text)} is shorter than a second, the unit: give 1s or more")
    return found


def sample(distribution: Distribution, rng: RandomStream) -> Any:
    """One value of a distribution, for exactly one draw: a number, or a word for a choice between words."""
    name = distribution[0]
    if name == "const":
        rng.skip()  # so that the number of draws is the same for every distribution
        return distribution[1]
    if name == "uniform":
        return distribution[1] + (distribution[2] - distribution[1]) * rng.uniform()
    if name == "lognorm":
        return rng.lognormal(distribution[1], distribution[2])
    if name == "exp":
        return rng.exponential(distribution[1])
    if name == "normal":
        return rng.normal(distribution[1], distribution[2])
    if name == "clip":
        return min(max(sample(distribution[1], rng), distribution[2]), distribution[3])
    place = rng.uniform()
    if name == "pareto":
        least, shape, most = distribution[1:]
        above = 0.0 if most is None else (least / most) ** shape
        return least * (1.0 - place * (1.0 - above)) ** (-1.0 / shape)
    if name == "weibull":
        return distribution[1] * (-log(1.0 - place)) ** (1.0 / distribution[2])
    if name == "choice":
        sums = list(accumulate(weight for _, weight in distribution[1]))
        return distribution[1][min(bisect_right(sums, place * sums[-1]), len(sums) - 1)][0]
    if name == "values":
        values, sums = distribution[1], distribution[2]
        if sums is None:
            return values[int(place * len(values))]
        return values[min(bisect_right(sums, place * sums[-1]), len(sums) - 1)]
    if name == "people":
        return f"payer-{int(place * distribution[1]) + 1}"
    raise AssertionError(f"there is no distribution {name!r}")


def whole_draw(distribution: Distribution, rng: RandomStream, least: int, most: int) -> int:
    """One value of a distribution of numbers, rounded, or the nearest of the bounds."""
    value: float = sample(distribution, rng)
    return round(min(max(value, least), most))


def _written(value: Any) -> str:
    """A number as a text; of one with too many digits for Python a text that is no number."""
    return _Written(shortened(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value))


def _distribution(value: DistributionText, name: str, read: Reader) -> Distribution:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, timedelta)):
        raise DistributionError(f"{name}: {quoted(value)} is not a distribution: give a number or one of {_NAMES}")
    if isinstance(value, timedelta):
        value = value.total_seconds()
    text = value if isinstance(value, str) else _written(value)
    if (call := _CALL.fullmatch(text)) is None:
        if "(" in text:
            raise DistributionError(f"{name}: {quoted(text)} is not a distribution: write one of {_NAMES}")
        return ["const", _read(text, name, read)]
    kind, parts = call[1], split_outside(call[2], ",")
    if kind not in _FORMS:
        raise DistributionError(f"{name}: there is no distribution {quoted(kind)}: write one of {_NAMES}")
    if kind == "choice":
        return _choice(parts, text, name, read)
    form, most = _FORMS[kind], _FORMS[kind].count(",") + 1
    if not most - form.count("[") <= len(parts) <= most:
        raise DistributionError(_wrong_number(name, text, len(parts), form))
    if kind == "clip":
        return _clip(parts, text, name, read)
    first = _read(parts[0], name, read)
    if kind == "exp":
        return ["exp", first]
    if kind in ("pareto", "weibull"):
        return _heavy(kind, first, parts, text, name, read)
    second = SPREAD if len(parts) == 1 else _read(parts[1], name, _spread if kind == "lognorm" else read)
    if kind == "uniform" and first > second:
        raise DistributionError(
            f"{name}: {quoted(text)} goes from {parts[0]} down to {parts[1]}: write uniform({parts[1]}, {parts[0]})"
        )
    return [kind, first, second]


def _wrong_number(name: str, text: str, number: int, form: str) -> str:
    more = ", where what is in brackets may be left out" if "[" in form else ""
    return f"{name}: {quoted(text)} has {counted(number, 'value')}: write {form}{more}"


def _clip(parts: list[str], text: str, name: str, read: Reader) -> Distribution:
    inner = _distribution(parts[0], name, read)
    least, most = _read(parts[1], name, read), _read(parts[2], name, read)
    if inner[0] == "clip":
        raise DistributionError(f"{name}: {quoted(text)} clips twice: write one clip with the narrower bounds")
    if least > most:
        raise DistributionError(f"{name}: {quoted(text)} goes from {parts[1]} down to {parts[2]}: exchange them")
    return ["clip", inner, least, most]


def _heavy(kind: str, first: float, parts: list[str], text: str, name: str, read: Reader) -> Distribution:
    shape = _read(parts[1], name, _shape)
    if not first:
        raise DistributionError(f"{name}: {quoted(text)} begins at 0, so it would draw nothing else: give more than 0")
    if kind == "weibull":
        return ["weibull", first, shape]
    most = _read(parts[2], name, read) if len(parts) == 3 else None
    if most is not None and most < first:
        raise DistributionError(f"{name}: {quoted(text)} goes from {parts[0]} down to {parts[2]}: exchange them")
    return ["pareto", first, shape, most]


def _choice(parts: list[str], text: str, name: str, read: Reader) -> Distribution:
    if not parts:
        raise DistributionError(f"{name}: {quoted(text)} has no values: write {_FORMS['choice']}")
    weighted = []
    for part in parts:
        value, colon, weight = part.partition(":")
        weighted.append([_read(value.strip(), name, read), _read(weight.strip(), name, _weight) if colon else 1.0])
    if not sum(weight for _, weight in weighted):
        raise DistributionError(f"{name}: every weight in {quoted(text)} is 0: give at least one above 0")
    return ["choice", weighted]


def split_outside(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that are outside of parentheses, without spaces around them."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == separator and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [*parts, part.strip()] if text.strip() else []


def _read(text: str, name: str, read: Reader) -> Any:
    """One value. Raises `DistributionError` with the name of the quantity when `read` raises `ValueError`."""
    try:
        found = read(text)
    except ValueError as error:
        raise DistributionError(f"{name}: {error}") from None
    return str(found) if isinstance(found, _Written) else found  # rows have plain texts


def _msat(text: str) -> int:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ArgumentError(f'{quoted(text)} is not an amount: write msat as "250000", or "250sat"')
    number = Decimal(found[1].replace("_", "")).scaleb(3 if found[2] == "sat" else 0)
    if number > ALL_MSAT:
        raise ArgumentError(f"{text:.60} is more than all bitcoin: give at most {ALL_MSAT} msat")
    if number != int(number):
        raise ArgumentError(f"{text:.60} is no whole number of msat: amounts are not rounded")
    return int(number)


def _span_ms(text: str) -> int:
    try:
        number: str | float = float(text)
    except ValueError:
        number = text
    return _non_negative_ms(number, text)


def _non_negative_ms(value: str | float, text: str) -> int:
    found = duration_near(value, 0, MAX_SPAN_MS)
    if found < 0:
        raise ArgumentError(f"{quoted(text)} is negative: spans are 0 or more")
    if found > MAX_SPAN_MS:
        raise ArgumentError(f"{quoted(text, 60)} is too long: spans are at most 365250d, which are 1000 years")
    return found


def _payer(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ArgumentError(f"{quoted(text)} is not a name: use letters, digits, dots and dashes, at most 64")
    return text


def _weight(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ArgumentError(f"{quoted(text)} is not a plain number") from None
    if not 0 <= number <= _MAX_WEIGHT:
        raise ArgumentError(f"{text:.60} is out of bounds: give 0 or more, at most {_MAX_WEIGHT:.0f}")
    return number


def _shape(text: str) -> float:
    number = _weight(text)
    if not SHAPES[0] <= number <= SHAPES[1]:
        raise ArgumentError(f"{text:.60} is out of bounds for a shape: give {SHAPES[0]} to {SHAPES[1]:.0f}")
    return number


def _digits(text: str) -> int:
    if not re.fullmatch("[0-9]{1,15}", text):
        raise ArgumentError(f"{quoted(text, 60)} is not a whole number: give for example 100")
    return int(text)


def _spread(text: str) -> float:
    number = _weight(text)
    if number > MAX_SPREAD:
        raise ArgumentError(
            f"{text:.60} is too large for the standard deviation of a logarithm: give 0 to {MAX_SPREAD}"
        )
    return number
