"""The flows of `specs/flows.arazzo.yaml`: each fits the documents, is served, is linked, and does what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from leyden.server.errors import ContractError
from leyden.world import flows as flows_module
from leyden.world.config import packaged_contract
from leyden.world.flows import check_flows, flows
from tests.support.served import Client, served_leyden
from tests.support.small_spec import small

SERVICE, SANDBOX = packaged_contract("charges").document, packaged_contract("sandbox").document
FLOWS = {flow["workflowId"]: flow for flow in flows(SERVICE, SANDBOX)["workflows"]}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served_leyden("--rate", "0") as client:
        yield client


class ArazzoRunner:
    """Runs a workflow with the operations, parameters, bodies, criteria and outputs that our flows use."""

    def __init__(self, client: Client) -> None:
        self._client = client
        sources = {"service": "/openapi.json", "sandbox": "/sandbox/v1/openapi.json"}
        self._operations = {
            f"$sourceDescriptions.{source}.{operation['operationId']}": (method.upper(), path)
            for source, url in sources.items()
            for path, item in client.ok("GET", url)["paths"].items()
            for method, operation in item.items()
            if isinstance(operation, dict) and "operationId" in operation
        }

    def run(self, flow: Mapping[str, Any]) -> None:
        """Run the steps; each criterion holds."""
        self._outputs: dict[str, Any] = {}
        for step in flow["steps"]:
            method, path = self._operations[step["operationId"]]
            query = {}
            for one in step.get("parameters", ()):
                value = str(self._value(one["value"]))
                if one["in"] == "path":
                    path = path.replace(f"{{{one['name']}}}", quote(value, safe=""))
                else:
                    query[one["name"]] = value
            body = self._filled(step["requestBody"]["payload"]) if "requestBody" in step else None
            self._status, self._body = self._client(method, path + (f"?{urlencode(query)}" if query else ""), body)
            for criterion in step["successCriteria"]:
                left, operator, right = criterion["condition"].split(" ", 2)
                assert operator == "=="
                expected = int(right) if right.isdigit() else self._value(right)
                assert self._value(left) == expected, (step["stepId"], criterion, self._body)
            for name, expression in step.get("outputs", {}).items():
                self._outputs[f"$steps.{step['stepId']}.outputs.{name}"] = self._value(expression)

    def _filled(self, payload: Any) -> Any:
        return {name: self._value(value) for name, value in payload.items()}

    def _value(self, text: Any) -> Any:
        """A runtime expression, a literal of a condition, or any other value."""
        if not isinstance(text, str):
            return text
        if text == "$statusCode":
            return self._status
        if text.startswith("$steps."):
            return self._outputs[text]
        if text.startswith("$response.body#"):
            value = self._body
            for token in text.partition("#/")[2].split("/"):
                value = value[int(token)] if isinstance(value, list) else value[token]
            return value
        if re.fullmatch("'.*'", text):
            return text[1:-1]
        return text


@pytest.mark.parametrize("name", FLOWS)
def test_each_flow_does_what_it_says(client: Client, name: str) -> None:
    ArazzoRunner(client).run(FLOWS[name])


def test_the_flows_are_served_and_each_is_linked_from_the_documentation_page(client: Client) -> None:
    served = client.ok("GET", "/sandbox/v1/flows.json")
    assert served["arazzo"] == "1.0.1"
    assert [flow["workflowId"] for flow in served["workflows"]] == list(FLOWS)
    description = SANDBOX["info"]["description"]
    for number, flow in enumerate(served["workflows"]):
        assert f"[{flow['workflowId']}](flows.json#/workflows/{number}): {flow['summary']}" in description


def test_flows_with_operations_that_an_edited_document_lacks_are_left_out() -> None:
    assert flows(small(), SANDBOX)["workflows"] == []


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda step: step.update(operationId="$sourceDescriptions.sandbox.nothing"), "nothing is no operation"),
        (lambda step: step.update(parameters=[{"name": "x", "in": "query", "value": "1"}]), "no query parameter x"),
        (lambda step: step.update(outputs={}), "no earlier step create has an output"),
    ],
)
def test_what_does_not_fit_the_documents_is_refused(edit: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = deepcopy(flows(SERVICE, SANDBOX))
    edit(document["workflows"][0]["steps"][0])
    monkeypatch.setattr(flows_module, "read_yaml", lambda *_: document)
    with pytest.raises(ContractError, match=why):
        check_flows(SERVICE, SANDBOX)


def test_every_flow_fits_the_documents() -> None:
    check_flows(SERVICE, SANDBOX)
    assert len(FLOWS) == 7
