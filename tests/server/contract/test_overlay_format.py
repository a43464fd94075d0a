"""Overlays edit the spec as the Overlay Specification says, and an overlay without an effect is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.server.contract.document.overlay import apply_overlay, read_overlay
from leyden.server.contract.load import DOCUMENTS, default_spec, known_overlays, load_contract, overlay_file
from leyden.server.errors import ContractError
from leyden.world.config import packaged_contract
from tests.support.small_spec import SMALL, small

ROWS = "$.components.schemas.Order.properties.status['x-lifecycle']"


def overlay(*actions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"overlay": "1.0.0", "info": {"title": "try", "version": "1"}, "actions": list(actions), **fields}


def applied(document: dict[str, Any], *actions: dict[str, Any]) -> dict[str, Any]:
    apply_overlay(document, read_overlay(overlay(*actions), "try.overlay.yaml"))
    return document


def test_an_update_merges_objects_at_every_depth():
    document = applied({"a": {"b": {"c": 1, "d": 2}}}, {"target": "$.a", "update": {"b": {"d": 3, "e": 4}, "f": 5}})
    assert document == {"a": {"b": {"c": 1, "d": 3, "e": 4}, "f": 5}}


def test_an_update_of_the_root_merges_there():
    assert applied({"a": 1}, {"target": "$", "update": {"b": 2}}) == {"a": 1, "b": 2}


def test_an_update_of_a_list_appends_to_it():
    assert applied({"a": [1]}, {"target": "$.a", "update": {"b": 2}}) == {"a": [1, {"b": 2}]}
    assert applied({"a": [1]}, {"target": "$.a", "update": [2, 3]}) == {"a": [1, 2, 3]}


def test_a_list_inside_an_update_is_appended_to_the_list_there():
    assert applied({"a": {"b": [1]}}, {"target": "$.a", "update": {"b": [2]}}) == {"a": {"b": [1, 2]}}


def test_every_selected_location_gets_its_own_copy_of_the_value():
    document = applied({"a": {}, "b": {}}, {"target": "$.*", "update": {"c": {"d": 1}}})
    assert document == {"a": {"c": {"d": 1}}, "b": {"c": {"d": 1}}}
    assert document["a"]["c"] is not document["b"]["c"]


def test_actions_are_applied_in_order_each_to_the_result_of_the_former():
    replaced = applied(
        {"a": {"b": "x"}}, {"target": "$.a.b", "remove": True}, {"target": "$.a", "update": {"b": [1, 2]}}
    )
    assert replaced == {"a": {"b": [1, 2]}}


@pytest.mark.parametrize(
    ("target", "left"),
    [("$[1,3]", [0, 2, 4]), ("$[3,1]", [0, 2, 4]), ("$[1,1]", [0, 2, 3, 4]), ("$[?@ > 1]", [0, 1]), ("$[*]", [])],
)
def test_removing_several_entries_of_a_list_removes_exactly_those(target, left):
    document = {"rows": [0, 1, 2, 3, 4]}
    assert applied(document, {"target": target.replace("$", "$.rows"), "remove": True}) == {"rows": left}


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9))
def test_a_removal_by_filter_removes_what_matches(values, bound):
    if any(value >= bound for value in values):
        document = applied({"rows": values[:]}, {"target": f"$.rows[?@ >= {bound}]", "remove": True})
        assert document == {"rows": [value for value in values if value < bound]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_a_value_merged_into_nothing_is_an_independent_copy(update):
    before = json.dumps(update)
    document = applied({"a": {}}, {"target": "$.a", "update": update})
    assert document == {"a": update}
    for value in document["a"].values():
        if isinstance(value, dict):
            value["changed"] = True
    assert json.dumps(update) == before


def test_a_lifecycle_row_is_found_by_its_values():
    target = ROWS + "[?@.trigger=='paid' && @.from=='new' && @.when]"
    contract = load_contract(small(), overlays=[overlay({"target": target, "update": {"when": "at_or_before"}})])
    assert [row.when for row in contract.lifecycles["Order"].rows if row.when] == ["at_or_before"]


def test_the_contract_is_that_of_the_edited_document_and_names_its_overlays():
    shorter = overlay({"target": "$.components.schemas.Amount", "update": {"maxLength": 2}})
    document = small()
    contract = load_contract(document, overlays=[shorter])
    assert contract.overlays == ("try",)
    assert contract.document["components"]["schemas"]["Amount"]["maxLength"] == 2
    assert not contract.schemas["Amount"].validator.is_valid("500")
    assert document == small()


def test_the_loader_checks_the_document_after_the_overlay():
    wrong = overlay({"target": "$.components.schemas.Amount", "update": {"maxLenght": 2}})
    with pytest.raises(ContractError, match="did you mean 'maxLength'"):
        load_contract(small(), overlays=[wrong])


# What is refused


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (
            [{"target": "$.a", "update": {}}, {"target": "$.b", "update": {}}],
            r"overlay try\.overlay\.yaml, action 2 .*\$\.b selects nothing",
        ),
        (
            [{"target": "$.b", "description": "Shorten it.", "remove": True}],
            r"action 1 \(Shorten it\.\): .*selects nothing",
        ),
        ([{"target": "$.a[", "update": {}}], "is not JSONPath"),
        ([{"target": "$", "remove": True}], "whole document cannot be removed"),
        ([{"target": "$.a.b", "update": {"c": 1}}], "cannot update 1; target the object that holds it"),
        ([{"target": "$.a", "update": 1}], "cannot update"),
        ([{"target": "$.a", "update": {"b": [1]}}], r"\[1\] is another kind than 1; remove 'b' in an action before"),
        ([{"target": "$", "update": {"a": 1}}], "is another kind than"),
    ],
)
def test_an_action_that_does_not_fit_is_named(actions, message):
    with pytest.raises(ContractError, match=message):
        applied({"a": {"b": 1}}, *actions)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a mapping"),
        ({"overlay": "1.0.0", "actions": []}, "info is missing; write info: {title: ..., version: ...}"),
        (
            {"overlay": "1.0.0", "info": {"title": "x", "version": "1"}},
            "actions is missing; write actions, a list of {target",
        ),
        ({"overlay": "1.0.0", "info": {}, "actions": []}, "title is missing; write what the overlay is called"),
        ({"info": {}, "actions": []}, "overlay is missing; write overlay: 1.0.0"),
        (overlay(), "actions: is empty"),
        (overlay({"target": "$", "update": {}}, overlay="2.0.0"), "write overlay: 1.0.0"),
        (overlay({"target": "$", "update": {}}, extend="x"), "unknown key 'extend'; did you mean 'extends'?"),
        (overlay({"update": {}}), "target is missing; write the JSONPath of what the action changes"),
        (overlay({"target": "$"}), "must have either update or remove: true; write update with what changes, or"),
        (
            overlay({"target": "$", "update": {}, "remove": True}),
            "must have either update or remove: true; leave one of them",
        ),
        (overlay({"target": "$", "updates": {}}), "unknown key 'updates'; did you mean 'update'?"),
        (overlay({"target": 1, "update": {}}), "1 does not fit"),
    ],
)
def test_a_document_that_is_no_overlay_is_refused(document, message):
    with pytest.raises(ContractError) as refusal:
        read_overlay(document, "try.overlay.yaml")
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("try.overlay.yaml")


# Which document an overlay is for


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("extended", DOCUMENTS)
@pytest.mark.parametrize("target", ["$.info", "$.nope"])
def test_an_overlay_changes_the_document_that_it_extends_and_no_other(name: str, extended: str, target: str):
    ours = overlay({"target": target, "update": {"title": "Ours"}}, extends=f"../{extended}.openapi.yaml")
    if (name, target) == (extended, "$.info"):
        assert load_contract(default_spec(name), overlays=[ours]).title == "Ours"
        return
    with pytest.raises(ContractError) as refusal:
        load_contract(default_spec(name), overlays=[ours])
    expected = (
        "selects nothing"
        if name == extended
        else f"extends names '../{extended}.openapi.yaml', and overlays change {name}.openapi.yaml here;"
        " name that in extends, or leave the overlay out"
    )
    assert expected in str(refusal.value)


def test_a_sandbox_refuses_an_overlay_of_its_control_plane(tmp_path: Path):
    file = tmp_path / "control.overlay.yaml"
    file.write_text(
        "overlay: 1.0.0\ninfo: {title: x, version: '1'}\nextends: ../sandbox.openapi.yaml\nactions:\n"
        " - {target: $.info, update: {title: Mine}}\n"
    )
    for spec in (None, default_spec()):
        with pytest.raises(ContractError, match=r"overlays change charges\.openapi\.yaml here; name that in extends"):
            Sandbox(spec=spec, overlays=[file])


def test_a_spec_under_another_name_may_replace_that_of_the_service(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL)
    ours = overlay({"target": "$.info", "update": {"title": "Ours"}}, extends="charges.openapi.yaml")
    theirs = overlay({"target": "$.info", "update": {"title": "Theirs"}}, extends="sandbox.openapi.yaml")
    assert load_contract(file, overlays=[ours]).title == "Ours"
    assert load_contract(file, overlays=[ours], known_as="charges.openapi.yaml").title == "Ours"
    with pytest.raises(ContractError, match=r"extends names 'sandbox\.openapi\.yaml'"):
        load_contract(file, overlays=[theirs], known_as="charges.openapi.yaml")


@pytest.mark.parametrize("extends", ["charge.openapi.yaml", "specs/charge.openapi.yaml", "/nope", "nope/"])
def test_an_overlay_of_an_unknown_document_is_an_error(extends: str):
    stray = overlay({"target": "$.info", "update": {}}, extends=extends)
    with pytest.raises(ContractError) as refusal:
        load_contract(overlays=[stray])
    assert f"extends names {extends!r}, which is not a document here" in str(refusal.value)
    assert ("; did you mean" in str(refusal.value)) == ("charge" in extends)


def test_an_unknown_name_lists_the_overlays_there_are():
    with pytest.raises(ContractError) as refusal:
        load_contract(overlays=["stritc"])
    assert "no overlay 'stritc'; there are: " in str(refusal.value)
    assert all(name in str(refusal.value) for name in known_overlays())


def test_a_file_with_the_name_of_no_overlay_is_found_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("overlay: 1.1.0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ContractError, match=r"^no overlay 'mine': for the file write \./mine; there are: "):
        overlay_file("mine")


def test_an_overlay_is_read_from_a_path(tmp_path: Path):
    file = tmp_path / "titled.overlay.yaml"
    file.write_text(
        "overlay: 1.0.0\ninfo: {title: x, version: 1.0.0}\nactions: [{target: $.info, update: {title: Ours}}]"
    )
    for source in (file, str(file)):
        contract = load_contract(overlays=[source])
        assert (contract.title, contract.overlays) == ("Ours", (str(file),))


@pytest.mark.parametrize("name", known_overlays())
def test_every_packaged_overlay_changes_the_document_it_names(name):
    loaded = load_contract(overlays=[name])
    assert loaded.document != packaged_contract("charges").document
    assert loaded.overlays == (name,)
