"""Interceptors: faults injected into the network, for chosen HTLCs, hops, nodes, channels and times.

- `delay`: the node that the HTLC has reached takes `delay_ms` longer, at most until it must fail the HTLC because of
  the expiries. BOLT 2.
- `fail`: the node fails the HTLC with `code`. BOLT 4, "Failure Messages".
- `drop`: the node never answers, and its peer closes the channel and claims the HTLC when it expires. BOLT 5, and
  PERM|8 of BOLT 4.
- `offline`: nothing reaches the node or passes the channel; the node before it answers the `offline_code` of the
  conditions, PERM|10 of BOLT 4 by default. What is on its way through the node in either direction waits until it is
  back, or expires (not with `hop` or `times`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from leyden.arguments import MAX_COUNT
from leyden.errors import InterceptError
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.interceptor_index import InterceptorIndex
from leyden.lightning.engine.interceptor_row import KINDS, InterceptorRow, RemovedInterceptorRow
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FAILURE_NAMES, FINAL_NODE_CODES, FORWARDING_NODE_CODES
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS
from leyden.server.errors import StoreError
from leyden.server.ports import Clock, EventJournal
from leyden.server.printable import cut, quoted
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

MAX_DELAY_MS = 14 * 86_400_000


class Interceptors:
    """The interceptors of one network, in the store's `interceptors` table, oldest first: the first that matches acts.
    `receiver` is the number of the node that all payments go to. Those that were removed are in the table
    `removed_interceptors`: their outages have been, and no id is given twice.

    Each HTLC is matched once at each node: at hop 0, the payer, before it is offered; at the last hop, the receiver,
    before its invoice is checked.
    """

    def __init__(self, store: Store, clock: Clock, journal: EventJournal, engine: Engine, receiver: int) -> None:
        self.rows = cast(TypedTable[InterceptorRow], store.table("interceptors", key="id", indexes=("kind",)))
        self.removed = cast(TypedTable[RemovedInterceptorRow], store.table("removed_interceptors", key="id"))
        self._clock = clock
        self._journal = journal
        self._engine = engine
        self._receiver = receiver
        self.index = InterceptorIndex(self.rows)
        self.on_removed_outage: Callable[[], None] = lambda: None
        engine.intercept, engine.outage, engine.has_outages = self.apply, self.offline_until, self.has_outages
        engine.what_is_offline = self.what_is_offline

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
    ) -> InterceptorRow:
        """Add an interceptor for the HTLCs that match all that is given: the payment, the hop (negative: counted from
        the receiver, -1), the node, the next channel, and the time from `from_ms` (included) to `until_ms` (excluded).

        `times` is how often it acts (None: always). Raises `InterceptError`.
        """
        engine = self._engine
        if not isinstance(kind, str) or kind not in KINDS:
            raise InterceptError(f"kind is one of {', '.join(KINDS)}, not {quoted(kind)}")
        if (kind == "fail") != (code is not None) or (kind == "delay") != (delay_ms is not None):
            raise InterceptError("fail takes a code, delay a delay; the others take neither")
        if code is not None and code not in FAILURE_NAMES:
            raise InterceptError(f"{code} is not a failure code of BOLT 4: {_code_list()}")
        if delay_ms is not None and not 1 <= delay_ms <= MAX_DELAY_MS:
            raise InterceptError("a delay is more than 0 and at most two weeks")
        for name, number in (("hop", hop), ("channel", channel), ("times", times)):
            if number is not None and (type(number) is not int or abs(number) > MAX_COUNT):
                raise InterceptError(f"{name}={quoted(number, 60)} is not a whole number: give for example {name}=1")
        if hop is not None and not -MAX_HOPS <= hop <= MAX_HOPS:
            raise InterceptError(f"there is no hop {hop}: a route has at most {MAX_HOPS}, and -1 is the receiver")
        if kind == "drop" and hop == 0:
            raise InterceptError("hop 0 is the payer, which cannot drop its own HTLC: give a later hop")
        if kind == "offline" and node is None and channel is None:
            raise InterceptError("offline needs a node, or a channel if only that channel is offline")
        if node is not None and not 0 <= node < len(engine.graph.names):
            raise InterceptError(f"there is no node {node}")
        if channel is not None and not 0 <= channel < engine.graph.channels:
            raise InterceptError(f"there is no channel {channel}: each node lists its channels")
        self._check_can_act(kind, hop, node, channel, code)
        if times is not None and times < 1:
            raise InterceptError("times is 1 or more, or left out for always")
        if from_ms is not None and until_ms is not None and until_ms <= from_ms:
            raise InterceptError("until_ms must be later than from_ms")
        number = len(self.rows) + len(self.removed) + 1
        while self.rows.row(f"intercept-{number}") is not None:  # a former version gave ids again
            number += 1
        row: InterceptorRow = {
            "id": f"intercept-{number}", "kind": kind, "payment": payment, "hop": hop, "node": node,
            "channel": channel, "code": code, "delay_ms": delay_ms, "from_ms": from_ms, "until_ms": until_ms,
            "times": times, "acted": 0,
        }  # fmt: skip
        engine.before_change()  # an event may end otherwise from now on
        self.rows.put(row)
        self.index.add(row, self._clock.now())
        facts = {name: value for name, value in row.items() if value is not None and name not in ("id", "acted")}
        facts["what"] = facts.pop("kind")
        self._journal.note("interceptor_added", row["id"], **facts)
        return row

    def check(self) -> None:
        """Raise `StoreError` for a row that `add` would not have written."""
        engine = self._engine
        nodes, channels = range(len(engine.graph.names)), range(engine.graph.channels)
        for row in (*self.rows, *self.removed):
            kind, code = row["kind"], row["code"]
            checks = {
                "node": row["node"] is None or row["node"] in nodes,
                "channel": row["channel"] is None or row["channel"] in channels,
                "hop": row["hop"] is None or -MAX_HOPS <= row["hop"] <= MAX_HOPS,
                "code": (code is not None) == (kind == "fail") and (code is None or code in FAILURE_NAMES),
                "delay_ms": (row["delay_ms"] is not None) == (kind == "delay") and row["delay_ms"] != 0,
            }
            for field, fits in checks.items():
                if not fits:
                    value = row[field]
                    table = "removed_interceptors" if "removed_at" in row else "interceptors"
                    raise StoreError(f"the table {table}, row {quoted(cut(row['id'], 60))}: {field} is {value}")

    def remove(self, interceptor_id: str) -> None:
        """Remove an interceptor. Raises `InterceptError` for an unknown id."""
        row = self.rows.row(interceptor_id)
        if row is None:
            raise InterceptError(f"there is no interceptor {quoted(interceptor_id)}: see the list of interceptors")
        self._engine.before_change()  # an event may end otherwise from now on
        self.rows.delete(interceptor_id)
        self.removed.put({**row, "removed_at": self._clock.now()})
        self._journal.note("interceptor_removed", interceptor_id)
        if row["kind"] == "offline":
            self.on_removed_outage()

    def apply(self, shard: Shard, hop: int) -> tuple[str, int, str] | None:
        """The action of the first interceptor that matches a shard at a hop; None for none."""
        if not len(self.rows):
            return None
        edges, policies = shard.edges, self._engine.policies
        index, payment, now = self.index, shard.owner.id, self._clock.now()
        if hop < len(edges):
            row = index.first_forwarding(payment, hop, len(edges), edges[hop], self._ends(edges[hop]), now)
        else:
            row = index.first_at_receiver(payment, hop, policies.target[edges[-1]], now)
        if row is None:
            return None
        self.rows.put({**row, "acted": row["acted"] + 1})
        self._journal.note("intercepted", shard.owner.id, by=row["id"], what=row["kind"], hop=hop)
        return self._action(row, shard, hop)

    def has_outages(self) -> bool:
        """Whether an interceptor takes a node or a channel offline."""
        return len(self.rows) > 0 and self.rows.count_with({"kind": "offline"}) > 0

    def offline_until(self, payment_id: str | None, edge: int) -> int | None:
        """Until when (ms) a message about a payment, or one without a row, cannot pass an edge, because a node or the
        channel is offline; None if it can. Interceptors for one hop, or for some of the HTLCs, act on what is offered
        and on nothing else."""
        if not len(self.rows):
            return None
        return self.index.offline_until(payment_id, edge, self._ends(edge), self._clock.now())

    def what_is_offline(self, payment_id: str | None, edge: int) -> str | None:
        """The node or the channel that an interceptor keeps offline for a message about a payment that would pass an
        edge, as the start of a reason; None if none does."""
        row = self.index.first_offline(payment_id, edge, self._ends(edge), self._clock.now())
        return None if row is None else self._offline_text(row, edge)

    def _ends(self, edge: int) -> tuple[int, int]:
        policies = self._engine.policies
        return policies.source[edge], policies.target[edge]

    def _offline_text(self, row: InterceptorRow, edge: int) -> str:
        """What an interceptor keeps offline, and for what: the sandbox's outages have only whole nodes."""
        names, policies = self._engine.graph.names, self._engine.policies
        is_for_all = row["payment"] is None and row["hop"] is row["times"] is None
        if row["channel"] is not None:
            what = f"the channel from {names[policies.source[edge]]} to {names[policies.target[edge]]}"
        else:
            assert row["node"] is not None
            what = names[row["node"]]
        return f"{what} was offline{'' if is_for_all else ' to this HTLC'}, by interceptor {row['id']}"

    def _check_can_act(
        self, kind: str, hop: int | None, node: int | None, channel: int | None, code: int | None
    ) -> None:
        """Raise `InterceptError` for conditions that no HTLC meets: two different places, or a code that the node there
        never sends."""
        names, policies = self._engine.graph.names, self._engine.policies
        if node is not None and channel is not None:
            ends = [policies.source[2 * channel], policies.target[2 * channel]]
            if node not in ends:
                joined = " and ".join(names[end] for end in ends)
                raise InterceptError(
                    f"channel {channel} joins {joined}, not {names[node]}: give one of them, or no node"
                )
        places = {}  # what was given, and whether it is the receiver
        if hop in (-1, MAX_HOPS):
            places[f"hop {hop}"] = True
        elif hop is not None and hop < 1:
            places[f"hop {hop}"] = False
        if kind == "offline":
            places["the node that notices an offline one"] = False
        elif node is not None:
            places[f"node {names[node]}"] = node == self._receiver
        if channel is not None:
            places[f"the node before channel {channel}"] = False
        receiver = next((place for place, is_receiver in places.items() if is_receiver), None)
        earlier = next((place for place, is_receiver in places.items() if not is_receiver), None)
        if receiver is not None and earlier is not None:
            raise InterceptError(f"{receiver} is the receiver, and {earlier} is before it: leave one of them out")
        if receiver is not None and code in FORWARDING_NODE_CODES:
            raise InterceptError(
                f"{receiver} is the receiver, and only a node before it sends {FAILURE_NAMES[code]} (BOLT 4): give "
                "such a node or its hop, or a code of the receiver"
            )
        if earlier is not None and code in FINAL_NODE_CODES:
            raise InterceptError(
                f"{earlier} is before the receiver, and only the receiver sends {FAILURE_NAMES[code]} (BOLT 4): give "
                "hop=-1, or another code"
            )

    def _action(self, row: InterceptorRow, shard: Shard, hop: int) -> tuple[str, int, str]:
        names, policies, edges = self._engine.graph.names, self._engine.policies, shard.edges
        at = policies.source[edges[hop]] if hop < len(edges) else policies.target[edges[-1]]
        by = f"by interceptor {row['id']}"
        if row["delay_ms"] is not None:
            return "delay", row["delay_ms"], ""
        if row["kind"] == "drop":
            return "drop", 0, f"{names[at]} never answered, {by}"
        if row["code"] is not None:
            return "fail", row["code"], f"{names[at]} answered {FAILURE_NAMES[row['code']]}, {by}"
        code = self._engine.conditions.parameters.offline_code
        return "fail", code, self._offline_text(row, edges[hop])


def _code_list() -> str:
    return ", ".join(f"{code} {name}" for code, name in sorted(FAILURE_NAMES.items()))
