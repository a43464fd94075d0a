"""Step generators for API clients: valid and invalid requests that create, change, read and list resources."""

from __future__ import annotations

from typing import Any

from leyden.harness.generators import bodies, existing
from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.generators.run_config import (
    RunConfig,
    by_either_project,
    random_charge,
    random_static,
)
from leyden.harness.model.model import Model
from leyden.harness.steps import Step


def create_charge(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Charge; one time in eight with an invalid body."""
    if one_in(choices, 8):
        return invalid_charge(choices, model, config)
    if len(model.ledger.charges) > 12 * config.size:
        return None
    body = existing.texts_from_rows(choices, model, bodies.charge_body(choices))
    return by_either_project(choices, {"do": "create_charge", "as": config.label("c"), "body": body})


def short_charge(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Charge with a callback that expires soon."""
    body = {"amount": pick(choices, bodies.AMOUNTS), "description": "tea", "expiresIn": pick(choices, (1, 2, 60))}
    body["callbackUrl"] = bodies.URL.format(n=1 + choices.below(3))
    return (
        {"do": "create_charge", "as": config.label("c"), "body": body}
        if len(model.ledger.charges) < 12 * config.size
        else None
    )


def invalid_charge(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Charge with one field changed or removed."""
    body = bodies.with_one_error(choices, bodies.charge_body(choices), "charge")
    return {"do": "create_charge", "as": config.label("c"), "body": body}


def create_static(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Static Charge; one time in eight with an invalid body."""
    if one_in(choices, 8):
        return invalid_static(choices, model, config)
    if len(model.ledger.static_charges) > 5 * config.size:
        return None
    body = existing.texts_from_rows(choices, model, bodies.static_body(choices))
    return by_either_project(choices, {"do": "create_static", "as": config.label("s"), "body": body})


def create_slots(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Static Charge with one or two slots."""
    if len(model.ledger.static_charges) > 3 * config.size:
        return None
    body: dict[str, Any] = {"minAmount": "1000", "maxAmount": "2000", "description": "tickets"}
    body |= {
        "allowedSlots": 1 + choices.below(2 * config.size),
        "callbackUrl": bodies.URL.format(n=1 + choices.below(3)),
    }
    if one_in(choices, 3):
        body["expiresIn"] = pick(choices, (1, 60, 300, 301))
    return {"do": "create_static", "as": config.label("s"), "body": body}


def patch_slots(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Change the slots to about the number that is used."""
    static = random_static(choices, model)
    if static is None:
        return None
    slots = pick(choices, (max(1, static.slots - 1), max(1, static.slots), static.slots + 1, None))
    return {"do": "patch", "static": static.label, "body": {"allowedSlots": slots}}


def invalid_static(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Static Charge with one field changed or removed."""
    body = bodies.with_one_error(choices, bodies.static_body(choices), "static")
    return {"do": "create_static", "as": config.label("s"), "body": body}


def patch(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Change a Static Charge."""
    static = random_static(choices, model)
    if static is None:
        return None
    body = bodies.changes(choices)
    match choices.below(8):
        case 0 | 1:
            body = bodies.with_one_error(choices, body, "changes")
        case 2:
            other = random_static(choices, model) or static
            body = {"minAmount": str(other.min_msat), "maxAmount": str(static.max_msat + pick(choices, (-1, 0, 1)))}
        case 3:
            body = existing.texts_from_rows(choices, model, body)
    return by_either_project(choices, {"do": "patch", "static": static.label, "body": body})


def get(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read a resource."""
    resource = random_charge(choices, model) if choices.below(2) else random_static(choices, model)
    return None if resource is None else {"do": "get", "what": resource.label, "by": pick(choices, ("own", "second"))}


def list_(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read a list, sometimes with filters around existing values."""
    of = pick(choices, ("charges", "statics", "children"))
    static = random_static(choices, model)
    query = dict(existing.filters(choices, model, of))
    if "limit" in query:
        query["limit"] = min(1_000, query["limit"])  # the step is for valid requests
    step: Step = {"do": "list", "of": of, "query": query}
    if of == "children":
        if static is None:
            return None
        step["static"] = static.label
        if static.project != "default":
            step["by"] = "second"
        return step
    return by_either_project(choices, step)


_LISTS = {"charges": "/v0/charges", "statics": "/v0/static-charges"}


def pages(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read all pages of a list, sometimes with a change after the first one."""
    of = pick(choices, ("charges", "statics", "children"))
    static = random_static(choices, model)
    if of == "children" and static is None:
        return None
    path = _LISTS.get(of) or f"/v0/static-charges/{{{static.label if static is not None else ''}}}/charges"
    target = f"{path}?{existing.query_of(existing.filters(choices, model, of))}".rstrip("?")
    is_second = of == "children" and static is not None and static.project != "default"
    key = "{second}" if is_second or one_in(choices, 8) else "{key}"
    step: Step = {"do": "pages", "target": target, "headers": [["apikey", key]]}
    if choices.below(2):
        makers = (create_charge, invoice, patch, create_static)
        changed = pick(choices, makers)(choices, model, config)
        step["steps"] = [] if changed is None else [changed]
    return step


_PATHS = ("/v0/charges/{{{}}}", "/v0/static-charges/{{{}}}", "/v0/static-charges/{{{}}}/charges", "/lnurlp/{{{}}}")


def request(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read what exists by an id, with near misses of the id, of the API key, of the method and of the query."""
    if not model.ledger.resources:
        return None
    label = pick(choices, model.ledger.resources).label
    target = pick(choices, _PATHS).format(label)
    match choices.below(8):
        case 0:
            target += pick(choices, ("0", "%20", "/", "%0A", "x"))
        case 1:
            target += pick(choices, ("?", "?limit=1", "?after=", "?colour=blue", "?status=pending", "?limit=-"))
    key = pick(choices, ("{key}", "{key}", "{key}", "{second}", "{key}x", "{key} ", "", "LEYDEN"))
    method = pick(choices, ("GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE", "PUT"))
    return {"do": "request", "method": method, "target": target, "headers": [["apikey", key]]}


def wallet(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read the balance."""
    return by_either_project(choices, {"do": "wallet"})


def pay_request(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read an LNURL or a Lightning address."""
    static = random_static(choices, model)
    return None if static is None else {"do": "pay_request", "static": static.label, "address": bool(choices.below(2))}


def invoice(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Request an invoice, mostly with a valid amount."""
    static = random_static(choices, model)
    if static is None or len(model.ledger.charges) > 16 * config.size:
        return None
    amounts = [str(static.min_msat), str(static.max_msat), str((static.min_msat + static.max_msat) // 2)]
    if one_in(choices, 4):
        amounts = [str(static.min_msat - 1), str(static.max_msat + 1), *bodies.INVALID_QUERY_AMOUNTS]
    step: Step = {"do": "invoice", "static": static.label, "as": config.label("c"), "amount": pick(choices, amounts)}
    match choices.below(12):
        case 9:
            step["comment"] = pick(choices, bodies.COMMENTS)
        case 10:
            step["twice"] = True
        case 11:
            del step["amount"]
    return step


def verify(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Verify a payment by LNURL."""
    children = [one for one in model.ledger.charges.values() if one.parent or one_in(choices, 4)]
    if not children:
        return None
    step: Step = {"do": "verify", "charge": pick(choices, children).label}
    static = random_static(choices, model)
    return {**step, "static": static.label} if static is not None and one_in(choices, 4) else step


def idempotent(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a resource with one of a few Idempotency-Keys."""
    kind = "charge" if choices.below(3) else "static"
    tea = [{"amount": "1000", "description": "tea"}, {"description": "tea", "amount": "1000"}]
    tips = [{"minAmount": "1000", "maxAmount": "2000", "description": "tips"}]
    tips.append({"minAmount": "2000", "maxAmount": "1000", "description": "tips"})
    bodies = [*tea, {"amount": "1001", "description": "tea"}, {"amount": "1", "description": "tea"}]
    body = pick(choices, bodies if kind == "charge" else tips)
    key = pick(choices, ("k1", "k2", "x" * 255, "x" * 256, "two words", ""))
    if one_in(choices, 3):
        key = existing.idempotency_key(choices, config) or key
    step = by_either_project(
        choices, {"do": f"create_{kind}", "as": config.label(kind[0]), "body": body, "idempotency_key": key}
    )
    config.idempotent_steps.append(step)
    return step


def repeat_idempotent(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Repeat a request that had an Idempotency-Key."""
    if not config.idempotent_steps:
        return None
    step = pick(choices, config.idempotent_steps).copy()
    if one_in(choices, 4) and step.pop("by", None) is None:
        step["by"] = "second"
    if one_in(choices, 3):
        step["body"] = existing.changed_body(choices, step["body"])
    step["as"] = config.label(step["as"][0])
    return step
