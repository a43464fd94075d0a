"""Which channel a failure code concerns, for a payer as in LDK.

Read from lightningdevkit/rust-lightning at commit cfee4b75593b5f676b998713fa60847311cfb270:
lightning/src/ln/onion_utils.rs.
"""

from __future__ import annotations

from typing import NamedTuple

from leyden.lightning.failure_codes import NODE, PERM, UPDATE, FailureCode
from leyden.lightning.payer_models.payer_model import FailedShard

_RECEIVER_CODES = frozenset({
    FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, FailureCode.FINAL_INCORRECT_CLTV_EXPIRY,
    FailureCode.FINAL_INCORRECT_HTLC_AMOUNT, FailureCode.MPP_TIMEOUT,
})  # fmt: skip


class Failure(NamedTuple):
    """What a failure says: the hop whose channel is to blame (None: none), whether the payment ends, and whether the
    channel or the node at its end leaves the graph."""

    hop: int | None
    is_final: bool
    removes_channel: int | None = None
    removes_node: bool = False


def interpret(shard: FailedShard) -> Failure:
    """What LDK reads from a failure: a code of a node concerns the channel to it, others the channel after it."""
    at, code, last = shard.reporter_hop, shard.code, len(shard.edges)
    is_receiver = at == last
    outgoing, incoming = min(at, last - 1), max(0, at - 1)
    is_final = bool(code & PERM) and is_receiver
    if code & NODE:
        return Failure(incoming, is_final, removes_node=bool(code & PERM) and at > 0)
    if is_receiver and code in _RECEIVER_CODES:
        # A final code about the amount or the expiry blames the last channel; any other says that it arrived.
        blamed = code in (FailureCode.FINAL_INCORRECT_CLTV_EXPIRY, FailureCode.FINAL_INCORRECT_HTLC_AMOUNT)
        return Failure(incoming if blamed else None, is_final)
    if code & PERM:
        return Failure(outgoing, is_final, removes_channel=outgoing)
    if code & UPDATE:
        return Failure(outgoing, is_final)
    return Failure(incoming, is_final, removes_node=at > 0)
