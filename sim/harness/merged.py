"""The merged document: the service's specification and the sandbox's in one, with links from creating to paying.

With it a stock tool that follows links reaches what it never could by itself: completed, expired, failed, disabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_CHARGE_LINKS: Mapping[str, Json] = {
    "payIt": {"operationId": "createPayment", "requestBody": {"request": "$response.body#/data/invoice/request"}},
    "holdIt": {
        "operationId": "createPayment",
        "requestBody": {"request": "$response.body#/data/invoice/request", "outcome": "hold"},
    },
    "loseIt": {"operationId": "failCharge", "parameters": {"id": "$response.body#/data/id"}, "requestBody": {}},
    "letItExpire": {"operationId": "advanceClock", "requestBody": {"to": "$response.body#/data/expiresAt"}},
    "seeCallbacks": {"operationId": "listDeliveries", "parameters": {"chargeId": "$response.body#/data/id"}},
}
_LINKS: Mapping[tuple[str, str], Mapping[str, Json]] = {
    ("/v0/charges", "post"): _CHARGE_LINKS,
    ("/v0/static-charges", "post"): {
        "payIt": {"operationId": "createPayment", "requestBody": {"request": "$response.body#/data/invoice/request"}},
    },
    ("/lnurlp/{id}/invoice", "get"): {
        "payIt": {"operationId": "createPayment", "requestBody": {"request": "$response.body#/pr"}},
    },
}


def merged(service: Mapping[str, Any], sandbox: Mapping[str, Any]) -> Json:
    """One OpenAPI document of two. What both have a name for in their components is told apart by `Sandbox`."""
    theirs = _renamed(sandbox)
    paths: Json = {**service["paths"], **theirs["paths"]}
    for (path, method), links in _LINKS.items():
        if path not in paths or method not in paths[path]:
            continue
        operation = paths[path][method]
        answer = operation["responses"]["200"]
        linked = {**answer, "links": {**answer.get("links", {}), **links}}
        responses = {**operation["responses"], "200": linked}
        paths[path] = {**paths[path], method: {**operation, "responses": responses}}
    components: Json = {}
    for kind in {**service["components"], **theirs["components"]}:
        components[kind] = {**service["components"].get(kind, {}), **theirs["components"].get(kind, {})}
    return {**service, "paths": paths, "components": components, "tags": [*service["tags"], *theirs["tags"]]}


def _renamed(document: Mapping[str, Any]) -> Json:
    """The document with `Sandbox` before the name of each of its components, but for the way to introduce oneself."""

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: _ref(item) if name == "$ref" else walk(item) for name, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    turned: Json = walk(document)
    turned["components"] = {
        kind: things if kind == "securitySchemes" else {f"Sandbox{name}": thing for name, thing in things.items()}
        for kind, things in turned["components"].items()
    }
    return turned


def _ref(text: Any) -> Any:
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) >= 4 and parts[:2] == ["#", "components"] and parts[2] != "securitySchemes":
        parts[3] = f"Sandbox{parts[3]}"
        return "/".join(parts)
    return text
