"""Whether a schema allows every value that other schemas allow, as far as their keywords decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from leyden.server.contract.document.keywords import TYPES
from leyden.server.contract.json_pointer import child, instead
from leyden.server.contract.json_schema.ecma_patterns import matches
from leyden.server.contract.json_schema.schemas import (
    LateValidator,
    Schemas,
    always_there,
    parts,
    properties,
    value_types,
)
from leyden.server.contract.schema_errors import first_error
from leyden.server.contract.value_checks.pattern_inclusion import is_included, lengths

Schema = Mapping[str, Any]
Case = list[Schema]  # schemas that all hold for a value, without the branches that it does not take

_TYPE_OF = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(
        ("items", "prefixItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
         "unevaluatedItems"), "array",
    ),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames",
         "required", "dependentRequired", "dependentSchemas", "minProperties", "maxProperties"), "object",
    ),
}  # fmt: skip
# Keywords that exclude no value, and those that are read together with another one
_IGNORED = frozenset({
    "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "then", "else",
})  # fmt: skip
_MOST_CASES = 500


class TooManyCases(Exception):
    """Schemas with more branches than can be compared soon."""


class Narrower(NamedTuple):
    """A keyword that excludes a value of the other schemas: its location, name and value, and what to do about it."""

    location: str
    keyword: str
    value: Any
    mend: str = "leave it out"


class Inclusion:
    """Compares the schemas of one document with written-out schemas."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._found: dict[tuple[int, ...], tuple[Any, Sequence[Any], Narrower | None]] = {}  # the schemas stay alive

    def narrower(self, schema: Any, known: Sequence[Schema], location: str) -> Narrower | None:
        """The first keyword of a schema at `location` that may exclude a value for which every schema of `known` holds;
        None if there is none, and where the branches of `known` are too many to be compared soon.

        It is exact for ranges, lengths, types and values, and for patterns that are read (`pattern_inclusion`). A
        `format` or a `not` must be written as a known schema has it.
        """
        key = (id(schema), *map(id, known))
        if key not in self._found:
            try:
                found = self._compare(schema, known, location)
            except TooManyCases:
                found = None
            self._found[key] = schema, known, found
        return self._found[key][2]

    def _compare(self, schema: Any, known: Sequence[Schema], location: str) -> Narrower | None:
        if type(schema) is not bool:
            written = self._schemas.inline(schema)
            if any(written == one for one in known):
                return None
            branched = any("anyOf" in part or "oneOf" in part for part in parts(written, branches=("allOf",)))
        else:
            branched = False
        for case in cases(known):
            types = types_of(case)
            kinds = types - {"integer"} if "number" in types else types
            split = [[*case, {"type": kind}] for kind in sorted(kinds)] if branched and len(kinds) > 1 else [case]
            for one in split:
                found = self._in_case(schema, one, location)
                if found is not None:
                    return found
        return None

    def _in_case(self, schema: Any, case: Case, location: str) -> Narrower | None:
        if type(schema) is bool:
            return None if schema else Narrower(location, "", False)
        values = values_of(case)
        if values is not None:
            return self._of_values(schema, values, case, location)
        types = types_of(case)
        for keyword, value in schema.items():
            kind = _TYPE_OF.get(keyword)
            if (
                keyword in _IGNORED
                or keyword.startswith("x-")
                or (kind is not None and kind not in types and not (kind == "number" and "integer" in types))
            ):
                continue  # fmt: skip
            found: Narrower | bool | None
            if keyword == "$ref":
                found = self._in_case(self._schemas.resolve(schema), case, self._schemas.place(schema, location))
            elif keyword == "allOf":
                found = self._first(
                    self._in_case(part, case, f"{location}/allOf/{index}") for index, part in enumerate(value)
                )
            elif keyword in ("anyOf", "oneOf"):
                found = self._in_branches(value, case, f"{location}/{keyword}")
            elif keyword == "if":
                found = self._in_condition(schema, case, location)
            elif keyword in _OBJECT:
                found = _OBJECT[keyword](self, schema, case, location)
            else:
                found = _is_implied(keyword, value, case, types) or any(one.get(keyword) == value for one in case)
            if found is False:
                known = [instead("write", one[keyword]) for one in case if keyword in one]
                return Narrower(child(location, keyword), keyword, value, *known[:1])
            if isinstance(found, Narrower):
                return found
        return None

    def _of_values(self, schema: Schema, values: list[Any], case: Case, location: str) -> Narrower | None:
        validator = self._schemas.validator(cast("dict[str, Any]", schema), location)
        for value in values:
            if (wrong := first_error(validator, value)) and LateValidator({"allOf": case}).is_valid(value):
                keyword, at, below = str(wrong.schema_path[-1]), location, schema
                own = {key: one for key, one in schema.items() if key != "$ref"}
                if "$ref" in schema and self._schemas.validator(own, location).is_valid(value):
                    at, below = self._schemas.place(schema, location), self._schemas.resolve(schema)
                mend = instead("allow", value)
                if keyword in below:
                    return Narrower(child(at, keyword), keyword, below[keyword], mend)
                return Narrower(at, "", None, mend)
        return None

    @staticmethod
    def _first(found: Iterator[Narrower | None]) -> Narrower | None:
        return next((one for one in found if one is not None), None)

    def _in_branches(self, branches: list[Any], case: Case, location: str) -> Narrower | None:
        """One branch must allow the whole case, and of `oneOf` each other one must exclude it."""
        best: tuple[int, Narrower] | None = None
        names = {name for one in case for name in one.get("properties", ())}
        for index, branch in enumerate(branches):
            found = self._in_case(branch, case, f"{location}/{index}")
            if found is None:
                others = branches[:index] + branches[index + 1 :] if location.endswith("/oneOf") else ()
                is_one = all(self._is_disjoint(one, case) for one in others)
                return None if is_one else Narrower(location, "oneOf", branches, "write anyOf in its place")
            written = {"not": {}} if type(branch) is bool else self._schemas.inline(branch)
            rank = 1 + len(names & set(properties(written))) if value_types(written) & types_of(case) else 0
            if best is None or rank > best[0]:
                best = rank, found
        return None if best is None else best[1]

    def _is_disjoint(self, branch: Any, case: Case) -> bool:
        """Whether a branch surely excludes every value of the case."""
        if type(branch) is bool:
            return not branch
        written, types, names = self._schemas.inline(branch), types_of(case), _names(case)
        if not value_types(written) & types:
            return True
        values, objects = values_of(case), types == {"object"}
        if values is not None:
            return not any(map(self._schemas.validator(branch, "").is_valid, values))
        needed = {name for one in parts(written, branches=("allOf",)) for name in one.get("required", ())}
        return objects and (self._is_excluded(written, case) or (names is not None and not needed <= names))

    def _in_condition(self, schema: Schema, case: Case, location: str) -> Narrower | None:
        written = self._schemas.inline(cast("dict[str, Any]", schema))
        words = ("if", "then", "else")
        if any(all(one.get(word) == written.get(word) for word in words) for one in case):
            return None
        skipped = "then" if self._is_excluded(written["if"], case) else ""
        return self._first(
            self._in_case(schema[word], case, f"{location}/{word}")
            for word in words[1:]
            if word in schema and word != skipped
        )

    def _is_excluded(self, condition: Any, case: Case) -> bool:
        """Whether a property always has a value that the written-out condition excludes."""
        for name, below in condition.get("properties", {}).items() if isinstance(condition, Mapping) else ():
            known = [one for one in (_of_property(one, name) for one in case) if isinstance(one, Mapping)]
            named = [values_of(one) for one in cases(known)]
            if type(below) is bool or any(one is None for one in named):
                continue
            validator = self._schemas.validator(below, "")
            if any(always_there(one, name) for one in case) and not any(
                validator.is_valid(value) for values in named for value in values or ()
            ):
                return True
        return False

    def _properties(self, schema: Schema, case: Case, location: str) -> Narrower | None:
        for name, below in schema["properties"].items():
            found = self._property(name, below, case, child(f"{location}/properties", name))
            if found is not None:
                return found
        return None

    def _property(self, name: str, schema: Any, case: Case, location: str) -> Narrower | None:
        known = [_of_property(one, name) for one in case]
        if any(one is False for one in known):
            return None  # it is never sent
        return self.narrower(schema, [one for one in known if isinstance(one, Mapping)], location)

    def _additional(self, schema: Schema, case: Case, location: str) -> Narrower | bool | None:
        names, below = _names(case), schema["additionalProperties"]
        if below is True:
            return None
        if names is None:
            return any(_of_property(one, "") == below for one in case if "additionalProperties" in one)
        declared = {*schema.get("properties", ())}
        others = [
            name
            for name in names - declared
            if not any(matches(pattern, name) for pattern in schema.get("patternProperties", ()))
        ]
        at = f"{location}/additionalProperties"
        if below is False and others:
            return Narrower(at, "additionalProperties", False, f"declare the property {min(others)!r}")
        return self._first(self._property(name, below, case, at) for name in sorted(others))

    def _patterned(self, schema: Schema, case: Case, location: str) -> Narrower | bool | None:
        names = _names(case)
        for pattern, below in schema["patternProperties"].items():
            if any(one.get("patternProperties", {}).get(pattern) == below for one in case):
                continue
            if names is None:
                return False
            at = child(f"{location}/patternProperties", pattern)
            for name in sorted(one for one in names if matches(pattern, one, unread=True)):
                found = self._property(name, below, case, at)
                if found is not None:
                    return found
        return None

    def _unevaluated(self, schema: Schema, case: Case, location: str) -> Narrower | bool | None:
        names = _names(case)
        if schema["unevaluatedProperties"] is True:
            return None
        return names is not None and names <= set(properties(self._schemas.inline(cast("dict[str, Any]", schema))))

    def _items(self, schema: Schema, case: Case, location: str) -> Narrower | None:
        if any(one.get("maxItems") == 0 or one.get("items") is False for one in case):
            return None
        known = [one["items"] for one in case if isinstance(one.get("items"), Mapping)]
        return self.narrower(schema["items"], known, f"{location}/items")

    def _required(self, schema: Schema, case: Case, location: str) -> Narrower | None:
        for name in schema["required"]:
            if not any(always_there(one, name) for one in case):
                return Narrower(f"{location}/required", "required", name, f"leave {name!r} out")
        return None

    def _dependent(self, schema: Schema, case: Case, location: str) -> Narrower | None:
        for name, below in schema["dependentSchemas"].items():
            written = below if type(below) is bool else self._schemas.inline(below)
            if any(
                _of_property(one, name) is False or one.get("dependentSchemas", {}).get(name) == written for one in case
            ):
                continue
            found = self._in_case(below, case, child(f"{location}/dependentSchemas", name))
            if found is not None:
                return found
        return None


_OBJECT: Mapping[str, Callable[[Inclusion, Schema, Case, str], Narrower | bool | None]] = {
    "properties": Inclusion._properties,
    "patternProperties": Inclusion._patterned,
    "additionalProperties": Inclusion._additional,
    "unevaluatedProperties": Inclusion._unevaluated,
    "items": Inclusion._items,
    "required": Inclusion._required,
    "dependentSchemas": Inclusion._dependent,
}


def cases(known: Sequence[Schema]) -> list[Case]:
    """The ways in which all schemas hold at once: with one branch of each `anyOf` and `oneOf`. Raises `TooManyCases`
    where there are more than can be compared soon."""
    found: list[Case] = [[]]
    for schema in known:
        found = _both(found, _alternatives(schema))
    return found


def _both(cases: list[Case], others: list[Case]) -> list[Case]:
    if len(cases) * len(others) > _MOST_CASES:
        raise TooManyCases
    return [both for case in cases for more in others if types_of(both := [*case, *more])]


def _alternatives(schema: Any) -> list[Case]:
    if type(schema) is bool:
        return [[]] if schema else []
    found: list[Case] = [[schema]]
    for part in schema.get("allOf", ()):
        found = _both(found, _alternatives(part))
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found = _both(found, [more for branch in schema[word] for more in _alternatives(branch)])
    return found


def types_of(case: Case) -> frozenset[str]:
    types: frozenset[str] = TYPES
    for schema in case:
        types &= value_types(schema)
    return types


def values_of(case: Case) -> list[Any] | None:
    """The values of a case, if its schemas name them."""
    types = types_of(case)
    named = [[one["const"]] if "const" in one else one["enum"] for one in case if "const" in one or "enum" in one]
    if not named and types <= {"null", "boolean"}:
        named = [[None] * ("null" in types) + [False, True] * ("boolean" in types)]
    if not named:
        return None
    first, *others = named
    return [one for one in first if all(one in other for other in others) and value_types({"const": one}) & types]


def _of_property(schema: Schema, name: str) -> Any:
    """What a schema says about one property; True if nothing."""
    if name in schema.get("properties", {}):
        return schema["properties"][name]
    found = [below for pattern, below in schema.get("patternProperties", {}).items() if matches(pattern, name)]
    return found[0] if found else schema.get("additionalProperties", True)


def _names(case: Case) -> set[str] | None:
    """The properties that a value may have; None if they are not known."""
    closed = [one for one in case if one.get("additionalProperties") is False and not one.get("patternProperties")]
    if not closed:
        return None
    names = set.intersection(*(set(one.get("properties", ())) for one in closed))
    return {name for name in names if all(_of_property(one, name) is not False for one in case)}


def _is_implied(keyword: str, value: Any, case: Case, types: frozenset[str]) -> bool:
    """Whether the keywords of a case exclude at least what one keyword excludes."""

    def those(*names: str) -> list[Any]:
        return [one[name] for one in case for name in names if name in one]

    if keyword == "type":
        return types <= value_types({"type": value})
    if keyword in ("maxLength", "maxItems", "maxProperties"):
        more = [most for _, most in _lengths(case) if most is not None] if keyword == "maxLength" else []
        names = _names(case) if keyword == "maxProperties" else None
        return any(one <= value for one in [*those(keyword), *more, *([len(names)] if names is not None else [])])
    if keyword in ("minLength", "minItems", "minProperties"):
        more = [least for least, _ in _lengths(case)] if keyword == "minLength" else []
        if keyword == "minLength" and not all(matches(one, "", unread=True) for one in those("pattern")):
            more.append(1)
        if keyword == "minProperties":
            more.append(len({name for one in those("required") for name in one}))
        return value == 0 or any(one >= value for one in [*those(keyword), *more])
    if keyword in ("maximum", "minimum"):
        sign = 1 if keyword == "maximum" else -1
        bounds = those(keyword, f"exclusiveM{keyword[1:]}")
        return any(sign * one <= sign * value for one in bounds)
    if keyword in ("exclusiveMaximum", "exclusiveMinimum"):
        sign, inclusive = (1, "maximum") if keyword == "exclusiveMaximum" else (-1, "minimum")
        beyond = any(sign * one < sign * value for one in those(inclusive))
        return beyond or any(sign * one <= sign * value for one in those(keyword))
    if keyword == "pattern":
        return any(is_included(one, value) for one in those("pattern"))
    if keyword == "multipleOf":
        return (value == 1 and "number" not in types) or any(one % value == 0 for one in those("multipleOf"))
    if keyword == "uniqueItems":
        return value is False or any(one <= 1 for one in those("maxItems"))
    if keyword == "dependentRequired":
        return all(any(always_there(one, name) for one in case) for names in value.values() for name in names)
    return False


def _lengths(case: Case) -> list[tuple[int, int | None]]:
    """The least and greatest lengths of texts of the forms that a case has."""
    uuids: list[tuple[int, int | None]] = [(36, 36) for one in case if one.get("format") == "uuid"]
    return uuids + [lengths(one["pattern"]) for one in case if "pattern" in one]
