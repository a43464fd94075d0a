"""Obligations of the fields of request bodies: from each keyword of each schema, and each field name of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leyden.harness.control.documents import resolved
from leyden.harness.obligations.obligation import (
    JSON_TYPE,
    DocumentedOperation,
    Obligation,
    document_of,
    operations_of,
    request_of,
    shown,
    target_of,
)
from leyden.harness.obligations.values.patterns import one_of_each, pattern_variants
from leyden.harness.obligations.values.texts import TEXTS, URLS, near_misses
from leyden.harness.steps import Step

Values = Iterator[tuple[str, Any]]

_TYPES: Mapping[str, Any] = {
    "null": None, "true": True, "false": False, "integer": 7, "number": 7.5, "whole-with-point": 60.0, "text": "tea",
    "digits": "60", "array": [], "array-of-one": ["1000"], "object": {},
}  # fmt: skip
_FAR = (-(2**53), -1, 0, 1, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63, 10**30)
# The characters of one length in bytes each: one, two, three and four.
_CHARACTERS = ("x", "\u00e9", "\u20ac", "\U0001f600")
# Other units than characters in which a service could measure a text.
_RESET = {"minAmount": "1000", "maxAmount": "500000000", "allowedSlots": None}
ABSENT = object()


def _of_type(schema: Mapping[str, Any]) -> Values:
    for name, value in _TYPES.items():
        yield f"type:{name}", value


def _max_length(schema: Mapping[str, Any]) -> Values:
    bound = schema["maxLength"]
    if "pattern" in schema:
        return
    for offset in (-1, 0, 1):
        for one in _CHARACTERS:
            yield f"maxLength{offset:+d}:{len(one.encode())}-bytes", one * (bound + offset)
        yield f"maxLength{offset:+d}:decomposed", ("e\u0301" * bound)[: bound + offset]
        # As many bytes, in fewer characters.
        size = bound + offset
        yield f"maxBytes{offset:+d}:2-bytes", "\u00e9" * (size // 2) + "x" * (size % 2)
        yield f"maxBytes{offset:+d}:4-bytes", "\U0001f600" * (size // 4) + "x" * (size % 4)
        yield f"maxUtf16{offset:+d}", "\U0001f600" * (size // 2) + "x" * (size % 2)
    yield "maxLength:blanks-around", f" {'x' * (bound - 1)} "
    yield "maxLength:long", "x" * 20_000


def _min_length(schema: Mapping[str, Any]) -> Values:
    for offset in (-1, 0, 1):
        yield f"minLength{offset:+d}", "x" * max(0, schema["minLength"] + offset)


def _bound(name: str) -> Callable[[Mapping[str, Any]], Values]:
    def values(schema: Mapping[str, Any]) -> Values:
        bound = schema[name]
        for offset in (-1, 0, 1):
            yield f"{name}{offset:+d}", bound + offset
            yield f"{name}{offset:+d}:point", float(bound + offset)
            yield f"{name}{offset:+d}:text", str(bound + offset)
        yield f"{name}:half", bound + 0.5
        for far in _FAR:
            yield f"{name}:far", far

    return values


def _pattern(schema: Mapping[str, Any]) -> Values:
    yield from one_of_each(schema["pattern"])
    if "maxLength" in schema:
        for offset in (-1, 0, 1):
            member = "http://r1.inbox.localhost/"
            yield f"maxLength{offset:+d}:pattern", member + "p" * (schema["maxLength"] + offset - len(member))


def _enum(schema: Mapping[str, Any]) -> Values:
    for one in schema["enum"]:
        yield "enum", one
        if isinstance(one, str):
            yield from ((f"enum:{kind}", text) for kind, text in near_misses(one))


def _const(schema: Mapping[str, Any]) -> Values:
    yield from _enum({"enum": [schema["const"]]})


def _alternatives(schema: Mapping[str, Any]) -> Values:
    for one in schema["anyOf"]:
        yield from values_of(one)


def _default(schema: Mapping[str, Any]) -> Values:
    yield "default:spelled-out", schema["default"]


def _absent(schema: Mapping[str, Any]) -> Values:
    for one in schema["x-absent"]:
        yield "absent-value", one


def _nothing(schema: Mapping[str, Any]) -> Values:
    yield from ()


# The values that each keyword of a schema asks for. A keyword of the document that is not here has no values, and its
# obligation is not asked.
KEYWORDS: Mapping[str, Callable[[Mapping[str, Any]], Values]] = {
    "type": _of_type,
    "maxLength": _max_length,
    "minLength": _min_length,
    "minimum": _bound("minimum"),
    "maximum": _bound("maximum"),
    "pattern": _pattern,
    "enum": _enum,
    "const": _const,
    "anyOf": _alternatives,
    "default": _default,
    "x-absent": _absent,
}
_ANNOTATIONS = frozenset({"description", "title", "examples", "example", "format"})


def keywords_of(schema: Mapping[str, Any]) -> list[str]:
    """The keywords of a schema that require something."""
    return [name for name in schema if name not in _ANNOTATIONS and (name in KEYWORDS or not name.startswith("x-"))]


def values_of(schema: Mapping[str, Any]) -> Values:
    """The values for every keyword of a schema, each with its kind."""
    for name in keywords_of(schema):
        yield from KEYWORDS.get(name, _nothing)(schema)
    if "string" in _types(schema) and "pattern" not in schema and "enum" not in schema and "const" not in schema:
        yield from ((f"text:{kind}", text) for kind, text in TEXTS.items())


def _types(schema: Mapping[str, Any]) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def field_obligations(overlays: tuple[str, ...] = ()) -> Iterator[Obligation]:
    """For every field of every request body: the values of its schema, present and absent. With overlays only the
    fields with another schema than without."""
    asked: set[str] = set()
    plain = {one.name: one.body for one in operations_of()}
    for one in operations_of(overlays):
        if one.body is None:
            continue
        for name, schema in one.body["properties"].items():
            before = (plain[one.name] or {})["properties"].get(name) if overlays else None
            if schema == before:
                continue
            source = f"{one.source}/requestBody#{name}"
            place = f"{one.name} body.{name}"
            unknown = [each for each in _nested_keywords(schema) if each not in KEYWORDS]
            for keyword in unknown:
                yield Obligation(place, f"keyword:{keyword}", "", source, (), overlays=overlays)
            yield _field(one, name, ABSENT, "absent", "", source, overlays)
            yield _field(one, name, None, "null", "", source, overlays)
            yield _field(one, name, "", "empty", "", source, overlays)
            seen: set[tuple[str, str]] = {("null", ""), ("empty", "")}
            texts: set[tuple[type, Any]] = set()
            urls = (("url", text) for text in (URLS if name == "callbackUrl" else ()))
            for kind, value in (*values_of(schema), *_patterns(schema, before, asked), *urls):
                key = (type(value), repr(value))
                if key in texts:
                    continue
                texts.add(key)
                case = shown(value)
                while (kind, case) in seen:
                    case += "'"
                seen.add((kind, case))
                yield _field(one, name, value, kind, case, source, overlays)


def _patterns(schema: Mapping[str, Any], before: Any, asked: set[str]) -> Values:
    """All texts of each pattern at the first place that has it."""
    known = {one.get("pattern") for one in _alternatives_of(before or {})}
    for one in _alternatives_of(schema):
        pattern = one.get("pattern")
        if pattern is not None and pattern not in asked and pattern not in known:
            asked.add(pattern)
            yield from pattern_variants(pattern)


def _alternatives_of(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema, *schema.get("anyOf", ())]


def _nested_keywords(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from keywords_of(schema)
    for one in schema.get("anyOf", ()):
        yield from keywords_of(one)


def _field(
    one: DocumentedOperation, name: str, value: Any, kind: str, case: str, source: str, overlays: tuple[str, ...]
) -> Obligation:
    body = {} if one.method == "PATCH" else {each: item for each, item in one.example.items() if each != name}
    if name == "minAmount" and "maxAmount" in body:
        body["maxAmount"] = "500000000"
    if one.method == "POST" and name != "callbackUrl" and "callbackUrl" in (one.body or {}).get("properties", ()):
        body.setdefault("callbackUrl", _HOOK)  # so that each value is in a callback, too
    if value is not ABSENT:
        body[name] = value
    steps = [request_of(one, body=body)]
    if kind.startswith("text:") and name == "internalId" and one.method == "POST":
        steps.append(_listed(one, value))
    # Valid or not is for the model to say: whoever was refused has nothing to follow.
    if value is not ABSENT and value is not None and not overlays:
        steps.append({"do": "follow", "what": "s1" if one.method == "PATCH" else "new"})
    if one.method == "PATCH" and name in _RESET:
        steps.append(request_of(one, body=_RESET))
    return Obligation(f"{one.name} body.{name}", kind, case, source, tuple(steps), overlays=overlays)


def _listed(one: DocumentedOperation, value: str) -> Step:
    """The list of what was created, with a filter for exactly this text."""
    listing = next(each for each in operations_of() if each.path == one.path and each.method == "GET")
    return request_of(listing, target_of(listing, {"internalId": value}))


_HOOK = "http://r1.inbox.localhost/"
_MANY = (1, 7, 8, 9, 10, 17, 18, 19, 63, 64, 65, 90, 99, 107, 108, 109, 1_007, 1_008)
_MOST_PARAMETERS = 99  # of a query
MAX_ERRORS = 20  # that a refusal names


def unknown_field_obligations(overlays: tuple[str, ...] = ()) -> Iterator[Obligation]:
    """Every field name of the whole API in each body that does not declare it, and undeclared bodies of each GET."""
    names = dict.fromkeys(_property_names())
    declared_anywhere = {name for one in operations_of() if one.body is not None for name in one.body["properties"]}
    for one in operations_of(overlays):
        declared = () if one.body is None else one.body["properties"]
        source = "the names of all properties and parameters of the document"
        misspelt = [text for name in declared for text in (_snake(name), name.upper(), f"{name}s", f" {name}")]
        for name in (*names, *misspelt, "a/b~", "colour", "é", 'a"b', "x" * 41, "x" * 60):
            if name in declared:
                continue
            for kind, value in (("text", "completed"), ("null", None), ("object", {"a": [1]})):
                if kind != "text" and (one.body is None or overlays or name not in declared_anywhere):
                    continue
                body = {**({} if one.method == "PATCH" or one.body is None else one.example), name: value}
                step = request_of(one, body=body)
                if one.body is None:
                    step["headers"] = [*step.get("headers", []), ["Content-Type", "application/json"]]
                yield Obligation(f"{one.name} body.{shown(name)}", f"unknown-field:{kind}", "", source, (step,),
                                 overlays=overlays)  # fmt: skip
        yield from _many_unknown_fields(one, overlays)
        if one.body is not None:
            base = {} if one.method == "PATCH" else dict(one.example)
            yield Obligation(
                f"{one.name} body.unit", "unknown-field:constant", "", source,
                (request_of(one, body={**base, "unit": "msats"}),), overlays=overlays,
            )  # fmt: skip


def _many_unknown_fields(one: DocumentedOperation, overlays: tuple[str, ...]) -> Iterator[Obligation]:
    """Numbers of unknown names around what a response names, of one and of several digits, in the body, in the query of
    a wallet and beside a header with a slip; also with one that is similar to a known name at one end."""
    base = {} if one.body is None or one.method == "PATCH" else dict(one.example)
    source = "#/components/headers/LeydenIgnored"
    typed = request_of(one).get("headers", [])
    typed = typed if JSON_TYPE in typed else [*typed, JSON_TYPE]
    known = next((name for name in (() if one.body is None else one.body["properties"]) if name not in base), "")
    for count in _MANY:
        names = [f"extra{n}" for n in range(count)]
        bodies: dict[str, list[str]] = {"": names}
        if known and not overlays:
            bodies |= {"similar first": [_snake(known), *names], "similar last": [*names[:60], _snake(known)]}
        for case, sent in bodies.items():
            step = request_of(one, body={**base, **dict.fromkeys(sent, 0)}, headers=typed)
            yield Obligation(f"{one.name} body", "unknown-fields", f"{count} {case}", source, (step,),
                             overlays=overlays)  # fmt: skip
        if overlays:
            if count >= MAX_ERRORS - 1:
                return
            continue
        step = request_of(one, body={**base, **dict.fromkeys(names, 0)}, headers=[*typed, ["X-Idempotency-Key", "1"]])
        yield Obligation(f"{one.name} body", "unknown-fields", f"{count} and a header", source, (step,))
        if not one.secured and count < _MOST_PARAMETERS:
            step = request_of(one, target_of(one, "&".join(f"{name}=1" for name in names)))
            yield Obligation(f"{one.name} query", "unknown-fields", str(count), source, (step,))


def many_field_obligations() -> Iterator[Obligation]:
    """Numbers of unknown names at every operation."""
    for one in operations_of():
        yield from _many_unknown_fields(one, ())


def _snake(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name)


def _property_names() -> Iterator[str]:
    document = document_of()
    for schema in document["components"]["schemas"].values():
        yield from resolved(document, schema).get("properties", {})
    for parameter in document["components"]["parameters"].values():
        yield parameter["name"]


def pair_obligations(overlays: tuple[str, ...] = ()) -> Iterator[Obligation]:
    """Two fields that are wrong at the same time: both places are named."""
    wrong: Mapping[str, Any] = {
        "amount": "1", "minAmount": "0", "maxAmount": "x", "description": 7, "internalId": [], "callbackUrl": "x",
        "expiresIn": -1, "allowedSlots": "3x", "successMessage": True, "identifier": "A",
    }  # fmt: skip
    for one in operations_of(overlays):
        if one.body is None:
            continue
        names = [name for name in one.body["properties"] if name in wrong]
        base = {} if one.method == "PATCH" else dict(one.example)
        for index, first in enumerate(names):
            for second in names[index + 1 :]:
                body = {**base, first: wrong[first], second: wrong[second]}
                yield Obligation(
                    f"{one.name} body.{first}+{second}", "two-errors", "", one.source, (request_of(one, body=body),),
                    overlays=overlays,
                )  # fmt: skip
        body = {**base, **{name: wrong[name] for name in names}}
        yield Obligation(f"{one.name} body", "all-errors", "", one.source, (request_of(one, body=body),),
                         overlays=overlays)  # fmt: skip
        for name in one.body.get("required", ()):
            body = {each: value for each, value in {**base, names[-1]: wrong[names[-1]]}.items() if each != name}
            yield Obligation(f"{one.name} body.{name}", "missing+error", "", one.source, (request_of(one, body=body),),
                             overlays=overlays)  # fmt: skip
