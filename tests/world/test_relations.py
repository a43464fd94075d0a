"""Relations between rows hold in the states of random scripts, and a saved sandbox that contradicts one is refused."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ForkError
from leyden.world.persistence.relations import check_relations
from leyden.world.snapshots.state_checks import check_due
from tests.support.deep import deep_or
from tests.support.exercise import rich_snapshot
from tests.support.random_states import Script, reopened

SAVED = {network: rich_snapshot(network) for network in ("direct", "line:4")}


@pytest.mark.parametrize("seed", range(deep_or(bounded=24, full=600, random=6_000)))
def test_the_states_of_random_scripts_keep_every_relation(seed: int, tmp_path: Path) -> None:
    world = None
    for world in Script(seed, tmp_path):
        check_relations(world.store, world.config.contract)
        check_due(world.store, world.config.contract, world.clock.timers(), world.clock.now())
    assert world is not None
    reopened(world)


def changed(network: str, path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a place such as `charges/3/amount_msat`: 3 is the place of the row."""
    snapshot = deepcopy(SAVED[network])
    table, number, *steps, last = path.split("/")
    container: Any = snapshot["tables"][table]["rows"][int(number)][1]
    for step in steps:
        container = container[int(step) if isinstance(container, list) else step]
    container[last] = value
    return snapshot


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("charges/0/status", "expired", "status is expired, and confirmed_at 1893456000000"),
        ("charges/4/status", "completed", "status is completed, and confirmed_at None"),
        ("charges/4/status", "expired", "neither SETTLED nor CANCELED"),
        ("charges/4/failure", "x", "failure does not fit"),
        ("charges/4/closed", True, "closed is True, and the state"),
        ("charges/0/received_msat", 250_001, "received_msat differs from that of its row in the table invoices"),
        ("charges/0/preimage", "00" * 32, "preimage differs"),
        ("charges/0/created_at", 1_893_455_999_000, "created_at is 1893455999000, which is not the time of"),
        ("charges/0/sequence", 2, "sequence is not the number"),
        ("static_charges/0/slots", 2, "slots is 2, more than its Charges"),
        ("static_charges/0/slots", 0, "slots is 0, fewer than its Charges"),
        ("static_charges/0/status", "disabled", "status is disabled, slots 1 and allowed_slots 9"),
        ("invoices/0/preimage", "00" * 32, "preimage"),
        ("invoices/0/payment_secret", "00" * 32, "is not that of its request"),
        ("invoices/0/payable_until_ms", 1_893_456_000_000, "payable_until_ms is"),
        ("invoices/0/received_msat", 249_999, "received_msat"),
        ("invoices/0/parts/0/amount_msat", 1, "received_msat is 250000, not the sum of its settled parts"),
        ("invoices/0/parts/0/hold", True, "hold or the payment secret differs"),
        ("invoices/0/parts/0/state", "failed", "not the sum of its settled parts"),
        ("payments/1/preimage", "00" * 32, "payment_hash is not that of preimage"),
        ("payments/1/payment_hash", "00" * 32, "another payment_hash"),
        ("payments/1/received_msat", 1, "received_msat is 1, not the sum of its settled attempts"),
        ("payments/1/amount_msat", 250_001, "total_msat, hold or the payment secret"),
        ("payments/1/status", "failed", "status is failed, and outcome SUCCEEDED"),
        ("payments/1/resolved_at", None, "resolved_at"),
        ("payments/1/request", "lnbcrt1x", "payment_hash is not that of its request"),
        ("payments/1/request", "lnbcrt1pp5!" + "q" * 60, "payment_hash is not that of its request"),
        ("payments/1/attempts/0/status", "failed", "is settled, and its attempt is not"),
        ("payments/1/attempts/0/amount_msat", 1, "its attempt another"),
        ("payments/1/attempts/0/part", 1, "which is not its place"),
        ("deliveries/0/url", "http://shop.localhost/b", "project or url differs"),
        ("deliveries/0/body", "{}x", "body is not the JSON"),
        ("deliveries/0/resource_id", "12345678-1234-4234-8234-123456789012", "sequence is not the number"),
        ("wallets/0/balance_msat", 1, "balance_msat is 1, not the sum that the Charges of the project received"),
        ("wallets/0/id", "other", "balance_msat"),
        ("node/0/received_msat", 1, "received_msat is 1, not the sum of the wallets"),
        ("node/0/id", "other", "funds"),
    ],
)  # fmt: skip
def test_a_row_that_contradicts_another_one_is_refused(path: str, value: Any, words: str) -> None:
    with pytest.raises(ForkError, match="is no saved sandbox") as refused:
        Sandbox.from_snapshot(changed("direct", path, value))
    assert words in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_callback_that_tells_another_amount_is_refused() -> None:
    body = SAVED["direct"]["tables"]["deliveries"]["rows"][0][1]["body"]
    with pytest.raises(ForkError, match="body differs from the Charge"):
        Sandbox.from_snapshot(changed("direct", "deliveries/0/body", body.replace('"amount":"', '"amount":"1')))


@pytest.mark.parametrize(("kind", "table"), [("charge_expiry", "charges"), ("payment", "payments")])
def test_a_row_of_which_something_is_due_has_its_timer(kind: str, table: str) -> None:
    snapshot = deepcopy(SAVED["direct"])
    timers = snapshot["clock"]["timers"]
    timer = next(timer for timer in timers if timer[3] == kind)
    timer[0] += 1
    with pytest.raises(ForkError, match=rf"the table {table}, .* its timer {kind} is due at"):
        Sandbox.from_snapshot(snapshot)
    timers.remove(timer)
    with pytest.raises(ForkError, match=rf"the table {table}, .* its timer {kind} is due at .* there is none"):
        Sandbox.from_snapshot(snapshot)


@pytest.mark.parametrize(("network", "seed"), [("direct", 1), ("line:4", 2)])
def test_most_single_values_cannot_be_changed_alone(network: str, seed: int) -> None:
    """Those that can are instants, which are not compared, and values that no other row repeats."""
    rng = random.Random(seed)
    saved, number = SAVED[network], deep_or(bounded=60, full=600)
    tables = ("charges", "invoices", "payments", "wallets", "node")
    places = [(table, place) for table in tables for place in _leaves(saved["tables"][table]["rows"])]
    refused = 0
    for _ in range(number):
        table, (*steps, last) = rng.choice(places)
        snapshot = {**saved, "tables": {**saved["tables"], table: deepcopy(saved["tables"][table])}}
        container: Any = snapshot["tables"][table]["rows"]
        for step in steps:
            container = container[step]
        container[last] = _another(container[last])
        try:
            Sandbox.from_snapshot(json.loads(json.dumps(snapshot)))
        except ForkError as error:
            refused += "fit together (" not in str(error)
    assert refused > number * 7 // 10


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, (dict, list)):
        return [path]
    keys: Any = value if isinstance(value, dict) else range(len(value))
    return [place for key in keys for place in _leaves(value[key], (*path, key))]


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value[1:]}{value[:1]}" if isinstance(value, str) and len(value) > 1 else 1
