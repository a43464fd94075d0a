"""The shop's node: it writes invoices, takes the payments, and tells the service what became of each."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from leyden.lightning.bolt11.codec import InvoiceSigner
from leyden.lightning.receiver.invoices import Invoices, NodePolicy
from leyden.server.ports import Clock, EventJournal, FailedInvoice, Invoice, InvoiceParams, SettledInvoice
from leyden.server.store.store import Store
from leyden.server.timestamps import to_iso
from leyden.world.rng import RandomStreams

# BOLT 11: a field holds at most 1023 groups of five bits, which is 639 bytes.
_MAX_DESCRIPTION_BYTES = 639


def _zero_height() -> int:
    """The height of a chain that nobody mines: without a network, only the difference of heights is ever seen."""
    return 0


class DirectNode:
    """A `leyden.server.ports.LightningNode` that payments reach directly, without a route.

    The key comes from the seed, preimages and payment secrets from the `preimages` stream. `policy` is what the node
    may choose; `height` tells the present block.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        streams: RandomStreams,
        journal: EventJournal,
        *,
        policy: NodePolicy | None = None,
        height: Callable[[], int] = _zero_height,
    ) -> None:
        self.signer = InvoiceSigner(streams.secret("node"))
        self.invoices = Invoices(store, clock, journal, policy or NodePolicy(), height)
        self._clock = clock
        self._chance = streams.stream("preimages")
        self._funds = store.table("node", key="id")
        self._failed: list[Callable[[FailedInvoice], None]] = []
        self.invoices.on_settled(self._receive)

    @property
    def node_id(self) -> bytes:
        """The node's public key, 33 bytes."""
        return self.signer.node_id

    @property
    def balance_msat(self) -> int:
        """Everything this node received so far."""
        funds = self._funds.row("funds")
        return 0 if funds is None else int(funds["received_msat"])

    def issue(self, order: InvoiceParams) -> Invoice:
        """Make and sign an invoice that is open from now. Raises `Bolt11Error` for an order BOLT 11 cannot express."""
        drawn = self._chance.bytes(64)
        preimage, secret = drawn[:32], drawn[32:]
        payment_hash = sha256(preimage).digest()
        description: str | None = order.description
        committed = order.description_hash
        # A character takes four bytes at most, so most descriptions need not be counted in bytes.
        length = len(order.description)
        if committed is None and 4 * length > _MAX_DESCRIPTION_BYTES < len(order.description.encode()):
            # BOLT 11: what does not fit into d is committed to by its hash, h, and shown to the payer otherwise.
            committed = sha256(order.description.encode()).digest()
        if committed is not None:
            description = None
        request = self.signer.sign(
            amount_msat=order.amount_msat,
            timestamp_s=order.timestamp_s,
            payment_hash=payment_hash,
            payment_secret=secret,
            description=description,
            description_hash=committed,
            expiry_s=order.expiry_s,
            min_final_cltv=self.invoices.policy.min_final_cltv,
        )
        name = payment_hash.hex()
        self.invoices.open(order, name, preimage.hex(), secret.hex(), request)
        return Invoice(name, request)

    def cancel(self, payment_hash: str) -> None:
        """Close an open or held invoice: held parts go back to the payer. No effect on a settled or closed one.

        Raises `UnknownInvoice` for a hash this node never issued.
        """
        row = self.invoices.row(payment_hash)
        if row is not None and self._clock.now() >= row["expires_at"]:
            because = f"it expired at {to_iso(row['expires_at'])}"
        else:
            because = "nobody waits for its payment any more"
        self.invoices.cancel(payment_hash, because)

    def fail_invoice(self, payment_hash: str, reason: str) -> bool:
        """Lose an invoice, or fail the payment held on it: it is closed and reported as failed.

        False, and nothing happens, when it is settled or closed. Raises `UnknownInvoice`.
        """
        if not self.invoices.cancel(payment_hash, reason):
            return False
        failed = FailedInvoice(payment_hash, reason, self._clock.now())
        for listener in self._failed:
            listener(failed)
        return True

    def on_settled(self, listener: Callable[[SettledInvoice], None]) -> None:
        """Say who is told of settlements; each is reported exactly once, as it happens."""
        self.invoices.on_settled(listener)

    def on_failed(self, listener: Callable[[FailedInvoice], None]) -> None:
        """Say who is told when the node loses an invoice or fails a held payment on it."""
        self._failed.append(listener)

    def resume(self) -> None:
        """Set the node's timers from the stored rows: for a store that was just opened."""
        self.invoices.resume()

    def _receive(self, settled: SettledInvoice) -> None:
        self._funds.put({"id": "funds", "received_msat": self.balance_msat + settled.amount_msat})
