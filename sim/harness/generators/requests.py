"""Rules for clients: what may be created, changed, read and listed next, soundly or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.generators import bodies as strategies
from leyden.harness.generators.choices import Dice, chance, pick
from leyden.harness.model.model import Model
from leyden.harness.model.rules import iso
from leyden.harness.runs.run_config import Rule, Scene, Step, by_anybody, some_charge, some_static


def _create_charge(dice: Dice, model: Model, around: Scene) -> Step | None:
    if chance(dice, 8):
        return _bad_charge(dice, model, around)
    if len(model.book.charges) > 12:
        return None
    return by_anybody(dice, {"do": "create_charge", "as": around.label("c"), "body": strategies.charge_body(dice)})


def _short_charge(dice: Dice, model: Model, around: Scene) -> Step | None:
    body = {"amount": pick(dice, strategies.AMOUNTS), "description": "tea", "expiresIn": pick(dice, (1, 2, 60))}
    body["callbackUrl"] = strategies.URL.format(n=1 + dice.below(3))
    return {"do": "create_charge", "as": around.label("c"), "body": body} if len(model.book.charges) < 12 else None


def _bad_charge(dice: Dice, model: Model, around: Scene) -> Step | None:
    body = strategies.spoilt(dice, strategies.charge_body(dice), "charge")
    return {"do": "create_charge", "as": around.label("c"), "body": body}


def _create_static(dice: Dice, model: Model, around: Scene) -> Step | None:
    if chance(dice, 8):
        return _bad_static(dice, model, around)
    if len(model.book.statics) > 5:
        return None
    return by_anybody(dice, {"do": "create_static", "as": around.label("s"), "body": strategies.static_body(dice)})


def _create_slots(dice: Dice, model: Model, around: Scene) -> Step | None:
    if len(model.book.statics) > 3:
        return None
    body: dict[str, Any] = {"minAmount": "1000", "maxAmount": "2000", "description": "tickets"}
    body |= {"allowedSlots": 1 + dice.below(2), "callbackUrl": strategies.URL.format(n=1 + dice.below(3))}
    if chance(dice, 3):
        body["expiresIn"] = pick(dice, (1, 60, 300, 301))
    return {"do": "create_static", "as": around.label("s"), "body": body}


def _patch_slots(dice: Dice, model: Model, around: Scene) -> Step | None:
    static = some_static(dice, model)
    if static is None:
        return None
    slots = pick(dice, (max(1, static.slots - 1), max(1, static.slots), static.slots + 1, None))
    return {"do": "patch", "static": static.label, "body": {"allowedSlots": slots}}


def _bad_static(dice: Dice, model: Model, around: Scene) -> Step | None:
    body = strategies.spoilt(dice, strategies.static_body(dice), "static")
    return {"do": "create_static", "as": around.label("s"), "body": body}


def _patch(dice: Dice, model: Model, around: Scene) -> Step | None:
    static = some_static(dice, model)
    if static is None:
        return None
    body = strategies.changes(dice)
    if chance(dice, 4):
        body = strategies.spoilt(dice, body, "changes")
    return by_anybody(dice, {"do": "patch", "static": static.label, "body": body})


def _get(dice: Dice, model: Model, around: Scene) -> Step | None:
    thing = some_charge(dice, model) if dice.below(2) else some_static(dice, model)
    return None if thing is None else {"do": "get", "what": thing.label, "by": pick(dice, ("own", "rival"))}


def _list(dice: Dice, model: Model, around: Scene) -> Step | None:
    query: dict[str, Any] = {}
    if dice.below(2):
        query["limit"] = 1 + dice.below(3)
    of = pick(dice, ("charges", "statics", "children"))
    static = some_static(dice, model)
    match dice.below(6):
        case 0:
            query["status"] = pick(
                dice, ("active", "disabled") if of == "statics" else ("pending", "completed", "expired")
            )
        case 1:
            query["internalId"] = pick(dice, ("order-1", "stage-2", "", "nobody"))
        case 2 | 3:
            charge = some_charge(dice, model)
            if charge is not None:
                at = charge.created_at + pick(dice, (-1, 0, 1))
                query[pick(dice, ("createdAfter", "createdBefore"))] = iso(at)
                if dice.below(2):
                    query["status"] = "active" if of == "statics" else charge.status
    step: Step = {"do": "list", "of": of, "query": query}
    if of == "children":
        if static is None:
            return None
        step["static"] = static.label
        if static.project != "default":
            step["by"] = "rival"
        return step
    return by_anybody(dice, step)


def _wallet(dice: Dice, model: Model, around: Scene) -> Step | None:
    return by_anybody(dice, {"do": "wallet"})


def _terms(dice: Dice, model: Model, around: Scene) -> Step | None:
    static = some_static(dice, model)
    return None if static is None else {"do": "terms", "static": static.label, "address": bool(dice.below(2))}


def _invoice(dice: Dice, model: Model, around: Scene) -> Step | None:
    static = some_static(dice, model)
    if static is None or len(model.book.charges) > 16:
        return None
    amounts = [str(static.min_msat), str(static.max_msat)]
    if chance(dice, 4):
        amounts = [
            str(static.min_msat - 1),
            str(static.max_msat + 1),
            "0",
            "1e3",
            "tip",
            "-1000",
            "1000.0",
            "",
            "01000",
            "+1000",
        ]
    step: Step = {"do": "invoice", "static": static.label, "as": around.label("c"), "amount": pick(dice, amounts)}
    match dice.below(12):
        case 9:
            step["comment"] = pick(dice, strategies.COMMENTS)
        case 10:
            step["twice"] = True
        case 11:
            del step["amount"]
    return step


def _verify(dice: Dice, model: Model, around: Scene) -> Step | None:
    children = [one for one in model.book.charges.values() if one.parent or chance(dice, 4)]
    if not children:
        return None
    step: Step = {"do": "verify", "charge": pick(dice, children).label}
    static = some_static(dice, model)
    return {**step, "static": static.label} if static is not None and chance(dice, 4) else step


def _once(dice: Dice, model: Model, around: Scene) -> Step | None:
    kind = "charge" if dice.below(3) else "static"
    tea = [{"amount": "1000", "description": "tea"}, {"description": "tea", "amount": "1000"}]
    tips = [{"minAmount": "1000", "maxAmount": "2000", "description": "tips"}]
    tips.append({"minAmount": "2000", "maxAmount": "1000", "description": "tips"})
    bodies = [*tea, {"amount": "1001", "description": "tea"}, {"amount": "1", "description": "tea"}]
    body = pick(dice, bodies if kind == "charge" else tips)
    key = pick(dice, ("k1", "k2", "x" * 255, "x" * 256, "two words", ""))
    step = by_anybody(dice, {"do": f"create_{kind}", "as": around.label(kind[0]), "body": body, "once": key})
    around.once.append(step)
    return step


def _once_more(dice: Dice, model: Model, around: Scene) -> Step | None:
    if not around.once:
        return None
    before = {**pick(dice, around.once)}
    if chance(dice, 4) and before.pop("by", None) is None:
        before["by"] = "rival"
    return {**before, "as": around.label(before["as"][0])}


ASKING: Mapping[str, Rule] = {
    "create_charge": _create_charge,
    "short_charge": _short_charge,
    "bad_charge": _bad_charge,
    "create_static": _create_static,
    "create_slots": _create_slots,
    "patch_slots": _patch_slots,
    "bad_static": _bad_static,
    "patch": _patch,
    "get": _get,
    "list": _list,
    "wallet": _wallet,
    "terms": _terms,
    "invoice": _invoice,
    "verify": _verify,
    "once": _once,
    "once_more": _once_more,
}
