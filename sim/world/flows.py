"""The flows: the workflows of `flows.arazzo.yaml` (Arazzo 1.0) whose operations the served documents have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any

from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.errors import ContractError

_FILE = "flows.arazzo.yaml"
_OPERATION = re.compile(r"\$sourceDescriptions\.([a-z]+)\.([A-Za-z]+)")
_OUTPUT = re.compile(r"\$steps\.([A-Za-z]+)\.outputs\.([A-Za-z]+)")


def flows(service: Mapping[str, Any], sandbox: Mapping[str, Any]) -> dict[str, Any]:
    """The Arazzo document for these two OpenAPI documents. A workflow that does not fit an edited one is left out."""
    document = _document()
    known = _known(service, sandbox)
    kept = []
    for flow in document["workflows"]:
        with suppress(ContractError):
            _check(flow, known, _FILE)
            kept.append(flow)
    return {**document, "workflows": kept}


def check_flows(service: Mapping[str, Any], sandbox: Mapping[str, Any]) -> None:
    """Raise `ContractError` for the first thing that does not fit these documents: an unknown source, operation or
    parameter, or an output of no earlier step."""
    document = _document()
    known = _known(service, sandbox)
    sources = {one["name"] for one in document["sourceDescriptions"]}
    if sources != set(known):
        raise ContractError(f"{_FILE}: sourceDescriptions: the sources are {sorted(known)}, not {sorted(sources)}")
    for flow in document["workflows"]:
        _check(flow, known, f"{_FILE}: {flow['workflowId']}")


def _document() -> dict[str, Any]:
    document: dict[str, Any] = read_yaml(files("leyden.specs").joinpath(_FILE).read_bytes(), _FILE)
    return document


def _known(service: Mapping[str, Any], sandbox: Mapping[str, Any]) -> dict[str, dict[str, set[tuple[str, str]]]]:
    return {"service": dict(_operations(service)), "sandbox": dict(_operations(sandbox))}


def _check(flow: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], where: str) -> None:
    outputs: set[tuple[str, str]] = set()
    for step in flow["steps"]:
        place = f"{where}.{step['stepId']}"
        match = _OPERATION.fullmatch(step["operationId"])
        if match is None or match[2] not in known.get(match[1], {}):
            raise ContractError(f"{place}: {step['operationId']} is no operation; name one of the source's document")
        declared = known[match[1]][match[2]]
        for parameter in step.get("parameters", ()):
            if (parameter["name"], parameter["in"]) not in declared:
                raise ContractError(f"{place}: {match[2]} has no {parameter['in']} parameter {parameter['name']}")
        for used in _OUTPUT.findall(str(step)):
            if used not in outputs:
                raise ContractError(f"{place}: no earlier step {used[0]} has an output {used[1]}; declare it there")
        outputs |= {(step["stepId"], output) for output in step.get("outputs", {})}


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, set[tuple[str, str]]]]:
    """Each operation with the names and places of its parameters."""
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, Mapping) and "operationId" in operation:
                listed = [*item.get("parameters", ()), *operation.get("parameters", ())]
                found = [_resolved(one, document) for one in listed]
                yield operation["operationId"], {(one["name"], one["in"]) for one in found}


def _resolved(parameter: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in parameter:
        return parameter
    found: Mapping[str, Any] = document["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
    return found
