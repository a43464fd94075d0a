"""Validation of a value against a rule of the spec, with one `FieldError` per wrong field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.server.contract.types import Body, Parameter, Path, Rule
from leyden.server.errors import FieldError

_MAX_LENGTH = 300
_MAX_ERRORS = 20

_DIGITS = frozenset("0123456789")


def find_errors(rule: Rule, value: Any, root: str = "") -> list[FieldError]:
    """The violations of `rule` in `value`, at most twenty; empty when it is valid.

    Pointers are RFC 6901, prefixed with `root`. The detail is the schema's `x-expect`, or else the validator's message.
    """
    found: list[FieldError] = []
    if not rule.validator.is_valid(value):
        for error in rule.validator.iter_errors(value):
            # Two keywords can report the same violation: `pattern` and `format` of one text.
            found.extend(one for one in _field_errors(rule, error, root) if one not in found)
            if len(found) >= _MAX_ERRORS:
                break
    return found[:_MAX_ERRORS]


def integers_with_point(rule: Rule, value: Any) -> list[FieldError]:
    """Integers written with a decimal point: for JSON Schema 600.0 is an integer, so no schema can reject it."""
    found = []
    for path in rule.integers:
        values = [(f"/{path[0]}", value.get(path[0]))] if len(path) == 1 else _values_at(value, path)
        for pointer, number in values:
            if isinstance(number, float):
                found.append(FieldError(pointer, f"write {number:.0f} without a decimal point"))
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
    invalid."""
    if parameter.kind == "integer" and 0 < len(text) <= 18 and _DIGITS.issuperset(text.removeprefix("-")):
        return int(text) if text != "-" else text
    if parameter.kind == "boolean" and text in {"true", "false"}:
        return text == "true"
    return text


def _values_at(value: Any, path: Path, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The values at a path with their JSON pointers: none, one, or one for each item of an array."""
    if not path:
        yield pointer, value
    elif path[0] is None:
        for place, item in enumerate(value if isinstance(value, list) else ()):
            yield from _values_at(item, path[1:], f"{pointer}/{place}")
    elif isinstance(value, dict) and path[0] in value:
        yield from _values_at(value[path[0]], path[1:], f"{pointer}/{path[0]}")


def _field_errors(rule: Rule, error: Any, root: str) -> list[FieldError]:
    path = [str(step) for step in error.instance_path]
    pointer = root + "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
    kind = error.kind.name
    if kind == "required":
        name = error.kind.property
        return [
            FieldError(f"{pointer}/{name}", f"{name} is missing{_expectation(rule.schema, [*path, name], '; send ')}")
        ]
    if kind == "additionalProperties":
        return [
            FieldError(f"{pointer}/{name}"[:_MAX_LENGTH], f"{name[:60]} is not a field of this object: leave it out")
            for name in error.kind.unexpected
        ]
    message = _expectation(rule.schema, path, "expected ") or error.message
    return [FieldError(pointer[:_MAX_LENGTH], message[:_MAX_LENGTH])]


def _expectation(schema: Mapping[str, Any], path: list[str], before: str) -> str:
    """The `x-expect` of the schema at `path`, after `before`; empty without one."""
    for step in path:
        beneath = schema.get("properties", {}).get(step, schema.get("items"))
        if not isinstance(beneath, Mapping):
            return ""
        schema = beneath
    expect = schema.get("x-expect")
    return f"{before}{expect}" if expect else ""
