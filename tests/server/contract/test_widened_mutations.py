"""Random changes of the schemas of parameters, requests and responses: each document is refused at start, or every
request that its clients can send gets a declared answer."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import settings

from leyden.server.contract.load import load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.trial.trial_requests import try_contract
from leyden.world.world import World
from tests.server.contract.test_widened_spec import DOCUMENT
from tests.support.deep import deep_or
from tests.support.examples import DEEP_EXAMPLES

DOCUMENTS = deep_or(bounded=8, full=40 * settings().max_examples // DEEP_EXAMPLES, random=2_000)
BOUNDS = ("pattern", "format", "maxLength", "minLength", "minimum", "maximum", "enum", "const", "required", "default",
          "additionalProperties", "anyOf", "$ref", "x-absent", "type")  # fmt: skip
SCHEMAS: tuple[dict[str, Any], ...] = (
    {}, {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "array"},
    {"type": "object"}, {"type": ["string", "null"]}, {"type": "string", "pattern": "^[k-m]{3}$"},
    {"type": "string", "enum": ["klm", "1000"]}, {"type": "integer", "minimum": 31, "maximum": 37},
)  # fmt: skip
TEXTS = ("", "klm", "1000", "-1", "0", "true", "0" * 300, "1e3", "2030-01-01T00:00:00Z", "\U0001f600", "\0", "a b/c?#%",
         "http://shop.localhost/x", "band@shop.example")  # fmt: skip
VALUES = (*TEXTS, None, True, -1, 0, 31, 37, 10**18, 1.5, [], {}, [1])
BASES: dict[str, dict[str, Any]] = {
    "createCharge": {"amount": "1000", "description": "tea"},
    "createStaticCharge": {"minAmount": "1000", "maxAmount": "9000", "description": "tips"},
    "updateStaticCharge": {"description": "more"},
}


def schemas(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of schemas in a document, except those of callbacks."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        if key == "callbacks":
            continue
        is_schema = key == "schema" or (path[-1:] == ("properties",)) or path == ("components", "schemas")
        if is_schema and isinstance(value, dict):
            yield (*path, key)
        yield from schemas(value, (*path, key))


def changed(rng: random.Random) -> tuple[Any, dict[str, Any]]:
    """A place and the document with its schema without one keyword, or with another schema there."""
    path = rng.choice(PLACES)
    document: Any = copy.deepcopy(DOCUMENT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    schema = holder[path[-1]]
    bounds = [key for key in BOUNDS if key in schema]
    if bounds and rng.random() < 0.5:
        removed = rng.choice(bounds)
        del schema[removed]
        return (*path, removed), document
    holder[path[-1]] = copy.deepcopy(rng.choice(SCHEMAS))
    return (*path, holder[path[-1]]), document


PLACES = sorted(schemas(DOCUMENT), key=str)


def requests(contract: Contract, rng: random.Random) -> Iterator[tuple[str, int]]:
    world = World(world_config(seed=0, start_ms=1_893_456_000_000, spec=contract), Store.memory())
    key = (contract.api_key_header.lower().encode(), b"leyden")
    ids = ["x"]
    operations = [*contract.operations.values()]
    for _ in range(150):
        operation = rng.choice(operations)
        target = operation.path
        query = []
        for one in operation.parameters:
            text = rng.choice([*TEXTS, *ids])
            if one.location == "path":
                target = target.replace(f"{{{one.name}}}", quote(text or "x", safe=""))
            elif one.location == "query" and rng.random() < 0.6:
                query.append(f"{one.name}={quote(text)}")
        body = b""
        if operation.body is not None:
            value = dict(BASES.get(operation.operation_id, {}))
            for name in rng.sample([*operation.body.properties], min(2, len(operation.body.properties))):
                value[name] = rng.choice(VALUES)
            body = orjson.dumps(value)
        headers = (key, (b"content-type", b"application/json"))
        if rng.random() < 0.2:
            headers = (*headers, (b"idempotency-key", rng.choice((b"", b"k", b"7"))))
        full = "?".join([target, "&".join(query)]) if query else target
        answer = send_request(world.app, operation.method.upper(), full, headers, body)
        yield f"{operation.method} {full} {body!r} {answer.body[:300]!r}", answer.status
        data = orjson.loads(answer.body).get("data")
        if isinstance(data, dict) and isinstance(data.get("id"), str):
            ids.append(data["id"])
        if rng.random() < 0.05:
            world.move(lambda clock: clock.advance(600_000))
    world.store.close()


@pytest.mark.parametrize("seed", range(DOCUMENTS))
def test_a_changed_schema_is_refused_or_every_request_gets_a_declared_answer(seed):
    rng = random.Random(seed)
    place, document = changed(rng)
    text = ""
    try:
        contract = load_contract(document, known_as="charges.openapi.yaml")
        try_contract(contract)
    except ContractError as refused:
        text = str(refused)
    if text:
        assert "\n" not in text, place
        places = ("charges.openapi.yaml#", "#/paths/", "paths.", "components/", "lifecycle ")
        assert any(each in text for each in places), place
        return
    failed = [request for request, status in requests(contract, rng) if status >= 500]
    assert failed == [], place
