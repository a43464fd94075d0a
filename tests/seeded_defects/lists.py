"""Defects of lists: filters, order and pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from leyden import Sandbox
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.middleware import HttpRequest, HttpResponse, requests, responses
from tests.seeded_defects.patches import handler
from tests.seeded_defects.probing import (
    CHARGES,
    STATICS,
    new_charge,
    new_static,
    send,
)


def queried(name: str, alter: Callable[[str], str | None]) -> Plant:
    """Change a query parameter before it is validated; None removes it."""

    def edit(request: HttpRequest) -> None:
        pairs = [(given, alter(value) if given == name else value) for given, value in request.query]
        request.query = [(given, value) for given, value in pairs if value is not None]

    return requests(edit, "GET", "/v0/")


def numbers(sandbox: Sandbox, query: str = "") -> list[int]:
    """The descriptions of the Charges in a list."""
    return [int(one["description"]) for one in send(sandbox, "GET", CHARGES + query).json["data"]]


def three(make: Make) -> Sandbox:
    """A sandbox with three Charges, one each minute; the first is paid."""
    sandbox = make()
    for number in range(3):
        charge = new_charge(sandbox, description=str(number), internalId=f"guest-{number}")
        if not number:
            sandbox.wallet("ana").pay(charge)
        sandbox.advance("1m")
    return sandbox


def _turned(request: HttpRequest, response: HttpResponse) -> None:
    def turn(body: dict[str, Any]) -> None:
        if isinstance(body.get("data"), list):
            body["data"].reverse()

    response.rewrite(turn)


@seeded("lists", "Lists have the oldest resource first.", violates="decision: lists", plant=responses(_turned))
def oldest_first(make: Make) -> bool:
    with three(make) as sandbox:
        return numbers(sandbox) == [0, 1, 2]


def _plus(by: int) -> Callable[[str], str]:
    return lambda text: str(int(text) + by) if text.isdigit() and 1 <= int(text) < 1_000 else text


@seeded(
    "lists",
    "A page has one resource more than `limit`.",
    violates="spec: /components/parameters/Limit",
    plant=queried("limit", _plus(1)),
)
def page_too_long(make: Make) -> bool:
    with three(make) as sandbox:
        return len(numbers(sandbox, "?limit=1")) == 2


def _moved(by: int) -> Callable[[str], str]:
    def move(cursor: str) -> str:
        try:
            return f"{max(0, int(cursor, 16) + by):016x}"
        except ValueError:
            return cursor

    return move


def pages(make: Make) -> list[int]:
    """Three Charges read one by one."""
    with three(make) as sandbox:
        seen, after = [], ""
        for _ in range(9):
            response = send(sandbox, "GET", f"{CHARGES}?limit=1{after}").json
            seen += [int(one["description"]) for one in response["data"]]
            if response["next"] is None:
                break
            after = f"&after={response['next']}"
        return seen


@seeded(
    "lists",
    "The next page skips a resource.",
    violates="spec: /components/parameters/After",
    plant=queried("after", _moved(-1)),
)
def page_skips_a_row(make: Make) -> bool:
    return pages(make) == [2, 0]


@seeded(
    "lists",
    "The next page repeats the last resource of the previous page.",
    violates="spec: /components/parameters/After",
    plant=queried("after", _moved(1)),
)
def page_repeats_a_row(make: Make) -> bool:
    return pages(make)[:2] == [2, 2]


def _one_more_page(request: HttpRequest, response: HttpResponse) -> None:
    def edit(body: dict[str, Any]) -> None:
        if body.get("data") and "next" in body:
            body["next"] = body["next"] or "0" * 16

    response.rewrite(edit)


@seeded(
    "lists",
    "The last page has a cursor.",
    violates="spec: /components/schemas/Next",
    plant=responses(_one_more_page),
)
def last_page_has_a_cursor(make: Make) -> bool:
    with three(make) as sandbox:
        return send(sandbox, "GET", CHARGES).json["next"] is not None


@seeded(
    "lists",
    "The filter by status is ignored.",
    violates="spec: /components/parameters/ChargeStatus",
    plant=queried("status", lambda status: None),
)
def status_filter_ignored(make: Make) -> bool:
    with three(make) as sandbox:
        return len(numbers(sandbox, "?status=completed")) == 3


@seeded(
    "lists",
    "`createdBefore` includes a Charge of exactly that time.",
    violates="spec: /components/parameters/CreatedBefore",
    plant=queried("createdBefore", lambda moment: moment.replace("00Z", "00.001Z")),
)
def created_before_is_inclusive(make: Make) -> bool:
    with three(make) as sandbox:
        return numbers(sandbox, "?createdBefore=" + quote("2030-01-01T00:01:00Z")) == [1, 0]


@seeded(
    "lists",
    "`createdAfter` excludes a Charge of exactly that time.",
    violates="spec: /components/parameters/CreatedAfter",
    plant=queried("createdAfter", lambda moment: moment.replace("00Z", "00.001Z")),
)
def created_after_is_exclusive(make: Make) -> bool:
    with three(make) as sandbox:
        return numbers(sandbox, "?createdAfter=" + quote("2030-01-01T00:01:00Z")) == [2]


KNOWN = {"limit", "after", "status", "internalId", "createdAfter", "createdBefore"}


def _known(request: HttpRequest) -> None:
    request.query = [pair for pair in request.query if pair[0] in KNOWN]


@seeded(
    "lists",
    "A misspelt filter is ignored.",
    violates="decision: lists",
    plant=requests(_known, "GET", "/v0/"),
)
def misspelt_filter_ignored(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", f"{CHARGES}?internal_id=guest").status == 200


@seeded(
    "lists",
    "The list of a Static Charge's Charges shows all Charges of the project.",
    violates="decision: child-charges",
    plant=handler(
        "listStaticChargeCharges", lambda service, original: lambda call: service.handlers["listCharges"](call)
    ),
)
def list_of_all_charges(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox)
        new_charge(sandbox)
        return bool(send(sandbox, "GET", f"{STATICS}/{static.id}/charges").json["data"])
