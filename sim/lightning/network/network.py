"""The network in the Python API: nodes, channels and balances, control operations, and interceptors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from leyden.arguments import checked_share, methods_with_hints, payer_name, whole_msat, whole_number
from leyden.errors import InterceptError
from leyden.lightning.engine.condition_texts import described
from leyden.lightning.failure_codes import FAILURE_NAMES
from leyden.lightning.network.control_operations import ChannelRow, NetworkOperations, Span, interceptor_times
from leyden.lightning.network.network_tables import channel_status, on_chain_msat
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.lightning.topology.graph import DEFAULT_POLICY, MAX_FEE
from leyden.repr_tables import counted
from leyden.server.printable import quoted
from leyden.stepwise import run_to_end

_NAMES_SHOWN = 5

# Returns a context for a change: it records the call with its arguments, and excludes other changes.
RecordAction = Callable[[str, list[Any], dict[str, Any]], AbstractContextManager[Any]]


@methods_with_hints
class Network:
    """A sandbox's network: `network["shop"]` is the shop's node, `network[name]` the node of that name or public
    key, or of the wallet of that name once it has paid. `GraphError` for any other name.
    """

    def __init__(self, payments: RoutedPayments, record_action: RecordAction) -> None:
        self.operations = NetworkOperations(payments, in_python=True)
        self.engine = payments.engine
        self.record_action = record_action

    @property
    def graph(self) -> Any:
        """The nodes and channels, a `leyden.lightning.topology.graph.Graph`."""
        return self.engine.graph

    def __getitem__(self, name: str) -> NetworkNode:
        return NetworkNode(self, name, self.operations.node(name), f"[{name!r}]")

    def wallet(self, name: str) -> NetworkNode:
        """The node of a wallet, whether it has paid or not: every name has one, the same each time."""
        return NetworkNode(self, name, self.operations.payments.node_of(payer_name(name)), f".wallet({name!r})")

    def __len__(self) -> int:
        return len(self.graph.names)

    @property
    def conditions(self) -> str:
        """The conditions as `Sandbox(conditions=...)` takes them, with every value; but `liquidity` and `shop` only if
        they were given, because a graph may have its own."""
        return described(self.engine.conditions.parameters)

    @property
    def background(self) -> dict[str, int]:
        """What background traffic did: payments that `succeeded` and `failed`, the amounts (msat) that the shop spent
        and swapped out, `spent_msat` and `swapped_msat`, the `fees_msat` that it paid for that, and those that it
        earned with the payments of others, `earned_msat`; see `leyden.lightning.payer.background_traffic`."""
        state = self.engine.background._asdict()
        names = ("succeeded", "failed", "spent_msat", "swapped_msat", "fees_msat", "earned_msat")
        return {name: state[name] for name in names}

    @property
    def offline(self) -> list[str]:
        """The names of the nodes that are offline now, by the conditions or by an interceptor. The conditions do not
        stop the payments of the node's own wallets; an interceptor does."""
        return self.operations.offline_nodes()

    def intercept(
        self,
        kind: str,
        *,
        payment: Any = None,
        hop: int | None = None,
        node: str | None = None,
        channel: int | None = None,
        code: int | str | None = None,
        delay: Span | None = None,
        after: Span = 0,
        lasting: Span | None = None,
        times: int | None = None,
    ) -> Interceptor:
        """Inject a fault for the HTLCs that match all that is given; see `leyden.lightning.engine.interceptors`.

        `kind` is `delay` (by `delay`), `fail` (with a BOLT 4 `code`, as a number or a name), `drop` or `offline`.
        `payment` is a payment or its id; `hop` 0 is the payer, -1 the receiver; `channel` the next channel. It acts
        `after` a time, for the time `lasting` (default: until removed), at most so many `times`.
        Raises `InterceptError`, also for conditions that no HTLC meets: a code that the node at this place never sends
        (BOLT 4), or two places; and for a time below 0 or above 1,000 years and for a `lasting` of 0.
        """
        delay_ms, after_ms, lasting_ms = interceptor_times(delay, after, lasting)
        place = {"payment": getattr(payment, "id", payment), "hop": hop, "node": node, "channel": channel}
        spans = {"delay": _seconds(delay_ms), "after": _seconds(after_ms or None), "lasting": _seconds(lasting_ms)}
        with self.record_action(".intercept", [kind], _given(**place, code=code, **spans, times=times)):
            row = self.operations.intercept(
                kind,
                **place,
                code=code_of(code),
                delay_ms=delay_ms,
                after_ms=after_ms,
                lasting_ms=lasting_ms,
                times=times,
            )
        return Interceptor(self, row["id"])

    @property
    def interceptors(self) -> list[Interceptor]:
        """The interceptors that were added and not removed, oldest first."""
        return [Interceptor(self, row["id"]) for row in self.operations.payments.interceptors.rows]

    def remove(self, interceptor_id: str) -> None:
        """Remove an interceptor. Raises `InterceptError`."""
        if not isinstance(interceptor_id, str):
            raise InterceptError(
                f"interceptor_id={quoted(interceptor_id, 60)} is no id: give a text such as intercept-1"
            )
        with self.record_action(".remove", [interceptor_id], {}):
            self.operations.payments.interceptors.remove(interceptor_id)

    def close_channel(self, channel: int) -> None:
        """Close a channel: it takes no new HTLC, and those in flight are resolved first. Raises `GraphError`."""
        channel = whole_number("channel", channel)
        with self.record_action(".close_channel", [channel], {}):
            self.operations.close_channel(channel)

    def __repr__(self) -> str:
        in_flight_msat = sum(self.engine.in_flight)
        closed = self.engine.closed
        total = sum(msat for channel, msat in enumerate(self.engine.capacity) if channel not in closed)
        offline = self.offline
        named = ", ".join(offline[:_NAMES_SHOWN]) + (", ..." if len(offline) > _NAMES_SHOWN else "")
        return (
            f"Network of {len(self)} nodes and {self.graph.channels - len(closed)} open channels, "
            f"{total // 1_000} sat, {in_flight_msat} msat in flight\n{self._origin()}  shop: {self['shop']!r}\n"
            f"  conditions: {self.conditions}\n{self._force_closed()}{self._background()}"
            f"  offline now: {f'{len(offline)} of {len(self)} nodes: {named}' if offline else 'no node'}"
        )

    def _force_closed(self) -> str:
        channels = sorted(self.engine.force_closed)
        if not channels:
            return ""
        height = self.operations.height()
        on_chain = sum(on_chain_msat(self.engine, edge, height) for c in channels for edge in (2 * c, 2 * c + 1))
        named = ", ".join(map(str, channels[:_NAMES_SHOWN])) + (", ..." if len(channels) > _NAMES_SHOWN else "")
        return f"  force closed: {len(channels)} of the channels ({named}), {on_chain} msat on the chain\n"

    def _background(self) -> str:
        done = self.background
        if not any(done.values()):
            return ""
        return (
            f"  background: {done['succeeded']} payments succeeded and {done['failed']} failed; the shop spent"
            f" {done['spent_msat'] // 1_000} sat and swapped out {done['swapped_msat'] // 1_000} sat\n"
        )

    def _origin(self) -> str:
        if not self.graph.origin:
            return ""
        left_out = f"; left out: {self.graph.left_out}" if self.graph.left_out else ""
        return f"  read from: {self.graph.origin}{left_out}\n"


class Interceptor:
    """One interceptor."""

    def __init__(self, network: Network, interceptor_id: str) -> None:
        self._network = network
        self.id = interceptor_id

    @property
    def row(self) -> dict[str, Any]:
        """The stored row. Raises `InterceptError` when it was removed."""
        row = self._network.operations.payments.interceptors.rows.row(self.id)
        if row is None:
            raise InterceptError(f"{self.id} was removed: add another one with network.intercept()")
        return dict(row)

    @property
    def acted(self) -> int:
        """The number of times that it has acted."""
        return int(self.row["acted"])

    def remove(self) -> None:
        """Remove it. Raises `InterceptError`."""
        self._network.remove(self.id)

    def __repr__(self) -> str:
        row = {name: value for name, value in self.row.items() if value is not None and name not in ("id", "acted")}
        return f"Interceptor({self.id}: {row}, acted {self.acted} times)"


@methods_with_hints
class NetworkNode:
    """One node with its channels as they are now. Amounts are msat."""

    def __init__(self, network: Network, given_name: str, number: int, call: str) -> None:
        self._network = network
        self._operations = network.operations
        self._call = call
        self._given_name = given_name
        self.number = number
        self.name = network.graph.names[number]

    @property
    def outbound_msat(self) -> int:
        """The node's own balances in its open channels."""
        return self._operations.outbound_msat(self.number)

    @property
    def inbound_msat(self) -> int:
        """The balances of its peers in them: it cannot receive more. A channel with a disabled direction is open,
        and counts."""
        return self._operations.inbound_msat(self.number)

    @property
    def channels(self) -> list[ChannelRow]:
        """Every channel: the peer, the capacity, and the balances of both sides."""
        return self._operations.channels(self.number)

    def drain(self, *, inbound: float = 0.0, outbound: float = 0.0) -> NetworkNode:
        """Move shares (0 to 1) of the inbound or the outbound liquidity of each channel. Raises `ValueError`.

        The amounts are then on the other side of the same channels, as after many payments.
        """
        example = "drain(inbound=0.98) moves 98 % of the inbound liquidity"
        inbound, outbound = checked_share("inbound", inbound, example), checked_share("outbound", outbound, example)
        with self._network.record_action(f"{self._call}.drain", [], {"inbound": inbound, "outbound": outbound}):
            self._operations.drain(self.number, inbound, outbound)
        return self

    def rebalance(self, amount: int | str, *, out: str | None = None, into: str | None = None) -> int:
        """Send an amount (msat) in a circle, out over the channel to one peer and in over that of another, and return
        the fee. The node's inbound liquidity grows only by the fee: for more, a channel to it must be opened.

        Raises `GraphError` if no circle carries it, and `ValueError` for an amount that is not whole.
        """
        amount = whole_msat("amount", amount)
        with self._network.record_action(f"{self._call}.rebalance", [amount], _given(out=out, into=into)):
            return run_to_end(self._operations.rebalance(self.number, amount, out, into))

    def open_channel(
        self,
        peer: str,
        capacity: int | str,
        *,
        local: int | str | None = None,
        base_msat: int = DEFAULT_POLICY[0],
        ppm: int = DEFAULT_POLICY[1],
    ) -> int:
        """Open a channel (msat) to a peer and return its number. This node's balance in it is all of it, or `local`:
        `network["n5"].open_channel("shop", 5_000_000_000)` is inbound liquidity for the shop.

        `base_msat` and `ppm` are the fees of both sides, 0 to 4294967295 each (32 bits, BOLT 7). Raises `GraphError`,
        and `ValueError` for a number that is not whole or out of bounds.
        """
        capacity, local = whole_msat("capacity", capacity), None if local is None else whole_msat("local", local)
        base_msat, ppm = whole_number("base_msat", base_msat, 0, MAX_FEE), whole_number("ppm", ppm, 0, MAX_FEE)
        named = _given(local=local, base_msat=base_msat, ppm=ppm)
        with self._network.record_action(f"{self._call}.open_channel", [peer, capacity], named):
            return self._operations.open_channel(
                self.number, self._operations.node(peer), capacity, local, base_msat, ppm
            )

    def offline(self, lasting: Span | None = None) -> Interceptor:
        """Take the node offline for the time `lasting` (default: until the interceptor is removed). Raises
        `InterceptError` for a time that is not above 0."""
        _, _, lasting_ms = interceptor_times(lasting=lasting)
        with self._network.record_action(f"{self._call}.offline", [], _given(lasting=_seconds(lasting_ms))):
            row = self._operations.intercept("offline", node=self.name, lasting_ms=lasting_ms)
        return Interceptor(self._network, row["id"])

    def __repr__(self) -> str:
        own = (self.name, "shop", *self._network.graph.keys[self.number : self.number + 1])
        whose = "" if self._given_name in own else f", the node of the wallet {self._given_name!r},"
        return (
            f"{self.name}{whose} with {self._counted_channels()}, outbound {self.outbound_msat // 1_000} sat, "
            f"inbound {self.inbound_msat // 1_000} sat"
        )

    def _counted_channels(self) -> str:
        """The numbers of its channels, by the states that the balances have. A disabled one is open."""
        engine, height = self._network.engine, self._operations.height()
        states = Counter(channel_status(engine, edge, height) for edge in engine.out_edges(self.number))
        shown = [counted(states["open"] + states["disabled"], "open channel")]
        return ", ".join([*shown, *(f"{states[state]} {state}" for state in ("closing", "closed") if states[state])])


def code_of(code: int | str | None) -> int | None:
    """A failure code by its number or its name in BOLT 4. Raises `InterceptError`."""
    if not isinstance(code, str):
        return code
    found = {name: number for number, name in FAILURE_NAMES.items()}.get(code)
    if found is None:
        raise InterceptError(
            f"{quoted(code)} is not a failure code of BOLT 4: give one of {', '.join(sorted(FAILURE_NAMES.values()))}"
        )
    return found


def _given(**named: Any) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1_000
