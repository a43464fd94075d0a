"""Paths that no operation has: the path that a refusal names has an operation with the method that was sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from leyden import Sandbox
from leyden.server.contract.types import Operation
from leyden.server.spelling import closest
from leyden.world.config import packaged_contract

NAMED = re.compile(r"did you mean (\S+)\?$")


def operations() -> Iterator[Operation]:
    for document in ("charges", "sandbox"):
        yield from packaged_contract(document).operations.values()


def hint(sandbox: Sandbox, method: str, path: str) -> str | None:
    answer = sandbox.request(method.upper(), path, {} if method == "post" else None)
    assert answer.status == 404
    found = NAMED.search(json.loads(answer.body)["detail"])
    return None if found is None else found[1]


def test_every_other_name_of_an_operation_leads_to_its_path(sandbox: Sandbox) -> None:
    known, seen = {one.path for one in operations()}, 0
    for operation in operations():
        prefix = re.match(r".*?/v[0-9]+/", operation.path)
        for name in operation.other_names:
            assert prefix is not None
            for spelled in (name, name.title(), f"{name}/"):
                seen += 1
                assert prefix[0] + name not in known
                assert hint(sandbox, operation.method, prefix[0] + spelled) == operation.path
    assert seen > 20


def test_the_path_of_the_command_pay_is_not_that_of_a_similar_word(sandbox: Sandbox) -> None:
    """With the same body the payers would take a request for a payment as one that pays every Charge."""
    for path in ("/sandbox/v1/pay", "/sandbox/v1/payment", "/sandbox/v1/paymnets", "/sandbox/v1/PAY"):
        assert hint(sandbox, "post", path) == "/sandbox/v1/payments"


def test_a_path_without_one_letter_leads_to_one_with_the_method(sandbox: Sandbox) -> None:
    paths = {one.path for one in operations()}
    methods = {(one.path, one.method) for one in operations()}
    for operation in operations():
        start, _, last = operation.path.rpartition("/")
        if "{" in operation.path or operation.method not in {"get", "post"} or len(last) < 5:
            continue
        for at in range(len(last)):
            path = f"{start}/{last[:at]}{last[at + 1 :]}"
            meant = hint(sandbox, operation.method, path) if path not in paths and start.count("/") < 3 else None
            assert meant is None or (meant, operation.method) in methods, (operation.method, path, meant)


def test_a_name_that_begins_with_the_word_is_nearer_than_one_with_similar_letters() -> None:
    charges = [one.operation_id for one in packaged_contract("charges").operations.values()]
    assert closest("getCharge", ["createCharge", "getChargeDetails", "listCharges"]) == "getChargeDetails"
    assert closest("getCharge", charges) == next((one for one in charges if one.startswith("getCharge")), None)
    assert closest("statuscod", ["status", "statusCode"]) == "statusCode"
    assert closest("retry", ["retries", "retryAfterHeader"]) == "retries"
