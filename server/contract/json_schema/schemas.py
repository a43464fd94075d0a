"""Compiled schemas: references resolved, validators built once, and the checks that validators cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from leyden.server.contract.document.keywords import TYPES, fields
from leyden.server.contract.json_pointer import child, contract_error, descendant, split_pointer
from leyden.server.contract.json_schema.ecma_patterns import schema_as_validated, with_written_patterns
from leyden.server.contract.schema_errors import first_error
from leyden.server.contract.types import Path, Rule, Validator

_BELOW = {key: form for key, form in fields("schema").items() if "schema" in form}
_ANNOTATIONS = frozenset(
    {"$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
_BRANCHES = ("allOf", "anyOf", "oneOf")
_TYPE_NAMES: Mapping[type, str] = {
    type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip

Numbers = dict[Path, tuple[bool, bool]]


class LateValidator:
    """A `Validator` that is built on its first use: a valid document has many, and few are used soon."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    @cached_property
    def is_valid(self) -> Callable[[Any], bool]:
        """`Validator.is_valid`, kept as an attribute: later calls go to the built validator directly."""
        return self._built.is_valid

    @cached_property
    def iter_errors(self) -> Callable[[Any], Any]:
        """`Validator.iter_errors`, as `is_valid`."""
        return self._built.iter_errors

    @cached_property
    def validate(self) -> Callable[[Any], None]:
        """`Validator.validate`, as `is_valid`."""
        return self._built.validate

    @cached_property
    def _built(self) -> Validator:
        built: Validator = Draft202012Validator(schema_as_validated(self._schema), validate_formats=True)
        return built


class Schemas:
    """The schemas of one document. Each is written out and compiled at most once, however often it is referred to.

    The validators of a document that `is_checked` are built on their first use.
    """

    def __init__(self, document: Mapping[str, Any], root: str, *, is_checked: bool = False) -> None:
        self._is_checked = is_checked
        self._document = document
        self._root = root
        self._targets: dict[str, Any] = {}
        self._open: list[str] = []
        self._inlined: dict[int, dict[str, Any]] = {}
        self._rules: dict[int, Rule] = {}
        self._validators: dict[int, Validator] = {}

    def resolve(self, node: Any) -> dict[str, Any]:
        """The target of a node that is not a schema: the node itself, or the target of its `$ref`."""
        found: dict[str, Any] = self._target(node["$ref"]) if "$ref" in node else node
        return found

    def place(self, node: Mapping[str, Any], location: str) -> str:
        """Where what a node stands for is written: at `location`, or where its `$ref` leads to."""
        return self._root + node["$ref"][1:] if "$ref" in node else location

    def inline(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with every `$ref` below it written out. Equal parts are shared, so nothing may change them.

        Raises `ContractError` for a schema that contains itself: it has no finite form.
        """
        done = self._inlined.get(id(schema))
        if done is None:
            done = self._inlined[id(schema)] = self._written_out(schema)
        return done

    def rule(self, schema: dict[str, Any], location: str) -> Rule:
        """The compiled schema. Raises `ContractError` when the validator cannot be built."""
        inlined = self.inline(schema)
        rule = self._rules.get(id(inlined))
        if rule is None:
            rule = Rule(inlined, self.validator(schema, location), integer_paths(inlined))
            self._rules[id(inlined)] = rule
        return rule

    def validator(self, schema: dict[str, Any], location: str) -> Validator:
        """Only the validator of `rule`."""
        inlined = self.inline(schema)
        validator = self._validators.get(id(inlined))
        if validator is None and self._is_checked:
            validator = self._validators[id(inlined)] = LateValidator(inlined)
        if validator is None:
            try:
                validator = Draft202012Validator(schema_as_validated(inlined), validate_formats=True)
            except ValidationError as error:
                is_repeated = error.kind.name == "uniqueItems"
                mend = "list each one once" if is_repeated else "correct it, or leave it out"
                raise contract_error(
                    descendant(location, error.instance_path),
                    f"not a usable schema: {with_written_patterns(error.message)}; {mend}",
                ) from None
            self._validators[id(inlined)] = validator
        return validator

    def check_value(self, schema: dict[str, Any], value: Any, location: str, noun: str) -> None:
        """An example or default must keep its own schema. Raises `ContractError` saying where it does not."""
        validator = self.validator(schema, location)
        error = first_error(validator, value)
        if error is None:
            return
        # The value is at the beginning of the message, and what is wrong with it at the end.
        message = with_written_patterns(error.message)
        problem = message if len(message) <= 200 else f"{message[:60]}...{message[-120:]}"
        inside = descendant("", error.instance_path)
        raise contract_error(
            location,
            f"the {noun} breaks its own schema{' at ' + inside if inside else ''}: {problem}; correct one of them, or"
            f" leave the {noun} out",
        )

    def excluded_at(self, schema: Any, path: tuple[str, ...], value: str, location: str) -> str | None:
        """The location of the first part of a schema that excludes `value` at this property path, as far as enums and
        consts say; None if it is allowed. `location` is that of the schema."""
        if type(schema) is bool:
            return None if schema else location
        if not path and (value not in schema.get("enum", [value]) or schema.get("const", value) != value):
            return location
        for word in ("anyOf", "oneOf"):
            if word in schema and all(self.excluded_at(part, path, value, location) for part in schema[word]):
                return f"{location}/{word}"
        every = [(part, f"{location}/allOf/{index}") for index, part in enumerate(schema.get("allOf", ()))]
        if path and path[0] in schema.get("properties", {}):
            found = self.excluded_at(
                schema["properties"][path[0]], path[1:], value, child(f"{location}/properties", path[0])
            )
            if found is not None:
                return found
        if "$ref" in schema:
            every.append((self.resolve(schema), self.place(schema, location)))
        return next((found for part, at in every if (found := self.excluded_at(part, path, value, at))), None)

    def _target(self, target: str) -> Any:
        found: Any = self._targets.get(target)
        if found is None:
            found = self._document
            for token in split_pointer(target):
                found = found[int(token) if isinstance(found, list) else token]
            self._targets[target] = found
        return found

    def _written_out(self, schema: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for key, value in schema.items():
            form = _BELOW.get(key)
            if form is None or type(value) is bool:
                continue
            if form[0] == "{":
                # true is the schema {}; false says that there is no such property.
                changed[key] = {
                    name: self.inline({} if item is True else item) if item is not False else False
                    for name, item in value.items()
                }
            elif form[0] == "[":
                changed[key] = [self.inline(item) for item in value]
            else:
                changed[key] = self.inline(value)
        target = schema.get("$ref")
        if target is None:
            return {**schema, **changed} if changed else schema
        if target in self._open:
            chain = " and ".join(self._open[self._open.index(target) :])
            raise contract_error(
                self.place(schema, ""), f"contains itself, by way of {chain}; such schemas are not served"
            )
        self._open.append(target)
        referred = self.inline(self._target(target))
        self._open.pop()
        beside = {key: value for key, value in {**schema, **changed}.items() if key != "$ref"}
        if all(key in _ANNOTATIONS or key.startswith("x-") for key in beside):
            return {**referred, **beside} if beside else referred
        return {**beside, "allOf": [referred, *beside.get("allOf", ())]}


def media_examples(holder: Mapping[str, Any], schemas: Schemas) -> tuple[Any, ...]:
    """The example values of a media type, parameter or header, in the document's order."""
    if "example" in holder:
        return (holder["example"],)
    return tuple(schemas.resolve(example)["value"] for example in holder.get("examples", {}).values())


def parts(schema: Mapping[str, Any], *, branches: tuple[str, ...] = _BRANCHES) -> Iterator[Mapping[str, Any]]:
    """The written-out schema itself and, below it, every schema that speaks of the same value."""
    yield schema
    for word in branches:
        for part in schema.get(word, ()):
            yield from parts(part, branches=branches)


def properties(schema: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The declared top-level property names of a written-out schema, each with every schema that speaks of it."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts(schema):
        for name, value in part.get("properties", {}).items():
            if value is not False:  # `name: false` says that the name is not there
                found.setdefault(name, []).extend(parts({} if value is True else value))
    return found


def always_there(schema: Mapping[str, Any], name: str) -> bool:
    """Whether every valid object has the property, by the `required` of a written-out schema."""
    if name in schema.get("required", ()) or any(always_there(part, name) for part in schema.get("allOf", ())):
        return True
    return any(word in schema and all(always_there(part, name) for part in schema[word]) for word in ("anyOf", "oneOf"))


def value_types(schema: Any, name: str | None = None) -> frozenset[str]:
    """The JSON types that a written-out schema allows, or those of the property `name` of an object, as far as `type`,
    `enum`, `const` and the words that join schemas say. A number that may have a fraction is a `number`."""
    if type(schema) is bool:
        return TYPES if schema else frozenset()
    if name is None:
        found = _own_types(schema)
    else:
        found = value_types(schema["properties"][name]) if name in schema.get("properties", {}) else TYPES
    for part in schema.get("allOf", ()):
        found &= value_types(part, name)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found &= frozenset[str]().union(*(value_types(part, name) for part in schema[word]))
    return found


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type", TYPES)
    found = frozenset([named] if isinstance(named, str) else named)
    if "number" in found:
        found |= {"integer"}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return found if values is None else found & {_type_of(value) for value in values}


def _type_of(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPE_NAMES[type(value)]


def integer_paths(schema: Mapping[str, Any]) -> tuple[Path, ...]:
    """The property paths of a written-out schema where a number may stand, but only a whole one; None in a path stands
    for each item of an array."""
    return tuple(path for path, (whole, fraction) in _numbers(schema).items() if path and whole and not fraction)


def _numbers(schema: Mapping[str, Any]) -> Numbers:
    """For each property path, whether it allows (whole numbers, fractions). A path that is not a key allows both."""
    found: Numbers = {(): _own_numbers(schema)}
    for name, value in schema.get("properties", {}).items():
        for path, allowed in _numbers({} if type(value) is bool else value).items():
            found[(name, *path)] = allowed
    if isinstance(schema.get("items"), Mapping):
        for path, allowed in _numbers(schema["items"]).items():
            found[(None, *path)] = allowed
    for part in schema.get("allOf", ()):
        _narrow(found, _numbers(part))
    for word in ("anyOf", "oneOf"):
        if word in schema:
            branches = [(_numbers(branch), branch) for branch in schema[word]]
            paths = dict.fromkeys(path for numbers, _ in branches for path in numbers)
            # A branch that no object (no array) fits says nothing about what stands below one.
            either: Numbers = {}
            for path in paths:
                pairs = [numbers.get(path, (True, True)) for numbers, branch in branches if _reaches(branch, path)]
                either[path] = (any(whole for whole, _ in pairs), any(fraction for _, fraction in pairs))
            _narrow(found, either)
    return found


def _narrow(found: Numbers, further: Numbers) -> None:
    for path, (whole, fraction) in further.items():
        old_whole, old_fraction = found.get(path, (True, True))
        found[path] = (old_whole and whole, old_fraction and fraction)


def _own_numbers(schema: Mapping[str, Any]) -> tuple[bool, bool]:
    named = schema.get("type", "number")
    types = {named} if isinstance(named, str) else set(named)
    whole, fraction = bool(types & {"integer", "number"}), "number" in types
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        whole = whole and any(number == int(number) for number in numbers)
        fraction = fraction and any(number != int(number) for number in numbers)
    return whole, fraction


def _reaches(schema: Mapping[str, Any], path: Path) -> bool:
    if not path:
        return True
    kind = "array" if path[0] is None else "object"
    if "const" in schema:
        return isinstance(schema["const"], list if path[0] is None else dict)
    named = schema.get("type", kind)
    return named == kind or kind in named
