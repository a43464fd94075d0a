"""What a fault says about itself: `hits`, `used` and `note`, for every kind and while it holds attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.faults.kinds import CARRYING_KINDS, HOLDING_KINDS, FaultRow, fault_resource
from leyden.callbacks.replies import Reply

BLOCKED, SHOP = "http://127.0.0.1:9/paid", "http://shop.localhost/paid"
COPYING = [kind for kind in CARRYING_KINDS if kind != "drop"]


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox(seed=7, start="2030-01-01T00:00:00Z")


def pay(sandbox: Sandbox, url: str = SHOP) -> str:
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url)
    sandbox.wallet("ana").pay(charge)
    return str(charge.id)


def shown(sandbox: Sandbox) -> tuple[int, int, str]:
    [fault] = sandbox.ask("GET", "/sandbox/v1/faults")["data"]
    assert [fault] == list(sandbox.faults)
    assert len(sandbox.faults.hits) == fault["hits"]
    return fault["hits"], fault["used"], fault["note"]


def is_repeated(sandbox: Sandbox) -> bool:
    """Whether the script of a sandbox repeats it."""
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    return bool(names["sb"].journal_hash == sandbox.journal_hash)


@pytest.mark.parametrize("kind", HOLDING_KINDS)
def test_a_held_message_that_was_never_sent_is_no_hit(sandbox: Sandbox, kind: str) -> None:
    sandbox.faults.add(kind, count=2)
    for _ in range(2):
        pay(sandbox, BLOCKED)
    if kind == "reorder":
        sandbox.run("1s")
        pay(sandbox, SHOP)
    sandbox.run()
    hits, used, note = shown(sandbox)
    assert (hits, used) == (0, 2)
    assert "a message that it held was never sent 2 times" in note
    unmet = sandbox.world.journal.entries(kind="fault_without_effect")
    assert len(unmet) == 2
    assert is_repeated(sandbox)


@pytest.mark.parametrize("kind", COPYING)
@pytest.mark.parametrize("error", ["blocked", "refused", "unresolved", "tls"])
def test_a_message_that_was_never_sent_has_no_copy_and_is_no_hit(kind: str, error: str) -> None:
    sandbox = Sandbox(seed=7, start="2030-01-01T00:00:00Z", egress="recorded")
    sandbox.faults.add(kind, delay=None if kind == "simultaneous" else "1m")
    pay(sandbox, BLOCKED)
    sandbox.run("0s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    assert shown(sandbox) == (1, 1, "")
    sandbox.session.respond(delivery["id"], 1, error=error)
    if kind == "simultaneous":  # its copy has started with the message, and may be sent
        assert shown(sandbox) == (1, 1, "")
        sandbox.session.respond(delivery["id"], 1, error=error, copy=[next(iter(sandbox.faults))["id"], 1])
    assert shown(sandbox) == (0, 0, "")
    [unmet] = sandbox.world.journal.entries(kind="fault_without_effect")
    assert (unmet.facts["fault"], unmet.facts["attempt"]) == (kind, 1)
    sandbox.faults.clear()
    sandbox.advance("1s")
    started = sandbox.world.journal.entries(kind="copy_started")
    sandbox.advance("2m")
    assert len(sandbox.world.journal.entries(kind="copy_started")) == len(started) == (kind == "simultaneous")


@pytest.mark.parametrize("kind", COPYING)
def test_a_copy_that_was_never_sent_is_no_hit(sandbox: Sandbox, kind: str) -> None:
    sandbox.faults.add(kind)
    sandbox.receiver("shop").answers([200, "refused"])
    pay(sandbox)
    sandbox.run()
    assert shown(sandbox) == (0, 1, "a copy was never sent")
    [unmet] = sandbox.world.journal.entries(kind="fault_without_effect")
    assert unmet.facts["fault"] == kind
    assert is_repeated(sandbox)
    [copy] = Sandbox.from_snapshot(sandbox.snapshot()).faults
    assert (copy["hits"], copy["note"]) == (0, "a copy was never sent")


def test_a_dropped_message_is_a_hit_wherever_it_would_go(sandbox: Sandbox) -> None:
    sandbox.faults.add("drop")
    pay(sandbox, BLOCKED)
    sandbox.run("10s")
    assert shown(sandbox) == (1, 1, "")


@pytest.mark.parametrize("kind", HOLDING_KINDS)
@pytest.mark.parametrize("messages", [1, 2, 3])
def test_while_a_fault_holds_attempts_its_note_says_how_many(sandbox: Sandbox, kind: str, messages: int) -> None:
    fault = sandbox.faults.add(kind, count=4, delay="1h")
    for _ in range(messages):
        pay(sandbox)
    sandbox.run("1s")
    _, used, note = shown(sandbox)
    words = "1 attempt" if messages == 1 else f"{messages} attempts"
    assert used == messages
    assert note.startswith(f"it holds {words}")
    assert ("so far nothing" in note) == (kind == "reorder" or (kind == "burst" and messages == 1))
    with Sandbox.from_snapshot(sandbox.snapshot()) as copy:
        assert shown(copy)[2] == note
        copy.run()
        assert "it holds" not in shown(copy)[2]
    assert sandbox.ask("DELETE", f"/sandbox/v1/faults/{fault['id']}")["held"] == messages


def test_an_overtaken_attempt_is_held_until_the_end_of_the_one_that_overtakes_it(sandbox: Sandbox) -> None:
    sandbox.faults.add("reorder", delay="1h")
    pay(sandbox)
    sandbox.run("1s")
    assert shown(sandbox)[2] == "it holds 1 attempt, and so far nothing has overtaken it"
    pay(sandbox)
    sandbox.run("1s")
    assert shown(sandbox) == (1, 1, "")


def test_a_row_of_an_earlier_version_is_shown_as_before() -> None:
    row: FaultRow = {
        "id": "a", "kind": "reorder", "operation": None, "event": None, "charge": None, "attempt": None, "count": None,
        "delay_ms": 1_000, "headers": None, "value": None, "hits": 2, "created_at": 0, "idle": 2, "holding": 1,
    }  # fmt: skip
    assert fault_resource(row)["note"] == (
        "it held 2 attempts, and nothing has overtaken 1 of them; it holds 1 attempt, and so far nothing has overtaken"
        " it"
    )


@pytest.mark.parametrize("kind", [*COPYING, "bad_signature", "delay", "burst"])
def test_a_copy_of_the_sandbox_that_is_made_in_flight_counts_as_the_original(
    sandbox: Sandbox, kind: str, tmp_path: Path
) -> None:
    sandbox.faults.add(kind, count=2)
    sandbox.receiver("shop").answers([Reply(error="refused", delay="5s")] * 4)
    for _ in range(2):
        pay(sandbox)
    while len(sandbox.world.journal.entries(kind="callback_started")) < 2:
        sandbox.run("next_event")
    with sandbox.fork() as fork, Sandbox.load(sandbox.save(tmp_path / "saved.json")) as loaded:
        for one in (sandbox, fork, loaded):
            one.advance("6s")  # the next attempt is later
        assert list(sandbox.faults) == list(fork.faults) == list(loaded.faults)
        assert next(iter(sandbox.faults))["hits"] == 0
        assert sandbox.journal_hash == fork.journal_hash == loaded.journal_hash


def test_messages_without_an_id_repeat_no_other_and_copies_are_those_of_faults() -> None:
    with Sandbox(seed=1) as sandbox:
        sandbox.faults.add("missing_headers", count=3)
        for number in range(3):
            charge = sandbox.charges.create(
                amount=f"{number + 1}000", description="x", callbackUrl="http://s.localhost/"
            )
            sandbox.wallet("a").pay(charge)
        sandbox.run()
        posts = sandbox.ask("GET", "/sandbox/v1/inboxes/s")["posts"]
        assert [(one["copy"], "webhook-id" in one["headers"]) for one in posts] == [(False, False)] * 3
        for one in sandbox.receiver("s").inbox:
            assert not one.repeated
            assert not any("the same webhook-id" in text for text in one.verdict)


@pytest.mark.parametrize("kind", HOLDING_KINDS)
def test_a_message_is_held_no_more_when_its_delivery_is_stopped(kind: str, tmp_path: Path) -> None:
    """A 410 stops the deliveries of its Static Charge that are pending."""

    def used(data: Path | None = None) -> Sandbox:
        sandbox = Sandbox(seed=1, start="2030-01-01T00:00:00Z", data=data)
        sandbox.receiver("shop").answers([410, *[200] * 9])
        tips = sandbox.static_charges.create(
            minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=9, callbackUrl=SHOP
        )
        sandbox.faults.add(kind, count=2 if kind == "burst" else 1, delay="1h")
        for amount in (2000, 3000, 4000):
            sandbox.wallet("ana").scan(tips, amount=amount)
        sandbox.advance("10s")
        return sandbox

    sandbox = used()
    assert {row["status"] for row in sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]} == {"stopped"}
    hits, used_up, note = shown(sandbox)
    assert (hits, used_up) == (0, 2 if kind == "burst" else 1)
    assert "a message that it held was never sent" in note
    assert "it holds" not in note
    assert len(sandbox.world.journal.entries(kind="fault_without_effect")) == used_up
    assert is_repeated(sandbox)
    assert Sandbox.from_snapshot(sandbox.snapshot()).journal_hash == sandbox.journal_hash
    used(tmp_path / "kept").close()
    with Sandbox(data=tmp_path / "kept") as kept:
        assert kept.ask("GET", "/sandbox/v1")["notes"] == []
        assert shown(kept)[1:] == (used_up, note)
