"""Defects of injected faults: the fault has another effect than it should."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leyden import Sandbox
from leyden.callbacks.faults.faults import Faults
from leyden.callbacks.faults.holds import Holds
from leyden.callbacks.inboxes import Received
from leyden.callbacks.replies import Reply
from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.seeded_defects.callback_changes import headers
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.patches import attribute
from tests.seeded_defects.probing import HOOK, inbox, new_charge, paid

Held = Sequence[Mapping[str, Any]]


def _let_go(choose: Callable[[Held], Held]) -> Plant:
    """Release only some of the held deliveries."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, held: original(self, choose(held))

    return attribute(Holds, "release", make)


def _posts(make: Make, kind: str, count: int) -> list[Received]:
    """The callbacks about three Charges, paid a second after each other, with this fault."""
    with make() as sandbox:
        _pay_three(sandbox, kind, count)
        return list(inbox(sandbox))


def _pay_three(sandbox: Sandbox, kind: str, count: int) -> None:
    charges = [new_charge(sandbox, callbackUrl=HOOK, internalId=str(number)) for number in range(3)]
    sandbox.faults.add(kind, count=count)
    for charge in charges:
        paid(sandbox, charge)
    sandbox.run()


def _order(make: Make) -> list[str]:
    return [got.json["internalId"] for got in _posts(make, "reorder", 1)]


def _at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    def defer_until(self: Faults, delivery: Mapping[str, Any], number: int) -> int | None:
        until: int | None = original(self, delivery, number)
        held = self._holds.row(delivery["id"])
        return delivery["due_at"] if held is not None and held["kind"] == "reorder" else until

    return defer_until


@seeded(
    "callbacks",
    "The fault `reorder` does not hold the delivery.",
    violates="decision: faults",
    plant=attribute(Faults, "defer_until", _at_once),
)
def reorder_without_effect(make: Make) -> bool:
    return _order(make) == ["0", "1", "2"]


@seeded(
    "callbacks",
    "The fault `reorder` holds a delivery for an hour even after another one was sent.",
    violates="decision: faults",
    plant=_let_go(lambda held: [one for one in held if one["kind"] != "reorder"]),
)
def reorder_held_too_long(make: Make) -> bool:
    return _order(make) == ["1", "2", "0"]


def _too_early(original: Callable[..., Any]) -> Callable[..., Any]:
    def overtake(self: Holds, post: CallbackRequest) -> None:
        original(self, post)
        self.release([row for row in self._held if "overtaken_by" in row])

    return overtake


@seeded(
    "callbacks",
    "The fault `reorder` sends the held delivery while the other one waits for its answer.",
    violates="decision: faults",
    plant=attribute(Holds, "overtake", _too_early),
)
def reorder_too_early(make: Make) -> bool:
    with make() as sandbox:
        sandbox.receiver("shop").always(Reply(delay="2s"))
        _pay_three(sandbox, "reorder", 1)
        held, other = (next(got for got in inbox(sandbox) if got.json["internalId"] == name) for name in "01")
        return held.at < other.at + 2_000


@seeded(
    "callbacks",
    "A burst does not release the oldest delivery.",
    violates="decision: faults",
    plant=_let_go(lambda held: held[held[0]["kind"] == "burst" :] if held else held),
)
def burst_without_the_oldest(make: Make) -> bool:
    return len({got.at for got in _posts(make, "burst", 3)}) == 2


def _renamed(original: Callable[..., Any]) -> Callable[..., Any]:
    def post(
        self: Faults, post: CallbackRequest, on_response: Callable[[CallbackRequest, CallbackResponse], None]
    ) -> None:
        if (self.hits.row(post.delivery_id, post.attempt) or {}).get("kind") == "burst":
            post = headers(post, webhook_id=f"burst-{post.delivery_id}")
        original(self, post, on_response)

    return post


@seeded(
    "callbacks",
    "The deliveries of a burst have other message ids.",
    violates="decision: faults",
    plant=attribute(Faults, "post", _renamed),
)
def burst_with_new_ids(make: Make) -> bool:
    with make() as sandbox:
        _pay_three(sandbox, "burst", 3)
        own = {row["id"] for row in sandbox.world.service.outbox.deliveries()}
        return not own & {got.webhook_id for got in inbox(sandbox)}
