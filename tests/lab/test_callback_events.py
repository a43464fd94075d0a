"""What a timeline says about callbacks agrees with the attempts and with the event journal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.errors import ApiError, UnknownAttempt
from leyden.lab.drawings import charge_events as drawn
from leyden.server.callbacks.egress import NO_CONNECTION, NO_LOOKUP, NOTHING_WRITTEN
from leyden.server.timestamps import parse_iso
from leyden.world.event_journal import Entry
from tests.support.deep import deep_or

START = "2030-01-01T09:00:00Z"
NETWORK, BUILT_IN = "http://127.0.0.1:3000/paid", "http://shop.localhost/paid"
NEVER_SENT = ("blocked", "refused", "unresolved", "tls")
HEARD = ("reset", "protocol")
NO_ANSWER = f"{NO_LOOKUP[0]}127.0.0.1 had no answer within 5000 ms"
UNSENT_NOTES = (NO_ANSWER, *(f"{begins} within 3000 ms" for begins in NO_CONNECTION))
RESULTS: Sequence[dict[str, Any]] = (
    *({"status": status} for status in (200, 200, 204, 302, 410, 429, 500, 503)),
    *({"error": error} for error in (*NEVER_SENT, *HEARD, "timeout")),
    *({"error": "timeout", "note": note} for note in UNSENT_NOTES),
    {"error": "reset", "note": f"{NOTHING_WRITTEN}, and nothing was sent"},
)
ANSWERS = (200, 200, 410, 429, 500, "timeout", *NEVER_SENT[1:], *HEARD, Reply(200, delay="2s"), Reply(410, delay="5s"))
LATE = (Reply(error="refused", delay="2s"), Reply(error="tls", delay="1s"))
COPYING = ("duplicate", "duplicate_new_id", "redeliver", "simultaneous")
FAULTS = ("drop", "delay", "reorder", "burst", "bad_signature", *COPYING)
COPIES = frozenset({"copy_started", "copy_answered", "copy_failed", "copy_not_sent"})


class Run:
    """A sandbox in which random things happen. Its responses from the network come in their instant, as on a paused
    clock, or later, as on a clock that runs."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.entries: list[Entry] = []  # of the former processes
        self.sandbox = Sandbox(seed=7, start=START, egress="recorded", data=folder)
        shop = self.sandbox.receiver("shop")
        shop.answers([self.random.choice((*ANSWERS, *LATE)) for _ in range(30)])
        static = self.sandbox.static_charges.create(
            minAmount="1000", maxAmount="1000", description="seat", callbackUrl=self.random.choice((NETWORK, BUILT_IN))
        )
        self.static = static.id

    def journal(self) -> list[Entry]:
        return [*self.entries, *self.sandbox.world.journal.entries()]

    def deliveries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.sandbox.ask("GET", "/sandbox/v1/deliveries?bodies=true&limit=1000")["data"]
        return found

    def act(self) -> None:
        match self.random.choice(
            ("pay", "pay", "pay static", "fault", "fault", "advance", "advance", "replay", "stop")
        ):
            case "pay":
                url = self.random.choice((NETWORK, BUILT_IN))
                charge = self.sandbox.charges.create(amount="1000", description="x", callbackUrl=url)
                self.sandbox.wallet("ana").pay(charge)
            case "pay static":
                self.sandbox.wallet("bob").scan(self.sandbox.static_charges[self.static], amount=1_000)
            case "fault":
                kind = self.random.choice(FAULTS)
                more = (
                    {}
                    if kind in ("drop", "simultaneous", "bad_signature")
                    else {"delay": self.random.choice(("1s", "1m"))}
                )
                self.sandbox.faults.add(kind, count=2 if kind == "burst" else self.random.choice((1, 2)), **more)
            case "replay":
                if chosen := self.deliveries():
                    delay = self.random.choice((None, None, "30s"))
                    with suppress(ApiError):
                        self.sandbox.replay_delivery(self.random.choice(chosen)["id"], delay=delay)
            case "stop":
                self.entries += self.sandbox.world.journal.entries()
                self.sandbox.close()
                self.sandbox = Sandbox(data=self.folder, egress="recorded")
        self.sandbox.advance(self.random.choice(("0s", "0s", "7ms", "1s", "20s", "2m")))
        if self.random.random() < 0.8:
            self.respond()

    def respond(self) -> None:
        """Give responses to what is in flight on the network."""
        for delivery in self.deliveries():
            for attempt in delivery["attempts"]:
                if delivery["url"] == NETWORK and attempt["answeredAt"] is None and self.random.random() < 0.8:
                    self._respond(delivery["id"], attempt["number"], None)
        for fault in {entry.subject for entry in self.journal() if entry.kind == "copy_started"}:
            for delivery in self.deliveries():
                for attempt in delivery["attempts"]:
                    for hit in (1, 2):
                        self._respond(delivery["id"], attempt["number"], [fault, hit])

    def _respond(self, delivery: str, number: int, copy: list[Any] | None) -> None:
        with suppress(UnknownAttempt):
            result = self.random.choice(RESULTS)
            self.sandbox.session.respond(delivery, number, latency_ms=self.random.choice((0, 20)), copy=copy, **result)


def is_never_sent(attempt: Mapping[str, Any]) -> bool:
    notes = attempt["note"].split("; ")  # the first one may be that of a fault
    return attempt["error"] in NEVER_SENT or any(note.startswith((*UNSENT_NOTES, NOTHING_WRITTEN)) for note in notes)


def _attempt_rows(run: Run, delivery: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The rows of the attempts: the instant, the lane from which they come, and the text with what came back."""
    rows = []
    for attempt in delivery["attempts"]:
        name, at, ended = f"callback {attempt['number']}", attempt["at"], attempt["answeredAt"]
        result = str(attempt["status"] or attempt["error"])
        is_heard = attempt["status"] is not None or attempt["error"] in HEARD
        is_dropped = run.sandbox.world.faults.hits.is_dropped(delivery["id"], attempt["number"])
        if ended == at:
            rows.append((at, "service", f"{name} -> {result}" if is_heard else f"{name}: {result}"))
            continue
        is_sent = ended is not None and attempt["error"] != "lost" and not is_never_sent(attempt)
        is_sent = is_sent or (ended is None and (delivery["id"], attempt["number"]) in _received(run))
        word = "is dropped by a fault" if is_dropped else "sent" if is_sent else "starts"
        rows.append((at, "service", f"{name} {word}"))
        if ended is not None:
            rows.append((ended, "callback" if is_heard else "service", f"{name}: {result}"))
    return rows


def _received(run: Run) -> set[tuple[str, int]]:
    """The attempts that a built-in receiver has got."""
    found = [entry.facts for entry in run.journal() if entry.kind == "callback_received"]
    return {(facts["delivery"], facts["attempt"]) for facts in found if not facts.get("copy")}


def check_scheduled(run: Run) -> None:
    """What is scheduled for a Charge is what the clock has due about it."""
    due = run.sandbox.ask("GET", "/sandbox/v1/clock/due?limit=1000")["data"]
    assert all(event["chargeId"] for event in due)
    for charge in run.sandbox.charges:
        scheduled = drawn.charge_events(run.sandbox.world, charge.id).scheduled
        of_charge = [event for event in due if event["chargeId"] == charge.id]
        assert sorted(event.at for event in scheduled) == sorted(parse_iso(event["at"]) for event in of_charge)


def check(run: Run) -> None:
    journal = run.journal()
    for delivery in run.deliveries():
        events = drawn.charge_events(run.sandbox.world, delivery["chargeId"]).events
        about = [event for event in events if "callback" in (event.source, event.target) or event.noted is not None]
        about = [event for event in about if event.noted is not None and event.noted[1] == delivery["id"]]
        shown = Counter(
            (event.at, event.source, event.text + (f" -> {event.response.split(' ')[0]}" if event.response else ""))
            for event in about
            if event.text.startswith("callback ") and event.text != "callback stopped"
        )
        shown = Counter({(at, source, text.split(" · ")[0]): count for (at, source, text), count in shown.items()})
        expected = Counter((parse_iso(at), lane, text) for at, lane, text in _attempt_rows(run, delivery))
        assert shown == expected

        mine = [entry for entry in journal if delivery["id"] in (entry.subject, entry.facts.get("delivery"))]
        assert [entry.at_ms for entry in mine if entry.kind == "callback_started"] == [
            parse_iso(attempt["at"]) for attempt in delivery["attempts"]
        ]
        ends = Counter(
            (entry.at_ms, str(entry.facts["status"] or entry.facts["error"]))
            for entry in mine
            if entry.kind in ("callback_answered", "callback_failed", "callback_not_sent")
        )
        in_rows = [one for one in delivery["attempts"] if one["answeredAt"] is not None and one["error"] != "lost"]
        assert ends == Counter((parse_iso(one["answeredAt"]), str(one["status"] or one["error"])) for one in in_rows)
        for event in about:
            assert "after" not in event.detail or "lost" not in event.text

        finished = [entry for entry in mine if entry.kind == "callback_finished"]
        gone = {parse_iso(one["answeredAt"]) for one in in_rows if one["status"] == 410}
        stopped = [entry.at_ms for entry in finished if entry.facts["status"] == "stopped" and entry.at_ms not in gone]
        rows = [event for event in about if event.text in ("callback stopped", "no callback")]
        assert [event.at for event in rows] == stopped
        assert {event.detail for event in rows} <= {"another callback to this URL was answered 410"}
        said = {event.at for event in about if "stopped" in event.text + event.detail + event.response}
        assert said <= {entry.at_ms for entry in finished if entry.facts["status"] == "stopped"}

        orders = [entry for entry in mine if entry.kind == "callback_replayed"]
        rows = [event for event in about if event.text in ("replay", "replay is ordered")]
        assert sorted(event.at for event in rows) == [entry.at_ms for entry in orders]
        sent = [one for one in in_rows if not is_never_sent(one)]
        sent += [one for one in delivery["attempts"] if (delivery["id"], one["number"]) in _received(run)]
        for event in rows:
            may_be_before = [
                one for one in delivery["attempts"] if parse_iso(one["at"]) <= event.at and not is_never_sent(one)
            ]
            assert may_be_before or "again" not in event.detail
            later = [one for one in sent if parse_iso(one["at"]) >= event.at]
            assert later or not event.detail.startswith("the message is sent")

        copies = [entry for entry in mine if entry.kind in COPIES]
        ends_of_copies = [entry for entry in copies if entry.kind != "copy_started"]
        shown_copies = [event for event in about if event.text.startswith("copy")]
        assert sorted(event.at for event in shown_copies) == sorted(entry.at_ms for entry in copies)
        unsent = [one for one in ends_of_copies if is_never_sent(one.facts)]
        unmet = [place for place, event in enumerate(events) if "had no effect on" in event.detail]
        for place, event in enumerate(events):
            if event.text == "copy is due" and event in shown_copies:
                of_attempt = [one for one in unmet if events[one].rank[:3] == event.rank[:3]]
                assert all(place < one for one in of_attempt if events[one].at == event.at)
        counted = Counter(event.text.split(":")[0] for event in shown_copies)
        assert counted["copy sent"] == len(ends_of_copies) - len(unsent)
        assert counted["copy"] == len(ends_of_copies)
        for event in shown_copies:
            heard = any(event.text == f"copy: {one.facts['status'] or one.facts['error']}" for one in ends_of_copies)
            assert heard or not event.text.startswith("copy:")
            if event.text.startswith("copy: "):
                assert (event.source == "callback") == (event.text[6:].isdigit() or event.text[6:] in HEARD)


@pytest.mark.parametrize("seed", range(deep_or(bounded=4, full=40)))
def test_the_events_of_callbacks_agree_with_the_attempts_and_the_journal(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn, "_MAX_EVENTS", 10_000)
    run = Run(tmp_path, seed)
    for _ in range(25):
        run.act()
        check(run)
        check_scheduled(run)
    run.sandbox.close()


def test_a_delivery_that_was_held_when_another_one_stopped_it_is_read_again(tmp_path: Path) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        sandbox.receiver("shop").answers([410])
        static = sandbox.static_charges.create(
            minAmount="1000", maxAmount="1000", description="seat", callbackUrl=BUILT_IN
        )
        sandbox.faults.add("delay", delay="1m", count=1)
        for payer in ("ana", "bob"):
            sandbox.wallet(payer).scan(static, amount=1_000)
            sandbox.advance("1s")
        held = static.charges[0].id
        [stopped] = [event for event in drawn.charge_events(sandbox.world, held).events if event.text == "no callback"]
        assert (stopped.at, stopped.detail) == (
            parse_iso("2030-01-01T09:00:01.000Z"), "another callback to this URL was answered 410"
        )  # fmt: skip
    with Sandbox(data=tmp_path) as again:
        [delivery] = again.ask("GET", f"/sandbox/v1/deliveries?chargeId={held}")["data"]
        assert delivery["status"] == "stopped"
        again.replay_delivery(delivery["id"])
        again.advance("1s")
        [replay] = [event for event in drawn.charge_events(again.world, held).events if event.text == "replay"]
        assert replay.detail == "the message is sent"


@pytest.mark.parametrize(
    ("replies", "end"),
    [([204], "delivered"), ([410], "stopped"), ([500] * 10, "exhausted after 10 attempts"), (None, "blocked")],
)
def test_the_end_before_a_replay_stays_in_the_timeline(replies: list[int] | None, end: str) -> None:
    with Sandbox() as sandbox:
        sandbox.receiver("shop").answers(replies or [200])
        url = BUILT_IN if replies else NETWORK
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url)
        sandbox.wallet("ana").pay(charge)
        sandbox.run()
        [before] = [line for line in str(charge.timeline()).splitlines() if line.endswith(end) or f"· {end} " in line
                    or f": {end} " in line]  # fmt: skip
        [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
        for _ in range(2):
            sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay", {"delay": "1h"})
            assert before in str(charge.timeline()).splitlines()
        sandbox.run()
        assert before in str(charge.timeline()).splitlines()
        again = sandbox.fork("main")
        assert before in str(again.charges[charge.id].timeline()).splitlines()


def test_a_fault_applies_after_the_replay_that_makes_the_attempt() -> None:
    with Sandbox() as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=BUILT_IN)
        sandbox.wallet("ana").pay(charge)
        sandbox.run("1m")
        sandbox.faults.add("bad_signature")
        sandbox.replay_delivery(sandbox.deliveries.id[0])
        sandbox.run(events=1)
        texts = [event.text for event in drawn.charge_events(sandbox.world, charge.id).events][-3:]
        assert texts == ["replay", "fault: bad_signature", "callback 2"]
