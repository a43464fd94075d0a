"""Distributions of what differs between customers, written as short texts.

45s                        constant
uniform(1000, 50000)       uniform between two values
exp(2m)                    exponential with this mean
lognorm(45s, 0.6)          log-normal with this median; standard deviation of the logarithm, 0.6 if left out
normal(60s, 5s)            mean and standard deviation; negative values become 0
choice(1000:3, 5000:1)     1000 with weight 3, 5000 with weight 1; all weights are 1 if left out
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from math import isfinite
from typing import Any

from leyden.errors import DistributionError
from leyden.server.timestamps import parse_duration
from leyden.world.traffic import BEHAVIOURS, Distribution

DistributionText = str | int | float | timedelta
# Reads one value of a quantity from its text.
Reader = Callable[[str], Any]

SPREAD = 0.6  # of a log-normal without a second number

_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL)
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?)(sat|msat)?")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAMES = "uniform(low, high), exp(mean), lognorm(median, spread), normal(mean, deviation), choice(a:3, b:1)"


def msat_distribution(value: DistributionText, name: str = "amount") -> Distribution:
    """Amounts in msat; `25sat` is 25000. Raises `DistributionError`."""
    return _distribution(value, name, _msat)


def span_distribution(value: DistributionText, name: str = "span") -> Distribution:
    """Spans in milliseconds: `45s`, `1h30m`, a bare number of seconds, a `timedelta`. Raises `DistributionError`."""
    return _distribution(value, name, lambda text: _span_ms(text, name))


def seconds_distribution(value: DistributionText, name: str = "expiresIn") -> Distribution:
    """Spans in seconds, written as for `span_distribution`. Raises `DistributionError`."""
    return _distribution(value, name, lambda text: _span_ms(text, name) / 1_000)


def behaviour_distribution(value: str) -> Distribution:
    """What payers do, from `leyden.world.traffic.BEHAVIOURS`: `pays`, `choice(pays:9, never:1)`. Raises
    `DistributionError`.
    """

    def behaviour(text: str) -> str:
        if text not in BEHAVIOURS:
            raise DistributionError(f"behaviours: there is no {text!r}: choose from {', '.join(BEHAVIOURS)}")
        return text

    return _words(value, "behaviours", behaviour)


def payer_distribution(value: int | str | Sequence[str]) -> Distribution:
    """Who pays: a number of wallets (`payer-1`, `payer-2`, ...), names, or a choice of names. Raises
    `DistributionError`."""
    if isinstance(value, bool):
        raise DistributionError("payers: give a number of wallets or their names, not a truth value")
    if isinstance(value, int):
        if value < 1:
            raise DistributionError(f"payers: {value} wallets cannot pay: give at least 1")
        return ["people", value]
    if not isinstance(value, str):
        value = f"choice({', '.join(value)})"
    return _words(value, "payers", lambda text: _word(text, "payers"))


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
    if kind == "choice":
        return _choice(parts, text, name, read)
    if kind == "uniform":
        low, high = _exactly(parts, 2, text, name, "uniform(low, high)")
        numbers = [_read(low, name, read), _read(high, name, read)]
        if numbers[0] > numbers[1]:
            raise DistributionError(f"{name}: {text!r} goes from {low} down to {high}: write uniform({high}, {low})")
        return ["uniform", *numbers]
    if kind == "exp":
        (mean,) = _exactly(parts, 1, text, name, "exp(mean)")
        return ["exp", _read(mean, name, read)]
    if kind == "lognorm":
        median, spread = _exactly([*parts, str(SPREAD)][:2] if parts else [], 2, text, name, "lognorm(median, spread)")
        if len(parts) > 2:
            raise DistributionError(f"{name}: {text!r} has {len(parts)} values: write lognorm(median, spread)")
        return ["lognorm", _read(median, name, read), _pure(spread, name)]
    if kind == "normal":
        mean, deviation = _exactly(parts, 2, text, name, "normal(mean, deviation)")
        return ["normal", _read(mean, name, read), _read(deviation, name, read)]
    raise DistributionError(f"{name}: there is no distribution {kind!r}: write one of {_NAMES}")


def _words(value: str, name: str, read: Reader) -> Distribution:
    if not isinstance(value, str):
        raise DistributionError(f"{name}: {value!r} is not a name: write one, or choice(a:3, b:1)")
    call = _CALL.fullmatch(value)
    if call is None:
        return ["const", read(value.strip())]
    if call[1] != "choice":
        raise DistributionError(f"{name}: {value!r} has no names: write choice(a:3, b:1)")
    return _choice(_parts(call[2]), value, name, read)


def _choice(parts: list[str], text: str, name: str, read: Reader) -> Distribution:
    if not parts:
        raise DistributionError(f"{name}: {text!r} has no values: write choice(a:3, b:1)")
    weighted = []
    for part in parts:
        value, colon, weight = part.partition(":")
        weighted.append([_read(value.strip(), name, read), _pure(weight.strip(), name) if colon else 1.0])
    if not sum(weight for _, weight in weighted):
        raise DistributionError(f"{name}: every weight in {text!r} is 0: give at least one above 0")
    return ["choice", weighted]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _exactly(parts: list[str], count: int, text: str, name: str, form: str) -> list[str]:
    if len(parts) != count:
        raise DistributionError(f"{name}: {text!r} has {len(parts)} values: write {form}")
    return parts


def _read(text: str, name: str, read: Reader) -> Any:
    try:
        return read(text)
    except DistributionError:
        raise
    except ValueError as error:
        raise DistributionError(f"{name}: {error}") from None


def _msat(text: str) -> int:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text!r} is not an amount: write msat as "250000", or "250sat"')
    return round(float(found[1].replace("_", "")) * (1_000 if found[2] == "sat" else 1))


def _span_ms(text: str, name: str) -> int:
    try:
        span_ms = parse_duration(float(text))
    except ValueError:
        span_ms = parse_duration(text)
    if span_ms < 0:
        raise ValueError(f"{text!r} is negative: spans are 0 or more")
    return span_ms


def _word(text: str, name: str) -> str:
    if not _WORD.fullmatch(text):
        raise DistributionError(f"{name}: {text!r} is not a name: use letters, digits, dots and dashes, at most 64")
    return text


def _pure(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise DistributionError(f"{name}: {text!r} is not a plain number") from None
    if not (isfinite(number) and number >= 0):
        raise DistributionError(f"{name}: {text} must be 0 or more, and finite")
    return number
