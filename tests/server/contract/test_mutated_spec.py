"""A document with any one node changed is served as it says, or refused in one line that names the place."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as File
from typing import Any

import orjson
import pytest
from hypothesis import settings

from leyden import Sandbox
from leyden.__main__ import main
from leyden.devserver.control.handlers import control_handlers
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, known_overlays, load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world.config import packaged_contract, world_config
from leyden.world.loopback import LoopbackResponse, send_request
from leyden.world.trial import trial_requests
from leyden.world.trial.trial_requests import try_contract
from leyden.world.world import World
from tests.support.deep import deep_or, sampled
from tests.support.examples import DEEP_EXAMPLES

Path = tuple[str | int, ...]
REPLACEMENTS: tuple[Any, ...] = (None, 7, [], {}, {"$ref": "#/components/schemas/Nowhere"}, "a text", True, False)
REMOVE, RENAME, MISSPELL = "remove", "rename", "misspell"
FALSE = REPLACEMENTS.index(False)
ACTIONS = (REMOVE, RENAME, MISSPELL, *range(len(REPLACEMENTS)))
MUTATIONS = deep_or(bounded=24, full=90 * settings().max_examples // DEEP_EXAMPLES, random=12_000)
TEA = {"amount": "1000", "description": "tea", "callbackUrl": "http://shop.localhost/x"}
START_MS = 1_893_456_000_000


def nodes(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    for key, item in value.items() if type(value) is dict else enumerate(value) if type(value) is list else ():
        yield from nodes(item, (*path, key))


def mutated(document: Any, path: Path, action: str | int) -> Any:
    """The document with one node changed; the rest is shared."""
    document = holder = copy.copy(document)
    for key in path[:-1]:
        holder[key] = copy.copy(holder[key])
        holder = holder[key]
    last = path[-1]
    if action == REMOVE:
        del holder[last]
    elif action == MISSPELL:
        holder[last] = f"{holder[last]}x" if type(holder[last]) is str else holder[last]
    elif action != RENAME:
        assert isinstance(action, int)
        holder[last] = copy.deepcopy(REPLACEMENTS[action])
    elif type(holder) is list:
        holder[last] = f"{holder[last]}X" if type(holder[last]) is str else [holder[last]]
    else:
        renamed = {f"{key}X" if key == last else key: item for key, item in holder.items()}
        holder.clear()
        holder.update(renamed)
    return document


def requests(contract: Contract) -> Iterator[LoopbackResponse]:
    """What a client may ask of the world that serves this contract."""
    config = world_config(seed=0, start_ms=START_MS, spec=contract)
    try_contract(contract)
    world = World(config, Store.memory())
    headers = ((contract.api_key_header.lower().encode(), b"leyden"), (b"content-type", b"application/json"))
    created = "x"
    for name in ("createCharge", "getChargeDetails", "listCharges", "listStaticCharges", "getWallet"):
        operation = contract.operations.get(name)
        if operation is None:
            continue
        path = operation.path.replace("{id}", created)
        body = orjson.dumps(TEA) if operation.body else b""
        answer = send_request(world.app, operation.method.upper(), path, headers, body)
        if name == "createCharge" and answer.status == 200:
            data = orjson.loads(answer.body).get("data")
            created = data["id"] if isinstance(data, dict) and "id" in data else created
        yield answer
    world.move(lambda clock: clock.advance(86_400_000))
    for page in ("/docs", "/openapi.json"):
        yield send_request(world.app, "GET", page)
    world.store.close()


def control_requests(contract: Contract) -> Iterator[LoopbackResponse]:
    """What a client may ask of a control plane with this contract."""
    config = replace(world_config(seed=0, start_ms=START_MS), control=lambda: contract)
    world = World(config, Store.memory(), control_handlers=control_handlers)
    headers = ((contract.api_key_header.lower().encode(), b"leyden"), (b"content-type", b"application/json"))
    for operation in contract.operations.values():
        if operation.method == "get" and "{" not in operation.path:
            yield send_request(world.app, "GET", operation.path, headers)
    for page in ("docs", "openapi.json", "merged.json"):
        yield send_request(world.app, "GET", f"/sandbox/v1/{page}")
    world.store.close()


REQUESTS = {"charges": requests, "sandbox": control_requests}


def problem(document: Any, name: str = "charges") -> str | None:
    """What is wrong with the behaviour for this document; None if it is served or refused as it should be."""
    try:
        contract = load_contract(document, known_as=f"{name}.openapi.yaml")
        answers = list(REQUESTS[name](contract))
    except ContractError as refusal:
        return _without_place(str(refusal), name)
    except Exception as error:
        return repr(error)
    # A document of the control plane is read with the first request to it, which answers 500 with the refusal.
    failed = [_without_place(answer.json()["detail"], name) for answer in answers if answer.status >= 500]
    return next(filter(None, failed), None)


def _without_place(text: str, name: str) -> str | None:
    """What is wrong with a refusal; None if it is one line that names the place."""
    places = (f"{name}.openapi.yaml#", "#/", "paths.", "components/", "lifecycle ")
    return None if "\n" not in text and any(place in text for place in places) else f"no place: {text}"


@pytest.mark.parametrize("part", sampled(range(3), 3))
@pytest.mark.parametrize("name", REQUESTS)
def test_any_changed_node_is_served_or_refused_with_its_place(name, part):
    document = read_yaml(default_spec(name).read_bytes(), f"{name}.openapi.yaml")
    # Nobody serves an edited document of the control plane: whether its answers fit one is not tried before.
    actions = [action for action in ACTIONS if name == "charges" or action != FALSE]
    every = [(path, action) for path in nodes(document) for action in actions]
    chosen = random.Random(0).sample(every, min(MUTATIONS, len(every)))[part::3]
    found = {(path, action): problem(mutated(document, path, action), name) for path, action in chosen}
    assert {place: text for place, text in found.items() if text is not None} == {}


@pytest.mark.parametrize(
    ("path", "action"),
    sampled(
        [
            (("paths", "/v0/charges", "get"), REMOVE),
            (("paths", "/v0/charges", "post", "operationId"), 5),
            (("paths", "/v0/charges", "post", "callbacks"), 3),
            (("paths", "/v0/static-charges/{id}", "patch"), REMOVE),
            (("components", "parameters", "Limit", "name"), RENAME),
            (("components", "schemas", "StaticCharge", "properties", "status"), 3),
            (("components", "schemas", "ChargeRequest", "properties", "expiresIn"), REMOVE),
            (("components", "schemas", "ChargeRequest", "properties", "internalId"), REMOVE),
            (("components", "schemas", "ChargeRequest", "properties", "description"), RENAME),
            (("components", "schemas", "StaticChargeRequest", "properties", "identifier"), REMOVE),
            (("components", "schemas", "StaticChargeRequest", "properties", "maxAmount"), RENAME),
            (("components", "schemas", "StaticChargeChanges"), 3),
            (("components", "schemas", "StaticChargeChanges", "properties", "successMessage", "type"), REMOVE),
            (("components", "schemas", "ChargeUpdate", "properties", "amount", "type"), 5),
            (("components", "schemas", "Charge", "properties", "status", "x-lifecycle", 0, "effects"), REMOVE),
            (("components", "schemas", "Charge", "properties", "status", "x-lifecycle", 1, "when"), MISSPELL),
            (("components", "schemas", "StaticCharge", "properties", "status", "x-lifecycle", 1, "when"), MISSPELL),
            (("components", "schemas", "ChargeListAnswer", "properties", "next"), 6),
            (("components", "schemas", "ChargeListAnswer", "properties", "next"), 7),
        ],
        4,
    ),
)
def test_a_changed_node_that_once_failed(path, action):
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    assert problem(mutated(document, path, action)) is None


@pytest.mark.parametrize(
    ("path", "action"),
    sampled(
        [
            (("paths", "/sandbox/v1/clock/advance"), RENAME),
            (("paths", "/sandbox/v1/journal", "get", "parameters", 0), REMOVE),
            (("components", "schemas", "Script", "properties", "answers", "default"), REMOVE),
            (("components", "schemas", "PaymentOrder", "properties", "outcome", "default"), REMOVE),
            (("components", "schemas", "KeyRotation", "required"), 2),
            (("components", "schemas", "Wait", "required"), 2),
            (("components", "schemas", "Fault", "properties", "detail"), 6),
            (("paths", "/sandbox/v1/webhook-secret", "get", "security"), 2),
            (("components", "examples", "DeliveryListCoffee", "value", "data", 0, "attempts", 0, "headers"), 4),
        ],
        4,
    ),
)
def test_a_changed_node_of_the_control_plane_that_once_failed(path, action):
    document = read_yaml(default_spec("sandbox").read_bytes(), "sandbox.openapi.yaml")
    assert problem(mutated(document, path, action), "sandbox") is None


@pytest.mark.parametrize("overlays", [(), *((name,) for name in known_overlays())][:: deep_or(bounded=3, full=1)])
def test_every_packaged_reading_is_served(overlays):
    try_contract(packaged_contract("charges", overlays))


def test_a_contract_object_is_tried_once_and_an_equal_one_again(monkeypatch):
    tried = []
    original = trial_requests.World
    monkeypatch.setattr(trial_requests, "World", lambda *given: tried.append(given) or original(*given))
    contract = load_contract(default_spec("charges"))
    for _ in range(3):
        Sandbox(spec=contract).close()
    assert len(tried) == 1
    try_contract(contract._replace())
    assert len(tried) == 2


def test_a_refused_contract_object_is_refused_again():
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    document["components"]["schemas"]["ChargeRequest"]["properties"]["expiresIn"] = {
        "type": "integer",
        "maximum": 2592000,
        "default": 600,
    }
    contract = load_contract(document)
    for _ in range(2):
        with pytest.raises(ContractError, match="is valid, but cannot be served"):
            Sandbox(spec=contract)


def test_a_bound_that_is_taken_out_of_the_request_alone_is_refused():
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    allowed = document["components"]["schemas"]["StaticChargeRequest"]["properties"]["allowedSlots"]
    del allowed["anyOf"][0]["maximum"]
    with pytest.raises(ContractError, match=r"paths\./v0/static-charges\.post: the body .* cannot be served"):
        try_contract(load_contract(document))


def test_a_value_that_no_code_reads_is_refused_with_the_operation_and_the_body():
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    expiry = document["components"]["schemas"]["ChargeRequest"]["properties"]
    expiry["expiresIn"] = {"type": "integer", "maximum": 2592000, "default": 600}
    with pytest.raises(ContractError) as refusal:
        try_contract(load_contract(document))
    assert str(refusal.value).startswith("paths./v0/charges.post: the body {")
    assert "is valid, but cannot be served" in str(refusal.value)


@pytest.mark.parametrize(
    ("schema", "path", "place"),
    [
        ("ChargeRequest", ("expiresIn", "anyOf", 0, "maximum"), "expiresIn.anyOf.0.maximum (left out)"),
        ("StaticChargeRequest", ("allowedSlots", "anyOf", 0, "maximum"), "allowedSlots.anyOf.0.maximum (left out)"),
    ],
)
def test_the_refusal_names_what_was_changed_and_is_one_line(
    schema: str, path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    document["info"]["description"] = "Ours"
    fields = document["components"]["schemas"][schema]["properties"]
    document["components"]["schemas"][schema]["properties"] = mutated(fields, path, REMOVE)
    with pytest.raises(ContractError) as refusal:
        try_contract(load_contract(document))
    assert f"differs from the packaged document in components.schemas.{schema}.properties" in str(refusal.value)
    assert str(refusal.value).endswith(place)
    assert "defect of Leyden" not in str(refusal.value)
    assert caplog.records == []


def test_an_error_of_a_document_names_its_file_and_its_overlays(tmp_path: File) -> None:
    """Also where the document is read and cannot be served, or an overlay is what makes it wrong."""
    own = tmp_path / "own.yaml"
    text = default_spec("charges").read_text("utf-8")
    own.write_text(text.replace("trigger: expiry_reached", "trigger: nonsense"), "utf-8")
    place = re.escape(f"{own}#/components/schemas/Charge/properties/status/x-lifecycle/3/trigger: no code applies")
    with pytest.raises(ContractError, match=f"^{place}"):
        Sandbox(spec=own)
    with pytest.raises(ContractError, match=f"^{place}.*; this is the document after the overlay strict$"):
        Sandbox(spec=own, overlays=["strict"])
    document = read_yaml(text, "own.yaml")
    document["components"]["schemas"]["ChargeUpdate"]["properties"]["internalId"] = {"type": "string"}
    own.write_bytes(orjson.dumps(document))
    with pytest.raises(ContractError, match=r"own\.yaml: paths\./v0/charges\.post: what follows it"):
        Sandbox(spec=own)
    with pytest.raises(ContractError, match=r"own\.yaml with the overlay strict: "):
        Sandbox(spec=own, overlays=["strict"])
    overlay = tmp_path / "without.yaml"
    overlay.write_text(
        'overlay: 1.0.0\ninfo: {title: x, version: "1"}\nactions:\n'
        " - target: $.components.schemas.Charge.properties.status\n   remove: true\n"
    )
    with pytest.raises(ContractError, match=rf"the document after the overlay {re.escape(str(overlay))}$"):
        Sandbox(overlays=[overlay])


@pytest.mark.parametrize(
    ("update", "part"),
    [
        ("when: before_expiryx", "the guard 'before_expiryx' has no function; did you mean 'before_expiry'?"),
        ("effects: [notifyx]", "the effect 'notifyx' has no function; did you mean 'notify'?"),
        ("to: completedx", "'completedx' is not in the status enum; did you mean 'completed'?"),
        ("trigger: settled", "nothing says what 'settled' does in 'completed'"),
    ],
)
def test_an_unknown_name_in_a_lifecycle_is_refused_by_every_reader(
    tmp_path: File, capsys: pytest.CaptureFixture[str], update: str, part: str
) -> None:
    overlay = tmp_path / "own.overlay.yaml"
    overlay.write_text(
        "overlay: 1.0.0\ninfo: {title: x, version: 0.1.0}\nextends: ../charges.openapi.yaml\nactions:\n"
        f"  - target: $.components.schemas.Charge.properties.status['x-lifecycle'][1]\n    update: {{{update}}}\n"
    )
    with pytest.raises(ContractError, match=re.escape(part)) as refusal:
        Sandbox(overlays=[overlay])
    assert f"the overlay {overlay}" in str(refusal.value)
    for command in ("table", "serve"):
        assert main([command, "--overlay", str(overlay), *(["--port", "0"] if command == "serve" else [])]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert part in line
        assert f"the overlay {overlay}" in line


def test_an_overlay_file_is_tried_before_a_sandbox_opens(tmp_path: File) -> None:
    """What is valid as a document alone, and cannot be served: an envelope of callbacks without its form."""
    overlay = tmp_path / "envelope.overlay.yaml"
    text = (default_spec("charges").parent / "overlays" / "callback-envelope.overlay.yaml").read_text("utf-8")
    overlay.write_text(text.replace("      form: envelope\n", "      form: body\n"), "utf-8")
    with pytest.raises(ContractError, match=rf"the overlay {re.escape(str(overlay))}"):
        Sandbox(overlays=[overlay])
