"""Step generators for API clients: valid and invalid requests that create, change, read and list resources."""

from __future__ import annotations

from typing import Any

from leyden.harness.generators import bodies
from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.generators.run_config import (
    RunConfig,
    by_either_project,
    random_charge,
    random_static,
)
from leyden.harness.model.model import Model
from leyden.harness.model.rules import iso
from leyden.harness.steps import Step


def create_charge(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Charge; one time in eight with an invalid body."""
    if one_in(choices, 8):
        return invalid_charge(choices, model, config)
    if len(model.ledger.charges) > 12:
        return None
    return by_either_project(
        choices, {"do": "create_charge", "as": config.label("c"), "body": bodies.charge_body(choices)}
    )


def short_charge(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Charge with a callback that expires soon."""
    body = {"amount": pick(choices, bodies.AMOUNTS), "description": "tea", "expiresIn": pick(choices, (1, 2, 60))}
    body["callbackUrl"] = bodies.URL.format(n=1 + choices.below(3))
    return {"do": "create_charge", "as": config.label("c"), "body": body} if len(model.ledger.charges) < 12 else None


def invalid_charge(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Charge with one field changed or removed."""
    body = bodies.with_one_error(choices, bodies.charge_body(choices), "charge")
    return {"do": "create_charge", "as": config.label("c"), "body": body}


def create_static(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Static Charge; one time in eight with an invalid body."""
    if one_in(choices, 8):
        return invalid_static(choices, model, config)
    if len(model.ledger.static_charges) > 5:
        return None
    return by_either_project(
        choices, {"do": "create_static", "as": config.label("s"), "body": bodies.static_body(choices)}
    )


def create_slots(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create a Static Charge with one or two slots."""
    if len(model.ledger.static_charges) > 3:
        return None
    body: dict[str, Any] = {"minAmount": "1000", "maxAmount": "2000", "description": "tickets"}
    body |= {"allowedSlots": 1 + choices.below(2), "callbackUrl": bodies.URL.format(n=1 + choices.below(3))}
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
    if one_in(choices, 4):
        body = bodies.with_one_error(choices, body, "changes")
    return by_either_project(choices, {"do": "patch", "static": static.label, "body": body})


def get(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read a resource."""
    resource = random_charge(choices, model) if choices.below(2) else random_static(choices, model)
    return None if resource is None else {"do": "get", "what": resource.label, "by": pick(choices, ("own", "second"))}


def list_(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Read a list, sometimes with filters around existing values."""
    query: dict[str, Any] = {}
    if choices.below(2):
        query["limit"] = 1 + choices.below(3)
    of = pick(choices, ("charges", "statics", "children"))
    static = random_static(choices, model)
    match choices.below(6):
        case 0:
            query["status"] = pick(
                choices, ("active", "disabled") if of == "statics" else ("pending", "completed", "expired")
            )
        case 1:
            query["internalId"] = pick(choices, ("order-1", "stage-2", "", "nobody"))
        case 2 | 3:
            charge = random_charge(choices, model)
            if charge is not None:
                at = charge.created_at + pick(choices, (-1, 0, 1))
                query[pick(choices, ("createdAfter", "createdBefore"))] = iso(at)
                if choices.below(2):
                    query["status"] = "active" if of == "statics" else charge.status
    step: Step = {"do": "list", "of": of, "query": query}
    if of == "children":
        if static is None:
            return None
        step["static"] = static.label
        if static.project != "default":
            step["by"] = "second"
        return step
    return by_either_project(choices, step)


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
    if static is None or len(model.ledger.charges) > 16:
        return None
    amounts = [str(static.min_msat), str(static.max_msat)]
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
    step["as"] = config.label(step["as"][0])
    return step
