"""The JSON values of a network's state: what `leyden.lightning.payer.network_snapshot` writes and reads."""

from __future__ import annotations

from typing import NotRequired, TypedDict

NETWORK_TIMER = "network"
BACKGROUND_TIMER = "network_background"


class SessionRow(TypedDict):
    """A payment session that has not ended: the fields of `PaymentSession`. Former versions wrote no `cause`."""

    amount_msat: int
    attempt_count: int
    cause: NotRequired[str | None]
    fee_limit_msat: int
    fees_msat: int
    final_cltv_blocks: int
    gives_up_at: int | None
    id: str
    latency_seed: int
    max_attempts: int
    max_parts: int
    min_shard_msat: int
    outcome: str | None
    parts_in_flight: int
    payer: int
    pending_outcome: str | None
    policy_retries: list[int]
    received_msat: int
    target: int


class ShardRow(TypedDict):
    """A shard in flight: the fields of `Shard`; `owner` is the id of its session. Without `taken` it is `edges`."""

    amounts: list[int]
    cltv_offsets: list[int]
    code: int
    edges: list[int]
    final_expiry: int
    hop: int
    id: int
    latency_seed: int
    number: int
    owner: str
    phase: int
    reason: str
    reporter_hop: int
    settled: bool | None
    status: str
    taken: NotRequired[list[int]]
    times: list[tuple[int, int | None]]


class NetworkRow(TypedDict):
    """A network without its graph.

    `reseeds` are instants with seeds; `opened` are channels as (node, node, capacity, balance of the first, base
    fee, proportional fee); `background` are the fields of `BackgroundState`, absent in former versions;
    `force_closed` are closed channels as (channel, edge of the closing node, block height), absent in former
    versions; `events` are the shards due at an instant, each with its kind. `mission_control` is by payer: the time
    of the oldest bound, and the bounds as (edge, low, high, time of the success, time of the failure). Former
    versions wrote one time for both. Payers as in LND, LDK and Core Lightning have facts of other lengths
    (`leyden.lightning.payer_models.payer_model`).
    """

    now: int
    event_count: int
    shard_count: int
    reseeds: list[tuple[int, int]]
    opened: list[tuple[int, int, int, int, int, int]]
    closed: list[int]
    force_closed: NotRequired[list[tuple[int, int, int]]]
    background: NotRequired[tuple[int | None, int | None, int, int, int, int, int, int, int]]
    balance: list[int]
    sessions: list[SessionRow]
    shards: list[ShardRow]
    events: list[tuple[int, list[tuple[str, int]]]]
    mission_control: list[tuple[int, int, list[tuple[int, int, int, int, int] | tuple[int, int, int, int] | list[int]]]]
