"""A comparison lists what was set in a sandbox, besides its tables, and shows no secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.lab.differences import differences
from leyden.world.config import packaged_contract

CONTROL = "/sandbox/v1"
OTHER = "whsec_" + "WFla" * 8

# What is set, by the table in which the comparison lists it, with one of its fields.
SETTINGS: dict[str, tuple[Callable[[Sandbox], Any], str, str]] = {
    "the clock": (lambda sb: sb.advance("90s"), "sandbox", "now"),
    "a fault": (lambda sb: sb.ask("POST", f"{CONTROL}/faults", {"kind": "drop", "count": 2}), "faults", "kind"),
    "a service fault": (
        lambda sb: sb.ask("POST", f"{CONTROL}/service-faults", {"kind": "error", "status": 503}),
        "service_faults", "status",
    ),
    "a payer": (lambda sb: sb.ask("POST", f"{CONTROL}/payers", {"outcome": "settle"}), "payers", "outcome"),
    "a script": (
        lambda sb: sb.ask("PUT", f"{CONTROL}/inboxes/shop/script", {"answers": [503], "always": 200}),
        "receivers", "script",
    ),
    "a receiver's secret": (lambda sb: sb.receiver("shop").use_secret(OTHER), "receivers", "secret"),
    "a rotated secret": (
        lambda sb: sb.ask("POST", f"{CONTROL}/webhook-secret/rotate", {}), "webhook_secrets", "until"
    ),
    "customers": (lambda sb: sb.traffic("30/h", duration="1h"), "traffic", "settings"),
    "another run": (lambda sb: sb.ask("POST", f"{CONTROL}/reset", {"seed": 8}), "sandbox", "seed"),
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_was_set_since_a_snapshot_is_listed(setting: str) -> None:
    change, table, field = SETTINGS[setting]
    with Sandbox(seed=7) as sandbox:
        snapshot = {"snapshot": sandbox.ask("POST", f"{CONTROL}/snapshots", {})["id"]}
        assert sandbox.ask("POST", f"{CONTROL}/diff", snapshot)["count"] == 0
        change(sandbox)
        found = sandbox.ask("POST", f"{CONTROL}/diff", snapshot)
        assert found["count"] == len(found["differences"])
        assert (table, field) in {(row["table"], row["field"]) for row in found["differences"]}
        sandbox.ask("POST", f"{CONTROL}/restore", snapshot)
        assert sandbox.ask("POST", f"{CONTROL}/diff", snapshot)["count"] == 0


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_was_set_in_a_fork_is_listed_from_both_sides(setting: str) -> None:
    change, table, field = SETTINGS[setting]
    with Sandbox(seed=7) as sandbox:
        fork = sandbox.fork()
        assert not [*differences(sandbox.world, fork.world)]
        change(fork)
        one = [*differences(sandbox.world, fork.world)]
        other = [*differences(fork.world, sandbox.world)]
        assert (table, field) in {(row.table, row.field) for row in one}
        assert {row[:3] for row in one} == {row[:3] for row in other}


def test_a_condition_of_the_network_is_listed() -> None:
    with Sandbox(seed=7, network="scale-free:20") as sandbox:
        snapshot = {"snapshot": sandbox.ask("POST", f"{CONTROL}/snapshots", {})["id"]}
        sandbox.ask("POST", f"{CONTROL}/network/interceptors", {"kind": "fail", "hop": 1, "code": 4103, "times": 1})
        found = sandbox.ask("POST", f"{CONTROL}/diff", snapshot)["differences"]
        row = {"table": "interceptors", "id": "intercept-1", "field": "code", "here": 4103, "there": None}
        assert row in found


def test_no_secret_is_shown() -> None:
    with Sandbox(seed=7) as sandbox:
        sandbox.receiver("shop").use_secret("whsec_" + "QUJD" * 8)
        snapshot = {"snapshot": sandbox.ask("POST", f"{CONTROL}/snapshots", {})["id"]}
        sandbox.receiver("shop").use_secret(OTHER)
        sandbox.ask("POST", f"{CONTROL}/webhook-secret/rotate", {})
        found = sandbox.ask("POST", f"{CONTROL}/diff", snapshot)["differences"]
        assert {row["table"] for row in found} == {"receivers", "webhook_secrets"}
        assert [row["field"] for row in found if row["id"] == "2"] == ["since"]
        assert "whsec_" not in json.dumps(found)


def test_the_document_and_the_help_name_the_same_tables() -> None:
    words = packaged_contract("sandbox").document["paths"][f"{CONTROL}/diff"]["post"]["description"]
    for text in (words, Sandbox.diff.__doc__ or "", differences.__doc__ or ""):
        assert {table for _, table, _ in SETTINGS.values()} | {"interceptors"} <= {*text.split("`")[1::2]}
        assert "what faults and inboxes delay, returning customers" in " ".join(text.split())
