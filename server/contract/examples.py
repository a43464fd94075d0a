"""Every example and default in the document must keep the schema it stands beside: a reader will copy it."""

from __future__ import annotations

from typing import Any

from leyden.server.contract.json_pointer import child, contract_error, quoted
from leyden.server.contract.schemas import Schemas
from leyden.server.contract.validate_document import DocumentIndex


def media_examples(holder: dict[str, Any], schemas: Schemas) -> tuple[Any, ...]:
    """The example values of a media type, parameter or header, in the document's order."""
    if "example" in holder:
        return (holder["example"],)
    return tuple(schemas.resolve(example)["value"] for example in holder.get("examples", {}).values())


def check_examples(seen: DocumentIndex, schemas: Schemas) -> None:
    """Hold every example, default and `x-absent` value of the document to its schema.

    Raises `ContractError` naming the first that breaks it.
    """
    for place, holder in seen.of("mediaType", "parameter", "header"):
        if "example" in holder:
            schemas.check_value(holder["schema"], holder["example"], f"{place}/example", "example")
        for name, example in holder.get("examples", {}).items():
            value = schemas.resolve(example)["value"]
            schemas.check_value(holder["schema"], value, child(f"{place}/examples", name), "example")
    for place, schema in seen.of("schema"):
        for index, value in enumerate(schema.get("examples", ())):
            schemas.check_value(schema, value, f"{place}/examples/{index}", "example")
        if "default" in schema:
            schemas.check_value(schema, schema["default"], f"{place}/default", "default")
        for value in schema.get("x-absent", ()):
            if not schemas.validator(schema, place).is_valid(value):
                problem = (
                    f"{quoted(value)} is refused by its own schema, so it can never count as absent; allow it there"
                )
                raise contract_error(f"{place}/x-absent", problem)
