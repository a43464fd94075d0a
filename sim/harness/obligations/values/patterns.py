"""Members and near misses of a regular expression: every class, every branch, and every quantifier at its bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

_parser = import_module("re._parser")  # the parser of the standard library; it has no public name
_MANY = 70  # repetitions for a quantifier without a bound
_OUTSIDE = ("!", "/", ":", "@", "[", "`", "{", "~", " ", "A", "G", "a", "g", "z", "0", "9", "_", "-", "é", "٣", "\n")
_OTHER_DIGITS = ("\u0663", "\uff11")

_DIGITS = "12345678912345678912"

Variant = tuple[str, str]  # the kind, and a text


@lru_cache(maxsize=64)
def pattern_variants(pattern: str) -> tuple[Variant, ...]:
    """Texts that ask each part of a pattern alone, with the kind of each; members and others."""
    base, variants = _sequence(_parser.parse(pattern))
    found: dict[str, str] = {base: "pattern:member"}
    for kind, text in variants:
        found.setdefault(text, kind)
    for kind, text in (*_around(base), *_round_numbers(pattern, base)):
        found.setdefault(text, kind)
    return tuple((kind, text) for text, kind in found.items())


def _round_numbers(pattern: str, base: str) -> Iterator[Variant]:
    """The longest numbers of a pattern of digits that end with no zero, with one, with two and so on: an encoding with
    units or exponents changes at one of them."""
    if not base.isascii() or not base.isdigit():
        return
    longest = max((count for count in range(1, len(_DIGITS) + 1) if is_member(pattern, _DIGITS[:count])), default=0)
    for count in range(longest):
        text = _DIGITS[: longest - count] + "0" * count
        if is_member(pattern, text):
            yield f"pattern:zeros-{count}", text


def one_of_each(pattern: str) -> tuple[Variant, ...]:
    """The first text of each kind: for a pattern whose other texts are asked at another place."""
    found: dict[str, str] = {}
    for kind, text in pattern_variants(pattern):
        found.setdefault(kind, text)
    return tuple(found.items())


def is_member(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern of the document, as ECMAScript reads it."""
    return re.search(re.sub(r"\$$", r"\\Z", pattern), text, re.ASCII) is not None


def _around(base: str) -> Iterator[Variant]:
    yield "pattern:blank-before", f" {base}"
    yield "pattern:blank-after", f"{base} "
    yield "pattern:line-end", f"{base}\n"
    yield "pattern:null-character", f"{base}\x00"
    yield "pattern:upper-case", base.upper()
    yield "pattern:lower-case", base.lower()
    yield "pattern:first-only", base[:1]
    yield "pattern:last-missing", base[:-1]
    yield "pattern:twice", base + base
    yield "pattern:wide", "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in base)
    yield "pattern:empty", ""
    # Other spellings of a number.
    yield "pattern:zero-before", f"0{base}"
    yield "pattern:zeros-before", f"000{base}"
    yield "pattern:plus-before", f"+{base}"
    yield "pattern:minus-before", f"-{base}"
    yield "pattern:point-after", f"{base}.0"
    yield "pattern:exponent-after", f"{base}e0"
    yield "pattern:separator-inside", f"{base[:1]}_{base[1:]}"
    yield "pattern:comma-inside", f"{base[:1]},{base[1:]}"
    yield "pattern:quoted", f'"{base}"'


def _sequence(items: Any) -> tuple[str, list[Variant]]:
    """The shortest member of a sequence, and the texts that change one of its items."""
    parts = [_item(*one) for one in items]
    base = "".join(part for part, _ in parts)
    variants: list[Variant] = []
    before = ""
    for index, (part, changed) in enumerate(parts):
        after = "".join(one for one, _ in parts[index + 1 :])
        variants += [(kind, before + text + after) for kind, text in changed]
        before += part
    return base, variants


def _item(operation: Any, argument: Any) -> tuple[str, list[Variant]]:
    match str(operation):
        case "LITERAL":
            return chr(argument), [("pattern:literal", one) for one in _beside(chr(argument))]
        case "NOT_LITERAL":
            inside = next(one for one in _OUTSIDE if one != chr(argument))
            return inside, [("pattern:non-member", chr(argument))]
        case "IN":
            return _class(argument)
        case "ANY":
            return "x", [("pattern:non-member", "\n")]
        case "AT":
            return "", []
        case "SUBPATTERN":
            return _sequence(argument[3])
        case "BRANCH":
            return _branch(argument[1])
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _repeat(*argument)
    raise NotImplementedError(f"no texts are derived from {operation} in a pattern: add it to patterns.py")


def _class(items: Sequence[Any]) -> tuple[str, list[Variant]]:
    members: dict[str, None] = {}
    edges: dict[str, None] = {}
    for kind, value in items:
        if str(kind) == "LITERAL":
            members[chr(value)] = None
        elif str(kind) == "RANGE":
            low, high = value
            members |= dict.fromkeys((chr(low), chr((low + high) // 2), chr(high)))
            edges |= dict.fromkeys((chr(low - 1), chr(high + 1)))
        else:
            raise NotImplementedError(f"no texts are derived from {kind} in a class: add it to patterns.py")
    pattern = re.compile(f"[{''.join(_escaped(*one) for one in items)}]")
    outside = [one for one in (*edges, *_OUTSIDE) if not pattern.fullmatch(one)]
    variants = [("pattern:class", one) for one in members]
    others = outside[:4]
    if pattern.fullmatch("9"):  # digits of other scripts, also beside decimal ones
        others += [one for one in _OTHER_DIGITS if not pattern.fullmatch(one)]
    variants += [("pattern:non-member", one) for one in dict.fromkeys(others)]
    return next(iter(members)), variants


def _escaped(kind: Any, value: Any) -> str:
    return re.escape(chr(value)) if str(kind) == "LITERAL" else f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"


def _branch(branches: Sequence[Any]) -> tuple[str, list[Variant]]:
    made = [_sequence(one) for one in branches]
    base = next((text for text, _ in made if text), made[0][0])
    variants: list[Variant] = []
    for text, changed in made:
        variants += [("pattern:branch", text), *changed]
    return base, variants


def _repeat(least: int, most: Any, items: Any) -> tuple[str, list[Variant]]:
    one, changed = _sequence(items)
    last = _MANY if most is _parser.MAXREPEAT else int(most)
    counts = {least - 1: "min-1", least: "min", least + 1: "min+1", last - 1: "max-1", last: "max", last + 1: "max+1"}
    variants = [
        (f"pattern:quantifier-{name}", one * count)
        for count, name in counts.items()
        if count >= 0 and not (most is _parser.MAXREPEAT and name.startswith("max+"))
    ]
    others = max(least, 1) - 1
    variants += [(kind, text + one * others) for kind, text in changed]
    if others:
        variants += [(kind, one * others + text) for kind, text in changed]
    return one * least, variants


def _beside(one: str) -> Iterator[str]:
    """Wrong texts in the place of a literal."""
    yield ""
    if one.swapcase() != one:
        yield one.swapcase()
