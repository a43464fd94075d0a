"""What a failure teaches a payer: which codes are worth another try, and what it now believes of each channel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from leyden.lightning.engine.undo_log import UndoLog
from leyden.lightning.failure_codes import (
    AMOUNT_BELOW_MINIMUM,
    CHANNEL_DISABLED,
    EXPIRY_TOO_FAR,
    EXPIRY_TOO_SOON,
    FEE_INSUFFICIENT,
    FINAL_INCORRECT_CLTV_EXPIRY,
    FINAL_INCORRECT_HTLC_AMOUNT,
    INCORRECT_CLTV_EXPIRY,
    MPP_TIMEOUT,
    NODE,
    PERM,
    PERMANENT_CHANNEL_FAILURE,
    TEMPORARY_CHANNEL_FAILURE,
    UNKNOWN_NEXT_PEER,
)

GOOD, NOTHING = "route was good", "nothing"
_HOUR_MS = 3_600_000


class FailureInterpretation(NamedTuple):
    """What one failure means. `shut` are edges that now count as failing, `at_any` at any amount; the places below
    `good_to` carried what they were asked to. `retried` says whether another attempt may help."""

    retried: bool
    learned: str
    failed_edges: tuple[int, ...] = ()
    at_any_amount: bool = True
    succeeded_hops: int = 0


def interpret_failure(
    code: int, reporter_hop: int, edges: list[int], *, already_retried: bool, reporter_edges: list[int]
) -> FailureInterpretation:
    """The payer's table. `reporter` is the place of the node that answered, 0 being the payer itself.

    `second` says that a policy of this pair was already refused once in this payment; `around` are the edges that
    touch the reporter, both ways.
    """
    final = reporter_hop == len(edges)
    if final:
        if code == MPP_TIMEOUT:
            return FailureInterpretation(True, GOOD, succeeded_hops=reporter_hop)
        if code in (FINAL_INCORRECT_CLTV_EXPIRY, FINAL_INCORRECT_HTLC_AMOUNT):
            # The last hop may have changed what it was given, but the payer's own channel did not.
            return FailureInterpretation(len(edges) >= 2, "last pair", (edges[-1],))
        # BOLT 4: PERM from the final node: trying again cannot help.
        return FailureInterpretation(not code & PERM, GOOD, succeeded_hops=reporter_hop)
    onward, pair = edges[reporter_hop], (edges[reporter_hop], edges[reporter_hop] ^ 1)
    if code == TEMPORARY_CHANNEL_FAILURE:
        return FailureInterpretation(True, "that direction fails for this amount", (onward,), False, reporter_hop)
    if code in (CHANNEL_DISABLED, UNKNOWN_NEXT_PEER):
        return FailureInterpretation(True, "that pair fails at any amount", pair, succeeded_hops=reporter_hop)
    if code in (AMOUNT_BELOW_MINIMUM, FEE_INSUFFICIENT, INCORRECT_CLTV_EXPIRY):
        # The policy may have changed on the way: it comes with the failure (UPDATE), and deserves one more try.
        if not already_retried or not reporter_hop:
            return FailureInterpretation(True, NOTHING)
        return FailureInterpretation(True, "incoming pair", (edges[reporter_hop - 1],))
    if code in (EXPIRY_TOO_SOON, EXPIRY_TOO_FAR):
        return FailureInterpretation(True, "reporter", tuple(reporter_edges))
    if code & NODE:
        return FailureInterpretation(True, "node removed", tuple(reporter_edges))
    if code == PERMANENT_CHANNEL_FAILURE:
        return FailureInterpretation(True, "channel removed", pair)
    return FailureInterpretation(False, NOTHING)


LiquidityBounds = dict[int, tuple[int, int, int]]


class MissionControl:
    """What every payer believes, by payer and edge: `(low, high, at)`, carries `low`, fails from `high` (msat).

    Beliefs are an hour old at most: balances move. Doubts, whose `high` is not above what the channel holds, are kept a
    second time by themselves: nothing else makes a payer choose another way.
    """

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._bounds: dict[int, LiquidityBounds] = {}
        self._penalties: dict[int, LiquidityBounds] = {}
        self._oldest: dict[int, int] = {}
        self.changed_payers: set[int] = set()  # payers whose beliefs changed while changes were recorded

    def dump(self, payers: Iterable[int] | None = None) -> list[list[Any]]:
        """Everything that is believed, or what these payers believe, as JSON values."""
        return [
            [payer, self._oldest[payer], [[edge, *belief] for edge, belief in self._bounds[payer].items()]]
            for payer in (self._bounds if payers is None else payers)
            if self._bounds.get(payer)
        ]

    @classmethod
    def restore(cls, undo: UndoLog, saved: list[list[Any]], caps: list[int]) -> MissionControl:
        """The beliefs that were written, to be changed by themselves; `caps` are channels' capacities."""
        lessons = cls(undo)
        for payer, oldest, beliefs in saved:
            known: LiquidityBounds = {edge: (low, high, at) for edge, low, high, at in beliefs}
            lessons._bounds[payer], lessons._oldest[payer] = known, oldest
            doubts = {edge: belief for edge, belief in known.items() if belief[1] <= caps[edge >> 1]}
            if doubts:
                lessons._penalties[payer] = doubts
        return lessons

    def penalties(self, payer: int, now_ms: int) -> LiquidityBounds:
        """What speaks against some edges, as far as this payer knows now; not to be changed."""
        known = self._bounds.get(payer)
        if not known:
            return _NOTHING
        doubts = self._penalties.get(payer, _NOTHING)
        if self._oldest[payer] + _HOUR_MS < now_ms:
            for edge in [edge for edge, belief in known.items() if belief[2] + _HOUR_MS < now_ms]:
                for beliefs in (known, doubts) if edge in doubts else (known,):
                    self._undo.record_item(beliefs, edge)
                    del beliefs[edge]
            self._undo.record_item(self._oldest, payer)
            if self._undo.recording:
                self.changed_payers.add(payer)
            self._oldest[payer] = min((belief[2] for belief in known.values()), default=now_ms)
        return doubts

    def report_success(self, payer: int, edges: list[int], amounts: list[int], caps: list[int], at: int) -> None:
        """Believe what a shard taught that passed `edges` with `amounts`; `caps` are channels' capacities.

        What the payer's own channel, the first one, carries is no belief: it sees its balance.
        """
        known = self._bounds.get(payer)
        if known is None:
            known = self._bounds[payer] = {}
        if not known:
            self._oldest[payer] = at
        doubts, recording = self._penalties.get(payer, _NOTHING), self._undo.recording
        if recording:
            self.changed_payers.add(payer)
        for place in range(1, len(edges)):
            edge, low = edges[place], amounts[place]
            belief = known.get(edge)
            if belief is not None and belief[0] > low:
                low = belief[0]
            if recording or edge in doubts:
                high = 0 if belief is None else belief[1]
                self._set_bound(payer, edge, (low, high if high > low else caps[edge >> 1] + 1, at), caps)
            else:
                known[edge] = (low, caps[edge >> 1] + 1, at)

    def report_failure(
        self,
        payer: int,
        interpretation: FailureInterpretation,
        edges: list[int],
        amounts: list[int],
        caps: list[int],
        at: int,
    ) -> None:
        """Believe a lesson from a shard that was sent over `edges` with `amounts`, as `carried` does."""
        self.report_success(payer, edges[: interpretation.succeeded_hops], amounts, caps, at)
        known = self._bounds[payer]
        for edge in interpretation.failed_edges:
            low, high, _ = known.get(edge, (0, caps[edge >> 1] + 1, at))
            failing = 0 if interpretation.at_any_amount else amounts[edges.index(edge)]
            high = min(high, failing)
            self._set_bound(payer, edge, (min(low, max(0, high - 1)), high, at), caps)

    def _set_bound(self, payer: int, edge: int, belief: tuple[int, int, int], caps: list[int]) -> None:
        known = self._bounds[payer]
        self._undo.record_item(known, edge)
        known[edge] = belief
        doubtful = belief[1] <= caps[edge >> 1]
        if doubtful or edge in self._penalties.get(payer, _NOTHING):
            doubts = self._penalties.setdefault(payer, {})
            self._undo.record_item(doubts, edge)
            if doubtful:
                doubts[edge] = belief
            else:
                del doubts[edge]


_NOTHING: LiquidityBounds = {}
