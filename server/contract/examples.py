"""Checks that every example and default in the document is valid for its own schema."""

from __future__ import annotations

from leyden.server.contract.document.validate_document import DocumentIndex
from leyden.server.contract.json_pointer import child, contract_error, quoted
from leyden.server.contract.json_schema.schemas import Schemas


def check_examples(seen: DocumentIndex, schemas: Schemas) -> None:
    """Hold every example, default and `x-absent` value of the document to its schema.

    Raises `ContractError` naming the first that breaks it.
    """
    for location, holder in seen.of("mediaType", "parameter", "header"):
        if "example" in holder:
            schemas.check_value(holder["schema"], holder["example"], f"{location}/example", "example")
        for name, example in holder.get("examples", {}).items():
            value = schemas.resolve(example)["value"]
            schemas.check_value(holder["schema"], value, child(f"{location}/examples", name), "example")
    for location, schema in seen.of("schema"):
        for index, value in enumerate(schema.get("examples", ())):
            schemas.check_value(schema, value, f"{location}/examples/{index}", "example")
        if "default" in schema:
            schemas.check_value(schema, schema["default"], f"{location}/default", "default")
        for value in schema.get("x-absent", ()):
            if not schemas.validator(schema, location).is_valid(value):
                problem = (
                    f"{quoted(value)} is refused by its own schema, so it can never count as absent; allow it there"
                )
                raise contract_error(f"{location}/x-absent", problem)
