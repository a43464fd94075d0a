"""A long list with a wrong item at each place is refused for the first of them, at the cost of one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lab.actions.action_schema import ACTION_LOG_SCHEMA, SAVED_ACTION_LOG
from leyden.lightning.topology.import_graph import import_graph
from leyden.server.contract import schema_errors
from leyden.server.contract.schema_errors import first_error, several_errors, with_short_alternatives
from leyden.server.errors import LeydenError
from leyden.server.http.validation import find_errors
from leyden.world.config import packaged_contract
from leyden.world.snapshots.snapshot_schema import SAVED_SANDBOX, SNAPSHOT_SCHEMA

COUNT = 200_000  # all errors of so many items take some seconds and 300 MB
MAX_S = 2.0  # of processor time
PLACES = [
    "/clock/timers", "/journal/entries", "/outbox/queue", "/outbox/disabled", "/config/overlays",
    "/tables/charges/rows", "/tables/deliveries/rows", "/tables/of_another_version/rows", "/network/sessions",
    "/network/shards", "/network/events", "/action_log/actions", "/action_log/arguments/overlays",
]  # fmt: skip


@cache
def saved() -> dict[str, Any]:
    sandbox = Sandbox(seed=7, network="line:3")
    charge = sandbox.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    found: dict[str, Any] = json.loads(json.dumps(sandbox.snapshot()))
    found["tables"]["of_another_version"] = {"exists": True, "next_id": 1, "rows": []}
    return found


def changed(place: str, value: Any) -> dict[str, Any]:
    document = deepcopy(saved())
    holder: Any = document
    *steps, last = place.split("/")[1:]
    for step in steps:
        holder = holder[step]
    holder[last] = value
    return document


def quickly(call: Callable[[], Any]) -> str:
    began = time.process_time()
    with pytest.raises(LeydenError) as refused:
        call()
    assert time.process_time() - began < MAX_S
    return str(refused.value)


@pytest.mark.parametrize("place", PLACES)
def test_a_saved_sandbox_with_a_long_wrong_list_is_refused_for_its_first_item(place: str) -> None:
    few, many = changed(place, [0] * 2), changed(place, [0] * COUNT)
    text = quickly(lambda: Sandbox.from_snapshot(many))
    if place.startswith("/outbox"):  # its error is that of its alternatives, and shows it whole
        assert "/outbox: " in text
        assert "is not valid under any of the schemas" in text
        return
    assert text == quickly(lambda: Sandbox.from_snapshot(few))
    assert f"{place.removeprefix('/action_log')}/0: 0 is not of type" in text


def test_a_long_wrong_list_among_the_alternatives_of_an_argument_is_one_error() -> None:
    action = ["fault", {"method": "add", "args": ["drop"], "named": {"charge": [0] * COUNT}}, False]
    log = {"arguments": {}, "actions": [action], "gap": ""}
    assert "is not valid under any of the schemas" in quickly(lambda: SAVED_ACTION_LOG.check(log, "it"))


@pytest.mark.parametrize("place", ["/label", "/clock", "/clock/now", "/outbox", "/outbox/queue", "/journal/length"])
def test_the_error_of_a_large_value_is_that_of_its_first_parts(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error has copies of its value. Other errors, of what is left out of it, are none."""
    validate: Callable[..., Any] = schema_errors._error_of
    sizes: list[int] = []

    def seen(validator: Any, value: Any) -> Any:
        sizes.append(len(json.dumps(value)))
        return validate(validator, value)

    monkeypatch.setattr(schema_errors, "_error_of", seen)
    few, many = changed(place, [[0] * 9] * 9), changed(place, [[0] * 9] * (COUNT // 10))
    errors = [first_error(SAVED_SANDBOX.validator, document) for document in (few, many)]
    found = [error and (error.kind.name, error.instance_path) for error in errors]
    assert found[0] is not None
    assert found[0] == found[1]
    assert max(sizes, default=0) <= len(json.dumps(few))


@given(st.data())
def test_an_error_of_a_large_value_is_one_of_all_its_errors(data: st.DataObject) -> None:
    numbers = {"type": "array", "items": {"type": "integer"}, "minItems": data.draw(st.integers(0, 12))}
    schema = {
        "type": "object",
        "properties": {
            "a": numbers,
            "b": {"anyOf": [numbers, {"type": "null"}]},
            "c": {"type": "array", "items": numbers, "contains": {"minItems": 11}},
            "d": {"type": "string"},
        },
    }
    leaves = st.none() | st.integers(0, 3) | st.text(max_size=2)
    lists = st.lists(leaves, max_size=14)
    value = data.draw(st.fixed_dictionaries({}, optional={
        "a": lists, "b": lists, "c": st.lists(lists, max_size=14), "d": leaves | st.lists(lists, max_size=14)
    }))  # fmt: skip
    validator = Draft202012Validator(schema)
    every = [(error.kind.name, error.instance_path) for error in validator.iter_errors(value)]
    with pytest.MonkeyPatch.context() as small:
        for name, limit in (("_MOST_ITEMS", 3), ("_SHORT", 2)):
            small.setattr(schema_errors, name, limit)
        error = first_error(validator, value)
    if error is None:
        assert not every
    else:
        assert (error.kind.name, error.instance_path) in every


@pytest.mark.parametrize("name", ["edges", "channels", "nodes"])
def test_a_graph_with_a_long_wrong_list_is_refused_for_its_first_item(name: str) -> None:
    few, many = ({"edges": [], name: [0] * count} for count in (2, COUNT))
    text = quickly(lambda: import_graph(many))
    with pytest.raises(GraphError) as refused:
        import_graph(few)
    assert text == str(refused.value)
    assert f"/{name}/0: 0 is not of type" in text


@pytest.mark.parametrize("count", [30, 3_000, COUNT])
def test_the_errors_of_a_body_with_a_long_wrong_list_are_the_first_ones(count: int) -> None:
    body = packaged_contract("server").operations["createSandbox"].body
    assert body is not None
    began = time.process_time()
    errors = find_errors(body.rule, {"overlays": [0] * count, "seed": -1})
    assert time.process_time() - began < MAX_S
    assert len(errors) == 20
    pointers = {error.pointer for error in errors}
    assert {"/overlays/0", "/overlays"} & pointers


def test_a_wrong_item_beyond_those_that_are_listed_is_the_error() -> None:
    rule = packaged_contract("sandbox").schemas["Problem"]
    document = {"errors": [{"pointer": "/a", "detail": "b"}] * 5_000}
    first = first_error(rule.validator, document)
    assert first is not None
    [*errors] = several_errors(rule.validator, document)
    assert (errors[0].message, errors[0].instance_path) == (first.message, first.instance_path)


@pytest.mark.parametrize("schema", [SNAPSHOT_SCHEMA, ACTION_LOG_SCHEMA], ids=["saved sandbox", "action log"])
def test_no_alternative_of_a_schema_for_files_lists_its_own_errors(schema: Any) -> None:
    def check(part: Any) -> None:
        if isinstance(part, list):
            for each in part:
                check(each)
        elif isinstance(part, dict):
            for name in ("anyOf", "oneOf"):
                assert all(set(one) == {"not"} for one in part.get(name, ()))
            for each in part.values():
                check(each)

    check(with_short_alternatives(schema))


def test_the_first_error_is_that_which_all_errors_begin_with() -> None:
    for place in PLACES[:-2]:
        document = changed(place, ["x", 0, None])
        error = first_error(SAVED_SANDBOX.validator, document)
        [expected, *_] = SAVED_SANDBOX.validator.iter_errors(document)
        assert error is not None
        assert (error.message, error.instance_path) == (expected.message, expected.instance_path)
