"""HTLCs at the receiver: what arrives, how it is resolved, and the reason for each failure.

A payer receives one code for every refusal. `HtlcResolution.why` (a word) and `HtlcResolution.reason` (a sentence) are
for the journal and the analyst: they do not go back along the route.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leyden.server.errors import LeydenError
from leyden.server.timestamps import span_in_words, to_iso

# The status of an HTLC at the receiver: waiting for the other parts of the set, held (preimage withheld), or resolved.
WAITING, HELD, SETTLED, FAILED = "waiting", "held", "settled", "failed"


# BOLT 2, "cltv_expiry_delta Selection": a node fulfils an incoming HTLC, or gives it back, so many blocks before its
# expiry. Later it could not be sure to claim it on the chain in time.
FULFILLMENT_DEADLINE_BLOCKS = 18

# In the service's reason for the end of an invoice whose Static Charge can get more slots.
_NO_SLOT = "slot"
# A Static Charge that has expired, or has no slot left, issues no other invoice.
NEW_INVOICE = "ask for a new one, of a new Charge or of a Static Charge that is active"


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


def payment_of(htlc_id: str) -> str:
    """The id of the payment that an HTLC is a part of."""
    return htlc_id.rpartition(":")[0]


def explain(why: str, row: Mapping[str, Any] | None, htlc: Htlc, now_ms: int, *, min_cltv: int) -> str:
    """The reason for a refusal: what the receiver found, and what it would have accepted.

    `row` is the invoice, None if there is none; `min_cltv` is a block height.
    """
    taken = [part for part in (row or {}).get("parts", ()) if part["state"] in (HELD, SETTLED)]
    is_own = any(payment_of(part["id"]) == payment_of(htlc.id) for part in taken)
    match why, row:
        case "unknown", None:
            return "this node has no invoice with this payment hash: pay the request of a Charge that the sandbox has"
        case "unknown", _:
            return "the payment carries no payment secret: send the one in the invoice's s field"
        case "settled", {"settled_at": at} if is_own:
            return (
                f"the parts that had arrived, of this payment too, had paid the invoice at {to_iso(at)}: send no more"
            )
        case "accepted", {"accepted_at": at} if is_own:
            held = f"the parts that had arrived, of this payment too, are enough and held since {to_iso(at)}"
            return f"{held}: settle the payment that is held"
        case "settled", {"settled_at": at}:
            return f"the invoice was already paid at {to_iso(at)}: an invoice is paid once, {NEW_INVOICE}"
        case "accepted", {"accepted_at": at}:
            held = f"another payment of this invoice is held since {to_iso(at)}: an invoice is paid once"
            return f"{held}, settle that payment, or {NEW_INVOICE}"
        case "expired", {"expires_at": end, "payable_until_ms": until} if now_ms <= until:
            return (
                f"the invoice expired at {to_iso(end)}, after the payments that had arrived by then, and this came "
                f"after that: {NEW_INVOICE}"
            )
        case "expired", {"expires_at": end, "payable_until_ms": until}:
            late = f"{span_in_words(now_ms - end)} later" if now_ms > end else "at that instant"
            expired = f"the invoice expired {'at' if until < end else 'after'} {to_iso(end)}"
            return f"{expired} and this came {late}: {NEW_INVOICE}"
        case "canceled", {"closed_at": at, "closed_because": because}:
            mend = NEW_INVOICE
            if _NO_SLOT in because.lower():
                mend = "ask for a new one when its Static Charge is active, which a higher allowedSlots can make it"
            return f"the invoice was closed at {to_iso(at)} ({because}): {mend}"
        case "secret", _:
            return "the payment secret is not the invoice's: send the one in the invoice's s field"
        case "nothing", _:
            return f"the payment announces {htlc.total_msat} msat: a total must be above zero"
        case "underpaid", {"amount_msat": amount}:
            missing = amount - htlc.total_msat
            sent = f"the payment brings {htlc.total_msat} msat in total and the invoice asks {amount}"
            return f"{sent}: {missing} msat too little"
        case "overpaid", {"amount_msat": amount}:
            limit = f"more than twice the {amount} msat that the invoice asks"
            return f"the payment announces {limit}, which the node refuses: pay at most {2 * amount} msat"
        case "other_total", _:
            own, first = f"this part announces {htlc.total_msat} msat in total", taken[0]
            of = "" if payment_of(first["id"]) == payment_of(htlc.id) else f", of payment {payment_of(first['id'])},"
            return f"{own} and the parts before it{of} {first['total_msat']}: they must agree"
        case "cltv", _:
            own = f"the part expires at block {htlc.cltv_expiry}"
            return f"{own} and this node needs at least {min_cltv}: give it more blocks"
    raise AssertionError(f"a refusal {why!r} has no reason")
