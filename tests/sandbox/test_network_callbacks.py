"""Callbacks to addresses outside the sandbox: they are sent for real where the egress policy allows it, or blocked."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from freezegun import freeze_time
from standardwebhooks.webhooks import Webhook

from leyden import Sandbox
from leyden.callbacks.faults.kinds import KINDS as FAULTS
from leyden.callbacks.faults.kinds import RATE_LIMIT
from leyden.callbacks.mutations import CONTENT_KINDS
from leyden.errors import ActionLogError, ArgumentError, ClosedError, UnknownAttempt
from leyden.http_sandbox import HttpSandbox, create_sandbox
from leyden.pytest_plugin import LiveServer
from leyden.sandbox.resources import Charge
from tests.support.deep import sampled
from tests.support.lists import listed
from tests.support.receivers import RECEIVERS, Got, Hook, on_fastapi, threaded
from tests.support.transport_helpers import sockets_watched

NOBODY = "http://127.0.0.1:9/hook"


def paid(sandbox: Sandbox, url: str) -> Charge:
    """A Charge with this callback URL whose payment is scheduled."""
    charge: Charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url)
    sandbox.wallet("ana").pay(charge)
    return charge


def deliveries(sandbox: Sandbox) -> list[dict[str, Any]]:
    """Oldest first."""
    found: list[dict[str, Any]] = listed(sandbox.ask, "/sandbox/v1/deliveries")[::-1]
    return found


def results(sandbox: Sandbox) -> list[tuple[str, list[Any]]]:
    """The status of each delivery, and the status or the error of each attempt."""
    return [
        (one["status"], [attempt["status"] or attempt["error"] for attempt in one["attempts"]])
        for one in deliveries(sandbox)
    ]


def closed_while_a_receiver_hangs() -> tuple[Sandbox, BaseException | None]:
    """A sandbox that was closed before a receiver answered, and the error of its run, which ended before the receiver
    did."""
    arrived, released = threading.Event(), threading.Event()

    def hanging(got: Got) -> int:
        arrived.set()
        released.wait(30)
        return 200

    with threaded(hanging) as hook:
        sandbox = Sandbox(egress="loopback")
        paid(sandbox, hook.url)
        with ThreadPoolExecutor() as pool:
            run = pool.submit(sandbox.run)
            assert arrived.wait(10)
            sandbox.close()
            try:
                return sandbox, run.exception(10)
            finally:
                released.set()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with threaded() as one:
        yield one


# What is called delivered was received


@pytest.mark.parametrize("make", RECEIVERS)
def test_a_real_receiver_of_any_make_gets_the_callback_once_and_can_verify_it(make: str) -> None:
    with RECEIVERS[make]() as hook, Sandbox(egress="loopback") as sandbox:
        charge = paid(sandbox, hook.url)
        sandbox.run()
        assert results(sandbox)[0][0] == "delivered"
        assert [got.json["id"] for got in hook.inbox] == [charge.id]
        [got] = hook.inbox
        secret = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["current"]
        Webhook(secret).verify(got.body, got.headers)  # compares the timestamp with this machine's clock


@pytest.mark.parametrize("make", RECEIVERS)
def test_the_fixture_leyden_server_posts_to_a_receiver_of_this_machine(make: str, leyden_server: LiveServer) -> None:
    with RECEIVERS[make]() as hook:
        charge = paid(leyden_server.sandbox, hook.url)
        leyden_server.sandbox.run()
        assert [got.json["id"] for got in hook.inbox] == [charge.id]
        assert results(leyden_server.sandbox)[0][0] == "delivered"


def test_a_served_sandbox_posts_to_this_machine_and_never_to_itself(hook: Hook) -> None:
    with Sandbox() as sandbox:
        url = sandbox.serve()
        for target in (hook.url, f"{url}/v0/charges", "http://10.1.2.3/hook"):
            paid(sandbox, target)
        sandbox.run()
        assert len(hook.inbox) == 1
        assert results(sandbox) == [("delivered", [200]), ("blocked", ["blocked"]), ("blocked", ["blocked"])]
        notes = [one["attempts"][0]["note"].partition(":")[0] for one in deliveries(sandbox)]
        assert notes == ["", "own-listener", "loopback-only"]


@pytest.mark.parametrize("host", ["127.0.0.1:1080", "localhost:1080", "shop.example", "10.0.0.1", "localhost.example"])
def test_an_in_process_sandbox_sends_nothing_and_says_so(host: str) -> None:
    with Sandbox() as sandbox, sockets_watched() as seen:
        charge = paid(sandbox, f"http://{host}/hook")
        assert "callbacks blocked: egress-none" in repr(charge)
        assert "callbacks" in charge._repr_html_()
        sandbox.run()
        [delivery] = deliveries(sandbox)
        [attempt] = delivery["attempts"]
        assert (delivery["status"], attempt["error"]) == ("blocked", "blocked")
        assert attempt["note"].startswith("egress-none: nothing may be sent to ")
        assert "set_egress" in attempt["note"]
        assert seen == []


@pytest.mark.parametrize("name", ["shop", "a.b", "SHOP", "inbox"])
def test_names_below_localhost_are_built_in_receivers_whatever_is_allowed(name: str) -> None:
    with Sandbox(egress="loopback") as sandbox, sockets_watched() as seen:
        charge = paid(sandbox, f"http://{name}.localhost:3000/hook")
        assert "blocked" not in repr(charge)
        sandbox.run()
        assert results(sandbox) == [("delivered", [200])]
        assert len(sandbox.receiver(name).inbox) == 1
        assert seen == []


def test_egress_none_holds_for_a_served_sandbox_too(hook: Hook) -> None:
    with Sandbox(egress="none") as sandbox:
        sandbox.serve()
        paid(sandbox, hook.url)
        sandbox.run()
        assert (results(sandbox), hook.inbox) == ([("blocked", ["blocked"])], [])


def test_a_network_can_be_allowed_besides_the_mode(hook: Hook) -> None:
    with Sandbox(egress="none", egress_allow=["127.0.0.0/8"]) as sandbox:
        paid(sandbox, hook.url)
        sandbox.run()
        assert (results(sandbox), len(hook.inbox)) == ([("delivered", [200])], 1)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"egress": "lan"}, ValueError, "loopback, public, none"),
        ({"egress_allow": ["10.0.0.0/99"]}, ValueError, "10.0.0.0/99"),
        ({"egress_allow": "10.0.0.0/8"}, TypeError, r'write egress_allow=\["10.0.0.0/8"\]|write egress_allow='),
    ],
)
def test_a_wrong_policy_is_refused(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Sandbox(**wrong)


# Time


def test_a_retry_is_posted_at_its_instant_of_virtual_time() -> None:
    statuses = [500, 500, 200]
    with threaded(lambda got: statuses.pop(0)) as hook, Sandbox(egress="loopback") as sandbox:
        paid(sandbox, hook.url)
        sandbox.run("3s")
        assert (results(sandbox), len(hook.inbox)) == ([("pending", [500])], 1)
        sandbox.run()
        assert results(sandbox) == [("delivered", [500, 500, 200])]
        assert len({got.headers["webhook-id"] for got in hook.inbox}) == 1
        assert [got.headers["leyden-attempt"] for got in hook.inbox] == ["1", "2", "3"]
        [first, second, third] = [got.headers["leyden-time"] for got in hook.inbox]
        assert first == "2030-01-01T00:00:00.000Z"
        assert "2030-01-01T00:00:04" <= second <= "2030-01-01T00:00:06.001"
        assert "2030-01-01T00:04" <= third <= "2030-01-01T00:06:07"


def test_both_times_of_an_attempt_are_recorded(hook: Hook) -> None:
    with Sandbox(egress="loopback", start="2030-01-01T09:00Z") as sandbox:
        for url in (hook.url, "http://shop.localhost/hook"):
            paid(sandbox, url)
        sandbox.run()
        [real], [virtual] = [one["attempts"] for one in deliveries(sandbox)]
        virtual_s = int(datetime(2030, 1, 1, 9, tzinfo=UTC).timestamp())
        assert real["at"] == virtual["at"] == "2030-01-01T09:00:00.000Z"
        assert int(virtual["headers"]["webhook-timestamp"]) == virtual_s
        assert abs(int(real["headers"]["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 300


def test_one_step_includes_the_response(hook: Hook) -> None:
    with Sandbox(egress="loopback") as sandbox:
        paid(sandbox, hook.url)
        while not hook.inbox:
            assert sandbox.step() is not None
        assert results(sandbox) == [("delivered", [200])]


def test_callbacks_of_one_instant_are_in_flight_together_and_recorded_in_order() -> None:
    meeting = threading.Barrier(4, timeout=20)

    def together(got: Got) -> int:
        meeting.wait()
        return 200

    def answered(sandbox: Sandbox) -> list[str]:
        return [entry.subject for entry in sandbox.world.journal.entries(kind="callback_answered")]

    with threaded(together) as hook, Sandbox(egress="loopback") as sandbox:
        for _ in range(4):
            paid(sandbox, hook.url)
        sandbox.run()
        assert results(sandbox) == [("delivered", [200])] * 4
        assert answered(sandbox) == [one["id"] for one in deliveries(sandbox)]


def test_a_receiver_may_read_the_charge_before_it_answers(leyden_server: LiveServer) -> None:
    seen: list[str] = []

    def reading(got: Got) -> int:
        request = Request(f"{leyden_server}/v0/charges/{got.json['id']}", headers={"apikey": leyden_server.api_key})
        with urlopen(request, timeout=10) as answer:
            seen.append(json.load(answer)["data"]["status"])
        return 200

    with threaded(reading) as hook:
        paid(leyden_server.sandbox, hook.url)
        leyden_server.sandbox.run()
    assert seen == ["completed"]
    assert results(leyden_server.sandbox) == [("delivered", [200])]


@pytest.mark.parametrize("over_http", [False, True])
def test_time_that_is_moved_by_a_request_waits_for_the_response(over_http: bool, leyden_server: LiveServer) -> None:
    sandbox = leyden_server.sandbox
    with on_fastapi() as hook:
        paid(sandbox, hook.url)
        if over_http:
            headers = {"apikey": leyden_server.api_key, "content-type": "application/json"}
            request = Request(f"{leyden_server}/sandbox/v1/clock/advance", b'{"by": "10s"}', headers)
            with urlopen(request, timeout=10) as answer:
                assert answer.status == 200
        else:
            sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "10s"})
        assert (results(sandbox), len(hook.inbox)) == ([("delivered", [204])], 1)


def test_a_payment_over_http_is_followed_by_its_callback_without_moving_time(leyden_server: LiveServer) -> None:
    with threaded() as hook:
        charge = leyden_server.sandbox.charges.create(amount="1000", description="tea", callbackUrl=hook.url)
        headers = {"apikey": leyden_server.api_key, "content-type": "application/json"}
        body = json.dumps({"request": charge.request}).encode()
        with urlopen(Request(f"{leyden_server}/sandbox/v1/payments", body, headers), timeout=10) as answer:
            assert answer.status == 200
        wait = json.dumps({"count": 1, "chargeId": charge.id, "status": "delivered", "timeout": 5}).encode()
        with urlopen(Request(f"{leyden_server}/sandbox/v1/deliveries/wait", wait, headers), timeout=10) as answer:
            assert json.load(answer)["reached"]
        assert len(hook.inbox) == 1


def test_a_sandbox_on_the_process_clock_posts_too(hook: Hook) -> None:
    with freeze_time("2030-01-01 09:00") as frozen, Sandbox(clock="process", egress="loopback") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=hook.url, expiresIn=60)
        frozen.tick(60)
        sandbox.run()
        assert charge.status == "expired"
        assert [got.json["status"] for got in hook.inbox] == ["expired"]
        assert results(sandbox) == [("delivered", [200])]


def test_a_sandbox_that_is_closed_leaves_a_receiver_that_hangs() -> None:
    _, error = closed_while_a_receiver_hangs()
    assert isinstance(error, ClosedError)


@pytest.mark.parametrize("served", [False, True])
def test_a_callback_in_flight_keeps_its_response_and_its_instant_when_the_egress_is_closed(served: bool) -> None:
    arrived, released = threading.Event(), threading.Event()

    def slow(got: Got) -> int:
        arrived.set()
        released.wait(30)
        return 200

    with threaded(slow) as hook, Sandbox(egress="loopback") as sandbox:
        if served:
            sandbox.serve()
        for seconds in (5, 7):
            sandbox.charges.create(amount="1000", description="tea", callbackUrl=hook.url, expiresIn=seconds)
        moving = threading.Thread(target=sandbox.advance, args=["10s"], daemon=True)
        moving.start()
        assert arrived.wait(10)
        sandbox.set_egress("none")
        moving.join(1)  # longer than the world waits before it looks at its network again
        assert moving.is_alive(), "time passed a callback that had no response"
        assert "blocked" in repr(sandbox.charges)
        released.set()
        moving.join(10)
        assert results(sandbox) == [("delivered", [200]), ("blocked", ["blocked"])]
        [[first], [second]] = [one["attempts"] for one in deliveries(sandbox)]
        assert (first["dueAt"], second["dueAt"]) == (first["answeredAt"], second["answeredAt"])
        assert "egress-none" in second["note"]
        assert len(hook.inbox) == 1
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        assert names["sb"].journal_hash == sandbox.journal_hash


# Forks, snapshots and scripts


def after_one_failure(sandbox: Sandbox, hook: Hook) -> None:
    paid(sandbox, hook.url)
    sandbox.run("1s")
    assert results(sandbox) == [("pending", [500])]
    assert len(hook.inbox) == 1


Copy = Callable[[Sandbox, Path], Sandbox]
COPIES: dict[str, Copy] = {
    "fork": lambda sandbox, path: sandbox.fork(),
    "snapshot": lambda sandbox, path: Sandbox.from_snapshot(sandbox.snapshot()),
    "file": lambda sandbox, path: Sandbox.load(sandbox.save(path / "saved.json")),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_has_the_recorded_responses_and_posts_nothing(how: str, tmp_path: Path) -> None:
    statuses = [500, 200]
    with threaded(lambda got: statuses.pop(0)) as hook, Sandbox(egress="loopback") as sandbox:
        after_one_failure(sandbox, hook)
        with COPIES[how](sandbox, tmp_path) as copy:
            assert copy.journal_hash == sandbox.journal_hash
            assert results(copy) == [("pending", [500])]
            copy.run()
            assert results(copy) == [("blocked", [500, "blocked"])]
            assert len(hook.inbox) == 1
        sandbox.run()
        assert (results(sandbox), len(hook.inbox)) == ([("delivered", [500, 200])], 2)


@pytest.mark.parametrize("how", [*COPIES, "script"])
@pytest.mark.parametrize("when", ["before the first attempt", "before a retry"])
def test_a_served_copy_posts_nothing_before_set_egress(how: str, when: str, tmp_path: Path) -> None:
    with threaded(lambda got: 500) as hook, Sandbox() as sandbox:
        if when == "before a retry":
            sandbox.set_egress("loopback")
            after_one_failure(sandbox, hook)
        else:
            paid(sandbox, hook.url)
        count = len(hook.inbox)
        with repeated(sandbox) if how == "script" else COPIES[how](sandbox, tmp_path) as copy:
            copy.serve()
            copy.advance("10s")
            [(status, attempts)] = results(copy)
            assert (status, attempts[-1], len(hook.inbox)) == ("blocked", "blocked", count)
            [delivery] = deliveries(copy)
            assert 'call set_egress("loopback") and replay this delivery' in delivery["attempts"][-1]["note"]
            copy.set_egress("loopback").advance("100h")
            assert len(hook.inbox) == count
            copy.replay_delivery(delivery["id"])
            copy.advance("1s")
            assert len(hook.inbox) == count + 1


def test_a_script_without_a_url_outside_says_nothing_of_the_network() -> None:
    with Sandbox() as sandbox:
        paid(sandbox, "http://shop.localhost/hook")
        assert "egress" not in sandbox.script()
        sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="", callbackUrl=NOBODY)
        assert sandbox.script().endswith('sb.set_egress("none")\n')


def result_of_a_payment(box: HttpSandbox, hook: Hook) -> list[str]:
    """The latest status of a callback to this receiver from a sandbox on a server."""
    box.wallet("ana").pay(box.charges.create(amount="1000", description="tea", callbackUrl=hook.url))
    box.advance("1s")
    return [str(one["status"]) for one in box.deliveries()][-1:]


def test_the_sandboxes_on_a_server_follow_the_egress_of_its_sandbox(hook: Hook) -> None:
    with Sandbox(egress="none") as sandbox, create_sandbox(sandbox.serve()) as first:
        assert result_of_a_payment(first, hook) == ["blocked"]
        sandbox.set_egress("loopback")
        assert result_of_a_payment(first, hook) == ["delivered"]
        with create_sandbox(sandbox.serve()) as second:
            assert result_of_a_payment(second, hook) == ["delivered"]
            sandbox.set_egress("none")
            with create_sandbox(sandbox.serve()) as third, second.fork(egress="server") as fork:
                assert [result_of_a_payment(one, hook) for one in (first, second, third, fork)] == [["blocked"]] * 4
        assert len(hook.inbox) == 2


def test_a_fork_posts_what_is_due_later_when_it_is_asked_to() -> None:
    statuses = [500, 200]
    with threaded(lambda got: statuses.pop(0)) as hook, Sandbox(egress="loopback") as sandbox:
        after_one_failure(sandbox, hook)
        with sandbox.fork().set_egress("loopback") as fork:
            fork.run()
            assert (results(fork), len(hook.inbox)) == ([("delivered", [500, 200])], 2)


def test_a_restored_sandbox_posts_again_what_it_does_again(hook: Hook) -> None:
    with Sandbox(egress="loopback") as sandbox:
        before = sandbox.snapshot()
        ids = []
        for _ in range(2):
            ids.append(paid(sandbox, hook.url).id)
            sandbox.run()
            sandbox.restore(before)
        assert [got.json["id"] for got in hook.inbox] == ids
        assert ids[0] == ids[1]


def test_a_reset_sandbox_still_posts(hook: Hook) -> None:
    with Sandbox(egress="loopback") as sandbox:
        sandbox.ask("POST", "/sandbox/v1/reset", {})
        paid(sandbox, hook.url)
        sandbox.run()
        assert (results(sandbox), len(hook.inbox)) == ([("delivered", [200])], 1)


def test_a_receivers_speed_changes_nothing() -> None:
    hashes = set()
    pauses = [0, 0, 0.05, 0.05]

    def answer(got: Got) -> int:
        time.sleep(pauses.pop(0))
        return 500 if got.headers["leyden-attempt"] == "1" else 200

    with threaded(answer) as hook:
        for _ in range(2):
            with Sandbox(egress="loopback") as sandbox:
                paid(sandbox, hook.url)
                sandbox.run()
                hashes.add(sandbox.journal_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize("served", [False, True])
def test_a_script_repeats_the_responses_and_posts_nothing(served: bool) -> None:
    statuses = [429, 410, 200, 503, 200]

    def answer(got: Got) -> tuple[int, dict[str, str]]:
        if served and len(statuses) > 3:
            with urlopen(Request(f"{url[0]}/v0/charges", headers={"apikey": "leyden"}), timeout=10) as response:
                assert response.status == 200
        status = statuses.pop(0)
        after = {429: formatdate(time.time() + 8, usegmt=True), 503: "Thu, 01 Jan 2099 00:00:00 GMT"}.get(status)
        return status, {"retry-after": after} if after else {}

    url: list[str] = []
    with threaded(answer) as hook, Sandbox(egress="loopback") as sandbox:
        if served:
            url.append(sandbox.serve())
        paid(sandbox, hook.url)
        sandbox.step()
        sandbox.step()
        sandbox.run()
        paid(sandbox, hook.url)
        sandbox.run("1h")
        paid(sandbox, hook.url)
        paid(sandbox, "http://10.0.0.1/hook")
        sandbox.run("next_event")
        sandbox.run()
        count = len(hook.inbox)
        program = sandbox.script()
        assert 'egress="recorded"' in program
        names: dict[str, Any] = {}
        exec(program, names)
        again: Sandbox = names["sb"]
        assert again.journal_hash == sandbox.journal_hash
        assert again.now == sandbox.now
        for one in deliveries(sandbox):
            path = f"/sandbox/v1/deliveries/{one['id']}"
            assert again.ask("GET", path) == sandbox.ask("GET", path)  # with the notes and headers of attempts
        assert results(again) == results(sandbox)
        assert (count, len(hook.inbox)) == (5, 5)


def test_the_script_of_a_reseeded_fork_repeats_its_responses(hook: Hook) -> None:
    with Sandbox(egress="loopback") as sandbox:
        paid(sandbox, hook.url)
        sandbox.run()
        with sandbox.fork(reseed=3).set_egress("loopback") as fork:
            paid(fork, hook.url)
            fork.run()
            names: dict[str, Any] = {}
            exec(fork.script(), names)
            assert names["sb"].journal_hash == fork.journal_hash
            assert len(hook.inbox) == 2


def repeated(sandbox: Sandbox) -> Sandbox:
    """The sandbox that the script creates."""
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    again: Sandbox = names["sb"]
    assert again.journal_hash == sandbox.journal_hash
    return again


@pytest.mark.parametrize("kind", sampled(sorted({*FAULTS} - {RATE_LIMIT}), 5))
def test_the_journal_hash_does_not_depend_on_the_real_time_and_the_secret_of_changed_callbacks_and_copies(
    hook: Hook, kind: str
) -> None:
    """Both runs, and the script of the first, on different days of real time; the runs with different secrets."""
    hashes, signed = [], set()

    def finished(day: str) -> Sandbox:
        with freeze_time(f"2031-01-{day}T00:00:00Z", tick=True):
            sandbox = Sandbox(seed=4, egress="loopback", webhook_secret=f"whsec_{day * 16}")
            if kind == "old_secret":
                sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate")
            sandbox.faults.add(kind, count=2 if kind == "burst" else 1)
            paid(sandbox, hook.url)
            sandbox.run()
        for entry in sandbox.world.journal.entries():
            for sent in [entry.facts, *entry.facts.get("sent", ())]:
                signed.add(sent.get("headers", {}).get("webhook-timestamp"))
        hashes.append(sandbox.journal_hash)
        return sandbox

    with finished("01") as first, finished("20"):
        hashes.append(repeated(first).journal_hash)
        assert len(set(hashes)) == 1
    if kind in ("bad_signature", "duplicate", "stale_timestamp"):
        assert len(signed - {None}) == 2  # the entries have them


@pytest.mark.parametrize("kind", sampled(sorted(CONTENT_KINDS), 5))
def test_a_scripts_sandbox_has_the_changed_messages_as_they_were_sent(hook: Hook, kind: str) -> None:
    """To the byte: timestamp, signature, and what the fault has changed."""
    with Sandbox(seed=4, egress="loopback") as sandbox:
        if kind == "old_secret":
            sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate")
        sandbox.faults.add(kind)
        paid(sandbox, hook.url)
        sandbox.run()
        [got] = hook.inbox
        again = repeated(sandbox)
        assert repeated(again).script() == again.script() == sandbox.script()
        of_run, of_script = (deliveries(one) for one in (sandbox, again))
        [sent] = of_script[0]["attempts"][0]["sent"]
        assert sent["body"].encode() == got.body
        assert sent["headers"].items() <= got.headers.items()
        assert of_script == of_run


def test_what_a_scripts_sandbox_does_after_the_recording_is_blocked() -> None:
    statuses = [500]
    with threaded(lambda got: statuses.pop(0)) as hook, Sandbox(egress="loopback") as sandbox:
        after_one_failure(sandbox, hook)
        again = repeated(sandbox)
        assert repeated(again).script() == again.script() == sandbox.script()
        again.run()
        assert results(again) == [("blocked", [500, "blocked"])]
        assert "set_egress" in deliveries(again)[0]["attempts"][-1]["note"]
        for _ in range(60):
            paid(again, hook.url)
        paid(again, "http://shop.localhost/hook")
        again.run()
        assert len(again.receiver("shop").inbox) == 1
        assert {status for status, _ in results(again)} == {"blocked", "delivered"}
        assert len(hook.inbox) == 1
        repeated(again)


def test_a_scripts_sandbox_posts_what_is_due_after_set_egress() -> None:
    statuses = [500, 200, 200]
    with threaded(lambda got: statuses.pop(0)) as hook, Sandbox(egress="loopback") as sandbox:
        after_one_failure(sandbox, hook)
        with repeated(sandbox).set_egress("loopback") as again:
            paid(again, hook.url)
            again.run()
            assert (results(again), len(hook.inbox)) == ([("delivered", [500, 200]), ("delivered", [200])], 3)
            repeated(again)


def test_an_attempt_without_a_recorded_response_is_blocked_when_another_egress_follows(hook: Hook) -> None:
    with Sandbox(egress="recorded") as sandbox:
        paid(sandbox, hook.url)
        sandbox.run()
        assert results(sandbox) == [("pending", [None])]
        sandbox.set_egress("loopback")
        assert results(sandbox) == [("blocked", ["blocked"])]
        paid(sandbox, hook.url)
        sandbox.run()
        assert (results(sandbox)[1], len(hook.inbox)) == (("delivered", [200]), 1)
        repeated(sandbox)


def test_the_script_of_a_sandbox_that_was_closed_while_a_receiver_answered_is_refused() -> None:
    sandbox, _ = closed_while_a_receiver_hangs()
    with pytest.raises(ClosedError):
        sandbox.script()


MOVES: dict[str, Callable[[Sandbox], object]] = {
    "run": lambda sandbox: sandbox.run(),
    "advance": lambda sandbox: sandbox.advance("1m"),
    "fork": lambda sandbox: sandbox.fork(),
    "script": lambda sandbox: sandbox.script(),
}


@pytest.mark.parametrize("how", MOVES)
def test_a_receiver_that_moves_time_before_it_answers_is_refused_at_once(how: str) -> None:
    errors: list[Exception] = []

    def moving(got: Got) -> int:
        sandbox.charges.create(amount="1000", description="meanwhile")
        try:
            MOVES[how](sandbox)
        except Exception as error:
            errors.append(error)
        return 200

    with threaded(moving) as hook, Sandbox(egress="loopback") as sandbox:
        charge = paid(sandbox, hook.url)
        sandbox.run("1s")
        assert results(sandbox) == [("delivered", [200])]
        assert (charge.status, len(sandbox.charges.table)) == ("completed", 2)
        assert ["after the receiver has answered" in str(error) for error in errors] == [True]
        repeated(sandbox)


def test_a_run_whose_clock_is_moved_over_http_between_responses_has_no_script(leyden_server: LiveServer) -> None:
    with threaded() as hook:
        paid(leyden_server.sandbox, hook.url)
        leyden_server.sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "10s"})
    with pytest.raises(ActionLogError, match="moved by a request"):
        leyden_server.sandbox.script()


def test_a_recorded_response_belongs_to_an_attempt() -> None:
    with Sandbox(egress="recorded") as sandbox, pytest.raises(UnknownAttempt, match="no attempt 1"):
        sandbox.session.respond("00000000-0000-4000-8000-000000000000", 1, status=200)
    with Sandbox() as sandbox, pytest.raises(UnknownAttempt, match="only a sandbox with egress='recorded'"):
        sandbox.session.respond("1", 1, error="timeout")


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({}, "either a status or an error"),
        ({"status": 200, "error": "timeout"}, "either a status or an error"),
        ({"status": 99}, "status=99"),
        ({"status": math.nan}, "status=nan"),
        ({"error": b"timeout"}, "error="),
        ({"status": 200, "body": "\u0100"}, "body="),
        ({"status": 200, "body": None}, "body=None"),
        ({"status": 200, "headers": "x"}, "headers="),
        ({"status": 200, "headers": {1: "x"}}, "headers=1"),
        ({"status": 200, "latency_ms": -1}, "latency_ms=-1"),
        ({"status": 200, "time_s": 10**400}, "time_s="),
        ({"status": 200, "note": 5}, "note=5"),
        ({"status": 200, "copy": 5}, "copy=5"),
        ({"status": 200, "attempt": 0}, "attempt=0"),
        ({"status": 200, "signed": "x"}, "signed='x' are no such headers"),
        ({"status": 200, "signed": {"host": "x"}}, "give a dict of webhook-timestamp and webhook-signature"),
        ({"status": 200, "signed": {"webhook-timestamp": 5}}, "signed=5"),
        ({"status": 200, "delivery_id": None}, "delivery_id=None"),
    ],
)
def test_a_recorded_response_that_no_receiver_gives_is_refused(named: dict[str, Any], words: str) -> None:
    with Sandbox(egress="recorded") as sandbox, pytest.raises(ArgumentError, match=re.escape(words)):
        sandbox.session.respond(**{"delivery_id": "1", "attempt": 1, **named})


def test_the_note_of_a_sandbox_beside_names_the_sandbox_that_serves_it() -> None:
    with (
        threaded(lambda got: 200) as hook,
        Sandbox(seed=6, egress="none") as server,
        create_sandbox(server.serve(), seed=7) as box,
    ):
        made = box.charges.create(amount="1000", description="tea", callbackUrl=hook.url)
        box.wallet("ana").pay(made)
        box.run("1s")
        [delivery] = box.ask("GET", "/sandbox/v1/deliveries")["data"]
        note = delivery["attempts"][0]["note"]
        call = 'call set_egress("loopback") of its Sandbox and replay this delivery'
        assert note.endswith(f"in the program that serves this sandbox, {call}")
        with pytest.raises(AttributeError, match=re.escape("follows set_egress() of that Sandbox, in its program")):
            _ = box.set_egress
        server.set_egress("loopback")
        box.replay_delivery(delivery["id"])
        box.run("1s")
        assert len(hook.inbox) == 1


def test_following_the_note_of_a_blocked_callback_keeps_the_networks_that_were_allowed() -> None:
    with threaded(lambda got: 200) as hook, Sandbox(seed=50, egress="none", egress_allow=["127.0.0.0/8"]) as sandbox:
        paid(sandbox, "http://10.9.9.9:8000/x")
        sandbox.run("1s")
        note = deliveries(sandbox)[0]["attempts"][0]["note"]
        call = 'set_egress(egress_allow=["127.0.0.0/8", "10.0.0.0/8"])'
        assert f"call {call} and replay this delivery; for a new sandbox, pass" in note
        sandbox.set_egress(egress_allow=["127.0.0.0/8", "10.0.0.0/8"])
        paid(sandbox, hook.url)
        sandbox.run("1s")
        assert results(sandbox)[-1] == ("delivered", [200])
