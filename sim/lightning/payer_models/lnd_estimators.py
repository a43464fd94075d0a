"""LND's two estimators of the probability that a node forwards an amount to a peer.

Read from lightningnetwork/lnd at commit 90ea05d5a7f9239ede8eb4e2f36d9a66c39e67d5, by file:

routing/probability_apriori.go   the fraction 0.9999 of a capacity, smeared over 0.025 of it, down to the factor 0.5
routing/missioncontrol.go        half-life of an hour, weight 0.5, probability 0.95 after a success
routing/pathfind.go              probability 0.6 of a hop of which nothing is known
routing/probability_bimodal.go   scale of 300,000 sat, weight 0.2 of the node's other pairs, decay in a week
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import NamedTuple, Protocol

HOUR_MS = 3_600_000
NEVER = -1


class PairResult(NamedTuple):
    """What a payer remembers of a directed pair of nodes: amounts (msat), and when (ms, `NEVER`)."""

    success_msat: int = 0
    failure_msat: int = 0
    success_at: int = NEVER
    failure_at: int = NEVER


# The results of one node, by the peer to which it forwarded.
NodeResults = Mapping[int, PairResult]


class Estimator(Protocol):
    """The probability of a hop."""

    def pair(self, now_ms: int, results: NodeResults, to_node: int, amount_msat: int, capacity_msat: int) -> float:
        """The probability that a node forwards an amount to a peer."""

    def local_pair(self, now_ms: int, results: NodeResults, to_node: int) -> float:
        """The same for a channel of the payer's own."""


@dataclass(frozen=True)
class AprioriEstimator:
    """LND's default: every hop has the same probability, until something is known of its node."""

    hop_probability: float = 0.6
    weight: float = 0.5
    half_life_ms: int = HOUR_MS
    capacity_fraction: float = 0.9999
    after_success: float = 0.95

    def pair(self, now_ms: int, results: NodeResults, to_node: int, amount_msat: int, capacity_msat: int) -> float:
        """The probability of a pair: known from its own results, else from those of the node."""
        return self._of_pair(
            now_ms, results, self._of_node(now_ms, results, amount_msat, capacity_msat), to_node, amount_msat
        )

    def local_pair(self, now_ms: int, results: NodeResults, to_node: int) -> float:
        """As after a success, at any amount, unless the pair failed."""
        return self._of_pair(now_ms, results, self.after_success, to_node, None)

    def _of_node(self, now_ms: int, results: NodeResults, amount_msat: int, capacity_msat: int) -> float:
        """The average of the prior and of what the node's pairs have shown; failures count less by age."""
        prior = self.hop_probability * capacity_factor(amount_msat, capacity_msat, self.capacity_fraction)
        if self.weight == 1 or not results:
            return prior
        weights = 1 / (1 - self.weight) - 1
        total = prior * weights
        for result in results.values():
            if amount_msat <= result.success_msat:
                weights += 1
                total += self.after_success
            elif result.failure_at != NEVER and amount_msat >= result.failure_msat:
                weights += self._freshness(now_ms - result.failure_at)
        return total / weights

    def _of_pair(
        self, now_ms: int, results: NodeResults, otherwise: float, to_node: int, amount_msat: int | None
    ) -> float:
        """`otherwise`, corrected by the last results of the pair; an amount of None is above every amount."""
        result = results.get(to_node)
        if result is None:
            return otherwise
        if amount_msat is not None and amount_msat <= result.success_msat:
            return self.after_success
        if result.failure_at == NEVER or (amount_msat is not None and amount_msat < result.failure_msat):
            return otherwise
        return otherwise * (1 - self._freshness(now_ms - result.failure_at))

    def _freshness(self, age_ms: int) -> float:
        return float(2 ** (-age_ms / self.half_life_ms)) if self.half_life_ms else 0.0


def capacity_factor(amount_msat: int, capacity_msat: int, fraction: float) -> float:
    """What the a priori probability is multiplied by: 1 for small amounts, less near the capacity, 0 above it."""
    if fraction == 1 or not capacity_msat:
        return 1.0
    if amount_msat > capacity_msat:
        return 0.0
    return 1 - 0.5 / (1 + exp(-(amount_msat - fraction * capacity_msat) / (0.025 * capacity_msat)))


@dataclass(frozen=True)
class BimodalEstimator:
    """LND's estimator for channels whose balance is on one side: density e^(-x/s) + e^((x-c)/s) + 1/c."""

    scale_msat: int = 300_000_000
    node_weight: float = 0.2
    decay_ms: int = 7 * 24 * HOUR_MS

    def pair(self, now_ms: int, results: NodeResults, to_node: int, amount_msat: int, capacity_msat: int) -> float:
        """The probability of the channel, mixed with how the node's other pairs did."""
        can, cannot = 0, capacity_msat
        result = results.get(to_node)
        if result is not None:
            if result.failure_at != NEVER:
                # LND reads its clock anew, so that some time has passed: a failure at any amount is no 0, which would
                # contradict a success of 0.
                age_ms = max(1, now_ms - result.failure_at)
                cannot = self.cannot_send(result.failure_msat, capacity_msat, age_ms)
            if result.success_at != NEVER:
                can = self.can_send(result.success_msat, now_ms - result.success_at)
        return self.with_node(self.direct(capacity_msat, can, cannot, amount_msat), now_ms, results, to_node)

    def local_pair(self, now_ms: int, results: NodeResults, to_node: int) -> float:
        """1, and less for a time after a failure that the payer did not expect."""
        result = results.get(to_node)
        if result is None or result.failure_at == NEVER:
            return 1.0
        return 1.0 - exp(-max(0, now_ms - result.failure_at) / self.decay_ms)

    def with_node(self, direct: float, now_ms: int, results: NodeResults, to_node: int) -> float:
        """A pair's own probability; without recent results of its own, averaged with the node's other pairs."""
        if not self.node_weight:
            return direct
        own = results.get(to_node)
        latest = NEVER if own is None else max(own.success_at, own.failure_at)
        if latest != NEVER and now_ms - latest < self.decay_ms:
            return direct
        total, weights = direct, 1.0
        for peer, result in results.items():
            if peer == to_node:
                continue
            if result.success_msat > 0:
                weight = self.node_weight * exp(-(now_ms - result.success_at) / self.decay_ms)
                total += weight
                weights += weight
            if result.failure_msat > 0:
                weights += self.node_weight * exp(-(now_ms - result.failure_at) / self.decay_ms)
        return total / weights

    def can_send(self, success_msat: int, age_ms: int) -> int:
        """What a pair can still send, which falls to 0 with time."""
        return int(exp(-age_ms / self.decay_ms) * success_msat)

    def cannot_send(self, failure_msat: int, capacity_msat: int, age_ms: int) -> int:
        """What a pair can still not send, which rises to the capacity with time."""
        return capacity_msat - int(exp(-age_ms / self.decay_ms) * (capacity_msat - min(failure_msat, capacity_msat)))

    def direct(self, capacity_msat: int, can_msat: int, cannot_msat: int, amount_msat: int) -> float:
        """The probability that a channel which carried `can_msat` and failed `cannot_msat` carries an amount."""
        if not capacity_msat or amount_msat > capacity_msat:
            return 0.0
        if cannot_msat <= can_msat:  # they contradict each other
            can_msat, cannot_msat = 0, capacity_msat
        if can_msat >= capacity_msat:
            can_msat, cannot_msat = capacity_msat - 1, capacity_msat
        cannot_msat = min(cannot_msat, capacity_msat)
        if amount_msat >= cannot_msat:
            return 0.0
        if amount_msat <= can_msat:
            return 1.0
        all_of_it = self.integral(capacity_msat, can_msat, cannot_msat)
        share = self.integral(capacity_msat, amount_msat, cannot_msat) / all_of_it if all_of_it else 0.0
        return share if 0.0 <= share <= 1.0 else 0.0

    def integral(self, capacity_msat: float, lower_msat: float, upper_msat: float) -> float:
        """The probability that the balance is between two amounts."""
        return self._primitive(capacity_msat, upper_msat) - self._primitive(capacity_msat, lower_msat)

    def _primitive(self, c: float, x: float) -> float:
        s = self.scale_msat
        return (-exp(-x / s) + exp((x - c) / s) + x / (c * s)) / (2 - 2 * exp(-c / s) + 1 / s)
