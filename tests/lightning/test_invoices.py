"""Invoices at the receiver: the checks, their order, and how HTLCs are resolved."""

from __future__ import annotations

from hashlib import sha256
from itertools import combinations
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leyden import Sandbox
from leyden.errors import PayerError, PaymentError
from leyden.lightning.bolt11.codec import Bolt11Error, decode
from leyden.lightning.engine.htlc import (
    Htlc,
    HtlcResolution,
    PaymentNotHeld,
    UnknownInvoice,
)
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_scripts import OUTCOMES, scripted_reason
from leyden.lightning.payer.payments import Payments
from leyden.lightning.receiver.invoices import NodePolicy
from leyden.lightning.receiver.node import DirectNode
from leyden.rng import RandomStreams
from leyden.server.ports import FailedInvoice, InvoiceParams, SettledInvoice
from leyden.server.store.store import Store
from leyden.world.event_journal import HashedEventJournal
from leyden.world.time.clock import VirtualClock
from tests.support.examples import examples

START = 1_893_488_400_000
REFUSED = FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS
AMOUNT = 100_000
MINUTE = 60_000
HEIGHT = 800_000


class Bench:
    """A node, payers and a clock; all that they report is recorded."""

    def __init__(self, policy: NodePolicy | None = None, store: Store | None = None) -> None:
        self.policy = policy
        self.store = store or Store.memory()
        self.clock = VirtualClock(START, event_context=self.store.commit)
        self.journal = HashedEventJournal(self.clock)
        self.streams = RandomStreams(7)
        self.node = DirectNode(self.store, self.clock, self.streams, self.journal, policy=policy, height=lambda: HEIGHT)
        ids = self.streams.stream("payments")
        self.payments = Payments(self.store, self.clock, self.node, ids, self.journal)
        self.invoices = self.node.invoices
        self.settled: list[SettledInvoice] = []
        self.failed: list[FailedInvoice] = []
        self.resolutions: list[HtlcResolution] = []
        self.node.on_settled(self.settled.append)
        self.node.on_failed(self.failed.append)
        self.invoices.on_resolution(self.resolutions.append)
        self.sent = 0

    def issue(
        self, amount_msat: int = AMOUNT, *, lasts_ms: int = 600_000, description: str = "tea", **more: Any
    ) -> str:
        """The hash of a new invoice that can be paid strictly before `lasts_ms` from now."""
        now = self.clock.now()
        order = InvoiceParams(
            amount_msat=amount_msat,
            description=description,
            timestamp_s=now // 1_000,
            expiry_s=-(-lasts_ms // 1_000),
            payable_until_ms=now + lasts_ms - 1,
            **more,
        )
        return self.node.issue(order).payment_hash

    def row(self, payment_hash: str) -> dict[str, Any]:
        row = self.invoices.row(payment_hash)
        assert row is not None
        return row

    def state(self, payment_hash: str) -> str:
        return str(self.row(payment_hash)["state"])

    def htlc(self, payment_hash: str, amount_msat: int = AMOUNT, **changes: Any) -> Htlc:
        self.sent += 1
        proper = Htlc(
            id=f"h:{self.sent}",
            payment_hash=payment_hash,
            payment_secret=self.row(payment_hash)["payment_secret"],
            amount_msat=amount_msat,
            total_msat=amount_msat,
            cltv_expiry=HEIGHT + 80,
        )
        return proper._replace(**changes)

    def send(self, payment_hash: str, amount_msat: int = AMOUNT, **changes: Any) -> HtlcResolution:
        return self.invoices.receive_htlc(self.htlc(payment_hash, amount_msat, **changes))

    def pay(self, payment_hash: str, **script: Any) -> dict[str, Any]:
        return self.payments.pay(self.row(payment_hash)["request"], **script)

    def payment(self, payment: dict[str, Any]) -> dict[str, Any]:
        row = self.payments.rows.row(payment["id"])
        assert row is not None
        return row


@pytest.fixture
def bench() -> Bench:
    return Bench()


# The fields of an invoice


def test_an_invoice_has_the_fields_requested_and_the_hash_of_its_preimage(bench):
    payment_hash = bench.issue(250_001, lasts_ms=90_000, description="caf\u00e9")
    row = bench.row(payment_hash)
    invoice = decode(row["request"])
    assert row["request"].startswith("lnbcrt")
    assert invoice.payment_hash.hex() == payment_hash == sha256(bytes.fromhex(row["preimage"])).hexdigest()
    assert invoice.payment_secret.hex() == row["payment_secret"] != row["preimage"]
    assert (invoice.amount_msat, invoice.description, invoice.expiry_s) == (250_001, "caf\u00e9", 90)
    assert invoice.timestamp_s == START // 1_000
    assert (invoice.min_final_cltv, invoice.features) == (80, {8, 14, 17})
    assert invoice.payee == bench.node.node_id
    assert len(bytes.fromhex(row["preimage"])) == 32
    assert (row["state"], row["parts"], row["received_msat"]) == ("OPEN", [], 0)


@pytest.mark.parametrize("description", ["x" * 639, "\u00e9" * 319 + "x"])
def test_a_description_of_639_bytes_still_fits(bench, description):
    invoice = decode(bench.row(bench.issue(description=description))["request"])
    assert (invoice.description, invoice.description_hash) == (description, None)


@pytest.mark.parametrize("description", ["x" * 640, "\u00e9" * 320])
def test_a_description_of_640_bytes_is_committed_to_by_its_hash(bench, description):
    invoice = decode(bench.row(bench.issue(description=description))["request"])
    assert (invoice.description, invoice.description_hash) == (None, sha256(description.encode()).digest())


def test_a_requested_hash_replaces_the_description(bench):
    invoice = decode(bench.row(bench.issue(description_hash=b"m" * 32))["request"])
    assert (invoice.description, invoice.description_hash) == (None, b"m" * 32)


def test_equal_seeds_issue_equal_invoices():
    assert Bench().issue() == Bench().issue()
    bench = Bench()
    assert len({bench.issue() for _ in range(20)}) == 20


# The checks, in their order


def spoil_hash(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(payment_hash="00" * 32)


def remove_secret(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(payment_secret=None)


def let_it_expire(bench: Bench, htlc: Htlc) -> Htlc:
    bench.clock.advance_to(bench.row(htlc.payment_hash)["payable_until_ms"] + 1)
    return htlc


def spoil_secret(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(payment_secret="ff" * 32)


def announce_nothing(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(total_msat=0)


def announce_too_little(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(total_msat=AMOUNT - 1)


def announce_too_much(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(total_msat=2 * AMOUNT + 1)


def announce_otherwise(bench: Bench, htlc: Htlc) -> Htlc:
    if bench.row(htlc.payment_hash)["parts"] == []:
        assert bench.send(htlc.payment_hash, 1_000, total_msat=AMOUNT + 7).status == "waiting"
    return htlc


def expire_too_soon(bench: Bench, htlc: Htlc) -> Htlc:
    return htlc._replace(cltv_expiry=HEIGHT + 79)


CHECKS = [
    (spoil_hash, "unknown"),
    (remove_secret, "unknown"),
    (let_it_expire, "expired"),
    (spoil_secret, "secret"),
    (announce_nothing, "nothing"),
    (announce_too_little, "underpaid"),
    (announce_too_much, "overpaid"),
    (announce_otherwise, "other_total"),
    (expire_too_soon, "cltv"),
]


@pytest.mark.parametrize(("spoil", "why"), CHECKS, ids=[spoil.__name__ for spoil, _ in CHECKS])
def test_each_fault_is_refused_with_one_code_and_its_own_reason(bench, spoil, why):
    payment_hash = bench.issue()
    resolution = bench.invoices.receive_htlc(spoil(bench, bench.htlc(payment_hash)))
    assert (resolution.status, resolution.code, resolution.why, resolution.preimage) == (
        "failed",
        REFUSED,
        why,
        None,
    )
    assert ": " in resolution.reason
    assert bench.journal.entries(kind="htlc_refused")[-1].facts["why"] == why
    assert (bench.state(payment_hash), bench.settled) == ("OPEN", [])


@pytest.mark.parametrize(
    ("first", "second"),
    list(combinations(CHECKS, 2)),
    ids=[f"{a.__name__}-{b.__name__}" for (a, _), (b, _) in combinations(CHECKS, 2)],
)
def test_of_two_faults_the_earlier_check_gives_the_reason(bench, first, second):
    (spoil_first, why), (spoil_second, _) = first, second
    htlc = bench.htlc(bench.issue())
    # The earlier fault is applied last, so that two faults of one field leave the earlier one standing.
    resolution = bench.invoices.receive_htlc(spoil_first(bench, spoil_second(bench, htlc)))
    assert resolution.why == why


def test_a_state_that_is_not_open_is_reported_before_a_wrong_secret(bench):
    settled, closed, held = bench.issue(), bench.issue(), bench.issue()
    bench.send(settled)
    bench.node.cancel(closed)
    bench.send(held, hold=True)
    resolutions = [bench.send(each, payment_secret="ff" * 32) for each in (settled, closed, held)]
    assert [resolution.why for resolution in resolutions] == ["settled", "canceled", "accepted"]
    assert {resolution.code for resolution in resolutions} == {REFUSED}


@pytest.mark.parametrize(
    ("sent_msat", "overpay", "kind", "why"),
    [
        (AMOUNT - 1, "bolt", "failed", "underpaid"),
        (AMOUNT, "bolt", "settled", ""),
        (AMOUNT + 1, "bolt", "settled", ""),
        (2 * AMOUNT, "bolt", "settled", ""),
        (2 * AMOUNT + 1, "bolt", "failed", "overpaid"),
        (2 * AMOUNT + 1, "lnd", "settled", ""),
        (50 * AMOUNT, "lnd", "settled", ""),
        (AMOUNT - 1, "lnd", "failed", "underpaid"),
    ],
)
def test_amounts_at_their_bounds(sent_msat, overpay, kind, why):
    bench = Bench(NodePolicy(overpay=overpay))
    payment_hash = bench.issue()
    resolution = bench.send(payment_hash, sent_msat)
    assert (resolution.status, resolution.why) == (kind, why)
    received = sent_msat if kind == "settled" else 0
    assert bench.node.balance_msat == bench.row(payment_hash)["received_msat"] == received
    assert [settled.amount_msat for settled in bench.settled] == ([received] if received else [])


@pytest.mark.parametrize(("late_ms", "why"), [(-1, ""), (0, ""), (1, "expired")])
def test_the_last_payable_instant(bench, late_ms, why):
    payment_hash = bench.issue(lasts_ms=60_000)
    bench.clock.advance_to(bench.row(payment_hash)["payable_until_ms"] + late_ms)
    resolution = bench.send(payment_hash)
    assert resolution.why == why
    if why:
        assert resolution.reason.startswith(
            "the invoice expired at 2030-01-01T09:01:00.000Z and this came at that inst"
        )


@pytest.mark.parametrize(("own_delta", "blocks", "why"), [(80, 80, ""), (80, 79, "cltv"), (5, 19, ""), (5, 18, "cltv")])
def test_the_final_delta_is_the_invoices_but_never_below_19(own_delta, blocks, why):
    bench = Bench(NodePolicy(min_final_cltv=own_delta))
    assert bench.send(bench.issue(), cltv_expiry=HEIGHT + blocks).why == why


def test_a_part_carries_at_least_1_msat(bench):
    with pytest.raises(ValueError, match="at least 1 msat"):
        bench.send(bench.issue(), 0, total_msat=AMOUNT)


@pytest.mark.parametrize("wrong", [{"overpay": "all"}, {"mpp_timeout_ms": 59_999}, {"min_final_cltv": 0}])
def test_a_policy_that_the_standard_forbids_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NodePolicy(**wrong)


def test_the_shortest_final_delta_and_the_shortest_wait_are_allowed():
    assert (NodePolicy(min_final_cltv=1).min_final_cltv, NodePolicy(mpp_timeout_ms=60_000).overpay) == (1, "bolt")


def test_the_journal_records_every_event(bench):
    settled, lost = bench.issue(), bench.issue()
    bench.send(settled, 60_000, total_msat=AMOUNT)
    bench.send(settled, 39_000, total_msat=AMOUNT - 1)
    bench.send(settled, hold=True)
    bench.invoices.settle(settled)
    bench.node.fail_invoice(lost, "gone")
    entries = [(entry.kind, entry.subject, entry.facts) for entry in bench.journal.entries()]
    assert entries == [
        ("invoice_issued", settled, {"amount_msat": AMOUNT}),
        ("invoice_issued", lost, {"amount_msat": AMOUNT}),
        ("htlc_waiting", settled, {"htlc": "h:1", "amount_msat": 60_000}),
        ("htlc_refused", settled, {"htlc": "h:2", "why": "underpaid", "code": REFUSED}),
        (
            "htlc_failed_back",
            settled,
            {"htlc": "h:1", "why": "other_part", "code": REFUSED},
        ),
        ("invoice_accepted", settled, {"parts": 1}),
        ("invoice_settled", settled, {"received_msat": AMOUNT, "parts": 1}),
        ("invoice_canceled", lost, {"because": "gone"}),
    ]


def test_the_journal_follows_a_payment(bench):
    payment = bench.pay(bench.issue(), payer="ana", outcome="hold", parts=3)
    bench.clock.advance(MINUTE)
    bench.payments.settle(payment["id"])
    failed = bench.pay(bench.issue(), outcome="fail")
    entries = [(entry.kind, entry.facts) for entry in bench.journal.entries(subject=payment["id"])]
    started = {"payment_hash": payment["payment_hash"], "amount_msat": AMOUNT, "payer": "ana"}
    assert entries == [
        ("payment_started", started),
        ("payment_held", {}),
        ("payment_given_up", {}),
        ("payment_succeeded", {"outcome": "SUCCEEDED", "received_msat": AMOUNT}),
    ]
    assert [(entry.kind, entry.facts) for entry in bench.journal.entries(subject=failed["id"])][1:] == [
        ("payment_failed", {"outcome": "NO_ROUTE", "reason": scripted_reason("NO_ROUTE")})
    ]


# Settling, once


def test_a_second_payment_is_refused_and_not_reported(bench):
    payment_hash = bench.issue()
    first = bench.send(payment_hash)
    second = bench.send(payment_hash)
    assert (first.status, first.preimage) == ("settled", bench.row(payment_hash)["preimage"])
    assert (second.why, second.preimage) == ("settled", None)
    assert bench.settled == [SettledInvoice(payment_hash, AMOUNT, START, first.preimage)]
    assert bench.node.balance_msat == AMOUNT


def test_final_states_never_change(bench):
    settled, closed = bench.issue(), bench.issue()
    bench.send(settled)
    bench.node.cancel(closed)
    before = bench.row(settled), bench.row(closed)
    for each in (settled, closed):
        bench.node.cancel(each)
        assert bench.node.fail_invoice(each, "lost") is False
        with pytest.raises(PaymentNotHeld, match="only a held payment"):
            bench.invoices.settle(each)
        with pytest.raises(PaymentNotHeld, match="no part"):
            bench.invoices.fail_waiting_parts(each, "why not")
        assert bench.send(each).status == "failed"
    assert (bench.row(settled), bench.row(closed)) == before
    assert bench.failed == []


def test_a_lost_invoice_is_reported_and_can_no_longer_be_paid(bench):
    payment_hash = bench.issue()
    bench.clock.advance(5)
    assert bench.node.fail_invoice(payment_hash, "the disk is gone") is True
    assert bench.failed == [FailedInvoice(payment_hash, "the disk is gone", START + 5)]
    assert "the disk is gone" in bench.send(payment_hash).reason


def test_an_invoice_of_another_node_is_an_error_that_names_it(bench):
    for action in (bench.node.cancel, bench.invoices.settle, lambda each: bench.node.fail_invoice(each, "lost")):
        with pytest.raises(UnknownInvoice, match="ab" * 32):
            action("ab" * 32)


def test_a_payment_after_expiry_has_that_reason_however_the_invoice_was_closed(bench):
    expired, cancelled = bench.issue(lasts_ms=60_000), bench.issue(lasts_ms=60_000)
    bench.node.cancel(cancelled, "another payment was faster")
    bench.clock.advance(60_000)
    bench.node.cancel(expired)
    assert bench.send(expired).why == "expired"
    resolution = bench.send(cancelled)
    assert resolution.why == "canceled"
    assert "another payment was faster" in resolution.reason


# Parts


def test_a_set_settles_with_its_last_part_for_the_sum_of_all(bench):
    payment_hash = bench.issue()
    first = bench.send(payment_hash, 60_000, total_msat=AMOUNT)
    second = bench.send(payment_hash, 39_999, total_msat=AMOUNT)
    assert (first.status, second.status, bench.state(payment_hash)) == ("waiting", "waiting", "OPEN")
    last = bench.send(payment_hash, 5_000, total_msat=AMOUNT)
    assert last.status == "settled"
    assert [(resolution.htlc_id, resolution.status, resolution.preimage) for resolution in bench.resolutions] == [
        (first.htlc_id, "settled", last.preimage),
        (second.htlc_id, "settled", last.preimage),
    ]
    assert [settled.amount_msat for settled in bench.settled] == [104_999]
    assert {part["state"] for part in bench.row(payment_hash)["parts"]} == {"settled"}
    assert len(bench.clock) == 0


@pytest.mark.parametrize(("late_ms", "kind"), [(-1, "settled"), (0, "waiting"), (1, "waiting")])
def test_the_last_part_has_120_seconds_from_the_first(bench, late_ms, kind):
    payment_hash = bench.issue()
    bench.send(payment_hash, 40_000, total_msat=AMOUNT)
    bench.clock.advance(MINUTE)
    bench.send(payment_hash, 40_000, total_msat=AMOUNT)  # does not lengthen the wait
    bench.clock.advance_to(START + 2 * MINUTE + late_ms)
    assert bench.send(payment_hash, 20_000, total_msat=AMOUNT).status == kind
    if kind == "waiting":
        assert [(resolution.status, resolution.code, resolution.why) for resolution in bench.resolutions] == 2 * [
            ("failed", FailureCode.MPP_TIMEOUT, "mpp_timeout")
        ]
        assert "120 s" in bench.resolutions[0].reason
        assert bench.send(payment_hash, 80_000, total_msat=AMOUNT).status == "settled"
        assert bench.node.balance_msat == AMOUNT


def test_a_part_at_the_instant_of_the_timeout_is_accepted(bench):
    payment_hash = bench.issue()
    payment = bench.pay(payment_hash, parts=2, gap_ms=2 * MINUTE, patience_ms=None)
    bench.clock.advance(2 * MINUTE)
    assert bench.payment(payment)["outcome"] == "SUCCEEDED"


def test_a_longer_wait_is_the_nodes_choice():
    bench = Bench(NodePolicy(mpp_timeout_ms=60_000))
    payment_hash = bench.issue()
    bench.send(payment_hash, 1, total_msat=AMOUNT)
    bench.clock.advance(59_999)
    assert bench.resolutions == []
    bench.clock.advance(1)
    assert [resolution.code for resolution in bench.resolutions] == [FailureCode.MPP_TIMEOUT]


def test_too_small_a_total_fails_the_whole_set(bench):
    payment_hash = bench.issue()
    waiting = bench.send(payment_hash, 60_000, total_msat=AMOUNT)
    assert bench.send(payment_hash, 30_000, total_msat=AMOUNT - 1).why == "underpaid"
    assert [(resolution.htlc_id, resolution.code, resolution.why) for resolution in bench.resolutions] == [
        (waiting.htlc_id, REFUSED, "other_part")
    ]
    assert len(bench.clock) == 0
    assert bench.send(payment_hash).status == "settled"


def test_another_total_fails_the_whole_set(bench):
    """BOLT 4, "Basic Multi-Part Payments": "SHOULD fail the entire HTLC set if `total_msat` is not the same for all
    HTLCs in the set"."""
    payment_hash = bench.issue()
    waiting = bench.send(payment_hash, 60_000, total_msat=AMOUNT)
    assert bench.send(payment_hash, 50_000, total_msat=AMOUNT + 1).why == "other_total"
    assert [(resolution.htlc_id, resolution.code, resolution.why) for resolution in bench.resolutions] == [
        (waiting.htlc_id, REFUSED, "other_part")
    ]
    assert bench.send(payment_hash, 40_000, total_msat=AMOUNT).status == "waiting"


@pytest.mark.parametrize("last_msat", [2 * AMOUNT - 60_000, 2 * AMOUNT, 5 * AMOUNT])
def test_the_total_that_is_announced_decides_on_overpaying_and_not_what_the_parts_bring(bench, last_msat):
    """BOLT 4, the final node: "if the amount paid is more than twice the amount expected: SHOULD fail the HTLC", with
    the note: "`amount paid` specified there is the `total_msat` field"; and "nodes are allowed to pay more than the
    `total_msat` they specified"."""
    payment_hash = bench.issue()
    bench.send(payment_hash, 60_000, total_msat=AMOUNT)
    assert bench.send(payment_hash, last_msat, total_msat=AMOUNT).status == "settled"
    assert bench.node.balance_msat == 60_000 + last_msat


def test_waiting_parts_fail_when_the_invoice_is_closed(bench):
    payment_hash = bench.issue(lasts_ms=60_000)
    waiting = bench.send(payment_hash, 60_000, total_msat=AMOUNT)
    bench.clock.advance(60_000)
    bench.node.cancel(payment_hash)
    assert [(resolution.htlc_id, resolution.code, resolution.why) for resolution in bench.resolutions] == [
        (waiting.htlc_id, REFUSED, "canceled")
    ]
    assert "expired at 2030-01-01T09:01:00.000Z" in bench.resolutions[0].reason
    assert (bench.state(payment_hash), len(bench.clock), bench.failed) == ("CANCELED", 0, [])


# Held payments


def test_a_held_payment_settles_when_released(bench):
    payment_hash = bench.issue()
    assert bench.send(payment_hash, hold=True).status == "held"
    assert (bench.state(payment_hash), bench.settled) == ("ACCEPTED", [])
    bench.clock.advance(5_000)
    bench.invoices.settle(payment_hash)
    assert [resolution.status for resolution in bench.resolutions] == ["settled"]
    assert [(settled.amount_msat, settled.settled_at) for settled in bench.settled] == [(AMOUNT, START + 5_000)]
    assert bench.row(payment_hash)["accepted_at"] == START


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_a_held_payment_is_released_by_the_last_payable_instant_or_never(bench, late_ms):
    payment_hash = bench.issue(lasts_ms=60_000)
    bench.send(payment_hash, hold=True)
    bench.clock.advance_to(START + 59_999 + late_ms)
    if late_ms <= 0:
        bench.invoices.settle(payment_hash)
        assert bench.state(payment_hash) == "SETTLED"
    else:
        with pytest.raises(PaymentNotHeld, match="can no longer be paid"):
            bench.invoices.settle(payment_hash)
        assert (bench.state(payment_hash), bench.node.balance_msat) == ("ACCEPTED", 0)


def test_one_held_part_holds_the_set(bench):
    payment_hash = bench.issue()
    bench.send(payment_hash, 60_000, total_msat=AMOUNT, hold=True)
    assert bench.send(payment_hash, 40_000, total_msat=AMOUNT).status == "held"
    assert [resolution.status for resolution in bench.resolutions] == ["held"]
    bench.clock.advance(10 * MINUTE)
    assert bench.state(payment_hash) == "ACCEPTED"  # complete: the wait for parts is over


# How long a payment can be held


DAY, BLOCK = 24 * 60 * MINUTE, 10 * MINUTE


@pytest.mark.parametrize(("early_ms", "state"), [(1, "ACCEPTED"), (0, "OPEN")])
def test_a_held_payment_is_failed_back_18_blocks_before_it_expires(bench, early_ms, state):
    """BOLT 2: "once the `cltv_expiry` of an incoming HTLC has been reached [...] MUST fail that incoming HTLC", and
    "the deadline for received HTLCs [...]: 18 blocks is reasonable" before its `cltv_expiry`. Without a chain a block
    takes ten minutes."""
    payment_hash = bench.issue(lasts_ms=30 * DAY)
    held = bench.send(payment_hash, hold=True)
    bench.clock.advance((80 - 18) * BLOCK - early_ms)
    assert bench.state(payment_hash) == state
    if state == "OPEN":
        assert [(one.htlc_id, one.status, one.code, one.why) for one in bench.resolutions] == [
            (held.htlc_id, "failed", REFUSED, "held_too_long")
        ]
        assert "18 blocks before" in bench.resolutions[0].reason
        with pytest.raises(PaymentNotHeld, match="only a held payment"):
            bench.invoices.settle(payment_hash)
        assert (bench.failed, bench.row(payment_hash)["accepted_at"]) == ([], None)
        assert bench.send(payment_hash).status == "settled"  # it can still be paid


def test_the_part_that_expires_first_ends_the_hold(bench):
    payment_hash = bench.issue(lasts_ms=30 * DAY)
    bench.send(payment_hash, 60_000, total_msat=AMOUNT, hold=True, cltv_expiry=HEIGHT + 200)
    bench.send(payment_hash, 40_000, total_msat=AMOUNT, cltv_expiry=HEIGHT + 90)
    bench.clock.advance((90 - 18) * BLOCK - 1)
    assert bench.state(payment_hash) == "ACCEPTED"
    bench.clock.advance(1)
    assert bench.state(payment_hash) == "OPEN"
    assert {part["state"] for part in bench.row(payment_hash)["parts"]} == {"failed"}


def test_a_held_payment_that_was_resolved_has_no_deadline_left(bench):
    settled, cancelled = bench.issue(), bench.issue()
    for payment_hash in (settled, cancelled):
        bench.send(payment_hash, hold=True)
    bench.invoices.settle(settled)
    bench.node.cancel(cancelled)
    assert len(bench.clock) == 0


@pytest.mark.parametrize("margin", [0, 80])
def test_the_margin_of_a_hold_is_at_least_a_block_and_less_than_a_payment_has(margin):
    with pytest.raises(ValueError, match="hold_margin_blocks"):
        NodePolicy(hold_margin_blocks=margin)


def test_the_margin_of_a_hold_is_the_nodes_choice():
    bench = Bench(NodePolicy(hold_margin_blocks=79))
    payment_hash = bench.issue()
    bench.send(payment_hash, hold=True)
    bench.clock.advance(BLOCK)
    assert bench.state(payment_hash) == "OPEN"


def test_a_part_that_waits_for_others_is_failed_before_it_expires():
    blocks = [START + second * 1_000 for second in range(100)]  # one each second
    bench = Bench()
    bench.invoices._block_time = lambda height: blocks[height - HEIGHT]
    payment_hash = bench.issue()
    bench.send(payment_hash, 60_000, total_msat=AMOUNT)
    bench.clock.advance(62_000 - 1)
    assert bench.resolutions == []
    bench.clock.advance(1)
    assert [resolution.code for resolution in bench.resolutions] == [FailureCode.MPP_TIMEOUT]
    assert "62 s" in bench.resolutions[0].reason


@pytest.mark.parametrize(("patience_ms", "outcome"), [(MINUTE, "TIMEOUT"), (None, "INCORRECT_PAYMENT_DETAILS")])
def test_a_payment_that_is_held_too_long_fails_and_its_payer_may_pay_again(bench, patience_ms, outcome):
    payment_hash = bench.issue(lasts_ms=30 * DAY)
    payment = bench.pay(payment_hash, outcome="hold", patience_ms=patience_ms)
    bench.clock.advance(62 * BLOCK)
    assert (bench.payment(payment)["status"], bench.payment(payment)["outcome"]) == ("failed", outcome)
    assert "returned" in bench.payment(payment)["reason"]
    with pytest.raises(PaymentNotHeld, match="is failed"):
        bench.payments.settle(payment["id"])
    assert bench.pay(payment_hash)["outcome"] == "SUCCEEDED"


def test_a_hold_ends_at_the_same_instant_after_a_restart():
    before = Bench()
    payment_hash = before.issue(lasts_ms=30 * DAY)
    before.pay(payment_hash, outcome="hold")
    before.clock.advance(30 * BLOCK)
    after = Bench(store=before.store)
    after.clock.advance_to(before.clock.now())
    after.node.resume()
    after.payments.resume()
    after.clock.advance(32 * BLOCK - 1)
    assert after.state(payment_hash) == "ACCEPTED"
    after.clock.advance(1)
    assert after.state(payment_hash) == "OPEN"


@pytest.mark.parametrize("network", ["direct", "star:12,ideal"])
def test_a_charge_of_thirty_days_stays_payable_after_a_hold_that_was_too_long(network, tmp_path):
    with Sandbox(seed=3, start="2030-01-01T09:00:00Z", network=network, data=tmp_path / "kept") as sandbox:
        charge = sandbox.charges.create(amount="250000", description="tea", expiresIn=30 * 86_400)
        payment = sandbox.wallet("ana").pay(charge, outcome="hold")
        sandbox.run("9h")
        assert (payment.status, charge.status) == ("held", "pending")
        fork, other, charge_id, request = sandbox.fork(), sandbox.fork(reseed=5), charge.id, charge.request
        for one in (sandbox, fork, other):
            with one:
                one.advance("3d")
                [row] = one.world.payments.rows
                assert (row["status"], one.charges[charge_id].status) == ("failed", "pending")
                if network != "direct":
                    resolved = row["attempts"][-1]["times"][-1][1]
                    assert one.world.engine.conditions.height(resolved) == row["attempts"][-1]["hops"][-1][4] - 18
                one.wallet("bob").pay(request)
                one.run("1m")
                assert one.charges[charge_id].status == "completed"


# Payers: every script


@pytest.mark.parametrize(
    ("script", "status", "outcome", "received_msat", "words"),
    [
        ({"outcome": "settle"}, "succeeded", "SUCCEEDED", AMOUNT, None),
        ({"outcome": "settle", "parts": 16}, "succeeded", "SUCCEEDED", AMOUNT, None),
        ({"outcome": "wrong_secret"}, "failed", "INCORRECT_PAYMENT_DETAILS", 0, "payment secret"),
        ({"payment_secret": b"x" * 32}, "failed", "INCORRECT_PAYMENT_DETAILS", 0, "payment secret"),
        ({"outcome": "underpay"}, "failed", "INCORRECT_PAYMENT_DETAILS", 0, "1 msat too little"),
        ({"outcome": "overpay"}, "succeeded", "SUCCEEDED", AMOUNT * 3 // 2, None),
        ({"outcome": "overpay_double"}, "failed", "INCORRECT_PAYMENT_DETAILS", 0, f"pay at most {2 * AMOUNT} msat"),
        ({"outcome": "fail"}, "failed", "NO_ROUTE", 0, "script"),
        ({"outcome": "fail", "failure": "INSUFFICIENT_BALANCE"}, "failed", "INSUFFICIENT_BALANCE", 0, "script"),
        ({"amount_msat": 2 * AMOUNT}, "succeeded", "SUCCEEDED", 2 * AMOUNT, None),
        ({"cltv_blocks": 79}, "failed", "INCORRECT_PAYMENT_DETAILS", 0, f"at least {HEIGHT + 80}"),
    ],
)
def test_scripts_that_end_at_once(bench, script, status, outcome, received_msat, words):
    payment_hash = bench.issue()
    payment = bench.pay(payment_hash, payer="ana", **script)
    assert payment == bench.payment(payment)
    assert (payment["status"], payment["outcome"], payment["received_msat"]) == (status, outcome, received_msat)
    assert (payment["payer"], payment["payment_hash"], payment["resolved_at"]) == ("ana", payment_hash, START)
    assert bench.node.balance_msat == received_msat
    assert (payment["preimage"] is not None) == (status == "succeeded")
    assert (words is None and payment["reason"] is None) or words in payment["reason"]
    assert len(bench.clock) == 0
    assert bench.state(payment_hash) == ("SETTLED" if received_msat else "OPEN")


def test_the_attempts_have_the_results_that_the_payer_saw(bench):
    payment = bench.pay(bench.issue(), outcome="underpay", parts=2)
    (attempt,) = payment["attempts"]  # a refusal by the receiver stops the payer
    assert attempt["code"] == REFUSED
    assert attempt["name"] == "incorrect_or_unknown_payment_details"
    assert (attempt["source"], attempt["retried"], attempt["learned"]) == ("final", False, "route was good")
    assert (attempt["why"], attempt["reason"]) == ("underpaid", payment["reason"])
    assert (attempt["status"], attempt["at"], attempt["resolved_at"]) == ("failed", START, START)
    paid = bench.pay(bench.issue(), parts=2)
    assert [(one["status"], one["source"], one["learned"]) for one in paid["attempts"]] == [
        ("settled", None, "route was good")
    ] * 2
    held = bench.pay(bench.issue(), outcome="hold", parts=2)
    assert [(each["status"], each["resolved_at"]) for each in held["attempts"]] == 2 * [("held", None)]
    bench.clock.advance(5)
    settled = bench.payments.settle(held["id"])
    assert [(each["status"], each["resolved_at"]) for each in settled["attempts"]] == 2 * [("settled", START + 5)]
    assert bench.pay(bench.issue(), outcome="fail")["attempts"] == []


def test_a_wallets_payment_waits_until_time_advances(bench):
    payment_hash = bench.issue()
    slow = bench.pay(bench.issue(), delay_ms=1)
    assert slow["status"] == "in_flight"
    payment = bench.pay(payment_hash, scheduled=True)
    assert (payment["status"], bench.state(payment_hash)) == ("in_flight", "OPEN")
    bench.clock.advance(0)
    assert bench.payment(payment)["status"] == "succeeded"
    assert bench.clock.now() == START


def test_a_delayed_payment_arrives_when_it_is_due(bench):
    payment_hash = bench.issue(lasts_ms=60_000)
    early, late = bench.pay(payment_hash, delay_ms=59_999), bench.pay(bench.issue(lasts_ms=60_000), delay_ms=60_000)
    bench.clock.advance(59_998)
    assert bench.payment(early)["status"] == "in_flight"
    bench.clock.advance(2)
    assert bench.payment(early)["resolved_at"] == START + 59_999
    assert bench.payment(late)["outcome"] == "INCORRECT_PAYMENT_DETAILS"
    assert "this came at that instant" in bench.payment(late)["reason"]


@pytest.mark.parametrize(("late_ms", "outcome"), [(-1, "SUCCEEDED"), (0, "INCORRECT_PAYMENT_DETAILS"), (1, "ERROR")])
def test_a_wallet_does_not_start_to_pay_an_expired_invoice_unless_told_to(bench, late_ms, outcome):
    """BOLT 11, a payer: "after the `timestamp` plus `expiry` has passed: SHOULD NOT attempt a payment". At that instant
    the node decides."""
    payment_hash = bench.issue(lasts_ms=60_000)
    bench.clock.advance(60_000 + late_ms)
    payment = bench.pay(payment_hash)
    assert payment["outcome"] == outcome
    if outcome != "ERROR":
        return
    assert (payment["status"], payment["attempts"]) == ("failed", [])
    assert payment["reason"].startswith("the wallet does not pay an invoice that expired at 2030-01-01T09:01:00.000Z")
    assert (payment["payment_hash"], len(bench.clock)) == (payment_hash, 0)
    told = bench.pay(payment_hash, late=True)
    assert (told["outcome"], told["attempts"][0]["why"]) == ("INCORRECT_PAYMENT_DETAILS", "expired")


def test_a_payment_that_starts_in_time_may_arrive_late(bench):
    payment = bench.pay(bench.issue(lasts_ms=60_000), delay_ms=60_000)
    bench.clock.advance(60_000)
    assert bench.payment(payment)["attempts"][0]["why"] == "expired"


def test_an_invoice_of_another_node_has_its_own_expiry(bench):
    with Sandbox(seed=4, start="2030-01-01T08:00:00Z") as other:
        request = other.charges.create(amount="1000", description="x", expiresIn=3_600).request
    assert bench.node.terms(request).expires_at_ms == START
    bench.clock.advance(1)
    assert "expired at 2030-01-01T09:00:00.000Z" in bench.payments.pay(request)["reason"]


def test_a_late_payment_is_asked_for_in_python_over_http_and_in_scripts():
    with Sandbox(seed=1, start="2030-01-01T09:00:00Z") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        sandbox.advance("61s")
        refused, late = sandbox.wallet("ana").pay(charge), sandbox.wallet("ana").pay(charge, late=True)
        orders = [{"request": charge.request}, {"request": charge.request, "late": True}]
        answers = [sandbox.ask("POST", "/sandbox/v1/payments", order)["reason"] for order in orders]
        sandbox.run()
        assert (refused.outcome, late.outcome) == ("ERROR", "INCORRECT_PAYMENT_DETAILS")
        assert ["the wallet does not pay" in answer for answer in answers] == [True, False]
        assert charge.status == "expired"
        assert "ana would pay 1 sat" in charge.timeline().text
        script = sandbox.script()
        assert "late=True" in script
        again: dict[str, Any] = {}
        exec(script, again)
        assert again["sb"].journal_hash == sandbox.journal_hash
        with pytest.raises(PayerError, match="late='yes'"):
            sandbox.wallet("ana").pay(charge, late="yes")


def test_a_held_payment_is_settled_manually(bench):
    payment = bench.pay(bench.issue(), outcome="hold", parts=3)
    assert (payment["status"], payment["outcome"], bench.settled) == ("held", None, [])
    settled = bench.payments.settle(payment["id"])
    assert (settled["status"], settled["received_msat"]) == ("succeeded", AMOUNT)
    assert sha256(bytes.fromhex(settled["preimage"])).hexdigest() == settled["payment_hash"]
    for action in (bench.payments.settle, bench.payments.cancel):
        with pytest.raises(PaymentNotHeld, match="succeeded"):
            action(payment["id"])


def test_a_held_payment_that_is_cancelled_fails_its_invoice(bench):
    payment = bench.payments.cancel(bench.pay(bench.issue(), outcome="hold")["id"])
    assert (payment["status"], payment["outcome"]) == ("failed", "INCORRECT_PAYMENT_DETAILS")
    assert "the node failed the payment it held" in payment["reason"]
    assert [failed.payment_hash for failed in bench.failed] == [payment["payment_hash"]]
    assert bench.state(payment["payment_hash"]) == "CANCELED"


def test_a_held_payment_fails_when_the_service_cancels_the_invoice(bench):
    payment = bench.pay(bench.issue(), outcome="hold")
    bench.node.cancel(payment["payment_hash"])
    assert bench.payment(payment)["outcome"] == "INCORRECT_PAYMENT_DETAILS"
    assert "closed the invoice" in bench.payment(payment)["reason"]
    assert (bench.failed, bench.node.balance_msat) == ([], 0)


def test_an_incomplete_set_times_out(bench):
    payment = bench.pay(bench.issue(), outcome="incomplete", patience_ms=None)
    assert [attempt["status"] for attempt in payment["attempts"]] == ["waiting"]
    assert payment["status"] == "in_flight"
    bench.clock.run_until_idle()
    payment = bench.payment(payment)
    assert (payment["outcome"], payment["resolved_at"]) == ("TIMEOUT", START + 2 * MINUTE)
    assert payment["attempts"][0]["code"] == FailureCode.MPP_TIMEOUT
    assert payment["attempts"][0]["name"] == "mpp_timeout"
    assert bench.state(payment["payment_hash"]) == "OPEN"


def test_an_incomplete_set_can_be_cancelled(bench):
    payment = bench.pay(bench.issue(), outcome="incomplete", parts=4)
    assert len(payment["attempts"]) == 3
    payment = bench.payments.cancel(payment["id"])
    assert payment["outcome"] == "INCORRECT_PAYMENT_DETAILS"
    assert "cancelled before all its parts" in payment["reason"]
    assert [attempt["status"] for attempt in payment["attempts"]] == 3 * ["failed"]
    assert (bench.state(payment["payment_hash"]), bench.failed) == ("OPEN", [])
    assert bench.pay(payment["payment_hash"])["status"] == "succeeded"


def test_a_payment_that_is_not_sent_can_be_cancelled(bench):
    payment = bench.payments.cancel(bench.pay(bench.issue(), delay_ms=5_000)["id"])
    assert (payment["status"], payment["outcome"]) == ("failed", "CANCELED")
    assert len(bench.clock) == 0


def test_a_payment_given_up_may_still_settle(bench):
    held = bench.pay(bench.issue(), outcome="hold")
    bench.clock.advance(MINUTE - 1)
    assert bench.payment(held)["gave_up_at"] is None
    bench.clock.advance(1)
    assert bench.payment(held)["gave_up_at"] == START + MINUTE
    assert bench.payment(held)["status"] == "held"
    assert bench.payments.settle(held["id"])["outcome"] == "SUCCEEDED"
    assert bench.node.balance_msat == AMOUNT


def test_the_payers_timeout_counts_from_the_first_part(bench):
    held = bench.pay(bench.issue(), outcome="hold", delay_ms=90_000, patience_ms=10_000)
    bench.clock.advance(99_999)
    assert bench.payment(held)["gave_up_at"] is None
    bench.clock.advance(1)
    assert bench.payment(held)["gave_up_at"] == START + 100_000


def test_with_a_payers_timeout_of_zero_the_first_part_is_sent(bench):
    payment = bench.pay(bench.issue(), delay_ms=5_000, patience_ms=0)
    bench.clock.advance(5_000)
    assert bench.payment(payment)["outcome"] == "SUCCEEDED"


def test_a_payment_given_up_and_then_refused_has_timed_out(bench):
    held = bench.pay(bench.issue(), outcome="hold")
    bench.clock.advance(MINUTE)
    bench.node.cancel(held["payment_hash"])
    assert bench.payment(held)["outcome"] == "TIMEOUT"


def test_a_payment_given_up_sends_no_further_part(bench):
    payment = bench.pay(bench.issue(), parts=3, gap_ms=40_000)
    bench.clock.advance(MINUTE)
    assert [timer.kind for timer in bench.clock.upcoming(9)] == ["mpp_timeout"]
    bench.clock.run_until_idle()
    payment = bench.payment(payment)
    assert [attempt["at"] - START for attempt in payment["attempts"]] == [0, 40_000]
    assert payment["outcome"] == "TIMEOUT"


def test_parts_before_and_after_expiry_all_fail(bench):
    payment_hash = bench.issue(lasts_ms=60_000)
    payment = bench.pay(payment_hash, parts=2, gap_ms=60_000, patience_ms=None)
    bench.clock.advance(59_999)
    bench.node.cancel(payment_hash)
    assert bench.payment(payment)["outcome"] == "INCORRECT_PAYMENT_DETAILS"
    assert len(bench.clock) == 0
    assert len(bench.payment(payment)["attempts"]) == 1


def test_two_payers_parts_can_complete_one_set(bench):
    payment_hash = bench.issue()
    ana = bench.pay(payment_hash, payer="ana", outcome="incomplete")
    bob = bench.pay(payment_hash, payer="bob")
    assert (bench.payment(ana)["outcome"], bench.payment(ana)["received_msat"]) == ("SUCCEEDED", AMOUNT // 2)
    assert bob["received_msat"] == AMOUNT
    assert bench.node.balance_msat == AMOUNT * 3 // 2
    assert len(bench.settled) == 1


def test_an_invoice_of_another_node_cannot_be_paid_here(bench):
    stranger = Bench()
    stranger.issue()
    request = stranger.row(stranger.issue())["request"]
    payment = bench.payments.pay(request)
    assert payment["outcome"] == "INCORRECT_PAYMENT_DETAILS"
    assert "no invoice with this payment hash" in payment["reason"]


def test_a_payment_that_a_wallet_would_not_start_is_recorded(bench):
    payment = bench.payments.record_refusal("lnurl1xyz", None, "the offer is full", payer="ana")
    assert (payment["status"], payment["outcome"], payment["reason"]) == ("failed", "ERROR", "the offer is full")
    assert list(bench.payments.rows) == [payment]


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": "steal"},
        {"outcome": "fail", "failure": "BAD_LUCK"},
        {"parts": 0},
        {"parts": 17},
        {"amount_msat": 3, "parts": 4},
        {"amount_msat": 0},
        {"delay_ms": -1},
        {"gap_ms": -1},
        {"patience_ms": -1},
    ],
)
def test_an_invalid_script_is_refused(bench, wrong):
    payment_hash = bench.issue()
    with pytest.raises(PaymentError):
        bench.pay(payment_hash, **wrong)
    with pytest.raises(Bolt11Error):
        bench.payments.pay("not an invoice")
    with pytest.raises(PaymentError, match="there is no payment"):
        bench.payments.settle("nobody")
    assert list(bench.payments.rows) == []


def test_an_invoice_without_an_amount_needs_one(bench):
    request = bench.node.signer.sign(
        amount_msat=None, timestamp_s=1, payment_hash=b"h" * 32, payment_secret=b"s" * 32, description=""
    )
    with pytest.raises(PaymentError, match="amount_msat"):
        bench.payments.pay(request)
    assert bench.payments.pay(request, amount_msat=5)["amount_msat"] == 5


@pytest.mark.parametrize(
    ("asked", "outcome", "sent"),
    [
        (1, "settle", 1),
        (1, "overpay", 2),
        (2, "overpay", 3),
        (3, "overpay", 4),
        (1, "overpay_double", 3),
        (2, "underpay", 1),
    ],
)
def test_the_smallest_amounts_can_be_sent(bench, asked, outcome, sent):
    assert bench.pay(bench.issue(asked), outcome=outcome)["amount_msat"] == sent


def test_the_codes_are_those_of_the_standard():
    assert (REFUSED, FailureCode.MPP_TIMEOUT) == (0x400F, 23)  # BOLT 4: PERM|15 and 23


def test_timers_are_set_again_after_a_restart(bench):
    whole = bench.issue()
    running = [
        bench.pay(whole, delay_ms=30_000),
        bench.pay(bench.issue(), parts=2, gap_ms=50_000),
        bench.pay(bench.issue(), outcome="incomplete"),
        bench.pay(bench.issue(), outcome="hold"),
    ]
    again = Bench(store=bench.store)
    assert len(again.clock) == 0
    again.node.resume()
    again.payments.resume()
    for each in (bench, again):
        assert {(t.due_ms, t.kind, t.key) for t in each.clock.upcoming(99)} == {
            (t.due_ms, t.kind, t.key) for t in bench.clock.upcoming(99)
        }
    again.clock.run_until_idle()
    rows = [again.payment(payment) for payment in running]
    assert [row["outcome"] for row in rows] == ["SUCCEEDED", "SUCCEEDED", "TIMEOUT", "TIMEOUT"]
    assert rows[3]["gave_up_at"] == START + MINUTE
    assert again.node.balance_msat == 2 * AMOUNT


def test_a_run_is_reproduced_to_the_byte():
    def run() -> str:
        bench = Bench()
        for script in ({}, {"outcome": "hold"}, {"outcome": "incomplete"}, {"delay_ms": 7, "parts": 3, "gap_ms": 9}):
            bench.pay(bench.issue(), **script)
        bench.clock.run_until_idle()
        return bench.journal.hash

    assert run() == run()


# Against a small model


class InvoicesAgainstAModel(RuleBasedStateMachine):
    """For any sequence of events the invoices do what a short model in plain Python does."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, dict[str, Any]] = {}
        self.expected: list[tuple[str, str, int | None]] = []
        self.received = 0

    @initialize(overpay=st.sampled_from(["bolt", "lnd"]))
    def open_shop(self, overpay: str) -> None:
        self.bench = Bench(NodePolicy(overpay=overpay))
        self.overpay = overpay

    @rule(amount=st.sampled_from([1, 2, 10, 1_000]), lasts_s=st.sampled_from([1, 60, 300, 86_400, 86_400]))
    def issue(self, amount: int, lasts_s: int) -> None:
        if len(self.model) < 12:
            payment_hash = self.bench.issue(amount, lasts_ms=lasts_s * 1_000)
            until = self.bench.clock.now() + lasts_s * 1_000 - 1
            self.model[payment_hash] = {
                "amount": amount,
                "until": until,
                "state": "OPEN",
                "set": [],
                "due": None,
                "hold": None,
            }

    @precondition(lambda self: self.model)
    @rule(
        which=st.integers(0, 20),
        total=st.sampled_from(["0", "-1", "exact", "+1", "x2", "x2+1", "same"]),
        share=st.sampled_from(["whole", "half", "one", "over"]),
        secret=st.sampled_from(["right"] * 6 + ["wrong", "none"]),
        blocks=st.sampled_from([80] * 6 + [79]),
        hold=st.booleans(),
    )
    def send(self, which: int, total: str, share: str, secret: str, blocks: int, hold: bool) -> None:
        payment_hash, model = self._pick(which)
        asked = model["amount"]
        same = model["set"][0]["total"] if model["set"] else asked
        totals = {"0": 0, "-1": asked - 1, "exact": asked, "+1": asked + 1, "x2": 2 * asked, "x2+1": 2 * asked + 1}
        total_msat = totals.get(total, same)
        shares = {"whole": total_msat, "half": total_msat // 2, "one": 1, "over": total_msat + 3}
        amount_msat = max(1, shares[share])
        changes: dict[str, Any] = {"total_msat": total_msat, "cltv_expiry": HEIGHT + blocks, "hold": hold}
        if secret != "right":
            changes["payment_secret"] = None if secret == "none" else "00" * 32
        htlc = self.bench.htlc(payment_hash, amount_msat, **changes)
        resolution = self.bench.invoices.receive_htlc(htlc)
        why = self._why(model, secret, total_msat, amount_msat, blocks)
        assert resolution.why == why
        if why:
            assert (resolution.status, resolution.code) == ("failed", REFUSED)
            if why in {"underpaid", "other_total"}:
                self._empty(model, "failed", REFUSED)
            return
        at = self.bench.clock.now()
        model["set"].append({"id": htlc.id, "amount": amount_msat, "total": total_msat, "hold": hold, "at": at})
        if sum(part["amount"] for part in model["set"]) < total_msat:
            assert resolution.status == "waiting"
            if model["due"] is None:
                model.update(due=self.bench.clock.now() + 120_000, armed=self.bench.sent)
            return
        mine = model["set"].pop()
        if hold or any(part["hold"] for part in model["set"]):
            assert resolution.status == "held"
            self.expected += [(part["id"], "held", None) for part in model["set"]]
            model["set"].append(mine)
            first = min(part["at"] for part in model["set"])
            model.update(state="ACCEPTED", due=None, hold=first + (80 - 18) * BLOCK, armed=self.bench.sent)
        else:
            assert resolution.status == "settled"
            self._settle(model, mine["amount"])

    @precondition(lambda self: self.model)
    @rule(which=st.integers(0, 20), action=st.sampled_from(["cancel", "lose", "release", "give_back"]))
    def decide(self, which: int, action: str) -> None:
        payment_hash, model = self._pick(which)
        state, node, reported = model["state"], self.bench.node, len(self.bench.failed)
        if action == "release":
            if state == "ACCEPTED" and self.bench.clock.now() <= model["until"]:
                self.bench.invoices.settle(payment_hash)
                self._settle(model, 0)
            else:
                with pytest.raises(PaymentNotHeld):
                    self.bench.invoices.settle(payment_hash)
        elif action == "give_back":
            if state == "OPEN" and model["set"]:
                self.bench.invoices.fail_waiting_parts(payment_hash, "as asked")
                self._empty(model, "failed", REFUSED)
            else:
                with pytest.raises(PaymentNotHeld):
                    self.bench.invoices.fail_waiting_parts(payment_hash, "as asked")
        else:
            open_before = state in {"OPEN", "ACCEPTED"}
            if action == "cancel":
                node.cancel(payment_hash)
            else:
                assert node.fail_invoice(payment_hash, "lost") is open_before
            if open_before:
                self._empty(model, "failed", REFUSED)
                model["state"] = "CANCELED"
                expires_at = model["until"] + 1  # every invoice here lasts whole seconds from a whole second
                model["late"] = self.bench.clock.now() >= expires_at - expires_at % 1_000
        assert len(self.bench.failed) == reported + (action == "lose" and state in {"OPEN", "ACCEPTED"})

    @rule(span=st.sampled_from([0, 1, 999, 1_000, 59_000, 120_000]))
    def wait(self, span: int) -> None:
        self._advance_to(self.bench.clock.now() + span)

    @precondition(lambda self: self.model)
    @rule(which=st.integers(0, 20), edge=st.sampled_from([-1, 0, 1]), what=st.sampled_from(["until", "due", "hold"]))
    def wait_for_an_edge(self, which: int, edge: int, what: str) -> None:
        instant = self._pick(which)[1][what]
        if instant is not None:
            self._advance_to(instant + edge)

    @invariant()
    def agrees(self) -> None:
        if not self.model:
            return
        for payment_hash, model in self.model.items():
            row = self.bench.row(payment_hash)
            assert row["state"] == model["state"]
            held = [part["id"] for part in row["parts"] if part["state"] == "held"]
            assert held == [part["id"] for part in model["set"]]
        assert [
            (resolution.htlc_id, resolution.status, resolution.code) for resolution in self.bench.resolutions
        ] == self.expected
        assert self.bench.node.balance_msat == self.received
        assert sum(settled.amount_msat for settled in self.bench.settled) == self.received
        hashes = [settled.payment_hash for settled in self.bench.settled]
        assert len(hashes) == len(set(hashes))

    def _pick(self, which: int) -> tuple[str, dict[str, Any]]:
        """One of the invoices, mostly one that can still be paid: that is where there is something to see."""
        items = list(self.model.items())
        alive = [item for item in items if item[1]["state"] in {"OPEN", "ACCEPTED"}]
        chosen = alive if alive and which < 15 else items
        return chosen[which % len(chosen)]

    def _why(self, model: dict[str, Any], secret: str, total: int, amount: int, blocks: int) -> str:
        asked, there = model["amount"], model["set"]
        if secret == "none":
            return "unknown"
        if model["state"] == "CANCELED":
            return "expired" if model["late"] else "canceled"
        if model["state"] != "OPEN":
            return str(model["state"]).lower()
        if self.bench.clock.now() > model["until"]:
            return "expired"
        if secret == "wrong":
            return "secret"
        if total <= 0:
            return "nothing"
        if total < asked:
            return "underpaid"
        if self.overpay == "bolt" and total > 2 * asked:
            return "overpaid"
        if there and there[0]["total"] != total:
            return "other_total"
        return "" if blocks >= 80 else "cltv"

    def _empty(self, model: dict[str, Any], kind: str, code: int | None) -> None:
        self.expected += [(part["id"], kind, code) for part in model["set"]]
        model.update(set=[], due=None, hold=None)

    def _settle(self, model: dict[str, Any], last: int) -> None:
        self.received += last + sum(part["amount"] for part in model["set"])
        self._empty(model, "settled", None)
        model["state"] = "SETTLED"

    def _advance_to(self, instant: int) -> None:
        self.bench.clock.advance_to(instant)
        due = [
            (model[kind], model["armed"], kind, model)
            for model in self.model.values()
            for kind in ("due", "hold")
            if model[kind] is not None and model[kind] <= instant
        ]
        for _, _, kind, model in sorted(due, key=_order):
            if kind == "hold":
                model["state"] = "OPEN"
            self._empty(model, "failed", REFUSED if kind == "hold" else FailureCode.MPP_TIMEOUT)


def _order(timer: tuple[Any, ...]) -> tuple[int, int]:
    due, armed, *_ = timer
    return due, armed


class MoneyIsConserved(RuleBasedStateMachine):
    """For any actions of payers and node: the payments that succeeded were received, and every payment ends."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.hashes: list[str] = []
        self.ended: dict[str, dict[str, Any]] = {}

    @rule(lasts_s=st.sampled_from([30, 90, 600, 86_400]))
    def issue(self, lasts_s: int) -> None:
        self.hashes.append(self.bench.issue(1_000, lasts_ms=lasts_s * 1_000))

    @precondition(lambda self: self.hashes)
    @rule(
        which=st.integers(0, 20),
        outcome=st.sampled_from(OUTCOMES),
        parts=st.integers(1, 4),
        delay_ms=st.sampled_from([0, 0, 10, 40_000]),
        gap_ms=st.sampled_from([0, 0, 5, 50_000]),
        patience_ms=st.sampled_from([None, 60_000, 0]),
        scheduled=st.booleans(),
    )
    def pay(self, which: int, **script: Any) -> None:
        self.bench.pay(self.hashes[which % len(self.hashes)], **script)

    @rule(which=st.integers(0, 20), action=st.sampled_from(["settle", "cancel"]))
    def resolve(self, which: int, action: str) -> None:
        rows = [row for row in self.bench.payments.rows if row["outcome"] is None]
        if rows:
            row = rows[which % len(rows)]
            try:
                after = getattr(self.bench.payments, action)(row["id"])
            except PaymentNotHeld:
                assert action == "settle"
            else:
                assert after["outcome"] is not None

    @precondition(lambda self: self.hashes)
    @rule(which=st.integers(0, 20), lost=st.booleans())
    def close(self, which: int, lost: bool) -> None:
        payment_hash = self.hashes[which % len(self.hashes)]
        if lost:
            self.bench.node.fail_invoice(payment_hash, "lost")
        else:
            self.bench.node.cancel(payment_hash)

    @rule(span=st.sampled_from([0, 1, 10_000, 60_000, 120_000, 40_000_000]))
    def wait(self, span: int) -> None:
        self.bench.clock.advance(span)

    @rule()
    def restart(self) -> None:
        before = self.bench
        self.bench = Bench(store=before.store)
        self.bench.clock.advance_to(before.clock.now())
        # Ids and preimages continue their random streams.
        self.bench.streams.restore(before.streams.snapshot())
        self.bench.node.resume()
        self.bench.payments.resume()

    @invariant()
    def what_succeeded_is_what_arrived(self) -> None:
        rows = list(self.bench.payments.rows)
        succeeded = [row for row in rows if row["status"] == "succeeded"]
        assert sum(row["received_msat"] for row in succeeded) == self.bench.node.balance_msat
        assert sum(self.bench.row(each)["received_msat"] for each in self.hashes) == self.bench.node.balance_msat
        for row in rows:
            assert (row["outcome"] is None) == (row["status"] in {"in_flight", "held"})
            assert (row["status"] == "failed") <= bool(row["reason"])
            if row["preimage"] is not None:
                assert sha256(bytes.fromhex(row["preimage"])).hexdigest() == row["payment_hash"]
            if row["status"] != "succeeded":
                assert row["preimage"] is None
            if row["status"] == "held":
                assert self.bench.state(row["payment_hash"]) == "ACCEPTED"
            if row["id"] in self.ended:
                assert row == self.ended[row["id"]]  # an ended payment does not change
            elif row["outcome"] is not None:
                self.ended[row["id"]] = row

    def teardown(self) -> None:
        self.bench.clock.run_until_idle()
        for payment_hash in self.hashes:
            self.bench.node.cancel(payment_hash)
        self.what_succeeded_is_what_arrived()
        assert all(row["outcome"] is not None for row in self.bench.payments.rows)
        assert len(self.bench.clock) == 0


TestInvoicesAgainstAModel = InvoicesAgainstAModel.TestCase
TestInvoicesAgainstAModel.settings = examples(100, bounded=25, stateful_step_count=60)
TestMoneyIsConserved = MoneyIsConserved.TestCase
TestMoneyIsConserved.settings = examples(100, bounded=25, stateful_step_count=40)


def test_the_terms_that_a_node_remembers_are_those_that_decode_reads() -> None:
    sb = Sandbox(seed=3)
    node = sb.world.node
    sb.charges.create(amount="250000", description="tea")
    sb.charges.create(amount="1000", description="\u00e9" * 600, expiresIn=1)
    tips = sb.static_charges.create(minAmount="1000", maxAmount="5000", description="tips")
    sb.wallet("ana").scan(tips, amount=2_000)
    sb.run()
    assert len(node._terms) == 3
    for request, known in [*node._terms.items()]:
        invoice = decode(request)
        read = (invoice.amount_msat, invoice.payment_hash, invoice.payment_secret, invoice.min_final_cltv)
        assert tuple(known) == (*read, invoice.expires_at_s * 1_000)
        assert node.terms(request.upper()) == node.terms(f"lightning:{request}") == known
        assert Sandbox(seed=4).world.node.terms(request) == known
    with pytest.raises(Bolt11Error):
        node.terms("lnbcrt1x")


def test_a_node_remembers_its_latest_invoices_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.lightning.receiver.node._REMEMBERED", 2)
    sb = Sandbox(seed=3)
    made = [sb.charges.create(amount="1000", description=f"{number}").invoice.request for number in range(4)]
    assert [*sb.world.node._terms] == made[2:]
    payments = [sb.wallet("ana").pay(request) for request in made]
    sb.run("1s")
    assert [payment.outcome for payment in payments] == ["SUCCEEDED"] * 4
