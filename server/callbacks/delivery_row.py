"""The rows of the table `deliveries`: one callback for one receiver, with its attempts."""

from __future__ import annotations

from typing import NotRequired, TypedDict

Endpoint = tuple[str, str]  # the id of the resource whose request gave the URL, and the URL


class ReplayOrder(TypedDict):
    """A request to send a callback again: its instant, the instant for which it was ordered, and the number of attempts
    so far. An order replaces an earlier one after which there was no attempt. `ended` is the status in which the
    callback had ended; one that was pending, and rows of earlier versions, lack it."""

    at: int
    due_at: int
    attempts: int
    ended: NotRequired[str]


class DeliveryRow(TypedDict):
    """A callback. Instants are in milliseconds since the epoch.

    `url` is the `callbackUrl` of the request that created the resource. `rule` names the spec's callback,
    `sequence` the place among the resource's callbacks. `due_at` is None while an attempt is in flight and after
    the end. `attempts` is written and read by `AttemptLog`. `replayed_from` is the number of attempts at the last
    replay, `replay_orders` has all replays; rows of earlier versions lack it. `refused` is set when the receiver
    answered 410, `endpoint_id` when it differs from `resource_id`. `stopped_at` is the instant at which a 410 to
    another callback ended the delivery; a replay keeps it, and rows of earlier versions lack it. `mismatch` is why the
    spec's schema refuses the body, which is then never sent.
    """

    id: str
    resource_id: str
    endpoint_id: NotRequired[str]
    project: str
    url: str
    rule: str
    event: str
    status: str
    sequence: int
    created_at: int
    due_at: int | None
    agent: str
    body: str
    attempts: str
    replayed_from: NotRequired[int]
    replay_orders: NotRequired[list[ReplayOrder]]
    refused: NotRequired[bool]
    stopped_at: NotRequired[int]
    mismatch: NotRequired[str]


def endpoint_of(row: DeliveryRow) -> Endpoint:
    """The endpoint that a 410 disables. For a payment of a Static Charge the resource is the Static Charge."""
    return row.get("endpoint_id", row["resource_id"]), row["url"]
