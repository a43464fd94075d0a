"""The control plane shows the Charges of an edited document as the charge service does."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from leyden import Sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, known_overlays, load_contract
from leyden.world.config import packaged_contract
from tests.server.contract.test_widened_spec import without_examples
from tests.support.deep import deep_or

Document = dict[str, Any]
TEXT = default_spec("charges").read_text("utf-8")
TEA = {"amount": "1000", "description": "tea", "callbackUrl": "http://shop.localhost/x"}
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": ["string", "null"]}, {"type": "integer", "default": 3}, {"type": ["object", "null"]},
    {"type": ["array", "null"], "items": {"type": "string"}}, {"type": ["boolean", "null"], "default": True},
    {"enum": ["red", "blue", None]},
)  # fmt: skip
NAMES = ("colour", "x-note", "properties")
FIELDS = deep_or(bounded=3, full=40)


def opened(document: Document) -> Sandbox:
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def with_field(name: str, schema: dict[str, Any]) -> Document:
    """The recipe for a field that a client sends and gets back (specs/README.md)."""
    document: Document = read_yaml(TEXT, "charges.openapi.yaml")
    for holder in ("ChargeRequest", "Charge"):
        document["components"]["schemas"][holder]["properties"][name] = copy.deepcopy(schema)
    return document


def check_failure(sandbox: Sandbox, body: dict[str, Any]) -> str:
    """A Charge that fails is shown as the service shows it. Returns its status."""
    created = sandbox.ask("POST", "/v0/charges", body)["data"]
    failed = sandbox.ask("POST", f"/sandbox/v1/charges/{created['id']}/fail", {})
    assert failed == sandbox.ask("GET", f"/v0/charges/{created['id']}")["data"]
    for path in ("openapi.json", "merged.json", "flows.json", "docs"):
        assert sandbox.request("GET", f"/sandbox/v1/{path}").status == 200
    return str(failed["status"])


@pytest.mark.parametrize("seed", range(FIELDS))
def test_a_charge_with_a_field_of_its_own_fails(seed: int) -> None:
    rng = random.Random(seed)
    name, schema = NAMES[seed % len(NAMES)], rng.choice(SCHEMAS)
    with opened(with_field(name, schema)) as sandbox:
        for one in (sandbox, sandbox.fork(), Sandbox.from_snapshot(sandbox.snapshot())):
            assert check_failure(one, TEA) == "error"
        document = sandbox.ask("GET", "/sandbox/v1/openapi.json")
        assert name in document["components"]["schemas"]["Charge"]["properties"]
    assert name not in packaged_contract("sandbox").document["components"]["schemas"]["Charge"]["properties"]


def test_a_charge_goes_to_a_state_of_its_own() -> None:
    def renamed(node: Any) -> Any:
        if isinstance(node, list):
            return [renamed(one) for one in node]
        if isinstance(node, dict):
            return {"lost" if key == "error" else key: renamed(value) for key, value in node.items()}
        return "lost" if node == "error" else node

    with opened(renamed(without_examples(read_yaml(TEXT, "charges.openapi.yaml")))) as sandbox:
        assert check_failure(sandbox, TEA) == "lost"


def test_an_example_that_does_not_fit_is_left_out() -> None:
    document = without_examples(with_field("colour", {"type": "string", "default": "red"}))
    document["components"]["schemas"]["Charge"]["properties"]["status"]["type"] = "string"
    document["components"]["schemas"]["Charge"]["properties"]["amount"] = {
        "type": "string",
        "maxLength": 9,
        "minLength": 4,
    }
    with opened(document) as sandbox:
        assert check_failure(sandbox, TEA) == "error"
        fail = sandbox.ask("GET", "/sandbox/v1/openapi.json")["paths"]["/sandbox/v1/charges/{id}/fail"]["post"]
        assert [*fail["responses"]["200"]["content"]["application/json"]["examples"]] == ["failed"]
    document = json.loads(json.dumps(document).replace('"msats"', '"millisats"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leyden.sandbox.opening.try_contract", lambda *_: None)
        sandbox = opened(document)
    with sandbox:
        fail = sandbox.ask("GET", "/sandbox/v1/openapi.json")["paths"]["/sandbox/v1/charges/{id}/fail"]["post"]
        assert fail["responses"]["200"]["content"]["application/json"]["examples"] == {}


@pytest.mark.parametrize("overlays", [(), *((name,) for name in known_overlays())])
def test_a_packaged_service_has_the_packaged_control_plane(overlays: tuple[str, ...]) -> None:
    with Sandbox(overlays=overlays) as sandbox:
        control = sandbox.world.config.control
        assert control is not None
        assert control() is packaged_contract("sandbox")
        assert check_failure(sandbox, TEA) == "error"


def test_a_served_document_has_its_charges_in_the_control_plane(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_bytes(orjson.dumps(with_field("colour", {"type": ["string", "null"]})))
    for colour in ("red", "blue"):
        with Sandbox(spec=own, data=tmp_path / "data") as sandbox:
            assert check_failure(sandbox, {**TEA, "colour": colour}) == "error"
