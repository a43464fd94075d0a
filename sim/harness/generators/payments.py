"""Step generators for payers: which invoice is paid next, with which amount, delay and result."""

from __future__ import annotations

from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.generators.run_config import RunConfig, random_charge
from leyden.harness.model.model import Model
from leyden.harness.model.records import Charge
from leyden.harness.steps import Step


def _child(choices: Choices, model: Model) -> Charge | None:
    children = [one for one in model.ledger.charges.values() if one.parent is not None]
    open_ones = [one for one in children if one.invoice == "open"]
    among = open_ones if open_ones and not one_in(choices, 4) else children
    return pick(choices, among) if among else None


def _payment(config: RunConfig, charge: Charge | None) -> Step | None:
    return None if charge is None else {"do": "pay", "as": config.label("p"), "charge": charge.label}


def _held(step: Step | None) -> Step | None:
    return None if step is None else {**step, "outcome": "hold"}


def pay(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Pay an invoice in full."""
    return _payment(config, random_charge(choices, model))


def hold(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Pay an invoice; the receiver holds the payment."""
    return _held(pay(choices, model, config))


def pay_child(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Pay an invoice of a Static Charge, sometimes with a delay."""
    step = _payment(config, _child(choices, model))
    return {**step, "delay": 1_000} if step is not None and one_in(choices, 5) else step


def hold_child(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Pay an invoice of a Static Charge; the receiver holds the payment."""
    return _held(_payment(config, _child(choices, model)))


def pay_unusually(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Pay with another amount, with a delay around the expiry, or so that the payment fails or is held."""
    charge = random_charge(choices, model)
    step = _payment(config, charge)
    if charge is None or step is None:
        return None
    amount_msat = charge.amount_msat
    match choices.below(5):
        case 0:
            step["outcome"] = pick(choices, ("wrong_secret", "underpay", "overpay", "overpay_double", "fail"))
        case 1:
            step["amount"] = pick(choices, (amount_msat - 1, amount_msat + 1, 2 * amount_msat, 2 * amount_msat + 1))
        case 2 | 3:
            # Just before the expiry, at it, and after it.
            left = max(1, charge.expires_at - model.now)
            step["delay"] = pick(choices, (1, max(1, left - 1), left, left + 1))
            if left > 31_536_000_000:
                return None
            if one_in(choices, 4):
                step["outcome"] = "hold"
        case _:
            step["outcome"] = "hold"
    return step


def resolve(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Settle or cancel a payment, mostly a held one."""
    held = [one for one in model.ledger.payments.values() if one.status == "held"]
    among = held if held and not one_in(choices, 5) else list(model.ledger.payments.values())
    # A payment that is still in flight can be neither settled nor cancelled: the control plane refuses it.
    return {"do": pick(choices, ("settle", "cancel")), "payment": pick(choices, among).label} if among else None


def fail(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Let an invoice fail at the node."""
    charge = random_charge(choices, model)
    return None if charge is None else {"do": "fail", "charge": charge.label}
