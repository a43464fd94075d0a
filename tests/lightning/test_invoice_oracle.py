"""The invoice state machine against an independent oracle, on thousands of random sequences of events."""

from __future__ import annotations

import random
from contextlib import suppress
from hashlib import sha256

import pytest

from leyden.lightning.engine.htlc import Htlc
from leyden.lightning.receiver.invoices import NodePolicy
from leyden.server.errors import LeydenError
from tests.lightning.test_invoices import HEIGHT, START, Bench
from tests.support.deep import sampled
from tests.support.invoice_oracle import Account, Arrived, Event, Issued, Rules, Word, account

_STORIES = 700  # for each of four seeds


def policy(rng: random.Random) -> NodePolicy:
    return NodePolicy(
        overpay=rng.choice(["bolt", "bolt", "lnd"]),
        mpp_timeout_ms=rng.choice([60_000, 120_000]),
        min_final_cltv=rng.choice([1, 18, 19, 20, 80]),
    )


def scenario(rng: random.Random) -> None:
    """A random sequence for one node: invoices, parts of payments, decisions and time; both must agree at each step."""
    rules = policy(rng)
    bench = Bench(rules)
    oracle_rules = Rules(rules.min_final_cltv, rules.mpp_timeout_ms, rules.overpay == "lnd")
    events: list[Event] = []
    secrets: dict[str, tuple[str, int]] = {}
    for _ in range(rng.choice([1, 1, 2])):
        amount, lasts = rng.choice([1, 1_000, 99_999]), rng.choice([60_000, 300_000, 9_000_000])
        payment_hash = bench.issue(amount, lasts_ms=lasts)
        secrets[payment_hash] = bench.row(payment_hash)["payment_secret"], amount
        events.append(Issued(START, payment_hash, *secrets[payment_hash], START + lasts - 1))
    for number in range(rng.randint(1, 9)):
        spans = [0, 0, 1, 1_000, 59_999, 60_000, 60_001, 120_000, 599_999, 600_000]
        bench.clock.advance_to(bench.clock.now() + rng.choice(spans))
        now = bench.clock.now()
        payment_hash = rng.choice(list(secrets))
        secret, amount = secrets[payment_hash]
        if rng.random() < 0.2:
            word = Word(now, payment_hash, rng.choice(["release", "close", "give_back"]))
            events.append(word)
            say(bench, word)
        else:
            part = drawn(rng, now, f"p:{number}", payment_hash, secret, amount, rules.min_final_cltv)
            events.append(part)
            arrive(bench, part)
        for known in secrets:
            compare(bench, account(events, known, bench.clock.now(), oracle_rules), known)
    bench.clock.advance_to(bench.clock.now() + 400_000)
    for known in secrets:
        compare(bench, account(events, known, bench.clock.now(), oracle_rules), known)
    settled = [each.payment_hash for each in bench.settled]
    assert len(settled) == len(set(settled))  # each is reported once


def drawn(rng: random.Random, now: int, part: str, payment_hash: str, secret: str, asked: int, delta: int) -> Arrived:
    total = rng.choice([asked, asked, asked, asked - 1, asked + 1, 2 * asked, 2 * asked + 1, 0])
    amount = max(1, rng.choice([total, total, total // 2, total - total // 2, total + 1, 1]))
    if rng.random() < 0.1:
        payment_hash = "00" * 32
    return Arrived(
        now,
        part,
        payment_hash,
        rng.choice([secret] * 8 + ["11" * 32, None]),
        amount,
        total,
        HEIGHT + rng.choice([200] * 6 + [max(19, delta), max(19, delta) - 1, 0]),
        rng.random() < 0.25,
        HEIGHT,
    )


def arrive(bench: Bench, part: Arrived) -> None:
    resolution = bench.invoices.receive_htlc(
        Htlc(part.part, part.hash, part.secret, part.amount, part.total, part.expiry, part.hold)
    )
    bench.resolutions.append(resolution)


def say(bench: Bench, word: Word) -> None:
    decisions = {
        "release": lambda: bench.invoices.settle(word.hash),
        "close": lambda: bench.invoices.cancel(word.hash, "the user asked for it"),
        "give_back": lambda: bench.invoices.fail_waiting_parts(word.hash, "the user asked for it"),
    }
    with suppress(LeydenError):  # not held, or no part of it waits: nothing happens in either
        decisions[word.word]()


def compare(bench: Bench, expected: Account, payment_hash: str) -> None:
    row = bench.row(payment_hash)
    assert (row["state"], row["received_msat"] or 0) == (expected.state, expected.received)
    answers: dict[str, int | None] = {}
    for resolution in bench.resolutions:
        if resolution.payment_hash == payment_hash:
            known = {"settled": 0, "failed": resolution.code, "waiting": None, "held": None}
            assert answers.get(resolution.htlc_id) is None, "a part was answered twice"
            answers[resolution.htlc_id] = known[resolution.status]
            if resolution.status == "settled":
                assert sha256(bytes.fromhex(str(resolution.preimage))).hexdigest() == payment_hash
    assert answers == expected.answers


@pytest.mark.parametrize("seed", sampled(range(4), 4))
def test_the_oracle_agrees_on_every_part_of_every_sequence(seed):
    rng = random.Random(seed)
    for number in range(_STORIES):
        try:
            scenario(rng)
        except AssertionError as error:
            raise AssertionError(f"scenario {number} of seed {seed}: {error}") from error
