"""Obligations of what a payer pays: an invoice, an LNURL or a Lightning address, in each form that the document
allows, and texts that are nearly one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leyden.harness.control.request_checks import AMOUNTS, FORMS, INVOICE
from leyden.harness.obligations.control.setups import PAUSED
from leyden.harness.obligations.obligation import Obligation

_SOURCE = "sandbox.openapi.yaml#/components/schemas/PaymentOrder"


def payment_request_obligations() -> Iterator[Obligation]:
    """Each form of each kind of request, and each amount around the bounds of a Static Charge."""
    for kind, forms in FORMS.items():
        for form in forms:
            yield _obligation(kind, form, None)
        for amount in AMOUNTS:
            if kind != INVOICE and amount is not None:
                yield _obligation(kind, "as it is", amount)


def _obligation(kind: str, form: str, amount: int | None) -> Obligation:
    step: Any = {"do": "control_payment_request", "options": [*PAUSED], "kind": kind, "form": form}
    if amount is not None:
        step["amount"] = amount
    case = form if amount is None else f"{amount} msat"
    return Obligation("createPayment body.request", kind, case, _SOURCE, (step,), setup="payments-changed")
