"""Failure codes of HTLCs (BOLT 4, "Failure Messages")."""

from __future__ import annotations

# The flags of a code: a channel update is enclosed, the node failed, the failure is permanent.
UPDATE, NODE, PERM = 0x1000, 0x2000, 0x4000


class FailureCode:
    """The codes, as plain integers: they are stored in rows."""

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
    FINAL_INCORRECT_CLTV_EXPIRY = 18
    FINAL_INCORRECT_HTLC_AMOUNT = 19
    CHANNEL_DISABLED = UPDATE | 20
    EXPIRY_TOO_FAR = 21
    MPP_TIMEOUT = 23


# The names in BOLT 4, by code.
FAILURE_NAMES: dict[int, str] = {code: name.lower() for name, code in vars(FailureCode).items() if name.isupper()}

# Failures of a channel, not of the node that reports them.
CHANNEL_FAILURES = frozenset({
    FailureCode.TEMPORARY_CHANNEL_FAILURE, FailureCode.PERMANENT_CHANNEL_FAILURE, FailureCode.UNKNOWN_NEXT_PEER,
    FailureCode.CHANNEL_DISABLED,
})  # fmt: skip

# Failures that enclose the policy that the HTLC does not fulfil.
POLICY_FAILURES = frozenset({
    FailureCode.AMOUNT_BELOW_MINIMUM, FailureCode.FEE_INSUFFICIENT, FailureCode.INCORRECT_CLTV_EXPIRY,
})  # fmt: skip

# The codes that only the final node sends, and those that it never sends (BOLT 4: "but a final node MUST NOT").
FINAL_NODE_CODES = frozenset({
    FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, FailureCode.FINAL_INCORRECT_CLTV_EXPIRY,
    FailureCode.FINAL_INCORRECT_HTLC_AMOUNT, FailureCode.MPP_TIMEOUT,
})  # fmt: skip
FORWARDING_NODE_CODES = frozenset(FAILURE_NAMES) - FINAL_NODE_CODES - {
    FailureCode.TEMPORARY_NODE_FAILURE, FailureCode.PERMANENT_NODE_FAILURE,
}  # fmt: skip

# What a payer learns of a route that reached the receiver, and of one that tells it nothing.
GOOD, NOTHING = "route was good", "nothing"
