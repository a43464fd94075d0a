"""The control plane's operations for the Lightning network: nodes, channels, liquidity, interceptors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from leyden.devserver.control.operations import find_payment
from leyden.devserver.control.pages import Page, item_page, page
from leyden.devserver.control.slices import in_slices
from leyden.server.contract.bind import handles
from leyden.server.errors import NotFound, SemanticConflict
from leyden.server.http.request import Request
from leyden.server.timestamps import to_iso
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lightning.engine.interceptor_row import InterceptorRow
    from leyden.lightning.network.control_operations import NetworkOperations
    from leyden.lightning.payer.payment_rows import AttemptRow

_DIRECT = "payments are direct here: serve the sandbox with --network scale-free:400"


class NetworkControl:
    """Handlers for one world's network. Where payments are direct, each raises `SemanticConflict`."""

    def __init__(self, world: World) -> None:
        self._world = world

    @handles(raises=(NotFound,), needs=("path.id", "query.limit"), recorded=False)
    def list_attempts(self, call: Request) -> Page:
        """One page of the attempts of one payment, in order."""
        return item_page(call, "attempt", find_payment(self._world, call)["attempts"], _attempt)

    @handles(raises=(SemanticConflict,), needs=("query.limit",), recorded=False)
    def list_network_nodes(self, call: Request) -> Page:
        """One page of the nodes, the shop's first."""
        with self._transaction() as operations:
            graph, shop, text = operations.engine.graph, operations.payments.shop, call.query.get("text", "").lower()
            texts = [f"{name}\n{key}".lower() for name, key in zip_longest(graph.names, graph.keys, fillvalue="")]
            nodes = [shop, *(node for node in range(len(texts)) if node != shop)]
            wanted = [node for node in nodes if text in texts[node]]
            return item_page(call, "node", wanted, lambda node: _summary(operations, node))

    @handles(raises=(SemanticConflict,), needs=("path.name",), recorded=False)
    def get_network_node(self, call: Request) -> dict[str, Any]:
        """One node and its channels."""
        with self._transaction() as operations:
            return _node(operations, call.path["name"])

    @handles(raises=(SemanticConflict,), needs=("path.name", "body.inbound", "body.outbound"))
    def drain_node(self, call: Request) -> dict[str, Any]:
        """Move the node's liquidity away, so that it cannot receive, or cannot send."""
        with self._transaction() as operations:
            operations.drain(operations.node(call.path["name"]), call.body["inbound"], call.body["outbound"])
        return _node(operations, call.path["name"])

    @handles(raises=(SemanticConflict,), needs=("path.name", "body.amount"))
    async def rebalance_node(self, call: Request) -> dict[str, Any]:
        """Send a circular payment from the node to itself, from one channel to another."""
        body, fee_msat = call.body, None
        while fee_msat is None:
            with self._transaction() as operations:
                node = operations.node(call.path["name"])
            steps = operations.rebalance(node, int(body["amount"]), body.get("out"), body.get("into"))
            fee_msat = await in_slices(self._world, steps, self._transaction)
        return {"fee": str(fee_msat)}

    @handles(raises=(SemanticConflict,), needs=("path.name", "body.peer", "body.capacity"))
    def open_channel(self, call: Request) -> dict[str, Any]:
        """Open a channel from this node to another."""
        body = call.body
        with self._transaction() as operations:
            from leyden.lightning.topology.graph import DEFAULT_POLICY

            node = operations.node(call.path["name"])
            local = None if body.get("local") is None else int(body["local"])
            base_msat, ppm = DEFAULT_POLICY[:2]
            channel = operations.open_channel(
                node, operations.node(body["peer"]), int(body["capacity"]), local, base_msat, ppm
            )
        return next(row for row in _node(operations, call.path["name"])["channels"] if row["channel"] == channel)

    @handles(raises=(SemanticConflict, NotFound), needs=("path.channel",))
    def close_channel(self, call: Request) -> dict[str, Any]:
        """Close one channel."""
        number = int(call.path["channel"])
        with self._transaction() as operations:
            if number >= operations.engine.graph.channels or number in operations.engine.closed:
                raise NotFound("there is no open channel with this number: GET a node to see its channels")
            operations.close_channel(number)
        return {"cleared": 1}

    @handles(raises=(SemanticConflict,), needs=("query.limit",), recorded=False)
    def list_interceptors(self, call: Request) -> Page:
        """One page of the interceptors that were added and not removed, the oldest first."""
        operations = self._operations()
        rows = operations.payments.interceptors.rows
        return page(
            call,
            "interceptor",
            lambda after, limit: rows.page_up(None, after, limit),
            lambda row: _interceptor(operations, row),
        )

    @handles(raises=(SemanticConflict,), needs=("body.kind",))
    def add_interceptor(self, call: Request) -> dict[str, Any]:
        """Add an interceptor."""
        body = call.body
        with self._transaction() as operations:
            from leyden.lightning.network.control_operations import interceptor_times

            delay_ms, after_ms, lasting_ms = interceptor_times(
                body.get("delay"), body.get("after"), body.get("lasting")
            )
            row = operations.intercept(
                body["kind"],
                node=body.get("node"),
                after_ms=after_ms,
                lasting_ms=lasting_ms,
                delay_ms=delay_ms,
                **{name: body.get(name) for name in ("payment", "hop", "channel", "code", "times")},
            )
        return _interceptor(operations, row)

    @handles(raises=(SemanticConflict, NotFound), needs=("path.id",))
    def remove_interceptor(self, call: Request) -> dict[str, Any]:
        """Remove one interceptor."""
        with self._transaction() as operations:
            interceptors = operations.payments.interceptors
            if interceptors.rows.row(call.path["id"]) is None:
                raise NotFound("this sandbox has no interceptor with this id: list the interceptors")
            interceptors.remove(call.path["id"])
        return {"cleared": 1}

    # Inside

    def _operations(self) -> NetworkOperations:
        if self._world.engine is None:
            raise SemanticConflict(_DIRECT)
        from leyden.lightning.network.control_operations import NetworkOperations
        from leyden.lightning.payer.routed_payments import RoutedPayments

        payments = self._world.payments
        assert isinstance(payments, RoutedPayments)
        return NetworkOperations(payments)

    @contextmanager
    def _transaction(self) -> Iterator[NetworkOperations]:
        """Read or change the network in one transaction. A refused change is rolled back and raises
        `SemanticConflict`."""
        operations = self._operations()
        from leyden.errors import GraphError, InterceptError

        try:
            with self._world.exclusive():
                yield operations
        except (GraphError, InterceptError) as refused:
            raise SemanticConflict(str(refused)) from None


def _attempt(row: AttemptRow) -> dict[str, Any]:
    return {
        "attempt": row["part"],
        "at": to_iso(row["at"]),
        "amount": str(row["amount_msat"]),
        "fee": str(row.get("fee_msat", 0)),
        "route": row.get("route", []),
        "status": row["status"],
        "hop": row.get("hop"),
        "source": row["source"],
        "code": row["code"],
        "name": row["name"],
        "retried": row["retried"],
        "learned": row["learned"],
        "reason": row["reason"],
        "resolvedAt": None if row["resolved_at"] is None else to_iso(row["resolved_at"]),
    }


def _named(operations: NetworkOperations, node: int) -> dict[str, str]:
    graph = operations.engine.graph
    return {"name": graph.names[node], **({"publicKey": graph.keys[node]} if graph.keys else {})}


def _summary(operations: NetworkOperations, node: int) -> dict[str, Any]:
    return {
        **_named(operations, node),
        "shop": node == operations.payments.shop,
        "outbound": str(operations.outbound_msat(node)),
        "inbound": str(operations.inbound_msat(node)),
        "channels": len(operations.engine.open_edges(node)),
    }


def _node(operations: NetworkOperations, name: str) -> dict[str, Any]:
    node = operations.node(name)
    return {
        **_named(operations, node),
        "shop": node == operations.payments.shop,
        "outbound": str(operations.outbound_msat(node)),
        "inbound": str(operations.inbound_msat(node)),
        "channels": [
            {
                "channel": row["channel"],
                "peer": row["peer"],
                "capacity": str(row["capacity_msat"]),
                "local": str(row["local_msat"]),
                "remote": str(row["remote_msat"]),
                "inFlight": str(row["in_flight_msat"]),
                "onChain": str(row["on_chain_msat"]),
                "closed": row["closed"],
            }
            for row in operations.channels(node)
        ],
    }


def _interceptor(operations: NetworkOperations, row: InterceptorRow) -> dict[str, Any]:
    plain = {name: row[name] for name in ("id", "kind", "payment", "hop", "channel", "code", "times", "acted")}
    return {
        **plain,
        "node": None if row["node"] is None else operations.engine.graph.names[row["node"]],
        "delay": None if row["delay_ms"] is None else row["delay_ms"] / 1_000,
        "from": None if row["from_ms"] is None else to_iso(row["from_ms"]),
        "until": None if row["until_ms"] is None else to_iso(row["until_ms"]),
    }
