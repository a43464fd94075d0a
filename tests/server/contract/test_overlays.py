"""Overlays: each changes one interpretation of the specification, as these tests show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ContractError
from leyden.server.contract.load import known_overlays, load_contract

GOOD: dict[str, Any] = {"amount": "1000", "description": "tea"}
HOOK = "http://shop.localhost/paid"


def status_of(fields: dict[str, Any], *overlays: str) -> str:
    with Sandbox(overlays=overlays) as sandbox:
        try:
            return str(sandbox.charges.create(**fields).status)
        except ApiError as error:
            return str(error.status)


@pytest.mark.parametrize("name", known_overlays())
def test_each_overlay_compiles_alone(name: str) -> None:
    assert load_contract(overlays=[name]).overlays == (name,) or load_contract(overlays=[name]).overlays


@pytest.mark.filterwarnings("ignore:createCharge has no field colour")
@pytest.mark.parametrize(
    "extra", [{"colour": "red"}, {"internalId": ""}, {"internalId": None}, {"expiresIn": 0}, {"expiresIn": None}]
)
def test_strict_refuses_what_is_otherwise_accepted(extra: dict[str, Any]) -> None:
    assert status_of({**GOOD, **extra}) == "pending"
    assert status_of({**GOOD, **extra}, "strict") == "400"
    assert status_of(GOOD, "strict") == "pending"


@pytest.mark.parametrize("extra", [{"amount": 1000}, {"expiresIn": "600"}])
def test_lenient_accepts_numbers_and_digit_strings_in_each_others_place(extra: dict[str, Any]) -> None:
    assert status_of({**GOOD, **extra}) == "400"
    assert status_of({**GOOD, **extra}, "lenient") == "pending"


@pytest.mark.parametrize(
    ("amount", "status"), [(999, "400"), (500_000_001, "400"), (True, "400"), ("01", "400"), (1000.0, "409")]
)
def test_lenient_keeps_the_bounds(amount: Any, status: str) -> None:
    assert status_of({**GOOD, "amount": amount}, "lenient") == status


@pytest.mark.parametrize(
    ("amount", "status"), [(500_000_001, "400"), (10**12, "400"), (999, "400"), (10**12 + 1, "400"), (1_000, "pending")]
)
def test_large_amounts_moves_the_upper_bound_and_nothing_else(amount: int, status: str) -> None:
    assert status_of({**GOOD, "amount": str(amount)}) == status
    is_large = 500_000_000 < amount <= 10**12
    assert status_of({**GOOD, "amount": str(amount)}, "large-amounts") == ("pending" if is_large else status)


def test_large_amounts_are_paid_and_are_possible_for_static_charges() -> None:
    with Sandbox(overlays=["large-amounts"]) as sandbox:
        charge = sandbox.charges.create(amount=str(10**12), description="A house")
        code = sandbox.static_charges.create(minAmount="1000", maxAmount=str(10**12), description="Houses")
        sandbox.wallet("ana").pay(charge)
        sandbox.wallet("bob").scan(code, amount=10**11)
        sandbox.run()
        assert [each.status for each in sandbox.charges] == ["completed", "completed"]
        assert sandbox.kpi.received_msat == 10**12 + 10**11
        with pytest.raises(ApiError, match='from "1000" to "1000000000000"'):
            sandbox.charges.create(amount=str(10**12 + 1), description="Two houses")


def test_lenient_still_returns_strings() -> None:
    with Sandbox(overlays=["lenient"]) as sandbox:
        charge = sandbox.charges.create(amount=250_000, description="tea", expiresIn="60")
        assert charge.data["amount"] == "250000"
        assert (charge.expires_at - charge.created_at).total_seconds() == 60


@pytest.mark.parametrize(("overlays", "at", "status"), [
    ((), "59.999s", "completed"), ((), "60s", "expired"),
    (("payable-at-expiry",), "60s", "completed"), (("payable-at-expiry",), "60.001s", "expired"),
])  # fmt: skip
def test_payable_at_expiry_makes_the_boundary_inclusive(overlays: tuple[str, ...], at: str, status: str) -> None:
    with Sandbox(overlays=overlays) as sandbox:
        charge = sandbox.charges.create(**GOOD, expiresIn=60)
        sandbox.wallet("ana").pay(charge, delay=at)
        sandbox.run()
        assert charge.status == status


@pytest.mark.parametrize(("overlays", "attempts"), [((), 10), (("no-retries",), 1)])
def test_no_retries_gives_up_after_the_first_attempt(overlays: tuple[str, ...], attempts: int) -> None:
    with Sandbox(overlays=overlays) as sandbox:
        sandbox.receiver("shop").always(500)
        sandbox.charges.create(**GOOD, callbackUrl=HOOK, expiresIn=1)
        sandbox.run()
        assert len(sandbox.receiver("shop").inbox) == attempts


def test_callback_envelope_wraps_the_update() -> None:
    with Sandbox(overlays=["callback-envelope"]) as sandbox:
        charge = sandbox.charges.create(**GOOD, callbackUrl=HOOK)
        sandbox.wallet("ana").pay(charge)
        sandbox.run()
        [post] = sandbox.receiver("shop").inbox
        assert set(post.json) == {"type", "timestamp", "sequence", "data"}
        assert (post.json["type"], post.json["data"]["id"]) == ("charge.completed", charge.id)


def slots_after_two_payments(*overlays: str) -> tuple[int, list[str]]:
    with Sandbox(overlays=overlays) as sandbox:
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=1)
        payments = [sandbox.wallet(name).scan(tips, amount=2_000) for name in ("ana", "bob")]
        sandbox.run()
        return tips.slots, [str(payment.outcome) for payment in payments]


def test_count_on_settle_oversells_where_the_last_slot_otherwise_has_one_winner() -> None:
    assert slots_after_two_payments() == (1, ["SUCCEEDED", "INCORRECT_PAYMENT_DETAILS"])
    assert slots_after_two_payments("count-on-settle") == (2, ["SUCCEEDED", "SUCCEEDED"])


def test_reserve_on_issue_issues_no_more_invoices_than_slots() -> None:
    with Sandbox(overlays=["reserve-on-issue"]) as sandbox:
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=1)
        first = sandbox.wallet("ana").scan(tips, amount=2_000, outcome="fail")
        with pytest.raises(ValueError, match="slot"):
            sandbox.wallet("bob").scan(tips, amount=2_000)
        sandbox.advance("301s")
        assert first.outcome == "NO_ROUTE"
        sandbox.wallet("bob").scan(tips, amount=2_000)
        sandbox.run()
        assert (tips.slots, tips.status) == (1, "disabled")


def test_a_rolled_back_invoice_holds_no_slot() -> None:
    with Sandbox(overlays=["reserve-on-issue"]) as sandbox:
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=3)
        for payer in ("ana", "bob"):
            sandbox.wallet(payer).scan(tips, amount=2_000, outcome="fail")
        sandbox.wallet("cy").scan(tips, amount=2_000)
        sandbox.run("next_event")
        assert tips.update(allowedSlots=1).status == "disabled"
        assert tips.update(allowedSlots=2).status == "active"
        sandbox.wallet("dan").scan(tips, amount=2_000)
        sandbox.run("next_event")
        assert (tips.slots, tips.status) == (2, "disabled")


def test_the_file_of_an_overlay_is_read_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, title in (("a", "First"), ("b", "Second")):
        (tmp_path / folder).mkdir()
        overlay = {"overlay": "1.0.0", "info": {"title": "mine", "version": "1"}}
        action = {"target": "$.info", "update": {"title": title}}
        (tmp_path / folder / "x.overlay.json").write_text(json.dumps({**overlay, "actions": [action]}))

    def title() -> str:
        with Sandbox(overlays=["x.overlay.json"]) as sandbox:
            return str(sandbox.ask("GET", "/openapi.json")["info"]["title"])

    monkeypatch.chdir(tmp_path / "a")
    assert title() == "First"
    file = Path("x.overlay.json")
    file.write_text(file.read_text().replace("First", "Other"))
    assert title() == "Other"
    monkeypatch.chdir(tmp_path / "b")
    assert title() == "Second"
    file.write_text('{"bad": 1}')
    with pytest.raises(ContractError, match=r"x\.overlay\.json"):
        title()
    file.unlink()
    with pytest.raises(ContractError, match="check the path"):
        title()


@pytest.mark.parametrize(
    "target",
    [
        "$[?" + "(" * 500 + "@.a" + ")" * 500 + "]",
        "$" + "[?@.a" * 300 + "]" * 300,
        f"$[?{'!' * 3_000}@.a]",
        "$" + "..a" * 3_000,
    ],
    ids=["parentheses", "filters", "negations", "segments"],
)
def test_a_target_that_nests_too_deeply_is_one_line(target: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.overlay.json"
    action = {"target": target, "update": {}}
    path.write_text(json.dumps({"overlay": "1.0.0", "info": {"title": "t", "version": "1"}, "actions": [action]}))
    with pytest.raises(ContractError, match=r"deep\.overlay\.json, action 1") as refused:
        Sandbox(overlays=[str(path)])
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 1_000
