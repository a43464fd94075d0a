"""An edit of the spec alone changes the behaviour of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.errors import ApiError, ContractError
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.ports import FailedInvoice
from tests.support.deep import sampled
from tests.support.lists import listed

Document = dict[str, Any]


def edited(edit: Callable[[Document], None]) -> Sandbox:
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    edit(document)
    return Sandbox(spec=load_contract(document, known_as="charges.openapi.yaml"))


def schema(document: Document, name: str) -> Document:
    return document["components"]["schemas"][name]["properties"]


def lifecycle(document: Document, resource: str) -> list[Document]:
    return schema(document, resource)["status"]["x-lifecycle"]


def test_a_tighter_length() -> None:
    def edit(document: Document) -> None:
        schema(document, "ChargeRequest")["internalId"]["maxLength"] = 12

    with edited(edit) as sandbox:
        assert sandbox.charges.create(amount="1000", description="tea", internalId="x" * 12).status == "pending"
        with pytest.raises(ApiError, match="internalId"):
            sandbox.charges.create(amount="1000", description="tea", internalId="x" * 13)


def test_a_new_optional_field_is_echoed() -> None:
    def edit(document: Document) -> None:
        schema(document, "ChargeRequest")["table"] = {"type": ["string", "null"], "maxLength": 20}
        schema(document, "Charge")["table"] = {"type": ["string", "null"]}

    with edited(edit) as sandbox:
        assert sandbox.charges.create(amount="1000", description="tea", table="window").data["table"] == "window"
        assert sandbox.charges.create(amount="1000", description="tea").data["table"] is None
        with pytest.raises(ApiError, match="table"):
            sandbox.charges.create(amount="1000", description="tea", table="x" * 21)


def test_a_new_optional_field_of_a_static_charge_is_echoed_and_changed() -> None:
    def edit(document: Document) -> None:
        for name in ("StaticChargeRequest", "StaticChargeChanges", "StaticCharge"):
            schema(document, name)["table"] = {"type": ["string", "null"], "maxLength": 20}

    with edited(edit) as sandbox:
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="2000", description="tips", table="window")
        assert tips.data["table"] == "window"
        tips.update(description="more tips")
        assert tips.data["table"] == "window"
        tips.update(table="garden")
        assert tips.data["table"] == "garden"


def test_a_changed_default() -> None:
    def edit(document: Document) -> None:
        schema(document, "ChargeRequest")["expiresIn"]["default"] = 90

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        assert (charge.expires_at - charge.created_at).total_seconds() == 90
        assert charge.invoice.decode().expiry_s == 90


def test_a_renamed_path() -> None:
    def edit(document: Document) -> None:
        paths = document["paths"]
        document["paths"] = {path.replace("/v0/charges", "/v0/bills"): item for path, item in paths.items()}

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        assert sandbox.ask("GET", f"/v0/bills/{charge.id}")["data"]["status"] == "pending"
        assert sandbox.http.get(f"/v0/charges/{charge.id}").status_code == 404


def test_a_new_row_between_existing_triggers() -> None:
    """A node that loses an invoice lets the charge expire early instead of putting it in error."""

    def edit(document: Document) -> None:
        row = next(r for r in lifecycle(document, "Charge") if r["trigger"] == "invoice_failed" and "to" in r)
        row["to"] = "expired"
        # `error` must stay reachable, or the loader refuses the table: a failed charge that fails again goes there.
        rows = lifecycle(document, "Charge")
        again = next(r for r in rows if r["from"] == "expired" and r["trigger"] == "invoice_failed")
        again.pop("refuse")
        again.pop("because")
        again.update(to="error", effects=["notify"])

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
        charge.fail()
        sandbox.run()
        assert charge.status == "expired"
        assert [post.json["status"] for post in sandbox.receiver("shop").inbox] == ["expired"]


def test_a_charge_with_two_callbacks_numbers_them() -> None:
    """A node that loses an invoice twice: the first time the charge expires, the second it is in error."""

    def edit(document: Document) -> None:
        for row in lifecycle(document, "Charge"):
            if row["trigger"] == "invoice_failed" and row["from"] == "pending":
                row["to"] = "expired"
            elif row["trigger"] == "invoice_failed" and row["from"] == "expired":
                del row["refuse"], row["because"]
                row.update(to="error", effects=["notify"])

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
        service = sandbox.world.service.charges
        for _ in range(2):
            with sandbox.world.exclusive():
                paid = service.charges.existing(charge.id)["payment_hash"]
                service.invoice_failed(FailedInvoice(paid, "lost", sandbox.world.clock.now()))
            sandbox.run()
        deliveries = listed(sandbox.ask, "/sandbox/v1/deliveries")[::-1]
        assert [(one["sequence"], one["event"]) for one in deliveries] == [(1, "charge.expired"), (2, "charge.error")]


def test_a_callback_that_reports_the_creation() -> None:
    def edit(document: Document) -> None:
        [callback] = document["paths"]["/v0/charges"]["post"]["callbacks"].values()
        [item] = callback.values()
        item["x-delivery"]["events"]["pending"] = "charge.created"
        document["components"]["parameters"]["LeydenEvent"]["schema"]["enum"].append("charge.created")
        document["components"]["schemas"]["ChargeUpdate"]["properties"]["status"]["enum"].append("pending")
        next(row for row in lifecycle(document, "Charge") if row["trigger"] == "created")["effects"].append("notify")

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
        sandbox.advance("1s")
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        assert (delivery["event"], delivery["createdAt"]) == ("charge.created", charge.data["createdAt"])
        assert [post.json["status"] for post in sandbox.receiver("shop").inbox] == ["pending"]


def test_another_delivery_schedule() -> None:
    def edit(document: Document) -> None:
        [callback] = document["paths"]["/v0/charges"]["post"]["callbacks"].values()
        [item] = callback.values()
        item["x-delivery"].update(attempts=["0s", "10s", "20s"], jitter=0)

    with edited(edit) as sandbox:
        sandbox.receiver("shop").always(500)
        charge = sandbox.charges.create(
            amount="1000", description="tea", expiresIn=60, callbackUrl="http://shop.localhost/x"
        )
        sandbox.advance("10m")
        assert [post.at - sandbox.receiver("shop").inbox[0].at for post in sandbox.receiver("shop").inbox] == [
            0,
            10_000,
            30_000,
        ]
        [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
        assert (delivery["chargeId"], delivery["status"]) == (charge.id, "exhausted")


def test_fewer_callbacks_in_flight() -> None:
    def edit(document: Document) -> None:
        [callback] = document["paths"]["/v0/static-charges"]["post"]["callbacks"].values()
        [item] = callback.values()
        item["x-delivery"]["inFlight"] = 1

    with edited(edit) as sandbox:
        sandbox.receiver("shop").always(Reply(200, delay="3s"))
        hook = {"callbackUrl": "http://shop.localhost/x"}
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", **hook)
        for payer in ("ana", "ben"):
            sandbox.wallet(payer).scan(tips)
        sandbox.advance("1s")
        assert len(sandbox.receiver("shop").inbox) == 1
        sandbox.run()
        first, second = sandbox.receiver("shop").inbox
        assert second.at - first.at == 3_000


def test_a_new_constant_response_header() -> None:
    def edit(document: Document) -> None:
        answer = document["paths"]["/v0/charges"]["post"]["responses"]["200"]
        header = {"description": "Where this ran.", "required": True, "schema": {"type": "string", "const": "sandbox"}}
        if "$ref" in answer:
            answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        answer.setdefault("headers", {})["X-Environment"] = header

    with edited(edit) as sandbox:
        answer = sandbox.http.post("/v0/charges", json={"amount": "1000", "description": "tea"})
        assert answer.headers["x-environment"] == "sandbox"


def test_an_operation_without_429_is_not_rate_limited() -> None:
    def edit(document: Document) -> None:
        del document["paths"]["/v0/charges"]["post"]["responses"]["429"]

    with edited(edit) as sandbox:
        with pytest.raises(ApiError, match="createCharge"):
            sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "rate_limit", "operation": "createCharge"})
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "rate_limit"})
        sandbox.charges.create(amount="1000", description="tea")
        with pytest.raises(ApiError, match="429"):
            sandbox.ask("GET", "/v0/wallet")


STATUSES = [
    (path, method, status)
    for path, item in load_contract().document["paths"].items()
    for method, operation in item.items()
    if "responses" in operation
    for status in operation["responses"]
]


@pytest.mark.parametrize(("path", "method", "status"), sampled(STATUSES, 16))
def test_a_status_that_the_server_can_answer_is_declared_or_the_spec_is_refused(path, method, status) -> None:
    def edit(document: Document) -> None:
        del document["paths"][path][method]["responses"][status]

    if status == "429":  # by a fault only, which an operation without it does not have
        edited(edit).close()
    else:
        with pytest.raises(ContractError) as refusal:
            edited(edit)
        assert f"{method}" in str(refusal.value)
        assert status in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_every_missing_status_is_named_at_once() -> None:
    def edit(document: Document) -> None:
        responses = document["paths"]["/v0/charges/{id}"]["get"]["responses"]
        for status in ("400", "401", "406"):
            del responses[status]

    with pytest.raises(ContractError, match=r"\.get\.responses: every request .* with 400, 401 and 406 before"):
        edited(edit)


def test_a_document_without_callbacks_sends_none() -> None:
    def edit(document: Document) -> None:
        for path in ("/v0/charges", "/v0/static-charges"):
            del document["paths"][path]["post"]["callbacks"]

    with edited(edit) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/hook")
        sandbox.wallet("ana").pay(charge)
        sandbox.run("1d")
        assert (charge.status, len(sandbox.deliveries)) == ("completed", 0)


def property_of(name: str, member: str, **changes: Any) -> Callable[[Document], None]:
    return lambda document: schema(document, name)[member].update(changes)


NOT_SERVED: dict[str, tuple[Callable[[Document], None], str]] = {
    "longer ids": (property_of("ChargeRequest", "internalId", maxLength=300), "/data/internalId"),
    "ids of any length": (lambda document: schema(document, "ChargeRequest")["internalId"].pop("maxLength"),
                          "/data/internalId"),
    "longer ids of changes": (property_of("StaticChargeChanges", "internalId", maxLength=641), "/data/internalId"),
    "longer messages": (property_of("StaticChargeRequest", "successMessage", maxLength=1_000), "/data/successMessage"),
    "more slots": (lambda document: schema(document, "StaticChargeRequest")["allowedSlots"]["anyOf"][0].update(
        maximum=10**11), "/data/allowedSlots"),
    "shorter descriptions in answers": (property_of("Charge", "description", maxLength=300), "/data/description"),
    "any amount": (lambda document: document["components"]["schemas"]["RequestedAmount"].update(
        pattern="^[1-9][0-9]{3}"), "/data/amount"),
    "pages of no row": (lambda document: document["components"]["parameters"]["Limit"]["schema"].update(minimum=0),
                        "a request with ?limit=0 is valid"),
    "bodies that are too deep": (lambda document: document["x-limits"].update(depth=501),
                                 "/x-limits/depth: must be at most 500"),
    "created for a wallet": (lambda document: document["paths"]["/.well-known/lnurlp/{user}"]["get"].update(
        responses={{"200": "201"}.get(status, status): one for status, one in
                   document["paths"]["/.well-known/lnurlp/{user}"]["get"]["responses"].items()}),
        "/responses: 200 is missing"),
}  # fmt: skip


@pytest.mark.parametrize("edit", NOT_SERVED)
def test_a_document_whose_valid_requests_cannot_be_served_is_refused(edit: str) -> None:
    change, place = NOT_SERVED[edit]
    with pytest.raises(ContractError) as refusal:
        edited(change)
    assert place in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 800


def test_a_body_of_the_greatest_depth_is_read() -> None:
    def edit(document: Document) -> None:
        document["x-limits"]["depth"] = 500

    with edited(edit) as sandbox:
        headers = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
        body = b'{"amount": "1000", "description": "tea", "x": %s}' % (b"[" * 499 + b"]" * 499)
        answer = sandbox.world.request("POST", "/v0/charges", headers, body)
        assert (answer.status, dict(answer.headers)[b"leyden-ignored"]) == (200, b'"x"')
