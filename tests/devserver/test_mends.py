"""Refusals of what is misspelt, unknown or gone: each says what to do instead."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.devserver.argument_types import instant
from leyden.errors import LeydenError
from leyden.http_sandbox.resources import wire_value
from leyden.lightning.payer.payer_rules import payer_spec_of


def removed(sandbox: Sandbox) -> Any:
    interceptor = sandbox.network.intercept("delay", node="shop", delay="1s")
    sandbox.network.remove(interceptor.id)
    return interceptor.row


@pytest.mark.parametrize(
    ("call", "mend"),
    [
        (lambda sb: sb.ask("GET", "/sandbox/v1/inboxes/shpo"), "; did you mean shop?"),
        (lambda sb: sb.ask("GET", "/sandbox/v1/inboxes/other"), "by its first request or its first script"),
        (
            lambda sb: sb.ask("POST", "/sandbox/v1/deliveries/replay", {"ids": ["x"]}),
            "list the deliveries; nothing was",
        ),
        (removed, "add another one with network.intercept()"),
        (lambda sb: sb.network["shop"].rebalance(0), "so give more"),
        (
            lambda sb: sb.advance_to("0001-01-01T00:00:00Z"),
            "lies outside the years 1970 to 9999: give an instant in them",
        ),
        (lambda sb: sb.at(-1, print), "-1 has passed, or is after the end of time: it is 2030-01-01"),
        (lambda sb: sb.at("9999-12-31T23:59:59-01:00", print), "and time ends with the year 2999"),
        (lambda sb: sb.service_faults.add("error", until="1960-01-01T00:00:00Z"), "outside the years 1971 to 2999"),
        (lambda sb: sb.service_faults.add("error", until=10**15), "outside the years 1971 to 2999"),
        (lambda _: instant("1960-01-01T00:00:00Z"), "the clock has times from 1971 to the end of 2999"),
        (lambda _: instant("9999-12-31T23:59:59-01:00"), "the clock has times from 1971 to the end of 2999"),
        (lambda _: wire_value("until", -1), "outside the years 1971 to 2999"),
        (lambda sb: sb.replay_deliveries(at=-1), "31536000000 to 32503679999000"),
        (lambda sb: sb.receiver("shop").always(Reply(body=5)), 'headers={"Retry-After": "30"}'),
        (lambda sb: sb.receiver("shop").always(Reply(headers={"a": 5})), 'headers={"Retry-After": "30"}'),
        (lambda _: payer_spec_of("share=often"), "write them as in share=0.5,count=3"),
    ],
)
def test_each_refusal_says_what_to_do_instead(call: Callable[[Sandbox], object], mend: str) -> None:
    sandbox = Sandbox(seed=7, network="star:6")
    sandbox.receiver("shop").always(503)
    with pytest.raises((LeydenError, argparse.ArgumentTypeError)) as refused:
        call(sandbox)
    assert mend in str(refused.value)


def test_a_payment_request_in_a_reason_is_cut_with_a_sign() -> None:
    sandbox = Sandbox()

    def reason(request: str) -> str:
        paid: dict[str, str] = sandbox.ask("POST", "/sandbox/v1/payments", {"request": request})
        return paid["reason"]

    assert reason("x" * 60).startswith(f"'{'x' * 60}' is neither a BOLT11 invoice")
    assert reason("x" * 61).startswith(f"'{'x' * 57}...' is neither a BOLT11 invoice")


@pytest.mark.parametrize("network", ["direct", "star:6"])
@pytest.mark.parametrize("of_static", [False, True])
@pytest.mark.parametrize("mend", ["settle that payment", "of a new Charge", "of a Static Charge that is active"])
def test_what_helps_when_another_payment_of_the_invoice_is_held(network: str, of_static: bool, mend: str) -> None:
    hook = "http://shop.localhost/hook"
    with Sandbox(seed=7, network=network) as sandbox:
        static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="x", callbackUrl=hook)

        def new_charge() -> Any:
            if not of_static and mend != "of a Static Charge that is active":
                return sandbox.charges.create(amount="1000", description="x", callbackUrl=hook)
            sandbox.ask("GET", f"/lnurlp/{static.id}/invoice?amount=1000")
            return next(one for one in static.charges if one.status == "pending" and one.id not in known)

        known: set[str] = set()
        charge = new_charge()
        known.add(charge.id)
        held, second = sandbox.wallet("ana").pay(charge, outcome="hold"), None
        sandbox.advance("30s")
        second = sandbox.wallet("ben").pay(charge)
        sandbox.advance("30s")
        assert (held.status, second.status) == ("held", "failed")
        reason = second.reason
        assert "another payment of this invoice is held since" in reason
        assert mend in reason
        assert "cancel" not in reason
        if mend == "settle that payment":
            held.settle()
        else:
            charge = new_charge()
            sandbox.wallet("ben").pay(charge)
        sandbox.advance("30s")
        assert charge.status == "completed"
