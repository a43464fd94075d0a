"""Answers of the control plane, read by its document: what the document does not allow is named, and never used."""

from __future__ import annotations

from typing import Any

from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.target import Response
from leyden.server.contract.schema_errors import first_error
from leyden.server.contract.types import Operation
from leyden.server.printable import cut, printable
from leyden.world.config import packaged_contract

_MOST = 200  # characters of a text about a value


def wrong_form(method: str, target: str, response: Response) -> str | None:
    """What is wrong with the body of a success, by the document of the control plane; None if it is as declared, and
    for another status. `target` has the whole path, and may have a query."""
    if response.status not in (200, 201):
        return None
    operation = _operation(method, target.partition("?")[0])
    declared = None if operation is None else operation.responses.get(response.status)
    if declared is None or declared.rule is None:
        return None
    error = first_error(declared.rule.validator, response.json)
    if error is None:
        return None
    place = "/".join(["", *map(str, error.instance_path)])
    return printable(cut(f"{error.message} at {place or '/'}", _MOST))


def control_answer(name: str, method: str, target: str, response: Response) -> Any:
    """The JSON of the answer of the target with this name. Raises `TargetError` for another status than 200 and for a
    body that the document does not allow."""
    wrong = wrong_form(method, target, response)
    if response.status != 200:
        wrong = f"the status is {response.status}"
    if wrong is not None:
        raise TargetError(
            f"{name} does not answer {method} {target} as the control plane of Leyden does ({wrong}): give the URL of a"
            " served Leyden of this version and its API key, or --adapter for another implementation"
        )
    return response.json


def _operation(method: str, path: str) -> Operation | None:
    """The operation of a request; that of a fixed path comes before one with parameters."""
    parts = path.split("/")
    found = [
        one
        for one in packaged_contract("sandbox").operations.values()
        if one.method.upper() == method
        and len(names := one.path.split("/")) == len(parts)
        and all(name == part or (name.startswith("{") and part) for name, part in zip(names, parts, strict=True))
    ]
    return min(found, key=lambda one: one.path.count("{"), default=None)
