"""A document with an operation less: the URLs in responses that lead to it are noted."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from leyden import Sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec
from tests.support.served import started_server

URLS = {
    "getPayRequest": "the LNURL of a Static Charge",
    "requestInvoice": "the callback URL of a payRequest",
    "verifyPayment": "the verify URL of an invoice",
}
OTHERS = ("createCharge", "createStaticCharge", "listCharges", "getLightningAddress", "getWallet")


def spec_without(directory: Path, *names: str) -> Path:
    """The packaged document without these operations, in a file."""
    document = read_yaml(default_spec().read_bytes(), "charges.openapi.yaml")
    for path, item in [*document["paths"].items()]:
        for method, operation in [*item.items()]:
            if isinstance(operation, dict) and operation.get("operationId") in names:
                del item[method]
        if not any(isinstance(each, dict) for each in item.values()):
            del document["paths"][path]
    file = directory / "charges.openapi.json"
    file.write_bytes(orjson.dumps(document))
    return file


@pytest.mark.parametrize("name", [*URLS, *OTHERS])
def test_each_operation_that_a_url_leads_to_is_noted(tmp_path: Path, name: str) -> None:
    with Sandbox(spec=spec_without(tmp_path, name)) as sandbox:
        notes = sandbox.http.get("/sandbox/v1").json()["notes"]
    expected = f"the document has no operation {name}: {URLS.get(name)} leads to a path that is not served"
    assert notes == ([expected] if name in URLS else [])


def test_a_url_that_no_response_has_is_not_noted(tmp_path: Path) -> None:
    names = ("getPayRequest", "requestInvoice", "verifyPayment", "getLightningAddress")
    with Sandbox(spec=spec_without(tmp_path, *names, "createStaticCharge", "listStaticCharges")) as sandbox:
        assert sandbox.http.get("/sandbox/v1").json()["notes"] == []


def test_the_server_prints_it_at_its_start(tmp_path: Path) -> None:
    with started_server("--spec", str(spec_without(tmp_path, "requestInvoice"))) as (_, printed):
        pass
    assert "note: the document has no operation requestInvoice: the callback URL of a payRequest leads" in printed()
