"""What a failure teaches a payer: which codes are worth another try, and what it now believes of each channel."""

from __future__ import annotations

from typing import NamedTuple

from sim.lightning.engine import (
    AMOUNT_BELOW_MINIMUM,
    CHANNEL_DISABLED,
    EXPIRY_TOO_FAR,
    EXPIRY_TOO_SOON,
    FEE_INSUFFICIENT,
    INCORRECT_CLTV_EXPIRY,
    NODE,
    PERM,
    PERMANENT_CHANNEL_FAILURE,
    TEMPORARY_CHANNEL_FAILURE,
    UNKNOWN_NEXT_PEER,
)
from sim.lightning.htlc import INCORRECT_DETAILS, MPP_TIMEOUT
from sim.lightning.undo import Undo

FINAL_INCORRECT_CLTV_EXPIRY, FINAL_INCORRECT_HTLC_AMOUNT = 18, 19
TEMPORARY_NODE_FAILURE = NODE | 2
PERMANENT_NODE_FAILURE = PERM | NODE | 2

NAMES = {
    TEMPORARY_NODE_FAILURE: "temporary_node_failure",
    PERMANENT_NODE_FAILURE: "permanent_node_failure",
    TEMPORARY_CHANNEL_FAILURE: "temporary_channel_failure",
    PERMANENT_CHANNEL_FAILURE: "permanent_channel_failure",
    UNKNOWN_NEXT_PEER: "unknown_next_peer",
    AMOUNT_BELOW_MINIMUM: "amount_below_minimum",
    FEE_INSUFFICIENT: "fee_insufficient",
    INCORRECT_CLTV_EXPIRY: "incorrect_cltv_expiry",
    EXPIRY_TOO_SOON: "expiry_too_soon",
    INCORRECT_DETAILS: "incorrect_or_unknown_payment_details",
    FINAL_INCORRECT_CLTV_EXPIRY: "final_incorrect_cltv_expiry",
    FINAL_INCORRECT_HTLC_AMOUNT: "final_incorrect_htlc_amount",
    CHANNEL_DISABLED: "channel_disabled",
    EXPIRY_TOO_FAR: "expiry_too_far",
    MPP_TIMEOUT: "mpp_timeout",
}

GOOD, NOTHING = "route was good", "nothing"
_HOUR_MS = 3_600_000


class Lesson(NamedTuple):
    """What one failure means. `shut` are edges that now count as failing, `at_any` at any amount; the places below
    `good_to` carried what they were asked to. `retried` says whether another attempt may help."""

    retried: bool
    learned: str
    shut: tuple[int, ...] = ()
    at_any: bool = True
    good_to: int = 0


def lesson(code: int, reporter: int, edges: list[int], *, second: bool, around: list[int]) -> Lesson:
    """The payer's table. `reporter` is the place of the node that answered, 0 being the payer itself.

    `second` says that a policy of this pair was already refused once in this payment; `around` are the edges that
    touch the reporter, both ways.
    """
    final = reporter == len(edges)
    if final:
        if code == MPP_TIMEOUT:
            return Lesson(True, GOOD, good_to=reporter)
        if code in (FINAL_INCORRECT_CLTV_EXPIRY, FINAL_INCORRECT_HTLC_AMOUNT):
            # The last hop may have changed what it was given, but the payer's own channel did not.
            return Lesson(len(edges) >= 2, "last pair", (edges[-1],))
        # BOLT 4: PERM from the final node: trying again cannot help.
        return Lesson(not code & PERM, GOOD, good_to=reporter)
    onward, pair = edges[reporter], (edges[reporter], edges[reporter] ^ 1)
    if code == TEMPORARY_CHANNEL_FAILURE:
        return Lesson(True, "that direction fails for this amount", (onward,), False, reporter)
    if code in (CHANNEL_DISABLED, UNKNOWN_NEXT_PEER):
        return Lesson(True, "that pair fails at any amount", pair, good_to=reporter)
    if code in (AMOUNT_BELOW_MINIMUM, FEE_INSUFFICIENT, INCORRECT_CLTV_EXPIRY):
        # The policy may have changed on the way: it comes with the failure (UPDATE), and deserves one more try.
        if not second or not reporter:
            return Lesson(True, NOTHING)
        return Lesson(True, "incoming pair", (edges[reporter - 1],))
    if code in (EXPIRY_TOO_SOON, EXPIRY_TOO_FAR):
        return Lesson(True, "reporter", tuple(around))
    if code & NODE:
        return Lesson(True, "node removed", tuple(around))
    if code == PERMANENT_CHANNEL_FAILURE:
        return Lesson(True, "channel removed", pair)
    return Lesson(False, NOTHING)


class Lessons:
    """What every payer believes, by payer and edge: `(low, high, at)`, carries `low`, fails from `high` (msat).

    Beliefs are an hour old at most: balances move.
    """

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._known: dict[int, dict[int, tuple[int, int, int]]] = {}

    def of(self, payer: int, now_ms: int) -> dict[int, tuple[int, int, int]]:
        """What this payer believes now; not to be changed."""
        known = self._known.get(payer)
        if known is None:
            known = self._known[payer] = {}
        for edge in [edge for edge, belief in known.items() if belief[2] + _HOUR_MS < now_ms]:
            self._undo.remember(known, edge)
            del known[edge]
        return known

    def take(self, payer: int, taught: Lesson, edges: list[int], amounts: list[int], caps: list[int], at: int) -> None:
        """Believe a lesson from a shard that was sent over `edges` with `amounts`; `caps` are channels' capacities."""
        known = self._known.setdefault(payer, {})
        undo = self._undo if self._undo.recording else None
        for place in range(taught.good_to):
            edge, carried = edges[place], amounts[place]
            low, high, _ = known.get(edge, (0, caps[edge >> 1] + 1, at))
            if undo:
                undo.remember(known, edge)
            low = max(low, carried)
            known[edge] = (low, high if high > low else caps[edge >> 1] + 1, at)
        for edge in taught.shut:
            low, high, _ = known.get(edge, (0, caps[edge >> 1] + 1, at))
            if undo:
                undo.remember(known, edge)
            failing = 0 if taught.at_any else amounts[edges.index(edge)]
            high = min(high, failing)
            known[edge] = (min(low, max(0, high - 1)), high, at)
