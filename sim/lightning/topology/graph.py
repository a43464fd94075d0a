"""The graph of a Lightning network: nodes, channels, capacities and the policies of both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from leyden.errors import GraphError

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
    channel_reserve_satoshis). `shop` is the number of the receiving node, if it is given.
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
    reserve_msat: Ints = field(init=False)
    degree: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Raises `GraphError` if the balances of a channel do not add up to its capacity."""
        sums = self.local_msat[0::2] + self.local_msat[1::2]
        if (sums != self.capacity_msat).any() or (self.local_msat < 0).any():
            channel = int(np.flatnonzero(sums != self.capacity_msat)[:1].sum())
            raise GraphError(f"channel {channel}: the balances of its two sides must be 0 or more and add up to it")
        # BOLT 2 leaves the reserve to the peers; one hundredth of the capacity is usual.
        object.__setattr__(self, "reserve_msat", self.capacity_msat // 100)
        object.__setattr__(self, "degree", np.bincount(self.source, minlength=len(self.names)))

    @property
    def channels(self) -> int:
        """The number of channels."""
        return len(self.capacity_msat)

    def dump(self) -> dict[str, Any]:
        """The graph as JSON values."""
        return {"names": self.names, "shop": self.shop} | {name: getattr(self, name).tolist() for name in _COLUMNS}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Graph:
        """The graph that `dump` returned."""
        columns = {name: np.array(saved[name], dtype=kind) for name, kind in _COLUMNS.items()}
        return cls(names=list(saved["names"]), shop=saved["shop"], **columns)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.names)} nodes and {self.channels} channels>"


_COLUMNS: dict[str, type[np.generic]] = {
    "source": np.int64, "target": np.int64, "capacity_msat": np.int64, "base_msat": np.int64, "ppm": np.int64,
    "cltv_delta": np.int64, "htlc_min_msat": np.int64, "htlc_max_msat": np.int64, "disabled": np.bool_,
    "local_msat": np.int64,
}  # fmt: skip


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
        row: dict[str, Any]
        row = dict(zip(("a", "b", "capacity_sat"), given, strict=True)) if isinstance(given, tuple) else dict(given)
        unknown = row.keys() - _FIELDS.keys() - {"a", "b", "capacity_sat", "a_balance_sat"}
        if unknown or not {"a", "b", "capacity_sat"} <= row.keys() or row["a"] == row["b"]:
            raise GraphError(
                f"{given!r} is not a channel: give (a, b, capacity_sat) with two nodes, or a mapping that may add "
                f"a_balance_sat, {', '.join(_FIELDS)}"
            )
        capacity = int(row["capacity_sat"]) * 1_000
        balance = int(row["a_balance_sat"]) * 1_000 if "a_balance_sat" in row else capacity // 2
        if capacity <= 0 or not 0 <= balance <= capacity:
            raise GraphError(f"{given!r}: the capacity must be more than 0 sat, and a's balance at most the capacity")
        ends.append((numbers.setdefault(str(row["a"]), len(numbers)), numbers.setdefault(str(row["b"]), len(numbers))))
        capacities.append(capacity)
        balances.append(balance)
        row.setdefault("htlc_max_msat", capacity)
        fields.append(tuple(row.get(name, default) for name, default in _FIELDS.items()))
    if not ends:
        raise GraphError("a network needs at least one channel: give [(a, b, capacity_sat), ...]")
    if shop is not None and shop not in numbers:
        raise GraphError(f"the shop {shop!r} has no channel: it must be one of the nodes of the edges")
    sides = [_both_sides([row[place] for row in fields]) for place in range(len(_FIELDS))]
    return assemble(
        list(numbers),
        np.array([end[0] for end in ends], dtype=np.int64),
        np.array([end[1] for end in ends], dtype=np.int64),
        np.array(capacities, dtype=np.int64),
        np.array(balances, dtype=np.int64),
        sides,
        shop=len(numbers) - 1 if shop is None else numbers[shop],
    )


def assemble(
    names: list[str], a: Ints, b: Ints, capacity: Ints, a_local: Ints, policies: list[Ints], *, shop: int | None = None
) -> Graph:
    """A graph from its columns by channel; `policies` are the six columns by edge, in the order of `_FIELDS`."""
    base, ppm, delta, least, most, disabled = policies
    return Graph(
        names=names,
        source=_interleaved(a, b),
        target=_interleaved(b, a),
        capacity_msat=capacity,
        base_msat=base,
        ppm=ppm,
        cltv_delta=delta,
        htlc_min_msat=least,
        htlc_max_msat=most,
        disabled=disabled.astype(np.bool_),
        local_msat=_interleaved(a_local, capacity - a_local),
        shop=shop,
    )


_FIELDS: dict[str, int | bool] = {
    "base_msat": DEFAULT_POLICY[0],
    "ppm": DEFAULT_POLICY[1],
    "cltv_delta": DEFAULT_POLICY[2],
    "htlc_min_msat": DEFAULT_POLICY[3],
    "htlc_max_msat": 0,  # 0: the capacity
    "disabled": False,
}


def _both_sides(column: list[Any]) -> Ints:
    pairs = [value if isinstance(value, list | tuple) else (value, value) for value in column]
    return np.array([side for pair in pairs for side in pair], dtype=np.int64)


def _interleaved(even: Ints, odd: Ints) -> Ints:
    both = np.empty(2 * len(even), dtype=np.int64)
    both[0::2], both[1::2] = even, odd
    return both
