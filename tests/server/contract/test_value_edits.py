"""Random conditions on single values, in responses and in requests: each document is refused with its place, or each
value that its requests allow is served."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import settings

from leyden.server.contract.load import load_contract
from leyden.server.contract.types import Contract
from leyden.server.contract.value_checks.read_values import check_texts
from leyden.server.contract.value_checks.sent_values import check_sent
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world.config import packaged_contract, world_config
from leyden.world.loopback import send_request
from leyden.world.world import World
from tests.server.contract.test_widened_spec import DOCUMENT
from tests.support.deep import deep_or
from tests.support.examples import DEEP_EXAMPLES

Document = dict[str, Any]
EDITS = deep_or(bounded=30, full=150 * settings().max_examples // DEEP_EXAMPLES, random=5_000)
HEADERS = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
SENT = [
    ("Amount",), ("Charge", "amount"), ("StaticCharge", "minAmount"), ("StaticCharge", "maxAmount"),
    ("PayRequest", "minSendable"), ("PayRequest", "maxSendable"), ("Charge", "description"), ("Charge", "internalId"),
    ("StaticCharge", "description"), ("StaticCharge", "successMessage"), ("StaticCharge", "identifier"),
    ("Charge", "expiresAt"), ("StaticCharge", "allowedSlots"), ("ChargeInvoice", "request"), ("Wallet", "balance"),
]  # fmt: skip
READ = [("RequestedAmount",), ("ChargeRequest", "expiresIn"), ("StaticChargeRequest", "expiresIn"),
        ("StaticChargeRequest", "allowedSlots"), ("ChargeRequest", "internalId"), ("ChargeRequest", "description"),
        ("StaticChargeRequest", "successMessage"), ("StaticChargeRequest", "identifier")]  # fmt: skip


def schema_at(document: Document, place: tuple[str, ...]) -> Document:
    node: Document = document["components"]["schemas"][place[0]]
    for name in place[1:]:
        node = node["properties"][name]
    return node


def condition(rng: random.Random, value: str, *, is_number: bool) -> dict[str, Any]:
    """Keywords that exclude one value and allow most others."""
    literal: Any = int(value) if is_number else value
    return rng.choice([
        {"not": {"const": literal}},
        {"not": {"enum": [literal, "x"]}},
        {"not": {"pattern": f"^{value}$"}},
        {"anyOf": [{"maximum": literal - 1}, {"minimum": literal + 1}]} if is_number else {"format": "uri"},
        {"if": {"const": literal}, "then": False},
        {"multipleOf": 7} if is_number else {"pattern": f"^(?!{value}$)"},
        {"oneOf": [{"const": literal}, {}]},
        {"allOf": [{"not": {"const": literal}}]},
        {"minimum": literal + 1} if is_number else {"pattern": f"[^{value[-1]}]$"},
        {"enum": [literal + 1]} if is_number else {"maxLength": len(value) - 1},
        {} if is_number else {"format": rng.choice(["uuid", "date-time", "email", "ipv4"])},
    ])  # fmt: skip


def wider(rng: random.Random, value: str) -> dict[str, Any]:
    """A schema that allows a value besides what is read."""
    return rng.choice([
        {"type": "string", "pattern": f"^(?:[1-9][0-9]{{3,5}}|{value})$"},
        {"type": "string", "enum": ["1000", "9000", value]},
        {"anyOf": [{"type": "string", "pattern": "^[1-9][0-9]{3,5}$"}, {"type": "string", "const": value}]},
        {"type": "string", "pattern": f"^[0-9]{{3,6}}$|^{value}$"},
        {"type": "string", "pattern": "^.*$"},
        {"type": "string", "minLength": 1},
    ])  # fmt: skip


def edited(rng: random.Random) -> tuple[Any, Document, str]:
    """What was edited, the document, and the value that the edit is about."""
    document = copy.deepcopy(DOCUMENT)
    if rng.random() < 0.6:
        place = rng.choice(SENT)
        is_amount = "mount" in place[-1] or "Sendable" in place[-1]
        value = str(rng.randrange(1_000, 1_000_000)) if is_amount else rng.choice(["bee", "cat9", "x" * 200])
        change = condition(rng, value, is_number="Sendable" in place[-1])
        schema_at(document, place).update(change)
    else:
        place = rng.choice(READ)
        value = rng.choice(["klm", "1h", "0007", "never", "9" * 300, "x" * 400, "60", "band@shop.example"])
        change = wider(rng, value)
        schema = schema_at(document, place)
        if "default" in schema:
            change["default"] = "9000"
        schema.clear()
        schema.update(change)
    return (place, change), document, value


def unserved(contract: Contract, value: str) -> list[str]:
    """The valid requests with a value that get no success."""
    found = []
    with Store.memory() as store:
        world = World(world_config(seed=0, start_ms=1_893_456_000_000, spec=contract), store)
        for name, path in (("createCharge", "/v0/charges"), ("createStaticCharge", "/v0/static-charges")):
            operation = contract.operations[name]
            assert operation.body is not None
            least = {one: value for one in ("amount", "minAmount") if one in operation.body.properties}
            base = {"amount": "9000", "minAmount": "9000", "maxAmount": "9000", "description": "x"}
            bodies: list[dict[str, Any]] = [{**base, **least, "maxAmount": value}]
            bodies += [{**base, one: value} for one in operation.body.properties if not one.endswith("mount")]
            for body in bodies:
                if not operation.body.rule.validator.is_valid(body):
                    continue
                answer = send_request(world.app, "POST", path, HEADERS, orjson.dumps(body))
                if answer.status != 200:
                    found.append(f"{body} {answer.body.decode()[:200]}")
                elif name == "createStaticCharge":
                    static = orjson.loads(answer.body)["data"]["id"]
                    paid = send_request(world.app, "GET", f"/lnurlp/{static}", ())
                    found += [paid.body.decode()[:200]] if paid.status != 200 else []
    return found


@pytest.fixture(scope="module")
def handlers() -> Mapping[str, Callable[..., Any]]:
    return World(world_config(seed=0, start_ms=0), Store.memory()).service.handlers


@pytest.mark.parametrize("part", range(3))
def test_a_condition_on_a_value_is_refused_or_the_value_is_served(
    part: int, handlers: Mapping[str, Callable[..., Any]]
) -> None:
    for seed in range(part, EDITS, 3):
        edit, document, value = edited(random.Random(seed))
        text = ""
        try:
            contract = load_contract(document, known_as="charges.openapi.yaml")
            check_texts(contract, handlers)
            check_sent(contract, packaged_contract("charges"), handlers)
        except ContractError as refusal:
            text = str(refusal)
        assert "\n" not in text, edit
        assert "#/" in text.partition(": ")[0] if text else unserved(contract, value) == [], edit
