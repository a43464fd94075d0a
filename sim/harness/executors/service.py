"""Acts on the service: Charges and Static Charges made, changed, read and listed, and requests that are odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from leyden.harness.checks import responses as checks
from leyden.harness.checks.observe import look_at_wallet
from leyden.harness.checks.violations import Broken
from leyden.harness.executors.lnurl import link_answer
from leyden.harness.executors.world import restart
from leyden.harness.model.model import Promise
from leyden.harness.model.records import Charge, Static
from leyden.harness.model.requests import ELSEWHERE, Odd, odd
from leyden.harness.model.rules import instant
from leyden.harness.runs.adapters import PROJECT, RIVAL, Answer
from leyden.harness.runs.run import Run, Step, details


def _project(step: Step) -> str:
    return RIVAL if step.get("by") == "rival" else PROJECT


def _once(step: Step) -> list[tuple[str, str]]:
    return [("Idempotency-Key", step["once"])] if "once" in step else []


def create_charge(run: Run, step: Step) -> bool:
    """{"do": "create_charge", "as": "c1", "body": {...}, "by"?: "rival", "once"?: an Idempotency-Key}."""
    project, key = _project(step), step.get("once")
    limited = run.model.limited("createCharge")
    promise = _too_many() if limited else run.model.create_charge(step["as"], project, step["body"], key)
    answer = run.ask("createCharge", "/v0/charges", key=project, body=step["body"], headers=_once(step))
    where = f"create {step['as']}"
    data = run.kept(promise, answer, where)
    if isinstance(promise.made, Charge):
        run.bind_charge(promise.made, data, where)
    return True


def create_static(run: Run, step: Step) -> bool:
    """{"do": "create_static", "as": "s1", "body": {...}, "by"?, "once"?}."""
    project, key = _project(step), step.get("once")
    limited = run.model.limited("createStaticCharge")
    promise = _too_many() if limited else run.model.create_static(step["as"], project, step["body"], key)
    answer = run.ask("createStaticCharge", "/v0/static-charges", key=project, body=step["body"], headers=_once(step))
    where = f"create {step['as']}"
    data = run.kept(promise, answer, where)
    if isinstance(promise.made, Static):
        run.bind_static(promise.made, data, where)
    return True


def patch(run: Run, step: Step) -> bool:
    """{"do": "patch", "static": "s1", "body": {...}, "by"?}."""
    static = run.model.book.statics.get(step["static"])
    if static is None:
        return False
    project = _project(step)
    limited = run.model.limited("updateStaticCharge")
    promise = _too_many() if limited else run.model.change_static(static, project, step["body"])
    answer = run.ask("updateStaticCharge", f"/v0/static-charges/{static.id}", key=project, body=step["body"])
    data = run.kept(promise, answer, f"change {static.label}")
    if promise.made is not None:
        checks.same(static.resource(), data, "echo", "DECISIONS static-updates", f"change {static.label}")
    return True


def get(run: Run, step: Step) -> bool:
    """{"do": "get", "what": "c1", "by"?}: read it, or be told that there is no such thing for this key."""
    book = run.model.book
    thing: Charge | Static | None = book.charges.get(step["what"]) or book.statics.get(step["what"])
    if thing is None:
        return False
    if _project(step) == thing.project:
        run.look(thing)
        return True
    operation, path = details(thing)
    answer = run.ask(operation, path, key=_project(step))
    if answer.status != 404:
        raise Broken("isolation", "DECISIONS statuses", f"{thing.label} with another key", 404, answer.body.decode())
    theirs = checks.problem(answer, 404, "not_found", "DECISIONS statuses", f"{thing.label} with another key")
    unknown = run.ask(operation, _another(path), key=_project(step))
    nobodys = checks.problem(unknown, 404, "not_found", "DECISIONS statuses", f"an unknown id ({operation})")
    for body in (theirs, nobodys):
        body.pop("request_id")
    checks.same(nobodys, theirs, "isolation", "DECISIONS statuses", f"{thing.label} with another key, beside unknown")
    run.seen["policy", "isolation", operation] = None
    return True


def _another(text: str) -> str:
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def list_all(run: Run, step: Step) -> bool:
    """{"do": "list", "of": "charges" | "statics" | "children", "static"?, "query": {...}, "by"?, "between"?}: read to
    the end. `between` is a step after the first page: one that creates a Charge, or a restart."""
    book, project = run.model.book, _project(step)
    query: Mapping[str, Any] = step.get("query", {})
    operation, path = ("listCharges", "/v0/charges")
    things: list[Any] = [one for one in book.charges.values() if one.project == project]
    if step["of"] == "statics":
        operation, path = ("listStaticCharges", "/v0/static-charges")
        things = [one for one in book.statics.values() if one.project == project]
    elif step["of"] == "children":
        static = book.statics.get(step.get("static", ""))
        if static is None or static.project != project:
            return False
        operation, path = ("listStaticChargeCharges", f"/v0/static-charges/{static.id}/charges")
        things = [one for one in things if one.parent is static]
    for name, value in query.items():
        match name:
            case "status":
                things = [one for one in things if one.status == value]
            case "internalId":
                things = [one for one in things if one.internal_id == value]
            case "createdAfter":
                things = [one for one in things if one.created_at >= instant(value)]
            case "createdBefore":
                things = [one for one in things if one.created_at < instant(value)]
    promised = [one.resource() for one in reversed(things)]
    limit = query.get("limit", 100)
    after: dict[str, Any] = {}
    where = f"list {operation}"
    for first in range(0, max(1, len(promised)), limit):
        answer = run.ask(operation, f"{path}?{urlencode({**query, **after})}", key=project)
        data = checks.success(answer, "DECISIONS lists", where)
        page = promised[first : first + limit]
        if data != page:
            ids = [one["id"] for one in page]
            seen = [one.get("id") if isinstance(one, dict) else one for one in data]
            promised_page = ids if ids != seen else page
            raise Broken("lifecycle", "DECISIONS lists", f"{where} {dict(query)}", promised_page, seen)
        last, following = first + limit >= len(promised), answer.json["next"]
        if (following is None) != last or not (following is None or isinstance(following, str)):
            raise Broken("lifecycle", "DECISIONS lists", f"{where}: next", None if last else "a cursor", following)
        after = {"after": following}
        if first == 0 and "between" in step:
            # What is new comes before the first page, and moves nothing behind it; a cursor outlives the process.
            (restart if step["between"]["do"] == "restart" else create_charge)(run, step["between"])
    run.seen["policy", "lists", operation] = None
    return True


def wallet(run: Run, step: Step) -> bool:
    """{"do": "wallet", "by"?}: the balance is what arrived, to the millisatoshi."""
    look_at_wallet(run, _project(step))
    return True


def odd_request(run: Run, step: Step) -> bool:
    """{"do": "odd", "operation": "createCharge", "kind": "body-array"}: a request that is wrong in one way."""
    one = odd(step["operation"], step["kind"])
    if step["kind"] == "too-many":
        if not run.target.controlled:
            run.unchecked["429: nobody here can ask for it"] = None
            return False
        run.model.limits.append((step["operation"], 1))
        run.controlled("POST", "/faults", {"kind": "rate_limit", "operation": step["operation"]})
    if one.status not in {401, 405, 413} and step["kind"] not in ELSEWHERE and run.model.limited(step["operation"]):
        one = replace(one, status=429, code="too_many_requests", wallet_error=False)
    headers = [*one.headers]
    if one.key in {"own", "wrong", "empty"}:
        headers.append(("apikey", {"own": run.target.keys[PROJECT], "wrong": "nobody's", "empty": ""}[one.key]))
    elif one.key == "capitals":
        headers.append(("APIKEY", run.target.keys[PROJECT]))
    answer = run.send(one.method, one.path, headers, one.body)
    where = f"{step['operation']}, {step['kind']}"
    clause = "DECISIONS statuses"
    run.seen["answer", step["operation"], str(answer.status)] = None
    run.seen["odd", step["operation"], step["kind"]] = None
    if one.wallet_error:
        link_answer(Promise(200, refused_link=True), answer, where)
        return True
    body = {} if one.status < 400 else checks.problem(answer, one.status, one.code, clause, where)
    if one.status < 400:
        _sound(one, answer, where)
    for name, value in one.answers:
        if name not in answer.headers or (value and answer.headers[name] != value):
            raise Broken("errors_are_problems", clause, f"{where}: {name}", value or "given", answer.headers.get(name))
    if one.status in {401, 404}:
        # A missing key and a wrong one, an unknown id and no id: told alike, so that nobody learns what exists.
        family = "401" if one.status == 401 else f"{one.status} {step['operation']}"
        text = {name: value for name, value in body.items() if name != "request_id"}
        checks.same(run.texts.setdefault(family, text), text, "isolation", clause, where)
    return True


def _sound(one: Odd, answer: Answer, where: str) -> None:
    """What was right all along is answered, and only GET with a body (RFC 9110, 9.3.2 and 9.3.7)."""
    if one.method == "GET":
        checks.success(answer, "DECISIONS statuses", f"{'list ' if 'list' in where else ''}{where}")
    elif answer.status != one.status or answer.body:
        seen = f"{answer.status} {answer.body[:200].decode('utf-8', 'replace')}"
        raise Broken("lifecycle", "DECISIONS statuses", where, f"{one.status} without a body", seen)


def _too_many() -> Promise:
    return Promise(429, "too_many_requests", "statuses")
