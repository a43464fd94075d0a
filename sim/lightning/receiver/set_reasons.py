"""Why parts that waited or were held together are failed, as a sentence that is true of each one's payment.

The node makes one set of all parts that pay an invoice, whoever sent them: what one payment does fails the parts of
another (BOLT 4, "Basic Multi-Part Payments"). The id of an HTLC begins with the one of its payment, before a colon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leyden.lightning.engine.htlc import Htlc, payment_of
from leyden.lightning.receiver.invoice_row import InvoiceRow, PartRow

# The reason of each part.
Reason = Callable[[PartRow], str]
_ALONE = "pay again while no other payment of this invoice is on its way"


def mismatch(row: InvoiceRow, htlc: Htlc) -> Reason:
    """Of the parts that an HTLC fails because it announces too small or another total than they do."""

    def reason(part: PartRow) -> str:
        total_msat, amount_msat = htlc.total_msat, row["amount_msat"]
        asked = f"the invoice asks {amount_msat}" if total_msat < amount_msat else f"this one {part['total_msat']}"
        announces = f"announces {total_msat} msat in total and {asked}"
        if _is_of(part, htlc.id):
            return f"a later part of this payment failed the whole set, because it {announces}: they must agree"
        return f"a part of payment {payment_of(htlc.id)} failed the whole set, because it {announces}: {_ALONE}"

    return reason


def given_back(payment_id: str) -> Reason:
    """Of the parts that wait when this payment is cancelled."""

    def reason(part: PartRow) -> str:
        if payment_of(part["id"]) == payment_id:
            return "the payment was cancelled before all its parts arrived"
        return f"payment {payment_id}, a part of which waited in the same set, was cancelled: {_ALONE}"

    return reason


def timed_out(parts: Sequence[PartRow], now_ms: int) -> Reason:
    """Of the parts that waited for too long; the first part counts, whichever payment it is of."""
    first = min(parts, key=lambda part: part["arrived_at"])
    waited = f"within {(now_ms - first['arrived_at']) / 1_000:g} s of the first"

    def reason(part: PartRow) -> str:
        of = "" if _is_of(part, first["id"]) else f" part of the set, which payment {payment_of(first['id'])} sent"
        return f"not all parts of the payment arrived {waited}{of}: all must arrive in that time"

    return reason


def held_too_long(parts: Sequence[PartRow], margin_blocks: int) -> Reason:
    """Of the parts that were held until so many blocks before the first of them expires."""
    height = min(part["cltv_expiry"] for part in parts)
    first = [part["id"] for part in parts if part["cltv_expiry"] == height]

    def reason(part: PartRow) -> str:
        of = "its first part expires"
        if not any(_is_of(part, one) for one in first):
            of = f"a part of payment {payment_of(first[0])} expires, which was held with it"
        held = f"the payment was held until {margin_blocks} blocks before block {height}, at which {of},"
        return f"{held} and returned: settle a held payment sooner"

    return reason


def _is_of(part: PartRow, htlc_id: str) -> bool:
    """Whether the part and the HTLC are of one payment."""
    return payment_of(part["id"]) == payment_of(htlc_id)
