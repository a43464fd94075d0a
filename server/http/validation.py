"""Validation of a value against a rule of the spec, with one `FieldError` per wrong field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from leyden.server.contract.json_pointer import child, descendant
from leyden.server.contract.json_schema.ecma_patterns import with_written_patterns
from leyden.server.contract.schema_errors import several_errors
from leyden.server.contract.types import Body, Parameter, Path, Rule
from leyden.server.errors import FieldError
from leyden.server.http.corrections import correction, received, shown, without_passwords
from leyden.server.http.field_names import meant_field
from leyden.server.http.number_range import GREATEST, LEAST, WHOLE

_MAX_LENGTH = 300
_MAX_ERRORS = 20
# What a schema can have that permits every value; and one that reads the values of members in `properties` alone.
_ANNOTATIONS = frozenset({"description"})
_OF_NAMES = _ANNOTATIONS.union(("type", "properties", "required", "additionalProperties"))

_DIGITS = frozenset("0123456789")
_MAX_DIGITS, _PADDED = 640, 18  # of a text that is read as a number, and of one with leading zeros


def find_errors(rule: Rule, value: Any, root: str = "") -> list[FieldError]:
    """The violations of `rule` in `value`, at most twenty; empty when it is valid.

    Pointers are RFC 6901, prefixed with `root`. The detail is the schema's `x-expect` with the value that was received
    and a guess of the value that was meant, or else the validator's message.
    """
    found: list[FieldError] = []
    value = _shortened(rule, value)
    if not rule.validator.is_valid(value):
        for error in several_errors(rule.validator, value):
            # Two keywords can report the same violation: `pattern` and `format` of one text.
            found.extend(one for one in _field_errors(rule, value, error, root) if one not in found)
            if len(found) >= _MAX_ERRORS:
                break
    return found[:_MAX_ERRORS]


def _shortened(rule: Rule, value: Any) -> Any:
    """The value as far as its schema can find errors in it. The validator copies all that it is given, and names each
    member that the schema does not permit, which takes seconds for hundreds of thousands: most of these are left out,
    and there is no array or object of the others nor of members that may have any value."""
    known = rule.schema.get("properties", {})
    if rule.schema.get("additionalProperties") is not False or not isinstance(value, dict):
        return value
    unknown = set(islice((name for name in value if name not in known), _MAX_ERRORS))
    independent = known if rule.schema.keys() <= _OF_NAMES else {}
    omitted = {
        name
        for name, member in value.items()
        if isinstance(member, list | dict) and (name in unknown or _permits_all(independent.get(name)))
    }
    if not (unknown or omitted):
        return value
    return {
        name: None if name in omitted else member for name, member in value.items() if name in known or name in unknown
    }


def _permits_all(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.keys() <= _ANNOTATIONS


def integers_with_point(rule: Rule, value: Any) -> list[FieldError]:
    """Integers written with a decimal point or an exponent, which no schema rejects: for JSON Schema 600.0 is one."""
    found = []
    for path in rule.integers:
        values = [(f"/{path[0]}", value.get(path[0]))] if len(path) == 1 else _values_at(value, path)
        for pointer, number in values:
            if isinstance(number, float):
                is_kept = LEAST <= number <= GREATEST
                mend = f"write {number:.0f} without a decimal point or an exponent" if is_kept else WHOLE
                found.append(FieldError(pointer, mend))
    return found[:_MAX_ERRORS]


def body_with_defaults(body: Body, raw_body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the spec's defaults for fields that are absent, or whose value means "not given" (`x-absent`)."""
    full = dict(raw_body)
    for name, default in body.defaults.items():
        if name not in full or (name in body.absent and _means_absent(full[name], body.absent[name])):
            full[name] = default
    return full


def _means_absent(value: Any, absent: tuple[Any, ...]) -> bool:
    # In JSON true is not 1, but in Python True == 1: compare the types too.
    return value in absent and any(value == spelling and type(value) is type(spelling) for spelling in absent)


def read_parameter(parameter: Parameter, text: str) -> Any:
    """The JSON value of a parameter's text. A text that is not of the parameter's type stays a text, which is then
    invalid, and so does a whole number beyond 64 bits."""
    if len(text) <= _MAX_DIGITS and is_whole_number(parameter, text) and LEAST <= int(text) <= GREATEST:
        return int(text)
    if parameter.kind == "boolean" and text in {"true", "false"}:
        return text == "true"
    return text


def is_whole_number(parameter: Parameter, text: str) -> bool:
    """Whether the parameter is an integer and the text is one, of any length; one of more than `_PADDED` characters has
    no leading zeros."""
    digits = text.removeprefix("-")
    is_padded = digits[:1] == "0" and len(text) > _PADDED
    return parameter.kind == "integer" and digits != "" and not is_padded and _DIGITS.issuperset(digits)


def _values_at(value: Any, path: Path, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The values at a path with their JSON pointers: none, one, or one for each item of an array."""
    if not path:
        yield pointer, value
    elif path[0] is None:
        for place, item in enumerate(value if isinstance(value, list) else ()):
            yield from _values_at(item, path[1:], f"{pointer}/{place}")
    elif isinstance(value, dict) and path[0] in value:
        yield from _values_at(value[path[0]], path[1:], f"{pointer}/{path[0]}")


def unknown_parameter(name: str, known: Mapping[str, Mapping[str, Any]]) -> str:
    """The detail of an error for a query parameter that is not `known`, schemas by name."""
    meant = meant_field(name, known)
    return f"{plain_name(name)} is not a parameter of this operation: " + (
        "leave it out" if meant is None else meant.question()
    )


def plain_name(name: str) -> str:
    """A name in an error: at most sixty characters, escaped unless all of them are printable ASCII."""
    return name[:60] if name.isascii() and name.isprintable() else shown(name)


def undeclared_fields(value: Any, query_names: Iterable[str]) -> list[FieldError]:
    """The errors for a body of an operation without one: its fields, at most twenty, or the body if it is no object."""
    names = [*value][:_MAX_ERRORS] if isinstance(value, dict) else []
    found = []
    for name in names:
        mend = "give it in the query" if name in query_names else "leave the body out"
        detail = f"{plain_name(name)} is not a field of this operation, which has no body: {mend}"
        found.append(FieldError(child("", name)[:_MAX_LENGTH], detail))
    return found or [FieldError("", "this operation has no body: leave it out, or send {}")]


def _field_errors(rule: Rule, value: Any, error: Any, root: str) -> list[FieldError]:
    path = list(error.instance_path)
    names = [str(step) for step in path]
    pointer = descendant(root, names)
    kind = error.kind.name
    known = declared_fields(_schema_at(rule.schema, names))
    if kind == "required":
        name = error.kind.property
        expect = _schema_at(rule.schema, [*names, name]).get("x-expect")
        detail = f"{name} is missing" + (f"; send {expect}" if expect else "")
        unused = {one: schema for one, schema in known.items() if one not in error.instance}
        for other in [one for one in error.instance if one not in known][:_MAX_ERRORS]:
            meant = meant_field(other, unused)
            if meant is not None and meant.name == name:
                guess = meant.question(error.instance[other], partial(_accepts, rule, value, [*path, name]))
                detail += f"; received {plain_name(other)}: {guess}"
                break
        return [FieldError(f"{pointer}/{name}", detail[:_MAX_LENGTH])]
    if kind == "additionalProperties":
        return [
            FieldError(child(pointer, name)[:_MAX_LENGTH], _unknown_field(rule, value, path, name, known)[:_MAX_LENGTH])
            for name in error.kind.unexpected[:_MAX_ERRORS]
        ]
    schema = _schema_at(rule.schema, names)
    is_closed = schema.get("additionalProperties") is False
    if kind == "maxProperties" and is_closed and len(known.keys() & error.instance.keys()) <= error.kind.limit:
        return []  # the fields that are unknown are too many, and each of them has its own error
    branch = _object_branch(error)
    if branch is not None:  # what is wrong inside the object, and not only that it is none of the alternatives
        return [found for inner in branch for found in _field_errors(rule, value, inner, root)][:_MAX_ERRORS]
    expect = schema.get("x-expect")
    if not expect:
        return [
            FieldError(pointer[:_MAX_LENGTH], without_passwords(with_written_patterns(error.message))[:_MAX_LENGTH])
        ]
    detail = f"expected {expect}"
    if pointer:
        wrong = _at(value, path)
        guess = correction(wrong, schema, lambda candidate: _accepts(rule, value, path, candidate))
        detail += f"; received {received(wrong)}" + (f": {guess}" if guess else "")
    return [FieldError(pointer[:_MAX_LENGTH], detail[:_MAX_LENGTH])]


def _unknown_field(rule: Rule, value: Any, path: list[Any], name: str, known: Mapping[str, Any]) -> str:
    """The detail about a field that is not `known`. No field that the object has already is proposed, and a field
    without which the object were empty is not to be left out: an empty object is another request."""
    sent = _at(value, path)
    meant = meant_field(name, {one: schema for one, schema in known.items() if one not in sent})
    if meant is not None:
        mend = meant.question(sent[name], partial(_accepts, rule, value, [*path, meant.name]))
    elif not path and known and not any(one in known for one in sent):
        mend = f"its fields are {', '.join(known)}; check the path too, because nothing else was sent"
    else:
        mend = "leave it out"
    return f"{plain_name(name)} is not a field of this object: {mend}"


def _object_branch(error: Any) -> list[Any] | None:
    """The errors of the one alternative that an object is meant for; None for another error or value."""
    branches: list[list[Any]] | None = getattr(error.kind, "context", None)
    if not branches or not isinstance(error.instance, dict):
        return None
    path = list(error.instance_path)
    of_object = [
        branch
        for branch in branches
        if not any(one.kind.name in {"type", "enum", "const"} and list(one.instance_path) == path for one in branch)
    ]
    return of_object[0] if len(of_object) == 1 else None


def _schema_at(schema: Mapping[str, Any], names: list[str]) -> Mapping[str, Any]:
    """The schema of the value at a path, through the one alternative with properties where there are alternatives;
    empty where the spec says nothing about it."""
    for name in names:
        known = with_properties(schema)
        others = schema.get("items", known.get("additionalProperties"))
        beneath = known.get("properties", {}).get(name, others)
        if not isinstance(beneath, Mapping):
            return {}
        schema = beneath
    return schema


def declared_fields(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The fields of an object of this schema, schemas by name. One whose schema is `false` is none."""
    declared = with_properties(schema).get("properties", {})
    return {name: one for name, one in declared.items() if isinstance(one, Mapping)}


def with_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, or the one alternative of it that has properties."""
    found = [one for one in schema.get("anyOf", ()) if isinstance(one, Mapping) and "properties" in one]
    return found[0] if "properties" not in schema and len(found) == 1 else schema


def _at(value: Any, path: list[Any]) -> Any:
    for step in path:
        value = value[step]
    return value


def _accepts(rule: Rule, value: Any, path: list[Any], candidate: Any) -> bool:
    """Whether the value has no violation at `path` once the candidate stands there."""
    changed = _replaced(value, path, candidate)
    return rule.validator.is_valid(changed) or all(
        wrong != path for error in several_errors(rule.validator, changed) for wrong in _error_paths(error)
    )


def _error_paths(error: Any) -> Iterator[list[Any]]:
    """The paths of an error: of one in an alternative that is an object, those inside the object."""
    branch = _object_branch(error)
    if branch is None:
        yield list(error.instance_path)
    else:
        for inner in branch:
            yield from _error_paths(inner)


def _replaced(value: Any, path: list[Any], candidate: Any) -> Any:
    if not path:
        return candidate
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], candidate) if path[1:] else candidate
    return copy
