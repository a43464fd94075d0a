"""LDK's probabilistic scorer: what a channel's liquidity bounds and their history make of an amount.

Read from lightningdevkit/rust-lightning at commit cfee4b75593b5f676b998713fa60847311cfb270:
lightning/src/routing/scoring.rs (`ProbabilisticScorer`, its parameters with their defaults, the historical buckets)
and log_approx.rs (logarithms from a table of 64 values for each power of two).

Penalties are whole msat, as in LDK. With LDK's defaults only the history of a channel's bounds makes a penalty: the
multipliers of the present bounds are 0, and these bounds matter where an amount is impossible.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import NamedTuple

NEVER = -1
BUCKETS = 32
_ONE = 32  # a data point of a bucket, which are fixed-point numbers of 5 bits
_MINUTE_MS = 60_000

# Where the buckets begin, in 16,384ths of a channel.
_STARTS = (
    0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 13312, 14336, 15360,
    15872, 16128, 16256, 16320, 16352, 16368, 16376, 16380, 16382, 16383, 16384,
)  # fmt: skip
_TICKS = 16_384
_MOST_LOG = 2 * 2048  # an estimated probability is at least 0.01
_NO_SUCCESS = 78 / 64  # a lower bound of 0 is taken as one more reason for doubt
_BILLION = 1024 * 1024 * 1024

Buckets = tuple[int, ...]
EMPTY: Buckets = (0,) * BUCKETS


@dataclass(frozen=True)
class Penalties:
    """`ProbabilisticScoringFeeParameters`, with LDK's defaults at that commit. Amounts are msat.

    The releases up to 0.2 have a fifth of them, except for what is impossible.
    """

    base: int = 5_120
    base_amount: int = 655_360  # for 2^30 msat
    liquidity: int = 0  # for a probability of 0.1
    liquidity_amount: int = 0  # the same, for 2^20 msat
    history: int = 50_000
    history_amount: int = 6_250
    anti_probing: int = 1_250
    impossible: int = 100_000_000_000
    is_linear: bool = False


@dataclass(frozen=True)
class Decay:
    """`ProbabilisticScoringDecayParameters`, and how often a node applies it (`SCORER_PERSIST_TIMER` of the background
    processor). Times are ms; an interval of 0 is continuous."""

    bounds_half_life_ms: int = 30 * _MINUTE_MS
    history_half_life_ms: int = 14 * 24 * 60 * _MINUTE_MS
    interval_ms: int = 5 * _MINUTE_MS


class Liquidity(NamedTuple):
    """What is known of one direction of a channel: the lower bound, and how far the upper one is below the capacity
    (msat); the history of both, in buckets; when the bounds and the history changed last."""

    low_msat: int = 0
    below_msat: int = 0
    lows: Buckets = EMPTY
    belows: Buckets = EMPTY
    bounds_at: int = NEVER
    history_at: int = NEVER

    def reversed(self) -> Liquidity:
        """The same for the other direction: what one side cannot send, the other has."""
        return Liquidity(self.below_msat, self.low_msat, self.belows, self.lows, self.bounds_at, self.history_at)


UNKNOWN = Liquidity()


def decayed(known: Liquidity, now_ms: int, decay: Decay) -> Liquidity:
    """What is left of it at an instant."""
    at = now_ms - now_ms % decay.interval_ms if decay.interval_ms else now_ms
    if at <= known.bounds_at:
        return known
    factor = 0.5 ** ((at - known.bounds_at) / decay.bounds_half_life_ms)
    lows, belows, history_at = known.lows, known.belows, known.history_at
    halvings = (at - history_at) // decay.history_half_life_ms
    if halvings:
        rest = int(1024 * 0.5**halvings)
        lows, belows = (tuple(points * rest // 1024 for points in each) for each in (lows, belows))
        history_at += halvings * decay.history_half_life_ms
    return Liquidity(int(known.low_msat * factor), int(known.below_msat * factor), lows, belows, at, history_at)


def failed_here(known: Liquidity, amount_msat: int, capacity_msat: int, at_ms: int) -> Liquidity:
    """An amount failed at the channel: the upper bound falls to it."""
    if amount_msat < capacity_msat - known.below_msat:
        known = _with_high(known, amount_msat, capacity_msat, at_ms)
    return _tracked(known, 0, capacity_msat, at_ms)


def passed_here(known: Liquidity, amount_msat: int, capacity_msat: int, at_ms: int) -> Liquidity:
    """An amount passed the channel and failed later: the lower bound rises to it."""
    if amount_msat > known.low_msat:
        below = 0 if amount_msat > capacity_msat - known.below_msat else known.below_msat
        known = known._replace(low_msat=amount_msat, below_msat=below, bounds_at=at_ms)
    return _tracked(known, 0, capacity_msat, at_ms)


def settled_here(known: Liquidity, amount_msat: int, capacity_msat: int, at_ms: int) -> Liquidity:
    """An amount was paid over the channel: the upper bound falls by it."""
    known = _with_high(known, max(0, capacity_msat - known.below_msat - amount_msat), capacity_msat, at_ms)
    return _tracked(known, amount_msat, capacity_msat, at_ms)


def _with_high(known: Liquidity, high_msat: int, capacity_msat: int, at_ms: int) -> Liquidity:
    low = 0 if high_msat < known.low_msat else known.low_msat
    return known._replace(low_msat=low, below_msat=max(0, capacity_msat - high_msat), bounds_at=at_ms)


def _tracked(known: Liquidity, paid_msat: int, capacity_msat: int, at_ms: int) -> Liquidity:
    """With a data point of the bounds before the payment in the history."""
    lows = _with_point(known.lows, known.low_msat + paid_msat, capacity_msat)
    belows = _with_point(known.belows, max(0, known.below_msat - paid_msat), capacity_msat)
    return known._replace(lows=lows, belows=belows, history_at=at_ms)


def _with_point(buckets: Buckets, amount_msat: int, capacity_msat: int) -> Buckets:
    position = amount_msat * _TICKS // (capacity_msat + 1)
    if position >= _TICKS:
        return buckets
    kept = [points * 2047 // 2048 for points in buckets]
    kept[next(number for number in range(BUCKETS) if position < _STARTS[number + 1])] += _ONE
    return tuple(kept)


def channel_penalty(
    known: Liquidity, amount_msat: int, in_flight_msat: int, capacity_msat: int, htlc_max_msat: int, costs: Penalties
) -> int:
    """The penalty (msat) of a channel of another node for an amount, beside what the payer has in flight over it."""
    probing = costs.anti_probing if min(htlc_max_msat, capacity_msat) >= capacity_msat // 2 else 0
    base = costs.base + costs.base_amount * amount_msat // (1 << 30)
    return _liquidity_penalty(known, amount_msat, in_flight_msat, capacity_msat, costs) + probing + base


def _liquidity_penalty(
    known: Liquidity, amount_msat: int, in_flight_msat: int, capacity_msat: int, costs: Penalties
) -> int:
    total, found = amount_msat + in_flight_msat, 0
    high = max(0, capacity_msat - known.below_msat)
    low = min(known.low_msat, high)
    if (costs.liquidity or costs.liquidity_amount) and total > low:
        logarithm = _MOST_LOG
        if total < high:
            part, whole = _whole_parts(
                *_share(total, low, high, capacity_msat, costs.is_linear, False), costs.is_linear
            )
            logarithm = 0 if whole - part < whole // 64 else negative_log(part, whole)
        found = _combined(amount_msat, logarithm, costs.liquidity, costs.liquidity_amount)
    if total > high:
        found += costs.impossible
    if total >= capacity_msat:
        return found + _combined(amount_msat, _MOST_LOG, costs.history, costs.history_amount)
    if costs.history or costs.history_amount:
        share = historical_share(known, total, capacity_msat, costs.is_linear)
        if share is not None:
            logarithm = negative_log(int(share * _BILLION) + 1, _BILLION)
        else:
            given = _share(total, 0, capacity_msat, capacity_msat, costs.is_linear, True)
            logarithm = negative_log(*_whole_parts(*given, costs.is_linear))
        found += _combined(amount_msat, logarithm, costs.history, costs.history_amount)
    return found


def _combined(amount_msat: int, logarithm: int, fixed: int, for_amount: int) -> int:
    logarithm = min(logarithm, _MOST_LOG)
    return logarithm * fixed // 2048 + logarithm * for_amount * amount_msat // 2048 // (1 << 20)


def _share(amount: int, low: int, high: int, capacity: int, is_linear: bool, doubts_zero: bool) -> tuple[float, float]:
    """The probability that the liquidity is above an amount, as a fraction: the density of a channel's liquidity x is
    1/256 + 9 (x - 0.5)^8, or constant."""
    doubt = _NO_SUCCESS if doubts_zero and not low else 1
    if is_linear:
        whole = high - low + 1
        return high - amount, whole * 78 // 64 if doubt != 1 else whole
    at_high, at_low, at_amount = (_integral(each / capacity - 0.5) for each in (high, low, amount))
    return at_high - at_amount, (at_high - at_low) * doubt


def _integral(x: float) -> float:
    squared = x * x
    fourth = squared * squared
    return x * fourth * fourth + x / 256


def _whole_parts(part: float, whole: float, is_linear: bool) -> tuple[int, int]:
    if is_linear:
        return int(part), int(whole)
    return int(part * 64 * _BILLION) + 1, int(whole * 64 * _BILLION) + 1


def negative_log(part: int, whole: int) -> int:
    """2,048 times the negative logarithm (base 10) of a fraction, with LDK's rounding."""
    return _log(whole) - _log(part)


def _log(number: int) -> int:
    highest = number.bit_length() - 1
    lower = number >> max(0, highest - 6) & 63
    return round(log10((1 << highest) + ((lower << highest) >> 6)) * 2048)


def historical_share(known: Liquidity, total_msat: int, capacity_msat: int, is_linear: bool) -> float | None:
    """The probability of an amount by the history of the bounds; None without enough of it."""
    position = total_msat * _TICKS // (capacity_msat + 1)
    if position >= _TICKS or not (any(known.lows) and any(known.belows)):
        return None
    lows = [(number, points) for number, points in enumerate(known.lows) if points]
    belows = [(number, points) for number, points in enumerate(known.belows) if points]
    every = float(sum((a * b) ** 2 for low, a in lows for below, b in belows if low + below < BUCKETS))
    if every < _ONE**4:
        return None
    found = 0.0
    for low, points in lows:
        if not low:
            # Failures: only the highest of the upper bounds counts, for all of them.
            full = [below for below, others in belows if others >= _ONE]
            end = _STARTS[BUCKETS - max(full or [below for below, _ in belows])] - 1
            if position < end:
                part, whole = _share(position, 0, end, _TICKS - 1, is_linear, True)
                weight = sum((points * others) ** 2 for _, others in belows)
                found += weight / every * part / whole
            continue
        for below, others in belows:
            end = _STARTS[BUCKETS - below] - 1
            if low + below >= BUCKETS or position >= end:
                break
            likely = (points * others) ** 2 / every
            if position >= _STARTS[low]:
                part, whole = _share(position, _STARTS[low], end, _TICKS - 1, is_linear, True)
                likely *= part / whole
            found += likely
    return found
