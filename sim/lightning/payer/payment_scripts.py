"""Payment scripts: what a payer does, from a correct payment to a wrong amount or a wrong payment secret."""

from __future__ import annotations

from leyden.errors import PaymentError
from leyden.lightning.engine.htlc import NEW_INVOICE
from leyden.lightning.payer.payment_rows import PaymentScript
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso

OUTCOMES = ("settle", "hold", "incomplete", "wrong_secret", "underpay", "overpay", "overpay_double", "fail")
AMOUNTS = ("underpay", "overpay", "overpay_double")  # those that send another amount than the invoice's
MAX_PARTS = 16

# The outcomes of a payment that never reaches the receiver.
FAILURES = ("NO_ROUTE", "INSUFFICIENT_BALANCE", "TIMEOUT", "ERROR")


def scripted_reason(failure: str) -> str:
    """The reason of a payment whose script is to fail: the script, and not the network, is the cause."""
    return f'the script of this payment ends with {failure}: pay again with another outcome, such as "settle"'


def expired_reason(expired_at_ms: int) -> str:
    """The reason of a payment that a wallet did not start, because its invoice had expired."""
    return (
        f"the wallet does not pay an invoice that expired at {to_iso(expired_at_ms)}: pay it with `late` "
        f"to see what the node answers, or {NEW_INVOICE}"
    )


def build_script(
    outcome: str, failure: str, sent_msat: int, parts: int, gap_ms: int, payment_secret: bytes
) -> PaymentScript:
    """The script as JSON values, with the number of parts and the payment secret. Raises `PaymentError`."""
    if outcome == "incomplete":
        parts = max(parts, 2)
    if not 1 <= parts <= min(MAX_PARTS, sent_msat):
        raise PaymentError(f"parts must be 1 to {MAX_PARTS}, and no more than the msat sent, not {parts}")
    if failure not in FAILURES:
        raise PaymentError(f"failure is one of {', '.join(FAILURES)}, not {quoted(failure)}")
    if outcome == "wrong_secret":
        payment_secret = bytes(byte ^ 0xFF for byte in payment_secret)
    return {
        "outcome": outcome,
        "failure": failure,
        "parts": parts,
        "sent_parts": parts - 1 if outcome == "incomplete" else parts,
        "gap_ms": gap_ms,
        "payment_secret": payment_secret.hex(),
    }


def check_outcome(outcome: str) -> None:
    """Raise `PaymentError` for what is no script of a payer."""
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise PaymentError(f"outcome is one of {', '.join(OUTCOMES)}, not {quoted(outcome, 60)}")


def amount_to_send(outcome: str, invoice_msat: int | None, given_msat: int | None) -> int:
    """The amount (msat) that the script `outcome` sends for an invoice of `invoice_msat` (None: any amount)."""
    check_outcome(outcome)
    if given_msat is None and invoice_msat is None:
        raise PaymentError("this invoice names no amount: say how much to pay with amount_msat")
    if given_msat is None:
        assert invoice_msat is not None
        extra = dict(zip(AMOUNTS, (-1, max(1, invoice_msat // 2), invoice_msat + 1), strict=True))
        given_msat = invoice_msat + extra.get(outcome, 0)
    if given_msat < 1:
        raise PaymentError(f"{given_msat} msat cannot be sent: at least 1 msat")
    return given_msat


def part_amount(total_msat: int, parts: int, number: int) -> int:
    """The amount of part `number` of a total in equal parts; the first parts have the remainder."""
    share, rest = divmod(total_msat, parts)
    return share + (number < rest)
