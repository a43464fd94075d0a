"""Executors for API clients: create, change, read and list resources, and send odd requests."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.executors.projects import project_of
from leyden.harness.executors.world import restart
from leyden.harness.generators.odd_requests import ODD_REQUESTS
from leyden.harness.model.dates import instant_of
from leyden.harness.model.faults import DEFAULT_WAIT_S
from leyden.harness.model.http import SentRequest
from leyden.harness.session.answers import send
from leyden.harness.session.observe import check_list, check_wallet
from leyden.harness.session.session import Session, read_operation
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.target import PROJECT


def create_charge(session: Session, step: Step) -> None:
    """{"do": "create_charge", "as": "c1", "body": {...}, "by"?: "second", "idempotency_key"?}."""
    _create(session, step, "charge", "createCharge", "/v0/charges")


def create_static(session: Session, step: Step) -> None:
    """{"do": "create_static", "as": "s1", "body": {...}, "by"?, "idempotency_key"?}."""
    _create(session, step, "static", "createStaticCharge", "/v0/static-charges")


def _create(session: Session, step: Step, kind: str, operation: str, path: str) -> None:
    project, body, key = project_of(session, step), step["body"], step.get("idempotency_key")
    model = session.model
    expected_response = model.limited(operation) or model.create(kind, step["as"], project, body, key)
    headers = [] if key is None else [("Idempotency-Key", key)]
    response = session.request(operation, path, key=project, body=body, more=headers)
    where = f"create {step['as']}"
    session.check_record(expected_response, session.check_response(expected_response, response, where), where)


def patch(session: Session, step: Step) -> None:
    """{"do": "patch", "static": "s1", "body": {...}, "by"?}."""
    static = session.static(step["static"])
    project = project_of(session, step)
    limited = session.model.limited("updateStaticCharge")
    expected_response = limited or session.model.change_static(static, project, step["body"])
    response = session.request("updateStaticCharge", f"/v0/static-charges/{static.id}", key=project, body=step["body"])
    where = f"change {static.label}"
    session.check_record(expected_response, session.check_response(expected_response, response, where), where)


def get(session: Session, step: Step) -> None:
    """{"do": "get", "what": "c1", "by"?}: read a resource; with the other project's API key it does not exist."""
    resource, project = session.resource(step["what"]), project_of(session, step, only_reads=True)
    if project == resource.project:
        session.check_resource(resource)
        return
    operation, path = read_operation(resource)
    response = session.request(operation, path, key=project)
    rule, where = "statuses", f"{resource.label} with the other API key"
    checks.status(response, 404, "isolation", rule, where)
    hidden = checks.problem(response, 404, "not_found", rule, where)
    unknown = session.request(operation, path[:-1] + ("0" if path[-1] != "0" else "1"), key=project)
    missing = checks.problem(unknown, 404, "not_found", rule, f"an unknown id ({operation})")
    for body in (hidden, missing):
        body.pop("request_id")
    checks.same(missing, hidden, "isolation", rule, f"{where}, compared with an unknown id")
    session.reached["policy", "isolation", operation] = None


def list_(session: Session, step: Step) -> None:
    """{"do": "list", "of": "charges" | "statics" | "children", "static"?, "query": {...}, "by"?, "between"?}: read all
    pages. `between` is a step after the first page: it creates a row or restarts the service."""
    project, query = project_of(session, step), step.get("query", {})
    operation, path = "listCharges", "/v0/charges"
    resources: list[Any] = session.charges_of(project)
    if step["of"] == "statics":
        operation, path, resources = "listStaticCharges", "/v0/static-charges", session.statics_of(project)
    elif step["of"] == "children":
        static = session.static(step.get("static", ""))
        if static.project != project:
            raise StepImpossible("the Static Charge belongs to the other project")
        operation, path = "listStaticChargeCharges", f"/v0/static-charges/{static.id}/charges"
        resources = [one for one in resources if one.parent is static]
    for name, value in query.items():
        match name:
            case "status":
                resources = [one for one in resources if one.status == value]
            case "internalId":
                resources = [one for one in resources if one.internal_id == value]
            case "createdAfter":
                resources = [one for one in resources if one.created_at >= (instant_of(value) or 0)]
            case "createdBefore":
                resources = [one for one in resources if one.created_at < (instant_of(value) or 0)]

    within = {"create_charge": create_charge, "create_static": create_static, "restart": restart}

    def between() -> None:
        # A new row comes before the first page and changes no other page; a cursor survives a restart.
        if "between" in step:
            with suppress(StepImpossible):
                within[step["between"]["do"]](session, step["between"])

    check_list(session, operation, path, resources, query, project=project, check="lifecycle", between=between)
    session.reached["policy", "lists", operation] = None


def wallet(session: Session, step: Step) -> None:
    """{"do": "wallet", "by"?}: the balance is the sum of the settled payments."""
    check_wallet(session, project_of(session, step))


def odd(session: Session, step: Step) -> None:
    """{"do": "odd", "operation": "createCharge", "kind": "body-array"}: an invalid or unusual request."""
    operation, kind = step["operation"], step["kind"]
    one = ODD_REQUESTS[operation, kind]
    if kind == "too-many":
        if not session.target.controlled:
            session.unchecked["429: only the control plane can cause it"] = None
            raise StepImpossible("the target has no control plane")
        session.model.limits.append((operation, 1, DEFAULT_WAIT_S))
        session.control_ok("POST", "/faults", {"kind": "rate_limit", "operation": operation})
    keys = {"own": ("apikey", session.target.keys[PROJECT]), "capitals": ("APIKEY", session.target.keys[PROJECT]),
            "wrong": ("apikey", "unknown"), "empty": ("apikey", "")}  # fmt: skip
    headers = [*one.headers, *([keys[one.key]] if one.key in keys else [])]
    response = send(session, SentRequest(one.method, one.path, headers, one.body))
    session.reached["response", operation, str(response.status)] = None
    session.reached["odd", operation, kind] = None
    if kind in {"unknown-id", "no-id"} and response.status == 404:
        # An unknown and an invalid id have equal responses, so that they reveal nothing.
        text = {name: value for name, value in response.json.items() if name != "request_id"}
        where = f"{operation}, {kind}"
        checks.same(session.problems.setdefault(operation, text), text, "isolation", "statuses", where)
