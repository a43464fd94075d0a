"""Names of fields that a document does not have, and the field that is probably meant, in which unit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from leyden.server.http.written_numbers import written_number
from leyden.server.spelling import bare_name, closest

_MONEY, _TIME = "millisatoshis", "seconds"  # as they stand in `x-expect`
_SAT, _BTC = Decimal(1_000), Decimal(100_000_000_000)


class _Unit(NamedTuple):
    """A unit in a name: the unit of the field that is meant, how much of it one is (None: it is not converted), and
    the conversion in words."""

    meant: str
    factor: Decimal | None
    words: str = ""


_UNITS = {
    name: unit
    for names, unit in (
        ("msat msats millisat millisats millisatoshi millisatoshis", _Unit(_MONEY, Decimal(1))),
        ("sat sats satoshi satoshis", _Unit(_MONEY, _SAT, "1 satoshi is 1000")),
        ("btc bitcoin bitcoins", _Unit(_MONEY, _BTC, "1 bitcoin is 100000000000")),
        (
            "usd eur chf gbp jpy cent cents dollar dollars euro euros",
            _Unit(_MONEY, None, "no other currency is converted"),
        ),
        ("ms msec msecs milli millis millisecond milliseconds", _Unit(_TIME, Decimal("0.001"), "1000 ms are 1")),
        ("s sec secs second seconds", _Unit(_TIME, Decimal(1))),
        ("m min mins minute minutes", _Unit(_TIME, Decimal(60), "1 minute is 60")),
        ("h hr hrs hour hours", _Unit(_TIME, Decimal(3_600), "1 hour is 3600")),
        ("d day days", _Unit(_TIME, Decimal(86_400), "1 day is 86400")),
        ("w week weeks", _Unit(_TIME, Decimal(604_800), "1 week is 604800")),
    )
    for name in names.split()
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class MeantField(NamedTuple):
    """The field that an unknown name means. `unit` is the unit of its value if the name has one, else "", and
    `conversion` says how much of it one of the unit in the name is."""

    name: str
    unit: str = ""
    conversion: str = ""
    factor: Decimal | None = None

    def question(self, value: Any = None, accepts: Callable[[Any], bool] = lambda candidate: False) -> str:
        """`did you mean amount?`, with the unit, and with the `value` of the unknown field in it if the field accepts
        that."""
        text = f"did you mean {self.name}?"
        if not self.unit:
            return text
        converted = next((one for one in self._converted(value) if accepts(one)), None)
        mend = "" if converted is None else f": write {self._in_json(converted)}"
        return f"{text} It is {self.in_unit}{mend}"

    @property
    def in_unit(self) -> str:
        """`in millisatoshis (1 satoshi is 1000)`; "" if the unknown name has no unit."""
        return self.unit and f"in {self.unit}" + (f" ({self.conversion})" if self.conversion else "")

    def _converted(self, value: Any) -> Iterator[str | int | float]:
        """The value in the unit of the field, in the forms that a field may have."""
        if self.factor is None or isinstance(value, bool) or not isinstance(value, int | float | str):
            return
        number = written_number(str(value).strip()[:60])
        if number is None or number.unit_msat is not None or len(number.readings) > 1:
            return
        exact = number.readings[0].value * self.factor
        if exact == exact.to_integral_value():
            yield f"{exact:.0f}"
            yield int(exact)
        elif self.unit != _MONEY:
            yield float(exact)

    @staticmethod
    def _in_json(value: str | float) -> str:
        return f'"{value}"' if isinstance(value, str) else f"the number {value}"


def meant_field(name: str, known: Mapping[str, Mapping[str, Any]]) -> MeantField | None:
    """The field of `known`, schemas by name, that an unknown `name` means, or None: one with the same letters, one that
    has this name in other interfaces (`x-other-names`), one without the unit in the name, or one with a similar name.
    """
    same = _same(name, known)
    for base, unit in _without_unit(name):
        fields = {one: schema for one, schema in known.items() if unit.meant in str(schema.get("x-expect", ""))}
        is_word = _is_without_word(name, base)
        if same is not None:
            found = same if same in fields and bare_name(name) != bare_name(same) and (is_word or not base) else None
        else:
            found = _same(base, fields) if base else _only(fields)
            if found is None and is_word:
                found = closest(base, fields)
        if found is not None:
            return MeantField(found, unit.meant, unit.words, unit.factor)
    found = same if same is not None else closest(name, known)
    return None if found is None else MeantField(found)


def _same(name: str, known: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The field with the same letters, or that has this name elsewhere."""
    wanted = bare_name(name)
    others = ((field, other) for field, schema in known.items() for other in schema.get("x-other-names", ()))
    pairs = (*((field, field) for field in known), *others)
    return next((field for field, other in pairs if bare_name(other) == wanted), None)


def _only(fields: Iterable[str]) -> str | None:
    """The field, if it is the only one."""
    names = [*fields]
    return names[0] if len(names) == 1 else None


def _without_unit(name: str) -> Iterator[tuple[str, _Unit]]:
    """The name without a unit at its end or at its start, and the unit, the longest unit first."""
    letters = bare_name(name)
    for word in sorted(_UNITS, key=len, reverse=True):
        if letters.endswith(word):
            yield letters.removesuffix(word), _UNITS[word]
        elif letters.startswith(word) and len(word) > 1:
            yield letters.removeprefix(word), _UNITS[word]


def _is_without_word(name: str, base: str) -> bool:
    """Whether `base` is the name without a word at one of its ends: `dely` in `delyMs`, and not `price` in `prices`."""
    words = [word.lower() for word in _WORD.findall(name)]
    return len(words) > 1 and base in {"".join(words[:-1]), "".join(words[1:])}
