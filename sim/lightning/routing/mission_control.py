"""Mission control: what a payer learns from failed and successful attempts (named and modelled after LND's)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from leyden.lightning.failure_codes import GOOD, NODE, NOTHING, PERM, POLICY_FAILURES, FailureCode
from leyden.lightning.undo_log import UndoLog

_HOUR_MS = 3_600_000


class FailureInterpretation(NamedTuple):
    """The interpretation of one failure. `failed_edges` fail for the amount sent, or `at_any_amount`; the edges before
    hop `succeeded_hops` carried their amounts. `retried`: another attempt may succeed. `learned` is for the analyst."""

    retried: bool
    learned: str
    failed_edges: tuple[int, ...] = ()
    at_any_amount: bool = True
    succeeded_hops: int = 0


def interpret_failure(
    code: int, reporter_hop: int, edges: list[int], *, already_retried: bool, reporter_edges: list[int]
) -> FailureInterpretation:
    """Interpret a failure code, as LND does. `reporter_hop` is the hop of the node that failed it, 0 being the payer.

    `already_retried`: a policy failure of this edge was already retried in this payment. `reporter_edges` are the edges
    from and to the reporter.
    """
    final = reporter_hop == len(edges)
    if final:
        if code == FailureCode.MPP_TIMEOUT:
            return FailureInterpretation(True, GOOD, succeeded_hops=reporter_hop)
        if code in (FailureCode.FINAL_INCORRECT_CLTV_EXPIRY, FailureCode.FINAL_INCORRECT_HTLC_AMOUNT):
            # The last hop may have changed the amount or the expiry; a payer with a direct channel did not.
            return FailureInterpretation(len(edges) >= 2, "the last pair fails at any amount", (edges[-1],))
        # BOLT 4: with PERM no attempt can succeed. A failure of the receiver's node may pass, and a payer MAY retry: as
        # in LND none does, because nothing says when.
        return FailureInterpretation(not code & (PERM | NODE), GOOD, succeeded_hops=reporter_hop)
    next_edge, pair = edges[reporter_hop], (edges[reporter_hop], edges[reporter_hop] ^ 1)
    if code == FailureCode.TEMPORARY_CHANNEL_FAILURE:
        return FailureInterpretation(True, "that direction fails for this amount", (next_edge,), False, reporter_hop)
    if code in (FailureCode.CHANNEL_DISABLED, FailureCode.UNKNOWN_NEXT_PEER):
        return FailureInterpretation(True, "that pair fails at any amount", pair, succeeded_hops=reporter_hop)
    if code in POLICY_FAILURES:
        # The failure encloses the present policy (UPDATE): it is retried once.
        if not already_retried or not reporter_hop:
            return FailureInterpretation(True, NOTHING)
        return FailureInterpretation(True, "the pair before that node fails at any amount", (edges[reporter_hop - 1],))
    if code in (FailureCode.EXPIRY_TOO_SOON, FailureCode.EXPIRY_TOO_FAR):
        return FailureInterpretation(True, "every pair of that node fails at any amount", tuple(reporter_edges))
    if code & NODE:
        return FailureInterpretation(True, "node removed", tuple(reporter_edges))
    if code == FailureCode.PERMANENT_CHANNEL_FAILURE:
        return FailureInterpretation(True, "channel removed", pair)
    return FailureInterpretation(False, NOTHING)


# Of one edge: it carried `low` and failed from `high` (msat), and when each was observed last (ms).
LiquidityBounds = dict[int, tuple[int, int, int, int]]


class MissionControl:
    """What every payer has learned from its attempts (LND's mission control), by payer and edge: the liquidity bound
    `(low, high, low_at, high_at)` says that at time `low_at` the edge carried `low`, and that at time `high_at` it
    failed from `high` (msat). A `high` above the capacity is no failure.

    Balances change, so each of the two expires an hour after its own time: as in LND, a success says nothing about an
    earlier failure of a larger amount, and does not extend it. Bounds whose `high` is not above the capacity are also
    kept as penalties: only they can change the choice of a route.
    """

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._bounds: dict[int, LiquidityBounds] = {}
        self._penalties: dict[int, LiquidityBounds] = {}
        self._oldest: dict[int, int] = {}
        self.changed_payers: set[int] = set()  # payers whose bounds changed in this commit

    def dump(self, payers: Iterable[int] | None = None) -> list[list[Any]]:
        """All bounds, or those of these payers, as JSON values, by payer in ascending order."""
        return [
            [payer, self._oldest[payer], [[edge, *bound] for edge, bound in self._bounds[payer].items()]]
            for payer in sorted(self._bounds if payers is None else payers)
            if self._bounds.get(payer)
        ]

    @classmethod
    def restore(cls, undo: UndoLog, saved: list[list[Any]], capacities: Sequence[int]) -> MissionControl:
        """The state that `dump` returned; `capacities` (msat) are by channel. Former versions wrote one time for both
        sides of a bound."""
        mission_control = cls(undo)
        for payer, oldest, rows in saved:
            bounds: LiquidityBounds = {edge: (low, high, times[0], times[-1]) for edge, low, high, *times in rows}
            mission_control._bounds[payer], mission_control._oldest[payer] = bounds, oldest
            penalties = {edge: bound for edge, bound in bounds.items() if bound[1] <= capacities[edge >> 1]}
            if penalties:
                mission_control._penalties[payer] = penalties
        return mission_control

    def penalties(self, payer: int, now_ms: int, capacities: Sequence[int]) -> LiquidityBounds:
        """The bounds of this payer that make edges less likely to carry a payment; read only. `capacities` (msat) are
        by channel."""
        bounds = self._bounds.get(payer)
        if not bounds:
            return _NOTHING
        if self._oldest[payer] + _HOUR_MS < now_ms:
            self._expire(payer, bounds, now_ms - _HOUR_MS, capacities)
        return self._penalties.get(payer, _NOTHING)

    def _expire(self, payer: int, bounds: LiquidityBounds, earliest: int, capacities: Sequence[int]) -> None:
        """Forget what a payer observed before `earliest` (ms)."""
        for edge, (low, high, low_at, high_at) in list(bounds.items()):
            if low_at >= earliest and high_at >= earliest:
                continue
            if low_at < earliest:
                low, low_at = 0, high_at
            if high_at < earliest:
                high, high_at = capacities[edge >> 1] + 1, low_at
            if low_at < earliest:  # both have expired
                for kept in (bounds, self._penalties.get(payer, _NOTHING)):
                    if edge in kept:
                        self._undo.record_item(kept, edge)
                        del kept[edge]
            else:
                self._set_bound(payer, edge, (low, high, low_at, high_at), capacities)
        self._undo.record_item(self._oldest, payer)
        if self._undo.recording:
            self.changed_payers.add(payer)
        self._oldest[payer] = min(
            (min(low_at, high_at) for _, _, low_at, high_at in bounds.values()), default=earliest + _HOUR_MS
        )

    def report_success(
        self, payer: int, edges: list[int], amounts: list[int], capacities: Sequence[int], at: int
    ) -> None:
        """Record that `edges` carried `amounts`; `capacities` (msat) are by channel.

        The first edge is left out: it is the payer's own, whose balance it knows.
        """
        bounds = self._bounds.get(payer)
        if bounds is None:
            bounds = self._bounds[payer] = {}
        if not bounds:
            self._oldest[payer] = at
        recording = self._undo.recording
        if recording:
            self.changed_payers.add(payer)
        penalties = self._penalties.get(payer, _NOTHING)
        for hop in range(1, len(edges)):
            edge, amount = edges[hop], amounts[hop]
            bound = bounds.get(edge)
            if bound is None:
                bound = (amount, capacities[edge >> 1] + 1, at, at)
            else:
                low, high, low_at, high_at = bound
                if amount >= low:
                    low, low_at = amount, at
                if high <= low:
                    high, high_at = capacities[edge >> 1] + 1, at
                bound = (low, high, low_at, high_at)
            if recording or edge in penalties:
                self._set_bound(payer, edge, bound, capacities)
            else:
                bounds[edge] = bound

    def report_failure(
        self,
        payer: int,
        interpretation: FailureInterpretation,
        edges: list[int],
        amounts: list[int],
        capacities: Sequence[int],
        at: int,
    ) -> None:
        """Record the interpretation of a failure of a shard that was sent over `edges` with `amounts`."""
        self.report_success(payer, edges[: interpretation.succeeded_hops], amounts, capacities, at)
        bounds = self._bounds[payer]
        for edge in interpretation.failed_edges:
            low, high, low_at, high_at = bounds.get(edge, (0, capacities[edge >> 1] + 1, at, at))
            failed_msat = 0 if interpretation.at_any_amount else amounts[edges.index(edge)]
            if failed_msat <= high:
                high, high_at = failed_msat, at
            self._set_bound(payer, edge, (min(low, max(0, high - 1)), high, low_at, high_at), capacities)

    def _set_bound(self, payer: int, edge: int, bound: tuple[int, int, int, int], capacities: Sequence[int]) -> None:
        bounds = self._bounds[payer]
        self._undo.record_item(bounds, edge)
        bounds[edge] = bound
        limits = bound[1] <= capacities[edge >> 1]
        if limits or edge in self._penalties.get(payer, _NOTHING):
            penalties = self._penalties.setdefault(payer, {})
            self._undo.record_item(penalties, edge)
            if limits:
                penalties[edge] = bound
            else:
                del penalties[edge]


_NOTHING: LiquidityBounds = {}
