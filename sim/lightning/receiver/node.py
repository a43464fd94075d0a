"""The shop's Lightning node: it issues invoices, receives payments and reports settlements and failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypedDict, cast

from leyden.lightning.receiver.invoices import Invoices, NodePolicy
from leyden.rng import RandomStreams
from leyden.server.ports import Clock, EventJournal, FailedInvoice, Invoice, InvoiceParams, SettledInvoice
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import to_iso

if TYPE_CHECKING:
    from leyden.lightning.bolt11.codec import InvoiceSigner

_REMEMBERED = 1_024  # invoices


class FundsRow(TypedDict):
    """The row `funds` of the table `node`: all that the node received."""

    id: str
    received_msat: int


class InvoiceTerms(NamedTuple):
    """What a payer reads from an invoice before it pays. The hash and the secret are 32 bytes, the delta is blocks. A
    wallet starts no payment after `expires_at_ms`."""

    amount_msat: int | None
    payment_hash: bytes
    payment_secret: bytes
    min_final_cltv: int
    expires_at_ms: int


class DirectNode:
    """A `leyden.server.ports.LightningNode` that payments reach directly, without a route.

    The key comes from the seed, preimages and payment secrets from the `preimages` stream. `policy` has
    the node's options; `height` returns the present block height (always 0 by default: only differences matter then),
    `block_time` the instant at which the chain has a height (by default a block takes ten minutes).
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        streams: RandomStreams,
        journal: EventJournal,
        *,
        policy: NodePolicy | None = None,
        height: Callable[[], int] | None = None,
        block_time: Callable[[int], int] | None = None,
    ) -> None:
        self._secret = streams.secret("node")
        self.invoices = Invoices(store, clock, journal, policy or NodePolicy(), height or (lambda: 0), block_time)
        self._clock = clock
        self._random_stream = streams.stream("preimages")
        self._funds = cast(TypedTable[FundsRow], store.table("node", key="id"))
        self._failed: list[Callable[[FailedInvoice], None]] = []
        self._issued: list[Callable[[str], None]] = []
        self._terms: dict[str, InvoiceTerms] = {}  # of the latest invoices, by their texts
        self.invoices.on_settled(self._receive)

    @cached_property
    def signer(self) -> InvoiceSigner:
        """Signs the invoices of this node. The codec is imported with the first invoice."""
        from leyden.lightning.bolt11.codec import InvoiceSigner

        return InvoiceSigner(self._secret)

    @property
    def node_id(self) -> bytes:
        """The node's public key, 33 bytes."""
        return self.signer.node_id

    @property
    def balance_msat(self) -> int:
        """All that this node received."""
        funds = self._funds.row("funds")
        return 0 if funds is None else funds["received_msat"]

    def issue(self, order: InvoiceParams) -> Invoice:
        """Sign an invoice and open it. Raises `Bolt11Error` for what BOLT 11 cannot express."""
        random = self._random_stream.bytes(64)
        preimage, secret = random[:32], random[32:]
        payment_hash = sha256(preimage).digest()
        description: str | None = order.description
        description_hash = order.description_hash
        # A character is at most four bytes: most descriptions need not be encoded to know their length.
        length = len(order.description)
        longest = self.signer.max_description_bytes
        if description_hash is None and 4 * length > longest < len(order.description.encode()):
            # BOLT 11: a longer description is replaced by its hash, h, and shown to the payer by other means.
            description_hash = sha256(order.description.encode()).digest()
        if description_hash is not None:
            description = None
        request = self.signer.sign(
            amount_msat=order.amount_msat,
            timestamp_s=order.timestamp_s,
            payment_hash=payment_hash,
            payment_secret=secret,
            description=description,
            description_hash=description_hash,
            expiry_s=order.expiry_s,
            min_final_cltv=self.invoices.policy.min_final_cltv,
        )
        cltv = self.invoices.policy.min_final_cltv
        if len(self._terms) == _REMEMBERED:
            del self._terms[next(iter(self._terms))]
        expires_at_ms = (order.timestamp_s + order.expiry_s) * 1_000
        self._terms[request] = InvoiceTerms(order.amount_msat, payment_hash, secret, cltv, expires_at_ms)
        name = payment_hash.hex()
        self.invoices.open(order, name, preimage.hex(), secret.hex(), request)
        for listener in self._issued:
            listener(name)
        return Invoice(name, request)

    def terms(self, request: str) -> InvoiceTerms:
        """The terms of any BOLT11 invoice. Those of an invoice that this node issued lately need not be decoded, nor a
        key be recovered. Raises `Bolt11Error` for an invalid one."""
        known = self._terms.get(request)
        if known is not None:
            return known
        from leyden.lightning.bolt11.codec import decode  # not imported before the first payment

        invoice = decode(request)
        return InvoiceTerms(
            invoice.amount_msat,
            invoice.payment_hash,
            invoice.payment_secret,
            invoice.min_final_cltv,
            invoice.expires_at_s * 1_000,
        )

    def cancel(self, payment_hash: str, because: str = "") -> None:
        """Cancel an open or held invoice and fail its held parts. No effect on a settled or canceled one.

        `because` completes the sentence "the invoice was closed: ..."; of an expired invoice it says that it expired.
        Raises `UnknownInvoice` for a hash this node never issued.
        """
        row = self.invoices.row(payment_hash)
        if row is not None and self._clock.now() >= row["expires_at"]:
            because = f"it expired at {to_iso(row['expires_at'])}"
        self.invoices.cancel(payment_hash, because or "the service canceled it")

    def fail_invoice(self, payment_hash: str, reason: str) -> bool:
        """Fail an invoice, with the payment held on it: it is canceled and reported as failed.

        Returns False, without effect, when it is settled or canceled. Raises `UnknownInvoice`.
        """
        if not self.invoices.cancel(payment_hash, reason):
            return False
        failed = FailedInvoice(payment_hash, reason, self._clock.now())
        for listener in self._failed:
            listener(failed)
        return True

    def on_settled(self, listener: Callable[[SettledInvoice], None]) -> None:
        """Register a listener for settlements; each is reported exactly once, when it happens."""
        self.invoices.on_settled(listener)

    def on_issued(self, listener: Callable[[str], None]) -> None:
        """Register a listener for the payment hash of each new invoice; its Charge is stored in the same commit."""
        self._issued.append(listener)

    def on_failed(self, listener: Callable[[FailedInvoice], None]) -> None:
        """Register a listener for invoices that the node failed."""
        self._failed.append(listener)

    def resume(self) -> None:
        """Set the node's timers from the stored rows, after the store was opened."""
        self.invoices.resume()

    def _receive(self, settled: SettledInvoice) -> None:
        self._funds.put({"id": "funds", "received_msat": self.balance_msat + settled.amount_msat})
