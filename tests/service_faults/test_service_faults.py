"""Service faults: a client gets what the rule says, the state is what the journal says, and each hit is recorded."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ResponseLost, StorageUnavailable
from leyden.server.ports import USER
from leyden.server.system.http_server.connection import ConnectedH11Protocol
from leyden.service_faults.kinds import BODIES, KINDS, STATUSES, UNCOVERS, ServiceFaultSpec
from leyden.world.event_journal import Entry
from leyden.world.loopback import send_request
from tests.support.lists import listed

TEA = {"amount": "21000", "description": "tea"}
CHARGES = "/v0/charges"
ROOT = Path(__file__).parents[2]


def create(sandbox: Sandbox, **headers: str) -> httpx2.Response:
    return sandbox.http.post(CHARGES, json=TEA, headers=headers)


def requests(sandbox: Sandbox) -> list[Entry]:
    return sandbox.world.journal.entries(kind="request")


# Conditions


def test_a_fault_applies_to_the_operation_as_often_as_its_count(sandbox: Sandbox) -> None:
    fault = sandbox.service_faults.add("error", operation="createCharge", count=2)
    assert sandbox.http.get(CHARGES).status_code == 200
    assert [create(sandbox).status_code for _ in range(3)] == [503, 503, 200]
    assert [(hit.subject, hit.facts["hit"]) for hit in sandbox.service_faults.hits] == [
        (fault["id"], 1),
        (fault["id"], 2),
    ]
    assert len(sandbox.charges) == 1


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"method": "GET"}, [200, 503, 503]),
        ({"path": "/v0/charges/*"}, [200, 200, 503]),
        ({"path": "/v0/charges"}, [503, 503, 200]),
        ({"operation": "getChargeDetails"}, [200, 200, 503]),
        ({"nth": 2, "count": 1}, [200, 503, 200]),
        ({"nth": 2}, [200, 503, 503]),
        ({}, [503, 503, 503]),
    ],
    ids=str,
)
def test_every_condition_must_match(sandbox: Sandbox, where: dict[str, Any], expected: list[int]) -> None:
    charge = sandbox.charges.create(**TEA)
    sandbox.service_faults.add("error", **{"count": None, **where})
    targets = [("POST", CHARGES), ("GET", CHARGES), ("GET", f"{CHARGES}/{charge.id}")]
    got = [sandbox.http.request(method, at, json=TEA if method == "POST" else None) for method, at in targets]
    assert [response.status_code for response in got] == expected


def test_a_fault_ends_at_its_instant(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("error", count=None, until="2030-01-01T09:01:00Z")
    sandbox.advance("59.999s")
    assert create(sandbox).status_code == 503
    sandbox.advance("1ms")
    assert create(sandbox).status_code == 200
    assert sandbox.ask("GET", "/sandbox/v1")["serviceFaults"] == 0


def test_a_probability_is_drawn_from_the_seed_and_changes_no_other_stream() -> None:
    def run(seed: int, faulted: bool) -> tuple[list[int], dict[str, int], list[str]]:
        with Sandbox(seed=seed) as sandbox:
            if faulted:
                sandbox.service_faults.add("error", method="GET", probability=0.5, count=None)
            found = [sandbox.http.get(CHARGES).status_code for _ in range(40)]
            positions = dict(sandbox.world.streams.snapshot())
            positions.pop("service_faults", None)
            return found, positions, [sandbox.charges.create(**TEA).id for _ in range(2)]

    statuses, positions, ids = run(3, faulted=True)
    assert run(3, faulted=True) == (statuses, positions, ids)
    assert run(4, faulted=True)[0] != statuses
    assert 8 <= statuses.count(503) <= 32
    assert run(3, faulted=False)[1:] == (positions, ids)


def test_the_oldest_fault_applies_and_the_next_when_that_is_spent(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("error", status=500)
    sandbox.service_faults.add("error", status=429)
    assert [create(sandbox).status_code for _ in range(3)] == [500, 429, 200]


def test_only_requests_to_the_service_with_a_valid_key_match(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("error", status=500, count=None)
    for target in ("/sandbox/v1", "/sandbox/v1/service-faults", "/openapi.json", "/docs", "/nowhere"):
        assert sandbox.http.get(target).status_code == (404 if target == "/nowhere" else 200)
    assert sandbox.http.post(CHARGES, json=TEA, headers={"apikey": "wrong"}).status_code == 401
    assert sandbox.http.request("OPTIONS", CHARGES).status_code == 204
    assert sandbox.service_faults.hits == []
    assert sandbox.http.head(CHARGES).status_code == 500
    assert sandbox.http.head(CHARGES).content == b""


def test_the_sandbox_s_own_traffic_and_wallets_are_not_affected(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(description="tips", minAmount="1000", maxAmount="9000")
    sandbox.service_faults.add("connection_reset", count=None)
    assert sandbox.wallet("ana").scan(static, amount=2000).outcome != "FAILED"
    sandbox.traffic("60/min")
    sandbox.advance("1m")
    assert len(sandbox.charges) > 10
    assert sandbox.service_faults.hits == []
    with pytest.raises(ResponseLost):
        sandbox.ask("GET", CHARGES)


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"kind": "errror"}, "did you mean 'error'?"),
        ({"kind": "xyz"}, "choose one of error"),
        ({"kind": "error", "operation": "createCharges"}, "createCharge"),
        ({"kind": "error", "method": "post"}, "POST"),
        ({"kind": "error", "status": 418}, "429"),
        ({"kind": "error", "body": "xml"}, "html"),
        ({"kind": "stale_read", "status": 500}, "options of error"),
        ({"kind": "unknown_fields", "after_commit": True}, "leave out after_commit"),
        ({"kind": "error", "delay": "1s"}, "takes no delay"),
        ({"kind": "slow_body", "delay": "-1s"}, "out of bounds"),
        ({"kind": "past_date", "value": "a/b"}, "leave it out otherwise"),
        ({"kind": "wrong_content_type", "value": "a\nb"}, "printable"),
        ({"kind": "error", "probability": 0}, "above 0"),
        ({"kind": "error", "nth": 0}, "from 1"),
        ({"kind": "error", "nth": None}, "give for example nth=1"),
        ({"kind": "error", "count": 0}, "None for every one"),
        ({"kind": "error", "until": "2030-01-01T09:00:00Z"}, "later instant"),
        (
            {"kind": "error", "status": 503, "path": "/v0/charges/*", "method": "POST"},
            "no operation of the service has a path like /v0/charges/* with the method POST: choose one of /v0/",
        ),
        (
            {"kind": "error", "path": "/v0/nope"},
            "has a path like /v0/nope: choose one of /v0/",
        ),
        ({"kind": "error", "path": "/sandbox/v1/*"}, "no operation"),
        ({"kind": "error", "path": "v0/charges"}, "no operation"),
        ({"kind": "error", "path": "/v0/charge[s]"}, "has a path like /v0/charge[s]: choose one of /v0/charges"),
        ({"kind": "error", "path": "/v?/charges"}, "no operation of the service has a path like /v?/charges"),
        ({"kind": "error", "path": "/v0/charges/*/*"}, "no operation"),
        ({"kind": "error", "method": "DELETE"}, "the method DELETE: choose one of POST, GET, HEAD, PATCH"),
        ({"kind": "error", "method": "PATCH", "path": "/v0/charges"}, "choose one of /v0/static-charges/*"),
        ({"kind": "error", "path": "/v0/charges/{id}"}, "no parameter in braces: write /v0/charges/*, where * is any"),
        ({"kind": "error", "path": "/lnurlp/{id}/invoice"}, "write /lnurlp/*/invoice, where"),
        (
            {"kind": "error", "method": "GET", "operation": "createCharge"},
            "is POST /v0/charges and never has",
        ),
        ({"kind": "error", "operation": "createCharge", "path": "/v0/wallet"}, "leave out one of the two"),
        ({"kind": "stale_read", "operation": "createCharge"}, "it applies to GET /v0/charges"),
        ({"kind": "stale_read", "method": "HEAD"}, "it applies to GET"),
        ({"kind": "key_in_use", "operation": "getWallet"}, "it applies to POST /v0/charges"),
        ({"kind": "key_in_use", "method": "GET"}, "it applies to POST /v0/charges"),
        ({"kind": "truncated_body", "method": "HEAD"}, "changes no response"),
        ({"kind": "unknown_fields", "method": "HEAD"}, "changes no response"),
        ({"kind": "slow_body", "method": "HEAD"}, "changes no response"),
        ({"kind": "wrong_content_type", "value": "application/json"}, "give another one"),
        ({"kind": "wrong_content_type", "value": "Application/JSON; charset=utf-8"}, "give another one"),
    ],
    ids=str,
)
def test_a_fault_that_could_never_apply_is_refused(sandbox: Sandbox, wrong: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        sandbox.service_faults.add(**wrong)
    assert len(sandbox.service_faults) == 0


def test_every_path_that_a_refusal_proposes_can_be_given_and_applies(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="choose one of") as refused:
        sandbox.service_faults.add("error", path="/v0/nope", count=None)
    proposed = str(refused.value).partition("choose one of ")[2].split(", ")
    charge = sandbox.charges.create(amount="1000", description="tea")
    assert {"/v0/charges", "/v0/charges/*"} <= set(proposed)
    for path in proposed:
        sandbox.service_faults.add("error", path=path, count=None)
    assert sandbox.http.get(f"{CHARGES}/{charge.id}").status_code == 503


@pytest.mark.parametrize(
    "path",
    ["/v0/charges/*", "/v0/*", "*", "/v0/charges/0ceeffd6", "*/charges", "*/wallet", "/v0/charges/a?b", "/lnurlp/[a]*"],
)
def test_a_path_that_a_request_can_have_is_accepted(sandbox: Sandbox, path: str) -> None:
    assert sandbox.service_faults.add("error", path=path)["path"] == path


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("service-faults", {"kind": "unknown_fields", "afterCommit": True}, "afterCommit"),
        ("service-faults", {"kind": "stale_read", "retryAfter": 1}, "retryAfter"),
        ("payers", {"beforeExpiry": 1, "afterExpiry": 1}, "beforeExpiry and afterExpiry"),
    ],
)
def test_a_refusal_over_http_has_the_names_of_the_document(
    sandbox: Sandbox, path: str, body: dict[str, Any], name: str
) -> None:
    response = sandbox.http.post(f"/sandbox/v1/{path}", json=body)
    assert response.status_code == 409
    assert name in response.json()["detail"]
    assert not any(part in response.text for part in ("_expiry", "retry_after", "after_commit"))


@pytest.mark.parametrize("kind", ["truncated_body", "unknown_fields", "slow_body"])
def test_a_fault_of_the_body_does_not_match_a_response_to_head(sandbox: Sandbox, kind: str) -> None:
    sandbox.service_faults.add(kind)
    response = sandbox.http.request("HEAD", CHARGES)
    assert "leyden-fault" not in response.headers
    [fault] = sandbox.service_faults
    assert (fault["matches"], fault["hits"]) == (0, 0)


def test_an_unknown_field_of_a_fault_is_named(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match="no field operaton"):
        sandbox.service_faults.add("error", operaton="createCharge")


# What a client gets


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("body", BODIES)
def test_an_error_has_its_status_its_body_and_the_mark(sandbox: Sandbox, status: int, body: str) -> None:
    fault = sandbox.service_faults.add("error", status=status, body=body)
    response = create(sandbox)
    assert response.status_code == status
    assert response.headers["leyden-fault"] == fault["id"]
    assert response.headers.get("retry-after") == ("30" if status in (429, 503) else None)
    media = response.headers.get("content-type")
    if body == "problem":
        assert media == "application/problem+json"
        assert (response.json()["status"], response.json()["success"]) == (status, False)
    elif body == "html":
        assert media == "text/html"
        assert str(status) in response.text
        with pytest.raises(json.JSONDecodeError):
            response.json()
    else:
        assert (media, response.content, response.headers["content-length"]) == (None, b"", "0")
    assert len(sandbox.charges) == 0
    assert [entry.facts for entry in requests(sandbox)] == [{"status": status, "fault": fault["id"]}]


def test_retry_after_is_whole_seconds_and_the_mark_can_be_left_out(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("error", status=429, retry_after="1500ms", marked=False)
    response = create(sandbox)
    assert response.headers["retry-after"] == "2"
    assert "leyden-fault" not in response.headers


def test_an_error_after_the_commit_hides_a_charge_that_exists(sandbox: Sandbox) -> None:
    fault = sandbox.service_faults.add("error", status=502, body="html", after_commit=True)
    assert create(sandbox, **{"Idempotency-Key": "order-1"}).status_code == 502
    [charge] = sandbox.charges
    assert [entry.facts for entry in requests(sandbox)] == [{"status": 200, "fault": fault["id"], "sent": 502}]
    again = create(sandbox, **{"Idempotency-Key": "order-1"})
    assert again.json()["data"]["id"] == charge.id
    assert len(sandbox.charges) == 1


@pytest.mark.parametrize(("after_commit", "charges"), [(False, 0), (True, 1)])
def test_a_reset_connection_loses_the_response(sandbox: Sandbox, after_commit: bool, charges: int) -> None:
    fault = sandbox.service_faults.add("connection_reset", after_commit=after_commit, count=2)
    with pytest.raises(ResponseLost, match="may have been processed"):
        sandbox.charges.create(**TEA)
    with pytest.raises(httpx2.ReadError):
        create(sandbox)
    assert len(sandbox.charges) == 2 * charges
    sent = (
        {"status": 200, "fault": fault["id"], "sent": None} if after_commit else {"status": None, "fault": fault["id"]}
    )
    assert [entry.facts for entry in requests(sandbox)] == [sent, sent]


def test_a_truncated_body_is_a_protocol_error(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("truncated_body")
    with pytest.raises(httpx2.RemoteProtocolError):
        create(sandbox)
    assert len(sandbox.charges) == 1


@pytest.mark.parametrize(
    ("kind", "delay", "timeout_s", "late"),
    [
        ("slow_first_byte", "5001ms", 5, True),
        ("slow_first_byte", "5s", 5, False),
        ("slow_body", "1200ms", 0.1, True),  # in ten or eleven parts
        ("slow_body", "1s", 0.1, False),
        ("slow_body", "60s", 0.4, True),  # one every half second
        ("slow_body", "60s", 0.5, False),
        ("slow_body", "30s", 1, False),  # slower than the client's timeout, and no part of it is
    ],
)
def test_in_process_a_slow_response_reaches_the_client_s_own_timeout(
    sandbox: Sandbox, kind: str, delay: str, timeout_s: float, late: bool
) -> None:
    sandbox.service_faults.add(kind, delay=delay)
    now = sandbox.now
    if late:
        text = f"the next byte of the response did not come within {timeout_s:g} s"
        with pytest.raises(httpx2.ReadTimeout, match=text):
            sandbox.http.post(CHARGES, json=TEA, timeout=timeout_s)
        [entry] = sandbox.ask("GET", "/sandbox/v1/requests?limit=1&source=service")["data"]
        assert entry["status"] == (200 if kind == "slow_body" else None)  # the head of a slow body came
    else:
        answer = sandbox.http.post(CHARGES, json=TEA, timeout=timeout_s)
        assert answer.json()["data"]["amount"] == "21000"
    assert len(sandbox.charges) == 1
    assert sandbox.now == now


def test_a_key_in_use_refuses_the_repeated_request_once(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("key_in_use")
    keys = ["a", "b", "a", "a"]
    assert [create(sandbox, **{"Idempotency-Key": key}).status_code for key in keys] == [200, 200, 409, 200]
    assert create(sandbox).status_code == 200
    assert len(sandbox.charges) == 3


def test_a_stale_read_shows_the_charge_as_it_was_first_seen(sandbox: Sandbox) -> None:
    fault = sandbox.service_faults.add("stale_read", count=2)
    charge = sandbox.charges.create(**TEA)

    def status() -> tuple[str, bool]:
        response = sandbox.http.get(f"{CHARGES}/{charge.id}")
        return response.json()["data"]["status"], "leyden-fault" in response.headers

    assert status() == ("pending", False)
    assert next(iter(sandbox.service_faults))["hits"] == 0
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    assert [status() for _ in range(3)] == [("pending", True), ("pending", True), ("completed", False)]
    sandbox.service_faults.clear(fault["id"])
    assert len(sandbox.world.store.table("service_fault_answers")) == 0


def test_a_stale_read_shows_what_was_there_when_the_fault_was_added(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(**TEA)
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="2000", description="tips")
    sandbox.service_faults.add("stale_read", count=2)
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    sandbox.http.patch(f"/v0/static-charges/{tips.id}", json={"description": "more tips"})
    paths = (f"{CHARGES}/{charge.id}", f"/v0/static-charges/{tips.id}")
    seen = [sandbox.ask("GET", path)["data"] for path in 2 * paths]
    assert [seen[number]["status"] for number in (0, 2)] == ["pending", "completed"]
    assert [seen[number]["description"] for number in (1, 3)] == ["tips", "more tips"]


def test_a_second_stale_read_does_not_go_back_to_the_time_of_the_first(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="2000", description="1")
    path = f"/v0/static-charges/{tips.id}"
    for number in (2, 3):
        sandbox.service_faults.add("stale_read")
        sandbox.http.patch(path, json={"description": str(number)})
        assert sandbox.ask("GET", path)["data"]["description"] == str(number - 1)
        assert sandbox.ask("GET", path)["data"]["description"] == str(number)


def test_a_stale_read_survives_a_restart_and_a_fork(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(**TEA)
        sandbox.service_faults.add("stale_read")
        sandbox.wallet("ana").pay(charge)
        sandbox.run()
        assert sandbox.fork().ask("GET", f"{CHARGES}/{charge.id}")["data"]["status"] == "pending"
    with Sandbox(data=tmp_path) as again:
        assert again.ask("GET", f"{CHARGES}/{charge.id}")["data"]["status"] == "pending"


def test_a_stale_list_has_not_the_newest_charge(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("stale_read", operation="listCharges")
    sandbox.ask("GET", CHARGES)
    sandbox.charges.create(**TEA)
    assert [len(sandbox.ask("GET", CHARGES)["data"]) for _ in range(2)] == [0, 1]


def test_a_response_with_unknown_fields_has_all_others(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(**TEA)
    plain = sandbox.ask("GET", f"{CHARGES}/{charge.id}")
    sandbox.service_faults.add("unknown_fields")
    odd = sandbox.ask("GET", f"{CHARGES}/{charge.id}")
    assert odd.pop("x_unknown") == odd["data"].pop("x_unknown") != {}
    assert odd == plain


def test_a_wrong_content_type_leaves_the_body(sandbox: Sandbox) -> None:
    sandbox.service_faults.add("wrong_content_type")
    sandbox.service_faults.add("wrong_content_type", value="text/plain; charset=utf-8")
    found = [create(sandbox) for _ in range(2)]
    assert [response.headers["content-type"] for response in found] == ["text/html", "text/plain; charset=utf-8"]
    assert all(response.json()["success"] for response in found)


@pytest.mark.parametrize(("kind", "minute"), [("past_date", "08:50"), ("future_date", "09:10")])
def test_a_date_is_behind_or_ahead_of_the_sandbox_clock(sandbox: Sandbox, kind: str, minute: str) -> None:
    sandbox.service_faults.add(kind)
    date = parsedate_to_datetime(create(sandbox).headers["date"])
    assert date.isoformat() == f"2030-01-01T{minute}:00+00:00"


# The rules are state of the sandbox


def test_faults_survive_a_restart_and_a_fork_and_end_with_a_reset(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path) as sandbox:
        sandbox.service_faults.add("error", count=3, nth=2)
        assert [create(sandbox).status_code for _ in range(2)] == [200, 503]
    with Sandbox(data=tmp_path) as sandbox:
        [fault] = sandbox.service_faults
        assert (fault["matches"], fault["hits"]) == (2, 1)
        fork = sandbox.fork()
        assert [create(sandbox).status_code for _ in range(3)] == [503, 503, 200]
        assert [create(fork).status_code for _ in range(3)] == [503, 503, 200]
        again = Sandbox.from_snapshot(fork.snapshot())
        assert [row["hits"] for row in again.service_faults] == [3]
        sandbox.ask("POST", "/sandbox/v1/reset")
        assert len(sandbox.service_faults) == 0
        assert create(sandbox).status_code == 200


def test_a_fault_that_is_added_in_a_commit_that_fails_is_not_there(sandbox: Sandbox) -> None:
    def add_and_fail() -> None:
        with sandbox.world.exclusive():
            sandbox.world.service_faults.add(ServiceFaultSpec("error"))
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        add_and_fail()
    assert create(sandbox).status_code == 200


def test_a_hit_that_the_disk_refuses_changes_nothing(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.service_faults.add("error")

    def refuse(*_: object) -> None:
        raise StorageUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sandbox.world.service_faults, "_count", refuse)
        assert create(sandbox).status_code == 200
    assert create(sandbox).status_code == 503


def everything(sandbox: Sandbox) -> None:
    for kind in KINDS:
        sandbox.service_faults.add(kind, count=2, **({"after_commit": True} if kind == "connection_reset" else {}))
        for _ in range(2):
            try:
                charge = sandbox.charges.create(**TEA)
                sandbox.http.get(f"{CHARGES}/{charge.id}")
            except (ApiError, ResponseLost, httpx2.HTTPError):
                pass
    sandbox.run()


def test_a_script_repeats_the_faults_and_the_lost_requests(sandbox: Sandbox) -> None:
    everything(sandbox)
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)  # the program that the sandbox writes
    assert names["sb"].world.journal.hash == sandbox.world.journal.hash


def test_the_repr_and_the_iteration_show_the_faults(sandbox: Sandbox) -> None:
    assert "add one" in repr(sandbox.service_faults)
    shown = sandbox.service_faults.add("slow_body", delay="90s")
    assert shown == next(iter(sandbox.service_faults))
    assert shown["delay"] == 90.0
    assert "slow_body: 0 of 1 hits" in repr(sandbox.service_faults)
    assert sandbox.service_faults.clear() == 1


# Over a socket


@pytest.fixture(params=["httptools", "h11"])
def served(
    request: pytest.FixtureRequest, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> Iterator[httpx2.Client]:
    if request.param == "h11":
        monkeypatch.setattr("leyden.server.system.http_server.listening._protocol", lambda: ConnectedH11Protocol)
    with httpx2.Client(base_url=sandbox.serve(), headers={"apikey": sandbox.api_key}) as client:
        yield client


def add(client: httpx2.Client, kind: str, **fields: Any) -> dict[str, Any]:
    response = client.post("/sandbox/v1/service-faults", json={"kind": kind, **fields})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def lost(call: Callable[[], object]) -> type[BaseException]:
    with pytest.raises(httpx2.TransportError) as raised:
        call()
    return raised.type


def test_a_served_sandbox_resets_and_truncates(
    served: httpx2.Client, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    for after_commit in (False, True):
        add(served, "connection_reset", operation="createCharge", afterCommit=after_commit)
        assert lost(lambda: served.post(CHARGES, json=TEA)) is httpx2.ReadError
        assert len(sandbox.charges) == after_commit
    add(served, "truncated_body", operation="listCharges")
    assert lost(lambda: served.get(CHARGES)) is httpx2.RemoteProtocolError
    assert served.get(CHARGES).status_code == 200
    assert caplog.records == []


def test_a_reset_connection_ends_with_an_rst(served: httpx2.Client) -> None:
    add(served, "connection_reset")
    with socket.create_connection((served.base_url.host, served.base_url.port or 0), timeout=10) as client:
        client.sendall(b"GET /v0/charges HTTP/1.1\r\nhost: localhost\r\napikey: leyden\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            client.recv(100)


def test_a_served_slow_response_takes_real_time(served: httpx2.Client) -> None:
    for kind in ("slow_first_byte", "slow_body"):
        add(served, kind, delay="4s", count=2)
        assert lost(lambda: served.get(CHARGES, timeout=0.3)) is httpx2.ReadTimeout
        assert served.delete("/sandbox/v1/service-faults").json()["cleared"] >= 1
        add(served, kind, delay="20ms")
        assert served.get(CHARGES).json()["data"] == []
    hits = [entry for entry in served.get("/sandbox/v1/journal").json() if entry["kind"] == "service_fault_hit"]
    assert [hit["facts"]["fault"] for hit in hits] == ["slow_first_byte"] * 2 + ["slow_body"] * 2


def test_the_journal_does_not_depend_on_whether_a_client_waits_for_a_slow_response(
    served: httpx2.Client, sandbox: Sandbox
) -> None:
    """The request log says it: a run on a paused clock does not depend on real time."""
    logged: list[dict[str, Any]] = []

    def run(timeout_s: float) -> tuple[int | None, str]:
        sandbox.ask("POST", "/sandbox/v1/reset", {"seed": 7})
        fault = add(served, "slow_first_byte", operation="createCharge", delay="500ms")
        with contextlib.suppress(httpx2.ReadTimeout):
            served.post(CHARGES, json=TEA, timeout=timeout_s)
        earlier, deadline = len(logged), time.monotonic() + 10
        while len(logged) == earlier and time.monotonic() < deadline:
            logged[:] = served.get("/sandbox/v1/requests?operation=createCharge").json()["data"]
        assert requests(sandbox)[-1].facts == {"status": 200, "fault": fault["id"]}
        return logged[0]["status"], sandbox.journal_hash

    waited, left = run(5), run(0.1)
    assert (waited[0], left[0]) == (200, None)
    assert waited[1] == left[1]


def test_what_is_due_after_a_lost_request_runs_on_a_paused_clock(served: httpx2.Client, sandbox: Sandbox) -> None:
    """As after every other request."""
    add(served, "connection_reset", afterCommit=True)
    clock, ran = sandbox.world.clock, threading.Event()
    with sandbox.world.exclusive():
        clock.on("probe", lambda _: ran.set())
        clock.call_at(clock.now(), USER, "probe", "x")
    lost(lambda: served.post(CHARGES, json=TEA))
    assert ran.wait(10)


def test_the_control_plane_lists_and_clears(sandbox: Sandbox) -> None:
    faults = [sandbox.ask("POST", "/sandbox/v1/service-faults", {"kind": kind}) for kind in KINDS]
    assert listed(sandbox.ask, "/sandbox/v1/service-faults?limit=2") == faults
    assert sandbox.ask("GET", "/sandbox/v1")["serviceFaults"] == len(KINDS)
    one = f"/sandbox/v1/service-faults/{faults[0]['id']}"
    assert sandbox.ask("DELETE", one) == {"cleared": 1}
    with pytest.raises(ApiError, match="404"):
        sandbox.ask("DELETE", one)
    with pytest.raises(ApiError, match=r"409 .*createCharge"):
        sandbox.ask("POST", "/sandbox/v1/service-faults", {"kind": "error", "operation": "drop"})
    until = "2030-01-01T10:00:00+01:00"
    with pytest.raises(ApiError, match=r"409 .*later instant"):
        sandbox.ask("POST", "/sandbox/v1/service-faults", {"kind": "error", "until": until})
    assert sandbox.ask("DELETE", "/sandbox/v1/service-faults") == {"cleared": len(KINDS) - 1}


# The documents


def test_the_documents_say_which_mistake_each_kind_uncovers(sandbox: Sandbox) -> None:
    contract = sandbox.world.config.control
    assert contract is not None
    document = contract().document
    schema = document["components"]["schemas"]["ServiceFaultKind"]
    [group] = [tag["description"] for tag in document["tags"] if tag["name"] == "Service faults"]
    readme = (ROOT / "sim/devserver/README.md").read_text()
    assert schema["enum"] == list(KINDS)
    for kind, mistake in UNCOVERS.items():
        [row] = [
            line for line in readme.splitlines() if line.startswith(f"| `{kind}` |") and line.endswith(f"{mistake} |")
        ]
        what = row.split(" | ")[1]
        assert f"- `{kind}`: {what}. It uncovers a client that {mistake}." in " ".join(group.split()), kind


def test_a_served_page_lists_which_mistake_each_kind_uncovers(sandbox: Sandbox) -> None:
    page = send_request(sandbox.app, "GET", "/sandbox/v1/docs").body.decode()
    section = page[page.index('id="group-Service-faults"') :].split("</ul>")[0]
    listed = " ".join(re.sub("<code>(.*?)</code>", r"`\1`", section).split())
    for kind, mistake in UNCOVERS.items():
        assert re.search(f"<li>`{kind}`: [^<]+ It uncovers a client that {re.escape(mistake)}.</li>", listed), kind
    assert "/sandbox/v1/docs#group-Service-faults" in (ROOT / "sim/devserver/README.md").read_text()
