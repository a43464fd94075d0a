"""A document with changed rows of its lifecycles is refused with the row, or followed: payments that are accepted are
counted, and the sandbox can be copied, saved and opened again."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from leyden import Sandbox
from leyden.server.charges.lifecycle import states_after_expiry
from leyden.server.charges.lifecycle_checks import check_lifecycles
from leyden.server.contract.applied_rows import charge_rows, never_applied, static_charge_rows
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, known_overlays, load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.world.config import packaged_contract
from tests.support.deep import deep_or
from tests.support.examples import DEEP_EXAMPLES

Document = dict[str, Any]
DOCUMENT = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
PLACE = "/components/schemas/{}/properties/status/x-lifecycle/"
EFFECTS = {
    "Charge": ["issue_invoice", "cancel_invoice", "notify"],
    "StaticCharge": ["issue_invoice", "take_slot", "cancel_outstanding"],
}
EDITS = deep_or(bounded=8, full=60 * settings().max_examples // DEEP_EXAMPLES, random=2_000)
HOOK = "http://shop.localhost/x"


def rows(document: Document, resource: str) -> list[Document]:
    found: list[Document] = document["components"]["schemas"][resource]["properties"]["status"]["x-lifecycle"]
    return found


def row(document: Document, resource: str, source: str, trigger: str) -> Document:
    return next(one for one in rows(document, resource) if (one["from"], one["trigger"]) == (source, trigger))


def to(one: Document, state: str, *effects: str) -> None:
    """Make a row a transition."""
    one.pop("refuse", None)
    one.pop("because", None)
    one.update(to=state, effects=[*effects])


def refuses(one: Document) -> None:
    """Make a row a refusal."""
    one.pop("to", None)
    one.pop("effects", None)
    one.update(refuse="not_now", because="it is not done")


def loaded(document: Document) -> Contract:
    return load_contract(document, known_as="charges.openapi.yaml")


REFUSALS: list[tuple[str, str, str, str, list[str] | None, str]] = [
    # resource, state, trigger, next state, effects (None: it refuses), a part of the error
    ("StaticCharge", "active", "invoice_requested", "active", [], "gets an invoice; write effects: [issue_invoice]"),
    ("StaticCharge", "active", "invoice_requested", "disabled", ["issue_invoice"], "disabled refuses the payment of"),
    ("StaticCharge", "disabled", "invoice_requested", "disabled", ["issue_invoice"], "disabled refuses the payment of"),
    ("StaticCharge", "(creation)", "created", "active", ["issue_invoice"], "/effects: an invoice is issued on"),
    (
        "StaticCharge",
        "active",
        "slots_filled",
        "disabled",
        [],
        "disabled refuses payments, and invoices that are issued",
    ),
    ("StaticCharge", "active", "payment_settled", "disabled", ["take_slot"], "disabled refuses payments, and invoices"),
    ("StaticCharge", "active", "slots_filled", "", None, "the node accepts a payment that active refuses, unless"),
    ("StaticCharge", "active", "slots_filled", "active", [], "the node accepts a payment that active refuses, unless"),
    ("Charge", "(creation)", "created", "pending", [], "each Charge has one invoice; write issue_invoice once"),
    ("Charge", "(creation)", "created", "pending", ["issue_invoice", "cancel_invoice"], "a new Charge can be paid"),
    ("Charge", "pending", "expiry_reached", "expired", ["notify", "issue_invoice"], "has the invoice of its creation"),
    ("Charge", "expired", "invoice_failed", "error", ["issue_invoice"], "has the invoice of its creation; leave"),
]


@pytest.mark.parametrize(("resource", "source", "trigger", "state", "effects", "problem"), REFUSALS)
def test_a_row_that_code_does_not_follow_is_refused_with_its_place(
    resource: str, source: str, trigger: str, state: str, effects: list[str] | None, problem: str
) -> None:
    document = copy.deepcopy(DOCUMENT)
    one = row(document, resource, source, trigger)
    if effects is None:
        refuses(one)
    else:
        to(one, state, *effects)
    if trigger == "slots_filled" and state != "disabled":  # each state is reached
        to(row(document, resource, "active", "slots_reopened"), "disabled", "cancel_outstanding")
    with pytest.raises(ContractError) as refused:
        Sandbox(spec=loaded(document))
    assert PLACE.format(resource) in str(refused.value)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


NEVER = [
    ("Charge", "expired", "payment_settled", "completed", "in this state each invoice is paid, cancelled or expired"),
    ("Charge", "completed", "payment_settled", "completed", "in this state each invoice is paid, cancelled or expired"),
    ("Charge", "error", "payment_settled", "completed", "in this state each invoice is paid, cancelled or expired"),
    ("Charge", "completed", "invoice_failed", "error", "in this state the invoice is paid or cancelled"),
    ("Charge", "expired", "invoice_failed", "error", "in this state the invoice is paid or cancelled"),
    ("Charge", "expired", "expiry_reached", "expired", "the expiry, which is reached once, leads to this state"),
    ("StaticCharge", "expired", "payment_settled", "expired", "in this state each invoice is paid, cancelled or"),
    ("StaticCharge", "expired", "expiry_reached", "expired", "the expiry, which is reached once, leads to this state"),
    ("StaticCharge", "expired", "invoice_requested", "expired", "the expiry leads to this state, and no invoice is"),
]


@pytest.mark.parametrize(("resource", "source", "trigger", "state", "why"), NEVER)
def test_a_row_that_never_applies_is_named(resource: str, source: str, trigger: str, state: str, why: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    one = row(document, resource, source, trigger)
    to(one, state, *["issue_invoice"] * (trigger == "invoice_requested"))
    [text] = never_applied(loaded(document))
    index = rows(document, resource).index(one)
    assert text.startswith(f"charges.openapi.yaml#{PLACE.format(resource)}{index} can never apply: {why}")


@pytest.mark.parametrize("overlays", [(), *((name,) for name in known_overlays())])
def test_no_packaged_row_is_named(overlays: tuple[str, ...]) -> None:
    assert never_applied(packaged_contract("charges", overlays)) == []


def test_a_row_that_follows_only_such_a_row_is_named_with_it() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["components"]["schemas"]["Charge"]["properties"]["status"]["enum"].append("late")
    to(row(document, "Charge", "expired", "payment_settled"), "late")
    late = {"from": "late", "basis": "specification"}
    rows(document, "Charge").append({**late, "trigger": "expiry_reached", "to": "late"})
    refused = {**late, "refuse": "no", "because": "it is late"}
    rows(document, "Charge").extend({**refused, "trigger": one} for one in ("payment_settled", "invoice_failed"))
    _, text = never_applied(loaded(document))
    assert text.endswith("can never apply: nothing leads to late")


def test_a_row_after_the_expiry_applies_where_the_invoice_is_open() -> None:
    document = copy.deepcopy(DOCUMENT)
    to(row(document, "Charge", "expired", "invoice_failed"), "error", "notify")
    to(row(document, "Charge", "pending", "expiry_reached"), "expired", "notify")
    contract = loaded(document)
    assert never_applied(contract) == []
    assert states_after_expiry(contract.lifecycle("Charge")) == {"expired", "error"}
    with Sandbox(spec=contract) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", expiresIn=60)
        sandbox.advance("2m")
        assert charge.status == "expired"
        charge.fail()
        assert charge.status == "error"


def applied(sandbox: Sandbox, resource: str) -> set[tuple[str, str, str]]:
    """The transitions that the event journal has: the trigger, and the states before and after."""
    before: dict[str, str] = {}
    found = set()
    for entry in sandbox.world.journal.entries():
        facts = entry.facts
        if facts.get("resource") == resource:
            found.add((before.get(entry.subject, "(creation)"), entry.kind, facts["status"]))
            before[entry.subject] = facts["status"]
    return found


@pytest.mark.parametrize("seed", range(deep_or(bounded=6, full=60)))
def test_no_row_that_applies_is_named(seed: int) -> None:
    rng, document = random.Random(seed), copy.deepcopy(DOCUMENT)
    text = changed(rng, document)
    try:
        contract = loaded(document)
        sandbox = Sandbox(spec=contract)
    except ContractError:
        return
    with sandbox:
        run_all(sandbox)
        for name, find in (("Charge", charge_rows), ("StaticCharge", static_charge_rows)):
            table = contract.lifecycle(name)
            known = {(one.source, one.trigger, one.to) for one in (table.rows[index] for index in find(table))}
            found = applied(sandbox, name)
            assert found, text
            assert found <= known, text


@pytest.mark.parametrize("overlays", [(), *((name,) for name in known_overlays())])
def test_the_packaged_rows_are_followed(overlays: tuple[str, ...]) -> None:
    check_lifecycles(packaged_contract("charges", overlays))


def run_all(sandbox: Sandbox) -> None:
    """What can happen to Charges and Static Charges, with payments where the node accepts them."""
    ana = sandbox.wallet("ana")
    fields = {"description": "x", "callbackUrl": HOOK, "expiresIn": 60}
    charges = [sandbox.charges.create(amount="1000", **fields) for _ in range(6)]
    ana.pay(charges[0])
    ana.pay(charges[1])
    sandbox.request("POST", f"/sandbox/v1/charges/{charges[2].id}/fail", {})
    sandbox.request("POST", f"/sandbox/v1/charges/{charges[0].id}/fail", {})
    for slots in (1, 3, None):
        links = [sandbox.static_charges.create(minAmount="1000", maxAmount="5000", allowedSlots=slots, **fields)]
        links += [sandbox.static_charges.create(minAmount="1000", maxAmount="5000", allowedSlots=slots, **fields)]
        for link in links:
            answers = [sandbox.ask("GET", f"/lnurlp/{link.id}/invoice?amount=2000") for _ in range(2)]
            before = int(sandbox.ask("GET", "/v0/wallet")["data"]["balance"])
            paid = [ana.pay(one["pr"]).outcome for one in answers if "pr" in one]
            received = int(sandbox.ask("GET", "/v0/wallet")["data"]["balance"]) - before
            assert received == 2_000 * paid.count("SUCCEEDED")
            rows_of = sandbox.world.config.contract.lifecycle("StaticCharge").rows
            counted = {one.trigger for one in rows_of if "take_slot" in one.effects} == {"payment_settled"}
            if counted:
                static = sandbox.ask("GET", f"/v0/static-charges/{link.id}")["data"]
                assert static["slots"] == paid.count("SUCCEEDED"), "a payment that is not counted"
        sandbox.request("PATCH", f"/v0/static-charges/{links[0].id}", {"allowedSlots": 5})
    sandbox.advance("30s")
    check_copies(sandbox)
    sandbox.advance("2m")
    sandbox.request("POST", f"/sandbox/v1/charges/{charges[3].id}/fail", {})
    check_copies(sandbox)


def check_copies(sandbox: Sandbox) -> None:
    later = Sandbox.from_snapshot(sandbox.snapshot())
    assert shown(later) == shown(sandbox)


def shown(sandbox: Sandbox) -> list[Any]:
    return [
        sandbox.ask("GET", path) for path in ("/v0/charges?limit=100", "/v0/static-charges?limit=100", "/v0/wallet")
    ]


def changed(rng: random.Random, document: Document) -> str:
    """Change one row, or two. Returns what was changed."""
    texts = []
    for _ in range(rng.choice([1, 1, 2])):
        resource = rng.choice([*EFFECTS])
        states = document["components"]["schemas"][resource]["properties"]["status"]["enum"]
        one = rng.choice(rows(document, resource))
        if "to" in one and rng.random() < 0.25 and one["from"] != "(creation)":
            refuses(one)
        elif "to" in one and rng.random() < 0.6:
            one["effects"] = rng.sample(EFFECTS[resource], rng.randrange(3))
        else:
            to(one, rng.choice(states), *rng.sample(EFFECTS[resource], rng.randrange(3)))
        texts.append(f"{resource} {one}")
    return "; ".join(texts)


def problem(seed: int, folder: Path) -> str | None:
    """What is wrong with a document whose rows were changed at random; None if it is refused, or followed."""
    rng, document = random.Random(seed), copy.deepcopy(DOCUMENT)
    text = changed(rng, document)
    try:
        contract = loaded(document)
        sandbox = Sandbox(spec=contract, data=folder)
    except ContractError as refusal:
        return None if "#" in str(refusal) or "paths." in str(refusal) else f"{text}: no place: {refusal}"
    try:
        with sandbox:
            run_all(sandbox)
            last = shown(sandbox)
        with Sandbox(spec=contract, data=folder) as again:
            assert shown(again) == last
    except Exception as error:
        return f"{text}: {error!r}"
    return None


@pytest.mark.parametrize("part", range(2))
def test_changed_rows_are_refused_or_followed(part: int, tmp_path: Path) -> None:
    found = {seed: problem(seed, tmp_path / str(seed)) for seed in range(part, EDITS, 2)}
    assert {seed: text for seed, text in found.items() if text is not None} == {}
