"""The document of the control plane beside an edited charge service: it shows Charges as the service does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.contract.compile import compile_contract
from leyden.server.contract.json_schema.schemas import LateValidator, properties
from leyden.server.contract.types import Contract

_SHOWN_BY = ("getChargeDetails", "createCharge")  # the operations of the service that answer one Charge
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependentRequired"})
_VALUES = frozenset({"enum", "const", "default", "examples"})
_REFERENCE = {"$ref": "#/components/schemas/Charge"}


def with_charges_of(service: Contract, control: Contract) -> Contract:
    """The document of the control plane with the service's schema of a Charge; examples that do not fit to it are left
    out. Without an operation that answers a Charge it is `control`."""
    shown = _charge(service)
    if shown is None:
        return control
    components = control.document["components"]
    is_valid = LateValidator(shown).is_valid
    others = {
        f"#/components/examples/{name}" for name, one in components["examples"].items() if not is_valid(one["value"])
    }
    document = {
        **control.document,
        "components": {**components, "schemas": {**components["schemas"], "Charge": shown}},
        "paths": _without(control.document["paths"], others),
    }
    return compile_contract(document, name="sandbox.openapi.yaml", extensions=None)


def _charge(service: Contract) -> dict[str, Any] | None:
    """The written-out schema of a Charge in the answers of the service, without its `x-` keys; None without one."""
    for name in _SHOWN_BY:
        operation = service.operations.get(name)
        rule = None if operation is None else operation.success.rule
        for data in [] if rule is None else properties(rule.schema).get("data", [])[:1]:
            return dict(_plain(data))
    return None


def _plain(value: Any, *, are_names: bool = False) -> Any:
    """A schema without its `x-` keys; `are_names` if the keys are names of properties."""
    if isinstance(value, Mapping):
        return {
            key: item if key in _VALUES and not are_names else _plain(item, are_names=key in _NAMED and not are_names)
            for key, item in value.items()
            if are_names or not key.startswith("x-")
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _without(node: Any, others: set[str]) -> Any:
    """The node without these examples of Charges."""
    if isinstance(node, list):
        return [_without(item, others) for item in node]
    if not isinstance(node, Mapping):
        return node
    found = {key: _without(item, others) for key, item in node.items()}
    if found.get("schema") == _REFERENCE and "examples" in found:
        found["examples"] = {name: one for name, one in found["examples"].items() if one.get("$ref") not in others}
    return found
