"""The packaged documents declare the headers that every response of an operation can have."""

from __future__ import annotations

import pytest

from leyden.server.contract.load import default_spec, load_contract
from leyden.server.errors import ServerBusy, ServerStopping

# Answered before the fields of a request are read, so nothing is ignored yet.
BEFORE_FIELDS = {401, 406, 413, 415, 429}


@pytest.mark.parametrize("name", ["charges", "sandbox", "server"])
def test_each_response_that_can_name_ignored_fields_declares_the_header(name: str) -> None:
    contract = load_contract(default_spec(name))
    missing = [
        (operation.operation_id, status)
        for operation in contract.operations.values()
        # The control plane refuses unknown fields, and ignores an Idempotency-Key of what changes something.
        if name == "charges" or operation.has_effect
        for status, response in operation.responses.items()
        if status not in BEFORE_FIELDS and "leyden-ignored" not in response.headers
    ]
    assert missing == []


@pytest.mark.parametrize("name", ["charges", "sandbox"])
def test_what_any_operation_can_answer_is_described_once(name: str) -> None:
    description = load_contract(default_spec(name)).document["info"]["description"]
    for word in ("Leyden-Removed", ServerStopping.code, ServerBusy.code):
        assert f"`{word}`" in description
