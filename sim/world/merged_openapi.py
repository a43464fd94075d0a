"""The merged document: the service's specification with control operations, linked from creation to payment.

With it a stock tool that follows links reaches what it cannot reach otherwise: completed, expired, failed and disabled
resources, and their callbacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_ID = {"id": "$response.body#/data/id"}
# The body of a link is the whole body, and is not merged into one that Schemathesis generates.
_WHOLE: Json = {"x-schemathesis": {"merge_body": False}}


def _pay(request: str, **how: str) -> Json:
    return {"operationId": "createPayment", "requestBody": {"request": request, **how}, **_WHOLE}


_INVOICE = "$response.body#/data/invoice/request"
_END = "$response.body#/data/expiresAt"
_SEE: Mapping[str, Json] = {
    "seeCallbacks": {"operationId": "listDeliveries", "parameters": {"chargeId": "$response.body#/data/id"}}
}
_LINKS: Mapping[tuple[str, str], Mapping[str, Json]] = {
    ("/v0/charges", "post"): {
        "payIt": _pay(_INVOICE),
        "holdIt": _pay(_INVOICE, outcome="hold"),
        "loseIt": {"operationId": "failCharge", "parameters": _ID, "requestBody": {}, **_WHOLE},
        "letItExpire": {"operationId": "advanceClock", "requestBody": {"to": _END}, **_WHOLE},
        **_SEE,
    },
    ("/v0/static-charges", "post"): {
        "payIt": _pay(_INVOICE),
        "leaveOneSlot": {
            "operationId": "updateStaticCharge", "parameters": _ID, "requestBody": {"allowedSlots": 1}, **_WHOLE
        },
        **_SEE,
    },
    ("/v0/static-charges/{id}", "patch"): {"payIt": _pay(_INVOICE)},
    ("/lnurlp/{id}/invoice", "get"): {"payIt": _pay("$response.body#/pr")},
}  # fmt: skip
# Of the control plane only what makes something happen to a Charge, or shows it: the more a tool has to choose from,
# the less it gets done; and a fresh world would undo its work, a new key lock it out.
CONTROL_OPERATIONS = frozenset(
    {"createPayment", "listPayments", "getPayment", "settlePayment", "failCharge", "advanceClock"}
    | {"listDeliveries", "getDelivery"}
)
# The patterns of what can be paid, as one. By the same pattern in an answer and in a request Schemathesis knows what to
# fill in.
_PAYABLE = "^ln(?:bcrt|url1)[0-9a-z]+$"
# Where the merged document's examples have their callbacks sent: to a receiver that is there.
_INBOX = "http://shop.inbox.localhost"


def merged(service: Mapping[str, Any], sandbox: Mapping[str, Any]) -> Json:
    """One OpenAPI document of two, with the operations of `CONTROL_OPERATIONS`.

    Components of the control plane get the prefix `Sandbox`; components that no operation uses are left out. What is
    valid by this document is valid by the two; it does not have everything that the control operations accept.
    """
    mine = service.get("components", {})
    theirs = _renamed(sandbox, mine.get("securitySchemes", {}))
    components: Json = {}
    for kind in {**mine, **theirs["components"]}:
        components[kind] = {**mine.get(kind, {}), **theirs["components"].get(kind, {})}
    components["examples"] = {name: _at_home(example) for name, example in components.get("examples", {}).items()}
    schemas = components["schemas"]
    if "PaymentRequest" in schemas:
        schemas["PaymentRequest"] = _payable(schemas["PaymentRequest"])
    shown = schemas.get("StaticChargeInvoice", {})
    if "request" in shown.get("properties", {}):
        named = {**shown["properties"], "request": _payable(shown["properties"]["request"])}
        schemas["StaticChargeInvoice"] = {**shown, "properties": named}
    paths: Json = {**service["paths"], **_control_paths(theirs["paths"], schemas)}
    known = {name for item in paths.values() for name in _names(item)}
    for path, item in paths.items():
        linked = {}
        for method, operation in _operations(item).items():
            answer = operation["responses"].get("200")
            if answer is not None:
                links = {**answer.get("links", {}), **_LINKS.get((path, method), {})}
                links = {name: link for name, link in links.items() if _target(link, components) in known}
                responses = {**operation["responses"], "200": {**answer, "links": links}}
                linked[method] = {**operation, "responses": responses}
        paths[path] = {**item, **linked}
    tags = [*service.get("tags", ()), *theirs.get("tags", ())]
    return _without_unused({**service, "paths": paths, "components": components, "tags": tags})


def _without_unused(document: Json) -> Json:
    """The document with the tags and components alone that its operations use."""
    operations = [operation for item in document["paths"].values() for operation in _operations(item).values()]
    tags = {tag for operation in operations for tag in operation.get("tags", ())}
    components = document["components"]
    used: set[tuple[str, str]] = set()
    waiting: list[Any] = [document["paths"]]
    while waiting:
        for kind, name in _referenced(waiting.pop()) - used:
            used.add((kind, name))
            # In the value of an example `$ref` is data and leads nowhere.
            waiting.append(components.get(kind, {}).get(name))
    kept = {
        kind: {name: part for name, part in parts.items() if kind == "securitySchemes" or (kind, name) in used}
        for kind, parts in components.items()
    }
    return {**document, "components": kept, "tags": [tag for tag in document["tags"] if tag["name"] in tags]}


def _referenced(value: Any) -> set[tuple[str, str]]:
    """Kind and name of each component to which the value refers."""
    found: set[tuple[str, str]] = set()
    if isinstance(value, Mapping):
        parts = str(value.get("$ref", "")).split("/")
        if len(parts) >= 4 and parts[:2] == ["#", "components"]:
            found.add((parts[2], parts[3]))
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        found |= _referenced(inner)
    return found


def _control_paths(paths: Json, schemas: Json) -> Json:
    """The paths with control operations alone, with those parts of their requests that are useful to a tool.

    Time passes from event to event: by spans of any length a tool soon reaches the end of time, and stays there.
    """
    found = {path: item for path, item in paths.items() if all(name in CONTROL_OPERATIONS for name in _names(item))}
    advance, order = schemas.get("SandboxAdvance", {}), schemas.get("SandboxPaymentOrder", {})
    request = order.get("properties", {}).get("request", {})
    either = [{"type": "string", "pattern": _PAYABLE}, {"type": "string", "minLength": 1, "maxLength": 4096}]
    texts = {"description": request.get("description", ""), "anyOf": either}
    ends = {"type": "string", "enum": ["settle", "hold"], "default": "settle"}
    steps = {"until": {"type": "string", "enum": ["next_event"]}}
    plain = {"plain": {"$ref": "#/components/examples/SandboxPaymentOrderPlain"}}
    step = {"step": {"summary": "Through the next instant at which an event is due", "value": {"until": "next_event"}}}
    for path, schema, examples in (
        ("/sandbox/v1/payments", {**order, "properties": {"request": texts, "outcome": ends}}, plain),
        ("/sandbox/v1/clock/advance", {**advance, "properties": steps}, step),
    ):
        operation = found.get(path, {}).get("post")
        if operation is None or "content" not in operation.get("requestBody", {}):
            continue
        content = {"application/json": {"schema": schema, "examples": examples}}
        body = {**operation["requestBody"], "content": content}
        found[path] = {**found[path], "post": {**operation, "requestBody": body}}
    return found


def _payable(schema: Json) -> Json:
    own = {"allOf": [{"pattern": schema["pattern"]}]} if "pattern" in schema else {}
    return {**schema, "pattern": _PAYABLE, **own}


def _at_home(example: Json) -> Json:
    """An example of a request as it leads on: with a receiver that is there, and one slot, for the first payer."""
    value = example.get("value")
    if not isinstance(value, Mapping) or "id" in value or not {"description", "allowedSlots"} & set(value):
        return example
    slots = {"allowedSlots": 1} if {"minAmount", "allowedSlots"} & set(value) else {}
    return {**example, "value": {**value, "callbackUrl": _INBOX, **slots}}


def _operations(item: Mapping[str, Any]) -> Json:
    return {name: part for name, part in item.items() if isinstance(part, Mapping) and "operationId" in part}


def _names(item: Mapping[str, Any]) -> list[str]:
    return [operation["operationId"] for operation in _operations(item).values()]


def _target(link: Mapping[str, Any], components: Json) -> Any:
    name = str(link.get("$ref", "")).rpartition("/")[2]
    return components.get("links", {}).get(name, link).get("operationId")


def _renamed(document: Mapping[str, Any], schemes: Mapping[str, Any]) -> Json:
    """The document with `Sandbox` before the name of each of its components, but for a way to introduce oneself that
    is also among `schemes`, or has another name than those."""
    others = {
        name: f"Sandbox{name}"
        for name, scheme in document["components"]["securitySchemes"].items()
        if name in schemes and schemes[name].get("name", "").lower() != scheme["name"].lower()
    }

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: named(name, item) for name, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    def named(name: str, item: Any) -> Any:
        if name == "security" and isinstance(item, list):
            return [{others.get(scheme, scheme): scopes for scheme, scopes in each.items()} for each in item]
        return _ref(item) if name == "$ref" else walk(item)

    turned: Json = walk(document)
    turned["components"] = {
        kind: {
            others.get(name, name) if kind == "securitySchemes" else f"Sandbox{name}": thing
            for name, thing in things.items()
        }
        for kind, things in turned["components"].items()
    }
    return turned


def _ref(text: Any) -> Any:
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) >= 4 and parts[:2] == ["#", "components"] and parts[2] != "securitySchemes":
        parts[3] = f"Sandbox{parts[3]}"
        return "/".join(parts)
    return text
