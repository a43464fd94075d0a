"""Rules for payers: which invoice is paid next, and how well."""

from __future__ import annotations

from collections.abc import Mapping

from leyden.harness.generators.choices import Dice, chance, pick
from leyden.harness.model.model import Model
from leyden.harness.model.records import Charge
from leyden.harness.runs.run_config import Rule, Scene, Step, some_charge


def _child(dice: Dice, model: Model) -> Charge | None:
    children = [one for one in model.book.charges.values() if one.parent is not None]
    waiting = [one for one in children if one.invoice == "open"]
    among = waiting if waiting and not chance(dice, 4) else children
    return pick(dice, among) if among else None


def _pay(dice: Dice, model: Model, around: Scene) -> Step | None:
    charge = some_charge(dice, model)
    return None if charge is None else {"do": "pay", "as": around.label("p"), "charge": charge.label}


def _pay_child(dice: Dice, model: Model, around: Scene) -> Step | None:
    charge = _child(dice, model)
    if charge is None:
        return None
    step: Step = {"do": "pay", "as": around.label("p"), "charge": charge.label}
    return {**step, "delay": 1_000} if chance(dice, 5) else step


def _hold_child(dice: Dice, model: Model, around: Scene) -> Step | None:
    charge = _child(dice, model)
    if charge is None:
        return None
    return {"do": "pay", "as": around.label("p"), "charge": charge.label, "outcome": "hold"}


def _pay_oddly(dice: Dice, model: Model, around: Scene) -> Step | None:
    charge = some_charge(dice, model)
    if charge is None:
        return None
    step: Step = {"do": "pay", "as": around.label("p"), "charge": charge.label}
    asked = charge.amount_msat
    match dice.below(5):
        case 0:
            step["outcome"] = pick(dice, ("wrong_secret", "underpay", "fail"))
        case 1:
            step["amount"] = pick(dice, (asked - 1, asked + 1, 2 * asked, 2 * asked + 1))
        case 2 | 3:
            # Right up to the last instant, at it, and after it.
            left = max(1, charge.expires_at - model.now)
            step["delay"] = pick(dice, (1, max(1, left - 1), left, left + 1))
            if left > 31_536_000_000:
                return None
            if chance(dice, 4):
                step["outcome"] = "hold"
        case _:
            step["outcome"] = "hold"
    return step


def _hold(dice: Dice, model: Model, around: Scene) -> Step | None:
    charge = some_charge(dice, model)
    if charge is None:
        return None
    return {"do": "pay", "as": around.label("p"), "charge": charge.label, "outcome": "hold"}


def _resolve(dice: Dice, model: Model, around: Scene) -> Step | None:
    held = [one for one in model.book.payments.values() if one.status == "held"]
    among = held if held and not chance(dice, 5) else list(model.book.payments.values())
    # A payment on its way can be cancelled before it arrives; the control plane says no to that.
    return {"do": pick(dice, ("settle", "cancel")), "payment": pick(dice, among).label} if among else None


def _fail(dice: Dice, model: Model, around: Scene) -> Step | None:
    charge = some_charge(dice, model)
    return None if charge is None else {"do": "fail", "charge": charge.label}


PAYING: Mapping[str, Rule] = {
    "pay": _pay,
    "pay_child": _pay_child,
    "hold_child": _hold_child,
    "pay_oddly": _pay_oddly,
    "hold": _hold,
    "resolve": _resolve,
    "fail": _fail,
}
