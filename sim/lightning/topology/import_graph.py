"""Graphs of real networks, from LND's `describegraph` and Core Lightning's `listchannels`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leyden.errors import GraphError
from leyden.lightning.topology.graph import DEFAULT_POLICY, Graph, assemble

# By side: base fee, proportional fee, delta, least and most msat, disabled.
_Policy = tuple[int, int, int, int, int, int]
_LND_POLICY = ("fee_base_msat", "fee_rate_milli_msat", "time_lock_delta", "min_htlc", "max_htlc_msat")
_CLN_POLICY = ("base_fee_millisatoshi", "fee_per_millionth", "delay", "htlc_minimum_msat", "htlc_maximum_msat")


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph that was imported; `dropped` counts by reason what could not be used."""

    graph: Graph
    channels_read: int
    dropped: Mapping[str, int]

    def __repr__(self) -> str:
        dropped = "; ".join(f"{count} x {why}" for why, count in self.dropped.items()) or "nothing"
        return f"Imported({self.graph!r} of {self.channels_read} channels read; dropped or closed: {dropped})"


def import_graph(document: Mapping[str, Any], *, seed: int = 0) -> Imported:
    """Read a parsed `describegraph` (it has `edges`) or `listchannels` (it has `channels`).

    The files have no balances: they are drawn with `seed`, uniformly between the reserves. A direction without a policy
    is disabled; a channel without any policy, without a capacity or without two nodes is dropped. Raises `GraphError`
    for any other document, and if no channel can be used.
    """
    dropped: Counter[str] = Counter()
    if isinstance(document.get("edges"), Sequence):
        rows = [_of_lnd(edge, dropped) for edge in document["edges"]]
    elif isinstance(document.get("channels"), Sequence):
        rows = _of_cln(document["channels"], dropped)
    else:
        raise GraphError(
            "this is neither LND's describegraph (with a list of edges) nor Core Lightning's listchannels (of channels)"
        )
    found = sorted((row for row in rows if row is not None), key=lambda row: row[:3])
    if not found:
        raise GraphError(f"no channel of this file can be used: {dict(dropped) or 'it is empty'}")
    names = sorted({end for row in found for end in row[1:3]})
    numbers = {name: number for number, name in enumerate(names)}
    capacity = np.array([row[3] for row in found], dtype=np.int64)
    reserve = capacity // 100
    rng = np.random.default_rng(seed)
    local = reserve + ((capacity - 2 * reserve) * rng.random(len(found))).astype(np.int64)
    sides = [side for row in found for side in row[4:]]
    graph = assemble(
        names,
        np.array([numbers[row[1]] for row in found], dtype=np.int64),
        np.array([numbers[row[2]] for row in found], dtype=np.int64),
        capacity,
        local,
        [np.array([side[place] for side in sides], dtype=np.int64) for place in range(6)],
    )
    return Imported(graph, len(rows), dict(sorted(dropped.items())))


_Row = tuple[str, str, str, int, _Policy, _Policy]


def _of_lnd(edge: Mapping[str, Any], dropped: Counter[str]) -> _Row | None:
    capacity = _parse_count(edge.get("capacity")) * 1_000
    sides = [_policy(edge.get(name), _LND_POLICY, capacity) for name in ("node1_policy", "node2_policy")]
    name = str(edge.get("channel_id", ""))
    return _channel_row(name, edge.get("node1_pub"), edge.get("node2_pub"), capacity, sides, dropped)


def _of_cln(channels: Sequence[Mapping[str, Any]], dropped: Counter[str]) -> list[_Row | None]:
    """Core Lightning lists each direction separately; both directions of a channel have its short channel id."""
    pairs: dict[str, dict[tuple[Any, Any], Mapping[str, Any]]] = {}
    for half in channels:
        ends = (half.get("source"), half.get("destination"))
        pairs.setdefault(str(half.get("short_channel_id", "")), {})[ends] = half
    rows = []
    for name, halves in pairs.items():
        (a, b), first = next(iter(halves.items()))
        capacity = _parse_count(first.get("amount_msat", _parse_count(first.get("satoshis")) * 1_000))
        sides = [_policy(half, _CLN_POLICY, capacity) for half in (first, halves.get((b, a)))]
        rows.append(_channel_row(name, a, b, capacity, sides, dropped))
    return rows


def _policy(given: Mapping[str, Any] | None, names: tuple[str, ...], capacity: int) -> _Policy | None:
    if not given:
        return None
    base, ppm, delta, least, most = (_parse_count(given.get(name)) for name in names)
    disabled = given.get("disabled") is True or given.get("active") is False  # LND; Core Lightning
    return base, ppm, delta or DEFAULT_POLICY[2], least, most or capacity, int(disabled)


def _channel_row(
    name: str, a: Any, b: Any, capacity: int, sides: Sequence[_Policy | None], dropped: Counter[str]
) -> _Row | None:
    if not a or not b or a == b:
        dropped["channel without two ends"] += 1
        return None
    if capacity <= 0:
        dropped["channel without a size"] += 1
        return None
    if sides == [None, None]:
        dropped["channel without any policy"] += 1
        return None
    dropped.update(["direction without a policy, closed"] * sides.count(None))
    closed = (*DEFAULT_POLICY, capacity, 1)
    return name, str(a), str(b), capacity, sides[0] or closed, sides[1] or closed


def _parse_count(value: Any) -> int:
    """A number as these files have it: a JSON number, a string of digits, or `1000msat`; 0 for anything else."""
    text = str(value if value is not None else 0).removesuffix("msat")
    return int(text) if text.isascii() and text.isdigit() else 0
