"""LDK's search for one path or several (`get_route`). `leyden.lightning.payer_models.ldk` names the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from leyden.lightning.payer_models.ldk_scoring import UNKNOWN, Liquidity, Penalties, channel_penalty
from leyden.lightning.routing.pathfinding import EdgePolicies, Route, hop_fee
from leyden.lightning.routing.shortest_path_trees import AdjacencyIndex

MAX_BLOCKS, PRIVACY_BLOCKS, MAX_PATH_HOPS = 1_008, 2 * 40, 19
MAX_PATHS, PROVISION_FACTOR, SATURATION_SHIFT = 10, 3, 2
_EXHAUSTED = 1 << 62


class _Label(NamedTuple):
    """The best way found from a node to the receiver, for the `value_msat` that arrives by it."""

    cost: int
    edge: int
    value_msat: int
    fees_msat: int
    least_msat: int
    penalty_msat: int
    blocks: int
    hops: int


class _Path(NamedTuple):
    edges: list[int]
    value_msat: int
    penalty_msat: int


@dataclass
class LdkSearch:
    """A search for routes that deliver an amount together.

    `most_fees_msat` is what they may cost together. `known` is what the payer knows by edge, `removed` the channels
    that are not in its graph, `in_flight` what its shards lock by edge, `local` what its own channels carry; `degree`
    is the number of channels by node. `used` grows with each path that is found.
    """

    payer: int
    target: int
    amount_msat: int
    most_fees_msat: int
    final_cltv_blocks: int
    known: Mapping[int, Liquidity]
    removed: AbstractSet[int]
    in_flight: Mapping[int, int]
    local: Mapping[int, int]
    policies: EdgePolicies
    capacity: Sequence[int]
    incoming: AdjacencyIndex
    degree: Sequence[int]
    penalties: Penalties
    used: dict[int, int] = field(default_factory=dict)

    def routes(self) -> list[Route]:
        """The routes; none if there are none."""
        routes = [self._route(path) for path in self._selected(self._collected())]
        fees = sum(route.amounts[0] - route.amounts[-1] for route in routes)
        return routes if fees <= self.most_fees_msat else []

    def _route(self, path: _Path) -> Route:
        """The route of a path. A channel whose minimum is more than the path carries gets its minimum, and the node
        behind it the difference as a fee (`update_value_and_recompute_fees`)."""
        policies, route = self.policies, self.policies.route(path.edges, path.value_msat)
        edges, amounts = route.edges, route.amounts
        for hop in range(len(edges) - 2, -1, -1):
            carried, onward = amounts[hop + 1], edges[hop + 1]
            sent = carried + hop_fee(carried, policies.base_msat[onward], policies.ppm[onward])
            amounts[hop] = max(sent, policies.htlc_min_msat[edges[hop]])
        return route

    def _collected(self) -> list[_Path]:
        """Paths that deliver the amount together, or three times as much; none if there are too few."""
        paths: list[_Path] = []
        collected, value, shift = 0, self.amount_msat, SATURATION_SHIFT
        recommended = self.amount_msat * PROVISION_FACTOR
        while True:
            found, hit_minimum = self._cheapest(value, shift)
            if found is None:
                if shift:
                    shift = 0
                elif hit_minimum and collected < self.amount_msat and value != recommended:
                    value = recommended
                else:
                    break
                continue
            paths += self._use(found, shift)
            collected = sum(path.value_msat for path in paths)
            if collected >= recommended or (collected == self.amount_msat and len(paths) == 1 and not hit_minimum):
                break
            if collected == self.amount_msat and len(paths) == 1:
                value = recommended
        return paths if collected >= self.amount_msat else []

    def _use(self, path: _Path, shift: int) -> list[_Path]:
        """The path with the most that it carries, up to the amount; its liquidity is used."""
        policies, edges, most = self.policies, path.edges, _EXHAUSTED
        base = rate = 0.0
        for edge in reversed(edges):
            room = self._room(edge, shift)
            most = min(most, int((room - base) / (1.0 + rate)))
            fee = policies.ppm[edge] / 1e6
            base, rate = base * (1.0 + fee) + policies.base_msat[edge], rate * (1.0 + fee) + fee
        value = min(most, self.amount_msat)
        amounts = policies.route(edges, value).amounts if value > 0 else []
        if not amounts or any(
            amount < policies.htlc_min_msat[edge] for edge, amount in zip(edges, amounts, strict=True)
        ):
            self._exhaust(edges[len(edges) // 2])
            return []
        for edge, amount in zip(edges, amounts, strict=True):
            self.used[edge] = self.used.get(edge, 0) + amount
        if most > value:
            # Not limited by a channel: the next search would find the same path.
            self._exhaust(edges[len(edges) // 2])
        return [path._replace(value_msat=value)]

    def _exhaust(self, edge: int) -> None:
        self.used[edge] = self.used[edge ^ 1] = _EXHAUSTED

    def _room(self, edge: int, shift: int) -> int:
        """What an edge carries of one set of paths, beside what is used."""
        if edge in self.local:
            room = self.local[edge]
        else:
            room = min(self.capacity[edge >> 1] >> shift, self.policies.htlc_max_msat[edge])
        return room - self.used.get(edge, 0)

    def _selected(self, paths: list[_Path]) -> list[_Path]:
        """The paths that deliver the amount exactly: the most expensive ones are left out, or deliver less."""
        excess = sum(path.value_msat for path in paths) - self.amount_msat
        selected: list[_Path] = []
        left = len(paths)
        for path in sorted(paths, key=self._cost_share, reverse=True):
            if left > 1 and path.value_msat <= excess:
                excess -= path.value_msat
                left -= 1
            else:
                selected.append(path)
        if excess > 0:
            selected.sort(key=lambda path: (sum(self.policies.ppm[edge] for edge in path.edges), -self._cost(path)))
            least = self.policies.htlc_min_msat
            number = next(
                (at for at, one in enumerate(selected) if one.value_msat - excess >= least[one.edges[-1]]), None
            )
            if number is None:
                return []
            selected[number] = selected[number]._replace(value_msat=selected[number].value_msat - excess)
        merged: dict[tuple[int, ...], _Path] = {}
        for path in selected:
            same = merged.get(tuple(path.edges))
            value = path.value_msat + (0 if same is None else same.value_msat)
            merged[tuple(path.edges)] = path._replace(value_msat=value)
        return [merged[key] for key in sorted(merged)]

    def _cost(self, path: _Path) -> int:
        """The fees and the penalties of a path."""
        amounts = self.policies.route(path.edges, path.value_msat).amounts
        return amounts[0] - path.value_msat + path.penalty_msat

    def _cost_share(self, path: _Path) -> int:
        return (self._cost(path) << 64) // path.value_msat

    def _cheapest(self, value_msat: int, shift: int) -> tuple[_Path | None, bool]:
        """The path with the least cost for each msat that it delivers, and whether a channel's minimum was in the way.

        The search goes from the receiver to the payer. The cost is the fees, or the least amount of a channel if that
        is more, and the penalties of the scorer.
        """
        policies, capacity, payer, target = self.policies, self.capacity, self.payer, self.target
        source, degree, penalties = policies.source, self.degree, self.penalties
        most_blocks = MAX_BLOCKS - self.final_cltv_blocks
        most_blocks -= PRIVACY_BLOCKS if most_blocks >= PRIVACY_BLOCKS else 0
        least_value = -(-self.amount_msat // MAX_PATHS)
        recommended = self.amount_msat * PROVISION_FACTOR
        labels: dict[int, _Label] = {}
        done: set[int] = set()
        heap: list[tuple[int, int, int]] = []
        label, node, serial, hit_minimum = _Label(0, -1, value_msat, 0, 0, 0, 0, 0), target, 0, False
        while True:
            done.add(node)
            for edge in self.incoming.edges_of(node) if label.hops < MAX_PATH_HOPS else ():
                origin, is_own = source[edge], edge in self.local
                if origin in done or edge >> 1 in self.removed or (policies.disabled[edge] and not is_own):
                    continue
                fees = label.fees_msat
                room = self._room(edge, shift) - fees
                delta = 0 if is_own else policies.cltv_delta[edge]
                value = min(room, label.value_msat)
                if value < least_value or label.blocks + delta > most_blocks:
                    continue
                sent, least = value + fees, policies.htlc_min_msat[edge]
                if sent < least or sent < label.least_msat:
                    hit_minimum = hit_minimum or recommended >= max(least, label.least_msat)
                    continue
                least = max(least, label.least_msat)
                penalty = penalties.base + penalties.base_amount * sent // (1 << 30)
                best = labels.get(origin)
                if not is_own:
                    base, ppm = policies.base_msat[edge], policies.ppm[edge]
                    fees += base + sent * ppm // 1_000_000
                    least += base + least * ppm // 1_000_000
                    # A node with one channel forwards nothing, and what the scorer adds makes no path cheaper.
                    if fees > self.most_fees_msat or degree[origin] < 2:
                        continue
                    if best and (max(fees, least) + penalty + label.penalty_msat << 64) // value >= best.cost:
                        continue
                    penalty = channel_penalty(
                        self.known.get(edge, UNKNOWN),
                        sent,
                        self.in_flight.get(edge, 0) + self.used.get(edge, 0),
                        capacity[edge >> 1],
                        policies.htlc_max_msat[edge],
                        penalties,
                    )
                penalty += label.penalty_msat
                cost = (max(fees, least) + penalty << 64) // value
                if best is None or cost < best.cost:
                    labels[origin] = _Label(
                        cost, edge, value, fees, least, penalty, label.blocks + delta, label.hops + 1
                    )
                    serial += 1
                    heappush(heap, (cost, serial, origin))
            while heap:
                _, _, node = heappop(heap)
                if node not in done:
                    break
            else:
                return None, hit_minimum
            label = labels[node]
            if node == payer:
                break
        penalty, edges = label.penalty_msat, []
        while node != target:
            edges.append(labels[node].edge)
            node = policies.target[edges[-1]]
        return _Path(edges, label.value_msat, penalty), hit_minimum
