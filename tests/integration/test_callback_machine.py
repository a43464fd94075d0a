"""A state machine for callbacks: after any sequence of payments, faults, secret rotations and restarts, the outbox
reports each transition exactly once, with its state and a valid signature, and nothing else."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import orjson
from freezegun import freeze_time
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from standardwebhooks.webhooks import Webhook

from leyden import Sandbox
from leyden.callbacks.faults.kinds import KINDS, RATE_LIMIT
from leyden.callbacks.inboxes import Received
from leyden.callbacks.mutations import CONTENT_KINDS
from leyden.callbacks.replies import TIMEOUT, WORDS, Reply
from leyden.errors import ApiError, PayerError
from leyden.lightning.payer.payments import PaymentError
from leyden.rng import RandomStreams
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import delivery_resource
from leyden.server.contract.types import CallbackRule
from leyden.server.timestamps import parse_duration, parse_iso, to_iso
from leyden.world.event_journal import Entry
from tests.support.examples import examples

START = "2030-01-01T09:00:00Z"
HOSTS = ("shop", "till")
HOOK = st.sampled_from([None, *(f"http://{host}.localhost/hook" for host in HOSTS), "http://shop.localhost/other"])
PICK = st.integers(0, 20)
REPLIES = st.sampled_from(
    [
        *(200, 204, 302, 410, 500, 502, *WORDS),
        Reply(429, headers={"retry-after": "7"}),
        Reply(503, headers={"retry-after": "Tue, 01 Jan 2030 10:00:00 GMT"}),
        Reply(200, delay="14.999s"),
        Reply(200, delay="15s"),
        Reply(500, delay="1s"),
    ]
)
USUALLY = st.sampled_from([200, 500, TIMEOUT, Reply(200, delay="9s")])
SPAN = st.sampled_from(["0s", "1s", "20s", "1m", "10m", "3h", "25h"])
SENDING_KINDS = [kind for kind in KINDS if kind != RATE_LIMIT]
# Shuffled by a random stream: Hypothesis alone would draw a few kinds again and again.
SOME_KINDS = st.integers(0, 999).map(lambda seed: RandomStreams(seed).stream("kinds").shuffle(SENDING_KINDS)[:4])
ENDS = {"completed", "expired", "error"}

Bytes = tuple[tuple[tuple[str, str], ...], str]


class Callbacks(RuleBasedStateMachine):
    """One sandbox with a data directory, checked after every event."""

    def __init__(self) -> None:
        super().__init__()
        self.quick = patch("os.fsync")  # a restart is not a power cut
        self.quick.start()
        self.data = tempfile.mkdtemp()
        self.sandbox = Sandbox(seed=5, start=START, data=self.data)
        self.ended: dict[str, dict[str, Any]] = {}  # the charge's data at its last transition
        self.got: list[Received] = []
        self.noted: list[Entry] = []

    # Payers and merchants

    @initialize(
        charges=st.lists(st.tuples(st.sampled_from([1, 60]), HOOK), min_size=2, max_size=5),
        faults=st.lists(SOME_KINDS, max_size=1),
        always=USUALLY,
    )
    def begin(self, charges: list[tuple[int, str | None]], faults: list[list[str]], always: Any) -> None:
        self.sandbox.receiver("shop").always(always)
        self.sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate")  # otherwise no `old_secret` could sign
        for expires_in, hook in charges:
            self.create(expires_in, hook)
        for kinds in faults:
            self.add_faults(kinds, {}, 2)

    @rule(expires_in=st.sampled_from([1, 60, 600]), hook=HOOK)
    def create(self, expires_in: int, hook: str | None) -> None:
        self.sandbox.charges.create(amount="21000", description="té", expiresIn=expires_in, callbackUrl=hook)

    @rule(slots=st.sampled_from([None, 1, 2]), hook=HOOK)
    def create_static(self, slots: int | None, hook: str | None) -> None:
        fields = {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "allowedSlots": slots}
        self.sandbox.static_charges.create(**fields, callbackUrl=hook)

    @rule(pick=PICK, outcome=st.sampled_from(["settle", "settle", "hold", "fail"]), delay=st.sampled_from([0, "59s"]))
    def pay(self, pick: int, outcome: str, delay: Any) -> None:
        charges = list(self.sandbox.charges)
        with contextlib.suppress(PaymentError):
            self.sandbox.wallet("ana").pay(charges[pick % len(charges)], outcome=outcome, delay=delay)

    @rule(pick=PICK, amount=st.sampled_from([1_000, 2_000]))
    def scan(self, pick: int, amount: int) -> None:
        statics = list(self.sandbox.static_charges)
        if statics:
            with contextlib.suppress(PayerError, PaymentError):
                self.sandbox.wallet("bob").scan(statics[pick % len(statics)], amount=amount)

    @rule(pick=PICK)
    def fail_invoice(self, pick: int) -> None:
        charges = list(self.sandbox.charges)
        with contextlib.suppress(ApiError):  # the charge has ended already
            charges[pick % len(charges)].fail()
        self.watch()

    # Faults

    @rule(host=st.sampled_from(HOSTS), script=st.lists(REPLIES, max_size=4), always=USUALLY)
    def answer(self, host: str, script: list[Any], always: Any) -> None:
        self.sandbox.receiver(host).answers(script).always(always)

    @rule(
        kinds=SOME_KINDS,
        where=st.sampled_from([{}, {}, {"event": "charge.expired"}, {"attempt": 1}, {"attempt": 2}]),
        count=st.sampled_from([1, 1, 2, None]),
    )
    def add_faults(self, kinds: list[str], where: dict[str, Any], count: int | None) -> None:
        for kind in kinds:
            if kind == "old_secret":
                self.rotate()  # it needs an earlier secret
            self.sandbox.faults.add(kind, **where, count=2 if (kind, count) == ("burst", 1) else count)

    @rule()
    def clear_faults(self) -> None:
        self.sandbox.faults.clear()

    @rule()
    def rotate(self) -> None:
        with self.sandbox.world.exclusive():
            self.sandbox.world.service.projects.rotate_secret("default")

    @precondition(lambda self: self.deliveries)
    @rule(pick=PICK)
    def replay(self, pick: int) -> None:
        rows = self.deliveries
        with self.sandbox.world.exclusive():
            self.sandbox.world.service.outbox.replay(rows[pick % len(rows)]["id"])

    @rule()
    def restart(self) -> None:
        self.collect()
        receivers, got = self.receivers(), self.got
        self.sandbox.close()
        self.sandbox = Sandbox(data=self.data)
        self.collect(inboxes_only=True)
        assert (self.receivers(), self.got) == (receivers, got)

    @rule()
    def restart_with_an_attempt_in_flight(self) -> None:
        for _ in range(20):
            if self.sandbox.world.service.outbox.in_flight.attempts or self.sandbox.step() is None:
                break
            self.watch()
        self.restart()

    # Time

    @rule(span=SPAN)
    def advance(self, span: str) -> None:
        clock = self.sandbox.world.clock
        until = clock.now() + parse_duration(span)
        while (due := clock.next_due()) is not None and due <= until:
            self.sandbox.step()
            self.watch()
        self.sandbox.advance_to(until)

    def run_out(self) -> None:
        while self.sandbox.step() is not None:
            self.watch()

    # Invariants

    @property
    def deliveries(self) -> list[dict[str, Any]]:
        return self.sandbox.world.service.outbox.deliveries()

    @property
    def rule_by_name(self) -> dict[str, CallbackRule]:
        operations = self.sandbox.world.config.contract.operations.values()
        return {rule.name: rule for operation in operations for rule in operation.callbacks}

    def collect(self, inboxes_only: bool = False) -> None:
        """Read all inboxes, and keep the journal entries, which a restart discards."""
        self.got = [got for receiver in self.sandbox.world.receivers for got in receiver.inbox]
        if not inboxes_only:
            self.noted += self.sandbox.world.journal.entries()

    def receivers(self) -> list[tuple[Any, ...]]:
        """The configuration and the remaining script of each receiver."""
        return [(one.name, one.script, one.rules, one.usual) for one in self.sandbox.world.receivers]

    def watch(self) -> None:
        """Compare each new delivery with the current response to GET."""
        for row in self.sandbox.world.service.charges.charges:
            if row["status"] not in ENDS or row["id"] in self.ended:
                continue
            data = self.sandbox.charges[row["id"]].data
            found = self.sandbox.world.service.outbox.deliveries(row["id"])
            self.ended[row["id"]] = data
            if not row["callback_url"] or (row["static_charge_id"] and row["status"] != "completed"):
                assert found == [], "reported without a callback URL"
                continue
            [delivery] = found
            if row["static_charge_id"]:
                static = self.sandbox.static_charges[row["static_charge_id"]].data
                data = {**data, "slots": static["slots"], "allowedSlots": static["allowedSlots"]}
            body = orjson.loads(delivery["body"])
            assert self.rule_by_name[delivery["rule"]].rule.validator.is_valid(body)
            assert body == {**{name: data[name] for name in body}, "invoice": {"request": data["invoice"]["request"]}}
            assert ("confirmedAt" in body) == (row["status"] == "completed")
            assert (delivery["url"], delivery["event"]) == (row["callback_url"], f"charge.{row['status']}")
            assert delivery["sequence"] == row["sequence"] == 1

    @invariant()
    def every_delivery_belongs_to_a_checked_transition(self) -> None:
        ids = [row["resource_id"] for row in self.deliveries]
        assert len(ids) == len(set(ids))
        assert set(ids) <= set(self.ended)
        assert len(self.sandbox.world.service.outbox.in_flight.attempts) <= 8

    def teardown(self) -> None:
        try:
            self.run_out()
            self.every_delivery_belongs_to_a_checked_transition()
            self.collect()
            self.the_status_of_each_delivery_follows_from_its_attempts()
            with freeze_time(START) as frozen_time:
                self.every_request_belongs_to_an_attempt(frozen_time)
        finally:
            self.sandbox.close()
            self.quick.stop()
            shutil.rmtree(self.data)

    def the_status_of_each_delivery_follows_from_its_attempts(self) -> None:
        replayed = {entry.subject for entry in self.noted if entry.kind == "callback_replayed"}
        for row in self.deliveries:
            attempts = AttemptLog(row).attempts()
            assert row["status"] in {"delivered", "exhausted", "stopped"}
            assert all(attempt.ended_at is not None for attempt in attempts)
            assert all(one.ended_at <= other.at for one, other in pairwise(attempts))
            succeeded = [200 <= (attempt.status or 0) <= 299 for attempt in attempts]
            if row["id"] not in replayed:
                assert not any(succeeded[:-1])
                assert 410 not in [attempt.status for attempt in attempts[:-1]]
                assert sum(attempt.error != "lost" for attempt in attempts) <= 10
            if attempts and row["status"] != "stopped":
                assert succeeded[-1] == (row["status"] == "delivered")

    def every_request_belongs_to_an_attempt(self, frozen_time: Any) -> None:
        """Each attempt and each copy is one request, with its own bytes or with those that a fault recorded."""
        rows = {row["id"]: row for row in self.deliveries}
        hits = [entry.facts for entry in self.noted if entry.kind == "fault_hit"]
        altered = {(hit["delivery"], hit["attempt"]) for hit in hits if hit["fault"] in {"drop", *CONTENT_KINDS}}
        good: Counter[Bytes] = Counter()
        for row in rows.values():
            for attempt in delivery_resource(row, self.sandbox.world.service.outbox.signature)["attempts"]:
                if (row["id"], attempt["number"]) not in altered:
                    good[_bytes(attempt["headers"], row["body"])] += 1
        for entry in self.noted:
            if entry.kind == "copy_started":
                good[_bytes(entry.facts["headers"], rows[entry.facts["delivery"]]["body"])] += 1
        bad = Counter(_bytes(sent["headers"], sent["body"]) for hit in hits for sent in hit.get("sent", ()))
        seen = Counter(_bytes(got.headers, got.body) for got in self.got)
        assert not seen - (good + bad)

        secrets = self.sandbox.world.service.projects.secrets("default")
        for got in self.got:
            if _bytes(got.headers, got.body) not in good:
                continue
            # Signed with every secret that was valid when it was sent, so that a receiver with the old secret can
            # verify it. A secret created in the same millisecond may be newer than the signature. At most three sign.
            stamp_s = int(got.headers["webhook-timestamp"])
            sent_ms = parse_iso(got.headers["leyden-time"])
            frozen_time.move_to(to_iso(stamp_s * 1_000))
            known = sum(secret["from_ms"] <= sent_ms for secret in secrets)
            for index, secret in enumerate(secrets[:known]):
                is_older = not index or secret["from_ms"] < sent_ms
                if is_older and index >= known - 3 and sent_ms < (secret["until_ms"] or sent_ms + 1):
                    Webhook(secret["secret"]).verify(got.body, dict(got.headers))
        received = {got.webhook_id for got in self.got} | {delivery for delivery, _ in altered}
        assert {row["id"] for row in rows.values() if row["status"] == "delivered"} <= received


def _bytes(headers: Mapping[str, str], body: str) -> Bytes:
    return tuple(sorted(headers.items())), body


TestCallbacks = Callbacks.TestCase
TestCallbacks.settings = examples(40, bounded=8, stateful_step_count=30)
