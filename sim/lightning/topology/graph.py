"""The graph of a Lightning network: nodes, channels, capacities and the policies of both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from jsonschema_rs import Draft4Validator

from leyden.arguments import ALL_MSAT
from leyden.errors import GraphError
from leyden.files.json_files import DocumentKind
from leyden.repr_tables import counted
from leyden.server.contract.schema_errors import with_short_alternatives
from leyden.server.printable import quoted

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# LND's defaults: base fee (msat), proportional fee (ppm), CLTV delta (blocks), smallest HTLC (msat).
DEFAULT_POLICY = (1_000, 1, 80, 1_000)
MAX_FEE = 2**32 - 1  # BOLT 7, "The `channel_update` Message": both fees have 32 bits


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes and channels as arrays. Immutable: worlds share it.

    Channel `c` has two directions, the edges `2c` and `2c + 1`: `source`, `target` and every policy are by edge, the
    policy being the source's. Amounts are msat, `cltv_delta` blocks. `local_msat` is the source's initial balance,
    which payers do not know. `reserve_msat` is by channel: each side keeps at least that much (BOLT 2,
    channel_reserve_satoshis). `shop` is the number of the receiving node, if it is given. `conditions` is a text as in
    `leyden.lightning.engine.condition_texts`.

    A graph of a public network has no balances: with `is_drawn` each sandbox draws `local_msat` with its own seed.
    `keys` are the public keys of its nodes, `origin` is the text that reads it again, `left_out` says which channels of
    the file it does not have.
    """

    names: list[str]
    source: Ints
    target: Ints
    capacity_msat: Ints
    base_msat: Ints
    ppm: Ints
    cltv_delta: Ints
    htlc_min_msat: Ints
    htlc_max_msat: Ints
    disabled: Flags
    local_msat: Ints
    shop: int | None = None
    conditions: str = ""
    is_drawn: bool = False
    keys: list[str] = field(default_factory=list)
    origin: str = ""
    left_out: str = ""
    reserve_msat: Ints = field(init=False)
    degree: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Raises `GraphError` if the columns do not describe channels between the nodes, or if the balances of a
        channel do not add up to its capacity."""
        self._check_columns()
        sums = self.local_msat[0::2] + self.local_msat[1::2]
        if (sums != self.capacity_msat).any():
            channel = int(np.flatnonzero(sums != self.capacity_msat)[0])
            raise GraphError(f"channel {channel}: the balances of its two sides must be 0 or more and add up to it")
        # BOLT 2 leaves the reserve to the peers; one hundredth of the capacity is usual.
        object.__setattr__(self, "reserve_msat", self.capacity_msat // 100)
        object.__setattr__(self, "degree", np.bincount(self.source, minlength=len(self.names)))

    def _check_columns(self) -> None:
        channels, nodes = len(self.capacity_msat), len(self.names)
        for name in _COLUMNS:
            column, entries = getattr(self, name), channels if name == "capacity_msat" else 2 * channels
            if column.shape != (entries,):
                raise GraphError(
                    f"{name} has {counted(len(column), 'value')} for {counted(channels, 'channel')}: give {entries}"
                )
            if ((column < 0) | (column > ALL_MSAT)).any():
                raise GraphError(f"{name} has a value that is below 0, or more msat than all bitcoins: correct it")
        ends = np.concatenate([self.source, self.target])
        if not channels or (ends >= nodes).any() or (self.source == self.target).any():
            raise GraphError(f"a channel joins two of the {nodes} nodes (numbers from 0): correct source and target")
        if (self.source[0::2] != self.target[1::2]).any() or (self.source[1::2] != self.target[0::2]).any():
            raise GraphError("the edges 2c and 2c + 1 are the two directions of a channel: correct source and target")
        if (self.capacity_msat == 0).any():
            raise GraphError("the capacity of a channel is more than 0 msat: correct capacity_msat")
        if len(set(self.names)) != nodes:
            raise GraphError("two nodes have one name: give each node a name of its own")
        if self.keys and (len(self.keys) != nodes or len(set(self.keys)) != nodes):
            raise GraphError(
                f"keys has {counted(len(self.keys), 'value')} for {nodes} nodes: give each node a key of its own"
            )
        if self.shop is not None and self.shop not in range(nodes):
            raise GraphError(f"shop is {self.shop}: give the number of one of the {nodes} nodes, from 0")

    @property
    def channels(self) -> int:
        """The number of channels."""
        return len(self.capacity_msat)

    @property
    def text(self) -> str:
        """The text from which this graph is read again, with its conditions; empty if it was not read from a file."""
        return ",".join(filter(None, (self.origin, self.conditions))) if self.origin else ""

    def dump(self) -> dict[str, Any]:
        """The graph as JSON values."""
        named = {"names": self.names, "shop": self.shop}
        given = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name)}
        return named | given | {name: getattr(self, name).tolist() for name in _COLUMNS}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Graph:
        """The graph that `dump` returned. Raises `GraphError` for anything else."""
        _SAVED.check(saved, "the graph")
        columns: dict[str, Any] = {name: np.array(saved[name], dtype=kind) for name, kind in _COLUMNS.items()}
        given = {name: saved[name] for name in _OPTIONAL if name in saved}
        _check_names([*saved["names"], *saved.get("keys", ())])
        return cls(names=list(saved["names"]), shop=saved["shop"], **given, **columns)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.names)} nodes and {self.channels} channels>"


_COLUMNS: dict[str, type[np.generic]] = {
    "source": np.int64, "target": np.int64, "capacity_msat": np.int64, "base_msat": np.int64, "ppm": np.int64,
    "cltv_delta": np.int64, "htlc_min_msat": np.int64, "htlc_max_msat": np.int64, "disabled": np.bool_,
    "local_msat": np.int64,
}  # fmt: skip
_INTEGERS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": ALL_MSAT}}
_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
_OPTIONAL = {
    "conditions": _TEXT, "is_drawn": {"type": "boolean"}, "keys": _TEXTS, "origin": _TEXT, "left_out": _TEXT,
}  # fmt: skip
_SCHEMA = {
    "type": "object",
    "required": ["names", "shop", *_COLUMNS],
    "properties": {
        **dict.fromkeys(_COLUMNS, _INTEGERS),
        "disabled": {"type": "array", "items": {"type": "boolean"}},
        "names": _TEXTS,
        **_OPTIONAL,
        "shop": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**31}, {"type": "null"}]},
    },
}
# In Draft 4 of JSON Schema 1.0 is no integer.
_VALIDATOR = Draft4Validator(with_short_alternatives(_SCHEMA))
_SAVED = DocumentKind("graph", GraphError, "give what `dump()` returned", _VALIDATOR, 1_000_000_000)


def from_edges(edges: Iterable[tuple[str, str, int] | Mapping[str, Any]], *, shop: str | None = None) -> Graph:
    """A graph from a list of channels: `(a, b, capacity_sat)` each, or a mapping with further fields.

    A mapping has `a`, `b` and `capacity_sat`; further `a_balance_sat` (default: half), `base_msat`, `ppm`,
    `cltv_delta`, `htlc_min_msat`, `htlc_max_msat` for both directions, or a pair `[of a, of b]`; `disabled` likewise.
    `shop` is the name of the receiving node (default: the last new name). Raises `GraphError`.
    """
    numbers: dict[str, int] = {}
    ends: list[tuple[int, int]] = []
    capacities: list[int] = []
    balances: list[int] = []
    fields: list[tuple[Any, ...]] = []
    for given in edges:
        row = _channel_fields(given)
        unknown = row.keys() - _FIELDS.keys() - {"a", "b", "capacity_sat", "a_balance_sat"}
        if unknown or not {"a", "b", "capacity_sat"} <= row.keys() or row["a"] == row["b"]:
            raise GraphError(
                f"{_shown(given)} is not a channel: give (a, b, capacity_sat) with two nodes, or a mapping that may "
                f"add a_balance_sat, {', '.join(_FIELDS)}"
            )
        capacity = _sat(row["capacity_sat"], given) * 1_000
        balance = _sat(row["a_balance_sat"], given) * 1_000 if "a_balance_sat" in row else capacity // 2
        if not 0 < capacity <= ALL_MSAT or not 0 <= balance <= capacity:
            raise GraphError(
                f"{_shown(given)}: the capacity is more than 0 sat and at most all bitcoins, and a's balance at most "
                "the capacity"
            )
        ends.append((numbers.setdefault(str(row["a"]), len(numbers)), numbers.setdefault(str(row["b"]), len(numbers))))
        capacities.append(capacity)
        balances.append(balance)
        row.setdefault("htlc_max_msat", capacity)
        fields.append(tuple(row.get(name, default) for name, default in _FIELDS.items()))
    if not ends:
        raise GraphError("a network needs at least one channel: give [(a, b, capacity_sat), ...]")
    if shop is not None and shop not in numbers:
        raise GraphError(f"the shop {quoted(shop)} has no channel: it must be one of the nodes of the edges")
    sides = [_both_sides(name, [row[place] for row in fields]) for place, name in enumerate(_FIELDS)]
    return assemble(
        list(numbers),
        np.array([end[0] for end in ends], dtype=np.int64),
        np.array([end[1] for end in ends], dtype=np.int64),
        np.array(capacities, dtype=np.int64),
        np.array(balances, dtype=np.int64),
        sides,
        shop=len(numbers) - 1 if shop is None else numbers[shop],
    )


def _check_names(names: list[str]) -> None:
    """Raise `GraphError` for a name that no file and no response could have."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        wrong = next(name for name in names if not name.isascii() and name.encode("utf-8", "ignore").decode() != name)
        raise GraphError(
            f"the node {quoted(wrong, 60)} has half a character, a surrogate: give it another name"
        ) from None


def assemble(
    names: list[str],
    a: Ints,
    b: Ints,
    capacity: Ints,
    a_local: Ints,
    policies: list[Ints],
    *,
    shop: int | None = None,
    **further: Any,
) -> Graph:
    """A graph from its columns by channel; `policies` are the six columns by edge, in the order of `_FIELDS`, and
    `further` the other attributes of `Graph`."""
    base, ppm, delta, least, most, disabled = policies
    _check_names([*names, *further.get("keys", ())])
    return Graph(
        names=names,
        source=interleaved(a, b),
        target=interleaved(b, a),
        capacity_msat=capacity,
        base_msat=base,
        ppm=ppm,
        cltv_delta=delta,
        htlc_min_msat=least,
        htlc_max_msat=most,
        disabled=disabled.astype(np.bool_),
        local_msat=interleaved(a_local, capacity - a_local),
        shop=shop,
        **further,
    )


_FIELDS: dict[str, int | bool] = {
    "base_msat": DEFAULT_POLICY[0],
    "ppm": DEFAULT_POLICY[1],
    "cltv_delta": DEFAULT_POLICY[2],
    "htlc_min_msat": DEFAULT_POLICY[3],
    "htlc_max_msat": 0,  # 0: the capacity
    "disabled": False,
}


def _channel_fields(given: Any) -> dict[str, Any]:
    """The fields of a channel as `from_edges` is given it. Raises `GraphError`."""
    try:
        return dict(zip(("a", "b", "capacity_sat"), given, strict=True)) if isinstance(given, tuple) else dict(given)
    except (TypeError, ValueError):
        raise GraphError(f"{_shown(given)} is not a channel: give (a, b, capacity_sat), or a mapping") from None


def _sat(value: Any, given: Any) -> int:
    try:
        return int(value)
    except (OverflowError, TypeError, ValueError):
        raise GraphError(f"{_shown(given)}: {_shown(value)} is not a number of sat: give a whole number") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _both_sides(name: str, column: list[Any]) -> Ints:
    sides: list[int] = []
    for value in column:
        pair = value if isinstance(value, list | tuple) else (value, value)
        if len(pair) != 2 or not all(isinstance(side, int | np.integer) and 0 <= side <= ALL_MSAT for side in pair):
            raise GraphError(f"{name}={_shown(value)}: give a whole number from 0, or a pair [of a, of b]")
        sides += pair
    return np.array(sides, dtype=np.int64)


def interleaved(even: Ints, odd: Ints) -> Ints:
    """The values of both sides of each channel, as the columns by edge have them."""
    both = np.empty(2 * len(even), dtype=np.int64)
    both[0::2], both[1::2] = even, odd
    return both
