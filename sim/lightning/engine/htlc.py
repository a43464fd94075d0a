"""HTLCs at the receiver: what arrives, how it is resolved, and the reason for each failure.

A payer receives one code for every refusal. `HtlcResolution.why` (a word) and `HtlcResolution.reason` (a sentence) are
for the journal and the analyst: they do not go back along the route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from leyden.server.errors import LeydenError
from leyden.server.timestamps import to_iso

# The status of an HTLC at the receiver: waiting for the other parts of the set, held (preimage withheld), or resolved.
WAITING, HELD, SETTLED, FAILED = "waiting", "held", "settled", "failed"


class UnknownInvoice(LeydenError, LookupError):
    """The service named an invoice that this node never issued."""


class PaymentNotHeld(LeydenError):
    """No HTLC is held that could be settled or failed; the text names the state."""


class Htlc(NamedTuple):
    """One part of a payment at the final node. Hashes and secrets are hex; amounts are msat.

    `total_msat` is the total that the payer announces for the whole set. With `hold` the receiver withholds the
    preimage until the payment is settled. `cltv_expiry` is a block height.
    """

    id: str
    payment_hash: str
    payment_secret: str | None
    amount_msat: int
    total_msat: int
    cltv_expiry: int
    hold: bool = False


class HtlcResolution(NamedTuple):
    """How an HTLC was resolved, if it was. A failed one has the `code` that the payer receives, a settled one the
    `preimage`.
    """

    htlc_id: str
    payment_hash: str
    status: str
    code: int | None = None
    why: str = ""
    reason: str = ""
    preimage: str | None = None


def explain(why: str, row: Mapping[str, Any] | None, htlc: Htlc, now_ms: int, *, min_cltv: int) -> str:
    """The reason for a refusal: what the receiver found, and what it would have accepted.

    `row` is the invoice, None if there is none; `why` is a key of `REASONS`; `min_cltv` is a block height.
    """
    return REASONS[why](row or {}, htlc, now_ms, min_cltv)


def _late(row: Mapping[str, Any], htlc: Htlc, now_ms: int, min_cltv: int) -> str:
    until = row["payable_until_ms"]
    return f"the invoice could be paid until {to_iso(until)} and this came {now_ms - until} ms later: pay before then"


Reason = Callable[[Mapping[str, Any], Htlc, int, int], str]

REASONS: dict[str, Reason] = {
    "unknown": lambda row, htlc, now_ms, min_cltv: (
        "this node has no invoice with this payment hash: pay a request that this sandbox issued"
        if not row
        else "the payment carries no payment secret: send the one in the invoice's s field"
    ),
    "settled": lambda row, htlc, now_ms, min_cltv: (
        f"the invoice was already paid at {to_iso(row['settled_at'])}: an invoice is paid once, ask for a new one"
    ),
    "accepted": lambda row, htlc, now_ms, min_cltv: (
        f"another payment of this invoice is held since {to_iso(row['accepted_at'])}: settle or cancel that one"
    ),
    "expired": _late,
    "canceled": lambda row, htlc, now_ms, min_cltv: (
        f"the invoice was closed at {to_iso(row['closed_at'])} ({row['closed_because']}): ask for a new one"
    ),
    "secret": lambda row, htlc, now_ms, min_cltv: (
        "the payment secret is not the invoice's: send the one in the invoice's s field"
    ),
    "nothing": lambda row, htlc, now_ms, min_cltv: (
        f"the payment announces {htlc.total_msat} msat: a total must be above zero"
    ),
    "underpaid": lambda row, htlc, now_ms, min_cltv: (
        f"the payment brings {htlc.total_msat} msat in total and the invoice asks {row['amount_msat']}: "
        f"{row['amount_msat'] - htlc.total_msat} msat too little"
    ),
    "overpaid": lambda row, htlc, now_ms, min_cltv: (
        f"the payment brings more than twice the {row['amount_msat']} msat that the invoice asks: "
        "pay less, or set the node's policy to overpay=lnd"
    ),
    "other_total": lambda row, htlc, now_ms, min_cltv: (
        f"this part announces {htlc.total_msat} msat in total and the parts before it another total: they must agree"
    ),
    "cltv": lambda row, htlc, now_ms, min_cltv: (
        f"the part expires at block {htlc.cltv_expiry} and this node needs at least {min_cltv}: give it more blocks"
    ),
}
