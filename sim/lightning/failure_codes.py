"""Failure codes of HTLCs (BOLT 4, "Failure Messages")."""

from __future__ import annotations

# The flags of a code: a channel update is enclosed, the node failed, the failure is permanent.
UPDATE, NODE, PERM = 0x1000, 0x2000, 0x4000
TEMPORARY_NODE_FAILURE = NODE | 2
PERMANENT_NODE_FAILURE = PERM | NODE | 2
TEMPORARY_CHANNEL_FAILURE = UPDATE | 7
PERMANENT_CHANNEL_FAILURE = PERM | 8
UNKNOWN_NEXT_PEER = PERM | 10
AMOUNT_BELOW_MINIMUM = UPDATE | 11
FEE_INSUFFICIENT = UPDATE | 12
INCORRECT_CLTV_EXPIRY = UPDATE | 13
EXPIRY_TOO_SOON = UPDATE | 14
INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS = PERM | 15
FINAL_INCORRECT_CLTV_EXPIRY, FINAL_INCORRECT_HTLC_AMOUNT = 18, 19
CHANNEL_DISABLED = UPDATE | 20
EXPIRY_TOO_FAR = 21
MPP_TIMEOUT = 23

# Failures of a channel, not of the node that reports them.
CHANNEL_FAILURES = frozenset(
    {TEMPORARY_CHANNEL_FAILURE, PERMANENT_CHANNEL_FAILURE, UNKNOWN_NEXT_PEER, CHANNEL_DISABLED}
)

# The codes that only the final node sends, and those that it never sends (BOLT 4: "but a final node MUST NOT").
FINAL_NODE_CODES = frozenset(
    {INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, FINAL_INCORRECT_CLTV_EXPIRY, FINAL_INCORRECT_HTLC_AMOUNT, MPP_TIMEOUT}
)

FAILURE_NAMES = {
    TEMPORARY_NODE_FAILURE: "temporary_node_failure",
    PERMANENT_NODE_FAILURE: "permanent_node_failure",
    TEMPORARY_CHANNEL_FAILURE: "temporary_channel_failure",
    PERMANENT_CHANNEL_FAILURE: "permanent_channel_failure",
    UNKNOWN_NEXT_PEER: "unknown_next_peer",
    AMOUNT_BELOW_MINIMUM: "amount_below_minimum",
    FEE_INSUFFICIENT: "fee_insufficient",
    INCORRECT_CLTV_EXPIRY: "incorrect_cltv_expiry",
    EXPIRY_TOO_SOON: "expiry_too_soon",
    INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS: "incorrect_or_unknown_payment_details",
    FINAL_INCORRECT_CLTV_EXPIRY: "final_incorrect_cltv_expiry",
    FINAL_INCORRECT_HTLC_AMOUNT: "final_incorrect_htlc_amount",
    CHANNEL_DISABLED: "channel_disabled",
    EXPIRY_TOO_FAR: "expiry_too_far",
    MPP_TIMEOUT: "mpp_timeout",
}

FORWARDING_NODE_CODES = frozenset(FAILURE_NAMES) - FINAL_NODE_CODES - {TEMPORARY_NODE_FAILURE, PERMANENT_NODE_FAILURE}
