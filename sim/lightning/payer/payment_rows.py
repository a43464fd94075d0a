"""The rows of the table `payments`, with their attempts. Instants are in milliseconds since the epoch."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class PaymentScript(TypedDict):
    """What the payer does: see `Payments.pay`. `sent_parts` of `parts` are sent, one every `gap_ms`; `payment_secret`
    is hexadecimal, `failure` the outcome of the script `fail`."""

    outcome: str
    failure: str
    parts: int
    sent_parts: int
    gap_ms: int
    payment_secret: str


class ScriptRow(PaymentScript):
    """A stored script: the parts live for so many `blocks`; at the start that is the block height `cltv_expiry`."""

    cltv_expiry: int
    blocks: int


class RouteFields(TypedDict, total=False):
    """What only an attempt over the network has.

    `route` are the names of the nodes after the payer. `hops` are `[channel, source, target, amount_msat, cltv_expiry]`
    each, `times` the instants at which each hop that was reached was locked and unlocked; None until the result is back
    at the payer. `hop` is the place of the node that resolved the attempt, 0 the payer.
    """

    fee_msat: int
    route: list[str]
    hops: list[list[Any]]
    times: list[list[Any]] | None
    hop: int | None


class AttemptResult(TypedDict, total=False):
    """What the result of an attempt changes in its row."""

    status: str
    source: str | None
    code: int | None
    name: str | None
    why: str | None
    reason: str | None
    retried: bool
    learned: str | None
    resolved_at: int | None
    times: list[list[Any]] | None
    hop: int | None


class AttemptRow(RouteFields):
    """One attempt of the part `part`, from 0; `leyden.lightning.network.network_tables` describes its fields."""

    part: int
    at: int
    amount_msat: int
    status: str
    source: str | None
    code: int | None
    name: str | None
    why: str | None
    reason: str | None
    retried: bool
    learned: str | None
    resolved_at: int | None


class PaymentRow(TypedDict):
    """A payment; `Payments` lists the values of `status` and `outcome`.

    The wallet pays at `starts_at`, if that is later than `created_at`, when the payment was scheduled.
    `payment_hash` and `script` are None if the wallet refused to start it; then `amount_msat` may be None, and
    `refused_request` is the request in small letters without its scheme. The payer
    gives up at `gives_up_at` (None: never), which has happened at `gave_up_at`. `next_part_at` is None when no further
    part is sent.
    """

    id: str
    payer: str
    request: str
    refused_request: NotRequired[str]
    payment_hash: str | None
    amount_msat: int | None
    received_msat: int
    status: str
    outcome: str | None
    reason: str | None
    preimage: str | None
    created_at: int
    starts_at: NotRequired[int]
    resolved_at: int | None
    gives_up_at: int | None
    gave_up_at: int | None
    next_part_at: int | None
    script: ScriptRow | None
    attempts: list[AttemptRow]


# Outcome (None: not ended), number of attempts, and the fees of the settled ones in msat.
PaymentSummary = tuple[str | None, int, int]


def payment_summary(row: PaymentRow) -> PaymentSummary:
    """The fields of a payment from which key figures are computed."""
    attempts = row["attempts"]
    fees_msat = sum([attempt.get("fee_msat", 0) for attempt in attempts if attempt["status"] == "settled"])
    return row["outcome"], len(attempts), fees_msat
