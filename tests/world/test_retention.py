"""A sandbox with a bound removes what ended longest ago, says so, and keeps what is pending."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leyden.devserver.control.handlers import control_handlers
from leyden.server.errors import StorageUnavailable
from leyden.server.store.store import Store
from leyden.server.version import VERSION
from leyden.world.config import world_config
from leyden.world.removal import retention
from leyden.world.snapshots.snapshots import dump_world, fork_world, restore_world
from leyden.world.world import World

KEEP = 3
HOOK = "http://shop.localhost/hook"


class Kept:
    """A world with a bound, used as its users do: by requests."""

    def __init__(self, store: Store, keep: int | None = KEEP, network: str = "direct") -> None:
        config = world_config(seed=3, start_ms=1_893_456_000_000, network=network)
        config = replace(config, keep=keep, keep_ended=keep)
        self.world = World(config, store, control_handlers=control_handlers)

    def ask(self, method: str, path: str, body: object = None, status: int = 200, key: str = "") -> Any:
        headers: tuple[tuple[bytes, bytes], ...] = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
        if key:
            headers += ((b"idempotency-key", key.encode()),)
        response = self.world.request(method, path, headers, b"" if body is None else json.dumps(body).encode())
        assert response.status == status, response.body
        self.headers = {name.decode(): value.decode() for name, value in response.headers}
        return json.loads(response.body)

    def charge(self, **fields: object) -> Mapping[str, Any]:
        body = {"amount": "250000", "description": "coffee", "callbackUrl": HOOK, **fields}
        return self.ask("POST", "/v0/charges", body)["data"]

    def paid(self) -> str:
        charge = self.charge()
        self.ask("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        self.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
        return str(charge["id"])

    def fail(self, charge_id: str) -> None:
        """Let the invoice fail; the callback is delivered at once."""
        self.ask("POST", f"/sandbox/v1/charges/{charge_id}/fail", {})
        self.ask("POST", "/sandbox/v1/clock/advance", {"by": "1ms"})

    def rows(self, name: str) -> int:
        return len(self.world.store.table_data(name).rows)


def test_what_ended_beyond_the_bound_is_removed_and_the_answers_say_so() -> None:
    kept = Kept(Store.memory())
    pending = kept.charge(expiresIn=2_000_000)["id"]
    before = kept.ask("GET", "/v0/charges/x", status=404)
    paid = [kept.paid() for _ in range(8)]
    for charge_id in paid[:-KEEP]:
        for path in ("/v0/charges", "/sandbox/v1/charges"):
            refused = kept.ask("GET", f"{path}/{charge_id}", status=404)
            assert refused["detail"] == f"{before['detail']}; --keep has removed some that ended"
    journal = kept.world.journal
    assert kept.world.removed.without("charges") == "without 5 that were removed from the sandbox by --keep"
    assert kept.headers["leyden-removed"].startswith("charges=5, payments=5, deliveries=5, journalEntries=")
    for charge_id in (pending, *paid[-KEEP:]):
        assert kept.ask("GET", f"/v0/charges/{charge_id}")["data"]["id"] == charge_id
    assert [kept.rows(name) for name in ("charges", "invoices", "payments", "deliveries")] == [4, 4, 3, 3]
    sandbox = kept.ask("GET", "/sandbox/v1")
    assert sandbox["keep"] == KEEP
    counts = {"charges": 5, "staticCharges": 0, "payments": 5, "deliveries": 5}
    assert sandbox["removed"] == {**counts, "journalEntries": len(journal) - KEEP}
    assert sandbox["charges"] == {"completed": 3, "pending": 1}


def test_a_payment_of_what_was_removed_says_so() -> None:
    kept = Kept(Store.memory())
    unknown = kept.charge(expiresIn=2_000_000)["invoice"]["request"]
    other = Kept(Store.memory())
    own = "this node has no invoice with this payment hash: pay the request of a Charge that the sandbox has"
    first = kept.charge()["invoice"]["request"]
    for request in (unknown, first):
        assert kept.ask("POST", "/sandbox/v1/payments", {"request": request})["status"] == "succeeded"
    for _ in range(4):
        kept.paid()
    again = kept.ask("POST", "/sandbox/v1/payments", {"request": first})
    assert (again["status"], again["reason"]) == ("failed", f"{own}; --keep has removed some that ended")
    assert other.ask("POST", "/sandbox/v1/payments", {"request": first})["reason"] == own


def test_a_wallet_that_looks_for_a_payment_request_that_was_removed_reads_so() -> None:
    kept = Kept(Store.memory())
    tips = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips"}
    static = kept.ask("POST", "/v0/static-charges", tips)["data"]
    given = kept.ask("GET", f"/lnurlp/{static['id']}/invoice?amount=1000")
    path = "/" + given["verify"].split("/", 3)[3]
    wrong = kept.ask("GET", path[:-4] + "0000")["reason"]
    assert wrong == "this payment request has no invoice with this payment hash: check both"
    kept.ask("POST", "/sandbox/v1/payments", {"request": given["pr"]})
    assert kept.ask("GET", path)["settled"] is True
    for _ in range(4):
        kept.paid()
    assert kept.ask("GET", path)["reason"] == f"{wrong}; --keep has removed some that ended"
    gone = [kept.ask("POST", "/v0/static-charges", {**tips, "expiresIn": 60})["data"]["id"] for _ in range(5)]
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
    reason = kept.ask("GET", f"/lnurlp/{gone[0]}")["reason"]
    assert reason.endswith("or ask for a new one; --keep has removed some that ended")


@pytest.mark.parametrize("network", ["direct", "hub:10"])
def test_charges_that_nobody_paid_age_out_however_they_ended(network: str) -> None:
    kept = Kept(Store.memory(), network=network)
    ended = [kept.charge(expiresIn=60)["id"] for _ in range(6)]
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "2m"})
    for _ in range(6):
        ended.append(kept.charge()["id"])
        kept.fail(ended[-1])
    held = kept.charge()
    payment = kept.ask("POST", "/sandbox/v1/payments", {"request": held["invoice"]["request"], "outcome": "hold"})
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
    kept.ask("POST", f"/sandbox/v1/payments/{payment['id']}/cancel")
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1ms"})
    ended.append(held["id"])
    assert [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]] == ended[: -KEEP - 1 : -1]
    assert kept.rows("invoices") == KEEP


def test_after_a_restart_and_after_a_failed_commit_as_many_are_kept(tmp_path: Path) -> None:
    def fail(kept: Kept, charge_id: str) -> None:
        kept.fail(charge_id)
        final = [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"] if charge["status"] != "pending"]
        assert len(final) == KEEP
        assert charge_id in final

    def refused() -> None:
        raise RuntimeError("the commit fails")

    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store)
        pending = [kept.charge()["id"] for _ in range(2)]
        for _ in range(KEEP + 1):
            kept.paid()
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store)
        fail(kept, pending[0])
        with pytest.raises(RuntimeError, match="the commit fails"), kept.world.exclusive():
            refused()
        fail(kept, pending[1])


@pytest.mark.parametrize("keep", [1, 3, 60])
def test_rows_are_removed_in_the_order_of_their_ends_whatever_restarts_come_between(keep: int, tmp_path: Path) -> None:
    """They end in another order than that of their creation, several in one instant, some twice, and commits fail."""
    draw = random.Random(keep)
    reference = Kept(Store.memory(), keep)
    store = Store.open(tmp_path)
    restarted = Kept(store, keep)

    def refused() -> None:
        raise RuntimeError("the commit fails")

    for _ in range(3):
        pending: list[str] = []
        for _ in range(2 * keep + 3):
            fields = {"expiresIn": draw.choice([60, 90, 600]), "callbackUrl": draw.choice([HOOK, None])}
            made = [kept.charge(**fields) for kept in (reference, restarted)]
            assert made[0] == made[1]
            pending.append(made[0]["id"])
        draw.shuffle(pending)
        for number, charge_id in enumerate(pending):
            if number == keep:
                with pytest.raises(RuntimeError, match="the commit fails"), restarted.world.exclusive():
                    refused()
            for kept in (reference, restarted):
                if number % 2:
                    kept.fail(charge_id)
        for kept in (reference, restarted):
            kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "61s"})
            kept.ask("POST", "/sandbox/v1/deliveries/replay", {"event": "charge.error"})
        store.close()
        store = Store.open(tmp_path)
        restarted = Kept(store, keep)
        for path in ("/v0/charges", "/sandbox/v1/deliveries", "/sandbox/v1/payments"):
            assert reference.ask("GET", f"{path}?limit=100") == restarted.ask("GET", f"{path}?limit=100")
    for _ in range(keep):
        for kept in (reference, restarted):
            kept.paid()
        assert reference.ask("GET", "/v0/charges?limit=100") == restarted.ask("GET", "/v0/charges?limit=100")
    assert restarted.rows("ended") <= 5 * (2 + keep // 50), "rows of the order itself are removed, too"
    store.close()


def test_a_callback_that_is_sent_again_counts_once_and_from_its_second_end() -> None:
    kept = Kept(Store.memory())
    paid = [kept.paid() for _ in range(KEEP)]
    [first] = kept.ask("GET", f"/sandbox/v1/deliveries?chargeId={paid[0]}")["data"]
    for _ in range(4):
        kept.ask("POST", f"/sandbox/v1/deliveries/{first['id']}/replay")
        kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
    kept.paid()
    deliveries = kept.ask("GET", "/sandbox/v1/deliveries")["data"]
    assert len(deliveries) == KEEP
    assert first["id"] in {delivery["id"] for delivery in deliveries}


@pytest.mark.parametrize("network", ["line:4", "hub:10"])
@pytest.mark.parametrize("keep", [1, 2])
def test_a_charge_stays_until_the_result_is_back_at_the_payer(tmp_path: Path, network: str, keep: int) -> None:
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store, keep, network)
        charges = [kept.charge() for _ in range(4)]
        for charge in charges:
            kept.ask("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        for _ in range(80):
            kept.ask("POST", "/sandbox/v1/clock/advance", {"by": 0.1})
        kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
        final = kept.ask("GET", "/sandbox/v1")["charges"]
        assert final == {"completed": keep}
        assert {payment["status"] for payment in kept.ask("GET", "/sandbox/v1/payments")["data"]} == {"succeeded"}


def test_what_else_grows_with_every_request_is_bounded_too() -> None:
    kept = Kept(Store.memory())
    body = {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "expiresIn": 600}
    tips = [kept.ask("POST", "/v0/static-charges", body)["data"]["id"] for _ in range(8)]
    for number in range(8):
        kept.ask("POST", "/v0/charges", {"amount": "1000", "description": "x"}, key=f"key-{number}")
        kept.paid()
    assert [kept.rows(name) for name in ("idempotency", "received", "static_charges")] == [KEEP, KEEP, 8]
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
    assert kept.rows("static_charges") == KEEP
    kept.ask("GET", f"/v0/static-charges/{tips[0]}", status=404)
    assert kept.ask("GET", "/sandbox/v1")["removed"]["staticCharges"] == 8 - KEEP
    assert [post["number"] for post in kept.ask("GET", "/sandbox/v1/inboxes/shop")["posts"]] == [6, 7, 8]


@pytest.mark.parametrize("restarts", [False, True])
def test_the_inboxes_that_received_last_have_posts_and_every_receiver_keeps_its_number(
    tmp_path: Path, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_LEAST_INBOXES", 1)

    def completed(name: str) -> None:
        kept.charge(callbackUrl=f"http://{name}.localhost/hook", expiresIn=1)
        kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})

    def posts() -> dict[str, list[int]]:
        found = {name: kept.ask("GET", f"/sandbox/v1/inboxes/{name}")["posts"] for name in ("a", "b", "c", "d", "e")}
        return {name: [post["number"] for post in listed] for name, listed in found.items()}

    store = Store.open(tmp_path)
    kept = Kept(store)
    kept.world.receivers["b"].answers([500, 200])
    for number, name in enumerate(["a", "b", "c", "d", "a", "e", "c", "c", "b"]):
        if restarts and number % 2:
            store.close()
            store = Store.open(tmp_path)
            kept = Kept(store)
        completed(name)
    assert posts() == {"a": [], "b": [3], "c": [2, 3], "d": [], "e": [1]}
    completed("a")
    assert posts() == {"a": [3], "b": [3], "c": [2, 3], "d": [], "e": []}
    assert {row["id"]: row["received"] for row in kept.world.store.table("receivers")} == {
        "a": 3, "b": 3, "c": 3, "d": 1, "e": 1}  # fmt: skip
    assert kept.world.receivers["a"].inbox.total == 3
    store.close()


def test_a_long_inbox_is_removed_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_LEAST_INBOXES", 1)
    kept = Kept(Store.memory(), keep=70)
    for _ in range(70):
        kept.paid()
    kept.world.retention.keep = 1  # type: ignore[union-attr]
    kept.charge(callbackUrl="http://other.localhost/hook", expiresIn=1)
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
    assert kept.rows("received") < 70 + 1
    for _ in range(3):
        kept.charge(callbackUrl="http://other.localhost/hook", expiresIn=1)
        kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
    assert kept.ask("GET", "/sandbox/v1/inboxes/shop")["posts"] == []
    assert len(kept.ask("GET", "/sandbox/v1/inboxes/other")["posts"]) == 4


def test_the_faults_of_a_callback_are_removed_with_it() -> None:
    kept = Kept(Store.memory())
    kept.ask("POST", "/sandbox/v1/faults", {"kind": "redeliver", "count": None, "delay": 1})
    for _ in range(8):
        kept.paid()
    assert (kept.rows("deliveries"), kept.rows("fault_hits")) == (KEEP, KEEP)


def test_the_journal_shows_its_last_entries_and_the_others_are_counted() -> None:
    kept = Kept(Store.memory())
    kept.paid()
    length = len(kept.world.journal)
    entries = kept.ask("GET", "/sandbox/v1/journal?limit=1000")
    assert [entry["sequence"] for entry in entries] == [length - 2, length - 1, length]
    assert kept.headers["leyden-removed"] == f"journalEntries={length - KEEP}"
    assert [entry["sequence"] for entry in kept.ask("GET", f"/sandbox/v1/journal?after={length - 1}")] == [length]


def test_without_a_bound_nothing_is_removed_and_no_answer_speaks_of_it() -> None:
    kept = Kept(Store.memory(), keep=None)
    for _ in range(5):
        kept.paid()
    assert "removed" not in kept.ask("GET", "/sandbox/v1")
    assert "leyden-removed" not in kept.headers
    assert kept.rows("charges") == 5


def test_the_journal_of_a_run_has_the_same_hash_with_and_without_a_bound() -> None:
    hashes = set()
    for keep in (None, 1, 3):
        kept = Kept(Store.memory(), keep)
        for _ in range(6):
            kept.paid()
        hashes.add(kept.world.journal.hash)
    assert len(hashes) == 1


def test_a_held_payment_a_pending_callback_and_an_open_charge_stay() -> None:
    kept = Kept(Store.memory(), keep=1)
    kept.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"always": 500})
    held = kept.charge(expiresIn=900)
    kept.ask("POST", "/sandbox/v1/payments", {"request": held["invoice"]["request"], "outcome": "hold"})
    paid = [kept.paid() for _ in range(4)]
    assert {row["status"] for row in kept.world.store.table_data("deliveries").rows.values()} == {"pending"}
    assert kept.rows("deliveries") == 4
    assert kept.rows("payments") == 2
    assert [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]] == [*reversed(paid), held["id"]]
    assert kept.ask("GET", f"/v0/charges/{held['id']}")["data"]["status"] == "pending"
    kept.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"always": 200})
    kept.ask("POST", "/sandbox/v1/deliveries/replay", {"chargeId": paid[0]})
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1ms"})
    kept.ask("GET", f"/v0/charges/{paid[0]}")  # the only one that has ended
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "30d"})
    assert kept.rows("deliveries") == kept.rows("charges") == 1
    kept.ask("GET", f"/v0/charges/{paid[0]}", status=404)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_static_charge_and_its_payments_stay_while_a_callback_is_pending(restarts: bool, tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    kept = Kept(store, keep=1)
    kept.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"always": 500})
    body = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips", "allowedSlots": 1, "callbackUrl": HOOK,
            "expiresAt": "2030-01-01T00:10:00Z"}  # fmt: skip
    static = kept.ask("POST", "/v0/static-charges", body)["data"]
    payment = {"request": static["lnurl"]["request"], "amount": "1000"} if "lnurl" in static else {}
    kept.ask("POST", "/sandbox/v1/payments", payment or {"request": static["invoice"]["request"], "amount": "1000"})
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "11m"})
    plain = [kept.charge(callbackUrl=None, expiresIn=60)["id"] for _ in range(3)]
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "2m"})
    if restarts:
        store.close()
        store = Store.open(tmp_path)
        kept = Kept(store, keep=1)
    present = [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]]
    [child] = [one for one in present if one not in plain]
    assert present == [plain[-1], child]
    wait = kept.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": child, "timeout": 0})
    assert not wait["reached"]
    assert kept.ask("GET", f"/v0/static-charges/{static['id']}")["data"]["id"] == static["id"]
    kept.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"always": 200})
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "30d"})
    assert [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]] == [child]
    store.close()


def test_after_a_restart_with_a_smaller_bound_the_rest_is_removed(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        kept = Kept(store, keep=None)
        paid = [kept.paid() for _ in range(8)]
    with Store.open(tmp_path) as store:
        kept = Kept(store, keep=2)
        assert kept.ask("GET", f"/v0/charges/{paid[0]}")["data"]["id"] == paid[0]
        paid += [kept.paid(), kept.paid()]
        assert [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]] == paid[:-3:-1]
    with Store.open(tmp_path) as store:
        kept = Kept(store, keep=2)
        assert [kept.rows(name) for name in ("charges", "invoices", "payments", "deliveries")] == [2, 2, 2, 2]


def test_what_a_commit_removed_is_back_when_the_disk_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.memory()
    kept = Kept(store)
    paid = [kept.paid() for _ in range(6)]

    def refuse(touched: object) -> None:
        raise StorageUnavailable("no room")

    before = {name: kept.rows(name) for name in ("charges", "invoices", "payments", "deliveries")}
    with monkeypatch.context() as patched:
        patched.setattr(store, "write_commit", refuse)
        kept.ask("POST", "/v0/charges", {"amount": "1000", "description": "x", "expiresIn": 60}, status=507)
    assert {name: kept.rows(name) for name in before} == before
    paid.append(kept.paid())
    assert [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]] == paid[:-4:-1]


@pytest.mark.parametrize("keep", [1, 2, None])
def test_what_was_removed_is_counted_after_every_restart(tmp_path: Path, keep: int | None) -> None:
    """Also when the removed rows are those that were created last."""
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store, keep=1)
        kept.charge(expiresIn=2_000_000)
        for _ in range(3):
            kept.paid()
        for wait in (3_000, 2_000, 1_000, 60):  # the Charge that was created first ends last
            kept.charge(expiresIn=wait)
        kept.ask("POST", "/v0/static-charges", {"minAmount": "1000", "maxAmount": "9000", "description": "x"})
        for wait in (900, 60):
            body = {"minAmount": "1000", "maxAmount": "9000", "description": "x", "expiresIn": wait}
            kept.ask("POST", "/v0/static-charges", body)
        kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "2h"})
        before = kept.ask("GET", "/sandbox/v1")["removed"]
    assert before["charges"] == 6
    for _ in range(2):
        with closing(Store.open(tmp_path)) as store:
            kept = Kept(store, keep=keep)
            after = kept.ask("GET", "/sandbox/v1")["removed"]
            assert {**after, "journalEntries": 0} == {**before, "journalEntries": 0}
            assert "charges=6" in kept.headers["leyden-removed"]
            kept.charge(expiresIn=2_000_000)
            assert kept.ask("GET", "/sandbox/v1")["removed"]["charges"] == 6
            store.compact()


def test_a_copy_of_a_sandbox_counts_what_was_removed() -> None:
    kept = Kept(Store.memory(), keep=1)
    for wait in (3_000, 60):
        kept.charge(expiresIn=wait)
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "2h"})
    for copy in (
        fork_world(kept.world, "fork"),
        restore_world(json.loads(json.dumps({"leyden": VERSION, **dump_world(kept.world)}))),
    ):
        assert copy.removed.counts()["charges"] == 1


def test_an_inbox_is_read_after_a_restart_that_keeps_more(tmp_path: Path) -> None:
    numbers = []
    for keep in (2, None, 3, 5):
        with closing(Store.open(tmp_path)) as store:
            kept = Kept(store, keep=keep)
            kept.paid()
            kept.paid()
            posts = kept.ask("GET", "/sandbox/v1/inboxes/shop")["posts"]
            numbers.append([post["number"] for post in posts])
            assert len(kept.world.receivers["shop"].inbox) == len(posts)
    assert numbers == [[1, 2], [1, 2, 3, 4], [4, 5, 6], [4, 5, 6, 7, 8]]


def test_a_bounded_sandbox_that_was_reopened_gives_ids_after_the_highest_and_can_be_saved(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store, keep=1)
        first, removed = (kept.charge()["id"] for _ in range(2))
        for charge_id in (removed, first):  # the second removes the charge with the highest document id
            kept.fail(charge_id)
        pending = [kept.charge(expiresIn=90_000)["id"] for _ in range(2)]
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store, keep=1)
        saved = json.loads(json.dumps({"leyden": VERSION, **dump_world(kept.world)}))
        assert saved["tables"]["charges"]["next_id"] == 5
        restored = restore_world(saved, control_handlers=control_handlers)
        assert dump_world(restored)["tables"] == saved["tables"]
        created = kept.charge()["id"]
        assert [charge["id"] for charge in kept.ask("GET", "/v0/charges")["data"]] == [created, *pending[::-1], first]
    saved["tables"]["charges"]["next_id"] = 3  # as former versions wrote it
    restored = restore_world(saved, control_handlers=control_handlers)
    assert dump_world(restored)["tables"]["charges"]["next_id"] == 5


def test_the_id_of_the_newest_row_is_not_given_again_when_it_was_removed_after_a_restart(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store, keep=1)
        first, removed = (kept.charge()["id"] for _ in range(2))
        kept.fail(removed)
    with closing(Store.open(tmp_path)) as store:
        kept = Kept(store, keep=1)
        kept.fail(first)
        created = kept.charge()["id"]
        assert kept.world.store.table_data("charges").keys[created] == 3
        assert kept.ask("GET", "/sandbox/v1")["removed"]["charges"] == 1


def test_a_delivery_that_was_stopped_while_a_fault_held_it_is_removed_like_others() -> None:
    kept = Kept(Store.memory(), keep=1)
    kept.ask("PUT", "/sandbox/v1/inboxes/shop/script", {"answers": [410], "always": 200})
    body = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips", "allowedSlots": 9}
    tips = kept.ask("POST", "/v0/static-charges", {**body, "callbackUrl": "http://shop.localhost/hook"})["data"]["id"]
    kept.ask("POST", "/sandbox/v1/faults", {"kind": "reorder", "count": 1})
    for amount in (2_000, 3_000):
        request = kept.ask("GET", f"/lnurlp/{tips}/invoice?amount={amount}")["pr"]
        kept.ask("POST", "/sandbox/v1/payments", {"request": request})
    kept.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
    for _ in range(4):
        kept.paid()
    assert kept.rows("held_back") == 0


def test_what_former_versions_held_of_a_delivery_that_was_stopped_and_removed_is_dropped() -> None:
    kept = Kept(Store.memory(), keep=1)
    for _ in range(4):
        kept.paid()
    store = kept.world.store
    held = {"id": "12345678-1234-4234-8234-123456789012", "attempt": 1, "fault": "x", "kind": "reorder"}
    with store.commit():
        store.table("held_back").put({**held, "overtaken_by": []})
    opened = restore_world(
        {"leyden": VERSION, **json.loads(json.dumps(dump_world(kept.world)))}, control_handlers=control_handlers
    )
    kept.world = opened
    kept.paid()
    assert kept.rows("held_back") == 0


@pytest.mark.parametrize("kind", ["duplicate", "duplicate_new_id", "redeliver"])
def test_a_callback_stays_until_the_copy_of_it_is_sent(kind: str) -> None:
    kept, whole, copies = Kept(Store.memory(), keep=1), Kept(Store.memory(), keep=None), []
    for one in (kept, whole):
        one.ask("POST", "/sandbox/v1/faults", {"kind": kind, "delay": 3_600, "count": 1})
        first = one.paid()
        [copied] = one.ask("GET", "/sandbox/v1/deliveries")["data"]
        for _ in range(5):
            one.paid()
        due = [event for event in one.ask("GET", "/sandbox/v1/clock/due")["data"] if event["kind"] == "fault"]
        assert [event["chargeId"] for event in due] == [first]
        assert one.ask("GET", f"/sandbox/v1/deliveries/{copied['id']}")["id"] == copied["id"]
        one.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        posts = one.ask("GET", "/sandbox/v1/inboxes/shop")["posts"]
        [copy] = [post["headers"] for post in posts if post["at"] == due[0]["at"]]
        copies.append(copy)
        one.paid()
    assert copies[0] == copies[1]  # the signature of its own instant, too
    kept.ask("GET", f"/sandbox/v1/deliveries/{copied['id']}", status=404)
