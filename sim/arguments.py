"""Checks of the arguments of the Python API: names, amounts, seeds, spans. An error names the value and the mend."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import wraps
from math import isfinite
from numbers import Real
from operator import index
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from leyden.errors import CopyError
from leyden.server.errors import ArgumentError, LeydenError
from leyden.server.printable import printable, quoted
from leyden.server.spelling import closest
from leyden.server.timestamps import duration_near, parse_duration

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_AMOUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_SECONDS_TEXT = re.compile(r"[0-9]{1,15}(?:[.][0-9]{1,15})?")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
ALL_MSAT = 21_000_000 * 100_000_000 * 1_000  # all bitcoin that there will be: no amount is larger
MAX_COUNT = 2**53 - 1  # the largest number that every reader of JSON reads exactly
MAX_TIMES = 1_000_000  # how often a rule can apply, as in the API
MAX_SPAN_MS = 365_250 * 86_400_000  # 1,000 years: added to any instant of the clock, it ends before the year 10000
_LONGEST_RULE_MS = 366 * 86_400_000
# The end of the error for a wrong network: every form that one can have.
NETWORK_FORMS = (
    "give direct, or scale-free:N, hub:N, line:N or star:N for N nodes, after which conditions may follow, such as "
    "star:12,ideal; Sandbox and leyden serve also take a file that LND or Core Lightning printed, such as graph.json, "
    "or files of CLoTH, such as channels.csv,edges=edges.csv, and Sandbox a Graph"
)
_MAX_LABEL, _MAX_HOST = 63, 253
FIRST_MS, LAST_MS = 31_536_000_000, 32_503_679_999_000  # of a sandbox's clock: the years 1971 to 2999
NOW = "now"  # the real time, as a start
_SECONDS = range(10**9, 10**10)  # from 2001 to 2286 as seconds, the first four months of 1970 as milliseconds


def hint(word: object, known: Iterable[str]) -> str:
    """`did you mean 'shop'?`, or the known names when none is similar."""
    names = list(known)
    near = closest(word, names) if isinstance(word, str) else None
    return f"did you mean {near!r}?" if near is not None else f"choose one of {', '.join(names)}"


def unknown_name(what: str, name: str, known: Collection[str], kind: str = "argument") -> ArgumentError:
    """The refusal of an argument or a field by a name that `what` does not have."""
    near, shown = closest(name, known), ", ".join(known)
    if near is not None:
        mend = f"did you mean {near}?"
    else:
        mend = f"its {kind}s are {shown}" if len(known) > 1 else f"its {kind} is {shown}" if known else "leave it out"
    return ArgumentError(f"{what} has no {kind} {printable(name[:60])}: {mend}")


def with_hints(function: F) -> F:
    """The same function; for an argument that it does not have the error, a `TypeError`, says the nearest one."""
    parameters = inspect.signature(function).parameters.values()
    known = [one.name for one in parameters if one.kind in _BY_NAME and one.name not in ("self", "cls")]
    what = f"{function.__qualname__.removesuffix('.__init__').rpartition('.')[2]}()"

    @wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                raise unknown_name(what, name, known)
        return function(*args, **named)

    return cast(F, checked)


def methods_with_hints(owner: type[C]) -> type[C]:
    """The same class: its constructor and its public methods with named arguments are as `with_hints` makes them."""
    for name, method in list(vars(owner).items()):
        is_of_class = isinstance(method, classmethod)
        function = method.__func__ if is_of_class else method
        if not isinstance(function, FunctionType) or (name.startswith("_") and name != "__init__"):
            continue
        kinds = {one.kind for one in inspect.signature(function).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            checked = with_hints(function)
            setattr(owner, name, classmethod(checked) if is_of_class else checked)
    return owner


def whole_number(name: str, value: Any, least: int = -MAX_COUNT, most: int = MAX_COUNT) -> int:
    """A whole number from `least` to `most`, also one of numpy. Raises `ArgumentError` for anything else, a boolean
    included."""
    number = _integer(value)
    if number is None:
        raise ArgumentError(f"{name}={quoted(value, 60)} is not a whole number: give for example {name}=1")
    if not least <= number <= most:
        raise ArgumentError(f"{name}={shortened(number)} is out of bounds: give a whole number from {least} to {most}")
    return number


def whole_msat(name: str, value: Any) -> int:
    """An amount in millisatoshis, from 0 to all bitcoin (`ALL_MSAT`): a whole number, or its digits as in the API.
    Raises `ArgumentError` for anything else: amounts are never rounded."""
    number = int(value) if isinstance(value, str) and _AMOUNT.fullmatch(value) else _integer(value)
    if number is None or number < 0:
        raise ArgumentError(f"{name}={quoted(value, 60)} is no amount: give whole millisatoshis, such as 250000")
    if number > ALL_MSAT:
        raise ArgumentError(
            f"{name}={shortened(number)} is more than all bitcoin: give at most {ALL_MSAT} millisatoshis"
        )
    return number


def checked_count(
    name: str, value: Any, error: type[LeydenError] = ArgumentError, *, most: int = MAX_TIMES
) -> int | None:
    """None, or a whole number from 1 to `most`, also one of numpy. Raises `error` for anything else."""
    number = _integer(value)
    if value is not None and (number is None or not 1 <= number <= most):
        shown = quoted(value, 60) if number is None else shortened(number)
        raise error(f"{name} is {shown}: give a whole number from 1 to {most}, or None for every one")
    return number


def _integer(value: Any) -> int | None:
    """A whole number, also one of numpy; None for anything else, a boolean included."""
    # An earlier numpy takes its own booleans for numbers, with a warning.
    is_flag = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    try:
        return None if is_flag else index(value)
    except TypeError:
        return None


def shortened(number: int) -> str:
    """The digits of a number; of one with more than 40 about how many there are. (Python refuses to write very long
    ones.)"""
    digits = int(number.bit_length() * 0.30103) + 1
    return str(number) if digits <= 40 else f"{'-' * (number < 0)}(a number of about {digits} digits)"


def checked_path(name: str, value: Any) -> Path:
    """A path that a file can have, given as a text or a `Path`. Raises `ArgumentError` for anything else."""
    if not isinstance(value, (str, Path)):
        raise ArgumentError(f"{name}={quoted(value, 60)} is no path: give a text or a Path")
    text = str(value)
    try:
        is_possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ArgumentError(f"{name}={quoted(text)} has characters that no path has: give the path of a file")
    return Path(value)


def checked_text(name: str, value: Any) -> str:
    """A text that can be written as UTF-8. Raises `ArgumentError` for anything else."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}={quoted(value, 60)} is no text: give one")
    if not is_utf8(value):
        raise ArgumentError(f"{name}={quoted(value, 60)} has half a character, a surrogate: give a text without")
    return value


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_choice(name: str, value: Any, known: Iterable[str], error: type[LeydenError] = ArgumentError) -> str:
    """One of some names. Raises `error` for anything else."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise error(f"{name}={quoted(value, 60)} is not possible: {hint(value, names)}")
    return value


def checked_flag(name: str, value: Any) -> bool:
    """True or False. Raises `ArgumentError` for anything else."""
    if type(value) is not bool:
        raise ArgumentError(f"{name}={quoted(value, 60)} is neither True nor False: give one of them")
    return value


def checked_list(name: str, value: Any) -> tuple[Any, ...]:
    """The items of a list. Raises `ArgumentError` for a text, and for what has no items."""
    if isinstance(value, str):
        raise ArgumentError(f"{name}={quoted(value)} is one text: write {name}=[{quoted(value)}]")
    try:
        return tuple(value)
    except TypeError:
        mend = f"write for example {name}=[...], or leave it out"
        raise ArgumentError(f"{name}={quoted(value, 60)} is no list: {mend}") from None


def checked_seed(value: Any) -> int:
    """A seed: a whole number from 0 to 9007199254740991. Raises `ArgumentError` for anything else."""
    try:
        seed = whole_number("seed", value)
    except ValueError:
        seed = -1
    if not 0 <= seed <= MAX_COUNT:
        raise ArgumentError(f"{quoted(value)} is not a seed: give a whole number from 0 to {MAX_COUNT}, such as 7")
    return seed


def seed_from_text(text: str) -> int:
    """The seed that an option gives, in decimal digits. Raises `ArgumentError` as `checked_seed`."""
    number = int(text) if re.fullmatch("[0-9]{1,16}", text) else -1
    return checked_seed(number if 0 <= number <= MAX_COUNT else text)


def checked_share(name: str, value: Any, example: str) -> float:
    """A number from 0 to 1. Raises `ArgumentError` for anything else."""
    share = real_number(value)
    if share is None or not 0 <= share <= 1:
        raise ArgumentError(f"{name}={quoted(value)} is not a share from 0 to 1: {example}")
    return share


def real_number(value: Any) -> float | None:
    """A number as a float, also one of numpy; None for anything else, a boolean included, and for what is larger than
    any float."""
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def payer_name(value: Any) -> str:
    """The name of a wallet: a text that is not blank. Raises `ArgumentError` for anything else."""
    if not isinstance(value, str) or not value.strip() or not is_utf8(value):
        raise ArgumentError(f'{quoted(value)} is not the name of a wallet: give a text, such as wallet("ana")')
    return value


def receiver_name(value: Any) -> str:
    """The name of a receiver, a host below `.localhost`. Raises `ArgumentError` for a text that no host can have."""
    mend = ""
    if isinstance(value, str):
        host = value.lower().rstrip(".").removesuffix(".localhost")
        if _is_host(host):
            return host
        label = re.sub(r"^[a-z]+://|[/:?#].*$", "", value.lower().strip(), flags=re.DOTALL)
        labels = re.sub(r"[^a-z0-9_.-]+", "-", label.removesuffix(".localhost")).split(".")
        mend = ".".join(each[:_MAX_LABEL].strip("-") for each in labels if each.strip("-"))
    raise ArgumentError(
        f"{quoted(value, 80)} is not the name of a receiver: give the host without .localhost, in parts of 1 to "
        f'{_MAX_LABEL} letters, digits, - and _, such as receiver("{mend if _is_host(mend) else "shop"}")'
    )


def _is_host(name: str) -> bool:
    """Whether `<name>.localhost` can be the host of a URL (RFC 1035: labels of 63 characters, names of 253)."""
    labels = name.split(".")
    is_short = all(len(label) <= _MAX_LABEL for label in labels) and len(name) <= _MAX_HOST - len(".localhost")
    return is_short and _HOST.fullmatch(name) is not None


def span_of_option(text: str) -> str | float:
    """A duration as an option gives it: a text such as `90s`, which is not checked, or a number of seconds."""
    return float(text) if _SECONDS_TEXT.fullmatch(text) else text


def option_span_ms(text: str) -> int:
    """The duration that an option gives, in milliseconds. Raises what `parse_duration` raises."""
    return parse_duration(span_of_option(text))


def span_from(name: str, value: str | float | timedelta, *, least_ms: int = 0, most_ms: int = MAX_SPAN_MS) -> int:
    """A duration in milliseconds, from `least_ms` to `most_ms`, by default 1,000 years. Raises what `parse_duration`
    raises, and `ArgumentError` for one outside these bounds."""
    found = duration_near(value, least_ms, most_ms)
    if found < least_ms:
        least = "0 or more" if least_ms == 0 else "more than 0" if least_ms == 1 else f"at least {least_ms} ms"
        raise ArgumentError(f"{name}={quoted(value)} is too short: give a time of {least}")
    if found > most_ms:
        most = f"{most_ms // 86_400_000}d{', which are 1000 years' if most_ms == MAX_SPAN_MS else ''}"
        raise ArgumentError(f"{name}={quoted(value)} is too long: give at most {most}")
    return found


def rule_span_ms(name: str, value: str | float | timedelta, *, least_ms: int = 0, why: str = "") -> int:
    """A duration in a rule (a fault, a payer) in milliseconds, from `least_ms` to 366 days. Raises `ArgumentError`, for
    one of 0 or more that is too short with `why`."""
    span = duration_near(value, least_ms, _LONGEST_RULE_MS)
    if not least_ms <= span <= _LONGEST_RULE_MS:
        least = "0" if least_ms == 0 else "1 ms" if least_ms == 1 else f"{least_ms / 1_000:g} s"
        reason = why if 0 <= span < least_ms and why else "is out of bounds"
        raise ArgumentError(f"{name}={quoted(value)} {reason}: give {least} to 366 days")
    return span


def seconds(milliseconds: int | None) -> float | None:
    """A duration of the rows as the control plane shows it."""
    return None if milliseconds is None else milliseconds / 1_000


def check_milliseconds(value: object, now_ms: int) -> None:
    """Raise `ArgumentError` for an instant that was given in seconds since the epoch."""
    if isinstance(value, int) and value in _SECONDS and now_ms > _SECONDS[-1]:
        raise ArgumentError(f"{value} is an instant in January to April 1970: give milliseconds, {value}000")


def checked_start(start_ms: int, given: object) -> int:
    """An instant at which a clock may start. Raises `ValueError`, with the value that the user gave, for another."""
    if not FIRST_MS <= start_ms <= LAST_MS:
        raise ArgumentError(f"{quoted(given)} is not a start: the clock has times from 1971 to the end of 2999")
    return start_ms


def refuse_copy(value: object, _protocol: object = None) -> Any:
    """The `__reduce_ex__` of what belongs to a sandbox, which `copy` and `pickle` call. Raises `CopyError`."""
    name = type(value).__name__.lower()
    what = "a sandbox" if name == "sandbox" else f"the {name} of a sandbox"
    raise CopyError(f"{what} cannot be copied or pickled: copy the sandbox with fork(), or keep it with save(path)")


class Spelled:
    """A class whose instances have the attributes of the class only: the error for another name says the nearest."""

    _fields: frozenset[str]  # the attributes that an instance has besides those of the class
    _instead: ClassVar[Mapping[str, str]] = {}  # what does the work of names that the class does not have

    if not TYPE_CHECKING:  # a type checker reports these names itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_no_attribute(self, name), name=name)  # without `obj`: Python would add its own hint

        def __setattr__(self, name: str, value: object) -> None:
            if name in self._fields:
                object.__setattr__(self, name, value)
            elif hasattr(type(self), name):
                raise AttributeError(f"{type(self).__name__}.{name} can be read but not set")
            else:
                raise AttributeError(_no_attribute(self, name))


def _no_attribute(value: Spelled, name: str) -> str:
    near = closest(name, [each for each in {*dir(type(value)), *value._fields} if not each.startswith("_")])
    advice = "" if near is None or name.startswith("_") else f": did you mean {near}?"
    if name in value._instead:
        advice = f": {value._instead[name]}"
    return f"{type(value).__name__} has no attribute {name}{advice}"


def has_infinite_number(value: Any) -> bool:
    """Whether a value, its items or its fields are NaN or infinite: no number of JSON (RFC 8259, 6)."""
    if isinstance(value, Mapping):
        return any(map(has_infinite_number, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_infinite_number, value))
    as_python = getattr(value, "tolist", None)  # of a number or an array of numpy
    if as_python is not None:
        return has_infinite_number(as_python())
    return isinstance(value, float) and not isfinite(value)
