"""Requests of Leyden's own clients over HTTP in the document of a server, which may have other paths and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leyden.server.contract.paths import VARIABLE, path_values

DOCUMENT_PATH = "/openapi.json"
JSON = "application/json"
REFUSED = frozenset({404, 405, 415})  # how a server answers a request that its document has elsewhere, or otherwise
_PACKAGED = {  # the operations of the packaged document that the clients use
    ("POST", "/v0/charges"): "createCharge",
    ("GET", "/v0/charges"): "listCharges",
    ("GET", "/v0/charges/{id}"): "getChargeDetails",
    ("POST", "/v0/static-charges"): "createStaticCharge",
    ("GET", "/v0/static-charges"): "listStaticCharges",
    ("GET", "/v0/static-charges/{id}"): "getStaticChargeDetails",
    ("PATCH", "/v0/static-charges/{id}"): "updateStaticCharge",
    ("GET", "/v0/static-charges/{id}/charges"): "listStaticChargeCharges",
    ("GET", "/v0/wallet"): "getWallet",
}


class ServedRequest(NamedTuple):
    """The method and the target of a request, and the media type of its body."""

    method: str
    target: str
    media_type: str = JSON


def is_of_service(target: str) -> bool:
    """Whether the document of the service, and not that of the control plane, has a path."""
    return not target.startswith("/sandbox/v1") and target != DOCUMENT_PATH


def served_request(document: Any, method: str, target: str) -> ServedRequest:
    """The request as a document has it: at its own path, and else at that of the operation which the packaged document
    has there. A request that it does not have, or a document of another form, leaves it unchanged."""
    given = ServedRequest(method, target)
    try:
        return _found(document, method.upper(), target) or given
    except (AttributeError, LookupError, TypeError, ValueError):
        return given


def differences_of_requests(document: Any, packaged: Mapping[str, Any]) -> list[str]:
    """What a request of the packaged document is not in another one, one text for each operation: its path, its media
    type or the header of its key."""
    found = []
    for path, item in packaged["paths"].items():
        for method, one in item.items():
            if not isinstance(one, dict) or "operationId" not in one:
                continue
            name = one["operationId"]
            there = document["paths"].get(path)
            served = there.get(method) if isinstance(there, dict) else None
            if not isinstance(served, dict) or served.get("operationId") != name:
                found.append(f"its document has no {name} at {method.upper()} {path}")
            elif (media_type := served_request(document, method, path).media_type) != JSON:
                found.append(f"the body of {name} is {media_type}, not {JSON}")
    header = _key_header(document)
    if header != _key_header(packaged):
        found.append(f"its key is in the header {header}, not {_key_header(packaged)}")
    return found


def _key_header(document: Any) -> str | None:
    """The header of the key, in lower case; None where a document names none."""
    try:
        (scheme,) = document["components"]["securitySchemes"].values()
        return str(scheme["name"]).lower()
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _found(document: Mapping[str, Any], method: str, target: str) -> ServedRequest | None:
    path, mark, query = target.partition("?")
    operations = [
        (verb.upper(), template, one)
        for template, item in document["paths"].items()
        for verb, one in item.items()
        if isinstance(one, dict) and "operationId" in one
    ]
    for verb, template, one in sorted(operations, key=lambda found: found[1].count("{")):
        if verb == method and path_values(template, path) is not None:
            return ServedRequest(method, target, _media_type(document, one))
    fitting = ((template, name) for (verb, template), name in _PACKAGED.items() if verb == method)
    packaged = next((each for each in fitting if path_values(each[0], path) is not None), None)
    served = next((each for each in operations if packaged is not None and each[2]["operationId"] == packaged[1]), None)
    if packaged is None or served is None:
        return None
    values = iter(path_values(packaged[0], path) or ())
    served_path = VARIABLE.sub(lambda name: next(values, name[0]), served[1])
    return ServedRequest(served[0], f"{served_path}{mark}{query}", _media_type(document, served[2]))


def _media_type(document: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {})
    if "$ref" in body:
        body = document["components"]["requestBodies"][body["$ref"].rpartition("/")[2]]
    found = [str(one) for one in body.get("content", ())]
    return JSON if JSON in found or not found else found[0]
