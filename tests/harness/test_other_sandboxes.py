"""A served Leyden with a sandbox for each API key: what belongs to another sandbox is no violation of this one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leyden.harness.constants import NO_KEY
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.generators.bodies import ADDRESSES
from leyden.harness.runs.cases import Case, play
from leyden.harness.steps import Step
from leyden.harness.targets.served import ServedLeyden
from leyden.harness.targets.target import InProcess
from tests.support.deep import deep_or
from tests.support.served import Client, served_leyden

STATIC = {"minAmount": "1000", "maxAmount": "2000", "description": "tea"}
CHARGE = {"amount": "1000", "description": "tea"}
OWN: Step = {"do": "create_charge", "as": "c1", "body": CHARGE}
# Steps with the second project's key, at the top of a case and within another step.
BY_SECOND: tuple[Step, ...] = (
    {"do": "create_charge", "as": "x", "body": CHARGE, "by": "second"},
    {"do": "create_static", "as": "x", "body": STATIC, "by": "second"},
    {"do": "patch", "static": "s1", "body": {"description": "new"}, "by": "second"},
    {"do": "list", "of": "charges", "by": "second"},
    {"do": "wallet", "by": "second"},
    {"do": "fill", "of": "charges", "count": 2, "as": "x", "by": "second"},
    {"do": "get", "what": "c1", "by": "second"},
    {"do": "request", "target": "/v0/wallet", "headers": [["apikey", "{second}"]]},
)
CASES: dict[str, tuple[Step, ...]] = {
    "at the top": ({"do": "create_static", "as": "s1", "body": STATIC}, OWN, *BY_SECOND),
    "between pages": (
        {"do": "create_static", "as": "s1", "body": STATIC},
        OWN,
        {"do": "pages", "target": "/v0/charges?limit=1", "headers": [["apikey", "{key}"]], "steps": list(BY_SECOND)},
    ),
    "in a list": (OWN, {"do": "list", "of": "charges", "between": BY_SECOND[0]}),
    "request ids": (
        OWN,
        {"do": "spare_key"},
        *({"do": "odd", "operation": "getWallet", "kind": "no-key"} for _ in range(2)),
        *({"do": "request", "target": "/v0/wallet", "headers": [["apikey", "{key}"], ["accept", "text/html"]]},) * 40,
        *({"do": "get", "what": "c1", "by": "second"},) * 3,
    ),
    "addresses": tuple(
        {"do": "create_static", "as": f"s{number}", "body": {**STATIC, "identifier": address}}
        for number, address in enumerate((*ADDRESSES, "free@shop.example", "free@other.example"))
    ),
    "requests without a key": (
        OWN,
        {"do": "create_static", "as": "s1", "body": {**STATIC, "identifier": "own@shop.example"}},
        {"do": "request", "target": "/lnurlp/{c1}"},
        {"do": "request", "target": "/lnurlp/{s1}"},
        {"do": "request", "target": "/.well-known/lnurlp/own"},
        {"do": "request", "target": "/.well-known/lnurlp/nobody"},
        {"do": "request", "method": "DELETE", "target": "/v0/charges/{c1}"},
        {"do": "pay_request", "static": "s1", "address": True},
    ),
}
# The API key of the run, and that of the second project.
KEYS = (("leyden", NO_KEY), ("leyden", "second"), ("second", NO_KEY), ("second", "leyden"))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served_leyden("--rate", "0", "--api-key", "leyden", "--api-key", "second", "--api-key", "third") as served:
        third = Client(served.url, "third")
        for address in ADDRESSES[::2]:
            third.ok("POST", "/v0/static-charges", {**STATIC, "identifier": address})
        yield served


@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("name", CASES)
def test_another_sandbox_is_no_violation(name: str, keys: tuple[str, str], client: Client) -> None:
    case = Case(CASES[name], seed=KEYS.index(keys))  # sandboxes with one seed have the same ids
    result = play(case, ServedLeyden(client.url, *keys))
    assert result.violation is None
    assert result.done


@pytest.mark.parametrize("keys", KEYS, ids="+".join)
def test_random_walks_find_no_violation_beside_other_sandboxes(keys: tuple[str, str], client: Client) -> None:
    for seed in range(deep_or(bounded=1, full=20)):
        result = random_walk(4 * seed + KEYS.index(keys), ServedLeyden(client.url, *keys), overlays=())
        assert result.violation is None, seed


@pytest.mark.parametrize("name", CASES)
def test_in_process_both_projects_are_in_one_sandbox(name: str) -> None:
    result = play(Case(CASES[name]), InProcess())
    assert result.violation is None
    assert result.skipped == 0
