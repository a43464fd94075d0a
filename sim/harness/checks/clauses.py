"""Clauses: the entry of DECISIONS.md, or else the place of the document, that decides a member or a header."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from leyden.harness.checks.violations import ContractViolation, difference, same_json
from leyden.server.contract.json_pointer import child, split_pointer
from leyden.world.config import packaged_contract

DOCUMENT = "charges.openapi.yaml"
ANSWERS = f"{DOCUMENT}#/paths"  # of each operation: the statuses and the media types of its answers
# Where the entry that a member of the document names is about its presence, or where it names none.
_ENTRIES: Mapping[tuple[str, ...], str] = {
    ("amount",): "amounts", ("minAmount",): "amounts", ("maxAmount",): "amounts", ("unit",): "client-fields",
    ("createdAt",): "timestamps", ("invoice", "expiresAt"): "timestamps",
}  # fmt: skip
_GIVEN = "not-given"  # decides null and "" only


def same_resource(expected: Mapping[str, Any], observed: Any, check: str, where: str) -> None:
    """A resource is as expected; otherwise the violation has the clause of the first member that differs."""
    if same_json(expected, observed):
        return
    wanted, found = difference(expected, observed)
    raise ContractViolation(check, clause(expected, wanted, found), where, wanted, found)


def clause(resource: Mapping[str, Any], wanted: Any, found: Any) -> str:
    """The clause of the first member by which two forms of a resource differ, as `difference` has them."""
    kind = "StaticCharge" if "slots" in resource else "Charge"
    if not isinstance(found, Mapping):
        return f"{DOCUMENT}#/components/schemas/{kind}"
    path: tuple[str, ...] = ()
    while isinstance(wanted, Mapping) and isinstance(found, Mapping) and wanted:
        name = next(iter(wanted))
        path, wanted, found = (*path, name), wanted[name], found[name]
    return _of_member(kind, path, is_absent=wanted in (None, "") or found in (None, ""))


def header_clause(wanted: Mapping[str, str], found: Mapping[str, Any]) -> str:
    """The clause of the first header of a callback that differs."""
    name = next((one for one in {**wanted, **found} if wanted.get(one) != found.get(one)), "")
    if name == "content-type":
        return "callback-body"
    parameters = packaged_contract("charges").document["components"]["parameters"]
    places = {parameter["name"].lower(): place for place, parameter in parameters.items()}
    place = places.get(name) if name.startswith("leyden-") else None
    return "callback-signature" if place is None else f"{DOCUMENT}#/components/parameters/{place}"


@lru_cache(maxsize=256)
def _of_member(kind: str, path: tuple[str, ...], *, is_absent: bool) -> str:
    entry = _ENTRIES.get(path)
    if path == ("expiresAt",) and kind == "Charge":
        entry = "timestamps"
    if path == ("invoice", "request") and kind == "StaticCharge":
        entry = "lnurl-pay"
    if entry is not None:
        return entry
    document = packaged_contract("charges").document
    place, schema = f"/components/schemas/{kind}", document["components"]["schemas"][kind]
    for name in path:
        if name not in schema.get("properties", {}):
            break  # a member that the schema does not have
        place, schema = f"{place}/properties{child('', name)}", schema["properties"][name]
        if "x-decision" in schema and (schema["x-decision"] != _GIVEN or is_absent):
            return str(schema["x-decision"])
        if "$ref" in schema and name != path[-1]:
            place = schema["$ref"].removeprefix("#")
            schema = at_pointer(place) or {}
    return f"{DOCUMENT}#{place}"


def at_pointer(pointer: str) -> Any:
    """The value at a JSON pointer in the packaged document; None if it has none there."""
    value: Any = packaged_contract("charges").document
    for name in split_pointer(pointer):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
