"""Packaged overlays combine: in any order the document is the same, and what each of them promises holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ContractError
from leyden.server.contract.load import known_overlays, load_contract

AMOUNTS = ("large-amounts", "lenient", "magic-amounts")
# Both change the same text or list; the tests below show what they do together.
SAME_PLACES = {
    *combinations(AMOUNTS, 2), ("count-on-settle", "reserve-on-issue"), ("lenient", "strict"),
}  # fmt: skip


def leaves(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(value, dict):
        yield place, json.dumps(value, sort_keys=True)
        return
    for key, item in value.items():
        yield from leaves(item, (*place, key))


def document(*overlays: str) -> dict[tuple[str, ...], str]:
    return dict(leaves(load_contract(overlays=overlays).document))


@pytest.fixture(scope="module")
def changes() -> dict[str, dict[tuple[str, ...], str | None]]:
    """What each overlay changes when it is alone: the value of each place, None where there is none any more."""
    base = document()
    found = {}
    for name in known_overlays():
        edited = document(name)
        places = base.keys() | edited.keys()
        found[name] = {place: edited.get(place) for place in places if base.get(place) != edited.get(place)}
    return found


@pytest.mark.parametrize("pair", list(combinations(known_overlays(), 2)), ids="+".join)
def test_the_changes_of_both_are_there_in_both_orders(
    pair: tuple[str, str], changes: dict[str, dict[tuple[str, ...], str | None]]
) -> None:
    first, second = (changes[name] for name in pair)
    same = {place for place in first.keys() & second.keys() if first[place] != second[place]}
    assert bool(same) == (pair in SAME_PLACES)
    together = document(*pair)
    assert together == document(*reversed(pair))
    if pair == ("large-amounts", "lenient"):
        same.add(
            ("components", "schemas", "RequestedAmount", "maximum")
        )  # the one accepts the integers up to the other
    wanted = {place: value for place, value in {**first, **second}.items() if place not in same}
    assert {place: together.get(place) for place in wanted} == wanted


def test_all_of_them_are_the_same_in_both_orders() -> None:
    assert document(*known_overlays()) == document(*reversed(known_overlays()))


@pytest.mark.parametrize("overlays", [some for size in (1, 2, 3) for some in permutations(AMOUNTS, size)], ids="+".join)
def test_the_bounds_and_the_forms_of_amounts_are_those_of_all(overlays: tuple[str, ...]) -> None:
    most = 10**12 if "large-amounts" in overlays else 500_000_000
    is_lenient = "lenient" in overlays
    with Sandbox(overlays=overlays) as sandbox:

        def status(amount: int | str) -> int:
            answer = sandbox.http.post("/v0/charges", json={"amount": amount, "description": "tea"})
            if answer.status_code != 200:
                detail = answer.json()["detail"]
                assert (f'from "1000" to "{most}"' in detail, "JSON integer" in detail) == (True, is_lenient)
            return int(answer.status_code)

        assert [status(str(amount)) for amount in (999, 1_000, most, most + 1)] == [400, 200, 200, 400]
        schema = sandbox.http.get("/openapi.json").json()["components"]["schemas"]["RequestedAmount"]
        page = sandbox.http.get("/docs").text
        if is_lenient:
            assert (schema["minimum"], schema["maximum"]) == (1_000, most)
            assert [status(amount) for amount in (999, 1_000, most, most + 1)] == [400, 200, 200, 400]
    described = " ".join(schema["description"].split())
    assert re.findall(r'`"1000"` \(one satoshi\) to `"(\d+)"`', described) == [str(most)]
    assert ("JSON integer" in described) == is_lenient
    for text in (described, page):
        assert ("202000" in text and "503000" in text) == ("magic-amounts" in overlays)


@pytest.mark.parametrize("overlays", [("lenient", "strict"), ("strict", "lenient")], ids="+".join)
def test_digits_are_accepted_and_empty_values_refused(overlays: tuple[str, ...]) -> None:
    with Sandbox(overlays=overlays) as sandbox:
        for good in ({"expiresIn": "60"}, {"expiresIn": 60}, {"amount": 1_000}):
            sandbox.charges.create(**{"amount": "1000", "description": "tea", **good})
        tips: dict[str, Any] = {"minAmount": 1_000, "maxAmount": "9000", "description": "Tips"}
        sandbox.static_charges.create(**tips, allowedSlots="2", expiresIn="60")
        for name in ("expiresIn", "allowedSlots"):
            for empty in ("", None, 0):
                with pytest.raises(ApiError, match=name):
                    sandbox.static_charges.create(**tips, **{name: empty})


@pytest.mark.parametrize("overlays", list(permutations(("count-on-settle", "reserve-on-issue"))), ids="+".join)
def test_an_invoice_reserves_its_slot_and_stays_payable(overlays: tuple[str, ...]) -> None:
    with Sandbox(overlays=overlays) as sandbox:
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=2)
        payments = [sandbox.wallet(name).scan(tips, amount=2_000) for name in ("ana", "bob")]
        with pytest.raises(Exception, match="every slot is used or reserved"):
            sandbox.wallet("cem").scan(tips, amount=2_000)
        tips.update(allowedSlots=1)  # fewer than are reserved: both invoices stay payable
        sandbox.run()
        assert (tips.slots, [payment.outcome for payment in payments]) == (2, ["SUCCEEDED", "SUCCEEDED"])


def overlay(*actions: dict[str, Any]) -> dict[str, Any]:
    return {"overlay": "1.0.0", "info": {"title": "Try", "version": "1"}, "actions": list(actions)}


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({"target": "$.info.title", "x-replace": {"no such text": "x"}}, "'no such text' is not in the text"),
        ({"target": "$.info", "x-replace": {"a": "b"}}, "is no text; target a text"),
        ({"target": "$", "x-append": "b"}, "is no text; target a text"),
        ({"target": "$.info.title", "x-replace": {"": "b"}}, "write texts"),
        ({"target": "$.info.title", "x-replace": {"a": 1}}, "write texts"),
        ({"target": "$.info.title", "x-append": "b", "remove": True}, "must have either update, remove: true, x-rep"),
        ({"target": "$.none", "x-append": "b"}, "selects nothing"),
    ],
)
def test_what_an_edit_of_a_text_cannot_do_is_refused_in_one_line(action: dict[str, Any], problem: str) -> None:
    with pytest.raises(ContractError, match=problem) as caught:
        load_contract(overlays=[overlay(action)])
    assert "\n" not in str(caught.value)


def test_a_text_is_edited_and_an_action_may_select_nothing() -> None:
    edits = overlay(
        {"target": "$.info.title", "x-replace": {"e": "E"}},
        {"target": "$.info.title", "x-append": "More."},
        {"target": "$.none", "x-may-select-nothing": True, "update": {"a": 1}},
    )
    title = load_contract().document["info"]["title"]
    assert load_contract(overlays=[edits]).document["info"]["title"] == title.replace("e", "E") + "\n\nMore."
