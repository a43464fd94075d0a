"""The events of a Charge are in the order in which they happened, and none of them disappears."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError
from leyden.lab.drawings import charge_events as drawn
from leyden.lab.drawings import timeline
from leyden.lab.drawings.charge_events import charge_events
from leyden.lightning.engine.htlc import NEW_INVOICE
from tests.support.deep import sampled

START = "2030-01-01T09:00:00Z"
URL = "http://shop.localhost/paid"


def texts(sandbox: Sandbox, charge_id: str) -> list[str]:
    return [event.text for event in charge_events(sandbox.world, charge_id).events]


def test_after_a_restart_a_charge_of_a_full_static_charge_has_expired_at_its_own_time(tmp_path: Path) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="seat", allowedSlots=1)
        path = f"/lnurlp/{static.id}/invoice?amount=1000"
        invoices = [sandbox.http.get(path).json()["pr"] for _ in range(2)]
        sandbox.wallet("ana").pay(invoices[1])
        sandbox.advance("301s")
        other = next(charge.id for charge in sandbox.charges if charge.status == "expired")
        before = [(event.at, event.text) for event in charge_events(sandbox.world, other).events]
    with Sandbox(data=tmp_path) as again:
        assert [(event.at, event.text) for event in charge_events(again.world, other).events] == before


def test_a_replay_that_is_blocked_is_not_said_to_be_sent() -> None:
    sandbox = Sandbox(seed=7, start=START)
    charge = sandbox.charges.create(amount="1000", description="x", callbackUrl="http://127.0.0.1:1080/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    sandbox.replay_delivery(sandbox.deliveries.id[0])
    sandbox.run("1s")
    events = charge_events(sandbox.world, charge.id).events
    assert [event.detail for event in events if event.text == "replay"] == ["the message cannot be sent: blocked"]


def test_a_scheduled_expiry_says_whether_the_invoice_can_still_be_paid() -> None:
    with Sandbox(seed=7, start=START) as sandbox:
        static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="seat", allowedSlots=1)
        invoices = [sandbox.http.get(f"/lnurlp/{static.id}/invoice?amount=1000").json()["pr"] for _ in range(2)]
        pending = [charge.id for charge in sandbox.charges]
        details = [charge_events(sandbox.world, one).scheduled[0].detail for one in pending]
        assert details == ["if it is not paid before"] * 2
        sandbox.wallet("ana").pay(invoices[1])
        sandbox.advance("1s")
        [closed] = [charge.id for charge in sandbox.charges if charge.status == "pending"]
        expiry = charge_events(sandbox.world, closed).scheduled[0]
        assert (expiry.text, expiry.detail) == ("expires", "its invoice was closed and cannot be paid")


@pytest.mark.parametrize("end", ["settle", "return", "cancel", "expiry"])
@pytest.mark.parametrize("gap", ["0s", "5s"])
def test_a_hold_stays_in_the_timeline_after_its_end(tmp_path: Path, end: str, gap: str) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", expiresIn=604_800)
        payment = sandbox.wallet("ana").pay(charge, outcome="hold")
        sandbox.advance(gap)
        match end:
            case "settle":
                payment.settle()
            case "cancel":
                payment.cancel()
            case "return":
                sandbox.advance("3d")
            case _:
                sandbox.advance("8d")
        assert sandbox.payments.status.tolist() == ["succeeded" if end == "settle" else "failed"]
        shown = texts(sandbox, charge.id)
        assert shown.count("holds the payment") == 1
        ends = [place for place, text in enumerate(shown) if "preimage" in text or "the node says" in text]
        assert shown.index("ana's HTLC arrives") < shown.index("holds the payment") < min(ends)
    with Sandbox(data=tmp_path) as again:
        assert texts(again, charge.id) == shown


@pytest.mark.parametrize(("span_s", "until"), [(600, "09:10:00.000"), (86_400, "2030-01-02 09:00:00.000")])
def test_the_end_of_an_invoice_on_another_day_has_its_date(span_s: int, until: str) -> None:
    sandbox = Sandbox(seed=7, start=START)
    charge = sandbox.charges.create(amount="1000", description="x", expiresIn=span_s)
    assert f"expires at {until} ·" in timeline(sandbox.world, charge.id).text


@pytest.mark.parametrize(("overlays", "expires"), [((), "at"), (("payable-at-expiry",), "after")])
def test_the_end_of_an_invoice_is_one_instant_wherever_it_is_named(overlays: tuple[str, ...], expires: str) -> None:
    """It is `expiresAt`, and how late a payment came is counted from there."""
    for delay, late in (("61s", "1 s later"), ("60001ms", "1 ms later"), ("60s", "at that instant")):
        sandbox = Sandbox(seed=7, start=START, overlays=overlays)
        charge = sandbox.charges.create(amount="1000", description="x", expiresIn=60)
        payment = sandbox.wallet("ana").pay(charge, delay=delay)
        sandbox.run()
        shown = timeline(sandbox.world, charge.id).text
        assert f"1 sat, expires {expires} 09:01:00.000 ·" in shown
        if (expires, late) == ("after", "at that instant"):
            assert (charge.status, payment.reason) == ("completed", None)
            continue
        reason = f"the invoice expired {expires} 2030-01-01T09:01:00.000Z and this came {late}: {NEW_INVOICE}"
        assert (payment.reason, reason in shown) == (reason, True)


def test_a_replay_for_later_is_an_order_and_says_which_one_it_replaces(tmp_path: Path) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=URL)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1s")
        [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
        for delay in ("10m", "5m", "2d"):
            sandbox.replay_delivery(delivery["id"], delay=delay)
            if delay == "5m":
                sandbox.advance("15m")
        sandbox.replay_delivery(delivery["id"])
        sandbox.advance("1s")
        sandbox.replay_delivery(delivery["id"])
        sandbox.advance("1s")
        happened = charge_events(sandbox.world, charge.id).events
        shown = [f"{event.text} | {event.detail}" for event in happened if event.at > happened[0].at]
        noted = [
            entry.facts["due_at"] - entry.at_ms for entry in sandbox.world.journal.entries(kind="callback_replayed")
        ]
    assert [line for line in shown if "callback" not in line] == [
        "replay is ordered | the message is to be sent again at 09:10:01.000",
        "replay is ordered | the message is to be sent again at 09:05:01.000, instead of at 09:10:01.000",
        "replay is ordered | the message is to be sent again at 2030-01-03 09:15:01.000",
        "replay | the message is sent again, instead of at 2030-01-03 09:15:01.000",
        "replay | the message is sent again",
    ]
    assert [line.split(" ")[0] for line in shown] == [
        "replay", "replay", "callback", "replay", "replay", "callback", "replay", "callback",
    ]  # fmt: skip
    assert noted == [600_000, 300_000, 172_800_000, 0, 0]
    with Sandbox(data=tmp_path) as again:
        assert charge_events(again.world, charge.id).events == happened


def test_the_return_of_a_held_payment_is_among_what_is_scheduled(sandbox: Sandbox) -> None:
    """The Charge's `scheduled` part and the clock's list have the same instant, and the payment fails then."""
    charge = sandbox.charges.create(amount="10000", description="x", expiresIn=86_400)
    sandbox.wallet("ana").pay(charge, outcome="hold")
    sandbox.advance("5s")
    due = sandbox.ask("GET", "/sandbox/v1/clock/due")["data"]
    [(at, charge_id)] = [(row["at"], row["chargeId"]) for row in due if row["kind"] == "hold_deadline"]
    assert charge_id == charge.id
    scheduled = sandbox.ask("GET", f"/sandbox/v1/charges/{charge.id}")["scheduled"]
    words = "holds the payment no longer"
    assert [row["at"] for row in scheduled if words in str(row)] == [at]
    sandbox.advance_to(at)
    assert words not in str(sandbox.ask("GET", f"/sandbox/v1/charges/{charge.id}")["scheduled"])
    assert sandbox.payments.status.tolist() == ["failed"]


def test_the_timeout_of_an_incomplete_set_names_its_charge(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="10000", description="x")
    sandbox.wallet("ana").pay(charge, outcome="underpay")
    sandbox.advance("1s")
    due = sandbox.ask("GET", "/sandbox/v1/clock/due")["data"]
    assert {row["chargeId"] for row in due} == {charge.id}


ACTS = ("ana pays", "bob pays", "cy holds", "settle", "cancel", "fail", "replay")


class OneInstant:
    """Acts on one Charge at one instant, and the events that each of them must have added."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=URL)
        self.payments: list[Any] = []
        self.texts = texts(sandbox, self.charge.id)

    def do(self, act: str) -> None:
        """An act that is refused now has no effect."""
        who, _, what = act.partition(" ")
        if what:
            outcome = "hold" if what == "holds" else "settle"
            self.payments.append(self.sandbox.wallet(who).pay(self.charge, outcome=outcome))
        with suppress(ApiError, ValueError):
            if act in ("settle", "cancel"):
                for payment in self.payments:
                    with suppress(ApiError, ValueError):
                        getattr(payment, act)()
            elif act == "fail":
                self.charge.fail()
            elif act == "replay":
                for delivery in self.sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]:
                    self.sandbox.replay_delivery(delivery["id"])
        self.sandbox.advance("0s")

    def added(self) -> list[str]:
        """The events since the last call, in their order."""
        before, now = Counter(self.texts), texts(self.sandbox, self.charge.id)
        self.texts = now
        assert not before - Counter(now)
        new = []
        for text in reversed(now):
            if Counter(now)[text] - new.count(text) > before[text]:
                new.append(text)
        return new[::-1]


@pytest.mark.parametrize("first", sampled(ACTS[:3], 3))
def test_the_acts_of_one_instant_are_in_the_order_in_which_they_happened(first: str) -> None:
    for acts in product([first], ACTS, ACTS):
        sandbox = Sandbox(seed=7, start=START)
        instant, happened = OneInstant(sandbox), list[str]()
        happened += instant.texts
        for act in acts:
            instant.do(act)
            happened += instant.added()
        assert instant.texts == happened, acts


# The texts that cause others: the first one of each pair, where it is shown, comes before the second one.
CAUSES = (
    ("{who} pays 1 sat", "{who}'s HTLC arrives"),
    ("{who}'s HTLC arrives", "{who}'s HTLC: the node says incorrect_or_unknown_payment_details"),
    ("{who}'s HTLC: the node says incorrect_or_unknown_payment_details", "{who}: INCORRECT_PAYMENT_DETAILS"),
    ("{who}'s HTLC: preimage", "{who}: SUCCEEDED"),
    ("invoice settled", "{who}'s HTLC: preimage"),
    ("holds the payment", "invoice settled"),
    ("holds the payment", "invoice closed"),
    ("invoice settled", "completed"),
    ("completed", "callback 1"),
    ("callback 1", "replay"),
    ("replay", "callback 2"),
)
LATE = {"already paid": "invoice settled", "was closed": "invoice closed", "is held since": "holds the payment"}


@pytest.mark.parametrize("first", sampled(ACTS[:3], 3))
def test_no_effect_comes_before_its_cause_when_the_journal_is_lost(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for acts in product([first], ACTS, ACTS):
        sandbox = Sandbox(seed=7, start=START)
        instant = OneInstant(sandbox)
        for act in acts:
            instant.do(act)
        monkeypatch.setattr(sandbox.world.journal, "entries", lambda *_, **__: [])
        events = charge_events(sandbox.world, instant.charge.id).events
        shown = [event.text for event in events]
        for cause, effect in CAUSES:
            for who in ("ana", "bob", "cy"):
                one, other = cause.format(who=who), effect.format(who=who)
                if one in shown and other in shown:
                    assert shown.index(one) < shown.index(other), (acts, one, other)
        for place, event in enumerate(events):
            for words, cause in LATE.items():
                if words in event.detail and cause in shown:
                    assert shown.index(cause) < place, (acts, event)


@pytest.mark.parametrize(
    ("latency_ms", "words"), [(41, "after 41 ms in real time"), (0, "after 0 s in real time"), (2_000, "after 2 s")]
)
def test_the_duration_of_an_attempt_on_the_network_is_that_of_its_row(latency_ms: int, words: str) -> None:
    with Sandbox(seed=7, start=START, egress="recorded") as sandbox:
        url = "http://127.0.0.1:3000/paid"
        charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=url)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("2s")
        delivery = sandbox.deliveries.id[0]
        sandbox.session.respond(delivery, 1, status=204, latency_ms=latency_ms)
        sandbox.advance("1s")
        row = sandbox.callbacks.iloc[0]
        assert (str(row["answered_at"] - row["at"]), row["latency_ms"]) == ("0 days 00:00:02", latency_ms)
        [end] = [event for event in charge_events(sandbox.world, charge.id).events if event.text == "callback 1: 204"]
        assert end.detail.split(" · ")[0] == words


def _sequences(sandbox: Sandbox, charge_id: str) -> list[tuple[int, int, str]]:
    """The events that name an entry of the journal: the instant, the number of the entry, and the text."""
    entries: dict[tuple[int, str, str], int] = {}
    for entry in sandbox.world.journal.entries():
        subject = str(entry.facts.get("delivery", entry.subject))
        entries.setdefault((entry.at_ms, entry.kind, subject), entry.sequence)
    found = []
    for event in charge_events(sandbox.world, charge_id).events:
        kind, subject, _ = event.noted or ("", "", None)
        if (event.at, kind, subject) in entries:
            found.append((event.at, entries[event.at, kind, subject], event.text))
    return found


@pytest.mark.parametrize("network", [None, "scale-free:20"])
@pytest.mark.parametrize("outcome", ["settle", "hold", "cancel", "expiry", "incomplete", "wrong_secret", "fail"])
def test_events_of_one_instant_are_in_the_order_of_the_journal(
    tmp_path: Path, outcome: str, network: str | None
) -> None:
    with Sandbox(seed=7, start=START, network=network, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=URL, expiresIn=60)
        scripted = outcome if outcome not in ("cancel", "expiry") else "hold"
        payment = sandbox.wallet("ana").pay(charge, outcome=scripted)
        sandbox.advance("10s")
        if outcome in ("cancel", "hold"):
            payment.cancel() if outcome == "cancel" else payment.settle()
        sandbox.run("1h")
        sandbox.replay_delivery(sandbox.deliveries.id[0])
        sandbox.run("1h")
        found, shown = _sequences(sandbox, charge.id), texts(sandbox, charge.id)
        assert len(found) > 3
        assert found == sorted(found, key=lambda one: one[:2]), outcome
        saved = sandbox.save(tmp_path / "saved.json")
        with Sandbox.load(saved) as loaded:
            assert texts(loaded, charge.id) == shown
    if network is None:  # a directory keeps no journal
        with Sandbox(data=tmp_path) as again:
            assert texts(again, charge.id) == shown


def test_the_end_of_the_payment_comes_before_the_callback_in_each_interface() -> None:
    with Sandbox(seed=7, start=START) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=URL)
        sandbox.wallet("ana").pay(charge)
        sandbox.run()
        shown = [event["text"] for event in sandbox.ask("GET", f"/sandbox/v1/charges/{charge.id}")["timeline"]]
        assert shown[-4:] == ["completed", "ana's HTLC: preimage", "ana: SUCCEEDED", "callback 1"]
        for drawing in (charge.timeline(), charge.sequence()):
            assert drawing.text.index("SUCCEEDED") < drawing.text.index("callback 1")


@pytest.mark.parametrize("outcome", ["underpay", "overpay", "overpay_double"])
def test_a_payment_of_an_amount_of_its_own_has_not_the_amount_of_the_outcome(outcome: str) -> None:
    with Sandbox(seed=1) as sandbox:
        by_amount, by_outcome = (sandbox.charges.create(amount="250000", description="tea") for _ in range(2))
        order = {"request": by_amount.request, "outcome": outcome, "amount": "250001"}
        assert sandbox.ask("POST", "/sandbox/v1/payments", order)["status"] == "succeeded"
        sandbox.ask("POST", "/sandbox/v1/payments", {"request": by_outcome.request, "outcome": outcome})
        assert not any("scripted" in text for text in details(sandbox, by_amount.id))
        assert any(f"scripted to {outcome}" in text for text in details(sandbox, by_outcome.id))


def details(sandbox: Sandbox, charge_id: str) -> list[str]:
    return [event.detail for event in charge_events(sandbox.world, charge_id).events]


@pytest.mark.parametrize("network", [None, "star:6"])
@pytest.mark.parametrize("pause", ["0s", "1s"])
def test_of_many_events_the_first_and_the_last_are_those_of_the_whole_list(
    monkeypatch: pytest.MonkeyPatch, network: str | None, pause: str
) -> None:
    with Sandbox(seed=7, start=START, network=network) as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x", callbackUrl=URL)
        for number in range(40):
            outcome = ("fail", "underpay", "hold", "settle")[number % 4 if number > 30 else number % 2]
            with suppress(ApiError):
                sandbox.wallet(f"w{number % 5}").pay(charge, outcome=outcome)
            if number % 3:
                sandbox.advance(pause)
        sandbox.advance("1m")
        for _ in range(12):
            sandbox.replay_delivery(sandbox.deliveries.id[0])
        sandbox.advance("1m")
        part = charge_events(sandbox.world, charge.id)
        monkeypatch.setattr(drawn, "_MAX_EVENTS", 10_000)
        whole = charge_events(sandbox.world, charge.id)
    assert whole.omitted == 0
    assert part.omitted == len(whole.events) - 64 > 20
    assert part.events == whole.events[:40] + whole.events[-24:]
    assert part.scheduled == whole.scheduled


def test_a_charge_shows_the_next_scheduled_events_and_the_number_of_the_others() -> None:
    with Sandbox(seed=7, start=START) as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x", expiresIn=86_400)
        count = drawn._DISCARDED_TOGETHER + 100
        for number in range(count):
            sandbox.wallet("w").pay(charge, outcome="fail", delay=f"{1 + number * 7919 % count}s")
        record = charge_events(sandbox.world, charge.id)
        starts = [sandbox.world.clock.now() + 1_000 * second for second in range(1, count + 1)]
        gives_up = [at + 60_000 for at in starts]
        assert [event.at for event in record.scheduled] == sorted(starts + gives_up)[:64]
        assert record.more_scheduled == 2 * count + 1 - 64
        details = sandbox.ask("GET", f"/sandbox/v1/charges/{charge.id}")
        assert (len(details["scheduled"]), details["moreScheduled"]) == (64, 2 * count + 1 - 64)
        assert f"{2 * count + 1 - 64:,} scheduled events are left out" in charge.timeline().text
        sandbox.advance("12h")
        assert charge_events(sandbox.world, charge.id).more_scheduled == 0


def test_the_first_and_the_last_of_thousands_of_events_of_one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(seed=7, start=START) as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x")
        for _ in range(400):
            sandbox.wallet("w").pay(charge, outcome="fail", delay="1m")
        sandbox.advance("5m")
        monkeypatch.setattr(drawn, "_MAX_EVENTS", 10_000)
        whole = charge_events(sandbox.world, charge.id)
        monkeypatch.undo()
        monkeypatch.setattr("leyden.lab.drawings.events.event_order._SORTED_AT_ONCE", 50)
        part = charge_events(sandbox.world, charge.id)
    assert len(whole.events) > 800
    assert part.events == whole.events[:40] + whole.events[-24:]
    assert part.omitted == len(whole.events) - 64
