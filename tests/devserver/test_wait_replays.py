"""The note of a wait about a Static Charge names the replay that brings a match, in each state of the Static Charge."""

from __future__ import annotations

import re

import pytest

from leyden import Sandbox

HOOK = "http://shop.localhost/hook"
WAIT = "/sandbox/v1/deliveries/wait"
REPLIES = {"delivered": [200], "stopped": [410], "exhausted": [500] * 30, "blocked": []}
AWAITED = ["delivered", "stopped", "exhausted", "blocked", "pending"]


def paid_once(sandbox: Sandbox, state: str, ended_as: str) -> str:
    """A Static Charge in this state, whose one delivery ended so."""
    sandbox.receiver("shop").answers(REPLIES[ended_as])
    static = sandbox.static_charges.create(
        minAmount="1000",
        maxAmount="1000",
        description="tips",
        callbackUrl="http://127.0.0.1:1080/hook" if ended_as == "blocked" else HOOK,
        allowedSlots=1 if state == "disabled" else None,
        expiresIn=1_000_000 if state == "expired" else 0,
    )
    sandbox.wallet("ana").scan(static)
    sandbox.advance("20d")
    assert static.status == ("active" if state == "without a callbackUrl" else state)
    if state == "without a callbackUrl":
        static.update(callbackUrl=None)
    assert list(sandbox.deliveries["status"]) == [ended_as]
    return str(static.id)


@pytest.mark.parametrize("event", [None, "charge.completed"])
@pytest.mark.parametrize("awaited", AWAITED)
@pytest.mark.parametrize("ended_as", REPLIES)
@pytest.mark.parametrize("state", ["active", "disabled", "expired", "without a callbackUrl"])
def test_a_note_about_a_static_charge_names_the_replay_that_may_bring_a_match(
    sandbox: Sandbox, state: str, ended_as: str, awaited: str, event: str | None
) -> None:
    wanted = {"chargeId": paid_once(sandbox, state, ended_as), "status": awaited, **({"event": event} if event else {})}
    waited = sandbox.ask("POST", WAIT, wanted)
    assert waited["reached"] == (awaited == ended_as)
    if not waited["reached"]:
        assert "replay" in waited["note"], waited["note"]
        assert "no more callbacks" not in waited["note"]
    if awaited == "delivered" and ended_as in ("stopped", "exhausted"):
        sandbox.receiver("shop").answers([200])
        if named := re.search(r"delivery (\S+) ended as", waited["note"]):
            sandbox.ask("POST", f"/sandbox/v1/deliveries/{named[1]}/replay")
        else:
            assert "or replay those that were stopped" in waited["note"]
            sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"status": "stopped"})
        sandbox.advance("1s")
        assert sandbox.ask("POST", WAIT, wanted)["reached"]


@pytest.mark.parametrize(("count", "note"), [(2, ": replay it to try again; a delivery is"), (3, "for a count of 2")])
def test_a_count_that_replays_reach_is_no_dead_end_of_an_expired_static_charge(
    sandbox: Sandbox, count: int, note: str
) -> None:
    static = sandbox.static_charges.create(
        minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOK, expiresIn=60
    )
    for reply in (200, 410):
        sandbox.receiver("shop").answers([reply])
        sandbox.wallet("ana").scan(static)
        sandbox.advance("1s")
    sandbox.advance("1m")
    waited = sandbox.ask("POST", WAIT, {"chargeId": static.id, "count": count})
    assert (waited["reached"], waited["count"]) == (False, 1)
    assert note in waited["note"]
