"""The spec's operations are bound to their handlers at start; any mismatch refuses the start."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.server.contract.bind import bind, handles
from leyden.server.contract.load import load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import Conflict, ContractError, InvalidRequest, NotFound
from tests.support.small_spec import small

GUARDS = {"in_time": lambda row, at: True}
EFFECTS = {"notify": lambda row, at: None, "unused": lambda row, at: None}


class Orders:
    @handles(raises=(InvalidRequest, NotFound))
    def create_order(self, call: Any) -> Any:
        return {"made": call}

    @handles(raises=(NotFound,))
    def get_order(self, call: Any) -> Any:
        return {"read": call}

    def helper(self) -> None:
        """No handler: it is not marked."""


class Payments:
    @handles(raises=(Conflict,))
    def pay_order(self, call: Any) -> Any:
        return {"paid": call}


class Unknown(Payments):
    @handles()
    def get_orders(self, call: Any) -> Any:
        return []


class UndeclaredProblem(Orders):
    @handles(raises=(NotFound, Conflict))
    def get_order(self, call: Any) -> Any:
        return {}


class Beginning:
    @handles(raises=(InvalidRequest,))
    def create_order(self, call: Any) -> Any:
        return {}


@pytest.fixture
def contract() -> Contract:
    return load_contract(small())


def test_every_operation_gets_the_method_of_its_name(contract):
    bound = bind(contract, [Orders(), Payments()], GUARDS, EFFECTS)
    assert list(bound) == ["createOrder", "getOrder", "payOrder"]
    assert bound["createOrder"]("tea") == {"made": "tea"}
    assert not getattr(bound["createOrder"], "mock", False)


def test_handlers_may_be_given_by_operation_id(contract):
    handlers = {name: lambda call, name=name: name for name in contract.operations}
    assert bind(contract, handlers, GUARDS, EFFECTS)["getOrder"](None) == "getOrder"


def test_an_operation_without_a_handler_is_named_with_the_method_to_add(contract):
    with pytest.raises(ContractError) as refusal:
        bind(contract, [Orders()], GUARDS, EFFECTS)
    assert str(refusal.value) == (
        "paths./pay/{id}.get: operationId 'payOrder' has no handler; add the method pay_order, "
        "or answer with its example by --mock-unbound"
    )


def test_a_misspelt_operation_id_is_named_with_the_nearest_that_has_a_handler():
    document = small()
    document["paths"]["/pay/{id}"]["get"]["operationId"] = "payOrdr"
    with pytest.raises(ContractError, match=r"operationId 'payOrdr' has no handler; .*; did you mean 'payOrder'"):
        bind(load_contract(document), [Orders(), Payments()], GUARDS, EFFECTS)


def test_a_handler_whose_operation_is_left_out_is_not_used(contract):
    assert list(bind(contract, [Orders(), Unknown()], GUARDS, EFFECTS)) == ["createOrder", "getOrder", "payOrder"]


def test_a_link_may_name_an_operation_that_is_left_out_but_no_unknown_one():
    document = small()
    del document["paths"]["/v0/orders/{id}"]
    assert list(bind(load_contract(document), [Orders(), Payments()], GUARDS, EFFECTS)) == ["createOrder", "payOrder"]
    document = small()
    document["paths"]["/v0/orders"]["post"]["responses"]["200"]["links"]["get"]["operationId"] = "getOder"
    with pytest.raises(ContractError, match="links/get: no operation 'getOder'; did you mean 'getOrder'"):
        bind(load_contract(document), [Orders(), Payments()], GUARDS, EFFECTS)


@pytest.mark.parametrize(
    ("need", "why"),
    [
        ("path.number", "it is not declared; declare the path parameter number, under this name"),
        ("query.limit", "it is not declared; declare the query parameter limit, under this name"),
        ("body.table", "a request may leave it out; require it, or give it a default"),
    ],
)
def test_a_value_that_a_handler_needs_and_a_request_may_leave_out_is_named(contract, need, why):
    class Needy:
        @handles(needs=(need,))
        def create_order(self, call: Any) -> Any:
            return {}

    with pytest.raises(ContractError) as refusal:
        bind(contract, [Needy(), Payments()], GUARDS, EFFECTS, mock_unbound=True)
    assert str(refusal.value) == f"paths./v0/orders.post ({need}): create_order reads it, but {why}"


def test_two_handlers_of_one_operation_are_named(contract):
    with pytest.raises(ContractError, match="both answer payOrder; keep one"):
        bind(contract, [Orders(), Payments(), Payments()], GUARDS, EFFECTS)


def test_a_problem_the_operation_does_not_declare_is_named(contract):
    with pytest.raises(ContractError) as refusal:
        bind(contract, [UndeclaredProblem(), Payments()], GUARDS, EFFECTS)
    assert "paths./v0/orders/{id}.get.responses: get_order can raise Conflict, but 409 is not declared" in str(
        refusal.value
    )


def test_a_wallets_operation_declares_no_errors_because_it_answers_them_with_200(contract):
    assert bind(contract, [Orders(), Payments()], GUARDS, EFFECTS)["payOrder"].raises == (Conflict,)


def test_a_guard_without_a_function_is_named(contract):
    with pytest.raises(
        ContractError, match="x-lifecycle/1/when: the guard 'in_time' has no function; did you mean 'in_tim'"
    ):
        bind(contract, [Orders(), Payments()], {"in_tim": None}, EFFECTS)


def test_an_effect_without_a_function_is_named(contract):
    with pytest.raises(ContractError, match="x-lifecycle/1/effects/0: the effect 'notify' has no function"):
        bind(contract, [Orders(), Payments()], GUARDS, {})


def test_functions_may_be_given_by_resource_and_then_serve_only_that_one(contract):
    bind(contract, [Orders(), Payments()], {"Order": GUARDS}, {"Order": EFFECTS})
    with pytest.raises(ContractError, match="the guard 'in_time' has no function"):
        bind(contract, [Orders(), Payments()], {"Order": {}, "Other": GUARDS}, EFFECTS)


@pytest.mark.parametrize("said_at_load", [True, False])
def test_an_unbound_operation_answers_its_own_example_when_asked_to(said_at_load):
    contract = load_contract(small(), mock_unbound=said_at_load)
    bound = bind(contract, [Beginning(), Payments()], GUARDS, EFFECTS, mock_unbound=not said_at_load)
    assert [name for name, handler in bound.items() if getattr(handler, "mock", False)] == ["getOrder"]
    assert bound["getOrder"](object())["data"]["note"] == "tea"


def test_an_unbound_operation_without_an_example_is_named():
    contract = load_contract(small(), mock_unbound=True)
    with pytest.raises(ContractError) as refusal:
        bind(contract, [Orders()], GUARDS, EFFECTS)
    assert str(refusal.value).startswith("paths./pay/{id}.get.responses.200: payOrder has no handler and no example")
