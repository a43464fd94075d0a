"""The URLs in responses that lead to an operation that the document does not have."""

from __future__ import annotations

from leyden.server.contract.types import Contract

# An operation, those whose responses have its URL, and what the URL is.
_URLS = (
    ("getPayRequest", ("createStaticCharge", "listStaticCharges"), "the LNURL of a Static Charge"),
    ("requestInvoice", ("getPayRequest", "getLightningAddress"), "the callback URL of a payRequest"),
    ("verifyPayment", ("requestInvoice",), "the verify URL of an invoice"),
)  # fmt: skip


def unserved_texts(contract: Contract) -> list[str]:
    """A note for each of them: the path answers 404, so a payment by that URL fails."""
    return [
        f"the document has no operation {name}: {what} leads to a path that is not served"
        for name, showing, what in _URLS
        if name not in contract.operations and any(each in contract.operations for each in showing)
    ]
