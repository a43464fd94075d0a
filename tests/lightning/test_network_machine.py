"""Direct and routed payments, faults, rollbacks, forks and restarts in any order: three invariants hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leyden import Sandbox
from leyden.errors import InterceptError
from leyden.lightning.engine.htlc import PaymentNotHeld
from leyden.lightning.network.network_tables import attempts_of, balances_of, htlcs_of
from tests.support.channel_audit import audit
from tests.support.examples import examples
from tests.support.lists import listed

PAYERS = st.sampled_from(["ana", "bob", "cyd"])
OUTCOMES = st.sampled_from(["settle"] * 6 + ["hold", "hold", "wrong_secret", "underpay", "overpay", "overpay_double"])
START = "2030-01-01T09:00:00Z"
# Here channels are force closed: HTLCs are stuck for longer than they live, and nodes are away for days.
ROUGH = "star:6,stuck=0.2,stuck_time=40h,uptime=0.8,outage=20h"
BUSY = "star:6,background=2,spending=0.5,swap=0.4"
# Here nodes forward over other channels than payers chose, and some are disabled.
SEVERAL = "scale-free:30,parallel=0.3,fees=2024,liquidity=bimodal"


class _Rollback(Exception):
    """Raised to roll a transaction back."""


class PaymentsInASandbox(RuleBasedStateMachine):
    """A sandbox; at times it is replaced by a fork of it."""

    sandbox: Sandbox | None = None
    folder: Path | None = None

    @initialize(
        depth=st.sampled_from(["direct", "scale-free:30", "star:6", "line:4", ROUGH, BUSY, SEVERAL]),
        kept=st.booleans(),
        seed=st.integers(0, 9),
    )
    def begin(self, depth: str, kept: bool, seed: int) -> None:
        self.network = ":" in depth
        self.folder = Path(mkdtemp()) if kept else None
        self.sandbox = Sandbox(seed=seed, start=START, data=self.folder, network=depth)
        self.payments: list[str] = []
        self.charges: list[str] = []

    @property
    def sb(self) -> Sandbox:
        assert self.sandbox is not None
        return self.sandbox

    # Payments and decisions

    @rule(amount=st.sampled_from(["1000", "250000", "90000000", "500000000"]), lasts=st.sampled_from([60, 600]))
    def create(self, amount: str, lasts: int) -> None:
        self.charges.append(
            self.sb.charges.create(
                amount=amount, description="x", expiresIn=lasts, callbackUrl="http://shop.localhost/paid"
            ).id
        )

    @precondition(lambda self: self.charges)
    @rule(which=st.integers(0, 99), payer=PAYERS, outcome=OUTCOMES, delay=st.sampled_from([0, 0, 1, 59, 60, 61]))
    def pay(self, which: int, payer: str, outcome: str, delay: int) -> None:
        charge = self.sb.charges[self.charges[which % len(self.charges)]]
        self.payments.append(self.sb.wallet(payer).pay(charge, outcome=outcome, delay=delay).id)

    @precondition(lambda self: self.payments)
    @rule(which=st.integers(0, 99), action=st.sampled_from(["settle", "cancel"]))
    def decide(self, which: int, action: str) -> None:
        world = self.sb.world
        payment = self.payments[which % len(self.payments)]
        try:
            with world.exclusive():
                getattr(world.payments, action)(payment)
        except PaymentNotHeld:
            pass

    @rule(span=st.sampled_from(["1ms", "150ms", "1s", "59s", "1m", "2m", "10m", "12h", "3d"]))
    def wait(self, span: str) -> None:
        self.sb.advance(span)

    # Faults

    @precondition(lambda self: self.network)
    @rule(
        kind=st.sampled_from(["delay", "fail", "drop", "offline"]),
        hop=st.sampled_from([0, 1, 2, -1]),
        code=st.sampled_from([0x1007, 0x400F, 0x2002, 0x400A, 23, 0x100C, 0x100E]),
        times=st.integers(1, 3),
    )
    def intercept(self, kind: str, hop: int, code: int, times: int) -> None:
        more: dict[str, Any] = {"fail": {"code": code}, "delay": {"delay": "7s"}, "offline": {"node": "shop"}}.get(
            kind, {}
        )
        try:
            self.sb.network.intercept(kind, hop=hop, times=times, lasting="5m", **more)
        except InterceptError:
            never_sent = {0x400F, 23} if hop == 0 else {0x1007, 0x400A, 0x100C, 0x100E} if hop == -1 else set()
            assert (kind, hop) in (("drop", 0), ("offline", -1)) or (kind == "fail" and code in never_sent)

    @precondition(lambda self: self.network)
    @rule(node=PAYERS, is_shop=st.booleans(), lasting=st.sampled_from(["30s", "20m", "30h", None]))
    def go_offline(self, node: str, is_shop: bool, lasting: str | None) -> None:
        network = self.sb.network
        (network["shop"] if is_shop else network.wallet(node)).offline(lasting)

    @precondition(lambda self: self.network)
    @rule()
    def come_back(self) -> None:
        for interceptor in self.sb.network.interceptors:
            interceptor.remove()

    @precondition(lambda self: self.network)
    @rule(inbound=st.sampled_from([0.5, 1.0]), outbound=st.sampled_from([0.0, 0.5]))
    def drain(self, inbound: float, outbound: float) -> None:
        self.sb.network["shop"].drain(inbound=inbound, outbound=outbound)

    @precondition(lambda self: self.network)
    @rule(peer=PAYERS, close=st.booleans())
    def build(self, peer: str, close: bool) -> None:
        network = self.sb.network
        node = network.wallet(peer)
        if node.number != network["shop"].number:
            channel = node.open_channel("shop", 1_000_000_000)
            if close:
                network.close_channel(channel)

    # Rollbacks, forks, restarts

    @precondition(lambda self: self.charges)
    @rule(which=st.integers(0, 99), span=st.sampled_from([0, 1]))
    def roll_back(self, which: int, span: int) -> None:
        world = self.sb.world
        before = self.stand()
        request = self.sb.charges[self.charges[which % len(self.charges)]].request

        def rolled_back() -> None:
            with world.exclusive():
                for _ in range(1 + span):
                    world.payments.pay(request, payer="dan", scheduled=False)
                if self.network:
                    operations = self.sb.network.operations
                    shop = operations.node("shop")
                    operations.drain(shop, 0.5, 0.5)
                    operations.open_channel(shop, shop ^ 1, 10_000, None, 0, 0)
                raise _Rollback

        with pytest.raises(_Rollback):
            rolled_back()
        assert self.stand() == before

    @precondition(lambda self: self.folder is None)
    @rule(written=st.booleans(), span=st.sampled_from(["1s", "2m"]))
    def fork(self, written: bool, span: str) -> None:
        """Parent and fork behave alike from here on, also when the fork was serialised in between."""
        parent = self.sb
        child = Sandbox.from_snapshot(json.loads(json.dumps(parent.snapshot()))) if written else parent.fork()
        parent.advance(span)
        child.advance(span)
        assert parent.world.journal.hash == child.world.journal.hash
        self.sandbox = child
        mine = self.stand()
        self.sandbox = parent
        assert mine == self.stand()
        parent.close()
        self.sandbox = child

    @precondition(lambda self: self.folder is not None)
    @rule()
    def restart(self) -> None:
        before = self.stand()
        self.sb.close()
        self.sandbox = Sandbox(data=self.folder)
        assert self.stand() == before

    def stand(self) -> Any:
        """The complete state, which must be equal in two equal sandboxes."""
        world = self.sb.world
        tables = {
            name: {key: dict(row) for key, row in table.rows.items()} for name, table in world.store.snapshot().items()
        }
        tables.pop("world", None)
        engine = world.engine
        rest = () if engine is None else (
            engine.balance, engine.in_flight, engine.slots, engine.next_event_ms(), len(engine.shards), engine.closed,
            engine.force_closed,
        )  # fmt: skip
        return tables, world.clock.now(), world.clock.next_due(), rest

    # Invariants

    @invariant()
    def no_msat_is_created_or_lost(self) -> None:
        if self.sandbox is None:
            return
        world = self.sb.world
        if world.engine is not None:
            audit(world.engine)
            sides = balances_of(world.payments)
            for one, other in zip(sides[::2], sides[1::2], strict=True):
                off_chain = one["local_msat"] + one["remote_msat"] + one["in_flight_msat"]
                assert off_chain + one["on_chain_msat"] + other["on_chain_msat"] == one["capacity_msat"]
        settled = sum(
            row["received_msat"]
            for row in world.store.table("invoices", key="payment_hash")
            if row["state"] == "SETTLED"
        )
        assert world.node.balance_msat == settled

    @invariant()
    def a_charge_is_completed_if_and_only_if_its_invoice_is_settled(self) -> None:
        if self.sandbox is None:
            return
        world = self.sb.world
        for charge in world.service.charges.charges:
            invoice = world.node.invoices.row(charge["payment_hash"])
            assert invoice is not None
            assert (charge["status"] == "completed") == (invoice["state"] == "SETTLED"), charge["status"]
        for payment in world.payments.rows:
            if payment["preimage"] is not None:  # somebody can prove that it paid
                assert sha256(bytes.fromhex(payment["preimage"])).hexdigest() == payment["payment_hash"]
                assert world.node.invoices.row(payment["payment_hash"])["state"] == "SETTLED"  # type: ignore[index]

    @invariant()
    def an_invoice_is_paid_once(self) -> None:
        """By one payment; or by several whose parts made up its one set, each of which sent some of them."""
        if self.sandbox is None:
            return
        world = self.sb.world
        senders: dict[str, set[str]] = {}
        for row in world.payments.rows:
            if row["status"] == "succeeded":
                senders.setdefault(row["payment_hash"], set()).add(row["id"])
        for payment_hash, paid in senders.items():
            invoice = world.node.invoices.row(payment_hash)
            assert invoice is not None
            assert invoice["state"] == "SETTLED"
            settled = [part["id"] for part in invoice["parts"] if part["state"] == "settled"]
            assert paid <= {part.rpartition(":")[0] for part in settled}
            assert len(set(settled)) == len(settled)

    def teardown(self) -> None:
        if self.sandbox is None:
            return
        self._check_final_state()
        self.sandbox.close()
        if self.folder is not None:
            rmtree(self.folder)

    def _check_final_state(self) -> None:
        """When nothing is left to happen, no payment is open, no HTLC in flight, and who paid can prove it."""
        self.sb.run()
        checks: list[Callable[[], None]] = [
            self.no_msat_is_created_or_lost,
            self.a_charge_is_completed_if_and_only_if_its_invoice_is_settled,
            self.an_invoice_is_paid_once,
        ]
        for check in checks:
            check()
        world = self.sb.world
        assert all(row["outcome"] is not None for row in world.payments.rows)
        assert not [row for row in htlcs_of(world.payments) if row["status"] == "in_flight"]
        assert not [row for row in attempts_of(world.payments) if row["status"] in ("in_flight", "waiting", "held")]
        proven = {row["payment_hash"] for row in world.payments.rows if row["preimage"] is not None}
        done = {row["payment_hash"] for row in world.service.charges.charges if row["status"] == "completed"}
        assert proven == done
        reported = Counter(
            each["chargeId"]
            for each in listed(self.sb.ask, "/sandbox/v1/deliveries")
            if each["event"] == "charge.completed"
        )
        completed = [charge["id"] for charge in world.service.charges.charges if charge["status"] == "completed"]
        assert reported == Counter(completed)  # each was reported once, and none that was rolled back


TestPaymentsInASandbox = PaymentsInASandbox.TestCase
TestPaymentsInASandbox.settings = examples(40, bounded=8, stateful_step_count=25)
