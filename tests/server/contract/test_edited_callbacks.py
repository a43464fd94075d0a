"""Edits of the callbacks: what the document says about them is sent and read, or refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.errors import ContractError
from tests.support.lists import listed

Document = dict[str, Any]
TEA: Any = {"amount": "1000", "description": "tea", "callbackUrl": "http://shop.localhost/x"}
EXPRESSION = "{$request.body#/callbackUrl}"
PLACE = "/paths/~1v0~1charges/post/callbacks/chargeUpdated"
ITEM = f"{PLACE}/{{$request.body#~1callbackUrl}}"


def edited(edit: Callable[[Document], object]) -> Sandbox:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    edit(document)
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def callbacks(document: Document) -> Document:
    found: Document = document["paths"]["/v0/charges"]["post"]["callbacks"]
    return found


def item(document: Document) -> Document:
    found: Document = callbacks(document)["chargeUpdated"][EXPRESSION]
    return found


def moved(document: Document, expression: str) -> None:
    callbacks(document)["chargeUpdated"] = {expression: item(document)}


def header(document: Document, **changes: Any) -> None:
    item(document)["post"]["parameters"].append({"in": "header", "schema": {"type": "string"}, **changes})


def schema_of(document: Document, name: str, **changes: Any) -> None:
    parameter = document["components"]["parameters"][name]
    parameter["schema"] = changes
    parameter.pop("example", None)


def rows(document: Document) -> list[Document]:
    found: list[Document] = document["components"]["schemas"]["Charge"]["properties"]["status"]["x-lifecycle"]
    return found


def renamed(document: Document) -> None:
    static = document["paths"]["/v0/static-charges"]["post"]["callbacks"]
    static["chargeUpdated"] = static.pop("chargePaid")


REFUSALS: list[tuple[str, Callable[[Document], object], str]] = [
    (
        "URL in another field",
        lambda document: moved(document, "{$request.body#/internalId}"),
        f"{PLACE}/{{$request.body#~1internalId}}: the URL is read from callbackUrl, not internalId",
    ),
    (
        "constant URL",
        lambda document: moved(document, "http://shop.localhost/x"),
        f"{PLACE}/http:~1~1shop.localhost~1x: the expression must be",
    ),
    (
        "two URLs",
        lambda document: callbacks(document)["chargeUpdated"].update({"{$request.body#/internalId}": item(document)}),
        f"{PLACE}: has 2 expressions; write one",
    ),
    ("no URL", lambda document: callbacks(document)["chargeUpdated"].clear(), f"{PLACE}: has no expressions"),
    (
        "second callback",
        lambda document: callbacks(document).update(another=callbacks(document)["chargeUpdated"]),
        "/paths/~1v0~1charges/post/callbacks/another: one callback of createCharge is sent, and chargeUpdated is one",
    ),
    (
        "callback of an operation that sends none",
        lambda document: document["paths"]["/v0/static-charges/{id}"]["patch"].update(
            callbacks={"changed": callbacks(document)["chargeUpdated"]}
        ),
        "/paths/~1v0~1static-charges~1{id}/patch/callbacks/changed: no code sends a callback of updateStaticCharge",
    ),
    (
        "one name twice",
        renamed,
        "/paths/~1v0~1static-charges/post/callbacks/chargeUpdated: is the name of the callback of createCharge",
    ),
    (
        "another method",
        lambda document: item(document).update(put=item(document)["post"]),
        f"{ITEM}: 'put' is not honoured here: callbacks are sent with POST",
    ),
    (
        "header that is not sent",
        lambda document: header(document, name="X-Shop"),
        f"{ITEM}/post/parameters/6: no code sends the header 'X-Shop'",
    ),
    (
        "misspelt header",
        lambda document: header(document, name="Leyden-Tme"),
        f"{ITEM}/post/parameters/6: no code sends the header 'Leyden-Tme'; leave it out; did you mean 'leyden-time'?",
    ),
    (
        "header twice",
        lambda document: header(document, name="WEBHOOK-ID"),
        f"{ITEM}/post/parameters/6: the header 'WEBHOOK-ID' is declared twice",
    ),
    (
        "parameter in the query",
        lambda document: item(document)["post"]["parameters"].append(
            {"name": "id", "in": "query", "schema": {"type": "string"}}
        ),
        f"{ITEM}/post/parameters/6: 'id' must be in: header",
    ),
    (
        "header whose value is another one",
        lambda document: schema_of(document, "WebhookTimestamp", type="string", maxLength=4),
        "/components/parameters/WebhookTimestamp/schema: webhook-timestamp: '",
    ),
    (
        "header of another type",
        lambda document: schema_of(document, "LeydenAttempt", type="boolean"),
        "/components/parameters/LeydenAttempt/schema: leyden-attempt: '1' is sent",
    ),
    (
        "another media type",
        lambda document: item(document)["post"]["requestBody"].update(
            content={"application/x+json": {"schema": {"$ref": "#/components/schemas/ChargeUpdate"}}}
        ),
        f"{ITEM}/post/requestBody/content/application~1x+json: the body is sent as application/json",
    ),
    (
        "no status that counts as received",
        lambda document: item(document)["post"]["responses"].pop("2XX"),
        f"{ITEM}/post/responses: no status counts as received",
    ),
    (
        "no 410",
        lambda document: item(document)["post"]["responses"].pop("410"),
        f"{ITEM}/post/responses: '410' is missing",
    ),
    (
        "no status",
        lambda document: item(document)["post"]["responses"].update(ok={"description": "Received."}),
        f"{ITEM}/post/responses/ok: is not the status of a final response",
    ),
    (
        "two rotations of one secret",
        lambda document: item(document)["x-delivery"].update(secretRotation="1h"),
        "/paths/~1v0~1static-charges/post/callbacks/chargePaid/{$request.body#~1callbackUrl}/x-delivery/secretRotation:"
        " one secret signs all callbacks of a project; write the same as in chargeUpdated",
    ),
    (
        "event of a state without rows",
        lambda document: [
            item(document)["x-delivery"]["events"].update(lost="charge.error"),
            document["components"]["schemas"]["ChargeUpdate"]["properties"]["status"]["enum"].append("lost"),
        ],
        f"{ITEM}/x-delivery/events/lost: no row of charges.openapi.yaml#/components/schemas/Charge/properties/status/"
        "x-lifecycle that leads to 'lost' has the effect notify",
    ),
    (
        "event that no row notifies",
        lambda document: rows(document)[4].update(effects=["cancel_invoice"]),
        f"{ITEM}/x-delivery/events/error: no row of charges.openapi.yaml#/components/schemas/Charge/properties/status/"
        "x-lifecycle that leads to 'error' has the effect notify",
    ),
]


@pytest.mark.parametrize("resource", ["Charge", "StaticCharge"])
def test_a_missing_lifecycle_is_refused_with_its_place_and_not_that_of_an_event(resource: str) -> None:
    def edit(document: Document) -> None:
        del document["components"]["schemas"][resource]["properties"]["status"]["x-lifecycle"]

    with pytest.raises(ContractError) as refused:
        edited(edit)
    assert str(refused.value) == (
        f"#/components/schemas/{resource}/properties/status: there is no x-lifecycle; add it beside the enum, or leave"
        f" out every operation on a {resource}"
    )


@pytest.mark.parametrize(("edit", "refusal"), [each[1:] for each in REFUSALS], ids=[each[0] for each in REFUSALS])
def test_what_no_code_sends_is_refused_with_its_place(edit: Callable[[Document], object], refusal: str) -> None:
    with pytest.raises(ContractError) as refused:
        edited(edit)
    assert str(refused.value).startswith(f"charges.openapi.yaml#{refusal}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("declared", "answer", "status"),
    [
        (["2XX"], 204, "delivered"),
        (["2xx", "200"], 299, "delivered"),
        (["200"], 200, "delivered"),
        (["200"], 204, "pending"),
        (["200", "202"], 202, "delivered"),
        (["201"], 200, "pending"),
    ],
)
def test_the_statuses_that_count_as_received_are_those_of_the_document(
    declared: list[str], answer: int, status: str
) -> None:
    def edit(document: Document) -> None:
        responses = item(document)["post"]["responses"]
        received = responses.pop("2XX")
        responses.update(dict.fromkeys(declared, received))

    with edited(edit) as sandbox:
        sandbox.receiver("shop").always(Reply(answer))
        charge = sandbox.charges.create(**TEA)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1s")
        (row,) = sandbox.world.service.outbox.rows
        assert row["status"] == status
        ((_, attempts, _, received_after_ms, _),) = sandbox.world.service.outbox.rows.summaries().values()
        assert (attempts, received_after_ms is not None) == (1, status == "delivered")
        sandbox.advance("10s")
        assert len(sandbox.receiver("shop").inbox) == (1 if status == "delivered" else 2)


def test_headers_that_are_sent_may_be_declared_in_any_case_or_left_out() -> None:
    def edit(document: Document) -> None:
        post = item(document)["post"]
        del post["parameters"][3:]
        header(document, name="USER-AGENT")
        document["components"]["parameters"]["WebhookId"]["name"] = "Webhook-ID"

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(**TEA)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1s")
        (message,) = sandbox.receiver("shop").inbox
        assert message.headers["leyden-event"] == "charge.completed"


def test_an_event_of_the_creation_is_sent() -> None:
    def edit(document: Document) -> None:
        item(document)["x-delivery"]["events"]["pending"] = "charge.created"
        schema = document["components"]["parameters"]["LeydenEvent"]["schema"]
        schema["enum"].append("charge.created")
        document["components"]["schemas"]["ChargeUpdate"]["properties"]["status"]["enum"].append("pending")
        rows(document)[0]["effects"].append("notify")

    with edited(edit) as sandbox:
        sandbox.charges.create(**TEA)
        sandbox.advance("1s")
        assert [message.json["status"] for message in sandbox.receiver("shop").inbox] == ["pending"]


def test_a_callback_of_an_operation_that_is_answered_with_its_example_is_an_example_too() -> None:
    def edit(document: Document) -> None:
        created = document["paths"]["/v0/charges"]["post"]
        document["paths"]["/v0/orders"] = {"post": {**created, "operationId": "createOrder", "callbacks": {}}}
        another = {"orderUpdated": callbacks(document)["chargeUpdated"]}
        document["paths"]["/v0/orders"]["post"]["callbacks"] = another

    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    edit(document)
    contract = load_contract(document, known_as="charges.openapi.yaml", mock_unbound=True)
    with Sandbox(spec=contract) as sandbox:
        assert sandbox.ask("POST", "/v0/orders", TEA)["data"]["status"] == "pending"


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A sandbox whose document refuses a part of its callbacks, which no start would serve."""
    monkeypatch.setattr("leyden.sandbox.opening.try_contract", lambda *_: None)

    def edit(document: Document) -> None:
        document["components"]["schemas"]["ChargeUpdate"]["properties"]["internalId"]["maxLength"] = 50

    return edited(edit)


REFUSED_BODY = "the body does not match the schema of chargeUpdated, so it is not sent: /internalId: "


def test_a_payment_is_kept_whose_callback_the_document_refuses(untried: Sandbox) -> None:
    with untried as sandbox:
        charge = sandbox.charges.create(**TEA, internalId="x" * 51)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("3d")
        assert charge.status == "completed"
        assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "1000"
        (row,) = sandbox.world.service.outbox.rows
        assert (row["status"], len(sandbox.receiver("shop").inbox)) == ("blocked", 0)
        assert sandbox.fork().charges[charge.id].status == "completed"


def test_a_refused_callback_is_shown_over_http_with_the_reason(untried: Sandbox) -> None:
    with untried as sandbox:
        charge = sandbox.ask("POST", "/v0/charges", {**TEA, "internalId": "x" * 51})["data"]
        sandbox.wallet("ana").pay(charge["invoice"]["request"])
        assert sandbox.request("POST", "/sandbox/v1/clock/advance", {"by": "1h"}).status == 200
        assert sandbox.ask("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "completed"
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        delivery = sandbox.ask("GET", f"/sandbox/v1/deliveries/{delivery['id']}")
        [attempt] = delivery.get("data", delivery)["attempts"]
        assert (attempt["status"], attempt["error"]) == (None, "blocked")
        assert attempt["note"].startswith(REFUSED_BODY)
