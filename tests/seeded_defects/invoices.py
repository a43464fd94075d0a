"""Defects of invoices and LNURLs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from leyden.server.charges.lnurl import encode_lnurl
from leyden.server.charges.static_charges import StaticChargeService
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.patches import Wrapper, attribute, changed, port
from tests.seeded_defects.probing import new_charge, new_static, paid, pay_request


def ordered(alter: Callable[[Any], Any]) -> Plant:
    """Request another invoice from the node."""

    class Alters(Wrapper):
        def issue(self, order: Any) -> Any:
            return self.inner.issue(alter(order))

    return port("node", Alters)


class Reusing(Wrapper):
    """A node that issues the same invoice for the same amount."""

    def __init__(self, inner: Any, late: SimpleNamespace) -> None:
        super().__init__(inner, late)
        self._issued: dict[int, Any] = {}

    def issue(self, order: Any) -> Any:
        if order.amount_msat not in self._issued:
            self._issued[order.amount_msat] = self.inner.issue(order)
        return self._issued[order.amount_msat]


def invoice_of(make: Make, **fields: Any) -> tuple[Any, dict[str, Any]]:
    """The decoded invoice of a new Charge, and the Charge."""
    with make() as sandbox:
        charge = new_charge(sandbox, **fields)
        return charge.invoice.decode(), charge.data


@seeded(
    "invoice",
    "The amount of the invoice is rounded down to whole satoshis.",
    violates="spec: /components/schemas/PaymentRequest",
    plant=ordered(lambda order: changed(order, amount_msat=order.amount_msat // 1_000 * 1_000)),
)
def invoice_in_whole_satoshis(make: Make) -> bool:
    return invoice_of(make, amount="25001")[0].amount_msat == 25_000


@seeded(
    "invoice",
    "The description of the invoice is not that of the Charge.",
    violates="decision: description",
    plant=ordered(lambda order: changed(order, description=f"Payment of {order.amount_msat}")),
)
def invoice_of_another_description(make: Make) -> bool:
    return invoice_of(make)[0].description != "tea"


def _cut(order: Any) -> Any:
    return changed(order, description=order.description.encode()[:639].decode(errors="ignore"))


@seeded(
    "invoice",
    "A description of more than 639 bytes is cut in the invoice instead of hashed.",
    violates="decision: description",
    plant=ordered(_cut),
)
def long_description_cut(make: Make) -> bool:
    return invoice_of(make, description="é" * 320)[0].description_hash is None


@seeded(
    "invoice",
    "The invoice expires after an hour whatever the Charge's `expiresAt`.",
    violates="decision: timestamps",
    plant=ordered(lambda order: changed(order, expiry_s=3_600)),
)
def invoice_of_another_expiry(make: Make) -> bool:
    return invoice_of(make)[0].expiry_s == 3_600


@seeded(
    "invoice",
    "The timestamp of the invoice is an hour before the Charge's `createdAt`.",
    violates="spec: /components/schemas/Charge/properties/createdAt",
    plant=ordered(lambda order: changed(order, timestamp_s=order.timestamp_s - 3_600)),
)
def invoice_of_another_time(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox)
        return bool(charge.invoice.decode().timestamp_s != charge.created_at.timestamp())


@seeded(
    "invoice",
    "Two Charges over the same amount get the same invoice, so paying one pays the other.",
    violates="decision: invoices",
    plant=port("node", Reusing),
)
def invoice_used_twice(make: Make) -> bool:
    with make() as sandbox:
        return bool(new_charge(sandbox).request == new_charge(sandbox).request)


@seeded(
    "invoice",
    "The LNURL of a Static Charge changes with every payment.",
    violates="spec: /components/schemas/StaticCharge/properties/invoice",
    plant=attribute(
        StaticChargeService,
        "show",
        lambda original: lambda self, row: _relabelled(original(self, row), row["slots"]),
    ),
)
def lnurl_changes(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox)
        before = static.request
        paid(sandbox, static, 2_000)
        return bool(static.request != before)


def _relabelled(shown: dict[str, Any], slots: int) -> dict[str, Any]:
    if not slots:
        return shown
    request = encode_lnurl(f"http://localhost/lnurlp/{shown['id']}?v={slots}")
    return {**shown, "invoice": {"request": request, "uri": f"lightning:{request}"}}


def _elsewhere(original: Callable[..., Any]) -> Callable[..., Any]:
    def pay_url(self: Any, static_charge_id: str) -> Any:
        return original(self, static_charge_id).replace("/lnurlp/", "/pay/")

    return pay_url


@seeded(
    "invoice",
    "The LNURL of a Static Charge contains a URL that does not exist.",
    violates="decision: lnurl-pay",
    plant=attribute(StaticChargeService, "pay_url", _elsewhere),
)
def lnurl_of_an_unknown_url(make: Make) -> bool:
    with make() as sandbox:
        return bool(pay_request(sandbox, new_static(sandbox)).get("tag") != "payRequest")
