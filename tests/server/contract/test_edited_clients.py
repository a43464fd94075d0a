"""Leyden's own clients send to an edited document what it has: its paths and its media types."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.api_client.served_document import ServedRequest, differences_of_requests, served_request
from leyden.http_sandbox import create_sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.world.config import packaged_contract

Document = dict[str, Any]
VENDOR = "application/vnd.shop+json"
TEXT = default_spec("charges").read_text("utf-8")


def document(*, renamed: bool, vendor: bool) -> Document:
    text = TEXT.replace("/v0/", "/pay/v9/") if renamed else TEXT
    found: Document = read_yaml(text, "charges.openapi.yaml")
    for item in found["paths"].values():
        for operation in item.values():
            body = operation.get("requestBody") if vendor and isinstance(operation, dict) else None
            if body is not None:
                body["content"] = dict(zip([VENDOR], body["content"].values(), strict=True))
    return found


@pytest.fixture(params=[(True, False), (False, True), (True, True)], ids=["paths", "media", "both"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    renamed, vendor = request.param
    contract = load_contract(document(renamed=renamed, vendor=vendor), known_as="charges.openapi.yaml")
    with Sandbox(spec=contract, seed=3) as opened:
        yield opened


def command(url: str, *words: str) -> Any:
    run = subprocess.run(
        [sys.executable, "-m", "leyden", *words, "--url", url, "--json"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_each_client_sends_what_the_document_has(sandbox: Sandbox) -> None:
    path = sandbox.path("createCharge")
    # In process
    assert sandbox.charges.create(amount="1000", description="tea").status == "pending"
    fields = {"minAmount": "1000", "maxAmount": "2000", "description": "tea"}
    assert sandbox.static_charges.create(**fields).update(description="mint").data["description"] == "mint"
    assert sandbox.ask("POST", path, {"amount": "1000", "description": "tea"})["data"]["id"]
    # Over HTTP
    url = str(sandbox.serve())
    box = create_sandbox(url)
    charge = box.charges.create(amount="1000", description="tea")
    assert (charge.status, box.charges[charge.id].amount_msat, len(box.charges)) == ("pending", 1000, 1)
    static = box.static_charges.create(**fields).update(description="mint")
    assert (static.data["description"], len(box.static_charges)) == ("mint", 1)
    assert box.ask("POST", path, {"amount": "1000", "description": "tea"})["data"]["id"]
    # The commands
    made = command(url, "charges", "create", "--amount", "1000", "--description", "tea")["data"]
    assert command(url, "pay", made["id"])["status"] == "succeeded"
    words = ("--min-amount", "1000", "--max-amount", "2000", "--description", "tea")
    made = command(url, "static-charges", "create", *words)["data"]
    changed = command(url, "static-charges", "update", made["id"], "--description", "mint")["data"]
    assert changed["description"] == "mint"


def test_a_script_of_the_requests_names_no_media_type(tmp_path: Path) -> None:
    spec = tmp_path / "own.json"
    spec.write_text(json.dumps(document(renamed=False, vendor=True)))
    with Sandbox(spec=spec, seed=3) as sandbox:
        sandbox.request("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
        script = sandbox.script()
    assert "headers" not in script
    assert VENDOR not in script


@pytest.mark.parametrize("words", [("conformance",), ("fuzz", "--seconds", "1")])
def test_the_harness_says_that_it_cannot_test_another_document(sandbox: Sandbox, words: tuple[str, ...]) -> None:
    name, *more = words
    run = subprocess.run(
        [sys.executable, "-m", "leyden", name, str(sandbox.serve()), *more], capture_output=True, text=True, check=False
    )
    assert run.returncode == 3, run.stdout
    text = run.stdout + run.stderr
    assert "serves another document" in text
    is_renamed = sandbox.path("createCharge") != "/v0/charges"
    named = "no createCharge at POST /v0/charges" if is_renamed else f"the body of createCharge is {VENDOR}"
    assert named in text


def test_the_packaged_document_has_no_differences() -> None:
    packaged = packaged_contract("charges").document
    for overlays in ((), ("strict",), ("callback-envelope",)):
        assert differences_of_requests(packaged_contract("charges", overlays).document, packaged) == []
    other = document(renamed=False, vendor=False)
    other["components"]["securitySchemes"]["apikey"]["name"] = "X-Shop-Key"
    assert differences_of_requests(other, packaged) == ["its key is in the header x-shop-key, not apikey"]


@pytest.mark.parametrize("wrong", [None, [], {}, {"paths": []}, {"paths": {"/v0/charges": 3}}, {"paths": None}])
def test_another_document_leaves_a_request_unchanged(wrong: Any) -> None:
    assert served_request(wrong, "POST", "/v0/charges") == ServedRequest("POST", "/v0/charges")


def test_a_request_keeps_its_query_and_its_values() -> None:
    found = served_request(document(renamed=True, vendor=True), "GET", "/v0/static-charges/a%2Fb/charges?limit=2")
    assert found == ServedRequest("GET", "/pay/v9/static-charges/a%2Fb/charges?limit=2")
    own = served_request(document(renamed=True, vendor=True), "patch", "/pay/v9/static-charges/x")
    assert own.media_type == VENDOR
