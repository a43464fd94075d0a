"""Callbacks in the control API: inspection to the byte, replay, waiting, faults."""

from __future__ import annotations

import json
import threading
import time
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from leyden import Sandbox
from leyden.callbacks.faults.kinds import KINDS
from leyden.callbacks.replies import Reply
from leyden.delivery_replays import DeliveryReplays
from leyden.devserver.argument_types import callback_timeout
from leyden.errors import ApiError
from leyden.http_sandbox import HttpSandbox, create_sandbox
from leyden.pytest_plugin import LiveServer
from leyden.world.config import packaged_contract
from tests.support.lists import listed
from tests.support.served import ROOT, Client, listening_receiver, served_leyden

FROZEN = ("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5")
HOOK = "http://shop.localhost/hook"


def paid(sandbox: Sandbox, url: str = HOOK) -> str:
    charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=url)
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    return charge.id


def only_delivery(sandbox: Sandbox, charge_id: str) -> dict:
    [delivery] = listed(sandbox.ask, f"/sandbox/v1/deliveries?chargeId={charge_id}")
    return delivery


# Seeing


def test_deliveries_are_found_by_charge_status_and_event(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([200, 410])
    first, second = paid(sandbox), paid(sandbox)
    expired = sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK, expiresIn=60).id
    sandbox.run()

    def found(query: str) -> list[str]:
        return [delivery["chargeId"] for delivery in listed(sandbox.ask, f"/sandbox/v1/deliveries{query}")]

    assert found("") == [expired, second, first], "the newest first"
    assert found(f"?chargeId={second}") == [second]
    assert found("?status=stopped") == [second]
    assert found("?event=charge.expired") == [expired]
    assert found("?status=delivered&event=charge.completed") == [first]
    assert found(f"?chargeId={first}&status=stopped") == []


def test_one_delivery_is_shown_with_its_attempts_to_the_byte(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([500])
    charge = paid(sandbox)
    sandbox.run()
    delivery = only_delivery(sandbox, charge)
    assert sandbox.ask("GET", f"/sandbox/v1/deliveries/{delivery['id']}") == delivery
    received = sandbox.receiver("shop").inbox
    assert [got.body for got in received] == [delivery["body"]] * 2
    assert [dict(got.headers) for got in received] == [attempt["headers"] for attempt in delivery["attempts"]]
    assert [attempt["status"] for attempt in delivery["attempts"]] == [500, 200]
    assert all(attempt["fault"] is attempt["sent"] is None for attempt in delivery["attempts"])
    assert delivery["attempts"][1]["dueAt"] > delivery["attempts"][0]["answeredAt"]


def test_an_attempt_with_a_fault_shows_the_bytes_that_were_sent(sandbox: Sandbox) -> None:
    for kind in ("changed_body", "drop"):
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": kind})
    sandbox.receiver("shop").answers([500])
    charge = paid(sandbox)
    sandbox.run()
    forged, dropped, sound = only_delivery(sandbox, charge)["attempts"]
    assert (forged["fault"], dropped["fault"], sound["fault"]) == ("changed_body", "drop", None)
    assert forged["sent"] == [
        {"headers": dict(sandbox.receiver("shop").inbox[0].headers), "body": sandbox.receiver("shop").inbox[0].body}
    ]
    assert dropped["sent"] == []
    assert sound["sent"] is None


def test_an_unknown_delivery_is_not_found(sandbox: Sandbox) -> None:
    for method, path in (("GET", "deliveries/nothing"), ("POST", "deliveries/nothing/replay")):
        with pytest.raises(ApiError, match="404"):
            sandbox.ask(method, f"/sandbox/v1/{path}")


# Sending again


def test_a_replay_sends_the_same_message_again(sandbox: Sandbox) -> None:
    delivery = only_delivery(sandbox, paid(sandbox))
    sandbox.advance("6m")
    again = sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
    assert (again["status"], again["replayedFrom"]) == ("pending", 1)
    sandbox.run()
    first, second = sandbox.receiver("shop").inbox
    assert (second.body, second.webhook_id, second.attempt) == (first.body, first.webhook_id, 2)
    assert second.headers["webhook-signature"] != first.headers["webhook-signature"]
    assert sandbox.ask("GET", f"/sandbox/v1/deliveries/{delivery['id']}")["status"] == "delivered"


def test_an_attempt_that_a_fault_dropped_is_not_said_to_be_in_flight(sandbox: Sandbox) -> None:
    sandbox.faults.add("drop")
    charge = sandbox.charges.create(amount="1000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    never_sent = "dropped by the fault drop: it was never sent"
    note = f"{never_sent}; it times out at 2030-01-01T09:00:15.000Z"
    assert delivery["attempts"][0]["note"] == note
    assert list(sandbox.callbacks.note) == [note]
    with pytest.raises(ApiError, match="was dropped by a fault and has yet to time out: advance the clock"):
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
    sandbox.advance("15s")
    assert only_delivery(sandbox, charge.id)["attempts"][0]["note"] == never_sent
    assert sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")["status"] == "pending"


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (503, "3000", "Retry-After asks for 3000 s and is cut to 10 s, 2 times the delay of the schedule"),
        (429, "6", "Retry-After asks for 6 s: the next attempt is not earlier"),
        (503, "99999999", "Retry-After asks for 99999999 s and is cut to 10 s, 2 times the delay of the schedule"),
        (503, "soon", "Retry-After 'soon' is ignored: it is neither a whole number of seconds nor a date"),
        (503, "Tue, 01 Jan 2030 09:00:08 GMT", "Retry-After asks for 8 s: the next attempt is not earlier"),
        (
            503,
            "Tue, 01 Jan 2030 08:00:00 GMT",
            "Retry-After 'Tue, 01 Jan 2030 08:00:00 GMT' had passed when the response came: it delays nothing",
        ),
        (503, "0", "Retry-After asks for 0 s: the next attempt is not earlier"),
        (500, "6", "Retry-After is ignored: it counts with 429 and 503 only"),
        (410, "6", "the receiver asked for no more; Retry-After is ignored: it counts with 429 and 503 only"),
        (200, "6", "Retry-After is ignored: it counts with 429 and 503 only"),
        (
            503,
            "0" + "9" * 40,
            f"Retry-After asks for {'9' * 40} s and is cut to 10 s, 2 times the delay of the schedule",
        ),
        (
            503,
            "1" * 70,
            f"Retry-After asks for {'1' * 60}... (70 digits) s and is cut to 10 s, 2 times the delay of the schedule",
        ),
    ],
)
def test_the_note_of_an_attempt_says_what_became_of_retry_after(
    sandbox: Sandbox, status: int, text: str, said: str
) -> None:
    sandbox.receiver("shop").answers([Reply(status=status, headers={"Retry-After": text})])
    charge = sandbox.charges.create(amount="1000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    for _ in range(2):
        assert only_delivery(sandbox, charge.id)["attempts"][0]["note"] == said
        assert sandbox.callbacks.note.iloc[0] == said
        sandbox.run()


def test_the_retry_after_of_the_last_attempt_has_no_effect(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").always(Reply(status=503, headers={"Retry-After": "1"}))
    charge = sandbox.charges.create(amount="1000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    for _ in range(3):
        attempts = only_delivery(sandbox, charge.id)["attempts"]
        assert attempts[-1]["note"] == "Retry-After has no effect: it was the last attempt"
        assert attempts[-2]["note"] == "Retry-After asks for 1 s: the next attempt is not earlier"
        assert attempts[0]["note"] == "Retry-After asks for 1 s: the next attempt is not earlier"
        assert {one["note"] for one in attempts[9::10]} == {"Retry-After has no effect: it was the last attempt"}
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{only_delivery(sandbox, charge.id)['id']}/replay")
        sandbox.run()


def test_a_retry_after_says_that_a_replay_gives_the_time_of_the_next_attempt(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").always(Reply(status=503, headers={"Retry-After": "8"}))
    charge = sandbox.charges.create(amount="1000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{only_delivery(sandbox, charge.id)['id']}/replay")
    for _ in range(2):
        note = only_delivery(sandbox, charge.id)["attempts"][0]["note"]
        assert note == "Retry-After has no effect: a replay gives the time of the next attempt"
        sandbox.run("1s")
    first, second = only_delivery(sandbox, charge.id)["attempts"]
    assert second["at"] < first["at"].replace(":00.", ":08.")
    assert second["note"] == "Retry-After asks for 8 s: the next attempt is not earlier"


def test_the_latency_of_an_attempt_in_flight_is_null(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([Reply(delay="2s")])
    charge = sandbox.charges.create(amount="1000", description="Tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    assert only_delivery(sandbox, charge.id)["attempts"][0]["latencyMs"] is None
    sandbox.run("2s")
    assert only_delivery(sandbox, charge.id)["attempts"][0]["latencyMs"] == 2_000


def test_a_replay_is_sent_to_a_receiver_that_had_answered_410(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([410])
    delivery = only_delivery(sandbox, paid(sandbox))
    assert delivery["status"] == "stopped"
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
    sandbox.run()
    assert sandbox.ask("GET", f"/sandbox/v1/deliveries/{delivery['id']}")["status"] == "delivered"


def test_a_delivery_that_an_earlier_410_stopped_says_so(sandbox: Sandbox) -> None:
    """A replay that succeeds and a PATCH with the same URL open nothing; another URL gets the later callbacks."""
    sandbox.receiver("shop").answers([410])
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="tips", callbackUrl=HOOK)

    def newest() -> dict[str, Any]:
        sandbox.wallet("ana").pay(static, amount="5000")
        sandbox.run()
        found: dict[str, Any] = listed(sandbox.ask, "/sandbox/v1/deliveries")[0]
        return found

    refused, stopped = newest(), newest()
    assert (refused["status"], refused["note"], refused["attempts"][0]["status"]) == ("stopped", "", 410)
    assert (stopped["status"], stopped["attempts"]) == ("stopped", [])
    assert "another callback to this URL was answered 410" in stopped["note"]
    assert "only another callbackUrl gets later ones" in stopped["note"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{stopped['id']}/replay")
    sandbox.run()
    replayed = sandbox.ask("GET", f"/sandbox/v1/deliveries/{stopped['id']}")
    assert (replayed["status"], replayed["note"]) == ("delivered", "")
    assert newest()["note"] == stopped["note"]
    sandbox.ask("PATCH", f"/v0/static-charges/{static.id}", {"callbackUrl": HOOK})
    assert newest()["note"] == stopped["note"]
    sandbox.ask("PATCH", f"/v0/static-charges/{static.id}", {"callbackUrl": f"{HOOK}/new"})
    assert (newest()["status"], newest()["note"]) == ("delivered", "")


def test_a_delivery_in_flight_is_not_sent_a_second_time(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers(["timeout"])
    charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=HOOK)
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1s")
    delivery = only_delivery(sandbox, charge.id)
    with pytest.raises(ApiError, match="409"):
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {}) == {"replayed": 0, "ids": []}


def test_many_are_sent_again_by_a_filter(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").always(500)
    charges = [paid(sandbox) for _ in range(3)]
    sandbox.run()
    sandbox.receiver("shop").always(200)
    fine = paid(sandbox, "http://other.localhost/")
    ids = [only_delivery(sandbox, charge)["id"] for charge in charges]
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"status": "exhausted"}) == {"replayed": 3, "ids": ids}
    sandbox.run()
    assert {only_delivery(sandbox, charge)["status"] for charge in charges} == {"delivered"}
    assert len(only_delivery(sandbox, fine)["attempts"]) == 1


# Waiting


def test_in_process_a_wait_answers_at_once(sandbox: Sandbox) -> None:
    charge = paid(sandbox)
    for body, answer in (
        ({"count": 1}, {"reached": True, "count": 1}),
        ({"count": 2, "timeout": 5}, {"reached": False, "count": 1}),
        ({"count": 1, "chargeId": charge, "status": "delivered"}, {"reached": True, "count": 1}),
        ({"count": 1, "event": "charge.expired"}, {"reached": False, "count": 0}),
    ):
        assert sandbox.ask("POST", "/sandbox/v1/deliveries/wait", body).items() >= answer.items()


def test_a_wait_for_a_charge_that_does_not_exist_is_refused(sandbox: Sandbox) -> None:
    body = {"count": 1, "chargeId": "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de"}
    with pytest.raises(ApiError, match="409"):
        sandbox.ask("POST", "/sandbox/v1/deliveries/wait", body)


def test_a_static_charges_id_selects_its_payments(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="Tips", callbackUrl=HOOK)
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 1, "chargeId": tips.id})["count"] == 0
    for _ in range(2):
        sandbox.wallet("ana").scan(tips)
    paid(sandbox)
    sandbox.run("1s")
    found = listed(sandbox.ask, f"/sandbox/v1/deliveries?chargeId={tips.id}")
    assert [delivery["chargeId"] for delivery in found] == [charge.id for charge in tips.charges][::-1]
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 2, "chargeId": tips.id})["reached"]


def test_a_wait_does_not_block_a_notebook_that_serves_its_sandbox(sandbox: Sandbox) -> None:
    sandbox.serve()
    assert not sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 1, "timeout": 5})["reached"]


def test_a_replay_in_the_last_second_of_the_clock_is_sent_at_its_beginning(sandbox: Sandbox) -> None:
    end = "2999-12-31T23:59:59.000Z"
    paid(sandbox)
    paid(sandbox)
    first, second = (delivery["id"] for delivery in listed(sandbox.ask, "/sandbox/v1/deliveries"))
    last = {"at": "2999-12-31T23:59:59.999Z"}
    assert sandbox.ask("POST", f"/sandbox/v1/deliveries/{first}/replay", last)["dueAt"] == end
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"ids": [second], **last})["replayed"] == 1
    assert [due["at"] for due in listed(sandbox.ask, "/sandbox/v1/clock/due")] == [end, end]
    assert sandbox.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})["now"] == end
    assert listed(sandbox.ask, "/sandbox/v1/clock/due") == []
    assert [len(row["attempts"]) for row in listed(sandbox.ask, "/sandbox/v1/deliveries")] == [2, 2]


# Secrets


def test_a_rotated_secret_signs_beside_the_old_one_for_a_day(sandbox: Sandbox) -> None:
    [old] = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["secrets"]
    rotated = sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate")
    new = rotated["current"]
    assert [secret["secret"] for secret in rotated["secrets"]] == [new, old["secret"]]
    assert rotated["secrets"][1]["until"] == "2030-01-02T09:00:00.000Z"
    paid(sandbox)
    assert len(sandbox.receiver("shop").inbox[0].headers["webhook-signature"].split(" ")) == 2
    sandbox.advance("1d")
    assert sandbox.ask("GET", "/sandbox/v1/webhook-secret")["secrets"] == rotated["secrets"][:1]
    then = sandbox.ask("GET", "/sandbox/v1/webhook-secret?at=2030-01-02T10:29:59.9999%2B01:30")
    assert then == {"current": new, "secrets": rotated["secrets"][:1]}
    assert sandbox.ask("GET", "/sandbox/v1/webhook-secret?at=2030-01-02T08:59:59.999Z") == rotated
    assert sandbox.ask("GET", "/sandbox/v1/webhook-secret?at=2029-01-01T00:00:00Z")["current"] == old["secret"]
    with pytest.raises(ApiError, match="400"):
        sandbox.ask("GET", "/sandbox/v1/webhook-secret?at=yesterday")
    paid(sandbox)
    got = sandbox.receiver("shop").inbox[1]
    assert not got.verdict
    assert got.headers["webhook-signature"].count("v1,") == 1
    assert Webhook(new)  # a library takes it as it is


# Inboxes


def test_an_inbox_shows_its_posts_with_a_verdict(sandbox: Sandbox) -> None:
    paid(sandbox)
    sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "bad_signature"})
    paid(sandbox)
    summary = {"name": "shop", "run": 1, "received": 2, "restored": 0, "objections": 1}
    assert listed(sandbox.ask, "/sandbox/v1/inboxes") == [summary]
    sound, forged = sandbox.ask("GET", "/sandbox/v1/inboxes/shop")["posts"]
    assert (sound["verdict"], sound["answer"], sound["committed"]) == ([], 200, True)
    assert forged["verdict"]
    assert sandbox.ask("GET", "/sandbox/v1/inboxes/shop?after=1")["posts"] == [forged]
    assert sandbox.ask("GET", "/sandbox/v1/inboxes/shop.localhost?limit=1")["posts"] == [sound]
    with pytest.raises(ApiError, match="404"):
        sandbox.ask("GET", "/sandbox/v1/inboxes/nobody")


def test_an_inbox_answers_as_its_script_says(sandbox: Sandbox) -> None:
    script = {
        "rules": [{"say": 410, "event": "charge.expired", "count": None}],
        "answers": [500, "timeout", {"status": 429, "headers": {"Retry-After": "30"}}],
        "always": "commit_then_500",
    }
    shown = sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", script)["script"]
    assert [reply["status"] for reply in shown["answers"]] == [500, 200, 429]
    assert (shown["rules"][0]["say"]["status"], shown["always"]["commits"]) == (410, True)
    charge = paid(sandbox)
    sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK, expiresIn=60)
    sandbox.run()
    attempts = only_delivery(sandbox, charge)["attempts"]
    assert [attempt["status"] or attempt["error"] for attempt in attempts[:4]] == [500, "timeout", 429, 500]
    assert [row["status"] for row in listed(sandbox.ask, "/sandbox/v1/deliveries?event=charge.expired")] == ["stopped"]
    sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", {})
    assert sandbox.ask("GET", "/sandbox/v1/inboxes/shop")["script"]["always"]["status"] == 200


def test_a_script_with_a_decimal_point_changes_nothing(sandbox: Sandbox) -> None:
    sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"always": 503})
    with pytest.raises(ApiError, match="write 2 without a decimal point") as refused:
        sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"rules": [{"say": 410}, {"say": 410, "attempt": 2.0}]})
    assert refused.value.status == 409
    assert sandbox.ask("GET", "/sandbox/v1/inboxes/shop")["script"]["always"]["status"] == 503


def test_the_script_that_an_inbox_shows_can_be_set_again(sandbox: Sandbox) -> None:
    script = {"answers": [503, "huge", {"delay": "2s", "body": "soon"}], "always": "empty"}
    shown = sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", script)["script"]
    replies = {"answers": shown["answers"], "always": shown["always"]}
    assert sandbox.ask("PUT", "/sandbox/v1/inboxes/blog/script", replies)["script"] == shown


# Faults


def test_faults_are_added_listed_struck_and_cleared(sandbox: Sandbox) -> None:
    fault = sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "redeliver", "event": "charge.completed", "delay": "2h"})
    assert (fault["hits"], fault["count"], fault["delay"]) == (0, 1, 7_200)
    paid(sandbox)
    assert listed(sandbox.ask, "/sandbox/v1/faults") == [{**fault, "hits": 1, "used": 1}]
    sandbox.run()
    assert len(sandbox.receiver("shop").inbox) == 2
    assert sandbox.ask("DELETE", f"/sandbox/v1/faults/{fault['id']}") == {"cleared": 1, "held": 0, "copies": 0}
    with pytest.raises(ApiError, match="404"):
        sandbox.ask("DELETE", f"/sandbox/v1/faults/{fault['id']}")
    for kind in ("drop", "burst"):
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": kind, "count": None})
    assert sandbox.ask("DELETE", "/sandbox/v1/faults") == {"cleared": 2, "held": 0, "copies": 0}
    assert listed(sandbox.ask, "/sandbox/v1/faults") == []


def test_the_response_to_clearing_faults_counts_what_they_have_begun(sandbox: Sandbox) -> None:
    redeliver = sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "redeliver", "delay": "2h"})
    paid(sandbox)
    burst = sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "burst", "count": 3, "delay": "2h"})
    paid(sandbox)
    assert len(sandbox.receiver("shop").inbox) == 1
    path = "/sandbox/v1/faults"
    assert sandbox.ask("DELETE", f"{path}/{burst['id']}") == {"cleared": 1, "held": 1, "copies": 0}
    assert sandbox.ask("DELETE", f"{path}/{redeliver['id']}") == {"cleared": 1, "held": 0, "copies": 1}
    assert sandbox.ask("DELETE", path) == {"cleared": 0, "held": 1, "copies": 1}
    sandbox.run("3h")
    assert len(sandbox.receiver("shop").inbox) == 3
    assert sandbox.ask("DELETE", path) == {"cleared": 0, "held": 0, "copies": 0}


def test_the_document_and_the_integrators_page_name_every_kind_there_is() -> None:
    assert set(packaged_contract("sandbox").schemas["FaultKind"].schema["enum"]) == set(KINDS)
    page = (ROOT / "sim" / "devserver" / "README.md").read_text()
    assert {kind for kind in KINDS if f"`{kind}`" not in page} == set()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "bad_signature", "delay": 3}, 409),
        ({"kind": "drop", "event": "charge.paid"}, 409),
        ({"kind": "explode"}, 400),
        ({"kind": "drop", "count": 0}, 400),
        ({"kind": "burst"}, 409),
        ({"kind": "burst", "count": 1}, 409),
        ({"kind": "drop", "delay": "999999h"}, 409),
        ({"kind": "delay", "delay": "9999d"}, 409),
    ],
)
def test_a_fault_that_could_never_apply_is_refused(sandbox: Sandbox, body: dict, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        sandbox.ask("POST", "/sandbox/v1/faults", body)
    assert refused.value.status == status
    assert listed(sandbox.ask, "/sandbox/v1/faults") == []


@pytest.mark.parametrize("what", ["fault", "rule"])
def test_a_fault_and_a_rule_for_a_charge_that_does_not_exist_are_refused(sandbox: Sandbox, what: str) -> None:
    charge = sandbox.charges.create(amount="1000", description="Tea", callbackUrl=HOOK)
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="Tips", callbackUrl=HOOK)

    def add(charge_id: str) -> None:
        if what == "fault":
            sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "drop", "chargeId": charge_id})
        else:
            rules = [{"say": 500}, {"say": 500, "chargeId": charge_id}]
            sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"rules": rules})

    add(charge.id)
    add(tips.id)
    before = list(sandbox.faults), sandbox.receiver("shop").rules
    with pytest.raises(ApiError, match="no Charge and no Static Charge of this sandbox has this id") as refused:
        add("8f14e45f-ceea-467f-a8b5-91f3d5a1c0de")
    pointer = "/chargeId" if what == "fault" else "/rules/1/chargeId"
    assert (refused.value.status, refused.value.problem["errors"][0]["pointer"]) == (409, pointer)
    assert (list(sandbox.faults), sandbox.receiver("shop").rules) == before


# Served


@pytest.fixture(scope="module")
def client():
    with served_leyden(*FROZEN) as client:
        yield client


def charge_at(client: Client, url: str) -> str:
    body = {"amount": "21000", "description": "tea", "callbackUrl": url}
    charge = client.ok("POST", "/v0/charges", body)["data"]
    client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
    return charge["id"]


def test_a_served_wait_ends_when_the_delivery_is_there(client: Client) -> None:
    with listening_receiver() as (hook, _):
        before = len(listed(client.ok, "/sandbox/v1/deliveries"))
        answers: list[dict] = []
        body = {"count": before + 1, "status": "delivered", "timeout": 5}
        waiting = threading.Thread(
            target=lambda: answers.append(client.ok("POST", "/sandbox/v1/deliveries/wait", body))
        )
        waiting.start()
        charge_at(client, hook)
        waiting.join(10)
        assert answers[0]["reached"]


def test_a_served_wait_that_times_out_reports_it(client: Client) -> None:
    began = time.monotonic()
    waited = client.ok("POST", "/sandbox/v1/deliveries/wait", {"count": 1_000, "timeout": 0.2})
    assert not waited["reached"]
    assert time.monotonic() - began >= 0.2
    assert client("POST", "/sandbox/v1/deliveries/wait", {"count": 1, "timeout": 6})[0] == 400


@pytest.mark.parametrize("scheme", ["", "lightning:"])
def test_a_comment_with_an_invoice_is_refused(sandbox: Sandbox, scheme: str) -> None:
    invoice = f"{scheme}{sandbox.charges.create(amount='1000', description='tea').request}"
    body = {"request": invoice, "comment": "thanks"}
    with pytest.raises(ApiError, match=r"400.*an invoice takes no comment"):
        sandbox.ask("POST", "/sandbox/v1/payments", body)
    assert sandbox.ask("GET", "/sandbox/v1/payments")["data"] == []
    assert sandbox.ask("POST", "/sandbox/v1/payments", {**body, "comment": ""})["status"] == "succeeded"


def test_the_request_of_a_payment_is_the_invoice_that_the_wallet_got(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    body = {"request": f"lightning:{tips.request}", "comment": "thanks"}
    got = sandbox.ask("POST", "/sandbox/v1/payments", body)["request"]
    assert got == tips.charges[0].request
    body = {"request": f"lightning:{tips.request}", "amount": "1"}
    assert sandbox.ask("POST", "/sandbox/v1/payments", body)["request"] == tips.request
    said = packaged_contract("sandbox").schemas["Payment"].schema["properties"]["request"]["description"]
    assert "the one that the wallet got for a submitted LNURL or Lightning address" in " ".join(said.split())


def test_a_wait_is_for_one_delivered_callback_unless_it_says_more(sandbox: Sandbox) -> None:
    def waited(body: dict | None) -> int:
        return int(sandbox.ask("POST", "/sandbox/v1/deliveries/wait", body)["count"])

    sandbox.receiver("shop").answers([500])
    for url in ("http://shop.localhost/hook", "http://127.0.0.1:9/hook"):
        sandbox.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=60)
    sandbox.advance("60s")
    assert [waited(body) for body in (None, {}, {"status": "pending"}, {"status": "blocked"})] == [0, 0, 1, 1]
    assert waited({"status": "any"}) == 2
    sandbox.run()
    assert [waited(body) for body in (None, {}, {"count": 1}, {"status": "any"})] == [1, 1, 1, 2]
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {})["reached"]


def test_a_served_replay_leaves_with_the_request(client: Client) -> None:
    with listening_receiver() as (hook, inbox):
        charge = charge_at(client, hook)
        inbox.get(timeout=10)
        done = {"count": 1, "chargeId": charge, "status": "delivered", "timeout": 5}
        assert client.ok("POST", "/sandbox/v1/deliveries/wait", done)["reached"]
        [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge}")
        client.ok("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
        headers, _ = inbox.get(timeout=10)
        assert (headers["webhook-id"], headers["leyden-attempt"]) == (delivery["id"], "2")


@pytest.mark.parametrize("name", ["shop", "shop.inbox", "a.b.c"])
def test_every_name_below_localhost_is_a_served_inbox(client: Client, name: str) -> None:
    client.ok("PUT", f"/sandbox/v1/inboxes/{name}/script", {"answers": [503]})
    charge = charge_at(client, f"http://{name}.localhost:8080/hook")
    [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge}")
    assert [attempt["status"] for attempt in delivery["attempts"]] == [503]


def test_a_served_inbox_and_its_script_survive_a_restart(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"), "--rate", "0", "--start", "2030-01-01T09:00:00Z", "--seed", "3")
    script = {"answers": [500, 503, {"status": 200, "delay": 1}], "rules": [{"say": 429, "attempt": 9}], "always": 204}
    with served_leyden(*options) as client:
        client.ok("PUT", "/sandbox/v1/inboxes/shop.inbox/script", script)
        charge_at(client, "http://shop.inbox.localhost/hook")
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"})
        before = client.ok("GET", "/sandbox/v1/inboxes/shop.inbox")
        assert [got["answer"] for got in before["posts"]] == [500]
    with served_leyden(*options) as client:
        assert client.ok("GET", "/sandbox/v1/inboxes/shop.inbox") == before
        client.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        after = client.ok("GET", "/sandbox/v1/inboxes/shop.inbox")
        assert [got["answer"] for got in after["posts"]] == [500, 503, 200]
        assert [got["repeated"] for got in after["posts"]] == [False, True, True]
        assert [got["copy"] for got in after["posts"]] == [False, False, False]
        assert (after["script"]["answers"], after["script"]["always"]["status"]) == ([], 204)


def test_a_changed_key_of_a_served_sandbox_survives_a_restart(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"), "--rate", "0")
    with served_leyden(*options) as client:
        client.ok("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "leyden", "key": "fresh"})
        assert client("GET", "/v0/wallet")[0] == 401
        assert Client(client.url, "fresh")("GET", "/v0/wallet")[0] == 200
    with served_leyden(*options) as client:
        assert client("GET", "/v0/wallet")[0] == 401
        assert Client(client.url, "fresh")("GET", "/v0/wallet")[0] == 200


def test_an_unknown_event_is_refused_with_the_nearest_one(sandbox: Sandbox) -> None:
    paid(sandbox)
    for method, path, body in (
        ("GET", "/deliveries?event=charge.complete", None),
        ("POST", "/deliveries/replay", {"event": "charge.complete"}),
        ("POST", "/deliveries/wait", {"event": "charge.complete"}),
        ("POST", "/faults", {"kind": "drop", "event": "charge.complete"}),
    ):
        with pytest.raises(ApiError, match=r"409.*did you mean '?charge\.completed'?\?$"):
            sandbox.ask(method, f"/sandbox/v1{path}", body)


def test_an_unknown_operation_is_refused_with_the_nearest_one(sandbox: Sandbox) -> None:
    for method, path, body in (
        ("GET", "/requests?operation=createCharges", None),
        ("POST", "/faults", {"kind": "rate_limit", "operation": "createCharges"}),
        ("POST", "/service-faults", {"kind": "error", "operation": "createCharges"}),
    ):
        with pytest.raises(ApiError, match=r"409.*did you mean '?createCharge'?\?$"):
            sandbox.ask(method, f"/sandbox/v1{path}", body)
    with pytest.raises(ApiError, match=r"409.*did you mean 'chargePaid'\?$"):
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "drop", "operation": "chargePayd"})


def test_a_wait_in_vain_says_why(sandbox: Sandbox) -> None:
    def note(charge: str) -> str:
        waited = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge})
        assert not waited["reached"]
        return str(waited["note"])

    silent = sandbox.charges.create(amount="21000", description="tea").id
    assert "callbackUrl" in note(silent)
    sandbox.receiver("shop").answers([500])
    retried = paid(sandbox)
    [delivery] = listed(sandbox.ask, f"/sandbox/v1/deliveries?chargeId={retried}")
    assert delivery["dueAt"] in note(retried)
    sandbox.run()
    sandbox.receiver("shop").answers([410])
    assert "stopped" in note(paid(sandbox))
    sandbox.receiver("shop").always(500)
    exhausted = paid(sandbox)
    sandbox.run()
    assert "exhausted" in note(exhausted)
    assert "blocked" in note(paid(sandbox, "http://127.0.0.1:9/hook"))


@pytest.mark.parametrize(("text", "timeout_ms"), [("2", 2_000), ("0.5", 500), ("250ms", 250)])
def test_a_callback_timeout_may_be_a_number_of_seconds(text: str, timeout_ms: int) -> None:
    assert callback_timeout(text) == timeout_ms


def test_a_wait_for_a_blocked_delivery_says_what_allows_it(sandbox: Sandbox) -> None:
    with listening_receiver() as (url, inbox):
        charge_id = paid(sandbox, url)
        note = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge_id})["note"]
        [delivery] = [row for row in sandbox.world.service.outbox.deliveries() if row["resource_id"] == charge_id]
        assert f"delivery {delivery['id']} ended as blocked and is not sent again: " in note
        assert 'call set_egress("loopback") and replay this delivery' in note
        sandbox.set_egress("loopback")
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay")
        sandbox.run("1s")
        assert sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge_id})["reached"]
        assert inbox.get(timeout=5)[1]["id"] == charge_id


# The headers of responses


def test_a_delivery_has_the_headers_of_each_response(sandbox: Sandbox) -> None:
    many = {f"X-{number}": "1" for number in range(52)}
    shop = sandbox.receiver("shop")
    shop.answers([Reply(500, headers={"Retry-After": "7"}), "reset", Reply(500, headers=many)])
    charge = paid(sandbox)
    sandbox.run()
    first, second, third, fourth = only_delivery(sandbox, charge)["attempts"]
    assert (first["answerHeaders"], first["answerHeadersLeftOut"]) == ([["retry-after", "7"]], 0)
    assert (second["answerHeaders"], second["answerHeadersLeftOut"]) == ([], 0)
    assert (third["answerHeaders"][-1], third["answerHeadersLeftOut"]) == (["x-49", "1"], 2)
    assert (fourth["status"], fourth["answerHeaders"]) == (200, [])


def test_the_headers_of_a_response_over_the_network_are_kept() -> None:
    with listening_receiver() as (url, _), Sandbox(egress="loopback") as sandbox:
        [attempt] = only_delivery(sandbox, paid(sandbox, url))["attempts"]
    names = [name for name, _ in attempt["answerHeaders"]]
    assert names == ["server", "date", "content-length"]


@pytest.fixture(scope="module")
def without_headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory and a saved sandbox of a version that kept no headers of responses."""
    folder = tmp_path_factory.mktemp("attempts-without-headers")
    with zipfile.ZipFile(ROOT / "tests" / "vectors" / "attempts-without-headers.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("is_saved", [True, False])
def test_attempts_that_were_stored_without_headers_are_read(without_headers: Path, is_saved: bool) -> None:
    where = without_headers
    with Sandbox.load(where / "saved.json") if is_saved else Sandbox(data=str(where / "directory")) as sandbox:
        rows = listed(sandbox.ask, "/sandbox/v1/deliveries")[::-1]
        for row in rows:
            assert row.pop("note") == ""
            for attempt in row["attempts"]:
                assert (attempt.pop("answerHeaders"), attempt.pop("answerHeadersLeftOut")) == ([], 0)
        assert rows == json.loads((where / "deliveries.json").read_text())
        sandbox.receiver("late").answers([Reply(200, headers={"X-Late": "yes"})])
        sandbox.run()
        last = listed(sandbox.ask, "/sandbox/v1/deliveries")[0]["attempts"][-1]
        assert last["answerHeaders"] == [["x-late", "yes"]]


# Later, and chosen ones


def test_a_callback_is_scheduled_ahead(sandbox: Sandbox, tmp_path: Path) -> None:
    def due(box: Sandbox) -> list[tuple[str, str, str]]:
        return [(one["at"], one["kind"], one["id"]) for one in box.ask("GET", "/sandbox/v1/clock/due")["data"]]

    with Sandbox(seed=7, data=tmp_path) as kept:
        delivery = only_delivery(kept, paid(kept))
        path = f"/sandbox/v1/deliveries/{delivery['id']}/replay"
        again = kept.ask("POST", path, {"at": "2030-01-01T02:00:00Z"})
        assert (again["status"], again["dueAt"], again["replayedFrom"]) == ("pending", "2030-01-01T02:00:00.000Z", 1)
        kept.ask("POST", path, {"delay": "1h"})
        planned = due(kept)
        [(at, *event)] = planned
        assert (at, event) == (
            kept.ask("GET", f"/sandbox/v1/deliveries/{delivery['id']}")["dueAt"],
            ["callback", delivery["id"]],
        )
    with Sandbox(seed=7, data=tmp_path) as kept:
        assert due(kept) == planned
        kept.advance("59m")
        assert len(kept.receiver("shop").inbox) == 1
        kept.advance("1m")
        assert [post.webhook_id for post in kept.receiver("shop").inbox] == [delivery["id"]] * 2
        assert only_delivery(kept, delivery["chargeId"])["attempts"][1]["at"] == at


def test_a_time_that_is_not_possible_is_refused(sandbox: Sandbox) -> None:
    delivery = only_delivery(sandbox, paid(sandbox))
    for path in (f"deliveries/{delivery['id']}/replay", "deliveries/replay"):
        for body, match in (
            ({"at": "1999-01-01T00:00:00Z"}, "at"),
            ({"at": "2030-01-01T00:00:00Z"}, "give a later instant"),
            ({"at": "2031-01-01T00:00:00Z", "delay": 5}, "give one of them"),
            ({"delay": "soon"}, "/delay"),
        ):
            with pytest.raises(ApiError, match=match):
                sandbox.ask("POST", f"/sandbox/v1/{path}", body)
    assert only_delivery(sandbox, delivery["chargeId"]) == delivery


def test_chosen_deliveries_are_sent_again_together_or_not_at_all(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([200, 200, 200, "timeout"])
    one, two, other = (only_delivery(sandbox, paid(sandbox)) for _ in range(3))
    sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK, expiresIn=1)
    sandbox.advance("1s")
    in_flight = listed(sandbox.ask, "/sandbox/v1/deliveries")[0]
    for ids, pointer in (([one["id"], "msg_0"], "msg_0"), ([in_flight["id"], one["id"]], in_flight["id"])):
        with pytest.raises(ApiError, match=pointer):
            sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"ids": ids})
    for body in ({"ids": [one["id"]], "status": "delivered"}, {"ids": []}, {"ids": [one["id"]] * 2}):
        with pytest.raises(ApiError, match="ids"):
            sandbox.ask("POST", "/sandbox/v1/deliveries/replay", body)
    assert len(sandbox.receiver("shop").inbox) == 4

    chosen = [two["id"], one["id"]]
    answer = sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"ids": chosen, "delay": "1m"})
    assert answer == {"replayed": 2, "ids": chosen}
    sandbox.advance("1m")
    again = [post.webhook_id for post in sandbox.receiver("shop").inbox if post.repeated and post.webhook_id in chosen]
    assert again == chosen
    assert len(only_delivery(sandbox, other["chargeId"])["attempts"]) == 1


def test_those_that_match_a_filter_are_sent_again_later(sandbox: Sandbox) -> None:
    one, two = paid(sandbox), paid(sandbox)
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"status": "delivered", "delay": 60})["replayed"] == 2
    assert {only_delivery(sandbox, charge)["status"] for charge in (one, two)} == {"pending"}
    sandbox.run()
    assert [len(only_delivery(sandbox, charge)["attempts"]) for charge in (one, two)] == [2, 2]


@pytest.mark.parametrize("is_served", [False, True])
def test_python_sends_callbacks_again_now_and_later(sandbox: Sandbox, is_served: bool) -> None:
    url = sandbox.serve() if is_served else ""
    created = {"id": "", "name": None, "url": url, "serverUrl": url, "apiKey": "leyden", "webhookSecret": "", "seed": 7}
    box: DeliveryReplays = HttpSandbox(created) if is_served else sandbox
    charges = [paid(sandbox), paid(sandbox)]
    ids = [only_delivery(sandbox, charge)["id"] for charge in charges]
    at = datetime(2030, 1, 1, 15, tzinfo=UTC)
    for when in (at, "2030-01-01T15:00:00Z", round(at.timestamp() * 1_000)):
        assert box.replay_delivery(ids[0], at=when)["dueAt"] == "2030-01-01T15:00:00.000Z"
    assert box.replay_deliveries(ids, delay=timedelta(hours=1)) == {"replayed": 2, "ids": ids}
    assert box.replay_deliveries(charge=charges[0], status="pending", delay="1m")["ids"] == ids[:1]
    sandbox.run("61s")
    assert [len(only_delivery(sandbox, charge)["attempts"]) for charge in charges] == [2, 1]
    with pytest.raises(ApiError, match="msg_0"):
        box.replay_deliveries([*ids, "msg_0"])
    with pytest.raises(ApiError, match="404"):
        box.replay_delivery("a/b")


def test_a_wait_runs_what_the_clock_of_a_created_sandbox_reaches(leyden_server: LiveServer) -> None:
    """The server of the fixture runs events with requests only: here the only requests are waits."""
    with create_sandbox(leyden_server.server_url, rate=20) as box:
        charges = [
            box.charges.create(amount="1000", description="", callbackUrl="http://shop.localhost/x", expiresIn=life_s)
            for life_s in (600, 10)
        ]
        box.wallet("ana").pay(charges[0], delay=5)
        for charge in charges:
            assert box.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge.id, "timeout": 5})["reached"]
        assert [charge.status for charge in charges] == ["completed", "expired"]


def test_a_wait_without_a_timeout_runs_what_the_clock_has_reached(leyden_server: LiveServer) -> None:
    with create_sandbox(leyden_server.server_url, rate=1_000) as box:
        url = "http://shop.localhost/x"
        charge = box.charges.create(amount="1000", description="", callbackUrl=url, expiresIn=1)
        time.sleep(0.01)
        assert box.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge.id, "timeout": 0})["reached"]
