"""A specification that leaves operations out is served without them; what needs them is refused by name when used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import orjson
import pytest

from leyden import Sandbox
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.errors import ContractError
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Contract
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.merged_openapi import merged
from leyden.world.world import World
from tests.support.deep import deep_except

Document = dict[str, Any]
TEA = {"amount": "1000", "description": "tea"}
TIPS = {"minAmount": "1000", "maxAmount": "2000", "description": "tips"}


@cache
def read_once(name: str) -> bytes:
    return orjson.dumps(read_yaml(default_spec(name).read_bytes(), f"{name}.openapi.yaml"))


def packaged(name: str = "charges") -> Document:
    document: Document = orjson.loads(read_once(name))
    return document


def operation_ids(document: Document) -> list[str]:
    return [node["operationId"] for item in document["paths"].values() for node in item.values() if type(node) is dict]


def without(names: Iterable[str], name: str = "charges") -> Contract:
    document = packaged(name)
    for path, item in list(document["paths"].items()):
        for method, node in list(item.items()):
            if type(node) is dict and node["operationId"] in set(names):
                del item[method]
        if not any(type(node) is dict for node in item.values()):
            del document["paths"][path]
    return load_contract(document, known_as=f"{name}.openapi.yaml")


OPERATIONS = operation_ids(packaged())


@pytest.mark.parametrize("left_out", deep_except(OPERATIONS, *OPERATIONS[::5]))
def test_one_operation_less_is_served_without_it(left_out):
    with Sandbox(spec=without([left_out])) as sandbox:
        for method, target in (
            ("GET", "/docs"),
            ("GET", "/openapi.json"),
            ("GET", "/sandbox/v1/merged.json"),
            ("GET", "/sandbox/v1/flows.json"),
        ):
            assert sandbox.request(method, target).status == 200
        if left_out != "createCharge":
            assert sandbox.ask("POST", sandbox.path("createCharge"), TEA)["data"]["status"] == "pending"
        if left_out != "createStaticCharge":
            assert sandbox.ask("POST", sandbox.path("createStaticCharge"), TIPS)["data"]["status"] == "active"
        with pytest.raises(ContractError, match=f"leaves out the operation '{left_out}'"):
            sandbox.path(left_out)


def test_a_misspelt_operation_is_not_said_to_be_left_out():
    with Sandbox(spec=without(["getWallet"])) as sandbox:
        with pytest.raises(ContractError, match=r"has no operation 'createChrge': did you mean 'createCharge'\?$"):
            sandbox.path("createChrge")
        with pytest.raises(ContractError, match="has no operation 'nope': choose one of createCharge, "):
            sandbox.path("nope")


def test_the_path_of_an_operation_that_is_left_out_answers_404():
    with Sandbox(spec=without(["getWallet"])) as sandbox:
        assert sandbox.request("GET", "/v0/wallet").status == 404


def test_methods_that_need_an_operation_that_is_left_out_name_it():
    with Sandbox(spec=without(["createCharge", "updateStaticCharge"])) as sandbox:
        with pytest.raises(ContractError, match="leaves out the operation 'createCharge'"):
            sandbox.charges.create(**TEA)
        with pytest.raises(ContractError, match="leaves out the operation 'createCharge'"):
            sandbox.traffic("30/min")
        assert repr(sandbox.charges) == "0 in no path"
        tips = sandbox.static_charges.create(**TIPS)
        with pytest.raises(ContractError, match="leaves out the operation 'updateStaticCharge'"):
            tips.update(description="more")


def test_a_script_is_written_without_the_operations_that_are_left_out(tmp_path):
    file = tmp_path / "spec.json"
    file.write_bytes(orjson.dumps(without(["createCharge", "updateStaticCharge"]).document))
    with Sandbox(spec=file) as sandbox:
        sandbox.static_charges.create(**TIPS)
        assert "static_charges.create" in sandbox.script()


def test_charges_alone_are_a_specification():
    document = packaged()
    document["paths"] = {path: item for path, item in document["paths"].items() if path.startswith("/v0/charges")}
    del document["components"]["schemas"]["StaticCharge"]["properties"]["status"]["x-lifecycle"]
    with Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml")) as sandbox:
        charge = sandbox.charges.create(**TEA)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1m")
        assert charge.status == "completed"


def test_a_callback_that_is_left_out_is_not_sent():
    document = packaged()
    del document["paths"]["/v0/charges"]["post"]["callbacks"]
    with Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml")) as sandbox:
        charge = sandbox.charges.create(**TEA, callbackUrl="http://shop.localhost/x")
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1m")
        assert charge.status == "completed"
        assert len(sandbox.receiver("shop").inbox) == 0


def test_nothing_to_serve_is_refused():
    with pytest.raises(ContractError, match="paths: has no operation, so there is nothing to serve"):
        without(operation_ids(packaged()))


def test_a_renamed_operation_is_named_with_its_place_and_the_nearest_one():
    document = packaged()
    document["paths"]["/v0/charges"]["post"]["operationId"] = "createCharges"
    with pytest.raises(ContractError) as refusal:
        Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))
    assert str(refusal.value) == (
        "paths./v0/charges.post: operationId 'createCharges' has no handler; add the method create_charges, or "
        "answer with its example by --mock-unbound; did you mean 'createCharge'?"
    )


CONTROL_OPERATIONS = operation_ids(packaged("sandbox"))


@contextmanager
def world_without(names: Sequence[str]) -> Iterator[tuple[World, Contract]]:
    """A world whose control plane leaves these operations out."""
    control = without(names, "sandbox")
    config = replace(world_config(seed=0, start_ms=1_893_456_000_000), control=lambda: control)
    world = World(config, Store.memory(), control_handlers=control_handlers)
    yield world, control
    world.store.close()


@pytest.mark.parametrize("left_out", deep_except(CONTROL_OPERATIONS, *CONTROL_OPERATIONS[::24]))
def test_a_control_operation_less_is_served_without_it(left_out):
    with world_without([left_out]) as (world, control):
        kept = next(one for one in ("getSandbox", "listPayments") if one != left_out)
        answer = send_request(world.app, "GET", control.operations[kept].path, ((b"apikey", b"leyden"),))
        assert answer.status == 200
        paths = merged(world.config.contract.document, control.document)["paths"]
        assert left_out not in operation_ids({"paths": paths})
        served = orjson.loads(send_request(world.app, "GET", "/sandbox/v1/openapi.json").body)
        assert left_out not in operation_ids(served)


# Neighbours are in different groups, because an operation mostly refers to its neighbours.
@pytest.mark.parametrize("group", deep_except(range(8), 0, 5))
def test_the_page_of_the_control_plane_is_served_without_the_operations_of_a_group(group):
    left_out = CONTROL_OPERATIONS[group::8]
    with world_without(left_out) as (world, _):
        page = send_request(world.app, "GET", "/sandbox/v1/docs")
        assert page.status == 200
        assert [name for name in CONTROL_OPERATIONS if f'id="operation-{name}"'.encode() not in page.body] == left_out


def test_a_server_answers_a_wrong_control_document_with_its_place():
    document = packaged("sandbox")
    del document["info"]
    config = replace(
        world_config(seed=0, start_ms=1_893_456_000_000),
        control=lambda: load_contract(document, known_as="sandbox.openapi.yaml"),
    )
    world = World(config, Store.memory(), control_handlers=control_handlers)
    headers = ((b"apikey", b"leyden"), (b"host", b"localhost"))
    app = MultiTenantApp({"leyden": world})
    answer = send_request(app, "GET", "/sandbox/v1", headers)
    assert answer.status == 500
    assert "sandbox.openapi.yaml#: info is missing" in orjson.loads(answer.body)["detail"]
    assert send_request(app, "GET", "/v0/wallet", headers).status == 200
    world.store.close()
