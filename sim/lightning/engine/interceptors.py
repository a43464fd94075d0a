"""Interceptors: what shall go wrong on the network, where, for whom, when and how often.

- `delay`: the node it has reached takes `delay_ms` longer. BOLT 4 sets no bound to that but the expiries.
- `fail`: the node refuses, with `code`. BOLT 4, "Failure Messages".
- `drop`: the node never answers, and its peer claims the HTLC back when it runs out. BOLT 5, and PERM|8 of BOLT 4.
- `offline`: nothing reaches the node, or passes the channel; the one before it answers UPDATE|7. BOLT 4.
"""

from __future__ import annotations

from typing import Any

from leyden.errors import InterceptError
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import (
    FAILURE_NAMES,
    FINAL_NODE_CODES,
    FORWARDING_NODE_CODES,
    TEMPORARY_CHANNEL_FAILURE,
)
from leyden.server.ports import Clock, EventJournal
from leyden.server.store.store import Store

KINDS = ("delay", "fail", "drop", "offline")
_MOST_DELAY_MS = 14 * 86_400_000

Row = dict[str, Any]


class Interceptors:
    """The interceptors of one network, in the store's `interceptors` table, oldest first: the first that fits acts.

    Each HTLC is looked at once by each node it reaches: at `hop` 0 by the payer, before it is sent at all, at the last
    hop by the receiver, before its invoice is looked at.
    """

    def __init__(self, store: Store, clock: Clock, journal: EventJournal, engine: Engine) -> None:
        self.rows = store.table("interceptors", key="id")
        self._clock = clock
        self._journal = journal
        self._engine = engine
        engine.intercept = self.apply

    def add(
        self,
        kind: str,
        *,
        payment: str | None = None,
        hop: int | None = None,
        node: int | None = None,
        channel: int | None = None,
        code: int | None = None,
        delay_ms: int | None = None,
        from_ms: int | None = None,
        until_ms: int | None = None,
        times: int | None = None,
    ) -> Row:
        """Let `kind` befall HTLCs that all of what is given describes: of this payment, at this hop (negative counts
        from the receiver: -1), at this node, about to pass this channel, between two instants (the second excluded).

        `times` is how often it acts (None: always). Raises `InterceptError`.
        """
        engine = self._engine
        if kind not in KINDS:
            raise InterceptError(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
        if (kind == "fail") != (code is not None) or (kind == "delay") != (delay_ms is not None):
            raise InterceptError("fail takes a code, delay a delay; the others take neither")
        if code is not None and code not in FAILURE_NAMES:
            raise InterceptError(f"{code} is no failure code of BOLT 4: {_code_list()}")
        if delay_ms is not None and not 1 <= delay_ms <= _MOST_DELAY_MS:
            raise InterceptError("a delay is more than nothing and at most two weeks")
        if kind == "drop" and hop == 0:
            raise InterceptError("what the payer itself drops was never sent: let a later hop drop it")
        if kind == "offline" and node is None and channel is None:
            raise InterceptError("say who is offline: node=..., or channel=... for one of its channels")
        if node is not None and not 0 <= node < len(engine.graph.names):
            raise InterceptError(f"there is no node {node}")
        if channel is not None and not 0 <= channel < engine.graph.channels:
            raise InterceptError(f"there is no channel {channel}: they are listed with their nodes")
        if times is not None and times < 1:
            raise InterceptError("times is 1 or more, or left out for always")
        if from_ms is not None and until_ms is not None and until_ms <= from_ms:
            raise InterceptError("an interceptor ends after it begins")
        number = len(self.rows) + 1
        while self.rows.row(f"intercept-{number}") is not None:
            number += 1
        row: Row = {
            "id": f"intercept-{number}", "kind": kind, "payment": payment, "hop": hop, "node": node,
            "channel": channel, "code": code, "delay_ms": delay_ms, "from_ms": from_ms, "until_ms": until_ms,
            "times": times, "acted": 0,
        }  # fmt: skip
        self.rows.put(row)
        facts = {name: value for name, value in row.items() if value is not None and name not in ("id", "acted")}
        facts["what"] = facts.pop("kind")
        self._journal.note("interceptor_added", row["id"], **facts)
        return row

    def remove(self, interceptor_id: str) -> None:
        """Let an interceptor act no more. Raises `InterceptError` when there is none of this id."""
        if self.rows.row(interceptor_id) is None:
            raise InterceptError(f"there is no interceptor {interceptor_id!r}: they are listed")
        self.rows.delete(interceptor_id)
        self._journal.note("interceptor_removed", interceptor_id)

    def apply(self, shard: Shard, place: int) -> tuple[str, int, str] | None:
        """What the first interceptor that fits makes of a shard at `place` of its route; None to let it be."""
        if not len(self.rows):
            return None
        now = self._clock.now()
        for row in self.rows:
            if self._fits(row, shard, place, now):
                self.rows.put({**row, "acted": row["acted"] + 1})
                self._journal.note("intercepted", shard.owner.id, by=row["id"], what=row["kind"], hop=place)
                return self._action(row, shard, place)
        return None

    def _fits(self, row: Row, shard: Shard, place: int, now: int) -> bool:
        if row["times"] is not None and row["acted"] >= row["times"]:
            return False
        if (row["from_ms"] or 0) > now or (row["until_ms"] is not None and now >= row["until_ms"]):
            return False
        if row["payment"] not in (None, shard.owner.id):
            return False
        hops, edges, terms = len(shard.edges), shard.edges, self._engine.policies
        if row["hop"] is not None and place != (row["hop"] if row["hop"] >= 0 else hops + 1 + row["hop"]):
            return False
        onward = edges[place] if place < hops else None
        if row["channel"] is not None and (onward is None or onward >> 1 != row["channel"]):
            return False
        at = terms.target[edges[-1]] if onward is None else terms.source[onward]
        if row["kind"] == "offline":
            # The node before the one that is away notices; who is away itself sends nothing either.
            return onward is not None and row["node"] in (None, at, terms.target[onward])
        if row["node"] is not None and at != row["node"]:
            return False
        if row["kind"] == "drop" and place == 0:
            return False
        return row["code"] is None or row["code"] not in (FINAL_NODE_CODES if place < hops else FORWARDING_NODE_CODES)

    def _action(self, row: Row, shard: Shard, place: int) -> tuple[str, int, str]:
        names, terms, edges = self._engine.graph.names, self._engine.policies, shard.edges
        at = terms.source[edges[place]] if place < len(edges) else terms.target[edges[-1]]
        by = f"by interceptor {row['id']}"
        if row["kind"] == "delay":
            return "delay", row["delay_ms"], ""
        if row["kind"] == "drop":
            return "drop", 0, f"{names[at]} never answered, {by}"
        if row["kind"] == "fail":
            return "fail", row["code"], f"{names[at]} answered {FAILURE_NAMES[row['code']]}, {by}"
        # BOLT 4: "if during forwarding to its receiving peer, an otherwise unspecified, transient error occurs in the
        # outgoing channel": UPDATE|7. unknown_next_peer (PERM|10) is for a channel that the node does not have.
        away = names[terms.target[edges[place]] if row["node"] is None else row["node"]]
        return "fail", TEMPORARY_CHANNEL_FAILURE, f"{away} was offline, {by}"


def _code_list() -> str:
    return ", ".join(f"{code} {name}" for code, name in sorted(FAILURE_NAMES.items()))
