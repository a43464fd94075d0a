"""Injected faults: each one applies where and as often as it was configured, and is recorded in the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from leyden import Sandbox
from leyden.callbacks.faults.kinds import CARRYING_KINDS, CONNECTION_HEADERS, DELAYS, KINDS, RATE_LIMIT, UNUSED
from leyden.callbacks.inboxes import Received
from leyden.callbacks.mutations import CONTENT_KINDS
from leyden.callbacks.replies import Reply
from leyden.errors import ApiError
from leyden.sandbox.resources import Charge
from leyden.server.callbacks.deliveries import HEADER_NAMES
from leyden.server.timestamps import parse_iso, to_iso
from tests.support.lists import listed

START = parse_iso("2030-01-01T09:00:00Z")
HOOK = "http://shop.localhost/hook"
HOUR, DAY = 3_600_000, 86_400_000
SENDING_KINDS = [kind for kind in KINDS if kind != RATE_LIMIT]
FEWEST = {"burst": 2}  # the smallest count of the kinds that need more than one message


def expiring(sandbox: Sandbox, after_s: int = 60, **fields: Any) -> Charge:
    given_ = {"amount": "21000", "description": "tea", "callbackUrl": HOOK, "expiresIn": after_s, **fields}
    charge: Charge = sandbox.charges.create(**given_)
    return charge


def inbox(sandbox: Sandbox) -> list[Received]:
    return list(sandbox.receiver("shop").inbox)


def rotate(sandbox: Sandbox) -> str:
    """Change the webhook secret; returns the new one."""
    with sandbox.world.exclusive():
        return sandbox.world.service.projects.rotate_secret("default")


def secret_of(sandbox: Sandbox) -> str:
    return str(sandbox.world.service.projects.signing_secrets("default", sandbox.world.clock.now())[0])


def verified(got: Received, *secrets: str) -> bool:
    """Whether the public verifier, with its clock at the receiver's, accepts the request with any of these secrets."""
    for secret in secrets:
        with freeze_time(to_iso(got.at)):
            try:
                Webhook(secret).verify(got.body, dict(got.headers))
            except (WebhookVerificationError, ValueError):
                continue
            return True
    return False


# Selection and count


def test_a_fault_can_select_one_attempt_of_one_charge(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([500, 500])
    one, other = expiring(sandbox), expiring(sandbox)
    sandbox.faults.add("bad_signature", charge=one, attempt=2)
    sandbox.run()
    wrong = [(got.json["id"], got.attempt) for got in inbox(sandbox) if got.verdict]
    assert wrong == [(one.id, 2)]
    assert {(got.json["id"], got.attempt) for got in inbox(sandbox)} == {
        (charge.id, attempt) for charge in (one, other) for attempt in (1, 2)
    }


def test_a_fault_applies_only_as_often_as_its_count(sandbox: Sandbox) -> None:
    sandbox.faults.add("wrong_content_type", count=3)
    for _ in range(5):
        expiring(sandbox)
    sandbox.run()
    assert [got.headers["content-type"] for got in inbox(sandbox)] == ["text/plain"] * 3 + ["application/json"] * 2
    [fault] = sandbox.faults
    assert (fault["hits"], fault["count"]) == (3, 3)
    assert [(hit.subject, hit.facts["hit"]) for hit in sandbox.faults.hits] == [(fault["id"], n) for n in (1, 2, 3)]


def test_a_fault_can_select_an_event_an_operation_or_a_static_charge(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="tips", callbackUrl=HOOK)
    paid, left = expiring(sandbox), expiring(sandbox)
    sandbox.faults.add("wrong_content_type", event="charge.expired", count=None, value="a/expired")
    sandbox.faults.add("wrong_content_type", operation="chargePaid", count=None, value="a/tip")
    sandbox.faults.add("wrong_content_type", charge=static, count=None, value="never/reached")
    sandbox.wallet("ana").pay(paid)
    for amount in (1_000, 2_000):
        sandbox.wallet("bob").scan(static, amount=amount)
    sandbox.run()
    content_types = {got.json["id"]: got.headers["content-type"] for got in inbox(sandbox)}
    tips = {charge.id: "a/tip" for charge in static.charges}
    assert content_types == {paid.id: "application/json", left.id: "a/expired", **tips}

    sandbox.faults.clear(next(fault["id"] for fault in sandbox.faults if fault["value"] == "a/tip"))
    sandbox.wallet("bob").scan(static, amount=3_000)
    sandbox.run()
    assert inbox(sandbox)[-1].headers["content-type"] == "never/reached"
    assert sandbox.faults.clear() == 2
    assert len(sandbox.faults) == 0


def test_a_fault_that_could_never_apply_is_refused_and_the_error_names_the_correction(sandbox: Sandbox) -> None:
    for wrong, correction in (
        ({"kind": "explode"}, "truncated_body"),
        ({"kind": "drop", "event": "charge.eaten"}, "charge.completed"),
        ({"kind": "drop", "operation": "createCharge"}, "chargeUpdated"),
        ({"kind": RATE_LIMIT, "operation": "chargeUpdated"}, "createCharge"),
        ({"kind": RATE_LIMIT, "attempt": 2}, "leave out attempt"),
        ({"kind": "drop", "attempt": 0}, "whole number from 1"),
        ({"kind": "drop", "count": True}, "whole number from 1"),
        ({"kind": "drop", "delay": "1s"}, "leave it out"),
        ({"kind": "delay", "delay": "-1s"}, "is out of bounds: give 1 ms to 366 days"),
        ({"kind": "delay", "delay": ["1s"]}, "number of seconds"),
        ({"kind": "drop", "headers": ["webhook-id"]}, "missing_headers"),
        ({"kind": "missing_headers", "headers": []}, "list of names"),
        ({"kind": "drop", "value": "x"}, "leave it"),
        ({"kind": "unknown_field", "value": "amount"}, "a message may have the field 'amount': choose a name"),
        ({"kind": "drop", "operation": "chargePaid", "event": "charge.expired"}, "choose one of charge.completed"),
        ({"kind": "unknown_field", "value": "a\nb"}, "printable"),
        ({"kind": "missing_headers", "headers": ["Webhok-Signature"]}, "did you mean 'webhook-signature'"),
        ({"kind": "missing_headers", "headers": ["webhook-id", "x"]}, "no header 'x': choose from content-type, "),
        ({"kind": "missing_headers", "headers": ["Host"]}, "the connection adds the header host"),
        ({"kind": "missing_headers", "headers": ["content-length"]}, "the connection adds the header content-length"),
        ({"kind": "unknown_status", "value": "completed"}, "none of completed, expired, error"),
        ({"kind": "wrong_content_type", "value": "application/json"}, "give another one, such as text/plain"),
        ({"kind": "wrong_content_type", "value": "Application/JSON; charset=utf-8"}, "give another one"),
        ({"kind": "old_secret"}, "rotate the webhook secret first"),
        (
            {"kind": "stale_timestamp", "delay": "0.9s"},
            "is too short for (stale|future)_timestamp: give 1 s to",
        ),
        ({"kind": "future_timestamp", "delay": 0}, "is too short for (stale|future)_timestamp: give 1 s to"),
        ({"kind": "delay", "delay": 0}, "delay=0 is too short for delay: give 1 ms to 366 days"),
        ({"kind": "reorder", "delay": 0}, "is too short for"),
        ({"kind": "burst", "delay": 0, "count": 2}, "is too short for"),
        ({"kind": "burst"}, "give a count of 2 or more"),
        ({"kind": "burst", "count": 1, "attempt": 1}, "give a count of 2 or more"),
    ):
        with pytest.raises(ValueError, match=correction):
            sandbox.faults.add(**wrong)
    silent = sandbox.charges.create(amount="1000", description="Tea")
    with pytest.raises(ValueError, match="this Charge has no callbackUrl"):
        sandbox.faults.add("drop", charge=silent)
    assert len(sandbox.faults) == 0


# Faults of transport


def test_a_dropped_attempt_ends_in_a_timeout_and_is_retried_on_schedule(sandbox: Sandbox) -> None:
    charge = expiring(sandbox)
    sandbox.faults.add("drop", charge=charge, count=2)
    sandbox.run()
    [got] = inbox(sandbox)
    assert (got.attempt, got.verdict) == (3, [])
    [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    assert [(attempt["status"], attempt["error"]) for attempt in delivery["attempts"]] == [
        (None, "timeout"),
        (None, "timeout"),
        (200, None),
    ]
    assert [attempt["latencyMs"] for attempt in delivery["attempts"]] == [15_000, 15_000, 0]


def test_a_delivery_whose_attempts_are_all_dropped_is_exhausted(sandbox: Sandbox) -> None:
    expiring(sandbox)
    sandbox.faults.add("drop", count=None)
    sandbox.run()
    assert [delivery["status"] for delivery in listed(sandbox.ask, "/sandbox/v1/deliveries")] == ["exhausted"]
    assert inbox(sandbox) == []


@pytest.mark.parametrize(("delay", "later"), [(None, HOUR), ("90s", 90_000), (0.001, 1)])
def test_a_delayed_callback_is_sent_later_with_a_new_signature(sandbox: Sandbox, delay: Any, later: int) -> None:
    expiring(sandbox)
    sandbox.faults.add("delay", delay=delay)
    sandbox.run()
    [got] = inbox(sandbox)
    assert (got.at, got.attempt, got.verdict) == (START + 60_000 + later, 1, [])


def test_a_duplicate_has_the_same_bytes(sandbox: Sandbox) -> None:
    expiring(sandbox)
    sandbox.faults.add("duplicate")
    sandbox.run()
    first, second = inbox(sandbox)
    assert (second.headers, second.body, second.repeated) == (first.headers, first.body, True)
    assert second.at - first.at == 1_000
    assert second.verdict == ["the same webhook-id came again after it was acknowledged"]
    assert len(listed(sandbox.ask, "/sandbox/v1/deliveries")[0]["attempts"]) == 1, "a copy is not an attempt"
    for kind in ("copy_started", "copy_answered"):
        [entry] = sandbox.world.journal.entries(kind=kind)
        assert entry.facts["delivery"] == first.webhook_id


def test_the_journal_tells_what_was_sent_from_what_was_not(sandbox: Sandbox) -> None:
    def kinds(charge_url: str, fault: str) -> list[str]:
        before = len(sandbox.world.journal)
        sandbox.faults.add(fault)
        sandbox.charges.create(amount="1000", description="tea", callbackUrl=charge_url, expiresIn=60)
        sandbox.run("2m")
        entries = sandbox.world.journal.entries(after=before)
        return [entry.kind for entry in entries if entry.kind.startswith(("callback_", "copy_"))]

    shop, blocked = "http://shop.localhost/paid", "http://127.0.0.1:9/paid"
    dropped = kinds(shop, "drop")
    assert dropped[:2] == ["callback_started", "callback_not_sent"]
    assert dropped[2:] == ["callback_started", "callback_received", "callback_answered", "callback_finished"]
    assert kinds(shop, "duplicate") == [
        "callback_started",
        "callback_received",
        "callback_answered",
        "callback_finished",
        "copy_started",
        "callback_received",
        "copy_answered",
    ]
    nothing = kinds(blocked, "duplicate")
    assert nothing == ["callback_started", "callback_not_sent", "callback_finished"]
    attempts = [attempt for row in listed(sandbox.ask, "/sandbox/v1/deliveries")[::-1] for attempt in row["attempts"]]
    assert [(attempt["error"], attempt["sent"]) for attempt in attempts] == [
        ("timeout", []),
        (None, None),
        (None, None),
        ("blocked", None),
    ]
    sandbox.receiver("shop").answers(["refused", 200])
    assert "callback_failed" in kinds(shop, "duplicate")


def test_a_duplicate_with_a_new_id_has_a_valid_signature_for_that_id(sandbox: Sandbox) -> None:
    expiring(sandbox)
    sandbox.faults.add("duplicate_new_id")
    sandbox.run()
    first, second = inbox(sandbox)
    assert second.body == first.body
    assert second.webhook_id != first.webhook_id
    assert not second.repeated
    assert second.verdict == []
    assert verified(second, secret_of(sandbox))


def test_simultaneous_requests_arrive_at_the_same_time(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").always(Reply(delay="2s"))
    expiring(sandbox)
    sandbox.faults.add("simultaneous")
    sandbox.run()
    first, second = inbox(sandbox)
    assert (first.at, first.headers, first.body) == (second.at, second.headers, second.body)
    assert second.verdict == [], "the first was not acknowledged when the second came"
    assert listed(sandbox.ask, "/sandbox/v1/deliveries")[0]["status"] == "delivered"


def test_a_redelivery_arrives_one_day_later_with_a_new_signature(sandbox: Sandbox) -> None:
    expiring(sandbox)
    sandbox.faults.add("redeliver")
    sandbox.run()
    first, second = inbox(sandbox)
    assert second.at - first.at == DAY
    assert (second.webhook_id, second.body) == (first.webhook_id, first.body)
    assert second.verdict == ["the same webhook-id came again after it was acknowledged"]
    assert verified(second, secret_of(sandbox))


@pytest.mark.parametrize("kind", ["redeliver", "duplicate_new_id"])
def test_a_copy_that_is_signed_again_says_when_it_was_sent(sandbox: Sandbox, kind: str) -> None:
    expiring(sandbox)
    sandbox.faults.add(kind)
    sandbox.run()
    first, second = inbox(sandbox)
    assert second.at > first.at
    for got in (first, second):
        assert got.headers["leyden-time"] == to_iso(got.at)
        assert got.headers["webhook-timestamp"] == str(got.at // 1_000)


def test_a_reordered_callback_is_sent_after_the_next_callback(sandbox: Sandbox) -> None:
    one, two, three = (expiring(sandbox, after_s) for after_s in (60, 61, 62))
    sandbox.faults.add("reorder", charge=one)
    sandbox.run()
    assert [got.json["id"] for got in inbox(sandbox)] == [two.id, one.id, three.id]
    assert all(got.verdict == [] for got in inbox(sandbox))


def test_a_reordered_callback_without_a_successor_is_sent_after_its_delay(sandbox: Sandbox) -> None:
    expiring(sandbox)
    sandbox.faults.add("reorder", delay="10m")
    sandbox.run()
    assert [got.at for got in inbox(sandbox)] == [START + 660_000]


@pytest.mark.parametrize(("kind", "count"), [("reorder", 1), ("burst", 2), ("burst", None)])
def test_only_a_held_callback_that_another_one_met_counts_as_a_hit(
    sandbox: Sandbox, kind: str, count: int | None
) -> None:
    without = "has overtaken" if kind == "reorder" else "was sent together with"
    sandbox.faults.add(kind, count=count, delay="10s")
    expiring(sandbox, 60)
    for elapsed in ("61s", "1h"):  # it is held; it was sent
        sandbox.advance(elapsed)
        [fault] = sandbox.faults
        assert (fault["hits"], fault["used"]) == (0, 1)
        assert fault["note"].startswith("it holds 1 attempt" if elapsed == "61s" else "it held 1 attempt")
        note = fault["note"].removesuffix(f"; {UNUSED}")
        assert note.endswith(f"and {'so far ' if elapsed == '61s' else ''}nothing {without} it")
        assert (note != fault["note"]) == (elapsed == "1h" and (kind, count) == ("burst", 2))
        assert fault["note"] in repr(sandbox.faults)
    sandbox.faults.clear()
    sandbox.faults.add(kind, count=count, delay="10s")
    for seconds in (60, 61):
        expiring(sandbox, seconds)
    sandbox.run()
    [fault] = sandbox.faults
    assert (fault["hits"], fault["used"], fault["note"]) == (count or 2, count or 2, "")
    if count is None:  # its time is over
        expiring(sandbox)
        sandbox.run()
        [fault] = sandbox.ask("GET", "/sandbox/v1/faults")["data"]
        assert (fault["hits"], fault["used"]) == (2, 3)
        assert fault["note"] == "it held 3 attempts, and nothing was sent together with 1 of them"


@pytest.mark.parametrize("other", ["drop", "simultaneous", "duplicate", "bad_signature", "redeliver"])
@pytest.mark.parametrize("kind", ["reorder", "burst"])
def test_a_hold_without_effect_is_told_beside_another_fault(sandbox: Sandbox, kind: str, other: str) -> None:
    sandbox.faults.add(kind, delay="10s", count=2)
    sandbox.faults.add(other, count=1)
    expiring(sandbox)
    sandbox.run()
    [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    attempt = delivery["attempts"][0]
    assert (attempt["fault"], attempt["note"].partition(":")[0]) == (other, f"held by the fault {kind}")
    assert ("dropped by the fault drop" in attempt["note"]) == (other == "drop")


@pytest.mark.parametrize(("kind", "count"), [("reorder", 2), ("burst", 3), ("burst", None)])
def test_a_hold_without_effect_is_told_as_such_everywhere(sandbox: Sandbox, kind: str, count: int | None) -> None:
    sandbox.faults.add(kind, count=count, delay="10s")
    charges = [expiring(sandbox, seconds) for seconds in (60, 600)]
    sandbox.run()
    [fault] = sandbox.faults
    assert (fault["hits"], fault["used"]) == (0, 2)
    assert sandbox.faults.hits == []
    kinds = [entry.kind for entry in sandbox.world.journal.entries() if entry.kind.startswith("fault_")]
    assert kinds == ["fault_added", *["fault_held", "fault_without_effect"] * 2]
    without = "has overtaken" if kind == "reorder" else "was sent together with"
    for delivery in listed(sandbox.ask, "/sandbox/v1/deliveries"):
        [attempt] = delivery["attempts"]
        assert (attempt["fault"], attempt["note"]) == (kind, f"held by the fault {kind}: nothing {without} it")
    for charge in charges:
        shown = charge.timeline().text
        assert f"fault: {kind}  holds callback 1" in shown
        assert f"fault: {kind}  had no effect but the delay on callback 1" in shown
        assert "applies to" not in shown


@pytest.mark.parametrize("kind", ["reorder", "burst"])
def test_a_hold_that_another_callback_meets_is_a_hit_everywhere(sandbox: Sandbox, kind: str) -> None:
    sandbox.faults.add(kind, count=FEWEST.get(kind, 1))
    charges = [expiring(sandbox, seconds) for seconds in (60, 61)]
    sandbox.run()
    [fault] = sandbox.faults
    assert [entry.facts["hit"] for entry in sandbox.faults.hits] == [*range(1, fault["hits"] + 1)]
    assert fault["hits"] == fault["used"] == FEWEST.get(kind, 1)
    shown = [charge.timeline().text for charge in charges]
    assert sum("applies to callback 1" in text for text in shown) == fault["hits"]
    assert not any("no effect" in text for text in shown)
    for delivery in listed(sandbox.ask, "/sandbox/v1/deliveries"):
        assert [attempt["note"] for attempt in delivery["attempts"]] == [""]


def test_a_dropped_callback_does_not_release_a_reordered_one(sandbox: Sandbox) -> None:
    one, two = expiring(sandbox, 60), expiring(sandbox, 61)
    sandbox.faults.add("reorder", charge=one)
    sandbox.faults.add("drop", charge=two)
    sandbox.run()
    assert [(got.json["id"], got.attempt) for got in inbox(sandbox)] == [(two.id, 2), (one.id, 1)]


@pytest.mark.parametrize(
    ("answer", "ended_s"),
    [(200, 0), (500, 0), (410, 0), (Reply(delay="2s"), 2), ("timeout", 15), ("refused", 0), ("reset", 0)],
)
def test_a_reordered_callback_is_sent_when_another_attempt_has_ended_however_it_ends(
    sandbox: Sandbox, answer: Any, ended_s: int
) -> None:
    one, two = expiring(sandbox, 60), expiring(sandbox, 61)
    sandbox.receiver("shop").when(answer, charge=two.id)
    sandbox.faults.add("reorder", charge=one)
    sandbox.run()
    [held] = [got for got in inbox(sandbox) if got.json["id"] == one.id]
    assert (held.at - START, held.verdict) == ((61 + ended_s) * 1_000, [])


def test_an_attempt_from_before_does_not_release_a_reordered_callback(sandbox: Sandbox) -> None:
    """Its answer comes while the other one is held back, and proves no other order."""
    earlier, held, later = (expiring(sandbox, after_s) for after_s in (60, 61, 70))
    sandbox.receiver("shop").when(Reply(delay="5s"), charge=earlier.id)
    sandbox.faults.add("reorder", charge=held)
    sandbox.run()
    assert [(got.json["id"], got.at - START) for got in inbox(sandbox)] == [
        (earlier.id, 60_000),
        (later.id, 70_000),
        (held.id, 70_000),
    ]


def test_of_several_reordered_callbacks_each_is_overtaken(sandbox: Sandbox) -> None:
    one, two, three = (expiring(sandbox, after_s) for after_s in (60, 61, 62))
    sandbox.receiver("shop").when(Reply(delay="3s"), charge=three.id)
    sandbox.faults.add("reorder", charge=one)
    sandbox.faults.add("reorder", charge=two)
    sandbox.run()
    assert [(got.json["id"], got.at - START) for got in inbox(sandbox)] == [
        (three.id, 62_000),
        (one.id, 65_000),
        (two.id, 65_000),
    ]


def test_a_replay_releases_a_reordered_callback_and_its_own_replay_sends_it(sandbox: Sandbox) -> None:
    delivered, one, two = expiring(sandbox, 60), expiring(sandbox, 61), expiring(sandbox, 62)
    sandbox.receiver("shop").when(Reply(delay="2s"), charge=delivered.id, count=None)
    sandbox.faults.add("reorder", charge=one)
    sandbox.faults.add("reorder", charge=two, delay="2h")
    sandbox.advance("61s")
    ids = {row["chargeId"]: row["id"] for row in listed(sandbox.ask, "/sandbox/v1/deliveries")}
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{ids[one.id]}/replay")
    sandbox.advance("0s")
    assert [got.json["id"] for got in inbox(sandbox)] == [delivered.id, one.id]
    sandbox.advance("10s")
    assert len(inbox(sandbox)) == 2
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{ids[delivered.id]}/replay")
    sandbox.advance("1s")
    assert len(inbox(sandbox)) == 3
    sandbox.advance("1s")
    assert [got.json["id"] for got in inbox(sandbox)][2:] == [delivered.id, two.id]


@pytest.mark.parametrize(("count", "together_at"), [(None, 120_000), (5, 64_000), (6, 120_000)])
def test_all_callbacks_of_a_burst_arrive_at_the_same_time(
    sandbox: Sandbox, count: int | None, together_at: int
) -> None:
    charges = [expiring(sandbox, 60 + index) for index in range(5)]
    sandbox.faults.add("burst", count=count)
    sandbox.run()
    assert {got.at for got in inbox(sandbox)} == {START + together_at}
    assert [got.json["id"] for got in inbox(sandbox)] == [charge.id for charge in charges]
    assert all((got.attempt, got.verdict) == (1, []) for got in inbox(sandbox))


# Faults of content


def bad(sandbox: Sandbox, kind: str, **options: Any) -> Received:
    """The first request for a charge that expires while this fault is active; the journal has the bytes sent."""
    if kind == "old_secret":
        rotate(sandbox)
        sandbox.advance("24h")  # until then the old secret signs validly
    expiring(sandbox)
    sandbox.faults.add(kind, **options)
    sandbox.run()
    got = inbox(sandbox)[0]
    [hit] = sandbox.faults.hits
    assert hit.facts["sent"] == [{"headers": dict(got.headers), "body": got.body}]
    return got


@pytest.mark.parametrize(
    ("kind", "complaint", "genuine"),
    [
        ("truncated_body", "no signature matches", False),
        ("wrong_content_type", "content-type", True),
        ("unknown_field", "surprise", True),
        ("unknown_status", "refunded", True),
        ("bad_signature", "no signature matches", False),
        ("changed_body", "no signature matches", False),
        ("missing_headers", "header missing: webhook-id", False),
        ("stale_timestamp", "600 s old", False),
        ("future_timestamp", "600 s in the future", False),
        ("old_secret", "no signature matches", False),
        ("two_signatures", "", True),
        ("unknown_version", "no signature matches", False),
    ],
)
def test_each_content_fault_causes_exactly_its_own_violation(
    sandbox: Sandbox, kind: str, complaint: str, genuine: bool
) -> None:
    got = bad(sandbox, kind)
    assert bool(got.verdict) == bool(complaint)
    assert complaint in (got.verdict or [""])[0]
    assert verified(got, secret_of(sandbox)) is genuine
    assert len(inbox(sandbox)) == 1


def test_every_content_fault_is_in_the_table_above() -> None:
    [mark] = test_each_content_fault_causes_exactly_its_own_violation.pytestmark
    assert [case[0] for case in mark.args[1]] == list(CONTENT_KINDS)


def test_missing_headers_can_be_chosen_by_name(sandbox: Sandbox) -> None:
    assert "webhook-id" in bad(sandbox, "missing_headers", headers=["Webhook-Signature"]).headers


@pytest.mark.parametrize(("by", "fine"), [("5m", True), ("301s", False)])
def test_the_age_of_a_stale_timestamp_can_be_set(sandbox: Sandbox, by: str, fine: bool) -> None:
    assert (bad(sandbox, "stale_timestamp", delay=by).verdict == []) is fine


def test_the_old_secret_alone_is_invalid_after_the_rotation(sandbox: Sandbox) -> None:
    old = secret_of(sandbox)
    new = rotate(sandbox)
    sandbox.faults.add("old_secret", count=None)
    expiring(sandbox)
    sandbox.advance("24h")
    expiring(sandbox, 1)
    sandbox.advance("1s")
    during, after = inbox(sandbox)
    assert verified(during, old)
    assert verified(after, old)
    assert not verified(during, new)
    assert during.verdict == []
    assert after.verdict == ["no signature matches a valid secret"]


def test_the_old_secret_is_another_one_than_the_current_secret(sandbox: Sandbox) -> None:
    projects, first = sandbox.world.service.projects, secret_of(sandbox)
    with sandbox.world.exclusive():
        projects.rotate_secret("default", first)
    with pytest.raises(ValueError, match="rotate the webhook secret first"):
        sandbox.faults.add("old_secret")
    second = rotate(sandbox)
    with sandbox.world.exclusive():
        projects.rotate_secret("default", second)
    sandbox.faults.add("old_secret")
    expiring(sandbox)
    sandbox.run()
    assert verified(inbox(sandbox)[0], first)
    assert not verified(inbox(sandbox)[0], second)


_NAMES = st.one_of(
    st.sampled_from([*HEADER_NAMES, *CONNECTION_HEADERS, "Webhook-Id", "LEYDEN-TIME", "x-nobody"]),
    st.text(max_size=8),
)
_TEXTS = st.one_of(
    st.sampled_from(["completed", "expired", "unpaid", "refunded", "application/json", "application/json;x=y", "a/b"]),
    st.sampled_from(["status", "id", "amount", "type", "data", "surprise"]),
    st.text(max_size=8),
)
_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "headers": st.lists(_NAMES, max_size=3),
        "value": _TEXTS,
        "delay": st.sampled_from([0, 0.5, 1, 1.9, 3_600, 31_622_400]),
    },
)


@pytest.mark.parametrize("kind", CONTENT_KINDS)
@given(
    options=_OPTIONS,
    amount=st.sampled_from(["1000", "999000", "998000"]),
    rotations=st.integers(0, 2),
    overlays=st.sampled_from([[], ["callback-envelope"]]),
    start=st.sampled_from(["2030-01-01T00:00:00Z", "1971-01-01T00:00:00Z"]),
)
def test_a_content_fault_changes_the_message_or_does_not_apply(
    kind: str, options: dict[str, Any], amount: str, rotations: int, overlays: list[str], start: str
) -> None:
    with Sandbox(seed=7, overlays=overlays, start=start) as sandbox:
        for _ in range(rotations):
            rotate(sandbox)
        try:
            sandbox.faults.add(kind, **options)
        except ValueError:
            assert options or (kind == "old_secret" and not rotations), "the defaults of a kind are never refused"
            return
        sandbox.wallet("ana").pay(expiring(sandbox, amount=amount))
        sandbox.run()
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        attempt, got = delivery["attempts"][0], inbox(sandbox)[0]
        plain = {"headers": attempt["headers"], "body": delivery["body"]}
        received = {"headers": dict(got.headers), "body": got.body}
        hits = [hit.facts["sent"] for hit in sandbox.faults.hits]
        assert hits == ([] if received == plain else [[received]])
        assert attempt["sent"] == (None if received == plain else [received])
        assert attempt["fault"] == (None if received == plain else kind)
        assert next(iter(sandbox.faults))["hits"] == len(hits)
        assert hits, "a fault that was accepted applies"


def test_a_content_fault_that_does_not_apply_leaves_the_attempt_to_the_next_fault(sandbox: Sandbox) -> None:
    rotate(sandbox)
    sandbox.faults.add("old_secret")
    sandbox.faults.add("truncated_body")
    with sandbox.world.exclusive():
        projects = sandbox.world.service.projects
        projects.add("other", "other-key")
    body = {"amount": "1000", "description": "tea", "callbackUrl": HOOK, "expiresIn": 60}
    sandbox.http.post("/v0/charges", json=body, headers={"apikey": "other-key"})
    sandbox.run()
    assert [(fault["kind"], fault["hits"]) for fault in sandbox.faults] == [("old_secret", 0), ("truncated_body", 1)]


def test_the_headers_of_a_message_are_those_that_missing_headers_knows(sandbox: Sandbox) -> None:
    expiring(sandbox)
    sandbox.run()
    assert tuple(inbox(sandbox)[0].headers) == HEADER_NAMES


def test_unknown_status_changes_the_status_inside_an_envelope() -> None:
    with Sandbox(seed=7, overlays=["callback-envelope"]) as sandbox:
        got = bad(sandbox, "unknown_status", value="lost")
        assert (got.json["type"], got.json["data"]["status"]) == ("charge.expired", "lost")


# Faults of the service's API


def test_a_rate_limit_refuses_count_requests_and_sends_retry_after(sandbox: Sandbox) -> None:
    sandbox.faults.add(RATE_LIMIT, operation="createCharge", count=2, delay="90.5s")
    charge = {"amount": "1000", "description": "tea"}
    for _ in range(2):
        answer = sandbox.http.post("/v0/charges", json=charge, headers={"idempotency-key": "once"})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "91")
        assert answer.json()["code"] == "too_many_requests"
    assert sandbox.http.get("/v0/charges").json()["data"] == []
    assert sandbox.http.post("/v0/charges", json=charge, headers={"idempotency-key": "once"}).status_code == 200
    assert [hit.facts for hit in sandbox.faults.hits] == [
        {"fault": RATE_LIMIT, "operation": "createCharge", "hit": hit} for hit in (1, 2)
    ]


def test_a_rate_limit_does_not_affect_the_control_plane_or_unauthenticated_requests(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="tips")
    sandbox.faults.add(RATE_LIMIT, count=None)
    assert {sandbox.http.get(path).status_code for path in ("/v0/charges", "/v0/wallet")} == {429}
    assert sandbox.http.get("/v0/wallet", headers={"apikey": "nobody's"}).status_code == 401
    assert sandbox.http.get(f"/lnurlp/{static.id}").json()["reason"].startswith("too many requests")
    assert sandbox.http.get("/sandbox/v1/clock").status_code == 200
    sandbox.faults.clear()
    assert sandbox.http.get("/v0/wallet").status_code == 200


# Faults and the rest of the sandbox


@pytest.mark.parametrize("kind", SENDING_KINDS)
def test_every_kind_applies_once_and_the_delivery_still_succeeds(sandbox: Sandbox, kind: str) -> None:
    one, other = expiring(sandbox, 60), expiring(sandbox, 61)
    rotate(sandbox)
    sandbox.faults.add(kind, charge=one, count=FEWEST.get(kind, 1))
    sandbox.run()
    assert len(sandbox.faults.hits) == (kind != "burst")  # a burst of one message has no effect
    deliveries = listed(sandbox.ask, "/sandbox/v1/deliveries")
    assert [delivery["status"] for delivery in deliveries] == ["delivered", "delivered"]
    assert {got.json["id"] for got in inbox(sandbox) if got.json} >= {other.id}
    assert len(sandbox.world.clock) == 0


@pytest.mark.parametrize("kind", SENDING_KINDS)
def test_faults_change_no_other_random_stream(kind: str) -> None:
    def run(with_fault: bool) -> tuple[list[str], dict[str, int]]:
        with Sandbox(seed=9) as sandbox:
            rotate(sandbox)
            if with_fault:
                sandbox.faults.add(kind, count=FEWEST.get(kind, 1))
            charges = [expiring(sandbox, 60 + index) for index in range(3)]
            sandbox.run()
            positions = sandbox.world.streams.snapshot()
            return [charge.request for charge in charges], {"ids": positions["ids"], "secrets": positions["secrets"]}

    assert run(True) == run(False)


@given(
    seed=st.integers(0, 99),
    faults=st.lists(
        st.tuples(st.sampled_from(SENDING_KINDS), st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 3])),
        max_size=5,
    ),
)
def test_the_same_faults_give_the_same_run(seed: int, faults: list[tuple[str, int | None, int | None]]) -> None:
    def run() -> tuple[str, list[str]]:
        with Sandbox(seed=seed) as sandbox:
            rotate(sandbox)
            sandbox.receiver("shop").answers([500, "reset", 200, "timeout"])
            for kind, attempt, count in faults:
                sandbox.faults.add(kind, attempt=attempt, count=FEWEST.get(kind, 1) if count == 1 else count)
            for index in range(3):
                expiring(sandbox, 60 + index)
            sandbox.run()
            deliveries = listed(sandbox.ask, "/sandbox/v1/deliveries")
            return sandbox.world.journal.hash, [delivery["status"] for delivery in deliveries]

    once, again = run(), run()
    assert once == again
    assert set(once[1]) <= {"delivered", "exhausted"}


def test_faults_and_delayed_callbacks_survive_a_restart(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path) as sandbox:
        sandbox.faults.add("redeliver", event="charge.expired")
        sandbox.faults.add("delay", event="charge.completed")
        sandbox.faults.add("truncated_body", count=2)
        one, two = expiring(sandbox, 60), expiring(sandbox, 600)
        sandbox.wallet("ana").pay(two)
        sandbox.advance("2m")
        assert [got.json["id"] for got in inbox(sandbox)] == [one.id]
    with Sandbox(data=tmp_path) as again:
        assert [(fault["kind"], fault["hits"]) for fault in again.faults] == [
            ("redeliver", 1),
            ("delay", 1),
            ("truncated_body", 0),
        ]
        again.run()
        first, late, redelivered = inbox(again)
        assert first.json["id"] == one.id
        assert late.json is None, "the delayed callback, truncated when it is sent"
        assert (redelivered.json["id"], redelivered.repeated) == (one.id, True)
        assert redelivered.at == late.at - HOUR + 60_000 + DAY


def test_a_dropped_attempt_times_out_at_its_own_instant_after_a_restart(tmp_path: Path) -> None:
    def dropped(sandbox: Sandbox) -> None:
        sandbox.faults.add("drop")
        expiring(sandbox)
        sandbox.advance("70s")

    with Sandbox(seed=7, start="2030-01-01T00:00:00Z") as steady:
        dropped(steady)
        steady.run()
        wanted = listed(steady.ask, "/sandbox/v1/deliveries")
    with Sandbox(seed=7, start="2030-01-01T00:00:00Z", data=tmp_path) as sandbox:
        dropped(sandbox)
        open_before = listed(sandbox.ask, "/sandbox/v1/deliveries")
        saved = sandbox.save(tmp_path.with_suffix(".json"))
    for again in (Sandbox(data=tmp_path), Sandbox.load(saved)):
        with again:
            assert listed(again.ask, "/sandbox/v1/deliveries") == open_before, "nothing happens while time stands still"
            fork = again.fork()
            for one in (again, fork):
                one.run()
                assert [got.attempt for got in inbox(one)] == [2]
                assert listed(one.ask, "/sandbox/v1/deliveries") == wanted
    assert [attempt["error"] for attempt in wanted[0]["attempts"]] == ["timeout", None]


def test_a_reset_removes_the_faults(sandbox: Sandbox) -> None:
    sandbox.faults.add("drop", count=None)
    sandbox.ask("POST", "/sandbox/v1/reset", {})
    assert len(sandbox.faults) == 0
    expiring(sandbox)
    sandbox.run()
    assert len(inbox(sandbox)) == 1


def test_faults_have_a_repr_and_a_resource(sandbox: Sandbox) -> None:
    assert "add one" in repr(sandbox.faults)
    shown = sandbox.faults.add("delay", delay="90s", event="charge.expired")
    assert shown == next(iter(sandbox.faults))
    assert {name: shown[name] for name in shown if name != "id"} == {
        "kind": "delay",
        "operation": None,
        "event": "charge.expired",
        "chargeId": None,
        "attempt": None,
        "count": 1,
        "hits": 0,
        "used": 0,
        "note": "",
        "delay": 90.0,
        "headers": None,
        "value": None,
        "createdAt": to_iso(START),
    }
    assert "delay: 0 of 1 hits" in repr(sandbox.faults)


def test_every_delay_belongs_to_an_existing_kind() -> None:
    assert set(DELAYS) <= set(KINDS)


CHANGING = sorted({*CONTENT_KINDS, *CARRYING_KINDS} - {"old_secret", "drop"})
FORBIDDEN = "http://127.0.0.1:9/paid"  # a sandbox sends nothing there unless its egress mode is loopback


@pytest.mark.parametrize("kind", CHANGING)
def test_a_changed_or_copied_message_that_was_blocked_is_no_hit(kind: str) -> None:
    sandbox = Sandbox(seed=7)
    fault = sandbox.faults.add(kind)

    def paid(url: str) -> Any:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url)
        sandbox.wallet("ana").pay(charge)
        sandbox.run("0s")
        [delivery] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge.id}")["data"]
        return delivery["status"], delivery["attempts"][0]["fault"]

    assert paid(FORBIDDEN) == ("blocked", None)
    [row] = sandbox.faults
    assert (row["hits"], row["used"], len(sandbox.faults.hits)) == (0, 0, 0)
    withdrawn = sandbox.world.journal.entries(kind="fault_without_effect")
    assert [(one.subject, one.facts["fault"]) for one in withdrawn] == [(fault["id"], kind)]
    assert paid("http://shop.localhost/paid")[1] == kind  # it applies to the first one that is sent
    [row] = sandbox.faults
    assert (row["hits"], row["used"], len(sandbox.faults.hits)) == (1, 1, 1)
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    assert names["sb"].journal_hash == sandbox.journal_hash


def test_a_delayed_message_that_is_changed_and_blocked_keeps_its_delay() -> None:
    sandbox = Sandbox(seed=7)
    sandbox.faults.add("delay", delay="5s")
    sandbox.faults.add("bad_signature")
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=FORBIDDEN)
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1m")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    assert [(one["error"], one["fault"]) for one in delivery["attempts"]] == [("blocked", "delay")]
    assert [(row["hits"], row["used"]) for row in sandbox.faults] == [(0, 1), (0, 0)]
    assert next(iter(sandbox.faults))["note"] == "a message that it held was never sent"
    assert sandbox.faults.hits == []


def test_a_changed_message_that_the_network_blocks_later_is_no_hit_either() -> None:
    sandbox = Sandbox(seed=7, egress="recorded")
    sandbox.faults.add("bad_signature")
    for error, hits in (("blocked", 0), ("refused", 0), ("unresolved", 0), ("tls", 0), ("reset", 1)):
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=FORBIDDEN)
        sandbox.wallet("ana").pay(charge)
        sandbox.run("0s")
        [delivery] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge.id}")["data"]
        assert delivery["attempts"][0]["fault"] == "bad_signature"
        sandbox.session.respond(delivery["id"], 1, error=error)
        [row] = sandbox.faults
        assert (row["hits"], len(sandbox.faults.hits)) == (hits, hits)
        [delivery] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge.id}")["data"]
        assert delivery["attempts"][0]["fault"] == ("bad_signature" if hits else None)


@pytest.mark.parametrize("kind", CHANGING)
@pytest.mark.parametrize("word", ["refused", "unresolved", "tls"])
def test_a_changed_or_copied_message_without_a_connection_is_no_hit(kind: str, word: str) -> None:
    sandbox = Sandbox(seed=7)
    sandbox.receiver("shop").answers([word, 200])
    fault = sandbox.faults.add(kind, count=1)
    sandbox.wallet("ana").pay(
        sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    )
    sandbox.run("1s")
    [row] = sandbox.faults
    assert (row["hits"], len(sandbox.faults.hits), len(sandbox.receiver("shop").inbox)) == (0, 0, 0)
    sandbox.run()
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries?bodies=true")["data"]
    faults = [attempt["fault"] for attempt in delivery["attempts"]]
    assert faults[:2] == [None, kind], "it applies to the first message that is sent"
    assert delivery["attempts"][0]["sent"] is None
    withdrawn = sandbox.world.journal.entries(kind="fault_without_effect")
    assert [(one.subject, one.facts["attempt"]) for one in withdrawn] == [(fault["id"], 1)]
    assert next(iter(sandbox.faults))["hits"] == 1


@pytest.mark.parametrize("kind", sorted(set(CARRYING_KINDS) - {"drop"}))
def test_a_copy_that_was_sent_is_a_hit_although_its_message_never_left(kind: str) -> None:
    sandbox = Sandbox(seed=7)
    sandbox.receiver("shop").answers([Reply(error="refused", delay="9s"), 200, 200])
    fault = sandbox.faults.add(kind, count=1, delay=None if kind == "simultaneous" else "1s")
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("20s")
    assert len(sandbox.receiver("shop").inbox) >= 1
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    assert [attempt["fault"] for attempt in delivery["attempts"]][:1] == [kind]
    [row] = sandbox.faults
    assert (row["hits"], row["used"]) == (1, 1)
    assert sandbox.world.journal.entries(kind="fault_without_effect") == []
    timeline = str(charge.timeline())
    assert "copy sent" in timeline
    assert f"fault: {fault['kind']}" in timeline


@pytest.mark.parametrize("kind", sorted(set(CARRYING_KINDS) - {"drop"}))
@pytest.mark.parametrize("order", [("3s", "9s"), ("9s", "3s")])
def test_a_message_and_its_copy_of_which_neither_was_sent_are_no_hit(kind: str, order: tuple[str, str]) -> None:
    sandbox = Sandbox(seed=7)
    sandbox.receiver("shop").answers([*(Reply(error="refused", delay=delay) for delay in order), 200, 200])
    sandbox.faults.add(kind, count=1, delay=None if kind == "simultaneous" else "1s")
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("11s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    assert delivery["attempts"][0]["fault"] is None
    assert next(iter(sandbox.faults))["hits"] == 0


def test_a_changed_message_whose_name_is_not_looked_up_in_time_is_no_hit() -> None:
    sandbox = Sandbox(seed=7, egress="recorded")
    sandbox.faults.add("bad_signature")
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea", callbackUrl=FORBIDDEN))
    sandbox.run("0s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    note = "the look-up of the name shop.example had no answer within 5000 ms"
    sandbox.session.respond(delivery["id"], 1, error="timeout", note=note)
    assert [row["hits"] for row in sandbox.faults] == [0]


@pytest.mark.parametrize("of", ["charge", "static", "child"])
@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        ({"operation": "chargeUpdated"}, {"charge"}),
        ({"operation": "chargePaid"}, {"static", "child"}),
        ({"event": "charge.completed"}, {"charge", "static", "child"}),
        ({"event": "charge.expired"}, {"charge"}),
        ({"event": "charge.error"}, {"charge"}),
    ],
)
def test_a_fault_of_a_callback_that_its_charge_never_sends_is_refused(
    sandbox: Sandbox, of: str, condition: dict[str, str], fits: set[str]
) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOK)
    sandbox.wallet("ana").scan(static)
    sandbox.run("1s")
    one = {"charge": expiring(sandbox), "static": static, "child": static.charges[0]}[of]
    body = {"kind": "drop", "chargeId": one.id, **condition}
    if of in fits:
        assert sandbox.ask("POST", "/sandbox/v1/faults", body)["hits"] == 0
        return
    with pytest.raises(ApiError, match=r"(sends|send) no callback with the .*: give .*, or leave out ") as refused:
        sandbox.ask("POST", "/sandbox/v1/faults", body)
    assert [error["pointer"] for error in refused.value.problem["errors"]] == [f"/{name}" for name in condition]
    assert refused.value.status == 409
