"""What a payment that has not ended waits for, and until when."""

from __future__ import annotations

from leyden.lightning.engine.htlc import HELD, WAITING
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.timestamps import to_iso
from leyden.world.world import World


def wait_text(world: World, payment: PaymentRow) -> str:
    """The next step of a payment and its instant, in a clause; empty if the payment has ended."""
    if payment["resolved_at"] is not None:
        return ""
    invoices, payment_hash = world.node.invoices, payment["payment_hash"]
    invoice = None if payment_hash is None else invoices.row(payment_hash)
    if payment["status"] == HELD and invoice is not None and invoice["state"] != "ACCEPTED":
        what = "settled it, and the preimage" if invoice["state"] == "SETTLED" else "returned it, and the failure"
        return f"the node has {what} is on its way to the payer"
    if payment["status"] == HELD:
        until_ms = None if invoice is None else invoices.returns_at(invoice)
        until = "" if until_ms is None else f", or the node returns it at {to_iso(until_ms)}"
        return f"settle() or cancel() it{until}"
    next_ms = payment["next_part_at"]
    if next_ms is not None:
        what = "sends its next part" if payment["attempts"] else "starts"
        return f"it {what} at {to_iso(next_ms)}"
    states = {attempt["status"] for attempt in payment["attempts"]}
    due_ms = None if invoice is None else invoice["mpp_due_at"]
    if WAITING in states and due_ms is not None:
        return f"the node waits for its other parts until {to_iso(due_ms)}, then returns those that came"
    if HELD in states:
        return "the node holds a part, and others are on the way"
    return "it is on the way over the network"
