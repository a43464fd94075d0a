"""Checking a value against the contract, and saying what is wrong so that it can be mended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.server.contract.types import Body, Parameter, Path, Rule
from leyden.server.errors import FieldError

_LONGEST = 300
_MOST = 20

_WHOLE = frozenset("0123456789")


def find_errors(rule: Rule, value: Any, root: str = "") -> list[FieldError]:
    """Every way in which `value` breaks `rule`, at most twenty; empty when it keeps it.

    Pointers are RFC 6901, prefixed with `root`. A schema's `x-expect` is the mend; without it the validator's own
    words are given.
    """
    found: list[FieldError] = []
    if not rule.validator.is_valid(value):
        for error in rule.validator.iter_errors(value):
            # Two keywords may fail for one reason: `pattern` and `format` of the same text.
            found.extend(fault for fault in _explain(rule, error, root) if fault not in found)
            if len(found) >= _MOST:
                break
    return found[:_MOST]


def integers_with_point(rule: Rule, value: Any) -> list[FieldError]:
    """Integers written with a decimal point: JSON Schema takes 600.0 for an integer, so no schema can refuse it."""
    found = []
    for path in rule.integers:
        leaves = [(f"/{path[0]}", value.get(path[0]))] if len(path) == 1 else _at(value, path)
        for pointer, leaf in leaves:
            if isinstance(leaf, float):
                found.append(FieldError(pointer, f"write {leaf:.0f} without a decimal point"))
    return found[:_MOST]


def body_with_defaults(body: Body, submitted: Mapping[str, Any]) -> dict[str, Any]:
    """The body as handlers see it: the spec's defaults stand where a value is absent or spelt as not given."""
    full = dict(submitted)
    for name, default in body.defaults.items():
        if name not in full or (name in body.absent and _spells(full[name], body.absent[name])):
            full[name] = default
    return full


def _spells(value: Any, absent: tuple[Any, ...]) -> bool:
    # JSON's true is not its 1, but Python's is; hence the second look, at the few values that pass the first.
    return value in absent and any(value == spelt and type(value) is type(spelt) for spelt in absent)


def read_parameter(parameter: Parameter, text: str) -> Any:
    """A parameter's text as its JSON value; a text that is no number stays text, and breaks the rule as such."""
    if parameter.kind == "integer" and 0 < len(text) <= 18 and _WHOLE.issuperset(text.removeprefix("-")):
        return int(text) if text != "-" else text
    if parameter.kind == "boolean" and text in {"true", "false"}:
        return text == "true"
    return text


def _at(value: Any, path: Path, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """What stands at a path, with its JSON pointer: nothing, one value, or one for each item of an array."""
    if not path:
        yield pointer, value
    elif path[0] is None:
        for place, item in enumerate(value if isinstance(value, list) else ()):
            yield from _at(item, path[1:], f"{pointer}/{place}")
    elif isinstance(value, dict) and path[0] in value:
        yield from _at(value[path[0]], path[1:], f"{pointer}/{path[0]}")


def _explain(rule: Rule, error: Any, root: str) -> list[FieldError]:
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
            FieldError(f"{pointer}/{name}"[:_LONGEST], f"{name[:60]} is not a field here: leave it out")
            for name in error.kind.unexpected
        ]
    message = _expectation(rule.schema, path, "expected ") or error.message
    return [FieldError(pointer[:_LONGEST], message[:_LONGEST])]


def _expectation(schema: Mapping[str, Any], path: list[str], before: str) -> str:
    """The `x-expect` of the schema that stands for `path`, if the spec wrote one."""
    for step in path:
        beneath = schema.get("properties", {}).get(step, schema.get("items"))
        if not isinstance(beneath, Mapping):
            return ""
        schema = beneath
    words = schema.get("x-expect")
    return f"{before}{words}" if words else ""
