"""Graphs in the format of the CLoTH simulator (github.com/marcono/cloth): a list of channels and a list of edges, CSV.

Each file begins with the names of its columns, as in CLoTH's templates, with or without a unit such as `(millisat)`:

    id,edge1_id,edge2_id,node1_id,node2_id,capacity
    id,channel_id,counter_edge_id,from_node_id,to_node_id,balance,fee_base,fee_proportional,min_htlc,timelock

All values are whole numbers, amounts in millisatoshi. CLoTH's list of nodes has their numbers alone and is not needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from jsonschema_rs import Draft202012Validator

from leyden.arguments import ALL_MSAT
from leyden.errors import GraphError
from leyden.files.json_files import DocumentKind
from leyden.lightning.topology.graph import MAX_FEE, Graph, assemble
from leyden.lightning.topology.import_graph import connected, shop_number

_MOST_ID = 2**53 - 1
_MOST_ROWS = 2_000_000
_MOST_DELTA = 2**16 - 1  # BOLT 7, "The `channel_update` Message": cltv_expiry_delta has 16 bits
_MAX_BYTES = 256 * 1024 * 1024

# The columns and the largest value of each.
_CHANNEL = {
    "id": _MOST_ID, "edge1_id": _MOST_ID, "edge2_id": _MOST_ID, "node1_id": _MOST_ID, "node2_id": _MOST_ID,
    "capacity": ALL_MSAT,
}  # fmt: skip
_EDGE = {
    "id": _MOST_ID, "channel_id": _MOST_ID, "counter_edge_id": _MOST_ID, "from_node_id": _MOST_ID,
    "to_node_id": _MOST_ID, "balance": ALL_MSAT, "fee_base": MAX_FEE, "fee_proportional": MAX_FEE,
    "min_htlc": ALL_MSAT, "timelock": _MOST_DELTA,
}  # fmt: skip
CHANNELS = DocumentKind(
    "list of channels of CLoTH", GraphError, f"its columns are {','.join(_CHANNEL)}", Draft202012Validator({}),
    _MAX_BYTES,
)  # fmt: skip
EDGES = DocumentKind(
    "list of edges of CLoTH", GraphError, f"its columns are {','.join(_EDGE)}", Draft202012Validator({}), _MAX_BYTES
)
_UNIT = re.compile(r"\([a-z]+\)\Z")


def import_cloth(
    channels: bytes, edges: bytes, *, shop: str | None = None, where: tuple[str, str] = ("the channels", "the edges")
) -> Graph:
    """The graph of the two files with these contents, which `where` names in errors.

    A node is named by its number, as `n17`; `shop` is the number or the name of the receiving node (default: the node
    with the most channels). The balances are those of the file. The largest HTLC of an edge is the capacity. Channels
    outside of the largest connected part are left out. Raises `GraphError` for other contents: a value out of bounds, a
    number twice, an edge without its channel or its counterpart, balances that do not add up to the capacity.
    """
    directions: dict[int, tuple[int, dict[str, int]]] = {}
    for line, edge in _rows(EDGES, edges, where[1], _EDGE):
        if edge["id"] in directions:
            raise EDGES.refusal(where[1], f"line {line}: there is an edge {edge['id']} already")
        directions[edge["id"]] = line, edge
    rows: list[tuple[str, str, str, int, dict[str, int], dict[str, int]]] = []
    known = set[int]()
    used = 0
    for line, channel in _rows(CHANNELS, channels, where[0], _CHANNEL):
        if channel["id"] in known:
            raise CHANNELS.refusal(where[0], f"line {line}: there is a channel {channel['id']} already")
        known.add(channel["id"])
        ends = channel["node1_id"], channel["node2_id"]
        if ends[0] == ends[1] or not channel["capacity"]:
            raise CHANNELS.refusal(where[0], f"line {line}: a channel joins two nodes, with more than 0 millisat")
        sides = []
        for name, counter, (source, target) in (("edge1_id", "edge2_id", ends), ("edge2_id", "edge1_id", ends[::-1])):
            at, edge = directions.get(channel[name], (0, {}))
            wanted = {
                "channel_id": channel["id"], "counter_edge_id": channel[counter], "from_node_id": source,
                "to_node_id": target,
            }  # fmt: skip
            if not edge:
                raise CHANNELS.refusal(where[0], f"line {line}: {name} is {channel[name]}, and there is no such edge")
            for column, value in wanted.items():
                if edge[column] != value:
                    raise EDGES.refusal(
                        where[1], f"line {at}: {column} is {edge[column]}, and by channel {channel['id']} {value}"
                    )
            sides.append(edge)
        if sides[0]["balance"] + sides[1]["balance"] != channel["capacity"]:
            both = f"{sides[0]['balance']} and {sides[1]['balance']}"
            raise CHANNELS.refusal(
                where[0], f"line {line}: the balances of its edges, {both}, do not add up to {channel['capacity']}"
            )
        used += 2
        rows.append((f"{channel['id']:016}", str(ends[0]), str(ends[1]), channel["capacity"], sides[0], sides[1]))
    if not rows:
        raise CHANNELS.refusal(where[0], "it has no channel")
    if used < len(directions):
        raise EDGES.refusal(where[1], f"it has {len(directions)} edges, and {used} of them are of a channel")
    dropped: Counter[str] = Counter()
    kept = connected(rows, dropped)
    keys = sorted({end for row in kept for end in row[1:3]}, key=int)
    numbers = {key: number for number, key in enumerate(keys)}
    names = [f"n{key}" for key in keys]
    both_sides = [side for row in kept for side in row[4:]]
    capacity = np.array([row[3] for row in kept], dtype=np.int64)
    columns = [
        np.array([side[name] for side in both_sides], dtype=np.int64)
        for name in ("fee_base", "fee_proportional", "timelock", "min_htlc")
    ]
    return assemble(
        names,
        np.array([numbers[row[1]] for row in kept], dtype=np.int64),
        np.array([numbers[row[2]] for row in kept], dtype=np.int64),
        capacity,
        np.array([row[4]["balance"] for row in kept], dtype=np.int64),
        [*columns, np.repeat(capacity, 2), np.zeros(2 * len(kept), dtype=np.int64)],
        shop=None if shop is None else shop_number(shop, keys, names, {}),
        left_out="; ".join(f"{count} x {why}" for why, count in sorted(dropped.items())),
    )


def _rows(
    kind: DocumentKind, data: bytes, where: str, columns: Mapping[str, int]
) -> Iterator[tuple[int, dict[str, int]]]:
    """Each line with its number, and its values by column. Raises `GraphError`."""
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise kind.refusal(where, f"byte {error.start} is not ASCII") from None
    header = [_UNIT.sub("", name.strip()) for name in lines[0].split(",")] if lines else []
    if header != list(columns):
        raise kind.refusal(where, f"its first line is {lines[0]!r:.80}" if lines else "it is empty")
    if len(lines) > _MOST_ROWS:
        raise kind.refusal(where, f"it has {len(lines)} lines, and at most {_MOST_ROWS} are read")
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        values = line.split(",")
        if len(values) != len(columns):
            raise kind.refusal(where, f"line {number} has {len(values)} values")
        row = {}
        for (name, most), text in zip(columns.items(), values, strict=True):
            digits = text.strip()
            if not digits.isdigit() or len(digits) > 20 or int(digits) > most:
                raise kind.refusal(where, f"line {number}: {name} is {digits!r:.40}, not a whole number up to {most}")
            row[name] = int(digits)
        yield number, row
