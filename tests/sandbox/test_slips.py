"""Slips of a user: each is an error of `leyden.errors`, a `ValueError` or a `TypeError`, and says what is wrong."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from operator import attrgetter
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ArgumentError, LeydenError, PayerError
from leyden.rng import RandomStreams
from leyden.world.event_journal import HashedEventJournal

NO: Any = object()
BODY = {"amount": "1000", "description": "tea"}
# What was done, and words of the error: the argument's public name, or the value that was given.
SLIPS: list[tuple[Callable[[Sandbox, Any], object], str]] = [
    (lambda sb, c: Sandbox(network=5), "network=5"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(network="lin:4"), "lin"),
    (lambda sb, c: Sandbox(data=5), "data=5"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(spec=5), "spec=5"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(spec="/nonexistent/x.yaml"), "/nonexistent/x.yaml"),
    (lambda sb, c: Sandbox(data="/dev/null/x"), "/dev/null/x"),
    (lambda sb, c: Sandbox(seed="x"), "'x'"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(start="x"), "'x'"),
    (lambda sb, c: Sandbox(start=NO), "instant"),
    (lambda sb, c: Sandbox(overlays="strict"), "overlays"),
    (lambda sb, c: Sandbox(overlays=["strct"]), "strct"),
    (lambda sb, c: Sandbox(overlays=[5]), "overlays=5"),  # type: ignore[list-item]
    (lambda sb, c: Sandbox(label=5), "label=5"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(api_key=5), "api_key"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(clock="x"), "clock"),
    (lambda sb, c: Sandbox(egress="x"), "x"),
    (lambda sb, c: Sandbox(egress_allow=["x"]), "x"),
    (lambda sb, c: Sandbox(egress_allow=[5]), "5 is not a network"),  # type: ignore[list-item]
    (lambda sb, c: Sandbox(egress_allow=5), "egress_allow=5"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(egress_allow="10.0.0.0/8"), "egress_allow=\\['10"),
    (lambda sb, c: Sandbox(overlays=None), "overlays=None"),  # type: ignore[arg-type]
    (lambda sb, c: sb.set_egress(egress_allow=[5]), "5 is not a network"),
    (lambda sb, c: sb.set_egress(egress_allow=[True]), "True is not a network"),
    (lambda sb, c: sb.set_egress(egress_allow=None), "egress_allow=None"),
    (lambda sb, c: sb.set_egress(egress_allow="10.0.0.0/8"), "egress_allow=\\['10"),
    (lambda sb, c: sb.set_egress("x"), "x"),
    (lambda sb, c: Sandbox(webhook_secret="x"), "secret"),
    (lambda sb, c: Sandbox(webhook_secret=5), "webhook_secret"),  # type: ignore[arg-type]
    (lambda sb, c: Sandbox(callback_timeout=-1), "-1"),
    (lambda sb, c: sb.diff(5), "5 is no sandbox"),
    (lambda sb, c: sb.save("/nonexistent/x.json"), "/nonexistent/x.json"),
    (lambda sb, c: sb.save("."), "."),
    (lambda sb, c: sb.save(5), "path=5"),
    (lambda sb, c: sb.notebook("/nonexistent/x.ipynb"), "/nonexistent/x.ipynb"),
    (lambda sb, c: sb.notebook("."), "."),
    (lambda sb, c: sb.notebook(5), "path=5"),
    (lambda sb, c: Sandbox.load("/nonexistent/x.json"), "/nonexistent/x.json"),
    (lambda sb, c: Sandbox.load(5), "path=5"),
    (lambda sb, c: Sandbox.from_snapshot(5), "snapshot"),
    (lambda sb, c: sb.restore(5), "snapshot"),
    (lambda sb, c: sb.fork(5), "label=5"),
    (lambda sb, c: sb.charges[["sttus"]], "did you mean 'status'"),
    (lambda sb, c: sb.charges[["status", 5]], "5"),
    (lambda sb, c: sb.charges["nobody"], "404"),
    (lambda sb, c: sb.charges[0], "0"),
    (lambda sb, c: sb.charges.create(5), "argument"),
    (lambda sb, c: sb.charges.create(amount=NO, description="x"), "amount"),
    (lambda sb, c: sb.table("sttus"), "sttus"),
    (lambda sb, c: sb.table(5), "5"),
    (lambda sb, c: sb.wallet(5), "5"),
    (lambda sb, c: sb.receiver("a b"), "a b"),
    (lambda sb, c: sb.receiver(5), "5"),
    (lambda sb, c: sb.receiver("shop").answers(["x"]), "x"),
    (lambda sb, c: sb.receiver("shop").always(99), "99"),
    (lambda sb, c: sb.wallet("a").pay(c, delay="-3s"), "delay='-3s'"),
    (lambda sb, c: sb.wallet("a").pay(c, delay="x"), "x"),
    (lambda sb, c: sb.wallet("a").pay(c, delay=NO), "duration"),
    (lambda sb, c: sb.wallet("a").pay(c, amount=-1), "-1"),
    (lambda sb, c: sb.wallet("a").pay(c, amount=1.5), "amount"),
    (lambda sb, c: sb.wallet("a").pay(c, outcome="stle"), "stle"),
    (lambda sb, c: sb.wallet("a").pay(c, outcome=[]), "outcome"),
    (lambda sb, c: sb.wallet("a").pay(5), "5"),
    (lambda sb, c: sb.wallet("a").pay("foo"), "foo"),
    (lambda sb, c: sb.wallet("a").scan("foo"), "LNURL"),
    (lambda sb, c: sb.wallet("a").scan("lnurl1xx"), "LNURL"),
    (lambda sb, c: sb.wallet("a").scan(c), "LNURL"),
    (lambda sb, c: sb.advance("x"), "x"),
    (lambda sb, c: sb.advance(NO), "object"),
    (lambda sb, c: sb.advance("-1s"), "-1000 ms"),
    (lambda sb, c: sb.advance_to("x"), "x"),
    (lambda sb, c: sb.advance_to(1_893_456_000), "milliseconds"),
    (lambda sb, c: sb.run("x"), "x"),
    (lambda sb, c: sb.run(events=-1), "-1"),
    (lambda sb, c: sb.run(events="x"), "events"),
    (lambda sb, c: sb.kpis(since="x"), "x"),
    (lambda sb, c: sb.kpis(since=NO), "instant"),
    (lambda sb, c: sb.kpi.settle_s(2), "2"),
    (lambda sb, c: sb.kpi.settle_s("x"), "x"),
    (lambda sb, c: sb.lifecycle("Chrge"), "Chrge"),
    (lambda sb, c: sb.network.close_channel("x"), "channel='x'"),
    (lambda sb, c: sb.network.close_channel(-1), "-1"),
    (lambda sb, c: sb.network["nobody"], "nobody"),
    (lambda sb, c: sb.network.remove("x"), "x"),
    (lambda sb, c: sb.network.intercept("x"), "x"),
    (lambda sb, c: sb.plot.conversion("x"), "x"),
    (lambda sb, c: sb.plot.conversion(ax=5), "ax=5"),
    (lambda sb, c: sb.plot.retries(ax=sb), "ax="),
    (lambda sb, c: sb.plot.success_by_amount([5, 3]), r"bounds_msat=\[5, 3\]"),
    (lambda sb, c: sb.serve(port="8402"), "port='8402'"),  # type: ignore[arg-type]
    (lambda sb, c: sb.serve(port=65536), "65536"),
    (lambda sb, c: sb.serve(host=5), "host=5"),  # type: ignore[arg-type]
    (lambda sb, c: sb.schedule().save("/nonexistent/x.svg"), "/nonexistent/x.svg"),
    (lambda sb, c: sb.request("GET", "/v0/charges", headers={"apikey": 5}), "apikey"),  # type: ignore[dict-item]
    (lambda sb, c: sb.request("GET", "/v0/charges", headers={"apikey": "\u20ac"}), "Latin-1"),
    (lambda sb, c: sb.charges[[["a"]]], "no column"),  # type: ignore[list-item]
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SLIPS)))
def test_a_slip_is_an_error_in_words(number: int, sandbox: Sandbox, charge: Any) -> None:
    act, words = SLIPS[number]
    with pytest.raises((LeydenError, ValueError, TypeError), match=words):
        act(sandbox, charge)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(seed=1, network="line:4")


@pytest.fixture(scope="module")
def charge(sandbox: Sandbox) -> Any:
    return sandbox.charges.create(**BODY)


def test_what_is_no_payment_request_is_refused_by_pay_and_scan_alike(sandbox: Sandbox) -> None:
    for text in ("foo", "lnurl1xx", "name@", ""):
        for method in (sandbox.wallet("a").pay, sandbox.wallet("a").scan):
            with pytest.raises(PayerError):
                method(text)


def test_an_egress_policy_that_is_refused_changes_nothing() -> None:
    sb = Sandbox(egress="loopback")
    for egress, allow in (("x", ()), ("public", ["x"]), ("none", [5])):
        with pytest.raises(ValueError, match=r"network|mode"):
            sb.set_egress(egress, allow)  # type: ignore[arg-type]
    charge = sb.charges.create(**BODY, callbackUrl="http://127.0.0.1:9/")
    assert "blocked" not in repr(charge)
    sb.set_egress("none")
    assert "blocked" in repr(charge)


def test_everything_of_a_closed_sandbox_has_a_repr() -> None:
    sb = Sandbox()
    charge, static = (
        sb.charges.create(**BODY),
        sb.static_charges.create(minAmount="1000", maxAmount="1000", description="tea"),
    )
    payment = sb.wallet("a").pay(charge)
    shown = [sb, charge, static, payment, sb.wallet("a"), sb.receiver("shop"), sb.kpi, sb.charges, sb.faults, sb.http]
    sb.close()
    assert all(repr(one) for one in shown)
    assert "closed" in repr(charge)
    assert charge.id in repr(charge)


@pytest.mark.parametrize("network", ["direct", "line:4"])
def test_the_reason_of_a_scripted_failure_is_the_script(network: str) -> None:
    sb = Sandbox(network=network)
    payment = sb.wallet("a").pay(sb.charges.create(**BODY), outcome="fail")
    sb.run("1s")
    assert payment.outcome == "NO_ROUTE"
    assert payment.reason is not None
    assert "script" in payment.reason
    assert "outcome" in payment.reason
    assert "pay less" not in payment.reason


def test_the_figures_do_not_count_payments_for_charges_of_another_sandbox() -> None:
    one, other = Sandbox(seed=9), Sandbox(seed=1)
    one.wallet("ana").pay(other.charges.create(**BODY))
    one.run()
    for figures in (one.kpi, one.kpis(since="2030-01-01T00:00:00Z")):
        assert (figures.created, figures.payments, figures.attempts) == (0, 0, 0)


@pytest.mark.parametrize("names", [("snapshots",), ("charges", "creates"), ("charges", "tables")])
def test_the_uncaught_error_of_a_misspelt_attribute_has_one_hint(sandbox: Sandbox, names: tuple[str, ...]) -> None:
    with pytest.raises(AttributeError) as failure:
        attrgetter(".".join(names))(sandbox)
    with redirect_stderr(StringIO()) as written:
        sys.__excepthook__(type(failure.value), failure.value, None)
    shown = written.getvalue()
    assert shown.lower().count("did you mean") == 1, shown


@pytest.mark.parametrize("target", ["/é", "/v0/charges?internalId=☃"])
def test_a_target_that_is_no_url_is_an_error_in_words(target: str, sandbox: Sandbox) -> None:
    for send in (sandbox.ask, sandbox.request):
        with pytest.raises(ArgumentError, match="percent-encode"):
            send("GET", target)


def test_what_a_restore_removed_and_what_an_inbox_never_had_are_errors_of_leyden(sandbox: Sandbox) -> None:
    start = sandbox.snapshot()
    charge = sandbox.charges.create(**BODY, callbackUrl="http://shop.localhost/paid")
    payment = sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    inbox = sandbox.receiver("shop").inbox
    for place in (1, -2, "x", None, b"x", 1.5, True, slice("a", "b"), slice(None, None, 0)):
        with pytest.raises(LeydenError):
            inbox[place]  # type: ignore[call-overload]
    for number in (0, 2, -1, "x" * 5_000, None, 1.5):
        with pytest.raises(LeydenError) as refused:
            inbox.is_copy(number, inbox[0])  # type: ignore[arg-type]
        assert len(str(refused.value)) < 200
    with pytest.raises(LeydenError, match="limit='x'"):
        [*inbox.after(0, "x")]  # type: ignore[arg-type]
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        for one in (sandbox, charge):
            if (refused, one) != (copy.copy, charge):
                with pytest.raises(LeydenError, match="cannot be copied or pickled"):
                    refused(one)
    sandbox.restore(start)
    for name in ("row", "status", "outcome"):
        with pytest.raises(ApiError, match="404 Not found: this sandbox has no payment with this id"):
            getattr(payment, name)
    for call in (
        lambda: RandomStreams(1).stream("x").below(0),
        lambda: HashedEventJournal(sandbox.world.clock, keep=-1),
    ):
        with pytest.raises(LeydenError):
            call()
