"""A minimum-cost flow from one node to another, over edges whose cost per unit rises in steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from typing import NamedTuple


class Steps(NamedTuple):
    """How much an edge carries in each step, and what a unit costs there: costs never fall."""

    capacities: Sequence[int]
    costs: Sequence[int]


def min_cost_flow(
    source: int,
    target: int,
    units: int,
    steps_of: Callable[[int], Steps | None],
    edges_from: Callable[[int], Sequence[int]],
    ends: Sequence[int],
) -> dict[int, int] | None:
    """By edge how many units flow over it when `units` flow from `source` to `target` at the least cost; None if they
    cannot. Edge `e` leads to node `ends[e]`, edge `e ^ 1` back; `steps_of` gives the steps of an edge (None: it carries
    nothing), `edges_from` the edges of a node.

    By successive shortest paths: each path is the cheapest in the residual network, with potentials so that no cost is
    negative (Ahuja, Magnanti and Orlin, "Network Flows", chapter 9).
    """
    known = cache(steps_of)
    flow: dict[int, int] = {}
    potential: dict[int, int] = {}
    left = units
    while left:
        found = _cheapest_path(source, target, known, edges_from, ends, flow, potential)
        if found is None:
            return None
        path, room = found
        amount = min(left, room)
        for edge, is_forward in path:
            flow[edge if is_forward else edge ^ 1] = flow.get(edge if is_forward else edge ^ 1, 0) + (
                amount if is_forward else -amount
            )
        left -= amount
    return {edge: amount for edge, amount in flow.items() if amount}


def _cheapest_path(
    source: int,
    target: int,
    steps_of: Callable[[int], Steps | None],
    edges_from: Callable[[int], Sequence[int]],
    ends: Sequence[int],
    flow: Mapping[int, int],
    potential: dict[int, int],
) -> tuple[list[tuple[int, bool]], int] | None:
    """The cheapest path in the residual network, as edges that get more flow, or whose opposite gets less; and how much
    more may flow at this cost. Raises the potentials by the distances."""
    distance: dict[int, int] = {source: 0}
    came: dict[int, tuple[int, bool, int, int]] = {}  # by node: edge, whether it gets more, room, node before
    done: dict[int, int] = {}
    heap = [(0, 0, source)]
    serial = 0
    while heap:
        at, _, node = heappop(heap)
        if node in done:
            continue
        done[node] = at
        if node == target:
            break
        base = at + potential.get(node, 0)
        for edge in edges_from(node):
            end = ends[edge]
            # A node with one edge leads nowhere else.
            if end in done or (end != target and len(edges_from(end)) == 1):
                continue
            used, returned = flow.get(edge, 0), flow.get(edge ^ 1, 0)
            for is_forward in (True, False) if returned else (True,):
                step = _step(steps_of(edge), used) if is_forward else _last_step(steps_of(edge ^ 1), returned)
                if step is None:
                    continue
                room, cost = step
                reached = base + cost - potential.get(end, 0)
                known = distance.get(end)
                if known is None or reached < known:
                    distance[end], came[end] = reached, (edge, is_forward, room, node)
                    serial += 1
                    heappush(heap, (reached, serial, end))
    if target not in done:
        return None
    farthest = done[target]
    for node, at in done.items():
        potential[node] = potential.get(node, 0) + at - farthest
    path, room, node = [], 1 << 62, target
    while node != source:
        edge, is_forward, left, node = came[node]
        path.append((edge, is_forward))
        room = min(room, left)
    return path, room


def _step(steps: Steps | None, used: int) -> tuple[int, int] | None:
    """What more flows at the present cost, and that cost."""
    if steps is None:
        return None
    for capacity, cost in zip(steps.capacities, steps.costs, strict=True):
        if used < capacity:
            return capacity - used, cost
        used -= capacity
    return None


def _last_step(steps: Steps | None, used: int) -> tuple[int, int] | None:
    """What less may flow at the present saving, and that saving."""
    if steps is None or not used:
        return None
    for capacity, cost in zip(steps.capacities, steps.costs, strict=True):
        if used <= capacity:
            return used, -cost
        used -= capacity
    return None


def paths_of(source: int, target: int, flow: Mapping[int, int], ends: Sequence[int]) -> list[tuple[list[int], int]]:
    """The flow as paths, each with its amount; what flows in a circle is left out."""
    left = dict(flow)
    out: dict[int, list[int]] = {}
    for edge in sorted(flow):
        out.setdefault(ends[edge ^ 1], []).append(edge)
    found: list[tuple[list[int], int]] = []
    while True:
        path: list[int] = []
        node, seen = source, {source: 0}
        while node != target:
            with_flow = [each for each in out.get(node, ()) if left[each]]
            if not with_flow:
                return found
            edge = with_flow[0]
            path.append(edge)
            node = ends[edge]
            if node in seen:
                circle = path[seen[node] :]
                least = min(left[each] for each in circle)
                for each in circle:
                    left[each] -= least
                path = path[: seen[node]]
                seen = {source: 0, **{ends[each]: number for number, each in enumerate(path, 1)}}
            else:
                seen[node] = len(path)
        amount = min(left[edge] for edge in path)
        for edge in path:
            left[edge] -= amount
        found.append((path, amount))
