"""Edits of the limits, the header parameters and the security scheme change what the service reads of a request."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.request import urlopen

import orjson
import pytest

from leyden import Sandbox
from leyden.api_client.key_header import KEY_HEADER
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.http_sandbox.requests import ask
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world.components import CONTROL_KEY_HEADER
from leyden.world.config import packaged_contract, world_config
from leyden.world.loopback import LoopbackResponse, send_request
from leyden.world.world import World

Document = dict[str, Any]
TEA = orjson.dumps({"amount": "1000", "description": "tea"})
JSON = (b"content-type", b"application/json")


def edited(edit: Callable[[Document], object]) -> Sandbox:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    edit(document)
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def create(sandbox: Sandbox, *headers: tuple[bytes, bytes], body: bytes = TEA) -> LoopbackResponse:
    key = (sandbox.world.service.pipeline.api_key_header, b"leyden")
    return send_request(sandbox.app, "POST", "/v0/charges", (key, JSON, *headers), body)


CONTROL_BODY_BYTES = packaged_contract("sandbox").body_limit


@pytest.mark.parametrize("limit", [len(TEA), 100, CONTROL_BODY_BYTES - 1, CONTROL_BODY_BYTES + 1, 200_000])
def test_the_largest_body_is_that_of_the_document_to_the_byte(limit: int) -> None:
    with edited(lambda document: document["x-limits"].update(bodyBytes=limit)) as sandbox:
        assert create(sandbox, body=TEA.ljust(limit)).status == 200
        refused = create(sandbox, body=TEA.ljust(limit + 1))
        assert refused.status == 413
        assert f"larger than {limit} bytes" in orjson.loads(refused.body)["detail"]
        # The control plane has the limit of its own document.
        for size, status in ((CONTROL_BODY_BYTES, 200), (CONTROL_BODY_BYTES + 1, 413)):
            body = b'{"by":"1s"}'.ljust(size)
            headers = ((b"apikey", b"leyden"), JSON)
            assert send_request(sandbox.app, "POST", "/sandbox/v1/clock/advance", headers, body).status == status


def test_the_depth_of_a_body_is_that_of_the_document() -> None:
    with edited(lambda document: document["x-limits"].update(depth=1)) as sandbox:
        assert create(sandbox).status == 200
        assert create(sandbox, body=TEA.replace(b"}", b',"more":{}}')).status == 400


def parameter(document: Document, name: str) -> Document:
    found: Document = document["components"]["parameters"][name]
    return found


@pytest.mark.parametrize("name", ["idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-Key"])
def test_a_header_parameter_has_its_effect_in_any_case(name: str) -> None:
    with edited(lambda document: parameter(document, "IdempotencyKey").update(name=name)) as sandbox:
        first, again = (create(sandbox, (b"idempotency-key", b"k")) for _ in range(2))
        assert (b"idempotent-replayed", b"true") in again.headers
        assert again.body == first.body
        assert len(sandbox.charges) == 1
        other = create(sandbox, (b"idempotency-key", b"k"), body=TEA.replace(b"tea", b"mint"))
        assert orjson.loads(other.body)["code"] == "idempotency_key_reused"
        assert b"leyden-ignored" not in dict(first.headers)


def test_a_link_names_a_header_parameter_in_any_case() -> None:
    def edit(document: Document) -> None:
        parameter(document, "IdempotencyKey")["name"] = "IDEMPOTENCY-key"
        responses = document["paths"]["/v0/charges"]["post"]["responses"]
        responses["200"]["links"]["createCharge"] = {
            "operationId": "createCharge",
            "parameters": {"header.idempotency-Key": "$request.header.Idempotency-KEY"},
        }

    with edited(edit) as sandbox:
        assert create(sandbox).status == 200


def test_a_conflict_of_an_idempotency_key_in_another_case_has_to_be_declared() -> None:
    def edit(document: Document) -> None:
        parameter(document, "IdempotencyKey")["name"] = "idempotency-key"
        del document["paths"]["/v0/charges"]["post"]["responses"]["409"]

    with pytest.raises(ContractError, match=r"paths\./v0/charges\.post\.responses: .* 409"):
        edited(edit)


CREATE = "/paths/~1v0~1charges/post"


@pytest.mark.parametrize(
    ("edit", "refusal"),
    [
        (
            lambda document: parameter(document, "IdempotencyKey").update(name="X-Idempotency-Key"),
            "#/components/parameters/IdempotencyKey: no code reads it; only the header Idempotency-Key",
        ),
        (
            lambda document: parameter(document, "IdempotencyKey").update({"in": "query"}),
            "#/components/parameters/IdempotencyKey: no code reads it; only the header Idempotency-Key",
        ),
        (
            lambda document: parameter(document, "IdempotencyKey").update(name="Idempotency Key"),
            "#/components/parameters/IdempotencyKey/name: 'Idempotency Key' is not the name of a header",
        ),
        (
            lambda document: document["paths"]["/v0/charges"]["get"]["parameters"].append(
                {"$ref": "#/components/parameters/IdempotencyKey"}
            ),
            "#/paths/~1v0~1charges/get/parameters/6: only a request with a body is compared",
        ),
        (
            lambda document: document["paths"]["/v0/static-charges/{id}"]["patch"]["parameters"].append(
                {"$ref": "#/components/parameters/IdempotencyKey"}
            ),
            "#/paths/~1v0~1static-charges~1{id}/patch/parameters/1: a response is not kept by the path parameter 'id'",
        ),
        (
            lambda document: document["components"]["securitySchemes"]["apikey"].update(name="Shop Key"),
            "#/components/securitySchemes/apikey/name: 'Shop Key' is not the name of a header",
        ),
        (
            lambda document: document["components"]["securitySchemes"]["apikey"].update(name="Content-Type"),
            "#/components/securitySchemes/apikey/name: 'Content-Type' has another meaning",
        ),
        (
            lambda document: document["paths"]["/v0/charges"]["get"].update(security=[{"apikey": ["admin"]}]),
            "#/paths/~1v0~1charges/get/security: a key has no scopes; write {apikey: []}",
        ),
    ],
)
def test_what_no_code_reads_of_a_request_is_refused_with_its_place(
    edit: Callable[[Document], object], refusal: str
) -> None:
    with pytest.raises(ContractError) as refused:
        edited(edit)
    assert str(refused.value).startswith(f"charges.openapi.yaml{refusal}")
    assert "\n" not in str(refused.value)


def scheme(document: Document) -> Document:
    found: Document = document["components"]["securitySchemes"]["apikey"]
    return found


@pytest.mark.parametrize("name", ["X-Shop-Key", "Authorization", "APIKEY"])
def test_the_key_is_read_from_the_header_of_the_document(name: str) -> None:
    with edited(lambda document: scheme(document).update(name=name)) as sandbox:
        is_renamed = name.lower() != "apikey"
        for path, header, status in (
            ("/v0/wallet", name, 200),
            ("/v0/wallet", "apikey", 401 if is_renamed else 200),
            ("/sandbox/v1/clock", name, 401 if is_renamed else 200),
            ("/sandbox/v1/clock", "apikey", 200),
        ):
            headers = ((header.lower().encode(), b"leyden"),)
            assert send_request(sandbox.app, "GET", path, headers).status == status, (path, header)
        refused = send_request(sandbox.app, "GET", "/v0/wallet", ())
        assert dict(refused.headers)[b"www-authenticate"] == f'ApiKey header="{name.lower()}"'.encode()
        assert f"send your project's key in the header {name.lower()}" in orjson.loads(refused.body)["detail"]
        page = send_request(sandbox.app, "GET", "/docs").body.decode()
        assert f'-H "{name}: $API_KEY"' in unescape(re.sub("<[^>]*>", "", page))
        # The document of both names the header of each operation.
        merged = orjson.loads(send_request(sandbox.app, "GET", "/sandbox/v1/merged.json").body)
        for path, wanted in (("/v0/wallet", name.lower()), ("/sandbox/v1/clock/advance", "apikey")):
            (operation,) = (one for one in merged["paths"][path].values() if "operationId" in one)
            ((used, _),) = operation["security"][0].items()
            assert merged["components"]["securitySchemes"][used]["name"].lower() == wanted
        # What Leyden itself sends
        charge = sandbox.charges.create(amount="1000", description="tea")
        assert sandbox.http.get(f"/v0/charges/{charge.id}").status_code == 200
        assert sandbox.http.get("/sandbox/v1/clock").status_code == 200
        assert sandbox.ask("GET", "/sandbox/v1/clock")["now"]
        url = str(sandbox.serve())
        for path in ("/v0/wallet", "/sandbox/v1/clock"):
            assert ask(url, "GET", path, None, {KEY_HEADER: "leyden"})
            words = ["api", "GET", path, "--url", url, "--api-key", "leyden"]
            assert subprocess.run([sys.executable, "-m", "leyden", *words], capture_output=True).returncode == 0
        with urlopen(f"{url}/console") as response:
            assert f'<meta name="leyden-key-header" content="{name.lower()}">' in response.read().decode()


@pytest.mark.parametrize("name", ["X-Idempotency-Key", "Idempotent-Token", "IdempotencyKey", "Idempotencykey"])
def test_a_header_that_the_document_declares_is_never_ignored(name: str) -> None:
    with edited(lambda document: scheme(document).update(name=name)) as sandbox:
        static = sandbox.static_charges.create(minAmount="1000", maxAmount="2000", description="tea")
        for method, path, body in (
            ("POST", "/v0/charges", TEA),
            ("POST", "/v0/charges", b"{}"),
            ("PATCH", f"/v0/static-charges/{static.id}", b'{"description":"mint"}'),
        ):
            key = (name.lower().encode(), b"leyden")
            assert b"leyden-ignored" not in dict(send_request(sandbox.app, method, path, (key, JSON), body).headers)
            slip = send_request(sandbox.app, method, path, (key, JSON, (b"idempotency_key", b"k")), body)
            assert dict(slip.headers)[b"leyden-ignored"].startswith(b'"Idempotency_Key"')

    def declare(document: Document) -> None:
        parameters = document["paths"]["/v0/charges"]["post"]["parameters"]
        parameters.append({"name": "Idempotncy-Key", "in": "header", "schema": {"type": "string"}})

    with edited(declare) as sandbox:
        assert b"leyden-ignored" not in dict(create(sandbox, (b"idempotncy-key", b"k")).headers)


def test_the_key_of_each_of_several_sandboxes_is_read_from_the_header_of_the_document() -> None:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    scheme(document).update(name="X-Shop-Key")
    contract = load_contract(document, known_as="charges.openapi.yaml")
    worlds = {}
    for key in ("first", "second"):
        config = replace(world_config(seed=0, start_ms=0, spec=contract), api_key=key)
        worlds[key] = World(config, Store.memory(), control_handlers=control_handlers)
    app = MultiTenantApp(worlds)
    for path, header in (("/v0/wallet", b"x-shop-key"), ("/sandbox/v1", b"apikey")):
        for key in worlds:
            answer = send_request(app, "GET", path, ((header, key.encode()), (b"host", b"localhost")))
            assert answer.status == 200, (path, answer.body)
    for world in worlds.values():
        world.store.close()


def test_the_control_plane_has_the_key_in_the_header_of_its_own_document() -> None:
    assert packaged_contract("sandbox").api_key_header.lower().encode() == CONTROL_KEY_HEADER


@pytest.mark.parametrize(
    ("path", "method", "handler"),
    [
        ("/v0/charges", "post", "create_charge"),
        ("/v0/charges", "get", "list_charges"),
        ("/v0/charges/{id}", "get", "get_charge_details"),
        ("/v0/static-charges", "post", "create_static_charge"),
        ("/v0/static-charges/{id}", "patch", "update_static_charge"),
        ("/v0/static-charges/{id}/charges", "get", "list_static_charge_charges"),
        ("/v0/wallet", "get", "get_wallet"),
    ],
)
def test_an_operation_on_what_a_project_has_needs_the_key(path: str, method: str, handler: str) -> None:
    place = re.escape(f"paths.{path}.{method}.security: {handler} answers for the project of the API key")
    with pytest.raises(ContractError, match=place):
        edited(lambda document: document["paths"][path][method].update(security=[]))


@pytest.mark.parametrize(
    ("name", "left_out", "place"),
    [
        (
            "CreatedAfter",
            "format",
            r"paths\./v0/charges\.get: a request with \?createdAfter=1000 is valid, but cannot be served",
        ),
        ("After", "pattern", r"paths\./v0/charges\.get: a request with \?after=1000 is valid, but cannot be served"),
        ("Limit", "minimum", r"paths\./v0/charges\.get: a request with \?limit=-1 is valid, but cannot be served"),
    ],
)
def test_a_parameter_that_may_hold_what_code_refuses_is_refused(name: str, left_out: str, place: str) -> None:
    with pytest.raises(ContractError, match=place):
        edited(lambda document: parameter(document, name)["schema"].pop(left_out))


def test_a_parameter_may_hold_what_the_document_allows() -> None:
    """Nothing but the document restricts an Idempotency-Key, and a further header is required as it says."""

    def edit(document: Document) -> None:
        parameter(document, "IdempotencyKey")["schema"] = {"type": "string"}
        source = {"name": "X-Source", "in": "header", "required": True, "schema": {"type": "string", "enum": ["pos"]}}
        document["paths"]["/v0/charges"]["post"]["parameters"].append(source)

    with edited(edit) as sandbox:
        assert create(sandbox, (b"x-source", b"web")).status == create(sandbox).status == 400
        answers = [create(sandbox, (b"x-source", b"pos"), (b"idempotency-key", b"a \xe9")) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200]
        assert len(sandbox.charges) == 1


def test_a_callback_url_may_be_what_the_document_allows() -> None:
    def edit(document: Document) -> None:
        document["components"]["schemas"]["CallbackUrl"].pop("pattern")

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="no URL")
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1s")
        (row,) = sandbox.world.service.outbox.rows
        assert (row["url"], row["status"]) == ("no URL", "blocked")
