"""Defects of API keys and of the isolation of projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.errors import NotFound, Unauthorized
from leyden.server.http.projects import Projects
from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.middleware import HttpRequest, HttpResponse, Middleware, app
from tests.seeded_defects.patches import attribute, changed, handler, pipeline_part
from tests.seeded_defects.probing import (
    CHARGES,
    STATICS,
    WALLET,
    new_charge,
    new_static,
    other_project,
    paid,
    send,
    wallet_of,
)


class BorrowsAKey(Middleware):
    """Adds the last API key to a request without one."""

    method, path = "GET", WALLET

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._key = b"leyden"

    def on_request(self, request: HttpRequest) -> None:
        if request.header(b"apikey") is None and request.method == self.method and request.path.startswith(self.path):
            request.headers.append((b"apikey", self._key))

    def on_response(self, request: HttpRequest, response: HttpResponse) -> None:
        if response.status < 300:
            self._key = request.header(b"apikey") or self._key


class ChangesWithoutAKey(BorrowsAKey):
    """The same for changes of Static Charges."""

    method, path = "PATCH", STATICS + "/"


@seeded("keys", "The balance is returned without an API key.", violates="decision: statuses", plant=app(BorrowsAKey))
def wallet_without_a_key(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", WALLET, key=None).status == 200


@seeded(
    "keys",
    "A Static Charge can be changed without an API key.",
    violates="decision: statuses",
    plant=app(ChangesWithoutAKey),
)
def change_without_a_key(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox)
        return send(sandbox, "PATCH", f"{STATICS}/{static.id}", {"maxAmount": "8000"}, key=None).status == 200


def _anybody(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, key: original(self, key) or "default"


@seeded(
    "keys",
    "An unknown API key gives access to the first project.",
    violates="decision: statuses",
    plant=attribute(Projects, "project_for_key", _anybody),
)
def any_key_accepted(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", CHARGES, key="nobody's").status == 200


def _never_ended(authenticate: Any, late: SimpleNamespace) -> Any:
    """A check of API keys that stay valid after a rotation."""
    seen: dict[bytes | None, str] = {}

    def remembering(headers: Mapping[bytes, bytes], query: bytes) -> str:
        key = headers.get(late.service.pipeline.api_key_header)
        try:
            seen[key] = authenticate(headers, query)
        except Unauthorized:
            if key not in seen:
                raise
        return seen[key]

    return remembering


@seeded(
    "keys",
    "A rotated API key is still accepted.",
    violates="spec: /components/securitySchemes/apikey",
    plant=pipeline_part("authenticate", _never_ended),
)
def rotated_key_still_valid(make: Make) -> bool:
    with make() as sandbox:
        send(sandbox, "GET", WALLET)
        with sandbox.world.exclusive():
            sandbox.world.service.projects.rotate_key("default", "new-key")
        return send(sandbox, "GET", WALLET).status == 200


def _anyones_charge(original: Callable[..., Any]) -> Callable[..., Any]:
    def find(self: Any, project: str, charge_id: str) -> Any:
        row = self.charges.row(charge_id)
        return original(self, project if row is None else row["project"], charge_id)

    return find


@seeded(
    "keys",
    "A Charge of another project can be read by its id.",
    violates="decision: statuses",
    plant=attribute(ChargeService, "find", _anyones_charge),
)
def another_projects_charge(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox)
        return send(sandbox, "GET", f"{CHARGES}/{charge.id}", key=other_project(sandbox)).status == 200


def _anyones_static(original: Callable[..., Any]) -> Callable[..., Any]:
    def find(self: Any, call: Any) -> Any:
        row = self.static_charges.row(call.path["id"])
        return original(self, call if row is None else changed(call, project=row["project"]))

    return find


@seeded(
    "keys",
    "A Static Charge of another project can be changed by its id.",
    violates="decision: statuses",
    plant=attribute(StaticChargeService, "find", _anyones_static),
)
def another_projects_static_charge(make: Make) -> bool:
    with make() as sandbox:
        target = f"{STATICS}/{new_static(sandbox).id}"
        return send(sandbox, "PATCH", target, {"maxAmount": "8000"}, key=other_project(sandbox)).status == 200


def _tells(original: Callable[..., Any]) -> Callable[..., Any]:
    def find(self: Any, project: str, charge_id: str) -> Any:
        row = self.charges.row(charge_id)
        if row is not None and row["project"] != project:
            raise NotFound("this charge belongs to another project")
        return original(self, project, charge_id)

    return find


@seeded(
    "keys",
    "The 404 for another project's Charge differs from the one for an unknown id, so it reveals that it exists.",
    violates="decision: statuses",
    plant=attribute(ChargeService, "find", _tells),
)
def refusal_reveals_existence(make: Make) -> bool:
    with make() as sandbox:
        charge, key = new_charge(sandbox), other_project(sandbox)
        known, unknown = (
            send(sandbox, "GET", f"{CHARGES}/{one}", key=key).json["detail"]
            for one in (charge.id, "739536b5-9639-43de-8ee4-236858fc171e")
        )
        return known != unknown


def _lists_all(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def list_charges(call: Any) -> Any:
        projects = [row["id"] for row in service.projects.projects]
        pages = [original(changed(call, project=project)) for project in projects]
        return {**pages[0], "data": [one for page in pages for one in page["data"]][: call.query["limit"]]}

    return list_charges


@seeded(
    "keys",
    "The list of Charges shows those of all projects.",
    violates="decision: lists",
    plant=handler("listCharges", _lists_all),
)
def list_of_all_projects(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox)
        return bool(send(sandbox, "GET", CHARGES, key=other_project(sandbox)).json["data"])


def _richest(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def get_wallet(call: Any) -> Any:
        response = original(call)
        total = sum(service.charges.balance_msat(row["id"]) for row in service.projects.projects)
        return {**response, "data": {**response["data"], "balance": str(total)}}

    return get_wallet


@seeded(
    "keys",
    "The balance includes the payments of other projects.",
    violates="decision: wallet",
    plant=handler("getWallet", _richest),
)
def balance_of_all_projects(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_charge(sandbox))
        return bool(wallet_of(sandbox, other_project(sandbox)) != "0")
