"""Obligations of the query: every parameter by its grammar, filters alone and in pairs, and all pages of each list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any
from urllib.parse import quote

from leyden.harness.obligations.obligation import (
    KEY,
    DocumentedOperation,
    Obligation,
    operations_of,
    request_of,
    shown,
    target_of,
)
from leyden.harness.obligations.values.fields import keywords_of
from leyden.harness.obligations.values.grammars import DATE_TIME, WHOLE_NUMBER, grammar_variants
from leyden.harness.obligations.values.patterns import is_member, pattern_variants
from leyden.harness.obligations.values.texts import BYTES, DATES, NUMBER_TEXTS, TEXTS, near_misses
from leyden.harness.steps import Step

_AMOUNT_TEXTS = (
    "2000", "1000", "999", "500000000", "500000001", "0", "01000", "+1000", " 1000", "1000 ", "1000.0", "1e3", "0x3e8",
    "1,000", "1_000", "-1000", "", "tip", "\u0661\u0660\u0660\u0660", "\uff11\uff10\uff10\uff10", "1000\n", "1" * 30,
    "1\u0660\u0660\u0660", "100\uff10", "\uff11000", "10\u00b20",
)  # fmt: skip
_NAME_LENGTHS = (59, 60, 61, 120, 300)  # an error names a parameter by its first sixty characters
_KNOWN = frozenset({"type", "minimum", "maximum", "default", "enum", "maxLength", "pattern", "format"})


def query_obligations() -> Iterator[Obligation]:
    """Every query parameter of every operation with the values of its schema, repeated, misspelt and empty."""
    for one in operations_of():
        parameters = [each for each in one.parameters if each["in"] == "query"]
        for parameter in parameters:
            name, schema = parameter["name"], parameter["schema"]
            place, source = f"{one.name} query.{name}", f"{one.source}/parameters#{name}"
            for keyword in keywords_of(schema):
                if keyword not in _KNOWN:
                    yield Obligation(place, f"keyword:{keyword}", "", source, ())
            seen: dict[str, None] = {}  # in order: the first one is valid
            for kind, text in _texts(name, schema):
                if text not in seen:
                    seen[text] = None
                    yield _query(one, place, kind, shown(text), source, f"{name}={quote(text, safe='')}")
            value = next(iter(seen))
            for kind, text in BYTES.items():
                good = f"{name}={quote(value, safe='')}"
                yield _query(one, place, "bytes", kind, source, f"{name}={text}")
                yield _query(one, place, "bytes-in-name", kind, source, f"{good}&{text}=1")
                yield _query(one, place, "bytes-beside", kind, source, f"{good}&x={text}")
            for kind, query in _forms(name, quote(value, safe="")):
                yield _query(one, place, kind, "", source, query)
        for text in ("colour=blue", "=", "&&", "limit", "amount%5B%5D=1", "%ff=1", "a=%ff", "%", "x=%zz", "?", "=1"):
            yield _query(one, f"{one.name} query", "unknown", shown(text), one.source, text)
        for length, character in product(_NAME_LENGTHS, ("x", "é")):
            name = quote(character * length)
            yield _query(one, f"{one.name} query", "unknown", f"{length} {character}", one.source, f"{name}=1")
        for other in {
            each["name"]: None for two in operations_of() for each in two.parameters if each["in"] == "query"
        }:
            if other not in [each["name"] for each in parameters]:
                yield _query(one, f"{one.name} query.{other}", "foreign", "", one.source, f"{other}=1")


def _query(one: DocumentedOperation, place: str, kind: str, case: str, source: str, query: str) -> Obligation:
    return Obligation(place, kind, case, source, (request_of(one, target_of(one, query)),))


def _texts(name: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values of a parameter; the first one is valid."""
    if name == "amount":
        yield from (("amount", text) for text in _AMOUNT_TEXTS)
    elif name == "comment":
        for offset in (-1, 0, 1):
            yield from ((f"commentAllowed{offset:+d}", character * (150 + offset)) for character in ("x", "é", "😀"))
    if "enum" in schema:
        for value in schema["enum"]:
            yield "enum", value
        for value in schema["enum"]:
            yield from ((f"enum:{kind}", text) for kind, text in near_misses(value))
    for bound in ("minimum", "maximum"):
        if bound in schema:
            yield from ((f"{bound}{offset:+d}", str(schema[bound] + offset)) for offset in (0, -1, 1))
    if "default" in schema:
        yield "default:spelled-out", str(schema["default"])
    if schema.get("type") == "integer":
        yield from (("number", text) for text in NUMBER_TEXTS)
        yield from grammar_variants(WHOLE_NUMBER)
    if schema.get("format") == "date-time":
        yield from ((f"date:{kind}", text) for kind, text in DATES.items())
        yield from grammar_variants(DATE_TIME)
    if "maxLength" in schema:
        for offset in (-1, 0, 1):
            for character in ("x", "é", "😀"):
                yield (
                    f"maxLength{offset:+d}:{len(character.encode())}-bytes",
                    character * (schema["maxLength"] + offset),
                )
    if "pattern" in schema:
        # Members come first: they are valid. After a cursor that no page had, the response is a page, and which one is
        # not determined.
        variants = [*pattern_variants(schema["pattern"])]
        yield from sorted(variants, key=lambda variant: not is_member(schema["pattern"], variant[1]))
    if schema.get("type") == "string" and not {"enum", "format", "pattern"} & set(schema):
        yield from ((f"text:{kind}", text) for kind, text in TEXTS.items())


def _forms(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Other forms of a parameter with a valid value."""
    yield "absent", ""
    yield "empty", f"{name}="
    yield "without-equals", name
    yield "repeated", f"{name}={value}&{name}={value}"
    yield "repeated-empty", f"{name}={value}&{name}="
    yield "repeated-other", f"{name}={value}&{name}=x"
    yield "name-upper", f"{name.upper()}={value}"
    yield "name-snake", f"{''.join(f'_{one.lower()}' if one.isupper() else one for one in name)}={value}"
    yield "name-array", f"{name}%5B%5D={value}"
    yield "name-blank", f"%20{name}={value}"
    yield "name-encoded", f"%{ord(name[0]):02X}{name[1:]}={value}"
    yield "after-ampersands", f"&&{name}={value}&&"
    yield "semicolon", f"{name}={value};limit=1"


# Lists

# Filters that match some of the rows of the setup `rows`, but not all of them.
FILTERS: Mapping[str, tuple[str, ...]] = {
    "limit": ("1", "2", "3"),
    "status": ("pending", "completed", "expired", "error", "active", "disabled"),
    "internalId": ("a", "A", " a", "a b", "a+b", "a%2Fb", "a&b=c", "caf\u00e9", "cafe\u0301", "", "a\u2028b", "007",
                   "b"),
    "createdAfter": ("2030-01-01T00:00:02Z", "2030-01-01T00:00:02.200Z", "2030-01-01T05:30:03+05:30",
                     "2029-12-31T19:00:02-05:00", "2030-01-01T00:00:04.601Z"),
    "createdBefore": ("2030-01-01T00:00:02Z", "2030-01-01T00:00:02.200Z", "2030-01-01T05:30:03+05:30",
                      "2029-12-31T19:00:02-05:00", "2030-01-01T00:00:04.600Z"),
}  # fmt: skip
# What happens between two pages, in the setup `rows`.
_BETWEEN: Mapping[str, tuple[Step, ...]] = {
    "nothing": (),
    "created": (
        {"do": "create_charge", "as": "between", "body": {"amount": "1000", "description": "new", "internalId": "a"}},
        {"do": "create_static", "as": "sbetween",
         "body": {"minAmount": "1000", "maxAmount": "1000", "description": "new", "internalId": "a"}},
        {"do": "invoice", "static": "s1", "as": "cbetween", "amount": "2000"},
    ),
    "paid": (
        {"do": "pay", "as": "pbetween", "charge": "c1"},
        {"do": "pay", "as": "pbetween2", "charge": "c11"},
        {"do": "pay", "as": "pbetween3", "charge": "c13"},
    ),
    "expired": ({"do": "advance", "by": 400_000},),
    "failed": ({"do": "fail", "charge": "c5"}, {"do": "fail", "charge": "c11"}),
    "changed": ({"do": "patch", "static": "s1", "body": {"internalId": "b"}},
                {"do": "patch", "static": "s2", "body": {"allowedSlots": 5}}),
}  # fmt: skip


def list_obligations() -> Iterator[Obligation]:
    """Each filter alone and each pair of filters, all pages of each, and what happens between two pages."""
    for one in operations_of():
        names = [each["name"] for each in one.parameters if each["in"] == "query" and each["name"] in FILTERS]
        if "limit" not in names:
            continue
        missing = [each["name"] for each in one.parameters if each["in"] == "query" and each["name"] not in FILTERS]
        for name in missing:
            if name != "after":
                yield Obligation(f"{one.name} query.{name}", "filter", "", one.source, ())
        values = {name: _filter_values(one, name) for name in names}
        for name in names:
            for text in values[name]:
                yield _pages(one, {name: text}, f"{one.name} query.{name}", "filter", shown(text))
        for first, second in combinations([name for name in names if name != "limit"], 2):
            for text in values[first]:
                for other in values[second]:
                    query = {first: text, second: other}
                    case = f"{shown(text)} {shown(other)}"
                    yield _pages(one, query, f"{one.name} query.{first}+{second}", "filter-pair", case)
        for happened, steps in _BETWEEN.items():
            if happened == "nothing":
                continue
            for query in ({}, {"status": values["status"][0]}, {"internalId": "a"}, {"createdAfter": DATES["utc"]}):
                case = " ".join(query.values())
                yield _pages(one, query, f"{one.name} query.after", f"between-pages:{happened}", case, steps)


def _filter_values(one: DocumentedOperation, name: str) -> list[str]:
    schema = next(each["schema"] for each in one.parameters if each["name"] == name)
    return [text for text in FILTERS[name] if text in schema.get("enum", (text,))]


def _pages(
    one: DocumentedOperation, query: Mapping[str, str], place: str, kind: str, case: str, steps: tuple[Step, ...] = ()
) -> Obligation:
    target = target_of(one, {"limit": "2", **query})
    step: Step = {"do": "pages", "target": target, "headers": [KEY]}
    if not steps:
        return Obligation(place, kind, case, one.source, (step,), setup="lists")
    # A setup of its own, because the steps change it.
    return Obligation(place, kind, case, one.source, ({**step, "steps": [*steps]},), setup="lists-changed")
