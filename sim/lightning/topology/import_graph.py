"""Graphs of real networks, from LND's `describegraph` and Core Lightning's `listchannels` and `listnodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jsonschema_rs import Draft202012Validator
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from leyden.arguments import ALL_MSAT
from leyden.errors import GraphError
from leyden.files.json_files import DocumentKind
from leyden.lightning.topology.graph import DEFAULT_POLICY, Graph, assemble
from leyden.lightning.topology.liquidity import LND_SCALE_SAT, UNIFORM, balances
from leyden.server.spelling import closest_names

_LONGEST_ALIAS = 64
_AGAIN = "channel that is listed again"

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


_NUMBER = {"type": ["integer", "string", "null"]}
_FLAG = {"type": ["boolean", "null"]}
_NAME = {"type": ["string", "null"]}
_SIDE = {"type": ["object", "null"], "properties": dict.fromkeys(_LND_POLICY, _NUMBER) | {"disabled": _FLAG}}
_LND = {
    "type": "object",
    "properties": {
        "channel_id": {"type": ["string", "integer"]}, "capacity": _NUMBER, "node1_pub": _NAME, "node2_pub": _NAME,
        "node1_policy": _SIDE, "node2_policy": _SIDE,
    },
}  # fmt: skip
_CLN = {
    "type": "object",
    "properties": {
        "short_channel_id": {"type": "string"}, "source": _NAME, "destination": _NAME, "satoshis": _NUMBER,
        "amount_msat": _NUMBER, "active": _FLAG,
    } | dict.fromkeys(_CLN_POLICY, _NUMBER),
}  # fmt: skip
_NODES = {
    "type": "array",
    "items": {"type": "object", "properties": dict.fromkeys(("pub_key", "nodeid", "alias"), _NAME)},
}
GRAPH = DocumentKind(
    "graph of channels",
    GraphError,
    "give what LND's describegraph or Core Lightning's listchannels printed",
    Draft202012Validator(
        {
            "type": "object",
            "anyOf": [{"required": ["edges"]}, {"required": ["channels"]}],
            "properties": {
                "edges": {"type": "array", "items": _LND},
                "channels": {"type": "array", "items": _CLN},
                "nodes": _NODES,
            },
        }
    ),
    1_000_000_000,
)
NODES = DocumentKind(
    "list of nodes",
    GraphError,
    "give what Core Lightning's listnodes printed",
    Draft202012Validator({"type": "object", "required": ["nodes"], "properties": {"nodes": _NODES}}),
    1_000_000_000,
)


def import_graph(
    document: Mapping[str, Any], *, nodes: Mapping[str, Any] | None = None, shop: str | None = None, seed: int = 0
) -> Imported:
    """Read a parsed `describegraph` (it has `edges`) or `listchannels` (it has `channels`).

    A node has its alias as its name, from `nodes` of the document or of a parsed `listnodes`: an alias of several nodes
    with the first 10 digits of the public key, and the key alone where there is no alias that can be printed.
    `shop` is the alias, the name or the key of the receiving node (default: the node with the most channels).

    The files have no balances: they are drawn with `seed`, uniformly between the reserves, and each sandbox draws them
    again with its own. A direction without a policy is disabled; a channel without any policy, without a capacity,
    without two nodes, listed again or outside of the largest connected part is dropped. Raises `GraphError` for any
    other document, if no channel can be used, and for a shop that names no node or several nodes.
    """
    GRAPH.check(document, "the document")
    dropped: Counter[str] = Counter()
    if "edges" in document:
        rows = [_of_lnd(edge, dropped) for edge in _each_once(document["edges"], dropped)]
    else:
        rows = _of_cln(document["channels"], dropped)
    found = connected(sorted((row for row in rows if row is not None), key=lambda row: row[:3]), dropped)
    if not found:
        raise GraphError(f"no channel of this file can be used: {dict(dropped) or 'it is empty'}")
    keys = sorted({end for row in found for end in row[1:3]})
    numbers = {key: number for number, key in enumerate(keys)}
    listed = (NODES.check(nodes, "nodes") if nodes is not None else document).get("nodes", [])
    aliases = _aliases(listed, numbers)
    names = _names(keys, aliases)
    capacity = np.array([row[3] for row in found], dtype=np.int64)
    sides = [side for row in found for side in row[4:]]
    graph = assemble(
        names,
        np.array([numbers[row[1]] for row in found], dtype=np.int64),
        np.array([numbers[row[2]] for row in found], dtype=np.int64),
        capacity,
        balances(capacity, np.random.default_rng(seed).random(len(capacity)), UNIFORM, LND_SCALE_SAT),
        [np.array([side[place] for side in sides], dtype=np.int64) for place in range(6)],
        shop=None if shop is None else shop_number(shop, keys, names, aliases),
        is_drawn=True,
        keys=keys,
        left_out="; ".join(f"{count} x {why}" for why, count in sorted(dropped.items())),
    )
    return Imported(graph, len(rows) + dropped.get(_AGAIN, 0), dict(sorted(dropped.items())))


def _aliases(listed: Sequence[Mapping[str, Any]], keys: Container[str]) -> dict[str, str]:
    """The aliases that can be shown, by key. BOLT 7 gives them 32 bytes of any content."""
    found: dict[str, str] = {}
    for node in listed:
        key, alias = node.get("pub_key") or node.get("nodeid") or "", (node.get("alias") or "").strip()
        if key in keys and alias and alias.isprintable() and len(alias) <= _LONGEST_ALIAS:
            found[key] = alias
    return found


def _names(keys: Sequence[str], aliases: Mapping[str, str]) -> list[str]:
    """A unique name for each node."""
    times = Counter(aliases.values())
    wanted = []
    for key in keys:
        alias = aliases.get(key, key)
        is_plain = times[alias] <= 1 and alias != "shop"
        wanted.append(alias if is_plain else f"{alias} ({key[:10]})")
    taken = Counter([*wanted, *keys])
    return [name if name == key or taken[name] == 1 else key for name, key in zip(wanted, keys, strict=True)]


def shop_number(shop: str, keys: Sequence[str], names: Sequence[str], aliases: Mapping[str, str]) -> int:
    """The number of the node with this key, name or alias. Raises `GraphError` for one of none or of several."""
    for known in (keys, names, [aliases.get(key) for key in keys]):
        found = [number for number, name in enumerate(known) if name == shop]
        if len(found) == 1:
            return found[0]
        if found:
            raise GraphError(
                f"shop={shop!r:.80} is the alias of {len(found)} nodes: give the key of one, such as {keys[found[0]]}"
            )
    near = closest_names(shop, names, 3)
    advice = f"did you mean {' or '.join(near)}" if near else "give the alias or the public key of a node"
    raise GraphError(f"shop={shop!r:.80} is none of the {len(names)} nodes of this graph: {advice}")


_Row = tuple[str, str, str, int, _Policy, _Policy]
_R = TypeVar("_R", bound=tuple[Any, ...])


def connected(rows: list[_R], dropped: Counter[str]) -> list[_R]:
    """The channels of the largest connected part: no payment goes from one part to another. A row is a channel with its
    name and both ends; `dropped` counts those that are left out."""
    numbers: dict[str, int] = {}
    # The lowest allowed scipy takes no other indices than those of 32 bits here.
    ends = np.array(
        [[numbers.setdefault(end, len(numbers)) for end in row[1:3]] for row in rows], dtype=np.int32
    ).reshape(-1, 2)
    joined = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(numbers), len(numbers)))
    parts = connected_components(joined, directed=False)[1][ends[:, 0]]
    largest = np.bincount(parts).argmax() if len(parts) else 0
    kept = [row for row, part in zip(rows, parts.tolist(), strict=True) if part == largest]
    if len(kept) < len(rows):
        dropped["channel outside of the largest connected part"] += len(rows) - len(kept)
    return kept


def _each_once(edges: Sequence[Mapping[str, Any]], dropped: Counter[str]) -> list[Mapping[str, Any]]:
    """The edges without those whose channel was listed before."""
    found: dict[str, Mapping[str, Any]] = {}
    for number, edge in enumerate(edges):
        name = str(edge.get("channel_id", f"edge {number}"))
        if found.setdefault(name, edge) is not edge:
            dropped[_AGAIN] += 1
    return [*found.values()]


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
    if not 0 < capacity <= ALL_MSAT:
        dropped["channel without a possible capacity"] += 1
        return None
    if sides == [None, None]:
        dropped["channel without any policy"] += 1
        return None
    dropped.update(["direction without a policy, closed"] * sides.count(None))
    closed = (*DEFAULT_POLICY, capacity, 1)
    return name, str(a), str(b), capacity, sides[0] or closed, sides[1] or closed


def _parse_count(value: Any) -> int:
    """A number as these files have it: a JSON number, a string of digits, or `1000msat`; 0 for anything else, and for
    more than all bitcoins."""
    if isinstance(value, int):
        number = int(value)
    else:
        text = str(value if value is not None else 0).removesuffix("msat")
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
    return number if 0 <= number <= ALL_MSAT else 0
