"""Checks the values of the `x-` keys against `specs/extensions.schema.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from leyden.server.contract.json_pointer import contract_error, descendant, quoted
from leyden.server.contract.lifecycle_rows import check_row_shapes
from leyden.server.contract.schema_errors import several_errors
from leyden.server.contract.types import Validator
from leyden.server.errors import ContractError


class Extensions:
    """Checks `x-` values. `schema` holds one entry in `$defs` for each key, under its name without the `x-`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._definitions: Mapping[str, Any] = schema["$defs"]
        self._validators: dict[str, Validator] = {}

    @classmethod
    def read(cls, text: str | bytes) -> Extensions:
        """From the text of `extensions.schema.json`."""
        try:
            return cls(json.loads(text))
        except (ValueError, KeyError, TypeError):
            raise ContractError("specs/extensions.schema.json: must be JSON with $defs; reinstall Leyden") from None

    def check(self, key: str, value: Any, location: str) -> None:
        """Raises `ContractError` naming the innermost wrong location below `location`, and what belongs there."""
        if key == "x-lifecycle":
            check_row_shapes(value, location)
        validator = self._validators.get(key) or self._compile(key)
        if validator.is_valid(value):
            return
        error = _innermost(list(several_errors(validator, value)))
        problem = error.message if len(error.message) < 120 else f"{quoted(error.instance)} does not fit"
        raise contract_error(descendant(location, error.instance_path), problem + self._meaning(error))

    def _meaning(self, error: ValidationError) -> str:
        """The description nearest above the rule that was broken: it says what a good value is."""
        node: Any = self._schema
        meaning = ""
        for step in error.schema_path:
            node = node[step]
            if isinstance(node, dict) and isinstance(node.get("description"), str):
                meaning = f"; expected: {node['description']}"
        return meaning

    def _compile(self, key: str) -> Validator:
        name = key.removeprefix("x-")
        if name not in self._definitions:
            raise ContractError(f"specs/extensions.schema.json: $defs has no {name!r}, so {key} cannot be read; add it")
        schema = {"$ref": f"#/$defs/{name}", "$defs": self._definitions}
        validator: Validator = Draft202012Validator(schema, validate_formats=True)
        self._validators[key] = validator
        return validator


def _innermost(errors: Sequence[ValidationError]) -> ValidationError:
    """The error that says most: the deepest one, looked for in the branch that fits best."""
    error = max(errors, key=lambda error: len(error.instance_path))
    branches: list[list[ValidationError]] | None = getattr(error.kind, "context", None)
    if branches:
        closest = _innermost(min(branches, key=len))
        if len(closest.instance_path) > len(error.instance_path):
            return closest
    return error
