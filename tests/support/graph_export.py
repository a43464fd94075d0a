"""Graphs in the forms that LND and Core Lightning print, for tests: no file of a public network is in this project."""

from __future__ import annotations

from typing import Any

from leyden.lightning.topology.graph import Graph


def key_of(node: int) -> str:
    """A text with the form of a public key, the same for each number."""
    return f"02{node:064x}"


def describegraph(graph: Graph) -> dict[str, Any]:
    """What LND's `describegraph` prints: numbers are texts, and the policies are those of `channel_update`."""
    edges = []
    for channel in range(graph.channels):
        edge = 2 * channel
        edges.append(
            {
                "channel_id": str((700_000 + channel) << 40 | 1),
                "chan_point": f"{channel:064x}:0",
                "last_update": 1_600_000_000,
                "node1_pub": key_of(int(graph.source[edge])),
                "node2_pub": key_of(int(graph.target[edge])),
                "capacity": str(graph.capacity_msat[channel] // 1_000),
                "node1_policy": _policy(graph, edge),
                "node2_policy": _policy(graph, edge + 1),
            }
        )
    return {"nodes": [{"pub_key": key_of(n), "alias": f"alias {n}"} for n in range(len(graph.names))], "edges": edges}


def _policy(graph: Graph, edge: int) -> dict[str, Any]:
    return {
        "time_lock_delta": int(graph.cltv_delta[edge]),
        "min_htlc": str(graph.htlc_min_msat[edge]),
        "fee_base_msat": str(graph.base_msat[edge]),
        "fee_rate_milli_msat": str(graph.ppm[edge]),
        "disabled": bool(graph.disabled[edge]),
        "max_htlc_msat": str(graph.htlc_max_msat[edge]),
        "last_update": 1_600_000_000,
    }


def listchannels(graph: Graph) -> tuple[dict[str, Any], dict[str, Any]]:
    """What Core Lightning's `listchannels` and `listnodes` print: each direction of a channel by itself."""
    channels = [
        {
            "source": key_of(int(graph.source[edge])),
            "destination": key_of(int(graph.target[edge])),
            "short_channel_id": f"{700_000 + edge // 2}x1x0",
            "direction": edge % 2,
            "public": True,
            "amount_msat": int(graph.capacity_msat[edge // 2]),
            "active": not graph.disabled[edge],
            "base_fee_millisatoshi": int(graph.base_msat[edge]),
            "fee_per_millionth": int(graph.ppm[edge]),
            "delay": int(graph.cltv_delta[edge]),
            "htlc_minimum_msat": int(graph.htlc_min_msat[edge]),
            "htlc_maximum_msat": int(graph.htlc_max_msat[edge]),
        }
        for edge in range(2 * graph.channels)
    ]
    nodes = [{"nodeid": key_of(n), "alias": f"alias {n}"} for n in range(len(graph.names))]
    return {"channels": channels}, {"nodes": nodes}
