"""With the system clock frozen far in the past, no output of a run may contain that time."""

from __future__ import annotations

import orjson
from freezegun import freeze_time

from leyden import Sandbox
from tests.support.lists import listed

HOOK = "http://shop.localhost/paid"
PAST = "1999-01-02T03:04:05Z"
TRACES = (b"1999-01", b"915246", b"Jan 1999")  # as ISO, as epoch seconds or milliseconds, as an HTTP date


def full_run() -> bytes:
    """A run with every kind of event; returns all of its output."""
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z") as sandbox:
        sandbox.receiver("shop").answers([500, 503, 200])
        paid = sandbox.charges.create(amount="250000", description="Coffee", callbackUrl=HOOK)
        sandbox.charges.create(amount="1000", description="late", expiresIn=60, callbackUrl=HOOK)
        failed = sandbox.charges.create(amount="1000", description="lost", callbackUrl=HOOK)
        tips = sandbox.static_charges.create(
            minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=1, callbackUrl=HOOK, expiresIn=3600
        )
        sandbox.wallet("ana").pay(paid, outcome="hold")
        sandbox.wallet("bob").scan(tips, amount=2_000, delay="3s")
        sandbox.advance("1s")
        failed.fail()
        sandbox.http.post("/v0/charges", json={"amount": "1000", "description": ""}, headers={"Idempotency-Key": "a"})
        sandbox.http.get("/v0/charges", params={"limit": 0})
        sandbox.run()
        left = [
            [tuple(entry) for entry in sandbox.world.journal.entries()],
            sandbox.world.journal.hash,
            repr(sandbox),
            listed(sandbox.ask, "/sandbox/v1/deliveries"),
        ]
        left += [list(charge.data.items()) for charge in sandbox.charges]
        left += [[dict(row) for row in sandbox.world.store.db.table(name)] for name in sandbox.world.store.db.tables()]
        return orjson.dumps(left)


def test_nothing_reads_the_system_clock() -> None:
    with freeze_time(PAST):
        left = full_run()
    assert not [trace for trace in TRACES if trace in left]


def test_the_system_clock_does_not_change_a_run() -> None:
    with freeze_time(PAST):
        frozen = full_run()
    assert frozen == full_run()
