"""The budget of LNURL: requests without an API key are refused beyond it, in LNURL's own form."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from leyden.server.http.limits.request_budget import ALL_ADDRESSES, RequestBudget
from tests.support.served import Client, run_command, served_leyden

STATIC = {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "identifier": "tips@localhost"}


class Watch:
    """A stopwatch that is moved by hand."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def __call__(self) -> float:
        return self.elapsed_s


def accepted(budget: RequestBudget, address: str, requests: int) -> int:
    return sum(budget.refusal(address) is None for _ in range(requests))


def test_an_address_has_its_own_budget_which_refills() -> None:
    watch = Watch()
    budget = RequestBudget(60, watch)
    assert accepted(budget, "192.0.2.1", 100) == 60
    assert budget.refused == 40
    assert accepted(budget, "192.0.2.2", 1) == 1
    watch.elapsed_s += 10
    assert accepted(budget, "192.0.2.1", 100) == 10
    watch.elapsed_s += 3_600
    assert accepted(budget, "192.0.2.1", 100) == 60


def test_the_reason_says_when_to_try_again() -> None:
    watch = Watch()
    budget = RequestBudget(6, watch)
    assert accepted(budget, "192.0.2.1", 6) == 6
    reason = budget.refusal("192.0.2.1")
    assert reason == (
        "too many requests: this server takes 6 requests a minute from one address without an API key;"
        " try again in 10 s"
    )
    watch.elapsed_s += 9.9
    assert budget.refusal("192.0.2.1") is not None
    watch.elapsed_s += 0.2
    assert budget.refusal("192.0.2.1") is None


def test_all_addresses_together_have_a_budget() -> None:
    budget = RequestBudget(10, Watch())
    assert sum(accepted(budget, f"192.0.2.{number}", 10) for number in range(20)) == 10 * ALL_ADDRESSES
    assert "50 requests a minute in all" in str(budget.refusal("198.51.100.1"))


def test_one_ipv6_network_is_one_address_and_a_mapped_address_is_its_own() -> None:
    budget = RequestBudget(2, Watch())
    assert [budget.refusal(address) is None for address in ("2001:db8::1", "2001:db8::2", "2001:db8::3")] == [
        True,
        True,
        False,
    ]
    assert budget.refusal("2001:db8:0:1::1") is None
    assert accepted(budget, "::ffff:192.0.2.1", 1) + accepted(budget, "192.0.2.1", 2) == 2
    assert accepted(budget, "fe80::1%eth0", 1) == 1


def test_the_number_of_addresses_is_bounded() -> None:
    budget = RequestBudget(1_000, Watch())
    for number in range(5_000):
        budget.refusal(f"10.0.{number // 256}.{number % 256}")
    assert len(budget._by_address) <= 4_096


def get(client: Client, path: str, **headers: str) -> tuple[int, dict[str, str], Any]:
    parts = urlsplit(client.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, orjson.loads(body)


@pytest.mark.parametrize("rate", ["0", "1"])
def test_a_served_sandbox_refuses_in_lnurls_form_and_counts(rate: str) -> None:
    with served_leyden("--lnurl-budget", "60", "--rate", rate) as client:
        static = client.ok("POST", "/v0/static-charges", STATIC)["data"]
        paths = [
            f"/lnurlp/{static['id']}",
            f"/lnurlp/{static['id']}/invoice?amount=1000",
            f"/lnurlp/{static['id']}/verify/{'0' * 64}",
            "/.well-known/lnurlp/tips",
        ]
        answers = [get(client, paths[number % 4]) for number in range(200)]
        refused = [answer for answer in answers if "too many requests" in str(answer[2].get("reason"))]
        assert 100 <= len(refused) <= 140
        for status, headers, body in refused:
            assert (status, body["status"], headers["access-control-allow-origin"]) == (200, "ERROR", "*")
            assert headers["content-type"] == "application/json"
        state = client.ok("GET", "/sandbox/v1")
        assert state["lnurlRefused"] == len(refused)
        entries = client.ok("GET", "/sandbox/v1/journal?limit=1000")
        asked = [entry for entry in entries if entry["kind"] == "request" and "lnurlp" in entry["subject"]]
        assert len(asked) == 200 - len(refused)
        for _ in range(100):
            assert get(client, paths[0], apikey="leyden")[2]["tag"] == "payRequest"
        client.ok("GET", "/v0/charges")


def test_the_budget_can_be_switched_off() -> None:
    with served_leyden("--lnurl-budget", "0") as client:
        static = client.ok("POST", "/v0/static-charges", STATIC)["data"]
        assert all(get(client, f"/lnurlp/{static['id']}")[2]["tag"] == "payRequest" for _ in range(100))
        assert client.ok("GET", "/sandbox/v1")["lnurlRefused"] == 0


@pytest.mark.parametrize("text", ["-1", "many", "1000001"])
def test_an_odd_budget_is_one_clear_line(text: str) -> None:
    done = run_command("serve", f"--lnurl-budget={text}")
    assert done.returncode == 2
    assert "is not a number of requests" in done.stderr.splitlines()[-1]
