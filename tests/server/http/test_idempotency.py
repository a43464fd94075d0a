"""Idempotency keys: a repeated request gets the stored response, for a day of the sandbox's time."""

from __future__ import annotations

from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.http.idempotency import Idempotency
from leyden.server.store.store import Store
from leyden.server.store.tables.row_map import RowMap

GOOD: dict[str, Any] = {"amount": "1000", "description": "tea"}


def post(sandbox: Sandbox, key: str, body: dict[str, Any] | None = None, path: str = "/v0/charges") -> Any:
    return sandbox.http.post(path, json=GOOD if body is None else body, headers={"Idempotency-Key": key})


def test_the_same_request_twice_is_one_charge(sandbox: Sandbox) -> None:
    first, second = post(sandbox, "a"), post(sandbox, "a")
    assert (first.status_code, second.status_code, second.content) == (200, 200, first.content)
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert len(sandbox.charges) == 1


def test_the_response_is_the_stored_one(sandbox: Sandbox) -> None:
    first = post(sandbox, "a")
    sandbox.run()
    assert next(iter(sandbox.charges)).status == "expired"
    sandbox2 = post(sandbox, "a")
    assert sandbox2.json()["data"]["status"] == first.json()["data"]["status"] == "pending"


def test_members_in_another_order_are_the_same_request(sandbox: Sandbox) -> None:
    assert post(sandbox, "a", dict(reversed(GOOD.items()))).content == post(sandbox, "a").content


@pytest.mark.parametrize("other", [{**GOOD, "amount": "1001"}, {**GOOD, "extra": 1}, {**GOOD, "expiresIn": 600}])
def test_another_body_under_the_same_key_is_refused(sandbox: Sandbox, other: dict[str, Any]) -> None:
    post(sandbox, "a")
    answer = post(sandbox, "a", other)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_reused")
    assert len(sandbox.charges) == 1


def test_a_key_belongs_to_one_operation(sandbox: Sandbox) -> None:
    post(sandbox, "a")
    body = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips"}
    assert post(sandbox, "a", body, "/v0/static-charges").status_code == 200


@pytest.mark.parametrize(("after", "charges"), [("23h59m59s", 1), ("24h", 2)])
def test_a_response_is_stored_for_a_day(sandbox: Sandbox, after: str, charges: int) -> None:
    post(sandbox, "a")
    sandbox.advance(after)
    assert post(sandbox, "a").status_code == 200
    assert len(sandbox.charges) == charges


def test_an_invalid_request_can_be_corrected_under_the_same_key(sandbox: Sandbox) -> None:
    assert post(sandbox, "a", {**GOOD, "amount": "1"}).status_code == 400
    assert post(sandbox, "a").status_code == 200


def test_a_refusal_by_the_service_is_stored(sandbox: Sandbox) -> None:
    crossed = {"minAmount": "2000", "maxAmount": "1000", "description": "Tips"}
    first, second = (post(sandbox, "a", crossed, "/v0/static-charges") for _ in range(2))
    assert (first.status_code, second.status_code, second.content) == (409, 409, first.content)
    assert second.headers["content-type"] == "application/problem+json"
    entries = [entry.facts for entry in sandbox.world.journal.entries() if entry.kind == "request"]
    assert entries == [{"status": 409, "refused": "not_possible"}] * 2


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "\t"])
def test_an_invalid_idempotency_key(sandbox: Sandbox, key: str) -> None:
    answer = post(sandbox, key)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "header.idempotency-key"
    assert len(sandbox.charges) == 0


def test_expired_responses_are_deleted(sandbox: Sandbox) -> None:
    for number in range(50):
        post(sandbox, f"key-{number}")
    sandbox.advance("24h")
    post(sandbox, "new")
    assert len(sandbox.world.store.db.table("idempotency")) == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/sandbox/v1/payments", {"request": "lnbcrt1"}),
        ("POST", "/sandbox/v1/clock/advance", {"by": 1}),
        ("POST", "/sandbox/v1/deliveries/wait", {"timeout": 0}),
        ("PATCH", "/v0/static-charges/{id}", {"description": "Tips"}),
    ],
)
def test_a_key_is_not_ignored_without_a_word(sandbox: Sandbox, method: str, path: str, body: dict[str, Any]) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    target = path.replace("{id}", tips.id)
    answer = sandbox.http.request(method, target, json=body, headers={"Idempotency-Key": "one"})
    assert (answer.status_code, answer.headers["leyden-ignored"]) == (200, '"Idempotency-Key"')
    assert sandbox.ask("GET", "/sandbox/v1")["ignoredFields"] == [f'{method} {path}: "Idempotency-Key" is ignored']
    assert "leyden-ignored" not in sandbox.http.request(method, target, json=body).headers
    assert "leyden-ignored" not in post(sandbox, "one").headers


@pytest.mark.parametrize("key", ["", "a b", "3 000", "\u00e9", "x" * 256])
def test_a_wrong_key_is_refused_without_a_guess(sandbox: Sandbox, key: str) -> None:
    answer = sandbox.http.post("/v0/charges", json=GOOD, headers={"Idempotency-Key": key.encode("latin-1")})
    [error] = answer.json()["errors"]
    start, _, received = error["detail"].partition("; received ")
    assert (start, error["pointer"]) == ("expected 1 to 255 visible ASCII characters", "header.idempotency-key")
    assert "write" not in received


def test_a_new_key_costs_no_look_at_the_keys_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def now(self) -> int:
            return 0

    keys, looks = Idempotency(Store.memory(), Fixed()), []
    for number in range(500):
        keys.remember("default", "createCharge", f"key-{number}", {}, 200, b"{}")
    for name in ("__getitem__", "get"):
        read = getattr(RowMap, name)
        monkeypatch.setattr(RowMap, name, lambda rows, *given, read=read: (looks.append(given), read(rows, *given))[1])
    keys.remember("default", "createCharge", "another", {}, 200, b"{}")
    assert len(looks) < 10
